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
use crate::channels::ChannelMap;
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
    /// By source, of hits; of events a single entry.
    passed: Vec<Passed>,
}

/// All cuts.
#[derive(Debug)]
pub struct Cuts {
    hit_cuts: Vec<Cut>,
    event_cuts: Vec<Cut>,
    /// By source: came in, and taken away because the channel is disabled.
    came: Vec<u64>,
    disabled: Vec<u64>,
    any_disabled: bool,
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
            came: vec![0; sources],
            disabled: vec![0; sources],
            any_disabled: map.channels().iter().any(|channel| !channel.enabled),
            tallies: vec![Tally::default(); sources],
            answers: Vec::new(),
            facts: Vec::new(),
        };
        for (index, each) in settings.iter().enumerate() {
            check_name(each, &settings[..index])?;
            let of = |error| CutError::Of { name: each.name.clone(), error: Box::new(error) };
            let expression = Expression::parse(&each.keep, each.on, &polygons).map_err(of)?;
            let (list, entries) = match each.on {
                Scope::Hit => (&mut cuts.hit_cuts, sources),
                Scope::Event if makes_events => (&mut cuts.event_cuts, 1),
                Scope::Event => return Err(CutError::NoEvents(each.name.clone())),
            };
            let passed = vec![Passed::default(); entries];
            list.push(Cut { name: each.name.clone(), quantity: each.members, expression, passed });
        }
        Ok(cuts)
    }

    /// Whether every hit passes: nothing is cut, and nothing has to be counted.
    pub fn keep_all_hits(&self) -> bool {
        self.hit_cuts.is_empty() && !self.any_disabled
    }

    /// Says of each hit whether it passes all cuts on hits: 1 or 0 into `pass`.
    pub fn cut_hits(&mut self, hits: &[Hit], map: &ChannelMap, pass: &mut Vec<u8>) {
        pass.clear();
        pass.resize(hits.len(), 1);
        self.answers.resize(hits.len().max(self.answers.len()), 0);
        let source_of = |hit: &Hit| map.get(hit.channel).map_or(0, |channel| channel.source.index());
        hits.iter().for_each(|hit| self.came[source_of(hit)] += 1);
        if self.any_disabled {
            for (hit, pass) in hits.iter().zip(pass.iter_mut()) {
                let enabled = map.get(hit.channel).is_none_or(|channel| channel.enabled);
                *pass = u8::from(enabled);
                self.disabled[source_of(hit)] += u64::from(!enabled);
            }
        }
        for cut in &mut self.hit_cuts {
            let answers = &mut self.answers[..hits.len()];
            cut.expression.evaluate_hits(hits, map, answers);
            for ((hit, pass), answer) in hits.iter().zip(pass.iter_mut()).zip(answers) {
                let passed = &mut cut.passed[source_of(hit)];
                passed.input += u64::from(*pass);
                *pass &= *answer;
                passed.kept += u64::from(*pass);
            }
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
            cut.passed[0].input += events.events.len() as u64;
            events.events.retain(|event| keeps(&answers[event.first as usize..][..event.count as usize]));
            cut.passed[0].kept += events.events.len() as u64;
            events.close_ranks();
        }
    }

    /// Brings the tallies of hits up to what has happened.
    pub fn settle(&mut self) {
        for source in 0..self.tallies.len() {
            let (came, kept) = (self.came[source], self.kept_of(source));
            let cut: u64 =
                self.hit_cuts.iter().map(|cut| cut.passed[source].input - cut.passed[source].kept).sum();
            let filtered = cut + self.disabled[source];
            let tally = &mut self.tallies[source];
            tally.input(Unit::Hits, came - tally.total_input(Unit::Hits));
            tally.filtered(Unit::Hits, filtered - tally.total_filtered(Unit::Hits));
            tally.output(Unit::Hits, kept - tally.total_output(Unit::Hits));
        }
    }

    /// Counted where it happens, by the last cut; without one, by who is enabled.
    fn kept_of(&self, source: usize) -> u64 {
        match self.hit_cuts.last() {
            Some(cut) => cut.passed[source].kept,
            None => self.came[source] - self.disabled[source],
        }
    }

    /// Hits of one source: in, out, filtered; as of the last [`Cuts::settle`].
    pub fn tally(&self, source: SourceId) -> &Tally {
        &self.tallies[source.index()]
    }

    /// Each cut with its name, what it cuts, and how much passed, all sources together.
    pub fn passed(&self) -> impl Iterator<Item = (&str, Scope, Passed)> {
        let sum = |cut: &Cut| {
            let add = |sum: Passed, each: &Passed| Passed {
                input: sum.input + each.input,
                kept: sum.kept + each.kept,
            };
            cut.passed.iter().fold(Passed::default(), add)
        };
        let hits = self.hit_cuts.iter().map(move |cut| (cut.name.as_str(), Scope::Hit, sum(cut)));
        hits.chain(self.event_cuts.iter().map(move |cut| (cut.name.as_str(), Scope::Event, sum(cut))))
    }
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
