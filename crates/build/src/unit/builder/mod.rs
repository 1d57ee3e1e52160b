//! A builder unit: puts the parts of all readout units together, and says when they are written.
//!
//! ```text
//!  Part of RU 0 ─┐  range 0‥64:  [ RU 0 ✓ | RU 1 ✓ | RU 2 … ]      waits
//!  Part of RU 1 ─┼► range 64‥128: [ ✓ | ✓ | ✓ ] ─ pull ─► Events ─► sink ─ written ─► Done ─► event manager
//!  Part of RU 2 ─┘                                                                Release ◄─┘
//! ```
//! Work is counted per range: a part is appended to the range's table of its readout unit, and events are put together only when
//! every part is there, or has waited too long, or its unit is gone. Tables go round, so that nothing is allocated per event.

mod building;
mod parts;
mod passed_range;
mod whole_ranges;

use std::collections::VecDeque;
use std::ops::Range;

use thalweg_data::{
    Counters, EventSum, Events, LossReason, Mark, Message, RangeFate, RangeRecord, Unit, UnitId,
};

use building::Building;
use passed_range::Passed;

use super::message::{self, Credits, List, Said};
use super::ranges::Ranges;
use super::store::Amount;
use super::{
    Address, Assignment, Identity, OnFile, Outbox, RefusedMessages, Settings, UnitLayout, Watermarks,
};
use crate::unseen::Unseen;

/// Messages to the manager at a time: the rest waits in the lists that they are written from.
const MESSAGES_WAITING: usize = 8;
/// Ranges that are remembered although everybody may have forgotten them.
pub(super) const MOST_REMEMBERED: usize = 1024;

#[derive(Clone, Copy, Debug)]
struct Sender {
    connected: bool,
    /// Since when it is connected, or not.
    since: Mark,
    /// When its last part came.
    received: Mark,
}

#[derive(Debug, Default)]
struct ManagerLink {
    connected: bool,
    report_due: bool,
    /// The manager of this connection has said what is ours.
    answered: bool,
    at: Mark,
    credits: Credits,
    /// Which readout units are connected now, and which not.
    reached: bool,
}

/// A builder unit. See the [module](super) for the protocol.
#[derive(Debug)]
pub struct BuilderUnit {
    identity: Identity,
    settings: Settings,
    sources: Vec<Range<u16>>,
    readouts: Vec<Sender>,
    epoch: u64,
    manager: ManagerLink,
    open: Ranges<Box<Building>>,
    /// Ranges that can be passed on, in the order in which they became so.
    ready: VecDeque<u64>,
    #[expect(clippy::vec_box, reason = "the boxes themselves go round")]
    spare: Vec<Box<Building>>,
    passed: VecDeque<Passed>,
    /// Behind the last trigger of any range that was ever passed on: no range from there on is among them.
    passed_until: u64,
    /// The last that were written and released, the latest first. A manager that comes without a message of those who know of the release
    /// would have them built again.
    remembered: VecDeque<Passed>,
    position: u64,
    /// Position behind the last range that had any event.
    filled_position: u64,
    written_position: u64,
    byte_marks: Watermarks,
    on_hold: bool,
    /// In ranges that are built, and passed on but not written.
    building: Amount,
    unwritten: Amount,
    /// What was passed on since the start, and what earlier starts had on file.
    on_file: OnFile,
    /// Triggers of ranges that were built of which no part has anything.
    unseen: Unseen,
    swept: Mark,
    counters: Counters,
    refused: RefusedMessages,
    /// What became of each range, until the host takes it; `None` where nobody asks.
    ranges: Option<Vec<RangeRecord>>,
    /// For a simulation: parts that were counted as late or lost.
    lost_parts: Option<Vec<LostPart>>,
}

/// A part, or what was there of it, that is in no event of this unit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct LostPart {
    pub readout: UnitId,
    /// First trigger, and the first behind it.
    pub from: u64,
    pub until: u64,
    pub attempt: u8,
}

impl BuilderUnit {
    /// A unit that builds nothing yet.
    pub fn new(identity: Identity, layout: &UnitLayout, settings: &Settings, now: Mark) -> BuilderUnit {
        BuilderUnit {
            identity,
            sources: layout.readouts.clone(),
            readouts: vec![Sender { connected: false, since: now, received: now }; layout.readouts.len()],
            epoch: 0,
            manager: ManagerLink::default(),
            open: Ranges::default(),
            ready: VecDeque::new(),
            spare: Vec::new(),
            passed: VecDeque::new(),
            passed_until: 0,
            remembered: VecDeque::new(),
            position: 0,
            filled_position: 0,
            written_position: 0,
            byte_marks: settings.marks(settings.builder_bytes),
            on_hold: false,
            building: Amount::default(),
            unwritten: Amount::default(),
            on_file: OnFile::default(),
            unseen: Unseen::default(),
            swept: now,
            counters: Counters::default(),
            refused: RefusedMessages::default(),
            ranges: None,
            lost_parts: None,
            settings: settings.clone(),
        }
    }

