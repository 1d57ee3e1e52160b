//! Every number that the terminal shows, against the ledger of the run.
//!
//! ```text
//!  boards of hits that lose datagrams, triggered boards that miss and double answers, triggers refused
//!    ─► standard error: status lines   = the live states (--states), whose counts are those of their ledger
//!    ─► standard output: the summary   = run.json: its ledger, and what its clocks say
//! ```
//! The lines are written here once more, out of those numbers; none may be left that is not expected.

use std::collections::BTreeMap;
use std::fs::File;

use serde_json::Value;

use crate::process::{Folder, Running, number, wait_until};

const TRIGGERS: u64 = 6000;

/// Two boards of hits, one of which reports its dead time; three triggered boards that double an answer now and then, and one that
/// leaves one out, so that events wait for it, the window is full and triggers are refused.
fn configuration(folder: &Folder) -> String {
    let hits = |name: &str, board: u16, more: &str| {
        format!(
            "[[source]]\nname = \"{name}\"\nformat = \"digitizer2\"\nurl = \"emulate://\"\nmemory_bytes = 16_777_216\nchannels = 4\n\
             first_channel = {}\nloss = 0.02\n\
             [source.emulate]\nboard = {board}\nboards = 2\nchannels = 4\nrate_hz = 10000\n{more}\n",
            4 * board
        )
    };
    let triggered = |name: &str, boards: u16, faults: &str| {
        format!(
            "[[source]]\nname = \"{name}\"\nformat = \"sitcp\"\nurl = \"emulate://\"\nmemory_bytes = 16_777_216\nboards = {boards}\n\
             [source.emulate.faults]\n{faults}\n"
        )
    };
    let text = format!(
        "{}{}{}{}[trigger]\nprogram = \"constant\"\nrate_hz = 2000.0\ntriggers = {TRIGGERS}\n\
         [build]\ndepth = 64\nage_ms = 100\n[coincidence]\nwindow_ps = 2_000_000\n[record]\ndirectory = \"{}\"\n",
        hits("left", 0, ""),
        hits("right", 1, "statistics_interval_ms = 100"),
        triggered("lab", 3, "double_every = 333"),
        triggered("weak", 1, "lose_every = 100"),
        folder.at("runs")
    );
    folder.file("run.toml", &text)
}

/// Everything that was said.
struct Said {
    status: Vec<String>,
    states: Vec<Value>,
    summary: Vec<String>,
    record: Value,
}

fn states(output: &str) -> impl DoubleEndedIterator<Item = Value> + '_ {
    let lines = output.lines().filter(|line| line.starts_with("{\"sequence\""));
    lines.filter_map(|line| serde_json::from_str(line).ok())
}

/// A run until all triggers have come, what could be built is, and a status line was shown; the boards of hits go on to its end.
fn run(folder: &Folder) -> Said {
    let file = configuration(folder);
    let (out, error) = (folder.at("out.txt"), folder.at("error.txt"));
    let create = |path: &str| File::create(path).expect("a writable folder");
    let arguments = ["run", &file, "--states", "0.001"];
    let running = Running::start_to(&[], &arguments, create(&out).into(), create(&error).into());
    let read = |path: &str| std::fs::read_to_string(path).expect("it is text");
    let is_over = |state: &Value| {
        let (events, trigger) = (&state["events"], &state["trigger"]);
        trigger["offered"] == TRIGGERS
            && events["open_events"] == 0
            && events["events_recorded"] == trigger["accepted"]
    };
    wait_until("every trigger is answered and recorded, and a status line is shown", || {
        read(&error).contains(" left\n") && states(&read(&out)).rev().take(3).filter(is_over).count() == 3
    });
    running.signal("INT");
    assert_eq!(running.wait().code, Some(0), "{}{}", read(&error), read(&out));
    let (out, error) = (read(&out), read(&error));
    let summary = out.lines().filter(|line| !line.starts_with("{\"sequence\"")).map(str::to_owned).collect();
    let record = std::fs::read_to_string(folder.at("runs/000001/run.json")).expect("written");
    Said {
        status: error
            .lines()
            .filter(|line| line.contains("events/s") || line.contains("hits recorded"))
            .map(str::to_owned)
            .collect(),
        states: states(&out).collect(),
        summary,
        record: serde_json::from_str(&record).expect("JSON"),
    }
}

/// Lines of a ledger.
struct Ledger<'v>(&'v [Value]);

