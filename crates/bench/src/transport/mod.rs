//! Measures the cost of receiving, against a bare loop around the same system call.
//!
//! ```text
//!  fill the socket's buffer ─► drain it: our receiver │ bare loop │ …     processor time of the draining alone
//! ```
//! Subject and baseline read sockets with the same options, by the same call, and write through the same amount of
//! memory: two blocks in turn. The bare loop does nothing else: no notes are read, nothing is cut or counted. A second
//! baseline that writes the same 64 KiB over and over shows what the memory itself costs. Time is that of the reading
//! thread's processor, so that neither the sender nor the rest of the machine is measured.

mod bare;
mod kinds;
mod n2n;
mod peer;
mod send;
mod tcp;
mod udp;
mod uring;

pub use n2n::{Node, n2n, n2n_node, n2n_thread};
pub use peer::peers;
pub use send::BareSender;
pub use tcp::receive_tcp;
pub use udp::receive_udp;

use std::io;
use std::os::fd::BorrowedFd;
use std::time::Duration;

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use thalweg_data::measure::PAGE_BYTES;

/// Bytes per block, as a source has by default.
const BLOCK_BYTES: usize = 512 << 10;
/// Blocks that are written in turn: the receiver takes the one that was given back last.
const FOOTPRINT_BLOCKS: usize = 2;
/// Waits that both sides use when nothing is there.
const WAIT: Duration = Duration::from_millis(1);

/// Memory that is written through in turn, as the blocks of a pool are.
struct Footprint {
    memory: Vec<u8>,
    /// The start of the first block: at a page, as a pool's blocks begin, because the speed of a copy depends on it.
    start: usize,
    blocks: usize,
    block_bytes: usize,
    block: usize,
    used: usize,
}

impl Footprint {
    fn new(blocks: usize, block_bytes: usize) -> Footprint {
        // Touched, as a pool's blocks are.
        let memory = vec![1; blocks * block_bytes + PAGE_BYTES];
        let start = memory.as_ptr().align_offset(PAGE_BYTES);
        Footprint { memory, start, blocks, block_bytes, block: 0, used: 0 }
    }

    /// Returns the rest of the block in use, at least `least` bytes.
    fn tail(&mut self, least: usize) -> &mut [u8] {
        if self.block_bytes - self.used < least {
            self.block = (self.block + 1) % self.blocks;
            self.used = 0;
        }
        let start = self.start + self.block * self.block_bytes;
        &mut self.memory[start + self.used..start + self.block_bytes]
    }

    fn advance(&mut self, bytes: usize) {
        self.used = (self.used + bytes).next_multiple_of(64).min(self.block_bytes);
    }
}

/// Waits until there is something to read.
fn wait_readable(socket: BorrowedFd<'_>, wait: Duration) -> io::Result<bool> {
    let timeout = Timespec { tv_sec: wait.as_secs() as _, tv_nsec: wait.subsec_nanos().into() };
    Ok(poll(&mut [PollFd::new(&socket, PollFlags::IN)], Some(&timeout))? > 0)
}

/// Returns true if a call merely found nothing to do: try again later.
fn is_nothing(cause: &io::Error) -> bool {
    matches!(cause.kind(), io::ErrorKind::WouldBlock | io::ErrorKind::Interrupted)
}
