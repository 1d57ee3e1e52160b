//! A device under test whose depth and rate are known, measured by the real command.

use serde_json::Value;
use thalweg_prerequisite::skip;

use crate::network::Network;
use crate::process::{Folder, Running, free_port, number, thalweg};

#[test]
fn depth_and_rate_of_a_known_device_are_found_or_it_is_said_why_not() {
    // Makes namespaces where that can be done, and skips by name elsewhere; they are those of another test.
    let Some(_possible) = Network::wired() else { return };
    let folder = Folder::new();
    let picture = folder.at("map.svg");
    let testbed = "rate=400Mbit,depth=400kB,datagram=8972,sources=4";
    let ended = thalweg(&[
        "qualify",
        "watershed",
        "--testbed",
        testbed,
        "--columns",
        "6",
        "--svg",
        &picture,
        "--json",
    ]);
    if ended.error.contains("a testbed needs root") {
        return skip(&format!("a testbed needs a bridge and a shaper in the kernel: {}", ended.error));
    }
    let map = ended.json();
    let points = map["points"].as_array().expect("a list");
    let with = |outcome: &'static str| points.iter().filter(move |point| point["outcome"] == outcome);
    assert!(
        points.len() >= 6
            && with("lossless").count() + with("lossy").count() + with("invalid").count() == points.len()
    );
    for point in with("lossless").chain(with("lossy")) {
        assert_eq!(
            point["dropped"], point["lost"],
            "what is missing is what the device has thrown away: {point:#}"
        );
        assert_eq!(number(point, "lost") > 0, point["outcome"] == "lossy", "{point:#}");
        assert_eq!(number(point, "sent"), 4 * number(point, "events"), "{point:#}");
    }
    for point in with("invalid") {
        assert_ne!(point["why"], "", "{point:#}");
    }
    for column in map["columns"].as_array().expect("a list") {
        // What was made is 440 kB and 50 MB/s, and an event four frames of 9014 bytes.
        let drained = 50e6 * column["separation_s"].as_f64().expect("a time");
        let predicted = ((440e3 - drained) / (4.0 * 9014.0 - drained) + 1e-9).floor() as u64;
        assert_eq!(number(column, "predicted_events"), predicted, "{column:#}");
    }
    assert!(std::fs::read_to_string(&picture).expect("it was drawn").contains("events in a burst"));
    let depth = map["fitted_depth_bytes"].as_f64();
    match depth {
        // A machine that does much else makes a wider edge, and no other device.
        Some(depth) => {
            let of = depth / map["true_depth_bytes"].as_f64().expect("known");
            let interval = &map["fitted_depth_interval"];
            assert!((0.9..1.1).contains(&of), "{of} of the depth, {interval}: {:#}", map["columns"]);
            assert!(interval[0].as_f64() <= Some(depth) && Some(depth) <= interval[1].as_f64(), "{interval}");
            assert_eq!(ended.code, Some(0));
            let columns = map["columns"].as_array().expect("a list");
            let bracketed = columns.iter().filter(|column| column["end"] == "bracketed");
            let mut off: Vec<f64> = bracketed.map(off_prediction).collect();
            off.sort_by(f64::total_cmp);
            let median = off.get(off.len() / 2).copied().unwrap_or(0.0);
            assert!(median < 0.1, "half of the columns are further off the prediction: {off:?}");
        }
        None => assert!(ended.code == Some(1) && map["remark"] != "" && map["fit"] == Value::Null, "{map:#}"),
    }
}

/// How far the edge of a column is from what was predicted, as a fraction; within one event it is where it should be.
fn off_prediction(column: &Value) -> f64 {
    let [lossless, predicted] = ["lossless_events", "predicted_events"].map(|key| number(column, key) as f64);
    ((lossless - predicted).abs() - 1.0).max(0.0) / predicted
}

