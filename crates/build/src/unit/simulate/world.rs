//! Steps of one millisecond: faults, triggers, boards, links, units, disks.
//!
//! ```text
//!  each ms: what dies, sleeps, breaks, comes back ─► triggers, if the gate is open ─► boards ─► messages due ─► units ─► writes
//! ```

use std::collections::{BTreeMap, VecDeque};

use thalweg_data::{Events, Mark, Pool, UnitId};

use super::Plan;
use super::boards::Crate;
use super::edges::Noted;
use super::fates::Life;
use super::network::{Link, Receiver};
use super::random::Random;
use super::verdict::Disk;
use crate::unit::builder::LostPart;
use crate::unit::message::{self, Said};
use crate::unit::{
    Address, BuilderUnit, EventManager, Gate, Identity, Machine, Outbox, ReadoutUnit, UnitLayout,
};

pub(super) const RUN: u32 = 1;

/// A process: a unit, what it wants sent, and whether it runs at all.
pub(super) struct Process<T> {
    pub unit: Option<T>,
    outbox: Outbox,
    receiver: Receiver,
    /// When it is started again.
    back_at: u64,
    /// Until then it lives, but does nothing.
    asleep_until: u64,
    starts: u64,
    /// Events and fragments that this start of a builder unit gave to its disk.
    pub handed_over: [u64; 2],
}

impl<T: Machine> Process<T> {
    fn new(pool: &Pool) -> Process<T> {
        let receiver = Receiver::new(pool);
        Process {
            unit: None,
            outbox: Outbox::default(),
            receiver,
            back_at: 0,
            asleep_until: 0,
            starts: 0,
            handed_over: [0; 2],
        }
    }

    fn runs(&self, now: u64) -> bool {
        self.unit.is_some() && self.asleep_until <= now
    }
}

/// A builder unit's disk at work.
#[derive(Default)]
pub(super) struct Writing {
    /// Batches being written: when they are done, and up to which position.
    batches: VecDeque<(u64, u64, Events)>,
    /// Written and not acknowledged: when it is synced, and up to which position.
    unsynced: VecDeque<(u64, u64)>,
}

/// The whole system.
pub struct World {
    pub(super) plan: Plan,
    random: Random,
    now: u64,
    calm: bool,
    layout: UnitLayout,
    pub(super) manager: Process<EventManager>,
    pub(super) readouts: Vec<Process<ReadoutUnit>>,
    pub(super) crates: Vec<Crate>,
    pub(super) builders: Vec<Process<BuilderUnit>>,
    writing: Vec<Writing>,
    pub(super) disk: Disk,
    /// Chance of its own, so that the rest of a seed is the same with power cuts and without.
    power: Random,
    links: Vec<Link>,
    gate: Gate,
    triggers: u64,
    debt: u64,
    /// Triggers that there were, whatever became of them.
    pub(super) offered: u64,
    pub(super) accepted: u64,
    pub(super) refused: u64,
    pub(super) deaths: u64,
    pub(super) manager_deaths: u64,
    pub(super) breaks: u64,
    pub(super) power_cuts: u64,
    /// What readout units were seen to do that have died since.
    pub(super) past_lives: Vec<Vec<Life>>,
    /// Every range that any manager gave away, by its first trigger: its end, and the highest attempt.
    pub(super) assigned: BTreeMap<u64, (u64, u8)>,
    /// What units have noted of ranges.
    pub(super) noted: Noted,
    /// Parts that builder units which have died since had counted as late or lost.
    pub(super) lost_parts_of_the_dead: Vec<LostPart>,
    pub(super) pools: [Pool; 2],
}

