//! The event manager: gives ranges of triggers to builder units, and reports to readout units what is done.
//!
//! ```text
//!  Progress of readout units ─► what all have closed ─┐
//!  Credits of builder units ──► who can take more ────┼─► Assign ─► readout units and the builder
//!  Done of builder units ─────► what is written ──────┘─► Release ─► readout units and the builder
//! ```
//! It sees numbers only, never an event, and holds soft state: one row per open range. Whatever it knows it can learn again from
//! the units, and after a restart it is.

mod assign;
mod recovery;

use std::collections::VecDeque;

use thalweg_data::{Mark, Message, UnitId};

use super::message::{self, Credits, Finished, List, Progress, Released, Said};
use super::ranges::Ranges;
use super::{Address, Assignment, OnFile, Outbox, RefusedMessages, Settings, UnitLayout};

/// Messages to one unit at a time; beyond, it gets the whole state when there is space again.
const MESSAGES_WAITING: usize = 64;
/// Ranges done without a readout unit's part that are remembered until it certainly knows: more than it can have open.
const MOST_EXCLUDED: usize = 4096;

/// What is known of the connection to a unit.
#[derive(Clone, Copy, Debug, Default)]
struct Link {
    connected: bool,
    /// It has said all that it knows, over this connection.
    reported: bool,
    /// It is to be sent all that it must know.
    state_due: bool,
    /// When a message last came from it, or it was seen to go.
    received: Mark,
    /// When something was last sent to it.
    sent: Mark,
}

impl Link {
    fn open(now: Mark) -> Link {
        Link { connected: true, reported: false, state_due: false, received: now, sent: now }
    }

    fn is_alive(&self, now: Mark, dead_ns: u64) -> bool {
        self.connected && self.reported && now.since_ns(self.received) <= dead_ns
    }
}

#[derive(Debug, Default)]
struct Readout {
    link: Link,
    /// In this epoch.
    progress: Option<Progress>,
    busy: bool,
    /// Ranges that were done without its part. It may not know: its next state says it again.
    excluded: VecDeque<Assignment>,
    /// When it last closed a trigger.
    advanced: Mark,
    /// Since when others have closed more.
    behind: Option<Mark>,
    report: Report,
}

#[derive(Debug, Default)]
struct Builder {
    link: Link,
    incarnation: u64,
    credits: Credits,
    /// Trigger numbers of its open ranges.
    outstanding: u64,
    /// Readout units that have no connection with it; `None` before it has said so.
    unreached: Option<Vec<UnitId>>,
    /// Since when a living one is among them.
    short_since: Option<Mark>,
    report: Report,
}

impl Builder {
    fn free(&self) -> u64 {
        u64::from(self.credits.limit).saturating_sub(self.outstanding)
    }

    /// Whether all that must come to it can, or was waited for long enough.
    fn is_reached(&self, now: Mark, reach_ns: u64) -> bool {
        reach_ns == 0 || self.short_since.is_none_or(|since| now.since_ns(since) > reach_ns)
    }
}

/// What a unit said when it connected; kept until the table is rebuilt.
#[derive(Debug, Default)]
struct Report {
    epoch: u64,
    /// Of a builder unit.
    on_file: OnFile,
    assigned_until: u64,
    ranges: Vec<Assignment>,
}

/// A readout unit's part was not in a range that is done, but for its first triggers.
#[derive(Clone, Copy, Debug)]
struct Absence {
    start: u64,
    readout: UnitId,
    /// So many trigger numbers.
    included: u32,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Phase {
    /// Collects reports; assigns nothing.
    Collecting {
        since: Mark,
    },
    Running,
}

/// What the manager has counted.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    /// Events written with every source.
    pub complete: u64,
    /// Events written without some.
    pub partial: u64,
    /// Ranges given to a builder unit.
    pub assigned_ranges: u64,
    /// Ranges given to another one because the first was gone.
    pub reassigned_ranges: u64,
    /// Trigger numbers in holes that were jumped.
    pub jumped_triggers: u64,
    /// Builder units that were fenced.
    pub fenced: u64,
}

