//! The receive queues of an interface with their sockets, and the program that fills them: opened and closed together.
//!
//! ```text
//!  address ─► interface ─► program attached, native else generic ─► a socket per queue ─► map ─► frames, queue by queue
//! ```
//! While a queue has no socket in the map, the program leaves its frames to the kernel.

use std::io;
use std::net::{SocketAddr, UdpSocket};
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};
use std::time::{Duration, Instant};

use super::program::{Ours, program};
use crate::TransportError;
use crate::receive_buffer::Size;
use crate::system::bpf::{self, Attachment, XdpLink};
use crate::system::interface::Interface;
use crate::system::xdp_socket::{HEADROOM_BYTES, XdpSocket, XdpStatistics};
use crate::udp::UdpReceiverSettings;

/// The capabilities that programs and AF_XDP sockets need.
const RIGHTS: &str = "cap_net_admin,cap_net_raw,cap_bpf";
pub(super) const ETHERNET_BYTES: usize = 14;
/// Possible sizes of a chunk, bytes; the larger one is the kernel's maximum.
const CHUNK_BYTES: [usize; 2] = [2048, 4096];
/// Fewest and most chunks per queue.
const CHUNKS: (usize, usize) = (256, 1 << 17);

/// How long to wait until the kernel has removed a closed socket from its queue. It does so in the background, one at a time with every
/// other change of an interface on the host.
const LAST_SOCKET: Duration = Duration::from_secs(10);

/// A received frame.
#[derive(Debug)]
pub(super) enum Frame<'a> {
    /// The frame, in the one chunk that the kernel or the card wrote.
    Whole(&'a [u8]),
    /// The frame had several chunks; so many bytes from its IP header on have been copied into the caller's memory.
    Gathered(usize),
    /// The frame does not fit the caller's memory, or its end is missing; so many bytes are lost.
    Lost(usize),
}

/// The receive queues of one interface, and the program that selects frames for them.
pub(super) struct Queues {
    /// Dropping it removes the program; fields are dropped in order, so that happens before the sockets close.
    _link: XdpLink,
    _map: OwnedFd,
    sockets: Vec<XdpSocket>,
    /// Index of the queue that is read.
    turn: usize,
    interface: Interface,
    attachment: Attachment,
    chunk_bytes: usize,
    chunks: usize,
}

impl Queues {
    /// Attaches the program to the interface that has our address, and opens a socket for each of its queues. `socket` is the one
    /// that holds the port.
    pub(super) fn open(
        settings: &UdpReceiverSettings,
        local: SocketAddr,
        socket: &UdpSocket,
    ) -> Result<Queues, TransportError> {
        let place = format!("udp://{local}");
        let interface = interface_of(&place, local)?;
        let refused = |call| {
            let (place, interface) = (place.clone(), interface.name.clone());
            move |cause| refused(place, interface, call, cause)
        };
        let queues = interface.receive_queues(socket);
        let (chunk_bytes, chunks) = chunks(settings, local.is_ipv6(), queues);
        let map = bpf::socket_map(queues).map_err(refused("bpf(BPF_MAP_CREATE)"))?;
        let ours = Ours { hardware: interface.hardware, local, datagram_bytes: settings.datagram_bytes };
        let program =
            bpf::load_xdp(&program(&ours, map.as_raw_fd())).map_err(refused("bpf(BPF_PROG_LOAD)"))?;
        let (link, attachment) =
            attach(&program, interface.index).map_err(refused("bpf(BPF_LINK_CREATE)"))?;
        let mut sockets = Vec::new();
        for queue in 0..queues {
            let copy = attachment == Attachment::Generic;
            let opened = open_when_free(interface.index, queue, (chunks as u32, chunk_bytes), copy)
                .map_err(refused("an AF_XDP socket"))?;
            fits(settings.datagram_bytes, local.is_ipv6(), (chunk_bytes, opened.mode().several_chunks))?;
            bpf::map_socket(&map, queue, opened.as_fd()).map_err(refused("bpf(BPF_MAP_UPDATE_ELEM)"))?;
            sockets.push(opened);
        }
        Ok(Queues { _link: link, _map: map, sockets, turn: 0, interface, attachment, chunk_bytes, chunks })
    }

