//! Where fragments come from: links that are there, or the recording of links that were.

use std::time::Duration;

use thalweg_data::{SourceError, SourceId, Split, Tally};
use thalweg_readout::group::{Each, Group, LinkId, News, Turn};

use super::replayed_links::ReplayedLinks;

/// All links of one thread.
pub(crate) enum Links {
    /// Sockets and files, in the order in which they have something.
    Live(Box<Group>),
    /// A raw recording, in the order of its marks.
    Replayed(ReplayedLinks),
}

impl Links {
    pub(crate) fn turn(&mut self, wait: Duration, each: &mut Each<'_>) -> Result<Turn, SourceError> {
        match self {
            Links::Live(group) => group.turn(wait, each),
            Links::Replayed(links) => links.turn(wait, each),
        }
    }

    /// Whether every link that may still give something waits for a block, and no time passes that would give one back.
    pub(crate) fn is_starved(&self) -> bool {
        match self {
            Links::Live(_) => false,
            Links::Replayed(links) => links.is_starved(),
        }
    }

    /// How many fragments of a source lay in the gaps of its recording, by its trigger numbers on both sides of each.
    pub(crate) fn lost_by_recording(&self, link: LinkId, source: SourceId) -> u64 {
        match self {
            Links::Live(_) => 0,
            Links::Replayed(links) => links.lost_by_recording(link, source),
        }
    }

    pub(crate) fn news(&self) -> &[News] {
        match self {
            Links::Live(group) => group.news(),
            Links::Replayed(_) => &[],
        }
    }

    /// Opens nothing again from now on.
    pub(crate) fn close(&mut self) {
        if let Links::Live(group) = self {
            group.close();
        }
    }

    pub(crate) fn finish(&mut self, each: &mut Each<'_>) {
        match self {
            Links::Live(group) => group.finish(each),
            Links::Replayed(links) => links.finish(each),
        }
    }

    pub(crate) fn open_links(&self) -> usize {
        match self {
            Links::Live(group) => group.open_links(),
            Links::Replayed(links) => links.open_links(),
        }
    }

    /// Stops reading a link. A recording is read on: its order is what was decided in the run.
    pub(crate) fn pause(&mut self, link: LinkId) {
        if let Links::Live(group) = self {
            group.pause(link);
        }
    }

    pub(crate) fn resume(&mut self, link: LinkId) {
        if let Links::Live(group) = self {
            group.resume(link);
        }
    }

    pub(crate) fn ids(&self) -> impl Iterator<Item = LinkId> + use<> {
        let links = match self {
            Links::Live(group) => group.len(),
            Links::Replayed(links) => links.len(),
        };
        (0..links as u32).map(LinkId)
    }

    pub(crate) fn receive_tally(&self, link: LinkId) -> Tally {
        match self {
            Links::Live(group) => group.receive_tally(link),
            Links::Replayed(links) => links.receive_tally(link),
        }
    }

    /// Bytes that wait to be received over a link; a recording has all of them.
    pub(crate) fn waiting_bytes(&self, link: LinkId) -> u64 {
        match self {
            Links::Live(group) => group.waiting_bytes(link),
            Links::Replayed(_) => 0,
        }
    }

    /// Whether a link is not read because none of its blocks is free; of a recording see [`Links::is_starved`].
    pub(crate) fn is_held(&self, link: LinkId) -> bool {
        match self {
            Links::Live(group) => group.is_held(link),
            Links::Replayed(_) => false,
        }
    }

    /// Throws away what waits in the sockets, and counts it.
    pub(crate) fn abandon(&mut self) -> Result<(), SourceError> {
        match self {
            Links::Live(group) => group.abandon(),
            Links::Replayed(_) => Ok(()),
        }
    }

    /// The kernel's counters of a link; of a recording the bytes that it could not give.
    pub(crate) fn witnesses(&self, link: LinkId) -> Vec<(&'static str, u64)> {
        match self {
            Links::Live(group) => group.witnesses(link),
            Links::Replayed(links) => links.witnesses(link),
        }
    }

    /// What of a link's file could not be read, and where.
    pub(crate) fn unreadable(&self, link: LinkId) -> Option<String> {
        match self {
            Links::Live(group) => group.unreadable(link),
            Links::Replayed(links) => links.unreadable(link),
        }
    }

    pub(crate) fn split(&self, link: LinkId) -> &dyn Split {
        match self {
            Links::Live(group) => group.split(link),
            Links::Replayed(links) => links.split(link),
        }
    }

    pub(crate) fn description(&self, link: LinkId) -> String {
        match self {
            Links::Live(group) => group.description(link),
            Links::Replayed(_) => format!("recorded link {}", link.0),
        }
    }
}
