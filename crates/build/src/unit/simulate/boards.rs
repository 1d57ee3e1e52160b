//! The boards of one readout unit, and the link to it: loss, doubles, lateness; and what is behind it: a local builder.
//!
//! ```text
//!  trigger ─► each board: a fragment, lost, twice, or late ─► Fragments ─► Builder ─► Events ─► ReadoutUnit
//! ```
//! A payload says whose it is and of which trigger, so that a mixed event is seen at the end.

use std::collections::{BTreeSet, VecDeque};
use std::ops::Range;

use thalweg_data::{BlockWriter, Events, Fragment, Fragments, Mark, Pool, SourceId, Unit};

use super::Plan;
use super::fates::Life;
use super::random::Random;
use crate::Builder;
use crate::unit::ReadoutUnit;
use crate::unit::readout::Gone;

/// What a board sent for a trigger, on its way.
#[derive(Clone, Copy, Debug)]
struct Sent {
    due: u64,
    trigger: u64,
}

/// Boards and local builder of one readout unit.
pub(super) struct Crate {
    sources: Range<u16>,
    on_their_way: Vec<VecDeque<Sent>>,
    builder: Builder,
    writer: Option<BlockWriter>,
    pool: Pool,
    fragments: Fragments,
    events: Events,
    /// The first trigger that it can have answered.
    first: u64,
    /// What the unit has taken: trigger and which boards.
    taken: Vec<(u64, u64)>,
    /// Trigger and board of what was lost before it arrived.
    lost_on_the_way: BTreeSet<(u64, u16)>,
    doubled: u64,
    /// The unit has died, and had let go of these before, counted so.
    let_go: Option<Vec<(u64, Gone)>>,
}

/// The payload of a fragment: board, trigger, and as many bytes more as both say.
pub(super) fn payload(board: u16, trigger: u64, into: &mut Vec<u8>) {
    into.extend_from_slice(&u64::from(board).to_le_bytes());
    into.extend_from_slice(&trigger.to_le_bytes());
    into.resize(into.len() + (trigger as usize * 7 + usize::from(board)) % 24, board as u8);
}

impl Crate {
    /// Boards that answer from trigger `first` on; `is_start`: that of the run, which the builder knows.
    pub fn new(sources: Range<u16>, first: u64, is_start: bool, pool: &Pool) -> Result<Crate, String> {
        let first_trigger = is_start.then_some(first);
        let settings = crate::Settings {
            depth: 256,
            age_ms: 10,
            ordered: true,
            first_trigger,
            memory_bytes: 1 << 20,
            ..crate::Settings::default()
        };
        let mut builder = Builder::new(&settings, sources.clone()).map_err(|error| error.to_string())?;
        builder.start_run(1);
        Ok(Crate {
            on_their_way: sources.clone().map(|_| VecDeque::new()).collect(),
            sources,
            builder,
            writer: None,
            pool: pool.clone(),
            fragments: Fragments::default(),
            events: Events::default(),
            first,
            taken: Vec::new(),
            lost_on_the_way: BTreeSet::new(),
            doubled: 0,
            let_go: None,
        })
    }

    /// The unit has died, with these words on what it had let go of.
    pub fn unit_died(&mut self, let_go: &[(u64, Gone)]) {
        self.let_go = Some(let_go.to_vec());
    }

    /// What happened here until trigger `until`; `fates` are those of the unit if it lives.
    pub fn life(&self, until: u64, fates: Option<&[(u64, Gone)]>) -> Life {
        let let_go = self.let_go.as_deref().or(fates).unwrap_or_default();
        Life {
            triggers: self.first..until,
            sources: self.sources.clone(),
            died: self.let_go.is_some(),
            lost_on_the_way: self.lost_on_the_way.clone(),
            taken: self.taken.iter().copied().collect(),
            let_go: let_go.iter().copied().collect(),
        }
    }

