//! `export` of runs of hits: every table read back, and every way in which an export is refused.
//!
//! ```text
//!  run ─► export --to parquet, csv, compass ─► another reader ─► the same rows
//! ```

use std::fs::{self, File};
use std::os::unix::fs::FileExt;
use std::path::Path;

use arrow_array::cast::AsArray;
use arrow_array::types::Float32Type;
use arrow_array::{Array, RecordBatch};
use arrow_ipc::reader::StreamReader;
use parquet::arrow::arrow_reader::ParquetRecordBatchReaderBuilder;
use thalweg::data::Hit;
use thalweg::record::read::{HitsReader, WaveformsReader};

use crate::process::{Ended, Folder, Running, number, run_directory, thalweg};

const CHANNELS: &str = "number,name,kev_0,kev_1\n0,\"LaBr3, left\",1.5,0.25\n1,LYSO,,\n";

/// Runs an emulated board with waveforms and gives the run's directory.
fn recorded(folder: &Folder) -> String {
    folder.file("channels.csv", CHANNELS);
    let text = format!(
        "[channels]\nfile = \"channels.csv\"\n[[source]]\nname = \"board\"\nformat = \"digitizer2\"\nurl = \"emulate://\"\n\
         memory_bytes = 16_777_216\nchannels = 4\n[source.emulate]\nchannels = 4\nrate_hz = 2e4\nseed = 5\nwaveform_samples = 64\n\
         waveform_every = 10\n[record]\ndirectory = \"{}\"\ntables = [\"hits\", \"extras\", \"waveforms\", \"raw\"]\n\
         batch_hits = 10_000\n",
        folder.at("runs")
    );
    let file = folder.file("run.toml", &text);
    run_directory(&thalweg(&["run", &file, "--seconds", "1.5", "--json"]).done().json())
}

fn hits(run: &str) -> Vec<Hit> {
    let reader = HitsReader::open(&Path::new(run).join("hits.arrows")).expect("a run has hits");
    reader.read_all().expect("whole")
}

fn export(run: &str, more: &[&str]) -> Ended {
    thalweg(&[&["export", run], more].concat())
}

/// Asserts that a file of Parquet has the rows of a table, and returns them all as one batch.
#[track_caller]
pub(crate) fn assert_equal_rows(table: &Path, exported: &Path) -> RecordBatch {
    let file = File::open(exported).expect("exported");
    let builder = ParquetRecordBatchReaderBuilder::try_new(file).expect("Parquet");
    let rows = builder.metadata().file_metadata().num_rows() as usize;
    let schema = builder.schema().clone();
    let mut reader = builder.with_batch_size(rows.max(1)).build().expect("readable");
    let all = reader.next().map_or_else(|| RecordBatch::new_empty(schema), |batch| batch.expect("whole"));
    assert_eq!(all.num_rows(), rows, "one batch has all");
    let mut from = 0;
    for batch in StreamReader::try_new(File::open(table).expect("there"), None).expect("a table") {
        let batch = batch.expect("whole");
        for (column, field) in batch.schema().fields().iter().enumerate() {
            let again = all.column(column).slice(from, batch.num_rows()).to_data();
            assert!(again == batch.column(column).to_data(), "{}: {}", exported.display(), field.name());
        }
        from += batch.num_rows();
    }
    assert_eq!(from, rows, "{}", exported.display());
    all
}

#[test]
fn a_run_goes_to_parquet_and_back_with_units_zero_and_descriptions() {
    let folder = Folder::new();
    let run = recorded(&folder);
    let out = folder.at("parquet");
    let report = export(&run, &["--to", "parquet", "--out", &out, "--json"]).done().json();
    let tables = report["tables"].as_array().expect("a list");
    assert_eq!(tables.len(), 5, "{report:#}");
    let record: serde_json::Value =
        serde_json::from_slice(&fs::read(format!("{run}/run.json")).expect("there")).expect("JSON");
    for table in tables {
        let name = table["file"].as_str().expect("a name");
        let exported = Path::new(&out).join(name.replace(".arrows", ".parquet"));
        let all = assert_equal_rows(&Path::new(&run).join(name), &exported);
        assert_eq!(all.num_rows() as u64, number(table, "rows"));
        for field in all.schema().fields() {
            let said = |key: &str| field.metadata().get(key).is_some_and(|text| !text.is_empty());
            assert!(said("unit") && said("description"), "{name}: {field}");
        }
        let builder = ParquetRecordBatchReaderBuilder::try_new(File::open(&exported).expect("there"));
        let builder = builder.expect("Parquet");
        let pairs = builder.metadata().file_metadata().key_value_metadata().expect("metadata").clone();
        let value = |key: &str| pairs.iter().find(|pair| pair.key == key).and_then(|pair| pair.value.clone());
        assert_eq!(value("thalweg.time_zero_utc").as_deref(), record["started"].as_str());
        let columns: serde_json::Value =
            serde_json::from_str(&value("thalweg.columns").expect("columns")).expect("JSON");
        assert_eq!(columns.as_object().map(serde_json::Map::len), Some(all.num_columns()));
    }
    assert!(number(&tables[0], "batches") > 1, "one batch alone proves little: {report:#}");
    assert!(tables.iter().any(|table| table["file"] == "waveforms.arrows" && number(table, "rows") > 100));
}

