//! Who has a connection: a bounded number, at most half of them from one address, and the one that was idle longest frees space.
//!
//! ```text
//!  admit ─► Connection ─ request read ─► Answering ─ response sent ─► idle again
//!             └ more than allowed: the oldest idle one is evicted; none idle: refused
//! ```
//! A connection is idle until a request has come whole, and behind its answer. So clients that open connections and say little
//! (slowloris) take places from each other, and from nobody whose request is being answered.

use std::net::IpAddr;
use std::pin::Pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll};
use std::time::Instant;

use axum::body::Bytes;
use hyper::body::{Body, Frame, SizeHint};
use tokio::sync::Notify;

/// An address may always have so many connections: a browser opens six.
const ALWAYS: usize = 8;

/// All connections of a server.
#[derive(Debug)]
pub(crate) struct Connections {
    most: usize,
    entries: Mutex<Vec<Entry>>,
}

#[derive(Debug)]
struct Entry {
    place: Arc<Place>,
    address: IpAddr,
}

/// One connection as the others see it.
#[derive(Debug)]
struct Place {
    /// Since when nothing is answered on it; `None` while something is.
    idle_since: Mutex<Option<Instant>>,
    evicted: Notify,
}

/// A connection that was admitted; its place is given back when this is dropped.
#[derive(Debug)]
pub(crate) struct Connection {
    all: Arc<Connections>,
    place: Arc<Place>,
}

impl Connections {
    /// Room for `most` connections.
    pub fn new(most: usize) -> Arc<Connections> {
        Arc::new(Connections { most, entries: Mutex::default() })
    }

    fn most_of_one_address(&self) -> usize {
        (self.most / 2).max(ALWAYS).min(self.most)
    }

    /// Whether so many are there that an idle one should not stay long.
    pub fn is_crowded(&self) -> bool {
        locked(&self.entries).len() >= self.most_of_one_address()
    }

    /// A place for a connection from `address`; `None` when all that it could have are in use.
    pub fn admit(self: &Arc<Connections>, address: IpAddr) -> Option<Connection> {
        let mut entries = locked(&self.entries);
        let of_address = entries.iter().filter(|entry| entry.address == address).count();
        if of_address >= self.most_of_one_address() {
            evict_oldest(&mut entries, |entry| entry.address == address)?;
        } else if entries.len() >= self.most {
            evict_oldest(&mut entries, |_| true)?;
        }
        let idle_since = Mutex::new(Some(Instant::now()));
        let place = Arc::new(Place { idle_since, evicted: Notify::new() });
        entries.push(Entry { place: place.clone(), address });
        Some(Connection { all: self.clone(), place })
    }
}

fn evict_oldest(entries: &mut Vec<Entry>, of: impl Fn(&Entry) -> bool) -> Option<()> {
    let idle = |entry: &Entry| *locked(&entry.place.idle_since);
    let candidates = entries.iter().enumerate().filter(|(_, entry)| of(entry));
    let aged = candidates.filter_map(|(index, entry)| Some((idle(entry)?, index)));
    let (_, oldest) = aged.min()?;
    entries.swap_remove(oldest).place.evicted.notify_one();
    Some(())
}

impl Connection {
    /// Comes to its end when this connection is to free space for another.
    pub async fn evicted(&self) {
        self.place.evicted.notified().await;
    }

    /// Its requests say here when they have come whole.
    pub fn requests(&self) -> Requests {
        Requests(self.place.clone())
    }
}

impl Drop for Connection {
    fn drop(&mut self) {
        locked(&self.all.entries).retain(|entry| !Arc::ptr_eq(&entry.place, &self.place));
    }
}

/// The requests of one connection.
#[derive(Clone, Debug)]
pub(crate) struct Requests(Arc<Place>);

impl Requests {
    /// A request has come whole: from now on the connection keeps its place.
    pub fn came_whole(&self) {
        *locked(&self.0.idle_since) = None;
    }

    /// The answer to a request; when it is sent, the connection is idle again.
    pub fn answer<B>(&self, body: B) -> Answering<B> {
        Answering { body, requests: self.clone() }
    }
}

/// The body of an answer on its way.
pub(crate) struct Answering<B> {
    body: B,
    requests: Requests,
}

impl<B> Drop for Answering<B> {
    fn drop(&mut self) {
        *locked(&self.requests.0.idle_since) = Some(Instant::now());
    }
}

impl<B: Body<Data = Bytes> + Unpin> Body for Answering<B> {
    type Data = Bytes;
    type Error = B::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, B::Error>>> {
        Pin::new(&mut self.body).poll_frame(context)
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}

fn locked<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn from(last: u8) -> IpAddr {
        IpAddr::from([10, 0, 0, last])
    }

    fn is_evicted(connection: &Connection) -> bool {
        let entries = locked(&connection.all.entries);
        !entries.iter().any(|entry| Arc::ptr_eq(&entry.place, &connection.place))
    }

    #[test]
    fn the_connection_that_was_idle_longest_makes_room() {
        let all = Connections::new(20);
        let of_one: Vec<_> = (0..10).map(|_| all.admit(from(1)).expect("space")).collect();
        let of_others: Vec<_> = (2..12).map(|last| all.admit(from(last)).expect("space")).collect();
        of_one[0].requests().came_whole();
        let _eleventh = all.admit(from(1)).expect("the oldest idle one of this address goes");
        assert!(!is_evicted(&of_one[0]) && is_evicted(&of_one[1]) && !is_evicted(&of_one[2]));
        let _more = all.admit(from(99)).expect("the oldest idle one of all goes");
        assert!(is_evicted(&of_one[2]) && !of_others.iter().any(is_evicted));
    }

    #[test]
    fn connections_that_are_answered_keep_their_places() {
        let all = Connections::new(8);
        let mut busy: Vec<_> = (0..8).map(|_| all.admit(from(1)).expect("space")).collect();
        busy.iter().for_each(|connection| connection.requests().came_whole());
        assert!(all.admit(from(2)).is_none());
        drop(busy[3].requests().answer(()));
        assert!(all.admit(from(2)).is_some() && is_evicted(&busy[3]));
        drop(busy.pop());
        assert!(all.admit(from(2)).is_some(), "a place that is given back is there again");
    }
}
