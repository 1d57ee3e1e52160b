//! Coincidence: which hits of the ordered stream belong together.
//!
//! ```text
//!  hits in order, those that passed the cuts
//!      │ roles: who takes part, who is reference, veto, gate
//!      ▼
//!  admission (veto, gate) ─► rule ─► HitEvents
//!                             chain │ opened window │ gap │ referenced
//! ```
//! [`Coincidence`] is the stage; [`Settings`] says what belongs together; `docs/experiment/coincidence.md` defines every mode with a drawing.
//! A state machine without a clock: the same hits give the same events, however they were cut into batches. Every hit that comes in
//! goes out in an event, is filtered as single, or is held; a hit that stands in two events goes out once.

mod admission;
mod chain;
mod error;
mod gap;
mod held;
mod opened;
mod output;
mod referenced;
mod roles;
mod settings;
#[cfg(test)]
mod tests;

use thalweg_data::{Counters, Flags, Hit, HitEvents, SourceId, Unit};

pub use error::CoincidenceError;
pub use settings::{Distinct, Grouping, Leg, Mode, Settings, WIDEST_PS};

use crate::channels::ChannelMap;
use admission::Admission;
use chain::Chain;
use gap::Gap;
use held::Waiting;
use opened::Opened;
use output::Output;
use referenced::Referenced;
use roles::Roles;

/// Hits that take no part: they stand out of order, or are no pulses.
const NO_PART: Flags = Flags::LATE.with(Flags::FAKE);

/// The way in which events are found.
#[derive(Debug)]
enum Rule {
    Chain(Chain),
    Opened(Opened),
    Gap(Gap),
    Referenced(Referenced),
}

impl Rule {
    fn new(settings: &Settings, elements: usize) -> Rule {
        let (window_ps, longest) = (settings.window_ps, settings.longest_event_hits);
        if settings.mode == Mode::Reference {
            let span = settings.reference.as_ref().map(|leg| leg.span(window_ps));
            let span = span.unwrap_or(settings::Span { from_ps: -window_ps, to_ps: window_ps });
            return Rule::Referenced(Referenced::new(
                span,
                settings.at_least.unwrap_or(1),
                longest,
                elements,
            ));
        }
        let at_least = settings.multiplicity();
        match settings.events {
            Grouping::Chain => Rule::Chain(Chain::new(window_ps, at_least, longest, elements)),
            Grouping::Window => Rule::Opened(Opened::new(window_ps, at_least, longest, elements)),
            Grouping::Gap => {
                let gap_ps = settings.gap_ps.unwrap_or(window_ps);
                Rule::Gap(Gap::new(gap_ps, at_least, longest, elements))
            }
        }
    }

    #[inline]
    fn push(&mut self, waiting: Waiting, out: &mut Output) {
        match self {
            Rule::Chain(rule) => rule.push(waiting, out),
            Rule::Opened(rule) => rule.push(waiting, out),
            Rule::Gap(rule) => rule.push(waiting, out),
            Rule::Referenced(rule) => rule.push(waiting, out),
        }
    }

    fn advance(&mut self, frontier_ps: i64, out: &mut Output) {
        match self {
            Rule::Chain(rule) => rule.advance(frontier_ps, out),
            Rule::Opened(rule) => rule.advance(frontier_ps, out),
            Rule::Gap(rule) => rule.advance(frontier_ps, out),
            Rule::Referenced(rule) => rule.advance(frontier_ps, out),
        }
    }

    /// A hit that is farther than this from both its neighbours is in no event; `None` where a rule looks at single hits, too.
    fn reach_ps(&self) -> Option<i64> {
        match self {
            Rule::Chain(rule) => Some(rule.window_ps()),
            Rule::Opened(rule) => Some(rule.window_ps()),
            Rule::Gap(rule) => Some(rule.gap_ps()),
            Rule::Referenced(_) => None,
        }
    }

    fn waiting(&self) -> &[Waiting] {
        match self {
            Rule::Chain(rule) => rule.waiting(),
            Rule::Opened(rule) => rule.waiting(),
            Rule::Gap(rule) => rule.waiting(),
            Rule::Referenced(rule) => rule.waiting(),
        }
    }
}

