//! System calls that the standard library does not have, each behind a safe function.
//!
//! ```text
//!  socket, &mut [u8]  ─► recvmsg · recvmmsg ─► lengths, notes, sender
//!  socket, &[&[u8]]   ─► sendmmsg           ─► how many were sent
//!  socket, wait       ─► ppoll              ─► readable or not
//!  cores, priority    ─► sched_set…         ─► the cores of the calling thread
//! ```

pub(crate) mod bpf;
pub(crate) mod epoll;
pub(crate) mod interface;
pub(crate) mod packet_ring;
pub(crate) mod scheduling;
pub(crate) mod shared_memory;
pub(crate) mod xdp_socket;

use std::io;
use std::mem::MaybeUninit;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::os::fd::{AsRawFd, BorrowedFd};
use std::time::Duration;

use crate::control_message::{ControlBytes, Notes, parse, write_segment};

/// Sets an integer socket option.
pub(crate) fn set_option(socket: BorrowedFd<'_>, level: i32, name: i32, value: i32) -> io::Result<()> {
    // SAFETY: the pointer and length describe `value`, which lives through the call.
    let result = unsafe {
        libc::setsockopt(
            socket.as_raw_fd(),
            level,
            name,
            (&raw const value).cast(),
            size_of::<i32>() as libc::socklen_t,
        )
    };
    if result == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
}

/// Reads a socket option of `N` words; words that the kernel does not write are 0.
pub(crate) fn option_words<const N: usize>(
    socket: BorrowedFd<'_>,
    level: i32,
    name: i32,
) -> io::Result<[u32; N]> {
    let mut words = [0u32; N];
    let mut length = size_of_val(&words) as libc::socklen_t;
    // SAFETY: the pointer and length describe `words`; the kernel writes at most `length` bytes, any of which are valid
    // for `u32`.
    let result = unsafe {
        libc::getsockopt(socket.as_raw_fd(), level, name, words.as_mut_ptr().cast(), &raw mut length)
    };
    if result == 0 { Ok(words) } else { Err(io::Error::last_os_error()) }
}

/// Bytes of a stream that can be read without waiting; 0 if the system does not report them.
pub(crate) fn readable_bytes(socket: BorrowedFd<'_>) -> u64 {
    let mut bytes: libc::c_int = 0;
    // SAFETY: the request writes one `int`, and the pointer is to one.
    let result = unsafe { libc::ioctl(socket.as_raw_fd(), libc::FIONREAD, &raw mut bytes) };
    if result == 0 { u64::try_from(bytes).unwrap_or(0) } else { 0 }
}

/// Waits until there is something to read. A signal ends the wait with `false`, so that the caller checks its clock again.
pub(crate) fn wait_readable(socket: BorrowedFd<'_>, wait: Duration) -> io::Result<bool> {
    wait_for(socket, libc::POLLIN, wait)
}

/// Waits until something can be written.
pub(crate) fn wait_writable(socket: BorrowedFd<'_>, wait: Duration) -> io::Result<bool> {
    wait_for(socket, libc::POLLOUT, wait)
}

/// Waits until something can be read, or (with `for_write`) written.
pub(crate) fn wait_either(socket: BorrowedFd<'_>, for_write: bool, wait: Duration) -> io::Result<bool> {
    let write = if for_write { libc::POLLOUT } else { 0 };
    wait_for(socket, libc::POLLIN | write, wait)
}

fn wait_for(socket: BorrowedFd<'_>, events: libc::c_short, wait: Duration) -> io::Result<bool> {
    let mut poll = libc::pollfd { fd: socket.as_raw_fd(), events, revents: 0 };
    let timeout = libc::timespec {
        tv_sec: wait.as_secs().min(i32::MAX as u64) as libc::time_t,
        tv_nsec: wait.subsec_nanos() as _,
    };
    // SAFETY: one `pollfd` and one `timespec`, both on this stack frame; no signal mask.
    let ready = unsafe { libc::ppoll(&raw mut poll, 1, &raw const timeout, std::ptr::null()) };
    match ready {
        0 => Ok(false),
        1.. => Ok(true),
        _ => match io::Error::last_os_error() {
            interrupted if interrupted.kind() == io::ErrorKind::Interrupted => Ok(false),
            failed => Err(failed),
        },
    }
}

