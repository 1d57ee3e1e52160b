//! BUSY for a real trigger: datagrams and HTTP requests that say when triggers are to be held back.
//!
//! ```text
//!  Busy ─ looked at each 500 µs ─► change ─► datagram, repeated          to the trigger electronics
//!                                        ├─► POST {"busy": …}            to whatever speaks HTTP
//!                                        └─► a register, on or off        to whatever has one
//! ```
//! With a run that ends BUSY is raised and stays so: nobody reads what a trigger would bring.
//!
//! None is on the data path: each has a thread of its own. A state counts as reported when the other end has taken it; until then it is
//! sent again, after 20 ms and then less and less often, at least every two seconds. An outage is a message of the run, at its
//! beginning, while it lasts, and when it is over.
//!
//! The datagram has 16 bytes, numbers big-endian: `BUSY`, version 1, state (1 busy, 0 not), two bytes 0, a count of the changes
//! (4 bytes), milliseconds since the output was opened (4 bytes, wrapping). It is sent at each change, three more times behind it,
//! each `repeat_ms` while busy, and each second otherwise: a trigger that has received nothing for two seconds should
//! take that as busy.

use std::net::{Ipv4Addr, Ipv6Addr, SocketAddr, ToSocketAddrs, UdpSocket};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use thalweg_data::Busy;
use thalweg_transport::http::{HttpClient, HttpError, HttpSettings, look_up, parse_url};

use crate::device::Switch;

/// Between two looks at BUSY: a shorter pulse may go unseen.
const CHECK_EVERY: Duration = Duration::from_micros(500);
/// A state without a change is repeated so often behind the change, and then at `HEARTBEAT`.
const REPEATS: u32 = 3;
/// Sent also when nothing happens.
const HEARTBEAT: Duration = Duration::from_secs(1);
/// Before the second attempt to report a state; the pause doubles from one attempt to the next, …
const FIRST_RETRY: Duration = Duration::from_millis(20);
/// … up to this.
const LONGEST_RETRY: Duration = Duration::from_secs(2);
/// While an outage lasts, it is a message again after this time.
const OUTAGE_MESSAGE_EVERY: Duration = Duration::from_secs(30);
/// How long the last state of a run is tried for.
const LAST_WITHIN: Duration = Duration::from_secs(2);

/// What `udp` is.
const EXPECTED_TRIGGER: &str = "HOST:PORT of the trigger";

/// Where BUSY is sent.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct BusySettings {
    /// HOST:PORT to which datagrams are sent.
    pub udp: Option<String>,
    /// http://HOST:PORT/PATH, or https://, to which changes are posted as `{"busy": true, "change": 7}`.
    pub http: Option<String>,
    /// PEM file of the authority that signed the certificate of an https server, relative to the configuration; without it, the
    /// authorities that this host trusts.
    pub tls_ca: Option<PathBuf>,
    /// Between two datagrams while busy, milliseconds.
    pub repeat_ms: u32,
    /// How long connecting may take, TLS included, milliseconds; a whole post may take twice as long.
    pub http_timeout_ms: u32,
    /// A register that is switched on while busy, as in `{ of = "crate", path = "ctrl.busy" }` with a `[[control]]` called "crate".
    pub register: Option<Switch>,
}

impl BusySettings {
    /// Whether these can be used; names are looked up.
    ///
    /// # Errors
    /// The key, and what to write.
    pub fn check(&self) -> Result<(), BusyError> {
        for (key, time) in [("repeat_ms", self.repeat_ms), ("http_timeout_ms", self.http_timeout_ms)] {
            if time == 0 {
                return Err(BusyError::Time(key));
            }
        }
        let udp = self.udp.as_deref().map(|to| resolve("udp", to, to, EXPECTED_TRIGGER));
        udp.transpose().and(self.http.as_deref().map(|url| self.hook(url)).transpose()).map(drop)
    }

    /// Takes paths as they are meant in a configuration file: relative to its folder.
    pub fn relative_to(&mut self, folder: &Path) {
        self.tls_ca = self.tls_ca.take().map(|path| folder.join(path));
    }

