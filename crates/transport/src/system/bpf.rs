//! BPF programs and maps (`bpf(2)`), as far as an AF_XDP receiver needs them.
//!
//! ```text
//!  instructions ─► verified and loaded ─► descriptor ─ link ─► interface      dropping the link removes the program
//!  sockets      ─► map of queues       ─► descriptor ─┘ (named by the program)
//! ```
//! Layouts and numbers are those of `linux/bpf.h`. A link lives as long as its descriptors: when the process ends in any way, the
//! kernel removes the program from the interface.

use std::ffi::CStr;
use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, FromRawFd, OwnedFd};

const MAP_CREATE: i32 = 0;
const MAP_UPDATE: i32 = 2;
const PROGRAM_LOAD: i32 = 5;
#[cfg(test)]
const PROGRAM_TEST_RUN: i32 = 10;
const LINK_CREATE: i32 = 28;
const LINK_DETACH: i32 = 34;

const MAP_TYPE_XSK: u32 = 17;
const PROGRAM_TYPE_XDP: u32 = 6;
const ATTACH_XDP: u32 = 37;
/// The program accepts frames of several buffers, and sees the first of them (Linux 5.18).
const XDP_HAS_FRAGMENTS: u32 = 1 << 5;
const LICENSE: &CStr = c"Dual MIT/GPL";
/// Bytes for the verifier's log about a program that the kernel refuses.
const LOG_BYTES: usize = 16 << 10;

/// One instruction.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(C)]
pub(crate) struct Instruction {
    pub(crate) code: u8,
    /// Destination in the low half, source in the high one.
    pub(crate) registers: u8,
    pub(crate) offset: i16,
    pub(crate) immediate: i32,
}

/// Where an XDP program runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Attachment {
    /// In the driver, before the kernel allocates a packet buffer.
    Native,
    /// Behind the driver; works for any interface.
    Generic,
}

/// The attributes of a `bpf` call: words of 4 and 8 bytes; the kernel takes missing ones as zero.
#[derive(Default)]
struct Attributes(Vec<u8>);

impl Attributes {
    fn words(mut self, words: &[u32]) -> Attributes {
        words.iter().for_each(|word| self.0.extend(word.to_ne_bytes()));
        self
    }

    fn pointer<T>(mut self, to: *const T) -> Attributes {
        self.0.extend((to.addr() as u64).to_ne_bytes());
        self
    }
}

/// Calls `bpf(2)`.
///
/// # Safety
/// Every pointer in `attributes` is valid as `bpf(2)` requires for `command`: for reading, or for writing the number of bytes given
/// beside it.
unsafe fn bpf(command: i32, attributes: &Attributes) -> io::Result<i32> {
    // SAFETY: the pointer and length describe `attributes`; what they point to is promised by the caller.
    let answer = unsafe {
        libc::syscall(libc::SYS_bpf, command, attributes.0.as_ptr(), attributes.0.len() as libc::c_uint)
    };
    if answer < 0 { Err(io::Error::last_os_error()) } else { Ok(answer as i32) }
}

/// Calls `bpf(2)` for a command that returns a descriptor.
///
/// # Safety
/// As for [`bpf`].
unsafe fn bpf_descriptor(command: i32, attributes: &Attributes) -> io::Result<OwnedFd> {
    // SAFETY: promised by the caller.
    let descriptor = unsafe { bpf(command, attributes) }?;
    // SAFETY: the kernel has just made this descriptor for us.
    Ok(unsafe { OwnedFd::from_raw_fd(descriptor) })
}

fn word(descriptor: BorrowedFd<'_>) -> u32 {
    descriptor.as_raw_fd() as u32
}

/// An empty map from queue to socket.
pub(crate) fn socket_map(queues: u32) -> io::Result<OwnedFd> {
    let attributes = Attributes::default().words(&[MAP_TYPE_XSK, 4, 4, queues, 0]);
    // SAFETY: no pointers.
    unsafe { bpf_descriptor(MAP_CREATE, &attributes) }
}

