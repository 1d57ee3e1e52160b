//! Sends one JSON text to a plain-http address.
//!
//! ```text
//!  http://host:port/path, body ─► POST ─► 2xx, or why not
//! ```
//! HTTP/1.1 as RFC 9112 says it, as little as a POST needs: every step has a time limit, and of the answer only the first line is read.

use std::io::{Read, Write};
use std::net::{TcpStream, ToSocketAddrs};
use std::time::{Duration, Instant};

use url::Url;

/// Longest first line of an answer, bytes.
const LONGEST_LINE: usize = 1024;

/// An address that can be posted to.
pub(super) fn parse(text: &str) -> Result<Url, String> {
    let url = Url::parse(text)
        .map_err(|cause| format!("webhook = \"{text}\": {cause}; write http://HOST:PORT/PATH"))?;
    match (url.scheme(), url.host_str()) {
        ("http", Some(_)) => Ok(url),
        ("https", _) => Err(format!(
            "webhook = \"{text}\": https is left to others; write command = [\"curl\", \"-sS\", \"--data-binary\", \"@-\", \"{text}\"]"
        )),
        _ => Err(format!("webhook = \"{text}\": write http://HOST:PORT/PATH")),
    }
}

/// Posts, within `timeout` in all.
pub(super) fn post(url: &Url, body: &[u8], timeout: Duration) -> Result<(), String> {
    let deadline = Instant::now() + timeout;
    let left = || deadline.saturating_duration_since(Instant::now()).max(Duration::from_millis(1));
    let says = |cause: std::io::Error| format!("{url}: {cause}");
    let host = url.host_str().ok_or_else(|| format!("{url}: no host"))?;
    let port = url.port_or_known_default().unwrap_or(80);
    let bare = host.trim_matches(['[', ']']);
    let mut last = format!("{url}: this name has no address");
    for address in (bare, port).to_socket_addrs().map_err(says)? {
        match TcpStream::connect_timeout(&address, left()) {
            Ok(stream) => {
                return talk(stream, url, host, port, body, deadline)
                    .map_err(|cause| format!("{url}: {cause}"));
            }
            Err(cause) => last = says(cause),
        }
    }
    Err(last)
}

fn talk(
    mut stream: TcpStream,
    url: &Url,
    host: &str,
    port: u16,
    body: &[u8],
    deadline: Instant,
) -> Result<(), String> {
    let path = &url[url::Position::BeforePath..url::Position::AfterQuery];
    let length = body.len();
    let head = format!(
        "POST {path} HTTP/1.1\r\nHost: {host}:{port}\r\nUser-Agent: thalweg/{}\r\nContent-Type: application/json\r\n\
         Content-Length: {length}\r\nConnection: close\r\n\r\n",
        env!("CARGO_PKG_VERSION")
    );
    let request = [head.as_bytes(), body].concat();
    let left = || {
        let left = deadline.saturating_duration_since(Instant::now());
        if left.is_zero() { Err("no answer in time".to_owned()) } else { Ok(left) }
    };
    let words = |cause: std::io::Error| match cause.kind() {
        std::io::ErrorKind::WouldBlock | std::io::ErrorKind::TimedOut => "no answer in time".to_owned(),
        _ => cause.to_string(),
    };
    stream.set_write_timeout(Some(left()?)).map_err(words)?;
    stream.write_all(&request).map_err(words)?;
    let mut line = Vec::new();
    while !line.contains(&b'\n') && line.len() < LONGEST_LINE {
        stream.set_read_timeout(Some(left()?)).map_err(words)?;
        let mut piece = [0; 256];
        match stream.read(&mut piece).map_err(words)? {
            0 => break,
            count => line.extend(&piece[..count]),
        }
    }
    let line = String::from_utf8_lossy(&line);
    let line = line.lines().next().unwrap_or_default();
    let status = line.strip_prefix("HTTP/1.").and_then(|rest| rest.split(' ').nth(1));
    match status.is_some_and(|status| status.len() == 3 && status.starts_with('2')) {
        true => Ok(()),
        false => Err(format!("answered \"{}\"", line.escape_default())),
    }
}