    /// Fragments that the local builder counts as lost: those that arrived and are in no event of it, and one of every two that came
    /// twice.
    pub fn lost_fragments(&mut self) -> u64 {
        let lost = |source| self.builder.counters(SourceId(source)).total_lost_any(Unit::Fragments);
        self.sources.clone().map(lost).sum()
    }

    /// Fragments that were sent twice.
    pub fn doubled(&self) -> u64 {
        self.doubled
    }

    /// Every board answers a trigger, or does not.
    pub fn answer(&mut self, trigger: u64, now: u64, plan: &Plan, random: &mut Random) {
        for (board, way) in self.on_their_way.iter_mut().enumerate() {
            if random.once_in(plan.lost_once_in) {
                self.lost_on_the_way.insert((trigger, self.sources.start + board as u16));
                continue;
            }
            let late = if random.once_in(plan.late_once_in) { random.between(1, 30) } else { 0 };
            let due = way.back().map_or(0, |sent| sent.due).max(now + late + random.below(3));
            way.push_back(Sent { due, trigger });
            if random.once_in(plan.doubled_once_in) {
                self.doubled += 1;
                way.push_back(Sent { due, trigger });
            }
        }
    }

    /// Receives what has come, builds it, and hands it to the unit.
    pub fn run(&mut self, unit: &mut ReadoutUnit, now: u64) {
        for board in 0..self.on_their_way.len() {
            self.receive(board, now);
        }
        self.builder.advance(Mark(now * 1_000_000));
        while unit.takes_input() && self.builder.pull(&mut self.events, 32) {
            for event in &self.events.events {
                let mask =
                    self.events.fragments_of(event).iter().fold(0, |mask, each| mask | 1 << each.source.0);
                self.taken.push((event.trigger, mask));
            }
            unit.insert(&mut self.events);
            self.events.clear();
        }
    }

    fn receive(&mut self, board: usize, now: u64) {
        let source = SourceId(self.sources.start + board as u16);
        self.fragments.clear();
        self.fragments.header.source = source;
        self.fragments.header.mark = Mark(now * 1_000_000);
        let mut bytes = Vec::new();
        while let Some(sent) = self.on_their_way[board].front().copied().filter(|sent| sent.due <= now) {
            if !self.builder.wants(source) || self.fragments.fragments.len() >= 16 {
                break;
            }
            bytes.clear();
            payload(source.0, sent.trigger, &mut bytes);
            if self.writer.as_ref().is_none_or(|writer| writer.remaining() < bytes.len()) {
                self.writer = self.pool.take();
            }
            // No block: the board waits, as at a closed TCP window.
            let Some(writer) = &mut self.writer else { break };
            let Some(slice) = writer.append(&bytes) else { break };
            self.fragments.leases.add(writer.lease());
            self.fragments.slices.push(slice);
            self.fragments.fragments.push(Fragment {
                trigger: sent.trigger,
                ticks: sent.trigger * 3,
                bytes: bytes.len() as u32,
                source,
                slices: 1,
            });
            self.on_their_way[board].pop_front();
        }
        let taken = self.builder.insert(&self.fragments);
        // What the builder has no space for comes again.
        for fragment in self.fragments.fragments[taken..].iter().rev() {
            self.on_their_way[board].push_front(Sent { due: now, trigger: fragment.trigger });
        }
    }

    /// Nothing follows: what waits in the local builder may go.
    pub fn end_run(&mut self) {
        self.builder.end_run();
    }

    /// Whether nothing is on its way to the unit.
    pub fn is_quiet(&self) -> bool {
        self.on_their_way.iter().all(VecDeque::is_empty) && self.builder.is_empty()
    }

    /// Whether every fragment that was sent has been received.
    pub fn has_received_all(&self) -> bool {
        self.on_their_way.iter().all(VecDeque::is_empty)
    }

    pub fn open_events(&self) -> usize {
        self.builder.open_events()
    }
}