/// The event manager. See the [module](super) for the protocol.
#[derive(Debug)]
pub struct EventManager {
    run: u32,
    epoch: u64,
    settings: Settings,
    phase: Phase,
    readouts: Vec<Readout>,
    builders: Vec<Builder>,
    /// Every range that is assigned and not written.
    open: Ranges<Assignment>,
    /// How many of them nobody builds.
    orphans: usize,
    /// Every trigger below is assigned.
    next: u64,
    /// Triggers below the first may have been written with attempts below the second, by a manager that nobody else remembers.
    hazard: (u64, u8),
    /// Some unit has not reported yet, and may remember more.
    blind: bool,
    /// A builder unit was there that every living readout unit is connected with, or was waited for.
    reached: bool,
    rotation: usize,
    assigned_at: Mark,
    /// To be reported at this poll: `next` has passed a hole, and ranges are new or done.
    jumped: bool,
    new: Vec<Assignment>,
    released: Vec<(u64, UnitId)>,
    /// Readout units whose part was not in a range that is done.
    absences: Vec<Absence>,
    trigger: (Link, bool),
    counts: Counts,
    refused: RefusedMessages,
}

impl EventManager {
    /// A manager that waits for reports. `epoch` must be above that of any manager before it in this run: the time of day of
    /// its start in nanoseconds will do. When a unit reports a higher one, the manager goes above that.
    pub fn new(run: u32, epoch: u64, layout: &UnitLayout, settings: &Settings, now: Mark) -> EventManager {
        EventManager {
            run,
            epoch: epoch.max(1),
            phase: Phase::Collecting { since: now },
            readouts: layout.readouts.iter().map(|_| Readout::default()).collect(),
            builders: (0..layout.builders).map(|_| Builder::default()).collect(),
            open: Ranges::default(),
            orphans: 0,
            next: 0,
            hazard: (0, 0),
            blind: false,
            reached: settings.reach_ms == 0,
            rotation: 0,
            assigned_at: Mark(0),
            jumped: false,
            new: Vec::new(),
            released: Vec::new(),
            absences: Vec::new(),
            trigger: (Link::default(), true),
            counts: Counts::default(),
            refused: RefusedMessages::default(),
            settings: settings.clone(),
        }
    }

    /// A connection was made.
    pub fn connected(&mut self, to: Address, now: Mark) {
        if let Some(link) = self.link(to) {
            *link = Link::open(now);
        }
        if to == Address::Trigger {
            self.trigger.0.state_due = true;
        }
    }

    /// A connection was lost, and what was on its way.
    pub fn disconnected(&mut self, from: Address, now: Mark, outbox: &mut Outbox) {
        outbox.forget(from);
        if let Some(link) = self.link(from) {
            *link = Link { received: now, ..Link::default() };
        }
    }

    /// Takes a message.
    pub fn on_message(&mut self, from: Address, message: &Message, now: Mark) {
        let Some(said) = self.refused.read(self.run, message) else { return };
        match self.link(from) {
            Some(link) => link.received = now,
            None => {
                self.refused.unexpected_sender += 1;
                return;
            }
        }
        match (from, said) {
            (_, Said::ReadoutReport { open: ranges, .. } | Said::BuilderReport { ranges, .. })
                if ranges.len() as u64 > self.settings.most_open_triggers(self.builders.len()) =>
            {
                self.refused.damaged += 1;
            }
            (Address::Readout(number), Said::ReadoutReport { epoch, progress, open, .. }) => {
                self.take_readout_report(number, epoch, &progress, open, now);
            }
            (Address::Readout(number), Said::Progress { epoch, progress }) => {
                self.take_progress(number, epoch, progress, now);
            }
            (
                Address::Builder(number),
                Said::BuilderReport { incarnation, epoch, on_file, credits, ranges },
            ) => {
                let report = Report { epoch, on_file, assigned_until: 0, ranges: ranges.iter().collect() };
                self.take_builder_report(number, incarnation, credits, report);
            }
            (Address::Builder(number), Said::Credits { credits, unreached, .. }) => {
                let builder = &mut self.builders[number.index()];
                builder.credits = credits;
                let known = builder.unreached.get_or_insert_default();
                known.clear();
                known.extend(unreached.iter());
            }
            (Address::Builder(number), Said::Done { epoch, ranges }) if epoch == self.epoch => {
                ranges.iter().for_each(|range| self.take_done(number, range));
            }
            (_, Said::Done { .. }) => self.refused.old_epoch += 1,
            _ => self.refused.unexpected_sender += 1,
        }
    }

