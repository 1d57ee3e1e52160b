//! Every figure that the project states, as a measurement that anyone can run: `thalweg bench NAME`.
//!
//! Each is a ratio against a baseline in the same run, repeated and interleaved; see
//! [`thalweg_data::measure`]. What is measured is what the rooms make public.
//!
//! - [`transport`]: receiving and sending, against bare loops of the same system calls.
//! - `emit`: events of synchronous sources, sent.
//! - [`boards`]: many boards read by one thread.
//! - `receive_fragments`: the same for several sizes of fragments.
//! - [`frontend`]: splitting, decoding and emulating, by family.
//! - [`order`]: time order, against copying the hits.
//! - `order_tree`: the same with decode workers and a tree of time orders, each on a thread of its own.
//! - [`record`]: data to files, against a raw write.
//! - `record_benches`: these in memory and at the pace of a disk, with a published figure beside them.
//! - `path`: received bytes in memory to a file, on one core.
//! - `reader`: what a readout thread does with those bytes.
//! - `process`: the same with cuts, coincidence and spectra.
//! - `live`: an emulated board at its limit, over loopback.
//! - `live_board`: the run of that board.
//! - `live_scope`: the same with waveforms, received, decoded and recorded.
//! - `saturate`: the trigger rate up to which nothing is lost.
//! - `page`: what it costs that somebody looks.
//! - [`build_memory`]: building, of fragments in memory.
//! - `building`: reads many links and builds their events, as a run does.
//! - `build`: building beside receiving.
//! - `build_rate`: events built by the rate of triggers.
//! - `recorder`: the thread that records what a bench builds.
//! - `build_record`: recording beside building.
//! - `build_links`: the same of a few connections, as at a second level.
//! - `filter`: the event filter, against the same way without it.
//! - `n2n`: messages between processes.
//! - `evb`: readout and builder units in processes.
//! - `ship`: runs copied elsewhere, against bare connections.
//! - `link`: two network namespaces and 1 Gb/s between them.
//! - `mtu`: datagrams that do not fit the packets of the network.
//! - `ipbus`: registers of emulated IPbus boards, directly and through a hub.
//! - `spent`: what a turn costs, by two clocks.
//! - `sweep`: a bench at several sizes.

pub mod boards;
mod build;
mod build_links;
pub mod build_memory;
mod build_rate;
mod build_record;
mod building;
mod emit;
mod evb;
mod filter;
pub mod frontend;
mod ipbus;
mod link;
mod live;
mod live_board;
mod live_scope;
mod mtu;
mod n2n;
pub mod order;
mod order_tree;
mod page;
mod path;
mod process;
mod reader;
mod receive_fragments;
pub mod record;
mod record_benches;
mod recorder;
mod saturate;
mod ship;
mod spent;
mod sweep;
pub mod transport;

use std::path::PathBuf;

pub use n2n::{NODE, node};
use serde::Serialize;
pub use thalweg_data::measure::Measurement;

/// The settings of a bench.
#[derive(Clone, Debug)]
pub struct Conditions {
    /// Counted repeats.
    pub repeats: usize,
    /// The directory for files; otherwise a temporary folder, in memory where there is one.
    pub directory: Option<PathBuf>,
    /// The time for which a live bench runs, seconds.
    pub seconds: f64,
    /// Threads that decode in the bench `order`, which has none without.
    pub workers: Option<u16>,
}

/// A bench that could not be run.
#[derive(Debug, thiserror::Error)]
pub enum BenchError {
    /// A room said why.
    #[error("{bench}: {message}")]
    Room {
        /// The bench.
        bench: &'static str,
        /// The message of the error.
        message: String,
    },
}

/// One bench.
#[derive(Clone, Serialize)]
pub struct Bench {
    /// The name to type.
    pub name: &'static str,
    /// The measured quantity and its baseline.
    pub about: &'static str,
    /// Runs it.
    #[serde(skip)]
    pub measure: fn(&Conditions) -> Result<Measured, BenchError>,
}

/// The result of a bench.
#[derive(Clone, Debug)]
pub struct Measured {
    /// The figure.
    pub measurement: Measurement,
    /// The picture of a sweep as SVG.
    pub plot: Option<String>,
}

impl From<Measurement> for Measured {
    fn from(measurement: Measurement) -> Measured {
        Measured { measurement, plot: None }
    }
}

impl Conditions {
    /// The folder for files: the one asked for, else one in memory, else the system's temporary one.
    pub(crate) fn folder(&self) -> PathBuf {
        let memory = || Some(PathBuf::from("/dev/shm")).filter(|folder| folder.is_dir());
        self.directory.clone().or_else(memory).unwrap_or_else(std::env::temp_dir)
    }
}

