//! Command-line arguments. Help, completions and the man page are made from these definitions.

mod exports;
mod prediction;
mod qualification;
mod replay;
mod runs;
mod shipping;
mod storage;

use std::net::SocketAddr;
use std::path::PathBuf;

use clap::{Args, Parser, Subcommand};
use clap_complete::Shell;

pub(crate) use exports::{Energies, Export, Import};
pub(crate) use prediction::{Predict, PublishedTest, TriggerProcess};
pub(crate) use qualification::{
    Doctor, QualifiedDevice, Qualify, QualifyCommand, QualifyEmit, QualifyIncast, QualifyOutputs,
    QualifyReceive, QualifyRecovery, QualifySoak, QualifyTestbed, QualifyThroughput, QualifyWatershed,
    TriggerProgram,
};
pub(crate) use replay::Replay;
pub(crate) use runs::{LabelRuns, NoteRun, Runs, RunsCommand, RunsDirectory, SelectedRuns};
pub(crate) use shipping::{Receive, Ship};
pub(crate) use storage::{QualifyStorage, StorageAccess};

/// Network data acquisition for physics: from front-end boards to ordered, accounted, recorded hits.
#[derive(Debug, Parser)]
#[command(name = "thalweg", version, arg_required_else_help = true, propagate_version = true)]
pub(crate) struct Arguments {
    #[command(subcommand)]
    pub(crate) command: Command,
    /// Print one JSON object at the end instead of text.
    #[arg(long, global = true)]
    pub(crate) json: bool,
}

