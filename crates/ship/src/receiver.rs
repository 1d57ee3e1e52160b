//! `thalweg receive`: takes files from shippers, a thread for each connection.
//!
//! ```text
//!  listener ─► at most 64 connections ─► Session ─► FarFiles below one directory
//! ```

use std::io;
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::mpsc::sync_channel;
use std::time::Duration;

use rustls::ServerConfig;
use serde::Serialize;
use thalweg_transport::peer::{Role, SharedKey};

use crate::disk::{Disk, HostDisk};
use crate::error::ShipError;
use crate::far_files::FarFiles;
use crate::frame::{Frame, Kind};
use crate::handshake::Handshake;
use crate::link::{FrameLink, GREETING};
use crate::run_locks::RunLocks;
use crate::session::Session;

/// Most connections at a time.
const MOST_CONNECTIONS: u64 = 64;
/// Between two looks for a connection.
const CHECK_EVERY: Duration = Duration::from_millis(20);

/// What a receiver has done.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Received {
    /// Connections that have begun.
    pub connections: u64,
    /// Bytes that came.
    pub bytes: u64,
    /// Ranges that were proved.
    pub ranges_proved: u64,
    /// Files that were proved as a whole.
    pub files_finished: u64,
    /// Refusals, of connections or files.
    pub refused: u64,
}

#[derive(Debug, Default)]
struct Counts {
    open: AtomicU64,
    connections: AtomicU64,
    bytes: AtomicU64,
    ranges_proved: AtomicU64,
    files_finished: AtomicU64,
    refused: AtomicU64,
}

/// Counts a connection for as long as it lives, however it ends.
struct OpenConnection(Arc<Counts>);

impl OpenConnection {
    fn new(counts: Arc<Counts>) -> OpenConnection {
        counts.open.fetch_add(1, Ordering::AcqRel);
        OpenConnection(counts)
    }
}

impl Drop for OpenConnection {
    fn drop(&mut self) {
        self.0.open.fetch_sub(1, Ordering::AcqRel);
    }
}

/// Listens for shippers.
#[derive(Debug)]
pub struct Receiver {
    listener: TcpListener,
    directory: PathBuf,
    key: Option<SharedKey>,
    tls: Option<Arc<ServerConfig>>,
    locks: Arc<RunLocks>,
    counts: Arc<Counts>,
}

impl Receiver {
    /// Listens at an address; files go below `directory`, which is made.
    ///
    /// # Errors
    /// When it cannot listen there, or the directory not be made, or other hosts could ship without a token.
    pub fn listen(
        address: SocketAddr,
        directory: PathBuf,
        key: Option<SharedKey>,
    ) -> Result<Receiver, ShipError> {
        if key.is_none() && !address.ip().is_loopback() {
            return Err(ShipError::Settings(format!(
                "{address} is open to other hosts; give --token-file, or listen at 127.0.0.1"
            )));
        }
        HostDisk.make_directory(&directory).map_err(ShipError::local(&directory, "making the directory"))?;
        let listener = TcpListener::bind(address).and_then(|listener| {
            listener.set_nonblocking(true)?;
            Ok(listener)
        });
        let failed = |cause| {
            ShipError::Settings(format!("{address}: cannot listen here: {cause}; choose another --listen"))
        };
        let listener = listener.map_err(failed)?;
        Ok(Receiver { listener, directory, key, tls: None, locks: Arc::default(), counts: Arc::default() })
    }

    /// The same over TLS; shippers without are refused.
    #[must_use]
    pub fn with_tls(self, config: Arc<ServerConfig>) -> Receiver {
        Receiver { tls: Some(config), ..self }
    }

    /// Where it listens.
    ///
    /// # Errors
    /// When the system does not say.
    pub fn address(&self) -> io::Result<SocketAddr> {
        self.listener.local_addr()
    }

    /// Takes files until it is to stop. Connections that are open end within a moment; what is not proved then comes again.
    pub fn serve(&self, stop: &Arc<AtomicBool>) -> Received {
        let mut threads = Vec::new();
        while !stop.load(Ordering::Acquire) {
            threads.retain(|thread: &std::thread::JoinHandle<()>| !thread.is_finished());
            match self.listener.accept() {
                Ok((stream, peer)) if self.counts.open.load(Ordering::Acquire) >= MOST_CONNECTIONS => {
                    tracing::warn!(
                        "{peer}: {MOST_CONNECTIONS} connections are open, and one more was closed"
                    );
                    drop(stream);
                }
                Ok((stream, peer)) => threads.extend(self.start(stream, peer, stop)),
                Err(_) => std::thread::sleep(CHECK_EVERY),
            }
        }
        for thread in threads {
            let _ = thread.join();
        }
        self.received()
    }