/// Finds the hits of an ordered stream that belong together.
#[derive(Debug)]
pub struct Coincidence {
    roles: Roles,
    admission: Option<Admission>,
    rule: Rule,
    out: Output,
    /// Places of the hits of one call that have neighbours.
    crowded: Vec<u32>,
    /// By source, and behind them of nobody: hits that no rule looks at, because they take no part or stand alone.
    alone: Box<[u64]>,
    counters: Vec<Counters>,
}

impl Coincidence {
    /// A coincidence of the channels of `map`, whose sources are numbered below `sources`.
    ///
    /// # Errors
    /// When the settings are invalid: what was found, and what to write.
    pub fn new(
        settings: &Settings,
        map: &ChannelMap,
        sources: usize,
    ) -> Result<Coincidence, CoincidenceError> {
        let roles = Roles::new(settings, map, sources)?;
        let span = |leg: &Option<Leg>| leg.as_ref().map(|leg| leg.span(settings.window_ps));
        Ok(Coincidence {
            admission: Admission::new(span(&settings.veto), span(&settings.gate)),
            rule: Rule::new(settings, roles.elements()),
            out: Output::new(roles.elements(), sources),
            crowded: Vec::new(),
            alone: vec![0; sources + 1].into(),
            counters: vec![Counters::default(); sources],
            roles,
        })
    }

    /// So many hits of one source come in with the next [`Coincidence::push`]: who hands them over has counted them.
    pub fn count_in(&mut self, source: SourceId, hits: u64) {
        if let Some(counters) = self.counters.get_mut(source.index()) {
            counters.input(Unit::Hits, hits);
        }
    }

    /// Takes in the next hits of the stream; `pass` says of each whether it is to be looked at at all (1) or was cut (0).
    /// Hits flagged late stand out of order and take no part; nor do markers that are no pulses.
    pub fn push(&mut self, hits: &[Hit], pass: Option<&[u8]>) {
        if let (Some(reach_ps), None) = (self.rule.reach_ps(), &self.admission) {
            return match pass {
                None => self.scan(hits, |_| true, reach_ps),
                Some(pass) => self.scan(hits, |index| pass[index] != 0, reach_ps),
            };
        }
        match pass {
            None => hits.iter().for_each(|hit| self.take(*hit)),
            Some(pass) => {
                let passing = hits.iter().zip(pass).filter(|(_, pass)| **pass != 0);
                passing.for_each(|(hit, _)| self.take(*hit));
            }
        }
    }

    /// Most hits of most streams stand alone. A hit farther from both neighbours than any window reaches is found at a
    /// glance, without a branch, since none of it can be foreseen; the others, and the first and the last, whose neighbours are
    /// elsewhere, go through the rule. With each hit one fate is known, and counted: its own, if it takes no part, else that of the one
    /// before it, whose other neighbour it is.
    #[inline]
    fn scan(&mut self, hits: &[Hit], passes: impl Fn(usize) -> bool, reach_ps: i64) {
        let Coincidence { roles, rule, out, crowded, alone, .. } = self;
        let look = |index: usize, hit: &Hit| {
            let (role, passes) = (roles.of(hit.channel), passes(index));
            let takes_part = passes & role.is_anything() & (hit.flags.0 & NO_PART.0 == 0);
            (takes_part, passes, role.source())
        };
        let mut first = None;
        for (index, hit) in hits.iter().enumerate() {
            let (takes_part, passes, source) = look(index, hit);
            if takes_part {
                first = Some((index, source));
                break;
            }
            alone[source] += u64::from(passes);
        }
        let Some((first, mut source_before)) = first else { return };
        crowded.resize(hits.len().max(crowded.len()), 0);
        let (mut count, mut before) = (0, first);
        let (mut before_ps, mut is_near_before) = (hits[first].time_ps, true);
        for (index, hit) in hits.iter().enumerate().skip(first + 1) {
            let (takes_part, passes, source) = look(index, hit);
            // In order, so that the difference is not negative; it may be more than 63 bits say.
            let is_near = hit.time_ps.wrapping_sub(before_ps) as u64 <= reach_ps as u64;
            let is_crowded = is_near_before | is_near;
            crowded[count] = before as u32;
            count += usize::from(takes_part & is_crowded);
            let (whose, is_alone) = if takes_part { (source_before, !is_crowded) } else { (source, passes) };
            alone[whose] += u64::from(is_alone);
            before = if takes_part { index } else { before };
            source_before = if takes_part { source } else { source_before };
            before_ps = if takes_part { hit.time_ps } else { before_ps };
            is_near_before = if takes_part { is_near } else { is_near_before };
        }
        crowded[count] = before as u32;
        for place in &crowded[..=count] {
            let hit = hits[*place as usize];
            rule.push(roles.of(hit.channel).waiting(hit), out);
        }
    }

