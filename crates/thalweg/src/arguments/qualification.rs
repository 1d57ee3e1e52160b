//! The arguments of the measurements before a run: `doctor`, `qualify`.

use std::net::SocketAddr;
use std::path::PathBuf;

use clap::{Args, Subcommand};
use thalweg_qualify::predict::quantity;

#[derive(Debug, Args)]
pub(crate) struct Doctor {
    /// A configuration: the host is held against what it needs
    pub(crate) configuration: Option<PathBuf>,
    /// Print the commands that set what is not as it should be, and the lines that keep it over a restart
    #[arg(long)]
    pub(crate) fix: bool,
    /// Set it, as root
    #[arg(long, requires = "fix")]
    pub(crate) apply: bool,
    /// Only checks whose name has this in it; may be given several times
    #[arg(long, value_name = "NAME")]
    pub(crate) only: Vec<String>,
    /// Send datagrams to the configuration's boards, to find whether long ones pass on the way
    #[arg(long, requires = "configuration")]
    pub(crate) probe: bool,
    /// What the busiest socket receives, bytes per second: how long its reader may stand still
    #[arg(long, value_name = "BYTES")]
    pub(crate) bytes_per_second: Option<f64>,
    /// Payload of its datagrams, bytes
    #[arg(long, value_name = "BYTES", requires = "bytes_per_second")]
    pub(crate) payload_bytes: Option<u64>,
    /// Print what is good, too
    #[arg(long)]
    pub(crate) all: bool,
}

#[derive(Debug, Args)]
pub(crate) struct Qualify {
    #[command(subcommand)]
    pub(crate) command: QualifyCommand,
}

#[derive(Debug, Subcommand)]
pub(crate) enum QualifyCommand {
    /// For each separation of events, how many pass without a loss; depth and drain rate of the buffer from that
    #[command(
        after_help = "Examples:\n  thalweg qualify watershed --testbed rate=800Mbit,depth=8MB,datagram=8972 --report map.html\n  thalweg qualify watershed --testbed blind=7,datagram=8972 --columns 12\n  thalweg qualify watershed --testbed rate=800Mbit,depth=4MB,datagram=8972,outputs=2 --outputs 2\n  thalweg qualify watershed --hosts 10.0.0.11:50001,10.0.0.12:50001 --receive 192.168.1.2:50000 --sources-per-host 8 --datagram 1024 --rate 10Gbit\n\nExit codes: 0 depth and rate were fitted, the plan is accepted where one is given, and of two outputs it is known whether they share a buffer; 1 not (the report says why), 2 wrong usage."
    )]
    Watershed(QualifyWatershed),
    /// The highest rate without a loss, sources one behind the other, held for a minute
    #[command(
        after_help = "Examples:\n  thalweg qualify throughput --testbed rate=800Mbit,depth=1MB,datagram=8972\n  thalweg qualify throughput --testbed rate=100Mbit,depth=200kB,datagram=1024 --datagrams 256,1024,8972 --linearity 12 --svg linearity.svg\n\nExit codes: 0 found and held, 1 not (the report says why), 2 wrong usage."
    )]
    Throughput(QualifyThroughput),
    /// Few events of more and more ports at once: from which number on something is lost
    #[command(
        after_help = "Example:\n  thalweg qualify incast --testbed rate=800Mbit,depth=200kB,datagram=8972,sources=44\n\nExit codes: 0 swept, 1 some number of ports could not be tried as asked, 2 wrong usage."
    )]
    Incast(QualifyIncast),
    /// How long after an overflow a burst passes without a loss
    #[command(
        after_help = "Example:\n  thalweg qualify recovery --testbed rate=800Mbit,depth=2MB,datagram=8972\n\nExit codes: 0 measured, 1 not (the report says why), 2 wrong usage."
    )]
    Recovery(QualifyRecovery),
    /// Hours at a load that a device carries: nothing may be lost that nobody counts
    #[command(
        after_help = "Example:\n  thalweg qualify soak --testbed rate=800Mbit,depth=8MB,datagram=8972 --seconds 28800 --report soak.html\n\nCtrl-C ends it, and what there is by then is the result.\nExit codes: 0 nothing was lost that nobody counts, 1 something was, 2 wrong usage."
    )]
    Soak(QualifySoak),
    /// Make a device of this host's kernel whose depth, rate and queues are known, and keep it until Ctrl-C
    #[command(
        after_help = "Examples:\n  sudo thalweg qualify testbed rate=800Mbit,depth=8MB,datagram=8972\n  thalweg qualify testbed rate=100Mbit,depth=1MB,datagram=1024,queues=per-input -- bash\n\nWith a command the device lasts as long as that, and its namespaces are in THALWEG_SOURCES, THALWEG_DEVICE and THALWEG_RECEIVER.\n\nExit codes: 0 done, or the command's success; 1 it failed, 2 wrong usage."
    )]
    Testbed(QualifyTestbed),
    /// Send as synchronous sources do: a datagram of each at every trigger
    #[command(
        after_help = "Examples:\n  thalweg qualify emit --to 192.168.1.2:50000 --sources 44 --rate-hz 7000 --triggers 100000\n  thalweg qualify emit --to 127.0.0.1:50000 --program poisson --rate-hz 5000 --dead-time-us 2 --triggers 20000\n  thalweg qualify emit --control 10.0.0.11:50001\n\nExit codes: 0 sent as asked, 1 more slowly, or not all (the report says which), 2 wrong usage."
    )]
    Emit(QualifyEmit),
    /// Count what comes of such sources: missing, doubled, out of order
    #[command(
        after_help = "Example:\n  thalweg qualify receive --listen 192.168.1.2:50000\n\nExit codes: 0 everything came, 1 something is missing or not known, 2 wrong usage."
    )]
    Receive(QualifyReceive),
    /// What a disk sustains, written and read as a run does, over time and by position
    #[command(
        after_help = "Examples:\n  thalweg qualify storage /data --needs 800MB/s\n  thalweg qualify storage /data --bytes 100GB --svg storage.svg\n  thalweg qualify storage /xfs /ext4 --config run.toml\n  thalweg qualify storage /data --fill --keep-free 5%\n\nSignals: SIGINT (Ctrl-C) and SIGTERM end it, and its files are removed.\nExit codes: 0 measured, and what is needed is sustained; 1 it is not, or that was not shown, or the disk fails; 2 wrong usage."
    )]
    Storage(super::storage::QualifyStorage),
}

