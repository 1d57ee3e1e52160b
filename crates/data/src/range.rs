//! Records of what a readout unit sent to a builder unit for a range of triggers, and of the outcome.
//!
//! ```text
//!  readout unit: events of triggers 64 to 127, sent, acknowledged ─► RangeRecord ┐
//!  builder unit: the same events, on file ─────────────────────────► RangeRecord ┴─► equal: events, fragments, bytes, digest
//! ```
//! Both ends of a connection keep such records, each of what it knows itself. The digest is a sum over the events. If one event is
//! missing and another one is there twice, the counts may agree, but the digests differ.

use crate::id::UnitId;

/// Sums over the events of a range of triggers, independent of their order.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct EventSum {
    /// Number of events.
    pub events: u64,
    /// Number of their fragments.
    pub fragments: u64,
    /// Number of their bytes.
    pub bytes: u64,
    /// Sum over the events, modulo 2⁶⁴, of a hash of trigger, fragments and bytes.
    pub digest: u64,
}

impl EventSum {
    /// The sum of one event.
    pub fn of(trigger: u64, fragments: u64, bytes: u64) -> EventSum {
        // The bytes of an event are far below 2⁴⁰, so the fields hardly overlap; bits that do are mixed nevertheless.
        let word = trigger.wrapping_mul(0x9e37_79b9_7f4a_7c15) ^ fragments.rotate_left(40) ^ bytes;
        EventSum { events: 1, fragments, bytes, digest: mix(word) }
    }

    /// Adds another sum.
    pub fn add(&mut self, other: EventSum) {
        // Sums are also read from files, which may contain any numbers.
        self.events = self.events.saturating_add(other.events);
        self.fragments = self.fragments.saturating_add(other.fragments);
        self.bytes = self.bytes.saturating_add(other.bytes);
        self.digest = self.digest.wrapping_add(other.digest);
    }

    /// Whether the sum contains no event.
    pub fn is_empty(self) -> bool {
        self.events == 0
    }

    /// Whether `other` can be the sum of the same events or of more.
    pub fn is_within(self, other: EventSum) -> bool {
        self.events <= other.events && self.fragments <= other.fragments && self.bytes <= other.bytes
    }
}

