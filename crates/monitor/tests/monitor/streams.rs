//! Those who watch: ten times a second, a bounded number, slow and stalled ones.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use super::client::Answer;
use super::{Served, serve, serve_with};

fn watch(served: &Served) -> TcpStream {
    let mut stream = served.client().connect();
    stream.write_all(b"GET /api/events HTTP/1.1\r\nhost: localhost\r\n\r\n").expect("said");
    stream
}

/// Lines of events from a stream, without the sizes of its chunks.
fn lines(stream: TcpStream) -> impl Iterator<Item = String> {
    let is_said =
        |line: &String| ["event: ", "data: ", "retry: ", "HTTP"].iter().any(|start| line.starts_with(start));
    BufReader::new(stream).lines().map_while(Result::ok).filter(is_said)
}

/// How many watch, by the metrics.
fn watching(served: &Served) -> u64 {
    let text = served.client().get("/metrics").text();
    let line = text.lines().find(|line| line.starts_with("thalweg_monitor_streams ")).expect("a metric");
    line.rsplit(' ').next().and_then(|number| number.parse().ok()).expect("a number")
}

#[test]
fn the_state_comes_ten_times_a_second_and_each_message_once() {
    let served = serve();
    let mut lines = lines(watch(&served));
    assert!(lines.next().is_some_and(|line| line == "HTTP/1.1 200 OK"));
    let mut states = 0;
    let mut messages = Vec::new();
    let start = Instant::now();
    while states < 11 {
        let line = lines.next().expect("a line");
        if line == "event: state" {
            states += 1;
            assert!(lines.next().is_some_and(|data| data.starts_with("data: {") && data.ends_with('}')));
        }
        if line == "event: message" {
            messages.push(lines.next().expect("data"));
        }
        if states == 3 {
            served.fake.send(2);
            states += 1;
        }
    }
    let seconds = start.elapsed().as_secs_f64();
    assert!(seconds > 0.7, "ten states take a second, or more on a busy machine: {seconds}");
    let of_two = messages.iter().filter(|message| message.contains("\"number\":2")).count();
    assert_eq!(of_two, 1, "{messages:?}");
}

#[test]
fn a_state_is_made_once_for_all_who_watch_and_not_for_nobody() {
    let served = serve();
    // Time to be wrong in: however long it is, nobody watches.
    std::thread::sleep(Duration::from_millis(300));
    assert_eq!(served.fake.states_made.load(Ordering::Relaxed), 0);
    let streams: Vec<_> = (0..20).map(|_| watch(&served)).collect();
    let start = Instant::now();
    let before = served.fake.states_made.load(Ordering::Relaxed);
    // Each of them sees eight states, whoever was made them for.
    for stream in streams {
        assert_eq!(lines(stream).filter(|line| line == "event: state").take(8).count(), 8);
    }
    let made = served.fake.states_made.load(Ordering::Relaxed) - before;
    let most = 2 + (start.elapsed().as_secs_f64() * 10.0).ceil() as u64;
    assert!((7..=most).contains(&made), "{made} of at most {most}");
}

#[test]
fn a_thousand_streams_are_refused_with_a_word() {
    let served = serve();
    let mut kept = Vec::new();
    let (mut watched, mut refused) = (0, 0);
    for _ in 0..1000 {
        let mut stream = watch(&served);
        let mut start = [0; 12];
        match stream.read_exact(&mut start).map(|()| &start[9..]) {
            Ok(b"200") => {
                watched += 1;
                kept.push(stream);
            }
            Ok(b"503") => {
                refused += 1;
                let mut received = start.to_vec();
                stream.read_to_end(&mut received).expect("an end");
                let answer = Answer::read(&received).expect("an answer");
                assert!(answer.text().contains("[monitor] streams"), "{}", answer.text());
            }
            other => panic!("{other:?}"),
        }
    }
    assert_eq!((watched, refused), (32, 968));
    assert_eq!(watching(&served), 32);
    drop(kept);
    let deadline = Instant::now() + Duration::from_secs(60);
    while watching(&served) > 0 {
        assert!(Instant::now() < deadline, "places are given back");
    }
}

#[test]
fn a_stalled_browser_is_let_go_and_the_others_see_nothing_of_it() {
    // The stalled ones are not let go before the test is over, or soon.
    for (stall_s, is_patient) in [(600.0, true), (0.5, false)] {
        let served = serve_with(|settings| {
            settings.update_hz = 50.0;
            settings.stall_s = stall_s;
        });
        served.fake.padding.store(400_000, Ordering::Relaxed);
        let stalled: Vec<_> = (0..5).map(|_| watch(&served)).collect();
        let mut seen = lines(watch(&served)).filter(|line| line == "event: state");
        assert_eq!(seen.by_ref().take(20).count(), 20, "those who read are not held up");
        let deadline = Instant::now() + Duration::from_secs(60);
        match is_patient {
            true => assert_eq!(watching(&served), 6),
            false => {
                while watching(&served) > 1 {
                    assert!(
                        seen.next().is_some() && Instant::now() < deadline,
                        "the stalled ones are let go"
                    );
                }
            }
        }
        drop(stalled);
    }
}
