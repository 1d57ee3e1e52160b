//! The baselines: receive calls with nothing around them.
//!
//! ```text
//!  headers made once ─► recvmsg · recvmmsg ─► bytes received
//! ```

use std::io;
use std::mem::MaybeUninit;
use std::net::UdpSocket;
use std::os::fd::AsRawFd;

/// What the kernel notes beside a message, as much and aligned as the receiver has it.
#[derive(Clone, Copy)]
#[repr(align(8))]
struct ControlBytes([u8; 64]);

/// Receives messages with headers that are made once.
pub(super) struct Bare {
    headers: Box<[libc::mmsghdr]>,
    vectors: Box<[libc::iovec]>,
    controls: Box<[ControlBytes]>,
}

impl Bare {
    pub(super) fn new(messages: usize) -> Bare {
        // SAFETY: `msghdr` is a C structure of pointers and integers; null and 0 are valid for all of them.
        let header: libc::msghdr = unsafe { MaybeUninit::zeroed().assume_init() };
        let none = libc::iovec { iov_base: std::ptr::null_mut(), iov_len: 0 };
        let mut bare = Bare {
            headers: vec![libc::mmsghdr { msg_hdr: header, msg_len: 0 }; messages].into(),
            vectors: vec![none; messages].into(),
            controls: vec![ControlBytes([0; 64]); messages].into(),
        };
        for ((header, vector), control) in
            bare.headers.iter_mut().zip(&mut bare.vectors).zip(&mut bare.controls)
        {
            header.msg_hdr.msg_iov = vector;
            header.msg_hdr.msg_iovlen = 1;
            header.msg_hdr.msg_control = control.0.as_mut_ptr().cast();
        }
        bare
    }

    /// Receives one message at the start of `room`.
    pub(super) fn one(&mut self, socket: &UdpSocket, room: &mut [u8]) -> io::Result<usize> {
        self.vectors[0] = libc::iovec { iov_base: room.as_mut_ptr().cast(), iov_len: room.len() };
        let header = &mut self.headers[0].msg_hdr;
        header.msg_controllen = size_of::<ControlBytes>() as _;
        // SAFETY: the header points at the first vector and control, which are boxed and so have not moved since `new`; the
        // vector points at `room`, which is borrowed mutably, with its true length.
        let length =
            unsafe { libc::recvmsg(socket.as_raw_fd(), header, libc::MSG_DONTWAIT | libc::MSG_TRUNC) };
        if length < 0 { Err(io::Error::last_os_error()) } else { Ok(length as usize) }
    }

    /// Receives up to `count` messages into slots; returns how many, and the bytes of all.
    pub(super) fn many(
        &mut self,
        socket: &UdpSocket,
        room: &mut [u8],
        slot: usize,
        count: usize,
    ) -> io::Result<(usize, usize)> {
        assert!(count <= self.headers.len() && count * slot <= room.len(), "every slot lies in the room");
        let slots = room.chunks_exact_mut(slot.max(1)).take(count);
        for ((header, vector), slot) in self.headers.iter_mut().zip(&mut self.vectors).zip(slots) {
            *vector = libc::iovec { iov_base: slot.as_mut_ptr().cast(), iov_len: slot.len() };
            header.msg_hdr.msg_controllen = size_of::<ControlBytes>() as _;
        }
        // SAFETY: the headers point at boxed vectors and controls, as above, and the first `count` vectors at disjoint slots of
        // `room`, which is borrowed mutably, with their true lengths. No time-out is given.
        let received = unsafe {
            libc::recvmmsg(
                socket.as_raw_fd(),
                self.headers.as_mut_ptr(),
                count as libc::c_uint,
                (libc::MSG_DONTWAIT | libc::MSG_TRUNC) as _,
                std::ptr::null_mut(),
            )
        };
        if received < 0 {
            return Err(io::Error::last_os_error());
        }
        let received = received as usize;
        Ok((received, self.headers[..received].iter().map(|header| header.msg_len as usize).sum()))
    }
}
