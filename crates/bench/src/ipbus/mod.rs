//! Registers of emulated IPbus boards, against a bare request and reply of the same sizes.
//!
//! ```text
//!  ipbus       client ─ UDP ─► device                   blocks of 1 word to 10 MB, read and written, on loopback
//!                     ─ TCP ─► hub ─ UDP ─► device
//!  ipbus-link  client ═ 1 Gb/s between two namespaces ═ device
//!  ipbus-hub   1 to 8 clients ─► hub ─► 1 to 8 devices
//! ```

mod bare;
mod crowd;

use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::time::{Duration, Instant};

use thalweg_data::measure::{Clock, Comparison, Measurement, compare, quantile};
use thalweg_ipbus::client::{Client, DispatchError};
use thalweg_ipbus::device::{Buffers, Device, DeviceServer, Registers};
use thalweg_ipbus::hub::{HubOptions, HubServer};

use super::sweep::Sweep;
use super::{BenchError, Conditions, Measured, link};
use bare::{Bare, BareClient};
pub(super) use crowd::ipbus_hub;
use thalweg_transport::ran_s;

/// Words of a block: one, those of a packet of single words, those of a packet, a kilobyte, 1 MB and 10 MB.
const WORDS: [usize; 7] = [1, 10, 100, 347, 10_000, 262_144, 2_621_440];
/// Words that a turn reads at least, and how often it reads at least.
const WORDS_PER_TURN: usize = 1 << 20;
const READS_PER_TURN: usize = 2000;
const ADDRESS: u32 = 0x1000;
/// Single words whose times are looked at one by one.
const SINGLES: usize = 5000;
const BASELINE: &str = "a bare request and reply of the same sizes over UDP, as many on their way";

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Operation {
    Read,
    Write,
}

impl Operation {
    /// Words in front of a transaction's own, in the longer of request and reply.
    const fn head_words(self) -> usize {
        match self {
            Operation::Read => 1,
            Operation::Write => 2,
        }
    }

    fn perform(self, client: &mut Client, block: &mut [u32]) -> Result<(), DispatchError> {
        let mut queue = client.queue();
        match self {
            Operation::Read => queue.read_block(ADDRESS, block),
            Operation::Write => queue.write_block(ADDRESS, block),
        };
        queue.dispatch().map(drop)
    }
}

fn failed(cause: impl std::fmt::Display) -> BenchError {
    BenchError::Room { bench: "ipbus", message: cause.to_string() }
}

fn at(host: impl Into<IpAddr>) -> SocketAddr {
    SocketAddr::new(host.into(), 0)
}

/// A device, and what answers in the place of one, for as long as this lives.
struct Boards {
    _device: DeviceServer<Registers>,
    _bare: Bare,
}

/// The addresses of the device and of the bare sockets.
#[derive(Clone, Copy)]
struct Places {
    device: SocketAddr,
    bare: SocketAddr,
}

impl Boards {
    fn start(host: Ipv4Addr) -> Result<(Boards, Places), String> {
        let device = Device::new(Registers::new(), Buffers::default());
        let device = DeviceServer::new(device, Some(at(host)), None).map_err(|error| error.to_string())?;
        let bare = Bare::start(at(host)).map_err(|error| error.to_string())?;
        let place = device.udp_address().ok_or("the device has no address")?;
        let places = Places { device: place, bare: bare.address };
        Ok((Boards { _device: device, _bare: bare }, places))
    }
}

/// The route of a client to a device.
struct Route {
    name: &'static str,
    uri: String,
    bare: SocketAddr,
}

impl Route {
    fn direct(name: &'static str, places: Places) -> Route {
        Route { name, uri: format!("ipbusudp-2.0://{}", places.device), bare: places.bare }
    }

    fn through(hub: &HubServer, places: Places) -> Route {
        let uri = format!("chtcp-2.0://{}?target={}", hub.address(), places.device);
        Route { name: "hub", uri, bare: places.bare }
    }
}

/// A turn of blocks over one route and then over the bare sockets.
struct Turns {
    client: Client,
    bare: BareClient,
    operation: Operation,
    block: Vec<u32>,
    /// Blocks of a turn.
    count: usize,
    wrong: Option<String>,
}

impl Turns {
    fn new(route: &Route, operation: Operation, words: usize) -> Result<Turns, BenchError> {
        Ok(Turns {
            client: Client::open(&route.uri).map_err(failed)?,
            bare: BareClient::open(route.bare).map_err(failed)?,
            operation,
            block: vec![0; words],
            count: (WORDS_PER_TURN / words).clamp(2, READS_PER_TURN),
            wrong: None,
        })
    }

