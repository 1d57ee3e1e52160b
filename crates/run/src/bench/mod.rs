//! Every figure that the project states, as a measurement that anyone can run: `thalweg bench NAME`.
//!
//! Each is a ratio against a yardstick in the same run, repeated and interleaved; see
//! [`thalweg_data::measure`]. The parts are measured in the rooms that own them, the whole path here.

mod live;
mod path;

use std::path::PathBuf;

use serde::Serialize;
pub use thalweg_data::measure::Measurement;

/// What a bench may be told.
#[derive(Clone, Debug)]
pub struct Conditions {
    /// Counted repeats.
    pub repeats: usize,
    /// Where files are written; otherwise a temporary folder, in memory where there is one.
    pub directory: Option<PathBuf>,
    /// How long a live bench runs.
    pub seconds: f64,
}

/// A bench that could not be run.
#[derive(Debug, thiserror::Error)]
pub enum BenchError {
    /// A room said why.
    #[error("{bench}: {message}")]
    Room {
        /// The bench.
        bench: &'static str,
        /// What happened.
        message: String,
    },
}

/// One bench.
#[derive(Clone, Serialize)]
pub struct Bench {
    /// What to type.
    pub name: &'static str,
    /// What it measures, and against what.
    pub about: &'static str,
    /// Runs it.
    #[serde(skip)]
    pub measure: fn(&Conditions) -> Result<Measurement, BenchError>,
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
    use thalweg_frontend::digitizer2::bench as digitizer2;
    use thalweg_order::bench::{Distribution, order};
    use thalweg_transport::bench as transport;
    let bench = |name, about, measure| Bench { name, about, measure };
    vec![
        bench(
            "receive-udp",
            "UDP receive of 8972-byte datagrams into blocks, against a bare receive loop",
            |c| room("receive-udp", transport::receive_udp(8972, c.repeats)),
        ),
        bench("receive-udp-1024", "the same with 1024-byte datagrams", |c| {
            room("receive-udp-1024", transport::receive_udp(1024, c.repeats))
        }),
        bench("receive-tcp", "TCP receive into blocks, against a bare receive loop", |c| {
            room("receive-tcp", transport::receive_tcp(c.repeats))
        }),
        bench("decode", "16-byte hits out of 1 GiB of aggregates, against copying the bytes", |c| {
            room("decode", digitizer2::decode(c.repeats))
        }),
        bench("decode-waveforms", "2072-byte hits with their samples, against copying the bytes", |c| {
            room("decode-waveforms", digitizer2::decode_waveforms(c.repeats))
        }),
        bench("scope", "scope events with 64 channels, against copying the bytes", |c| {
            room("scope", digitizer2::scope(c.repeats))
        }),
        bench("order", "time order of 8 boards at equal rates, against copying the hits", |c| {
            Ok(order(Distribution::Uniform, c.repeats))
        }),
        bench("order-bursty", "the same with bursts", |c| Ok(order(Distribution::Bursty, c.repeats))),
        bench("order-unequal", "rates 1:100, disorder inside a source, and an idle board", |c| {
            Ok(order(Distribution::Unequal, c.repeats))
        }),
        bench("record", "hits to an Arrow file, against a raw write of the same bytes", |c| {
            Ok(thalweg_record::bench::record_in(&c.folder(), c.repeats, thalweg_record::Compression::None))
        }),
        bench("path", "received bytes in memory to a file, one core, against copying the bytes", path::path),
        bench(
            "live",
            "one emulated board at 40 M hits/s over loopback UDP: receive, decode, order",
            live::live,
        ),
        bench("live-record", "the same, with every hit written to a file", live::live_record),
    ]
}

fn room<E: std::fmt::Display>(
    bench: &'static str,
    result: Result<Measurement, E>,
) -> Result<Measurement, BenchError> {
    result.map_err(|error| BenchError::Room { bench, message: error.to_string() })
}
