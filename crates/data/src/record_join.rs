//! Which scope records of a channel follow each other without a gap.
//!
//! ```text
//!  record: first sample, length, overlap that the board claims ─► RecordJoin ─► Some(n): its first n samples are in the one before
//!                                                                            └► None: it begins a new continuous record
//! ```
//! A board that is triggered again before a record has ended sends records that touch or overlap. Their sample numbers say which do; what
//! the board claims must agree. Where the sample period is not known, nothing is joined: the record before may be missing. No sample is
//! changed or dropped here: whoever reads the records leaves out the samples that they share.

use std::collections::HashMap;

use crate::id::SourceId;

/// One record of one channel.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ScopeRecord {
    /// Number of its first sample, counted from any zero of the source; `None` where the sample period is not known.
    pub start: Option<i64>,
    /// Its samples.
    pub length: u32,
    /// How many of them the board claims to have sent with the record before.
    pub claimed: u32,
    /// Which [part](crate::record_part) of its record it is; 0 of a whole one.
    pub part: u16,
}

/// How many records were joined.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct JoinCounts {
    /// Records that continue the one before.
    pub joined: u64,
    /// Samples that these share with the ones before.
    pub samples_overlapped: u64,
    /// Records whose overlap cannot be: it is more than they hold, or not what their times say. They begin a new continuous record.
    pub refused: u64,
}

/// Finds the records that continue the one before, channel by channel.
#[derive(Clone, Debug, Default)]
pub struct RecordJoin {
    latest: HashMap<(SourceId, u16), ScopeRecord>,
    counts: JoinCounts,
}

impl RecordJoin {
    /// Takes the next record of a channel. Returns how many of its first samples are in the record before, if it continues that one: 0 if
    /// they touch.
    pub fn next(&mut self, source: SourceId, channel: u16, record: ScopeRecord) -> Option<u32> {
        let before = self.latest.insert((source, channel), record)?;
        if record.part > 0 {
            // A board's record is one record however it is divided: it is not counted again.
            return (before.part + 1 == record.part).then_some(0);
        }
        match overlap(&before, &record) {
            Ok(overlapped) => {
                let overlapped = overlapped?;
                self.counts.joined += 1;
                self.counts.samples_overlapped += u64::from(overlapped);
                Some(overlapped)
            }
            Err(Impossible) => {
                self.counts.refused += 1;
                None
            }
        }
    }

    /// A record of this channel is missing: the next one begins anew.
    pub fn interrupt(&mut self, source: SourceId, channel: u16) {
        self.latest.remove(&(source, channel));
    }

    /// Records of any channel may be missing.
    pub fn interrupt_all(&mut self) {
        self.latest.clear();
    }

    /// What was joined so far.
    pub fn counts(&self) -> JoinCounts {
        self.counts
    }
}

/// An overlap that cannot be.
struct Impossible;

/// How many samples two successive records share; `None` where there is a gap between them, or nobody says.
fn overlap(before: &ScopeRecord, record: &ScopeRecord) -> Result<Option<u32>, Impossible> {
    let most = before.length.min(record.length);
    if record.claimed > most {
        return Err(Impossible);
    }
    let by_time = before
        .start
        .zip(record.start)
        .map(|(first, next)| first.saturating_add(i64::from(before.length)).saturating_sub(next));
    match by_time {
        None => Ok(None),
        Some(shared) if shared < 0 && record.claimed == 0 => Ok(None),
        Some(shared) => {
            let shared = u32::try_from(shared).ok().filter(|shared| *shared <= most).ok_or(Impossible)?;
            let agrees = record.claimed == 0 || record.claimed == shared;
            if agrees { Ok(Some(shared)) } else { Err(Impossible) }
        }
    }
}

