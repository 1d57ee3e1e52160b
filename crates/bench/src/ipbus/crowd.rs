//! Several clients at the same time, through one hub.

use std::net::Ipv4Addr;
use std::time::{Duration, Instant};

use thalweg_data::measure::{Clock, Measurement, compare};
use thalweg_ipbus::device::Buffers;
use thalweg_ipbus::hub::{HubOptions, HubServer};

use super::{BASELINE, Boards, Operation, Places, Route, Turns, at, failed, hub_s};
use crate::sweep::Sweep;
use crate::{BenchError, Conditions, Measured};

const CLIENTS: [usize; 4] = [1, 2, 3, 8];
const WORDS: usize = 262_144;
/// Blocks that each client reads in a turn.
const BLOCKS: usize = 2;

/// All clients at the same time; each reads blocks of the device that is its own, or of the one that all have.
fn all(turns: &mut [Turns], does: impl Fn(&mut Turns) -> Duration + Sync) -> Duration {
    let start = Instant::now();
    std::thread::scope(|scope| {
        for turn in turns {
            scope.spawn(|| does(turn));
        }
    });
    start.elapsed()
}

fn point(
    hub: &HubServer,
    places: &[Places],
    clients: usize,
    repeats: usize,
) -> Result<Measurement, BenchError> {
    let of = |client: usize| {
        Turns::new(&Route::through(hub, places[client % places.len()]), Operation::Read, WORDS)
    };
    let mut turns = (0..clients).map(of).collect::<Result<Vec<_>, _>>()?;
    turns.iter_mut().for_each(|turn| turn.count = BLOCKS);
    let before = hub_s();
    let both = std::cell::RefCell::new(&mut turns);
    let comparison = compare(
        Clock::Wall,
        repeats,
        || all(&mut both.borrow_mut(), Turns::ours),
        || all(&mut both.borrow_mut(), Turns::bare),
    );
    let hub_s = hub_s() - before;
    if let Some(wrong) = turns.iter_mut().find_map(|turn| turn.wrong.take()) {
        return Err(failed(wrong));
    }
    let packets: u64 = turns.iter().map(|turn| turn.client.counts().sent).sum();
    let words = clients * BLOCKS * WORDS;
    Ok(Measurement::of_rate("ipbus-hub", "words/s", words as f64, BASELINE, comparison)
        .repeated(repeats)
        .with("clients", clients)
        .with("targets", places.len())
        .with("line", if places.len() == 1 { "one target" } else { "a target each" })
        .with("window", Buffers::default().count)
        .with("gigabits_per_s", 32e-9 * words as f64 / comparison.subject_s)
        .with("hub_us_per_packet", 1e6 * hub_s / packets as f64))
}

/// Measures clients that share a target, and clients with a target each.
pub(crate) fn ipbus_hub(conditions: &Conditions) -> Result<Measured, BenchError> {
    let hub = HubServer::start(HubOptions::at(at(Ipv4Addr::LOCALHOST))).map_err(failed)?;
    let started = |_| Boards::start(Ipv4Addr::LOCALHOST);
    let boards =
        (0..CLIENTS[CLIENTS.len() - 1]).map(started).collect::<Result<Vec<_>, _>>().map_err(failed)?;
    let places: Vec<Places> = boards.iter().map(|(_, places)| *places).collect();
    let mut points = Vec::new();
    for clients in CLIENTS {
        points.push(point(&hub, &places[..1], clients, conditions.repeats)?);
        if clients > 1 {
            points.push(point(&hub, &places[..clients], clients, conditions.repeats)?);
        }
    }
    let sweep = Sweep {
        bench: "ipbus-hub",
        title: "Blocks of 1 MB that clients read through one hub at the same time".to_owned(),
        along: "clients",
        x_title: "clients",
        lines: Some("line"),
        points,
        shows_ratio: true,
        logarithmic_x: false,
        logarithmic_y: false,
        guides: Vec::new(),
    };
    Ok(sweep.measured())
}
