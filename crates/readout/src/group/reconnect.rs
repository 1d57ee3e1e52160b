//! Opening connections again, beside the thread that reads the others.
//!
//! ```text
//!  group ─ ask(link) ─► one thread: connect, with its own time-out ─► outcome ─► group
//! ```
//! The thread is started when the first link is gone, and ends with the group: a run in which no board fails has none. Links
//! are tried one after the other, each link at most once at a time.

use std::sync::mpsc::{Receiver, Sender, channel};

use thalweg_data::{Source, SourceError};

use super::Reopen;

/// The outcome of an attempt.
pub(super) struct Attempted {
    pub(super) key: usize,
    pub(super) reopen: Reopen,
    pub(super) result: Result<Box<dyn Source>, SourceError>,
}

type Attempt = (usize, Reopen);

/// Opens connections on a thread of its own.
#[derive(Default)]
pub(super) struct Reconnector {
    running: Option<(Sender<Attempt>, Receiver<Attempted>)>,
}

impl Reconnector {
    /// Has a link opened. At most one attempt per link is under way, which bounds the queue.
    pub(super) fn ask(&mut self, key: usize, reopen: Reopen) {
        let (attempts, _) = self.running.get_or_insert_with(start);
        // It fails only when the thread could not be started: the link then stays away.
        let _refused = attempts.send((key, reopen));
    }

    /// An attempt that has come to its end, if any.
    pub(super) fn outcome(&mut self) -> Option<Attempted> {
        self.running.as_ref()?.1.try_recv().ok()
    }
}

fn start() -> (Sender<Attempt>, Receiver<Attempted>) {
    let (ask, asked) = channel::<Attempt>();
    let (results, received) = channel();
    let work = move || {
        // Both ends go with the group; an attempt under way ends by its own time-out.
        for (key, mut reopen) in asked {
            let result = reopen();
            if results.send(Attempted { key, reopen, result }).is_err() {
                return;
            }
        }
    };
    if let Err(cause) = std::thread::Builder::new().name("reconnect".to_owned()).spawn(work) {
        tracing::warn!(%cause, "no thread to connect boards again with");
    }
    (ask, received)
}
