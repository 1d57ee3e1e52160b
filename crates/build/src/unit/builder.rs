//! A builder unit: puts the parts of all readout units together, and says when they are written.
//!
//! ```text
//!  Part of RU 0 ─┐  range 0‥64:  [ RU 0 ✓ | RU 1 ✓ | RU 2 … ]      waits
//!  Part of RU 1 ─┼► range 64‥128: [ ✓ | ✓ | ✓ ] ─ pull ─► Events ─► sink ─ written ─► Done ─► event manager
//!  Part of RU 2 ─┘                                                                Release ◄─┘
//! ```
//! Work is counted per range: a part is appended to the range's table of its readout unit, and events are put together only when
//! every part is there, or has waited too long, or its unit is gone. Tables go round, so that nothing is allocated per event.

use std::collections::VecDeque;
use std::ops::Range;

use thalweg_data::{Closing, Event, Events, LossReason, Mark, Message, SourceId, Tally, Unit};

use super::message::{self, Credits, Finished, List, Said};
use super::part::Part;
use super::ranges::{Ranged, Ranges};
use super::store::{Amount, Table};
use super::{Address, Assignment, Identity, Outbox, Refused, Settings, Topology, Watermarks};

/// Messages to the manager at a time: the rest waits in the lists that they are written from.
const WORDS_WAITING: usize = 8;

/// How one readout unit's part of a range stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Standing {
    Waiting,
    Whole,
    Gone(Closing),
}

#[derive(Debug)]
struct Share {
    standing: Standing,
    /// Triggers below are here.
    covered_until: u64,
    table: Table,
    /// Events already passed on.
    cursor: usize,
}

/// A range that is being built.
#[derive(Debug)]
struct Building {
    assignment: Assignment,
    /// Epoch of the readout unit or manager that it is known by.
    epoch: u64,
    /// The manager has said that it is ours. Parts can be faster than its word.
    confirmed: bool,
    since: Mark,
    shares: Vec<Share>,
    waiting: usize,
    /// Fragments and bytes here.
    held: Amount,
    /// Whole and partial events passed on, and their bytes.
    passed: (u32, u32),
    passed_bytes: u64,
}

impl Ranged for Building {
    fn start(&self) -> u64 {
        self.assignment.start
    }
    fn end(&self) -> u64 {
        self.assignment.end()
    }
}

impl Building {
    fn start_over(
        &mut self,
        assignment: Assignment,
        epoch: u64,
        confirmed: bool,
        now: Mark,
        readouts: usize,
    ) {
        (self.assignment, self.epoch, self.confirmed, self.since) = (assignment, epoch, confirmed, now);
        self.shares.resize_with(readouts, || Share {
            standing: Standing::Waiting,
            covered_until: 0,
            table: Table::default(),
            cursor: 0,
        });
        for share in &mut self.shares {
            share.table.clear();
            (share.standing, share.covered_until, share.cursor) = (Standing::Waiting, assignment.start, 0);
        }
        (self.waiting, self.held) = (readouts, Amount::default());
        (self.passed, self.passed_bytes) = ((0, 0), 0);
    }

    fn settle(&mut self, readout: usize, standing: Standing) {
        let share = &mut self.shares[readout];
        if share.standing == Standing::Waiting {
            share.standing = standing;
            self.waiting -= 1;
        }
    }

    /// A unit that was given up has come back in time.
    fn revive(&mut self, readout: usize) {
        let share = &mut self.shares[readout];
        if matches!(share.standing, Standing::Gone(_)) && self.passed == (0, 0) {
            share.standing = Standing::Waiting;
            self.waiting += 1;
        }
    }

    fn is_ready(&self) -> bool {
        self.confirmed && self.waiting == 0
    }
}

/// A range that was passed on whole.
#[derive(Debug)]
struct Passed {
    assignment: Assignment,
    /// It is written when the host says that this position is.
    position: u64,
    complete: u32,
    partial: u32,
    absent: Vec<u16>,
    bytes: u64,
    written: bool,
    told: bool,
    /// The manager does not want to hear of it any more.
    forgotten: bool,
}