impl World {
    /// A system in which every unit is about to start.
    ///
    /// # Panics
    /// When there is no memory for a few hundred kilobytes of blocks.
    pub fn new(plan: &Plan) -> World {
        let pool = || Pool::new(192, 4096).expect("memory for a small pool");
        let pools = [pool(), pool()];
        let (readouts, builders) = (plan.readouts, plan.builders);
        let sources = |unit: u16| unit * plan.boards..(unit + 1) * plan.boards;
        let layout = UnitLayout { readouts: (0..readouts).map(sources).collect(), builders };
        let mut links = vec![Link::new([Address::Manager, Address::Trigger])];
        let mut connecting = Random::new(plan.seed ^ 0xC0D);
        let mut late = || connecting.below(plan.late_connection_ms + 1);
        for readout in (0..readouts).map(UnitId).map(Address::Readout) {
            links.push(Link::new([Address::Manager, readout]));
            let builders = (0..builders).map(UnitId).map(Address::Builder);
            links.extend(builders.map(|builder| Link::first_up([readout, builder], late())));
        }
        links.extend(
            (0..builders).map(|builder| Link::new([Address::Manager, Address::Builder(UnitId(builder))])),
        );
        let first = |sources: &std::ops::Range<u16>| {
            Crate::new(sources.clone(), 0, true, &pools[0]).expect("settings of the simulator are possible")
        };
        World {
            plan: plan.clone(),
            random: Random::new(plan.seed ^ 0xD1CE),
            now: 0,
            calm: false,
            manager: Process::new(&pools[1]),
            readouts: (0..readouts).map(|_| Process::new(&pools[1])).collect(),
            crates: layout.readouts.iter().map(first).collect(),
            builders: (0..builders).map(|_| Process::new(&pools[1])).collect(),
            writing: (0..builders).map(|_| Writing::default()).collect(),
            disk: Disk::default(),
            power: Random::new(plan.seed ^ 0xC07),
            links,
            gate: Gate::new(RUN, 4 * plan.settings.heartbeat_ms * 1_000_000),
            triggers: 0,
            debt: 0,
            offered: 0,
            accepted: 0,
            refused: 0,
            deaths: 0,
            manager_deaths: 0,
            breaks: 0,
            power_cuts: 0,
            past_lives: vec![Vec::new(); usize::from(readouts)],
            assigned: BTreeMap::new(),
            noted: Noted::of(usize::from(readouts), usize::from(builders)),
            lost_parts_of_the_dead: Vec::new(),
            layout,
            pools,
        }
    }

    /// The time, in milliseconds.
    pub fn now_ms(&self) -> u64 {
        self.now
    }

    /// Triggers so far: let through and refused.
    pub fn triggers(&self) -> (u64, u64) {
        (self.accepted, self.refused)
    }

    /// Changes the rate of triggers and the time that a write takes.
    pub fn set_load(&mut self, triggers_per_16_ms: u64, write_ms: u64) {
        self.plan.triggers_per_16_ms = triggers_per_16_ms;
        self.plan.write_ms = write_ms;
    }

    /// Bytes that readout and builder units hold, the most of each kind.
    pub fn most_held_bytes(&self) -> (u64, u64) {
        let readouts = self.readouts.iter().filter_map(|each| each.unit.as_ref());
        let builders = self.builders.iter().filter_map(|each| each.unit.as_ref());
        let most = |bytes: &mut dyn Iterator<Item = u64>| bytes.max().unwrap_or(0);
        (most(&mut readouts.map(ReadoutUnit::held_bytes)), most(&mut builders.map(BuilderUnit::held_bytes)))
    }

    fn mark(&self) -> Mark {
        Mark((self.now + 1) * 1_000_000)
    }

    /// One millisecond.
    ///
    /// # Errors
    /// When a bound is broken or a row is written twice.
    pub fn step(&mut self) -> Result<(), String> {
        self.now += 1;
        if !self.calm {
            self.go_wrong();
        }
        self.start_what_is_down();
        self.connect();
        self.trigger();
        for (process, board) in self.readouts.iter_mut().zip(&mut self.crates) {
            if let Some(unit) = process.unit.as_mut().filter(|_| process.asleep_until <= self.now) {
                board.run(unit, self.now);
            }
        }
        self.deliver();
        self.poll();
        self.write()?;
        self.take_ranges();
        self.check_bounds()
    }

    // ---- faults ------------------------------------------------------------------------------------------------------

