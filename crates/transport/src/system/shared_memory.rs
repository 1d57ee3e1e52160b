//! Memory that two processes share, and passing descriptors between them.
//!
//! ```text
//!  create ─► sealed memory ─ send_with_descriptors ─► other process ─ receive_with_descriptors ─► check ─► SharedRing
//! ```
//! The memory is [sealed](thalweg_data::memory::create_shared) against shrinking, so that no other process can make an access fault.
//! This process trusts nothing that the other one writes into a ring: it checks positions at each use, and copies bytes out before it
//! reads them.

use std::fs::File;
use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, FromRawFd, OwnedFd};
use std::os::unix::net::UnixStream;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, AtomicU64};

use memmap2::MmapRaw;
use thalweg_data::memory::{HugePages, create_shared, reserve};

/// Memory of `bytes` bytes, allocated at once and sealed against a change of its size.
pub(crate) fn create(bytes: usize) -> io::Result<File> {
    let memory = create_shared(bytes, HugePages::Try)?;
    reserve(&memory, bytes)?;
    Ok(memory)
}

/// The user ID of the process at the other end of a socket.
pub(crate) fn other_user(socket: &UnixStream) -> io::Result<u32> {
    let [_process, user, _group] =
        super::option_words::<3>(socket.as_fd(), libc::SOL_SOCKET, libc::SO_PEERCRED)?;
    Ok(user)
}

/// The effective user ID of this process.
pub(crate) fn effective_user() -> u32 {
    // SAFETY: a call without arguments that cannot fail.
    unsafe { libc::geteuid() }
}

/// The most descriptors that are passed at once.
const MOST_DESCRIPTORS: usize = 2;

/// A buffer for a control message with [`MOST_DESCRIPTORS`], aligned as the kernel requires.
#[repr(C, align(16))]
struct DescriptorControl([u8; 32]);

