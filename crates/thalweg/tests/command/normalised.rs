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