    #[inline]
    fn take(&mut self, hit: Hit) {
        let role = self.roles.of(hit.channel);
        let is_anything = role.is_anything() && hit.flags.0 & NO_PART.0 == 0;
        if !is_anything || !role.takes_part() {
            self.alone[role.source()] += 1;
        }
        if !is_anything {
            return;
        }
        let Some(admission) = &mut self.admission else {
            // Without a veto or gate, who is anything takes part.
            self.rule.push(role.waiting(hit), &mut self.out);
            return;
        };
        if role.vetoes() {
            admission.veto(hit.time_ps);
        }
        if role.gates() {
            admission.gate(hit.time_ps);
        }
        if role.takes_part() {
            admission.push(role.waiting(hit));
        }
        self.admit(hit.time_ps);
    }

    fn admit(&mut self, frontier_ps: i64) {
        let Some(admission) = &mut self.admission else { return };
        while let Some((waiting, takes_part)) = admission.decide(frontier_ps) {
            match takes_part {
                true => self.rule.push(waiting, &mut self.out),
                false => self.out.refuse(&waiting),
            }
        }
    }

    /// Lets time pass: no hit in order before `frontier_ps` will come any more.
    pub fn advance(&mut self, frontier_ps: i64) {
        self.admit(frontier_ps);
        // What is undecided comes to the rule later.
        let undecided = self.admission.as_ref().and_then(|admission| admission.undecided().front());
        let frontier_ps = undecided.map_or(frontier_ps, |first| first.hit.time_ps.min(frontier_ps));
        self.rule.advance(frontier_ps, &mut self.out);
    }

    /// Nothing follows: every event is closed.
    pub fn finish(&mut self) {
        self.advance(i64::MAX);
    }

    /// The events closed since the last call, into an empty batch. Whether there are any.
    pub fn pull(&mut self, events: &mut HitEvents) -> bool {
        std::mem::swap(events, &mut self.out.events);
        self.out.events.clear();
        !events.events.is_empty()
    }

    /// Brings the counters up to what has happened; `held` is counted from the hits that wait.
    pub fn settle(&mut self) {
        let undecided = self.admission.iter().flat_map(|admission| admission.undecided());
        let mut held = vec![0u64; self.alone.len()];
        undecided.chain(self.rule.waiting()).for_each(|waiting| held[usize::from(waiting.source)] += 1);
        for (source, counters) in self.counters.iter_mut().enumerate() {
            counters.filtered(Unit::Hits, std::mem::take(&mut self.alone[source]));
            counters.set_held(Unit::Hits, held[source]);
        }
        self.out.enter(&mut self.counters);
    }

    /// Hits of one source: in, out in events, filtered because they are in none, held; as of the last [`Coincidence::settle`].
    pub fn counters(&self, source: SourceId) -> &Counters {
        &self.counters[source.index()]
    }

    /// Events that were closed.
    pub fn closed(&self) -> u64 {
        self.out.closed()
    }

    /// Events that were closed because they had grown too long.
    pub fn cut_short(&self) -> u64 {
        self.out.cut_short
    }
}
