//! Where fragments come from: links that are there, or the recording of links that were.

use std::time::Duration;

use thalweg_data::{Counters, Fragments, Framing, SourceError, SourceId};
use thalweg_readout::group::{Group, LinkId, News, Take, Turn};

use super::readout::Inputs;
use super::replayed_links::ReplayedLinks;

/// All links of one thread.
pub(crate) enum Links {
    /// Sockets and files, in the order in which they have something.
    Live(Box<Group<Fragments>>),
    /// A raw recording, in the order of its marks.
    Replayed(ReplayedLinks),
}

impl Links {
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

    /// Whether a link is not read because none of its blocks is free; of a recording see [`Links::is_starved`].
    pub(crate) fn is_held(&self, link: LinkId) -> bool {
        match self {
            Links::Live(group) => group.is_held(link),
            Links::Replayed(_) => false,
        }
    }
}

impl Inputs<Fragments> for Links {
    fn turn(&mut self, wait: Duration, taker: &mut impl Take<Fragments>) -> Result<Turn, SourceError> {
        match self {
            Links::Live(group) => group.turn(wait, taker),
            Links::Replayed(links) => links.turn(wait, taker),
        }
    }

    fn news(&self) -> &[News] {
        match self {
            Links::Live(group) => group.news(),
            Links::Replayed(_) => &[],
        }
    }

    fn close(&mut self) {
        if let Links::Live(group) = self {
            group.close();
        }
    }

    fn finish(&mut self, taker: &mut impl Take<Fragments>) {
        match self {
            Links::Live(group) => group.finish(taker),
            Links::Replayed(links) => links.finish(taker),
        }
    }

    fn open_links(&self) -> usize {
        match self {
            Links::Live(group) => group.open_links(),
            Links::Replayed(links) => links.open_links(),
        }
    }

    // A recording is read on: its order is what was decided in the run.
    fn pause(&mut self, link: LinkId) {
        if let Links::Live(group) = self {
            group.pause(link);
        }
    }

    fn resume(&mut self, link: LinkId) {
        if let Links::Live(group) = self {
            group.resume(link);
        }
    }

    fn count(&self) -> usize {
        match self {
            Links::Live(group) => group.len(),
            Links::Replayed(links) => links.len(),
        }
    }

    fn receive_counters(&self, link: LinkId) -> Counters {
        match self {
            Links::Live(group) => group.receive_counters(link),
            Links::Replayed(links) => links.receive_counters(link),
        }
    }

    fn waiting_bytes(&self, link: LinkId) -> u64 {
        match self {
            Links::Live(group) => group.waiting_bytes(link),
            Links::Replayed(_) => 0,
        }
    }

    fn abandon(&mut self) -> Result<(), SourceError> {
        match self {
            Links::Live(group) => group.abandon(),
            Links::Replayed(_) => Ok(()),
        }
    }

    fn witnesses(&self, link: LinkId) -> Vec<(&'static str, u64)> {
        match self {
            Links::Live(group) => group.witnesses(link),
            Links::Replayed(links) => links.witnesses(link),
        }
    }

    fn unreadable(&self, link: LinkId) -> Option<String> {
        match self {
            Links::Live(group) => group.unreadable(link),
            Links::Replayed(links) => links.unreadable(link),
        }
    }

    fn framing(&self, link: LinkId) -> &dyn Framing<Output = Fragments> {
        match self {
            Links::Live(group) => group.framing(link),
            Links::Replayed(links) => links.framing(link),
        }
    }

    fn description(&self, link: LinkId) -> String {
        match self {
            Links::Live(group) => group.description(link),
            Links::Replayed(_) => format!("recorded link {}", link.0),
        }
    }
}
