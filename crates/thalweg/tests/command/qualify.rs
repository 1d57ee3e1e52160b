//! A device under test whose depth and rate are known, measured by the real command.

use serde_json::Value;
use thalweg_data::measure::median;
use thalweg_prerequisite::skip;
use thalweg_readout::pcap::CaptureWriter;

use crate::network::Network;
use crate::process::{Folder, Running, free_port, number, thalweg, wait_until};

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
            assert!(
                off.is_empty() || median(&mut off) < 0.1,
                "half of the columns are further off the prediction: {off:?}"
            );
        }
        None => assert!(ended.code == Some(1) && map["remark"] != "" && map["fit"] == Value::Null, "{map:#}"),
    }
}

#[test]
fn outputs_of_a_bridge_have_a_buffer_each_or_it_is_said_why_that_is_not_known() {
    let Some(_possible) = Network::wired() else { return };
    let folder = Folder::new();
    let page = folder.at("outputs.html");
    let command =
        ["qualify", "watershed", "--testbed", "rate=400Mbit,depth=200kB,datagram=8972,sources=4,outputs=2"];
    let ended =
        thalweg(&[&command[..], &["--outputs", "2", "--columns", "6", "--report", &page, "--json"]].concat());
    if ended.error.contains("a testbed needs root") {
        return skip(&format!("a testbed needs a bridge and a shaper in the kernel: {}", ended.error));
    }
    let found = ended.json();
    for (map, sent_by) in [(&found["alone"], 2), (&found["together"], 4)] {
        assert_eq!(number(map, "sources"), 2, "of each output");
        let points = map["points"].as_array().expect("a list");
        for point in points.iter().filter(|point| point["outcome"] != "invalid") {
            assert_eq!(point["dropped"], point["lost"], "{point:#}");
            assert_eq!(number(point, "sent"), sent_by * number(point, "events"), "{point:#}");
        }
    }
    let text = std::fs::read_to_string(&page).expect("it was written");
    assert!(text.contains("Every trial: both outputs") && text.contains("outputs.json"), "{page}");
    let comparison = &found["comparison"];
    match comparison["verdict"].as_str() {
        Some("own") => {
            let ratio = comparison["ratio"].as_f64().expect("a number");
            assert!((0.9..1.1).contains(&ratio) && ended.code == Some(0), "{comparison:#}");
        }
        // A machine that does much else may leave it open; it never makes outputs share.
        Some("undecided") | None => {
            assert!(found["remark"] != "" && ended.code == Some(1), "{comparison:#} {}", found["remark"]);
        }
        other => panic!("{other:?}: {comparison:#}"),
    }
    let one = thalweg(&[
        "qualify",
        "watershed",
        "--testbed",
        "rate=200Mbit,depth=300kB,datagram=8972",
        "--outputs",
        "2",
    ]);
    assert!(one.code == Some(2) && one.error.contains("a testbed has two with outputs=2"), "{one:#?}");
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
        "--linearity",
        "3",
        "--json",
    ]);
    if ended.error.contains("a testbed needs root") {
        return skip(&format!("a testbed needs a bridge and a shaper in the kernel: {}", ended.error));
    }
    let all = ended.json();
    let found = &all["tests"][0];
    let points = found["points"].as_array().expect("a list");
    assert!(!points.is_empty(), "{found:#}");
    let loads = all["linearity"].as_array().expect("a list");
    assert_eq!(loads.len(), 3, "{all:#}");
    for load in loads.iter().filter(|load| load["outcome"] != "invalid") {
        assert_eq!(number(load, "lost") > 0, load["outcome"] == "lossy", "{load:#}");
        let rate = |name: &str| load[name].as_f64().expect("something came");
        assert!(rate("carried_bits_per_s") < 1.1 * rate("offered_bits_per_s").min(1e8), "{load:#}");
    }
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
fn rate_depth_and_queues_that_are_hidden_from_the_measurement_are_named_or_it_is_said_why_not() {
    let folder = Folder::new();
    let page = folder.at("map.html");
    let command = ["qualify", "watershed", "--testbed", "blind=49,datagram=8972,sources=2", "--ports", "1,2"];
    let ended = thalweg(&[&command[..], &["--columns", "6", "--report", &page, "--json"]].concat());
    if ended.error.contains("a testbed needs") {
        return skip(&format!("a testbed needs a bridge and a shaper in the kernel: {}", ended.error));
    }
    let map = ended.json();
    assert_eq!((map["rate_source"].as_str(), number(&map["testbed"], "blind")), (Some("measured"), 49));
    let text = std::fs::read_to_string(&page).expect("it was written");
    assert!(
        text.contains("<svg") && text.contains("watershed.json") && !text.contains("http-equiv"),
        "{page}"
    );
    match map["fitted_depth_bytes"].as_f64() {
        Some(depth) => {
            let of = |found: f64, made: &str| found / map[made].as_f64().expect("known");
            let rate = map["fitted_rate_bits_per_s"].as_f64().expect("fitted");
            let (depth, rate) = (of(depth, "true_depth_bytes"), of(rate, "true_rate_bits_per_s"));
            assert!((0.9..1.1).contains(&depth) && (0.95..1.05).contains(&rate), "{depth} {rate}");
            assert_eq!(map["model"]["verdict"], map["true_queues"], "{map:#}");
        }
        None => assert!(ended.code == Some(1) && map["remark"] != "", "{map:#}"),
    }
}

