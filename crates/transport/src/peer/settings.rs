//! Settings of a peer connection.
//!
//! ```text
//!  "tcp://host:port" · "shm://name" · "inproc://name" ─► Endpoint        Settings: name, pool, bounds, waits
//! ```

use std::fmt;
use std::net::{IpAddr, SocketAddr, ToSocketAddrs};
use std::time::Duration;

use thalweg_data::{Message, Pool};

use super::assembly::Assembly;
use super::error::PeerError;
use super::hello::{LONGEST_NAME, RunIdentity, is_name};
use super::key::SharedKey;

/// The URL that a unit listens at.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Endpoint {
    /// In this process, where messages are handed over. Name.
    Inproc(String),
    /// On this host, through shared memory. Name.
    Shm(String),
    /// On any host, over TCP. Host and port.
    Tcp(String, u16),
}

impl Endpoint {
    /// Reads a URL.
    ///
    /// # Errors
    /// When it is not a valid URL of a unit; the message says what to write.
    pub fn parse(url: &str) -> Result<Endpoint, PeerError> {
        let wrong = |reason: &str| PeerError::Url { url: url.to_owned(), reason: reason.to_owned() };
        let (scheme, rest) = url
            .split_once("://")
            .ok_or_else(|| wrong("write tcp://host:port, shm://name or inproc://name"))?;
        let is_word = |word: &str| {
            !word.is_empty()
                && word.len() <= 80
                && word.chars().all(|letter| letter.is_ascii_alphanumeric() || "-_.".contains(letter))
        };
        match scheme {
            "inproc" if is_word(rest) => Ok(Endpoint::Inproc(rest.to_owned())),
            "shm" if is_word(rest) => Ok(Endpoint::Shm(rest.to_owned())),
            "inproc" | "shm" => Err(wrong("a name is 1 to 80 letters, digits, `-`, `_` or `.`")),
            "tcp" => {
                let (host, port) =
                    rest.rsplit_once(':').ok_or_else(|| wrong("a port is missing: tcp://host:port"))?;
                let port = port.parse().map_err(|_| wrong("the port is a number from 0 to 65535"))?;
                let host = host.trim_start_matches('[').trim_end_matches(']');
                if host.is_empty() {
                    return Err(wrong("a host is missing: tcp://host:port, 0.0.0.0 to listen on all"));
                }
                Ok(Endpoint::Tcp(host.to_owned(), port))
            }
            _ => Err(wrong("units are reached by tcp, shm or inproc")),
        }
    }

    /// Whether other hosts may reach it, judging by the host's name; then its units need a key.
    pub fn is_open_to_other_hosts(&self) -> bool {
        let Endpoint::Tcp(host, _) = self else { return false };
        let is_loopback = |address: IpAddr| address.is_loopback();
        host != "localhost" && !host.parse().is_ok_and(is_loopback)
    }

    /// The first address of a TCP endpoint. Without a key, only a loopback address is accepted.
    pub(super) fn resolve(host: &str, port: u16, settings: &Settings) -> Result<SocketAddr, PeerError> {
        let failed = |cause| crate::TransportError::Resolve { host: host.to_owned(), cause };
        let mut addresses = (host, port).to_socket_addrs().map_err(failed)?;
        let address = addresses.next().ok_or_else(|| failed(std::io::ErrorKind::NotFound.into()))?;
        if settings.key.is_none() && !address.ip().is_loopback() {
            return Err(PeerError::Unguarded { place: Endpoint::Tcp(host.to_owned(), port).to_string() });
        }
        Ok(address)
    }
}

impl fmt::Display for Endpoint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Endpoint::Inproc(name) => write!(f, "inproc://{name}"),
            Endpoint::Shm(name) => write!(f, "shm://{name}"),
            Endpoint::Tcp(host, port) if host.contains(':') => write!(f, "tcp://[{host}]:{port}"),
            Endpoint::Tcp(host, port) => write!(f, "tcp://{host}:{port}"),
        }
    }
}

