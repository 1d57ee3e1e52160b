//! All counters at one moment, and the check that they balance.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;

use schemars::JsonSchema;
use serde::Serialize;

use super::carrier::Carrier;
use super::counters::{Counters, entry};
use super::reasons::Quality;
use super::stages::StageRole;
use super::vocabulary::{LossReason, Noted, Stage, Unit};
use crate::id::SourceId;
use crate::topology::{Counts, FlowPath, Topology};

/// One stage's counts for one source.
#[derive(Clone, Debug, PartialEq)]
pub struct CounterSnapshot {
    /// The stage.
    pub stage: Stage,
    /// The source.
    pub source: SourceId,
    /// One bit per [`Unit`] that this stage counts.
    pub units: u64,
    /// The counts.
    pub counters: Counters,
}

/// All counter slots at one moment.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct LedgerSnapshot {
    /// Names of the sources, by number.
    pub sources: Vec<String>,
    /// The open counter slots, by source and stage.
    pub slots: Vec<CounterSnapshot>,
    /// The topology of the run; without one, it is derived from the slots.
    pub topology: Option<Arc<Topology>>,
    /// Whether each slot was copied when a marker passed it: at different moments for sources that are read independently.
    pub at_a_marker: bool,
    /// Whether it is from a recording of version 1, in which stages did not count the units that they made as `in`.
    pub legacy: bool,
}

/// A balance equation that does not hold.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Discrepancy {
    /// Name of the source.
    pub source: String,
    /// The equation, as text.
    pub equation: String,
    /// The number on its left side.
    pub left: u64,
    /// The number on its right side.
    pub right: u64,
}

impl fmt::Display for Discrepancy {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Discrepancy { source, equation, left, right } = self;
        write!(f, "{source}: {equation}: {left} against {right}")
    }
}

/// One loss of one source.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, JsonSchema)]
pub struct Loss {
    /// Name of the source.
    pub source: String,
    /// The stage that lost it or found it missing.
    pub stage: Stage,
    /// Why it was lost.
    pub reason: LossReason,
    /// The unit of `count` and `of`.
    pub unit: Unit,
    /// How many are lost.
    pub count: u64,
    /// How many came there, including the lost ones.
    pub of: u64,
    /// How well the count is known.
    pub quality: Quality,
    /// What was seen, and what to do about it. Empty in the ledger itself; a room that knows the configuration fills it in.
    pub advice: String,
}

impl Loss {
    /// Whether another stage counts the same loss with its reason: in older recordings, data that a later stage refused count as lost on
    /// the wire as well. Sums over stages leave such losses out.
    pub fn is_echo(&self) -> bool {
        self.stage.role() == StageRole::SequenceNumbers && !self.reason.is_gap()
    }
}

/// The entries of one unit of one counter slot, named, for files and the page.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, JsonSchema)]
pub struct Entries {
    /// Name of the source.
    pub source: String,
    /// The stage.
    pub stage: Stage,
    /// The unit.
    pub unit: Unit,
    /// Came in, or was made here.
    #[serde(rename = "in")]
    pub input: u64,
    /// Passed on.
    #[serde(rename = "out")]
    pub output: u64,
    /// Framing that is no longer needed.
    pub overhead: u64,
    /// Left out on request.
    pub filtered: u64,
    /// In the stage's containers.
    pub held: u64,
    /// On the wire: how many were found missing by sequence numbers. It only grows, and so does `gap_filled`.
    pub gap_opened: u64,
    /// How many of these arrived nevertheless, late or damaged; the refused ones among them are lost at the stage that refused them.
    pub gap_filled: u64,
    /// Lost, by reason; for gaps, those still missing.
    pub lost: BTreeMap<&'static str, u64>,
    /// Notes, which are not part of any sum, such as `late` (but kept) and `unseen`.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub noted: BTreeMap<&'static str, u64>,
}

impl CounterSnapshot {
    /// Whether this stage counts `unit`.
    pub fn counts(&self, unit: Unit) -> bool {
        self.units >> unit as u32 & 1 == 1
    }

