//! The kernel's socket for whole frames in memory that it shares with us (`AF_XDP`).
//!
//! ```text
//!  chunks ─ fill ring ─► kernel ─ writes frames ─ receive ring ─► XdpSocket::next ─► Fragment      returned at the next call
//! ```
//! One socket serves one queue of one interface. A chunk belongs to the kernel from its entry in the fill ring to its entry in the
//! receive ring. Layouts are those of `linux/if_xdp.h`. Addresses and offsets that the kernel writes are checked before use.

use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, FromRawFd, OwnedFd};
use std::sync::atomic::{AtomicU32, Ordering};

use memmap2::{MmapOptions, MmapRaw};
use thalweg_data::prefetch::prefetch;

/// Bytes that the kernel leaves free before each frame.
pub(crate) const HEADROOM_BYTES: usize = 256;
/// After how many read chunks they go back to the kernel.
const RETURN_CHUNKS: u32 = 64;
/// How many chunks ahead the start of a chunk is prefetched, and how many cache lines of it. For datagrams of 64 bytes, one line
/// has no effect, two lines cut the time to a third, and more make no difference.
const AHEAD_CHUNKS: u32 = 4;
const AHEAD_LINES: usize = 2;
const LINE_BYTES: usize = 64;
/// A descriptor of the receive ring: address, length, options.
const DESCRIPTOR_BYTES: usize = 16;
const ADDRESS_BYTES: usize = 8;
/// Option of a descriptor: the frame continues in the next one (`XDP_PKT_CONTD`).
const GOES_ON: u32 = 1;
/// Entries of the completion ring, which the kernel requires although nothing is sent.
const COMPLETIONS: u32 = 64;

/// The bytes of a frame that are in one chunk.
#[derive(Debug)]
pub(crate) struct Fragment<'a> {
    pub(crate) bytes: &'a [u8],
    /// Whether the frame continues in the next chunk.
    pub(crate) goes_on: bool,
}

/// The kernel's counters since the socket was opened.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct XdpStatistics {
    /// Frames dropped because no chunk was free, or because they were too long.
    pub(crate) dropped: u64,
    /// Frames dropped because the receive ring was full.
    pub(crate) ring_full: u64,
    /// Invalid addresses in the fill ring.
    pub(crate) invalid: u64,
    /// How often the fill ring was empty when the kernel needed a chunk.
    pub(crate) fill_empty: u64,
}

/// The mode in which the kernel has bound a socket.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct SocketMode {
    /// Frames longer than a chunk come in several chunks (Linux 6.6).
    pub(crate) several_chunks: bool,
    /// The card writes into the chunks itself.
    pub(crate) zero_copy: bool,
}

/// The socket of one queue.
pub(crate) struct XdpSocket {
    socket: OwnedFd,
    memory: MmapRaw,
    chunk_bytes: usize,
    receive: Ring,
    fill: Ring,
    /// Entries of the receive ring that have been read.
    read: u32,
    /// Entries of the receive ring that the kernel has written, as last loaded.
    written: u32,
    /// Entries of the receive ring that have gone back to the kernel.
    returned: u32,
    /// Entries of the fill ring that have been written.
    filled: u32,
    /// Address of the chunk that the caller reads.
    held: Option<u64>,
    mode: SocketMode,
}