/// The device under test, and where its sources and its receiver are.
#[derive(Debug, Args)]
pub(crate) struct QualifiedDevice {
    /// A device of this host's kernel, made for the measurement: rate=800Mbit,depth=8MB,datagram=8972, and sources=16,burst=40kB,queues=shared,outputs=1,stacking=1 unless given; or blind=SEED,datagram=8972. Needs root or user namespaces
    #[arg(long, value_name = "KEY=VALUE,…", required_unless_present = "hosts", conflicts_with = "hosts")]
    pub(crate) testbed: Option<String>,
    /// Hosts with sources, where `qualify emit --control` listens; they start together
    #[arg(long, value_name = "ADDRESS:PORT,…", value_delimiter = ',', requires_all = ["receive", "datagram"])]
    pub(crate) hosts: Vec<SocketAddr>,
    /// Address of this host behind the device, to which they send
    #[arg(long, value_name = "ADDRESS:PORT", requires = "hosts")]
    pub(crate) receive: Option<SocketAddr>,
    /// Sources on each host: 2 or 3 stack as many boards behind one input
    #[arg(long, default_value_t = 1, value_name = "COUNT", value_parser = clap::value_parser!(u16).range(1..=512))]
    pub(crate) sources_per_host: u16,
    /// UDP payload of each datagram, bytes
    #[arg(long, value_name = "BYTES", requires = "hosts", value_parser = clap::value_parser!(u32).range(34..=9188))]
    pub(crate) datagram: Option<u32>,
    /// Rate of the output that leads to the receiver, as 10Gbit; measured where it is not given
    #[arg(long, value_name = "RATE", requires = "hosts", value_parser = quantity::bits_per_second)]
    pub(crate) rate: Option<f64>,
    /// How long its buffer takes to drain at most
    #[arg(long, value_name = "MILLISECONDS", default_value_t = 500.0, value_parser = drain_ms)]
    pub(crate) longest_drain_ms: f64,
    /// Prints as a JSON object what the device has thrown away, as {"port 3 ifOutDiscards": 12}; run before and after each trial
    #[arg(long, value_name = "COMMAND", requires = "hosts")]
    pub(crate) counters_command: Option<String>,
}

