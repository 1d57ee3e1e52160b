//! Every place in the product that counts is left out, one at a time: a small run must then not balance.
//!
//! ```text
//!  source text ─► all places that count ─┐
//!  runs, whole ─► those that counted ────┴─► a process per place, which leaves it out ─► noticed
//!                                                                                   └─► not noticed, or never reached:
//!                                                                                       must stand in reviewed.txt, with a reason
//! ```
//! What is left out is left out of a whole process, so each such run is a process of its own: this test program again, started by an
//! environment variable. Numbers that people see come from these counts alone; a count that can be left out unseen can be wrong unseen.

mod bytes;
mod reviewed;
mod runs;
mod source_text;

use std::collections::{BTreeMap, BTreeSet};
use std::io::Read;
use std::process::{Command, Stdio};
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use thalweg_data::ledger::site;
use thalweg_frontend::format::FuzzTarget;

use source_text::Place;

/// Names the run of a child process and, behind a space, what it leaves out.
const CHILD: &str = "THALWEG_LEAVE_OUT";
/// Child processes at a time: they wait more than they compute.
const AT_ONCE: usize = 6;
/// A run that takes longer is stuck, which is noticed.
const LIMIT: Duration = Duration::from_secs(120);
/// Runs that a place is tried with first: those in which it counts most, the quickest of them before the others.
const LIKELY: usize = 3;

/// A small run; an error says why it does not balance.
type Run = fn() -> Result<(), String>;

/// The names of all runs: those of bytes alone have their parser's.
fn all_runs() -> Vec<&'static str> {
    FuzzTarget::all().map(|target| target.name).chain(runs::RUNS.iter().map(|(name, _)| *name)).collect()
}

fn run(name: &str) -> Result<(), String> {
    if let Some(target) = FuzzTarget::all().find(|target| target.name == name) {
        return bytes::run(target);
    }
    let (_, run) = runs::RUNS.iter().find(|(each, _)| *each == name).expect("a run of this name");
    run()
}

/// What a child process found.
struct Found {
    /// Whether its run balanced.
    balanced: bool,
    /// What it printed.
    output: String,
    /// How long it took.
    took: Duration,
}

/// Runs one of the runs in a process of its own.
fn in_a_child(run: &str, left_out: Option<&Place>) -> Found {
    let word = left_out.map_or(run.to_owned(), |place| format!("{run} {}:{}", place.file, place.line));
    let mut command = Command::new(std::env::current_exe().expect("a program has a file"));
    command.args(["--exact", "mutation::child", "--nocapture"]).env(CHILD, word).env("RUST_BACKTRACE", "0");
    let mut child = command
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()
        .expect("this program can be started");
    let mut pipe = child.stdout.take().expect("it was asked for");
    let reader = std::thread::spawn(move || {
        let mut output = Vec::new();
        let _cut_short = pipe.read_to_end(&mut output);
        String::from_utf8_lossy(&output).into_owned()
    });
    let begun = Instant::now();
    let balanced = loop {
        match child.try_wait().expect("a child can be waited for") {
            Some(status) => break status.success(),
            None if begun.elapsed() > LIMIT => {
                child.kill().expect("a child can be ended");
                let _status = child.wait();
                break false;
            }
            None => std::thread::sleep(Duration::from_millis(2)),
        }
    };
    Found { balanced, output: reader.join().expect("it reads only"), took: begun.elapsed() }
}

/// What a child process does; in the test program itself nothing.
#[test]
fn child() {
    let Ok(word) = std::env::var(CHILD) else { return };
    let (name, left_out) = word.split_once(' ').unwrap_or((&word, ""));
    match left_out.rsplit_once(':') {
        Some((file, line)) => site::leave_out(file, line.parse().expect("a line")),
        None => site::note_all(),
    }
    let result = run(name);
    for ((file, line), count) in site::counted() {
        println!("\ncounted {file}:{line} {count}");
    }
    if let Err(why) = &result {
        println!("{name}: {why}");
    }
    assert!(result.is_ok(), "{name} does not balance");
}

