//! Programs and maps of the kernel's packet machine (`bpf(2)`), as much as a receiver needs.
//!
//! ```text
//!  instructions ─► checked and loaded ─► descriptor ─ link ─► interface       closing the link's descriptor takes it off
//!  sockets      ─► map of queues      ─► descriptor ─┘ (named by the program)
//! ```
//! Layouts and numbers are those of `linux/bpf.h`. A link belongs to its descriptor: however the process ends, the kernel takes the
//! program off the interface.

use std::ffi::CStr;
use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, FromRawFd, OwnedFd};

const MAP_CREATE: i32 = 0;
const MAP_UPDATE: i32 = 2;
const PROGRAM_LOAD: i32 = 5;
#[cfg(test)]
const PROGRAM_TEST_RUN: i32 = 10;
const LINK_CREATE: i32 = 28;

const MAP_TYPE_XSK: u32 = 17;
const PROGRAM_TYPE_XDP: u32 = 6;
const ATTACH_XDP: u32 = 37;
/// The program takes frames that lie in several parts; it sees the first (Linux 5.18).
const XDP_HAS_FRAGMENTS: u32 = 1 << 5;
const LICENSE: &CStr = c"Dual MIT/GPL";
/// Longest word of the kernel on a program that it refuses.
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

/// Where an XDP program sees packets.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Attachment {
    /// In the driver, before the kernel makes anything of them.
    Native,
    /// Behind the driver, for any interface.
    Generic,
}

/// Words of 4 and 8 bytes as the kernel reads them, filled up with zeros.
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

/// Calls the kernel.
///
/// # Safety
/// Every pointer that `attributes` hold for `command` is valid as `bpf(2)` says: for reading, or of a log or an answer for writing as
/// many bytes as stand beside it.
unsafe fn bpf(command: i32, attributes: &Attributes) -> io::Result<i32> {
    // SAFETY: the pointer and length describe `attributes`; what they point to is promised by the caller.
    let answer = unsafe {
        libc::syscall(libc::SYS_bpf, command, attributes.0.as_ptr(), attributes.0.len() as libc::c_uint)
    };
    if answer < 0 { Err(io::Error::last_os_error()) } else { Ok(answer as i32) }
}

/// As [`bpf`], for commands that answer with a descriptor.
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

/// A map from queues to sockets, empty.
pub(crate) fn socket_map(queues: u32) -> io::Result<OwnedFd> {
    let attributes = Attributes::default().words(&[MAP_TYPE_XSK, 4, 4, queues, 0]);
    // SAFETY: no pointers.
    unsafe { bpf_descriptor(MAP_CREATE, &attributes) }
}

/// Packets of `queue` that a program sends to the map go to `socket` from now on.
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

/// Loads a program for packets on their way in; a refusal says what the kernel's check found.
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
            // No name, no interface of its own, and what it will be attached to.
            .words(&[0, 0, 0, 0, 0, ATTACH_XDP]);
        // SAFETY: program and license are borrowed with their true lengths, and the log is borrowed mutably with its own.
        unsafe { bpf_descriptor(PROGRAM_LOAD, &attributes) }
    };
    let cause = match load(XDP_HAS_FRAGMENTS, &mut []).or_else(|_| load(0, &mut [])) {
        Ok(program) => return Ok(program),
        Err(cause) => cause,
    };
    // A missing privilege and a refused program are answered alike; a refused program has a log.
    let mut log = vec![0; LOG_BYTES];
    let again = load(0, &mut log);
    let said = CStr::from_bytes_until_nul(&log).map(CStr::to_string_lossy).unwrap_or_default();
    match again {
        Err(_) if !said.is_empty() => Err(io::Error::other(format!("{cause}: {said}"))),
        Err(_) => Err(cause),
        Ok(program) => Ok(program),
    }
}

/// Puts a program on an interface, unless there is one already. It stays as long as the link's descriptor is open.
pub(crate) fn attach_xdp(program: &OwnedFd, interface: u32, attachment: Attachment) -> io::Result<OwnedFd> {
    let mode = match attachment {
        Attachment::Generic => 1 << 1,
        Attachment::Native => 1 << 2,
    };
    let attributes = Attributes::default().words(&[word(program.as_fd()), interface, ATTACH_XDP, mode]);
    // SAFETY: no pointers.
    unsafe { bpf_descriptor(LINK_CREATE, &attributes) }
}

/// What a program answers for a frame.
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