    /// Nothing goes wrong from here on, and no trigger comes.
    pub fn calm_down(&mut self) {
        self.calm = true;
        let latest = self.now + 20;
        let all = self.readouts.iter_mut().map(|each| &mut each.back_at);
        let all = all.chain(self.builders.iter_mut().map(|each| &mut each.back_at));
        all.chain([&mut self.manager.back_at]).for_each(|back| *back = (*back).min(latest));
    }

    fn go_wrong(&mut self) {
        self.cut_power();
        let units = 1 + self.readouts.len() + self.builders.len();
        if self.random.once_in(self.plan.death_once_in_ms) {
            let unit = self.random.below(units as u64) as usize;
            self.kill(self.unit_number(unit));
        }
        if self.random.once_in(self.plan.sleep_once_in_ms) {
            let unit = self.random.below(units as u64) as usize;
            let until = self.now + self.random.between(1, 70);
            match self.unit_number(unit) {
                Address::Readout(number) => self.readouts[number.index()].asleep_until = until,
                Address::Builder(number) => self.builders[number.index()].asleep_until = until,
                _ => self.manager.asleep_until = until,
            }
        }
        if self.random.once_in(self.plan.break_once_in_ms) {
            let link = self.random.below(self.links.len() as u64) as usize;
            self.breaks += 1;
            let until = self.now + self.random.between(1, 40);
            self.tear(link, until);
        }
    }

    /// The host of a builder unit loses its power: what is not synced is gone, and what was being written.
    fn cut_power(&mut self) {
        if !self.power.once_in(self.plan.power_cut_once_in_ms) {
            return;
        }
        let number = self.power.below(self.builders.len() as u64) as usize;
        self.power_cuts += 1;
        self.writing[number].batches.clear();
        self.kill(Address::Builder(UnitId::from_index(number)));
        self.disk.sync(number, self.now);
        self.disk.cut_power(number, &mut self.power);
    }

    fn unit_number(&self, index: usize) -> Address {
        match index.checked_sub(1) {
            None => Address::Manager,
            Some(index) if index < self.readouts.len() => Address::Readout(UnitId::from_index(index)),
            Some(index) => Address::Builder(UnitId::from_index(index - self.readouts.len())),
        }
    }

    /// A unit dies at once, with all that it holds; what its disk was writing is there or not.
    pub fn kill(&mut self, who: Address) {
        let back_at = self.now + self.random.between(2, 120);
        let died = match who {
            Address::Manager => {
                self.manager.back_at = back_at;
                let died = self.manager.unit.take().is_some();
                self.manager_deaths += u64::from(died);
                died
            }
            Address::Readout(number) => {
                let process = &mut self.readouts[number.index()];
                process.back_at = back_at;
                let unit = process.unit.take();
                if let Some(unit) = &unit {
                    self.crates[number.index()].unit_died(unit.fates());
                    self.noted.readout_died(number.index());
                }
                unit.is_some()
            }
            Address::Builder(number) => {
                let process = &mut self.builders[number.index()];
                process.back_at = back_at;
                let unit = process.unit.take();
                let said = unit.as_ref().map_or(&[][..], BuilderUnit::lost_parts);
                self.lost_parts_of_the_dead.extend_from_slice(said);
                self.noted.builder_died(number.index());
                let writing = &mut self.writing[number.index()];
                writing.unsynced.clear();
                for (_, _, events) in writing.batches.drain(..) {
                    if self.random.once_in(2) {
                        let synced_at = self.now + self.power.below(self.plan.sync_ms + 1);
                        self.disk.write(number.index(), &events, synced_at);
                    }
                }
                unit.is_some()
            }
            Address::Trigger => false,
        };
        self.deaths += u64::from(died);
        for link in 0..self.links.len() {
            if self.links[link].ends.contains(&who) {
                self.tear(link, self.now);
            }
        }
    }