/// Names, limits and time-outs of one unit's connections.
#[derive(Clone, Debug)]
pub struct Settings {
    /// This unit's name, which is sent to the other end: at most 200 bytes without control characters.
    pub name: String,
    /// This unit's run and configuration; a unit of another one is refused. Not checked within a process.
    pub identity: RunIdentity,
    /// The key by which units of this run prove that they belong to it; without it, units connect only on loopback and within this
    /// host. Not checked within a process.
    pub key: Option<SharedKey>,
    /// The blocks for received payloads. If several connections share a pool, each may hold one unfinished message: give the pool
    /// enough blocks for all of these together, or the connections wait for each other.
    pub pool: Pool,
    /// The most messages that wait to be sent.
    pub queue_messages: usize,
    /// The most bytes that wait to be sent, including heads; an empty queue takes a message of any length.
    pub queue_bytes: u64,
    /// Longest payload of a message that is accepted, bytes; at most what all but two blocks of the pool hold.
    pub longest_payload_bytes: u64,
    /// How long [`connect`](super::connect) goes on trying.
    pub connect_wait: Duration,
    /// How long the handshake of an open connection may take.
    pub hello_wait: Duration,
    /// A heartbeat is sent after this time without another frame. Over TCP only; elsewhere a dead process is noticed at once.
    pub heartbeat: Duration,
    /// The other end is considered dead after this time of silence; zero: never. Over TCP only.
    pub silence_wait: Duration,
    /// First and longest wait between two tries to connect.
    pub back_off: (Duration, Duration),
    /// The kernel's receive buffer to ask for, bytes; 0 lets the kernel adapt it. Over TCP only.
    pub receive_buffer_bytes: usize,
    /// Bytes of shared memory per direction, a power of two; the listening end's value is used. Over shm only.
    pub ring_bytes: usize,
    /// One block in so many of a [shared](thalweg_data::Memory::is_shared) pool may be lent to the other end at a time; what is beyond is
    /// copied. 0: none. Over shm only.
    pub lends_one_in: u32,
}

impl Settings {
    /// The default limits and time-outs.
    pub fn new(name: &str, pool: Pool) -> Settings {
        Settings {
            name: name.to_owned(),
            identity: RunIdentity::default(),
            key: None,
            pool,
            queue_messages: 256,
            queue_bytes: 8 << 20,
            longest_payload_bytes: 256 << 20,
            connect_wait: Duration::from_secs(10),
            hello_wait: Duration::from_secs(3),
            heartbeat: Duration::from_secs(1),
            silence_wait: Duration::from_secs(10),
            back_off: (Duration::from_millis(10), Duration::from_secs(2)),
            receive_buffer_bytes: 0,
            ring_bytes: 8 << 20,
            lends_one_in: 4,
        }
    }

    /// The most bytes that one connection may hold: its send queue with one message more, one message that is being received,
    /// and its rings.
    pub fn most_bytes(&self, endpoint: &Endpoint) -> u64 {
        let longest = self.longest_payload() + Message::LONGEST_HEAD as u64;
        let ring = if matches!(endpoint, Endpoint::Shm(_)) { 2 * self.ring_bytes as u64 } else { 0 };
        self.queue_bytes + 2 * longest + ring
    }

    /// Longest payload that is accepted, limited by the pool, bytes.
    pub(super) fn longest_payload(&self) -> u64 {
        self.longest_payload_bytes.min(Assembly::longest_payload(&self.pool))
    }

    pub(super) fn check(&self) -> Result<(), PeerError> {
        let wrong = |words: String| Err(PeerError::Settings(words));
        if !is_name(&self.name) {
            return wrong(format!(
                "`{}` is not a valid name of a unit: at most {LONGEST_NAME} bytes, no control characters",
                self.name.escape_debug()
            ));
        }
        if !is_name(&self.identity.run) {
            return wrong(format!(
                "`{}` is not a valid name of a run: at most {LONGEST_NAME} bytes, no control characters",
                self.identity.run.escape_debug()
            ));
        }
        if self.pool.block_count() < 3 {
            return wrong(format!(
                "a connection needs a pool of 3 blocks or more; this one has {}",
                self.pool.block_count()
            ));
        }
        if !self.ring_bytes.is_power_of_two() || !(4096..=1 << 30).contains(&self.ring_bytes) {
            return wrong(format!(
                "`ring_bytes` is {}; it is a power of two from 4096 to 2^30",
                self.ring_bytes
            ));
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn urls_are_parsed_and_printed() {
        for url in ["tcp://10.0.0.3:7000", "tcp://[::1]:9", "shm://builder-1", "inproc://manager"] {
            assert_eq!(Endpoint::parse(url).expect("a unit's URL").to_string(), url);
        }
    }

    #[test]
    fn errors_of_invalid_urls_say_what_to_write() {
        for (url, word) in [
            ("tcp://host", "port is missing"),
            ("tcp://host:high", "number"),
            ("tcp://:80", "host is missing"),
            ("shm://a/b", "letters"),
            ("udp://host:1", "tcp, shm or inproc"),
            ("builder", "write tcp://host:port"),
        ] {
            let text = Endpoint::parse(url).expect_err(url).to_string();
            assert!(text.contains(word) && text.contains(url), "{text}");
        }
    }
}
