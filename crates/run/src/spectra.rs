//! Reads a recording back from its files and draws the picture of it.
//!
//! ```text
//!  hits ─► spectra │ else events ─► rate, size, build time, completeness over time │ else raw ─► bytes over time
//!  series ─► values over time, where these are asked for
//! ```

mod series;
mod timelines;

use std::path::{Path, PathBuf};

use thalweg_data::Unit;
use thalweg_record::read::{HitsReader, LossesReader};
use thalweg_record::{LossRow, RecordedTables, RemovedTables, RunDirectory, RunRecord, Table};

use crate::plot::{Facts, Lanes, PlotSource, Spectra, spectra_svg};

/// The picture to draw.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Picture {
    /// The measured data.
    Data,
    /// The values of slow control.
    Series,
}

/// A picture that could not be made.
#[derive(Debug, thiserror::Error)]
pub enum PlotError {
    /// The recording could not be read.
    #[error(transparent)]
    Record(#[from] thalweg_record::RecordError),
    /// There is nothing to draw.
    #[error(
        "{}: nothing to plot: the run has recorded no hits, no events and no raw bytes; `thalweg inspect {}` lists what it \
         has, and `[record] tables` says what runs record",
        run.display(),
        run.display()
    )]
    Nothing {
        /// The run's directory.
        run: PathBuf,
    },
    /// There are no series.
    #[error(
        "{}: no series to plot: the run has recorded none; `[[series]]` names registers and parameters that are read while data are taken",
        run.display()
    )]
    NoSeries {
        /// The run's directory.
        run: PathBuf,
    },
    /// The picture could not be written.
    #[error("{file}: {cause}; give another path with --output")]
    Write {
        /// The file.
        file: PathBuf,
        /// The error of the system.
        cause: std::io::Error,
    },
}

/// Draws what a run has recorded into `output`, or into a file in its directory, which is returned: hits as `spectra.svg`;
/// without hits, events over time as `events.svg`; without these, raw bytes over time as `raw.svg`. Losses over time are in each. Series are
/// `series.svg`.
///
/// # Errors
/// When the recording cannot be read, has nothing to draw, or the picture cannot be written.
pub fn plot_run(run: &Path, what: Picture, output: Option<&Path>) -> Result<PathBuf, PlotError> {
    let directory = RunDirectory::open(run)?;
    // Runs are also found by their number.
    let run = directory.path();
    let record = RunRecord::read(&directory.run_record())?;
    let said = RecordedTables::of(&record, &directory)?;
    let (name, picture) = match what {
        Picture::Data => data_picture(run, &directory, (&record, &said))?,
        Picture::Series => {
            expect_files(run, &said, Table::Series)?;
            if !directory.table(Table::Series).exists() {
                return Err(PlotError::NoSeries { run: run.to_owned() });
            }
            ("series.svg", series::series_picture(run, &directory, &record)?)
        }
    };
    let file = output.map_or_else(|| directory.path().join(name), Path::to_owned);
    std::fs::write(&file, picture).map_err(|cause| PlotError::Write { file: file.clone(), cause })?;
    Ok(file)
}

/// Draws the measured data, and returns the picture with the name of a file for it.
fn data_picture(
    run: &Path,
    directory: &RunDirectory,
    (record, said): (&RunRecord, &RecordedTables),
) -> Result<(&'static str, String), PlotError> {
    RemovedTables::refuse(run, Table::Hits)?;
    let has = |table: Table| -> Result<bool, PlotError> {
        Ok(match table {
            Table::Raw => !directory.raw_files()?.is_empty(),
            Table::Events => directory.event_files()?.iter().any(|files| files.events.exists()),
            table => directory.table(table).exists(),
        })
    };
    expect_files(run, said, Table::Losses)?;
    let losses = losses_of(directory)?;
    expect_files(run, said, Table::Hits)?;
    if has(Table::Hits)? {
        return Ok(("spectra.svg", hits_picture(run, directory, (record, said), &losses)?));
    }
    expect_files(run, said, Table::Events)?;
    if has(Table::Events)? {
        return Ok(("events.svg", timelines::events_picture(run, directory, (record, said), &losses)?));
    }
    expect_files(run, said, Table::Raw)?;
    if has(Table::Raw)? {
        return Ok(("raw.svg", timelines::raw_picture(run, directory, record, &losses)?));
    }
    [Table::Events, Table::Raw].into_iter().try_for_each(|table| RemovedTables::refuse(run, table))?;
    Err(PlotError::Nothing { run: run.to_owned() })
}