    /// How many of a unit came in or were made here. Older recordings do not count units where they are made; for them, it is the sum of
    /// what happened to the units.
    pub fn offered(&self, unit: Unit) -> u64 {
        self.counters.cell(unit, entry::IN).max(self.became(unit))
    }

    /// The sum of everything that happened to a unit here: the right side of the balance equation of a stage.
    pub(crate) fn became(&self, unit: Unit) -> u64 {
        let cell = |entry| self.counters.cell(unit, entry);
        cell(entry::OUT)
            + cell(entry::OVERHEAD)
            + cell(entry::FILTERED)
            + cell(entry::HELD)
            + self.counters.total_lost_any(unit)
    }
}

impl LedgerSnapshot {
    /// A snapshot of these slots, in any order.
    pub fn of(sources: Vec<String>, mut slots: Vec<CounterSnapshot>) -> LedgerSnapshot {
        // Slots are looked up by source and stage. Those of a ledger are nearly sorted, which costs nothing.
        slots.sort_by_key(|slot| (slot.source, slot.stage));
        LedgerSnapshot { sources, slots, ..LedgerSnapshot::default() }
    }

    /// One counter slot, if it is open.
    pub fn slot(&self, stage: Stage, source: SourceId) -> Option<&CounterSnapshot> {
        let index = self.slots.binary_search_by_key(&(source, stage), |slot| (slot.source, slot.stage));
        index.ok().map(|index| &self.slots[index])
    }

    /// The sum of a stage's `out` over all sources.
    pub fn total_output(&self, stage: Stage, unit: Unit) -> u64 {
        let slots = self.slots.iter().filter(|slot| slot.stage == stage);
        slots.map(|slot| slot.counters.total_output(unit)).sum()
    }

    /// The sum of all losses in one unit, over sources and reasons, at the stages for which `on_the_way` returns `true`.
    pub fn total_lost(&self, unit: Unit, on_the_way: impl Fn(Stage) -> bool) -> u64 {
        let slots = self.slots.iter().filter(|slot| on_the_way(slot.stage));
        slots.map(|slot| slot.counters.total_lost_any(unit)).sum()
    }

    /// The counters of stages with this role.
    pub fn at(&self, role: StageRole) -> impl Iterator<Item = &CounterSnapshot> {
        self.slots.iter().filter(move |slot| slot.stage.role() == role)
    }

    /// The sum of `out` over all sources at the stages with this role.
    pub fn output_at(&self, role: StageRole, unit: Unit) -> u64 {
        self.at(role).map(|slot| slot.counters.total_output(unit)).sum()
    }

    /// The counters of one source at the first stage with this role.
    pub fn slot_at(&self, role: StageRole, source: SourceId) -> Option<&CounterSnapshot> {
        self.of_source(source).iter().find(|slot| slot.stage.role() == role)
    }

    /// The topology of the run or, if the snapshot has none that declares where units are made, one derived from the slots.
    pub fn path(&self) -> Arc<Topology> {
        let makes = |counts: &Counts| !counts.made.is_empty();
        let is_complete =
            |topology: &&Arc<Topology>| topology.nodes.iter().any(|node| node.counts.iter().any(makes));
        let own = self.topology.as_ref().filter(is_complete);
        own.map_or_else(|| Arc::new(Topology::legacy(self)), Arc::clone)
    }

    /// The counters of the stages that make a unit.
    pub fn making(&self, unit: Unit) -> Vec<&CounterSnapshot> {
        let path = self.path();
        let makes = |own: &&CounterSnapshot| own.counts(unit) && path.is_made(unit, own.stage, own.source);
        self.slots.iter().filter(makes).collect()
    }

    /// How many of a unit were made from one source and passed on.
    pub fn made_of(&self, source: SourceId, unit: Unit) -> u64 {
        let path = self.path();
        let slots = self.of_source(source).iter();
        let made = slots.filter(|own| own.counts(unit) && path.is_made(unit, own.stage, source));
        made.map(|slot| slot.counters.total_output(unit)).sum()
    }

