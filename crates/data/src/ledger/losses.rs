//! Losses as text and numbers for people: with unit, fraction, and how well they are known.
//!
//! ```text
//!  Ledgers ─► LossReport: totals  "hits lost: unknown, ≥ 130 frames (≥ 2.0 %)"
//!                       sources  the same for each
//!                       kinds   "lost 130 frames (2.0 %) of left at wire: frame_gap"
//! ```
//! How many hits a lost frame contained is not known. So a run that has lost frames, datagrams or bytes has lost
//! an unknown number of hits, unless its senders report their totals. All screens and texts use the texts made here.

use std::collections::BTreeSet;
use std::fmt;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::kept::{DataKept, Kept};
use super::reasons::Quality;
use super::snapshot::{CounterSnapshot, LedgerSnapshot, Loss};
use super::stages::StageRole;
use super::vocabulary::{LossReason, Noted, Stage, Unit};
use crate::id::SourceId;
use crate::topology::{FlowPath, Node, SubjectKind, Topology};

/// A number of lost units, and of all.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct LostCount {
    /// What is counted.
    pub unit: Unit,
    /// How many are lost.
    pub count: u64,
    /// How many there were, including the lost ones.
    pub of: u64,
    /// Lost ÷ all, 0 to 1; `None` if there were none.
    pub fraction: Option<f64>,
}

/// The lost hits, fragments, events or coincidences of a run or of a source.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct LossTotal {
    /// The number that is known to be lost.
    #[serde(flatten)]
    pub known: LostCount,
    /// How well `count` is known. `unknown`: more than `count` may be lost, because `bound` is.
    pub quality: Quality,
    /// If the quality is `unknown`: the loss from which this follows, in the unit in which it was counted.
    pub bound: Option<LostCount>,
    /// All of this as text.
    pub text: String,
    /// Whether the events are coincidences, which are made of hits. Left out where they are not.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub of_coincidences: bool,
}

/// Losses of one kind, of all sources that have them.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct LossKind {
    /// The stage that counted them.
    pub stage: Stage,
    /// Why they were lost.
    pub reason: LossReason,
    /// How many are lost, and how many came to the stage from these sources.
    #[serde(flatten)]
    pub lost: LostCount,
    /// How well the count is known.
    pub quality: Quality,
    /// The source that has lost most.
    pub source: String,
    /// How many it has lost.
    pub most: u64,
    /// How many sources have such losses.
    pub sources: usize,
    /// The advice of that source's loss: what was seen, and what to do.
    pub advice: String,
}

/// All losses of a run.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct LossReport {
    /// One total each for hits, fragments, events and coincidences, if the run has them.
    pub totals: Vec<LossTotal>,
    /// One total for each source that has hits or fragments.
    #[serde(skip)]
    pub sources: Vec<(SourceId, LossTotal)>,
    /// Losses by stage, reason and unit, in path order.
    pub kinds: Vec<LossKind>,
}

/// Units that contain hits or fragments, from the finest to the coarsest.
const COARSE: [Unit; 3] = [Unit::Frames, Unit::Datagrams, Unit::Bytes];

/// For each unit of [`COARSE`]: how many are lost, and of how many.
type CoarseLosses = [(u64, u64); COARSE.len()];

/// What people call events that are made of hits.
const COINCIDENCES: &str = "coincidences";

/// Counts of one source, or sums of several.
#[derive(Clone, Copy, Default)]
struct Counted {
    lost: u64,
    of: u64,
    /// For each unit of [`COARSE`]: lost, without knowing how many of the finer unit they contained, and of how many.
    coarse: CoarseLosses,
    /// Of what is kept as raw bytes alone, the raw data that are not on file.
    unwritten: CoarseLosses,
    /// Triggers that no board answered, and of how many.
    unseen: (u64, u64),
    /// Fragments of triggers without an event, and of how many.
    outside: (u64, u64),
}

impl Counted {
    fn add(&mut self, other: &Counted) {
        self.lost += other.lost;
        self.of += other.of;
        for (own, more) in [(&mut self.coarse, &other.coarse), (&mut self.unwritten, &other.unwritten)] {
            for (own, more) in own.iter_mut().zip(more) {
                *own = (own.0 + more.0, own.1 + more.1);
            }
        }
        self.unseen = other.unseen;
    }

    /// The coarse unit of which the largest fraction is lost; among about equal fractions, the finest unit.
    fn bound(&self) -> Option<LostCount> {
        // What was lost before had not come to the raw recording.
        let lost =
            self.coarse.iter().zip(&self.unwritten).map(|(own, raw)| (own.0 + raw.0, own.1.max(raw.1)));
        let lost = COARSE.iter().zip(lost).filter(|(_, (count, _))| *count > 0);
        let counts = lost.map(|(unit, (count, of))| LostCount::new(*unit, count, of));
        counts.reduce(|finer, other| match (finer.fraction, other.fraction) {
            (Some(one), Some(another)) if another > 1.25 * one => other,
            _ => finer,
        })
    }

