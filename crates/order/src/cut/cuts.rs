//! All cuts of a run, in their order, and how much each took away.
//!
//! ```text
//!  hits ─► cut 1 ─► cut 2 ─► … ─► pass: one byte per hit        events ─► cut k ─► … ─► those that are kept
//!            └ by source: came in, kept
//! ```

use thalweg_data::{Hit, SourceId, Tally, Unit};

use super::error::CutError;
use super::expression::{Expression, gather_facts};
use super::field::EventFacts;
use super::polygon::{self, Polygon};
use super::settings::{Quantity, Scope, Settings};
use crate::channels::{ChannelMap, by_channel};
use thalweg_data::HitEvents;

/// How many came to one cut, and how many it kept.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Passed {
    /// Came to it: those that the cuts before it kept.
    pub input: u64,
    /// It kept.
    pub kept: u64,
}

#[derive(Debug)]
struct Cut {
    name: String,
    quantity: Quantity,
    expression: Expression,
    /// Of a cut on events; those of hits are counted by source and fate.
    passed: Passed,
}

/// What became of a hit.
const KEPT: u16 = 0;
const DISABLED: u16 = 1;
/// The first cut's; the second has the next.
const CUT: u16 = 2;

/// All cuts.
#[derive(Debug)]
pub struct Cuts {
    hit_cuts: Vec<Cut>,
    event_cuts: Vec<Cut>,
    any_disabled: bool,
    /// By channel: its source.
    source_of: Box<[u16; 1 << 16]>,
    /// By source, then by fate: kept, disabled, taken away by cut 0, 1, …
    fates: Vec<u64>,
    fate_of: Vec<u16>,
    tallies: Vec<Tally>,
    answers: Vec<u8>,
    facts: Vec<EventFacts>,
}

impl Cuts {
    /// The cuts of a run with sources numbered below `sources`.
    ///
    /// # Errors
    /// When a cut or polygon cannot be meant, or cuts events where there are none.
    pub fn new(
        settings: &[Settings],
        polygons: &[polygon::Settings],
        makes_events: bool,
        map: &ChannelMap,
        sources: usize,
    ) -> Result<Cuts, CutError> {
        let polygons = polygons.iter().map(Polygon::new).collect::<Result<Vec<_>, _>>()?;
        let mut cuts = Cuts {
            hit_cuts: Vec::new(),
            event_cuts: Vec::new(),
            any_disabled: map.channels().iter().any(|channel| !channel.enabled),
            source_of: sources_of(map),
            fates: Vec::new(),
            fate_of: Vec::new(),
            tallies: vec![Tally::default(); sources],
            answers: Vec::new(),
            facts: Vec::new(),
        };
        for (index, each) in settings.iter().enumerate() {
            check_name(each, &settings[..index])?;
            let of = |error| CutError::Of { name: each.name.clone(), error: Box::new(error) };
            let expression = Expression::parse(&each.keep, each.on, &polygons).map_err(of)?;
            let list = match each.on {
                Scope::Hit => &mut cuts.hit_cuts,
                Scope::Event if makes_events => &mut cuts.event_cuts,
                Scope::Event => return Err(CutError::NoEvents(each.name.clone())),
            };
            let passed = Passed::default();
            list.push(Cut { name: each.name.clone(), quantity: each.members, expression, passed });
        }
        cuts.fates = vec![0; sources.max(1) * cuts.kinds_of_fate()];
        Ok(cuts)
    }

    fn kinds_of_fate(&self) -> usize {
        usize::from(CUT) + self.hit_cuts.len()
    }

    /// Whether every hit passes: nothing is cut, and nothing has to be counted.
    pub fn keep_all_hits(&self) -> bool {
        self.hit_cuts.is_empty() && !self.any_disabled
    }