/// Works on all items, some at a time, in their order.
fn each_of<T: Sync, R: Send>(items: &[T], work: impl Fn(&T) -> R + Sync) -> Vec<R> {
    let (next, results) = (AtomicUsize::new(0), Mutex::new(Vec::new()));
    std::thread::scope(|scope| {
        for _ in 0..AT_ONCE {
            scope.spawn(|| {
                while let Some((place, item)) = Some(next.fetch_add(1, Ordering::Relaxed))
                    .and_then(|place| Some((place, items.get(place)?)))
                {
                    let result = work(item);
                    results.lock().expect("nobody panicked").push((place, result));
                }
            });
        }
    });
    let mut results = results.into_inner().expect("nobody panicked");
    results.sort_by_key(|(place, _)| *place);
    results.into_iter().map(|(_, result)| result).collect()
}

/// A run that counts something in a place.
struct Counting {
    count: u64,
    run: &'static str,
    took: Duration,
}

/// Which runs count something in a place.
type Reached = BTreeMap<Place, Vec<Counting>>;

fn reached(texts: &source_text::Texts) -> Reached {
    let runs = all_runs();
    let found = each_of(&runs, |name| in_a_child(name, None));
    let mut reached = Reached::new();
    for (name, Found { balanced, output, took }) in runs.iter().zip(found) {
        assert!(balanced, "{name} does not balance with every count in place:\n{output}");
        for line in output.lines().filter_map(|line| line.strip_prefix("counted ")) {
            let (site, count) = line.split_once(' ').expect("a place and a count");
            let (file, line) = site.rsplit_once(':').expect("a file and a line");
            if !source_text::is_product(file) {
                continue;
            }
            let place = texts.place(file, line.parse().expect("a line"));
            let counting = Counting { count: count.parse().expect("a count"), run: name, took };
            reached.entry(place).or_default().push(counting);
        }
    }
    reached
}

/// The runs that a place is tried with until one notices, in this order: one that is bytes alone, the likely ones, all others. How much is
/// counted depends on the machine's load, and in some runs it is for nobody: faults that are played in count anew behind them.
fn in_order_of_trying(runs: &[Counting]) -> Vec<&'static str> {
    let mut by_count: Vec<&Counting> = runs.iter().collect();
    by_count.sort_by_key(|counting| std::cmp::Reverse((counting.count, counting.run)));
    let (bytes, mut whole): (Vec<&Counting>, Vec<&Counting>) = by_count
        .into_iter()
        .partition(|counting| FuzzTarget::all().any(|target| target.name == counting.run));
    let likely = whole.len().min(LIKELY);
    whole[..likely].sort_by_key(|counting| counting.took);
    let (first, rest) = bytes.split_at(bytes.len().min(1));
    first.iter().chain(&whole).chain(rest).map(|counting| counting.run).collect()
}

#[test]
fn every_count_is_missed_when_it_is_left_out() {
    if std::env::var_os(CHILD).is_some() {
        return;
    }
    let texts = source_text::Texts::load();
    let reached = reached(&texts);
    let unknown: Vec<&Place> = reached.keys().filter(|place| !texts.all().contains(place)).collect();
    assert!(unknown.is_empty(), "places that count and were not found in the source text: {unknown:?}");

    let list = reviewed::List::load();
    let tried: Vec<(&Place, &Vec<Counting>)> = reached.iter().collect();
    let is_noticed = each_of(&tried, |(place, runs)| {
        // Of what is known not to be noticed, one run says enough.
        let most = if list.has_unnoticed(place) { 1 } else { runs.len() };
        in_order_of_trying(runs).into_iter().take(most).any(|run| !in_a_child(run, Some(place)).balanced)
    });
    let noticed: BTreeSet<&Place> =
        tried.iter().zip(is_noticed).filter(|(_, is)| *is).map(|((place, _), _)| *place).collect();
    let unnoticed: Vec<&Place> = reached.keys().filter(|place| !noticed.contains(place)).collect();
    let unreached: Vec<&Place> = texts.all().iter().filter(|place| !reached.contains_key(place)).collect();
    println!(
        "{} places count; {} are missed when left out, {} are not, {} are reached by no run",
        texts.all().len(),
        noticed.len(),
        unnoticed.len(),
        unreached.len()
    );
    list.hold_against(&unnoticed, &unreached, &noticed, texts.all());
}