    fn total(&self, unit: Unit) -> LossTotal {
        let unseen = LostCount::new(Unit::Events, self.unseen.0, self.unseen.1);
        let outside = LostCount::new(Unit::Fragments, self.outside.0, self.outside.1);
        let bound = self.bound().or([unseen, outside].into_iter().find(|lost| lost.count > 0));
        LossTotal::new(LostCount::new(unit, self.lost, self.of), bound)
    }
}

/// One count in percent of another; `None` if `of` is 0. Rounded only once: computed from the fraction, 3045 of 6000 would be slightly
/// less than 50.75 % and print as 50.7 % instead of 50.8 %.
pub fn percent_of(count: u64, of: u64) -> Option<f64> {
    (of > 0).then(|| 100.0 * count as f64 / of as f64)
}

impl LostCount {
    fn new(unit: Unit, count: u64, of: u64) -> LostCount {
        LostCount { unit, count, of, fraction: (of > 0).then(|| count as f64 / of as f64) }
    }

    /// ` (2.0 %)`, or empty if there is no fraction. Also empty for a small lower bound, which says no more than that something is lost.
    fn percent(&self, about: &str) -> String {
        match percent_of(self.count, self.of) {
            None => String::new(),
            Some(small) if small < 0.01 && !about.is_empty() => String::new(),
            Some(small) if small < 0.01 && small > 0.0 => " (< 0.01 %)".to_owned(),
            Some(percent) if percent < 1.0 => format!(" ({about}{percent:.2} %)"),
            Some(percent) => format!(" ({about}{percent:.1} %)"),
        }
    }

    fn at_least(&self) -> String {
        self.at_least_of(self.unit.word())
    }

    fn at_least_of(&self, what: &str) -> String {
        format!("≥ {} {what}{}", self.count, self.percent("≥ "))
    }
}

impl LossTotal {
    /// With what follows from the loss of a coarser unit or, in events, from triggers that nobody has seen or that have no event.
    fn new(known: LostCount, bound: Option<LostCount>) -> LossTotal {
        LossTotal::called(known.unit.word(), known, bound)
    }

    /// The same of coincidences.
    fn of_coincidences(known: LostCount) -> LossTotal {
        LossTotal { of_coincidences: true, ..LossTotal::called(COINCIDENCES, known, None) }
    }

    /// The same of what people call `what`.
    fn called(what: &str, known: LostCount, bound: Option<LostCount>) -> LossTotal {
        let count = known.count;
        let quality = if bound.is_some() { Quality::Unknown } else { Quality::Exact };
        let also = bound.map(|bound| match bound.unit {
            Unit::Events => format!("{} triggers unseen{}", bound.count, bound.percent("")),
            Unit::Fragments => format!("{} of other triggers", bound.at_least()),
            _ => bound.at_least(),
        });
        let text = match (also, count) {
            (None, 0) => format!("no {what} lost"),
            (None, lost) => format!("{what} lost: {lost}{}", known.percent("")),
            (Some(also), 0) => format!("{what} lost: unknown, {also}"),
            (Some(also), lost) => format!("{what} lost: unknown, ≥ {lost} {what} and {also}"),
        };
        LossTotal { known, quality, bound, text, of_coincidences: false }
    }

    /// What is lost, as people call it.
    fn what(&self) -> &'static str {
        if self.of_coincidences { COINCIDENCES } else { self.known.unit.word() }
    }

    /// The same with `more` that are lost.
    fn with(&self, more: u64) -> LossTotal {
        let known = LostCount::new(self.known.unit, self.known.count + more, self.known.of);
        let of_coincidences = self.of_coincidences;
        LossTotal { of_coincidences, ..LossTotal::called(self.what(), known, self.bound) }
    }

    /// The same total as a lower bound, with `more` of its unit that were not counted as lost.
    fn as_bound(&self, more: u64) -> LossTotal {
        let count = self.known.count + more;
        // Of events, `of` is the sum of those that were recorded and lost: what the recording held when the program was killed is not in it.
        let of = if self.known.unit == Unit::Events { self.known.of + more } else { self.known.of };
        let known = LostCount::new(self.known.unit, count, of.max(count));
        let coarse = self.bound.map(|bound| bound.at_least());
        let fine = (known.count > 0).then(|| known.at_least_of(self.what()));
        let bounds: Vec<String> = fine.into_iter().chain(coarse).collect();
        let separator = if bounds.is_empty() { "" } else { ", " };
        let text = format!("{} lost: unknown{separator}{}", self.what(), bounds.join(" and "));
        let bound = self.bound.or(Some(known));
        LossTotal { known, quality: Quality::Unknown, bound, text, of_coincidences: self.of_coincidences }
    }

    /// How many are known to be lost; `None` where some are, of which nobody knows how many.
    pub fn known_lost(&self) -> Option<u64> {
        Some(self.known.count).filter(|count| *count > 0 || self.quality == Quality::Exact)
    }

    /// Whether it is known that nothing is lost.
    pub fn is_none(&self) -> bool {
        self.known.count == 0 && self.quality == Quality::Exact
    }
}