#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    /// Emulated boards over real sockets, ordered and recorded: the whole path in a few seconds
    #[command(after_help = "Example:\n  thalweg demo --seconds 5 --boards 4")]
    Demo(Demo),
    /// Take data as a configuration file says
    #[command(
        after_help = "Example:\n  thalweg run examples/two-boards.toml --seconds 60\n\nSignals: SIGINT (Ctrl-C) and SIGTERM end the run in good order, a second one at once. SIGHUP does not: the run goes on when its terminal is gone.\nExit codes: 0 good, 1 the run failed or no data came, 2 wrong usage or configuration."
    )]
    Run(Run),
    /// Serve the live page, and take run after run from there
    #[command(
        after_help = "Example:\n  thalweg serve examples/two-boards.toml\n  then, in a browser: http://127.0.0.1:8090"
    )]
    Serve(Serve),
    /// Emulated boards alone, for other programs to connect to
    #[command(
        after_help = "Examples:\n  thalweg emulate --boards 2 --address 127.0.0.2 --seconds 30\n  then: url = \"dig2://127.0.0.2\" and \"dig2://127.0.0.3\"\n\n  thalweg emulate examples/boards-elsewhere.toml --triggers 10000\n  then, in another terminal: thalweg run examples/boards-elsewhere.toml --seconds 15"
    )]
    Emulate(Emulate),
    /// Run a raw recording again through the same path: as it was, or with other cuts, calibration, coincidence or event filter
    #[command(
        after_help = "Examples:\n  thalweg replay runs/000007\n  thalweg replay 7 --cuts cuts.toml --calibration calibration.toml\n  thalweg replay 7 --speed 10 --listen 127.0.0.1:8090\n\nA FILE is a configuration or a part of one; each section of it that an option takes replaces the recorded section of that name. The recorded run stays as it is: the new one has a number of its own, and says in run.json and in `thalweg runs show` what it was made of.\n\nSignals: SIGINT (Ctrl-C) and SIGTERM end the replay in good order, a second one at once.\nExit codes: 0 good, 1 the replay failed, or the run cannot be replayed, 2 wrong usage, or a FILE that does not fit."
    )]
    Replay(Replay),
    /// Check a recording: checksums, time order, ledger; of a run on several nodes, what went between them
    #[command(
        after_help = "Examples:\n  thalweg verify runs/000007\n  thalweg verify 7\n  thalweg verify readout/runs/000007 builders/runs/000007"
    )]
    Verify(Recordings),
    /// Make the files of an interrupted run readable up to their last whole batch
    #[command(after_help = "Example:\n  thalweg recover runs/000007")]
    Recover(Recording),
    /// Say what is in a recording, file or stream: counts, rates, first hits, losses
    #[command(
        after_help = "Examples:\n  thalweg inspect runs/000007\n  thalweg inspect data.BIN --format compass\n  thalweg inspect udp://127.0.0.1:51940 --format digitizer2 --seconds 2"
    )]
    Inspect(Inspect),
    /// Copy recordings to other hosts and disks, while they are taken as well; a copy counts when it was read back and proved
    #[command(
        after_help = "Examples:\n  thalweg ship runs/000007 --to file:///mnt/archive\n  thalweg ship runs --to receive://archive:7070 --token-file token --follow\n  thalweg ship --config examples/two-boards.toml --follow\n\nSignals: SIGINT (Ctrl-C) and SIGTERM end it in good order; it goes on where it was when it is started again.\nExit codes: 0 everything that could be shipped is proved, 1 something is not, 2 wrong usage or configuration."
    )]
    Ship(Ship),
    /// Take what `thalweg ship` sends, into a directory
    #[command(
        after_help = "Examples:\n  thalweg receive --listen 127.0.0.1:7070 --directory /archive\n  openssl rand -hex 32 > token\n  thalweg receive --listen 0.0.0.0:7070 --directory /archive --token-file token\n\nSignals: SIGINT (Ctrl-C) and SIGTERM end it; what is not proved then comes again."
    )]
    Receive(Receive),
    /// Draw the spectra of a recording as SVG
    #[command(after_help = "Example:\n  thalweg plot runs/000007 --output spectra.svg")]
    Plot(Plot),
    /// Write a recording in the format of other programs
    #[command(
        after_help = "Examples:\n  thalweg export runs/000007 --to parquet --out run7\n  thalweg export runs/000007 --to csv --table hits --energies kev --channel-names --out hits.csv\n  thalweg export runs/000007 --to mid --out run00007.mid.lz4\n  thalweg export runs/000007 --to compass --out run7.BIN\n  thalweg export runs/000007 --to root --out run7.root\n\nNothing is overwritten, and the export appears under its name only when it is whole.\nExit codes: 0 exported, 1 a damaged run, a full disk or an interruption, 2 what was asked for cannot be exported."
    )]
    Export(Export),
    /// Make a recording of a MIDAS file, so that it can be verified, inspected and exported
    #[command(
        after_help = "Examples:\n  thalweg import run00007.mid.lz4\n  thalweg import run00007.mid.gz --runs imported --title cosmics\n\nWhat is damaged is named with its place, counted as lost and left out; whole events before it are imported.\nExit codes: 0 imported, 1 damaged (what is whole was imported), unreadable, a full disk or an interruption."
    )]
    Import(Import),
    /// The catalogue of runs: list, find, show, verify and label them, and write notes
    #[command(
        after_help = "Examples:\n  thalweg runs list\n  thalweg runs find cosmics --label good --since 2026-11-21\n  thalweg runs verify 40-48\n  thalweg runs label 42 good --remove bad\n  thalweg runs note 42 \"beam off at 02:18\"\n\nRuns are looked for in --runs DIR, in the directory that THALWEG_RUNS names, or in runs."
    )]
    Runs(Runs),
    /// Parameters and registers of a board of any family: read, set, all of them to a file and back
    #[command(
        after_help = "Examples:\n  thalweg board get dig2://192.168.1.11 /par/modelname /ch/0/par/chenable\n  thalweg board set rbcp://192.168.10.16 mode=suppressed\n  thalweg board dump ipbusudp-2.0://192.168.0.10:50001 --table crate.xml --output crate.toml\n  thalweg board load ipbusudp-2.0://192.168.0.10:50001 crate.toml --table crate.xml"
    )]
    Board(Board),
    /// Registers of IPbus boards: read, write, ask; an emulated board; address tables checked
    #[command(
        after_help = "Examples:\n  thalweg ipbus device --udp 127.0.0.1:50001 --table board.xml\n  thalweg ipbus read ipbusudp-2.0://127.0.0.1:50001 CONTROL.ENABLE 0x1000 --table board.xml\n  thalweg ipbus write board0 CONTROL.ENABLE=1 --connections connections.xml"
    )]
    Ipbus(Ipbus),
    /// A hub: many clients share IPbus boards, and what is lost on the way to these comes back
    #[command(
        after_help = "Examples:\n  thalweg hub\n  thalweg hub --listen 192.168.0.1:10203 --rules hub.toml --page 127.0.0.1:8091\n  then: chtcp-2.0://192.168.0.1:10203?target=192.168.0.2:50001\n\nSignals: SIGINT (Ctrl-C) and SIGTERM take no more requests and end when those that were read are answered."
    )]
    Hub(Hub),
    /// Check this host: sockets, network cards, cores, memory, clock, disk; say what sets what is not as it should be
    #[command(
        after_help = "Examples:\n  thalweg doctor\n  thalweg doctor examples/udp-camera-265.toml --probe\n  thalweg doctor --fix > fix.txt\n  sudo thalweg doctor --fix --apply --only rmem_max\n\nExit codes: 0 nothing will lose data, 1 something will (or could not be set), 2 wrong usage or configuration."
    )]
    Doctor(Doctor),
    /// Predict load, loss and bottleneck, from the links of the sources to the disk, before anything is bought or connected
    #[command(
        arg_required_else_help = true,
        after_help = "Examples:\n  thalweg predict examples/udp-camera-265.toml --network examples/networks/camera-265.toml\n  thalweg predict examples/udp-camera-265.toml --network examples/networks/camera-265.toml --sweep rate_hz=500:6000:12 --svg sweep.svg\n  thalweg predict --links 265 --link-rate 1Gbit --output-rate 10Gbit --depth 330MB --payload 1024 --rate-hz 4000 --dead-time-us 2\n  thalweg predict --reproduce nectarcam-camera\n\nThe file of --network is described in docs/host/prediction.md. Exit codes: 0 predicted, whatever it says, 2 wrong usage, configuration or network."
    )]
    Predict(Predict),
    /// Measure what a switch can do: how many events of synchronous sources it takes, and what is in it; and what a disk sustains
    #[command(
        after_help = "Examples:\n  sudo thalweg qualify watershed --testbed rate=800Mbit,depth=8MB,datagram=8972\n  thalweg qualify storage /data --needs 800MB/s"
    )]
    Qualify(Qualify),
    /// Measure a part of the path against a baseline
    #[command(after_help = "Examples:\n  thalweg bench list\n  thalweg bench decode --json")]
    Bench(Bench),
    /// One process of a bench that needs several
    #[command(name = thalweg_bench::NODE, hide = true)]
    Node {
        /// The bench.
        kind: Option<String>,
    },
    /// Print the configuration's JSON Schema
    Schema,
    /// Print shell completions
    #[command(after_help = "Example:\n  thalweg completions bash > /etc/bash_completion.d/thalweg")]
    Completions {
        /// The shell.
        shell: Shell,
    },
    /// Print the man page
    #[command(after_help = "Example:\n  thalweg manual | man -l -")]
    Manual,
}