/// Files beside what is printed.
#[derive(Debug, Args)]
pub(crate) struct QualifyOutputs {
    /// Draw the result to this file
    #[arg(long, value_name = "FILE")]
    pub(crate) svg: Option<PathBuf>,
    /// Write one HTML page with everything to this file; while it is measured, a browser shows how far it is
    #[arg(long, value_name = "FILE")]
    pub(crate) report: Option<PathBuf>,
}

#[derive(Debug, Args)]
pub(crate) struct QualifyThroughput {
    #[command(flatten)]
    pub(crate) device: QualifiedDevice,
    #[command(flatten)]
    pub(crate) outputs: QualifyOutputs,
    /// Payloads that are tried, bytes; unless given, that of the device
    #[arg(long, value_name = "BYTES,…", value_delimiter = ',', value_parser = clap::value_parser!(u32).range(34..=9188))]
    pub(crate) datagrams: Vec<u32>,
    /// Numbers of sources that are tried; unless given, all
    #[arg(long, value_name = "COUNT,…", value_delimiter = ',', value_parser = clap::value_parser!(u32).range(1..=512))]
    pub(crate) ports: Vec<u32>,
    /// How long each rate is tried
    #[arg(long, default_value_t = 5.0, value_name = "SECONDS", value_parser = trial_seconds)]
    pub(crate) trial_seconds: f64,
    /// How long the rate that was found is held; RFC 2544 asks for 60 s
    #[arg(long, default_value_t = 60.0, value_name = "SECONDS", value_parser = trial_seconds)]
    pub(crate) hold_seconds: f64,
    /// Offer so many rates, up to 1.2 of what the output is said to carry, and compare what comes
    #[arg(long, value_name = "STEPS", value_parser = clap::value_parser!(u16).range(1..=200))]
    pub(crate) linearity: Option<u16>,
}

#[derive(Debug, Args)]
pub(crate) struct QualifyIncast {
    #[command(flatten)]
    pub(crate) device: QualifiedDevice,
    #[command(flatten)]
    pub(crate) outputs: QualifyOutputs,
    /// Events of each trial
    #[arg(long, default_value_t = 2, value_parser = clap::value_parser!(u64).range(1..=1_000_000))]
    pub(crate) events: u64,
    /// Their separation; 0: as fast as the sources send, and the report says how fast that was
    #[arg(long, default_value_t = 0.0, value_name = "MICROSECONDS", value_parser = dead_time_us)]
    pub(crate) separation_us: f64,
    /// Trials with each number of ports, all of which must be lossless
    #[arg(long, default_value_t = 3, value_parser = clap::value_parser!(u32).range(1..=1000))]
    pub(crate) repeats: u32,
}

#[derive(Debug, Args)]
pub(crate) struct QualifyRecovery {
    #[command(flatten)]
    pub(crate) device: QualifiedDevice,
    #[command(flatten)]
    pub(crate) outputs: QualifyOutputs,
}

#[derive(Debug, Args)]
pub(crate) struct QualifySoak {
    #[command(flatten)]
    pub(crate) device: QualifiedDevice,
    #[command(flatten)]
    pub(crate) outputs: QualifyOutputs,
    /// Fraction of the rate of the output that is sent
    #[arg(long, default_value_t = 0.9, value_name = "FRACTION", value_parser = load)]
    pub(crate) load: f64,
    /// How long
    #[arg(long, default_value_t = 28_800.0, value_parser = trial_seconds_or_hours)]
    pub(crate) seconds: f64,
    /// After so many seconds it is counted and begun anew
    #[arg(long, default_value_t = 30.0, value_name = "SECONDS", value_parser = trial_seconds)]
    pub(crate) trial_seconds: f64,
}

fn load(text: &str) -> Result<f64, String> {
    let fraction: f64 = text.parse().map_err(|error| format!("{error}"))?;
    match (0.001..=1.5).contains(&fraction) {
        true => Ok(fraction),
        false => Err("must be from 0.001 to 1.5, as a fraction of the rate of the output".to_owned()),
    }
}

#[derive(Debug, Args)]
pub(crate) struct QualifyTestbed {
    /// rate=800Mbit,depth=8MB,datagram=8972, and sources=16,burst=40kB,queues=shared,outputs=1,stacking=1 unless given (or queues=per-input, outputs=2, stacking=3)
    #[arg(value_name = "KEY=VALUE,…")]
    pub(crate) testbed: String,
    /// A command that runs beside the device, and ends it
    #[arg(last = true, value_name = "COMMAND")]
    pub(crate) command: Vec<String>,
}