    fn tear(&mut self, link: usize, until: u64) {
        let was_up = self.links[link].up;
        self.links[link].tear(until);
        if was_up {
            let [one, other] = self.links[link].ends;
            self.with_unit(one, |unit, now, outbox| unit.disconnected(other, now, outbox));
            self.with_unit(other, |unit, now, outbox| unit.disconnected(one, now, outbox));
        }
    }

    fn with_unit(&mut self, who: Address, mut act: impl FnMut(&mut dyn Machine, Mark, &mut Outbox)) {
        let now = self.mark();
        match who {
            Address::Manager => {
                if let Some(unit) = &mut self.manager.unit {
                    act(unit, now, &mut self.manager.outbox);
                }
            }
            Address::Readout(number) => {
                let process = &mut self.readouts[number.index()];
                if let Some(unit) = &mut process.unit {
                    act(unit, now, &mut process.outbox);
                }
            }
            Address::Builder(number) => {
                let process = &mut self.builders[number.index()];
                if let Some(unit) = &mut process.unit {
                    act(unit, now, &mut process.outbox);
                }
            }
            Address::Trigger => {}
        }
    }

    // ---- life --------------------------------------------------------------------------------------------------------

    fn start_what_is_down(&mut self) {
        let (now, mark) = (self.now, self.mark());
        let (layout, settings) = (&self.layout, &self.plan.settings);
        if self.manager.unit.is_none() && self.manager.back_at <= now {
            // A clock that was set back: the epoch that it gives is of no use.
            let epoch = if self.random.once_in(3) { 1 } else { now };
            self.manager.unit = Some(EventManager::new(RUN, epoch, layout, settings, mark));
            self.manager.outbox = Outbox::default();
        }
        for (number, process) in self.readouts.iter_mut().enumerate() {
            if process.unit.is_none() && process.back_at <= now {
                if process.starts > 0 {
                    let sources = layout.readouts[number].clone();
                    let fresh = Crate::new(sources, self.triggers, false, &self.pools[0]);
                    let fresh = fresh.expect("settings of the simulator are possible");
                    let old = std::mem::replace(&mut self.crates[number], fresh);
                    self.past_lives[number].push(old.life(self.triggers, None));
                }
                process.starts += 1;
                let identity =
                    Identity { number: UnitId::from_index(number), run: RUN, incarnation: process.starts };
                let mut unit = ReadoutUnit::new(identity, layout.builders, settings);
                unit.watch();
                unit.keep_ranges();
                process.unit = Some(unit);
                process.outbox = Outbox::default();
            }
        }
        for (number, process) in self.builders.iter_mut().enumerate() {
            if process.unit.is_none() && process.back_at <= now {
                process.starts += 1;
                let identity =
                    Identity { number: UnitId::from_index(number), run: RUN, incarnation: process.starts };
                let mut unit = BuilderUnit::new(identity, layout, settings, mark);
                unit.recall(self.disk.recall(number));
                unit.watch();
                unit.keep_ranges();
                process.unit = Some(unit);
                process.handed_over = [0; 2];
                process.outbox = Outbox::default();
            }
        }
    }

    fn lives(&self, who: Address) -> bool {
        match who {
            Address::Manager => self.manager.runs(self.now),
            Address::Readout(number) => self.readouts[number.index()].runs(self.now),
            Address::Builder(number) => self.builders[number.index()].runs(self.now),
            Address::Trigger => true,
        }
    }

    fn connect(&mut self) {
        for link in 0..self.links.len() {
            let [one, other] = self.links[link].ends;
            let ready = !self.links[link].up && self.links[link].down_until <= self.now;
            if ready && self.lives(one) && self.lives(other) {
                self.links[link].up = true;
                self.with_unit(one, |unit, now, _| unit.connected(other, now));
                self.with_unit(other, |unit, now, _| unit.connected(one, now));
            }
        }
    }

    fn trigger(&mut self) {
        if self.calm {
            return;
        }
        self.debt += self.plan.triggers_per_16_ms;
        while self.debt >= 16 {
            self.debt -= 16;
            self.offered += 1;
            if self.gate.is_closed(self.mark()) {
                self.refused += 1;
                continue;
            }
            for board in &mut self.crates {
                board.answer(self.triggers, self.now, &self.plan, &mut self.random);
            }
            self.triggers += 1;
            self.accepted += 1;
        }
    }

