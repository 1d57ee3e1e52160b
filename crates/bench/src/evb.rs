//! `evb`: readout units, builder units and event manager against a bare N-to-N round robin of messages of the same size between the
//! same processes.
//!
//! ```text
//!  process: readout unit i ═══► builder unit k        events generated, sent, built, released   ┐ in turn, ratio
//!     the same processes ═════► messages in turn      sent, received                            ┘
//! ```
//! What is compared is the processor time of all processes together: on a machine with fewer cores than processes it decides what goes
//! through, and with more of them the slowest process would hide what the others do. `wall_…` is what went through here.
//!
//! Over shared memory, units read payloads where they lie, and the messages of the baseline are copied into it and out of it.
//! `lent_…` compares with messages that are read where they lie, too.

use std::io::{self, BufRead, BufReader, Write};
use std::net::TcpListener;
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};
use std::time::Duration;

use thalweg_data::UnitId;
use thalweg_data::measure::{Clock, Measurement, compare, median};

use super::n2n::NODE;
use super::spent::Spent;
use super::sweep::Sweep;
use super::{BenchError, Conditions, Measured};
use thalweg_run::bench::node::{self, Role};

/// The word that makes a node one of this bench.
pub(super) const KIND: &str = "evb";
/// Bytes per fragment.
const SIZES: [usize; 6] = [64, 256, 1 << 10, 4 << 10, 32 << 10, 256 << 10];
/// Readout units, and as many builder units.
const PAIRS: [u16; 2] = [1, 2];
/// Bytes that a readout unit sends in one turn, and fragments at most.
const TURN_BYTES: usize = 256 << 20;
const TURN_FRAGMENTS: usize = 1_500_000;
/// Bytes per message at most, and events.
const MESSAGE_BYTES: usize = 512 << 10;
const MESSAGE_EVENTS: usize = 1024;

/// Measures every size, number of processes and transport.
pub(super) fn evb(conditions: &Conditions) -> Result<Measured, BenchError> {
    let mut points = Vec::new();
    for transport in ["tcp", "shm"] {
        for pairs in PAIRS {
            for bytes in SIZES {
                let point = measure(transport, pairs, bytes, conditions.repeats);
                points.push(
                    point.map_err(|error| BenchError::Room { bench: "evb", message: error.to_string() })?,
                );
            }
        }
    }
    let sweep = Sweep {
        bench: "evb",
        title: "Readout units, builder units and event manager".to_owned(),
        along: "fragment_bytes",
        x_title: "fragment / B",
        lines: Some("units"),
        points,
        shows_ratio: true,
        logarithmic_x: true,
        logarithmic_y: false,
        guides: Vec::new(),
    };
    Ok(sweep.measured())
}

/// Runs this process as a node, until its standard input ends.
///
/// # Errors
/// When the other nodes are gone.
pub(super) fn node() -> io::Result<()> {
    node::run(BufReader::new(io::stdin()), io::stdout().lock())
}

fn measure(transport: &str, pairs: u16, fragment_bytes: usize, repeats: usize) -> io::Result<Measurement> {
    let range = (MESSAGE_BYTES / fragment_bytes).clamp(1, MESSAGE_EVENTS);
    // Whole messages, as many to each receiver.
    let per_turn = (TURN_BYTES / fragment_bytes).min(TURN_FRAGMENTS) / range / usize::from(pairs);
    let messages = (per_turn.max(8) * usize::from(pairs)) as u64;
    let events = messages * range as u64;
    let mut nodes = Nodes::start(transport, pairs, fragment_bytes, range as u32)?;
    let problem = std::cell::RefCell::new(None);
    let nodes = std::cell::RefCell::new(&mut nodes);
    let walls = std::cell::RefCell::new([Vec::new(), Vec::new()]);
    let lent = std::cell::RefCell::new((Vec::new(), Vec::new()));
    let spent = |which: usize, spent: io::Result<Spent>| {
        let spent = spent.unwrap_or_else(|error| {
            problem.borrow_mut().get_or_insert(error);
            Spent { wall: Duration::from_secs(1), processor: Duration::from_secs(1) }
        });
        walls.borrow_mut()[which].push(spent.wall.as_secs_f64());
        spent.processor
    };
    let subject = || {
        let units = spent(0, nodes.borrow_mut().turn_of_units(events));
        if transport == "shm" {
            let peers = nodes.borrow_mut().turn_of_peers("lent", messages);
            let peers_s = peers.map_or(f64::NAN, |spent| spent.processor.as_secs_f64());
            let (times, ratios) = &mut *lent.borrow_mut();
            times.push(peers_s);
            ratios.push(peers_s / units.as_secs_f64());
        }
        units
    };
    let baseline = || spent(1, nodes.borrow_mut().turn_of_peers("peers", messages));
    let compared = compare(Clock::Processor, repeats, subject, baseline);
    let [mut units, mut peers] = walls.into_inner();
    let (units_s, peers_s) = (median(&mut units), median(&mut peers));
    if let Some(error) = problem.into_inner() {
        return Err(error);
    }
    let bytes = (events * u64::from(pairs)) as f64 * fragment_bytes as f64;
    let baseline = "messages of the same size in turn between the same processes";
    let mut measured = Measurement::of_rate("evb", "B/s", bytes, baseline, compared)
        .with("units", format!("{transport}, {pairs} to {pairs}"))
        .with("fragment_bytes", fragment_bytes)
        .with("fragments_per_message", range)
        .with("fragments_per_s_of_each_readout_unit", events as f64 / units_s)
        .with("wall_bytes_per_second", bytes / units_s)
        .with("wall_ratio", peers_s / units_s)
        .repeated(repeats);
    // The first turn warms up.
    let (mut times, mut ratios) = lent.into_inner();
    if let (Some(times), Some(ratios)) = (times.get_mut(1..), ratios.get_mut(1..)) {
        measured =
            measured.with("lent_bytes_per_second", bytes / median(times)).with("lent_ratio", median(ratios));
    }
    Ok(measured)
}