/// Sends bytes together with one or two descriptors; all of these, or an error.
pub(crate) fn send_with_descriptors(
    socket: &UnixStream,
    bytes: &[u8],
    descriptors: &[BorrowedFd<'_>],
) -> io::Result<usize> {
    assert!((1..=MOST_DESCRIPTORS).contains(&descriptors.len()), "one or two descriptors");
    let passed_bytes = size_of_val(descriptors) as u32;
    let mut control_bytes = DescriptorControl([0; 32]);
    let mut vector = libc::iovec { iov_base: bytes.as_ptr().cast_mut().cast(), iov_len: bytes.len() };
    let mut header = super::empty_header();
    header.msg_iov = &raw mut vector;
    header.msg_iovlen = 1;
    header.msg_control = control_bytes.0.as_mut_ptr().cast();
    // SAFETY: the 32 control bytes hold one header and two descriptors (CMSG_SPACE(8) is 24), and are aligned for both; the
    // message header points at the control bytes and the vector, which live on this stack frame; `bytes` is only read.
    let sent = unsafe {
        header.msg_controllen = libc::CMSG_SPACE(passed_bytes) as _;
        let control = libc::CMSG_FIRSTHDR(&raw const header);
        (*control).cmsg_level = libc::SOL_SOCKET;
        (*control).cmsg_type = libc::SCM_RIGHTS;
        (*control).cmsg_len = libc::CMSG_LEN(passed_bytes) as _;
        for (index, descriptor) in descriptors.iter().enumerate() {
            libc::CMSG_DATA(control).cast::<i32>().add(index).write_unaligned(descriptor.as_raw_fd());
        }
        libc::sendmsg(socket.as_raw_fd(), &raw const header, libc::MSG_NOSIGNAL | libc::MSG_DONTWAIT)
    };
    if sent < 0 { Err(io::Error::last_os_error()) } else { Ok(sent as usize) }
}

/// Receives bytes, and the descriptors that came with them: at most `N`, the kernel closes further ones.
pub(crate) fn receive_with_descriptors<const N: usize>(
    socket: &UnixStream,
    buffer: &mut [u8],
) -> io::Result<(usize, [Option<OwnedFd>; N])> {
    const { assert!(N >= 1 && N <= MOST_DESCRIPTORS, "one or two descriptors") };
    let mut control_bytes = DescriptorControl([0; 32]);
    let mut vector = libc::iovec { iov_base: buffer.as_mut_ptr().cast(), iov_len: buffer.len() };
    let mut header = super::empty_header();
    header.msg_iov = &raw mut vector;
    header.msg_iovlen = 1;
    header.msg_control = control_bytes.0.as_mut_ptr().cast();
    // SAFETY: as in `send_with_descriptors`; `buffer` is borrowed mutably. The control length is that of `N` descriptors without the
    // padding behind them, where the kernel would put another one; so it makes at most `N` for us, which are new and only ours. The
    // kernel wrote the control bytes, so their lengths can be trusted.
    unsafe {
        header.msg_controllen = libc::CMSG_LEN((N * size_of::<i32>()) as u32) as _;
        let received =
            libc::recvmsg(socket.as_raw_fd(), &raw mut header, libc::MSG_DONTWAIT | libc::MSG_CMSG_CLOEXEC);
        if received < 0 {
            return Err(io::Error::last_os_error());
        }
        let control = libc::CMSG_FIRSTHDR(&raw const header);
        let are_descriptors = !control.is_null()
            && (*control).cmsg_level == libc::SOL_SOCKET
            && (*control).cmsg_type == libc::SCM_RIGHTS;
        let count = match are_descriptors {
            true => {
                ((*control).cmsg_len as usize).saturating_sub(libc::CMSG_LEN(0) as usize) / size_of::<i32>()
            }
            false => 0,
        };
        let descriptors = std::array::from_fn(|index| {
            let place = libc::CMSG_DATA(control).cast::<i32>().wrapping_add(index);
            (index < count).then(|| OwnedFd::from_raw_fd(place.read_unaligned()))
        });
        Ok((received as usize, descriptors))
    }
}

/// A descriptor that becomes readable when its counter is increased (`eventfd(2)`).
pub(crate) fn event() -> io::Result<File> {
    // SAFETY: a call without pointers.
    let event = unsafe { libc::eventfd(0, libc::EFD_CLOEXEC | libc::EFD_NONBLOCK) };
    if event < 0 {
        return Err(io::Error::last_os_error());
    }
    // SAFETY: the kernel has just made this descriptor for us.
    Ok(unsafe { File::from_raw_fd(event) })
}

/// One direction of a pair of rings: a page of control words, then the bytes.
pub(crate) struct SharedRing {
    memory: Arc<MmapRaw>,
    start: usize,
    capacity: usize,
}

/// Bytes of control words before those of the ring; each word is on its own cache lines.
const CONTROL_BYTES: usize = 4096;
const WRITTEN_AT: usize = 0;
const READ_AT: usize = 256;
const READER_SLEEPS_AT: usize = 512;
const WRITER_SLEEPS_AT: usize = 768;

impl SharedRing {
    /// Bytes of memory for two rings of `capacity` bytes.
    pub(crate) fn pair_bytes(capacity: usize) -> usize {
        2 * (CONTROL_BYTES + capacity)
    }

    /// Both rings of a memory made by [`create`] with [`SharedRing::pair_bytes`]: from its creator, and to it.
    pub(crate) fn pair(memory: &File, capacity: usize) -> io::Result<[SharedRing; 2]> {
        let memory = Arc::new(MmapRaw::map_raw(memory)?);
        if !capacity.is_power_of_two() || memory.len() != SharedRing::pair_bytes(capacity) {
            return Err(io::ErrorKind::InvalidData.into());
        }
        Ok([0, CONTROL_BYTES + capacity].map(|start| SharedRing { memory: memory.clone(), start, capacity }))
    }

    /// Bytes that the ring holds.
    pub(crate) fn capacity(&self) -> usize {
        self.capacity
    }

    /// How many bytes have been written since the start; only the writer changes it.
    pub(crate) fn written(&self) -> &AtomicU64 {
        // SAFETY: the control page lies in the mapping, which lives as long as the borrow, at a multiple of 4096; the word is
        // aligned, and is reached by both processes as an atomic only.
        unsafe { AtomicU64::from_ptr(self.memory.as_mut_ptr().add(self.start + WRITTEN_AT).cast()) }
    }

    /// How many bytes have been read since the start; only the reader changes it.
    pub(crate) fn read(&self) -> &AtomicU64 {
        // SAFETY: as in `written`.
        unsafe { AtomicU64::from_ptr(self.memory.as_mut_ptr().add(self.start + READ_AT).cast()) }
    }

    /// 1 while the reader sleeps and must be woken after a write.
    pub(crate) fn reader_sleeps(&self) -> &AtomicU32 {
        // SAFETY: as in `written`.
        unsafe { AtomicU32::from_ptr(self.memory.as_mut_ptr().add(self.start + READER_SLEEPS_AT).cast()) }
    }

    /// 1 while the writer sleeps and must be woken after a read.
    pub(crate) fn writer_sleeps(&self) -> &AtomicU32 {
        // SAFETY: as in `written`.
        unsafe { AtomicU32::from_ptr(self.memory.as_mut_ptr().add(self.start + WRITER_SLEEPS_AT).cast()) }
    }

    /// The address of position `at`, and how many bytes follow it before the ring's end.
    fn address(&self, at: u64) -> (*mut u8, usize) {
        let offset = (at % self.capacity as u64) as usize;
        // SAFETY: `offset` is below the capacity, and the ring lies in the mapping, as checked in `pair`.
        let address = unsafe { self.memory.as_mut_ptr().add(self.start + CONTROL_BYTES + offset) };
        (address, self.capacity - offset)
    }

    /// Copies `bytes`, at most the capacity, into the ring at position `at`.
    pub(crate) fn copy_in(&self, at: u64, bytes: &[u8]) {
        assert!(bytes.len() <= self.capacity, "the bytes to write fit the ring");
        let (address, before_end) = self.address(at);
        let (first, second) = bytes.split_at(bytes.len().min(before_end));
        // SAFETY: both parts lie inside the ring, by the lengths of the split, and `bytes` is memory of our own. The other process
        // may read these bytes at any time: they are accessed only through raw pointers, and no reference to them is made.
        unsafe {
            address.copy_from_nonoverlapping(first.as_ptr(), first.len());
            self.address(0).0.copy_from_nonoverlapping(second.as_ptr(), second.len());
        }
    }

    /// Fills `buffer`, at most the capacity, from the ring at position `at`.
    pub(crate) fn copy_out(&self, at: u64, buffer: &mut [u8]) {
        assert!(buffer.len() <= self.capacity, "the bytes to read fit the ring");
        let (address, before_end) = self.address(at);
        let (first, second) = buffer.split_at_mut(buffer.len().min(before_end));
        // SAFETY: as in `copy_in`. If the other process breaks the rules and writes now, we get its bytes, which are checked
        // like bytes from a network.
        unsafe {
            address.copy_to_nonoverlapping(first.as_mut_ptr(), first.len());
            self.address(0).0.copy_to_nonoverlapping(second.as_mut_ptr(), second.len());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::{PipeReader, Read, pipe};
    use std::time::Duration;

    /// Sends one byte together with the writing ends of two pipes; returns their reading ends.
    fn send_two_descriptors(socket: &UnixStream) -> [PipeReader; 2] {
        let ((first_end, first), (second_end, second)) = (pipe().expect("a pipe"), pipe().expect("a pipe"));
        assert_eq!(send_with_descriptors(socket, &[7], &[first.as_fd(), second.as_fd()]).expect("sent"), 1);
        [first_end, second_end]
    }

    /// Whether the other ends of both pipes are closed. An open writing end would keep a reader waiting.
    fn are_closed(ends: &mut [PipeReader; 2]) -> [bool; 2] {
        ends.each_mut().map(|end| {
            let is_closed = crate::system::wait_readable(end.as_fd(), Duration::ZERO).expect("a pipe");
            is_closed && end.read(&mut [0; 1]).expect("a pipe") == 0
        })
    }

    #[test]
    fn descriptors_are_passed_in_order() {
        let (near, far) = UnixStream::pair().expect("sockets");
        let mut ends = send_two_descriptors(&near);
        let (bytes, [first, second]) = receive_with_descriptors::<2>(&far, &mut [0; 16]).expect("a message");
        assert_eq!((bytes, first.is_some(), second.is_some()), (1, true, true));
        drop(first);
        assert_eq!(are_closed(&mut ends), [true, false]);
        drop(second);
        assert_eq!(are_closed(&mut ends), [true, true]);
    }

    #[test]
    fn unexpected_descriptors_are_closed() {
        let (near, far) = UnixStream::pair().expect("sockets");
        let mut ends = send_two_descriptors(&near);
        let (bytes, [descriptor]) = receive_with_descriptors::<1>(&far, &mut [0; 16]).expect("a message");
        assert_eq!(bytes, 1);
        drop(descriptor);
        assert_eq!(are_closed(&mut ends), [true, true]);
    }
}