/// All benches, in path order.
pub fn names() -> Vec<Bench> {
    use frontend::digitizer2;
    use order::{Distribution, order};
    use record::{EventShape, Way, record_coincidences_in};
    use thalweg_record::Settings;
    let mut all = network_benches().to_vec();
    all.extend([
        bench("decode", "16-byte hits out of 1 GiB of aggregates, against copying the bytes", |c| {
            room("decode", digitizer2::decode(c.repeats))
        }),
        bench("decode-waveforms", "2072-byte hits with their samples, against copying the bytes", |c| {
            room("decode-waveforms", digitizer2::decode_waveforms(c.repeats))
        }),
        bench("scope", "scope events with 64 channels, against copying the bytes", |c| {
            room("scope", digitizer2::scope(c.repeats))
        }),
        bench("order", "time order of 8 boards at equal rates, against copying the hits", |c| match c.workers {
            Some(workers) => order_tree::order_tree(c, workers),
            None => Ok(order(Distribution::Uniform, c.repeats).into()),
        }),
        bench("order-bursty", "the same with bursts", |c| Ok(order(Distribution::Bursty, c.repeats).into())),
        bench("order-unequal", "rates 1:100, disorder inside a source, and an idle board", |c| {
            Ok(order(Distribution::Unequal, c.repeats).into())
        }),
        bench(
            "record",
            "hits to an Arrow file, in memory and at the pace of a disk, against a raw write of the same bytes",
            record_benches::record,
        ),
        bench(
            "record-coincidences",
            "coincidences of two to five hits to an Arrow file, against a raw write of the same bytes",
            |c| Ok(record_coincidences_in(&Way::free(&c.folder(), c.repeats, Settings::default())).into()),
        ),
        bench(
            "record-events",
            "events of 105 × 380 B to Arrow files, in memory and at the pace of a disk, against a raw write of the same bytes",
            |c| record_benches::record_events(c, "record-events", EventShape::MANY_SMALL),
        ),
        bench("record-events-large", "the same with 8 × 64 kB", |c| {
            record_benches::record_events(c, "record-events-large", EventShape::FEW_LARGE)
        }),
        bench(
            "record-files",
            "the longest time between two batches where files end after 64 MiB, in memory and on a disk, against one file",
            record_benches::record_files,
        ),
        bench(
            "record-compressed",
            "events of 8 × 64 kB with lz4 and zstd on one and two workers, against the codec alone on one core",
            record_benches::record_compressed,
        ),
        bench("path", "received bytes in memory to a file, one core, against copying the bytes", |c| {
            path::path(c).map(Measured::from)
        }),
        bench(
            "process",
            "decode, order, calibration, cuts, coincidence, spectra, every hit to a file, one core, against copying the bytes",
            process::process,
        ),
    ]);
    all.extend(live_benches());
    all.extend(event_benches());
    all.extend(ship_benches());
    all.extend(ipbus_benches());
    all
}

/// Those of sockets alone.
fn network_benches() -> [Bench; 7] {
    [
        bench(
            "receive-udp",
            "UDP receive of 8972-byte datagrams into blocks, against a bare receive loop; every kind of receiving beside each other",
            |c| room("receive-udp", transport::receive_udp(8972, c.repeats)),
        ),
        bench("receive-udp-1024", "the same with 1024-byte datagrams", |c| {
            room("receive-udp-1024", transport::receive_udp(1024, c.repeats))
        }),
        bench("receive-udp-256", "the same with 256-byte datagrams", |c| {
            room("receive-udp-256", transport::receive_udp(256, c.repeats))
        }),
        bench("receive-udp-64", "the same with 64-byte datagrams", |c| {
            room("receive-udp-64", transport::receive_udp(64, c.repeats))
        }),
        bench(
            "emit",
            "events of 16 synchronous sources over loopback, against bare send and sendmmsg loops",
            |c| room("emit", emit::emit(c.repeats)),
        ),
        bench(
            "mtu",
            "datagrams of one and of many packets between two network namespaces (needs root): processor time, and loss of an overloaded link",
            mtu::mtu,
        ),
        bench("receive-tcp", "TCP receive into blocks, against a bare receive loop", |c| {
            room("receive-tcp", transport::receive_tcp(c.repeats))
        }),
    ]
}

fn bench(
    name: &'static str,
    about: &'static str,
    measure: fn(&Conditions) -> Result<Measured, BenchError>,
) -> Bench {
    Bench { name, about, measure }
}

