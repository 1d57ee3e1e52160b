//! The kernel's list of descriptors to wait on (`epoll(7)`).
//!
//! ```text
//!  descriptor, key ─► epoll_ctl      wait ─► epoll_pwait2 ─► keys of the ready descriptors
//! ```

use std::io;
use std::os::fd::{AsRawFd, BorrowedFd, FromRawFd, OwnedFd};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

/// Whether the kernel lacks `epoll_pwait2` (before 5.11): waits are then rounded up to whole milliseconds.
static WHOLE_MILLISECONDS: AtomicBool = AtomicBool::new(false);

/// A new, empty list.
pub(crate) fn create() -> io::Result<OwnedFd> {
    // SAFETY: a call without pointers.
    let list = unsafe { libc::epoll_create1(libc::EPOLL_CLOEXEC) };
    if list < 0 {
        return Err(io::Error::last_os_error());
    }
    // SAFETY: the kernel has just made this descriptor for us; nothing else uses it.
    Ok(unsafe { OwnedFd::from_raw_fd(list) })
}

/// Adds a descriptor; a wait reports `key` while there is something to read from it, or its other end is gone.
pub(crate) fn add(list: &OwnedFd, descriptor: BorrowedFd<'_>, key: u64) -> io::Result<()> {
    let mut event = libc::epoll_event { events: (libc::EPOLLIN | libc::EPOLLRDHUP) as u32, u64: key };
    // SAFETY: the event lives on this stack frame through the call, which only reads it.
    let result = unsafe {
        libc::epoll_ctl(list.as_raw_fd(), libc::EPOLL_CTL_ADD, descriptor.as_raw_fd(), &raw mut event)
    };
    if result == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
}

/// Changes when a wait reports a member: when it is readable, or with `for_write` when it is readable or writable.
pub(crate) fn set_interest(
    list: &OwnedFd,
    descriptor: BorrowedFd<'_>,
    key: u64,
    for_write: bool,
) -> io::Result<()> {
    let write = if for_write { libc::EPOLLOUT } else { 0 };
    let mut event = libc::epoll_event { events: (libc::EPOLLIN | libc::EPOLLRDHUP | write) as u32, u64: key };
    // SAFETY: as in `add`.
    let result = unsafe {
        libc::epoll_ctl(list.as_raw_fd(), libc::EPOLL_CTL_MOD, descriptor.as_raw_fd(), &raw mut event)
    };
    if result == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
}

/// Removes a descriptor.
pub(crate) fn remove(list: &OwnedFd, descriptor: BorrowedFd<'_>) -> io::Result<()> {
    // SAFETY: no pointer is given; deleting takes none since Linux 2.6.9.
    let result = unsafe {
        libc::epoll_ctl(list.as_raw_fd(), libc::EPOLL_CTL_DEL, descriptor.as_raw_fd(), std::ptr::null_mut())
    };
    if result == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
}

/// Waits until something is ready, fills `events` from its start, and returns how many. A signal ends the wait with 0.
pub(crate) fn wait(list: &OwnedFd, events: &mut [libc::epoll_event], wait: Duration) -> io::Result<usize> {
    let most = events.len().min(i32::MAX as usize) as i32;
    let mut found = -1;
    if !WHOLE_MILLISECONDS.load(Ordering::Relaxed) {
        let timeout = libc::timespec {
            tv_sec: wait.as_secs().min(i32::MAX as u64) as libc::time_t,
            tv_nsec: wait.subsec_nanos() as _,
        };
        // SAFETY: `events` is borrowed mutably, with its true length; the time-out lives on this stack frame (64-bit
        // Linux has one layout of it, which is the kernel's); no signal mask.
        found = unsafe {
            libc::syscall(
                libc::SYS_epoll_pwait2,
                list.as_raw_fd(),
                events.as_mut_ptr(),
                most,
                &raw const timeout,
                std::ptr::null::<libc::sigset_t>(),
                0usize,
            )
        } as i32;
        if found < 0 && io::Error::last_os_error().raw_os_error() == Some(libc::ENOSYS) {
            WHOLE_MILLISECONDS.store(true, Ordering::Relaxed);
        }
    }
    if WHOLE_MILLISECONDS.load(Ordering::Relaxed) {
        let milliseconds = wait.as_nanos().div_ceil(1_000_000).min(i32::MAX as u128) as i32;
        // SAFETY: as above.
        found = unsafe { libc::epoll_wait(list.as_raw_fd(), events.as_mut_ptr(), most, milliseconds) };
    }
    match found {
        0.. => Ok(found as usize),
        _ => match io::Error::last_os_error() {
            interrupted if interrupted.kind() == io::ErrorKind::Interrupted => Ok(0),
            failed => Err(failed),
        },
    }
}
