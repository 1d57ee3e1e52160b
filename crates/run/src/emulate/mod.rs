//! Emulated boards alone: for other programs to connect to, or to stream at them.
//!
//! ```text
//!  Emulation: self-triggered boards, each by itself        Detector: triggered boards of a configuration, together
//! ```

mod detector;

use std::fmt;
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use serde::Serialize;
use thalweg_frontend::digitizer2::control::{CONTROL_PORT, UDP_DATA_PORT};
use thalweg_frontend::digitizer2::emulate::{Settings, settings::Rates};
use thalweg_readout::host::{HostError, HostSettings, HostedBoard, Place};
use thalweg_record::RecordError;

use crate::config::{ConfigError, read_text};
use crate::open::TruthFile;
pub(crate) use detector::spread_us;
pub use detector::{Detector, DetectorReport, EmulatedDetector};

/// Boards that cannot be emulated.
#[derive(Debug, thiserror::Error)]
pub enum EmulateError {
    /// The settings file is wrong.
    #[error(transparent)]
    Configuration(#[from] ConfigError),
    /// A board cannot be hosted.
    #[error(transparent)]
    Host(#[from] HostError),
    /// The truth cannot be written.
    #[error(transparent)]
    Record(#[from] RecordError),
    /// More boards than addresses.
    #[error(
        "{boards} boards from {address} on leave the address range; give a smaller number or a lower address"
    )]
    Addresses {
        /// Boards asked for.
        boards: u16,
        /// First address.
        address: Ipv4Addr,
    },
}

/// The boards to emulate, and their addresses.
#[derive(Clone, Debug)]
pub struct Emulation {
    /// The number of boards.
    pub boards: u16,
    /// Address of the first; the others follow.
    pub address: Ipv4Addr,
    /// Stream there at once instead of waiting for a client.
    pub to: Option<SocketAddr>,
    /// Board settings in TOML.
    pub settings: Option<PathBuf>,
    /// Hits per second and channel, whatever the settings say.
    pub rate_hz: Option<f64>,
    /// The seed, whatever the settings say.
    pub seed: Option<u64>,
    /// Fraction of datagrams dropped.
    pub loss: f64,
    /// The file for every emitted hit.
    pub truth: Option<PathBuf>,
}

/// Boards that are being emulated.
pub struct Emulated {
    boards: Vec<HostedBoard>,
    story: String,
    truth: Option<TruthFile>,
    streams: bool,
}

/// The counts of what the boards have sent.
#[derive(Clone, Debug, Default, Serialize)]
pub struct EmulationReport {
    /// Hits handed out, the dropped included.
    pub hits_sent: u64,
    /// Aggregates.
    pub aggregates_sent: u64,
    /// Datagrams or packets.
    pub datagrams_sent: u64,
    /// Bytes.
    pub bytes_sent: u64,
    /// Hits in datagrams that were dropped by seed.
    pub hits_dropped: u64,
    /// Datagrams dropped by seed.
    pub datagrams_dropped: u64,
    /// Datagrams among them after the last that was sent, so that no receiver can know of them.
    pub datagrams_dropped_last: u64,
    /// Errors of the boards.
    pub failures: Vec<String>,
}

impl Emulation {
    /// Makes the boards and their sockets.
    ///
    /// # Errors
    /// When a board cannot be like that, or an address is taken.
    pub fn start(&self) -> Result<Emulated, EmulateError> {
        let common = self.board_settings()?;
        let truth = self.truth.as_deref().map(TruthFile::create).transpose()?;
        let (mut boards, mut story) = (Vec::new(), String::new());
        for board in 0..self.boards.max(1) {
            let place = self.place(board)?;
            let settings = Settings { board, boards: self.boards.max(1), ..common.clone() };
            let first_channel = board.saturating_mul(settings.channels);
            story.push_str(&match place {
                Place::Stream { to } => format!("board {board}: UDP to {to}\n"),
                Place::Network { address, control_port, .. } => {
                    format!("board {board}: dig2://{address} (control port {control_port})\n")
                }
            });
            let truth = truth.as_ref().map(|file| file.sink(first_channel));
            let board = Box::new(settings);
            boards.push(HostedBoard::new(HostSettings { board, place, loss: self.loss, truth })?);
        }
        HostedBoard::connect_starts(&boards);
        let streams = self.to.is_some();
        if streams {
            boards.iter().for_each(HostedBoard::start);
        }
        Ok(Emulated { boards, story: story.trim_end().to_owned(), truth, streams })
    }

    fn place(&self, board: u16) -> Result<Place, EmulateError> {
        if let Some(to) = self.to {
            return Ok(Place::Stream { to });
        }
        let address = u32::from(self.address).checked_add(u32::from(board)).map(Ipv4Addr::from);
        let address =
            address.ok_or(EmulateError::Addresses { boards: self.boards, address: self.address })?;
        Ok(Place::Network {
            address: IpAddr::V4(address),
            control_port: CONTROL_PORT,
            udp_port: UDP_DATA_PORT,
        })
    }

    fn board_settings(&self) -> Result<Settings, EmulateError> {
        let mut settings = match &self.settings {
            None => Settings::default(),
            Some(file) => {
                let text = read_text(file, "a file of board settings (keys as under [source.emulate])")?;
                toml::from_str(&text).map_err(|error| ConfigError::NotAllowed {
                    file: file.clone(),
                    report: error.to_string(),
                })?
            }
        };
        if let Some(rate_hz) = self.rate_hz {
            settings.rate_hz = Rates::Each(rate_hz);
        }
        settings.seed = self.seed.unwrap_or(settings.seed);
        Ok(settings)
    }
}

impl Emulated {
    /// Describes where the boards are.
    pub fn story(&self) -> &str {
        &self.story
    }

    /// Serves for so many seconds, or until `stop` is set; then ends the boards and reports what they sent.
    ///
    /// # Errors
    /// When the truth could not be closed.
    pub fn serve(mut self, seconds: Option<f64>, stop: &AtomicBool) -> Result<EmulationReport, EmulateError> {
        let start = Instant::now();
        let over = |boards: &[HostedBoard]| {
            let timed = seconds.is_some_and(|seconds| start.elapsed().as_secs_f64() >= seconds);
            let silent = self.streams && boards.iter().all(HostedBoard::is_silent);
            timed || silent || stop.load(Ordering::Acquire)
        };
        while !over(&self.boards) {
            std::thread::sleep(Duration::from_millis(20));
        }
        let mut report = EmulationReport::default();
        for board in &mut self.boards {
            board.end();
            let totals = board.totals();
            report.hits_sent += totals.sent.hits;
            report.aggregates_sent += totals.sent.aggregates;
            report.datagrams_sent += totals.sent.datagrams;
            report.bytes_sent += totals.sent.bytes;
            report.hits_dropped += totals.dropped.hits;
            report.datagrams_dropped += totals.dropped.datagrams;
            report.datagrams_dropped_last += totals.dropped.trailing;
            report.failures.extend(board.failures());
        }
        self.boards.clear();
        if let Some(truth) = self.truth {
            truth.finish()?;
        }
        Ok(report)
    }
}

impl fmt::Display for EmulationReport {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "sent {} hits in {} aggregates, {} datagrams, {} bytes; dropped by seed: {} hits in {} datagrams",
            self.hits_sent,
            self.aggregates_sent,
            self.datagrams_sent,
            self.bytes_sent,
            self.hits_dropped,
            self.datagrams_dropped
        )?;
        self.failures.iter().try_for_each(|failure| write!(f, "\nfailed: {failure}"))
    }
}