    fn deliver(&mut self) {
        for link in 0..self.links.len() {
            for end in 0..2 {
                let (to, from) = (self.links[link].ends[end], self.links[link].ends[1 - end]);
                if !self.lives(to) {
                    continue;
                }
                while let Some(message) = self.links[link].due(end, self.now) {
                    if to == Address::Trigger {
                        self.gate.on_message(&message, self.mark());
                        continue;
                    }
                    let message = self.received(to, message);
                    self.with_unit(to, |unit, now, _| unit.on_message(from, &message, now));
                }
            }
        }
    }

    fn received(&mut self, to: Address, message: thalweg_data::Message) -> thalweg_data::Message {
        match to {
            Address::Builder(number) if self.plan.processes && !message.slices.is_empty() => {
                let receiver = &mut self.builders[number.index()].receiver;
                receiver.receive(message, &mut self.random)
            }
            _ => message,
        }
    }

    fn poll(&mut self) {
        let all = 1 + self.readouts.len() + self.builders.len();
        for index in 0..all {
            let who = self.unit_number(index);
            if self.lives(who) {
                self.with_unit(who, |unit, now, outbox| unit.poll(now, outbox));
            }
        }
        for link in 0..self.links.len() {
            for end in 0..2 {
                let (from, to) = (self.links[link].ends[end], self.links[link].ends[1 - end]);
                self.send(link, from, to);
            }
        }
    }

    fn send(&mut self, link: usize, from: Address, to: Address) {
        let outbox = match from {
            Address::Manager => &mut self.manager.outbox,
            Address::Readout(number) => &mut self.readouts[number.index()].outbox,
            Address::Builder(number) => &mut self.builders[number.index()].outbox,
            Address::Trigger => return,
        };
        let window = self.plan.window;
        while let Some(message) = outbox.take(to) {
            if from == Address::Manager {
                note_assigned(&mut self.assigned, &message);
            }
            let due = self.now + self.random.below(self.plan.delay_ms + 1);
            if let Some(refused) = self.links[link].put(from, message, due, window) {
                *outbox.message(to) = refused;
                // It goes to the end of its queue: turn the queue until it is in front again.
                for _ in 1..outbox.waiting(to) {
                    if let Some(message) = outbox.take(to) {
                        *outbox.message(to) = message;
                    }
                }
                break;
            }
        }
    }

    // ---- disks -------------------------------------------------------------------------------------------------------

    fn write(&mut self) -> Result<(), String> {
        let mark = self.mark();
        for (number, (process, writing)) in self.builders.iter_mut().zip(&mut self.writing).enumerate() {
            self.disk.sync(number, self.now);
            let Some(unit) = process.unit.as_mut().filter(|_| process.asleep_until <= self.now) else {
                continue;
            };
            while writing.batches.front().is_some_and(|(due, ..)| *due <= self.now) {
                if let Some((_, position, events)) = writing.batches.pop_front() {
                    // In order: a sync takes along what was written before.
                    let before = writing.unsynced.back().map_or(0, |(synced_at, _)| *synced_at);
                    let synced_at = before.max(self.now + self.power.below(self.plan.sync_ms + 1));
                    self.disk.write(number, &events, synced_at);
                    match self.plan.acknowledges_synced {
                        true => writing.unsynced.push_back((synced_at, position)),
                        false => unit.written(position),
                    }
                }
            }
            while writing.unsynced.front().is_some_and(|(synced_at, _)| *synced_at <= self.now) {
                if let Some((_, position)) = writing.unsynced.pop_front() {
                    unit.written(position);
                }
            }
            let due = self.now + self.random.below(self.plan.write_ms + 1);
            let mut events = Events::default();
            // A disk takes one batch after the other.
            if writing.batches.len() < 2 && unit.pull(&mut events, self.plan.write_events, mark) {
                let [handed_events, handed_fragments] = &mut process.handed_over;
                *handed_events += events.events.len() as u64;
                *handed_fragments += events.fragments.len() as u64;
                let due = writing.batches.back().map_or(due, |(last, ..)| due.max(*last));
                writing.batches.push_back((due, unit.position(), events));
            }
        }
        self.disk.complaint()
    }

