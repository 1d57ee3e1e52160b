//! A board's own counters of one channel over a run: extended over wraps, through restarts, checked record by record.
//!
//! ```text
//!  record ─► waits until all hits before it have come ─► step from the record before ─┬─► Covered
//!                                                                                     └─► a jump, counted
//! ```
//! A record says how many hits the board had saved at its time. So its counts are compared with the hits of the channel before that time: what
//! the board has saved and what has come are known for the same stretch of time, exactly.

use thalweg_data::Statistics;

use super::EDGE_HITS;

/// Time by which dead time may be ahead of real time: a board may count that of a pulse at its beginning. Picoseconds.
const AHEAD_PS: i64 = 1_000_000_000;

/// The counts of one channel over the time that its board's records cover.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Covered {
    /// Real time, picoseconds.
    pub real_ps: i64,
    /// Dead time in it, picoseconds.
    pub dead_ps: i64,
    /// Hits that the board has saved.
    pub saved: u64,
    /// Hits that have come.
    pub hits: u64,
}

/// A record, and the hits of its channel that came before it.
#[derive(Clone, Copy, Debug)]
struct Passed {
    record: Statistics,
    hits: u64,
}

/// Follows the counters of one channel.
#[derive(Clone, Debug, Default)]
pub struct BoardCounters {
    /// The first record whose time the hits have not reached, and the newest record.
    waiting: Option<Statistics>,
    newest: Option<Statistics>,
    last: Option<Passed>,
    covered: Option<Covered>,
    jumps: u64,
}

impl BoardCounters {
    /// Takes the board's next record.
    pub fn arrive(&mut self, record: Statistics) {
        self.newest = Some(record);
        self.waiting.get_or_insert(record);
    }

    /// The time up to which hits must have come for the record that waits, picoseconds.
    pub fn due_ps(&self) -> Option<i64> {
        self.waiting.map(|record| record.real_time_ps)
    }

    /// All hits before [`BoardCounters::due_ps`] have come: so many of the channel since the start of the run.
    pub fn pass(&mut self, hits: u64) {
        let Some(record) = self.waiting.take() else { return };
        self.waiting = self.newest.take().filter(|newest| *newest != record);
        self.newest = self.waiting;
        let now = Passed { record, hits };
        // A start that was seen is a record of zeros; behind another one, it is not known which hits came since then.
        let at_start =
            Passed { record: Statistics { since_start_ps: 0, dead_time_ps: 0, saved: 0, ..record }, hits: 0 };
        let before = self.last.replace(now).or((record.start == 1).then_some(at_start));
        let Some(before) = before.filter(|before| before.record.start == record.start) else { return };
        match step(&before, &now) {
            Some(step) => self.covered.get_or_insert_default().add(&step),
            None => self.jumps += 1,
        }
    }

    /// What the records cover so far; `None` before the first two, of which a start that was seen is one.
    pub fn covered(&self) -> Option<Covered> {
        self.covered
    }

    /// Records that cannot follow the one before them.
    pub fn jumps(&self) -> u64 {
        self.jumps
    }
}

impl Covered {
    fn add(&mut self, step: &Covered) {
        self.real_ps = self.real_ps.saturating_add(step.real_ps);
        self.dead_ps = self.dead_ps.saturating_add(step.dead_ps);
        self.saved = self.saved.saturating_add(step.saved);
        self.hits += step.hits;
    }
}

/// What was counted between two records of one start; `None` where the second cannot follow the first.
fn step(before: &Passed, now: &Passed) -> Option<Covered> {
    let (first, second) = (&before.record, &now.record);
    let real_ps = second.since_start_ps.checked_sub(first.since_start_ps)?;
    let dead_ps = second.dead_time_ps.checked_sub(first.dead_time_ps)?;
    let fits = real_ps > 0 && (0..=real_ps.saturating_add(AHEAD_PS)).contains(&dead_ps);
    let hits = now.hits.checked_sub(before.hits).filter(|_| fits)?;
    let saved = grown(first.saved, second.saved, second.counter_bits, hits.saturating_sub(EDGE_HITS))?;
    // A counter that went back looks like one that went ahead by most of its range.
    let lost = saved.saturating_sub(hits);
    if second.counter_bits < 64 && lost >> (second.counter_bits.max(1) - 1) > 0 {
        return None;
    }
    Some(Covered { real_ps, dead_ps, saved, hits })
}

/// By how much a counter of so many bits has grown, if by `least` or more: the smallest number that it can be.
fn grown(before: u64, now: u64, bits: u8, least: u64) -> Option<u64> {
    let range = 1u128 << bits.min(64);
    let shown = u128::from(now.wrapping_sub(before)) % range;
    let missing = u128::from(least).saturating_sub(shown).div_ceil(range);
    u64::try_from(shown + missing * range).ok()
}
