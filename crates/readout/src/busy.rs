//! BUSY for a real trigger: datagrams and HTTP requests that say when triggers are to be held back.
//!
//! ```text
//!  Busy ─ looked at each 500 µs ─► change ─► datagram, repeated          to the trigger electronics
//!                                        └─► POST {"busy": …}            to whatever speaks HTTP
//! ```
//! With a run that ends BUSY is raised and stays so: nobody reads what a trigger would bring.
//!
//! Neither is on the data path: each has a thread of its own, and one that cannot be reached costs counts and nothing else.
//!
//! The datagram has 16 bytes, numbers big-endian: `BUSY`, version 1, state (1 busy, 0 not), two bytes 0, a count of the changes
//! (4 bytes), milliseconds since the output was opened (4 bytes, wrapping). It is sent at each change, three more times behind it,
//! each `repeat_ms` while busy, and each second otherwise: a trigger that has not heard anything for two seconds should
//! take that as busy.

use std::io::{Read, Write};
use std::net::{Ipv4Addr, Ipv6Addr, SocketAddr, TcpStream, ToSocketAddrs, UdpSocket};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use thalweg_data::Busy;

/// Between two looks at BUSY: a shorter pulse may go unseen.
const LOOK: Duration = Duration::from_micros(500);
/// A state without a change is repeated so often behind the change, and then at `HEARTBEAT`.
const REPEATS: u32 = 3;
/// Sent also when nothing happens.
const HEARTBEAT: Duration = Duration::from_secs(1);

/// Where BUSY is told.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct BusySettings {
    /// HOST:PORT to which datagrams are sent.
    pub udp: Option<String>,
    /// http://HOST:PORT/PATH to which changes are posted as `{"busy": true, "change": 7}`.
    pub http: Option<String>,
    /// Between two datagrams while busy, milliseconds.
    pub repeat_ms: u32,
    /// How long connecting and answering may take, milliseconds each.
    pub http_timeout_ms: u32,
}

impl Default for BusySettings {
    fn default() -> BusySettings {
        BusySettings { udp: None, http: None, repeat_ms: 10, http_timeout_ms: 500 }
    }
}

/// An output that cannot be opened.
#[derive(Debug, thiserror::Error)]
pub enum BusyError {
    /// Not an address.
    #[error("busy output: `{key} = \"{found}\"`: {cause}; write {expected}")]
    Address {
        /// The key in the configuration.
        key: &'static str,
        /// What was written.
        found: String,
        /// What is wrong with it.
        cause: String,
        /// What should stand there.
        expected: &'static str,
    },
    /// A time of zero.
    #[error("busy output: `{0} = 0`; allowed is 1 or more")]
    Time(&'static str),
    /// The system gave no socket or thread.
    #[error("busy output: {0}")]
    System(#[from] std::io::Error),
}

/// What was told.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct BusyCounts {
    /// Datagrams sent.
    pub datagrams: u64,
    /// Changes that were posted and answered with 2xx.
    pub posts: u64,
    /// Datagrams and posts that did not go, or were answered with something else.
    pub failures: u64,
}

#[derive(Default)]
struct Shared {
    ending: AtomicBool,
    datagrams: AtomicU64,
    posts: AtomicU64,
    failures: AtomicU64,
}

/// Tells a trigger of BUSY. Dropping it tells "busy" and ends: nobody reads any more, until another run says otherwise.
pub struct BusyOutput {
    shared: Arc<Shared>,
    threads: Vec<JoinHandle<()>>,
}

impl BusyOutput {
    /// Opens what is configured; with nothing configured it does nothing.
    ///
    /// # Errors
    /// When an address cannot be used. That nobody answers there is no error.
    pub fn open(settings: &BusySettings, busy: &Arc<Busy>) -> Result<BusyOutput, BusyError> {
        for (key, time) in [("repeat_ms", settings.repeat_ms), ("http_timeout_ms", settings.http_timeout_ms)]
        {
            if time == 0 {
                return Err(BusyError::Time(key));
            }
        }
        let mut output = BusyOutput { shared: Arc::default(), threads: Vec::new() };
        if let Some(to) = &settings.udp {
            let repeat = Duration::from_millis(settings.repeat_ms.into());
            let sender = Datagrams::open(to, repeat, output.shared.clone())?;
            output.spawn("busy datagrams", busy, move |watch| sender.run(watch))?;
        }
        if let Some(url) = &settings.http {
            let timeout = Duration::from_millis(settings.http_timeout_ms.into());
            let hook = Hook::parse(url, timeout, output.shared.clone())?;
            output.spawn("busy hook", busy, move |watch| hook.run(watch))?;
        }
        Ok(output)
    }