impl<'v> Ledger<'v> {
    fn of(entries: &'v Value) -> Ledger<'v> {
        Ledger(entries.as_array().expect("a list"))
    }

    fn at<'l>(&'l self, stage: &'l str, unit: &'l str) -> impl Iterator<Item = &'v Value> + 'l {
        self.0.iter().filter(move |line| line["stage"] == stage && line["unit"] == unit)
    }

    fn of_sources<'l>(
        &'l self,
        sources: &'l [&str],
        stage: &'l str,
        unit: &'l str,
    ) -> impl Iterator<Item = &'v Value> + 'l {
        self.at(stage, unit).filter(|line| sources.iter().any(|source| line["source"] == *source))
    }

    fn sum(&self, sources: &[&str], stage: &str, unit: &str, key: &str) -> u64 {
        self.of_sources(sources, stage, unit).map(|line| number(line, key)).sum()
    }

    fn lost(&self, sources: &[&str], stage: &str, unit: &str, reason: &str) -> u64 {
        self.of_sources(sources, stage, unit).map(|line| line["lost"][reason].as_u64().unwrap_or(0)).sum()
    }

    /// How many of a unit there were at the stage of a source that had most of them.
    fn most_at(&self, source: &str, unit: &str) -> u64 {
        let own = self.0.iter().filter(|line| line["source"] == source && line["unit"] == unit);
        let became = |line: &Value| {
            let lost = line["lost"].as_object().expect("counts").values();
            let kept = ["out", "overhead", "filtered", "held"].map(|key| number(line, key));
            kept.iter().sum::<u64>() + lost.map(|count| count.as_u64().expect("a count")).sum::<u64>()
        };
        own.map(|line| number(line, "in").max(became(line))).max().unwrap_or(0)
    }

    /// Lost for any reason.
    fn lost_at(&self, sources: &[&str], stage: &str, unit: &str) -> u64 {
        let lost = self.of_sources(sources, stage, unit).map(|line| &line["lost"]);
        lost.flat_map(|lost| lost.as_object().expect("counts").values())
            .map(|count| count.as_u64().expect("a count"))
            .sum()
    }
}

fn float(value: &Value, key: &str) -> f64 {
    value[key].as_f64().unwrap_or_else(|| panic!("`{key}` is a number in {value:#}"))
}

fn word<'v>(value: &'v Value, key: &str) -> &'v str {
    value[key].as_str().unwrap_or_else(|| panic!("`{key}` is a word in {value:#}"))
}

/// ` (2.0 %)`.
fn percent(about: &str, count: u64, of: u64) -> String {
    match 100.0 * count as f64 / of as f64 {
        _ if of == 0 => String::new(),
        small if small < 0.01 && !about.is_empty() => String::new(),
        small if small < 0.01 && count > 0 => " (< 0.01 %)".to_owned(),
        percent if percent < 1.0 => format!(" ({about}{percent:.2} %)"),
        percent => format!(" ({about}{percent:.1} %)"),
    }
}

fn lost(unit: &str, count: u64, of: u64) -> String {
    match count {
        0 => format!("no {unit} lost"),
        count => format!("{unit} lost: {count}{}", percent("", count, of)),
    }
}

const OF_HITS: [&str; 2] = ["left", "right"];
const BOARDS: [&str; 4] = ["lab-1", "lab-2", "lab-3", "weak"];
const TRIGGERED: [&str; 2] = ["lab", "weak"];
const EVENTS: [&str; 1] = ["events"];

/// What the summary says, out of run.json; what run.json does not have, out of the last state, behind which no event was built.
fn expected_summary(record: &Value, last: &Value) -> Vec<String> {
    let (details, ledger) = (&record["details"], Ledger::of(&record["ledger"]["entries"]));
    let seconds = float(details, "elapsed_seconds");
    let hits = ledger.sum(&OF_HITS, "record", "hits", "out");
    let mut lines = expected_events(details, &ledger, last);
    lines.push(format!(" {hits} hits recorded ({:.3} M/s)", hits as f64 / seconds / 1e6));
    lines.extend(expected_sources(details, &ledger));
    let coincidences = ledger.sum(&["coincidences"], "record", "events", "out");
    lines.push(format!("  {coincidences} coincidences recorded"));
    let late = number(details, "hits_late");
    if late > 0 {
        lines.push(format!(
            "  {late} hits came too late for the time order; they are recorded, flagged `late`"
        ));
    }
    lines.extend(expected_totals(&ledger, details));
    assert_eq!(number(details, "bytes_unread"), 0);
    lines.extend(expected_host_counters(details));
    lines.extend(expected_kinds(record, &ledger));
    lines.extend(expected_refused(details));
    lines
}