    // ---- bounds and quiet --------------------------------------------------------------------------------------------

    fn check_bounds(&self) -> Result<(), String> {
        let settings = &self.plan.settings;
        let mut slots = 0;
        for unit in self.readouts.iter().filter_map(|process| process.unit.as_ref()) {
            // A batch is taken while there is space for one event, and has at most 32.
            if unit.held_events() >= settings.keep_events + 32 {
                return Err(format!("a readout unit keeps {} events", unit.held_events()));
            }
        }
        for unit in self.builders.iter().filter_map(|process| process.unit.as_ref()) {
            slots += settings.slots as usize;
            if unit.open_ranges() > 3 * settings.slots.max(32) as usize {
                return Err(format!("a builder unit has {} open ranges", unit.open_ranges()));
            }
        }
        let most = slots.max(settings.slots as usize * self.builders.len());
        match &self.manager.unit {
            Some(unit) if unit.refused().damaged > 0 => {
                Err(format!("the manager refused {} messages as damaged", unit.refused().damaged))
            }
            Some(unit) if unit.open_ranges() > 2 * most => {
                Err(format!("the manager has {} open ranges", unit.open_ranges()))
            }
            _ => Ok(()),
        }
    }

    /// Whether nothing is left to do, anywhere.
    pub fn is_quiet(&mut self) -> bool {
        // Once everything has been received, the local builders may close what is incomplete.
        for (board, process) in self.crates.iter_mut().zip(&mut self.readouts) {
            if self.calm && board.has_received_all() {
                board.end_run();
                if let Some(unit) = process.unit.as_mut().filter(|_| board.is_quiet()) {
                    unit.end_run();
                }
            }
        }
        self.unrest().is_empty()
    }

    /// Who is not quiet, as text.
    pub fn unrest(&self) -> String {
        let mut text = Vec::new();
        for (number, process) in self.readouts.iter().enumerate() {
            let idle = process.unit.as_ref().is_some_and(ReadoutUnit::is_idle);
            if !idle || !self.crates[number].is_quiet() {
                let progress = process.unit.as_ref().map(ReadoutUnit::progress);
                let open = self.crates[number].open_events();
                text.push(format!("readout {number}: {progress:?}, {open} open in its builder"));
            }
        }
        for (number, process) in self.builders.iter().enumerate() {
            if !process.unit.as_ref().is_some_and(BuilderUnit::is_idle) {
                let open = process.unit.as_ref().map(BuilderUnit::open_ranges);
                text.push(format!("builder {number}: open ranges {open:?}"));
            }
        }
        if !self.manager.unit.as_ref().is_some_and(EventManager::is_idle) {
            let open = self.manager.unit.as_ref().map(|unit| (unit.is_running(), unit.open_ranges()));
            text.push(format!("manager: {open:?}"));
        }
        if self.gate.is_closed(self.mark()) {
            let busy: Vec<Address> = self.manager.unit.iter().flat_map(|unit| unit.busy_units()).collect();
            text.push(format!("the gate is closed, busy: {busy:?}"));
        }
        text.join("; ")
    }

    /// What is still on its way is nothing new to anyone.
    pub(super) fn clear_links(&mut self) {
        self.links.clear();
        self.writing.clear();
    }
}

fn note_assigned(assigned: &mut BTreeMap<u64, (u64, u8)>, message: &thalweg_data::Message) {
    let Ok((_, Said::Assign { ranges, .. } | Said::State { open: ranges, .. })) = message::read(message)
    else {
        return;
    };
    for range in ranges.iter().filter(|range| !range.written) {
        let known = assigned.entry(range.start).or_default();
        *known = (known.0.max(range.end()), known.1.max(range.attempt));
    }
}