/// Refuses a picture of a table of which a file is missing: it would show a run without losses that is shorter than it was.
fn expect_files(run: &Path, said: &RecordedTables, table: Table) -> Result<(), PlotError> {
    Ok(said.refuse_missing(run, |missing| missing.is_of(table))?)
}

/// The run's title, or that it has none.
fn title(record: &RunRecord) -> &str {
    if record.title.is_empty() { "untitled run" } else { &record.title }
}

/// What was lost, and what there is to say of the ledger. While a run has no ledger, nobody knows how many of a unit it has lost.
fn loss_texts(record: &RunRecord, unit: Unit) -> [String; 2] {
    let lost = record.loss_report().map(|report| report.text());
    let ledger = record.ledger_verdict().map(|verdict| format!("the ledger {verdict}"));
    [
        lost.unwrap_or_else(|| format!("{unit} lost: unknown")),
        ledger.unwrap_or_else(|| "no ledger yet".to_owned()),
    ]
}

const SOFTWARE: &str = concat!("thalweg ", env!("CARGO_PKG_VERSION"));

/// The list of losses; empty of older runs, and of one whose tables were removed.
fn losses_of(directory: &RunDirectory) -> Result<Vec<LossRow>, PlotError> {
    let file = directory.table(Table::Losses);
    if !file.exists() {
        return Ok(Vec::new());
    }
    Ok(LossesReader::open(&file)?.read_all()?)
}

fn hits_picture(
    run: &Path,
    directory: &RunDirectory,
    (record, said): (&RunRecord, &RecordedTables),
    losses: &[LossRow],
) -> Result<String, PlotError> {
    let sources = sources_of_hits(run, record);
    let mut reader = HitsReader::open(&directory.table(Table::Hits))?;
    let (mut spectra, mut hits) = (Spectra::of(&sources), Vec::new());
    while reader.next_batch(&mut hits)? {
        spectra.fill(&hits);
    }
    said.refuse_too_few(run, &Table::Hits.file_name(), spectra.hits())?;
    let [lost, ledger] = loss_texts(record, Unit::Hits);
    let facts = Facts {
        title: title(record),
        run: &run.display().to_string(),
        started: &record.started,
        hits_recorded: spectra.hits(),
        lost: &lost,
        ledger: &ledger,
        software: SOFTWARE,
        sources: &sources,
    };
    Ok(spectra_svg(&spectra, &Lanes::of(losses, spectra.rate().duration_s()), &facts))
}