    /// The counters of recorded events on this path: of built events, or of coincidences of hits.
    pub fn recorded_events(&self, flow_path: FlowPath) -> Vec<&CounterSnapshot> {
        let path = self.path();
        let flow_path_of =
            |own: &CounterSnapshot| path.flow_path_of(own.stage, own.source).unwrap_or(FlowPath::Events);
        let is_on_it = |own: &&CounterSnapshot| flow_path_of(own) == flow_path;
        self.at(StageRole::Recording).filter(|own| own.counts(Unit::Events)).filter(is_on_it).collect()
    }

    /// The sum of a note over all slots.
    pub fn total_noted(&self, what: Noted, unit: Unit) -> u64 {
        self.slots.iter().map(|slot| slot.counters.total_noted(what, unit)).sum()
    }

    /// The same of one source.
    pub fn noted_of(&self, source: SourceId, what: Noted, unit: Unit) -> u64 {
        self.of_source(source).iter().map(|slot| slot.counters.total_noted(what, unit)).sum()
    }

    /// The counters of one source, in path order.
    pub(super) fn of_source(&self, source: SourceId) -> &[CounterSnapshot] {
        let first = self.slots.partition_point(|slot| slot.source < source);
        let end = self.slots.partition_point(|slot| slot.source <= source);
        &self.slots[first..end]
    }