impl fmt::Display for LossTotal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}

impl LossKind {
    /// The losses by stage, reason and unit, in path order. Leaves out bytes if the same loss is reported in a larger unit, frames that were
    /// fragments if it is reported in fragments, and losses that another stage counts as well ([`Loss::is_echo`], and what builder units refuse
    /// of readout units here). What readout units lose are parts of events, which are reported as fragments: of one event, each unit may lose
    /// its part.
    pub fn all_of(losses: &[Loss], path: &Topology) -> Vec<LossKind> {
        let mut kinds: Vec<LossKind> = Vec::new();
        let alike = |one: &Loss, other: &Loss| one.stage == other.stage && one.reason == other.reason;
        let has_readouts = path.nodes.iter().any(|node| node.stage.role() == StageRole::HandOver);
        let is_unit = |name: &str| {
            path.subjects.iter().any(|subject| subject.kind == SubjectKind::Unit && subject.name == name)
        };
        let is_refused = |loss: &Loss| {
            has_readouts
                && loss.unit != Unit::Events
                && loss.stage.role() == StageRole::Work
                && is_unit(&loss.source)
        };
        let stands_in = |loss: &Loss, stands: fn(&Loss, &Loss) -> bool| {
            let is_same = |other: &&Loss| alike(loss, other) && other.source == loss.source;
            losses.iter().filter(is_same).any(|other| stands(loss, other))
        };
        let is_part = |loss: &Loss| {
            loss.unit == Unit::Events
                && loss.stage.role() == StageRole::HandOver
                && stands_in(loss, |_, other| other.unit == Unit::Fragments)
        };
        // In a stream, a fragment is a frame first.
        let is_fragment = |loss: &Loss| {
            loss.unit == Unit::Frames
                && stands_in(loss, |loss, other| other.unit == Unit::Fragments && other.count >= loss.count)
        };
        let is_reported =
            |loss: &&Loss| !loss.is_echo() && !is_refused(loss) && !is_part(loss) && !is_fragment(loss);
        for loss in losses.iter().filter(is_reported) {
            if loss.unit == Unit::Bytes && stands_in(loss, |_, other| other.unit != Unit::Bytes) {
                continue;
            }
            let own = (loss.stage, loss.reason, loss.unit);
            match kinds.iter_mut().find(|kind| (kind.stage, kind.reason, kind.lost.unit) == own) {
                Some(kind) => kind.add(loss),
                None => kinds.push(LossKind::of(loss)),
            }
        }
        kinds.sort_by_key(|kind| (path.position_of(kind.stage), kind.reason));
        kinds
    }

    fn of(loss: &Loss) -> LossKind {
        LossKind {
            stage: loss.stage,
            reason: loss.reason,
            lost: LostCount::new(loss.unit, loss.count, loss.of),
            quality: loss.quality,
            source: loss.source.clone(),
            most: loss.count,
            sources: 1,
            advice: loss.advice.clone(),
        }
    }

    fn add(&mut self, loss: &Loss) {
        self.lost = LostCount::new(loss.unit, self.lost.count + loss.count, self.lost.of + loss.of);
        self.sources += 1;
        if loss.count > self.most {
            self.most = loss.count;
            self.advice.clone_from(&loss.advice);
            self.source.clone_from(&loss.source);
        }
    }
}

impl LossKind {
    /// What was lost, as text without the advice.
    pub fn what(&self) -> String {
        let LossKind { stage, reason, lost, source, most, sources, .. } = self;
        let (verb, unit) = match reason.is_dead_time() {
            true => ("refused", "triggers"),
            false => ("lost", lost.unit.word()),
        };
        let (quality, about) = match self.quality {
            Quality::Exact => ("", ""),
            Quality::AtLeast => ("at least ", "≥ "),
            Quality::Unknown => ("an unknown number, at least ", "≥ "),
        };
        let whose = match sources {
            1 => source.clone(),
            sources => format!("{sources} sources, most of {source} ({most})"),
        };
        let (count, percent) = (lost.count, lost.percent(about));
        format!("{verb} {quality}{count} {unit}{percent} of {whose} at {stage}: {reason}")
    }
}