#[derive(Debug, Args)]
pub(crate) struct Demo {
    /// How long to take data, in seconds.
    #[arg(long, default_value_t = 10.0, value_parser = seconds_above_zero)]
    pub(crate) seconds: f64,
    /// Number of emulated boards.
    #[arg(long, default_value_t = 2, value_parser = clap::value_parser!(u16).range(1..=256))]
    pub(crate) boards: u16,
    /// Hits per second and channel.
    #[arg(long, default_value_t = 20_000.0, value_parser = finite)]
    pub(crate) rate: f64,
    /// Makes the physics reproducible.
    #[arg(long, default_value_t = 1)]
    pub(crate) seed: u64,
    /// Fraction of datagrams that the network loses, to see the ledger at work.
    #[arg(long, default_value_t = 0.0, value_parser = fraction)]
    pub(crate) loss: f64,
    /// Where runs are kept.
    #[arg(long, default_value = "runs")]
    pub(crate) directory: PathBuf,
    /// Write every emitted hit to this Arrow file.
    #[arg(long)]
    pub(crate) truth: Option<PathBuf>,
    /// Where the live page is served; a free port is taken where this one is not.
    #[arg(long, default_value = "127.0.0.1:8090", value_name = "ADDRESS:PORT")]
    pub(crate) listen: String,
    /// Serve no page.
    #[arg(long)]
    pub(crate) no_page: bool,
}

#[derive(Debug, Args)]
pub(crate) struct Board {
    #[command(subcommand)]
    pub(crate) what: BoardWhat,
}

