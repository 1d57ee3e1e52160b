//! A stage of one's own: a filter with a reason of its own and a sink, which nothing in the product knows.
//!
//! ```text
//!  HitStageKind + add() ─► [[stage]] ─► counted · drawn · exported · drained
//! ```
//! What a user writes for each of them is between the two lines below.

use std::io::{Read, Write};
use std::net::TcpStream;
use std::path::Path;
use std::sync::Arc;
use std::sync::Once;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use serde_json::Value;
use thalweg_analysis::hit_stage::{self, HitStage, HitStageKind, HitStageRole, HitVerdict, Keys};
use thalweg_data::{Flags, Hits, Unit};
use thalweg_run::config::Configuration;
use thalweg_run::serve::{MessageLog, Served, Subject};
use thalweg_run::supervise::{EndWhen, RunHandle, Summary, Watch};

// ---- a filter: of a channel, hits too soon after another are lost ----------------------------------------------------------

const HOLDOFF: HitStageKind = HitStageKind {
    word: "holdoff",
    about: "loses hits that come too soon after another one of their channel",
    role: HitStageRole::Filter,
    reasons: &[(
        "held_off",
        "hits came too soon after another of their channel: write a shorter `holdoff_ps`",
    )],
    make: |keys| Ok(Box::new(Holdoff::new(keys)?)),
};

struct Holdoff {
    holdoff_ps: i64,
    open_at_ps: Vec<i64>,
}

impl Holdoff {
    fn new(keys: &Keys) -> Result<Holdoff, String> {
        let holdoff_ps = keys.get("holdoff_ps").and_then(Value::as_i64);
        let holdoff_ps = holdoff_ps.ok_or("`holdoff_ps` is missing: write a time in picoseconds")?;
        Ok(Holdoff { holdoff_ps, open_at_ps: vec![i64::MIN; 1 << 16] })
    }
}

impl HitStage for Holdoff {
    fn take(&mut self, batch: &Hits, verdicts: &mut [HitVerdict]) -> Result<(), String> {
        for (hit, verdict) in batch.hits.iter().zip(verdicts) {
            let open_at_ps = &mut self.open_at_ps[usize::from(hit.channel)];
            match hit.time_ps < *open_at_ps {
                true => *verdict = HitVerdict::Lose(0),
                false => *open_at_ps = hit.time_ps + self.holdoff_ps,
            }
        }
        Ok(())
    }
}

// ---- a sink: counts what arrives, and writes it down at the end --------------------------------------------------------------

const COUNTED: HitStageKind = HitStageKind {
    word: "counted_hits",
    about: "counts hits into a file",
    role: HitStageRole::Sink,
    reasons: &[],
    make: |keys| {
        let file = keys.get("file").and_then(Value::as_str).ok_or("`file` is missing: write a path")?;
        Ok(Box::new(Counted { file: file.to_owned(), hits: 0 }))
    },
};

struct Counted {
    file: String,
    hits: u64,
}

impl HitStage for Counted {
    fn take(&mut self, batch: &Hits, _verdicts: &mut [HitVerdict]) -> Result<(), String> {
        self.hits += batch.hits.len() as u64;
        match self.file.is_empty() {
            true => Err("its file has no name".to_owned()),
            false => Ok(()),
        }
    }

    fn finish(&mut self) -> Result<(), String> {
        std::fs::write(&self.file, self.hits.to_string()).map_err(|error| format!("{}: {error}", self.file))
    }
}

// ------------------------------------------------------------------------------------------------------------------------------

pub fn add_both() {
    static ADDED: Once = Once::new();
    ADDED.call_once(|| {
        hit_stage::add(HOLDOFF).expect("a new word");
        hit_stage::add(COUNTED).expect("a new word");
    });
}

fn configuration(folder: &Path, stages: &str) -> Result<Configuration, String> {
    let record = folder.join("runs");
    let source = |name: &str, board: u16| {
        format!(
            "[[source]]\nname = \"{name}\"\nformat = \"digitizer2\"\nurl = \"emulate://\"\nchannels = 4\nfirst_channel = {}\n\
             memory_bytes = 33_554_432\n[source.emulate]\nboard = {board}\nboards = 2\nchannels = 4\nrate_hz = 20000.0\n\
             aggregate_hits = 20\nwaveform_samples = 16\nwaveform_every = 10\n",
            4 * board
        )
    };
    let text = format!(
        "{}{}{stages}[[cut]]\nname = \"strong\"\nkeep = \"energy > 100\"\n[record]\ndirectory = {record:?}\n\
         tables = [\"hits\", \"extras\", \"waveforms\", \"raw\"]\n[monitor]\nlisten = \"127.0.0.1:0\"\n",
        source("a", 0),
        source("b", 1)
    );
    Configuration::parse(Path::new("stages.toml"), text).map_err(|error| error.to_string())
}