    /// The counters of groups of sources, added up as if each group were one source; `groups` has names and sources. For an overview: the
    /// balance equations hold for sources, not for groups.
    pub fn grouped<'g>(&self, groups: impl IntoIterator<Item = (&'g str, &'g [SourceId])>) -> LedgerSnapshot {
        let groups: Vec<(&str, &[SourceId])> = groups.into_iter().collect();
        let topology = self.topology.as_ref().map(|topology| Arc::new(topology.grouped(&groups)));
        let mut grouped = LedgerSnapshot { topology, ..LedgerSnapshot::default() };
        for (index, (name, sources)) in groups.into_iter().enumerate() {
            grouped.sources.push(name.to_owned());
            let first = grouped.slots.len();
            for slot in sources.iter().flat_map(|source| self.of_source(*source)) {
                let own = &mut grouped.slots[first..];
                match own.iter_mut().find(|own| own.stage == slot.stage) {
                    Some(own) => {
                        own.units |= slot.units;
                        own.counters.add_all(&slot.counters);
                    }
                    None => {
                        let source = SourceId(index as u16);
                        grouped.slots.push(CounterSnapshot { source, ..slot.clone() });
                    }
                }
            }
            grouped.slots[first..].sort_by_key(|slot| slot.stage);
        }
        grouped
    }

    /// Every loss, in path order.
    pub fn losses(&self) -> Vec<Loss> {
        self.losses_by_source().into_iter().map(|(_, loss)| loss).collect()
    }

    /// The same, each with the number of its source.
    pub fn losses_by_source(&self) -> Vec<(SourceId, Loss)> {
        let mut losses = Vec::new();
        for slot in &self.slots {
            // As for entries: what is read of a record has these alone.
            let units = Unit::ALL.iter().copied().filter(|unit| slot.counts(*unit));
            for (unit, reason) in units.flat_map(|unit| LossReason::known().map(move |reason| (unit, reason)))
            {
                let count = slot.counters.total_lost(reason, unit);
                if count > 0 {
                    let (source, stage) = (self.name(slot.source), slot.stage);
                    let (quality, of) = (reason.quality(), self.offered_with_boards(slot, unit));
                    let advice = String::new();
                    let loss = Loss { source, stage, reason, unit, count, of, quality, advice };
                    losses.push((slot.source, loss));
                }
            }
        }
        losses
    }

    /// How many of a unit came to a stage; of fragments, those of the boards that share a link are among those of the link.
    fn offered_with_boards(&self, slot: &CounterSnapshot, unit: Unit) -> u64 {
        let subjects =
            self.topology.iter().filter(|_| unit == Unit::Fragments).flat_map(|path| &path.subjects);
        let behind = subjects.zip(0..).filter(|(subject, _)| subject.parent == Some(slot.source.0));
        let boards = behind.filter_map(|(_, board)| self.slot(slot.stage, SourceId(board)));
        slot.offered(unit) + boards.map(|board| board.offered(unit)).sum::<u64>()
    }

    /// How the data of a source arrive, by the units that its receiver counts. Not known for a board that shares a link, since only the
    /// link has a receiver.
    pub fn carrier(&self, source: SourceId) -> Carrier {
        match self.slot_at(StageRole::Intake, source) {
            Some(slot) if slot.counts(Unit::Datagrams) => Carrier::Datagrams,
            Some(slot) if slot.counts(Unit::Bytes) => Carrier::Stream,
            _ => Carrier::Unknown,
        }
    }

    /// How much one source has lost, each loss counted once and in its finest unit, so that every further loss makes it more. Once the sender
    /// has forgotten the hits of a frame, later gaps count in frames, and so do the earlier ones, whose hits are counted. Data that are missing on the wire because a later stage refused them count at that stage only; what the sender says it has sent takes the place of
    /// what is missing by sequence numbers.
    pub fn lost_once(&self, source: SourceId) -> u64 {
        let finest = |lost: &dyn Fn(Unit) -> u64| {
            Unit::FINEST_FIRST
                .iter()
                .filter(|unit| **unit != Unit::Events)
                .map(|unit| lost(*unit))
                .find(|lost| *lost > 0)
                .unwrap_or(0)
        };
        let of = |slot: &CounterSnapshot| match slot.stage.role() {
            // Missing datagrams, and the missing frames that were in them, have reasons of their own.
            StageRole::SequenceNumbers => {
                let gaps = |unit| {
                    let reasons = LossReason::known().filter(|reason| reason.is_gap());
                    reasons.map(|reason| slot.counters.total_lost(reason, unit)).sum::<u64>()
                };
                // Once the sender has forgotten the hits of some frames, those of later gaps are not counted.
                let has_uncounted = slot.counters.total_noted(Noted::Uncounted, Unit::Frames) > 0;
                match gaps(Unit::Hits) {
                    hits if hits > 0 && has_uncounted => hits + gaps(Unit::Frames),
                    _ => finest(&gaps),
                }
            }
            _ => {
                LossReason::known().map(|reason| finest(&|unit| slot.counters.total_lost(reason, unit))).sum()
            }
        };
        let at = |role| self.of_source(source).iter().filter(move |slot| slot.stage.role() == role).map(of);
        let (by_sender, by_numbers): (u64, u64) =
            (at(StageRole::SenderTotals).sum(), at(StageRole::SequenceNumbers).sum());
        let behind = self.of_source(source).iter().filter(|slot| {
            !matches!(slot.stage.role(), StageRole::SenderTotals | StageRole::SequenceNumbers)
        });
        behind.map(of).sum::<u64>() + if by_sender > 0 { by_sender } else { by_numbers }
    }

    /// Every counter slot as named entries.
    pub fn entries(&self) -> Vec<Entries> {
        let units = |slot: &CounterSnapshot| {
            Unit::ALL.iter().copied().filter(|unit| slot.counts(*unit)).collect::<Vec<_>>()
        };
        let row = |slot: &CounterSnapshot, unit: Unit| Entries {
            source: self.name(slot.source),
            stage: slot.stage,
            unit,
            input: slot.counters.cell(unit, entry::IN),
            output: slot.counters.cell(unit, entry::OUT),
            overhead: slot.counters.cell(unit, entry::OVERHEAD),
            filtered: slot.counters.cell(unit, entry::FILTERED),
            held: slot.counters.cell(unit, entry::HELD),
            gap_opened: match slot.stage.role() {
                StageRole::SequenceNumbers => slot.counters.total_gap_opened(unit),
                _ => 0,
            },
            gap_filled: slot.counters.total_gap_filled(unit),
            lost: LossReason::known()
                .map(|reason| (reason.word(), slot.counters.total_lost(reason, unit)))
                .filter(|(_, count)| *count > 0)
                .collect(),
            noted: Noted::ALL
                .iter()
                .map(|what| (what.word(), slot.counters.total_noted(*what, unit)))
                .filter(|(_, count)| *count > 0)
                .collect(),
        };
        self.slots.iter().flat_map(|slot| units(slot).into_iter().map(move |unit| row(slot, unit))).collect()
    }

    /// Whether everything balances.
    pub fn close(&self) -> bool {
        self.discrepancies().is_empty()
    }

    /// Every balance equation that does not hold, by the topology of the ledger.
    pub fn discrepancies(&self) -> Vec<Discrepancy> {
        match &self.topology {
            Some(topology) => topology.discrepancies(self),
            None => Topology::legacy(self).discrepancies(self),
        }
    }

    pub(crate) fn name(&self, source: SourceId) -> String {
        self.sources.get(source.index()).cloned().unwrap_or_else(|| source.to_string())
    }
}