    /// From here on notes what becomes of each range. The host takes the records after every poll.
    pub fn keep_ranges(&mut self) {
        self.ranges = Some(Vec::new());
    }

    /// The records since they were last taken.
    pub fn ranges(&mut self) -> &mut Vec<RangeRecord> {
        self.ranges.get_or_insert_default()
    }

    /// The unit does nothing more: what it has passed on and not confirmed to be on file may be there or not.
    pub fn close_ranges(&mut self) {
        let passed = self.passed.iter().filter(|passed| !passed.written);
        let passed = passed.map(|passed| (passed.assignment, passed.sums.clone()));
        let open = self.open.iter().map(|building| (building.assignment, building.sums()));
        let given: Vec<(Assignment, Vec<EventSum>)> = passed.chain(open).collect();
        given.iter().for_each(|(range, sums)| self.note_range(*range, sums, RangeFate::Given));
    }

    /// Notes what became of the events of a range: of whole events, and of each readout unit's part of them.
    fn note_range(&mut self, range: Assignment, sums: &[EventSum], fate: RangeFate) {
        let (epoch, builder) = (self.epoch, self.identity.number);
        let Some(ranges) = &mut self.ranges else { return };
        let readouts = [None].into_iter().chain((0..).map(|number| Some(UnitId(number))));
        for (readout, sum) in readouts.zip(sums).filter(|(_, sum)| !sum.is_empty()) {
            let (first, last, attempt) = (range.start, range.end() - 1, range.attempt);
            let sum = *sum;
            ranges.push(RangeRecord { first, last, ranges: 1, attempt, epoch, readout, builder, fate, sum });
        }
    }

    /// The epoch of the last event manager from which a message came; 0 if none came.
    pub fn epoch(&self) -> u64 {
        self.epoch
    }

    /// From here on notes the parts that are lost.
    #[cfg(any(test, feature = "harness"))]
    pub(super) fn watch(&mut self) {
        self.lost_parts = Some(Vec::new());
    }

    /// The parts that were counted as late or lost.
    #[cfg(any(test, feature = "harness"))]
    pub(super) fn lost_parts(&self) -> &[LostPart] {
        self.lost_parts.as_deref().unwrap_or_default()
    }

    /// Gives the unit, before its first connection, what an earlier start of it has left on file.
    pub fn recall(&mut self, on_file: OnFile) {
        self.on_file = on_file;
    }

    /// A connection was made: what the other side may have missed will be said again.
    pub fn connected(&mut self, to: Address, now: Mark) {
        match to {
            Address::Manager => {
                self.manager =
                    ManagerLink { connected: true, report_due: true, at: now, ..ManagerLink::default() };
                self.passed.iter_mut().for_each(|passed| passed.reported = false);
            }
            Address::Readout(number) => self.set_readout(number, true, now),
            _ => {}
        }
    }

    /// A connection was lost, and what was on its way.
    pub fn disconnected(&mut self, from: Address, now: Mark, outbox: &mut Outbox) {
        outbox.forget(from);
        match from {
            Address::Manager => self.manager.connected = false,
            Address::Readout(number) => self.set_readout(number, false, now),
            _ => {}
        }
    }

    fn set_readout(&mut self, number: UnitId, connected: bool, now: Mark) {
        if let Some(readout) = self.readouts.get_mut(number.index()) {
            *readout = Sender { connected, since: now, received: now };
            self.manager.reached = false;
        }
    }

    /// Takes a message.
    pub fn on_message(&mut self, from: Address, message: &Message, now: Mark) {
        let Some(said) = self.refused.read(self.identity.run, message) else { return };
        match (from, said) {
            (Address::Readout(number), Said::Part(part)) if number == part.head.readout => {
                self.take_part(&part, message, now);
                self.note_held();
            }
            (Address::Manager, Said::State { epoch, open, .. }) if epoch >= self.epoch => {
                self.take_state(epoch, open, now);
            }
            (Address::Manager, Said::Assign { epoch, ranges, .. }) if epoch == self.epoch => {
                let number = self.identity.number;
                ranges
                    .iter()
                    .filter(|range| range.builder == number)
                    .for_each(|range| self.confirm(range, now));
            }
            (Address::Manager, Said::Release { epoch, ranges }) if epoch == self.epoch => {
                ranges.iter().for_each(|range| self.forget(range.start));
            }
            (Address::Manager, Said::State { .. } | Said::Assign { .. } | Said::Release { .. }) => {
                self.refused.old_epoch += 1;
            }
            _ => self.refused.unexpected_sender += 1,
        }
    }

