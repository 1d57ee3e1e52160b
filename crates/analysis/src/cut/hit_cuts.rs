//! The cuts on hits, in their order, and how much each took away.
//!
//! ```text
//!  hits ─► cut 1 ─► cut 2 ─► … ─► pass: one byte per hit
//!            └ by source: came in, kept
//! ```

use thalweg_data::batch::Share;
use thalweg_data::{Counters, Hit, SourceId, Unit};

use super::cuts::{Cut, Passed};
use crate::channels::{ChannelMap, by_channel};

/// Hits that go through all cuts together: they stay in the first-level cache.
const CHUNK: usize = 2048;

/// What became of a hit.
const KEPT: u16 = 0;
const DISABLED: u16 = 1;
/// The first cut's; the second has the next.
const CUT: u16 = 2;

/// What the cuts say of the hits of one batch; filled anew for each.
#[derive(Debug, Default)]
pub struct Verdicts {
    pass: Vec<u8>,
    shares: Vec<Share>,
    is_cut: bool,
}

/// What the cuts have kept of a batch.
#[derive(Clone, Copy, Debug)]
pub struct Kept<'v> {
    /// Of each hit whether it is kept: 1 or 0.
    pub pass: &'v [u8],
    /// How many are kept of each source.
    pub shares: &'v [Share],
}

impl Verdicts {
    /// `None` where nothing is cut.
    pub fn kept(&self) -> Option<Kept<'_>> {
        self.is_cut.then_some(Kept { pass: &self.pass, shares: &self.shares })
    }

    /// As of no hits; keeps the memory.
    pub fn clear(&mut self) {
        self.pass.clear();
        self.shares.clear();
        self.is_cut = false;
    }
}

/// All cuts on hits.
#[derive(Debug)]
pub struct HitCuts {
    cuts: Vec<Cut>,
    any_disabled: bool,
    /// By channel: where the fates of its source begin.
    first_fate_of: Box<[u32; 1 << 16]>,
    /// By source, then by fate: kept, disabled, taken away by cut 0, 1, …
    fates: Vec<u64>,
    fate_of: Vec<u16>,
    /// By source: what was kept before this batch.
    kept_before: Vec<u64>,
    counters: Vec<Counters>,
    answers: Vec<u8>,
}

impl HitCuts {
    pub(super) fn new(cuts: Vec<Cut>, map: &ChannelMap, sources: usize) -> HitCuts {
        let kinds_of_fate = usize::from(CUT) + cuts.len();
        HitCuts {
            cuts,
            any_disabled: map.channels().iter().any(|channel| !channel.enabled),
            first_fate_of: first_fates_of(map, kinds_of_fate),
            fates: vec![0; sources.max(1) * kinds_of_fate],
            fate_of: Vec::new(),
            kept_before: vec![0; sources],
            counters: vec![Counters::default(); sources],
            answers: vec![0; CHUNK],
        }
    }

    fn kinds_of_fate(&self) -> usize {
        usize::from(CUT) + self.cuts.len()
    }

    /// Whether every hit passes: nothing is cut, and nothing has to be counted.
    pub fn keep_all(&self) -> bool {
        self.cuts.is_empty() && !self.any_disabled
    }

    /// Says of each hit whether it passes all cuts, and how many of each source do. Returns what is kept; `None` when nothing is cut.
    pub fn cut<'v>(
        &mut self,
        hits: &[Hit],
        map: &ChannelMap,
        verdicts: &'v mut Verdicts,
    ) -> Option<Kept<'v>> {
        verdicts.clear();
        if self.keep_all() {
            return None;
        }
        let Verdicts { pass, shares, is_cut } = &mut *verdicts;
        *is_cut = true;
        pass.resize(hits.len(), 0);
        for (hits, pass) in hits.chunks(CHUNK).zip(pass.chunks_mut(CHUNK)) {
            self.cut_chunk(hits, map, pass);
        }
        let kinds = self.kinds_of_fate();
        let kept = self.fates.iter().skip(usize::from(KEPT)).step_by(kinds);
        for (source, (kept, before)) in kept.zip(&mut self.kept_before).enumerate() {
            let hits = (*kept - std::mem::replace(before, *kept)) as u32;
            if hits > 0 {
                shares.push(Share { source: SourceId(source as u16), hits });
            }
        }
        verdicts.kept()
    }

    fn cut_chunk(&mut self, hits: &[Hit], map: &ChannelMap, pass: &mut [u8]) {
        self.fate_of.clear();
        self.fate_of.resize(hits.len(), KEPT);
        if self.any_disabled {
            for (hit, fate) in hits.iter().zip(&mut self.fate_of) {
                let enabled = map.get(hit.channel).is_none_or(|channel| channel.enabled);
                *fate = if enabled { KEPT } else { DISABLED };
            }
        }
        for (own, cut) in (CUT..).zip(&mut self.cuts) {
            let answers = &mut self.answers[..hits.len()];
            cut.expression.evaluate_hits(hits, map, answers);
            for (fate, answer) in self.fate_of.iter_mut().zip(answers) {
                *fate = if (*fate == KEPT) & (*answer == 0) { own } else { *fate };
            }
        }
        pass.iter_mut().zip(&self.fate_of).for_each(|(pass, fate)| *pass = u8::from(*fate == KEPT));
        let (fates, first_fate_of) = (&mut self.fates[..], &*self.first_fate_of);
        for (hit, fate) in hits.iter().zip(&self.fate_of) {
            fates[first_fate_of[usize::from(hit.channel)] as usize + usize::from(*fate)] += 1;
        }
    }

    /// Brings the counters up to what has happened.
    pub fn settle(&mut self) {
        let kinds = self.kinds_of_fate();
        for (counters, fates) in self.counters.iter_mut().zip(self.fates.chunks(kinds)) {
            let (came, kept) = (fates.iter().sum::<u64>(), fates[usize::from(KEPT)]);
            let left_out = fates[usize::from(DISABLED)..].iter().sum::<u64>();
            counters.input(Unit::Hits, came - counters.total_input(Unit::Hits));
            counters.filtered(Unit::Hits, left_out - counters.total_filtered(Unit::Hits));
            counters.output(Unit::Hits, kept - counters.total_output(Unit::Hits));
        }
    }

    /// Hits of one source: in, out, filtered; as of the last [`HitCuts::settle`].
    pub fn counters(&self, source: SourceId) -> &Counters {
        &self.counters[source.index()]
    }

    /// Each cut with its name, and how much passed, all sources together.
    pub fn passed(&self) -> impl Iterator<Item = (&str, Passed)> {
        let kinds = self.kinds_of_fate();
        let of_fate = move |fate: usize| self.fates.iter().skip(fate).step_by(kinds).sum::<u64>();
        self.cuts.iter().enumerate().map(move |(index, cut)| {
            // What came to it is what it took, and what those behind it and nobody took.
            let behind = (index + 1..self.cuts.len()).map(|later| of_fate(usize::from(CUT) + later));
            let kept = of_fate(usize::from(KEPT)) + behind.sum::<u64>();
            (cut.name.as_str(), Passed { input: kept + of_fate(usize::from(CUT) + index), kept })
        })
    }
}

/// Where the fates of each channel's source begin; those of the first for channels that nobody sends.
fn first_fates_of(map: &ChannelMap, kinds_of_fate: usize) -> Box<[u32; 1 << 16]> {
    let mut first_fates = by_channel(0);
    for channel in map.channels() {
        first_fates[usize::from(channel.number)] = (channel.source.index() * kinds_of_fate) as u32;
    }
    first_fates
}