#[cfg(test)]
mod tests {
    use super::super::file::Ledger;
    use super::*;

    const PATH: [(Stage, &[Unit]); 6] = [
        (Stage::Wire, &[Unit::Datagrams, Unit::Frames]),
        (Stage::Receive, &[Unit::Datagrams, Unit::Bytes]),
        (Stage::Unpack, &[Unit::Datagrams, Unit::Bytes, Unit::Frames]),
        (Stage::Decode, &[Unit::Bytes, Unit::Frames, Unit::Hits]),
        (Stage::Order, &[Unit::Hits]),
        (Stage::Record, &[Unit::Hits]),
    ];

    #[test]
    fn slots_are_found_in_whatever_order_they_were_given() {
        let slot = |stage, source, count| {
            let mut counters = Counters::default();
            counters.output(Unit::Hits, count);
            CounterSnapshot { stage, source: SourceId(source), units: 1 << Unit::Hits as u32, counters }
        };
        let slots = vec![
            slot(Stage::Record, 1, 3),
            slot(Stage::Decode, 1, 2),
            slot(Stage::Record, 0, 1),
            slot(Stage::Decode, 0, 0),
        ];
        let snapshot = LedgerSnapshot::of(vec!["left".to_owned(), "right".to_owned()], slots);
        for (stage, source, count) in
            [(Stage::Decode, 0, 0), (Stage::Record, 0, 1), (Stage::Decode, 1, 2), (Stage::Record, 1, 3)]
        {
            let found = snapshot.slot(stage, SourceId(source)).expect("it was given");
            assert_eq!(found.counters.total_output(Unit::Hits), count, "{stage} of {source}");
        }
    }

    type Increment = (Stage, fn(&mut Counters));

    /// Every increment of a small run, with its stage.
    fn increments() -> Vec<Increment> {
        use LossReason::*;
        use Stage::*;
        use Unit::*;
        vec![
            (Wire, |t| t.input(Datagrams, 11)),
            (Wire, |t| t.output(Datagrams, 9)),
            (Wire, |t| t.lost(DatagramGap, Datagrams, 2)),
            (Wire, |t| t.input(Frames, 20)),
            (Wire, |t| t.output(Frames, 18)),
            (Wire, |t| t.lost(FrameGap, Frames, 2)),
            (Receive, |t| t.input(Datagrams, 11)),
            (Receive, |t| t.output(Datagrams, 10)),
            (Receive, |t| t.lost(UnexpectedSender, Datagrams, 1)),
            (Receive, |t| t.input(Bytes, 1100)),
            (Receive, |t| t.output(Bytes, 1000)),
            (Receive, |t| t.lost(UnexpectedSender, Bytes, 100)),
            (Unpack, |t| t.input(Datagrams, 10)),
            (Unpack, |t| t.output(Datagrams, 9)),
            (Unpack, |t| t.lost(DuplicateDatagram, Datagrams, 1)),
            (Unpack, |t| t.input(Bytes, 1000)),
            (Unpack, |t| t.output(Bytes, 820)),
            (Unpack, |t| t.overhead(Bytes, 80)),
            (Unpack, |t| t.lost(DuplicateDatagram, Bytes, 100)),
            (Unpack, |t| t.input(Frames, 18)),
            (Unpack, |t| t.output(Frames, 18)),
            (Decode, |t| t.input(Frames, 18)),
            (Decode, |t| t.output(Frames, 17)),
            (Decode, |t| t.lost(ZeroWords, Frames, 1)),
            (Decode, |t| t.input(Bytes, 820)),
            (Decode, |t| t.output(Bytes, 800)),
            (Decode, |t| t.lost(ZeroWords, Bytes, 20)),
            (Decode, |t| t.input(Hits, 50)),
            (Decode, |t| t.output(Hits, 50)),
            (Order, |t| t.input(Hits, 50)),
            (Order, |t| t.output(Hits, 45)),
            (Order, |t| t.lost(Late, Hits, 2)),
            (Order, |t| t.set_held(Hits, 3)),
            (Record, |t| t.input(Hits, 45)),
            (Record, |t| t.output(Hits, 40)),
            (Record, |t| t.set_held(Hits, 5)),
        ]
    }

