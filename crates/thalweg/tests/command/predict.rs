//! `predict`: load, loss and bottleneck of a hop, and a published test.

use serde_json::Value;

use crate::process::{Folder, number, thalweg};

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
        (vec!["predict", "--reproduce", "atlas"], "nectarcam-camera"),
        (vec!["predict", "--network", "network.toml"], "<CONFIGURATION>"),
        (hop("7000", &["--svg", "sweep.svg"]), "--sweep"),
        (hop("7000", &["--sweep", "rate_hz=1:2"]), "rate_hz=1000:40000:20"),
        (hop("7000", &["--sweep", "speed=1:2:3"]), "what can be swept"),
        (hop("7000", &["--sweep", "disk_rate=1MB/s:2MB/s:3"]), "give a configuration"),
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

const CAMERA: &str = "[[source]]\nname = \"camera\"\nformat = \"fragment\"\nurl = \"emulate://\"\nboards = 265\n\
                      [source.emulate]\npayload_bytes = 984\n[trigger]\nprogram = \"poisson\"\nrate_hz = 4000\n";
const NETWORK: &str = "[link]\nrate = \"1Gbit\"\n[switch]\noutput_rate = \"10Gbit\"\ndepth = \"16MB\"\n\
                       [host]\nreceive_rate = \"1.2GB/s\"\n[build]\nrate = \"1GB/s\"\n[disk]\nrate = \"2GB/s\"\nbuffer = \"32MB\"\n";

fn hop_of<'a>(prediction: &'a Value, name: &str) -> &'a Value {
    let hops = prediction["hops"].as_array().expect("a list");
    hops.iter().find(|hop| hop["name"] == name).expect("it is there")
}

#[test]
fn predict_says_of_a_configuration_what_each_hop_is_asked_for_and_where_it_saturates() {
    let folder = Folder::new();
    let (run, network) = (folder.file("run.toml", CAMERA), folder.file("network.toml", NETWORK));
    let arguments = ["predict", &run, "--network", &network, "--simulate", "20000"];
    let json = thalweg(&[&arguments[..], &["--json"]].concat()).done().json();
    // Behind the dead time of 2 us that is the default; 265 frames of 1024 + 66 bytes.
    let rate_hz = 4000.0 / 1.008;
    for (name, load) in [
        ("source link", rate_hz * 1090.0 / 125e6),
        ("switch output", rate_hz * 265.0 * 1090.0 / 1.25e9),
        ("host socket", rate_hz * 265.0 * 1024.0 / 1.2e9),
        ("builder", rate_hz * 265.0 * 1024.0 / 1e9),
        ("disk", rate_hz * 265.0 * 1024.0 / 2e9),
    ] {
        let found = hop_of(&json, name)["utilisation"].as_f64().expect("a load");
        assert!((found / load - 1.0).abs() < 1e-9, "{name}: {found} {load}");
        let seen = &hop_of(&json, name)["simulated"];
        assert_eq!(
            number(seen, "frames_in"),
            number(seen, "frames_out") + number(seen, "lost_frames"),
            "{name}"
        );
    }
    assert_eq!((&json["bottleneck"], &json["limited_at"]), (&"builder".into(), &"builder".into()));
    assert!((json["saturates_at_hz"].as_f64().expect("a rate") - 1e9 / (265.0 * 1024.0)).abs() < 1e-3);
    let text = thalweg(&arguments).done().out;
    for words in [
        "first saturated  builder, at 3.69 kHz",
        "asked for more than it carries",
        "taken as true    each board has a link of its own",
    ] {
        assert!(text.contains(words), "{words}: {text}");
    }
    let slower = thalweg(&[&arguments[..], &["--rate-hz", "1000"]].concat()).done().out;
    assert!(slower.contains("no loss is expected"), "{slower}");
}

#[test]
fn predict_gives_no_loss_where_it_knows_no_rate_to_simulate() {
    let folder = Folder::new();
    let board = "[[source]]\nname = \"a\"\nformat = \"digitizer2\"\nurl = \"emulate://\"\n";
    let text = thalweg(&["predict", &folder.file("run.toml", board), "--simulate", "100"]).done().out;
    assert!(
        text.contains("simulated        nothing: no hop has a rate") && !text.contains("frames lost"),
        "{text}"
    );
}

