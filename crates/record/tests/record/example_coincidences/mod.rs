//! Events of hits as coincidence gives them away, and a run that records them.
#![allow(dead_code)] // Each test uses a part.

use std::path::Path;

use thalweg_data::{
    Counters, Flags, Hit, HitEvent, HitEvents, Ledger, LedgerSnapshot, Mark, SourceId, Stage, Unit,
};
use thalweg_record::read::CoincidencesReader;
use thalweg_record::{CoincidenceWriter, RunDirectory, RunRecord, RunRecordState, Settings, Table};

/// The counters of events of hits.
pub const COINCIDENCES: SourceId = SourceId(2);

/// Two boards, and the counts of what is made of their hits.
pub fn sources() -> Vec<String> {
    ["left", "right", "coincidences"].map(str::to_owned).to_vec()
}

/// Appends an event whose members come `steps` picoseconds one after the other.
pub fn push(batch: &mut HitEvents, number: u64, time_ps: i64, steps: &[u16], reference: usize) {
    let first = batch.members.len();
    let mut at = 0;
    for (place, step) in steps.iter().enumerate() {
        at += i64::from(*step);
        let flags = if step % 3 == 1 { Flags::NO_ENERGY_SHORT } else { Flags::FINE_TIME };
        let energy_short = if flags.has(Flags::NO_ENERGY_SHORT) { 0 } else { step / 2 };
        batch.members.push(Hit {
            time_ps: time_ps + at,
            channel: place as u16,
            energy: *step,
            energy_short,
            flags,
        });
    }
    batch.events.push(HitEvent {
        number,
        time_ps: batch.members[first + reference].time_ps,
        first: first as u32,
        count: steps.len() as u32,
        multiplicity: steps.len() as u16,
        reference: reference as u16,
    });
}

/// Events `range` of the example: two to six hits, every seventh number left out by a cut.
pub fn batch(range: std::ops::Range<u64>) -> HitEvents {
    let mut batch = HitEvents::default();
    for index in range {
        let steps: Vec<u16> =
            (0..2 + index % 5).map(|place| ((index * 31 + place * 17) % 5000) as u16).collect();
        push(&mut batch, index + index / 6, index as i64 * 100_000, &steps, (index % 2) as usize);
    }
    batch
}

/// Writes a run of `count` events in batches of `step`, with snapshot and `run.json`.
pub fn write_run(parent: &Path, settings: &Settings, count: u64, step: usize) -> RunDirectory {
    let directory = RunDirectory::create(parent, "coincidences").expect("made");
    let mut writer = CoincidenceWriter::create(directory.path(), settings, &sources()).expect("made");
    for start in (0..count).step_by(step) {
        writer.write(&batch(start..(start + step as u64).min(count))).expect("written");
        writer.advance(Mark(start)).expect("written");
    }
    writer.finish().expect("written");
    complete(&directory, &writer, RunRecordState::Stopped);
    directory
}

/// Writes the ledger and the record of a run.
pub fn complete(directory: &RunDirectory, writer: &CoincidenceWriter, state: RunRecordState) {
    let snapshot = publish(directory, writer);
    assert!(snapshot.close(), "{:?}", snapshot.discrepancies());
    let mut record = RunRecord::start(directory, "coincidences", "", &sources());
    record.stop(state, writer.summaries(), Some(&snapshot));
    record.write(directory).expect("written");
}

/// Puts the counters into the run's ledger file, behind those of who made and kept the events.
pub fn publish(directory: &RunDirectory, writer: &CoincidenceWriter) -> LedgerSnapshot {
    let _ = std::fs::remove_file(directory.ledger());
    let ledger = Ledger::create(Some(&directory.ledger()), &sources()).expect("made");
    let mut passed = Counters::default();
    passed.input(Unit::Events, writer.counters().total_input(Unit::Events));
    passed.output(Unit::Events, writer.counters().total_input(Unit::Events));
    ledger.open(Stage::Coincide, COINCIDENCES, &[Unit::Events]).publish(&passed);
    ledger.open(Stage::Cut, COINCIDENCES, &[Unit::Events]).publish(&passed);
    ledger.open(Stage::Record, COINCIDENCES, &[Unit::Events]).publish(writer.counters());
    ledger.snapshot()
}

/// All events of a run's table.
pub fn read_all(run: &Path) -> HitEvents {
    let path = run.join(Table::Coincidences.file_name());
    CoincidencesReader::open(&path).expect("opens").read_all().expect("whole")
}

/// In, out, held and lost events of a set of counters.
pub fn slot(counters: &Counters) -> [u64; 4] {
    let unit = Unit::Events;
    [
        counters.total_input(unit),
        counters.total_output(unit),
        counters.held(unit),
        counters.total_lost_any(unit),
    ]
}