impl Passed {
    fn is_news(&self) -> bool {
        self.written && !self.told && !self.forgotten
    }

    /// As the manager is told: whose parts were not in it, then what was written.
    fn items(&self) -> impl Iterator<Item = Finished> + '_ {
        let Passed { complete, partial, .. } = *self;
        let Assignment { start, attempt, .. } = self.assignment;
        let absent = self.absent.iter().copied().map(Some).chain([None]);
        absent.map(move |absent| Finished { start, complete, partial, attempt, absent })
    }
}

#[derive(Clone, Copy, Debug)]
struct Sender {
    connected: bool,
    /// Since when it is connected, or not.
    since: Mark,
    /// When its last part came.
    heard: Mark,
}

#[derive(Debug, Default)]
struct Told {
    connected: bool,
    report_due: bool,
    /// The manager of this connection has said what is ours.
    answered: bool,
    at: Mark,
    credits: Credits,
}

/// A builder unit. See the [module](super) for the protocol.
#[derive(Debug)]
pub struct BuilderUnit {
    identity: Identity,
    settings: Settings,
    sources: Vec<Range<u16>>,
    readouts: Vec<Sender>,
    epoch: u64,
    told: Told,
    open: Ranges<Box<Building>>,
    /// Ranges that can be passed on, in the order in which they became so.
    ready: VecDeque<u64>,
    #[expect(clippy::vec_box, reason = "the boxes themselves go round")]
    spare: Vec<Box<Building>>,
    passed: VecDeque<Passed>,
    position: u64,
    /// Position behind the last range that had any event.
    filled_position: u64,
    written_position: u64,
    byte_marks: Watermarks,
    on_hold: bool,
    /// In ranges that are built, and passed on but not written.
    building: Amount,
    unwritten: Amount,
    swept: Mark,
    tally: Tally,
    refused: Refused,
}

impl BuilderUnit {
    /// A unit that builds nothing yet.
    pub fn new(identity: Identity, topology: &Topology, settings: &Settings, now: Mark) -> BuilderUnit {
        BuilderUnit {
            identity,
            sources: topology.readouts.clone(),
            readouts: vec![Sender { connected: false, since: now, heard: now }; topology.readouts.len()],
            epoch: 0,
            told: Told::default(),
            open: Ranges::default(),
            ready: VecDeque::new(),
            spare: Vec::new(),
            passed: VecDeque::new(),
            position: 0,
            filled_position: 0,
            written_position: 0,
            byte_marks: settings.marks(settings.builder_bytes),
            on_hold: false,
            building: Amount::default(),
            unwritten: Amount::default(),
            swept: now,
            tally: Tally::default(),
            refused: Refused::default(),
            settings: settings.clone(),
        }
    }

    /// A connection was made: what the other side may have missed will be said again.
    pub fn connected(&mut self, to: Address, now: Mark) {
        match to {
            Address::Manager => {
                self.told = Told { connected: true, report_due: true, at: now, ..Told::default() };
                self.passed.iter_mut().for_each(|passed| passed.told = false);
            }
            Address::Readout(number) => self.set_readout(number, true, now),
            _ => {}
        }
    }

    /// A connection was lost, and what was on its way.
    pub fn disconnected(&mut self, from: Address, now: Mark, outbox: &mut Outbox) {
        outbox.forget(from);
        match from {
            Address::Manager => self.told.connected = false,
            Address::Readout(number) => self.set_readout(number, false, now),
            _ => {}
        }
    }

    fn set_readout(&mut self, number: u16, connected: bool, now: Mark) {
        if let Some(readout) = self.readouts.get_mut(usize::from(number)) {
            *readout = Sender { connected, since: now, heard: now };
        }
    }

