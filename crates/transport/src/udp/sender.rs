//! Sends datagrams from the caller's memory with as few system calls as the kernel allows.
//!
//! ```text
//!  &[&[u8]] ─► runs of equal length (the last may be shorter) ─► one UDP_SEGMENT message each ─► sendmmsg
//! ```
//! If the kernel or the interface cannot segment messages, each datagram is a message of its own.

use std::io;
use std::net::{SocketAddr, UdpSocket};
use std::os::fd::AsFd;
use std::time::Duration;

use socket2::{Domain, Protocol, Socket, Type};

use crate::TransportError;
use crate::system::{self, Run, SendTable};

/// The most datagrams in one message (the smallest `UDP_MAX_SEGMENTS` of all kernels).
const SEGMENTS_MAXIMUM: usize = 64;
/// The most bytes in one message: 65535 minus the headers of IPv4 and UDP.
const MESSAGE_MAXIMUM: usize = 65_507;
/// Messages per `sendmmsg`.
const MESSAGES: usize = 16;

/// Sends datagrams to one other end.
pub struct UdpSender {
    socket: UdpSocket,
    peer: SocketAddr,
    table: SendTable,
    runs: Vec<Run>,
    /// Whether a run is sent as one message; switched off when the kernel or the interface refuses it.
    segmenting: bool,
    refused: u64,
}

impl UdpSender {
    /// A sender from `local` (port 0: any) to `peer`.
    ///
    /// # Errors
    /// When the local address cannot be bound or no route leads to the peer.
    pub fn open(local: SocketAddr, peer: SocketAddr) -> Result<UdpSender, TransportError> {
        let socket =
            UdpSocket::bind(local).map_err(|cause| TransportError::Bind { address: local, cause })?;
        UdpSender::over(socket, peer)
    }

    /// A sender from an address that other sockets of this process may share ([`bind_shared`]).
    ///
    /// # Errors
    /// As for [`UdpSender::open`].
    pub fn open_shared(local: SocketAddr, peer: SocketAddr) -> Result<UdpSender, TransportError> {
        let socket = bind_shared(local).map_err(|cause| TransportError::Bind { address: local, cause })?;
        UdpSender::over(socket, peer)
    }

    /// A sender over a bound socket, such as a board's data port; this call connects it to `peer`.
    ///
    /// # Errors
    /// When no route leads to the peer.
    pub fn over(socket: UdpSocket, peer: SocketAddr) -> Result<UdpSender, TransportError> {
        let connected = socket.connect(peer).and_then(|()| socket.set_nonblocking(true));
        connected.map_err(|cause| TransportError::Connect { address: peer, cause })?;
        Ok(UdpSender {
            socket,
            peer,
            table: SendTable::new(MESSAGES),
            runs: Vec::with_capacity(MESSAGES),
            segmenting: true,
            refused: 0,
        })
    }

    /// Sends each datagram as its own message, for a receiver that must see them one by one.
    #[must_use]
    pub fn without_segmentation(mut self) -> UdpSender {
        self.segmenting = false;
        self
    }

    /// Sends datagrams in order, waiting up to `wait` for space in the send buffer; returns how many it sent.
    ///
    /// # Errors
    /// When the socket can no longer be used, or a datagram is longer than the path allows.
    pub fn send(&mut self, datagrams: &[&[u8]], wait: Duration) -> Result<usize, TransportError> {
        let mut sent = 0;
        while sent < datagrams.len() {
            let rest = &datagrams[sent..];
            plan_runs(rest, self.segmenting, &mut self.runs);
            match self.table.send(self.socket.as_fd(), rest, &self.runs) {
                Ok(runs) => sent += self.runs[..runs].iter().map(|run| run.datagrams).sum::<usize>(),
                Err(cause) => match self.answer(cause, wait)? {
                    Answer::Again => {}
                    Answer::Full => break,
                },
            }
        }
        Ok(sent)
    }

    /// How often the other end's host answered that nobody listens on the port.
    pub fn refused(&self) -> u64 {
        self.refused
    }

    /// Whether the kernel segments long messages into datagrams.
    pub fn is_segmenting(&self) -> bool {
        self.segmenting
    }

    /// The address that it sends to.
    pub fn peer(&self) -> SocketAddr {
        self.peer
    }

    /// The socket, for example to wait for datagrams of the other end.
    pub fn socket(&self) -> &UdpSocket {
        &self.socket
    }

