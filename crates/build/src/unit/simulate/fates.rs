//! What became of every fragment that a board sent, by evidence: exactly one of the fates below, or the run has failed.
//!
//! ```text
//!  a life of a readout unit: sent, lost on the way, taken, let go of ─┐
//!  disks: every row ever written, those that a power cut took ────────┼─► Fate of (trigger, board) ─► Lost, by reason
//!  builder units: parts that they counted as late or lost ────────────┘
//! ```
//! Nothing is inferred from what is missing: where no evidence says how a fragment was lost, it was lost by a mistake.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::Range;

use thalweg_data::Unit;

use super::boards::Crate;
use super::verdict::{Disk, Row};
use super::world::World;
use crate::unit::ReadoutUnit;
use crate::unit::builder::LostPart;
use crate::unit::readout::Gone;

/// What the boards of one readout unit sent, and what it did, from one of its starts to its death.
#[derive(Clone, Debug, Default)]
pub(super) struct Life {
    /// The triggers of this time.
    pub triggers: Range<u64>,
    /// Its boards.
    pub sources: Range<u16>,
    /// It has died.
    pub died: bool,
    /// Trigger and board of what never arrived.
    pub lost_on_the_way: BTreeSet<(u64, u16)>,
    /// Of each trigger, the boards whose fragments the unit was given.
    pub taken: BTreeMap<u64, u64>,
    /// Of each trigger that the unit let go of, as what it counted it.
    pub let_go: BTreeMap<u64, Gone>,
}

/// What became of a fragment. Each is the evidence of a unit; the later in this list, the further it had come.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Fate {
    LostOnTheWay,
    DiedOnTheWay,
    LeftByLocalBuilder,
    DiedWithReadout,
    CountedByReadout,
    CountedByBuilder,
    CutFromDisk,
    /// On file, and late for a later attempt.
    OnFileOfEarlierAttempt,
    /// On file, and its readout unit counts it as lost: whoever could have informed it has died, and the event manager with them.
    OnFileUnknown,
    OnFile,
}

/// Triggers of which no row is on file, by how far the fragment had come that came furthest.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Lost {
    /// Every board's fragment was lost before a readout unit received it, or its local builder had closed the trigger.
    pub not_received: u64,
    /// With the readout units that had it.
    pub with_readout: u64,
    /// A readout unit counted it as late, or lost with a unit.
    pub counted_by_readout: u64,
    /// A builder unit did.
    pub counted_by_builder: u64,
    /// It was on file, and a power cut took what was not on the disk.
    pub cut_from_disk: u64,
}

impl Lost {
    /// All together.
    pub fn total(&self) -> u64 {
        self.not_received
            + self.with_readout
            + self.counted_by_readout
            + self.counted_by_builder
            + self.cut_from_disk
    }

    /// The sum of two.
    pub fn plus(&self, other: &Lost) -> Lost {
        Lost {
            not_received: self.not_received + other.not_received,
            with_readout: self.with_readout + other.with_readout,
            counted_by_readout: self.counted_by_readout + other.counted_by_readout,
            counted_by_builder: self.counted_by_builder + other.counted_by_builder,
            cut_from_disk: self.cut_from_disk + other.cut_from_disk,
        }
    }

    fn count(&mut self, furthest: Fate) {
        *match furthest {
            Fate::LostOnTheWay | Fate::DiedOnTheWay | Fate::LeftByLocalBuilder => &mut self.not_received,
            Fate::DiedWithReadout => &mut self.with_readout,
            Fate::CountedByReadout => &mut self.counted_by_readout,
            Fate::CountedByBuilder => &mut self.counted_by_builder,
            // No row is there, and there was one.
            _ => &mut self.cut_from_disk,
        } += 1;
    }
}

/// Of each trigger, how far the fragment had come that came furthest.
type Furthest = BTreeMap<u64, Fate>;

/// The evidence that does not belong to one readout unit.
struct Evidence<'w> {
    /// Of each trigger what readers find.
    taken: &'w BTreeMap<u64, Row>,
    disk: &'w Disk,
    assigned: &'w BTreeMap<u64, (u64, u8)>,
    lost_parts: Vec<LostPart>,
}

impl Evidence<'_> {
    fn fate(&self, readout: usize, life: &Life, trigger: u64, source: u16) -> Result<Fate, String> {
        let bit = 1 << source;
        let on_file = self.taken.get(&trigger).is_some_and(|row| row.has(bit));
        let is_taken = life.taken.get(&trigger).is_some_and(|taken| taken & bit != 0);
        let fate = match (is_taken, life.let_go.get(&trigger)) {
            (false, _) if life.lost_on_the_way.contains(&(trigger, source)) => Fate::LostOnTheWay,
            (false, _) if life.died => Fate::DiedOnTheWay,
            (false, _) => Fate::LeftByLocalBuilder,
            (true, Some(Gone::Unknown)) if on_file => return Ok(Fate::OnFileUnknown),
            // A later attempt was made without this unit.
            (true, Some(Gone::Late)) if on_file && self.was_given_again(trigger, bit) => {
                return Ok(Fate::OnFileOfEarlierAttempt);
            }
            (true, Some(Gone::Late | Gone::Unknown)) => Fate::CountedByReadout,
            (true, Some(Gone::Out) | None) if on_file => return Ok(Fate::OnFile),
            (true, None) if life.died => Fate::DiedWithReadout,
            (true, None) => return Err("it is still kept".to_owned()),
            (true, Some(Gone::Out)) if self.is_counted_by_builder(readout, trigger, bit) => {
                Fate::CountedByBuilder
            }
            (true, Some(Gone::Out)) if self.disk.was_cut(trigger, bit) => Fate::CutFromDisk,
            (true, Some(Gone::Out)) => {
                return Err(
                    "it was let go of as written, and is on no file and in nobody's ledger".to_owned()
                );
            }
        };
        match on_file {
            true => Err(format!("it is on file, and {fate:?}")),
            false => Ok(fate),
        }
    }

    /// A builder unit has counted it as late or lost, of the last attempt that a row had it of or a later one.
    fn is_counted_by_builder(&self, readout: usize, trigger: u64, bit: u64) -> bool {
        let least = self.disk.last_attempt_with(trigger, bit);
        let holds = |part: &LostPart| {
            part.readout.index() == readout
                && (part.from..part.until).contains(&trigger)
                && part.attempt >= least
        };
        self.lost_parts.iter().any(holds)
    }

    /// Whether it was given to a builder unit with a higher attempt than a row on file that has a fragment.
    fn was_given_again(&self, trigger: u64, bit: u64) -> bool {
        let row = self.disk.first_attempt_with(trigger, bit);
        let is_later =
            |(start, (end, attempt)): (&u64, &(u64, u8))| (*start..*end).contains(&trigger) && *attempt > row;
        self.assigned.iter().any(is_later)
    }
}