    /// The next frame of the current queue, or if it has none, of the next queue that has one. A frame of several chunks is copied
    /// into `memory`.
    pub(super) fn next(&mut self, memory: &mut [u8]) -> Option<Frame<'_>> {
        let queues = self.sockets.len();
        let (ahead, goes_on) = (0..queues).find_map(|ahead| {
            let socket = &mut self.sockets[(self.turn + ahead) % queues];
            socket.peek().map(|goes_on| (ahead, goes_on))
        })?;
        self.turn = (self.turn + ahead) % queues;
        let socket = &mut self.sockets[self.turn];
        if goes_on {
            Some(gather(socket, memory))
        } else {
            socket.next().map(|chunk| Frame::Whole(chunk.bytes))
        }
    }

    /// Moves on to the next queue, so that a busy one does not starve the others.
    pub(super) fn next_queue(&mut self) {
        self.turn = (self.turn + 1) % self.sockets.len();
    }

    /// The descriptors of all sockets, to wait for frames.
    pub(super) fn descriptors(&self) -> impl Iterator<Item = BorrowedFd<'_>> {
        self.sockets.iter().map(AsFd::as_fd)
    }

    /// Bytes in chunks that wait to be read.
    pub(super) fn waiting_bytes(&self) -> u64 {
        self.sockets.iter().map(XdpSocket::waiting_bytes).sum()
    }

    /// Bytes of all chunks.
    pub(super) fn memory_bytes(&self) -> usize {
        self.sockets.len() * self.chunks * self.chunk_bytes
    }

    /// The kernel's counters, summed over all queues.
    pub(super) fn statistics(&self) -> XdpStatistics {
        let add = |sum: XdpStatistics, each: XdpStatistics| XdpStatistics {
            dropped: sum.dropped + each.dropped,
            ring_full: sum.ring_full + each.ring_full,
            invalid: sum.invalid + each.invalid,
            fill_empty: sum.fill_empty + each.fill_empty,
        };
        self.sockets.iter().map(XdpSocket::statistics).fold(XdpStatistics::default(), add)
    }

    /// One line about interface, program and memory.
    pub(super) fn description(&self) -> String {
        let attachment = match self.attachment {
            Attachment::Native => "native",
            Attachment::Generic => "generic",
        };
        let zero_copy = self.sockets.iter().all(|socket| socket.mode().zero_copy);
        format!(
            "AF_XDP at {}, {attachment} program, {} queue{}, {}, {} in chunks of {} bytes",
            self.interface.name,
            self.sockets.len(),
            if self.sockets.len() == 1 { "" } else { "s" },
            if zero_copy { "zero-copy" } else { "copied by the kernel" },
            Size(self.memory_bytes()),
            self.chunk_bytes,
        )
    }
}

/// Joins the chunks of a frame in `memory`, from its IP header on.
fn gather<'a>(socket: &mut XdpSocket, memory: &mut [u8]) -> Frame<'a> {
    let (mut length, mut skip, mut goes_on, mut fits) = (0, ETHERNET_BYTES, true, true);
    while goes_on {
        let Some(chunk) = socket.next() else { return Frame::Lost(length) };
        goes_on = chunk.goes_on;
        let bytes = chunk.bytes.get(skip..).unwrap_or_default();
        skip = 0;
        match memory.get_mut(length..length + bytes.len()) {
            Some(to) => to.copy_from_slice(bytes),
            None => fits = false,
        }
        length += bytes.len();
    }
    if fits { Frame::Gathered(length) } else { Frame::Lost(length) }
}

fn interface_of(place: &str, local: SocketAddr) -> Result<Interface, TransportError> {
    let advice = "its program runs on one interface; write the address of that interface, one of `ip addr`, into the url";
    if local.ip().is_unspecified() || local.ip().is_multicast() {
        return Err(TransportError::Settings(format!(
            "`backend = \"xdp\"` cannot receive at {}: {advice}",
            local.ip()
        )));
    }
    let found = Interface::of(local.ip()).map_err(|cause| TransportError::System {
        place: place.to_owned(),
        call: "getifaddrs",
        cause,
    })?;
    found.ok_or_else(|| {
        TransportError::Settings(format!(
            "`backend = \"xdp\"` finds no interface with the address {}: {advice}",
            local.ip()
        ))
    })
}

/// Attaches the program to the driver, or if the driver cannot run it, behind the driver.
fn attach(program: &OwnedFd, interface: u32) -> io::Result<(XdpLink, Attachment)> {
    let attach = |attachment| bpf::attach_xdp(program, interface, attachment).map(|link| (link, attachment));
    attach(Attachment::Native).or_else(|cause| match cause.raw_os_error() {
        Some(libc::EBUSY | libc::EEXIST | libc::EPERM | libc::EACCES) => Err(cause),
        _ => attach(Attachment::Generic),
    })
}

/// Opens the socket of a queue. The kernel removes a closed socket from its queue a moment later, so a new run may have to wait for
/// that of the run before.
fn open_when_free(interface: u32, queue: u32, memory: (u32, usize), copy: bool) -> io::Result<XdpSocket> {
    let until = Instant::now() + LAST_SOCKET;
    loop {
        match XdpSocket::open(interface, queue, memory, copy) {
            Err(cause) if cause.raw_os_error() == Some(libc::EBUSY) && Instant::now() < until => {
                std::thread::sleep(Duration::from_millis(1));
            }
            opened => return opened,
        }
    }
}

