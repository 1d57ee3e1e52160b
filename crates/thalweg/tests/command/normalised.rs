//! Live time and rates corrected for losses: in the summary, on the page, in the run's record and in its spectra.

use serde_json::Value;

use crate::demo::demo_until;
use crate::process::{Folder, assert_ledger_balances, run_directory, thalweg};

const RATE_HZ: f64 = 20_000.0;

fn float(value: &Value, key: &str) -> f64 {
    value[key].as_f64().unwrap_or_else(|| panic!("{key} in {value:#}"))
}

fn document(run: &str, name: &str) -> Value {
    let text = std::fs::read_to_string(format!("{run}/{name}")).expect("written");
    serde_json::from_str(&text).expect("JSON")
}

#[test]
fn rates_of_a_demo_that_loses_datagrams_are_those_of_its_boards() {
    let folder = Folder::new();
    let arguments = ["--boards", "1", "--loss", "0.01", "--seed", "11", "--rate", "20000"];
    let knows_rates = |state: &Value| {
        let channels = state["sources"][0]["channels"].as_array();
        channels.is_some_and(|all| {
            !all.is_empty() && all.iter().all(|own| own["live_time_s"].as_f64() > Some(1.5))
        })
    };
    let summary = demo_until(&folder, &arguments, "live times of two seconds", knows_rates);
    assert_ledger_balances(&summary);
    let run = run_directory(&summary);
    let channels = summary["channels"].as_array().expect("a list");
    assert_eq!(channels.len(), 8, "{channels:#?}");
    for channel in channels {
        let (rate, hits) = (&channel["rate_hz"], &channel["loss_corrected"]);
        let off = (float(rate, "value") - RATE_HZ).abs() / float(rate, "uncertainty");
        assert!(off < 6.0 && rate["quality"] == "exact", "{off} standard uncertainties: {channel:#}");
        let stands_for = float(hits, "value") / float(channel, "hits");
        assert!((1.0..1.1).contains(&stands_for), "a hundredth is lost: {channel:#}");
        let dead = float(channel, "dead_time_fraction");
        assert!((0.005..0.03).contains(&dead), "600 ns behind each of 20 000 hits a second: {channel:#}");
        assert!(float(channel, "live_time_s") < float(channel, "real_time_s"));
    }
    let recorded = document(&run, "run.json");
    assert_eq!(recorded["details"]["channels"], summary["channels"], "the run's record has the same");

    let spectra = document(&run, "spectra.json");
    let first = &channels[0];
    let energy = &spectra["channel 0: energy (received)"]["metadata"];
    for key in ["real_time_s", "live_time_s", "live_time_quality", "dead_time_fraction"] {
        assert_eq!(energy[key], first[key], "{key} of {energy:#}");
    }
    for quality in ["loss_corrected_quality", "rate_hz_quality"] {
        assert_eq!(energy[quality], "exact", "{energy:#}");
    }
    let off = (float(energy, "rate_hz") - RATE_HZ).abs() / float(energy, "rate_hz_uncertainty");
    assert!(off < 6.0, "{off} standard uncertainties: {energy:#}");
    let per_entry = float(energy, "loss_corrected") / float(energy, "entries");
    assert!((per_entry - float(&first["loss_corrected"], "value") / float(first, "hits")).abs() < 1e-6);
}