/// What the host threw away meanwhile, of whatever program: the tests beside this one lose datagrams, too.
fn expected_host_counters(details: &Value) -> Option<String> {
    let counters = details["host_counters"].as_array().expect("a list").iter();
    let lost: Vec<String> = counters
        .filter(|counter| number(counter, "total") > 0 && word(counter, "name") != "host_softnet_squeezed")
        .map(|counter| format!("{} {}", word(counter, "name"), number(counter, "total")))
        .collect();
    (!lost.is_empty()).then(|| format!("the host's counters meanwhile, of all programs: {}", lost.join(", ")))
}

/// The first lines, down to the dead time.
fn expected_events(details: &Value, ledger: &Ledger<'_>, last: &Value) -> Vec<String> {
    let seconds = float(details, "elapsed_seconds");
    let built = ledger.sum(&EVENTS, "build", "events", "out");
    let recorded = ledger.sum(&EVENTS, "record", "events", "out");
    let rate = built as f64 / seconds;
    let mut lines = vec![format!(
        "stopped after {seconds:.2} s: {built} events built ({rate:.0}/s), {recorded} recorded"
    )];
    let partial = number(&last["events"], "events_partial");
    let missing = ledger.lost(&BOARDS, "wire", "fragments", "missing_fragment");
    let unused = ledger.lost_at(&BOARDS, "build", "fragments");
    lines.push(format!(
        "  {} complete, {partial} partial; {missing} fragments never came, {unused} came and could not be used",
        built - partial
    ));
    let unseen = number(details, "triggers_unseen");
    if unseen > 0 {
        lines.push(format!(
            "  triggers unseen: {unseen} ({:.2} %), numbers that came from no board",
            100.0 * unseen as f64 / (built + unseen) as f64
        ));
    }
    let micros = |key| float(&last["events"], key) / 1e3;
    lines.push(format!(
        "  event size p50 {} B; build latency p50 {:.0} µs, p99 {:.0} µs",
        number(&last["events"], "median_event_bytes"),
        micros("median_build_ns"),
        micros("p99_build_ns")
    ));
    let offered = ledger.sum(&EVENTS, "trigger", "events", "in");
    let refused = ledger.lost(&EVENTS, "trigger", "events", "busy");
    lines.push(format!(
        "  triggers: {offered} offered, {refused} refused; dead time {:.2} % (refused ÷ offered)",
        100.0 * refused as f64 / offered as f64
    ));
    let busy = float(&details["busy_time"], "dead_seconds");
    lines.push(format!(
        "  BUSY for {busy:.3} s, {:.2} % of the time; live time {:.3} s",
        100.0 * busy / seconds,
        seconds - busy
    ));
    // None of its events is lost.
    let (stand_for, rate) = (&details["events"]["loss_corrected"], &details["events"]["rate_hz"]);
    assert_eq!(float(stand_for, "value"), built as f64, "{stand_for}");
    lines.push(format!(
        "  they stand for {built} ± {:.0} accepted triggers, losses included",
        (built as f64).sqrt()
    ));
    let real_time_s = float(&details["events"], "real_time_s");
    assert!((float(rate, "value") - offered as f64 / real_time_s).abs() < 1e-6, "{rate}");
    lines.push(format!(
        "  {:.1} ± {:.1} triggers per second, dead time and losses included",
        offered as f64 / real_time_s,
        (offered as f64).sqrt() / real_time_s
    ));
    lines
}

/// What each source gave, and its dead time where its boards report it.
fn expected_sources(details: &Value, ledger: &Ledger<'_>) -> Vec<String> {
    let mut lines = Vec::new();
    for source in details["sources"].as_array().expect("a list") {
        let name = word(source, "name");
        let (boards, stage, unit) = match name {
            "lab" => (&BOARDS[..3], "unpack", "fragments"),
            "weak" => (&BOARDS[3..], "unpack", "fragments"),
            "left" => (&OF_HITS[..1], "decode", "hits"),
            _ => (&OF_HITS[1..], "decode", "hits"),
        };
        lines.push(format!(
            "  {name:<12} {:>12} {unit}  {:>14} bytes  {}",
            ledger.sum(boards, stage, unit, "out"),
            ledger.sum(boards, "receive", "bytes", "out"),
            word(source, "description")
        ));
        if let Some(time) = Some(&source["dead_time"]).filter(|time| !time.is_null()) {
            lines.push(format!(
                "               dead time {:.2} %, live time {:.3} s, as its boards report",
                100.0 * float(time, "fraction"),
                float(time, "live_seconds")
            ));
        }
        let rate = &source["corrected_rate_hz"];
        if !rate["value"].is_null() {
            lines.push(format!(
                "               {:.1} ± {:.1} pulses per second of live time, losses included",
                float(rate, "value"),
                float(rate, "uncertainty")
            ));
        }
    }
    lines
}

