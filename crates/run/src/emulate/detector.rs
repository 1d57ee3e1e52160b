//! The triggered boards of a configuration, emulated for another process that takes their data.
//!
//! ```text
//!  detector.toml ─► thalweg emulate FILE: boards at tcp://, towards udp://, triggered by [trigger] ─┐ network
//!       │                 ▲ BUSY, received where [busy] sends it                                       │
//!       └─────────► thalweg run FILE ◄───────────────────────────────────────────────────────────────┘
//! ```
//! Both read the same file, so that boards, numbers and addresses fit. Triggers begin once every board that listens has a client
//! and, where BUSY is reported by datagrams, once "not busy" was received: what nobody reads is no loss.

use std::fmt;
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use serde::Serialize;
use serde_json::Value;
use thalweg_data::{Busy, SourceId};
use thalweg_readout::host::triggered::{Feed, HostedBoards, Outlet, TriggeredTotals};
use thalweg_readout::{BusyInput, other_ends};

use crate::config::Configuration;
use crate::error::RunError;
use crate::open::host;

/// Between two looks at clients, BUSY and the end.
const CHECK_EVERY: Duration = Duration::from_millis(5);

/// The boards to emulate, and the differences from their file.
#[derive(Clone, Debug)]
pub struct Detector {
    /// The file that the other process reads, too.
    pub configuration: Configuration,
    /// The destination of datagrams, whatever the file says.
    pub to: Option<SocketAddr>,
    /// Triggers per second, whatever the file says.
    pub rate_hz: Option<f64>,
    /// The seed of the triggers, whatever the file says.
    pub seed: Option<u64>,
    /// The number of triggers, whatever the file says.
    pub triggers: Option<u64>,
}

/// Boards that are being emulated.
pub struct EmulatedDetector {
    boards: HostedBoards,
    busy: BusyInput,
    listening: usize,
    story: String,
}

/// The triggers that the boards got, and the answers that they have sent.
#[derive(Clone, Debug, Serialize)]
pub struct DetectorReport {
    /// Triggers of the program.
    pub triggers_offered: u64,
    /// Those that every board answered.
    pub triggers_accepted: u64,
    /// Those that came while BUSY.
    pub triggers_refused: u64,
    /// Of these, those that the boards had no space or no time for, and not because of BUSY.
    pub refused_by_boards: u64,
    /// Time spent BUSY, milliseconds.
    pub busy_ms: f64,
    /// The number of times that it was raised.
    pub busy_raised: u64,
    /// Words of BUSY that came from outside.
    pub busy_messages: u64,
    /// Boards.
    pub boards: usize,
    /// Fragments that were given to a socket.
    pub fragments_sent: u64,
    /// Fragments of which nothing, or not everything, was sent: no client was connected.
    pub fragments_discarded: u64,
    /// Bytes of those that were.
    pub bytes_sent: u64,
    /// Datagrams of all boards; 0 of streams.
    pub datagrams_sent: u64,
    /// The time from a trigger until its last answer was given to a socket, microseconds.
    pub lateness_us: Value,
    /// The time from the first answer to a trigger until the last, over all boards, microseconds.
    pub skew_us: Value,
    /// Errors of the boards.
    pub failures: Vec<String>,
}

impl Detector {
    /// Makes the boards, their sockets and their trigger. Nothing is triggered yet.
    ///
    /// # Errors
    /// When the file has no triggered boards that could be elsewhere, or an address cannot be had.
    pub fn start(&self) -> Result<EmulatedDetector, RunError> {
        let mut configuration = self.configuration.clone();
        let trigger = &mut configuration.trigger;
        trigger.rate_hz = self.rate_hz.unwrap_or(trigger.rate_hz);
        trigger.seed = self.seed.unwrap_or(trigger.seed);
        trigger.triggers = self.triggers.or(trigger.triggers);
        let refuse = |message: String| configuration.invalid(message);
        if configuration.follow.is_some() {
            return Err(refuse(FOLLOWS.to_owned()).into());
        }
        let (mut links, mut story) = (Vec::new(), String::new());
        for source in &configuration.sources {
            let name = &source.head.name;
            let Some(settings) = source.links(SourceId(0)) else {
                let report = format!("source \"{name}\" {SELF_TRIGGERED}");
                return Err(refuse(report).into());
            };
            if !matches!(source.endpoint.url.scheme(), "tcp" | "udp") {
                return Err(refuse(format!("source \"{name}\", {}: {ELSEWHERE}", source.endpoint.url)).into());
            }
            let own = other_ends(&settings, self.to)?;
            let boards: usize = own.iter().map(|link| link.boards.len()).sum();
            story.push_str(&format!("{name}: {boards} board(s), {}\n", source.endpoint.url));
            links.extend(own);
        }
        let listening = links.iter().filter(|link| matches!(link.outlet, Outlet::Listener(_))).count();
        let feed = Feed::Program(configuration.trigger_program()?);
        let line = Arc::new(Busy::default());
        let busy = BusyInput::open(&configuration.busy, &line)?;
        let boards = host(&configuration, links, feed, &line, (None, None))?;
        story.push_str(match (listening, &configuration.busy.udp) {
            (0, None) => "triggers begin now",
            (0, Some(_)) => "triggers begin when BUSY is reported",
            (_, None) => "triggers begin when every board has a client",
            (_, Some(_)) => "triggers begin when every board has a client and BUSY is reported",
        });
        Ok(EmulatedDetector { boards, busy, listening, story })
    }
}