#[test]
fn a_device_between_hosts_is_swept_by_its_ports_and_asked_for_what_it_has_thrown_away() {
    let Some(network) = Network::wired() else { return };
    [&network.boards, &network.run].iter().for_each(|host| host.set_mtu(9216));
    network.manage();
    // Ten datagrams of 9 kB fit: two events of four boards, and not of eight.
    network.boards.shape(Some("tbf rate 100mbit burst 10kb limit 90kb"));
    let control = |port: u16| {
        let address = format!("10.76.0.1:{port}");
        let sources = ["qualify", "emit", "--control", &address, "--to", "10.77.0.2:50000"];
        let host = network.boards.start(&[&sources[..], &["--from", "10.77.0.1:0"]].concat());
        host.wait_for_text("send to 10.77.0.2 only");
        host
    };
    let (one, other) = (control(50_001), control(50_002));
    let dropped = format!(
        "tc -n {} -s qdisc show dev link0 | sed -n '2s/.*dropped \\([0-9]*\\),.*/{{\"link0 dropped\": \\1}}/p'",
        network.boards.name()
    );
    let device =
        ["--hosts", "10.76.0.1:50001,10.76.0.1:50002", "--receive", "10.77.0.2:50000", "--datagram", "8972"];
    let more = ["--sources-per-host", "4", "--rate", "100Mbit", "--counters-command", &dropped, "--json"];
    let swept = network.run.start(&[&["qualify", "incast"], &device[..], &more[..]].concat()).wait();
    let found = swept.json();
    let points = found["points"].as_array().expect("a list");
    assert_eq!(points.len(), 8, "{found:#}");
    // Virtual cards count no PAUSE frames: that is said of the receiver's and of each sending host's.
    let flow_control = &found["flow_control"];
    assert_eq!(flow_control["state"], "unknown", "{flow_control}");
    for place in ["link0 of the receiver", "the sources at 10.76.0.1:50001", "10.76.0.1:50002"] {
        assert!(flow_control["words"].as_str().is_some_and(|words| words.contains(place)), "{flow_control}");
    }
    for point in points.iter().filter(|point| point["outcome"] != "invalid") {
        assert_eq!(number(point, "lost") > 0, point["outcome"] == "lossy", "{point:#}");
        assert_eq!(number(point, "sent") % (2 * number(point, "sources")), 0, "{point:#}");
    }
    // Two events of four boards fit. A machine that does much else sends so slowly that those of eight do, too, or says what did not count.
    assert!(found["lossy_sources"].as_u64().is_none_or(|lossy| lossy >= 5), "{found:#}");
    assert_eq!(swept.code == Some(0), found["remark"] == "", "{found:#}");

    // The same hosts send a program of triggers together.
    network.boards.shape(None);
    let receiver = network.run.start(&["qualify", "receive", "--listen", "10.77.0.2:50000", "--json"]);
    receiver.wait_for_text("receiving at");
    let emit = ["qualify", "emit", "--to", "10.77.0.2:50000", "--hosts", device[1], "--sources", "3"];
    let sent = network.run.start(&[&emit[..], &["--triggers", "200", "--json"]].concat()).wait().json();
    assert_eq!((number(&sent, "sources"), number(&sent, "sent")), (6, 1200), "{sent:#}");
    assert_ne!(sent["start_skew"], "one_host", "{sent:#}");
    let receipt = receiver.wait().json();
    assert_eq!((number(&receipt, "received"), number(&receipt, "missing")), (1200, 0), "{receipt:#}");
    drop((one, other));
    let gone = network.run.start(&[&emit[..], &["--triggers", "200"]].concat()).wait();
    assert!(
        gone.code == Some(1) && gone.error.contains("is `thalweg qualify emit --control` running there?"),
        "{gone:#?}"
    );
}