fn drain_ms(text: &str) -> Result<f64, String> {
    let milliseconds: f64 = text.parse().map_err(|error| format!("{error}"))?;
    match (0.0..=60_000.0).contains(&milliseconds) {
        true => Ok(milliseconds),
        false => Err("must be from 0 to 60000, in milliseconds".to_owned()),
    }
}

fn trial_seconds(text: &str) -> Result<f64, String> {
    let seconds: f64 = text.parse().map_err(|error| format!("{error}"))?;
    match (0.01..=600.0).contains(&seconds) {
        true => Ok(seconds),
        false => Err("must be from 0.01 to 600, in seconds".to_owned()),
    }
}

#[derive(Debug, Args)]
pub(crate) struct QualifyEmit {
    /// Where they send to; with --control, the only address that they may send to
    #[arg(long, value_name = "ADDRESS:PORT", required_unless_present = "control")]
    pub(crate) to: Option<SocketAddr>,
    /// Send what another host asks for, which is controlled here: `emit --hosts`, `watershed`, `throughput`, `incast` or `recovery`
    #[arg(long, value_name = "ADDRESS:PORT", conflicts_with_all = ["hosts", "program", "rate_hz", "triggers", "times_file", "capture", "sources", "payload_bytes"])]
    pub(crate) control: Option<SocketAddr>,
    /// Send from these hosts together, where `emit --control` listens; each has as many sources
    #[arg(long, value_name = "ADDRESS:PORT,…", value_delimiter = ',', conflicts_with_all = ["from", "capture", "payload_most_bytes"])]
    pub(crate) hosts: Vec<SocketAddr>,
    /// Address of the sources, and port of the first; the others have the ports behind it
    #[arg(long, value_name = "ADDRESS:PORT")]
    pub(crate) from: Option<SocketAddr>,
    /// Sources that send together
    #[arg(long, default_value_t = 16, value_parser = clap::value_parser!(u16).range(1..=512))]
    pub(crate) sources: u16,
    /// Payload of each datagram, bytes
    #[arg(long, default_value_t = 1024, value_parser = clap::value_parser!(u32).range(34..=65_507))]
    pub(crate) payload_bytes: u32,
    /// Payloads of up to so many bytes, by the seed; all lengths from --payload-bytes on are equally frequent
    #[arg(long, value_name = "BYTES", value_parser = clap::value_parser!(u32).range(34..=65_507))]
    pub(crate) payload_most_bytes: Option<u32>,
    /// Send the datagrams of this capture (pcap, pcapng) instead, with the gaps that they had
    #[arg(long, value_name = "FILE", conflicts_with_all = ["program", "rate_hz", "triggers", "times_file", "sources", "payload_bytes", "payload_most_bytes"])]
    pub(crate) capture: Option<PathBuf>,
    /// Write when each event was sent to this file, as `12.5 us`: --times-file takes it
    #[arg(long, value_name = "FILE", conflicts_with_all = ["control", "capture"])]
    pub(crate) emitted_times: Option<PathBuf>,
    /// Of a capture: only datagrams that went to this port
    #[arg(long, value_name = "PORT", requires = "capture")]
    pub(crate) capture_port: Option<u16>,
    /// Of a capture: divide its gaps by this
    #[arg(long, default_value_t = 1.0, value_name = "FACTOR", requires = "capture", value_parser = speed)]
    pub(crate) speed: f64,
    /// How triggers lie in time
    #[arg(long, value_enum, default_value_t = TriggerProgram::Constant)]
    pub(crate) program: TriggerProgram,
    /// Triggers per second; within a burst, those of the burst
    #[arg(long, default_value_t = 1000.0, value_parser = above_zero_hz)]
    pub(crate) rate_hz: f64,
    /// Of `bursts`: triggers in each
    #[arg(long, default_value_t = 10)]
    pub(crate) burst_triggers: u64,
    /// Of `bursts`: bursts per second
    #[arg(long, default_value_t = 10.0, value_parser = above_zero_hz)]
    pub(crate) burst_rate_hz: f64,
    /// Of `poisson`: no trigger comes within this time of the one before
    #[arg(long, default_value_t = 0.0, value_parser = dead_time_us)]
    pub(crate) dead_time_us: f64,
    /// Triggers at the times in this file instead, as `12.5 us`
    #[arg(long, value_name = "FILE")]
    pub(crate) times_file: Option<PathBuf>,
    /// So many triggers
    #[arg(long, default_value_t = 10_000, value_parser = clap::value_parser!(u64).range(1..=4_000_000))]
    pub(crate) triggers: u64,
    /// Makes random triggers reproducible
    #[arg(long, default_value_t = 1)]
    pub(crate) seed: u64,
}

