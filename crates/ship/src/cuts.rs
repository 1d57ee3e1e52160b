//! Real connections between shipper and receiver, cut at any byte: what was acknowledged is there, and the rest comes.
//!
//! ```text
//!  Shipment ─ Connection ═ proxy: passes so many bytes, then cuts both ways ═ Receiver ─► far file
//! ```

use std::fs;
use std::io::{Read, Write};
use std::net::{Ipv4Addr, Shutdown, SocketAddr, TcpListener, TcpStream};
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicI64, Ordering};

use thalweg_record::ipc::TableFile;
use thalweg_record::read::{MARKER, MARKER_BYTES};

use crate::connection::Connection;
use crate::disk::faulty::Choices;
use crate::error::ShipError;
use crate::local_file::LocalFile;
use crate::message::FileKind;
use crate::receiver::Receiver;
use crate::shipment::{Shipment, Step};

/// Lives of a file at `make test`, each with several cuts; `THALWEG_SHIP_SEEDS` asks for more.
const SEEDS: u64 = 120;
/// Lives at a time.
const THREADS: u64 = 8;
const RUN: &str = "000001";

/// A table of several messages: the schema again and again, longer each time.
fn table(path: &Path, choices: &mut Choices) -> Vec<u8> {
    drop(TableFile::create(path, thalweg_record::Table::Hits, &[]).expect("made"));
    let file = fs::read(path).expect("there");
    let schema = file[..file.len() - MARKER.len()].to_vec();
    let mut content = schema.clone();
    for number in 0..20 + choices.below(20) {
        let mut padded = schema.clone();
        padded.resize(schema.len() + 64 * (1 + choices.below(200)) as usize, number as u8);
        let length = (padded.len() - 8) as u32;
        padded[4..8].copy_from_slice(&length.to_le_bytes());
        content.extend(padded);
    }
    content.extend(MARKER);
    fs::write(path, &content).expect("written");
    content
}

/// Passes one connection on after the other; each ends when `left` bytes have gone, both ways together.
fn proxy(listener: &TcpListener, to: SocketAddr, left: &Arc<AtomicI64>, stop: &Arc<AtomicBool>) {
    while !stop.load(Ordering::Acquire) {
        let Ok((near, _)) = listener.accept() else { return };
        let Ok(far) = TcpStream::connect(to) else { return };
        let pass = |mut from: TcpStream, mut into: TcpStream| {
            let left = left.clone();
            move || {
                let mut buffer = [0; 4096];
                while let Ok(length @ 1..) = from.read(&mut buffer) {
                    let allowed = left.fetch_sub(length as i64, Ordering::AcqRel).clamp(0, length as i64);
                    let is_sent = into.write_all(&buffer[..allowed as usize]).is_ok();
                    if allowed < length as i64 || !is_sent {
                        break;
                    }
                }
                let _ = (from.shutdown(Shutdown::Both), into.shutdown(Shutdown::Both));
            }
        };
        let clone = |stream: &TcpStream| stream.try_clone().expect("a descriptor");
        std::thread::scope(|scope| {
            scope.spawn(pass(clone(&near), clone(&far)));
            scope.spawn(pass(far, near));
        });
    }
}

/// Ships until the connection is cut or all is done.
fn ship(address: SocketAddr, path: &Path, range_bytes: u64, known: &mut u64) -> Result<bool, ShipError> {
    let host = address.ip().to_string();
    let mut connection = Connection::open((&host, address.port()), "far", None, 7, &Arc::default(), None)?;
    let local = LocalFile::open(path, FileKind::Growing)?;
    let mut shipment = Shipment::new(local, RUN, "hits.arrows").with_range_bytes(range_bytes);
    loop {
        match shipment.step(&mut connection, true, None, &mut |_| Ok(()))? {
            Step::Proved(to) => *known = to,
            Step::CaughtUp => return Ok(false),
            Step::Finished(digests) => {
                *known = digests.bytes;
                return Ok(true);
            }
        }
    }
}

fn live(seed: u64) -> u64 {
    let mut choices = Choices(seed);
    let folder = tempfile::tempdir().expect("temporary folder");
    let (path, far) = (folder.path().join("hits.arrows"), folder.path().join("far"));
    let content = table(&path, &mut choices);
    let any = SocketAddr::from((Ipv4Addr::LOCALHOST, 0));
    let receiver = Receiver::listen(any, far.clone(), None).expect("listens");
    let listener = TcpListener::bind(any).expect("listens");
    let (to, through) = (receiver.address().expect("known"), listener.local_addr().expect("known"));
    let (stop, left) = (Arc::new(AtomicBool::new(false)), Arc::new(AtomicI64::new(0)));
    let range_bytes = 1 + choices.below(content.len() as u64 / 2);
    let (mut known, mut cuts, mut is_done) = (0, 0, false);
    std::thread::scope(|scope| {
        scope.spawn(|| receiver.serve(&stop));
        scope.spawn(|| proxy(&listener, to, &left, &stop));
        while !is_done {
            let most = if cuts < 20 { choices.below(content.len() as u64) as i64 } else { i64::MAX };
            left.store(most, Ordering::Release);
            match ship(through, &path, range_bytes, &mut known) {
                Ok(done) => is_done = done,
                Err(error) => {
                    assert!(error.is_of_connection(), "seed {seed}: {error}");
                    cuts += 1;
                }
            }
            let found = fs::read(far.join(RUN).join("hits.arrows")).unwrap_or_default();
            let proved = known.min(content.len() as u64 - MARKER_BYTES) as usize;
            assert!(
                found.len() >= proved,
                "seed {seed}: {proved} bytes were acknowledged, {} are there",
                found.len()
            );
            assert_eq!(found[..proved], content[..proved], "seed {seed}");
        }
        stop.store(true, Ordering::Release);
        // The proxy waits for a connection.
        let _ = TcpStream::connect(through);
    });
    assert_eq!(fs::read(far.join(RUN).join("hits.arrows")).expect("there"), content, "seed {seed}");
    cuts
}

#[test]
fn connections_that_are_cut_at_any_byte_lose_nothing_that_was_acknowledged() {
    let seeds = std::env::var("THALWEG_SHIP_SEEDS").ok().and_then(|text| text.parse().ok()).unwrap_or(SEEDS);
    // Most of the time goes by in waiting for a connection.
    let each = |thread: u64| (thread..seeds).step_by(THREADS as usize).map(live).sum::<u64>();
    let cuts: u64 = std::thread::scope(|scope| {
        let threads: Vec<_> = (0..THREADS).map(|thread| scope.spawn(move || each(thread))).collect();
        threads.into_iter().map(|thread| thread.join().expect("no panic")).sum()
    });
    assert!(cuts > 2 * seeds, "{cuts} cuts");
}
