//! What the command says about itself, and its exit codes.

use std::path::Path;

use crate::process::thalweg;

#[test]
fn every_command_has_help_with_an_example() {
    let help = thalweg(&["--help"]).done().out;
    for command in [
        "demo", "run", "emulate", "replay", "verify", "recover", "inspect", "plot", "export", "import",
        "predict", "runs", "bench",
    ] {
        assert!(help.contains(command), "{command}");
        let own = thalweg(&[command, "--help"]).done().out;
        assert!(own.contains("Example"), "{command} shows an example:\n{own}");
        assert!(own.contains("--json"), "{command} speaks JSON");
    }
}

#[test]
fn wrong_usage_ends_with_2() {
    for arguments in [&["jump"][..], &[], &["demo", "--seconds", "soon"], &["bench", "no-such-bench"]] {
        assert_eq!(thalweg(arguments).code, Some(2), "{arguments:?}");
    }
}

#[test]
fn what_is_not_there_ends_with_1() {
    for command in ["verify", "recover", "replay", "plot", "inspect"] {
        let ended = thalweg(&[command, "/nowhere/at-all"]);
        assert_eq!(ended.code, Some(1), "{command}: {ended:#?}");
        assert!(ended.error.contains("/nowhere/at-all"), "{command}: {}", ended.error);
    }
}

#[test]
fn completions_and_manual_are_made_from_the_same_definitions() {
    for shell in ["bash", "zsh", "fish"] {
        assert!(thalweg(&["completions", shell]).done().out.contains("emulate"), "{shell}");
    }
    let manual = thalweg(&["manual"]).done().out;
    assert!(manual.contains(".TH") && manual.contains("recover"));
}

#[test]
fn benches_are_listed() {
    let list = thalweg(&["bench", "list", "--json"]).done().json();
    let names: Vec<&str> =
        list.as_array().expect("a list").iter().filter_map(|row| row["name"].as_str()).collect();
    for name in [
        "decode",
        "decode-waveforms",
        "scope",
        "order",
        "emit",
        "receive-udp",
        "receive-tcp",
        "record",
        "path",
        "live",
    ] {
        assert!(names.iter().any(|found| found.starts_with(name)), "{name} in {names:?}");
    }
}

#[test]
fn the_schema_knows_the_keys_of_every_section() {
    let schema = thalweg(&["schema"]).done().json();
    for section in ["run", "source", "order", "record"] {
        assert!(schema["properties"][section].is_object(), "{section}");
    }
    assert!(schema.to_string().contains("tick_ps"));
}

#[test]
fn every_example_can_be_planned() {
    let examples = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../examples");
    let mut count = 0;
    for folder in [examples.clone(), examples.join("sources")] {
        for entry in std::fs::read_dir(&folder).expect("there are examples") {
            let path = entry.expect("readable").path();
            if path.extension().is_some_and(|extension| extension == "toml") {
                thalweg(&["run", path.to_str().expect("plain"), "--explain"]).done();
                count += 1;
            }
        }
    }
    assert!(count >= 9, "{count} examples");
}