#[test]
fn the_highest_rate_without_a_loss_lies_between_what_was_lossless_and_what_was_not() {
    let Some(_possible) = Network::wired() else { return };
    // What fits into the device is what it carries in 16 ms: an overload of 7 % shows within 0.3 s.
    let testbed = "rate=100Mbit,depth=200kB,datagram=8972,sources=4";
    let ended = thalweg(&[
        "qualify",
        "throughput",
        "--testbed",
        testbed,
        "--trial-seconds",
        "0.3",
        "--hold-seconds",
        "0.5",
        "--json",
    ]);
    if ended.error.contains("a testbed needs root") {
        return skip(&format!("a testbed needs a bridge and a shaper in the kernel: {}", ended.error));
    }
    let found = ended.json();
    let points = found["points"].as_array().expect("a list");
    assert!(!points.is_empty(), "{found:#}");
    let bound = |name: &str| found[name].as_f64();
    match (found["remark"] == "", bound("lower_bound_hz"), bound("upper_bound_hz")) {
        (true, Some(lower), Some(upper)) => {
            let stated = bound("stated_rate_hz").expect("known");
            assert!(
                lower < upper && lower > 0.9 * stated && upper < 1.09 * stated,
                "{lower} to {upper} of {stated}"
            );
            assert_eq!((ended.code, number(&found["held"], "lost")), (Some(0), 0));
        }
        // A machine that does much else may not send as asked, or stand still: it says so.
        (good, ..) => assert!(!good && ended.code == Some(1), "{found:#}"),
    }
}

#[test]
fn an_invalid_testbed_is_refused_with_what_to_write() {
    for (testbed, word) in [
        ("rate=800Mbit,depth=8MB", "`datagram` is missing; write for example datagram=8972"),
        ("rate=8MB,depth=8MB,datagram=8972", "rate: \"8MB\" has the unit"),
        ("rate=800Mbit,deep=8MB", "there is no `deep`; there are rate, depth, datagram, sources, burst"),
        ("rate=800Mbit,depth=8MB,datagram=8972,sources=0", "is no number from 1 to 512"),
        ("rate", "`rate` is no KEY=VALUE"),
    ] {
        let ended = thalweg(&["qualify", "watershed", "--testbed", testbed]);
        assert!(ended.code == Some(2) && ended.error.contains(word), "{ended:#?}");
    }
}

#[test]
fn what_synchronous_sources_send_is_counted_by_source_and_what_is_lost_is_said() {
    let receive = |port: u16| {
        let receiver =
            Running::start(&["qualify", "receive", "--listen", &format!("127.0.0.1:{port}"), "--json"]);
        receiver.wait_for_words("receiving at 127.0.0.1");
        receiver
    };
    let port = free_port();
    let receiver = receive(port);
    let to = format!("127.0.0.1:{port}");
    let emitted = thalweg(&[
        "qualify",
        "emit",
        "--to",
        &to,
        "--sources",
        "5",
        "--program",
        "poisson",
        "--rate-hz",
        "2000",
        "--triggers",
        "400",
        "--payload-bytes",
        "600",
        "--json",
    ]);
    let sent = emitted.json();
    assert_eq!((number(&sent, "events"), number(&sent, "sent"), number(&sent, "failed")), (400, 2000, 0));
    assert_eq!(emitted.code == Some(0), sent["remark"] == "", "it says whether it kept up: {sent:#}");
    let receipt = receiver.wait().done().json();
    assert_eq!((number(&receipt, "received"), number(&receipt, "missing")), (2000, 0), "{receipt:#}");
    let sources = receipt["sources"].as_array().expect("a list");
    assert!(sources.len() == 5 && sources.iter().all(|source| source["sent"] == 400), "{receipt:#}");

    // The same port takes the next one.
    let receiver = receive(port);
    thalweg(&["qualify", "emit", "--to", &to, "--sources", "2", "--triggers", "50", "--json"]);
    let whole = receiver.wait().done().json();
    assert_eq!(number(&whole, "received"), 100, "{whole:#}");
    let nobody = format!("127.0.0.1:{}", free_port());
    let refused = thalweg(&["qualify", "emit", "--to", &nobody, "--sources", "1", "--triggers", "50"]);
    assert!(refused.code == Some(1) && refused.out.contains("NOT as asked: "), "{refused:#?}");
    let wrong = thalweg(&["qualify", "emit", "--to", &to, "--from", "127.0.0.1:65535", "--sources", "2"]);
    assert!(wrong.code == Some(2) && wrong.error.contains("sources need as many ports"), "{wrong:#?}");
    let silent = thalweg(&["qualify", "receive", "--listen", &to, "--seconds", "0.1"]);
    assert!(silent.code == Some(1) && silent.out.contains("nothing came of any source"), "{silent:#?}");
}