/// What is lost of hits, fragments and events, whose senders report their totals, and of coincidences.
fn expected_totals(ledger: &Ledger<'_>, details: &Value) -> Vec<String> {
    let sent = ledger.sum(&OF_HITS, "sender", "hits", "in");
    let stages = ["sender", "wire", "unpack", "decode", "order", "cut", "record"];
    let hits_lost = stages.iter().map(|stage| ledger.lost_at(&OF_HITS, stage, "hits")).sum();
    assert_eq!(sent, ledger.sum(&OF_HITS, "record", "hits", "out") + hits_lost);
    let stages = ["sender", "build", "record"];
    let fragments_lost = stages.iter().map(|stage| ledger.lost_at(&BOARDS, stage, "fragments")).sum();
    let fragments = BOARDS.map(|board| ledger.most_at(board, "fragments")).iter().sum();
    let events_lost = number(details, "triggers_unseen")
        + ledger.lost_at(&EVENTS, "build", "events")
        + ledger.lost_at(&EVENTS, "record", "events");
    let recorded = ledger.sum(&EVENTS, "record", "events", "out");
    let coincidences_lost = ledger.lost_at(&["coincidences"], "record", "events");
    let coincidences = ledger.sum(&["coincidences"], "record", "events", "out") + coincidences_lost;
    vec![
        format!("hits sent: {sent}"),
        lost("hits", hits_lost, sent),
        lost("fragments", fragments_lost, fragments),
        lost("events", events_lost, recorded + events_lost),
        lost("coincidences", coincidences_lost, coincidences),
    ]
}

/// Reasons by which something is missing on the wire that was not refused behind it, where it is counted then.
const GAPS: [&str; 6] =
    ["never_received", "datagram_gap", "buffer_gap", "frame_gap", "fragment_missing", "missing_fragment"];

/// Losses by place, reason and unit, without the advice.
fn expected_kinds(record: &Value, ledger: &Ledger<'_>) -> Vec<String> {
    let is_own = |loss: &&Value| loss["stage"] != "wire" || GAPS.contains(&word(loss, "reason"));
    let losses: Vec<&Value> =
        record["ledger"]["losses"].as_array().expect("a list").iter().filter(is_own).collect();
    let key =
        |loss: &Value| [word(loss, "stage"), word(loss, "reason"), word(loss, "source")].map(str::to_owned);
    let mut kinds: BTreeMap<[&str; 3], Vec<&Value>> = BTreeMap::new();
    for loss in &losses {
        let (stage, reason, unit) = (word(loss, "stage"), word(loss, "reason"), word(loss, "unit"));
        let counted = ledger.lost(&[word(loss, "source")], stage, unit, reason);
        assert_eq!(number(loss, "count"), counted, "{loss:#}");
        let in_larger_unit = losses.iter().any(|other| key(other) == key(loss) && other["unit"] != "bytes");
        if unit != "bytes" || !in_larger_unit {
            kinds.entry([stage, reason, unit]).or_default().push(loss);
        }
    }
    let line = |([stage, reason, unit], losses): (&[&str; 3], &Vec<&Value>)| {
        let sum = |key| losses.iter().map(|loss| number(loss, key)).sum::<u64>();
        let most = losses.iter().rev().max_by_key(|loss| number(loss, "count")).expect("some");
        let whose = match losses.len() {
            1 => word(most, "source").to_owned(),
            several => {
                format!("{several} sources, most of {} ({})", word(most, "source"), number(most, "count"))
            }
        };
        let (verb, unit) = if *reason == "busy" { ("refused", "triggers") } else { ("lost", *unit) };
        let (quality, about) = match word(most, "quality") {
            "exact" => ("", ""),
            "at_least" => ("at least ", "≥ "),
            _ => ("an unknown number, at least ", "≥ "),
        };
        let (count, percent) = (sum("count"), percent(about, sum("count"), sum("of")));
        format!("  {verb} {quality}{count} {unit}{percent} of {whose} at {stage}: {reason}")
    };
    kinds.iter().map(line).collect()
}

