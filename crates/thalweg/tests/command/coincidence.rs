//! Cuts, coincidence and clocks of emulated boards that see the same decays, through the real binary.
//!
//! ```text
//!  two boards ─► align ─► order ─► cuts ─► coincidence ─► events, a ledger that balances at every stage
//! ```

use serde_json::Value;

use crate::process::{Folder, Running, assert_ledger_balances, number, run_directory, thalweg};

/// Two boards of eight channels in front of the same sources.
fn configuration(folder: &Folder, more: &str) -> String {
    let source = |name: &str, board: u16, first: u16| {
        format!(
            "[[source]]\nname = \"{name}\"\nformat = \"digitizer2\"\nurl = \"emulate://\"\nmemory_bytes = 16_777_216\nchannels = 8\n\
             first_channel = {first}\n[source.emulate]\nboard = {board}\nboards = 2\nchannels = 8\nrate_hz = 5e3\nseed = 3\n"
        )
    };
    let text = format!(
        "{}{}{more}\n[record]\ndirectory = \"{}\"\n",
        source("left", 0, 0),
        source("right", 1, 8),
        folder.at("runs")
    );
    folder.file("run.toml", &text)
}

/// The entry of one stage, source and unit in the ledger.
#[track_caller]
fn entry<'s>(summary: &'s Value, source: &str, stage: &str, unit: &str) -> &'s Value {
    let ledger = summary["ledger"].as_array().expect("a list");
    let of_it = |one: &&Value| one["source"] == source && one["stage"] == stage && one["unit"] == unit;
    ledger.iter().find(of_it).unwrap_or_else(|| panic!("{source} {stage} {unit} in {ledger:#?}"))
}

#[test]
fn every_hit_is_cut_single_or_in_an_event_and_the_ledger_says_which() {
    let folder = Folder::new();
    let file = configuration(
        &folder,
        "[[cut]]\nname = \"bright\"\nkeep = \"energy > 300 && !pile_up\"\n\
         [[cut]]\nname = \"doubles\"\non = \"event\"\nkeep = \"multiplicity >= 2 && sum_energy > 1000\"\n\
         [coincidence]\nwindow_ps = 100_000\n[clocks]\nreference = \"left\"\n",
    );
    let run = Running::start(&["run", &file, "--seconds", "100", "--json", "--states", "0.1"]);
    let summary = run.stop_behind_a_snapshot(3.0).done().json();
    assert_ledger_balances(&summary);
    assert!(number(&summary, "snapshots") > 0, "{summary:#}");
    for source in ["left", "right"] {
        let (cut, coincide) =
            (entry(&summary, source, "cut", "hits"), entry(&summary, source, "coincide", "hits"));
        assert!(number(cut, "filtered") > 0 && number(coincide, "out") > 1000, "{cut:#} {coincide:#}");
        assert_eq!(number(cut, "out"), number(coincide, "in"));
        let recorded = entry(&summary, source, "record", "hits");
        assert_eq!(number(recorded, "out"), number(cut, "in"), "all hits are recorded");
    }
    let (made, kept) = (
        entry(&summary, "coincidences", "coincide", "events"),
        entry(&summary, "coincidences", "cut", "events"),
    );
    assert!(number(made, "out") > 1000 && number(kept, "filtered") > 0, "{made:#} {kept:#}");
}

#[test]
fn without_cuts_coincidence_is_given_what_is_in_order() {
    let folder = Folder::new();
    let file = configuration(&folder, "[coincidence]\nwindow_ps = 100_000\n");
    let summary = thalweg(&["run", &file, "--seconds", "2.5", "--json"]).done().json();
    assert_ledger_balances(&summary);
    let recorded = entry(&summary, "coincidences", "record", "events");
    assert_eq!(number(recorded, "out"), number(entry(&summary, "coincidences", "coincide", "events"), "out"));
    thalweg(&["verify", &run_directory(&summary)]).done();
}