    /// Says of each hit whether it passes all cuts on hits: 1 or 0 into `pass`, which is as long as the hits.
    pub fn cut_hits(&mut self, hits: &[Hit], map: &ChannelMap, pass: &mut [u8]) {
        self.fate_of.clear();
        self.fate_of.resize(hits.len(), KEPT);
        self.answers.resize(hits.len().max(self.answers.len()), 0);
        if self.any_disabled {
            for (hit, fate) in hits.iter().zip(&mut self.fate_of) {
                let enabled = map.get(hit.channel).is_none_or(|channel| channel.enabled);
                *fate = if enabled { KEPT } else { DISABLED };
            }
        }
        for (own, cut) in (CUT..).zip(&mut self.hit_cuts) {
            let answers = &mut self.answers[..hits.len()];
            cut.expression.evaluate_hits(hits, map, answers);
            for (fate, answer) in self.fate_of.iter_mut().zip(answers) {
                *fate = if (*fate == KEPT) & (*answer == 0) { own } else { *fate };
            }
        }
        let kinds = self.kinds_of_fate();
        for ((hit, fate), pass) in hits.iter().zip(&self.fate_of).zip(pass) {
            *pass = u8::from(*fate == KEPT);
            self.fates[usize::from(self.source_of[usize::from(hit.channel)]) * kinds + usize::from(*fate)] +=
                1;
        }
    }

    /// Takes away the events that a cut on events does not keep.
    pub fn cut_events(&mut self, events: &mut HitEvents, map: &ChannelMap) {
        for cut in &mut self.event_cuts {
            gather_facts(events, map, &mut self.facts);
            self.answers.resize(events.members.len().max(self.answers.len()), 0);
            let answers = &mut self.answers[..events.members.len()];
            cut.expression.evaluate_members(events, &self.facts, map, answers);
            let keeps = |members: &[u8]| match cut.quantity {
                Quantity::Any => members.contains(&1),
                Quantity::All => !members.contains(&0),
            };
            cut.passed.input += events.events.len() as u64;
            events.events.retain(|event| keeps(&answers[event.first as usize..][..event.count as usize]));
            cut.passed.kept += events.events.len() as u64;
            events.close_ranks();
        }
    }

    /// Brings the tallies of hits up to what has happened.
    pub fn settle(&mut self) {
        let kinds = self.kinds_of_fate();
        for (tally, fates) in self.tallies.iter_mut().zip(self.fates.chunks(kinds)) {
            let (came, kept) = (fates.iter().sum::<u64>(), fates[usize::from(KEPT)]);
            tally.input(Unit::Hits, came - tally.total_input(Unit::Hits));
            tally.filtered(Unit::Hits, came - kept - tally.total_filtered(Unit::Hits));
            tally.output(Unit::Hits, kept - tally.total_output(Unit::Hits));
        }
    }

    /// Hits of one source: in, out, filtered; as of the last [`Cuts::settle`].
    pub fn tally(&self, source: SourceId) -> &Tally {
        &self.tallies[source.index()]
    }

    /// Each cut with its name, what it cuts, and how much passed, all sources together.
    pub fn passed(&self) -> impl Iterator<Item = (&str, Scope, Passed)> {
        let kinds = self.kinds_of_fate();
        let of_fate = move |fate: usize| self.fates.iter().skip(fate).step_by(kinds).sum::<u64>();
        let hits = self.hit_cuts.iter().enumerate().map(move |(index, cut)| {
            // What came to it is what it took, and what those behind it and nobody took.
            let behind = (index + 1..self.hit_cuts.len()).map(|later| of_fate(usize::from(CUT) + later));
            let kept = of_fate(usize::from(KEPT)) + behind.sum::<u64>();
            (cut.name.as_str(), Scope::Hit, Passed { input: kept + of_fate(usize::from(CUT) + index), kept })
        });
        hits.chain(self.event_cuts.iter().map(|cut| (cut.name.as_str(), Scope::Event, cut.passed)))
    }
}

/// The source of each channel; 0 of those that nobody sends.
fn sources_of(map: &ChannelMap) -> Box<[u16; 1 << 16]> {
    let mut sources = by_channel(0);
    map.channels().iter().for_each(|channel| sources[usize::from(channel.number)] = channel.source.0);
    sources
}

fn check_name(cut: &Settings, before: &[Settings]) -> Result<(), CutError> {
    if cut.name.is_empty() {
        return Err(CutError::Nameless);
    }
    match before.iter().any(|other| other.name == cut.name) {
        true => Err(CutError::Twice(cut.name.clone())),
        false => Ok(()),
    }
}
