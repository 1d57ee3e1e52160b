//! Coincidence: which hits of the ordered stream belong together.
//!
//! ```text
//!  hits in order, those that passed the cuts
//!      │ roles: who takes part, who is reference, veto, gate
//!      ▼
//!  admission (veto, gate) ─► rule ─► HitEvents
//!                             chain │ opened window │ gap │ referenced
//! ```
//! [`Coincidence`] is the stage; [`Settings`] says what belongs together; `docs/coincidence.md` defines every mode with a drawing.
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

use thalweg_data::{Flags, Hit, HitEvents, SourceId, Tally, Unit};

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

/// How events are found.
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
    fn push(&mut self, waiting: Waiting, map: &ChannelMap, out: &mut Output) {
        match self {
            Rule::Chain(rule) => rule.push(waiting, map, out),
            Rule::Opened(rule) => rule.push(waiting, map, out),
            Rule::Gap(rule) => rule.push(waiting, map, out),
            Rule::Referenced(rule) => rule.push(waiting, map, out),
        }
    }

    fn advance(&mut self, frontier_ps: i64, map: &ChannelMap, out: &mut Output) {
        match self {
            Rule::Chain(rule) => rule.advance(frontier_ps, map, out),
            Rule::Opened(rule) => rule.advance(frontier_ps, map, out),
            Rule::Gap(rule) => rule.advance(frontier_ps, map, out),
            Rule::Referenced(rule) => rule.advance(frontier_ps, map, out),
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
    /// Hits of one call that take part.
    chosen: Vec<Hit>,
    /// By row of the channel map: hits that came in, and those that take no part.
    came: Box<[u64]>,
    refused: Box<[u64]>,
    tallies: Vec<Tally>,
}

impl Coincidence {
    /// A coincidence of the channels of `map`, whose sources are numbered below `sources`.
    ///
    /// # Errors
    /// When the settings cannot be meant: what was found, and what to write.
    pub fn new(
        settings: &Settings,
        map: &ChannelMap,
        sources: usize,
    ) -> Result<Coincidence, CoincidenceError> {
        let roles = Roles::new(settings, map)?;
        let span = |leg: &Option<Leg>| leg.as_ref().map(|leg| leg.span(settings.window_ps));
        let channels = map.channels().len();
        Ok(Coincidence {
            admission: Admission::new(span(&settings.veto), span(&settings.gate)),
            rule: Rule::new(settings, roles.elements()),
            out: Output::new(roles.elements(), channels),
            chosen: Vec::new(),
            came: vec![0; channels].into(),
            refused: vec![0; channels].into(),
            tallies: vec![Tally::default(); sources],
            roles,
        })
    }

    /// Takes in the next hits of the stream; `pass` says of each whether it is to be looked at at all (1) or was cut (0).
    /// Hits flagged late stand out of order and take no part; nor do markers that are no pulses.
    pub fn push(&mut self, hits: &[Hit], pass: Option<&[u8]>, map: &ChannelMap) {
        if let (Some(reach_ps), None) = (self.rule.reach_ps(), &self.admission) {
            self.choose(hits, pass, map);
            return self.push_chosen(reach_ps, map);
        }
        match pass {
            None => hits.iter().for_each(|hit| self.take(*hit, map)),
            Some(pass) => {
                let passing = hits.iter().zip(pass).filter(|(_, pass)| **pass != 0);
                passing.for_each(|(hit, _)| self.take(*hit, map));
            }
        }
    }

    /// Those that take part, into `chosen`: without a branch, since what was cut cannot be foreseen.
    fn choose(&mut self, hits: &[Hit], pass: Option<&[u8]>, map: &ChannelMap) {
        let mut count = 0;
        self.chosen.resize(self.chosen.len().max(hits.len()), Hit::default());
        for (index, hit) in hits.iter().enumerate() {
            let passes = pass.is_none_or(|pass| pass[index] != 0);
            let Some(row) = map.row(hit.channel) else { continue };
            let takes_part =
                self.roles.of(hit.channel).is_anything() & (hit.flags.0 & (Flags::LATE | Flags::FAKE).0 == 0);
            self.came[row] += u64::from(passes);
            self.refused[row] += u64::from(passes & !takes_part);
            self.chosen[count] = *hit;
            count += usize::from(passes & takes_part);
        }
        self.chosen.truncate(count);
    }

    /// Most hits of most streams stand alone. Who is farther from both neighbours than any window reaches is told at a
    /// glance; the others, and the first and the last, whose neighbours are elsewhere, go through the rule.
    fn push_chosen(&mut self, reach_ps: i64, map: &ChannelMap) {
        let chosen = std::mem::take(&mut self.chosen);
        let mut before_ps = i64::MIN;
        for (index, hit) in chosen.iter().enumerate() {
            let after_ps = chosen.get(index + 1).map_or(i64::MIN, |after| after.time_ps);
            let is_far = |early: i64, late: i64| early.saturating_add(reach_ps) < late;
            let has_neighbours = (index > 0) & (index + 1 < chosen.len());
            if has_neighbours & is_far(before_ps, hit.time_ps) & is_far(hit.time_ps, after_ps) {
                self.out.pass_single(hit.channel, map);
            } else {
                let role = self.roles.of(hit.channel);
                let waiting = Waiting {
                    hit: *hit,
                    element: role.element(),
                    is_other: role.is_other(),
                    is_reference: role.is_reference(),
                    kept: false,
                };
                self.rule.push(waiting, map, &mut self.out);
            }
            before_ps = hit.time_ps;
        }
        self.chosen = chosen;
    }

    #[inline]
    fn take(&mut self, hit: Hit, map: &ChannelMap) {
        let Some(row) = map.row(hit.channel) else { return };
        self.came[row] += 1;
        let role = self.roles.of(hit.channel);
        if !role.is_anything() || hit.flags.0 & (Flags::LATE | Flags::FAKE).0 != 0 {
            self.refused[row] += 1;
            return;
        }
        let waiting = Waiting {
            hit,
            element: role.element(),
            is_other: role.is_other(),
            is_reference: role.is_reference(),
            kept: false,
        };
        let Some(admission) = &mut self.admission else {
            self.rule.push(waiting, map, &mut self.out);
            return;
        };
        if role.vetoes() {
            admission.veto(hit.time_ps);
        }
        if role.gates() {
            admission.gate(hit.time_ps);
        }
        match role.takes_part() {
            true => admission.push(waiting),
            false => self.refused[row] += 1,
        }
        self.admit(hit.time_ps, map);
    }

    fn admit(&mut self, frontier_ps: i64, map: &ChannelMap) {
        let Some(admission) = &mut self.admission else { return };
        while let Some((waiting, takes_part)) = admission.decide(frontier_ps) {
            match takes_part {
                true => self.rule.push(waiting, map, &mut self.out),
                false => {
                    if let Some(row) = map.row(waiting.hit.channel) {
                        self.refused[row] += 1;
                    }
                }
            }
        }
    }

    /// Lets time pass: no hit in order before `frontier_ps` will come any more.
    pub fn advance(&mut self, frontier_ps: i64, map: &ChannelMap) {
        self.admit(frontier_ps, map);
        // What is undecided comes to the rule later.
        let undecided = self.admission.as_ref().and_then(|admission| admission.undecided().front());
        let frontier_ps = undecided.map_or(frontier_ps, |first| first.hit.time_ps.min(frontier_ps));
        self.rule.advance(frontier_ps, map, &mut self.out);
    }

    /// Nothing follows: every event is closed.
    pub fn finish(&mut self, map: &ChannelMap) {
        self.advance(i64::MAX, map);
    }

    /// The events closed since the last call, into an empty batch. Whether there are any.
    pub fn pull(&mut self, events: &mut HitEvents) -> bool {
        std::mem::swap(events, &mut self.out.events);
        self.out.events.clear();
        !events.events.is_empty()
    }

    /// Brings the tallies up to what has happened; `held` is counted from the hits that wait.
    pub fn settle(&mut self, map: &ChannelMap) {
        for (row, channel) in map.channels().iter().enumerate() {
            let tally = &mut self.tallies[channel.source.index()];
            tally.input(Unit::Hits, std::mem::take(&mut self.came[row]));
            tally.filtered(Unit::Hits, std::mem::take(&mut self.refused[row]));
        }
        self.out.enter(map, &mut self.tallies);
        let undecided = self.admission.iter().flat_map(|admission| admission.undecided());
        let mut held = vec![0u64; self.tallies.len()];
        for waiting in undecided.chain(self.rule.waiting()) {
            if let Some(channel) = map.get(waiting.hit.channel) {
                held[channel.source.index()] += 1;
            }
        }
        for (tally, held) in self.tallies.iter_mut().zip(held) {
            tally.set_held(Unit::Hits, held);
        }
    }

    /// Hits of one source: in, out in events, filtered because they are in none, held; as of the last [`Coincidence::settle`].
    pub fn tally(&self, source: SourceId) -> &Tally {
        &self.tallies[source.index()]
    }

    /// Events that were closed because they had grown too long.
    pub fn cut_short(&self) -> u64 {
        self.out.cut_short
    }
}
