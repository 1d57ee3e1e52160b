//! The thread that sends a board's data.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::sync::Arc;
use std::time::Duration;

use thalweg_data::Hit;
use thalweg_frontend::format::SelfTriggeredSettings;
use thalweg_frontend::self_triggered::{Outgoing, State};
use thalweg_transport::UdpSender;

use super::loss::{Dropped, Loss};
use super::threads::Threads;
use super::{HostError, Place, Shared, TruthSink, network};

/// Bytes put together before they are sent: a few segmented sends.
const ARENA_BYTES: usize = 256 << 10;
/// Between two looks at a board that has nothing to send.
const PAUSE: Duration = Duration::from_micros(250);
/// The longest time that one send may wait for space in the kernel.
const SEND_WAIT: Duration = Duration::from_millis(100);

/// Starts the threads of a board.
pub(super) fn spawn(
    shared: &Arc<Shared>,
    place: Place,
    loss: Loss,
    (truth, settings): (Option<TruthSink>, &dyn SelfTriggeredSettings),
) -> Result<Threads, HostError> {
    let pump = Pump::new(shared.clone(), loss, truth, settings.is_unlimited());
    match place {
        Place::Stream { to } => {
            let any = match to.ip() {
                IpAddr::V4(_) => IpAddr::V4(Ipv4Addr::UNSPECIFIED),
                IpAddr::V6(_) => IpAddr::V6(Ipv6Addr::UNSPECIFIED),
            };
            let sender = UdpSender::open(SocketAddr::new(any, 0), to)?;
            let mut threads = Threads::default();
            threads.spawn("board data", move || pump.stream_to(sender))?;
            Ok(threads)
        }
        Place::Network { address, control_port, udp_port } => {
            network::spawn(shared, pump, settings, (address, control_port, udp_port))
        }
    }
}

/// Gives datagrams or packets to a socket, all of them, or says why it could not.
pub(super) type SendAll<'s> = dyn FnMut(&[&[u8]]) -> Result<(), String> + 's;

/// Takes from the board and gives to a socket.
pub(super) struct Pump {
    pub(super) shared: Arc<Shared>,
    loss: Loss,
    truth_sink: Option<TruthSink>,
    out: Outgoing,
    truth: Vec<Hit>,
    unlimited: bool,
}

impl Pump {
    fn new(shared: Arc<Shared>, loss: Loss, truth_sink: Option<TruthSink>, unlimited: bool) -> Pump {
        Pump { shared, loss, truth_sink, out: Outgoing::new(ARENA_BYTES), truth: Vec::new(), unlimited }
    }

    fn stream_to(mut self, mut sender: UdpSender) {
        let shared = self.shared.clone();
        let mut send = |datagrams: &[&[u8]]| send_datagrams(&mut sender, datagrams, &shared);
        while !(self.shared.is_ending() && self.is_drained()) {
            if let Err(message) = self.turn(&mut send) {
                self.shared.fail(message);
                return;
            }
        }
    }

    /// Whether the board has said everything.
    pub(super) fn is_drained(&self) -> bool {
        self.shared.board().state() != State::Running
    }

    /// Throws away what a client before did not take.
    pub(super) fn forget_unsent(&mut self) {
        self.out.clear();
    }

    /// Sends what is due, and rests when there is nothing more. Datagrams that `send` does not take are its own loss.
    pub(super) fn turn(&mut self, send: &mut SendAll<'_>) -> Result<(), String> {
        let more = {
            let mut board = self.shared.board();
            let now_ns = self.shared.now_ns();
            let running = board.state() == State::Running;
            let now_ns =
                if self.unlimited && running && !self.shared.is_ending() { u64::MAX } else { now_ns };
            let more = board.produce(now_ns, &mut self.out);
            if self.truth_sink.is_some() {
                board.take_truth(&mut self.truth);
            }
            more
        };
        if let Some(sink) = &mut self.truth_sink {
            sink(&self.truth)?;
            self.truth.clear();
        }
        if !self.out.is_empty() {
            let mut dropped = Dropped::default();
            let kept = self.loss.survivors(&self.out, &mut dropped);
            self.shared.add_dropped(dropped);
            send(&kept)?;
            self.out.clear();
        }
        if !more {
            std::thread::sleep(PAUSE);
        }
        Ok(())
    }
}

/// Sends all datagrams, waiting for space as long as the board is wanted.
pub(super) fn send_datagrams(
    sender: &mut UdpSender,
    datagrams: &[&[u8]],
    shared: &Shared,
) -> Result<(), String> {
    let mut rest = datagrams;
    while !rest.is_empty() {
        let sent = sender.send(rest, SEND_WAIT).map_err(|error| error.to_string())?;
        rest = &rest[sent..];
        if sent == 0 && shared.is_ending() {
            return Err(format!("{} datagrams could not be sent before the end", rest.len()));
        }
    }
    Ok(())
}
