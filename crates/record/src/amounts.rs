//! How much of each source is in a row group: what a sink counts in, holds, and counts out.
//!
//! ```text
//!  batch ──► Amounts { source 0: hits, … } ──► row group's, held, written: added, given, taken away
//! ```

use thalweg_data::SourceId;

/// Most units that a sink counts.
pub(crate) const MOST_UNITS: usize = 2;

/// Amounts per source, in the sink's units, and events, which are of all sources together.
#[derive(Clone, Debug, Default)]
pub(crate) struct Amounts {
    of_sources: Vec<[u64; MOST_UNITS]>,
    events: u64,
}

impl Amounts {
    /// Adds amounts of a source.
    pub fn add(&mut self, source: SourceId, amounts: [u64; MOST_UNITS]) {
        if self.of_sources.len() <= source.index() {
            self.of_sources.resize(source.index() + 1, [0; MOST_UNITS]);
        }
        for (sum, amount) in self.of_sources[source.index()].iter_mut().zip(amounts) {
            *sum += amount;
        }
    }

    /// The sources that can have something.
    pub fn sources(&self) -> impl Iterator<Item = SourceId> + use<> {
        (0..self.of_sources.len()).map(|index| SourceId(index as u16))
    }

    /// Moves `wanted` of a source's first unit to `to`, or what it has; returns how many.
    pub fn give(&mut self, to: &mut Amounts, source: SourceId, wanted: u64) -> u64 {
        let Some([has, _]) = self.of_sources.get_mut(source.index()) else { return 0 };
        let given = wanted.min(*has);
        *has -= given;
        to.add(source, [given, 0]);
        given
    }

    /// What each source has, by number.
    pub fn of_sources(&self) -> &[[u64; MOST_UNITS]] {
        &self.of_sources
    }

    /// Events, which are of all sources together.
    pub fn events(&self) -> u64 {
        self.events
    }

    /// What a source has of the sink's first unit.
    pub fn first_of(&self, source: SourceId) -> u64 {
        self.of_sources.get(source.index()).map_or(0, |amounts| amounts[0])
    }

    /// Whether there is nothing of any source.
    pub fn is_zero(&self) -> bool {
        self.events == 0 && self.of_sources.iter().flatten().all(|amount| *amount == 0)
    }

    /// Adds events.
    pub fn add_events(&mut self, events: u64) {
        self.events += events;
    }

    /// Adds all of `other`.
    pub fn add_all(&mut self, other: &Amounts) {
        other.each().for_each(|(source, amounts)| self.add(source, amounts));
        self.events += other.events;
    }

    /// Takes all of `other` away; nothing becomes less than zero.
    pub fn take_away(&mut self, other: &Amounts) {
        for (amounts, taken) in self.of_sources.iter_mut().zip(&other.of_sources) {
            amounts.iter_mut().zip(taken).for_each(|(amount, taken)| *amount = amount.saturating_sub(*taken));
        }
        self.events = self.events.saturating_sub(other.events);
    }

    /// Forgets all, keeps the memory.
    pub fn clear(&mut self) {
        self.of_sources.clear();
        self.events = 0;
    }

    fn each(&self) -> impl Iterator<Item = (SourceId, [u64; MOST_UNITS])> {
        self.of_sources.iter().enumerate().map(|(index, amounts)| (SourceId(index as u16), *amounts))
    }
}