    fn snapshot_without(left_out: Option<usize>) -> LedgerSnapshot {
        let ledger = Ledger::create(None, &["left".to_owned()]).expect("memory");
        for (stage, units) in PATH {
            let slot = ledger.open(stage, SourceId(0), units);
            let mut counters = Counters::default();
            for (index, (at, increment)) in increments().into_iter().enumerate() {
                if at == stage && Some(index) != left_out {
                    increment(&mut counters);
                }
            }
            slot.publish(&counters);
            slot.snapshot(7, &counters);
        }
        let counts = ledger.snapshot_at(7).expect("the marker has passed every counter slot");
        assert_eq!(LedgerSnapshot { at_a_marker: false, ..counts.clone() }, ledger.snapshot());
        counts
    }

    #[test]
    fn a_ledger_with_every_increment_balances() {
        assert_eq!(snapshot_without(None).discrepancies(), []);
    }

    #[test]
    fn a_ledger_without_any_one_increment_does_not_balance() {
        for left_out in 0..increments().len() {
            assert!(!snapshot_without(Some(left_out)).close(), "no equation contains increment {left_out}");
        }
    }

    #[test]
    fn a_discrepancy_names_source_and_stages() {
        let text = snapshot_without(Some(29))
            .discrepancies()
            .iter()
            .map(ToString::to_string)
            .collect::<Vec<_>>()
            .join("; ");
        assert!(text.contains("left: hits out of decode = into order: 50 against 0"), "{text}");
    }

    #[test]
    fn losses_have_stage_reason_and_quality() {
        let losses = snapshot_without(None).losses();
        assert!(
            losses.iter().any(|loss| loss.stage == Stage::Wire
                && loss.reason == LossReason::FrameGap
                && loss.count == 2)
        );
        assert!(losses.iter().all(|loss| loss.quality == Quality::Exact));
    }

    #[test]
    fn groups_add_the_counters_of_their_sources() {
        let mut counts = snapshot_without(None);
        let second = counts.slots.clone().into_iter();
        counts.slots.extend(second.map(|slot| CounterSnapshot { source: SourceId(1), ..slot }));
        counts.sources.push("right".to_owned());
        let both = [SourceId(0), SourceId(1)];
        let grouped = counts.grouped([("left", &both[..1]), ("both", &both)]);
        assert_eq!(grouped.sources, ["left", "both"]);
        let hits = |source| {
            let slot = grouped.slot(Stage::Order, SourceId(source)).expect("counted");
            (slot.counters.total_input(Unit::Hits), slot.counters.held(Unit::Hits))
        };
        assert_eq!((hits(0), hits(1)), ((50, 3), (100, 6)));
        assert_eq!(grouped.slots.len(), 2 * PATH.len());
    }

    #[test]
    fn output_at_a_role_is_summed_over_sources() {
        let ledger = Ledger::create(None, &["left".to_owned(), "right".to_owned()]).expect("memory");
        let mut counters = Counters::default();
        counters.output(Unit::Events, 5);
        for source in [SourceId(0), SourceId(1)] {
            ledger.open(Stage::Record, source, &[Unit::Events]).publish(&counters);
        }
        assert_eq!(ledger.output_at(StageRole::Recording, Unit::Events), 10);
        assert_eq!(ledger.output_at(StageRole::Work, Unit::Events), 0);
    }

