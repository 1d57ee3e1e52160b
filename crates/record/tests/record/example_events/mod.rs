//! Events as a builder gives them, made from a plan that a test can compare with what it reads.
#![allow(dead_code)] // Each test uses a part.

use std::path::Path;

use thalweg_data::{
    BlockWriter, Closing, Counters, Event, EventSink, Events, Fragment, Ledger, LedgerSnapshot, Mark, Pool,
    SourceId, Stage, Unit,
};
use thalweg_record::read::{EventsFile, RecordedEvent};
use thalweg_record::{EventFiles, EventWriter, RunDirectory, RunRecord, RunRecordState, Settings};

/// Bytes of a block.
pub const BLOCK_BYTES: usize = 4096;

/// One event, in plain values.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Planned {
    pub trigger: u64,
    pub closing: Closing,
    pub attempt: u8,
    pub first_arrival_ns: u64,
    pub closed_ns: u64,
    pub missing: Vec<u16>,
    /// Source, ticks, and the bytes, slice by slice.
    pub fragments: Vec<(u16, u64, Vec<Vec<u8>>)>,
}

impl Planned {
    /// What is to be read of it: source, ticks and bytes of each fragment.
    pub fn payload(&self) -> Vec<(u16, u64, Vec<u8>)> {
        self.fragments.iter().map(|(source, ticks, slices)| (*source, *ticks, slices.concat())).collect()
    }

    pub fn of(event: &RecordedEvent) -> (Planned, u64) {
        let fragments = event.iter();
        let fragments = fragments
            .map(|(fragment, bytes)| (fragment.source.0, fragment.ticks, vec![bytes.to_vec()]))
            .collect();
        let planned = Planned {
            trigger: event.trigger,
            closing: event.closing,
            attempt: event.attempt,
            first_arrival_ns: event.first_arrival.0,
            closed_ns: event.closed.0,
            missing: event.missing.iter().map(|source| source.0).collect(),
            fragments,
        };
        (planned, event.bytes)
    }
}

/// Where received bytes come to lie.
pub struct Blocks {
    pool: Pool,
    writers: Vec<Option<BlockWriter>>,
    /// All sources write into the same block, as of one UDP socket.
    shared: bool,
    /// Slices begin at multiples of this.
    alignment: usize,
}

impl Blocks {
    pub fn new(shared: bool, alignment: usize) -> Blocks {
        let pool = Pool::new(1024, BLOCK_BYTES).expect("4 MiB");
        Blocks { pool, writers: Vec::new(), shared, alignment }
    }

    pub fn free(&self) -> usize {
        self.pool.free_count() + self.writers.iter().flatten().count()
    }

    fn put(&mut self, source: u16, bytes: &[u8], events: &mut Events) {
        let place = if self.shared { 0 } else { usize::from(source) };
        if self.writers.len() <= place {
            self.writers.resize_with(place + 1, || None);
        }
        let slot = &mut self.writers[place];
        if slot.as_ref().is_none_or(|writer| writer.remaining() < bytes.len() + self.alignment) {
            *slot = None;
            *slot = Some(self.pool.take().expect("a block is free"));
        }
        let Some(writer) = slot else { return };
        writer.align(self.alignment);
        events.slices.push(writer.append(bytes).expect("space"));
        events.leases.add(writer.lease());
    }

    /// A batch of these events.
    pub fn batch(&mut self, planned: &[Planned], mark: Mark) -> Events {
        let mut events = Events::default();
        events.header.mark = mark;
        for plan in planned {
            let (first_fragment, first_missing) =
                (events.fragments.len() as u32, events.missing.len() as u32);
            let mut bytes = 0;
            for (source, ticks, slices) in &plan.fragments {
                let length = slices.iter().map(Vec::len).sum::<usize>() as u32;
                slices.iter().for_each(|slice| self.put(*source, slice, &mut events));
                events.fragments.push(Fragment {
                    trigger: plan.trigger,
                    ticks: *ticks,
                    bytes: length,
                    source: SourceId(*source),
                    slices: slices.len() as u16,
                });
                bytes += u64::from(length);
            }
            events.missing.extend(plan.missing.iter().map(|source| SourceId(*source)));
            events.events.push(Event {
                trigger: plan.trigger,
                first_arrival: Mark(plan.first_arrival_ns),
                closed: Mark(plan.closed_ns),
                bytes,
                first_fragment,
                fragments: plan.fragments.len() as u32,
                first_missing,
                missing: plan.missing.len() as u32,
                closing: plan.closing,
                attempt: plan.attempt,
            });
        }
        events
    }
}