impl fmt::Display for LossKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.advice.as_str() {
            "" => f.write_str(&self.what()),
            advice => write!(f, "{} — {advice}", self.what()),
        }
    }
}

impl LossReport {
    /// The losses of a ledger, without advice. `kept` is what the run keeps, or the role of the stage that keeps the hits where everything is
    /// kept in rows; hits that are lost on other branches of the path do not count as lost hits.
    pub fn of(snapshot: &LedgerSnapshot, kept: impl Into<DataKept>) -> LossReport {
        let (path, kept) = (snapshot.path(), kept.into());
        let events = events(snapshot, &path);
        let mut sums: [(Unit, Option<Counted>); 3] =
            [(Unit::Hits, None), (Unit::Fragments, None), (Unit::Events, events)];
        // The fragments of unseen triggers are those of unseen events.
        let unseen = events.map(|events| events.unseen).unwrap_or_default();
        let of_hits = UnitPath::of(&path, Unit::Hits, Some(kept.hits_end));
        let of_fragments = UnitPath::of(&path, Unit::Fragments, None);
        let links = path.shared_links();
        let shared: BTreeSet<SourceId> = links.iter().flatten().copied().collect();
        let mut sources = Vec::new();
        for source in (0..snapshot.sources.len()).map(|index| SourceId(index as u16)) {
            let in_slices = kept.hits_lost_in_slices(snapshot.of_source(source));
            let counted = match snapshot.of_source(source) {
                slots if slots.iter().any(|own| of_hits.begins_at(own)) => {
                    let own = hits(slots, &of_hits);
                    Some((0, Counted { lost: own.lost + in_slices, ..own }))
                }
                slots => {
                    // The slices of a source are counted under a name of their own.
                    sums[0].1.iter_mut().for_each(|sum| sum.lost += in_slices);
                    fragments(slots, &of_fragments, unseen).map(|counted| (1, counted))
                }
            };
            if counted.is_none()
                && let Some(lost) = handed_over(snapshot.of_source(source), unseen)
            {
                sums[1].1.get_or_insert_default().add(&lost);
            }
            if let Some((index, counted)) = counted {
                let (unit, sum) = &mut sums[index];
                if !shared.contains(&source) {
                    sum.get_or_insert_default().add(&counted);
                }
                let is_raw = [kept.hits, kept.fragments][index] == Kept::RawBytes;
                let raw = snapshot.of_source(source).iter().filter(|own| own.stage.role() == StageRole::Raw);
                let unwritten = if is_raw { unwritten(raw, 0) } else { CoarseLosses::default() };
                sources.push((source, Counted { unwritten, ..counted }.total(*unit)));
            }
        }
        if let Some(counted) = of_shared_links(snapshot, &links, unseen) {
            sums[1].1.get_or_insert_default().add(&counted);
        }
        if !snapshot.knows_all_triggers() {
            let [_, (_, fragments), (_, events)] = &mut sums;
            // Bytes that are lost with no gap in the numbers, as at the end of a file, may have held all fragments of an event.
            if let (Some(fragments), Some(events)) = (fragments, events)
                && events.unseen.0 == 0
            {
                events.coarse = fragments.coarse;
            }
        }
        let forms = [kept.hits, kept.fragments, kept.events];
        for ((unit, sum), _) in sums.iter_mut().zip(forms).filter(|(_, form)| *form == Kept::RawBytes) {
            if let Some(sum) = sum {
                sum.unwritten = unwritten(raw_of(snapshot, &path, *unit), kept.raw_bytes_missing);
            }
        }
        if let Some(coarse) = of_the_file(snapshot) {
            sums.iter_mut()
                .filter_map(|(_, sum)| sum.as_mut())
                .for_each(|sum| sum.add(&Counted { coarse, unseen: sum.unseen, ..Counted::default() }));
        }
        let totals = sums.iter().filter_map(|(unit, sum)| Some(sum.as_ref()?.total(*unit)));
        let totals = totals.chain(coincidences(snapshot));
        LossReport { totals: totals.collect(), sources, kinds: LossKind::all_of(&snapshot.losses(), &path) }
    }

    /// The total of one unit, if the run has such units; of events, of those that are built.
    pub fn total(&self, unit: Unit) -> Option<&LossTotal> {
        self.totals.iter().find(|total| total.known.unit == unit && !total.of_coincidences)
    }

    /// The total of one source, if it has hits or fragments.
    pub fn of_source(&self, source: SourceId) -> Option<&LossTotal> {
        self.sources.iter().find(|(each, _)| *each == source).map(|(_, total)| total)
    }