/// CPU time that the calling thread has used, for the cost of a receive loop.
pub fn thread_cpu_time() -> Duration {
    cpu_time(libc::CLOCK_THREAD_CPUTIME_ID)
}

/// CPU time that all threads of this process have used.
pub fn process_cpu_time() -> Duration {
    cpu_time(libc::CLOCK_PROCESS_CPUTIME_ID)
}

fn cpu_time(clock: libc::clockid_t) -> Duration {
    let mut time = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: the kernel writes one `timespec` on this stack frame. Both clocks exist on every Linux, so the result is 0.
    unsafe { libc::clock_gettime(clock, &raw mut time) };
    Duration::new(time.tv_sec as u64, time.tv_nsec as u32)
}

/// Length, sender and control messages of a received message.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Message {
    /// The message's length in bytes, even if the buffer was shorter.
    pub(crate) length: usize,
    /// The content of its control messages.
    pub(crate) notes: Notes,
    /// The sender's address, if asked for.
    pub(crate) sender: Option<SocketAddr>,
    /// The sender's position among the expected senders; `DatagramCounters::judge` sets it.
    pub(crate) sender_position: u32,
}

/// Receives one message at the start of `buffer`, or returns `WouldBlock`.
pub(crate) fn receive_message(
    socket: BorrowedFd<'_>,
    buffer: &mut [u8],
    with_sender: bool,
) -> io::Result<Message> {
    let mut control = ControlBytes::EMPTY;
    let mut name = MaybeUninit::<libc::sockaddr_storage>::zeroed();
    let mut vector = libc::iovec { iov_base: buffer.as_mut_ptr().cast(), iov_len: buffer.len() };
    let mut header = empty_header();
    header.msg_iov = &raw mut vector;
    header.msg_iovlen = 1;
    header.msg_control = control.0.as_mut_ptr().cast();
    header.msg_controllen = control.0.len() as _;
    if with_sender {
        header.msg_name = name.as_mut_ptr().cast();
        header.msg_namelen = size_of::<libc::sockaddr_storage>() as libc::socklen_t;
    }
    // SAFETY: `header` points at `vector`, `control` and `name`, which live on this stack frame, and `vector` at `buffer`, which
    // is borrowed mutably; each with its true length. With MSG_TRUNC the kernel returns the message's length and still writes
    // no more than the buffer holds.
    let length =
        unsafe { libc::recvmsg(socket.as_raw_fd(), &raw mut header, libc::MSG_DONTWAIT | libc::MSG_TRUNC) };
    if length < 0 {
        return Err(io::Error::last_os_error());
    }
    let notes = parse(&control.0[..control_length(&header).min(control.0.len())]);
    // SAFETY: all-zero is a valid `sockaddr_storage` (family AF_UNSPEC), and the kernel wrote whole bytes over it.
    let sender = with_sender.then(|| unsafe { name.assume_init() }).and_then(|name| address_of(&name));
    Ok(Message { length: length as usize, notes, sender, sender_position: 0 })
}

/// A message header with nothing in it.
fn empty_header() -> libc::msghdr {
    // SAFETY: `msghdr` is a C structure of pointers and integers; null and 0 are valid for all of them.
    unsafe { MaybeUninit::zeroed().assume_init() }
}

/// How many control bytes the kernel wrote.
#[allow(clippy::unnecessary_cast, reason = "the field is a `u32` where the C library is musl")]
fn control_length(header: &libc::msghdr) -> usize {
    header.msg_controllen as usize
}

fn address_of(name: &libc::sockaddr_storage) -> Option<SocketAddr> {
    match i32::from(name.ss_family) {
        libc::AF_INET => {
            // SAFETY: family AF_INET says that the kernel wrote a `sockaddr_in`, which is smaller than the storage and
            // has no stricter alignment.
            let v4 = unsafe { *(&raw const *name).cast::<libc::sockaddr_in>() };
            let address = Ipv4Addr::from(u32::from_be(v4.sin_addr.s_addr));
            Some(SocketAddr::new(IpAddr::V4(address), u16::from_be(v4.sin_port)))
        }
        libc::AF_INET6 => {
            // SAFETY: as above, for AF_INET6 and `sockaddr_in6`.
            let v6 = unsafe { *(&raw const *name).cast::<libc::sockaddr_in6>() };
            let address = Ipv6Addr::from(v6.sin6_addr.s6_addr).to_canonical();
            Some(SocketAddr::new(address, u16::from_be(v6.sin6_port)))
        }
        _ => None,
    }
}

