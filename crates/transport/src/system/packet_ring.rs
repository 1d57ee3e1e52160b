//! The kernel's ring of received packets, in memory that it shares with us (`packet(7)`, `TPACKET_V3`).
//!
//! ```text
//!  packets ─ filter in the kernel ─► block │ block │ block │ … ─ a whole block at a time ─► PacketRing::next ─► Packet
//! ```
//! A block belongs to the kernel until it sets the block's status, then to us until we give it back. Layouts are those of
//! `linux/if_packet.h` and `linux/virtio_net.h`. Offsets that the kernel writes are checked before use.

use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, FromRawFd, OwnedFd};
use std::sync::atomic::{AtomicU32, Ordering};

use memmap2::{MmapOptions, MmapRaw};

const SOL_PACKET: i32 = 263;
const PACKET_RX_RING: i32 = 5;
const PACKET_STATISTICS: i32 = 6;
const PACKET_VERSION: i32 = 10;
const PACKET_VNET_HDR: i32 = 15;
const TPACKET_V3: i32 = 2;

/// The kernel has filled the block.
const STATUS_USER: u32 = 1;
/// The sender left the checksum to its network card: the packet never left this host.
const STATUS_CHECKSUM_NOT_READY: u32 = 1 << 3;
/// The network card has verified the checksum.
const STATUS_CHECKSUM_VALID: u32 = 1 << 7;
/// The packet is a long UDP message of several datagrams (`VIRTIO_NET_HDR_GSO_UDP_L4`).
const SEGMENTED_UDP: u8 = 5;

/// Offsets in a block's descriptor and in a packet's header.
const BLOCK_STATUS: usize = 8;
const BLOCK_PACKETS: usize = 12;
const BLOCK_FIRST: usize = 16;
const PACKET_NEXT: usize = 0;
const PACKET_CAPTURED: usize = 12;
const PACKET_STATUS: usize = 20;
const PACKET_MAC: usize = 24;
const PACKET_NETWORK: usize = 26;
const PACKET_HEADER_BYTES: usize = 48;
const VNET_BYTES: usize = 10;

/// The kernel passes on a block that is full, or older than this.
const RETIRE_MS: u32 = 1;

/// Whether the receiver must check a packet's UDP checksum.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Checksum {
    /// No: it is right, or the packet never left this host.
    Settled,
    /// Yes.
    ToCompute,
    /// Yes, unless a sender on this host left it to its network card.
    ToComputeOrUnfinished,
}

/// A received packet in the kernel's memory.
#[derive(Debug)]
pub(crate) struct Packet<'a> {
    /// The captured bytes from the IP header on.
    pub(crate) bytes: &'a [u8],
    /// Whether its checksum must be checked.
    pub(crate) checksum: Checksum,
    /// Length of each datagram but the last, if the packet is a long message whose segmentation was left to the network card.
    pub(crate) segment_bytes: Option<usize>,
}

/// The kernel's counters since the last call.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct RingStatistics {
    /// Packets that passed the filter and were dropped because the ring was full.
    pub(crate) drops: u32,
    /// How often the ring was full.
    pub(crate) freezes: u32,
}

/// A ring of packets that passed a filter.
pub(crate) struct PacketRing {
    socket: OwnedFd,
    memory: MmapRaw,
    block_bytes: usize,
    blocks: usize,
    /// Index of the block that is read, or is read next.
    block: usize,
    /// Packets left in this block.
    left: u32,
    /// Offset of the next packet in this block.
    next: usize,
    /// Whether the block is ours, and goes back to the kernel after it has been read.
    ours: bool,
}

impl PacketRing {
    /// A ring of `blocks` blocks for packets of one protocol (`ETH_P_IP`, …) that pass the filter, from all interfaces.
    pub(crate) fn open(
        protocol: i32,
        filter: &[libc::sock_filter],
        blocks: usize,
        block_bytes: usize,
    ) -> io::Result<PacketRing> {
        // SAFETY: a call without pointers. With protocol 0 the socket receives nothing before the ring exists.
        let socket = unsafe { libc::socket(libc::AF_PACKET, libc::SOCK_RAW | libc::SOCK_CLOEXEC, 0) };
        if socket < 0 {
            return Err(io::Error::last_os_error());
        }
        // SAFETY: the kernel has just made this descriptor for us.
        let socket = unsafe { OwnedFd::from_raw_fd(socket) };
        super::set_option(socket.as_fd(), SOL_PACKET, PACKET_VERSION, TPACKET_V3)?;
        super::set_option(socket.as_fd(), SOL_PACKET, PACKET_VNET_HDR, 1)?;
        attach_filter(socket.as_fd(), filter)?;
        let frame_bytes = 2048;
        let request: [u32; 7] = [
            block_bytes as u32,
            blocks as u32,
            frame_bytes,
            (block_bytes * blocks / frame_bytes as usize) as u32,
            RETIRE_MS,
            0,
            0,
        ];
        // SAFETY: the pointer and length describe `request`, laid out as `tpacket_req3`.
        let result = unsafe {
            libc::setsockopt(
                socket.as_raw_fd(),
                SOL_PACKET,
                PACKET_RX_RING,
                request.as_ptr().cast(),
                size_of_val(&request) as libc::socklen_t,
            )
        };
        if result != 0 {
            return Err(io::Error::last_os_error());
        }
        let memory = MmapOptions::new().len(block_bytes * blocks).map_raw(&socket)?;
        bind(&socket, protocol)?;
        Ok(PacketRing { socket, memory, block_bytes, blocks, block: 0, left: 0, next: 0, ours: false })
    }