/// Names of `count` sources.
pub fn sources(count: u16) -> Vec<String> {
    (0..count).map(|source| format!("board {source}")).collect()
}

/// Sources of the example.
pub const SOURCES: u16 = 3;

/// The k-th event of the example: three sources, every fifth event without the second.
pub fn planned(index: u64) -> Planned {
    let partial = index.is_multiple_of(5);
    let bytes = |source: u16| {
        let length = (index as usize * 7 + usize::from(source) * 13) % 60;
        (0..length).map(|place| (index as usize * 31 + place * 7) as u8 ^ source as u8).collect()
    };
    let present = (0..SOURCES).filter(|source| !partial || *source != 1);
    Planned {
        trigger: 1000 + index,
        closing: if partial { Closing::Age } else { Closing::Complete },
        attempt: 0,
        first_arrival_ns: index * 100_000,
        closed_ns: index * 100_000 + 40_000,
        missing: if partial { vec![1] } else { Vec::new() },
        fragments: present.map(|source| (source, index * 8, vec![bytes(source)])).collect(),
    }
}

/// Makes the ledger of a writer, in the run's file.
pub fn publish(run: &RunDirectory, writer: &EventWriter, count: u16) -> LedgerSnapshot {
    let _ = std::fs::remove_file(run.ledger());
    let mut names = sources(count);
    names.push("builder".to_owned());
    let ledger = Ledger::create(Some(&run.ledger()), &names).expect("made");
    for source in (0..count).map(SourceId) {
        let slot = ledger.open(Stage::Record, source, &[Unit::Fragments, Unit::Bytes]);
        slot.publish(writer.source_counters(source));
    }
    ledger.open(Stage::Record, SourceId(count), &[Unit::Events]).publish(writer.counters());
    ledger.snapshot()
}

/// Ends a run: snapshot and `run.json`.
pub fn complete(run: &RunDirectory, writer: &EventWriter, count: u16, state: RunRecordState) {
    let mut record = RunRecord::start(run, "events", "", &sources(count));
    record.stop(state, writer.summaries(), Some(&publish(run, writer, count)));
    record.write(run).expect("written");
}

/// Writes a run of events, a batch at a time.
pub fn write_run(
    parent: &Path,
    settings: &Settings,
    planned: &[Planned],
    step: usize,
    count: u16,
    blocks: &mut Blocks,
) -> RunDirectory {
    let run = RunDirectory::create(parent, "events").expect("made");
    let mut writer =
        EventWriter::create(&run.events_of(None), settings, &sources(count), false).expect("made");
    for (number, events) in planned.chunks(step.max(1)).enumerate() {
        writer.write(&blocks.batch(events, Mark(number as u64))).expect("written");
        writer.write(&Events::default()).expect("nothing to write");
    }
    writer.finish().expect("written");
    complete(&run, &writer, count, RunRecordState::Stopped);
    run
}

/// All events of a pair of files.
pub fn read_all(files: &EventFiles) -> Vec<RecordedEvent> {
    let mut file = EventsFile::open(files).expect("opens");
    let (mut all, mut event) = (Vec::new(), RecordedEvent::default());
    while file.next_event(&mut event).expect("whole") {
        all.push(event.clone());
    }
    all
}

/// In, out, held and lost of a set of counters.
pub fn slot(counters: &Counters, unit: Unit) -> [u64; 4] {
    [
        counters.total_input(unit),
        counters.total_output(unit),
        counters.held(unit),
        counters.total_lost_any(unit),
    ]
}
