//! A relay of TCP connections that holds bytes for a time and lets only so many through: a link between sites.
//!
//! ```text
//!  near ─► reader ─ (bytes, when they came) ─► writer: not before their time, not faster than the rate ─► far, and back
//! ```
//! The rate is one for all connections of a direction. A connection has at most 4 MiB under way, as its window would.

use std::io::{self, Read, Write};
use std::net::{Ipv4Addr, SocketAddr, TcpStream};
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use super::accepting::Accepting;

const CHUNK_BYTES: usize = 64 << 10;
const CHUNKS_UNDER_WAY: usize = 64;
/// When a direction is free again.
type Free = Arc<Mutex<Instant>>;

#[derive(Clone)]
struct Way {
    delay: Duration,
    bits_per_s: f64,
    free: Free,
}

/// Listens on loopback and relays to `to`, until it is dropped.
pub(super) fn start(to: SocketAddr, delay: Duration, bits_per_s: f64) -> io::Result<Accepting> {
    let way = || Way { delay, bits_per_s, free: Arc::new(Mutex::new(Instant::now())) };
    let (there, back) = (way(), way());
    // A connection that cannot be relayed is closed, which both ends see.
    let serve = move |near| drop(relay(near, to, &there, &back));
    Accepting::start((Ipv4Addr::LOCALHOST, 0).into(), serve)
}

fn relay(near: TcpStream, to: SocketAddr, there: &Way, back: &Way) -> io::Result<()> {
    near.set_nonblocking(false)?;
    let far = TcpStream::connect(to)?;
    for (from, into, way) in [(near.try_clone()?, far.try_clone()?, there), (far, near, back)] {
        into.set_nodelay(true)?;
        let (chunks, arriving) = sync_channel(CHUNKS_UNDER_WAY);
        let way = way.clone();
        std::thread::spawn(move || read(from, &chunks));
        std::thread::spawn(move || write(into, &arriving, &way));
    }
    Ok(())
}

fn read(mut from: TcpStream, chunks: &SyncSender<(Instant, Vec<u8>)>) {
    loop {
        let mut bytes = vec![0; CHUNK_BYTES];
        match from.read(&mut bytes) {
            Ok(0) | Err(_) => return,
            Ok(length) => bytes.truncate(length),
        }
        if chunks.send((Instant::now(), bytes)).is_err() {
            return;
        }
    }
}

fn write(mut into: TcpStream, arriving: &Receiver<(Instant, Vec<u8>)>, way: &Way) {
    for (came, bytes) in arriving {
        let takes = Duration::from_secs_f64(8.0 * bytes.len() as f64 / way.bits_per_s);
        let through = {
            let mut free = way.free.lock().unwrap_or_else(PoisonError::into_inner);
            *free = (*free).max(came) + takes;
            *free
        };
        std::thread::sleep((through + way.delay).saturating_duration_since(Instant::now()));
        if into.write_all(&bytes).is_err() {
            return;
        }
    }
    let _ = into.shutdown(std::net::Shutdown::Write);
}
