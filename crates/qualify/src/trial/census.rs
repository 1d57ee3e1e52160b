//! What came of each source of a generator elsewhere: which events, in which order, how often. Has no socket and no clock.
//!
//! ```text
//!  label ─┬─ event ─► seen before? in order? ─► SourceCensus
//!         └─ end ───► how many were sent: what is missing is known, and not only guessed from gaps
//! ```
//! Without the end of a source, what is missing behind the last event that came is not known: a bound is given then.

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::Serialize;

use super::payload::Label;

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
    /// Events that did not come; without its end, those before the last that came: there may be more.
    pub missing: u64,
    /// Datagrams of events that had come before.
    pub doubled: u64,
    /// Datagrams that came behind a later event.
    pub out_of_order: u64,
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

    fn census(&self) -> SourceCensus {
        let expected = self.census.sent.unwrap_or(u64::from(self.next));
        SourceCensus { missing: expected.saturating_sub(self.census.received), ..self.census.clone() }
    }
}

/// All sources of one run of a generator.
#[derive(Debug, Default)]
pub struct Census {
    run: Option<u64>,
    sources: BTreeMap<u16, Seen>,
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
            Some(sent) => seen.census.sent = Some(sent),
            None => seen.count(label.event),
        }
    }

    /// Whether every source that was seen has said its end.
    pub fn is_ended(&self) -> bool {
        !self.sources.is_empty() && self.sources.values().all(|seen| seen.census.sent.is_some())
    }

    /// Every source that was seen.
    pub fn sources(&self) -> Vec<SourceCensus> {
        self.sources.values().map(Seen::census).collect()
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

    fn end(source: u16, sent: u64) -> Vec<u8> {
        let mut payload = vec![0; 40];
        Label { run: 7, trial: 0, event: 0, source }.write_end(sent, &mut payload);
        payload
    }

    #[test]
    fn a_lost_end_of_a_burst_is_known_by_what_the_source_says_and_by_nothing_else() {
        let mut census = Census::default();
        for number in [0, 1, 3, 2, 3, 6] {
            census.take(&event(4, number));
        }
        let source = |census: &Census| census.sources()[0].clone();
        let before =
            SourceCensus { source: 4, sent: None, received: 5, missing: 2, doubled: 1, out_of_order: 1 };
        assert_eq!(source(&census), before);
        assert!(!census.is_ended());
        census.take(&end(4, 10));
        assert_eq!(source(&census), SourceCensus { sent: Some(10), missing: 5, ..before });
        assert!(census.is_ended());
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