/// The first refused units of each kind, and how many more there are.
fn expected_refused(details: &Value) -> Vec<String> {
    let units = details["refused"].as_array().expect("a list");
    let mut shown: Vec<&Value> = Vec::new();
    for unit in units {
        if !shown.iter().any(|other| other["stage"] == unit["stage"] && other["reason"] == unit["reason"]) {
            shown.push(unit);
        }
    }
    let mut lines = vec!["refused, the first of each kind:".to_owned()];
    for unit in &shown {
        lines.push(format!(
            "  {} at {}: {}: trigger {}, {} bytes after {:.3} s; expected {}",
            word(unit, "source"),
            word(unit, "stage"),
            word(unit, "reason"),
            number(unit, "trigger"),
            number(unit, "bytes"),
            float(unit, "seconds"),
            word(unit, "expected")
        ));
        let head = word(unit, "head");
        for at in (0..head.len()).step_by(32).take(3) {
            let words = (at..head.len().min(at + 32)).step_by(8).map(|at| &head[at..head.len().min(at + 8)]);
            lines.push(format!("    {:04x}  {}", at / 2, words.collect::<Vec<_>>().join(" ")));
        }
    }
    if units.len() > shown.len() {
        lines.push(format!("  … and {} more dumps in run.json", units.len() - shown.len()));
    }
    lines
}

/// A number with an SI prefix and three digits.
fn si(value: f64) -> String {
    let prefixes = [(1e12, " T"), (1e9, " G"), (1e6, " M"), (1e3, " k")];
    let (scale, prefix) = prefixes.into_iter().find(|(scale, _)| value >= *scale).unwrap_or((1.0, " "));
    let digits = match value / scale {
        whole if scale == 1.0 && whole.fract() == 0.0 => 0,
        large if large >= 100.0 => 0,
        middle if middle >= 10.0 => 1,
        _ => 2,
    };
    format!("{:.digits$}{prefix}", value / scale)
}

fn many(value: f64) -> String {
    format!("{} ", si(value).trim_end())
}

fn duration(seconds: f64) -> String {
    match seconds as u64 {
        whole @ 0..60 => format!("{whole} s"),
        whole @ 60..3600 => format!("{} m {:02} s", whole / 60, whole % 60),
        whole @ 3600..86_400 => format!("{} h {:02} m", whole / 3600, whole / 60 % 60),
        whole => format!("{} d {:02} h", whole / 86_400, whole / 3600 % 24),
    }
}

/// A rate as it is shown, or the dash of one that is not known.
fn rate(value: &Value, key: &str) -> String {
    if value[key].is_null() { "– ".to_owned() } else { many(float(value, key)) }
}

/// The two status lines of a state, its counts out of its ledger.
fn expected_status(state: &Value) -> [String; 2] {
    let (events, ledger) = (&state["events"], Ledger::of(&state["ledger"]));
    let recorded = ledger.sum(&EVENTS, "record", "events", "out");
    assert_eq!(number(events, "events_recorded"), recorded, "{state:#}");
    let completeness = events["completeness"].as_array().expect("a list").iter();
    let behind = |board: &&Value| number(board, "expected") - number(board, "built");
    let worst = completeness.filter(|board| behind(board) > 0).max_by_key(behind);
    let missing = worst.map_or(String::new(), |board| {
        format!("  {} MISSING {} of {}", word(board, "name"), behind(&board), number(board, "expected"))
    });
    let of_events = format!(
        "  {:>9}events/s  {:>9}recorded  {} partial  {:>8}B each  {:>6} open  build latency p50 {:>5.0} µs  \
         BUSY {:>3.0} % of the time{missing}",
        rate(events, "event_rate_hz"),
        many(recorded as f64),
        si(number(events, "events_partial") as f64).trim_end(),
        si(float(events, "median_event_bytes")),
        number(events, "open_events"),
        float(events, "median_build_ns") / 1e3,
        100.0 * float(&state["busy_time"], "fraction"),
    );
    let hits = ledger.sum(&OF_HITS, "record", "hits", "out");
    let losses = state["loss"].as_array().expect("a list").iter();
    let losses: Vec<String> = losses
        .map(|loss| match word(loss, "unit") {
            // The boards are asked what was in the frames that did not come.
            "hits" if number(loss, "count") > 0 => {
                let stages = ["wire", "unpack", "decode", "order", "cut", "record"];
                let lost = stages.iter().map(|stage| ledger.lost_at(&OF_HITS, stage, "hits")).sum();
                assert_eq!((word(loss, "quality"), number(loss, "count")), ("exact", lost), "{state:#}");
                self::lost("hits", lost, number(loss, "of")).replace(" lost:", " LOST:")
            }
            "fragments" if loss["quality"] == "exact" => {
                // On the wire what came too late and was refused is missing, too.
                let missing = |reason: &&str| ledger.lost(&TRIGGERED, "wire", "fragments", reason);
                let refused = |stage: &&str| ledger.lost_at(&TRIGGERED, stage, "fragments");
                let lost = GAPS.iter().map(missing).sum::<u64>()
                    + ["build", "record"].iter().map(refused).sum::<u64>();
                let of = number(loss, "of");
                assert_eq!(number(loss, "count"), lost, "{state:#}");
                self::lost("fragments", lost, of).replace(" lost:", " LOST:")
            }
            _ => word(loss, "text").replacen(" lost:", " LOST:", 1),
        })
        .collect();
    let trigger = &state["trigger"];
    let dead = float(&state["dead_time"], "fraction");
    let refused = number(trigger, "refused") as f64 / number(trigger, "offered") as f64;
    // The parser of JSON may miss the last digit.
    assert!((dead - refused).abs() <= 1e-15, "{dead} and {refused}: {state:#}");
    let left = state["disk_left_seconds"].as_f64().map_or("unknown".to_owned(), duration);
    let of_all = format!(
        "● running  {}  {:>9}hits/s  {:>9}hits recorded  {}  dead time {:.1} % (of the triggers refused)  disk {}B free, {left} left",
        duration(float(state, "elapsed_seconds")),
        rate(state, "recorded_rate_hz"),
        many(hits as f64),
        losses.join("; "),
        100.0 * dead,
        si(float(state, "disk_free_bytes")),
    );
    [of_events, of_all]
}