    fn spawn(
        &mut self,
        name: &str,
        busy: &Arc<Busy>,
        work: impl FnOnce(&Watch) + Send + 'static,
    ) -> std::io::Result<()> {
        let watch = Watch { busy: busy.clone(), shared: self.shared.clone() };
        self.threads.push(std::thread::Builder::new().name(name.to_owned()).spawn(move || work(&watch))?);
        Ok(())
    }

    /// What was told so far.
    pub fn counts(&self) -> BusyCounts {
        let count = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
        let Shared { datagrams, posts, failures, .. } = &*self.shared;
        BusyCounts { datagrams: count(datagrams), posts: count(posts), failures: count(failures) }
    }
}

impl Drop for BusyOutput {
    fn drop(&mut self) {
        self.shared.ending.store(true, Ordering::Release);
        for thread in self.threads.drain(..) {
            // A thread that panicked tells nothing more; there is nothing to save here.
            let _panicked = thread.join();
        }
    }
}

/// The line as it stands.
struct Watch {
    busy: Arc<Busy>,
    shared: Arc<Shared>,
}

impl Watch {
    fn is_ending(&self) -> bool {
        self.shared.ending.load(Ordering::Acquire)
    }
}

/// The message of 16 bytes; see the module.
fn datagram(busy: bool, change: u32, since_ms: u32) -> [u8; 16] {
    let mut bytes = [0; 16];
    bytes[..4].copy_from_slice(b"BUSY");
    (bytes[4], bytes[5]) = (1, u8::from(busy));
    bytes[8..12].copy_from_slice(&change.to_be_bytes());
    bytes[12..].copy_from_slice(&since_ms.to_be_bytes());
    bytes
}

struct Datagrams {
    socket: UdpSocket,
    repeat: Duration,
    shared: Arc<Shared>,
    start: Instant,
}

impl Datagrams {
    fn open(to: &str, repeat: Duration, shared: Arc<Shared>) -> Result<Datagrams, BusyError> {
        let address = resolve("udp", to, to, "HOST:PORT of the trigger")?;
        let any: SocketAddr = match address {
            SocketAddr::V4(_) => (Ipv4Addr::UNSPECIFIED, 0).into(),
            SocketAddr::V6(_) => (Ipv6Addr::UNSPECIFIED, 0).into(),
        };
        let socket = UdpSocket::bind(any)?;
        socket.connect(address)?;
        socket.set_nonblocking(true)?;
        Ok(Datagrams { socket, repeat, shared, start: Instant::now() })
    }

    fn run(&self, watch: &Watch) {
        let (mut state, mut change, mut repeats) = (false, 0u32, 0);
        let mut next = Instant::now();
        while !watch.is_ending() {
            let (now, busy) = (Instant::now(), watch.busy.is_raised());
            if busy != state {
                (state, change, repeats, next) = (busy, change.wrapping_add(1), REPEATS, now);
            }
            if now >= next {
                self.send(state, change);
                let soon = state || repeats > 0;
                repeats = repeats.saturating_sub(1);
                next = now + if soon { self.repeat } else { HEARTBEAT };
            }
            std::thread::sleep(LOOK);
        }
        self.send(true, if state { change } else { change.wrapping_add(1) });
    }