impl World {
    /// Finds the fate of every fragment. Returns what became of the triggers of which no row is on file.
    pub(super) fn fates(&mut self, taken: &BTreeMap<u64, Row>) -> Result<Lost, String> {
        let counted_lost: Vec<u64> = self.crates.iter_mut().map(Crate::lost_fragments).collect();
        let living = self.builders.iter().filter_map(|process| process.unit.as_ref());
        let mut lost_parts = self.lost_parts_of_the_dead.clone();
        lost_parts.extend(living.flat_map(|unit| unit.lost_parts().iter().copied()));
        let evidence = Evidence { taken, disk: &self.disk, assigned: &self.assigned, lost_parts };
        let mut furthest = Furthest::new();
        for (readout, lives) in self.all_lives().into_iter().enumerate() {
            for life in &lives {
                let left = self.fates_of(readout, life, &evidence, &mut furthest)?;
                if !life.died {
                    let (doubled, counted) = (self.crates[readout].doubled(), counted_lost[readout]);
                    if left + doubled != counted {
                        return Err(format!(
                            "readout {readout}: its local builder closed without {left} fragments, {doubled} came twice, and it \
                             counts {counted}"
                        ));
                    }
                }
            }
            self.check_readout(readout, &lives)?;
        }
        let mut lost = Lost::default();
        for trigger in (0..self.accepted).filter(|trigger| !taken.contains_key(trigger)) {
            lost.count(*furthest.get(&trigger).ok_or(format!("trigger {trigger}: nobody was there"))?);
        }
        Ok(lost)
    }

    /// The fates of one life's fragments; returns how many its local builder was without.
    fn fates_of(
        &self,
        readout: usize,
        life: &Life,
        evidence: &Evidence<'_>,
        furthest: &mut Furthest,
    ) -> Result<u64, String> {
        let mut left = 0;
        for trigger in life.triggers.clone() {
            for source in life.sources.clone() {
                let failed = |what: String| {
                    let (gone, rows) = (life.let_go.get(&trigger), self.disk.history(trigger));
                    format!("trigger {trigger}, board {source}: {what} (let go of as {gone:?}; rows {rows})")
                };
                let fate = evidence.fate(readout, life, trigger, source).map_err(failed)?;
                left += u64::from(fate == Fate::LeftByLocalBuilder);
                let expected = matches!(fate, Fate::OnFile | Fate::LostOnTheWay | Fate::LeftByLocalBuilder);
                if self.plan.is_faultless() && !expected {
                    return Err(failed(format!("nothing went wrong, yet {fate:?}")));
                }
                if self.plan.acknowledges_synced && fate == Fate::CutFromDisk {
                    return Err(failed("a power cut took what was acknowledged as on the disk".to_owned()));
                }
                if fate == Fate::OnFileUnknown && self.manager_deaths == 0 {
                    return Err(failed(
                        "it is on file and counted as lost, and every event manager lived".to_owned(),
                    ));
                }
                let known = furthest.entry(trigger).or_insert(fate);
                *known = (*known).max(fate);
            }
        }
        Ok(left)
    }

    /// The counters of a living readout unit are what it did, fragment by fragment.
    fn check_readout(&self, number: usize, lives: &[Life]) -> Result<(), String> {
        let (Some(unit), Some(life)) = (&self.readouts[number].unit, lives.last()) else { return Ok(()) };
        let count = |is_out: bool| -> u64 {
            let gone = life.let_go.iter().filter(|(_, fate)| (**fate == Gone::Out) == is_out);
            gone.filter_map(|(trigger, _)| life.taken.get(trigger))
                .map(|taken| u64::from(taken.count_ones()))
                .sum()
        };
        let taken: u64 = life.taken.values().map(|taken| u64::from(taken.count_ones())).sum();
        let counters = unit.counters();
        let unit = Unit::Fragments;
        let counted =
            [counters.total_input(unit), counters.total_output(unit), counters.total_lost_any(unit)];
        let seen = [taken, count(true), count(false)];
        match counted == seen {
            true => Ok(()),
            false => Err(format!("readout {number}: in, out, lost {counted:?}, and it was seen to {seen:?}")),
        }
    }

    /// The lives of every readout unit, the present one last.
    fn all_lives(&self) -> Vec<Vec<Life>> {
        let all = self.past_lives.iter().zip(&self.crates).zip(&self.readouts);
        all.map(|((past, board), process)| {
            let mut lives = past.clone();
            lives.push(board.life(self.accepted, process.unit.as_ref().map(ReadoutUnit::fates)));
            lives
        })
        .collect()
    }
}