impl XdpSocket {
    /// A socket for `queue` of an interface, with `chunks` chunks, a power of two. With `copy`, the kernel writes the chunks, otherwise
    /// the card, if its driver can.
    pub(crate) fn open(
        interface: u32,
        queue: u32,
        (chunks, chunk_bytes): (u32, usize),
        copy: bool,
    ) -> io::Result<XdpSocket> {
        debug_assert!(chunks.is_power_of_two(), "the rings have as many entries");
        // SAFETY: a call without pointers.
        let socket = unsafe { libc::socket(libc::AF_XDP, libc::SOCK_RAW | libc::SOCK_CLOEXEC, 0) };
        if socket < 0 {
            return Err(io::Error::last_os_error());
        }
        // SAFETY: the kernel has just made this descriptor for us.
        let socket = unsafe { OwnedFd::from_raw_fd(socket) };
        let memory: MmapRaw = MmapOptions::new().len(chunks as usize * chunk_bytes).map_anon()?.into();
        let register = libc::xdp_umem_reg {
            addr: memory.as_mut_ptr().addr() as u64,
            len: memory.len() as u64,
            chunk_size: chunk_bytes as u32,
            headroom: 0,
            flags: 0,
            tx_metadata_len: 0,
        };
        set(&socket, libc::XDP_UMEM_REG, &register)?;
        set(&socket, libc::XDP_UMEM_FILL_RING, &chunks)?;
        set(&socket, libc::XDP_UMEM_COMPLETION_RING, &COMPLETIONS)?;
        set(&socket, libc::XDP_RX_RING, &chunks)?;
        let offsets = offsets(&socket)?;
        let fill = Ring::map(&socket, libc::XDP_UMEM_PGOFF_FILL_RING, &offsets.fr, chunks, ADDRESS_BYTES)?;
        let receive =
            Ring::map(&socket, libc::XDP_PGOFF_RX_RING as u64, &offsets.rx, chunks, DESCRIPTOR_BYTES)?;
        let several_chunks = bind(&socket, interface, queue, copy)?;
        let mode = SocketMode { several_chunks, zero_copy: is_zero_copy(&socket) };
        let mut opened = XdpSocket {
            socket,
            memory,
            chunk_bytes,
            receive,
            fill,
            read: 0,
            written: 0,
            returned: 0,
            filled: 0,
            held: None,
            mode,
        };
        (0..chunks).for_each(|chunk| opened.hand_over(u64::from(chunk) * chunk_bytes as u64));
        opened.publish();
        Ok(opened)
    }

    /// The mode in which the kernel has bound the socket.
    pub(crate) fn mode(&self) -> SocketMode {
        self.mode
    }

    /// Whether the frame of the next chunk continues behind it; `None` if no chunk is there. The chunk of the last [`XdpSocket::next`]
    /// goes back to the kernel.
    pub(crate) fn peek(&mut self) -> Option<bool> {
        if let Some(chunk) = self.held.take() {
            self.hand_over(chunk);
        }
        if self.read == self.written {
            self.publish();
            self.written = self.receive.producer().load(Ordering::Acquire);
            if self.read == self.written {
                return None;
            }
        } else if self.read.wrapping_sub(self.returned) >= RETURN_CHUNKS {
            self.publish();
        }
        let (_, _, options) = self.receive.descriptor(self.read);
        Some(options & GOES_ON != 0)
    }

