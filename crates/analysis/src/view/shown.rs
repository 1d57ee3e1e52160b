//! The half of it on the data path: which hits are shown, and by which calibration.
//!
//! ```text
//!  hits, pass of the configuration ─► cuts that are applied ─► pass of what is shown
//!                                        └ by source: came, shown, filtered        ChannelMap with the calibrations that are applied
//! ```

use std::sync::Arc;

use thalweg_data::{Counters, Hit, SourceId, Unit};

use super::handle::View;
use crate::channels::ChannelMap;
use crate::cut::{Expression, Passed};

/// What of the view is another one than before.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ViewChange {
    /// Rows of the channel map that have another calibration.
    pub calibrated: Vec<usize>,
    /// Which hits are shown is asked in another way.
    pub cuts: bool,
}

/// A cut that stands.
#[derive(Debug)]
struct AppliedCut {
    number: u32,
    expression: Expression,
    passed: Passed,
}

/// What is shown now; one thread has it.
#[derive(Debug)]
pub struct Shown {
    view: View,
    seen_changes: u32,
    map: Arc<ChannelMap>,
    cuts: Vec<AppliedCut>,
    pass: Vec<u8>,
    answers: Vec<u8>,
    /// By row of the channel map, and of channels that nobody sends: hits that the configuration keeps and an applied cut does not.
    left_out: Box<[u64]>,
    /// By row, the source.
    source_of: Box<[SourceId]>,
    counters: Vec<Counters>,
    last_ps: i64,
}

impl Shown {
    /// What is shown of a run with so many sources, by this view.
    pub(crate) fn new(view: &View, sources: usize) -> Shown {
        let map = view.configured().clone();
        // Hits of a channel that nobody sends are the first source's, as for the cuts.
        let source_of = map.channels().iter().map(|channel| channel.source).chain([SourceId(0)]).collect();
        Shown {
            view: view.clone(),
            seen_changes: 0,
            cuts: Vec::new(),
            pass: Vec::new(),
            answers: Vec::new(),
            left_out: vec![0; map.channels().len() + 1].into(),
            source_of,
            counters: vec![Counters::default(); sources],
            last_ps: 0,
            map,
        }
    }

    /// Follows the view with a batch of this mark, where it has changed; what is another one than before.
    pub fn follow(&mut self, mark_ns: u64) -> Option<ViewChange> {
        let changes = self.view.changes();
        if changes == self.seen_changes {
            return None;
        }
        // Somebody looks at it: with the next batch, then.
        let mut wanted = self.view.try_wanted()?;
        self.seen_changes = changes;
        self.cuts.iter().for_each(|cut| wanted.count(cut.number, cut.passed));
        wanted.follow(mark_ns, self.last_ps);
        let rows = self.map.channels().iter().zip(wanted.map.channels()).enumerate();
        let differs = rows.filter(|(_, (one, other))| one.energy_kev != other.energy_kev);
        let calibrated: Vec<usize> = differs.map(|(row, _)| row).collect();
        let before: Vec<u32> = self.cuts.iter().map(|cut| cut.number).collect();
        let after: Vec<u32> = wanted.cuts().map(|(number, _)| number).collect();
        self.cuts.retain(|cut| after.contains(&cut.number));
        for (number, expression) in wanted.cuts().filter(|(number, _)| !before.contains(number)) {
            let expression = expression.clone();
            self.cuts.push(AppliedCut { number, expression, passed: Passed::default() });
        }
        self.map = wanted.map.clone();
        // A cut in keV asks something else under another calibration.
        let asks_for_kev = self.cuts.iter().any(|cut| cut.expression.asks_for_kev());
        let cuts = before != after || !calibrated.is_empty() && asks_for_kev;
        Some(ViewChange { calibrated, cuts })
    }