#[test]
fn what_is_reported_a_recording_has_its_coincidences_and_what_was_left_out() {
    let folder = Folder::new();
    let file = configuration(
        &folder,
        "[[cut]]\nname = \"bright\"\nkeep = \"energy > 3000\"\n[coincidence]\nwindow_ps = 100_000\n",
    );
    let text = std::fs::read_to_string(&file).expect("written") + "hits = \"kept\"\n";
    std::fs::write(&file, text).expect("written");
    let run = Running::start(&["run", &file, "--seconds", "100", "--json", "--states", "0.1"]);
    let recorded = |state: &Value| number(state, "coincidences_recorded");
    let summary = run.stop_when("coincidences", |state| recorded(state) > 100).done().json();
    // Not all that was sent is recorded, as was asked for; every stage has its ledger all the same.
    assert_eq!(summary["ledger_closed"], true, "{summary:#}");
    let run = run_directory(&summary);
    let left_out: u64 = ["left", "right"]
        .iter()
        .map(|source| number(entry(&summary, source, "record", "hits"), "filtered"))
        .sum();
    let events = number(entry(&summary, "coincidences", "record", "events"), "out");
    assert!(left_out > 1000 && events > 10, "{summary:#}");
    let verified = thalweg(&["verify", &run]).done().out;
    assert!(verified.contains(&format!("coincidences: {events} of ")), "{verified}");
    assert!(verified.contains(&format!("{events} coincidences recorded")), "{verified}");
    assert!(verified.contains(&format!("{left_out} hits left out on request")), "{verified}");
    let inspected = thalweg(&["inspect", &run]).done().out;
    assert!(inspected.contains(&format!("{left_out} hits left out on request")), "{inspected}");
    assert!(inspected.contains(&format!("{events} coincidences of ")), "{inspected}");
    assert!(
        inspected.contains("cut bright on each hit: ") && inspected.contains("of multiplicity   2"),
        "{inspected}"
    );
    // As after a crash: the last batch is not whole.
    let table =
        std::fs::File::options().write(true).open(format!("{run}/coincidences.arrows")).expect("there");
    table.set_len(table.metadata().expect("there").len() - 100).expect("cut");
    let recovered = thalweg(&["recover", &run]).done().out;
    let came = format!("{events} coincidences had come to the recording; ");
    let missing = recovered.split_once(&came).and_then(|(_, rest)| rest.split_whitespace().next());
    let missing: u64 = missing.and_then(|word| word.parse().ok()).unwrap_or_else(|| panic!("{recovered}"));
    assert!((1..=events).contains(&missing), "{recovered}");
}

#[test]
fn what_is_invalid_is_refused_before_anything_is_opened() {
    let refused = |more: &str, words: &str| {
        let folder = Folder::new();
        let ended = thalweg(&["run", &configuration(&folder, more)]);
        assert_eq!(ended.code, Some(2), "{ended:#?}");
        assert!(ended.error.contains(words), "{words}: {}", ended.error);
    };
    refused("[coincidence]\nwindow_ps = -5\n", "window_ps = -5: a window is 0 to 10 s long");
    refused("[coincidence]\nwindow = 5\n", "unknown field `window`");
    refused("[coincidence]\ngroups = [\"labr\"]\n", "there is no group \"labr\"");
    refused("[[cut]]\nname = \"c\"\nkeep = \"enrgy > 3\"\n", "there is no field or flag \"enrgy\"");
    refused("[[cut]]\nname = \"c\"\nkeep = \"dt > 3\"\n", "write on = \"event\"");
    refused("[cut]\nname = \"c\"\nkeep = \"psd > 1\"\n", "write [[cut]] with two brackets");
    let crossed =
        "[[polygon]]\nname = \"n\"\nx = \"energy\"\ny = \"psd\"\npoints = [[0, 0], [1, 1], [1, 0], [0, 1]]\n";
    refused(crossed, "without crossing itself");
    refused("[channels]\nfile = \"nowhere.csv\"\n", "nowhere.csv");
    refused("[[channel]]\nnumber = 99\n", "channel 99 is described, and no source sends it");
    refused("[clocks]\nreference = \"middle\"\n", "there are: left, right");
    refused(
        "[[spectrum]]\nname = \"s\"\nx = { field = \"energies\", bins = 4, low = 0, high = 1 }\n",
        "energies",
    );
}

#[test]
fn a_table_of_channels_with_a_hole_is_read_and_one_with_a_mistake_shown() {
    let folder = Folder::new();
    let file = configuration(&folder, "[channels]\nfile = \"channels.csv\"\n");
    folder.file("channels.csv", "number,name,group,kev_0,kev_1\n0,NaI,gamma,0,0.31\n3,,,,\n");
    let summary = thalweg(&["run", &file, "--seconds", "0.5", "--json"]).done().json();
    assert_ledger_balances(&summary);
    folder.file("channels.csv", "number,kev_0,kev_1\n0,,0.31\n");
    let ended = thalweg(&["run", &file]);
    assert!(
        ended.code == Some(2) && ended.error.contains("line 2: kev_1 is given and kev_0 is not"),
        "{ended:#?}"
    );
}
