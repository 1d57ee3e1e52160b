//! A client that says exactly what it is asked to say.
//!
//! ```text
//!  bytes ─► socket ─► status, headers, body (chunks put together)
//! ```

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::time::Duration;

use serde_json::Value;

/// What came back.
#[derive(Debug)]
pub struct Answer {
    pub status: u16,
    pub headers: Vec<(String, String)>,
    pub body: Vec<u8>,
}

impl Answer {
    /// Reads an answer; `None` when it is none.
    pub fn read(bytes: &[u8]) -> Option<Answer> {
        let end = bytes.windows(4).position(|four| four == b"\r\n\r\n")?;
        let head = std::str::from_utf8(&bytes[..end]).ok()?;
        let mut lines = head.split("\r\n");
        let status = lines.next()?.strip_prefix("HTTP/1.1 ")?.split(' ').next()?.parse().ok()?;
        let pair =
            |line: &str| line.split_once(": ").map(|(name, value)| (name.to_owned(), value.to_owned()));
        let headers: Vec<(String, String)> = lines.filter_map(pair).collect();
        let is_chunked = headers.iter().any(|(name, _)| name == "transfer-encoding");
        let body = &bytes[end + 4..];
        let body = if is_chunked { unchunk(body) } else { body.to_vec() };
        Some(Answer { status, headers, body })
    }

    pub fn header(&self, name: &str) -> Option<&str> {
        self.headers.iter().find(|(key, _)| key == name).map(|(_, value)| value.as_str())
    }

    pub fn json(&self) -> Value {
        serde_json::from_slice(&self.body).unwrap_or_else(|_| panic!("JSON: {}", self.text()))
    }

    pub fn text(&self) -> String {
        String::from_utf8_lossy(&self.body).into_owned()
    }
}

fn unchunk(mut bytes: &[u8]) -> Vec<u8> {
    let mut body = Vec::new();
    while let Some(line) = bytes.windows(2).position(|two| two == b"\r\n") {
        let length =
            std::str::from_utf8(&bytes[..line]).ok().and_then(|text| usize::from_str_radix(text, 16).ok());
        let Some(length) = length.filter(|length| *length > 0 && bytes.len() >= line + 2 + length) else {
            break;
        };
        body.extend(&bytes[line + 2..line + 2 + length]);
        bytes = bytes.get(line + 4 + length..).unwrap_or_default();
    }
    body
}

/// Asks one server.
#[derive(Clone, Copy, Debug)]
pub struct Client {
    address: SocketAddr,
}

impl Client {
    pub fn new(address: SocketAddr) -> Client {
        Client { address }
    }

    pub fn connect(&self) -> TcpStream {
        let stream = TcpStream::connect(self.address).expect("a server");
        stream.set_read_timeout(Some(Duration::from_secs(60))).expect("set");
        stream
    }

    /// Says these bytes, and gives everything that comes until the end.
    pub fn say(&self, bytes: &[u8]) -> Vec<u8> {
        let mut stream = self.connect();
        let mut received = Vec::new();
        // Whoever is refused early may not be able to say everything, nor to receive everything.
        let _ = stream.write_all(bytes);
        let _ = stream.read_to_end(&mut received);
        received
    }

    /// A request with these headers beside `host`, unless they have one.
    pub fn ask(&self, method: &str, path: &str, headers: &[(&str, &str)], body: &[u8]) -> Answer {
        let mut head =
            format!("{method} {path} HTTP/1.1\r\nconnection: close\r\ncontent-length: {}\r\n", body.len());
        if !headers.iter().any(|(name, _)| *name == "host") {
            head += &format!("host: {}\r\n", self.address);
        }
        headers.iter().for_each(|(name, value)| head += &format!("{name}: {value}\r\n"));
        let received = self.say(&[head.as_bytes(), b"\r\n", body].concat());
        Answer::read(&received)
            .unwrap_or_else(|| panic!("{method} {path}: {:?}", String::from_utf8_lossy(&received)))
    }

    pub fn get(&self, path: &str) -> Answer {
        self.ask("GET", path, &[], b"")
    }

    pub fn post(&self, path: &str, body: &str) -> Answer {
        self.ask("POST", path, &[("content-type", "application/json"), ("x-thalweg", "1")], body.as_bytes())
    }
}
