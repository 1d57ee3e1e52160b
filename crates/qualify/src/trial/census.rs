//! What came of each source of a generator elsewhere: which events, in which order, how often. Has no socket and no clock.
//!
//! ```text
//!  label ─┬─ event ─► seen before? in order? ─► SourceCensus
//!         └─ end ───► how many were sent: what is missing is known, and not only guessed from gaps
//! ```
//! Without the end of a source, what is missing behind the last event that came is not known: a bound is given then. A source of which
//! nothing came is known by the numbers of the others, and by the ends, which say how many sources there are.

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::Serialize;

use super::payload::{End, Label};

/// Events of one source at most, so that what was seen is remembered in bounded memory: a bit each.
pub const MOST_EVENTS: u32 = 1 << 22;
/// Sources at most.
pub const MOST_SOURCES: u16 = 512;

/// One source.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, JsonSchema)]
pub struct SourceCensus {
    /// Its number, the first of which is 0.
    pub source: u16,
    /// Events that it sent, as it says itself; null where its end did not come.
    pub sent: Option<u64>,
    /// Different events that came.
    pub received: u64,
    /// Events that did not come; without its end, those before the last that came, and where nothing came at all, as many as are known of
    /// another source: there may be more.
    pub missing: u64,
    /// Datagrams of events that had come before.
    pub doubled: u64,
    /// Datagrams that came behind a later event.
    pub out_of_order: u64,
}

impl SourceCensus {
    /// Returns true if nothing came of it, its end not either.
    pub fn is_silent(&self) -> bool {
        self.received == 0 && self.sent.is_none()
    }
}

#[derive(Debug, Default)]
struct Seen {
    census: SourceCensus,
    /// A bit for each event.
    events: Vec<u64>,
    /// One more than the latest event that came.
    next: u32,
}

impl Seen {
    fn count(&mut self, event: u32) {
        let (word, bit) = (event as usize / 64, 1u64 << (event % 64));
        if self.events.len() <= word {
            self.events.resize(word + 1, 0);
        }
        if self.events[word] & bit != 0 {
            self.census.doubled += 1;
            return;
        }
        self.events[word] |= bit;
        self.census.received += 1;
        if event < self.next {
            self.census.out_of_order += 1;
        }
        self.next = self.next.max(event + 1);
    }

    /// Events that are known to have been sent.
    fn expected(&self) -> u64 {
        self.census.sent.unwrap_or(u64::from(self.next))
    }

    fn census(&self) -> SourceCensus {
        let expected = self.expected();
        SourceCensus { missing: expected.saturating_sub(self.census.received), ..self.census.clone() }
    }
}

/// All sources of one run of a generator.
#[derive(Debug, Default)]
pub struct Census {
    run: Option<u64>,
    sources: BTreeMap<u16, Seen>,
    /// How many sources there are, as their ends say; 0 where none does.
    all: u16,
    /// Datagrams of another run, of another program, or beyond what is remembered.
    pub others: u64,
}

impl Census {
    /// Counts a datagram. The first run that is seen is the one that is counted: two generators at one receiver are kept apart.
    pub fn take(&mut self, payload: &[u8]) {
        let label = Label::read(payload);
        let run = self.run;
        let known =
            label.filter(|label| run.is_none_or(|run| run == label.run) && label.source < MOST_SOURCES);
        let Some(label) = known else {
            self.others += 1;
            return;
        };
        let end = label.end(payload);
        if end.is_none() && label.event >= MOST_EVENTS {
            self.others += 1;
            return;
        }
        self.run = Some(label.run);
        let seen = self.sources.entry(label.source).or_default();
        seen.census.source = label.source;
        match end {
            Some(End { sent, sources }) => {
                seen.census.sent = Some(sent);
                // Older generators have other bytes in this place, which are more than any number of sources.
                self.all = self.all.max(if sources <= MOST_SOURCES { sources } else { 0 });
            }
            None => seen.count(label.event),
        }
    }

    /// Whether every source that was seen has said its end.
    pub fn is_ended(&self) -> bool {
        !self.sources.is_empty() && self.sources.values().all(|seen| seen.census.sent.is_some())
    }

    /// Every source, up to the last that is known to be there.
    pub fn sources(&self) -> Vec<SourceCensus> {
        let seen = self.sources.last_key_value().map_or(0, |(last, _)| last + 1);
        // All sources send the same events.
        let missing = self.sources.values().map(Seen::expected).max().unwrap_or(0);
        let of = |source| match self.sources.get(&source) {
            Some(seen) => seen.census(),
            None => SourceCensus { source, missing, ..SourceCensus::default() },
        };
        (0..seen.max(self.all)).map(of).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn event(source: u16, event: u32) -> Vec<u8> {
        let mut payload = vec![0; 40];
        Label { run: 7, trial: 0, event, source }.write(&mut payload);
        payload
    }

    fn end(source: u16, sent: u64, sources: u16) -> Vec<u8> {
        let mut payload = vec![0; 40];
        Label { run: 7, trial: 0, event: 0, source }.write_end(End { sent, sources }, &mut payload);
        payload
    }

    #[test]
    fn a_lost_end_of_a_burst_is_known_by_what_the_source_says_and_by_nothing_else() {
        let mut census = Census::default();
        for number in [0, 1, 3, 2, 3, 6] {
            census.take(&event(0, number));
        }
        let source = |census: &Census| census.sources()[0].clone();
        let before =
            SourceCensus { source: 0, sent: None, received: 5, missing: 2, doubled: 1, out_of_order: 1 };
        assert_eq!(source(&census), before);
        assert!(!census.is_ended());
        census.take(&end(0, 10, 1));
        assert_eq!(source(&census), SourceCensus { sent: Some(10), missing: 5, ..before });
        assert!(census.is_ended());
    }

    #[test]
    fn a_source_of_which_nothing_came_is_missing_with_all_its_events() {
        let missing = |census: &Census| {
            census.sources().iter().map(|source| (source.missing, source.is_silent())).collect::<Vec<_>>()
        };
        let mut census = Census::default();
        for source in [0, 1, 3] {
            (0..10).for_each(|number| census.take(&event(source, number)));
        }
        assert_eq!(missing(&census), [(0, false), (0, false), (10, true), (0, false)]);
        // That there is a last one is known from the ends of the others only.
        [0, 1, 3].into_iter().for_each(|source| census.take(&end(source, 12, 5)));
        assert_eq!(missing(&census), [(2, false), (2, false), (12, true), (2, false), (12, true)]);
        assert!(census.is_ended(), "nothing more comes");
        // An older generator: bytes of its pattern.
        let mut census = Census::default();
        [event(0, 0), end(0, 1, 0x2223)].iter().for_each(|payload| census.take(payload));
        assert_eq!(missing(&census), [(0, false)]);
    }

    #[test]
    fn datagrams_of_others_are_counted_apart_and_take_no_memory() {
        let mut census = Census::default();
        census.take(&event(0, 1));
        let mut other = event(0, 2);
        other[8] ^= 1;
        for payload in [other, b"something else".to_vec(), event(0, MOST_EVENTS), event(MOST_SOURCES, 0)] {
            census.take(&payload);
        }
        assert_eq!((census.others, census.sources().len(), census.sources()[0].received), (4, 1, 1));
    }
}
