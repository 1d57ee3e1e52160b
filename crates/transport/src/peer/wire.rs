//! What a stream of frames runs over.
//!
//! ```text
//!  pieces ─► Wire::write ─► … ─► Wire::read ─► room in a block
//! ```
//! A connection of TCP is one, a ring of shared memory another. Neither knows messages, neither waits unless asked to.

use std::io::{self, IoSlice};
use std::os::fd::BorrowedFd;
use std::time::Duration;

/// A stream of bytes both ways.
pub(super) trait Wire: Send + 'static {
    /// Takes bytes from the start of the pieces, as many as it can; `WouldBlock` when it can take none now.
    fn write(&mut self, pieces: &[IoSlice<'_>]) -> io::Result<usize>;

    /// Fills the start of `room`; 0 when the other end is gone and nothing is left, `WouldBlock` when nothing is there now.
    fn read(&mut self, room: &mut [u8]) -> io::Result<usize>;

    /// Sleeps until something can be read, or (with `for_room`) written, or for `wait`.
    fn wait(&mut self, for_room: bool, wait: Duration) -> io::Result<()>;

    /// Tells the wire whether bytes wait to be written, so that its descriptor becomes ready when there is room.
    fn want_room(&mut self, wanted: bool) -> io::Result<()>;

    /// Nothing more will be written; reading goes on.
    fn finish(&mut self);

    /// Becomes readable when there is something to do.
    fn descriptor(&self) -> BorrowedFd<'_>;

    /// Bytes of payload that it had to copy in user space, in and out.
    fn copied_bytes(&self) -> u64 {
        0
    }
}
