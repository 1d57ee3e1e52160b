//! The thread where the sources meet: batches in the order of their marks, time order, added stages, cuts, coincidence, recording.
//!
//! A batch is taken when every living source has one waiting; the first is the one with the smallest `(mark, source)`. Each source sends at
//! least a mark a millisecond, so no source waits long. The output depends on the marks alone, not on which thread was faster.

use std::sync::Arc;
use std::time::{Duration, Instant};

use thalweg_analysis::process::Selected;
use thalweg_data::batch::Header;
use thalweg_data::ring::Downstream;
use thalweg_data::{Counters, Hits, Mark, Sink, SourceId, Unit};
use thalweg_order::{Pushed, TimeOrder};
use thalweg_record::HitWriter;
use thalweg_record::ipc::file::TableSummary;

use super::added::AddedStages;
use super::recording_state::RecordingState;
use super::slicer::Slicer;
use super::{Ledgered, Selection, Signals};
use crate::plan::capacity::OUTPUT_HITS;

const WAIT: Duration = Duration::from_millis(20);

/// One source's side of the order thread.
pub(crate) struct Inlet {
    workers: Vec<Downstream<Hits>>,
    next: usize,
    head: Option<Hits>,
    /// True if nothing more comes from it.
    ended: bool,
    last_mark: Mark,
    /// The latest counters of each worker.
    decoded: Vec<Counters>,
    /// True if what comes in a pause is read, and left out here.
    drains: bool,
    /// Hits that were left out so.
    paused_hits: u64,
    decode: Ledgered,
    order: Ledgered,
    record: Ledgered,
}

impl Inlet {
    pub(crate) fn new(
        (workers, drains): (Vec<Downstream<Hits>>, bool),
        decode: Ledgered,
        order: Ledgered,
        record: Ledgered,
    ) -> Inlet {
        let decoded = vec![Counters::default(); workers.len()];
        Inlet {
            workers,
            next: 0,
            head: None,
            ended: false,
            last_mark: Mark::default(),
            decoded,
            drains,
            paused_hits: 0,
            decode,
            order,
            record,
        }
    }

    /// Returns true if a batch is waiting, or none will come. Waits at most `wait`.
    fn is_ready(&mut self, source: SourceId, wait: Duration) -> bool {
        if self.head.is_none() && !self.ended {
            let worker = &mut self.workers[self.next];
            self.head = worker.receive_wait(wait);
            match &self.head {
                Some(_) => self.next = (self.next + 1) % self.workers.len(),
                // The thread behind it has ended without saying so: it has failed, and has said why. Its end is said here.
                None if worker.is_finished() => self.head = Some(self.end_batch(source)),
                None => {}
            }
        }
        self.head.is_some() || self.ended
    }

    fn end_batch(&self, source: SourceId) -> Hits {
        let header = Header { source, mark: self.last_mark, snapshot: None, end: true };
        Hits { header, decoded: Box::new(self.decoded[self.next].clone()), ..Hits::default() }
    }

    /// The worker that the batch in hand came from.
    fn current_worker(&self) -> usize {
        (self.next + self.workers.len() - 1) % self.workers.len()
    }

    fn sum_of_workers(&self) -> Counters {
        let mut sum = Counters::default();
        self.decoded.iter().for_each(|counters| sum.add_all(counters));
        sum.filter_output(Unit::Hits, self.paused_hits);
        sum
    }

    /// Leaves out the hits of a pause. The board's counters have been followed, so that nothing is missing afterwards.
    fn pause(&mut self, batch: &mut Hits, signals: &Signals) {
        if self.drains && signals.leaves_hits_out() && !batch.hits.is_empty() {
            self.paused_hits += batch.hits.len() as u64;
            batch.hits.clear();
            batch.extras.clear();
            batch.slices.clear();
            batch.leases.clear();
        }
    }
}

/// All inlets, the time order, and the sink.
pub(crate) struct OrderThread {
    inlets: Vec<Inlet>,
    order: TimeOrder,
    pub(crate) sink: HitWriter,
    recording: RecordingState,
    /// The stages that a configuration adds right after time order.
    added: AddedStages,
    /// Around time order, and the way to the process thread.
    selection: Option<Selection>,
    /// The slicer in parallel with time order, in a run with time slices.
    slicer: Option<Slicer>,
    first_hit: Option<Instant>,
}

impl OrderThread {
    pub(crate) fn new(
        inlets: Vec<Inlet>,
        order: TimeOrder,
        (sink, recording): (HitWriter, RecordingState),
        (added, selection, slicer): (AddedStages, Option<Selection>, Option<Slicer>),
    ) -> OrderThread {
        OrderThread { inlets, order, sink, recording, added, selection, slicer, first_hit: None }
    }

    /// Returns when the first hit was on file, from the start of the sources.
    pub(crate) fn first_hit_ms(&self, started: Instant) -> Option<f64> {
        self.first_hit.map(|first| first.saturating_duration_since(started).as_secs_f64() * 1e3)
    }

    /// Returns the summaries of its files.
    pub(crate) fn summaries(&self) -> Vec<TableSummary> {
        self.sink.summaries()
    }

