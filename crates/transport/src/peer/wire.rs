//! The byte stream below the frames: a TCP connection, or rings in shared memory.
//!
//! ```text
//!  slices ─► Wire::write ─► … ─► Wire::read ─► space in a block
//! ```
//! A wire knows no messages, and waits only in `wait`.

use std::io::{self, IoSlice};
use std::os::fd::{BorrowedFd, OwnedFd};
use std::time::Duration;

/// Descriptors that were passed together.
pub(super) type Passed = [Option<OwnedFd>; 2];

/// A stream of bytes in both directions.
pub(super) trait Wire: Send + 'static {
    /// Writes bytes from the start of `slices`, as many as it can; `WouldBlock` when it can write none now.
    fn write(&mut self, slices: &[IoSlice<'_>]) -> io::Result<usize>;

    /// Fills the start of `buffer`; 0 when the other end is gone and nothing is left, `WouldBlock` when nothing is there now.
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize>;

    /// Sleeps until something can be read, or (with `for_write`) written, at most for `wait`.
    fn wait(&mut self, for_write: bool, wait: Duration) -> io::Result<()>;

    /// Sets whether bytes wait to be written, so that the descriptor also becomes ready when they can be.
    fn set_write_interest(&mut self, wanted: bool) -> io::Result<()>;

    /// Closes the direction to the other end; reading goes on.
    fn finish(&mut self);

    /// A descriptor that becomes readable when there is something to do.
    fn descriptor(&self) -> BorrowedFd<'_>;

    /// Whether the other end is a process of this host, to which blocks can be lent.
    fn can_lend(&self) -> bool {
        false
    }

    /// Passes one or two descriptors to the other end, all or none: `WouldBlock` when it can pass none now.
    fn pass(&mut self, _descriptors: &[BorrowedFd<'_>]) -> io::Result<()> {
        Err(io::ErrorKind::Unsupported.into())
    }

    /// The descriptors that the other end passed next; `None` when it has passed none.
    fn take_passed(&mut self) -> io::Result<Option<Passed>> {
        Ok(None)
    }

    /// Bytes that it copied in user space, in and out.
    fn copied_bytes(&self) -> u64 {
        0
    }
}
