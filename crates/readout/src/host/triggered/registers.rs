//! The registers of emulated boards, on UDP ports of their own.
//!
//! ```text
//!  request ─► EmulatedRegisters ─► answers, each at its time (late ones later, lost ones never) ─► whoever asked
//!                 │ changed
//!                 ▼
//!            the board: what it sends; a reset closes its connection
//! ```
//! One thread serves all ports. The board looks after changes between triggers, so that a block is of one mode.

use std::io;
use std::net::{SocketAddr, UdpSocket};
use std::time::{Duration, Instant};

use thalweg_frontend::format::{DueDatagram, EmulatedRegisters};
use thalweg_transport::{ReadySet, TransportError};

use super::super::HostError;

/// Longest wait before the end is looked for, or an answer that is late.
const CHECK_EVERY: Duration = Duration::from_millis(5);
/// Most late answers of one board; further ones are lost.
const MOST_LATE: usize = 64;

/// A register port.
pub struct HostedRegisters {
    /// Where it is asked.
    pub socket: UdpSocket,
    /// What it serves.
    pub registers: Box<dyn EmulatedRegisters>,
}

struct Port {
    socket: UdpSocket,
    registers: Box<dyn EmulatedRegisters>,
    late: Vec<(SocketAddr, DueDatagram)>,
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
            let keys = self.ready.wait(CHECK_EVERY)?;
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
            self.registers.answer(&datagram[..length], now_ns, &mut answers);
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
