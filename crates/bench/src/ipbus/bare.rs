//! The least that any board and its client have to do: a datagram for each request and one for each reply, of the same sizes, as many in
//! flight.

use std::io;
use std::net::{SocketAddr, UdpSocket};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;
use std::time::Duration;

use super::Operation;

/// The longest packet.
const PAYLOAD_BYTES: usize = 1400;
/// Words of the longest transaction.
const TRANSACTION_WORDS: usize = 255;

/// Answers each datagram with one of as many bytes as its first word says.
pub(super) struct Bare {
    pub(super) address: SocketAddr,
    ending: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
}

impl Bare {
    pub(super) fn start(at: SocketAddr) -> io::Result<Bare> {
        let socket = UdpSocket::bind(at)?;
        let (address, ending) = (socket.local_addr()?, Arc::new(AtomicBool::new(false)));
        socket.set_read_timeout(Some(Duration::from_millis(50)))?;
        let ends = ending.clone();
        let answer = move || {
            let (mut request, reply) = ([0; PAYLOAD_BYTES], [0; PAYLOAD_BYTES]);
            while !ends.load(Ordering::Acquire) {
                let Ok((_, from)) = socket.recv_from(&mut request) else { continue };
                let bytes = u32::from_ne_bytes([request[0], request[1], request[2], request[3]]) as usize;
                // Lost, as any datagram may be: the bench ends with a word.
                let _ = socket.send_to(&reply[..bytes.min(PAYLOAD_BYTES)], from);
            }
        };
        let thread = std::thread::Builder::new().name("bare device".to_owned()).spawn(answer)?;
        Ok(Bare { address, ending, thread: Some(thread) })
    }
}

impl Drop for Bare {
    fn drop(&mut self) {
        self.ending.store(true, Ordering::Release);
        drop(self.thread.take().map(JoinHandle::join));
    }
}

/// The other side of a [`Bare`].
pub(super) struct BareClient(UdpSocket);

impl BareClient {
    pub(super) fn open(address: SocketAddr) -> io::Result<BareClient> {
        let socket = UdpSocket::bind(SocketAddr::from(([0, 0, 0, 0], 0)))?;
        socket.connect(address)?;
        // What the kernel drops is asked for no more: the bench ends with a word.
        socket.set_read_timeout(Some(Duration::from_secs(5)))?;
        Ok(BareClient(socket))
    }

    /// Requests the packets that a block of `words` words needs, with up to `window` in flight.
    pub(super) fn ask(&self, operation: Operation, words: usize, window: usize) -> io::Result<()> {
        let (mut request, mut reply, mut in_flight) = ([0; PAYLOAD_BYTES], [0; PAYLOAD_BYTES], 0);
        for (asks, answers) in packets(operation, words) {
            if in_flight == window {
                self.0.recv(&mut reply)?;
                in_flight -= 1;
            }
            request[..4].copy_from_slice(&(answers as u32).to_ne_bytes());
            self.0.send(&request[..asks])?;
            in_flight += 1;
        }
        for _ in 0..in_flight {
            self.0.recv(&mut reply)?;
        }
        Ok(())
    }
}

/// Returns the bytes of request and reply of each packet that a block of `words` words needs: a header, and one for each transaction, with
/// its address.
fn packets(operation: Operation, words: usize) -> impl Iterator<Item = (usize, usize)> {
    let most = PAYLOAD_BYTES / 4 - 1;
    // A full packet has this many transactions.
    let most = most - most.div_ceil(TRANSACTION_WORDS) * operation.head_words();
    (0..words).step_by(most).map(move |first| {
        let words = most.min(words - first);
        let transactions = words.div_ceil(TRANSACTION_WORDS);
        let (long, short) = (1 + words, 1);
        match operation {
            Operation::Read => (4 * (short + 2 * transactions), 4 * (long + transactions)),
            Operation::Write => (4 * (long + 2 * transactions), 4 * (short + transactions)),
        }
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn packets_are_as_long_as_those_of_the_client() {
        assert_eq!(packets(Operation::Read, 1).collect::<Vec<_>>(), [(12, 12)]);
        assert_eq!(packets(Operation::Write, 1).collect::<Vec<_>>(), [(16, 8)]);
        let read: Vec<_> = packets(Operation::Read, 348).collect();
        assert_eq!(read, [(20, 1400), (12, 12)]);
        let written: Vec<_> = packets(Operation::Write, 346).collect();
        assert_eq!(written, [(1400, 12), (16, 8)]);
    }
}
