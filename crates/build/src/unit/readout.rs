//! A readout unit: keeps the events of its own sources and sends each to the builder unit that is to build it.
//!
//! ```text
//!  Builder over own sources ─Events─► insert ─► kept ─ Part ─► builder units          (rotating: unit i begins with builder i)
//!                                                │ ▲
//!             Progress ─► event manager ─ Assign ┘ └ Release: written, may be forgotten
//! ```
//! An event is kept until the write of its builder unit has returned, so that the death of a builder costs nothing. What is
//! kept is bounded: at the upper watermark the unit asks for BUSY, at the limit [`ReadoutUnit::insert`] takes no more and
//! the host's policy applies.

use std::collections::VecDeque;
use std::ops::Range;

use thalweg_data::{
    Counters, Event, Events, LossReason, Mark, Message, RangeFate, RangeRecord, Unit, UnitId,
};

use super::message::{self, List, Progress, Released, Said};
use super::part::{self, PartHead, PartWriter};
use super::ranges::{Ranged, Ranges};
use super::store::{self, Amount, Store};
use super::{Address, Assignment, Identity, Outbox, RefusedMessages, Settings, Watermarks};

/// Parts on their way to one builder unit at a time: enough to keep a connection busy, few enough not to outrun its host.
const PARTS_WAITING: usize = 4;
/// Messages to the manager at a time; progress is absolute, so one more can wait.
const MESSAGES_WAITING: usize = 8;
/// Longest head of a part; far below [`Message::LONGEST_HEAD`].
const LONGEST_TABLES: usize = 4 << 20;
/// How far into a queue is looked for a range that can go before those in front of it.
const LOOK_AHEAD: usize = 16;

/// A range that was assigned.
#[derive(Clone, Copy, Debug)]
struct Duty {
    assignment: Assignment,
    /// Every event below was sent to its builder, over the present connection.
    sent_until: u64,
    /// Likewise over any connection.
    ever_sent_until: u64,
    /// This unit does not have it: it was started later.
    lost: bool,
    /// Everything was said about it.
    finished: bool,
}

impl Duty {
    fn new(assignment: Assignment, lost: bool) -> Duty {
        let start = assignment.start;
        Duty { assignment, sent_until: start, ever_sent_until: start, lost, finished: false }
    }
}

impl Ranged for Duty {
    fn start(&self) -> u64 {
        self.assignment.start
    }
    fn end(&self) -> u64 {
        self.assignment.end()
    }
}

/// What became of an event that a new state of the manager no longer has open.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Done {
    /// Written without this unit.
    Late,
    /// Written with it.
    Shipped,
    /// It never was sent.
    Lost,
    /// The manager is another, and does not know.
    Unknown,
}

#[derive(Debug, Default)]
struct BuilderQueue {
    connected: bool,
    /// Ranges to send, by their first trigger.
    starts: VecDeque<u64>,
}

/// The connection to the event manager, and what this unit has reported over it.
#[derive(Debug, Default)]
struct ManagerLink {
    connected: bool,
    report_due: bool,
    at: Mark,
    progress: Progress,
}

/// How trigger numbers of few bits are put where those of the others are.
#[derive(Debug)]
struct Numbering {
    add: u64,
    /// A trigger near which the next one must lie, while that is not settled.
    near: Option<u64>,
}

/// A readout unit. See the [module](super) for the protocol.
#[derive(Debug)]
pub struct ReadoutUnit {
    identity: Identity,
    settings: Settings,
    store: Store,
    duties: Ranges<Duty>,
    builders: Vec<BuilderQueue>,
    manager: ManagerLink,
    epoch: u64,
    assigned_until: u64,
    closed_until: u64,
    /// First trigger that this start of the unit has had.
    begun: Option<u64>,
    ended: bool,
    numbering: Numbering,
    event_marks: Watermarks,
    byte_marks: Watermarks,
    counters: Counters,
    refused: RefusedMessages,
    /// What became of each range, until the host takes it; `None` where nobody asks.
    ranges: Option<Vec<RangeRecord>>,
    /// For a simulation: which events were let go of, and as what they were counted.
    fates: Option<Vec<(u64, Gone)>>,
}

