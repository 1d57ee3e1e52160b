//! A baseline: one receive request that completes for every datagram (`io_uring`, multishot, since Linux 6.0).
//!
//! ```text
//!  slots in a ring of buffers ─► kernel ─ a completion per datagram ─► bytes received, the slot given back
//! ```

use std::io;
use std::net::UdpSocket;
use std::os::fd::AsRawFd;
use std::sync::atomic::{AtomicU16, Ordering};

use io_uring::types::{BufRingEntry, Fd};
use io_uring::{IoUring, cqueue, opcode};
use memmap2::{MmapOptions, MmapRaw};

use super::{BLOCK_BYTES, FOOTPRINT_BLOCKS};

/// Completions that the kernel can leave before they are read.
const COMPLETIONS: u32 = 4096;
/// `IORING_ENTER_GETEVENTS`.
const GET_EVENTS: u32 = 1;
/// The one group of buffers.
const GROUP: u16 = 0;
/// Most buffers that a group has.
const MOST_SLOTS: usize = 1 << 15;

/// Receives from one socket.
pub(super) struct Uring {
    // Before the memory, which the kernel may write until the ring is closed.
    ring: IoUring,
    pub(super) socket: UdpSocket,
    /// The slots that the kernel has: `slots` entries, in pages of their own.
    entries: MmapRaw,
    memory: MmapRaw,
    slot_bytes: usize,
    slots: u16,
    tail: u16,
    is_asked: bool,
}

impl Uring {
    /// A receiver of datagrams of up to `slot_bytes` into as much memory as the other baselines write through.
    pub(super) fn open(socket: UdpSocket, slot_bytes: usize) -> io::Result<Uring> {
        let ring = IoUring::builder()
            .setup_cqsize(COMPLETIONS)
            .setup_single_issuer()
            .setup_defer_taskrun()
            .build(8)?;
        let slots = (FOOTPRINT_BLOCKS * BLOCK_BYTES / slot_bytes).clamp(1, MOST_SLOTS);
        let slots = 1u16 << slots.ilog2();
        let memory: MmapRaw = MmapOptions::new().len(usize::from(slots) * slot_bytes).map_anon()?.into();
        let entries: MmapRaw =
            MmapOptions::new().len(usize::from(slots) * size_of::<BufRingEntry>()).map_anon()?.into();
        // SAFETY: the mapping has `slots` entries, begins at a page, and lives until the ring has been closed: fields are dropped in
        // their order.
        unsafe {
            ring.submitter().register_buf_ring_with_flags(
                entries.as_mut_ptr().addr() as u64,
                slots,
                GROUP,
                0,
            )?;
        }
        let mut opened = Uring { ring, socket, entries, memory, slot_bytes, slots, tail: 0, is_asked: false };
        (0..slots).for_each(|slot| opened.give_back(slot));
        opened.publish();
        Ok(opened)
    }

    /// Enters the kernel once, and takes what has been completed; returns the bytes of all.
    pub(super) fn receive(&mut self) -> io::Result<usize> {
        if !self.is_asked {
            let request = opcode::RecvMulti::new(Fd(self.socket.as_raw_fd()), GROUP).build();
            // SAFETY: the request names an open socket and the registered group; it holds no pointer.
            unsafe { self.ring.submission().push(&request) }.map_err(io::Error::other)?;
            self.is_asked = true;
        }
        self.ring.submission().sync();
        let to_submit = self.ring.submission().len() as u32;
        // SAFETY: no argument is given.
        unsafe { self.ring.submitter().enter::<()>(to_submit, 0, GET_EVENTS, None) }?;
        let mut bytes = 0;
        loop {
            let Some(done) = self.ring.completion().next() else { break };
            self.is_asked &= cqueue::more(done.flags());
            bytes += usize::try_from(done.result()).unwrap_or(0);
            if let Some(slot) = cqueue::buffer_select(done.flags()) {
                self.give_back(slot);
            }
        }
        self.publish();
        Ok(bytes)
    }

    fn give_back(&mut self, slot: u16) {
        let index = usize::from(self.tail & (self.slots - 1));
        let address = self.memory.as_mut_ptr().addr() + usize::from(slot) * self.slot_bytes;
        // SAFETY: the entry lies in the mapping, is aligned and zero or a former entry, and is ours until the tail is moved behind it. Its
        // last field, which holds the tail in the first entry, is not touched by the setters.
        let entry = unsafe { &mut *self.entries.as_mut_ptr().cast::<BufRingEntry>().add(index) };
        entry.set_addr(address as u64);
        entry.set_len(self.slot_bytes as u32);
        entry.set_bid(slot);
        self.tail = self.tail.wrapping_add(1);
    }

    fn publish(&self) {
        // SAFETY: the mapping begins with the first entry, in which the tail lies, aligned; kernel and program reach it as an atomic.
        let tail =
            unsafe { AtomicU16::from_ptr(BufRingEntry::tail(self.entries.as_ptr().cast()).cast_mut()) };
        tail.store(self.tail, Ordering::Release);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_datagram_is_completed_once_while_slots_go_round() {
        let socket = UdpSocket::bind("127.0.0.1:0").expect("loopback");
        let to = socket.local_addr().expect("bound");
        let mut uring = match Uring::open(socket, 9024) {
            Ok(uring) => uring,
            Err(cause) => return thalweg_prerequisite::skip(&format!("io_uring is not allowed: {cause}")),
        };
        let sender = UdpSocket::bind("127.0.0.1:0").expect("loopback");
        for _ in 0..40 {
            (0..10).for_each(|_| assert_eq!(sender.send_to(&[7; 8000], to).expect("loopback"), 8000));
            let (mut bytes, mut calls) = (0, 0);
            while bytes < 80_000 && calls < 1000 {
                bytes += uring.receive().expect("a ring");
                calls += 1;
            }
            assert_eq!(bytes, 80_000);
        }
    }
}