#[derive(Debug, Subcommand)]
pub(crate) enum BoardWhat {
    /// Read parameters
    Get {
        #[command(flatten)]
        target: BoardTarget,
        /// A register by name or address, or /par/…
        #[arg(required = true, value_name = "PATH")]
        paths: Vec<String>,
    },
    /// Set parameters, one behind the other, and read them back
    Set {
        #[command(flatten)]
        target: BoardTarget,
        #[arg(required = true, value_name = "PATH=VALUE")]
        assignments: Vec<String>,
        /// One that need not read as it was set; may be given again.
        #[arg(long, value_name = "PATH")]
        unchecked: Vec<String>,
    },
    /// Write all that the board, or its address table, lists: as `load` and the `parameters` of a configuration take it
    Dump {
        #[command(flatten)]
        target: BoardTarget,
        /// The file; standard output without.
        #[arg(long, value_name = "FILE")]
        output: Option<PathBuf>,
    },
    /// Set what a file of `dump` has, and read it back
    Load {
        #[command(flatten)]
        target: BoardTarget,
        file: PathBuf,
        /// One that need not read as it was set; may be given again.
        #[arg(long, value_name = "PATH")]
        unchecked: Vec<String>,
    },
    /// Make a digitizer idle that a program which has ended has left armed or running
    Disarm {
        #[command(flatten)]
        target: BoardTarget,
    },
    /// Write the boards of a settings file of their vendor's program (settings.xml of CoMPASS) as sources of a configuration
    Import {
        file: PathBuf,
        /// The file; standard output without.
        #[arg(long, value_name = "FILE")]
        output: Option<PathBuf>,
    },
}

#[derive(Debug, Args)]
pub(crate) struct BoardTarget {
    /// ipbusudp-2.0://, ipbustcp-2.0://, chtcp-2.0://, rbcp:// or dig2:// with HOST[:PORT].
    pub(crate) url: String,
    /// Of an IPbus target: its address table.
    #[arg(long, value_name = "FILE")]
    pub(crate) table: Option<PathBuf>,
}

#[derive(Debug, Args)]
pub(crate) struct Ipbus {
    #[command(subcommand)]
    pub(crate) what: IpbusWhat,
}

#[derive(Debug, Subcommand)]
pub(crate) enum IpbusWhat {
    /// Serve an emulated board until Ctrl-C
    Device(IpbusDevice),
    /// Read registers, by name or address
    Read {
        #[command(flatten)]
        target: IpbusTarget,
        /// Names of the table, or addresses.
        #[arg(required = true, value_name = "REGISTER")]
        registers: Vec<String>,
        /// So many words of each: of a block or from an address on.
        #[arg(long)]
        words: Option<usize>,
    },
    /// Write registers, by name or address
    Write {
        #[command(flatten)]
        target: IpbusTarget,
        /// What is written, one behind the other.
        #[arg(required = true, value_name = "REGISTER=VALUE")]
        assignments: Vec<String>,
    },
    /// Change a register in one step of the board: bits, or a sum
    Rmw(IpbusChange),
    /// Read a block into a file, or write one from a file
    Block(IpbusBlock),
    /// Read every register of the table that can be read; blocks and ports are left out
    Dump {
        #[command(flatten)]
        target: IpbusTarget,
        /// Names, also with * and ?.
        #[arg(value_name = "PATTERN", default_value = "*")]
        patterns: Vec<String>,
    },
    /// Read registers again and again: values, how fast they change, a plot of the latest
    Watch(IpbusWatch),
    /// Ask addresses whether a board is there
    Scan {
        /// Where: 192.168.0.0/24, also with a port behind a colon.
        #[arg(required = true, value_name = "NETWORK")]
        networks: Vec<String>,
        /// How long answers are waited for, twice.
        #[arg(long, default_value_t = 300, value_parser = clap::value_parser!(u64).range(1..=60_000))]
        wait_ms: u64,
    },
    /// What a board says of itself: buffers, the packet that it expects, its latest packets
    Status {
        #[command(flatten)]
        target: IpbusTarget,
    },
    /// Measure how fast a board answers, and whether it gives back what was written
    Perf(IpbusPerf),
    /// Hold a board's firmware against what IPbus 2.0 asks of it; nobody else may use the board meanwhile
    Conformance(IpbusConformance),
    /// Decode what went over the network by UDP, out of a capture or of tcpdump while it captures
    Trace(IpbusTrace),
    /// Check address tables and connection files: what cannot be, with file and line, and what overlaps
    Check {
        /// The files.
        #[arg(required = true, value_name = "FILE")]
        files: Vec<PathBuf>,
    },
}

