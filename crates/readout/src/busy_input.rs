//! The trigger's end of BUSY, as [`BusyOutput`](crate::BusyOutput) sends it: for emulated boards that another process reads.
//!
//! ```text
//!  datagram of 16 bytes ──────► state, time ─────┐
//!  POST {"busy": …} ──► 204 ──► state            ├─► Busy: raised while either says so
//!  no datagram for two seconds ──────────────────┘
//! ```
//! A trigger that has not received "not busy" yet waits ([`BusyInput::was_freed`]): that is no loss of triggers.

use std::io::{self, ErrorKind, Read, Write};
use std::net::{TcpListener, TcpStream, UdpSocket};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use thalweg_data::Busy;

use crate::RunClock;
use crate::busy::{BusyError, BusySettings, hook_address, resolve};

/// Without a datagram for so long nobody may be there any more: busy.
const SILENCE: Duration = Duration::from_secs(2);
/// Longest wait before the end, or the silence, is looked for.
const CHECK_EVERY: Duration = Duration::from_millis(5);
/// The longest time that an HTTP client may take.
const REQUEST_WAIT: Duration = Duration::from_millis(500);
/// Longest request: four lines of header and a state.
const MOST_REQUEST_BYTES: usize = 4096;

/// What was received.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct BusyInputCounts {
    /// Datagrams and posts that say how BUSY stands.
    pub messages: u64,
    /// Others.
    pub refused: u64,
}

#[derive(Default)]
struct Shared {
    ending: AtomicBool,
    freed: AtomicBool,
    messages: AtomicU64,
    refused: AtomicU64,
}

/// Listens for BUSY at the address in the configuration, and raises a line. Dropping it ends it.
pub struct BusyInput {
    shared: Arc<Shared>,
    threads: Vec<JoinHandle<()>>,
}

impl BusyInput {
    /// Listens at the addresses of `[busy]`; with none, nothing is ever busy.
    ///
    /// # Errors
    /// When an address cannot be had.
    pub fn open(settings: &BusySettings, busy: &Arc<Busy>) -> Result<BusyInput, BusyError> {
        let mut input = BusyInput { shared: Arc::default(), threads: Vec::new() };
        if let Some(at) = &settings.udp {
            let socket = UdpSocket::bind(resolve("udp", at, at, "HOST:PORT of this trigger")?)?;
            socket.set_read_timeout(Some(CHECK_EVERY))?;
            let line = Line::new(busy, &input.shared);
            input.spawn("busy datagrams", move || receive_datagrams(&socket, line))?;
        } else {
            // A sender that uses HTTP alone sends changes alone.
            input.shared.freed.store(true, Ordering::Release);
        }
        if let Some(url) = &settings.http {
            let listener = TcpListener::bind(hook_address(url)?)?;
            listener.set_nonblocking(true)?;
            let line = Line::new(busy, &input.shared);
            input.spawn("busy hook", move || receive_posts(&listener, line))?;
        }
        Ok(input)
    }

    fn spawn(&mut self, name: &str, work: impl FnOnce() + Send + 'static) -> io::Result<()> {
        self.threads.push(std::thread::Builder::new().name(name.to_owned()).spawn(work)?);
        Ok(())
    }

    /// Whether anybody has said "not busy" yet, where that is sent all the time.
    pub fn was_freed(&self) -> bool {
        self.shared.freed.load(Ordering::Acquire)
    }

    /// What was received so far.
    pub fn counts(&self) -> BusyInputCounts {
        let Shared { messages, refused, .. } = &*self.shared;
        let count = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
        BusyInputCounts { messages: count(messages), refused: count(refused) }
    }
}

impl Drop for BusyInput {
    fn drop(&mut self) {
        self.shared.ending.store(true, Ordering::Release);
        for thread in self.threads.drain(..) {
            // A thread that panicked receives nothing more; there is nothing to save here.
            let _panicked = thread.join();
        }
    }
}

/// One voice on the line; it is lowered when the voice ends.
struct Line {
    busy: Arc<Busy>,
    clock: RunClock,
    shared: Arc<Shared>,
    raised: bool,
}

impl Line {
    fn new(busy: &Arc<Busy>, shared: &Arc<Shared>) -> Line {
        Line { busy: busy.clone(), clock: RunClock::start(), shared: shared.clone(), raised: false }
    }

    fn set(&mut self, raised: bool) {
        match (self.raised, raised) {
            (false, true) => self.busy.raise(self.clock.mark()),
            (true, false) => self.busy.lower(self.clock.mark()),
            _ => {}
        }
        self.raised = raised;
    }

    /// Counts a message, and does what it says.
    fn on_report(&mut self, said: Option<bool>) {
        let Some(state) = said else {
            self.shared.refused.fetch_add(1, Ordering::Relaxed);
            return;
        };
        self.set(state);
        self.shared.messages.fetch_add(1, Ordering::Relaxed);
        self.shared.freed.fetch_or(!state, Ordering::AcqRel);
    }

    fn is_ending(&self) -> bool {
        self.shared.ending.load(Ordering::Acquire)
    }
}

impl Drop for Line {
    fn drop(&mut self) {
        self.set(false);
    }
}

fn receive_datagrams(socket: &UdpSocket, mut line: Line) {
    let mut last = Instant::now();
    let mut datagram = [0; 64];
    while !line.is_ending() {
        match socket.recv(&mut datagram) {
            Ok(length) => {
                let said = state_of_datagram(&datagram[..length]);
                if said.is_some() {
                    last = Instant::now();
                }
                line.on_report(said);
            }
            Err(_) if last.elapsed() >= SILENCE => line.set(true),
            Err(_) => {}
        }
    }
}

