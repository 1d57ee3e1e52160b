//! The registers of emulated SiTCP boards, on UDP ports of their own.
//!
//! ```text
//!  request ─► Registers ─► answers, each at its time (late ones later, lost ones never) ─► whoever asked
//!                 │ changed
//!                 ▼
//!            SitcpBoard: mode and window of what it sends; a reset closes its connection
//! ```
//! One thread serves all ports. The board looks after changes between triggers, so that a block is of one mode.

use std::io;
use std::net::{SocketAddr, UdpSocket};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use thalweg_frontend::sitcp::emulate::Board;
use thalweg_frontend::sitcp::rbcp::{Outgoing, Registers};
use thalweg_frontend::trigger::{Answer, Trigger};
use thalweg_transport::{ReadySet, TransportError};

use super::super::{HostError, lock};
use super::Hosted;

/// Longest wait before the end is looked for, or an answer that is late.
const LOOK: Duration = Duration::from_millis(5);
/// Most late answers of one board; further ones are lost.
const MOST_LATE: usize = 64;

/// Registers that the board and its register port share.
#[derive(Clone)]
pub struct SharedRegisters {
    registers: Arc<Mutex<Registers>>,
    /// Counts the requests that were served.
    version: Arc<AtomicU64>,
}

impl SharedRegisters {
    /// Shares them.
    pub fn new(registers: Registers) -> SharedRegisters {
        SharedRegisters { registers: Arc::new(Mutex::new(registers)), version: Arc::default() }
    }

    /// A copy of them as they are now.
    pub fn now(&self) -> Registers {
        lock(&self.registers).clone()
    }
}

/// A register port.
pub struct HostedRegisters {
    /// Where it is asked.
    pub socket: UdpSocket,
    /// What it serves.
    pub registers: SharedRegisters,
}

/// An emulated SiTCP board that does what its registers say.
pub struct SitcpBoard {
    board: Board,
    registers: Option<SharedRegisters>,
    version: u64,
    resets: u64,
}

impl SitcpBoard {
    /// A board; without registers it stays as it was made.
    pub fn new(board: Board, registers: Option<SharedRegisters>) -> SitcpBoard {
        SitcpBoard { board, registers, version: 0, resets: 0 }
    }
}

impl Answer for SitcpBoard {
    fn answer(&mut self, trigger: Trigger, bytes: &mut Vec<u8>, ends: &mut Vec<usize>) {
        self.board.answer(trigger, bytes, ends);
    }

    fn answer_number(&self, trigger: Trigger) -> u64 {
        self.board.answer_number(trigger)
    }

    fn doubled(&self) -> u64 {
        self.board.doubled()
    }
}

impl Hosted for SitcpBoard {
    fn connected(&mut self) {
        self.board.connect();
    }

    fn attend(&mut self) -> bool {
        let Some(shared) = &self.registers else { return false };
        let version = shared.version.load(Ordering::Acquire);
        if version == self.version {
            return false;
        }
        self.version = version;
        let registers = lock(&shared.registers);
        self.board.follow(&registers);
        let before = std::mem::replace(&mut self.resets, registers.resets());
        before != self.resets
    }
}

struct Port {
    socket: UdpSocket,
    registers: SharedRegisters,
    late: Vec<(SocketAddr, Outgoing)>,
}

/// Serves the register ports of all boards.
pub(super) struct Server {
    ports: Vec<Port>,
    ready: ReadySet,
    start: Instant,
}

impl Server {
    pub(super) fn new(registers: Vec<HostedRegisters>) -> Result<Server, HostError> {
        let failed = |cause| {
            let place = "the registers of emulated boards".to_owned();
            HostError::Transport(TransportError::System { place, call: "epoll", cause })
        };
        let mut ready = ReadySet::new().map_err(failed)?;
        let mut ports = Vec::with_capacity(registers.len());
        for (key, HostedRegisters { socket, registers }) in registers.into_iter().enumerate() {
            socket.set_nonblocking(true).and_then(|()| ready.add(&socket, key)).map_err(failed)?;
            ports.push(Port { socket, registers, late: Vec::new() });
        }
        Ok(Server { ports, ready, start: Instant::now() })
    }

    /// Serves until it is ending.
    pub(super) fn run(mut self, is_ending: &dyn Fn() -> bool) -> io::Result<()> {
        while !is_ending() {
            let keys = self.ready.wait(LOOK)?;
            let now_ns = self.start.elapsed().as_nanos() as u64;
            for &key in keys {
                self.ports[key].serve(now_ns);
            }
            self.ports.iter_mut().for_each(|port| port.send_late(now_ns));
        }
        Ok(())
    }
}

impl Port {
    fn serve(&mut self, now_ns: u64) {
        let (mut datagram, mut answers) = ([0; 512], Vec::new());
        while let Ok((length, from)) = self.socket.recv_from(&mut datagram) {
            lock(&self.registers.registers).answer(&datagram[..length], now_ns, &mut answers);
            self.registers.version.fetch_add(1, Ordering::AcqRel);
            for answer in answers.drain(..) {
                if answer.at_ns <= now_ns {
                    // Whether it arrives is the network's business, as for a real board.
                    let _lost = self.socket.send_to(&answer.datagram, from);
                } else if self.late.len() < MOST_LATE {
                    self.late.push((from, answer));
                }
            }
        }
    }

    fn send_late(&mut self, now_ns: u64) {
        let socket = &self.socket;
        self.late.retain(|(to, answer)| {
            let waits = answer.at_ns > now_ns;
            if !waits {
                let _lost = socket.send_to(&answer.datagram, to);
            }
            waits
        });
    }
}