#[derive(Debug, Args)]
pub(crate) struct IpbusTarget {
    /// A URI (ipbusudp-2.0://, ipbustcp-2.0://, chtcp-2.0://), or an id of the connection file.
    pub(crate) target: String,
    /// The connection file that has the id; a list as file://a.xml;file://b.xml.
    #[arg(long, value_name = "FILE")]
    pub(crate) connections: Option<String>,
    /// The address table that has the names, in place of that of the connection file.
    #[arg(long, value_name = "FILE")]
    pub(crate) table: Option<PathBuf>,
}

#[derive(Debug, Args)]
pub(crate) struct IpbusChange {
    #[command(flatten)]
    pub(crate) target: IpbusTarget,
    /// A name of the table, or an address.
    pub(crate) register: String,
    /// Bits that become 1; of a part of a word, counted from its own lowest bit.
    #[arg(long, value_name = "BITS", value_parser = word, required_unless_present_any = ["clear", "add"])]
    pub(crate) set: Option<u32>,
    /// Bits that become 0.
    #[arg(long, value_name = "BITS", value_parser = word)]
    pub(crate) clear: Option<u32>,
    /// What is added, modulo 2^32.
    #[arg(long, value_name = "ADDEND", value_parser = word, conflicts_with_all = ["set", "clear"])]
    pub(crate) add: Option<u32>,
}

fn word(text: &str) -> Result<u32, String> {
    thalweg_ipbus::table::number(text).ok_or_else(|| "write a number of 32 bits, as 12 or 0xFF".to_owned())
}

#[derive(Debug, Args)]
pub(crate) struct IpbusBlock {
    #[command(flatten)]
    pub(crate) target: IpbusTarget,
    /// A name of the table, or an address.
    pub(crate) register: String,
    /// Write the words of this file, of four bytes each, the lowest first.
    #[arg(long, value_name = "FILE", conflicts_with_all = ["to", "words"], required_unless_present = "to")]
    pub(crate) from: Option<PathBuf>,
    /// Read into this file.
    #[arg(long, value_name = "FILE")]
    pub(crate) to: Option<PathBuf>,
    /// So many words; those of the node unless said otherwise.
    #[arg(long, value_parser = at_least_one)]
    pub(crate) words: Option<usize>,
}

#[derive(Debug, Args)]
pub(crate) struct IpbusWatch {
    #[command(flatten)]
    pub(crate) target: IpbusTarget,
    /// Names of the table, or addresses.
    #[arg(required = true, value_name = "REGISTER")]
    pub(crate) registers: Vec<String>,
    /// The time between two readings.
    #[arg(long, default_value_t = 500, value_parser = clap::value_parser!(u64).range(1..=3_600_000))]
    pub(crate) every_ms: u64,
    /// How often they are read; without it, until Ctrl-C.
    #[arg(long)]
    pub(crate) count: Option<u64>,
}

#[derive(Debug, Args)]
pub(crate) struct IpbusTrace {
    /// A pcap or pcapng file; - for standard input, as in tcpdump -i any -U -w - udp port 50001 | thalweg ipbus trace -
    pub(crate) file: PathBuf,
    /// The address table that names the registers.
    #[arg(long, value_name = "FILE")]
    pub(crate) table: Option<PathBuf>,
    /// The targets' port; without it, every datagram that begins as IPbus does.
    #[arg(long)]
    pub(crate) port: Option<u16>,
    /// End after so many packets.
    #[arg(long)]
    pub(crate) packets: Option<u64>,
}

#[derive(Debug, Args)]
pub(crate) struct IpbusConformance {
    #[command(flatten)]
    pub(crate) target: IpbusTarget,
    /// A register that may be overwritten, by name or address; without it nothing is written, and some rules stay open.
    #[arg(long)]
    pub(crate) register: Option<String>,
    /// How long an answer may take, and how long silence is listened to.
    #[arg(long, default_value_t = 100, value_parser = clap::value_parser!(u64).range(1..=60_000))]
    pub(crate) wait_ms: u64,
}