/// As what an event was counted that this unit let go of.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Gone {
    /// Written.
    Out,
    /// Late: written without it.
    Late,
    /// Lost, because nobody is left who knows whether it was written: at most so much is.
    Unknown,
}

impl ReadoutUnit {
    /// A unit that keeps nothing yet, towards `builders` builder units.
    pub fn new(identity: Identity, builders: u16, settings: &Settings) -> ReadoutUnit {
        ReadoutUnit {
            identity,
            store: Store::default(),
            duties: Ranges::default(),
            builders: (0..builders).map(|_| BuilderQueue::default()).collect(),
            manager: ManagerLink::default(),
            epoch: 0,
            assigned_until: 0,
            closed_until: 0,
            begun: None,
            ended: false,
            numbering: Numbering { add: 0, near: None },
            event_marks: settings.marks(settings.keep_events),
            byte_marks: settings.marks(settings.keep_bytes),
            counters: Counters::default(),
            refused: RefusedMessages::default(),
            ranges: None,
            fates: None,
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

    /// The unit does nothing more: of what it still keeps for builder units it does not know whether it is on file.
    pub fn close_ranges(&mut self) {
        let kept: Vec<Duty> = self.duties.iter().copied().collect();
        for duty in kept {
            self.note_range(&duty, duty.start()..duty.end(), RangeFate::Unknown);
        }
    }

    /// Ends although events are kept: behind [`ReadoutUnit::close_ranges`], these are lost. Whether a builder unit has them on file all the
    /// same is not known here.
    pub fn give_up(&mut self) {
        let kept = self.store.give_up();
        self.lose(kept, LossReason::UnitLost);
    }

    /// Notes what became of this unit's events of a range, or of a part of it. To be called while they are kept.
    fn note_range(&mut self, duty: &Duty, triggers: Range<u64>, fate: RangeFate) {
        let Some(ranges) = self.ranges.as_mut().filter(|_| !duty.lost && !triggers.is_empty()) else {
            return;
        };
        let sum = self.store.sum(triggers.start, triggers.end);
        if !sum.is_empty() {
            let Assignment { builder, attempt, .. } = duty.assignment;
            let (first, last, readout) = (triggers.start, triggers.end - 1, Some(self.identity.number));
            let epoch = self.epoch;
            ranges.push(RangeRecord { first, last, ranges: 1, attempt, epoch, readout, builder, fate, sum });
        }
    }

    /// Notes what was sent to a builder unit that does not build the range any more.
    fn note_replaced(&mut self, duty: &Duty) {
        self.note_range(duty, duty.start()..duty.ever_sent_until, RangeFate::Replaced);
    }

    /// The epoch of the last event manager from which a message came; 0 if none came.
    pub fn epoch(&self) -> u64 {
        self.epoch
    }

    /// From here on notes the fate of every event.
    #[cfg(any(test, feature = "harness"))]
    pub(super) fn watch(&mut self) {
        self.store.watch();
        self.fates = Some(Vec::new());
    }

    /// Every event that was let go of, in that order.
    #[cfg(any(test, feature = "harness"))]
    pub(super) fn fates(&self) -> &[(u64, Gone)] {
        self.fates.as_deref().unwrap_or_default()
    }

    fn note_fates(&mut self, gone: Vec<u64>, fate: Gone) {
        if let Some(fates) = &mut self.fates {
            fates.extend(gone.into_iter().map(|trigger| (trigger, fate)));
        }
    }

    /// Takes a batch of events of this unit's sources, in the order of their triggers, and leaves an empty one with memory to fill
    /// again. Events of triggers that the others have done without this unit are counted as late. Returns whether it was taken: not
    /// while the unit keeps as much as it may.
    pub fn insert(&mut self, events: &mut Events) -> bool {
        if !self.takes_input() {
            return false;
        }
        self.settle_numbering(events);
        let whole = events.events.iter().fold(Amount::default(), |mut sum, event| {
            sum.add(Amount::of(event));
            sum
        });
        self.begun = self.begun.or(events.events.first().map(|event| event.trigger));
        let (duties, synchronised) = (&self.duties, self.epoch > 0);
        let (mut lowest, assigned_until) = (self.closed_until, self.assigned_until);
        let wants = |event: &Event| {
            let in_order = event.trigger >= lowest;
            lowest = lowest.max(event.trigger.saturating_add(1));
            let wanted = !synchronised || event.trigger >= assigned_until || {
                let duty = duties.containing(event.trigger);
                duty.is_some_and(|duty| !duty.lost && duty.sent_until <= event.trigger)
            };
            in_order && wanted
        };
        let kept = self.store.put(events, wants);
        let gone = self.store.take_gone();
        self.note_fates(gone, Gone::Late);
        self.closed_until = lowest;
        let mut late = whole;
        late.take(kept);
        self.count(whole, |counters, unit, count| counters.input(unit, count));
        self.lose(late, LossReason::LateFragment);
        true
    }

    /// Whether there is space for a batch. While there is not, the host's policy applies: hold, or drop.
    pub fn takes_input(&self) -> bool {
        let held = self.store.held();
        held.events < self.settings.keep_events && held.bytes < self.settings.keep_bytes
    }

    /// Nothing follows in this run.
    pub fn end_run(&mut self) {
        self.ended = true;
    }

    /// A connection was made: what the other side may have missed will be said again.
    pub fn connected(&mut self, to: Address, now: Mark) {
        match to {
            Address::Manager => {
                self.manager =
                    ManagerLink { connected: true, report_due: true, at: now, ..ManagerLink::default() };
            }
            Address::Builder(number) => {
                self.start_builder_over(number);
                if let Some(builder) = self.builders.get_mut(number.index()) {
                    builder.connected = true;
                }
            }
            _ => {}
        }
    }

    /// A connection was lost, and what was on its way.
    pub fn disconnected(&mut self, from: Address, _now: Mark, outbox: &mut Outbox) {
        outbox.forget(from);
        match from {
            Address::Manager => self.manager.connected = false,
            Address::Builder(number) => {
                if let Some(builder) = self.builders.get_mut(number.index()) {
                    builder.connected = false;
                }
                self.start_builder_over(number);
            }
            _ => {}
        }
    }

    /// Takes a message.
    pub fn on_message(&mut self, from: Address, message: &Message, _now: Mark) {
        let Some(said) = self.refused.read(self.identity.run, message) else { return };
        match said {
            _ if from != Address::Manager => self.refused.unexpected_sender += 1,
            Said::State { epoch, next, open } if epoch >= self.epoch => self.take_state(epoch, next, open),
            Said::Assign { epoch, next, ranges } if epoch == self.epoch => self.take_work(next, ranges),
            Said::Release { epoch, ranges } if epoch == self.epoch => self.release(ranges),
            Said::State { .. } | Said::Assign { .. } | Said::Release { .. } => self.refused.old_epoch += 1,
            _ => self.refused.unexpected_sender += 1,
        }
    }

    /// Says what there is to say: progress to the manager, parts to builder units that take them.
    pub fn poll(&mut self, now: Mark, outbox: &mut Outbox) {
        let held = self.store.held();
        self.event_marks.update(held.events, now);
        self.byte_marks.update(held.bytes, now);
        self.speak(now, outbox);
        let builders = self.builders.len();
        for step in 0..builders {
            // Unit i begins with builder i: not all send to the same one at the same time.
            let builder = (self.identity.number.index() + step) % builders;
            let to = Address::Builder(UnitId::from_index(builder));
            while self.builders[builder].connected && outbox.waiting(to) < PARTS_WAITING {
                let Some(start) = self.next_ready(builder) else { break };
                self.send_part(start, outbox.message(to));
            }
        }
    }

    /// How long it can be left alone until it says what it holds back now, nanoseconds.
    pub fn next_word_ns(&self, now: Mark) -> Option<u64> {
        let has_news = self.manager.connected && moved(&self.progress(), &self.manager.progress);
        has_news.then(|| self.settings.next_word_ns(self.manager.at, now))
    }

    /// Whether this unit asks the trigger to hold back.
    pub fn is_busy(&self) -> bool {
        self.event_marks.is_raised() || self.byte_marks.is_raised()
    }

    /// How long it has asked so until now, in nanoseconds: by events kept, and by bytes kept.
    pub fn busy_ns(&self, now: Mark) -> (u64, u64) {
        (self.event_marks.raised_ns(now), self.byte_marks.raised_ns(now))
    }

    /// Whether it keeps nothing and owes nothing.
    pub fn is_idle(&self) -> bool {
        self.store.held() == Amount::default() && self.duties.is_empty()
    }

    /// Events kept for builder units whose write has not returned.
    pub fn held_events(&self) -> u64 {
        self.store.held().events
    }

    /// Bytes of those.
    pub fn held_bytes(&self) -> u64 {
        self.store.held().bytes
    }

    /// Events, fragments and bytes: in; out when written elsewhere; lost when done without this unit.
    pub fn counters(&self) -> &Counters {
        &self.counters
    }

    /// Messages that were refused, by reason.
    pub fn refused(&self) -> RefusedMessages {
        self.refused
    }

    /// How far it is.
    pub fn progress(&self) -> Progress {
        let held = self.store.held();
        let behind = self.closed_until.max(self.assigned_until);
        Progress {
            closed_until: self.closed_until,
            assigned_until: self.assigned_until,
            lowest_unassigned: self.store.lowest_from(self.assigned_until).unwrap_or(behind),
            held_events: held.events,
            held_bytes: held.bytes,
            busy: self.is_busy(),
            full: !self.takes_input(),
            ended: self.ended,
        }
    }

    // ---- what the manager says ------------------------------------------------------------------------------------------

    fn take_state(&mut self, epoch: u64, next: u64, open: List<'_, Assignment>) {
        let (fresh, had_epoch) = (self.epoch == 0, self.epoch);
        if fresh {
            self.find_numbers_near(next);
        }
        let (had, had_until) = (std::mem::take(&mut self.duties), self.assigned_until);
        let begun = self.begun;
        for assignment in open.iter().filter(|range| !range.written) {
            let available = match fresh {
                true => begun.is_some_and(|begun| begun <= assignment.start),
                false => covers(&had, had_until, assignment),
            };
            let mut duty = Duty::new(assignment, !available);
            if let Some(same) = had.get(assignment.start).filter(|same| {
                same.assignment.is(assignment) && same.assignment.builder == assignment.builder && available
            }) {
                duty = *same;
            }
            self.duties.insert(duty);
        }
        // A manager that remembers less than this unit does not bring back what is gone from here.
        let next = if fresh { next } else { next.max(had_until) };
        (self.epoch, self.assigned_until) = (epoch, next);
        let without_us =
            |range: &Assignment| range.written && had.get(range.start).is_some_and(|duty| !duty.lost);
        // One that this unit knew before names all that was done without it: the rest was done with it.
        let knows_all = !fresh && epoch == had_epoch;
        let excluded: Vec<Assignment> = open.iter().filter(without_us).collect();
        had.iter().for_each(|duty| self.note_what_became_of(duty, &excluded, knows_all));
        let had_it = |trigger: u64| {
            fresh || trigger >= had_until || had.containing(trigger).is_some_and(|duty| !duty.lost)
        };
        let duties = &self.duties;
        let wanted =
            |trigger: u64| trigger >= next || duties.containing(trigger).is_some_and(|duty| !duty.lost);
        let is_included = |trigger: u64| {
            let range = excluded.iter().find(|range| (range.start..range.end()).contains(&trigger));
            range.map(|range| trigger < included_until(range))
        };
        // Each event belongs to one of these.
        let mut done = |kind: Done| {
            let kind_of = |trigger: u64| match trigger {
                _ if is_included(trigger) == Some(false) => Done::Late,
                _ if fresh || trigger >= had_until => Done::Lost,
                _ if knows_all || is_included(trigger).is_some() => Done::Shipped,
                _ => Done::Unknown,
            };
            let amount = self.store.keep_only(|trigger| had_it(trigger) && kind_of(trigger) == kind, wanted);
            (amount, self.store.take_gone())
        };
        let [(late, gone_late), (shipped, gone_out), (mut lost, gone_lost), (unknown, gone_unknown)] =
            [Done::Late, Done::Shipped, Done::Lost, Done::Unknown].map(&mut done);
        lost.add(unknown);
        let fates = [
            (gone_late, Gone::Late),
            (gone_out, Gone::Out),
            (gone_lost, Gone::Late),
            (gone_unknown, Gone::Unknown),
        ];
        for (gone, fate) in fates {
            self.note_fates(gone, fate);
        }
        self.lose(late, LossReason::LateFragment);
        self.count(shipped, |counters, unit, count| counters.output(unit, count));
        self.lose(lost, LossReason::UnitLost);
        self.fill_builder_queues();
    }

    /// Notes what a new state of the manager says of a range that was assigned before: it is another builder unit's now, or done.
    fn note_what_became_of(&mut self, duty: &Duty, excluded: &[Assignment], knows_all: bool) {
        if let Some(present) = self.duties.containing(duty.start()).filter(|present| !present.lost) {
            if !present.assignment.is(duty.assignment) {
                self.note_replaced(duty);
            }
            return;
        }
        match excluded.iter().find(|range| range.start == duty.start()) {
            Some(range) => {
                let until = included_until(range).min(duty.end());
                self.note_range(duty, duty.start()..until, RangeFate::Acknowledged);
                self.note_range(duty, until..duty.end(), RangeFate::Late);
            }
            None => {
                let fate = if knows_all { RangeFate::Acknowledged } else { RangeFate::Unknown };
                self.note_range(duty, duty.start()..duty.end(), fate);
            }
        }
    }

    fn take_work(&mut self, next: u64, ranges: List<'_, Assignment>) {
        let mut covered = 0;
        for assignment in ranges.iter() {
            let known = self.duties.get(assignment.start).copied();
            let fresh = assignment.start >= self.assigned_until;
            let lost = match known {
                Some(duty) if !duty.assignment.yields_to(assignment) => continue,
                Some(duty) => duty.lost,
                None => !fresh,
            };
            covered += if fresh { u64::from(assignment.length) } else { 0 };
            known.into_iter().for_each(|duty| self.note_replaced(&duty));
            self.duties.insert(Duty::new(assignment, lost));
            if let Some(builder) = self.builders.get_mut(assignment.builder.index()) {
                builder.starts.push_back(assignment.start);
            }
        }
        let had_until = self.assigned_until;
        self.assigned_until = had_until.max(next);
        if covered < self.assigned_until - had_until {
            // A hole in the numbers was jumped: nobody else had anything in it.
            let duties = &self.duties;
            let in_hole = |trigger: u64| (had_until..next).contains(&trigger);
            let wanted = |trigger: u64| duties.containing(trigger).is_some_and(|duty| !duty.lost);
            let lost = self.store.keep_only(in_hole, wanted);
            let gone = self.store.take_gone();
            self.note_fates(gone, Gone::Late);
            self.lose(lost, LossReason::LateFragment);
        }
    }

    fn release(&mut self, ranges: List<'_, Released>) {
        for Released { start, included } in ranges.iter() {
            let Some(duty) = self.duties.remove(start) else { continue };
            if duty.lost {
                continue;
            }
            let until = duty.start().saturating_add(included.into()).min(duty.end());
            self.note_range(&duty, duty.start()..until, RangeFate::Acknowledged);
            self.note_range(&duty, until..duty.end(), RangeFate::Late);
            for (from, until, fate) in [(duty.start(), until, Gone::Out), (until, duty.end(), Gone::Late)] {
                let released = self.store.release(from, until);
                let gone = self.store.take_gone();
                self.note_fates(gone, fate);
                match fate {
                    Gone::Out => self.count(released, |counters, unit, count| counters.output(unit, count)),
                    _ => self.lose(released, LossReason::LateFragment),
                }
            }
        }
    }

    // ---- what is said ------------------------------------------------------------------------------------------------

    fn speak(&mut self, now: Mark, outbox: &mut Outbox) {
        if !self.manager.connected || outbox.waiting(Address::Manager) >= MESSAGES_WAITING {
            return;
        }
        let progress = self.progress();
        let (run, epoch) = (self.identity.run, self.epoch);
        if self.manager.report_due {
            // Also those that this unit does not have: what is not reported is taken for released.
            let open = self.duties.iter().map(|duty| duty.assignment);
            let message = outbox.message(Address::Manager);
            message::readout_report(message, run, self.identity.incarnation, epoch, &progress, open);
        } else if self.is_news(&progress, now) {
            message::progress(outbox.message(Address::Manager), run, epoch, &progress);
        } else {
            return;
        }
        self.manager = ManagerLink { report_due: false, at: now, progress, ..self.manager };
    }

    fn is_news(&self, progress: &Progress, now: Mark) -> bool {
        let (reported, silent_ns) = (&self.manager.progress, now.since_ns(self.manager.at));
        let closed = progress.closed_until.saturating_sub(reported.closed_until);
        (progress.busy, progress.full, progress.ended) != (reported.busy, reported.full, reported.ended)
            || closed >= self.settings.ranges_per_word() * u64::from(self.settings.range_events)
            || moved(progress, reported) && silent_ns >= self.settings.progress_ns()
            || silent_ns >= self.settings.heartbeat_ns()
    }

    /// The next range of a builder of which a part can be sent. Ranges that have gone to others or are done are passed over.
    fn next_ready(&mut self, builder: usize) -> Option<u64> {
        let mut index = 0;
        while index < self.builders[builder].starts.len().min(LOOK_AHEAD) {
            let start = self.builders[builder].starts[index];
            let duty = self.duties.get(start);
            match duty.filter(|duty| duty.assignment.builder.index() == builder && !duty.finished) {
                None => {
                    self.builders[builder].starts.remove(index);
                }
                Some(duty) if duty.lost || self.ended || self.closed_until >= duty.end() => {
                    return Some(start);
                }
                Some(_) => index += 1,
            }
        }
        None
    }

    /// Writes the next part of a range.
    fn send_part(&mut self, start: u64, message: &mut Message) {
        let Some(duty) = self.duties.find(start) else { return };
        let (from, end) = (duty.sent_until, duty.assignment.end());
        let head = PartHead {
            epoch: self.epoch,
            range: duty.assignment,
            readout: self.identity.number,
            from,
            until: end,
            lost: duty.lost,
        };
        let mut writer = PartWriter::new(message, self.identity.run, head);
        let mut until = end;
        if !duty.lost {
            'full: for (table, places) in self.store.each(from, end) {
                writer.message().leases.add_all(&table.events.leases);
                for index in places {
                    let (payload, tables) = writer.bytes();
                    if payload >= self.settings.part_bytes || tables >= LONGEST_TABLES {
                        until = table.events.events[index].trigger;
                        break 'full;
                    }
                    part::append_event(&mut writer, table, index);
                }
            }
        }
        writer.finish(until);
        duty.sent_until = until;
        duty.ever_sent_until = duty.ever_sent_until.max(until);
        duty.finished = duty.lost || until == end;
    }

    /// What was sent to a builder may not have come: everything again.
    fn start_builder_over(&mut self, number: UnitId) {
        for duty in self.duties.iter_mut().filter(|duty| duty.assignment.builder == number) {
            (duty.sent_until, duty.finished) = (duty.assignment.start, false);
        }
        self.fill_builder_queues();
    }

    fn fill_builder_queues(&mut self) {
        self.builders.iter_mut().for_each(|builder| builder.starts.clear());
        for duty in self.duties.iter().filter(|duty| !duty.finished) {
            if let Some(builder) = self.builders.get_mut(duty.assignment.builder.index()) {
                builder.starts.push_back(duty.assignment.start);
            }
        }
    }

    // ---- numbers -----------------------------------------------------------------------------------------------------

    /// After a start in mid-run the local builder counts its turns of a short trigger counter from 0 again.
    fn find_numbers_near(&mut self, next: u64) {
        if self.settings.trigger_bits >= 64 || next == 0 {
            return;
        }
        self.numbering.near = Some(next);
        if self.closed_until > 0 {
            let add = self.numbering_add(self.closed_until, next);
            self.renumber(add);
        }
    }

    fn numbering_add(&self, trigger: u64, near: u64) -> u64 {
        let turn = 1u64 << self.settings.trigger_bits;
        let half = turn / 2;
        near.wrapping_sub(trigger).wrapping_add(half) / turn * turn
    }

    fn renumber(&mut self, add: u64) {
        self.numbering = Numbering { add, near: None };
        self.store.renumber(add);
        self.closed_until = self.closed_until.wrapping_add(add);
        self.begun = self.begun.map(|begun| begun.wrapping_add(add));
    }

    fn settle_numbering(&mut self, events: &mut Events) {
        if let (Some(near), Some(first)) = (self.numbering.near, events.events.first()) {
            self.numbering = Numbering { add: self.numbering_add(first.trigger, near), near: None };
        }
        if self.numbering.add != 0 {
            store::renumber(events, self.numbering.add);
        }
    }

    fn lose(&mut self, amount: Amount, reason: LossReason) {
        self.count(amount, |counters, unit, count| counters.lost(reason, unit, count));
    }

    fn count(&mut self, amount: Amount, mut to: impl FnMut(&mut Counters, Unit, u64)) {
        let held = self.store.held();
        let counts = [
            (Unit::Events, amount.events, held.events),
            (Unit::Fragments, amount.fragments, held.fragments),
            (Unit::Bytes, amount.bytes, held.bytes),
        ];
        for (unit, count, held) in counts {
            if count > 0 {
                to(&mut self.counters, unit, count);
            }
            self.counters.set_held(unit, held);
        }
    }
}

/// Of a range that is done without a unit's part: where what is in it ends. Of a part that broke off the first triggers are in it.
fn included_until(range: &Assignment) -> u64 {
    range.start + u64::from(range.builder.0)
}

/// Whether every trigger of a range was still there, by the ranges and the limit of before.
fn covers(had: &Ranges<Duty>, had_until: u64, range: Assignment) -> bool {
    let mut trigger = range.start;
    while trigger < range.end() && trigger < had_until {
        match had.containing(trigger) {
            Some(duty) if !duty.lost => trigger = duty.end(),
            _ => return false,
        }
    }
    true
}

/// Whether a report says other numbers than the last one.
fn moved(progress: &Progress, reported: &Progress) -> bool {
    let numbers = |of: &Progress| (of.closed_until, of.assigned_until, of.lowest_unassigned);
    numbers(progress) != numbers(reported)
}