/// What `GET path` answers.
fn get(address: std::net::SocketAddr, path: &str) -> String {
    let mut stream = TcpStream::connect(address).expect("it listens");
    write!(stream, "GET {path} HTTP/1.1\r\nHost: {address}\r\nConnection: close\r\n\r\n").expect("sent");
    let mut answer = String::new();
    stream.read_to_string(&mut answer).expect("text");
    answer
}

/// Runs until so many hits are recorded; gives what the page's state and the metrics said behind the last one.
fn run(configuration: &Configuration, hits: u64) -> (Summary, String, String) {
    let handle = RunHandle::new();
    let served =
        Arc::new(Served::new(Subject::Run(handle.clone()), configuration.clone(), MessageLog::default()));
    let monitor = served.start().expect("a free port").expect("a page is asked for");
    let never = AtomicBool::new(false);
    let mut watch = Watch { show: &mut |_| {}, stop: &never, handle };
    let end = EndWhen { hits: Some(hits), seconds: Some(60.0), events: None };
    let summary = thalweg_run::run(configuration, end, &mut watch).expect("it starts");
    let said = (get(monitor.address(), "/api/state"), get(monitor.address(), "/metrics"));
    (summary, said.0, said.1)
}

fn sum_of(summary: &Summary, stage: &str, of: impl Fn(&thalweg_data::ledger::Entries) -> u64) -> u64 {
    let entries =
        summary.ledger.iter().filter(|entry| entry.stage.word() == stage && entry.unit == Unit::Hits);
    entries.map(of).sum()
}

#[test]
fn a_filter_and_a_sink_of_ones_own_are_counted_drawn_exported_and_drained() {
    add_both();
    let folder = tempfile::tempdir().expect("temporary folder");
    let file = folder.path().join("count");
    let stages = format!(
        "[[stage]]\nkind = \"holdoff\"\nholdoff_ps = 20_000_000\n[[stage]]\nkind = \"prescale\"\nkeep_one_in = 2\nchannels = [3]\n\
         [[stage]]\nkind = \"counted_hits\"\nfile = {file:?}\n"
    );
    let (summary, state, metrics) = run(&configuration(folder.path(), &stages).expect("valid"), 30_000);
    assert!(summary.is_good(), "{:?} {:?}", summary.discrepancies, summary.failures);
    // Counted, by a balance equation that holds at every stage.
    let lost = sum_of(&summary, "holdoff", |entry| entry.lost.get("held_off").copied().unwrap_or(0));
    let (ordered, passed) =
        (sum_of(&summary, "order", |e| e.output), sum_of(&summary, "holdoff", |e| e.output));
    assert!(lost > 100 && ordered == passed + lost, "{ordered} = {passed} + {lost}");
    let prescaled = sum_of(&summary, "prescale", |entry| entry.output);
    assert!(prescaled < passed && sum_of(&summary, "prescale", |entry| entry.filtered) == passed - prescaled);
    assert_eq!(sum_of(&summary, "record", |entry| entry.input), prescaled);
    let loss = summary.losses.iter().find(|loss| loss.reason.word() == "held_off").expect("listed");
    assert!(loss.advice.contains("write a shorter `holdoff_ps`"), "{}", loss.advice);
    // Lost hits of the run, for whoever says how many these are: the summary, the page, what is read of the recording.
    assert_eq!(summary.hits_lost, Some(lost));
    let words = format!("hits lost: {lost} (");
    assert!(summary.loss.text().starts_with(&words), "{}", summary.loss.text());
    assert!(state.contains(&format!("\"text\":\"{words}")), "{words} in {state}");
    // Drained: the sink has what it was given to the last hit.
    let arrived = std::fs::read_to_string(&file).expect("written at the end");
    assert_eq!(arrived.parse(), Ok(prescaled), "{arrived}");
    // Drawn and exported.
    let flow = state.split("\"flow\"").nth(1).expect("the page's picture");
    for word in ["holdoff", "held_off", "prescale", "counted_hits"] {
        assert!(flow.contains(&format!("\"{word}\"")), "{word} in {flow}");
        assert!(metrics.contains(&format!("\"{word}\"")), "{word} in {metrics}");
    }
    // Kept with the recording, which verifies and replays bit by bit.
    let recorded = summary.run_directory.expect("recorded");
    let report = thalweg_record::verify(&recorded).expect("readable");
    assert!(report.ok, "{:?}", report.problems);
    assert_eq!(report.ledger.loss.text(), summary.loss.text());
    let snapshot = thalweg_data::Ledger::read_file(&recorded.join("ledger.bin")).expect("readable");
    assert!(snapshot.close() && snapshot.entries().iter().any(|entry| entry.lost.contains_key("held_off")));
    let never = AtomicBool::new(false);
    let mut watch = Watch { show: &mut |_| {}, stop: &never, handle: RunHandle::new() };
    let again = thalweg_run::replay(&recorded, &folder.path().join("again"), &mut watch).expect("it replays");
    assert!(again.is_good(), "{:?} {:?}", again.discrepancies, again.failures);
    let table = |directory: &Path| std::fs::read(directory.join("hits.arrows")).expect("there");
    assert!(table(&recorded) == table(&again.run_directory.expect("recorded")), "the same hits");
}