/// What a datagram says, if it is one.
fn state_of_datagram(datagram: &[u8]) -> Option<bool> {
    let known = datagram.len() == 16 && datagram.starts_with(b"BUSY\x01") && datagram[5] <= 1;
    known.then(|| datagram[5] == 1)
}

fn receive_posts(listener: &TcpListener, mut line: Line) {
    while !line.is_ending() {
        match listener.accept() {
            // One at a time: a client that is slow holds up other clients for `REQUEST_WAIT` and nothing else.
            Ok((client, _)) => {
                let said = converse(client).unwrap_or_default();
                line.on_report(said);
            }
            Err(_) => std::thread::sleep(CHECK_EVERY),
        }
    }
}

/// Reads one request, answers it, and returns the state that it says.
fn converse(mut client: TcpStream) -> io::Result<Option<bool>> {
    client.set_nonblocking(false)?;
    client.set_read_timeout(Some(REQUEST_WAIT))?;
    client.set_write_timeout(Some(REQUEST_WAIT))?;
    let (mut request, mut chunk) = (Vec::new(), [0; 512]);
    let deadline = Instant::now() + REQUEST_WAIT;
    let said = loop {
        if let Some(said) = state_of_request(&request) {
            break Some(said);
        }
        if request.len() >= MOST_REQUEST_BYTES || Instant::now() >= deadline {
            break None;
        }
        match client.read(&mut chunk) {
            Ok(0) => break None,
            Ok(length) => request.extend_from_slice(&chunk[..length]),
            Err(cause) if cause.kind() == ErrorKind::Interrupted => {}
            Err(_) => break None,
        }
    };
    let answer = if said.is_some() { "204 No Content" } else { "400 Bad Request" };
    client.write_all(
        format!("HTTP/1.1 {answer}\r\nContent-Length: 0\r\nConnection: close\r\n\r\n").as_bytes(),
    )?;
    Ok(said)
}

/// The state in a whole request: a POST whose body is as `{"busy": true, "change": 7}`.
fn state_of_request(request: &[u8]) -> Option<bool> {
    let text = std::str::from_utf8(request).ok()?;
    let (head, body) = text.split_once("\r\n\r\n")?;
    if !head.starts_with("POST ") || !body.trim_end().ends_with('}') {
        return None;
    }
    let (_, value) = body.split_once("\"busy\"")?;
    let value = value.trim_start().strip_prefix(':')?.trim_start();
    match value {
        _ if value.starts_with("true") => Some(true),
        _ if value.starts_with("false") => Some(false),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::BusyOutput;
    use std::net::SocketAddr;
    use thalweg_data::Mark;

    fn until(what: &str, mut done: impl FnMut() -> bool) {
        let start = Instant::now();
        while !done() {
            assert!(start.elapsed() < Duration::from_secs(10), "{what}");
            std::thread::sleep(Duration::from_millis(1));
        }
    }

    fn free_port(of: std::io::Result<SocketAddr>) -> SocketAddr {
        of.expect("loopback is there")
    }

    #[test]
    fn what_one_end_sends_by_datagram_the_other_receives_and_silence_is_busy() {
        let at = free_port(UdpSocket::bind("127.0.0.1:0").and_then(|socket| socket.local_addr()));
        let settings = BusySettings { udp: Some(at.to_string()), repeat_ms: 2, ..BusySettings::default() };
        let (sent, received) = (Arc::new(Busy::default()), Arc::new(Busy::default()));
        let input = BusyInput::open(&settings, &received).expect("free a moment ago");
        assert!(!input.was_freed() && !received.is_raised());
        let output = BusyOutput::open(&settings, &sent, None).expect("loopback");
        until("a first word", || input.was_freed());
        sent.raise(Mark(0));
        until("busy", || received.is_raised());
        sent.lower(Mark(0));
        until("not busy", || !received.is_raised());
        let unexpected = UdpSocket::bind("127.0.0.1:0").expect("loopback");
        unexpected.send_to(b"nonsense", at).expect("loopback takes it");
        until("a refusal", || input.counts().refused == 1);
        // Who ends says that nobody listens any more; silence would say the same, later.
        drop(output);
        until("the last word", || received.is_raised());
        drop(input);
        assert!(!received.is_raised(), "who has gone is not busy");
    }

    #[test]
    fn what_one_end_posts_the_other_receives_and_answers() {
        let at = free_port(TcpListener::bind("127.0.0.1:0").and_then(|socket| socket.local_addr()));
        let settings = BusySettings { http: Some(format!("http://{at}/busy")), ..BusySettings::default() };
        let (sent, received) = (Arc::new(Busy::default()), Arc::new(Busy::default()));
        let input = BusyInput::open(&settings, &received).expect("free a moment ago");
        assert!(input.was_freed(), "whoever gets posts waits for none");
        let output = BusyOutput::open(&settings, &sent, None).expect("an address");
        until("a first post", || output.counts().posts == 1);
        sent.raise(Mark(0));
        until("busy", || received.is_raised());
        sent.lower(Mark(0));
        until("not busy", || !received.is_raised());
        until("all answered", || output.counts().posts == 3);
        let https = hook_address("https://127.0.0.1:1/busy").expect_err("no certificate").to_string();
        assert!(https.contains("not over TLS"), "{https}");
        let mut unexpected = TcpStream::connect(at).expect("it listens");
        unexpected.write_all(b"GET / HTTP/1.1\r\n\r\n").expect("connected");
        let mut answer = String::new();
        unexpected.read_to_string(&mut answer).expect("an answer");
        assert!(answer.starts_with("HTTP/1.1 400"), "{answer}");
    }
}