    fn answer(&mut self, cause: io::Error, wait: Duration) -> Result<Answer, TransportError> {
        let failed =
            |cause| TransportError::System { place: format!("udp://{}", self.peer), call: "sendmmsg", cause };
        match (cause.kind(), cause.raw_os_error()) {
            // The error is about an earlier datagram; this call has sent none.
            (io::ErrorKind::ConnectionRefused, _) => {
                self.refused += 1;
                Ok(Answer::Again)
            }
            (io::ErrorKind::Interrupted, _) => Ok(Answer::Again),
            (io::ErrorKind::WouldBlock, _) => {
                let ready = system::wait_writable(self.socket.as_fd(), wait).map_err(failed)?;
                Ok(if ready { Answer::Again } else { Answer::Full })
            }
            // The interface's queue is full: it empties by itself, but `poll` does not report when.
            (_, Some(libc::ENOBUFS)) => {
                std::thread::sleep(Duration::from_micros(100));
                Ok(Answer::Full)
            }
            (_, Some(libc::EINVAL | libc::EIO | libc::EMSGSIZE | libc::EOPNOTSUPP)) if self.segmenting => {
                self.segmenting = false;
                Ok(Answer::Again)
            }
            _ => Err(failed(cause)),
        }
    }
}

/// Binds a socket to an address that others share. A connected socket gets the datagrams of its peer; the unconnected one gets
/// the rest. So a board streams to one host and still receives from others.
///
/// # Errors
/// When the address cannot be bound.
pub fn bind_shared(address: SocketAddr) -> io::Result<UdpSocket> {
    let socket = Socket::new(Domain::for_address(address), Type::DGRAM, Some(Protocol::UDP))?;
    socket.set_reuse_address(true)?;
    socket.bind(&address.into())?;
    Ok(socket.into())
}

/// What to do after a send call that sent nothing.
enum Answer {
    /// Call again.
    Again,
    /// Return to the caller: a queue is full.
    Full,
}

/// Groups datagrams into messages, as many as fit one call.
fn plan_runs(datagrams: &[&[u8]], segmenting: bool, runs: &mut Vec<Run>) {
    runs.clear();
    let mut rest = datagrams;
    while !rest.is_empty() && runs.len() < MESSAGES {
        let run = if segmenting { first_run(rest) } else { Run { datagrams: 1, segment_bytes: 0 } };
        rest = &rest[run.datagrams..];
        runs.push(run);
    }
}

/// The longest run of datagrams of equal length at the start, and a shorter one behind it if there is one.
fn first_run(datagrams: &[&[u8]]) -> Run {
    let Some(first) = datagrams.first().map(|datagram| datagram.len()) else {
        return Run { datagrams: 0, segment_bytes: 0 };
    };
    let most = SEGMENTS_MAXIMUM.min(MESSAGE_MAXIMUM.checked_div(first).unwrap_or(1)).min(datagrams.len());
    let equal = datagrams[..most].iter().take_while(|datagram| datagram.len() == first).count();
    let shorter = datagrams[..most].get(equal).is_some_and(|next| !next.is_empty() && next.len() < first);
    match equal + usize::from(shorter) {
        0 | 1 => Run { datagrams: 1, segment_bytes: 0 },
        several => Run { datagrams: several, segment_bytes: first as u16 },
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn datagrams_of_equal_length_share_a_message_with_a_shorter_one_behind() {
        let bytes = [0u8; 9000];
        let datagrams: Vec<&[u8]> =
            [100, 100, 100, 50, 100, 9000, 0, 0].iter().map(|length| &bytes[..*length]).collect();
        let mut runs = Vec::new();
        plan_runs(&datagrams, true, &mut runs);
        let plain: Vec<_> = runs.iter().map(|run| (run.datagrams, run.segment_bytes)).collect();
        assert_eq!(plain, [(4, 100), (1, 0), (1, 0), (1, 0), (1, 0)]);
    }

    proptest! {
        #[test]
        fn runs_cover_all_datagrams_in_order(lengths in proptest::collection::vec(0usize..3000, 1..200)) {
            let bytes = [0u8; 3000];
            let datagrams: Vec<&[u8]> = lengths.iter().map(|length| &bytes[..*length]).collect();
            let (mut at, mut runs) = (0, Vec::new());
            while at < datagrams.len() {
                plan_runs(&datagrams[at..], true, &mut runs);
                for run in &runs {
                    let part = &datagrams[at..at + run.datagrams];
                    prop_assert!(run.datagrams > 0);
                    if let [equal @ .., last] = part && run.datagrams > 1 {
                        prop_assert!(equal.iter().all(|each| each.len() == run.segment_bytes as usize));
                        prop_assert!((1..=run.segment_bytes as usize).contains(&last.len()));
                        prop_assert!(part.iter().map(|each| each.len()).sum::<usize>() <= MESSAGE_MAXIMUM);
                    }
                    at += run.datagrams;
                }
            }
        }
    }
}
