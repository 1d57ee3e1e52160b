//! The way of built events from a builder to a recorder, with and without the event filter: for its measurement.
//!
//! ```text
//!  batches, again and again ══ring══► (filter ══► workers) ─► let go
//! ```

use std::sync::Arc;
use std::time::{Duration, Instant};

use thalweg_analysis::event_filter::{self, Boards, Settings};
use thalweg_data::ring::{Downstream, Upstream, circuit};
use thalweg_data::{Events, Ledger, SourceId, Stage, Unit};

use crate::pipeline::{EventInlet, FilterSlots, FilterStage, FilterWorker, Ledgered, Signals};
use crate::plan::capacity::{EVENT_BATCH_BYTES, EVENT_BATCHES, EVENTS_PER_BATCH, FILTER_BATCHES};

const WAIT: Duration = Duration::from_millis(20);

/// What has passed.
#[derive(Clone, Copy, Debug, Default)]
pub struct Passed {
    /// How long it took.
    pub time: Duration,
    /// Events that came.
    pub events: u64,
    /// Events that were kept.
    pub kept: u64,
}

/// Passes these batches `turns` times, put together as a builder does, and lets them go where a recorder would take them. The boards are
/// numbered from 0 on.
///
/// # Errors
/// When the filter cannot be, or memory or threads are short.
///
/// # Panics
/// When a thread of it panics: there is nothing to measure then.
pub fn pass_events(
    batches: &[Events],
    turns: usize,
    boards: &[String],
    filter: Option<&Settings>,
) -> Result<Passed, String> {
    let held = filter.map_or(0, |filter| FILTER_BATCHES * filter.workers);
    let (mut outlet, ring) = circuit(EVENT_BATCHES + held, Events::default);
    let mut inlet = match filter {
        None => EventInlet::Ring(ring),
        Some(filter) => EventInlet::Filter(Box::new(filtered(ring, boards, filter, held)?)),
    };
    let taker = std::thread::Builder::new().name("record".to_owned()).spawn(move || {
        let signals = Signals::default();
        let (mut events, mut kept) = (0, 0);
        while !inlet.is_finished() {
            let Some(batch) = inlet.receive_wait(WAIT, &signals) else { continue };
            let (batch_events, selected) = batch.parts();
            events += batch_events.events.len();
            kept += selected.map_or(batch_events.events.len(), |selected| selected.iter().flatten().count());
            inlet.give_back(batch);
        }
        (events as u64, kept as u64)
    });
    let taker = taker.map_err(|cause| cause.to_string())?;
    let start = Instant::now();
    send(batches, turns, &mut outlet);
    drop(outlet);
    let (events, kept) = taker.join().expect("the taker ends");
    Ok(Passed { time: start.elapsed(), events, kept })
}

fn filtered(
    ring: Downstream<Events>,
    boards: &[String],
    filter: &Settings,
    capacity: usize,
) -> Result<FilterStage, String> {
    let mut links = Vec::new();
    for number in 1..=filter.workers {
        let boards = Boards { first: SourceId(0), names: boards };
        let made = event_filter::make(filter, boards).map_err(|error| error.to_string())?;
        let (link, worker) = FilterWorker::new(format!("filter-{number}"), made);
        links.push(link);
        let thread = std::thread::Builder::new().name(format!("filter-{number}"));
        thread.spawn(move || worker.run()).map_err(|cause| cause.to_string())?;
    }
    let mut names = boards.to_vec();
    names.push("events".to_owned());
    let ledger = Ledger::create(None, &names).map_err(|error| error.to_string())?;
    let slot = |source, units: &[Unit]| Ledgered::new(ledger.open(Stage::Filter, SourceId(source), units));
    let count = boards.len() as u16;
    let slots = FilterSlots {
        events: slot(count, &[Unit::Events]),
        sources: (0..count).map(|board| slot(board, &[Unit::Fragments, Unit::Bytes])).collect(),
    };
    let boards = (SourceId(0), boards.len());
    Ok(FilterStage::new(ring, links, filter, capacity, boards, slots, Arc::default()))
}

fn send(batches: &[Events], turns: usize, outlet: &mut Upstream<Events>) {
    let (mut making, mut bytes) = (Events::default(), 0);
    for batch in (0..turns).flat_map(|_| batches) {
        append(batch, &mut making);
        bytes += batch.events.iter().map(|event| event.bytes).sum::<u64>();
        if bytes >= EVENT_BATCH_BYTES || making.events.len() >= EVENTS_PER_BATCH {
            bytes = 0;
            outlet.exchange(&mut making);
            making.clear();
        }
    }
    outlet.exchange(&mut making);
}

/// Adds the events of a batch to those of another.
fn append(batch: &Events, to: &mut Events) {
    let (fragments, missing) = (to.fragments.len() as u32, to.missing.len() as u32);
    to.events.extend(batch.events.iter().map(|event| {
        let (first_fragment, first_missing) =
            (event.first_fragment + fragments, event.first_missing + missing);
        thalweg_data::Event { first_fragment, first_missing, ..*event }
    }));
    to.fragments.extend_from_slice(&batch.fragments);
    to.slices.extend_from_slice(&batch.slices);
    to.missing.extend_from_slice(&batch.missing);
    to.leases.add_all(&batch.leases);
}
