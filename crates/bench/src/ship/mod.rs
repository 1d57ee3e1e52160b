//! Copies of a run elsewhere, proved, against bare connections that carry the same bytes.
//!
//! ```text
//!  ship        run ─ thalweg_ship ═ loopback ═ receiver ─► far files, read back      plain and with TLS
//!  ship-link   the same ═ 1 Gb/s between two namespaces ═
//!  ship-delay  the same ═ relay: 10 ms each way, 200 Mb/s ═
//!  baseline    as many bare TCP connections (with TLS: bare rustls) ═ the same way ═ read and dropped
//! ```
//! The time of a copy ends when every file is proved as a whole and the list of the files is there, too.

mod accepting;
mod bare;
mod beside;
mod example_run;
mod relay;

use std::fs;
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use thalweg_data::measure::{Clock, Measurement, compare};
use thalweg_run::plot::Series;
use thalweg_ship::Settings;
use thalweg_ship::receiver::Receiver;
use thalweg_ship::shipper::{Order, ship as ship_order};
use thalweg_transport::peer::SharedKey;
use thalweg_transport::tls::{ClientConfig, client_config, server_config};

use super::sweep::Sweep;
use super::{BenchError, Conditions, Measured, link};
use accepting::Accepting;
pub(super) use beside::record_while_shipping;
use example_run::ExampleRun;

/// The certificate of loopback, and its key, which protects nothing.
const CERTIFICATE: &str = include_str!("localhost-certificate.pem");
const KEY: &str = include_str!("localhost-key.pem");
const TOKEN: &[u8] = b"no secret, in a bench";
/// Bytes and files of the run: over loopback, over 1 Gb/s, and through the relay.
const LOOPBACK: (u64, u64) = (1 << 30, 16);
const LINK: (u64, u64) = (1 << 30, 4);
const RELAY: (u64, u64) = (128 << 20, 4);
/// The numbers of streams.
const STREAMS: [usize; 4] = [1, 2, 4, 8];
/// The relay holds bytes for this time, each way, and lets so many bits through per second.
const DELAY: Duration = Duration::from_millis(10);
const RELAY_BITS_PER_S: f64 = 200e6;
const MIB: f64 = 1024.0 * 1024.0;

/// What is served on the far side: a receiver, and a sink for bare connections.
struct Far {
    stop: Arc<AtomicBool>,
    receiver: Option<JoinHandle<()>>,
    _sink: Accepting,
}

/// Where.
#[derive(Clone, Copy)]
struct Places {
    receiver: SocketAddr,
    sink: SocketAddr,
}

impl Far {
    fn start(address: IpAddr, directory: &Path, with_tls: bool) -> Result<(Far, Places), String> {
        let any = SocketAddr::new(address, 0);
        let key = SharedKey::new(TOKEN).map_err(|error| error.to_string())?;
        let receiver =
            Receiver::listen(any, directory.to_owned(), Some(key)).map_err(|error| error.to_string())?;
        let tls = with_tls.then(|| server_config(CERTIFICATE.as_bytes(), KEY.as_bytes())).transpose();
        let tls = tls.map_err(|error| error.to_string())?;
        let receiver = match tls.clone() {
            Some(config) => receiver.with_tls(config),
            None => receiver,
        };
        let sink = bare::sink(any, tls).map_err(|error| error.to_string())?;
        let places =
            Places { receiver: receiver.address().map_err(|error| error.to_string())?, sink: sink.address() };
        let stop = Arc::new(AtomicBool::new(false));
        let flag = stop.clone();
        let serve = move || _ = receiver.serve(&flag);
        Ok((Far { stop, receiver: Some(std::thread::spawn(serve)), _sink: sink }, places))
    }
}

impl Drop for Far {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Release);
        if let Some(receiver) = self.receiver.take() {
            let _ = receiver.join();
        }
    }
}

/// Directories of a bench, removed with it.
struct Folders {
    root: PathBuf,
    run: ExampleRun,
    far: PathBuf,
    certificate: PathBuf,
}

impl Folders {
    fn new(conditions: &Conditions, (bytes, files): (u64, u64)) -> Folders {
        let root = conditions.folder().join(format!("thalweg-bench-ship-{}", std::process::id()));
        fs::create_dir_all(&root).expect("the directory of a bench can be written");
        let certificate = root.join("localhost.pem");
        fs::write(&certificate, CERTIFICATE).expect("the directory of a bench can be written");
        let run = ExampleRun::new(&root.join("runs"), bytes, files);
        Folders { far: root.join("far"), run, certificate, root }
    }
}

impl Drop for Folders {
    fn drop(&mut self) {
        // A temporary directory that is not removed does no harm.
        let _ = fs::remove_dir_all(&self.root);
    }
}

/// Over loopback, plain and with TLS.
pub(super) fn ship(conditions: &Conditions) -> Result<Measured, BenchError> {
    let folders = Folders::new(conditions, LOOPBACK);
    let mut points = Vec::new();
    for with_tls in [false, true] {
        let far = Far::start(Ipv4Addr::LOCALHOST.into(), &folders.far, with_tls);
        let (_far, places) = far.map_err(|message| BenchError::Room { bench: "ship", message })?;
        for streams in STREAMS {
            points.push(point("ship", &folders, places, (streams, with_tls), conditions));
        }
    }
    Ok(sweep("ship", "Runs copied over loopback, proved", points))
}