#[test]
fn a_device_recovers_from_an_overflow_as_fast_as_it_drains() {
    let Some(_possible) = Network::wired() else { return };
    let folder = Folder::new();
    let picture = folder.at("recovery.svg");
    let testbed = "rate=200Mbit,depth=200kB,datagram=8972,sources=2";
    let ended = thalweg(&["qualify", "recovery", "--testbed", testbed, "--svg", &picture, "--json"]);
    if ended.error.contains("a testbed needs") {
        return skip(&format!("a testbed needs a bridge and a shaper in the kernel: {}", ended.error));
    }
    let found = ended.json();
    let drawn = std::fs::read_to_string(&picture).expect("it was drawn");
    match found["of_draining"].as_f64() {
        Some(of) => {
            assert!((0.5..2.0).contains(&of) && ended.code == Some(0), "{of}: {found:#}");
            assert!(drawn.contains("just draining"), "{drawn}");
        }
        None => assert!(found["remark"] != "" && ended.code == Some(1), "{found:#}"),
    }
}

#[test]
fn a_testbed_lasts_as_long_as_a_command_and_nothing_of_it_is_left() {
    let Some(_possible) = Network::wired() else { return };
    let testbed = "rate=100Mbit,depth=1MB,datagram=1024,sources=2,queues=per-input";
    let script = "tc -n $THALWEG_DEVICE qdisc show dev out0; ip netns list | grep -c $THALWEG_SOURCES";
    let ended = thalweg(&["qualify", "testbed", testbed, "--", "sh", "-c", script]);
    if ended.error.contains("a testbed needs") {
        return skip(&format!("a testbed needs a bridge and a shaper in the kernel: {}", ended.error));
    }
    assert_eq!((ended.code, ended.out.matches("bfifo").count()), (Some(0), 2), "{ended:#?}");
    let failed = thalweg(&["qualify", "testbed", testbed, "--", "false"]);
    assert_eq!(failed.code, Some(1), "{failed:#?}");
    let held = Running::start(&["qualify", "testbed", testbed, "--json"]);
    let made = format!("/run/netns/thalweg-{}-0-receiver", held.id());
    wait_until("the device is there", || std::path::Path::new(&made).exists());
    held.signal("INT");
    let place = held.wait();
    let names = place.json()["namespaces"].as_array().expect("a list").clone();
    for name in names {
        let path = format!("/run/netns/{}", name.as_str().expect("a name"));
        assert!(!std::path::Path::new(&path).exists(), "{path} is left");
    }
}

#[test]
fn a_capture_is_sent_again_and_what_came_of_it_is_counted_as_of_its_sources() {
    let folder = Folder::new();
    let file = folder.at("sent.pcap");
    let mut capture = CaptureWriter::new(Vec::new()).expect("memory");
    for event in 0..50_u32 {
        let mut payload = b"thalwegQ".to_vec();
        payload.extend([0, 0, 0, 0, 0, 0, 0, 9, 0, 0, 0, 0]);
        payload.extend(event.to_be_bytes());
        payload.extend([0, 3, 1, 2, 3, 4, 5, 6, 7, 8]);
        let address = |last: u8| std::net::SocketAddr::from(([10, 0, 0, last], 50_000));
        capture.datagram(u64::from(event) * 100_000, address(1), address(2), &payload).expect("memory");
    }
    std::fs::write(&file, capture.finish().expect("memory")).expect("written");
    let counted = thalweg(&["qualify", "receive", "--capture", &file, "--json"]);
    let of_capture = counted.json();
    assert_eq!(
        (counted.code, number(&of_capture, "received")),
        (Some(1), 50),
        "no end is in it: {of_capture:#}"
    );

    let port = free_port();
    let listen = format!("127.0.0.1:{port}");
    let receiver = Running::start(&["qualify", "receive", "--listen", &listen, "--seconds", "600", "--json"]);
    receiver.wait_for_text("receiving at");
    let replayed =
        thalweg(&["qualify", "emit", "--to", &listen, "--capture", &file, "--speed", "0.5", "--json"]);
    let sent = replayed.json();
    assert_eq!((number(&sent, "sent"), number(&sent, "others")), (50, 0), "{sent:#}");
    assert!(sent["took_s"].as_f64() >= Some(0.0098), "at half the speed: {sent:#}");
    receiver.signal("INT");
    let receipt = receiver.wait().json();
    assert_eq!(
        (&receipt["sources"], number(&receipt, "received")),
        (&of_capture["sources"], 50),
        "{receipt:#}"
    );
    let wrong = thalweg(&["qualify", "emit", "--to", &listen, "--capture", "/nowhere.pcap"]);
    assert!(wrong.code == Some(2) && wrong.error.contains("/nowhere.pcap"), "{wrong:#?}");
}