/// Headers for receiving many messages with one call; reused by every call.
pub(crate) struct ReceiveTable {
    headers: Box<[libc::mmsghdr]>,
    /// Two per message: its slot, and the memory for its end if it does not fit.
    vectors: Box<[[libc::iovec; 2]]>,
    controls: Box<[ControlBytes]>,
    names: Box<[libc::sockaddr_storage]>,
    /// Memory for the ends of messages longer than their slot; not resident until the first such message.
    spill: Box<[u8]>,
    spill_each: usize,
    with_sender: bool,
}

// SAFETY: the pointers in the table are set and used within one call of `receive`, under its exclusive borrow; between
// calls they are never followed. Everything else is plain memory that the table owns.
unsafe impl Send for ReceiveTable {}

impl ReceiveTable {
    /// A table for `messages` messages per call, each of which may be up to `spill_each` bytes longer than its slot.
    pub(crate) fn new(messages: usize, spill_each: usize, with_sender: bool) -> ReceiveTable {
        let none = libc::iovec { iov_base: std::ptr::null_mut(), iov_len: 0 };
        // SAFETY: all-zero is a valid `sockaddr_storage`: family AF_UNSPEC.
        let name: libc::sockaddr_storage = unsafe { MaybeUninit::zeroed().assume_init() };
        ReceiveTable {
            headers: vec![libc::mmsghdr { msg_hdr: empty_header(), msg_len: 0 }; messages].into(),
            vectors: vec![[none; 2]; messages].into(),
            controls: vec![ControlBytes::EMPTY; messages].into(),
            names: vec![name; if with_sender { messages } else { 0 }].into(),
            spill: vec![0; messages * spill_each].into(),
            spill_each,
            with_sender,
        }
    }

    /// The most messages per call.
    pub(crate) fn capacity(&self) -> usize {
        self.headers.len()
    }

    /// Receives waiting messages into the first `count` slots of `buffer`, `slot` bytes each; returns how many messages, or
    /// `WouldBlock`. With a slot of 0 bytes it returns only their lengths, and the messages are discarded.
    pub(crate) fn receive(
        &mut self,
        socket: BorrowedFd<'_>,
        buffer: &mut [u8],
        slot: usize,
        count: usize,
    ) -> io::Result<usize> {
        assert!(count <= self.capacity() && count * slot <= buffer.len(), "every slot lies in the buffer");
        let spill_each = if slot == 0 { 0 } else { self.spill_each };
        for index in 0..count {
            // In bounds, as asserted; the spill is `capacity * self.spill_each` bytes long.
            let slot_start = buffer[index * slot..].as_mut_ptr();
            let spill_start = self.spill[index * spill_each..].as_mut_ptr();
            self.vectors[index] = [
                libc::iovec { iov_base: slot_start.cast(), iov_len: slot },
                libc::iovec { iov_base: spill_start.cast(), iov_len: spill_each },
            ];
            let control = &mut self.controls[index];
            let header = &mut self.headers[index].msg_hdr;
            header.msg_iov = self.vectors[index].as_mut_ptr();
            header.msg_iovlen = if spill_each > 0 { 2 } else { 1 };
            header.msg_control = control.0.as_mut_ptr().cast();
            header.msg_controllen = control.0.len() as _;
            if self.with_sender {
                header.msg_name = (&raw mut self.names[index]).cast();
                header.msg_namelen = size_of::<libc::sockaddr_storage>() as libc::socklen_t;
            }
        }
        // SAFETY: the first `count` headers were just set to point, with true lengths, at memory of this table and at disjoint
        // slots of `buffer`; both are borrowed mutably through the call. No time-out is given.
        let received = unsafe {
            libc::recvmmsg(
                socket.as_raw_fd(),
                self.headers.as_mut_ptr(),
                count as libc::c_uint,
                (libc::MSG_DONTWAIT | libc::MSG_TRUNC) as _,
                std::ptr::null_mut(),
            )
        };
        if received < 0 { Err(io::Error::last_os_error()) } else { Ok(received as usize) }
    }