const FOLLOWS: &str = "[trigger.follow] needs the boards in the run itself, with `url = \"emulate://\"`; take it out to give \
                       them a program of their own";
const SELF_TRIGGERED: &str =
    "is self-triggered; its boards are emulated by `thalweg emulate --boards N` without a file";
const ELSEWHERE: &str =
    "boards of another process need tcp:// or udp://; emulate:// is hosted by `thalweg run` itself";

impl EmulatedDetector {
    /// Describes where the boards are.
    pub fn story(&self) -> &str {
        &self.story
    }

    /// Serves for so many seconds, until `stop` is set, or until the program has ended and the clients have gone; then ends the boards and
    /// reports what they sent.
    pub fn serve(mut self, seconds: Option<f64>, stop: &AtomicBool) -> DetectorReport {
        let (begin, mut started, mut reported) = (Instant::now(), false, false);
        loop {
            let without = self.boards.links_without_client();
            if !started && without == 0 && self.busy.was_freed() {
                self.boards.start();
                started = true;
            }
            let silent = started && self.boards.is_silent();
            if silent && !std::mem::replace(&mut reported, silent) {
                tracing::info!(
                    "the triggers have ended and every answer is sent; waiting for the clients to go"
                );
            }
            let done = silent && without == self.listening;
            let timed = seconds.is_some_and(|seconds| begin.elapsed().as_secs_f64() >= seconds);
            if done || timed || stop.load(Ordering::Acquire) {
                break;
            }
            std::thread::sleep(CHECK_EVERY);
        }
        self.boards.end();
        report(&self.boards.totals(), self.busy.counts().messages, self.boards.failures())
    }
}

fn report(totals: &TriggeredTotals, busy_messages: u64, failures: Vec<String>) -> DetectorReport {
    let mut report = DetectorReport {
        triggers_offered: totals.offered(),
        triggers_accepted: totals.accepted(),
        triggers_refused: totals.refused(),
        refused_by_boards: totals.refused_by_boards,
        busy_ms: totals.busy_ns as f64 / 1e6,
        busy_raised: totals.busy_raised,
        busy_messages,
        boards: totals.boards.len(),
        fragments_sent: 0,
        fragments_discarded: 0,
        bytes_sent: 0,
        datagrams_sent: 0,
        lateness_us: spread_us(&totals.lateness),
        skew_us: spread_us(&totals.skew),
        failures,
    };
    for board in &totals.boards {
        report.fragments_sent += board.fragments - board.discarded_fragments;
        report.fragments_discarded += board.discarded_fragments;
        report.bytes_sent += board.bytes - board.discarded_bytes;
        report.datagrams_sent += board.datagrams;
    }
    report
}

impl fmt::Display for DetectorReport {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let DetectorReport { triggers_offered, triggers_refused, refused_by_boards, .. } = self;
        writeln!(
            f,
            "triggers: {triggers_offered} offered, {triggers_refused} refused, {refused_by_boards} of them by the boards; \
             busy {} times, {:.0} ms",
            self.busy_raised, self.busy_ms
        )?;
        write!(
            f,
            "{} boards: {} fragments sent, {} bytes, {} datagrams; {} fragments discarded for want of a client",
            self.boards, self.fragments_sent, self.bytes_sent, self.datagrams_sent, self.fragments_discarded
        )?;
        for (word, times) in [("lateness", &self.lateness_us), ("skew", &self.skew_us)] {
            let us = |key: &str| times[key].as_f64().unwrap_or_default();
            write!(
                f,
                "\n{word} p50 {:.0} µs, p99 {:.0} µs, largest {:.0} µs",
                us("p50"),
                us("p99"),
                us("highest")
            )?;
        }
        self.failures.iter().try_for_each(|failure| write!(f, "\nfailed: {failure}"))
    }
}

/// A histogram of times in three numbers, microseconds.
pub(crate) fn spread_us(times: &thalweg_readout::host::triggered::Times) -> serde_json::Value {
    let us = |fraction| times.quantile_ns(fraction) as f64 / 1e3;
    serde_json::json!({ "p50": us(0.5), "p99": us(0.99), "highest": us(1.0) })
}