/// Appends the samples of a record to those of a continuous one, without the first `overlapped`, which are there already.
pub fn append_joined<T: Copy>(continuous: &mut Vec<T>, record: &[T], overlapped: u32) {
    continuous.extend_from_slice(record.get(overlapped as usize..).unwrap_or(&[]));
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const SOURCE: SourceId = SourceId(1);

    fn record(start: i64, length: u32, claimed: u32) -> ScopeRecord {
        ScopeRecord { start: Some(start), length, claimed, part: 0 }
    }

    proptest! {
        /// Records are cut out of one signal, each beginning within or right behind the one before; then they are joined again.
        #[test]
        fn join_is_the_inverse_of_split(
            signal in proptest::collection::vec(any::<u16>(), 1..400),
            cuts in proptest::collection::vec((1..60usize, 0..60usize), 1..40),
            claims in any::<bool>(),
        ) {
            let (mut join, mut whole) = (RecordJoin::default(), Vec::new());
            let (mut before, mut end, mut shared) = (0, 0, 0);
            for (length, back) in cuts {
                // A record does not end in front of the one before, and they share no more than both hold.
                let start = end - back.min(before).min(length);
                let stop = (start + length).min(signal.len());
                if stop < end || stop == start {
                    break;
                }
                let samples = &signal[start..stop];
                let overlap = (end - start) as u32;
                let claimed = if claims { overlap } else { 0 };
                let next = record(start as i64 + 1000, samples.len() as u32, claimed);
                let overlapped = join.next(SOURCE, 3, next);
                prop_assert_eq!(overlapped, (end > 0).then_some(overlap));
                append_joined(&mut whole, samples, overlapped.unwrap_or(0));
                shared += u64::from(overlap);
                (before, end) = (samples.len(), stop);
            }
            prop_assert_eq!(&whole[..], &signal[..end]);
            let counts = join.counts();
            prop_assert_eq!((counts.samples_overlapped, counts.refused), (shared, 0));
        }

        #[test]
        fn whatever_is_claimed_no_more_is_shared_than_both_records_hold(
            records in proptest::collection::vec((proptest::option::of(-50..50i64), 0..20u32, 0..20u32), 0..50),
        ) {
            let (mut join, mut before) = (RecordJoin::default(), None::<ScopeRecord>);
            for (start, length, claimed) in records {
                let next = ScopeRecord { start, length, claimed, part: 0 };
                let overlapped = join.next(SOURCE, 0, next);
                if let Some(overlapped) = overlapped {
                    let before = before.expect("the first record continues none");
                    prop_assert!(overlapped <= length.min(before.length));
                }
                before = Some(next);
            }
        }
    }

    #[test]
    fn a_gap_begins_anew_and_an_impossible_overlap_is_counted() {
        let mut join = RecordJoin::default();
        let mut next = |channel, record| join.next(SOURCE, channel, record);
        assert_eq!(next(0, record(0, 8, 0)), None, "the first");
        assert_eq!(next(0, record(8, 8, 0)), Some(0), "they touch");
        assert_eq!(next(1, record(16, 8, 0)), None, "another channel");
        assert_eq!(next(0, record(12, 8, 4)), Some(4));
        assert_eq!(next(0, record(21, 4, 0)), None, "one sample is missing");
        assert_eq!(next(0, record(22, 4, 7)), None, "more than it holds");
        assert_eq!(next(0, record(23, 4, 2)), None, "its time says 3");
        assert_eq!(next(0, record(30, 4, 2)), None, "it overlaps, and its time says that there is a gap");
        assert_eq!(join.counts(), JoinCounts { joined: 2, samples_overlapped: 4, refused: 3 });
        join.interrupt(SOURCE, 0);
        assert_eq!(join.next(SOURCE, 0, record(34, 4, 0)), None);
        assert_eq!(join.next(SOURCE, 0, record(38, 4, 0)), Some(0));
        join.interrupt_all();
        assert_eq!(join.next(SOURCE, 0, record(42, 4, 0)), None);
        let part = |start, part| ScopeRecord { part, ..record(start, 4, 0) };
        assert_eq!(join.next(SOURCE, 4, part(0, 0)), None);
        assert_eq!(join.next(SOURCE, 4, part(4, 1)), Some(0));
        assert_eq!(join.next(SOURCE, 4, part(12, 3)), None, "a part is missing");
        assert_eq!(join.next(SOURCE, 4, ScopeRecord { start: None, ..part(16, 4) }), Some(0));
        assert_eq!(join.counts().joined, 3, "parts are one record");
        let unknown = ScopeRecord { start: None, ..record(0, 4, 2) };
        assert_eq!([join.next(SOURCE, 2, unknown), join.next(SOURCE, 2, unknown)], [None, None]);
    }
}