    /// Which of these hits are shown, of those that the configuration keeps; `None` where nothing is cut. And the channels as they are
    /// calibrated now.
    pub fn look<'s>(
        &'s mut self,
        hits: &[Hit],
        pass: Option<&'s [u8]>,
    ) -> (Option<&'s [u8]>, &'s ChannelMap) {
        if let Some(last) = hits.last() {
            self.last_ps = last.time_ps;
        }
        if self.cuts.is_empty() {
            return (pass, &self.map);
        }
        self.begin(hits.len(), pass);
        for cut in &mut self.cuts {
            let answers = &mut self.answers[..hits.len()];
            cut.expression.evaluate_hits(hits, &self.map, answers);
            for (pass, answer) in self.pass.iter_mut().zip(answers) {
                cut.passed.input += u64::from(*pass);
                *pass &= *answer;
                cut.passed.kept += u64::from(*pass);
            }
        }
        for (index, (hit, shown)) in hits.iter().zip(&self.pass).enumerate() {
            let came = pass.map_or(1, |pass| pass[index]);
            self.left_out[self.map.row_or_behind(hit.channel)] += u64::from(came & (shown ^ 1));
        }
        (Some(&self.pass), &self.map)
    }

    /// Which members of events are shown: they have been counted as hits. `None` where no cut is applied.
    pub fn look_at_members<'s>(&'s mut self, members: &[Hit]) -> (Option<&'s [u8]>, &'s ChannelMap) {
        if self.cuts.is_empty() {
            return (None, &self.map);
        }
        self.begin(members.len(), None);
        for cut in &mut self.cuts {
            let answers = &mut self.answers[..members.len()];
            cut.expression.evaluate_hits(members, &self.map, answers);
            self.pass.iter_mut().zip(answers).for_each(|(pass, answer)| *pass &= *answer);
        }
        (Some(&self.pass), &self.map)
    }

    fn begin(&mut self, hits: usize, pass: Option<&[u8]>) {
        self.pass.clear();
        match pass {
            Some(pass) => self.pass.extend_from_slice(pass),
            None => self.pass.resize(hits, 1),
        }
        if self.answers.len() < hits {
            self.answers.resize(hits, 0);
        }
    }

    /// Whether cuts are applied.
    pub fn has_cuts(&self) -> bool {
        !self.cuts.is_empty()
    }

    /// The channels as they are calibrated now.
    pub fn map(&self) -> &ChannelMap {
        &self.map
    }

    /// Brings the counts up to what has happened; `shown` says by row how many hits the spectra of what is kept have got.
    pub fn settle(&mut self, shown: &[u64]) {
        let mut sums = vec![[0u64; 2]; self.counters.len()];
        for ((shown, left_out), source) in shown.iter().zip(&self.left_out).zip(&self.source_of) {
            if let Some(sum) = sums.get_mut(source.index()) {
                *sum = [sum[0] + shown, sum[1] + left_out];
            }
        }
        for (counters, [shown, left_out]) in self.counters.iter_mut().zip(sums) {
            counters.input(Unit::Hits, shown + left_out - counters.total_input(Unit::Hits));
            counters.output(Unit::Hits, shown - counters.total_output(Unit::Hits));
            counters.filtered(Unit::Hits, left_out - counters.total_filtered(Unit::Hits));
        }
        if self.cuts.is_empty() {
            return;
        }
        // Whoever looks at it sees the next count.
        if let Some(mut wanted) = self.view.try_wanted() {
            self.cuts.iter().for_each(|cut| wanted.count(cut.number, cut.passed));
        }
    }

    /// Nothing follows: what stands now stood to the end.
    pub fn finish(&mut self) {
        let mut wanted = self.view.wanted();
        self.cuts.iter().for_each(|cut| wanted.count(cut.number, cut.passed));
        wanted.close();
    }

    /// Hits of one source: those that the configuration keeps, those that are shown, and those that applied cuts filter; as of the last
    /// [`Shown::settle`].
    pub fn counters(&self, source: SourceId) -> &Counters {
        &self.counters[source.index()]
    }
}
