//! Far sides and files that are not as they should be: another version at either end, and clocks in the past.

use std::io::Write;
use std::net::{TcpListener, TcpStream};
use std::time::{Duration, SystemTime};

use thalweg_ship::frame::{Frame, Kind};
use thalweg_ship::handshake::Hello;

use crate::process::{Folder, Running, free_port, thalweg};
use crate::ship::{assert_same, taken};

/// The greeting of an end that speaks later versions alone.
fn greeting() -> Vec<u8> {
    let hello = Hello {
        protocol: "thalweg ship".to_owned(),
        lowest: 7,
        highest: 9,
        nonce: [3; _],
        has_token: false,
        shipper: 5,
    };
    let payload = serde_json::to_vec(&hello).expect("plain data");
    [&Frame::header(Kind::Hello, &[&payload])[..], &payload].concat()
}

#[test]
fn an_end_of_another_version_is_refused_with_both_versions_in_words() {
    let folder = Folder::new();
    taken(&folder, 0.2);
    let listener = TcpListener::bind("127.0.0.1:0").expect("listens");
    let to = format!("receive://{}", listener.local_addr().expect("known"));
    std::thread::spawn(move || {
        for stream in listener.incoming().flatten() {
            let mut stream: TcpStream = stream;
            let _gone = stream.write_all(&greeting());
            std::thread::sleep(Duration::from_secs(1));
        }
    });
    let ended = thalweg(&["ship", &folder.at("runs"), "--to", &to]);
    assert_eq!(ended.code, Some(1), "{ended:#?}");
    let words = "speaks versions 1 to 1 of the protocol, the other 7 to 9; install one release";
    assert!(ended.out.contains(words) && ended.out.contains("given up"), "{ended:#?}");

    let (listen, far) = (format!("127.0.0.1:{}", free_port()), folder.at("far"));
    let receiver = Running::start(&["receive", "--listen", &listen, "--directory", &far, "--json"]);
    receiver.wait_for_text("listening at");
    let mut stream = TcpStream::connect(&listen).expect("it listens");
    stream.write_all(&greeting()).expect("sent");
    let mut kinds = Vec::new();
    while let Ok(frame) = Frame::read(&mut stream, Vec::new()) {
        kinds.push((frame.kind, String::from_utf8_lossy(&frame.payload).into_owned()));
    }
    let Some((Kind::Refused, text)) = kinds.last() else { panic!("{kinds:?}") };
    assert!(text.contains("versions 1 to 1") && text.contains("7 to 9"), "{text}");
    receiver.signal("TERM");
    receiver.wait().done();
}

#[test]
fn clocks_in_the_past_do_no_harm() {
    let folder = Folder::new();
    let run = taken(&folder, 0.2);
    std::fs::create_dir(folder.at("mounted")).expect("made");
    let to = format!("file://{}", folder.at("mounted"));
    let ship = || thalweg(&["ship", &folder.at("runs"), "--to", &to, "--json"]).done().json();
    let at = |name: &str, time: SystemTime| {
        let file = std::fs::File::options().write(true).open(run.join(name)).expect("there");
        file.set_modified(time).expect("set");
    };
    for name in ["hits.arrows", "run.json"] {
        at(name, SystemTime::UNIX_EPOCH - Duration::from_secs(1000));
    }
    let far = folder.path().join("mounted/000001");
    assert_eq!(ship()["is_complete"], true);
    assert_same(&run, &far);
    // As long as before, and older than what was shipped: it is another one all the same.
    for text in ["{\"time\": \"\", \"text\": \"one\"}\n", "{\"time\": \"\", \"text\": \"two\"}\n"] {
        std::fs::write(run.join("notes.jsonl"), text).expect("written");
        let past = if text.contains("two") { Duration::from_secs(9) } else { Duration::from_secs(5) };
        at("notes.jsonl", SystemTime::UNIX_EPOCH + Duration::from_secs(10) - past);
        let progress = ship();
        let route = &progress["destinations"][0];
        assert_eq!((&progress["is_complete"], &route["ledger_balances"]), (&true.into(), &true.into()));
        assert_same(&run, &far);
    }
}