#[derive(Debug, Args)]
pub(crate) struct IpbusPerf {
    #[command(flatten)]
    pub(crate) target: IpbusTarget,
    /// Where, by name or address.
    #[arg(long, value_name = "REGISTER", default_value = "0x1000")]
    pub(crate) register: String,
    /// Words of each transaction that is queued; more than 255 are as many transactions as they need.
    #[arg(long, default_value_t = 1, value_parser = at_least_one)]
    pub(crate) words: usize,
    /// How many are queued before each dispatch, at addresses one behind the other.
    #[arg(long, default_value_t = 1, value_parser = at_least_one)]
    pub(crate) transactions: usize,
    /// How long, in seconds.
    #[arg(long, default_value_t = 2.0, value_parser = above_zero)]
    pub(crate) seconds: f64,
    /// Write instead of read.
    #[arg(long)]
    pub(crate) write: bool,
    /// Write random words and read them back in the same dispatch.
    #[arg(long, conflicts_with = "write")]
    pub(crate) validate: bool,
    /// Of the random words.
    #[arg(long, default_value_t = 1)]
    pub(crate) seed: u64,
    /// Measure at several sizes, for --seconds each, or with several clients or targets at once, and draw that.
    #[arg(long, value_enum)]
    pub(crate) sweep: Option<IpbusSweep>,
    /// Of `--sweep targets`: another target; may be given again.
    #[arg(long, value_name = "URI", requires = "sweep")]
    pub(crate) also: Vec<String>,
    /// Where a sweep's rates are drawn; its round trips are drawn beside it.
    #[arg(long, value_name = "FILE", default_value = "ipbus-sweep.svg")]
    pub(crate) output: PathBuf,
}

/// Along what a sweep measures.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub(crate) enum IpbusSweep {
    /// Transactions of each dispatch: 1 to 300
    Transactions,
    /// Words of each transaction: 1 to 100 000
    Words,
    /// Clients of one target: 1 to 8
    Clients,
    /// Targets, each with a client: 1 to all that are given
    Targets,
}

fn at_least_one(text: &str) -> Result<usize, String> {
    let count: usize = text.parse().map_err(|error| format!("{error}"))?;
    // A block of this many words is a gigabyte.
    match (1..=1 << 28).contains(&count) {
        true => Ok(count),
        false => Err("must be from 1 to 268435456".to_owned()),
    }
}

#[derive(Debug, Args)]
pub(crate) struct IpbusDevice {
    /// Where it takes datagrams.
    #[arg(long, value_name = "ADDRESS:PORT")]
    pub(crate) udp: Option<SocketAddr>,
    /// Where it listens.
    #[arg(long, value_name = "ADDRESS:PORT")]
    pub(crate) tcp: Option<SocketAddr>,
    /// Its address table: nodes with `parameters="emulate=counter"` (fifo, self_clearing, read_only, error, timeout) behave, all others are
    /// memory.
    #[arg(long, value_name = "FILE")]
    pub(crate) table: Option<PathBuf>,
    /// Buffers for replies: so many packets may be on their way to it.
    #[arg(long, default_value_t = 4, value_parser = clap::value_parser!(u32).range(1..=256))]
    pub(crate) buffers: u32,
    /// Bytes of each: the longest packet.
    #[arg(long, default_value_t = 2040, value_parser = clap::value_parser!(u32).range(64..=1_048_576))]
    pub(crate) buffer_bytes: u32,
    /// Datagrams that are lost, each way.
    #[arg(long, value_name = "PERCENT", default_value_t = 0.0, value_parser = percent)]
    pub(crate) lost: f64,
    /// Datagrams that come twice.
    #[arg(long, value_name = "PERCENT", default_value_t = 0.0, value_parser = percent)]
    pub(crate) doubled: f64,
    /// Datagrams that come up to `--most-delay-us` later than others that were sent after them.
    #[arg(long, value_name = "PERCENT", default_value_t = 0.0, value_parser = percent)]
    pub(crate) delayed: f64,
    /// The longest delay.
    #[arg(long, default_value_t = 1000)]
    pub(crate) most_delay_us: u64,
    /// Makes these faults reproducible.
    #[arg(long, default_value_t = 1)]
    pub(crate) seed: u64,
}

fn percent(text: &str) -> Result<f64, String> {
    let percent: f64 = text.parse().map_err(|error| format!("{error}"))?;
    match (0.0..=100.0).contains(&percent) {
        true => Ok(percent),
        false => Err("must be from 0 to 100".to_owned()),
    }
}