#[test]
fn energies_and_names_come_from_the_channels_of_the_run() {
    let folder = Folder::new();
    let run = recorded(&folder);
    let out = folder.at("hits.parquet");
    let wanted =
        ["--to", "parquet", "--table", "hits", "--energies", "kev", "--channel-names", "--out", &out];
    export(&run, &wanted).done();
    let all = assert_equal_rows(&Path::new(&run).join("hits.arrows"), Path::new(&out));
    let kev = all.column_by_name("energy_kev").expect("requested").as_primitive::<Float32Type>();
    let names = all.column_by_name("channel_name").expect("requested").as_string::<i32>();
    let mut calibrated = 0;
    for (row, hit) in hits(&run).iter().enumerate() {
        let name = ["LaBr3, left", "LYSO", "channel 2", "channel 3"][usize::from(hit.channel)];
        assert_eq!(names.value(row), name);
        assert_eq!(kev.is_valid(row), hit.channel == 0);
        if hit.channel == 0 {
            calibrated += 1;
            assert!((f64::from(kev.value(row)) - (1.5 + 0.25 * f64::from(hit.energy))).abs() < 0.01);
        }
    }
    assert!(calibrated > 100);
}

#[test]
fn a_run_goes_to_csv_and_back() {
    let folder = Folder::new();
    let run = recorded(&folder);
    let out = folder.at("csv");
    let wanted = ["--to", "csv", "--table", "hits", "--table", "waveforms", "--channel-names", "--out", &out];
    export(&run, &wanted).done();
    let mut reader = csv::Reader::from_path(format!("{out}/hits.csv")).expect("exported");
    let header = reader.headers().expect("a first line").iter().collect::<Vec<_>>().join(",");
    assert_eq!(header, "time_ps,channel,energy,energy_short,flags,channel_name");
    let mut rows = reader.records();
    for hit in hits(&run) {
        let row = rows.next().expect("a row for each hit").expect("CSV");
        let cell = |column: usize| row[column].parse::<i64>().expect("a number");
        let found = [cell(0), cell(1), cell(2), cell(3), cell(4)];
        let (energy, energy_short) = (i64::from(hit.energy), i64::from(hit.energy_short));
        assert_eq!(found, [hit.time_ps, hit.channel.into(), energy, energy_short, hit.flags.0.into()]);
        assert_eq!(&row[5] == "LaBr3, left", hit.channel == 0, "{row:?}");
    }
    assert!(rows.next().is_none());
    let mut waveforms = csv::Reader::from_path(format!("{out}/waveforms.csv")).expect("exported");
    let first = waveforms.records().next().expect("a waveform").expect("CSV");
    assert_eq!(first[4].split(' ').filter_map(|sample| sample.parse::<i32>().ok()).count(), 64, "{first:?}");
}

#[test]
fn a_run_goes_to_compass_and_our_front_end_reads_the_same_hits_and_waveforms() {
    let folder = Folder::new();
    let run = recorded(&folder);
    let out = folder.at("run.BIN");
    export(&run, &["--to", "compass", "--out", &out]).done();
    assert_eq!(fs::read(&out).expect("exported")[..2], [0xED, 0xCA]);
    let text = format!(
        "[[source]]\nname = \"file\"\nformat = \"compass\"\nurl = \"file://{out}\"\n[record]\ndirectory = \"{}\"\n\
         tables = [\"hits\", \"extras\", \"waveforms\"]\n",
        folder.at("again")
    );
    let summary = thalweg(&["run", &folder.file("again.toml", &text), "--json"]).done().json();
    assert_eq!(number(&summary, "hits_lost"), 0, "{summary:#}");
    let again = run_directory(&summary);
    let seen = |run: &str| -> Vec<_> {
        let seen = |hit: &Hit| (hit.time_ps, hit.channel, hit.energy, hit.energy_short);
        hits(run).iter().map(seen).collect()
    };
    assert!(seen(&run) == seen(&again), "other hits");
    let samples = |run: &str| -> Vec<Vec<i32>> {
        let path = Path::new(run).join("waveforms.arrows");
        let (mut reader, mut rows) = (WaveformsReader::open(&path).expect("recorded"), Vec::new());
        let mut samples = Vec::new();
        while reader.next_batch(&mut rows).expect("whole") {
            samples.extend(rows.drain(..).map(|mut row| std::mem::take(&mut row.analog[0])));
        }
        samples
    };
    assert!(samples(&run).len() > 100 && samples(&run) == samples(&again), "other samples");
}

