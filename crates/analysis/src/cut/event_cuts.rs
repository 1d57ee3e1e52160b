//! The cuts on events, in their order, and how much each took away.
//!
//! ```text
//!  events ─► cut 1 ─► cut 2 ─► … ─► those that are kept
//! ```

use thalweg_data::HitEvents;

use super::cuts::{Cut, Passed};
use super::expression::gather_facts;
use super::field::EventFacts;
use super::settings::Quantity;
use crate::channels::ChannelMap;

/// All cuts on events.
#[derive(Debug)]
pub struct EventCuts {
    cuts: Vec<(Cut, Passed)>,
    answers: Vec<u8>,
    facts: Vec<EventFacts>,
}

impl EventCuts {
    pub(super) fn new(cuts: Vec<Cut>) -> EventCuts {
        let cuts = cuts.into_iter().map(|cut| (cut, Passed::default())).collect();
        EventCuts { cuts, answers: Vec::new(), facts: Vec::new() }
    }

    /// Takes away the events that a cut does not keep.
    pub fn cut(&mut self, events: &mut HitEvents, map: &ChannelMap) {
        for (cut, passed) in &mut self.cuts {
            gather_facts(events, map, &mut self.facts);
            self.answers.resize(events.members.len().max(self.answers.len()), 0);
            let answers = &mut self.answers[..events.members.len()];
            cut.expression.evaluate_members(events, &self.facts, map, answers);
            let keeps = |members: &[u8]| match cut.quantity {
                Quantity::Any => members.contains(&1),
                Quantity::All => !members.contains(&0),
            };
            passed.input += events.events.len() as u64;
            events.events.retain(|event| keeps(&answers[event.first as usize..][..event.count as usize]));
            passed.kept += events.events.len() as u64;
            events.close_ranks();
        }
    }

    /// Each cut with its name, and how much passed.
    pub fn passed(&self) -> impl Iterator<Item = (&str, Passed)> {
        self.cuts.iter().map(|(cut, passed)| (cut.name.as_str(), *passed))
    }
}
