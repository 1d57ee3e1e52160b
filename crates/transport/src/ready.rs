//! Lets one thread wait for many sources, and says which of them have something to read.
//!
//! ```text
//!  105 receivers ─ add(fd, key) ─► ReadySet ─ wait ─► keys of those that are ready ─► receive with wait 0, each one call
//! ```
//! The set is level-triggered: it reports a source at every wait until the caller has read everything. So a caller may leave
//! some data for later, no source starves another, and none is forgotten. A source whose other end is gone is ready, too:
//! reading it reports the end.

use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::time::Duration;

use crate::system::epoll;

/// The most keys that one wait returns. If more are ready, the kernel continues with the others at the next wait.
const MOST_READY: usize = 1024;

/// Waits on many receivers, peers or other descriptors at once.
#[derive(Debug)]
pub struct ReadySet {
    list: OwnedFd,
    events: Vec<libc::epoll_event>,
    keys: Vec<usize>,
    members: usize,
}

impl ReadySet {
    /// An empty set.
    ///
    /// # Errors
    /// When the process has no descriptor left (`ulimit -n`).
    pub fn new() -> io::Result<ReadySet> {
        Ok(ReadySet { list: epoll::create()?, events: Vec::new(), keys: Vec::new(), members: 0 })
    }

    /// Adds a descriptor under a key of the caller's choice, such as an index into a list. Closing a descriptor removes it from
    /// the set, unless it was duplicated.
    ///
    /// # Errors
    /// When it is in the set already, or is one that cannot be waited on, such as a regular file.
    pub fn add(&mut self, descriptor: impl AsFd, key: usize) -> io::Result<()> {
        epoll::add(&self.list, descriptor.as_fd(), key as u64)?;
        self.members += 1;
        let most = self.members.min(MOST_READY);
        if self.events.len() < most {
            self.events.resize(most, libc::epoll_event { events: 0, u64: 0 });
            self.keys.reserve(most);
        }
        Ok(())
    }

    /// Removes a descriptor.
    ///
    /// # Errors
    /// When it is not in the set.
    pub fn remove(&mut self, descriptor: impl AsFd) -> io::Result<()> {
        epoll::remove(&self.list, descriptor.as_fd())?;
        self.members = self.members.saturating_sub(1);
        Ok(())
    }

    /// Waits at most `wait` until something is ready; returns the keys of the ready descriptors, each once. An empty set
    /// sleeps for `wait`.
    ///
    /// # Errors
    /// When the set can no longer be used.
    pub fn wait(&mut self, wait: Duration) -> io::Result<&[usize]> {
        self.keys.clear();
        if self.events.is_empty() {
            std::thread::sleep(wait);
            return Ok(&self.keys);
        }
        let found = epoll::wait(&self.list, &mut self.events, wait)?;
        self.keys.extend(self.events[..found].iter().map(|event| event.u64 as usize));
        Ok(&self.keys)
    }
}

/// A set can be waited on itself: it is ready while one of its members is.
impl AsFd for ReadySet {
    fn as_fd(&self) -> std::os::fd::BorrowedFd<'_> {
        self.list.as_fd()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::net::UdpSocket;
    use std::time::Instant;

    fn pair() -> (UdpSocket, UdpSocket) {
        let receiver = UdpSocket::bind("127.0.0.1:0").expect("loopback");
        let sender = UdpSocket::bind("127.0.0.1:0").expect("loopback");
        sender.connect(receiver.local_addr().expect("bound")).expect("loopback");
        (receiver, sender)
    }

    #[test]
    fn a_ready_socket_is_reported_until_it_is_read() {
        let pairs: Vec<_> = (0..40).map(|_| pair()).collect();
        let mut set = ReadySet::new().expect("a descriptor");
        for (key, (receiver, _)) in pairs.iter().enumerate() {
            set.add(receiver, 100 + key).expect("fresh");
        }
        assert!(set.wait(Duration::ZERO).expect("a set").is_empty());
        for key in [3, 17, 39] {
            pairs[key].1.send(b"x").expect("loopback");
        }
        for _ in 0..2 {
            let mut keys = set.wait(Duration::from_secs(1)).expect("a set").to_vec();
            keys.sort_unstable();
            assert_eq!(keys, [103, 117, 139]);
        }
        pairs[17].0.recv(&mut [0; 8]).expect("there");
        set.remove(&pairs[3].0).expect("in the set");
        assert_eq!(set.wait(Duration::from_secs(1)).expect("a set"), [139]);
        assert!(set.add(&pairs[39].0, 1).is_err(), "it is in the set already");
    }

    #[test]
    fn a_wait_below_a_millisecond_is_not_rounded_down_to_zero() {
        let (receiver, _sender) = pair();
        let mut set = ReadySet::new().expect("a descriptor");
        assert!(set.wait(Duration::from_micros(10)).expect("empty").is_empty());
        set.add(&receiver, 0).expect("fresh");
        let start = Instant::now();
        for _ in 0..10 {
            assert!(set.wait(Duration::from_micros(100)).expect("a set").is_empty());
        }
        assert!(start.elapsed() >= Duration::from_millis(1));
    }
}