    /// The next packet, if one is there. The call after the last packet of a block gives the block back to the kernel.
    pub(crate) fn next(&mut self) -> Option<Packet<'_>> {
        while self.left == 0 {
            if self.ours {
                self.status().store(0, Ordering::Release);
                self.ours = false;
                self.block = (self.block + 1) % self.blocks;
            }
            if self.status().load(Ordering::Acquire) & STATUS_USER == 0 {
                return None;
            }
            self.ours = true;
            let block = self.block_bytes();
            let (packets, first) = (word(block, BLOCK_PACKETS)?, word(block, BLOCK_FIRST)?);
            (self.left, self.next) = (packets, first as usize);
        }
        let start = self.next;
        self.left -= 1;
        let step = self.block_bytes().get(start..).and_then(|packet| word(packet, PACKET_NEXT));
        match step {
            Some(step) if step > 0 || self.left == 0 => self.next = start + step as usize,
            // The offset is invalid, so the rest of the block cannot be read.
            _ => self.left = 0,
        }
        let packet = self.block_bytes().get(start..)?;
        // An unreadable packet is returned without bytes, so that the caller counts it.
        Some(packet_of(packet).unwrap_or(Packet {
            bytes: &[],
            checksum: Checksum::Settled,
            segment_bytes: None,
        }))
    }

    /// The counters since the last call; reading them resets the kernel's counters.
    pub(crate) fn statistics(&self) -> RingStatistics {
        super::option_words::<3>(self.socket.as_fd(), SOL_PACKET, PACKET_STATISTICS)
            .map_or(RingStatistics::default(), |[_, drops, freezes]| RingStatistics { drops, freezes })
    }

    /// Bytes of the blocks that the kernel has passed on and that have not gone back to it.
    pub(crate) fn waiting_bytes(&self) -> u64 {
        let is_ours = |block: &usize| self.status_of(*block).load(Ordering::Relaxed) & STATUS_USER != 0;
        (0..self.blocks).filter(is_ours).count() as u64 * self.block_bytes as u64
    }

    fn status(&self) -> &AtomicU32 {
        self.status_of(self.block)
    }

    fn status_of(&self, block: usize) -> &AtomicU32 {
        debug_assert!(block < self.blocks, "a block of the ring");
        // SAFETY: the block's descriptor lies in the mapping, which lives as long as the borrow; blocks are multiples of a page,
        // so the word is aligned. Kernel and program access it atomically.
        unsafe {
            AtomicU32::from_ptr(self.memory.as_mut_ptr().add(block * self.block_bytes + BLOCK_STATUS).cast())
        }
    }

    /// The bytes of the block that is read.
    fn block_bytes(&self) -> &[u8] {
        debug_assert!(self.ours, "a block is read only while it is ours");
        // SAFETY: the block lies in the mapping. It is ours by its status (loaded with acquire), so the kernel does not write it
        // until `next`, by exclusive borrow, gives it back.
        unsafe {
            std::slice::from_raw_parts(
                self.memory.as_ptr().add(self.block * self.block_bytes),
                self.block_bytes,
            )
        }
    }
}

impl AsFd for PacketRing {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.socket.as_fd()
    }
}

fn word(bytes: &[u8], at: usize) -> Option<u32> {
    Some(u32::from_ne_bytes(*bytes.get(at..)?.first_chunk()?))
}

fn half(bytes: &[u8], at: usize) -> Option<usize> {
    Some(usize::from(u16::from_ne_bytes(*bytes.get(at..)?.first_chunk()?)))
}

fn packet_of(packet: &[u8]) -> Option<Packet<'_>> {
    let (mac, network) = (half(packet, PACKET_MAC)?, half(packet, PACKET_NETWORK)?);
    let (captured, status) = (word(packet, PACKET_CAPTURED)? as usize, word(packet, PACKET_STATUS)?);
    // The captured length counts from the start of the link header.
    let bytes = packet.get(network..mac.checked_add(captured)?)?;
    let offload = packet.get(mac.checked_sub(VNET_BYTES)?.max(PACKET_HEADER_BYTES)..mac)?;
    let segment = half(offload, 4).filter(|segment| *segment > 0);
    let is_segmented = offload.get(1).is_some_and(|kind| kind & 0x7F == SEGMENTED_UDP);
    let is_settled = status & (STATUS_CHECKSUM_NOT_READY | STATUS_CHECKSUM_VALID) != 0;
    Some(Packet {
        bytes,
        checksum: if is_settled { Checksum::Settled } else { Checksum::ToCompute },
        segment_bytes: segment.filter(|_| is_segmented),
    })
}

/// Lets a socket get only what passes a filter.
pub(crate) fn attach_filter(socket: BorrowedFd<'_>, filter: &[libc::sock_filter]) -> io::Result<()> {
    let program = libc::sock_fprog { len: filter.len() as u16, filter: filter.as_ptr().cast_mut() };
    // SAFETY: the program names the borrowed filter with its true length; the kernel copies it and writes nothing.
    let result = unsafe {
        libc::setsockopt(
            socket.as_raw_fd(),
            libc::SOL_SOCKET,
            libc::SO_ATTACH_FILTER,
            (&raw const program).cast(),
            size_of_val(&program) as libc::socklen_t,
        )
    };
    if result == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
}

fn bind(socket: &OwnedFd, protocol: i32) -> io::Result<()> {
    // SAFETY: all-zero is a valid `sockaddr_ll`: plain integers.
    let mut address: libc::sockaddr_ll = unsafe { std::mem::zeroed() };
    address.sll_family = libc::AF_PACKET as u16;
    address.sll_protocol = (protocol as u16).to_be();
    // SAFETY: the pointer and length describe `address`, which is only read.
    let result = unsafe {
        libc::bind(socket.as_raw_fd(), (&raw const address).cast(), size_of_val(&address) as libc::socklen_t)
    };
    if result == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
}