/// The processes: readout units, then builder units.
struct Nodes {
    readouts: Vec<Process>,
    builders: Vec<Process>,
}

struct Process {
    child: Child,
    input: ChildStdin,
    output: BufReader<ChildStdout>,
}

/// What processes took for a turn: the slowest of them by the clock, and the processors for all of them.
fn spent_by_all<'a>(processes: impl IntoIterator<Item = &'a mut Process>) -> io::Result<Spent> {
    processes.into_iter().map(Process::receive).try_fold(Spent::default(), |all, one| {
        let one = one?;
        Ok(Spent { wall: all.wall.max(one.wall), processor: all.processor + one.processor })
    })
}

impl Process {
    fn start(role: &Role) -> io::Result<Process> {
        let mut command = Command::new(std::env::current_exe()?);
        let mut child = command.args([NODE, KIND]).stdin(Stdio::piped()).stdout(Stdio::piped()).spawn()?;
        let (Some(input), Some(output)) = (child.stdin.take(), child.stdout.take()) else {
            return Err(io::Error::other("a node has no standard input or output"));
        };
        let mut process = Process { child, input, output: BufReader::new(output) };
        process.send(&role.line())?;
        Ok(process)
    }

    fn send(&mut self, line: &str) -> io::Result<()> {
        writeln!(self.input, "{line}")?;
        self.input.flush()
    }

    fn receive(&mut self) -> io::Result<Spent> {
        let mut line = String::new();
        self.output.read_line(&mut line)?;
        let time = |word: &str| word.parse().map(Duration::from_nanos);
        match line.split_whitespace().collect::<Vec<_>>()[..] {
            ["ready"] => Ok(Spent::default()),
            ["done", wall, processor] => match (time(wall), time(processor)) {
                (Ok(wall), Ok(processor)) => Ok(Spent { wall, processor }),
                _ => Err(io::Error::other(format!("a node said `{}`", line.trim()))),
            },
            _ => Err(io::Error::other(format!("a node said `{}`", line.trim()))),
        }
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        // It is of no use without its starter, whatever it is doing.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

impl Nodes {
    fn start(transport: &str, pairs: u16, fragment_bytes: usize, range_events: u32) -> io::Result<Nodes> {
        let count = usize::from(pairs);
        let urls = urls(transport, 2 * count + 1)?;
        let builders: Vec<(String, String)> =
            (0..count).map(|number| (urls[2 * number].clone(), urls[2 * number + 1].clone())).collect();
        let role = |reads, number| Role {
            reads,
            number: UnitId(number),
            readouts: pairs,
            fragment_bytes,
            range_events,
            manager: urls[2 * count].clone(),
            builders: builders.clone(),
        };
        let start = |reads| (0..pairs).map(move |number| (reads, number));
        let builders = start(false).map(|(reads, number)| Process::start(&role(reads, number)));
        let builders = builders.collect::<io::Result<_>>()?;
        let readouts = start(true).map(|(reads, number)| Process::start(&role(reads, number)));
        let mut nodes = Nodes { readouts: readouts.collect::<io::Result<_>>()?, builders };
        nodes.receive_all()?;
        Ok(nodes)
    }

    fn receive_all(&mut self) -> io::Result<Spent> {
        spent_by_all(self.readouts.iter_mut().chain(&mut self.builders))
    }

    fn turn_of_units(&mut self, events: u64) -> io::Result<Spent> {
        let order = format!("units {events}");
        self.builders.iter_mut().try_for_each(|node| node.send(&order))?;
        self.readouts.iter_mut().try_for_each(|node| node.send(&order))?;
        let sent = spent_by_all(&mut self.readouts)?;
        self.builders.iter_mut().try_for_each(|node| node.send("rest"))?;
        let built = spent_by_all(&mut self.builders)?;
        // Builder units work until they are asked to rest.
        Ok(Spent { wall: sent.wall, processor: sent.processor + built.processor })
    }

    fn turn_of_peers(&mut self, which: &str, messages: u64) -> io::Result<Spent> {
        // With as many senders as receivers, each receiver gets as many messages as a sender sends.
        let order = format!("{which} {messages}");
        let mut all = self.builders.iter_mut().chain(&mut self.readouts);
        all.try_for_each(|node| node.send(&order))?;
        self.receive_all()
    }
}

/// Returns addresses that are not in use at this moment.
fn urls(transport: &str, count: usize) -> io::Result<Vec<String>> {
    if transport == "shm" {
        let process = std::process::id();
        return Ok((0..count).map(|number| format!("shm://evb-{process}-{number}")).collect());
    }
    // All are bound before the first is let go, so that they differ.
    let sockets: Vec<TcpListener> =
        (0..count).map(|_| TcpListener::bind("127.0.0.1:0")).collect::<io::Result<_>>()?;
    sockets.iter().map(|socket| Ok(format!("tcp://{}", socket.local_addr()?))).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_role_is_read_as_it_was_said() {
        let role = Role {
            reads: true,
            number: UnitId(1),
            readouts: 2,
            fragment_bytes: 64,
            range_events: 256,
            manager: "tcp://127.0.0.1:5".to_owned(),
            builders: vec![("shm://a".to_owned(), "shm://b".to_owned()); 2],
        };
        assert_eq!(Role::parse(&role.line()), Some(role));
        assert_eq!(Role::parse("turn peers 5"), None);
    }
}