    /// Takes a message.
    pub fn on_message(&mut self, from: Address, message: &Message, now: Mark) {
        let Ok((run, said)) = message::read(message) else {
            self.refused.damaged += 1;
            return;
        };
        if run != self.identity.run {
            self.refused.wrong_run += 1;
            return;
        }
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
            _ => self.refused.stranger += 1,
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
        for passed in self.passed.iter_mut().filter(|passed| !passed.written && passed.position <= until) {
            passed.written = true;
            amount.events += u64::from(passed.complete) + u64::from(passed.partial);
            amount.bytes += passed.bytes;
        }
        self.pass_out(amount.events, amount.bytes);
        self.passed.retain(|passed| !(passed.written && passed.forgotten));
        self.note_held();
    }

    /// The host's word on its sink: on hold, no assignment is taken and BUSY is asked for; as for a disk above its watermark.
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

    /// Whether this unit asks the trigger to hold back.
    pub fn is_busy(&self) -> bool {
        self.on_hold || self.byte_marks.is_raised()
    }

    /// How long it has asked so until now because of bytes, in nanoseconds.
    pub fn busy_ns(&self, now: Mark) -> u64 {
        self.byte_marks.raised_ns(now)
    }

    /// Whether it builds nothing and everything written was heard of.
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
    pub fn tally(&self) -> &Tally {
        &self.tally
    }

    /// Messages that were not heard, by reason.
    pub fn refused(&self) -> Refused {
        self.refused
    }