/// The finalizer of SplitMix64 (Steele, Lea, Flood 2014), a hash of a word: each of its bits reaches every bit of the result. 0 stays 0.
pub fn mix(word: u64) -> u64 {
    let word = (word ^ (word >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let word = (word ^ (word >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    word ^ (word >> 31)
}

/// The outcome for the events of a range, as one unit knows it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum RangeFate {
    /// A readout unit received the acknowledgement that they are on file.
    Acknowledged,
    /// A readout unit was informed that the range was written without them.
    Late,
    /// A readout unit released them and does not know whether they are on file: the event manager was replaced, or the run ended.
    Unknown,
    /// A readout unit sent them to a builder unit that was given up afterwards, and sent them to another one as well.
    Replaced,
    /// A builder unit has them on file.
    OnFile,
    /// A builder unit passed them to its files. The range was taken from it, or the run ended, before it knew that they are on file.
    Given,
}

impl RangeFate {
    /// All of them.
    pub const ALL: [RangeFate; 6] = [
        RangeFate::Acknowledged,
        RangeFate::Late,
        RangeFate::Unknown,
        RangeFate::Replaced,
        RangeFate::OnFile,
        RangeFate::Given,
    ];

    /// The name in files.
    pub const fn word(self) -> &'static str {
        match self {
            RangeFate::Acknowledged => "acknowledged",
            RangeFate::Late => "late",
            RangeFate::Unknown => "unknown",
            RangeFate::Replaced => "replaced",
            RangeFate::OnFile => "on_file",
            RangeFate::Given => "given",
        }
    }

    /// The fate with this name.
    pub fn from_word(word: &str) -> Option<RangeFate> {
        RangeFate::ALL.into_iter().find(|fate| fate.word() == word)
    }
}

/// What one unit knows of a range of triggers, or of several joined ranges.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RangeRecord {
    /// First trigger.
    pub first: u64,
    /// Last trigger.
    pub last: u64,
    /// How many ranges: 1, or more if a list was full and ranges were joined. Joined ranges need not be adjacent: other ranges may lie
    /// between the first and the last trigger.
    pub ranges: u64,
    /// How often the range was assigned to another builder unit.
    pub attempt: u8,
    /// The epoch of the event manager when the fate became known; 0 if no epoch was received.
    pub epoch: u64,
    /// The readout unit; `None` for the whole events of a builder unit.
    pub readout: Option<UnitId>,
    /// The builder unit.
    pub builder: UnitId,
    /// The outcome.
    pub fate: RangeFate,
    /// The sum over the readout unit's part of the events or, for whole events, over all of each.
    pub sum: EventSum,
}

impl RangeRecord {
    /// Whether two records can be joined when the list is full.
    fn is_like(&self, other: &RangeRecord) -> bool {
        (self.readout, self.builder, self.attempt, self.fate)
            == (other.readout, other.builder, other.attempt, other.fate)
    }

    /// Adds a record to a list of joined ones, which has one entry per pair of units, attempt and fate.
    pub fn join_to(self, joined: &mut Vec<RangeRecord>) {
        match joined.iter_mut().find(|other| other.is_like(&self)) {
            None => joined.push(self),
            Some(other) => {
                (other.first, other.last) = (other.first.min(self.first), other.last.max(self.last));
                other.ranges = other.ranges.saturating_add(self.ranges);
                other.epoch = other.epoch.max(self.epoch);
                other.sum.add(self.sum);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sum(triggers: &[u64]) -> EventSum {
        let mut sum = EventSum::default();
        triggers.iter().for_each(|trigger| sum.add(EventSum::of(*trigger, 4, 640)));
        sum
    }

    #[test]
    fn the_digest_shows_one_event_missing_and_another_one_doubled() {
        let (whole, wrong) = (sum(&[64, 65, 66]), sum(&[64, 66, 66]));
        assert_eq!((whole.events, whole.bytes), (wrong.events, wrong.bytes));
        assert_ne!(whole.digest, wrong.digest);
        assert_eq!(whole, sum(&[66, 64, 65]), "the order does not matter");
    }

    #[test]
    fn the_digest_shows_fragments_exchanged_between_events() {
        let mut one = EventSum::of(7, 3, 480);
        one.add(EventSum::of(8, 4, 640));
        let mut other = EventSum::of(7, 4, 640);
        other.add(EventSum::of(8, 3, 480));
        assert_eq!((one.fragments, one.bytes), (other.fragments, other.bytes));
        assert_ne!(one, other);
    }

    #[test]
    fn joined_records_add_up() {
        let record = |first: u64, fate| RangeRecord {
            first,
            last: first + 1,
            ranges: 1,
            attempt: 0,
            epoch: first,
            readout: Some(UnitId(0)),
            builder: UnitId(1),
            fate,
            sum: sum(&[first, first + 1]),
        };
        let mut joined = Vec::new();
        for first in [8, 4, 12] {
            record(first, RangeFate::Acknowledged).join_to(&mut joined);
        }
        record(6, RangeFate::Late).join_to(&mut joined);
        assert_eq!(joined.len(), 2);
        let RangeRecord { first, last, ranges, epoch, sum: found, .. } = joined[0];
        assert_eq!((first, last, ranges, epoch), (4, 13, 3, 12));
        assert_eq!(found, sum(&[4, 5, 8, 9, 12, 13]));
    }

    #[test]
    fn every_fate_is_found_by_its_name() {
        for fate in RangeFate::ALL {
            assert_eq!(RangeFate::from_word(fate.word()), Some(fate));
        }
    }
}