    fn ours(&mut self) -> Duration {
        let start = Instant::now();
        for _ in 0..self.count {
            if let Err(error) = self.operation.perform(&mut self.client, &mut self.block) {
                self.wrong.get_or_insert(error.to_string());
            }
        }
        start.elapsed()
    }

    fn bare(&mut self) -> Duration {
        let (start, window) = (Instant::now(), Buffers::default().count as usize);
        for _ in 0..self.count {
            if let Err(error) = self.bare.ask(self.operation, self.block.len(), window) {
                self.wrong.get_or_insert(format!("the bare request and reply: {error}"));
            }
        }
        start.elapsed()
    }

    fn compare(&mut self, repeats: usize) -> Result<Comparison, BenchError> {
        let turns = std::cell::RefCell::new(&mut *self);
        let comparison =
            compare(Clock::Wall, repeats, || turns.borrow_mut().ours(), || turns.borrow_mut().bare());
        self.wrong.take().map_or(Ok(comparison), |wrong| Err(failed(wrong)))
    }
}

/// Processor time of all hubs of this process.
fn hub_s() -> f64 {
    ran_s(|name| name == "ipbus hub")
}

fn point(
    bench: &'static str,
    route: &Route,
    (operation, words): (Operation, usize),
    repeats: usize,
) -> Result<Measurement, BenchError> {
    let mut turns = Turns::new(route, operation, words)?;
    let before = hub_s();
    let comparison = turns.compare(repeats)?;
    let hub_s = hub_s() - before;
    let (counts, count) = (turns.client.counts(), turns.count * words);
    let does = if operation == Operation::Read { "read" } else { "write" };
    let measured = Measurement::of_rate(bench, "words/s", count as f64, BASELINE, comparison)
        .repeated(repeats)
        .with("way", route.name)
        .with("does", does)
        .with("line", format!("{} {does}", route.name))
        .with("words", words)
        .with("gigabits_per_s", 32e-9 * count as f64 / comparison.subject_s)
        .with("packets_again", counts.requests_repeated + counts.replies_repeated);
    let measured = match route.name {
        "hub" => measured.with("hub_us_per_packet", 1e6 * hub_s / counts.sent as f64),
        _ => measured,
    };
    if words > 1 || operation == Operation::Write {
        return Ok(measured);
    }
    let mut times = Vec::with_capacity(SINGLES);
    for _ in 0..SINGLES {
        let start = Instant::now();
        turns.client.read(ADDRESS).map_err(failed)?;
        times.push(start.elapsed().as_secs_f64() * 1e6);
    }
    let mut us = |fraction| quantile(&mut times, fraction);
    Ok(measured
        .with("round_trip_us_p50", us(0.5))
        .with("round_trip_us_p99", us(0.99))
        .with("round_trip_us_most", us(1.0)))
}

fn sweep(bench: &'static str, title: &str, points: Vec<Measurement>) -> Measured {
    let sweep = Sweep {
        bench,
        title: title.to_owned(),
        along: "words",
        x_title: "words of a block",
        lines: Some("line"),
        points,
        shows_ratio: true,
        logarithmic_x: true,
        logarithmic_y: false,
        guides: Vec::new(),
    };
    sweep.measured()
}

/// Measures both ways on loopback, reading and writing, at all sizes.
pub(super) fn ipbus(conditions: &Conditions) -> Result<Measured, BenchError> {
    let (_boards, places) = Boards::start(Ipv4Addr::LOCALHOST).map_err(failed)?;
    let hub = HubServer::start(HubOptions::at(at(Ipv4Addr::LOCALHOST))).map_err(failed)?;
    let mut points = Vec::new();
    for route in [Route::direct("direct", places), Route::through(&hub, places)] {
        for operation in [Operation::Read, Operation::Write] {
            for words in WORDS {
                points.push(point("ipbus", &route, (operation, words), conditions.repeats)?);
            }
        }
    }
    Ok(sweep("ipbus", "Registers of an emulated IPbus board, in blocks over loopback", points))
}

/// The same over a link of 1 Gb/s, directly.
pub(super) fn ipbus_link(conditions: &Conditions) -> Result<Measured, BenchError> {
    let measured = |places: Places| {
        let route = Route::direct("link", places);
        let mut points = Vec::new();
        for operation in [Operation::Read, Operation::Write] {
            for words in WORDS {
                let point = point("ipbus-link", &route, (operation, words), conditions.repeats)?;
                points.push(point.with("link_gigabits_per_s", 1e-9 * link::LINK_RATE));
            }
        }
        Ok(points)
    };
    let points =
        link::between(link::LinkShape::GIGABIT, || Boards::start(link::FAR), measured).map_err(failed)??;
    Ok(sweep("ipbus-link", "Registers of an emulated IPbus board, in blocks over 1 Gb/s", points))
}