    /// The next chunk that the kernel has written, if one is there. It goes back to the kernel at the next call.
    pub(crate) fn next(&mut self) -> Option<Fragment<'_>> {
        self.peek()?;
        let (address, length, options) = self.receive.descriptor(self.read);
        self.read = self.read.wrapping_add(1);
        let goes_on = options & GOES_ON != 0;
        let end = address.checked_add(u64::from(length)).filter(|end| *end <= self.memory.len() as u64);
        // A chunk outside our memory cannot go back; it is returned without bytes, so that the caller counts its frame.
        let Some(_) = end else { return Some(Fragment { bytes: &[], goes_on }) };
        self.prefetch_ahead();
        self.held = Some(address - address % self.chunk_bytes as u64);
        // SAFETY: the bytes lie in the mapping, as was just checked. The chunk is ours: the kernel has put it into the receive ring (seen
        // with acquire) and does not write it until `next`, by exclusive borrow, hands it over.
        let bytes = unsafe {
            std::slice::from_raw_parts(self.memory.as_ptr().add(address as usize), length as usize)
        };
        Some(Fragment { bytes, goes_on })
    }

    /// Prefetches the start of a frame that will be read soon: chunks are too far apart for the processor's own prefetching.
    fn prefetch_ahead(&self) {
        let ahead = self.read.wrapping_add(AHEAD_CHUNKS);
        if self.written.wrapping_sub(ahead) as i32 <= 0 {
            return;
        }
        let (address, _, _) = self.receive.descriptor(ahead);
        let lines = (0..AHEAD_LINES).map(|line| address as usize + line * LINE_BYTES);
        for at in lines.filter(|at| *at < self.memory.len()) {
            // SAFETY: the byte lies in the mapping, as was just checked, in a chunk that is ours as in `next`; it is not read.
            prefetch(unsafe { &*self.memory.as_ptr().add(at) });
        }
    }

    /// Bytes of the chunks that have been written and not read.
    pub(crate) fn waiting_bytes(&self) -> u64 {
        let written = self.receive.producer().load(Ordering::Relaxed);
        u64::from(written.wrapping_sub(self.read)) * self.chunk_bytes as u64
    }

    /// The kernel's counters since the socket was opened.
    pub(crate) fn statistics(&self) -> XdpStatistics {
        // Six 64-bit counters; older kernels write fewer, and the others stay 0.
        let words = super::option_words::<12>(self.socket.as_fd(), libc::SOL_XDP, libc::XDP_STATISTICS)
            .unwrap_or_default();
        let (pairs, _) = words.as_chunks::<2>();
        let counter = |index: usize| {
            let [first, second] = pairs[index].map(u32::to_ne_bytes);
            let mut bytes = [0; 8];
            bytes[..4].copy_from_slice(&first);
            bytes[4..].copy_from_slice(&second);
            u64::from_ne_bytes(bytes)
        };
        XdpStatistics {
            dropped: counter(0),
            invalid: counter(1),
            ring_full: counter(3),
            fill_empty: counter(4),
        }
    }

    /// Puts a chunk into the fill ring, which has an entry for each chunk.
    fn hand_over(&mut self, chunk: u64) {
        self.fill.set_address(self.filled, chunk);
        self.filled = self.filled.wrapping_add(1);
    }

    /// Publishes the read entries and the chunks that were handed over to the kernel.
    fn publish(&mut self) {
        self.returned = self.read;
        self.receive.consumer().store(self.read, Ordering::Release);
        self.fill.producer().store(self.filled, Ordering::Release);
        if self.fill.flags().load(Ordering::Relaxed) & libc::XDP_RING_NEED_WAKEUP != 0 {
            // SAFETY: no memory is given; the call makes a driver that has run out of chunks read the fill ring again.
            let _woken = unsafe {
                libc::recvfrom(
                    self.socket.as_raw_fd(),
                    std::ptr::null_mut(),
                    0,
                    libc::MSG_DONTWAIT,
                    std::ptr::null_mut(),
                    std::ptr::null_mut(),
                )
            };
        }
    }
}

impl AsFd for XdpSocket {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.socket.as_fd()
    }
}

/// One ring of the socket, shared with the kernel.
struct Ring {
    memory: MmapRaw,
    producer: usize,
    consumer: usize,
    flags: usize,
    entries: usize,
    mask: u32,
}

impl Ring {
    fn map(
        socket: &OwnedFd,
        page: u64,
        offsets: &libc::xdp_ring_offset,
        entries: u32,
        entry_bytes: usize,
    ) -> io::Result<Ring> {
        let size = |offset: u64| usize::try_from(offset).map_err(io::Error::other);
        let (producer, consumer, flags) =
            (size(offsets.producer)?, size(offsets.consumer)?, size(offsets.flags)?);
        let first = size(offsets.desc)?;
        let length = first + entries as usize * entry_bytes;
        let is_sound =
            [producer, consumer, flags].iter().all(|at| at % 4 == 0 && at + 4 <= length) && first % 8 == 0;
        if !is_sound {
            return Err(io::Error::other("the kernel returned invalid offsets of a ring"));
        }
        let memory = MmapOptions::new().len(length).offset(page).map_raw(socket)?;
        Ok(Ring { memory, producer, consumer, flags, entries: first, mask: entries - 1 })
    }

    fn producer(&self) -> &AtomicU32 {
        self.word(self.producer)
    }

    fn consumer(&self) -> &AtomicU32 {
        self.word(self.consumer)
    }

    fn flags(&self) -> &AtomicU32 {
        self.word(self.flags)
    }