    fn send(&self, busy: bool, change: u32) {
        let since_ms = self.start.elapsed().as_millis() as u32;
        let counter = match self.socket.send(&datagram(busy, change, since_ms)) {
            Ok(_) => &self.shared.datagrams,
            Err(_) => &self.shared.failures,
        };
        counter.fetch_add(1, Ordering::Relaxed);
    }
}

pub(crate) fn resolve(
    key: &'static str,
    found: &str,
    host_port: &str,
    expected: &'static str,
) -> Result<SocketAddr, BusyError> {
    let failed = |cause: String| BusyError::Address { key, found: found.to_owned(), cause, expected };
    let mut all = host_port.to_socket_addrs().map_err(|cause| failed(cause.to_string()))?;
    all.next().ok_or_else(|| failed("it has no address".to_owned()))
}

/// Address, host and path of `http://HOST:PORT/PATH`.
fn hook_parts(url: &str) -> Result<(SocketAddr, &str, &str), BusyError> {
    const EXPECTED: &str = "http://HOST:PORT/PATH";
    let failed = |cause: &str| BusyError::Address {
        key: "http",
        found: url.to_owned(),
        cause: cause.to_owned(),
        expected: EXPECTED,
    };
    let rest = url.strip_prefix("http://").ok_or_else(|| failed("only http:// is spoken"))?;
    let (host, path) = rest.split_once('/').unwrap_or((rest, ""));
    if url.contains(|letter: char| letter.is_whitespace() || letter.is_control()) {
        return Err(failed("it has blanks"));
    }
    let with_port = if host.rsplit_once(':').is_some_and(|(_, port)| port.parse::<u16>().is_ok()) {
        host.to_owned()
    } else {
        format!("{host}:80")
    };
    Ok((resolve("http", url, &with_port, EXPECTED)?, host, path))
}

/// Where a hook listens.
pub(crate) fn hook_address(url: &str) -> Result<SocketAddr, BusyError> {
    hook_parts(url).map(|(address, ..)| address)
}

/// An HTTP server that is told of changes.
struct Hook {
    address: SocketAddr,
    host: String,
    path: String,
    timeout: Duration,
    shared: Arc<Shared>,
}

impl Hook {
    fn parse(url: &str, timeout: Duration, shared: Arc<Shared>) -> Result<Hook, BusyError> {
        let (address, host, path) = hook_parts(url)?;
        Ok(Hook { address, host: host.to_owned(), path: format!("/{path}"), timeout, shared })
    }

    /// Posts the newest state, which an earlier run may have left otherwise; what changed twice while a post was under way is not posted.
    fn run(&self, watch: &Watch) {
        let (mut told, mut change) = (None, 0u32);
        loop {
            let ending = watch.is_ending();
            let state = watch.busy.is_raised() || ending;
            if told != Some(state) {
                (told, change) = (Some(state), change.wrapping_add(u32::from(told.is_some() || state)));
                let counter = match self.post(state, change) {
                    Ok(true) => &self.shared.posts,
                    Ok(false) | Err(_) => &self.shared.failures,
                };
                counter.fetch_add(1, Ordering::Relaxed);
            }
            if ending {
                return;
            }
            std::thread::sleep(LOOK);
        }
    }