/// Over a link of 1 Gb/s between two network namespaces.
pub(super) fn ship_link(conditions: &Conditions) -> Result<Measured, BenchError> {
    let folders = Folders::new(conditions, LINK);
    let measured = |places: Places| {
        let point = |streams| {
            let measured = point("ship-link", &folders, places, (streams, false), conditions);
            measured.with("link_gigabits_per_s", 1e-9 * link::LINK_RATE)
        };
        STREAMS[..3].iter().map(|streams| point(*streams)).collect()
    };
    let points = link::between(
        link::LinkShape::GIGABIT,
        || Far::start(link::FAR.into(), &folders.far, false),
        measured,
    );
    let points = points.map_err(|message| BenchError::Room { bench: "ship-link", message })?;
    Ok(sweep("ship-link", "Runs copied over 1 Gb/s, proved", points))
}

/// Through a relay that delays.
pub(super) fn ship_delay(conditions: &Conditions) -> Result<Measured, BenchError> {
    let failed = |message: String| BenchError::Room { bench: "ship-delay", message };
    let folders = Folders::new(conditions, RELAY);
    let (_far, places) = Far::start(Ipv4Addr::LOCALHOST.into(), &folders.far, false).map_err(failed)?;
    let relay = |to| relay::start(to, DELAY, RELAY_BITS_PER_S).map_err(|error| failed(error.to_string()));
    let (receiver, sink) = (relay(places.receiver)?, relay(places.sink)?);
    let places = Places { receiver: receiver.address(), sink: sink.address() };
    let point = |streams| {
        let measured = point("ship-delay", &folders, places, (streams, false), conditions);
        measured.with("delay_ms", DELAY.as_millis() as u64).with("megabits_per_s", 1e-6 * RELAY_BITS_PER_S)
    };
    let points = STREAMS[..3].iter().map(|streams| point(*streams)).collect();
    Ok(sweep("ship-delay", "Runs copied over 200 Mb/s with 10 ms each way, proved", points))
}

fn point(
    bench: &'static str,
    folders: &Folders,
    places: Places,
    (streams, with_tls): (usize, bool),
    conditions: &Conditions,
) -> Measurement {
    let tls =
        with_tls.then(|| client_config(Some(&folders.certificate)).expect("the certificate of a bench"));
    let bytes = folders.run.bytes();
    let comparison = compare(
        Clock::Wall,
        conditions.repeats,
        || copy(folders, places.receiver, streams, with_tls),
        || bare::send(places.sink, streams, bytes, tls.as_ref()),
    );
    let baseline = match with_tls {
        true => "as many bare TLS connections (rustls), what comes is dropped",
        false => "as many bare TCP connections, what comes is dropped",
    };
    Measurement::of_rate(bench, "B/s", bytes as f64, baseline, comparison)
        .with("streams", streams)
        .with("connection", if with_tls { "TLS" } else { "plain" })
        .with("files", folders.run.files())
        .with("run_bytes", bytes)
        .with("directory", conditions.folder().display().to_string())
        .repeated(conditions.repeats)
}

/// Ships the run to an empty directory; returns how long that took.
fn copy(folders: &Folders, receiver: SocketAddr, streams: usize, with_tls: bool) -> Duration {
    folders.run.forget_copies();
    let _ = fs::remove_dir_all(folders.far.join(folders.run.name()));
    let scheme = if with_tls { "receives" } else { "receive" };
    let settings = Settings {
        to: vec![format!("{scheme}://{receiver}")],
        streams,
        // The receiver is beside it and does not yield.
        yields: false,
        tls_ca: with_tls.then(|| folders.certificate.clone()),
        ..Settings::default()
    };
    let order = Order {
        runs: vec![folders.run.path().to_owned()],
        settings,
        key: SharedKey::new(TOKEN).ok(),
        follow: false,
        give_up_after: Duration::from_secs(10),
    };
    let start = Instant::now();
    let progress = ship_order(&order, &Arc::default(), &mut |_| ()).expect("a run that can be shipped");
    let took = start.elapsed();
    assert!(progress.is_complete, "a run that is not shipped has no figure: {:?}", progress.destinations);
    took
}

fn sweep(bench: &'static str, title: &str, points: Vec<Measurement>) -> Measured {
    let published = "four scp by hand over 10 Gb/s (COMET)";
    let guide = Series { name: published.to_owned(), points: vec![(1.0, 280.0 * MIB), (4.0, 1024.0 * MIB)] };
    let sweep = Sweep {
        bench,
        title: title.to_owned(),
        along: "streams",
        x_title: "streams",
        lines: Some("connection"),
        points,
        shows_ratio: false,
        logarithmic_x: true,
        logarithmic_y: false,
        guides: (bench == "ship").then_some(guide).into_iter().collect(),
    };
    sweep.measured()
}

/// The settings of a client, where a connection has TLS.
type Tls<'a> = Option<&'a Arc<ClientConfig>>;