#[test]
fn every_number_of_the_status_lines_and_of_the_summary_is_that_of_the_ledger() {
    let folder = Folder::new();
    let Said { status, states, summary, record } = run(&folder);
    assert!(!status.is_empty() && status.len().is_multiple_of(2), "{status:#?}");
    let known: Vec<[String; 2]> = states
        .iter()
        .filter(|state| state["trigger"]["offered"].as_u64() > Some(0))
        .map(expected_status)
        .collect();
    for lines in status.chunks(2) {
        assert!(known.iter().any(|state| state == lines), "{lines:#?} is none of {known:#?}");
    }
    let ledger = Ledger::of(&record["ledger"]["entries"]);
    for (unit, sources) in [("hits", &OF_HITS[..]), ("fragments", &BOARDS), ("frames", &OF_HITS)] {
        let lost: u64 =
            ["sender", "wire", "build"].map(|stage| ledger.lost_at(sources, stage, unit)).iter().sum();
        assert!(lost > 0, "no {unit} were lost: {record:#}");
    }
    assert!(ledger.lost(&EVENTS, "trigger", "events", "busy") > 0, "no trigger was refused: {record:#}");

    let last = states.last().expect("shown while it ran");
    let mut found: Vec<String> = Vec::new();
    let (mut snapshots, mut place) = (None, None);
    for line in &summary {
        if let Some(words) = line.strip_prefix("the ledger balances (") {
            let count = words.strip_suffix(" snapshots on the way)").expect("it is about snapshots");
            snapshots = Some(count.parse::<u64>().expect("a number"));
        } else if let Some(directory) = line.strip_prefix("recorded in ") {
            place = Some(directory.to_owned());
        } else {
            // Of a loss what was lost; what to do is words.
            let kind = line
                .split_once(" — ")
                .filter(|_| line.starts_with("  lost ") || line.starts_with("  refused "));
            found.push(kind.map_or(line.as_str(), |(what, _)| what).to_owned());
        }
    }
    let mut expected = expected_summary(&record, last);
    // Kinds of losses are in path order, which run.json does not have: their lines are compared as a set.
    let is_kind = |line: &String| line.starts_with("  lost ") || line.starts_with("  refused ");
    let kinds = |lines: &mut Vec<String>| {
        let mut kinds: Vec<String> = lines.extract_if(.., |line| is_kind(line)).collect();
        kinds.sort();
        kinds
    };
    assert_eq!(kinds(&mut found), kinds(&mut expected));
    assert_eq!(found, expected);
    assert!(snapshots >= last["snapshots"].as_u64(), "{snapshots:?}, and before {}", last["snapshots"]);
    assert_eq!(place.as_deref(), Some(&*folder.at("runs/000001")));
}