    // ---- the manager's word ------------------------------------------------------------------------------------------

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
            // What the manager still has as open it has not heard of, whatever was said.
            passed.told = false;
        }
        self.passed.retain(|passed| !(passed.written && passed.forgotten));
        (self.epoch, self.told.answered) = (epoch, true);
        // Who had not heard of a range hears of it with this state, too: the wait begins anew.
        self.open.iter_mut().for_each(|building| building.since = now);
        open.iter().filter(|range| range.builder == number).for_each(|range| self.confirm(range, now));
    }

    /// A range is ours, whether or not parts of it have come already.
    fn confirm(&mut self, range: Assignment, now: Mark) {
        if self.passed.iter().any(|passed| !passed.forgotten && passed.assignment.is(range)) {
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

    fn start_building(&mut self, range: Assignment, epoch: u64, confirmed: bool, now: Mark) {
        let mut building = self.spare.pop().unwrap_or_else(|| {
            Box::new(Building {
                assignment: range,
                epoch,
                confirmed,
                since: now,
                shares: Vec::new(),
                waiting: 0,
                held: Amount::default(),
                passed: (0, 0),
                passed_bytes: 0,
            })
        });
        building.start_over(range, epoch, confirmed, now, self.sources.len());
        if building.is_ready() {
            self.ready.push_back(range.start);
        }
        if let Some(older) = self.open.insert(building) {
            self.drop_building(older);
        }
    }

    fn drop_building(&mut self, building: Box<Building>) {
        self.lose(LossReason::UnitLost, building.held.fragments, building.held.bytes);
        self.building.take(Amount { events: 0, ..building.held });
        // Some of it may be with the host already; when that is written, nobody is told.
        let (complete, partial) = building.passed;
        self.pass_out(u64::from(complete) + u64::from(partial), building.passed_bytes);
        self.recycle(building);
    }

    fn recycle(&mut self, mut building: Box<Building>) {
        const MOST_SPARE: usize = 256;
        building.shares.iter_mut().for_each(|share| share.table.clear());
        if self.spare.len() < MOST_SPARE {
            self.spare.push(building);
        }
    }

    fn forget(&mut self, start: u64) {
        for passed in self.passed.iter_mut().filter(|passed| passed.assignment.start == start) {
            passed.forgotten = true;
        }
        self.passed.retain(|passed| !(passed.written && passed.forgotten));
    }

    // ---- parts -------------------------------------------------------------------------------------------------------

    fn take_part(&mut self, part: &Part<'_>, message: &Message, now: Mark) {
        let readout = usize::from(part.head.readout);
        let Some(sources) = self.sources.get(readout).cloned() else {
            self.refused.stranger += 1;
            return;
        };
        self.readouts[readout].heard = now;
        let (fragments, bytes) = (u64::from(part.fragments), part.payload_bytes);
        if !self.has_room_for(part, now) {
            self.count_in(fragments, bytes);
            self.lose(LossReason::LateFragment, fragments, bytes);
            return;
        }
        let Some(building) = self.open.find(part.head.range.start) else { return };
        building.revive(readout);
        let share = &mut building.shares[readout];
        if share.standing != Standing::Waiting || part.head.from > share.covered_until {
            let reason = match share.standing {
                Standing::Whole => LossReason::DuplicateFragment,
                _ => LossReason::LateFragment,
            };
            self.count_in(fragments, bytes);
            self.lose(reason, fragments, bytes);
            return;
        }
        let lowest = share.covered_until;
        match part.append_to(message, lowest, &sources, &mut share.table) {
            Err(_) => self.refused.stranger += 1,
            Ok((again, again_bytes)) => {
                share.covered_until = lowest.max(part.head.until);
                let new = Amount { events: 0, fragments: fragments - again, bytes: bytes - again_bytes };
                building.held.add(new);
                self.building.add(new);
                if part.head.is_last() {
                    let whole = Standing::Whole;
                    let standing = if part.head.lost { Standing::Gone(Closing::UnitLost) } else { whole };
                    building.settle(readout, standing);
                    if building.is_ready() {
                        self.ready.push_back(part.head.range.start);
                    }
                }
                self.count_in(fragments, bytes);
                self.lose(LossReason::DuplicateFragment, again, again_bytes);
            }
        }
    }

    /// Whether a part has its range here; one that came before the manager's word opens it.
    fn has_room_for(&mut self, part: &Part<'_>, now: Mark) -> bool {
        let range = Assignment { builder: self.identity.number, ..part.head.range };
        if self.passed.iter().any(|passed| {
            passed.assignment.start == range.start && passed.assignment.attempt >= range.attempt
        }) {
            return false;
        }
        match self.open.get(range.start) {
            Some(building) if building.assignment.is(range) => return true,
            Some(building) if building.assignment.attempt > range.attempt => return false,
            Some(building)
                if building.assignment.attempt == range.attempt
                    && (building.confirmed || building.epoch >= part.head.epoch) =>
            {
                return false;
            }
            _ => {}
        }
        // Twice the credits: those in use, and those that a manager before this one had given away.
        if self.open.len() >= 2 * self.settings.slots.max(32) as usize {
            return false;
        }
        self.start_building(range, part.head.epoch, false, now);
        true
    }

    /// Closes what has waited too long, or for units that are gone.
    fn sweep(&mut self, now: Mark) {
        let dead_ns = self.settings.dead_ns();
        let is_gone = |readout: &Sender| !readout.connected && now.since_ns(readout.since) > dead_ns;
        let any_gone = self.readouts.iter().any(is_gone);
        let unconfirmed_ns = 2 * dead_ns + self.settings.age_ms * 1_000_000;
        let mut stale = Vec::new();
        self.open.take_where(
            |building| !building.confirmed && now.since_ns(building.since) > unconfirmed_ns,
            |building| stale.push(building),
        );
        stale.into_iter().for_each(|building| self.drop_building(building));
        if !self.told.connected || !self.told.answered {
            // Without a manager nothing incomplete is given up: what is missing may be with a unit that was never told of
            // its range, and the manager to come would have it built a second time with the same attempt.
            return;
        }
        for building in self.open.iter_mut().filter(|building| building.confirmed && building.waiting > 0) {
            let since = building.since;
            if !any_gone && !self.settings.is_over_age(since, now) {
                continue;
            }
            for (number, readout) in self.readouts.iter().enumerate() {
                // One that sends is on its way to this range, however slow the connection is: BUSY is for that.
                let old = self.settings.is_over_age(since.max(readout.heard), now);
                match is_gone(readout) {
                    true => building.settle(number, Standing::Gone(Closing::UnitLost)),
                    false if old => building.settle(number, Standing::Gone(Closing::Age)),
                    false => {}
                }
            }
            if building.waiting == 0 {
                self.ready.push_back(building.assignment.start);
            }
        }
    }

    // ---- whole events ------------------------------------------------------------------------------------------------

    fn next_ready(&mut self) -> Option<u64> {
        if self.settings.ordered {
            self.ready.clear();
            return self
                .open
                .iter()
                .next()
                .filter(|first| first.is_ready())
                .map(|first| first.assignment.start);
        }
        while let Some(start) = self.ready.front().copied() {
            if self.open.get(start).is_some_and(|building| building.is_ready()) {
                return Some(start);
            }
            self.ready.pop_front();
        }
        None
    }

    /// Passes events of a range on; all of it, or until there are enough.
    fn pass_on(&mut self, start: u64, events: &mut Events, most_events: usize, now: Mark) {
        let Some(building) = self.open.find(start) else { return };
        let (before, fragments_before) = (events.events.len(), events.fragments.len());
        for share in building.shares.iter().filter(|share| share.cursor < share.table.events.events.len()) {
            events.leases.add_all(&share.table.events.leases);
        }
        while events.events.len() < most_events {
            let heads =
                building.shares.iter().filter_map(|share| share.table.events.events.get(share.cursor));
            let Some(trigger) = heads.map(|event| event.trigger).min() else { break };
            let event = put_together(building, &self.sources, trigger, events, now);
            match event.closing {
                Closing::Complete => building.passed.0 += 1,
                _ => building.passed.1 += 1,
            }
        }
        let passed = &events.events[before..];
        let amount = Amount {
            events: passed.len() as u64,
            fragments: (events.fragments.len() - fragments_before) as u64,
            bytes: passed.iter().map(|event| event.bytes).sum(),
        };
        building.held.take(Amount { events: 0, ..amount });
        building.passed_bytes += amount.bytes;
        self.building.take(Amount { events: 0, ..amount });
        self.unwritten.add(Amount { fragments: 0, ..amount });
        self.tally.input(Unit::Events, amount.events);
        self.tally.output(Unit::Fragments, amount.fragments);
        self.tally.output(Unit::Bytes, amount.bytes);
        let exhausted = building.shares.iter().all(|share| share.cursor == share.table.events.events.len());
        if exhausted && let Some(building) = self.open.remove(start) {
            self.finish(building);
        }
    }

    fn finish(&mut self, building: Box<Building>) {
        self.position += 1;
        let (complete, partial) = building.passed;
        if complete + partial > 0 {
            self.filled_position = self.position;
        }
        let gone = |share: &Share| matches!(share.standing, Standing::Gone(_));
        let absent = building.shares.iter().enumerate().filter(|(_, share)| gone(share));
        self.passed.push_back(Passed {
            assignment: building.assignment,
            position: self.position,
            complete,
            partial,
            absent: absent.map(|(readout, _)| readout as u16).collect(),
            bytes: building.passed_bytes,
            written: false,
            told: false,
            forgotten: false,
        });
        self.recycle(building);
    }

    /// Events that are no longer this unit's.
    fn pass_out(&mut self, events: u64, bytes: u64) {
        self.unwritten.take(Amount { events, fragments: 0, bytes });
        self.tally.output(Unit::Events, events);
    }

    fn note_held(&mut self) {
        self.tally.set_held(Unit::Events, self.unwritten.events);
        self.tally.set_held(Unit::Fragments, self.building.fragments);
        self.tally.set_held(Unit::Bytes, self.building.bytes);
    }

    // ---- what is said ------------------------------------------------------------------------------------------------

    fn credits(&self) -> Credits {
        Credits {
            limit: if self.is_busy() { 0 } else { self.settings.slots },
            held_events: self.unwritten.events,
            held_bytes: self.held_bytes(),
            busy: self.is_busy(),
        }
    }

    fn speak(&mut self, now: Mark, outbox: &mut Outbox) {
        if !self.told.connected || outbox.waiting(Address::Manager) >= WORDS_WAITING {
            return;
        }
        let credits = self.credits();
        let (run, epoch) = (self.identity.run, self.epoch);
        if self.told.report_due {
            let open = self.open.iter().filter(|building| building.confirmed);
            let passed = self.passed.iter().filter(|passed| !passed.forgotten);
            let ranges = open
                .map(|building| building.assignment)
                .chain(passed.map(|passed| Assignment { written: passed.written, ..passed.assignment }));
            let message = outbox.message(Address::Manager);
            message::builder_report(message, run, self.identity.incarnation, epoch, &credits, ranges);
            self.told = Told { report_due: false, at: now, credits, ..self.told };
            return;
        }
        let told = self.told.credits;
        if (credits.limit, credits.busy) != (told.limit, told.busy)
            || now.since_ns(self.told.at) >= self.settings.heartbeat_ns()
        {
            message::credits(outbox.message(Address::Manager), run, epoch, &credits);
            self.told = Told { at: now, credits, ..self.told };
        }
        if epoch > 0 && self.passed.iter().any(Passed::is_news) {
            let finished = self.passed.iter_mut().filter(|passed| passed.is_news()).flat_map(|passed| {
                passed.told = true;
                passed.items()
            });
            message::done(outbox.message(Address::Manager), run, epoch, finished);
            self.told.at = now;
        }
    }

    fn count_in(&mut self, fragments: u64, bytes: u64) {
        self.tally.input(Unit::Fragments, fragments);
        self.tally.input(Unit::Bytes, bytes);
    }

    fn lose(&mut self, reason: LossReason, fragments: u64, bytes: u64) {
        if fragments > 0 {
            self.tally.lost(reason, Unit::Fragments, fragments);
            self.tally.lost(reason, Unit::Bytes, bytes);
        }
    }
}

/// Appends the event of one trigger: what each readout unit has of it, in the order of the units and so of the sources.
fn put_together(
    building: &mut Building,
    sources: &[Range<u16>],
    trigger: u64,
    events: &mut Events,
    now: Mark,
) -> Event {
    let mut whole = Event {
        trigger,
        first_arrival: Mark(u64::MAX),
        closed: now,
        first_fragment: events.fragments.len() as u32,
        first_missing: events.missing.len() as u32,
        attempt: building.assignment.attempt,
        ..Event::default()
    };
    for (share, sources) in building.shares.iter_mut().zip(sources) {
        let from = &share.table.events;
        match from.events.get(share.cursor).filter(|event| event.trigger == trigger) {
            Some(event) => {
                let (first, count) = share.table.spans[share.cursor];
                events.fragments.extend_from_slice(from.fragments_of(event));
                events.slices.extend_from_slice(&from.slices[first as usize..][..count as usize]);
                events.missing.extend_from_slice(from.missing_of(event));
                whole.bytes += event.bytes;
                whole.first_arrival = whole.first_arrival.min(event.first_arrival);
                whole.closing = whole.closing.max(event.closing);
                share.cursor += 1;
            }
            None => {
                let closing = match share.standing {
                    Standing::Gone(closing) => closing,
                    // The unit itself has passed the trigger over: none of its boards has answered in time.
                    _ => Closing::Age,
                };
                whole.closing = whole.closing.max(closing);
                events.missing.extend(sources.clone().map(SourceId));
            }
        }
    }
    whole.fragments = events.fragments.len() as u32 - whole.first_fragment;
    whole.missing = events.missing.len() as u32 - whole.first_missing;
    events.events.push(whole);
    whole
}