/// Those of whole runs with an emulated board.
fn live_benches() -> [Bench; 7] {
    [
        bench("page", "what a page that is looked at costs the thread that fills its spectra", |c| {
            page::page(c).map(Measured::from)
        }),
        bench("live", "one emulated board at 40 M hits/s over loopback UDP: receive, decode, order", |c| {
            live::live(c).map(Measured::from)
        }),
        bench("live-record", "the same, with every hit written to a file", |c| {
            live::live_record(c).map(Measured::from)
        }),
        bench("live-process", "half the rate, with coincidence and all default spectra", |c| {
            live::live_process(c).map(Measured::from)
        }),
        bench(
            "live-scope",
            "waveforms of one board at more than 1140 MB/s over loopback UDP: received, decoded, recorded",
            live_scope::live_scope,
        ),
        bench(
            "saturate",
            "the highest trigger rate of scope events by record length, channels and decimation, against 10 Gb/s Ethernet",
            saturate::saturate,
        ),
        bench(
            "saturate-list",
            "the highest external trigger rate of hits by channels, up to 8 MHz, against the same",
            saturate::saturate_list,
        ),
    ]
}

/// Those of copies elsewhere.
fn ship_benches() -> [Bench; 4] {
    [
        bench(
            "ship",
            "a run copied over loopback by 1 to 8 streams, plain and with TLS, proved at the far side, against bare connections",
            ship::ship,
        ),
        bench(
            "ship-link",
            "the same over a link of 1 Gb/s between two network namespaces (needs root)",
            ship::ship_link,
        ),
        bench(
            "record-while-shipping",
            "events recorded while another run is shipped on this host, against recording alone",
            ship::record_while_shipping,
        ),
        bench("ship-delay", "the same through a relay: 10 ms each way, 200 Mb/s", ship::ship_delay),
    ]
}

fn ipbus_benches() -> Vec<Bench> {
    vec![
        bench(
            "ipbus",
            "blocks of registers of an emulated IPbus board, directly and through a hub, against a bare request and reply",
            ipbus::ipbus,
        ),
        bench(
            "ipbus-hub",
            "1 to 8 clients at 1 to 8 boards through one hub, against the same",
            ipbus::ipbus_hub,
        ),
        bench(
            "ipbus-link",
            "blocks of registers over a link of 1 Gb/s between two network namespaces (needs root), against the same",
            ipbus::ipbus_link,
        ),
    ]
}

/// Those of receiving from many boards and building their events.
fn event_benches() -> [Bench; 12] {
    [
        bench(
            "build-memory",
            "events of 2 to 512 sources out of fragments in memory, against a bare table",
            build_memory,
        ),
        bench(
            "receive-fragments",
            "fragments of 105 TCP and 265 UDP boards, against a bare receive loop",
            receive_fragments::receive_fragments,
        ),
        bench(
            "build",
            "events of 2 to 512 boards over TCP, against our receive and a bare receive loop",
            build::build,
        ),
        bench(
            "build-in-step",
            "the same of boards that keep 128 KiB each instead of 512",
            build::build_in_step,
        ),
        bench(
            "build-rate",
            "events built of 105 boards by the rate of triggers offered, 50 Hz to 100 kHz",
            build_rate::build_rate,
        ),
        bench(
            "build-record",
            "105 boards over TCP: received, built, recorded, recorded with lz4, against building alone",
            build_record::build_record,
        ),
        bench(
            "build-links",
            "1 to 8 connections of 16 KiB events: received, built, recorded, recorded with lz4",
            build_links::build_links,
        ),
        bench(
            "build-sizes",
            "the same of one connection, by the size of events, 256 B to 256 KiB",
            build_links::build_sizes,
        ),
        bench(
            "build-record-paced",
            "events recorded at 0.8 of what the disk takes, against building alone",
            build_record::build_record_paced,
        ),
        bench(
            "filter",
            "built events of 2 to 265 boards through an event filter of one and two workers, against the same way without it",
            filter::filter,
        ),
        bench("n2n", "messages between 2 to 8 processes over loopback TCP, against bare sockets", n2n::n2n),
        bench(
            "evb",
            "readout and builder units in 2 and 4 processes, against messages between the same",
            evb::evb,
        ),
    ]
}

fn room<E: std::fmt::Display>(
    bench: &'static str,
    result: Result<Measurement, E>,
) -> Result<Measured, BenchError> {
    result.map(Measured::from).map_err(|error| BenchError::Room { bench, message: error.to_string() })
}

/// Fragments per second of building alone, by the number of sources and the order in which their fragments come.
fn build_memory(conditions: &Conditions) -> Result<Measured, BenchError> {
    let points = build_memory::build_memory(conditions.repeats)
        .map_err(|error| BenchError::Room { bench: "build-memory", message: error.to_string() })?;
    let sweep = sweep::Sweep {
        bench: "build-memory",
        title: "Building events of fragments in memory, one core".to_owned(),
        along: "sources",
        x_title: "sources",
        lines: Some("arrival"),
        points,
        shows_ratio: false,
        logarithmic_x: true,
        logarithmic_y: false,
        guides: Vec::new(),
    };
    Ok(sweep.measured())
}