/// The sources of hits with their channels, as the record says. Older ones do not: there the recorded configuration does, whose sources of hits
/// come first in the record; where it cannot be read any more, each source is taken to have every channel.
fn sources_of_hits<'r>(run: &Path, record: &'r RunRecord) -> Vec<PlotSource<'r>> {
    let source = |name: &'r String, first_channel, channels| PlotSource { name, first_channel, channels };
    if !record.channels.is_empty() {
        let own = |name| Some((name, record.channels.get(name)?));
        let named = record.sources.iter().filter_map(own);
        return named.map(|(name, channels)| source(name, channels.first, channels.count)).collect();
    }
    let channels = match crate::boards::recorded(&run.join("run.json"), record) {
        Ok(configuration) => {
            configuration.hit_sources().map(|(source, _)| source.format.channels()).collect()
        }
        Err(_) => vec![(0, u16::MAX); record.sources.len()],
    };
    let named = record.sources.iter().zip(channels);
    named.map(|(name, (first, count))| source(name, first, count)).collect()
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;
    use std::fs;

    use thalweg_data::{Counters, Hit, Hits, Ledger, Sink, SourceId, Stage};
    use thalweg_record::read::recover;
    use thalweg_record::{ChannelsRecord, FileLimits, HitWriter, RunRecordState, Settings};

    use super::*;

    #[test]
    fn only_sources_of_hits_are_in_a_picture_of_hits() {
        let drawn = |record: &RunRecord| -> Vec<(String, u16, u16)> {
            let sources = sources_of_hits(Path::new("runs/000001"), record);
            sources.iter().map(|own| (own.name.to_owned(), own.first_channel, own.channels)).collect()
        };
        let text = "[[source]]\nname = \"camera\"\nformat = \"fragment\"\nurl = \"emulate://\"\nboards = 2\n\
                    [[source]]\nname = \"left\"\nformat = \"digitizer2\"\nurl = \"emulate://\"\nfirst_channel = 64\nchannels = 8\n\
                    [source.emulate]\nchannels = 8\n";
        let sources = ["left", "camera/0", "camera/1"].map(str::to_owned).to_vec();
        let older = RunRecord { configuration: text.to_owned(), sources, ..RunRecord::default() };
        let channels = BTreeMap::from([("left".to_owned(), ChannelsRecord { first: 64, count: 8 })]);
        for record in [RunRecord { channels, ..older.clone() }, older] {
            assert_eq!(drawn(&record), [("left".to_owned(), 64, 8)]);
        }
    }

    /// A run of three hits, each in a file of its own.
    fn write_run(parent: &Path) -> PathBuf {
        let directory = RunDirectory::create(parent, "").expect("made");
        let names = ["board".to_owned()];
        let mut record = RunRecord::start(&directory, "", "", &names);
        let files = FileLimits { most_rows: Some(1), ..FileLimits::default() };
        let settings = Settings { files, batch_hits: 1, ..Settings::default() };
        let mut writer = HitWriter::create(directory.path(), &settings, &names).expect("made");
        for time_ps in 0..3 {
            let hit = Hit { time_ps, ..Hit::default() };
            writer.write(&Hits { hits: vec![hit], ..Hits::default() }).expect("written");
        }
        writer.finish().expect("written");
        record.stop(RunRecordState::Stopped, writer.summaries(), None);
        record.write(&directory).expect("written");
        directory.path().to_owned()
    }

    fn plotted(run: &Path) -> Result<String, String> {
        let file = plot_run(run, Picture::Data, None).map_err(|error| error.to_string())?;
        Ok(fs::read_to_string(file).expect("drawn"))
    }

    #[test]
    fn a_run_without_a_file_of_its_hits_is_drawn_when_recover_has_noted_what_is_missing() {
        for gone in ["hits.arrows", "hits.0001.arrows", "hits.0002.arrows"] {
            let folder = tempfile::tempdir().expect("temporary folder");
            let run = write_run(folder.path());
            assert!(plotted(&run).expect("drawn").contains("3 hits recorded"));
            fs::remove_file(run.join(gone)).expect("there");
            let message = plotted(&run).expect_err("refused");
            assert!(message.contains(&format!("{gone}: run.json names")), "{message}");
            assert!(message.contains("`thalweg recover`"), "{message}");
            recover(&run).expect("recovered");
            match gone {
                "hits.arrows" => assert!(plotted(&run).expect_err("nothing").contains("nothing to plot")),
                _ => assert!(plotted(&run).expect("drawn").contains("2 hits recorded")),
            }
        }
    }

    #[test]
    fn the_ledger_of_a_killed_run_is_not_said_to_contradict_itself() {
        let folder = tempfile::tempdir().expect("temporary folder");
        let directory = RunDirectory::create(folder.path(), "").expect("made");
        let names = ["board".to_owned()];
        let mut record = RunRecord::start(&directory, "", "", &names);
        assert_eq!(loss_texts(&record, Unit::Hits), ["hits lost: unknown", "no ledger yet"]);
        // Of five hits, two were on their way to the file.
        let ledger = Ledger::create(None, &names).expect("memory");
        let mut counters = Counters::default();
        counters.input(Unit::Hits, 5);
        counters.output(Unit::Hits, 3);
        ledger.open(Stage::Record, SourceId(0), &[Unit::Hits]).publish(&counters);
        for (state, said) in [
            (RunRecordState::Recovered, "the ledger is of a moment before the program was killed"),
            (RunRecordState::Failed, "the ledger DOES NOT BALANCE"),
        ] {
            record.stop(state, Vec::new(), Some(&ledger.snapshot()));
            assert_eq!(loss_texts(&record, Unit::Hits)[1], said);
        }
    }

    #[test]
    fn a_run_with_fewer_hits_than_were_recorded_is_not_drawn() {
        let folder = tempfile::tempdir().expect("temporary folder");
        let run = write_run(folder.path());
        let mut record = RunRecord::read(&run.join("run.json")).expect("readable");
        record.tables.iter_mut().filter(|said| said.table == "hits").for_each(|said| said.rows = 4);
        record.write(&RunDirectory::open(&run).expect("a run")).expect("written");
        let message = plotted(&run).expect_err("refused");
        assert!(message.contains("hits.arrows: 3 rows where run.json says 4"), "{message}");
    }
}