#[derive(Debug, Args)]
pub(crate) struct Hub {
    /// Where clients come.
    #[arg(long, value_name = "ADDRESS:PORT", default_value = "127.0.0.1:10203")]
    pub(crate) listen: SocketAddr,
    /// Who may do what on which target at which addresses, as TOML: docs/experiment/ipbus.md.
    #[arg(long, value_name = "FILE")]
    pub(crate) rules: Option<PathBuf>,
    /// The targets that are served, a line each as in the original's allow list: `192.168.0.2:50001` or `192.168.0.2`.
    #[arg(long, value_name = "FILE")]
    pub(crate) allow: Option<PathBuf>,
    /// Where its page, `/state` as JSON and `/metrics` are served; 127.0.0.1:8091 is free as a rule.
    #[arg(long, value_name = "ADDRESS:PORT")]
    pub(crate) page: Option<SocketAddr>,
    /// So long a packet may take, losses included; clients that wait for less give up before it.
    #[arg(long, default_value_t = 500, value_parser = clap::value_parser!(u64).range(10..=60_000))]
    pub(crate) timeout_ms: u64,
    /// Clients at the same time.
    #[arg(long, default_value_t = 1024, value_parser = clap::value_parser!(u32).range(1..=65_536))]
    pub(crate) most_clients: u32,
    /// Look for packets all the time instead of sleeping: faster by a wake-up, for a whole core.
    #[arg(long)]
    pub(crate) busy_poll: bool,
}

#[derive(Debug, Args)]
pub(crate) struct Serve {
    /// The configuration file.
    pub(crate) file: PathBuf,
    /// Where the page is served, whatever `[monitor]` says.
    #[arg(long, value_name = "ADDRESS:PORT")]
    pub(crate) listen: Option<String>,
    /// Start a run at once.
    #[arg(long)]
    pub(crate) start: bool,
}

/// How long something takes.
fn above_zero(text: &str) -> Result<f64, String> {
    let seconds: f64 = text.parse().map_err(|error| format!("{error}"))?;
    match seconds > 0.0 && seconds.is_finite() {
        true => Ok(seconds),
        false => Err("must be above 0; leave it out to run until stopped".to_owned()),
    }
}

/// The same of a time without which the command does not go on for ever.
fn seconds_above_zero(text: &str) -> Result<f64, String> {
    above_zero(text).map_err(|_| "must be a number of seconds above 0".to_owned())
}

/// A number that a configuration can have; what it may be is said where it is used.
fn finite(text: &str) -> Result<f64, String> {
    let number: f64 = text.parse().map_err(|error| format!("{error}"))?;
    match number.is_finite() {
        true => Ok(number),
        false => Err("must be a finite number".to_owned()),
    }
}

fn fraction(text: &str) -> Result<f64, String> {
    let fraction: f64 = text.parse().map_err(|error| format!("{error}"))?;
    match (0.0..=1.0).contains(&fraction) {
        true => Ok(fraction),
        false => Err("must be a fraction from 0 to 1".to_owned()),
    }
}

#[derive(Debug, Args)]
pub(crate) struct Run {
    /// The configuration file.
    pub(crate) file: PathBuf,
    /// Stop after this many seconds, whatever the file says.
    #[arg(long, value_parser = above_zero)]
    pub(crate) seconds: Option<f64>,
    /// Host only the units of this node; the others run the same file with their own names.
    #[arg(long, value_name = "NAME")]
    pub(crate) node: Option<String>,
    /// Serve the live page there while the run goes on, whatever `[monitor]` says.
    #[arg(long, value_name = "ADDRESS:PORT")]
    pub(crate) listen: Option<String>,
    /// Print the live state each so many seconds as a line of JSON; with --json, the summary at the end is one more.
    #[arg(long, value_name = "SECONDS", value_parser = seconds_above_zero)]
    pub(crate) states: Option<f64>,
    /// Print the whole plan (path, threads, rings, blocks, bytes) at the start.
    #[arg(long, short)]
    pub(crate) verbose: bool,
    /// Print the plan (path, threads, rings, blocks, bytes) and do not run.
    #[arg(long)]
    pub(crate) explain: bool,
    /// With `--explain`: draw the path, as an SVG document.
    #[arg(long, requires = "explain")]
    pub(crate) svg: bool,
}

