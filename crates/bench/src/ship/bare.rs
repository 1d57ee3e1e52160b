//! Bare connections that carry bytes and do nothing with them.
//!
//! ```text
//!  send: so many connections, each its part ═► sink: read and dropped; at the end of a connection, one byte back
//! ```

use std::io::{self, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::sync::Arc;
use std::time::{Duration, Instant};

use rustls::pki_types::ServerName;
use rustls::{ClientConnection, ServerConfig, ServerConnection, StreamOwned};

use super::Tls;
use super::accepting::Accepting;

/// Bytes of a write, and of a read.
const CHUNK_BYTES: usize = 1 << 20;
/// Takes connections and drops what they bring.
pub(super) fn sink(address: SocketAddr, tls: Option<Arc<ServerConfig>>) -> io::Result<Accepting> {
    Accepting::start(address, move |stream| {
        let tls = tls.clone();
        std::thread::spawn(move || drain(stream, tls));
    })
}

fn drain(stream: TcpStream, tls: Option<Arc<ServerConfig>>) -> io::Result<()> {
    stream.set_nonblocking(false)?;
    match tls {
        None => drain_from(stream),
        Some(config) => {
            let session = ServerConnection::new(config).map_err(io::Error::other)?;
            drain_from(StreamOwned::new(session, stream))
        }
    }
}

fn drain_from(mut stream: impl Read + Write) -> io::Result<()> {
    let mut buffer = vec![0; CHUNK_BYTES];
    while stream.read(&mut buffer)? > 0 {}
    stream.write_all(&[0])?;
    stream.flush()
}

/// Sends `bytes` over so many connections; returns the time until all of them have arrived.
///
/// # Panics
/// When a connection fails: there is nothing to compare with then.
pub(super) fn send(to: SocketAddr, streams: usize, bytes: u64, tls: Tls<'_>) -> Duration {
    let start = Instant::now();
    let each = bytes.div_ceil(streams as u64);
    std::thread::scope(|scope| {
        let sent: Vec<_> = (0..streams).map(|_| scope.spawn(move || send_part(to, each, tls))).collect();
        for thread in sent {
            thread.join().expect("no panic").expect("the connections of a bench last");
        }
    });
    start.elapsed()
}

fn send_part(to: SocketAddr, bytes: u64, tls: Tls<'_>) -> io::Result<()> {
    let stream = TcpStream::connect(to)?;
    stream.set_nodelay(true)?;
    match tls {
        None => {
            let mut stream = stream;
            write(&mut stream, bytes)?;
            stream.shutdown(std::net::Shutdown::Write)?;
            stream.read_exact(&mut [0])
        }
        Some(config) => {
            let name = ServerName::from(to.ip());
            let session = ClientConnection::new(config.clone(), name).map_err(io::Error::other)?;
            let mut stream = StreamOwned::new(session, stream);
            write(&mut stream, bytes)?;
            stream.conn.send_close_notify();
            stream.flush()?;
            stream.read_exact(&mut [0])
        }
    }
}

fn write(stream: &mut impl Write, bytes: u64) -> io::Result<()> {
    let buffer = vec![7; CHUNK_BYTES];
    let mut left = bytes;
    while left > 0 {
        let part = left.min(CHUNK_BYTES as u64);
        stream.write_all(&buffer[..part as usize])?;
        left -= part;
    }
    stream.flush()
}