    #[test]
    fn refused_data_that_are_missing_on_the_wire_count_as_lost_once() {
        let ledger = Ledger::create(None, &["left".to_owned()]).expect("memory");
        let (mut wire, mut unpack) = (Counters::default(), Counters::default());
        wire.lost(LossReason::BadHash, Unit::Fragments, 3);
        wire.lost(LossReason::MissingFragment, Unit::Fragments, 2);
        unpack.lost(LossReason::BadHash, Unit::Fragments, 3);
        ledger.open(Stage::Wire, SourceId(0), &[Unit::Fragments]).publish(&wire);
        ledger.open(Stage::Unpack, SourceId(0), &[Unit::Fragments]).publish(&unpack);
        let counts = ledger.snapshot();
        assert_eq!(counts.lost_once(SourceId(0)), 5);
        assert_eq!(counts.losses().iter().filter(|loss| loss.is_echo()).count(), 1);
    }

    #[test]
    fn every_further_loss_is_more_in_whatever_unit() {
        let ledger = Ledger::create(None, &["left".to_owned()]).expect("memory");
        let (mut wire, mut decode) = (Counters::default(), Counters::default());
        let slots =
            [(Stage::Wire, [Unit::Frames, Unit::Datagrams]), (Stage::Decode, [Unit::Hits, Unit::Bytes])];
        let [of_wire, of_decode] = slots.map(|(stage, units)| ledger.open(stage, SourceId(0), &units));
        let mut before = 0;
        let mut grows_by = |wire: &Counters, decode: &Counters, more: u64| {
            of_wire.publish(wire);
            of_decode.publish(decode);
            let lost = ledger.snapshot().lost_once(SourceId(0));
            assert_eq!(lost, before + more);
            before = lost;
        };
        decode.lost(LossReason::BadChannel, Unit::Bytes, 64);
        grows_by(&wire, &decode, 64);
        wire.lost(LossReason::FrameGap, Unit::Frames, 30);
        wire.lost(LossReason::DatagramGap, Unit::Datagrams, 3);
        grows_by(&wire, &decode, 30);
        decode.lost(LossReason::TooLarge, Unit::Hits, 1);
        grows_by(&wire, &decode, 1);
        decode.lost(LossReason::BadChannel, Unit::Bytes, 8);
        grows_by(&wire, &decode, 8);
    }

    #[test]
    fn a_gap_whose_hits_the_sender_has_forgotten_is_more_than_the_gaps_before() {
        let ledger = Ledger::create(None, &["left".to_owned()]).expect("memory");
        let slot = ledger.open(Stage::Wire, SourceId(0), &[Unit::Frames, Unit::Hits]);
        let mut wire = Counters::default();
        let mut lost = |frames, hits, uncounted| {
            wire.lost(LossReason::FrameGap, Unit::Frames, frames);
            wire.lost(LossReason::FrameGap, Unit::Hits, hits);
            wire.noted(Noted::Uncounted, Unit::Frames, uncounted);
            slot.publish(&wire);
            ledger.snapshot().lost_once(SourceId(0))
        };
        assert_eq!(lost(5, 100, 0), 100);
        let first = lost(3, 0, 3);
        assert!(first >= 103, "{first}");
        assert_eq!(lost(4, 0, 4), first + 4);
    }

    #[test]
    fn the_file_outlives_the_ledger() {
        let folder = tempfile::tempdir().expect("temporary folder");
        let path = folder.path().join("ledger.bin");
        let ledger =
            Ledger::create(Some(&path), &["östlich".to_owned(), "b".to_owned()]).expect("fresh file");
        let slot = ledger.open(Stage::Order, SourceId(1), &[Unit::Hits]);
        let mut counters = Counters::default();
        counters.input(Unit::Hits, 12);
        counters.output(Unit::Hits, 12);
        slot.publish(&counters);
        let counts = ledger.snapshot();
        drop((slot, ledger));
        assert_eq!(Ledger::read_file(&path).expect("a ledger"), counts);
        std::fs::write(&path, b"not a ledger at all").expect("writable");
        let message = Ledger::read_file(&path).expect_err("foreign").to_string();
        assert!(message.contains("not a ledger of version 1"), "{message}");
    }
}