#[test]
fn a_source_whose_boards_report_nothing_has_no_live_time() {
    let folder = Folder::new();
    let text = "[[source]]\nname = \"quiet\"\nformat = \"digitizer2\"\nurl = \"emulate://\"\nchannels = 2\nmemory_bytes = 16_777_216\n\
                [source.emulate]\nchannels = 2\nrate_hz = 1e4\n";
    let text = format!("{text}[run]\n hits = 10000\n[record]\ndirectory = \"{}\"\n", folder.at("runs"));
    let summary = thalweg(&["run", &folder.file("run.toml", &text), "--json"]).done().json();
    for channel in summary["channels"].as_array().expect("a list") {
        assert_eq!(
            (&channel["live_time_s"], &channel["live_time_quality"]),
            (&Value::Null, &"unknown".into())
        );
        assert_eq!(
            (&channel["rate_hz"]["value"], &channel["rate_hz"]["quality"]),
            (&Value::Null, &"unknown".into())
        );
        let hits = &channel["loss_corrected"];
        assert_eq!(
            (float(hits, "value"), &hits["quality"]),
            (float(channel, "hits"), &"exact".into()),
            "{channel:#}"
        );
    }
    let spectra = document(&run_directory(&summary), "spectra.json");
    let energy = &spectra["channel 0: energy (received)"]["metadata"];
    assert_eq!(
        (energy.get("live_time_s"), &energy["live_time_quality"]),
        (None, &"unknown".into()),
        "{energy:#}"
    );
}

/// A board of 10 kHz of triggers at random that reads out each for 25 µs, and loses its answer to every hundredth.
fn triggered(folder: &Folder, seed: u64) -> String {
    let text = format!(
        "[[source]]\nname = \"boards\"\nformat = \"sitcp\"\nurl = \"emulate://\"\n\
         [source.emulate]\nfaults = {{ lose_every = 100 }}\n\
         [trigger]\nprogram = \"poisson\"\nrate_hz = 10000.0\ndead_time_ns = 0\nreadout_ns = 25000\nseed = {seed}\n\
         [record]\ndirectory = \"{}\"\ntables = [\"events\", \"fragments\", \"raw\"]\n",
        folder.at("runs")
    );
    folder.file(&format!("triggered{seed}.toml"), &text)
}

#[test]
fn events_of_triggered_boards_stand_for_their_triggers_and_the_rate_is_that_of_the_trigger() {
    let folder = Folder::new();
    for seed in [5, 6] {
        let summary = thalweg(&["run", &triggered(&folder, seed), "--seconds", "2", "--json"]).done().json();
        assert_ledger_balances(&summary);
        let known = &summary["events"]["normalised"];
        let counted = |key: &str| known[key].as_u64().unwrap_or_else(|| panic!("{key} in {known:#}"));
        let (offered, accepted) = (counted("triggers_offered"), counted("triggers_accepted"));
        assert_eq!(offered, accepted + counted("triggers_refused"));
        let (lost, recorded) = (counted("lost_before_building"), counted("recorded"));
        assert_eq!((accepted, &known["lost_before_building_quality"]), (recorded + lost, &"exact".into()));
        assert!((accepted / 200..accepted / 50).contains(&lost), "one in a hundred: {known:#}");
        let (count, rate) = (&known["loss_corrected"], &known["rate_hz"]);
        assert!((float(count, "value") - accepted as f64).abs() < 1e-6 && count["quality"] == "exact");
        let off = (float(rate, "value") - 10_000.0).abs() / float(rate, "uncertainty");
        assert!(off < 6.0 && rate["quality"] == "exact", "{off} standard uncertainties: {known:#}");
        // On a machine that stands still, the boards refuse more.
        assert!(float(known, "live_fraction") < 0.83, "a fifth comes in dead time: {known:#}");
        assert!(float(known, "live_time_s") < float(known, "real_time_s"), "{known:#}");
        let run = run_directory(&summary);
        assert_eq!(&document(&run, "run.json")["details"]["events"], known, "the run's record has the same");

        let replayed = thalweg(&["replay", &run, "--directory", &folder.at("replayed"), "--json"]);
        let of_replay = &replayed.done().json()["events"]["normalised"];
        assert_eq!(
            of_replay["rate_hz"]["quality"], "unknown",
            "a replay is no time of triggers: {of_replay:#}"
        );
        assert_eq!(of_replay["recorded"], known["recorded"]);
        assert_eq!(of_replay["loss_corrected"]["quality"], "at_least", "{of_replay:#}");
    }
    let said = thalweg(&["run", &triggered(&folder, 7), "--seconds", "1"]).done().out;
    for words in ["accepted triggers, losses included", "triggers per second, dead time and losses included"]
    {
        assert!(said.contains(words), "{words}: {said}");
    }
}