#[test]
fn predict_names_what_is_not_known_and_does_not_predict_it() {
    let folder = Folder::new();
    let run = folder.file("run.toml", CAMERA);
    let text = thalweg(&["predict", &run, "--simulate", "1000"]).done().out;
    for words in [
        "source link: [link] rate is not known",
        "[switch] output_rate, [switch] depth",
        "limited by       not known",
    ] {
        assert!(text.contains(words), "{words}: {text}");
    }
    let real = folder.file(
        "real.toml",
        "[[source]]\nname = \"cdc\"\nformat = \"sitcp\"\nurl = \"tcp://192.168.10.{16..120}:24\"\nprofile = \"recbe\"\nnamed_by = \"connection\"\n",
    );
    let stated = "[[source]]\nname = \"cdc\"\npayload_bytes = 392\n";
    for (network, words) in [
        (String::new(), "payload_bytes = 1024"),
        (stated.to_owned(), "--rate-hz"),
        (stated.replace("cdc", "cdd"), "this configuration has \"cdc\""),
        (format!("{stated}[trigger]\nrate_hz = 0\n"), "rate_hz"),
        (format!("{stated}[switch]\noutput_rate = \"0Gbit\"\n"), "above 0"),
        (format!("{stated}[switch]\ndepht = \"1MB\"\n"), "unknown field `depht`"),
    ] {
        let file = folder.file("network.toml", &network);
        let ended = thalweg(&["predict", &real, "--network", &file, "--simulate", "100"]);
        assert!(ended.code == Some(2) && ended.error.contains(words), "{words}: {ended:#?}");
    }
    let file = folder.file("network.toml", &format!("{stated}[trigger]\nrate_hz = 100\n"));
    thalweg(&["predict", &real, "--network", &file, "--simulate", "100"]).done();
    let missing = thalweg(&["predict", &real, "--network", "/nowhere/network.toml"]);
    assert!(missing.code == Some(2) && missing.error.contains("/nowhere/network.toml"), "{missing:#?}");
}

#[test]
fn predict_sweeps_a_value_and_draws_where_each_hop_is_saturated() {
    let folder = Folder::new();
    let picture = folder.at("sweep.svg");
    let options = ["--sweep", "rate_hz=1000:8000:5", "--simulate", "2000", "--svg", &picture];
    let text = thalweg(&hop("4000", &options)).done().out;
    // Of one hop there is no dead time unless it is said.
    assert!(text.contains("saturated        switch output at 4.33 kHz"), "{text}");
    assert!(
        std::fs::read_to_string(&picture).expect("it was drawn").contains("switch output: 100 % at 4.33 kHz")
    );
    let json = thalweg(&hop("4000", &["--sweep", "depth=1MB:100MB:3:log", "--simulate", "2000", "--json"]))
        .done()
        .json();
    let depths: Vec<f64> = json["points"]
        .as_array()
        .expect("a list")
        .iter()
        .filter_map(|point| point["value"].as_f64())
        .collect();
    assert!(depths.len() == 3 && (depths[1] / 1e7 - 1.0).abs() < 1e-9, "{depths:?}");
}

#[test]
fn predict_computes_published_installations_with_their_figures_beside() {
    for (test, words) in [
        ("nectarcam-camera", ["4 × 10 Gb/s", "17116", "not published    the rate of triggers"]),
        ("comet", ["disagree", "492", "not published    the rates of the links"]),
        ("cms", ["207 kHz", "186002", "contention within the fabric"]),
    ] {
        let text = thalweg(&["predict", "--reproduce", test, "--simulate", "2000"]).done().out;
        for word in words {
            assert!(text.contains(word), "{word}: {text}");
        }
        let json = thalweg(&["predict", "--reproduce", test, "--simulate", "2000", "--json"]).done().json();
        assert!(json["figures"].as_array().is_some_and(|figures| figures.len() >= 4), "{json}");
    }
}
