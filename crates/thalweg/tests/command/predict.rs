//! `predict`: load, loss and bottleneck of a hop, and a published test.

use crate::process::thalweg;

/// The hop of the camera with all of its modules, as options.
fn hop<'a>(rate_hz: &'a str, more: &[&'a str]) -> Vec<&'a str> {
    let hop =
        "predict --links 265 --link-rate 1Gbit --output-rate 10Gbit --depth 330MB --payload 1024 --rate-hz";
    hop.split(' ').chain([rate_hz]).chain(more.iter().copied()).collect()
}

#[test]
fn predict_reproduces_the_nectarcam_switch_test() {
    let json = thalweg(&["predict", "--reproduce", "nectarcam", "--json"]).done().json();
    let events = json["events_back_to_back"].as_u64().expect("a count");
    assert!((8850..=8950).contains(&events), "{json}");
    let limit_hz = json["static_limit_hz"].as_f64().expect("a rate");
    assert!((limit_hz / 26.06e3 - 1.0).abs() < 0.001, "{json}");
    let text = thalweg(&["predict", "--reproduce", "nectarcam"]).done().out;
    for word in ["8904", "26.1 kHz", "8000", "27000", "IP bytes", "40 ports"] {
        assert!(text.contains(word), "{word}: {text}");
    }
}

#[test]
fn predict_names_the_output_as_the_bottleneck_of_an_overload() {
    let json = thalweg(&hop("7000", &["--simulate", "50000", "--json"])).done().json();
    assert_eq!(json["bottleneck"], "output");
    let load = json["output_load"].as_f64().expect("a load");
    assert!((load - 7000.0 * 265.0 * 1090.0 * 8.0 / 10e9).abs() < 1e-6, "{json}");
    assert!(json["simulated"]["lost_frames"].as_u64() > Some(0), "{json}");
    assert!(thalweg(&hop("7000", &["--simulate", "50000"])).done().out.contains("limited by"));
}

#[test]
fn predict_with_dead_time_and_a_rate_that_fits_loses_nothing_and_gives_a_limit() {
    let options = ["--dead-time-us", "20", "--simulate", "100000", "--seed", "7"];
    let first = thalweg(&hop("4000", &options)).done().out;
    assert!(first.contains("none; below 3.0e-5") && first.contains("no loss is expected"), "{first}");
    assert_eq!(first, thalweg(&hop("4000", &options)).done().out, "the seed decides");
    let json = thalweg(&hop("4000", &[&options[..], &["--json"]].concat())).done().json();
    let accepted_hz = json["accepted_rate_hz"].as_f64().expect("a rate");
    assert!((accepted_hz - 4000.0 / 1.08).abs() < 1e-6, "{json}");
    assert!(json["full_probability"].as_f64().is_some_and(|probability| probability < 1e-9), "{json}");
}

#[test]
fn predict_refuses_what_is_no_hop_and_says_what_to_write() {
    for (arguments, words) in [
        (vec!["predict"], "--reproduce"),
        (vec!["predict", "--links", "4"], "--link-rate"),
        (hop("0", &[]), "triggers per second"),
        (hop("7000", &["--triggers", "constant", "--dead-time-us", "2"]), "random triggers"),
        (hop("7000", &["--reproduce", "nectarcam"]), "cannot be used with"),
        (vec!["predict", "--reproduce", "comet"], "nectarcam"),
    ] {
        let ended = thalweg(&arguments);
        assert_eq!(ended.code, Some(2), "{arguments:?}: {ended:#?}");
        assert!(ended.error.contains(words), "{words}: {}", ended.error);
    }
    for (option, value, words) in [
        ("--depth", "330Mb", "330MB"),
        ("--link-rate", "1GB/s", "10Gbit"),
        ("--output-rate", "fast", "10Gbit"),
        ("--payload", "20000", "one frame"),
        ("--links", "0", "1..=65536"),
    ] {
        let mut arguments = hop("7000", &[]);
        let place = arguments.iter().position(|argument| *argument == option).expect("given") + 1;
        arguments[place] = value;
        let ended = thalweg(&arguments);
        assert_eq!(ended.code, Some(2), "{option} {value}: {ended:#?}");
        assert!(ended.error.contains(words), "{option} {value}: {}", ended.error);
    }
}