/// A starved machine made hits late in a run that left every second one out, and its recording did not verify.
#[test]
fn late_hits_that_a_stage_leaves_out_are_not_missed_on_file() {
    let folder = tempfile::tempdir().expect("temporary folder");
    let late = "[[stage]]\nkind = \"prescale\"\nkeep_one_in = 2\n[order]\ndisorder_ps = 0\nstall_ms = 1\n";
    let (summary, ..) = run(&configuration(folder.path(), late).expect("valid"), 20_000);
    assert!(summary.is_good(), "{:?} {:?}", summary.discrepancies, summary.failures);
    let report = thalweg_record::verify(&summary.run_directory.expect("recorded")).expect("readable");
    assert!(report.ok, "{:?}", report.problems);
    let late = summary.hits_late.expect("they are counted");
    assert!(late > report.hits_late && report.hits_late > 0, "{late} {}", report.hits_late);
}

#[test]
fn a_sink_that_fails_ends_the_run_and_what_it_did_not_take_is_counted() {
    add_both();
    let folder = tempfile::tempdir().expect("temporary folder");
    let stages = "[[stage]]\nkind = \"counted_hits\"\nfile = \"\"\n";
    let (summary, state, _) = run(&configuration(folder.path(), stages).expect("valid"), 1_000_000_000);
    assert!(
        summary.failures.iter().any(|words| words == "counted_hits: its file has no name"),
        "{:?}",
        summary.failures
    );
    assert_eq!(summary.discrepancies, [""; 0], "what a branch of its own has lost is in the ledger");
    let lost = sum_of(&summary, "counted_hits", |entry| entry.lost.get("write_failed").copied().unwrap_or(0));
    assert_eq!(lost, sum_of(&summary, "counted_hits", |entry| entry.input));
    assert_eq!(summary.hits_lost, Some(0), "the recording has them all");
    assert!(!state.contains("\"text\":\"hits lost"), "nor has the page lost any: {state}");
    let report = thalweg_record::verify(&summary.run_directory.expect("recorded")).expect("readable");
    assert_eq!(report.ledger.loss.text(), "no hits lost");
}

#[test]
fn a_stage_that_is_not_there_is_refused_with_its_line_and_what_there_is() {
    let folder = tempfile::tempdir().expect("temporary folder");
    let refused = |stages: &str| {
        let configuration = configuration(folder.path(), stages).expect("it reads");
        thalweg_run::plan::Plan::of(&configuration).map(drop).expect_err("it is invalid").to_string()
    };
    let words = refused("[[stage]]\nkind = \"sharpen\"\n");
    assert!(words.contains("this program has no such stage; it has \"prescale\""), "{words}");
    assert!(words.contains("stages.toml:"), "{words}");
    add_both();
    let words = refused("[[stage]]\nkind = \"holdoff\"\n");
    assert!(words.contains("`holdoff_ps` is missing: write a time in picoseconds"), "{words}");
}

/// Hits that a stage has looked at, for tests of what it is given.
#[test]
fn stages_see_hits_in_time_order() {
    static OUT_OF_ORDER: AtomicU64 = AtomicU64::new(0);
    struct Watched(i64);
    impl HitStage for Watched {
        fn take(&mut self, batch: &Hits, _verdicts: &mut [HitVerdict]) -> Result<(), String> {
            // On a machine that gives a board no time for as long as `stall_ms` its hits come late, and say so.
            for hit in batch.hits.iter().filter(|hit| !hit.flags.has(Flags::LATE)) {
                OUT_OF_ORDER.fetch_add(u64::from(hit.time_ps < self.0), Ordering::Relaxed);
                self.0 = hit.time_ps;
            }
            Ok(())
        }
    }
    let kind = HitStageKind {
        word: "watched",
        about: "looks at times",
        role: HitStageRole::Sink,
        reasons: &[],
        make: |_| Ok(Box::new(Watched(i64::MIN))),
    };
    hit_stage::add(kind).expect("a new word");
    assert!(hit_stage::add(kind).is_err(), "there is one already");
    let folder = tempfile::tempdir().expect("temporary folder");
    let (summary, ..) =
        run(&configuration(folder.path(), "[[stage]]\nkind = \"watched\"\n").expect("valid"), 20_000);
    assert!(summary.is_good(), "{:?}", summary.failures);
    assert_eq!(OUT_OF_ORDER.load(Ordering::Relaxed), 0);
}