fn header_bytes(is_ipv6: bool) -> usize {
    ETHERNET_BYTES + if is_ipv6 { 48 } else { 28 }
}

/// Bytes per chunk, and chunks per queue, a power of two: at most the receive buffer asked for, but at least the minimum.
fn chunks(settings: &UdpReceiverSettings, is_ipv6: bool, queues: u32) -> (usize, usize) {
    let [small, large] = CHUNK_BYTES;
    let frame = HEADROOM_BYTES + header_bytes(is_ipv6) + settings.datagram_bytes;
    let chunk_bytes = if frame <= small { small } else { large };
    let wanted = if settings.receive_buffer_bytes == 0 { 16 << 20 } else { settings.receive_buffer_bytes };
    let each = (wanted / queues as usize / chunk_bytes).clamp(CHUNKS.0, CHUNKS.1);
    (chunk_bytes, 1 << each.ilog2())
}

/// Refuses datagrams whose frames are longer than a chunk, if the kernel cannot split a frame over several chunks.
fn fits(
    datagram_bytes: usize,
    is_ipv6: bool,
    (chunk_bytes, several_chunks): (usize, bool),
) -> Result<(), TransportError> {
    let most = chunk_bytes - HEADROOM_BYTES - header_bytes(is_ipv6);
    if several_chunks || datagram_bytes <= most {
        return Ok(());
    }
    Err(TransportError::Settings(format!(
        "`datagram_bytes` is {datagram_bytes}; `backend = \"xdp\"` takes up to {most} here, since frames of several chunks need Linux 6.6: lower `datagram_bytes`, or use \"ring\" or \"auto\""
    )))
}

fn refused(place: String, interface: String, call: &'static str, cause: io::Error) -> TransportError {
    match cause.raw_os_error() {
        Some(libc::EPERM | libc::EACCES) => {
            TransportError::Privilege { place, backend: "xdp", rights: RIGHTS }
        }
        Some(libc::EBUSY | libc::EEXIST) => TransportError::InterfaceTaken { place, interface },
        Some(libc::ENOBUFS) => TransportError::Settings("the kernel cannot lock enough memory for `backend = \"xdp\"`: raise `ulimit -l`, add CAP_IPC_LOCK, or lower `receive_buffer_bytes`".to_owned()),
        _ => TransportError::System { place, call, cause },
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn settings(datagram_bytes: usize, receive_buffer_bytes: usize) -> UdpReceiverSettings {
        let bind = "127.0.0.1:0".parse().expect("an address");
        UdpReceiverSettings { receive_buffer_bytes, ..UdpReceiverSettings::new(bind, datagram_bytes) }
    }

    #[test]
    fn chunks_hold_frames_and_use_no_more_memory_than_was_asked_for() {
        assert_eq!(chunks(&settings(1024, 64 << 20), false, 1), (2048, 32768));
        assert_eq!(chunks(&settings(1750, 64 << 20), false, 1), (2048, 32768));
        assert_eq!(chunks(&settings(1751, 64 << 20), false, 1), (4096, 16384));
        assert_eq!(chunks(&settings(1750, 64 << 20), true, 3), (4096, 4096));
        assert_eq!(chunks(&settings(8972, 0), false, 1), (4096, 4096));
        assert_eq!(chunks(&settings(8972, 1), false, 16), (4096, 256));
    }

    #[test]
    fn datagrams_longer_than_a_chunk_are_refused_only_on_old_kernels() {
        assert!(fits(8972, false, (4096, true)).is_ok());
        assert!(fits(3798, false, (4096, false)).is_ok());
        let refused = fits(3799, false, (4096, false)).expect_err("too long").to_string();
        assert!(refused.contains("takes up to 3798 here") && refused.contains("Linux 6.6"), "{refused}");
    }

    #[test]
    fn refusals_say_what_to_do() {
        let text = |errno| {
            let cause = io::Error::from_raw_os_error(errno);
            refused("udp://a".to_owned(), "eth7".to_owned(), "bind", cause).to_string()
        };
        assert!(text(libc::EPERM).contains("CAP_NET_ADMIN, CAP_NET_RAW, CAP_BPF"), "{}", text(libc::EPERM));
        assert!(text(libc::EBUSY).contains("`ip link show eth7`"), "{}", text(libc::EBUSY));
        assert!(text(libc::ENOBUFS).contains("ulimit -l"), "{}", text(libc::ENOBUFS));
        assert!(text(libc::ENODEV).contains("bind failed"), "{}", text(libc::ENODEV));
        let refused = interface_of("udp://0.0.0.0:1", "0.0.0.0:1".parse().expect("an address"));
        assert!(refused.expect_err("no interface").to_string().contains("one of `ip addr`"));
    }
}
