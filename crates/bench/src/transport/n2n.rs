//! Every node sends to every other, in turn: what a network of readout and builder units can carry at best.
//!
//! ```text
//!  n2n ─ spawn ─► node 0 … N−1, a process or a thread each, one connection per pair
//!   │  "turn peers 16384 2000" ─► each sends so many messages of that size to each other one, round robin, and receives as many
//!   └──◄ "done …" ─ slowest node ─► bytes per second, against bare sockets in the same nodes
//! ```
//! Node and starter talk in lines over the node's standard input and output. A node is one thread, whatever it measures:
//! peers, or bare sockets that write one message per call, or bare sockets that write 64 KiB of them per call and so know
//! nothing of messages at all.

use std::io::{self, BufRead, BufReader, Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::time::{Duration, Instant};

use thalweg_data::measure::{Clock, Measurement, compare};
use thalweg_data::{Message, Pool, Received};

use super::{BLOCK_BYTES, Footprint, is_nothing};
use thalweg_transport::peer::{Listener, Peer, Sent, Settings, connect, listen};
use thalweg_transport::{ReadySet, TransportError, send_by_window_on_loopback, thread_cpu_time};

/// Bytes that a node sends in one turn, when messages are long.
const TURN_BYTES: usize = 256 << 20;
/// Messages that a node sends in one turn, when they are short.
const TURN_MESSAGES: usize = 400_000;
/// Bytes per write of the baseline that knows no messages.
const BATCH_BYTES: usize = 64 << 10;
/// The time for which a node sleeps when it can do nothing.
const WAIT: Duration = Duration::from_millis(1);
/// The time that a mesh may take to come about.
const MESH_WAIT: Duration = Duration::from_secs(30);
/// Bytes of each message's head, as an event's would be.
const HEAD_BYTES: usize = 16;

/// A node that was started: what it reads, and what it says.
pub struct Node {
    /// Its standard input.
    pub input: Box<dyn Write>,
    /// Its standard output.
    pub output: Box<dyn BufRead>,
}

/// Starts a node as a thread of this process; for tests, and where one process is all there is.
///
/// # Errors
/// When there is no descriptor or thread left.
pub fn n2n_thread(_number: usize) -> io::Result<Node> {
    let (input, to_input) = io::pipe()?;
    let (from_output, output) = io::pipe()?;
    std::thread::Builder::new()
        .name("n2n node".to_owned())
        .spawn(move || n2n_node(BufReader::new(input), output))?;
    Ok(Node { input: Box::new(to_input), output: Box::new(BufReader::new(from_output)) })
}

/// Sends messages of `message_bytes` between `nodes` nodes, `repeats` times: payload bytes per second of all nodes together,
/// against bare TCP. `start` starts node number so-and-so, such as this program again with [`n2n_node`] on its standard
/// input and output.
///
/// # Errors
/// When a node cannot be started, or fails.
pub fn n2n(
    nodes: usize,
    message_bytes: usize,
    repeats: usize,
    start: impl FnMut(usize) -> io::Result<Node>,
) -> Result<Measurement, TransportError> {
    let failed = |cause| TransportError::System { place: "bench n2n".to_owned(), call: "a node", cause };
    if !(2..=64).contains(&nodes) || !(1..=16 << 20).contains(&message_bytes) {
        return Err(TransportError::Settings(format!(
            "`bench n2n` takes 2 to 64 nodes and messages of 1 B to 16 MiB, not {nodes} and {message_bytes}"
        )));
    }
    let mut mesh = Mesh::start(nodes, start).map_err(failed)?;
    let per_node = (TURN_BYTES / nodes / message_bytes).min(TURN_MESSAGES / nodes);
    let per_other = (per_node / (nodes - 1)).max(4);
    let bytes = (nodes * (nodes - 1) * per_other * message_bytes) as f64;
    let mesh = std::cell::RefCell::new((&mut mesh, Ok(()), 0.0));
    let turn = |kind: &str| {
        let (mesh, problem, cpu_s) = &mut *mesh.borrow_mut();
        match mesh.turn(kind, message_bytes, per_other) {
            Ok(done) => {
                *cpu_s = done.cpu.as_secs_f64();
                done.slowest
            }
            Err(cause) => {
                *problem = Err(cause);
                Duration::from_secs(1)
            }
        }
    };
    let batched = compare(Clock::Wall, repeats, || turn("peers"), || turn("batched"));
    let by_message = compare(Clock::Wall, repeats, || turn("peers"), || turn("bare"));
    let (_, problem, cpu_s) = mesh.into_inner();
    problem.map_err(failed)?;
    let baseline = "bare TCP sockets in the same nodes, writes of 64 KiB whatever the messages";
    Ok(Measurement::of_rate("n2n", "B/s", bytes, baseline, batched)
        .with("nodes", nodes)
        .with("message_bytes", message_bytes)
        .with("messages_per_s", bytes / message_bytes as f64 / batched.subject_s)
        .with("messages_per_pair_and_turn", per_other)
        .with("ratio_to_one_write_per_message", by_message.speed_ratio)
        .with("bytes_per_s_of_one_write_per_message", bytes / by_message.baseline_s)
        .with("cpu_s_per_turn_of_all_nodes", cpu_s)
        .repeated(repeats))
}

/// The nodes, seen from their starter.
struct Mesh(Vec<Node>);

/// One turn of all nodes.
struct Done {
    slowest: Duration,
    cpu: Duration,
}

impl Mesh {
    fn start(nodes: usize, start: impl FnMut(usize) -> io::Result<Node>) -> io::Result<Mesh> {
        let mut mesh = Mesh((0..nodes).map(start).collect::<io::Result<_>>()?);
        let addresses = mesh.receive("address")?;
        for (number, node) in mesh.0.iter_mut().enumerate() {
            writeln!(node.input, "mesh {number} {}", addresses.join(" "))?;
            node.input.flush()?;
        }
        mesh.receive("ready")?;
        Ok(mesh)
    }

    fn turn(&mut self, kind: &str, message_bytes: usize, per_other: usize) -> io::Result<Done> {
        for node in &mut self.0 {
            writeln!(node.input, "turn {kind} {message_bytes} {per_other}")?;
            node.input.flush()?;
        }
        let mut done = Done { slowest: Duration::ZERO, cpu: Duration::ZERO };
        for line in self.receive("done")? {
            let mut words = line.split_whitespace().map(|word| word.parse().map(Duration::from_nanos));
            let (Some(Ok(wall)), Some(Ok(cpu))) = (words.next(), words.next()) else {
                return Err(io::Error::other(format!("a node said `{line}`")));
            };
            done.slowest = done.slowest.max(wall);
            done.cpu += cpu;
        }
        Ok(done)
    }

    /// One line of each node, without its first word, which is as expected.
    fn receive(&mut self, word: &str) -> io::Result<Vec<String>> {
        let receive = |node: &mut Node| {
            let mut line = String::new();
            node.output.read_line(&mut line)?;
            let rest = line.trim().strip_prefix(word).map(|rest| rest.trim().to_owned());
            rest.ok_or_else(|| {
                io::Error::other(format!("a node said `{}` where `{word}` should come", line.trim()))
            })
        };
        self.0.iter_mut().map(receive).collect()
    }
}

/// Runs one node until its input ends. What goes wrong is said on its output, too.
///
/// # Errors
/// When the mesh breaks, or the starter says what no starter says.
pub fn n2n_node(mut input: impl BufRead, mut output: impl Write) -> io::Result<()> {
    let mut node = NodeState::open()?;
    writeln!(output, "address {},{}", node.url(), node.bare_listener.local_addr()?)?;
    output.flush()?;
    let mut line = String::new();
    while input.read_line(&mut line)? > 0 {
        let answer = node.obey(&line).inspect_err(|cause| {
            // The starter reads it instead of what it waits for.
            let _ = writeln!(output, "failed: {cause}");
        })?;
        writeln!(output, "{answer}")?;
        output.flush()?;
        line.clear();
    }
    Ok(())
}

/// One node.
struct NodeState {
    listener: Listener,
    bare_listener: TcpListener,
    pool: Pool,
    peers: Vec<Box<dyn Peer>>,
    bare: Vec<BareConnection>,
}

/// Messages of a turn.
#[derive(Clone, Copy)]
struct Turn {
    message_bytes: usize,
    per_other: usize,
}

impl NodeState {
    fn open() -> io::Result<NodeState> {
        // As many blocks as 64 connections may hold; of messages beyond 16 MiB nothing is asked.
        let pool = Pool::new(64 + 36, BLOCK_BYTES).map_err(io::Error::other)?;
        let listener =
            listen("tcp://127.0.0.1:0", NodeState::settings(0, &pool)).map_err(io::Error::other)?;
        let bare_listener = TcpListener::bind("127.0.0.1:0")?;
        Ok(NodeState { listener, bare_listener, pool, peers: Vec::new(), bare: Vec::new() })
    }

    fn settings(number: usize, pool: &Pool) -> Settings {
        Settings {
            connect_wait: MESH_WAIT,
            // A turn of one kind leaves the connections of the other alone for its time.
            silence_wait: Duration::ZERO,
            hello_wait: MESH_WAIT,
            ..Settings::new(&format!("node {number}"), pool.clone())
        }
    }

    fn url(&self) -> String {
        self.listener.url()
    }

    fn obey(&mut self, line: &str) -> io::Result<String> {
        let words: Vec<&str> = line.split_whitespace().collect();
        let wrong = || io::Error::other(format!("no order: `{}`", line.trim()));
        let number = |word: &str| word.parse::<usize>().map_err(|_| wrong());
        match words.as_slice() {
            ["mesh", own, others @ ..] => {
                self.connect(number(own)?, others)?;
                Ok("ready".to_owned())
            }
            ["turn", kind, message_bytes, per_other] => {
                let turn = Turn { message_bytes: number(message_bytes)?, per_other: number(per_other)? };
                let (start, cpu) = (Instant::now(), thread_cpu_time());
                match *kind {
                    "peers" => self.turn_of_peers(turn)?,
                    "bare" => self.turn_of_sockets(turn, turn.message_bytes)?,
                    "batched" => self.turn_of_sockets(turn, turn.message_bytes.max(BATCH_BYTES))?,
                    _ => return Err(wrong()),
                }
                let (wall, cpu) = (start.elapsed(), thread_cpu_time() - cpu);
                Ok(format!("done {} {}", wall.as_nanos(), cpu.as_nanos()))
            }
            _ => Err(wrong()),
        }
    }

    /// One connection of each kind with each other node: to those behind us, from those before us.
    fn connect(&mut self, own: usize, others: &[&str]) -> io::Result<()> {
        for other in others.iter().skip(own + 1) {
            let (url, bare) = other.split_once(',').ok_or_else(|| io::Error::other("no address"))?;
            let settings = NodeState::settings(own, &self.pool);
            self.peers.push(connect(url, settings).map_err(io::Error::other)?);
            let address: SocketAddr = bare.parse().map_err(io::Error::other)?;
            self.bare.push(BareConnection::over(TcpStream::connect(address)?)?);
        }
        for _ in 0..own {
            let peer = self.listener.accept(MESH_WAIT).map_err(io::Error::other)?;
            self.peers.push(peer.ok_or(io::ErrorKind::TimedOut)?);
            self.bare.push(BareConnection::over(self.bare_listener.accept()?.0)?);
        }
        // The nodes begin with different ones.
        let count = self.peers.len().max(1);
        self.peers.rotate_left(own % count);
        self.bare.rotate_left(own % count);
        Ok(())
    }

    fn turn_of_peers(&mut self, turn: Turn) -> io::Result<()> {
        let failed = |error: thalweg_transport::peer::PeerError| io::Error::other(error);
        let mut set = ReadySet::new()?;
        for (key, peer) in self.peers.iter().enumerate() {
            set.add(peer.descriptor(), key)?;
        }
        let payload = Payload::new(turn.message_bytes)?;
        let total = self.peers.len() * turn.per_other;
        let (mut sent, mut seen, mut held, mut came) = (0, 0, false, Message::default());
        let mut out = Message::default();
        // All are looked at first: what came behind the hello is reported by no descriptor.
        let mut ready: Vec<usize> = (0..self.peers.len()).collect();
        // To the end, that of what waits in the peers included: nobody moves that on once this turn is over.
        loop {
            for key in ready.drain(..) {
                while self.peers[key].receive(&mut came, Duration::ZERO).map_err(failed)? == Received::Data {
                    seen += 1;
                }
            }
            // One round, then the others are listened to.
            let (mut full, round) = (false, self.peers.len().max(BATCH_BYTES / turn.message_bytes));
            for _ in 0..round.min(total - sent) {
                if !held {
                    payload.fill(&mut out, sent);
                }
                let peers = self.peers.len();
                held = self.peers[sent % peers].send(&mut out).map_err(failed)? == Sent::Full;
                full = held;
                if held {
                    break;
                }
                sent += 1;
            }
            let mut waits = false;
            if sent == total {
                for peer in &mut self.peers {
                    waits |= !peer.flush(Duration::ZERO).map_err(failed)?;
                }
            }
            if sent == total && seen == total && !waits {
                break;
            }
            let wait = if full || sent == total { WAIT } else { Duration::ZERO };
            ready.extend_from_slice(set.wait(wait)?);
        }
        Ok(())
    }

    fn turn_of_sockets(&mut self, turn: Turn, write_bytes: usize) -> io::Result<()> {
        let mut set = ReadySet::new()?;
        for (key, connection) in self.bare.iter_mut().enumerate() {
            set.add(&connection.stream, key)?;
            connection.to_send = turn.per_other * turn.message_bytes;
            connection.to_receive = connection.to_send;
        }
        let bytes = vec![7; write_bytes];
        let (mut next, mut ready) = (0, Vec::<usize>::new());
        let round = self.bare.len().max(BATCH_BYTES / write_bytes);
        while self.bare.iter().any(|each| each.to_send > 0 || each.to_receive > 0) {
            for key in ready.drain(..) {
                self.bare[key].receive()?;
            }
            let mut full = false;
            for _ in 0..round {
                let connection = &mut self.bare[next];
                // Strictly in turn, as the peers.
                if connection.send(&bytes)? {
                    next = (next + 1) % self.bare.len();
                } else {
                    full = true;
                    break;
                }
            }
            let all_sent = self.bare.iter().all(|each| each.to_send == 0);
            ready.extend_from_slice(set.wait(if full || all_sent { WAIT } else { Duration::ZERO })?);
        }
        Ok(())
    }
}

/// The payload that every message of a turn names: it is sent from where it lies.
pub(super) struct Payload {
    /// Gives the blocks back when the turn is over.
    _pool: Pool,
    message: Message,
}

impl Payload {
    pub(super) fn new(bytes: usize) -> io::Result<Payload> {
        let pool = Pool::new(bytes.div_ceil(BLOCK_BYTES).max(1), BLOCK_BYTES).map_err(io::Error::other)?;
        let (mut message, mut left) = (Message::default(), bytes);
        while left > 0 {
            let mut writer = pool.take().ok_or(io::ErrorKind::OutOfMemory)?;
            let chunk = left.min(writer.remaining());
            writer.tail()[..chunk].fill(7);
            message.slices.push(writer.publish(chunk));
            message.leases.add(writer.lease());
            left -= chunk;
        }
        Ok(Payload { _pool: pool, message })
    }

    pub(super) fn fill(&self, message: &mut Message, number: usize) {
        message.head.extend_from_slice(&[number as u8; HEAD_BYTES]);
        message.slices.extend_from_slice(&self.message.slices);
        message.leases.add_all(&self.message.leases);
    }
}

/// A connection with nothing around it.
struct BareConnection {
    stream: TcpStream,
    memory: Footprint,
    to_send: usize,
    /// The sent part of the current chunk.
    sent: usize,
    to_receive: usize,
}

impl BareConnection {
    fn over(stream: TcpStream) -> io::Result<BareConnection> {
        stream.set_nodelay(true)?;
        stream.set_nonblocking(true)?;
        send_by_window_on_loopback(&stream);
        Ok(BareConnection {
            stream,
            memory: Footprint::new(1, BLOCK_BYTES),
            to_send: 0,
            sent: 0,
            to_receive: 0,
        })
    }

    /// Writes on; whether one chunk, or the last, has gone whole.
    fn send(&mut self, bytes: &[u8]) -> io::Result<bool> {
        let chunk = bytes.len().min(self.to_send + self.sent);
        if self.to_send == 0 {
            return Ok(true);
        }
        match self.stream.write(&bytes[self.sent..chunk]) {
            Ok(written) => {
                self.sent += written;
                self.to_send -= written;
                let whole = self.sent == chunk;
                if whole {
                    self.sent = 0;
                }
                Ok(whole)
            }
            Err(cause) if is_nothing(&cause) => Ok(false),
            Err(cause) => Err(cause),
        }
    }

    fn receive(&mut self) -> io::Result<()> {
        while self.to_receive > 0 {
            let tail = self.memory.tail(BLOCK_BYTES / 8);
            let most = tail.len().min(self.to_receive);
            match self.stream.read(&mut tail[..most]) {
                Ok(0) => return Err(io::ErrorKind::UnexpectedEof.into()),
                Ok(received) => {
                    self.to_receive -= received;
                    self.memory.advance(received);
                }
                Err(cause) if is_nothing(&cause) => return Ok(()),
                Err(cause) => return Err(cause),
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nodes_of_threads_move_every_message() {
        let mut mesh = Mesh::start(3, n2n_thread).expect("threads");
        for kind in ["peers", "bare", "batched", "peers"] {
            for (message_bytes, per_other) in [(64, 3000), (100_000, 40), (1 << 20, 4)] {
                let done = mesh.turn(kind, message_bytes, per_other).expect("whole");
                assert!(done.slowest > Duration::ZERO && done.cpu > Duration::ZERO);
            }
        }
    }

    #[test]
    fn what_is_no_order_is_said() {
        let mut said = Vec::new();
        let error = n2n_node(&b"turn sideways 1 1\n"[..], &mut said).expect_err("refused");
        assert!(error.to_string().contains("sideways"));
        assert!(String::from_utf8_lossy(&said).contains("failed: no order"));
        assert!(n2n(1, 64, 1, n2n_thread).is_err());
    }
}
