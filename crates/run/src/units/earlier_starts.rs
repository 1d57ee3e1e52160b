//! Reads what earlier starts of a builder unit wrote in this run.
//!
//! ```text
//!  runs/000041 (killed) events-bu-0.arrows ─┐
//!  runs/000042 (killed) events-bu-0.arrows ─┴─► OnFile { every trigger is below, highest attempt } ─► BuilderUnit::recall
//!  runs/000043 (now)
//! ```
//! A unit that starts again reports it, so that a system in which everybody else has died as well does not write a trigger a second time
//! with an attempt that a reader takes for the older one. To recall too much costs nothing but an attempt that is higher than need be.

use std::collections::BTreeSet;

use thalweg_build::unit::OnFile;
use thalweg_data::Event;
use thalweg_record::read::{EventsFile, RangesReader, RecordedEvent};
use thalweg_record::{RecordError, RunDirectory, RunRecord, RunRecordState};

use crate::config::Configuration;

/// The remains of earlier starts of a unit.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct Recalled {
    /// The triggers in their files.
    pub(crate) on_file: OnFile,
    /// The event managers that they knew, by their epochs: with those this start is of one run.
    pub(crate) managers: Vec<u64>,
}

/// What the runs beside `present` hold that are earlier starts of this unit in the same run. A file that is damaged counts as far as it can
/// be read: nobody reads further later.
///
/// # Errors
/// When the runs cannot be listed.
pub(crate) fn recall(
    present: &RunDirectory,
    configuration: &Configuration,
    unit: &str,
) -> Result<Recalled, RecordError> {
    let Recalled { mut on_file, mut managers } = Recalled::default();
    let Some(parent) = present.path().parent() else { return Ok(Recalled { on_file, managers }) };
    for run in RunDirectory::list(parent)?.iter().filter(|run| run.number() < present.number()) {
        let events = run.events_of(Some(unit)).events;
        let record = RunRecord::read(&run.run_record());
        let same = |record: &RunRecord| is_same_run(record, configuration);
        let Some(record) = record.ok().filter(|record| events.exists() && same(record)) else { continue };
        managers.extend(record.identity.into_iter().flat_map(|identity| identity.managers));
        managers.extend(known_managers(run, unit));
        let before = on_file;
        if let Err(error) = EventsFile::open_alone(&events).and_then(|file| read(file, &mut on_file)) {
            tracing::warn!("{unit}: what an earlier start has written is known in part: {error}");
        }
        if on_file != before {
            let (until, attempt) = (on_file.until, on_file.attempt);
            tracing::info!("{unit}: {} has triggers below {until}, attempt {attempt}", events.display());
        }
    }
    managers.sort_unstable();
    managers.dedup();
    Ok(Recalled { on_file, managers })
}

/// The event managers that an earlier start of the unit knew, by its list of ranges.
fn known_managers(run: &RunDirectory, unit: &str) -> BTreeSet<u64> {
    let list = RangesReader::open(&run.ranges_of(unit)).and_then(RangesReader::read_all);
    let records = list.map(|list| list.records).unwrap_or_default();
    records.iter().map(|record| record.epoch).filter(|epoch| *epoch > 0).collect()
}

/// Whether a record is of an earlier start in the run of this configuration: by the identity that the run was given, or as one that
/// was killed and had the same configuration.
fn is_same_run(record: &RunRecord, configuration: &Configuration) -> bool {
    let identity = &configuration.run.identity;
    if identity.is_empty() {
        let killed = matches!(record.state, RunRecordState::Running | RunRecordState::Recovered);
        return killed && record.configuration == configuration.text;
    }
    let parsed = Configuration::parse("run.json".as_ref(), record.configuration.clone());
    parsed.is_ok_and(|recorded| recorded.run.identity == *identity)
}

fn read(mut file: EventsFile, on_file: &mut OnFile) -> Result<(), RecordError> {
    let mut event = RecordedEvent::default();
    while file.next_event(&mut event)? {
        on_file.add(&Event { trigger: event.trigger, attempt: event.attempt, ..Event::default() });
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use thalweg_data::EventSink;
    use thalweg_data::Events;
    use thalweg_record::{EventWriter, Settings, Table};

    /// A start of the unit `bu-0` that writes these events and ends, or is killed.
    fn start(parent: &std::path::Path, text: &str, state: RunRecordState, rows: &[(u64, u8)]) {
        let run = RunDirectory::create(parent, "").expect("a directory");
        let record = RunRecord { state, ..RunRecord::start(&run, "", text, &[]) };
        record.write(&run).expect("a record");
        let files = run.events_of(Some("bu-0"));
        let settings = Settings { tables: vec![Table::Events], ..Settings::default() };
        let mut writer = EventWriter::create(&files, &settings, &[], false).expect("files");
        let mut events = Events::default();
        let row = |(trigger, attempt): &(u64, u8)| Event {
            trigger: *trigger,
            attempt: *attempt,
            ..Event::default()
        };
        events.events.extend(rows.iter().map(row));
        writer.write(&events).expect("space");
        writer.finish().expect("space");
    }

    #[test]
    fn a_unit_recalls_what_its_killed_starts_have_written_and_nothing_of_other_runs() {
        let folder = tempfile::tempdir().expect("a folder");
        let parse =
            |text: &str| Configuration::parse("run.toml".as_ref(), text.to_owned()).expect("a configuration");
        let text = |run: &str| {
            format!(
                "[run]\n{run}\n[[source]]\nname = \"a\"\nformat = \"fragment\"\nurl = \"emulate://\"\n[trigger]\n"
            )
        };
        let plain = &text("title = \"one\"");
        start(folder.path(), plain, RunRecordState::Running, &[(4, 0), (9, 1)]);
        start(folder.path(), plain, RunRecordState::Recovered, &[(12, 0)]);
        start(folder.path(), plain, RunRecordState::Stopped, &[(100, 3)]);
        start(folder.path(), &text("title = \"two\""), RunRecordState::Running, &[(200, 4)]);
        let named = &text("identity = \"7\"");
        start(folder.path(), named, RunRecordState::Stopped, &[(30, 2)]);
        let present = RunDirectory::create(folder.path(), "").expect("a directory");
        let recalled =
            |text: &str, unit: &str| recall(&present, &parse(text), unit).expect("readable").on_file;
        assert_eq!(recalled(plain, "bu-0"), OnFile { until: 13, attempt: 1 });
        assert_eq!(recalled(plain, "bu-1"), OnFile::default());
        let later = &text("identity = \"7\"\ntitle = \"named\"");
        assert_eq!(recalled(later, "bu-0"), OnFile { until: 31, attempt: 2 });
        // A file that was cut counts up to the cut.
        let files = RunDirectory::list(folder.path()).expect("readable")[1].events_of(Some("bu-0"));
        let length = files.events.metadata().expect("it is there").len();
        let file = std::fs::File::options().write(true).open(&files.events).expect("writable");
        file.set_len(length - 64).expect("shorter");
        assert_eq!(recalled(plain, "bu-0").attempt, 1);
    }
}