    /// The report of a run whose program was killed. Data in the program's memory were not counted as lost, so every total becomes a lower
    /// bound: the losses that were counted plus `uncounted`, those that had arrived at the recording and are on no file.
    #[must_use]
    pub fn of_killed_run(mut self, uncounted: impl Fn(&LossTotal) -> u64) -> LossReport {
        for total in &mut self.totals {
            *total = total.as_bound(uncounted(total));
        }
        for (_, total) in &mut self.sources {
            *total = total.as_bound(0);
        }
        self
    }

    /// The report of a run whose ledger had closed, and whose files have lost rows since. Which source's they were is not known.
    #[must_use]
    pub fn of_damaged_run(mut self, missing: impl Fn(&LossTotal) -> u64) -> LossReport {
        for total in &mut self.totals {
            *total = total.with(missing(total));
        }
        for (_, total) in self.sources.iter_mut().filter(|(_, total)| missing(total) > 0) {
            *total = total.as_bound(0);
        }
        self
    }

    /// The totals as one line of text.
    pub fn text(&self) -> String {
        let texts: Vec<&str> = self.totals.iter().map(|total| total.text.as_str()).collect();
        texts.join("; ")
    }
}

/// The path of hits or fragments through a run.
struct UnitPath<'t> {
    path: &'t Topology,
    unit: Unit,
    /// The nodes that make them, and all nodes upstream.
    before: BTreeSet<&'t str>,
    /// The nodes that keep them, and all nodes upstream.
    kept: BTreeSet<&'t str>,
}

