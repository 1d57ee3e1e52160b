//! One unit to another on the same host: shared memory against TCP, and handing over inside a process.
//!
//! ```text
//!  sender thread ═ shm:// │ tcp:// │ inproc:// ═ receiver thread     time from the first message to the last
//! ```

use std::io;
use std::time::{Duration, Instant};

use thalweg_data::measure::{Clock, Measurement, compare};
use thalweg_data::{Message, Pool, Received};

use super::BLOCK_BYTES;
use super::n2n::Payload;
use thalweg_transport::TransportError;
use thalweg_transport::peer::{Peer, PeerError, Sent, Settings, connect, listen};

/// Bytes, and messages, that one turn moves at most.
const TURN_BYTES: usize = 512 << 20;
const TURN_MESSAGES: usize = 500_000;
const WAIT: Duration = Duration::from_millis(1);

/// Both ends of one connection.
type Ends = (Box<dyn Peer>, Box<dyn Peer>);

/// Sends messages of `message_bytes` through shared memory, `repeats` times: payload bytes per second, against the same over TCP.
///
/// # Errors
/// When a connection cannot be made or breaks.
pub fn peers(message_bytes: usize, repeats: usize) -> Result<Measurement, TransportError> {
    let failed = |error: io::Error| TransportError::System {
        place: "bench peers".to_owned(),
        call: "a connection",
        cause: error,
    };
    let count = (TURN_BYTES / message_bytes.max(1)).clamp(4, TURN_MESSAGES);
    let name = format!("bench-{}", std::process::id());
    let open = |url: &str| ends(url).map_err(|error| failed(io::Error::other(error)));
    let (mut shm, mut tcp) = (open(&format!("shm://{name}"))?, open("tcp://127.0.0.1:0")?);
    let mut inproc = open(&format!("inproc://{name}"))?;
    let payload = Payload::new(message_bytes).map_err(failed)?;
    let problem = std::cell::RefCell::new(None);
    let run = |ends: &mut Ends| {
        turn(ends, &payload, count).unwrap_or_else(|error| {
            *problem.borrow_mut() = Some(error);
            Duration::from_secs(1)
        })
    };
    let tcp = std::cell::RefCell::new(&mut tcp);
    let compared = compare(Clock::Wall, repeats, || run(&mut shm), || run(*tcp.borrow_mut()));
    let handed = compare(Clock::Wall, repeats, || run(&mut inproc), || run(*tcp.borrow_mut()));
    if let Some(error) = problem.take() {
        return Err(failed(io::Error::other(error)));
    }
    let bytes = (count * message_bytes) as f64;
    Ok(Measurement::of_rate("peers", "B/s", bytes, "the same messages over tcp://127.0.0.1", compared)
        .with("message_bytes", message_bytes)
        .with("messages_per_turn", count)
        .with("messages_per_s", count as f64 / compared.subject_s)
        .with("inproc_messages_per_s", count as f64 / handed.subject_s)
        .with("inproc_ratio_to_tcp", handed.speed_ratio)
        .repeated(repeats))
}

fn ends(url: &str) -> Result<Ends, PeerError> {
    let settings = || -> Result<Settings, PeerError> {
        let pool = Pool::new(64, BLOCK_BYTES).map_err(|error| PeerError::Settings(error.to_string()))?;
        // While one way is measured, the others rest.
        Ok(Settings { silence_wait: Duration::ZERO, ..Settings::new("bench", pool) })
    };
    let mut endpoint = listen(url, settings()?)?;
    let (url, own) = (endpoint.url(), settings()?);
    let connecting = std::thread::spawn(move || connect(&url, own));
    let accepted = endpoint.accept(Duration::from_secs(10))?;
    let connected = connecting.join().map_err(|_| PeerError::Closed { place: endpoint.url() })??;
    let accepted = accepted.ok_or_else(|| PeerError::Absent { place: endpoint.url() })?;
    Ok((connected, accepted))
}

/// Moves `count` messages one way.
fn turn((sender, receiver): &mut Ends, payload: &Payload, count: usize) -> Result<Duration, PeerError> {
    let start = Instant::now();
    std::thread::scope(|scope| {
        let sending = scope.spawn(move || {
            let mut out = Message::default();
            for number in 0..count {
                payload.fill(&mut out, number);
                while sender.send(&mut out)? == Sent::Full {
                    sender.flush(WAIT)?;
                }
            }
            while !sender.flush(WAIT)? {}
            Ok(())
        });
        let (mut seen, mut came) = (0, Message::default());
        while seen < count {
            seen += usize::from(receiver.receive(&mut came, WAIT)? == Received::Data);
        }
        let place = || receiver.place().to_owned();
        sending.join().unwrap_or_else(|_| Err(PeerError::Closed { place: place() }))
    })?;
    Ok(start.elapsed())
}

#[cfg(test)]
mod tests {
    #[test]
    fn every_way_carries_what_it_is_given() {
        let measured = super::peers(300_000, 1).expect("one host");
        assert!(measured.value > 0.0 && measured.baseline_value > 0.0);
    }
}