    /// Whether the server answered with 2xx.
    fn post(&self, busy: bool, change: u32) -> std::io::Result<bool> {
        let mut stream = TcpStream::connect_timeout(&self.address, self.timeout)?;
        stream.set_write_timeout(Some(self.timeout))?;
        stream.set_read_timeout(Some(self.timeout))?;
        let body = format!("{{\"busy\": {busy}, \"change\": {change}}}");
        let request = format!(
            "POST {} HTTP/1.1\r\nHost: {}\r\nContent-Type: application/json\r\nContent-Length: {}\r\nConnection: close\r\n\r\n{body}",
            self.path,
            self.host,
            body.len()
        );
        stream.write_all(request.as_bytes())?;
        let (mut answer, mut length) = ([0; 64], 0);
        let deadline = Instant::now() + self.timeout;
        // The status line begins `HTTP/1.1 200`.
        while length < 12 && Instant::now() < deadline {
            match stream.read(&mut answer[length..])? {
                0 => break,
                count => length += count,
            }
        }
        Ok(length >= 12 && answer.starts_with(b"HTTP/1.") && answer[9] == b'2')
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::net::TcpListener;

    fn until(what: &str, mut done: impl FnMut() -> bool) {
        let start = Instant::now();
        while !done() {
            assert!(start.elapsed() < Duration::from_secs(10), "{what}");
            std::thread::sleep(Duration::from_millis(1));
        }
    }

    #[test]
    fn datagrams_tell_every_change_and_repeat_it() {
        let trigger = UdpSocket::bind("127.0.0.1:0").expect("loopback");
        trigger.set_read_timeout(Some(Duration::from_secs(5))).expect("a socket");
        let to = trigger.local_addr().expect("bound").to_string();
        let busy = Arc::new(Busy::default());
        let settings = BusySettings { udp: Some(to), repeat_ms: 2, ..BusySettings::default() };
        let output = BusyOutput::open(&settings, &busy).expect("loopback");
        let mut message = [0; 32];
        let mut next = |wanted: [u8; 8]| loop {
            let length = trigger.recv(&mut message).expect("a message");
            assert_eq!((length, &message[..5]), (16, &b"BUSY\x01"[..]));
            let seen = [&message[5..6], &message[8..12]].concat();
            if seen == wanted[..5] {
                return;
            }
        };
        next([0; 8]);
        busy.raise();
        for _ in 0..10 {
            next([1, 0, 0, 0, 1, 0, 0, 0]);
        }
        busy.lower();
        for _ in 0..REPEATS {
            next([0, 0, 0, 0, 2, 0, 0, 0]);
        }
        busy.raise();
        next([1, 0, 0, 0, 3, 0, 0, 0]);
        until("its count", || output.counts().datagrams >= 15);
        assert_eq!((output.counts().posts, output.counts().failures), (0, 0));
        busy.lower();
        next([0, 0, 0, 0, 4, 0, 0, 0]);
        drop(output);
        next([1, 0, 0, 0, 5, 0, 0, 0]);
    }

    #[test]
    fn a_hook_is_posted_each_change() {
        let server = TcpListener::bind("127.0.0.1:0").expect("loopback");
        let url = format!("http://{}/trigger/busy", server.local_addr().expect("bound"));
        let busy = Arc::new(Busy::default());
        let settings = BusySettings { http: Some(url), ..BusySettings::default() };
        let output = BusyOutput::open(&settings, &busy).expect("loopback");
        let answer = |status: &str| {
            let (mut client, _) = server.accept().expect("a client");
            let (mut request, mut piece) = (Vec::new(), [0; 512]);
            while !request.ends_with(b"}") {
                let length = client.read(&mut piece).expect("a request");
                request.extend_from_slice(&piece[..length]);
            }
            client.write_all(format!("HTTP/1.1 {status}\r\n\r\n").as_bytes()).expect("connected");
            String::from_utf8(request).expect("text")
        };
        assert!(answer("204 No Content").ends_with("{\"busy\": false, \"change\": 0}"));
        busy.raise();
        let request = answer("204 No Content");
        assert!(request.starts_with("POST /trigger/busy HTTP/1.1\r\nHost: 127.0.0.1:"), "{request}");
        assert!(request.ends_with("{\"busy\": true, \"change\": 1}"), "{request}");
        until("a post", || output.counts().posts == 2);
        busy.lower();
        assert!(answer("500 Oops").ends_with("{\"busy\": false, \"change\": 2}"));
        until("a failure", || output.counts().failures >= 1);
    }

    #[test]
    fn nobody_there_costs_counts_alone() {
        let gone = TcpListener::bind("127.0.0.1:0").expect("loopback").local_addr().expect("bound");
        let busy = Arc::new(Busy::default());
        let settings = BusySettings { http: Some(format!("http://{gone}")), ..BusySettings::default() };
        let output = BusyOutput::open(&settings, &busy).expect("an address");
        busy.raise();
        until("a failure", || output.counts().failures >= 1);
        busy.lower();
    }

    #[test]
    fn addresses_are_checked_when_opened() {
        let refused = |settings: BusySettings| {
            let opened = BusyOutput::open(&settings, &Arc::default());
            opened.err().expect("cannot work").to_string()
        };
        let udp = |text: &str| refused(BusySettings { udp: Some(text.into()), ..BusySettings::default() });
        let http = |text: &str| refused(BusySettings { http: Some(text.into()), ..BusySettings::default() });
        assert!(udp("nonsense").contains("write HOST:PORT of the trigger"));
        assert!(http("https://x/").contains("only http:// is spoken"));
        assert!(http("http://127.0.0.1:1/a b").contains("blanks"));
        assert!(
            refused(BusySettings { repeat_ms: 0, ..BusySettings::default() }).contains("`repeat_ms = 0`")
        );
    }
}