    /// Collects until every source has ended, then writes what is left and closes the recording.
    pub(crate) fn run(mut self, signals: &Arc<Signals>) -> OrderThread {
        let mut merged = Selected::with_capacity(OUTPUT_HITS);
        while let Some(index) = self.next_inlet() {
            let Some(mut batch) = self.inlets[index].head.take() else { continue };
            self.take(index, &mut batch, &mut merged, signals);
            let inlet = &mut self.inlets[index];
            batch.clear();
            let worker = inlet.current_worker();
            inlet.workers[worker].give_back(batch);
        }
        self.pull(&mut merged, signals);
        self.added.finish(signals);
        if let Some(selection) = &mut self.selection {
            selection.finish(self.order.mark());
        }
        // Its end of the ring: the process thread ends when this is gone.
        self.selection = None;
        if let Some(slicer) = &mut self.slicer {
            slicer.end(signals);
        }
        self.recording.close(&mut self.sink, Sink::complete, Sink::finish, signals);
        self.note_first_hit();
        self.publish_last();
        // Its end of the ring: the recorder ends when this is gone.
        self.slicer = None;
        self
    }

    /// The inlet whose batch is next; `None` when all have ended.
    fn next_inlet(&mut self) -> Option<usize> {
        loop {
            let mut all_ready = true;
            for (index, inlet) in self.inlets.iter_mut().enumerate() {
                all_ready &= inlet.is_ready(SourceId(index as u16), WAIT);
            }
            if all_ready {
                break;
            }
        }
        let waiting = self
            .inlets
            .iter()
            .enumerate()
            .filter_map(|(index, inlet)| Some((inlet.head.as_ref()?.header.mark, index)));
        waiting.min().map(|(_, index)| index)
    }

    fn take(&mut self, index: usize, batch: &mut Hits, merged: &mut Selected, signals: &Signals) {
        let (header, source) = (batch.header, SourceId(index as u16));
        let inlet = &mut self.inlets[index];
        let worker = inlet.current_worker();
        inlet.decoded[worker].clone_from(&batch.decoded);
        inlet.pause(batch, signals);
        inlet.ended |= header.end;
        inlet.last_mark = header.mark;
        if let Some(number) = header.snapshot {
            inlet.decode.snapshot(number, &inlet.sum_of_workers());
        } else if inlet.paused_hits > 0 && inlet.decode.is_due(header.mark.0) {
            inlet.decode.publish_at(header.mark.0, &inlet.sum_of_workers());
        } else if inlet.workers.len() == 1 && inlet.paused_hits == 0 {
            inlet.decode.publish_at(header.mark.0, &inlet.decoded[0]);
        }
        if let Some(selection) = &self.selection {
            selection.align(batch);
        }
        if let Some(slicer) = &mut self.slicer {
            slicer.take(index, batch, signals);
        }
        loop {
            match self.order.push(batch) {
                Ok(Pushed::Taken) => break,
                Ok(Pushed::Full) => self.pull(merged, signals),
                Err(error) => {
                    signals.fail(error.to_string());
                    break;
                }
            }
        }
        let inlet = &mut self.inlets[index];
        match header.snapshot {
            Some(number) => inlet.order.snapshot(number, self.order.counters(source)),
            None => inlet.order.publish_at(header.mark.0, self.order.counters(source)),
        }
        self.pull(merged, signals);
    }

    /// Selects, writes and passes on everything that is in order.
    fn pull(&mut self, merged: &mut Selected, signals: &Signals) {
        while self.order.pull(&mut merged.hits) {
            self.added.take(&mut merged.hits, signals);
            if let Some(selection) = &mut self.selection {
                selection.select(merged);
            }
            self.write(merged, signals);
            let header = merged.hits.header;
            if let Some(number) = header.snapshot {
                self.inlets[header.source.index()].record.snapshot(number, self.sink.counters(header.source));
            }
            match &mut self.selection {
                Some(selection) => selection.pass_on(merged),
                None => merged.clear(),
            }
        }
    }

    /// A batch that the sink refuses is counted as lost there; whether the run goes on is configured.
    fn write(&mut self, merged: &Selected, signals: &Signals) {
        let (hits, mark) = (&merged.hits, merged.hits.header.mark);
        let result = match hits.is_empty() {
            true => self.sink.advance(mark),
            false => self.sink.write_passing(hits, merged.kept().map(|kept| kept.pass)),
        };
        self.recording.on_result(result, signals);
        for (index, inlet) in self.inlets.iter_mut().enumerate() {
            inlet.record.publish_at(mark.0, self.sink.counters(SourceId(index as u16)));
        }
        self.note_first_hit();
    }

    fn note_first_hit(&mut self) {
        if self.first_hit.is_none() && self.sink.hits_on_file() > 0 {
            self.first_hit = Some(Instant::now());
        }
    }

    fn publish_last(&mut self) {
        for (index, inlet) in self.inlets.iter().enumerate() {
            let source = SourceId(index as u16);
            inlet.decode.publish(&inlet.sum_of_workers());
            inlet.order.publish(self.order.counters(source));
            inlet.record.publish(self.sink.counters(source));
        }
    }
}