    /// Appends whole events to `events`, up to about `most_events` in it; returns whether there were any. What was appended is written when the
    /// host says so: [`BuilderUnit::written`] with the [`BuilderUnit::position`] of now.
    pub fn pull(&mut self, events: &mut Events, most_events: usize, now: Mark) -> bool {
        let before = events.events.len();
        events.header.mark = now;
        while events.events.len() < most_events {
            let Some(start) = self.next_ready() else { break };
            self.pass_on(start, events, most_events, now);
        }
        if self.written_position >= self.filled_position {
            // Ranges in which nobody had anything need no write.
            self.written(self.position);
        }
        self.note_held();
        events.events.len() > before
    }

    /// How far [`BuilderUnit::pull`] has come.
    pub fn position(&self) -> u64 {
        self.position
    }

    /// Everything that was pulled up to a position is written: credits are free again, and the readout units may forget.
    pub fn written(&mut self, position: u64) {
        self.written_position = self.written_position.max(position.min(self.position));
        let until = self.written_position;
        let mut amount = Amount::default();
        let mut written = Vec::new();
        for passed in self.passed.iter_mut().filter(|passed| !passed.written && passed.position <= until) {
            passed.written = true;
            amount.events += u64::from(passed.complete) + u64::from(passed.partial);
            amount.bytes += passed.bytes;
            written.push((passed.assignment, std::mem::take(&mut passed.sums)));
        }
        written.iter().for_each(|(range, sums)| self.note_range(*range, sums, RangeFate::OnFile));
        self.unwritten.take(amount);
        self.remember_forgotten();
        self.note_held();
    }

    /// The state of the host's sink: on hold, no assignment is taken and BUSY is asked for; as for a disk above its watermark.
    pub fn hold(&mut self, on_hold: bool) {
        self.on_hold = on_hold;
    }

    /// Lets time pass and says what there is to say.
    pub fn poll(&mut self, now: Mark, outbox: &mut Outbox) {
        if now.since_ns(self.swept) >= self.settings.heartbeat_ns() / 8 {
            self.swept = now;
            self.sweep(now);
        }
        self.byte_marks.update(self.held_bytes(), now);
        self.speak(now, outbox);
        self.note_held();
    }

    /// How long it can be left alone until it says what it holds back now, nanoseconds.
    pub fn next_word_ns(&self, now: Mark) -> Option<u64> {
        let has_news = self.manager.connected && self.passed.iter().any(Passed::is_news);
        has_news.then(|| self.settings.next_word_ns(self.manager.at, now))
    }

    /// Whether this unit asks the trigger to hold back.
    pub fn is_busy(&self) -> bool {
        self.on_hold || self.byte_marks.is_raised()
    }

    /// How long it has asked so until now because of bytes, in nanoseconds.
    pub fn busy_ns(&self, now: Mark) -> u64 {
        self.byte_marks.raised_ns(now)
    }

    /// Whether it builds nothing and the manager knows of everything written.
    pub fn is_idle(&self) -> bool {
        self.open.is_empty() && self.passed.is_empty()
    }

    /// Ranges that it builds.
    pub fn open_ranges(&self) -> usize {
        self.open.len()
    }

    /// Bytes that it holds, until they are written.
    pub fn held_bytes(&self) -> u64 {
        self.building.bytes + self.unwritten.bytes
    }

    /// Events in, out and held between pull and write; fragments and bytes in, out, lost, held before.
    pub fn counters(&self) -> &Counters {
        &self.counters
    }

    /// Messages that were refused, by reason.
    pub fn refused(&self) -> RefusedMessages {
        self.refused
    }

    // ---- what the manager says ------------------------------------------------------------------------------------------

    fn take_state(&mut self, epoch: u64, open: List<'_, Assignment>, now: Mark) {
        let number = self.identity.number;
        let ours = |range: Assignment| open.iter().any(|each| each.is(range) && each.builder == number);
        let mut dropped = Vec::new();
        self.open.take_where(
            |building| !ours(building.assignment) && (building.confirmed || building.epoch < epoch),
            |building| dropped.push(building),
        );
        dropped.into_iter().for_each(|building| self.drop_building(building));
        for passed in &mut self.passed {
            passed.forgotten |= !ours(passed.assignment);
            // What the manager still has as open it does not know of, whatever was said.
            passed.reported = false;
        }
        self.remember_forgotten();
        (self.epoch, self.manager.answered) = (epoch, true);
        // Units that did not know of a range learn of it with this state, too: the wait begins anew.
        self.open.iter_mut().for_each(|building| building.since = now);
        open.iter().filter(|range| range.builder == number).for_each(|range| self.confirm(range, now));
    }