    fn start(
        &self,
        stream: TcpStream,
        peer: SocketAddr,
        stop: &Arc<AtomicBool>,
    ) -> Option<std::thread::JoinHandle<()>> {
        let (counts, stop, key) = (self.counts.clone(), stop.clone(), self.key.clone());
        let (directory, locks, tls) = (self.directory.clone(), self.locks.clone(), self.tls.clone());
        let open = OpenConnection::new(counts.clone());
        let serve = move || {
            let make = Box::new(move |shipper| -> Box<dyn crate::destination::Destination> {
                let address = directory.display().to_string();
                Box::new(FarFiles::new(HostDisk, &directory, &address, locks, Some(shipper)))
            });
            let link = match tls {
                None => FrameLink::plain(stream, stop),
                Some(config) => FrameLink::server(stream, stop, config),
            };
            let served = link.and_then(|link| {
                let handshake = Handshake::begin(key, Role::Listening, 0).map_err(io::Error::other)?;
                connection(link, handshake, make, &counts)
            });
            match served {
                Err(cause) if cause.kind() != io::ErrorKind::UnexpectedEof => {
                    tracing::info!("{peer}: the connection ended: {cause}");
                }
                _ => tracing::info!("{peer}: the connection ended"),
            }
            drop(open);
        };
        std::thread::Builder::new().name("receive".to_owned()).spawn(serve).ok()
    }

    /// What was done so far.
    pub fn received(&self) -> Received {
        let Counts { connections, bytes, ranges_proved, files_finished, refused, .. } = &*self.counts;
        let of = |count: &AtomicU64| count.load(Ordering::Relaxed);
        Received {
            connections: of(connections),
            bytes: of(bytes),
            ranges_proved: of(ranges_proved),
            files_finished: of(files_finished),
            refused: of(refused),
        }
    }
}

/// Frames of one connection that have come and wait for the session: what comes while a range is proved. 1 MiB each at most.
const FRAMES_WAITING: usize = 16;

fn connection(
    mut link: FrameLink,
    handshake: Handshake,
    make: crate::session::MakeDestination,
    counts: &Counts,
) -> io::Result<()> {
    link.within(Some(GREETING));
    link.send_frame(&handshake.hello())?;
    let mut session = Session::new(handshake, make);
    while !session.is_greeted() {
        let frame = link.receive(Vec::new())?;
        if !answer(&mut session, &frame, &mut link, counts)? {
            return Ok(());
        }
    }
    link.within(None);
    counts.connections.fetch_add(1, Ordering::Relaxed);
    let (frames, waiting) = sync_channel(FRAMES_WAITING);
    let (spent, returned) = sync_channel::<Vec<u8>>(FRAMES_WAITING);
    let mut reading = link.clone();
    std::thread::scope(|scope| {
        let read = move || -> io::Result<()> {
            loop {
                let frame = reading.receive(returned.try_recv().unwrap_or_default())?;
                if frames.send(frame).is_err() {
                    // The session has ended, and says why.
                    return Ok(());
                }
            }
        };
        let reader =
            std::thread::Builder::new().name("receive-frames".to_owned()).spawn_scoped(scope, read)?;
        let mut serve = || {
            for frame in &waiting {
                if !answer(&mut session, &frame, &mut link, counts)? {
                    break;
                }
                let _full = spent.try_send(frame.payload);
            }
            Ok(())
        };
        let served = serve();
        drop(waiting);
        // It may wait for bytes that nobody wants any more.
        link.close();
        let read =
            reader.join().unwrap_or_else(|_| Err(io::Error::other("the thread that reads has panicked")));
        served.and(read)
    })
}

/// Gives a frame to the session, and sends its answer. Whether the connection goes on.
fn answer(session: &mut Session, frame: &Frame, link: &mut FrameLink, counts: &Counts) -> io::Result<bool> {
    let answer = session.take(frame);
    if let Some((_, bytes)) = frame.chunk() {
        counts.bytes.fetch_add(bytes.len() as u64, Ordering::Relaxed);
    }
    let Some(frame) = answer.frame else { return Ok(true) };
    match frame.kind {
        Kind::Proved => _ = counts.ranges_proved.fetch_add(1, Ordering::Relaxed),
        Kind::Finished => _ = counts.files_finished.fetch_add(1, Ordering::Relaxed),
        Kind::Refused => {
            counts.refused.fetch_add(1, Ordering::Relaxed);
            let refused = crate::message::decode::<crate::message::Refused>(&frame.payload);
            tracing::warn!("refused: {}", refused.map(|refused| refused.shown()).unwrap_or_default());
        }
        _ => {}
    }
    link.send_frame(&frame)?;
    Ok(!answer.is_last)
}