#[test]
fn an_invalid_testbed_is_refused_with_what_to_write() {
    for (testbed, word) in [
        ("rate=800Mbit,depth=8MB", "`datagram` is missing; write for example datagram=8972"),
        ("rate=8MB,depth=8MB,datagram=8972", "rate: \"8MB\" has the unit"),
        (
            "rate=800Mbit,deep=8MB",
            "there is no `deep`; there are rate, depth, datagram, sources, burst, queues, outputs, stacking, blind",
        ),
        ("rate=800Mbit,depth=8MB,datagram=8972,sources=0", "is no number from 1 to 512"),
        ("rate=800Mbit,depth=8MB,datagram=8972,queues=many", "is neither shared nor per-input"),
        ("rate=800Mbit,depth=8MB,datagram=8972,sources=5,outputs=2", "use an even number of sources"),
        ("rate=800Mbit,depth=8MB,datagram=8972,stacking=3", "use a multiple of 3 sources"),
        ("blind=1,rate=800Mbit,datagram=8972", "`rate` is drawn by the seed"),
        ("rate", "`rate` is no KEY=VALUE"),
    ] {
        let ended = thalweg(&["qualify", "watershed", "--testbed", testbed]);
        assert!(ended.code == Some(2) && ended.error.contains(word), "{ended:#?}");
    }
    let nobody = format!("127.0.0.1:{}", free_port());
    let device = ["--hosts", &nobody, "--receive", "127.0.0.1:0", "--datagram", "1024", "--rate", "1Gbit"];
    let alone = thalweg(&[&["qualify", "incast"], &device[..]].concat());
    assert!(
        alone.code == Some(1) && alone.error.contains("is `thalweg qualify emit --control` running there?"),
        "{alone:#?}"
    );
}

#[test]
fn what_synchronous_sources_send_is_counted_by_source_and_what_is_lost_is_said() {
    let receive = |port: u16| {
        let receiver =
            Running::start(&["qualify", "receive", "--listen", &format!("127.0.0.1:{port}"), "--json"]);
        receiver.wait_for_text("receiving at 127.0.0.1");
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

    // The same port takes the next one, whose events are those that were sent before.
    let folder = Folder::new();
    let times = folder.at("times.txt");
    let again = ["qualify", "emit", "--to", &to, "--sources", "2", "--triggers", "50", "--json"];
    let written = thalweg(&[&again[..], &["--emitted-times", &times]].concat());
    assert_eq!(std::fs::read_to_string(&times).expect("written").lines().count(), 50, "{written:#?}");
    let receiver = receive(port);
    thalweg(&[&again[..], &["--times-file", &times]].concat());
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

#[test]
fn files_that_cannot_be_written_are_refused_before_anything_is_measured() {
    let testbed = ["--testbed", "rate=80Mbit,depth=1MB,datagram=1024"];
    let folder = Folder::new();
    let nowhere = folder.at("no/such/folder/file");
    let refused = |command: &[&str], option: &str| {
        let ended = thalweg(&[&["qualify"], command, &[option, &nowhere]].concat());
        let named = format!("{option} {nowhere}: ");
        assert!(ended.code == Some(2) && ended.error.contains(&named), "{ended:#?}");
    };
    for command in ["watershed", "throughput", "incast", "recovery", "soak"] {
        for option in ["--svg", "--report"] {
            refused(&[&[command], &testbed[..]].concat(), option);
        }
    }
    let disk = folder.path().display().to_string();
    refused(&["storage", &disk, "--bytes", "64MB", "--no-fio"], "--svg");
    assert_eq!(
        std::fs::read_dir(folder.path()).expect("there").count(),
        0,
        "nothing was written to the disk"
    );
    refused(&["emit", "--to", "127.0.0.1:9", "--sources", "1", "--triggers", "1"], "--emitted-times");
}

#[test]
fn a_program_in_a_testbed_gets_the_sigterm_of_the_testbed() {
    let Some(_possible) = Network::wired() else { return };
    let (folder, testbed) = (Folder::new(), "rate=400Mbit,depth=400kB,datagram=8972,sources=2");
    let (started, ended_by) = (folder.path().join("started"), folder.path().join("signal"));
    let program = format!(
        "trap 'echo $THALWEG_DEVICE > {}; exit 3' TERM; touch {}; while :; do sleep 0.05; done",
        ended_by.display(),
        started.display()
    );
    let with = |program: &'static str| ["qualify", "testbed", testbed, "--", program];
    let ended = thalweg(&with("true"));
    if ended.error.contains("a testbed needs root") {
        return skip(&format!("a testbed needs a bridge and a shaper in the kernel: {}", ended.error));
    }
    assert_eq!(ended.code, Some(0), "{ended:#?}");
    let running = Running::start(&[&with("sh")[..], &["-c", &program]].concat());
    running.wait_until("the program is there", || started.exists());
    running.signal("TERM");
    let ended = running.wait();
    assert_eq!(ended.code, Some(1), "{ended:#?}");
    let device = std::fs::read_to_string(ended_by).expect("it got the signal");
    assert!(!std::path::Path::new("/run/netns").join(device.trim()).exists(), "{device} is removed");
}
