//! What the builder did with each source's fragments, and with the events.
//!
//! ```text
//!  per fragment: plain counts beside the column ── per call ──► Counters (build), Counters (wire); held, from the containers
//! ```

use thalweg_data::{Counters, LossReason, Noted, SourceId, Unit};

/// What is counted per fragment of a source: one cache line, so that counting costs no more than storing. Its counters, which are many
/// lines, are brought up to date when somebody reads them.
#[derive(Clone, Debug, Default)]
#[repr(align(64))]
pub(super) struct Source {
    /// The largest number that its boards can send.
    pub largest: u64,
    /// Bytes of its fragments in its column.
    pub held_bytes: u64,
    /// Bytes that came in since the counters were brought up to date.
    pub new_bytes: u64,
    /// Bytes that left since then.
    pub gone_bytes: u64,
    /// Fragments that came in since the counters were brought up to date.
    pub new: u64,
    /// Fragments that left since then.
    pub gone: u64,
    /// Events that left without it since then.
    pub missing: u64,
    /// Fragments in its column.
    pub held: u32,
    /// 64 less the width of its trigger numbers.
    pub shift: u8,
    /// Nothing follows from it.
    pub ended: bool,
    /// Its latest fragment was beyond the window, before it, or there already.
    pub strayed: bool,
}

/// Counters of one source.
#[derive(Clone, Debug, Default)]
pub(super) struct SourceCounters {
    pub build: Counters,
    pub wire: Counters,
    /// Fragments that came and were refused, of which none is known yet to be missing in an event.
    refused: u64,
    /// Fragments in gaps of the recording that is read; the same.
    unreadable: u64,
}

/// All counters.
pub(super) struct BuilderCounters {
    sources: Vec<SourceCounters>,
    pub events: Counters,
    pub unknown: Counters,
}

impl BuilderCounters {
    pub fn new(sources: usize) -> BuilderCounters {
        let mut counters = BuilderCounters {
            sources: vec![SourceCounters::default(); sources],
            events: Counters::default(),
            unknown: Counters::default(),
        };
        counters.clear();
        counters
    }

    /// Memory of so many sources' counts, in bytes.
    pub fn byte_size(sources: usize) -> usize {
        sources * (size_of::<SourceCounters>() + size_of::<Source>())
    }

    pub fn of(&self, source: usize) -> &SourceCounters {
        &self.sources[source]
    }

    /// Notes a lost fragment, which has been counted as come in.
    pub fn lost(&mut self, source: usize, reason: LossReason, fragments: u64, bytes: u64) {
        let counters = &mut self.sources[source].build;
        counters.lost(reason, Unit::Fragments, fragments);
        counters.lost(reason, Unit::Bytes, bytes);
        match reason {
            // Its event has left without it, if there was one.
            LossReason::LateFragment => self.sources[source].fill(fragments),
            // It will be missing in its event.
            LossReason::OverBudget => self.refuse(source, fragments),
            _ => {}
        }
    }

    /// Fragments of a source have come that will be in no event: each of them fills a gap, one that is known or the next.
    pub fn refuse(&mut self, source: usize, fragments: u64) {
        let counters = &mut self.sources[source];
        counters.refused += fragments;
        counters.fill_known();
    }

    /// Fragments of a source lie where a recording cannot be read.
    pub fn note_unreadable(&mut self, source: usize, fragments: u64) {
        self.sources[source].unreadable += fragments;
    }

    /// Notes triggers beside what became of events.
    pub fn note(&mut self, what: Noted, triggers: u64) {
        if triggers > 0 {
            self.events.noted(what, Unit::Events, triggers);
        }
    }

    /// Notes a fragment of a source that the builder does not have.
    pub fn unknown_source(&mut self, bytes: u64) {
        self.unknown.input(Unit::Fragments, 1);
        self.unknown.input(Unit::Bytes, bytes);
        self.unknown.lost(LossReason::UnknownSource, Unit::Fragments, 1);
        self.unknown.lost(LossReason::UnknownSource, Unit::Bytes, bytes);
    }

    /// Brings the counters of a source up to date, of which so many fragments and bytes are deferred.
    pub fn update(&mut self, source: usize, counts: &mut Source, deferred: (u64, u64)) {
        self.sources[source].update(counts, deferred);
    }

    /// Begins anew.
    pub fn clear(&mut self) {
        self.sources.fill(SourceCounters::default());
        (self.unknown, self.events) = (Counters::default(), Counters::default());
    }
}

impl SourceCounters {
    fn update(&mut self, counts: &mut Source, (deferred, deferred_bytes): (u64, u64)) {
        let Source { new, new_bytes, gone, gone_bytes, missing, .. } = *counts;
        self.build.input(Unit::Fragments, new);
        self.build.input(Unit::Bytes, new_bytes);
        self.build.output(Unit::Fragments, gone);
        self.build.output(Unit::Bytes, gone_bytes);
        self.build.set_held(Unit::Fragments, u64::from(counts.held) + deferred);
        self.build.set_held(Unit::Bytes, counts.held_bytes + deferred_bytes);
        if gone + missing > 0 {
            self.wire.input(Unit::Fragments, gone + missing);
            self.wire.output(Unit::Fragments, gone);
        }
        if missing > 0 {
            self.open_gaps(missing);
        }
        (counts.new, counts.new_bytes, counts.gone, counts.gone_bytes, counts.missing) = (0, 0, 0, 0, 0);
    }
}

impl SourceCounters {
    /// So many events have left without this source.
    fn open_gaps(&mut self, missing: u64) {
        let unreadable = self.unreadable.min(missing);
        if unreadable > 0 {
            self.unreadable -= unreadable;
            self.wire.lost(LossReason::RecordingDamaged, Unit::Fragments, unreadable);
        }
        self.wire.lost(LossReason::MissingFragment, Unit::Fragments, missing - unreadable);
        if self.refused > 0 {
            self.fill_known();
        }
    }

    fn missing(&self) -> u64 {
        self.wire.total_lost(LossReason::MissingFragment, Unit::Fragments)
    }

    /// Those that were refused fill gaps that are known by now.
    fn fill_known(&mut self) {
        let filling = self.refused.min(self.missing());
        self.refused -= filling;
        self.fill(filling);
    }

    /// What has come and was refused is one loss, and counted where it was refused: it is no gap, as far as one is known.
    fn fill(&mut self, fragments: u64) {
        let filled = fragments.min(self.missing());
        if filled > 0 {
            self.wire.output(Unit::Fragments, filled);
            self.wire.gap_filled(Unit::Fragments, filled);
        }
    }
}

/// Number of a source within its builder.
#[inline(always)]
pub(super) fn index_of(source: SourceId, first: SourceId) -> usize {
    usize::from(source.offset_from(first))
}