    fn word(&self, at: usize) -> &AtomicU32 {
        // SAFETY: the word lies in the mapping and is aligned, as was checked in `map`; the mapping lives as long as the borrow. Kernel
        // and program access it atomically.
        unsafe { AtomicU32::from_ptr(self.memory.as_mut_ptr().add(at).cast()) }
    }

    /// Reads an entry of the receive ring: address, length, options.
    fn descriptor(&self, index: u32) -> (u64, u32, u32) {
        let at = self.entries + (index & self.mask) as usize * DESCRIPTOR_BYTES;
        // SAFETY: the entry lies in the mapping, whose length includes all entries, and is aligned to 8. The kernel has written it
        // before it moved the producer (loaded with acquire) and does not write it before we move the consumer.
        let entry = unsafe { self.memory.as_ptr().add(at).cast::<libc::xdp_desc>().read() };
        (entry.addr, entry.len, entry.options)
    }

    /// Writes an entry of the fill ring.
    fn set_address(&self, index: u32, address: u64) {
        let at = self.entries + (index & self.mask) as usize * ADDRESS_BYTES;
        // SAFETY: as above; the entry is ours until we move the producer behind it, since there are as many entries as chunks.
        unsafe { self.memory.as_mut_ptr().add(at).cast::<u64>().write(address) };
    }
}

fn set<T>(socket: &OwnedFd, name: i32, value: &T) -> io::Result<()> {
    // SAFETY: the pointer and length describe `value`, which is only read.
    let result = unsafe {
        libc::setsockopt(
            socket.as_raw_fd(),
            libc::SOL_XDP,
            name,
            (&raw const *value).cast(),
            size_of::<T>() as libc::socklen_t,
        )
    };
    if result == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
}

fn offsets(socket: &OwnedFd) -> io::Result<libc::xdp_mmap_offsets> {
    // SAFETY: all-zero is a valid `xdp_mmap_offsets`: plain integers.
    let mut offsets: libc::xdp_mmap_offsets = unsafe { std::mem::zeroed() };
    let mut length = size_of_val(&offsets) as libc::socklen_t;
    // SAFETY: the pointer and length describe `offsets`; the kernel writes at most `length` bytes.
    let result = unsafe {
        libc::getsockopt(
            socket.as_raw_fd(),
            libc::SOL_XDP,
            libc::XDP_MMAP_OFFSETS,
            (&raw mut offsets).cast(),
            &raw mut length,
        )
    };
    match result {
        0 if length as usize == size_of_val(&offsets) => Ok(offsets),
        // The rings of older kernels have no flags.
        0 => Err(io::Error::new(io::ErrorKind::Unsupported, "this kernel's AF_XDP is older than Linux 5.4")),
        _ => Err(io::Error::last_os_error()),
    }
}

/// Binds the socket; returns whether frames may have several chunks.
fn bind(socket: &OwnedFd, interface: u32, queue: u32, copy: bool) -> io::Result<bool> {
    let bind = |flags: u16| {
        let address = libc::sockaddr_xdp {
            sxdp_family: libc::AF_XDP as u16,
            sxdp_flags: flags | libc::XDP_USE_NEED_WAKEUP | if copy { libc::XDP_COPY } else { 0 },
            sxdp_ifindex: interface,
            sxdp_queue_id: queue,
            sxdp_shared_umem_fd: 0,
        };
        // SAFETY: the pointer and length describe `address`, which is only read.
        let result = unsafe {
            libc::bind(
                socket.as_raw_fd(),
                (&raw const address).cast(),
                size_of_val(&address) as libc::socklen_t,
            )
        };
        if result == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
    };
    match bind(libc::XDP_USE_SG) {
        Ok(()) => Ok(true),
        Err(cause) if cause.raw_os_error() == Some(libc::EINVAL) => bind(0).map(|()| false),
        Err(cause) => Err(cause),
    }
}

fn is_zero_copy(socket: &OwnedFd) -> bool {
    let flags = super::option_words::<1>(socket.as_fd(), libc::SOL_XDP, libc::XDP_OPTIONS);
    flags.is_ok_and(|[flags]| flags & libc::XDP_OPTIONS_ZEROCOPY != 0)
}