#[derive(Debug, Args)]
pub(crate) struct Emulate {
    /// A configuration: its triggered boards are emulated at its addresses, for a `run` of the same file to read.
    #[arg(conflicts_with_all = ["boards", "address", "settings", "loss", "truth"])]
    pub(crate) file: Option<PathBuf>,
    /// Number of boards.
    #[arg(long, default_value_t = 1, value_parser = clap::value_parser!(u16).range(1..=256))]
    pub(crate) boards: u16,
    /// Address of the first board; the others follow.
    #[arg(long, default_value = "127.0.0.2")]
    pub(crate) address: std::net::Ipv4Addr,
    /// Serve this long; without it, until Ctrl-C.
    #[arg(long, value_parser = seconds_above_zero)]
    pub(crate) seconds: Option<f64>,
    /// Send UDP to this address: at once, without waiting for a client on the control port; with a file, instead of to its own.
    #[arg(long, value_name = "HOST:PORT")]
    pub(crate) to: Option<std::net::SocketAddr>,
    /// Board settings in TOML, as under `[source.emulate]`.
    #[arg(long)]
    pub(crate) settings: Option<PathBuf>,
    /// Hits per second and channel; with a file, triggers per second.
    #[arg(long)]
    pub(crate) rate: Option<f64>,
    /// With a file: trigger so many times, then stay until the clients have gone.
    #[arg(long, requires = "file")]
    pub(crate) triggers: Option<u64>,
    /// Makes the physics reproducible; with a file, the triggers.
    #[arg(long)]
    pub(crate) seed: Option<u64>,
    /// Fraction of datagrams dropped before they are sent, by the seed.
    #[arg(long, default_value_t = 0.0, value_parser = fraction)]
    pub(crate) loss: f64,
    /// Write every emitted hit to this Arrow file.
    #[arg(long)]
    pub(crate) truth: Option<PathBuf>,
}

#[derive(Debug, Args)]
pub(crate) struct Recording {
    /// The run's directory, or its number.
    pub(crate) run: PathBuf,
    #[command(flatten)]
    pub(crate) directory_of_runs: RunsDirectory,
}

#[derive(Debug, Args)]
pub(crate) struct Recordings {
    /// The run's directory, or its number; of a run on several nodes, the directories of all of them.
    #[arg(required = true, value_name = "RUN")]
    pub(crate) runs: Vec<PathBuf>,
    #[command(flatten)]
    pub(crate) directory_of_runs: RunsDirectory,
}

#[derive(Debug, Args)]
pub(crate) struct Inspect {
    /// A run's directory or number, an .arrows file, a data file, or a source URL.
    pub(crate) what: String,
    #[command(flatten)]
    pub(crate) directory_of_runs: RunsDirectory,
    /// What the file or stream speaks: digitizer2, compass, abcd, or another `format` of the configuration.
    #[arg(long)]
    pub(crate) format: Option<String>,
    /// One count of the clock in picoseconds, for formats that do not say.
    #[arg(long)]
    pub(crate) tick_ps: Option<f64>,
    /// How long to look at a stream.
    #[arg(long, default_value_t = 2.0, value_parser = seconds_above_zero)]
    pub(crate) seconds: f64,
}

#[derive(Debug, Args)]
pub(crate) struct Plot {
    /// The run's directory, or its number.
    pub(crate) run: PathBuf,
    #[command(flatten)]
    pub(crate) directory_of_runs: RunsDirectory,
    /// The SVG file to write; without it, `spectra.svg` in the run's directory, of a run without hits `events.svg` or `raw.svg`, with
    /// `--series` `series.svg`.
    #[arg(long, short)]
    pub(crate) output: Option<PathBuf>,
    /// Draw the values of slow control over time.
    #[arg(long)]
    pub(crate) series: bool,
}

#[derive(Debug, Args)]
pub(crate) struct Bench {
    /// `list`, `all`, or the name of a bench.
    pub(crate) name: String,
    /// Counted repeats; the median is printed.
    #[arg(long, default_value_t = 5, value_parser = at_least_one)]
    pub(crate) repeats: usize,
    /// Where files are written; the default is a temporary folder in memory if there is one.
    #[arg(long)]
    pub(crate) directory: Option<PathBuf>,
    /// How long a live bench runs, in seconds.
    #[arg(long, default_value_t = 10.0, value_parser = seconds_above_zero)]
    pub(crate) seconds: f64,
    /// Of `order`: decode with so many threads (1, 2, 4 or 8), order with a tree of threads, and compare it with one that orders
    /// everything.
    #[arg(long, value_parser = decoding_threads)]
    pub(crate) workers: Option<u16>,
    /// Where the plots of sweeps are written, as NAME.svg.
    #[arg(long)]
    pub(crate) plots: Option<PathBuf>,
}

/// A number of threads among which eight boards can be shared evenly.
fn decoding_threads(text: &str) -> Result<u16, String> {
    let number = text.parse().ok().filter(|number| [1, 2, 4, 8].contains(number));
    number.ok_or_else(|| "write 1, 2, 4 or 8: eight boards are shared evenly".to_owned())
}
