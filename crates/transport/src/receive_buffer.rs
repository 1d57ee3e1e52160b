//! Requests a size for the kernel's receive buffer, reads back the granted size, and describes both.
//!
//! ```text
//!  bytes asked ─► SO_RCVBUFFORCE, else SO_RCVBUF ─► read back ─► ReceiveBuffer ─► a line for the operator
//! ```
//! The kernel silently limits the request to `net.core.rmem_max`, and reports twice the size that it granted (`socket(7)`).

use std::fmt;
use std::io;
use std::os::fd::BorrowedFd;

use crate::system::{option_words, set_option};

/// The size of the receive buffer that a receiver asked for, and the size that the kernel granted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ReceiveBuffer {
    /// Bytes asked for; 0 lets the kernel choose.
    pub asked_bytes: usize,
    /// Bytes granted.
    pub granted_bytes: usize,
    /// Whether privilege (`CAP_NET_ADMIN`) overrode `net.core.rmem_max`.
    pub forced: bool,
}

impl ReceiveBuffer {
    /// Asks for `bytes`, with privilege if the process has it; 0 lets the kernel choose.
    ///
    /// # Errors
    /// When the socket refuses the option; a smaller buffer than asked for is no error.
    pub fn ask(socket: BorrowedFd<'_>, bytes: usize) -> io::Result<ReceiveBuffer> {
        let value = i32::try_from(bytes).unwrap_or(i32::MAX / 2).min(i32::MAX / 2);
        let mut forced = false;
        if bytes > 0 {
            forced = set_option(socket, libc::SOL_SOCKET, libc::SO_RCVBUFFORCE, value).is_ok();
            if !forced {
                set_option(socket, libc::SOL_SOCKET, libc::SO_RCVBUF, value)?;
            }
        }
        let [doubled] = option_words::<1>(socket, libc::SOL_SOCKET, libc::SO_RCVBUF)?;
        Ok(ReceiveBuffer { asked_bytes: bytes, granted_bytes: doubled as usize / 2, forced })
    }

    /// Whether less was granted than asked for.
    pub fn is_short(&self) -> bool {
        self.granted_bytes < self.asked_bytes
    }
}

impl fmt::Display for ReceiveBuffer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let granted = Size(self.granted_bytes);
        let asked = self.asked_bytes;
        if self.is_short() {
            write!(
                f,
                "receive buffer {granted} of {} asked for: `sysctl -w net.core.rmem_max={asked}` lifts the limit \
                 (4 MiB is 7 ms of one board at 40 M hits/s)",
                Size(asked)
            )
        } else if asked == 0 {
            write!(f, "receive buffer {granted}, chosen by the kernel")
        } else {
            write!(
                f,
                "receive buffer {granted}{}",
                if self.forced { ", beyond rmem_max by privilege" } else { "" }
            )
        }
    }
}

/// Bytes in the largest unit that keeps them whole, or else with one decimal.
pub(crate) struct Size(pub(crate) usize);

impl fmt::Display for Size {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let bytes = self.0;
        match bytes {
            _ if bytes >= 1 << 20 && bytes.is_multiple_of(1 << 20) => write!(f, "{} MiB", bytes >> 20),
            _ if bytes >= 1 << 20 => write!(f, "{:.1} MiB", bytes as f64 / f64::from(1 << 20)),
            _ if bytes >= 1 << 10 => write!(f, "{:.0} KiB", bytes as f64 / 1024.0),
            _ => write!(f, "{bytes} B"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::fd::AsFd;

    #[test]
    fn the_granted_size_is_read_back() {
        let socket = std::net::UdpSocket::bind("127.0.0.1:0").expect("loopback");
        let buffer = ReceiveBuffer::ask(socket.as_fd(), 100 << 10).expect("a socket");
        assert_eq!(buffer.granted_bytes, 100 << 10);
        assert!(!buffer.is_short());
    }

    #[test]
    fn a_short_grant_names_the_setting() {
        let text =
            ReceiveBuffer { asked_bytes: 64 << 20, granted_bytes: 208 << 10, forced: false }.to_string();
        assert_eq!(
            text,
            "receive buffer 208 KiB of 64 MiB asked for: `sysctl -w net.core.rmem_max=67108864` lifts the limit \
             (4 MiB is 7 ms of one board at 40 M hits/s)"
        );
    }
}