    /// The message in slot `index` of the last call.
    pub(crate) fn message(&self, index: usize) -> Message {
        let header = &self.headers[index];
        let control = &self.controls[index].0;
        let notes = match control_length(&header.msg_hdr) {
            0 => Notes::default(),
            written => parse(&control[..written.min(control.len())]),
        };
        let sender = self.with_sender.then(|| address_of(&self.names[index])).flatten();
        Message { length: header.msg_len as usize, notes, sender, sender_position: 0 }
    }

    /// The bytes of the message that did not fit in slot `index`.
    pub(crate) fn spilled(&self, index: usize) -> &[u8] {
        &self.spill[index * self.spill_each..][..self.spill_each]
    }
}

/// Headers for sending many messages with one call; reused by every call.
pub(crate) struct SendTable {
    headers: Vec<libc::mmsghdr>,
    vectors: Vec<libc::iovec>,
    controls: Vec<ControlBytes>,
}

// SAFETY: as for `ReceiveTable`: pointers are set and used within one call of `send`.
unsafe impl Send for SendTable {}

/// Datagrams that are sent as one message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Run {
    /// How many datagrams.
    pub(crate) datagrams: usize,
    /// Length of all but the last of them; 0 for a message of one datagram.
    pub(crate) segment_bytes: u16,
}

impl SendTable {
    /// A table for `messages` messages per call.
    pub(crate) fn new(messages: usize) -> SendTable {
        SendTable {
            headers: Vec::with_capacity(messages),
            vectors: Vec::with_capacity(messages),
            controls: vec![ControlBytes::EMPTY; messages],
        }
    }

    /// The most messages per call.
    pub(crate) fn capacity(&self) -> usize {
        self.controls.len()
    }

    /// Sends `runs` of the datagrams, in order; returns how many runs it sent.
    pub(crate) fn send(
        &mut self,
        socket: BorrowedFd<'_>,
        datagrams: &[&[u8]],
        runs: &[Run],
    ) -> io::Result<usize> {
        let total: usize = runs.iter().map(|run| run.datagrams).sum();
        assert!(total <= datagrams.len() && runs.len() <= self.capacity(), "runs are of these datagrams");
        self.headers.clear();
        self.vectors.clear();
        self.vectors.extend(
            datagrams[..total].iter().map(|bytes| libc::iovec {
                iov_base: bytes.as_ptr().cast_mut().cast(),
                iov_len: bytes.len(),
            }),
        );
        let mut first = 0;
        for (run, control) in runs.iter().zip(&mut self.controls) {
            let mut header = empty_header();
            header.msg_iov = self.vectors[first..].as_mut_ptr();
            header.msg_iovlen = run.datagrams as _;
            if run.segment_bytes > 0 {
                header.msg_controllen = write_segment(control, run.segment_bytes) as _;
                header.msg_control = control.0.as_mut_ptr().cast();
            }
            self.headers.push(libc::mmsghdr { msg_hdr: header, msg_len: 0 });
            first += run.datagrams;
        }
        // SAFETY: the headers point, with true lengths, at vectors and controls of this table, which do not move from here to the
        // end of the call, and the vectors at the borrowed datagrams, which sendmmsg only reads.
        let sent = unsafe {
            libc::sendmmsg(
                socket.as_raw_fd(),
                self.headers.as_mut_ptr(),
                self.headers.len() as libc::c_uint,
                libc::MSG_NOSIGNAL as _,
            )
        };
        if sent < 0 { Err(io::Error::last_os_error()) } else { Ok(sent as usize) }
    }
}

/// Whether a call failed only because nothing was there or a signal came: the caller tries again later.
pub(crate) fn is_nothing(cause: &io::Error) -> bool {
    matches!(cause.kind(), io::ErrorKind::WouldBlock | io::ErrorKind::Interrupted)
}