impl<'t> UnitPath<'t> {
    fn of(path: &'t Topology, unit: Unit, kept_by: Option<StageRole>) -> UnitPath<'t> {
        let counts = |node: &Node| node.counts.iter().any(|counts| counts.units.contains(&unit));
        let keeps = path.nodes.iter().filter(|node| Some(node.stage.role()) == kept_by && counts(node));
        let (before, kept) = (path.leading_to(path.makers(unit)), path.leading_to(keeps));
        UnitPath { path, unit, before, kept }
    }

    /// Whether the stage of this slot makes them.
    fn begins_at(&self, own: &CounterSnapshot) -> bool {
        own.counts(self.unit) && self.path.is_made(self.unit, own.stage, own.source)
    }

    /// Whether the stage of a slot makes hits or fragments, or is upstream of such a stage.
    fn is_before(&self, own: &CounterSnapshot) -> bool {
        is_in_front(own) || self.has(&self.before, own)
    }

    /// Whether the stage of a slot keeps them or is upstream, so that what it loses is not kept.
    fn is_kept_behind(&self, own: &CounterSnapshot) -> bool {
        self.is_before(own) || self.has(&self.kept, own)
    }

    fn has(&self, nodes: &BTreeSet<&str>, own: &CounterSnapshot) -> bool {
        let node = self.path.counting(own.stage, own.source);
        node.is_some_and(|(node, _)| nodes.contains(&node.id[..]))
    }
}

/// Whether the stage of a slot is before any processing.
fn is_in_front(own: &CounterSnapshot) -> bool {
    matches!(own.stage.role(), StageRole::SenderTotals | StageRole::SequenceNumbers | StageRole::Intake)
}

fn counts(slots: &[CounterSnapshot], role: StageRole, unit: Unit) -> bool {
    slots.iter().any(|slot| slot.stage.role() == role && slot.counts(unit))
}

/// How many of a unit one stage has lost, for reasons for which `takes` returns `true`. Leaves out what is missing on the wire because a
/// later stage refused it.
fn lost_at(slot: &CounterSnapshot, unit: Unit, takes: impl Fn(LossReason) -> bool) -> u64 {
    let has_echoes = slot.stage.role() == StageRole::SequenceNumbers;
    let own = |reason: &LossReason| !has_echoes || reason.is_gap();
    let reasons = LossReason::known().filter(|reason| own(reason) && takes(*reason));
    reasons.map(|reason| slot.counters.total_lost(reason, unit)).sum()
}

fn hits(slots: &[CounterSnapshot], path: &UnitPath<'_>) -> Counted {
    let on_the_way = slots.iter().filter(|own| path.is_kept_behind(own));
    let lost = on_the_way.map(|slot| lost_at(slot, Unit::Hits, |_| true)).sum();
    let is_sender =
        |own: &&CounterSnapshot| own.stage.role() == StageRole::SenderTotals && own.counts(Unit::Hits);
    if let Some(sender) = slots.iter().find(is_sender) {
        // The sender counts a record once that came in parts, and each part can be lost.
        let parts: u64 = slots.iter().map(|own| own.counters.total_noted(Noted::Continued, Unit::Hits)).sum();
        // What came while it was inhibited was never sent.
        let sent = sender.offered(Unit::Hits) - sender.counters.total_filtered(Unit::Hits);
        return Counted { lost, of: sent + parts, ..Counted::default() };
    }
    let came = slots.iter().filter(|own| path.is_before(own)).map(|own| match path.begins_at(own) {
        true => own.offered(Unit::Hits),
        false => lost_at(own, Unit::Hits, |_| true),
    });
    // If the sender's record is read, the wire counts the hits of every gap during the run.
    let is_asked = |own: &CounterSnapshot| {
        own.stage.role() == StageRole::SequenceNumbers
            && own.counts(Unit::Hits)
            && own.counters.total_noted(Noted::Uncounted, Unit::Frames) == 0
    };
    // At the end, the sender reports what it sent after the last datagram that arrived, unless its record does not reach back so far.
    let is_silent =
        |own: &CounterSnapshot| own.stage.role() == StageRole::SenderTotals && !own.counts(Unit::Hits);
    let coarse = match slots.iter().any(is_asked) && !slots.iter().any(is_silent) {
        true => Default::default(),
        false => coarse(slots, path),
    };
    Counted { lost, of: came.sum(), coarse, ..Counted::default() }
}

/// Lost fragments of one source: those that its boards report to have sent and that were not found or, without such reports, those that
/// are missing by the trigger numbers of other boards. If no fragments are missing by these numbers, only data that were refused or damaged
/// are known. Trigger numbers do not show the fragments at the damaged end of a file. `None` if the source has no fragments.
fn fragments(slots: &[CounterSnapshot], path: &UnitPath<'_>, unseen: (u64, u64)) -> Option<Counted> {
    let by_numbers = counts(slots, StageRole::SequenceNumbers, Unit::Fragments);
    let by_sender = counts(slots, StageRole::SenderTotals, Unit::Fragments);
    if !by_numbers && !by_sender && !slots.iter().any(|own| path.begins_at(own)) {
        return None;
    }
    // The sender stage counts the fragments that the sender reports and that were not found.
    let is_reported = |own: &CounterSnapshot| {
        let is_sender = own.stage.role() == StageRole::SenderTotals;
        by_sender && !is_sender && (own.stage.role() == StageRole::SequenceNumbers || path.begins_at(own))
    };
    let own = slots.iter().filter(|own| !is_reported(own));
    let lost: u64 = own.map(|slot| lost_at(slot, Unit::Fragments, |_| true)).sum();
    let lost = lost - if by_sender { 0 } else { missing_and_cut_off(slots) };
    let came = slots.iter().map(|slot| slot.offered(Unit::Fragments)).max().unwrap_or(0);
    // Those that an event filter has rejected are not among them, as rejected events are not.
    let filtered = slots.iter().map(|slot| slot.counters.total_filtered(Unit::Fragments)).sum();
    let of = came.saturating_sub(filtered);
    let is_unread = |own: &CounterSnapshot| {
        let damaged = [LossReason::CaptureDamaged, LossReason::RecordingDamaged];
        own.stage.role() == StageRole::Intake
            && damaged.iter().any(|reason| own.counters.total_lost(*reason, Unit::Bytes) > 0)
    };
    let exact = by_sender || lost > 0 && !slots.iter().any(is_unread);
    let coarse = if exact { Default::default() } else { coarse(slots, path) };
    let unseen = if by_sender { (0, 0) } else { unseen };
    Some(Counted { lost, of, coarse, unseen, ..Counted::default() })
}

/// What a unit on the path to the recording has lost; its fragments are those of the boards. What a builder unit refuses is still the readout
/// unit's, which loses it, or gives it to another one.
fn handed_over(slots: &[CounterSnapshot], unseen: (u64, u64)) -> Option<Counted> {
    let ships = slots.iter().filter(|own| own.stage.role() == StageRole::HandOver);
    let lost = ships.map(|own| lost_at(own, Unit::Fragments, |_| true)).sum();
    (lost > 0).then(|| Counted { lost, unseen, ..Counted::default() })
}

/// Fragments that count both as missing, by the trigger numbers of other boards, and as lost with an unknown trigger where they were framed.
fn missing_and_cut_off(slots: &[CounterSnapshot]) -> u64 {
    let cut_off = slots.iter().map(|own| {
        let cut_off = own.counters.total_noted(Noted::CutOff, Unit::Fragments);
        // No number is missing of a board that is not configured.
        cut_off.saturating_sub(own.counters.total_lost(LossReason::UnknownSource, Unit::Fragments))
    });
    let by_numbers = slots.iter().filter(|own| own.stage.role() == StageRole::SequenceNumbers);
    let missing = by_numbers.map(|own| lost_at(own, Unit::Fragments, |_| true)).sum::<u64>();
    missing.min(cut_off.sum())
}

/// Lost fragments of the boards that share links. Each link counts as one source, since what it loses may be of any of them.
fn of_shared_links(
    snapshot: &LedgerSnapshot,
    links: &[Vec<SourceId>],
    unseen: (u64, u64),
) -> Option<Counted> {
    if links.is_empty() {
        return None;
    }
    let groups = links.iter().map(|subjects| ("", &subjects[..]));
    let grouped = snapshot.grouped(groups);
    let grouped_path = grouped.path();
    let of_fragments = UnitPath::of(&grouped_path, Unit::Fragments, None);
    let each = (0..links.len()).map(|index| SourceId(index as u16));
    each.filter_map(|link| fragments(grouped.of_source(link), &of_fragments, unseen)).reduce(
        |mut sum, link| {
            sum.add(&link);
            sum
        },
    )
}

/// What an imported file has lost whose hits or events nobody can attribute to a source: it has been read as one stream, and nothing numbers
/// what was in it. `None` where boards do.
fn of_the_file(snapshot: &LedgerSnapshot) -> Option<CoarseLosses> {
    let numbers = |role| snapshot.at(role).next().is_some();
    if numbers(StageRole::SequenceNumbers) || numbers(StageRole::SenderTotals) || numbers(StageRole::Intake) {
        return None;
    }
    let counts_any = |own: &CounterSnapshot, units: &[Unit]| units.iter().any(|unit| own.counts(*unit));
    let reads = |own: &&CounterSnapshot| {
        let is_coarse =
            counts_any(own, &COARSE) && !counts_any(own, &[Unit::Hits, Unit::Fragments, Unit::Events]);
        is_coarse && own.stage.role() == StageRole::Work
    };
    let read = snapshot.slots.iter().find(reads)?;
    Some(COARSE.map(|unit| (lost_at(read, unit, LossReason::is_of_our_data), read.offered(unit))))
}

/// For each unit of [`COARSE`], how many were lost without knowing how many of the finer unit they contained, and of how many.
fn coarse(slots: &[CounterSnapshot], path: &UnitPath<'_>) -> CoarseLosses {
    let before = || slots.iter().filter(|slot| path.is_before(slot));
    COARSE.map(|unit| {
        let lost = before().map(|slot| {
            lost_at(slot, unit, |reason| {
                reason.is_of_our_data() && slot.counters.total_lost(reason, path.unit) == 0
            })
        });
        (lost.sum(), before().map(|slot| slot.offered(unit)).max().unwrap_or(0))
    })
}

/// The raw recordings of the bytes of which a unit is made. Time slices of hits are made of those of the hits.
fn raw_of<'s>(
    snapshot: &'s LedgerSnapshot,
    path: &'s Topology,
    unit: Unit,
) -> impl Iterator<Item = &'s CounterSnapshot> {
    let are_sliced = snapshot.at(StageRole::Slices).any(|own| own.counts(Unit::Hits));
    let gives_hits = |source| {
        let mut slots = snapshot.of_source(source).iter();
        slots.any(|own| own.counts(Unit::Hits) && path.is_made(Unit::Hits, own.stage, source))
    };
    snapshot.at(StageRole::Raw).filter(move |own| match (unit, gives_hits(own.source)) {
        (Unit::Hits, is_of_hits) => is_of_hits,
        (_, is_of_hits) => !is_of_hits || are_sliced,
    })
}