#[test]
fn export_overwrites_nothing_and_says_what_it_cannot_do() {
    let folder = Folder::new();
    let run = recorded(&folder);
    let taken = folder.file("taken.parquet", "somebody else's");
    let (bin, many, parquet) = (folder.at("run.bin"), folder.at("many.parquet"), folder.at("one.parquet"));
    for (arguments, words) in [
        (&["--to", "parquet", "--table", "hits", "--out", &taken][..], "exists already"),
        (&["--to", "compass", "--out", &bin], "ends with .BIN"),
        (&["--to", "parquet", "--out", &many], "a file holds one table, and 5 are to be exported"),
        (&["--to", "compass", "--table", "raw", "--out", "x.BIN"], "compass cannot hold the table `raw`"),
        (&["--to", "parquet", "--table", "events", "--out", &parquet], "the run has no table `events`"),
    ] {
        let ended = export(&run, arguments);
        assert_eq!(ended.code, Some(2), "{ended:#?}");
        assert!(ended.error.contains(words), "{words}: {}", ended.error);
    }
    assert_eq!(fs::read_to_string(&taken).expect("still there"), "somebody else's");
    let left = fs::read_dir(folder.path()).expect("readable").flatten();
    let parts = left.filter(|entry| entry.file_name().to_string_lossy().ends_with(".part")).count();
    assert_eq!(parts, 0);
    fs::write(format!("{run}/channels.csv"), "number\n0\n").expect("written");
    for (option, words) in [
        (&["--energies", "kev"][..], "no channel of the run is calibrated"),
        (&["--channel-names"], "no channel of the run has a name"),
    ] {
        let ended =
            export(&run, &[&["--to", "parquet", "--table", "hits", "--out", &parquet], option].concat());
        assert_eq!(ended.code, Some(2), "{ended:#?}");
        assert!(ended.error.contains(words), "{words}: {}", ended.error);
    }
}

#[test]
fn export_names_a_damaged_batch_and_what_is_still_good() {
    let folder = Folder::new();
    let run = recorded(&folder);
    let path = format!("{run}/hits.arrows");
    let (mut reader, mut places) =
        (thalweg::record::read::TableReader::open(Path::new(&path)).expect("a table"), Vec::new());
    while let Some(head) = reader.next_batch().expect("whole") {
        places.push((head.end(), head.rows()));
    }
    let file = File::options().read(true).write(true).open(&path).expect("there");
    let mut byte = [0];
    file.read_exact_at(&mut byte, places[1].0 - 100).expect("read");
    file.write_all_at(&[!byte[0]], places[1].0 - 100).expect("written");
    let out = folder.at("hits.csv");
    let ended = export(&run, &["--to", "csv", "--table", "hits", "--out", &out]);
    assert_eq!(ended.code, Some(1), "{ended:#?}");
    let words = format!("the 1 batches before it are whole and hold {} rows", places[0].1);
    for words in ["hits.arrows: batch 1 is damaged", &words, "`thalweg recover` keeps every whole batch"] {
        assert!(ended.error.contains(words), "{words}: {}", ended.error);
    }
    assert!(!Path::new(&out).exists() && !Path::new(&folder.at(".hits.csv.part")).exists());
}

#[test]
fn a_full_disk_ends_an_export_with_a_clear_word_and_removes_it() {
    let folder = Folder::new();
    let run = recorded(&folder);
    // A limit on the size of files is refused by the system as a full disk is.
    let through = ["sh", "-c", "ulimit -f 64; exec \"$@\"", "sh"];
    for (format, name) in [("parquet", "out"), ("csv", "out"), ("compass", "out.BIN"), ("mid", "out.mid")] {
        let out = folder.at(name);
        let ended = Running::start_as(&through, &["export", &run, "--to", format, "--out", &out]).wait();
        assert_eq!(ended.code, Some(1), "{format}: {ended:#?}");
        assert!(ended.error.contains("no space left on the disk"), "{format}: {}", ended.error);
        assert!(!Path::new(&out).exists(), "{format}");
        assert!(!Path::new(&folder.at(&format!(".{name}.part"))).exists(), "{format}");
    }
}

#[test]
fn a_run_that_goes_on_is_exported_as_far_as_it_is_whole() {
    let folder = Folder::new();
    let text = format!(
        "[[source]]\nname = \"board\"\nformat = \"digitizer2\"\nurl = \"emulate://\"\nmemory_bytes = 16_777_216\n\
         [source.emulate]\nrate_hz = 2e4\n[record]\ndirectory = \"{}\"\ntables = [\"hits\"]\nbatch_age_s = 0.1\n",
        folder.at("runs")
    );
    let running =
        Running::start(&["run", &folder.file("run.toml", &text), "--seconds", "60", "--states", "0.1"]);
    running.wait_for_state("hits on file", |state| state["hits_recorded"].as_u64() > Some(1000));
    let out = folder.at("hits.parquet");
    let run = folder.at("runs/000001");
    let report = export(&run, &["--to", "parquet", "--table", "hits", "--out", &out, "--json"]).done().json();
    assert!(number(&report["tables"][0], "rows") > 0, "{report:#}");
    let remark = report["remarks"][0].as_str().expect("a remark");
    assert!(remark.contains("the run has not ended"), "{remark}");
    running.signal("INT");
    running.wait().done();
}
