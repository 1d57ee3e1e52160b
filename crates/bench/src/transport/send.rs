//! The baselines of sending: `send` and `sendmmsg` with nothing around them.
//!
//! ```text
//!  one payload, headers made once ─► K sockets: send each │ sendmmsg of 64 to each ─► datagrams that the kernel has taken
//! ```

use std::io;
use std::mem::MaybeUninit;
use std::net::{SocketAddr, UdpSocket};
use std::os::fd::AsRawFd;

/// Datagrams per `sendmmsg`.
const MESSAGES: usize = 64;

/// Sockets to one receiver that send the same bytes over and over.
pub struct BareSender {
    sockets: Vec<UdpSocket>,
    payload: Box<[u8]>,
    /// Every header has the whole payload.
    vector: Box<libc::iovec>,
    headers: Box<[libc::mmsghdr]>,
}

impl BareSender {
    /// A socket for each address.
    ///
    /// # Errors
    /// When an address is not this host's, or the receiver cannot be reached.
    pub fn open(addresses: &[SocketAddr], to: SocketAddr, payload_bytes: usize) -> io::Result<BareSender> {
        let socket = |address: &SocketAddr| {
            let socket = UdpSocket::bind(address)?;
            socket.connect(to)?;
            socket.set_nonblocking(true)?;
            Ok(socket)
        };
        let sockets = addresses.iter().map(socket).collect::<io::Result<Vec<_>>>()?;
        let mut payload = vec![0; payload_bytes].into_boxed_slice();
        let mut vector =
            Box::new(libc::iovec { iov_base: payload.as_mut_ptr().cast(), iov_len: payload.len() });
        // SAFETY: `msghdr` is a C structure of pointers and integers; null and 0 are valid for all of them.
        let mut header: libc::msghdr = unsafe { MaybeUninit::zeroed().assume_init() };
        header.msg_iov = &raw mut *vector;
        header.msg_iovlen = 1;
        let headers = vec![libc::mmsghdr { msg_hdr: header, msg_len: 0 }; MESSAGES].into();
        Ok(BareSender { sockets, payload, vector, headers })
    }

    /// Sends one datagram from each socket; returns how many the kernel has taken.
    pub fn one_each(&mut self) -> u64 {
        self.sockets.iter().map(|socket| u64::from(socket.send(&self.payload).is_ok())).sum()
    }

    /// Sends `count` datagrams from each socket, 64 per `sendmmsg`, one socket after the other; returns how many the kernel has
    /// taken.
    pub fn many_each(&mut self, count: usize) -> u64 {
        debug_assert!(self.vector.iov_len == self.payload.len(), "the vector is the payload");
        let (mut taken, mut left) = (0, count);
        while left > 0 {
            let messages = left.min(MESSAGES);
            left -= messages;
            for socket in &self.sockets {
                // SAFETY: the headers point at the boxed vector, and the vector at the boxed payload, neither of which moves while
                // `self` lives; sendmmsg reads them and writes `msg_len` alone.
                let sent = unsafe {
                    libc::sendmmsg(
                        socket.as_raw_fd(),
                        self.headers.as_mut_ptr(),
                        messages as libc::c_uint,
                        libc::MSG_NOSIGNAL as _,
                    )
                };
                taken += u64::try_from(sent).unwrap_or(0);
            }
        }
        taken
    }
}