/// Sets the socket of a queue: packets of `queue` that a program redirects to the map then go to `socket`.
pub(crate) fn map_socket(map: &OwnedFd, queue: u32, socket: BorrowedFd<'_>) -> io::Result<()> {
    let value = word(socket);
    let attributes = Attributes::default()
        .words(&[word(map.as_fd()), 0])
        .pointer(&raw const queue)
        .pointer(&raw const value)
        .words(&[0, 0]);
    // SAFETY: key and value of the map are 4 bytes each, and these words live through the call.
    unsafe { bpf(MAP_UPDATE, &attributes) }.map(drop)
}

/// Loads an XDP program; the error of a refused program contains the verifier's log.
pub(crate) fn load_xdp(program: &[Instruction]) -> io::Result<OwnedFd> {
    let load = |flags, log: &mut [u8]| {
        let (level, size) = if log.is_empty() { (0, 0) } else { (1, log.len() as u32) };
        let log = if log.is_empty() { std::ptr::null() } else { log.as_mut_ptr().cast_const() };
        let attributes = Attributes::default()
            .words(&[PROGRAM_TYPE_XDP, program.len() as u32])
            .pointer(program.as_ptr())
            .pointer(LICENSE.as_ptr())
            .words(&[level, size])
            .pointer(log)
            .words(&[0, flags])
            // No name, no interface (for offload), and the expected attachment type.
            .words(&[0, 0, 0, 0, 0, ATTACH_XDP]);
        // SAFETY: program and license are borrowed with their true lengths, and the log is borrowed mutably with its own.
        unsafe { bpf_descriptor(PROGRAM_LOAD, &attributes) }
    };
    let cause = match load(XDP_HAS_FRAGMENTS, &mut []).or_else(|_| load(0, &mut [])) {
        Ok(program) => return Ok(program),
        Err(cause) => cause,
    };
    // The error can be the same for a missing privilege and for a refused program, but only the latter has a log.
    let mut log = vec![0; LOG_BYTES];
    let again = load(0, &mut log);
    let text = CStr::from_bytes_until_nul(&log).map(CStr::to_string_lossy).unwrap_or_default();
    match again {
        Err(_) if !text.is_empty() => Err(io::Error::other(format!("{cause}: {text}"))),
        Err(_) => Err(cause),
        Ok(program) => Ok(program),
    }
}

/// A program at an interface.
///
/// Dropping it removes the program at once. Closing the descriptor alone would not: while this process starts another one, that one has
/// copies of all descriptors until it executes its program.
#[derive(Debug)]
pub(crate) struct XdpLink(OwnedFd);

impl Drop for XdpLink {
    fn drop(&mut self) {
        // SAFETY: no pointers. Before Linux 5.9 there is no such command, and closing the descriptor has to do.
        let _closed_anyway =
            unsafe { bpf(LINK_DETACH, &Attributes::default().words(&[word(self.0.as_fd())])) };
    }
}

/// Attaches a program to an interface that has none.
pub(crate) fn attach_xdp(program: &OwnedFd, interface: u32, attachment: Attachment) -> io::Result<XdpLink> {
    let mode = match attachment {
        Attachment::Generic => 1 << 1,
        Attachment::Native => 1 << 2,
    };
    let attributes = Attributes::default().words(&[word(program.as_fd()), interface, ATTACH_XDP, mode]);
    // SAFETY: no pointers.
    unsafe { bpf_descriptor(LINK_CREATE, &attributes) }.map(XdpLink)
}

/// Runs a program on a frame, and returns its return value.
#[cfg(test)]
pub(crate) fn run_xdp(program: &OwnedFd, frame: &[u8]) -> io::Result<u32> {
    let mut attributes = Attributes::default()
        .words(&[word(program.as_fd()), 0, frame.len() as u32, 0])
        .pointer(frame.as_ptr())
        .pointer(std::ptr::null::<u8>())
        .words(&[1, 0]);
    // SAFETY: the frame is borrowed with its true length; the kernel writes its answer into the attributes, which are ours alone.
    let done = unsafe {
        libc::syscall(
            libc::SYS_bpf,
            PROGRAM_TEST_RUN,
            attributes.0.as_mut_ptr(),
            attributes.0.len() as libc::c_uint,
        )
    };
    if done < 0 {
        return Err(io::Error::last_os_error());
    }
    let answer = attributes.0[4..].first_chunk().copied().unwrap_or_default();
    Ok(u32::from_ne_bytes(answer))
}