/// What raw recordings did not write, and `missing` bytes that are not on file any more.
fn unwritten<'s>(raw: impl Iterator<Item = &'s CounterSnapshot>, missing: u64) -> CoarseLosses {
    let raw: Vec<&CounterSnapshot> = raw.collect();
    COARSE.map(|unit| {
        let counting = || raw.iter().filter(|slot| slot.counts(unit));
        let lost: u64 = counting().map(|slot| slot.counters.total_lost_any(unit)).sum();
        let missing = if unit == Unit::Bytes { missing } else { 0 };
        (lost + missing, counting().map(|slot| slot.offered(unit)).sum())
    })
}

impl LedgerSnapshot {
    /// Whether the trigger itself reports its triggers, so that each one is an event or unseen at the builder.
    pub fn knows_all_triggers(&self) -> bool {
        let makers = self.making(Unit::Events);
        let mut triggers = self.at(StageRole::SenderTotals).filter(|slot| slot.counts(Unit::Events));
        triggers.any(|trigger| makers.iter().any(|maker| maker.source == trigger.source))
    }

    /// Number of triggers between built events that no board answered, by the builder of the recorded events. 0 for time slices, since an
    /// empty time slice is not a lost event.
    pub fn triggers_unseen(&self) -> u64 {
        if self.at(StageRole::Slices).next().is_some() {
            return 0;
        }
        let made = self.builders_of_recorded().into_iter();
        made.map(|slot| slot.counters.total_noted(Noted::Unseen, Unit::Events)).sum()
    }