/// How triggers lie in time.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub(crate) enum TriggerProgram {
    /// At equal distances
    Constant,
    /// Several at equal distances, again and again
    Bursts,
    /// At random
    Poisson,
}

#[derive(Debug, Args)]
pub(crate) struct QualifyReceive {
    /// Where they send to
    #[arg(long, value_name = "ADDRESS:PORT", default_value = "127.0.0.1:50000")]
    pub(crate) listen: SocketAddr,
    /// The longest datagram that is taken, bytes
    #[arg(long, default_value_t = 9216, value_parser = clap::value_parser!(u32).range(34..=65_507))]
    pub(crate) datagram_bytes: u32,
    /// End after so many seconds, where the ends of the sources do not come before
    #[arg(long, default_value_t = 60.0, value_parser = trial_seconds_or_hours)]
    pub(crate) seconds: f64,
    /// Prints as a JSON object what the device on the way has thrown away, as {"port 3 ifOutDiscards": 12}; run before and after
    #[arg(long, value_name = "COMMAND")]
    pub(crate) counters_command: Option<String>,
    /// Count what is in this capture (pcap, pcapng) instead, as of a mirror port
    #[arg(long, value_name = "FILE", conflicts_with_all = ["listen", "seconds", "counters_command"])]
    pub(crate) capture: Option<PathBuf>,
}

fn trial_seconds_or_hours(text: &str) -> Result<f64, String> {
    let seconds: f64 = text.parse().map_err(|error| format!("{error}"))?;
    match (0.0..=1e6).contains(&seconds) {
        true => Ok(seconds),
        false => Err("must be from 0 to 1000000, in seconds".to_owned()),
    }
}

fn speed(text: &str) -> Result<f64, String> {
    let factor: f64 = text.parse().map_err(|error| format!("{error}"))?;
    match (1e-6..=1e6).contains(&factor) {
        true => Ok(factor),
        false => Err("must be from 0.000001 to 1000000".to_owned()),
    }
}

#[derive(Debug, Args)]
pub(crate) struct QualifyWatershed {
    #[command(flatten)]
    pub(crate) device: QualifiedDevice,
    #[command(flatten)]
    pub(crate) outputs: QualifyOutputs,
    /// Separations that are searched, from 0.1 to 0.95 of the one at which the output is saturated
    #[arg(long, default_value_t = 10, value_parser = clap::value_parser!(u16).range(1..=100))]
    pub(crate) columns: u16,
    /// Numbers of sources, a map for each: they distinguish one shared buffer from a queue per input
    #[arg(long, value_name = "COUNT,…", value_delimiter = ',', value_parser = clap::value_parser!(u32).range(1..=512))]
    pub(crate) ports: Vec<u32>,
    /// Outputs that are congested: 2 maps the first alone, then both at once, and says whether they share a buffer
    #[arg(long = "outputs", value_name = "COUNT", default_value_t = 1, conflicts_with_all = ["ports", "hosts"], value_parser = clap::value_parser!(u16).range(1..=2))]
    pub(crate) congested_outputs: u16,
    /// Planned triggers per second in the mean: the buffer is accepted when it holds a second of them
    #[arg(long, value_name = "HZ", value_parser = above_zero_hz)]
    pub(crate) planned_rate_hz: Option<f64>,
}

pub(super) fn above_zero_hz(text: &str) -> Result<f64, String> {
    let rate_hz: f64 = text.parse().map_err(|error| format!("{error}"))?;
    // The resolution of triggers is a nanosecond.
    match (1e-6..=1e9).contains(&rate_hz) {
        true => Ok(rate_hz),
        false => Err("must be from 0.000001 to 1000000000, in triggers per second".to_owned()),
    }
}

pub(super) fn dead_time_us(text: &str) -> Result<f64, String> {
    let dead_time_us: f64 = text.parse().map_err(|error| format!("{error}"))?;
    match (0.0..=1e9).contains(&dead_time_us) {
        true => Ok(dead_time_us),
        false => Err("must be from 0 to 1000000000, in microseconds".to_owned()),
    }
}
