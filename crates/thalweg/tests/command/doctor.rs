//! The host, checked by the real command.

use serde_json::Value;

use crate::network::Network;
use crate::process::{Folder, thalweg};

const FIELDS: [&str; 8] = ["name", "value", "wanted", "why", "command", "kept_by", "severity", "verdict"];

#[test]
fn a_host_is_checked_against_any_receiver_and_against_a_configuration() {
    let report = thalweg(&["doctor", "--json"]).json();
    let checks = report["checks"].as_array().expect("a list");
    for check in checks {
        for field in FIELDS {
            assert!(check[field].is_string(), "`{field}` of {check:#}");
        }
    }
    let named = |checks: &[Value], name: &str| checks.iter().find(|check| check["name"] == name).cloned();
    assert!(named(checks, "net.core.rmem_max").is_some() && named(checks, "memory").is_some(), "{report:#}");
    let count = |verdict: &str| checks.iter().filter(|check| check["verdict"] == verdict).count() as u64;
    assert_eq!(report["unknown"], count("unknown"));

    // An emulated board at 1 GB/s, and a buffer of what holds a millisecond of it: the stall is said, with what helps.
    let folder = Folder::new();
    let file = folder.file(
        "fast.toml",
        "[[source]]\nname = \"a\"\nformat = \"digitizer2\"\nurl = \"emulate://\"\nreceive_buffer_bytes = 100_000\n\
         [source.emulate]\nchannels = 64\nrate_hz = 1_000_000\n",
    );
    let report = thalweg(&["doctor", &file, "--json"]).json();
    let checks = report["checks"].as_array().expect("a list");
    let stall = named(checks, "stall of a reader").expect("it is checked");
    assert_eq!(stall["verdict"], "bad", "{stall:#}");
    assert!(stall["value"].as_str().is_some_and(|value| value.contains("ms at 1024.0 MB/s")), "{stall:#}");
    let wanted = stall["wanted"].as_str().expect("a text");
    assert!(wanted.ends_with(": receive_buffer_bytes = 33554432 of the source"), "{wanted}");
    assert_eq!(stall["command"], "", "a larger limit alone changes nothing");
    assert!(named(checks, "MTU (lo)").is_some_and(|check| check["verdict"] == "good"), "{report:#}");
}

#[test]
fn what_sets_the_host_is_printed_and_nothing_is_set_unasked() {
    let before = std::fs::read_to_string("/proc/sys/vm/swappiness").expect("Linux has it");
    let printed = thalweg(&["doctor", "--fix"]);
    assert!(printed.out.contains(" checks: "), "{printed:#?}");
    let is_small = before.trim().parse::<u32>().is_ok_and(|value| value <= 10);
    assert_eq!(printed.out.contains("sysctl -w vm.swappiness=10"), !is_small, "{}", printed.out);
    assert_eq!(std::fs::read_to_string("/proc/sys/vm/swappiness").expect("Linux has it"), before);
    for (arguments, word) in [
        (&["doctor", "--apply"][..], "--fix"),
        (&["doctor", "missing.toml"], "missing.toml"),
        (&["doctor", "--only", "mut"], "no check has `mut` in its name"),
        (&["doctor", "--bytes-per-second", "0"], "no positive number"),
    ] {
        let ended = thalweg(arguments);
        assert!(ended.code == Some(2) && ended.error.contains(word), "{ended:#?}");
    }
}

#[test]
fn a_way_that_throws_long_datagrams_away_is_found_and_mended() {
    let Some(network) = Network::wired() else { return };
    let folder = Folder::new();
    // The board need not be there: a host answers for a port that nobody listens on.
    let file = folder
        .file("far.toml", "[[source]]\nname = \"a\"\nformat = \"digitizer2\"\nurl = \"dig2://10.77.0.1\"\n");
    let checks = |arguments: &[&str]| {
        let all = [&["doctor", file.as_str(), "--json"], arguments].concat();
        let report = network.run.start(&all).wait().json();
        let checks = report["checks"].as_array().expect("a list").clone();
        (report, move |name: &str| {
            let found = checks.iter().find(|check| check["name"] == name);
            found.unwrap_or_else(|| panic!("no {name} in {checks:#?}")).clone()
        })
    };
    let way = "MTU of the way (10.77.0.1)";
    // Our own card takes no more than 1500 bytes, and says so.
    let (_, check) = checks(&["--probe"]);
    assert_eq!((&check(way)["verdict"], &check("MTU (link0)")["verdict"]), (&"bad".into(), &"bad".into()));
    assert_eq!(check("MTU (link0)")["command"], "ip link set dev link0 mtu 9000");
    // It is set on request, of this namespace; then the other end, which still takes 1500, throws long ones away in silence.
    let (report, check) = checks(&["--probe", "--fix", "--apply", "--only", "MTU"]);
    let applied = report["applied"].as_array().expect("a list");
    let link = applied
        .iter()
        .find(|fix| fix["command"] == "ip link set dev link0 mtu 9000")
        .expect("it was asked for");
    assert_eq!(link["error"], "", "{report:#}");
    assert_eq!(check("MTU (link0)")["verdict"], "good");
    let silent = check(way);
    assert!(silent["value"].as_str().is_some_and(|value| value.contains("throws them away")), "{silent:#}");
    network.boards.set_mtu(9000);
    let (_, check) = checks(&["--probe"]);
    assert_eq!(check(way)["verdict"], "good", "{:#}", check(way));
    // Without asking, nothing is sent, and nothing is said of the way.
    let (report, _) = checks(&[]);
    assert!(!report.to_string().contains(way), "{report:#}");
}