    /// The client of the server at `url`. Its name is looked up here and not again: no change waits for a name server.
    fn hook(&self, url: &str) -> Result<HttpClient, BusyError> {
        let connect_timeout = Duration::from_millis(self.http_timeout_ms.into());
        let tls_ca = self.tls_ca.clone();
        let settings =
            HttpSettings { connect_timeout, timeout: 2 * connect_timeout, tls_ca, look_up_once: true };
        let client = parse_url(url).and_then(|url| HttpClient::new(url, settings));
        client.map_err(|cause| BusyError::Http { found: url.to_owned(), cause })
    }
}

impl Default for BusySettings {
    fn default() -> BusySettings {
        BusySettings {
            udp: None,
            http: None,
            tls_ca: None,
            repeat_ms: 10,
            http_timeout_ms: 500,
            register: None,
        }
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
    /// A server that cannot be posted to.
    #[error("busy output: `http = \"{found}\"`: {cause}")]
    Http {
        /// What was written.
        found: String,
        /// What is wrong with it.
        cause: HttpError,
    },
    /// A time of zero.
    #[error("busy output: `{0} = 0`; allowed is 1 or more")]
    Time(&'static str),
    /// The system gave no socket or thread.
    #[error("busy output: {0}")]
    System(#[from] std::io::Error),
}

/// What was sent.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct BusyCounts {
    /// Datagrams sent.
    pub datagrams: u64,
    /// Changes that were posted and answered with 2xx, or that a register took.
    pub posts: u64,
    /// Attempts that did not go, or were answered with something else; each was followed by another.
    pub failures: u64,
}

#[derive(Default)]
struct Shared {
    ending: AtomicBool,
    datagrams: AtomicU64,
    posts: AtomicU64,
    failures: AtomicU64,
}

/// Switches a register on or off.
pub type SetRegister = Box<dyn FnMut(bool) -> Result<(), String> + Send>;

/// Reports BUSY to a trigger. Dropping it says "busy" and ends: nobody reads any more, until another run says otherwise.
pub struct BusyOutput {
    shared: Arc<Shared>,
    threads: Vec<JoinHandle<()>>,
}

impl BusyOutput {
    /// Opens what is configured; with nothing configured it does nothing. `set` switches the register, where there is one.
    ///
    /// # Errors
    /// When an address cannot be used. That nobody answers there is no error.
    pub fn open(
        settings: &BusySettings,
        busy: &Arc<Busy>,
        set: Option<SetRegister>,
    ) -> Result<BusyOutput, BusyError> {
        settings.check()?;
        let mut output = BusyOutput { shared: Arc::default(), threads: Vec::new() };
        if let Some(to) = &settings.udp {
            let repeat = Duration::from_millis(settings.repeat_ms.into());
            let mut sender = Datagrams::open(to, repeat, output.shared.clone())?;
            output.spawn("busy datagrams", busy, move |watch| sender.run(watch))?;
        }
        if let Some(url) = &settings.http {
            let hook = settings.hook(url)?;
            let post = Box::new(move |busy, change| {
                let state = format!("{{\"busy\": {busy}, \"change\": {change}}}");
                hook.post_json(state.as_bytes()).map_err(|cause| cause.to_string())
            });
            let mut reports =
                Reports { to: post, shared: output.shared.clone(), outage: Outage::new(url.clone()) };
            output.spawn("busy hook", busy, move |watch| reports.run(watch))?;
        }
        if let (Some(register), Some(mut set)) = (&settings.register, set) {
            let to = Box::new(move |busy, _change| set(busy));
            let mut reports =
                Reports { to, shared: output.shared.clone(), outage: Outage::new(register.to_string()) };
            output.spawn("busy register", busy, move |watch| reports.run(watch))?;
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

    /// What was sent so far.
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
            // A thread that panicked sends nothing more; there is nothing to save here.
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

/// A word that does not reach the other end: when it is tried again, and what is said of it.
struct Outage {
    to: String,
    /// Attempts in a row that failed.
    failures: u64,
    pause: Duration,
    retry_at: Instant,
    message_at: Instant,
}

impl Outage {
    fn new(to: String) -> Outage {
        let now = Instant::now();
        Outage { to, failures: 0, pause: FIRST_RETRY, retry_at: now, message_at: now }
    }

    /// An attempt has failed.
    fn attempt_failed(&mut self, cause: &str, now: Instant) {
        self.failures += 1;
        self.retry_at = now + self.pause;
        self.pause = (self.pause * 2).min(LONGEST_RETRY);
        if now >= self.message_at {
            self.message_at = now + OUTAGE_MESSAGE_EVERY;
            let Outage { to, failures, .. } = self;
            tracing::warn!(
                "BUSY does not reach the trigger at {to}: {cause}, {failures} attempt(s) failed; it is sent again until it does, see [busy]"
            );
        }
    }

    /// An attempt has succeeded.
    fn attempt_succeeded(&mut self) {
        if self.failures > 0 {
            let Outage { to, failures, .. } = self;
            tracing::info!("BUSY reaches the trigger at {to} again, after {failures} failed attempt(s)");
        }
        (self.failures, self.pause) = (0, FIRST_RETRY);
    }

    /// There is something new to say: it does not wait as long as what was said before.
    fn hurry(&mut self, now: Instant) {
        self.pause = FIRST_RETRY;
        self.retry_at = self.retry_at.min(now + FIRST_RETRY);
    }

    /// Tries the last message of a run until it is taken or it has been tried for long enough.
    fn last_message(&mut self, mut attempt: impl FnMut() -> Result<(), String>) {
        let until = Instant::now() + LAST_WITHIN;
        loop {
            let Err(cause) = attempt() else { return self.attempt_succeeded() };
            let now = Instant::now();
            self.attempt_failed(&cause, now);
            if now >= until {
                let to = &self.to;
                return tracing::error!(
                    "the trigger at {to} got no message at the end of the run that BUSY is raised: {cause}; see that it holds triggers back by itself"
                );
            }
            std::thread::sleep(self.retry_at.min(until).saturating_duration_since(now));
        }
    }
}

struct Datagrams {
    socket: UdpSocket,
    repeat: Duration,
    shared: Arc<Shared>,
    start: Instant,
    outage: Outage,
    /// Datagrams in a row that went.
    went: u32,
}

impl Datagrams {
    fn open(to: &str, repeat: Duration, shared: Arc<Shared>) -> Result<Datagrams, BusyError> {
        let address = resolve("udp", to, to, EXPECTED_TRIGGER)?;
        let any: SocketAddr = match address {
            SocketAddr::V4(_) => (Ipv4Addr::UNSPECIFIED, 0).into(),
            SocketAddr::V6(_) => (Ipv6Addr::UNSPECIFIED, 0).into(),
        };
        let socket = UdpSocket::bind(any)?;
        socket.connect(address)?;
        socket.set_nonblocking(true)?;
        let outage = Outage::new(address.to_string());
        Ok(Datagrams { socket, repeat, shared, start: Instant::now(), outage, went: 0 })
    }

    fn run(&mut self, watch: &Watch) {
        let (mut state, mut change, mut repeats) = (false, 0u32, 0);
        let mut next = Instant::now();
        while !watch.is_ending() {
            let (now, busy) = (Instant::now(), watch.busy.is_raised());
            if busy != state {
                (state, change, repeats, next) = (busy, change.wrapping_add(1), REPEATS, now);
            }
            if now >= next {
                next = match self.send(state, change) {
                    Ok(()) => {
                        let soon = state || repeats > 0;
                        repeats = repeats.saturating_sub(1);
                        self.went += 1;
                        // A host that refuses says so at the next datagram only: one that went is no sign of an end.
                        if self.went > REPEATS {
                            self.outage.attempt_succeeded();
                        }
                        now + if soon { self.repeat } else { HEARTBEAT }
                    }
                    Err(cause) => {
                        self.went = 0;
                        self.outage.attempt_failed(&cause, now);
                        now + self.repeat
                    }
                };
            }
            std::thread::sleep(CHECK_EVERY);
        }
        let last = if state { change } else { change.wrapping_add(1) };
        let mut outage = std::mem::replace(&mut self.outage, Outage::new(String::new()));
        // The error of a datagram is reported at the next one: two in a row that go are a sign.
        outage.last_message(|| self.send(true, last).and_then(|()| self.send(true, last)));
    }

    fn send(&self, busy: bool, change: u32) -> Result<(), String> {
        let since_ms = self.start.elapsed().as_millis() as u32;
        let sent = self.socket.send(&datagram(busy, change, since_ms));
        let counter = if sent.is_ok() { &self.shared.datagrams } else { &self.shared.failures };
        counter.fetch_add(1, Ordering::Relaxed);
        sent.map(drop).map_err(|cause| cause.to_string())
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

/// Where a hook listens. It has no certificate: only what is posted in clear is received.
pub(crate) fn hook_address(found: &str) -> Result<SocketAddr, BusyError> {
    let failed = |cause| BusyError::Http { found: found.to_owned(), cause };
    let url = parse_url(found).map_err(failed)?;
    if url.scheme() != "http" {
        let cause = "emulated boards receive BUSY over http:// or `udp`, not over TLS".to_owned();
        return Err(failed(HttpError::Url(cause)));
    }
    let addresses = look_up(&url).map_err(failed)?;
    addresses.first().copied().ok_or_else(|| failed(HttpError::Url("it has no address".to_owned())))
}

/// The other end takes a state and says so: a server, a register.
struct Reports {
    to: Box<dyn FnMut(bool, u32) -> Result<(), String> + Send>,
    shared: Arc<Shared>,
    outage: Outage,
}

impl Reports {
    /// Reports the newest state, which an earlier run may have left otherwise, until the other end has taken it; what changed twice while a
    /// report was under way is not reported.
    fn run(&mut self, watch: &Watch) {
        // Of a post that failed, nobody knows whether it was received: then no state counts as reported.
        let (mut reported, mut last, mut change) = (None, None, 0u32);
        while !watch.is_ending() {
            let (state, now) = (watch.busy.is_raised(), Instant::now());
            if last != Some(state) {
                change = change.wrapping_add(u32::from(last.is_some() || state));
                last = Some(state);
                self.outage.hurry(now);
            }
            if reported != Some(state) && (self.outage.failures == 0 || now >= self.outage.retry_at) {
                let posted = self.post(state, change);
                reported = posted.is_ok().then_some(state);
                match posted {
                    Ok(()) => self.outage.attempt_succeeded(),
                    Err(cause) => self.outage.attempt_failed(&cause, Instant::now()),
                }
            }
            std::thread::sleep(CHECK_EVERY);
        }
        if reported != Some(true) {
            let change = change.wrapping_add(u32::from(last != Some(true)));
            let mut outage = std::mem::replace(&mut self.outage, Outage::new(String::new()));
            outage.last_message(|| self.post(true, change));
        }
    }

    /// Reports a state, and counts how that went.
    fn post(&mut self, busy: bool, change: u32) -> Result<(), String> {
        let accepted = (self.to)(busy, change);
        let counter = if accepted.is_ok() { &self.shared.posts } else { &self.shared.failures };
        counter.fetch_add(1, Ordering::Relaxed);
        accepted
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::{Read, Write};
    use std::net::{TcpListener, TcpStream};
    use thalweg_data::Mark;

    use rustls::crypto::ring::default_provider;
    use rustls::pki_types::pem::PemObject;
    use rustls::pki_types::{CertificateDer, PrivateKeyDer};
    use rustls::{ServerConfig, ServerConnection, StreamOwned};

    fn until(what: &str, mut done: impl FnMut() -> bool) {
        let start = Instant::now();
        while !done() {
            assert!(start.elapsed() < Duration::from_secs(10), "{what}");
            std::thread::sleep(Duration::from_millis(1));
        }
    }

    #[test]
    fn datagrams_report_every_change_and_repeat_it() {
        let trigger = UdpSocket::bind("127.0.0.1:0").expect("loopback");
        trigger.set_read_timeout(Some(Duration::from_secs(5))).expect("a socket");
        let to = trigger.local_addr().expect("bound").to_string();
        let busy = Arc::new(Busy::default());
        let settings = BusySettings { udp: Some(to), repeat_ms: 2, ..BusySettings::default() };
        let output = BusyOutput::open(&settings, &busy, None).expect("loopback");
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
        busy.raise(Mark(0));
        for _ in 0..10 {
            next([1, 0, 0, 0, 1, 0, 0, 0]);
        }
        busy.lower(Mark(0));
        for _ in 0..REPEATS {
            next([0, 0, 0, 0, 2, 0, 0, 0]);
        }
        busy.raise(Mark(0));
        next([1, 0, 0, 0, 3, 0, 0, 0]);
        until("its count", || output.counts().datagrams >= 15);
        assert_eq!((output.counts().posts, output.counts().failures), (0, 0));
        busy.lower(Mark(0));
        next([0, 0, 0, 0, 4, 0, 0, 0]);
        drop(output);
        next([1, 0, 0, 0, 5, 0, 0, 0]);
    }

    /// Answers the next request, and gives its text.
    fn answer(server: &TcpListener, status: &str) -> String {
        let (client, _) = server.accept().expect("a client");
        answer_on(client, status).expect("a request")
    }

    fn answer_on(mut client: impl Read + Write, status: &str) -> std::io::Result<String> {
        let (mut request, mut chunk) = (Vec::new(), [0; 512]);
        while !request.ends_with(b"}") {
            let length = client.read(&mut chunk)?;
            request.extend_from_slice(&chunk[..length]);
        }
        client.write_all(format!("HTTP/1.1 {status}\r\n\r\n").as_bytes())?;
        client.flush()?;
        Ok(String::from_utf8(request).expect("text"))
    }

    /// The certificate of the page's tests, made for `localhost` and for tests only.
    fn certificate_file(name: &str) -> PathBuf {
        Path::new(env!("CARGO_MANIFEST_DIR")).join("../monitor/tests/monitor").join(name)
    }

    /// The server's end of the next connection, over TLS.
    fn accept_tls(server: &TcpListener) -> StreamOwned<ServerConnection, TcpStream> {
        let certificate =
            CertificateDer::from_pem_file(certificate_file("tls-certificate.pem")).expect("PEM");
        let key = PrivateKeyDer::from_pem_file(certificate_file("tls-key.pem")).expect("PEM");
        let config = ServerConfig::builder_with_provider(Arc::new(default_provider()))
            .with_safe_default_protocol_versions()
            .expect("versions")
            .with_no_client_auth()
            .with_single_cert(vec![certificate], key)
            .expect("a certificate and its key");
        let (client, _) = server.accept().expect("a client");
        StreamOwned::new(ServerConnection::new(Arc::new(config)).expect("a server"), client)
    }

    fn hook_over_tls(server: &TcpListener, host: &str, tls_ca: Option<PathBuf>) -> BusySettings {
        let port = server.local_addr().expect("bound").port();
        let http = Some(format!("https://{host}:{port}/trigger/busy"));
        BusySettings { http, tls_ca, http_timeout_ms: 5000, ..BusySettings::default() }
    }

    fn hook_to(server: &TcpListener) -> BusySettings {
        let url = format!("http://{}/trigger/busy", server.local_addr().expect("bound"));
        BusySettings { http: Some(url), http_timeout_ms: 5000, ..BusySettings::default() }
    }

    /// Checks that each change is posted once, in requests that `next` takes.
    fn each_change_is_posted(settings: &BusySettings, next: impl Fn() -> String) {
        let busy = Arc::new(Busy::default());
        let output = BusyOutput::open(settings, &busy, None).expect("loopback");
        assert!(next().ends_with("{\"busy\": false, \"change\": 0}"));
        busy.raise(Mark(0));
        let request = next();
        assert!(request.starts_with("POST /trigger/busy HTTP/1.1\r\n"), "{request}");
        assert!(request.ends_with("{\"busy\": true, \"change\": 1}"), "{request}");
        until("a post", || output.counts().posts == 2);
        assert_eq!(output.counts().failures, 0);
    }

    #[test]
    fn a_hook_is_posted_each_change() {
        let server = TcpListener::bind("127.0.0.1:0").expect("loopback");
        each_change_is_posted(&hook_to(&server), || answer(&server, "204 No Content"));
    }

    #[test]
    fn a_hook_over_tls_is_posted_each_change() {
        let server = TcpListener::bind("127.0.0.1:0").expect("loopback");
        let settings = hook_over_tls(&server, "localhost", Some(certificate_file("tls-certificate.pem")));
        let next = || answer_on(accept_tls(&server), "204 No Content").expect("a request over TLS");
        each_change_is_posted(&settings, next);
    }

    #[test]
    fn a_hook_over_tls_that_nobody_vouches_for_or_of_another_name_is_never_posted() {
        let own = Some(certificate_file("tls-certificate.pem"));
        // No authority of a host has signed the certificate; and it names no host 127.0.0.2.
        for (host, tls_ca) in [("localhost", None), ("127.0.0.2", own)] {
            let server = TcpListener::bind((host, 0)).expect("loopback");
            let settings = hook_over_tls(&server, host, tls_ca);
            let client = match settings.hook(settings.http.as_deref().expect("set")) {
                Ok(client) => client,
                // A host that trusts nobody says so at once.
                Err(error) => {
                    assert!(error.to_string().contains("ca-certificates"), "{error}");
                    continue;
                }
            };
            let posting = std::thread::spawn(move || client.post_json(b"{\"busy\": true}"));
            answer_on(accept_tls(&server), "200 OK").expect_err("the client ends before its request");
            let error = posting.join().expect("no panic").expect_err("nothing is posted").to_string();
            assert!(
                error.contains("name the PEM file of the authority that signed it in `tls_ca`"),
                "{error}"
            );
        }
    }

    #[test]
    fn a_hook_that_fails_is_posted_again_until_it_accepts() {
        let server = TcpListener::bind("127.0.0.1:0").expect("loopback");
        let busy = Arc::new(Busy::default());
        busy.raise(Mark(0));
        let output = BusyOutput::open(&hook_to(&server), &busy, None).expect("loopback");
        let raised = "{\"busy\": true, \"change\": 1}";
        assert!(answer(&server, "500 Oops").ends_with(raised));
        // A connection that is closed without an answer is a failure, too.
        drop(server.accept().expect("a second attempt"));
        assert!(answer(&server, "503 Later").ends_with(raised));
        assert!(answer(&server, "200 OK").ends_with(raised));
        until("it counts as sent", || output.counts().posts == 1);
        assert_eq!(output.counts().failures, 3);
        busy.lower(Mark(0));
        assert!(answer(&server, "500 Oops").ends_with("{\"busy\": false, \"change\": 2}"));
        until("a failure", || output.counts().failures == 4);
        // Nobody knows whether the server took the lowered state: the raised one is sent again.
        busy.raise(Mark(0));
        let next = answer(&server, "200 OK");
        assert!(
            next.ends_with("{\"busy\": true, \"change\": 3}") || next.ends_with("false, \"change\": 2}"),
            "{next}"
        );
    }

    #[test]
    fn a_run_that_ends_reports_busy_to_a_hook_that_fails_first() {
        let server = TcpListener::bind("127.0.0.1:0").expect("loopback");
        let busy = Arc::new(Busy::default());
        let output = BusyOutput::open(&hook_to(&server), &busy, None).expect("loopback");
        answer(&server, "200 OK");
        until("it counts as sent", || output.counts().posts == 1);
        let ending = std::thread::spawn(move || drop(output));
        for status in ["500 Oops", "200 OK"] {
            assert!(answer(&server, status).ends_with("{\"busy\": true, \"change\": 1}"));
        }
        ending.join().expect("no panic");
    }

    #[test]
    fn a_register_is_switched_until_it_takes_the_state_and_stays_on_at_the_end() {
        let busy = Arc::new(Busy::default());
        let (takes, taken) = std::sync::mpsc::channel();
        let mut refuses = 2;
        let set: SetRegister = Box::new(move |on| {
            refuses -= i32::from(refuses > 0 && on);
            if on && refuses > 0 {
                return Err("no answer".to_owned());
            }
            takes.send(on).map_err(|gone| gone.to_string())
        });
        let register = Some(Switch::new("crate", "ctrl.busy"));
        let settings = BusySettings { register, ..BusySettings::default() };
        let output = BusyOutput::open(&settings, &busy, Some(set)).expect("a thread");
        let next = || taken.recv_timeout(Duration::from_secs(10)).expect("a state");
        assert!(!next());
        busy.raise(Mark(0));
        assert!(next(), "at the second attempt");
        busy.lower(Mark(0));
        assert!(!next());
        until("its count", || output.counts().posts >= 3);
        assert_eq!(output.counts().failures, 1);
        drop(output);
        assert!(next(), "nobody reads any more");
    }

    #[test]
    fn datagrams_go_on_when_the_trigger_comes_late() {
        let place = UdpSocket::bind("127.0.0.1:0").expect("loopback").local_addr().expect("bound");
        let busy = Arc::new(Busy::default());
        busy.raise(Mark(0));
        let settings = BusySettings { udp: Some(place.to_string()), repeat_ms: 2, ..BusySettings::default() };
        let output = BusyOutput::open(&settings, &busy, None).expect("loopback");
        until("a host that refuses is a failure", || output.counts().failures >= 3);
        let trigger = UdpSocket::bind(place).expect("still free");
        trigger.set_read_timeout(Some(Duration::from_secs(10))).expect("a socket");
        let mut message = [0; 32];
        assert_eq!(trigger.recv(&mut message).expect("a datagram"), 16);
        assert_eq!(message[5], 1);
    }

    #[test]
    fn nobody_there_costs_counts_alone() {
        let gone = TcpListener::bind("127.0.0.1:0").expect("loopback").local_addr().expect("bound");
        let busy = Arc::new(Busy::default());
        let settings = BusySettings { http: Some(format!("http://{gone}")), ..BusySettings::default() };
        let output = BusyOutput::open(&settings, &busy, None).expect("an address");
        busy.raise(Mark(0));
        until("a failure", || output.counts().failures >= 1);
        busy.lower(Mark(0));
    }

    #[test]
    fn addresses_are_checked_when_opened() {
        let refused = |settings: BusySettings| {
            let opened = BusyOutput::open(&settings, &Arc::default(), None);
            opened.err().expect("cannot work").to_string()
        };
        let udp = |text: &str| refused(BusySettings { udp: Some(text.into()), ..BusySettings::default() });
        let http = |text: &str| refused(BusySettings { http: Some(text.into()), ..BusySettings::default() });
        assert!(udp("nonsense").contains("write HOST:PORT of the trigger"));
        assert!(http("ftp://x/").contains(
            "`http = \"ftp://x/\"`: the scheme `ftp` is not supported; write http://HOST:PORT/PATH"
        ));
        assert!(http("http://127.0.0.1:1/a b").contains("blanks"));
        let tls_ca = Some(PathBuf::from("lab-ca.pem"));
        let https = |tls_ca| BusySettings {
            http: Some("https://127.0.0.1:1/".into()),
            tls_ca,
            ..BusySettings::default()
        };
        let mut beside = https(tls_ca);
        beside.relative_to(Path::new("/nonexistent"));
        assert!(refused(beside).contains("`tls_ca = \"/nonexistent/lab-ca.pem\"`: No such file"));
        assert!(
            refused(BusySettings { repeat_ms: 0, ..BusySettings::default() }).contains("`repeat_ms = 0`")
        );
    }
}
