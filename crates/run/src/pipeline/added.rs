//! The stages that a configuration adds behind time order: what they say of each hit is done and counted here.
//!
//! ```text
//!  ordered batch ─► stage: a verdict for each hit ─► taken out, counted by source ─► next stage … ─► cuts, recording
//! ```

use thalweg_data::{Hits, LossReason, SnapshotNumber, SourceId, Tally, Unit};
use thalweg_order::hit_stage::{HitStageRole, MadeStage, Verdict};

use super::{Ledgered, Signals};

/// All of them, in their order.
#[derive(Default)]
pub(crate) struct AddedStages {
    stages: Vec<Driven>,
    /// Whose hits a channel's are.
    source_of: Box<[SourceId]>,
    verdicts: Vec<Verdict>,
}

/// One, with its accounts.
struct Driven {
    made: MadeStage,
    /// By source.
    books: Vec<Ledgered>,
    tallies: Vec<Tally>,
    /// By source: hits of a batch that go no further from here.
    taken_out: Vec<u32>,
    has_failed: bool,
}

impl AddedStages {
    /// These stages, each with the accounts of the sources.
    pub(crate) fn new(stages: Vec<(MadeStage, Vec<Ledgered>)>, source_of: Box<[SourceId]>) -> AddedStages {
        let driven = |(made, books): (MadeStage, Vec<Ledgered>)| {
            let tallies = vec![Tally::default(); books.len()];
            Driven { made, taken_out: vec![0; books.len()], books, tallies, has_failed: false }
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
            self.verdicts.resize(batch.hits.len(), Verdict::Keep);
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

    /// No hit follows.
    pub(crate) fn finish(&mut self, signals: &Signals) {
        for stage in &mut self.stages {
            let result = stage.made.work.finish();
            stage.heed(result, signals);
            stage.books.iter().zip(&stage.tallies).for_each(|(account, tally)| account.publish(tally));
        }
    }
}

impl Driven {
    fn take(
        &mut self,
        batch: &mut Hits,
        verdicts: &mut [Verdict],
        source_of: &[SourceId],
        signals: &Signals,
    ) {
        for share in &batch.shares {
            self.tallies[share.source.index()].input(Unit::Hits, u64::from(share.hits));
        }
        let result = match self.has_failed {
            true => Err(String::new()),
            false => self.made.work.take(batch, verdicts),
        };
        let is_sink = self.made.role == HitStageRole::Sink;
        let fate = |verdict: Verdict| match (&result, verdict) {
            (Ok(()), Verdict::Lose(reason)) => {
                Fate::Lost(self.made.reasons.get(usize::from(reason)).copied())
            }
            (Ok(()), Verdict::LeaveOut) => Fate::LeftOut,
            (Err(_), _) if is_sink => Fate::Lost(Some(LossReason::WriteFailed)),
            _ => Fate::Kept,
        };
        let fates = verdicts.iter().map(|verdict| fate(*verdict));
        self.taken_out.fill(0);
        for (hit, fate) in batch.hits.iter().zip(fates) {
            let source = source_of[usize::from(hit.channel)].index();
            let tally = &mut self.tallies[source];
            match fate {
                Fate::Kept => tally.output(Unit::Hits, 1),
                Fate::LeftOut => tally.filtered(Unit::Hits, 1),
                Fate::Lost(reason) => tally.lost(reason.unwrap_or(LossReason::Abandoned), Unit::Hits, 1),
            }
            self.taken_out[source] += u32::from(fate != Fate::Kept);
        }
        if !is_sink && result.is_ok() && self.taken_out.iter().any(|count| *count > 0) {
            batch.keep_where(|place| verdicts[place] == Verdict::Keep);
            for share in &mut batch.shares {
                share.hits = share.hits.saturating_sub(self.taken_out[share.source.index()]);
            }
        }
        self.heed(result, signals);
    }

    fn heed(&mut self, result: Result<(), String>, signals: &Signals) {
        if let Err(words) = result
            && !std::mem::replace(&mut self.has_failed, true)
        {
            signals.fail(format!("{}: {words}", self.made.word()));
        }
    }

    fn snapshot(&mut self, source: SourceId, number: SnapshotNumber) {
        if let (Some(account), Some(tally)) =
            (self.books.get(source.index()), self.tallies.get(source.index()))
        {
            account.snapshot(number, tally);
        }
    }

    fn publish_at(&mut self, mark_ns: u64) {
        for (account, tally) in self.books.iter_mut().zip(&self.tallies) {
            account.publish_at(mark_ns, tally);
        }
    }
}

/// What becomes of a hit here.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Fate {
    Kept,
    LeftOut,
    /// For this reason; `None` where the stage has named none of its own.
    Lost(Option<LossReason>),
}