    /// A range is ours, whether or not parts of it have come already.
    fn confirm(&mut self, range: Assignment, now: Mark) {
        if range.start < self.passed_until && self.confirm_passed(range) {
            return;
        }
        let epoch = self.epoch;
        match self.open.find(range.start) {
            Some(building) if building.assignment.is(range) => {
                if !building.confirmed {
                    (building.confirmed, building.since) = (true, now);
                }
                building.epoch = epoch;
                if building.is_ready() {
                    self.ready.push_back(range.start);
                }
            }
            _ => self.start_building(range, epoch, true, now),
        }
    }

    /// The same of a range that was passed on already; returns whether it was.
    fn confirm_passed(&mut self, range: Assignment) -> bool {
        if let Some(index) = self.remembered.iter().position(|passed| passed.assignment.is(range)) {
            // It was written long ago, and the manager does not know.
            let passed = self.remembered.remove(index).into_iter();
            self.passed.extend(passed.map(|passed| Passed { forgotten: false, reported: false, ..passed }));
        }
        let passed = self.passed.iter_mut().find(|passed| passed.assignment.is(range));
        let is_passed = passed.is_some();
        // Not a second time, whatever was thought of it meanwhile.
        passed.into_iter().for_each(|passed| passed.reported &= !std::mem::take(&mut passed.forgotten));
        is_passed
    }

    fn remember_forgotten(&mut self) {
        let remembered = &mut self.remembered;
        self.passed.retain(|passed| {
            let leaves = passed.written && passed.forgotten;
            if leaves {
                remembered.push_front(passed.clone());
            }
            !leaves
        });
        remembered.truncate(MOST_REMEMBERED);
    }

    fn forget(&mut self, start: u64) {
        for passed in self.passed.iter_mut().filter(|passed| passed.assignment.start == start) {
            passed.forgotten = true;
        }
        self.remember_forgotten();
    }

    // ---- what is said ------------------------------------------------------------------------------------------------

    fn credits(&self) -> Credits {
        Credits {
            limit: if self.is_busy() { 0 } else { self.settings.slots },
            held_events: self.unwritten.events,
            held_bytes: self.held_bytes(),
            busy: self.is_busy(),
            is_reached: self.readouts.iter().all(|readout| readout.connected),
        }
    }

    fn speak(&mut self, now: Mark, outbox: &mut Outbox) {
        if !self.manager.connected || outbox.waiting(Address::Manager) >= MESSAGES_WAITING {
            return;
        }
        let credits = self.credits();
        let (run, epoch) = (self.identity.run, self.epoch);
        if self.manager.report_due {
            let open = self.open.iter().filter(|building| building.confirmed);
            let passed = self.passed.iter().filter(|passed| !passed.forgotten).chain(&self.remembered);
            let ranges = open
                .map(|building| building.assignment)
                .chain(passed.map(|passed| Assignment { written: passed.written, ..passed.assignment }));
            let message = outbox.message(Address::Manager);
            let (incarnation, on_file) = (self.identity.incarnation, self.on_file);
            message::builder_report(message, run, incarnation, epoch, on_file, &credits, ranges);
            self.manager = ManagerLink {
                report_due: false,
                at: now,
                credits,
                reached: credits.is_reached,
                ..self.manager
            };
            return;
        }
        let reported = self.manager.credits;
        if (credits.limit, credits.busy) != (reported.limit, reported.busy)
            || !self.manager.reached
            || now.since_ns(self.manager.at) >= self.settings.heartbeat_ns()
        {
            let unreached = (0..).zip(&self.readouts).filter(|(_, readout)| !readout.connected);
            let message = outbox.message(Address::Manager);
            message::credits(message, run, epoch, &credits, unreached.map(|(number, _)| UnitId(number)));
            self.manager = ManagerLink { at: now, credits, reached: true, ..self.manager };
        }
        let news = self.passed.iter().filter(|passed| passed.is_news()).count() as u64;
        let is_worth_it = news >= self.settings.ranges_per_word()
            || now.since_ns(self.manager.at) >= self.settings.progress_ns();
        if epoch > 0 && news > 0 && is_worth_it {
            let finished = self.passed.iter_mut().filter(|passed| passed.is_news()).flat_map(|passed| {
                passed.reported = true;
                passed.items()
            });
            message::done(outbox.message(Address::Manager), run, epoch, finished);
            self.manager.at = now;
        }
    }

    fn count_in(&mut self, fragments: u64, bytes: u64) {
        self.counters.input(Unit::Fragments, fragments);
        self.counters.input(Unit::Bytes, bytes);
    }

    fn lose(&mut self, reason: LossReason, fragments: u64, bytes: u64) {
        if fragments > 0 {
            self.counters.lost(reason, Unit::Fragments, fragments);
            self.counters.lost(reason, Unit::Bytes, bytes);
        }
    }
}
