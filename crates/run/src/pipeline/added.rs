//! The stages that a configuration adds after time order: carries out and counts their verdict on each hit.
//!
//! ```text
//!  ordered batch ─► stage: a verdict for each hit ─► taken out, counted by source ─► next stage … ─► cuts, recording
//! ```

use thalweg_analysis::hit_stage::{HitStageRole, HitVerdict, MadeStage};
use thalweg_data::ledger::MOST_ADDED;
use thalweg_data::{Counters, Hits, LossReason, SnapshotNumber, SourceId, Unit};

use super::{Ledgered, Signals};

/// All of them, in their order.
#[derive(Default)]
pub(crate) struct AddedStages {
    stages: Vec<Driven>,
    /// The source of each channel's hits.
    source_of: Box<[SourceId]>,
    verdicts: Vec<HitVerdict>,
}

/// One, with its counters.
struct Driven {
    made: MadeStage,
    /// The slots by source.
    slots: Vec<Ledgered>,
    counters: Vec<Counters>,
    /// The fates of the hits of the current batch, by source.
    fates: Vec<Fates>,
    has_failed: bool,
}

/// The fates of one source's hits in a batch, summed here so that the slots are written once per batch.
#[derive(Clone, Copy, Debug, Default)]
struct Fates {
    kept: u32,
    left_out: u32,
    /// Lost hits by the index of the stage's reason; [`UNNAMED`] and [`NOT_TAKEN`] in addition.
    lost: [u32; REASONS],
}

/// The place of what a stage loses for a reason that it has not named.
const UNNAMED: usize = MOST_ADDED;
/// The place of what a sink that has failed did not take.
const NOT_TAKEN: usize = MOST_ADDED + 1;
const REASONS: usize = MOST_ADDED + 2;

impl AddedStages {
    /// These stages, each with the counters of the sources.
    pub(crate) fn new(stages: Vec<(MadeStage, Vec<Ledgered>)>, source_of: Box<[SourceId]>) -> AddedStages {
        let driven = |(made, slots): (MadeStage, Vec<Ledgered>)| {
            let counters = vec![Counters::default(); slots.len()];
            Driven { made, fates: vec![Fates::default(); slots.len()], slots, counters, has_failed: false }
        };
        AddedStages { stages: stages.into_iter().map(driven).collect(), source_of, verdicts: Vec::new() }
    }

    /// Takes a batch through all of them; what goes on is left in it.
    pub(crate) fn take(&mut self, batch: &mut Hits, signals: &Signals) {
        for stage in &mut self.stages {
            if batch.hits.is_empty() {
                break;
            }
            self.verdicts.clear();
            self.verdicts.resize(batch.hits.len(), HitVerdict::Keep);
            stage.take(batch, &mut self.verdicts, &self.source_of, signals);
        }
        let header = batch.header;
        for stage in &mut self.stages {
            match header.snapshot {
                Some(number) => stage.snapshot(header.source, number),
                None => stage.publish_at(header.mark.0),
            }
        }
    }

    /// Ends the stages: no hit follows.
    pub(crate) fn finish(&mut self, signals: &Signals) {
        for stage in &mut self.stages {
            if let Err(text) = stage.made.work.finish() {
                stage.fail(&text, signals);
            }
            stage.slots.iter().zip(&stage.counters).for_each(|(slot, counters)| slot.publish(counters));
        }
    }
}

impl Driven {
    fn take(
        &mut self,
        batch: &mut Hits,
        verdicts: &mut [HitVerdict],
        source_of: &[SourceId],
        signals: &Signals,
    ) {
        for share in &batch.shares {
            self.counters[share.source.index()].input(Unit::Hits, u64::from(share.hits));
        }
        let result = match self.has_failed {
            true => Err(String::new()),
            false => self.made.work.take(batch, verdicts),
        };
        self.fates.fill(Fates::default());
        match &result {
            Ok(()) => self.sort(batch, verdicts, source_of),
            Err(_) => self.pass_by(batch),
        }
        self.count();
        match result {
            Ok(()) if self.made.role == HitStageRole::Filter => self.take_out(batch, verdicts),
            Ok(()) => {}
            Err(text) => self.fail(&text, signals),
        }
    }

    /// Sums up what the stage has said of each hit.
    fn sort(&mut self, batch: &Hits, verdicts: &[HitVerdict], source_of: &[SourceId]) {
        let named = self.made.reasons.len().min(UNNAMED);
        for (hit, verdict) in batch.hits.iter().zip(verdicts) {
            let fates = &mut self.fates[source_of[usize::from(hit.channel)].index()];
            match verdict {
                HitVerdict::Keep => fates.kept += 1,
                HitVerdict::LeaveOut => fates.left_out += 1,
                HitVerdict::Lose(reason) if usize::from(*reason) < named => {
                    fates.lost[usize::from(*reason)] += 1
                }
                HitVerdict::Lose(_) => fates.lost[UNNAMED] += 1,
            }
        }
    }

    /// A batch that the stage did not look at: a filter takes nothing out of it, a sink has not got it.
    fn pass_by(&mut self, batch: &Hits) {
        for share in &batch.shares {
            let fates = &mut self.fates[share.source.index()];
            match self.made.role {
                HitStageRole::Filter => fates.kept += share.hits,
                HitStageRole::Sink => fates.lost[NOT_TAKEN] += share.hits,
            }
        }
    }

    fn count(&mut self) {
        for (fates, counters) in self.fates.iter().zip(&mut self.counters) {
            counters.output(Unit::Hits, u64::from(fates.kept));
            counters.filtered(Unit::Hits, u64::from(fates.left_out));
            for (place, lost) in fates.lost.iter().enumerate().filter(|(_, lost)| **lost > 0) {
                let reason = match place {
                    NOT_TAKEN => LossReason::WriteFailed,
                    place => self.made.reasons.get(place).copied().unwrap_or(LossReason::Abandoned),
                };
                counters.lost(reason, Unit::Hits, u64::from(*lost));
            }
        }
    }

    /// Leaves in a batch what goes on.
    fn take_out(&self, batch: &mut Hits, verdicts: &[HitVerdict]) {
        if verdicts.iter().all(|verdict| *verdict == HitVerdict::Keep) {
            return;
        }
        batch.keep_where(|place| verdicts[place] == HitVerdict::Keep);
        for share in &mut batch.shares {
            share.hits = self.fates[share.source.index()].kept;
        }
    }

    /// The first failure ends the run.
    fn fail(&mut self, text: &str, signals: &Signals) {
        if !std::mem::replace(&mut self.has_failed, true) {
            signals.fail(format!("{}: {text}", self.made.word()));
        }
    }

    fn snapshot(&mut self, source: SourceId, number: SnapshotNumber) {
        if let (Some(slot), Some(counters)) =
            (self.slots.get(source.index()), self.counters.get(source.index()))
        {
            slot.snapshot(number, counters);
        }
    }

    fn publish_at(&mut self, mark_ns: u64) {
        for (slot, counters) in self.slots.iter_mut().zip(&self.counters) {
            slot.publish_at(mark_ns, counters);
        }
    }
}
