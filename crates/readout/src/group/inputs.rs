//! The links of one readout thread, whoever orders what they give: those that are there, or the recording of those that were.

use std::time::Duration;

use thalweg_data::{Counters, Framed, Framing, LinkId, SourceError, SourceId};

use super::{News, Take, Turn};

/// Links that one thread reads in turns. What is written here already holds for a recording: nothing happens to its links, its order was
/// decided in the run, and nothing of it waits in the system.
pub trait Inputs<O: Framed>: Send {
    /// Waits at most `wait`, receives from every link that has something, frames it, and hands it over.
    ///
    /// # Errors
    /// When they are of no further use; what happens to one link is reported by [`Inputs::news`].
    fn turn(&mut self, wait: Duration, taker: &mut dyn Take<O>) -> Result<Turn, SourceError>;

    /// Returns what happened to links in the last turn.
    fn news(&self) -> &[News] {
        &[]
    }

    /// Opens nothing again from now on: the run is stopping, and boards may close.
    fn close(&mut self) {}

    /// Ends the run for every link that has not ended: what is unfinished is lost now, and each is given the end.
    fn finish(&mut self, taker: &mut dyn Take<O>);

    /// The same for one link, before the others, where these do not depend on it.
    fn finish_link(&mut self, link: LinkId, taker: &mut dyn Take<O>) {
        let _ = (link, taker);
    }

    /// Number of links.
    fn count(&self) -> usize;

    /// Links from which something may still come.
    fn open_links(&self) -> usize;

    /// Stops reading a link: back-pressure. A stream's sender waits; datagrams gather in the kernel's buffer.
    fn pause(&mut self, link: LinkId) {
        let _ = link;
    }

    /// Reads a link again that was paused.
    fn resume(&mut self, link: LinkId) {
        let _ = link;
    }

    /// Whether a link is held now because none of its blocks is free; of a recording see [`Inputs::is_starved`].
    fn is_held(&self, link: LinkId) -> bool {
        let _ = link;
        false
    }

    /// Whether every link that may still give something waits for a block, and no time passes that would give one back.
    fn is_starved(&self) -> bool {
        false
    }

    /// What a link has received, in datagrams and bytes, over all its connections: the counters of the stage `receive`.
    fn receive_counters(&self, link: LinkId) -> Counters;

    /// Bytes that wait to be received over a link; 0 of one that is not open.
    fn waiting_bytes(&self, link: LinkId) -> u64 {
        let _ = link;
        0
    }

    /// Throws away what waits in the sockets, and counts it as abandoned: the run has ended, and nobody will take it.
    ///
    /// # Errors
    /// When a socket is of no further use.
    fn abandon(&mut self) -> Result<(), SourceError> {
        Ok(())
    }

    /// How many units of a source lay in the gaps of its recording, by its numbers on both sides of each.
    fn lost_by_recording(&self, link: LinkId, source: SourceId) -> u64 {
        let _ = (link, source);
        0
    }

    /// Counters beside the ledger: those of the link's present connection, or of its last one.
    fn drop_counters(&self, link: LinkId) -> Vec<(&'static str, u64)>;

    /// What of a link's file could not be read, and where, in words; `None` when all of it was, and of what is no file.
    fn unreadable(&self, link: LinkId) -> Option<String>;

    /// A link's framing, for its counters: the counters of the stage `unpack`.
    fn framing(&self, link: LinkId) -> &dyn Framing<Output = O>;

    /// One line on a link's socket.
    fn description(&self, link: LinkId) -> String;
}

impl<O: Framed> dyn Inputs<O> + '_ {
    /// The links, in order.
    pub fn links(&self) -> impl Iterator<Item = LinkId> + use<O> {
        (0..self.count()).map(LinkId::from_index)
    }
}