    /// How many coincidences were lost behind where they were made; `None` of a run that records none and has lost none.
    pub fn lost_coincidences(&self) -> Option<u64> {
        coincidences(self).map(|total| total.known.count)
    }

    /// The counts of those that have built the events that are recorded here.
    pub fn builders_of_recorded(&self) -> Vec<&CounterSnapshot> {
        let recording = self.at(StageRole::Recording).filter(|slot| slot.counts(Unit::Events));
        let recorded: BTreeSet<SourceId> = recording.map(|slot| slot.source).collect();
        let mut made = self.making(Unit::Events);
        made.retain(|own| recorded.contains(&own.source));
        made
    }
}

/// Events that were started and are not on file. Refused triggers do not start an event.
fn events(snapshot: &LedgerSnapshot, path: &Topology) -> Option<Counted> {
    let is_of_hits = |own: &CounterSnapshot| path.flow_path_of(own.stage, own.source) == Some(FlowPath::Hits);
    let own = || snapshot.slots.iter().filter(|own| own.counts(Unit::Events) && !is_of_hits(own));
    let at = |role| own().filter(move |slot| slot.stage.role() == role);
    // What a readout unit hands over is a part of an event: it is lost as fragments.
    let whole = own().filter(|slot| slot.stage.role() != StageRole::HandOver);
    let lost: u64 = whole.map(|slot| lost_at(slot, Unit::Events, |why| !why.is_dead_time())).sum();
    let kept: u64 = at(StageRole::Recording).map(|slot| slot.counters.total_output(Unit::Events)).sum();
    let has_any = at(StageRole::Recording).next().is_some() || lost > 0;
    let (lost, unseen) = match snapshot.triggers_unseen() {
        // The builder knows all trigger numbers, so unseen triggers are lost events.
        unseen if snapshot.knows_all_triggers() => (lost + unseen, (0, 0)),
        unseen => (lost, (unseen, kept + lost + unseen)),
    };
    let outside = of_other_triggers(snapshot);
    has_any.then(|| Counted { lost, of: kept + lost, unseen, outside, ..Counted::default() })
}

/// Fragments of triggers that began no event and do not count as unseen either, since their numbers are far from those of all events, such
/// as behind a reset of the trigger; and of how many. They are those far away beyond those that are missing in events, if more than one board
/// has sent any: what a single one of several boards has sent so is damaged, or from a run before.
fn of_other_triggers(snapshot: &LedgerSnapshot) -> (u64, u64) {
    if snapshot.knows_all_triggers() || snapshot.at(StageRole::Slices).next().is_some() {
        return (0, 0);
    }
    let makers = snapshot.making(Unit::Events);
    let builds = |own: &&CounterSnapshot| makers.iter().any(|maker| maker.stage == own.stage);
    let boards = || snapshot.slots.iter().filter(builds).filter(|own| own.counts(Unit::Fragments));
    let outside = boards().map(|own| {
        let far = own.counters.total_lost(LossReason::OutOfWindow, Unit::Fragments);
        let wire = snapshot.slot_at(StageRole::SequenceNumbers, own.source);
        let missing =
            wire.map_or(0, |wire| wire.counters.total_lost(LossReason::MissingFragment, Unit::Fragments));
        far.saturating_sub(missing)
    });
    let outside: Vec<u64> = outside.filter(|fragments| *fragments > 0).collect();
    match outside.len() >= boards().count().min(2) {
        true => (outside.iter().sum(), boards().map(|own| own.offered(Unit::Fragments)).sum()),
        false => (0, 0),
    }
}

/// Coincidences that were made and are not on file.
fn coincidences(snapshot: &LedgerSnapshot) -> Option<LossTotal> {
    let path = snapshot.path();
    let is_of_hits = |own: &&CounterSnapshot| {
        own.counts(Unit::Events) && path.flow_path_of(own.stage, own.source) == Some(FlowPath::Hits)
    };
    let own = snapshot.slots.iter().filter(is_of_hits);
    let lost: u64 = own.map(|slot| lost_at(slot, Unit::Events, |_| true)).sum();
    let recorded = snapshot.recorded_events(FlowPath::Hits);
    let kept: u64 = recorded.iter().map(|slot| slot.counters.total_output(Unit::Events)).sum();
    let has_any = !recorded.is_empty() || lost > 0;
    has_any.then(|| LossTotal::of_coincidences(LostCount::new(Unit::Events, lost, kept + lost)))
}

#[cfg(test)]
mod tests;