    /// Lets time pass, assigns what can be assigned, and says what there is to say.
    pub fn poll(&mut self, now: Mark, outbox: &mut Outbox) {
        if self.phase != Phase::Running && self.has_enough_reports(now) {
            self.recover(now);
        }
        if self.phase == Phase::Running {
            self.blind &= !self.has_all_reports();
            self.fence_the_dead(now);
            self.note_who_is_reached(now);
            self.assign(now);
            self.send_to_readouts(now, outbox);
            self.report_to_builders(now, outbox);
            self.new.clear();
            self.jumped = false;
            self.released.clear();
            self.absences.clear();
        }
        self.send_to_trigger(now, outbox);
    }

    /// Whether the trigger has to hold back: a unit says so, the table is not rebuilt yet, or no builder unit could be reached so far.
    pub fn is_busy(&self) -> bool {
        self.phase != Phase::Running
            || !self.reached
            || self.readouts.iter().any(|readout| readout.link.connected && readout.busy)
            || self.builders.iter().any(|builder| builder.link.connected && builder.credits.busy)
    }

    /// Units that ask the trigger to hold back.
    pub fn busy_units(&self) -> impl Iterator<Item = Address> + '_ {
        let readouts = self.readouts.iter().enumerate().filter(|(_, unit)| unit.link.connected && unit.busy);
        let builders =
            self.builders.iter().enumerate().filter(|(_, unit)| unit.link.connected && unit.credits.busy);
        readouts
            .map(|(number, _)| Address::Readout(UnitId::from_index(number)))
            .chain(builders.map(|(number, _)| Address::Builder(UnitId::from_index(number))))
    }

    /// Whether reports are in and ranges are given out.
    pub fn is_running(&self) -> bool {
        self.phase == Phase::Running
    }

    /// Whether nothing is open.
    pub fn is_idle(&self) -> bool {
        self.is_running() && self.open.is_empty()
    }

    /// Ranges assigned and not written.
    pub fn open_ranges(&self) -> usize {
        self.open.len()
    }

    /// Every trigger below is assigned.
    pub fn assigned_until(&self) -> u64 {
        self.next
    }

    /// The epoch.
    pub fn epoch(&self) -> u64 {
        self.epoch
    }

    /// What was counted since this manager started.
    pub fn counts(&self) -> Counts {
        self.counts
    }

    /// Messages that were refused, by reason.
    pub fn refused(&self) -> RefusedMessages {
        self.refused
    }

    fn link(&mut self, unit: Address) -> Option<&mut Link> {
        match unit {
            Address::Readout(number) => {
                self.readouts.get_mut(number.index()).map(|readout| &mut readout.link)
            }
            Address::Builder(number) => {
                self.builders.get_mut(number.index()).map(|builder| &mut builder.link)
            }
            Address::Trigger => Some(&mut self.trigger.0),
            Address::Manager => None,
        }
    }

    // ---- what is received -----------------------------------------------------------------------------------------------

    /// A unit knows a manager of a higher epoch than this one's: go above, or nobody will listen.
    fn rise_above(&mut self, epoch: u64) {
        // A peer cannot make the epoch end: nothing real comes near.
        if epoch >= self.epoch && epoch < u64::MAX / 2 {
            let other = epoch > self.epoch;
            if other || self.phase != Phase::Running {
                self.epoch = epoch + 1;
            }
            if other {
                self.readouts.iter_mut().for_each(|unit| unit.link.state_due = unit.link.reported);
                self.builders.iter_mut().for_each(|unit| unit.link.state_due = unit.link.reported);
            }
        }
    }

    fn take_readout_report(
        &mut self,
        number: UnitId,
        epoch: u64,
        progress: &Progress,
        open: List<'_, Assignment>,
        now: Mark,
    ) {
        self.rise_above(epoch);
        let collecting = self.phase != Phase::Running;
        if !collecting && epoch != self.epoch && epoch > 0 {
            let attempt = open.iter().map(|range| range.attempt).max().unwrap_or(0);
            self.note_foreign(progress.assigned_until, attempt);
        }
        let readout = &mut self.readouts[number.index()];
        (readout.link.reported, readout.link.state_due) = (true, true);
        (readout.progress, readout.busy) = (None, progress.busy);
        (readout.advanced, readout.behind) = (now, None);
        readout.report = Report::default();
        // What it does not name it knows of. What it names it may know by an attempt of before.
        let same =
            |each: Assignment, done: &Assignment| (each.start, each.length) == (done.start, done.length);
        readout.excluded.retain(|done| open.iter().any(|each| same(each, done)));
        if collecting {
            let ranges = open.iter().collect();
            let (assigned_until, on_file) = (progress.assigned_until, OnFile::default());
            readout.report = Report { epoch, on_file, assigned_until, ranges };
        }
    }

    fn take_progress(&mut self, number: UnitId, epoch: u64, progress: Progress, now: Mark) {
        let readout = &mut self.readouts[number.index()];
        readout.busy = progress.busy;
        // Before it has had our state, its numbers mean something else.
        if epoch == self.epoch && readout.link.reported {
            if readout.progress.is_none_or(|before| progress.closed_until > before.closed_until) {
                readout.advanced = now;
            }
            readout.progress = Some(progress);
        }
    }

    fn take_builder_report(&mut self, number: UnitId, incarnation: u64, credits: Credits, report: Report) {
        self.rise_above(report.epoch);
        if self.builders[number.index()].incarnation != incarnation {
            self.fence(number);
        }
        let collecting = self.phase != Phase::Running;
        if !collecting {
            self.note_foreign(report.on_file.until, report.on_file.attempt);
        }
        if !collecting && report.epoch != self.epoch {
            report.ranges.iter().for_each(|range| self.note_foreign(range.end(), range.attempt));
        }
        let builder = &mut self.builders[number.index()];
        (builder.link.reported, builder.link.state_due) = (true, true);
        (builder.incarnation, builder.credits) = (incarnation, credits);
        (builder.unreached, builder.short_since) = (credits.is_reached.then(Vec::new), None);
        builder.report = if collecting { report } else { Report::default() };
    }

    fn take_done(&mut self, number: UnitId, done: Finished) {
        let ours = self
            .open
            .get(done.start)
            .is_some_and(|range| range.builder == number && range.attempt == done.attempt);
        if !ours {
            return;
        }
        if let Some(readout) = done.absent {
            self.absences.push(Absence { start: done.start, readout, included: done.partial });
            return;
        }
        if let Some(range) = self.open.remove(done.start) {
            self.builders[number.index()].outstanding -= u64::from(range.length);
            self.released.push((range.start, number));
            for absence in self.absences.iter().filter(|absence| absence.start == range.start) {
                if let Some(readout) = self.readouts.get_mut(absence.readout.index()) {
                    readout.excluded.truncate(MOST_EXCLUDED - 1);
                    // Below the length, and so below what 16 bits say.
                    let builder = UnitId(absence.included.min(u32::from(u16::MAX)) as u16);
                    readout.excluded.push_front(Assignment { written: true, builder, ..range });
                }
            }
            self.counts.complete += u64::from(done.complete);
            self.counts.partial += u64::from(done.partial);
        }
    }

    // ---- the dead ----------------------------------------------------------------------------------------------------

    fn fence_the_dead(&mut self, now: Mark) {
        let dead_ns = self.settings.dead_ns();
        for number in (0..self.builders.len()).map(UnitId::from_index) {
            let builder = &self.builders[number.index()];
            if builder.outstanding > 0 && now.since_ns(builder.link.received) > dead_ns {
                self.fence(number);
                // Should it only have slept: it has to learn that its ranges are gone.
                let link = &mut self.builders[number.index()].link;
                link.state_due = link.reported;
            }
        }
    }

    /// Takes every range of a builder away from it.
    fn fence(&mut self, number: UnitId) {
        if std::mem::take(&mut self.builders[number.index()].outstanding) == 0 {
            return;
        }
        self.counts.fenced += 1;
        for range in self.open.iter_mut().filter(|range| range.builder == number) {
            range.builder = Assignment::NOBODY;
            range.attempt = range.attempt.saturating_add(1);
            self.orphans += 1;
        }
    }

    // ---- what is said ------------------------------------------------------------------------------------------------

    fn send_to_readouts(&mut self, now: Mark, outbox: &mut Outbox) {
        let (run, epoch, next) = (self.run, self.epoch, self.next);
        for (number, readout) in self.readouts.iter_mut().enumerate() {
            let number = UnitId::from_index(number);
            let to = Address::Readout(number);
            if !takes_messages(&mut readout.link, outbox.waiting(to)) {
                continue;
            }
            if readout.link.state_due {
                // What nobody builds goes along: the unit must keep it.
                let ranges = self.open.iter().chain(&readout.excluded).copied();
                message::state(outbox.message(to), run, epoch, next, ranges);
                (readout.link.state_due, readout.link.sent, readout.progress) = (false, now, None);
                continue;
            }
            if !self.new.is_empty() || self.jumped {
                message::assign(outbox.message(to), run, epoch, next, self.new.iter().copied());
            }
            let is_due = now.since_ns(readout.link.sent) >= self.settings.heartbeat_ns();
            if !self.released.is_empty() || is_due {
                let absences = &self.absences;
                let released = self.released.iter().map(|(start, _)| {
                    let is_it = |absence: &&Absence| absence.start == *start && absence.readout == number;
                    let absence = absences.iter().find(is_it);
                    let included = absence.map_or(Released::WHOLE, |absence| absence.included);
                    Released { start: *start, included }
                });
                message::release(outbox.message(to), run, epoch, released);
                readout.link.sent = now;
            }
        }
    }

    fn report_to_builders(&mut self, now: Mark, outbox: &mut Outbox) {
        let (run, epoch, next) = (self.run, self.epoch, self.next);
        for (number, builder) in self.builders.iter_mut().enumerate() {
            let number = UnitId::from_index(number);
            let to = Address::Builder(number);
            if !takes_messages(&mut builder.link, outbox.waiting(to)) {
                continue;
            }
            let own = |range: &&Assignment| range.builder == number;
            if builder.link.state_due {
                message::state(outbox.message(to), run, epoch, next, self.open.iter().filter(own).copied());
                (builder.link.state_due, builder.link.sent) = (false, now);
                continue;
            }
            if self.new.iter().any(|range| own(&range)) {
                let new = self.new.iter().filter(own).copied();
                message::assign(outbox.message(to), run, epoch, next, new);
            }
            let of_it = |released: &&(u64, UnitId)| released.1 == number;
            let is_due = now.since_ns(builder.link.sent) >= self.settings.heartbeat_ns();
            if is_due || self.released.iter().any(|released| of_it(&released)) {
                let released = self.released.iter().filter(of_it);
                let released =
                    released.map(|(start, _)| Released { start: *start, included: Released::WHOLE });
                message::release(outbox.message(to), run, epoch, released);
                builder.link.sent = now;
            }
        }
    }

    fn send_to_trigger(&mut self, now: Mark, outbox: &mut Outbox) {
        let busy = self.is_busy();
        let (link, sent_busy) = &mut self.trigger;
        let due =
            link.state_due || *sent_busy != busy || now.since_ns(link.sent) >= self.settings.heartbeat_ns();
        if link.connected && due && outbox.waiting(Address::Trigger) < MESSAGES_WAITING {
            message::busy(outbox.message(Address::Trigger), self.run, self.epoch, busy);
            (link.state_due, link.sent, *sent_busy) = (false, now, busy);
        }
    }
}

/// Whether a unit can be reached. One that does not take its messages gets the whole state later instead.
fn takes_messages(link: &mut Link, waiting: usize) -> bool {
    if !link.connected || !link.reported {
        return false;
    }
    if waiting >= MESSAGES_WAITING {
        link.state_due = true;
        return false;
    }
    true
}
