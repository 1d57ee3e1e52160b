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
mod scan;
mod settings;
#[cfg(test)]
mod tests;

use thalweg_data::{Counters, Flags, Hit, HitEvents, SourceId, Unit};

pub use error::CoincidenceError;
pub use settings::{Distinct, Grouping, Leg, Mode, Settings, WIDEST_PS};

use crate::channels::ChannelMap;
use admission::{Admission, Decided};
use chain::Chain;
use gap::Gap;
use held::Waiting;
use opened::Opened;
use output::Output;
use referenced::Referenced;
use roles::Roles;
use scan::{Found, Reach, STRETCH, Scan};

/// Hits that take no part: they stand out of order, or are no pulses.
const NO_PART: Flags = Flags::LATE.with(Flags::FAKE);

/// The frontier when no hit follows. Hits may lie that late, so that those within a window of it are released by a rule of their own.
const END_PS: i64 = i64::MAX;

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

    /// How far its windows reach; `None` where a rule looks at single hits, too.
    fn reach(&self) -> Option<Reach> {
        match self {
            Rule::Chain(rule) => Some(rule.reach()),
            Rule::Opened(rule) => Some(rule.reach()),
            Rule::Gap(rule) => Some(rule.reach()),
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
    scan: Scan,
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
            scan: Scan::default(),
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
        if let (Some(reach), None) = (self.rule.reach(), &self.admission) {
            for (index, hits) in hits.chunks(STRETCH).enumerate() {
                let pass = pass.map(|pass| &pass[index * STRETCH..][..hits.len()]);
                self.scan(hits, pass, reach);
            }
            return;
        }
        match pass {
            None => hits.iter().for_each(|hit| self.take(*hit)),
            Some(pass) => {
                let passing = hits.iter().zip(pass).filter(|(_, pass)| **pass != 0);
                passing.for_each(|(hit, _)| self.take(*hit));
            }
        }
    }

    /// Most hits of most streams stand alone, and most others in pairs: the rule sees what is left.
    fn scan(&mut self, hits: &[Hit], pass: Option<&[u8]>, reach: Reach) {
        let Coincidence { roles, rule, out, scan, alone, .. } = self;
        scan.look(hits, pass, (roles, reach), alone, |found| match found {
            Found::Hit(place) => {
                let hit = hits[place];
                rule.push(roles.of(hit.channel).waiting(hit), out);
            }
            Found::Pair(first, second) => {
                let pair = (&hits[first], &hits[second]);
                if !rule.waiting().is_empty() {
                    // Nothing before it can be in an event with it, and comes out before it.
                    rule.advance(pair.0.time_ps, out);
                }
                scan::settle_pair(pair, roles, reach.pairs, out);
            }
        });
    }

    #[inline]
    fn take(&mut self, hit: Hit) {
        let role = self.roles.of(hit.channel);
        let is_anything = scan::has_part(role, &hit);
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
        while let Some(Decided { waiting, takes_part, is_open }) = admission.decide(frontier_ps) {
            self.out.cut_short += u64::from(is_open);
            match takes_part {
                true => self.rule.push(waiting, &mut self.out),
                false => self.out.refuse(usize::from(waiting.source)),
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
        self.advance(END_PS);
    }

    /// The events closed since the last call, into an empty batch. Whether there are any.
    pub fn pull(&mut self, events: &mut HitEvents) -> bool {
        std::mem::swap(events, &mut self.out.events);
        self.out.events.clear();
        !events.events.is_empty()
    }

    /// Hits of the events that wait for the next [`Coincidence::pull`].
    pub fn waiting_members(&self) -> usize {
        self.out.events.members.len()
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
