//! Both paths of a run together with the raw recording, as one thing that opens, starts, stops and finishes.

use std::sync::{Arc, Mutex, PoisonError};
use std::thread::JoinHandle;
use std::time::Instant;

use thalweg_data::SourceId;
use thalweg_data::record_join::JoinCounts;
use thalweg_record::Table;

use super::events::{EventPath, EventsTaken};
use super::hits::{HitPath, HitsTaken};
use super::{RawLinks, Site, joined};
use crate::config::Configuration;
use crate::error::RunError;
use crate::gauges::{BuildGauges, GaugesOf};
use crate::observed::Observed;
use crate::pipeline::{OrderThread, Process, RawRecorder, Signals};
use crate::plan::thread_names;
use crate::slow_control::Enable;
use crate::supervise::{EventSummary, TriggerCounts, WatchedPaths};

/// The paths that a run has.
pub(super) struct Paths {
    hits: Option<HitPath>,
    events: Option<EventPath>,
    raw: Option<JoinHandle<RawRecorder>>,
    /// The register that lets a real trigger through.
    enable: Option<Mutex<Enable>>,
    signals: Arc<Signals>,
}

/// The remains of the paths after their threads have ended.
pub(super) struct Taken {
    hits: Option<HitsTaken>,
    events: Option<EventsTaken>,
    raw: Option<RawRecorder>,
}

impl Paths {
    /// Opens every source and starts every thread. Nothing flows yet.
    ///
    /// # Errors
    /// When a source cannot be opened, or a file or thread cannot be made.
    pub(super) fn open(site: &Site<'_>, enable: Option<Enable>) -> Result<Paths, RunError> {
        let mut raw = RawLinks::new(site.configuration.record.keeps(Table::Raw));
        let hits = HitPath::open(site, &mut raw)?;
        let events = EventPath::open(site, &mut raw)?;
        let raw = raw.recorder(site)?;
        let raw = raw
            .map(|recorder| site.spawn(thread_names::RAW, move |signals| recorder.run(signals)))
            .transpose()?;
        Ok(Paths { hits, events, raw, enable: enable.map(Mutex::new), signals: site.signals.clone() })
    }

    /// Returns the gauges of sources of hits and of links, by their numbers.
    pub(super) fn gauges(&self) -> GaugesOf {
        let hits = self.hits.iter().flat_map(|hits| hits.gauges.iter().cloned().enumerate());
        let hits = hits.map(|(index, gauges)| (SourceId(index as u16), gauges));
        hits.chain(self.events.iter().flat_map(|events| events.link_gauges.iter().cloned())).collect()
    }

    /// The builder's, of a run that builds events.
    pub(super) fn build_gauges(&self) -> Option<Arc<BuildGauges>> {
        let of_hits = self.hits.as_ref().and_then(HitPath::build_gauges);
        self.events.as_ref().map(|events| events.gauges.clone()).or(of_hits)
    }

    /// One line on how each `[[source]]` was set up, in the order of the configuration.
    pub(super) fn descriptions(&self, configuration: &Configuration) -> Vec<String> {
        let mut lines = vec![String::new(); configuration.sources.len()];
        for (index, line) in self.events.iter().flat_map(|events| &events.descriptions) {
            lines[*index].clone_from(line);
        }
        let mut of_hits = self.hits.iter().flat_map(|hits| hits.descriptions.iter().cloned());
        let empty = lines.iter_mut().filter(|line| line.is_empty());
        empty.for_each(|line| *line = of_hits.next().unwrap_or_default());
        lines
    }

    /// Returns the views of the hits while they flow.
    pub(super) fn observed(&self) -> Option<&Observed> {
        self.hits.as_ref()?.observed.as_ref()
    }

    /// Arms all boards, then lets data flow.
    ///
    /// # Errors
    /// When a board is not armed in time, or not started.
    pub(super) fn start(&mut self, site: &Site<'_>) -> Result<(), RunError> {
        self.hits.as_mut().map_or(Ok(()), |hits| hits.arm(site))?;
        self.events.as_mut().map_or(Ok(()), |events| events.arm(site))?;
        self.hits.as_mut().map_or(Ok(()), |hits| hits.start(site))?;
        self.events.as_mut().map_or(Ok(()), EventPath::start)?;
        self.enable(true);
        Ok(())
    }

    /// Lets a real trigger through, or holds it back.
    fn enable(&self, on: bool) {
        if let Some(enable) = &self.enable {
            enable.lock().unwrap_or_else(PoisonError::into_inner).set(on, &self.signals);
        }
    }

    /// Stops boards and triggers, then asks the threads to take what is still on its way and end.
    fn stop(&mut self, site: &Site<'_>) {
        self.enable(false);
        if let Some(hits) = &mut self.hits {
            hits.stop(site);
        }
        if let Some(events) = &mut self.events {
            events.stop(site);
        }
        site.signals.request_stop();
    }

    /// Stops everything and waits for the threads, which end once everything is written.
    ///
    /// # Errors
    /// When the truth cannot be written to its end.
    pub(super) fn finish(mut self, site: &Site<'_>) -> Result<Taken, RunError> {
        self.stop(site);
        let mut hits = self.hits.map(|hits| hits.finish(site)).transpose()?;
        let slices = hits.as_mut().and_then(|hits| hits.slices.take());
        let events = self.events.map(|events| events.finish(site)).or(slices);
        let raw = self.raw.and_then(|raw| joined(raw, site.signals));
        Ok(Taken { hits, events, raw })
    }
}

impl WatchedPaths for Paths {
    /// Emulated boards have come to the end of their program, and nothing else goes on.
    fn are_silent(&self) -> bool {
        self.hits.is_none() && self.events.as_ref().is_some_and(EventPath::is_silent)
    }

    fn trigger(&self) -> Option<TriggerCounts> {
        self.events.as_ref()?.trigger()
    }

    fn inhibit(&self, inhibited: bool) {
        self.enable(!inhibited);
        self.hits.iter().for_each(|hits| hits.inhibit(inhibited));
    }
}

impl Taken {
    /// Hits that the senders count, where all of them report.
    pub(super) fn hits_sent(&self) -> Option<u64> {
        self.hits.as_ref().and_then(|hits| hits.sent)
    }

    /// Returns when the first hit was on file.
    pub(super) fn first_hit_ms(&self, started: Instant) -> Option<f64> {
        self.hits.as_ref()?.order_thread.as_ref()?.first_hit_ms(started)
    }

    /// Returns how many scope records were joined.
    pub(super) fn joins(&self) -> JoinCounts {
        let order_thread = self.hits.as_ref().and_then(|hits| hits.order_thread.as_ref());
        order_thread.map(|order_thread| order_thread.sink.joins()).unwrap_or_default()
    }

    /// Returns the counts of the trigger, where it was emulated here.
    pub(super) fn trigger(&self) -> Option<TriggerCounts> {
        self.events.as_ref()?.trigger()
    }

    /// The epochs of the event managers that units of this process know.
    pub(super) fn managers(&self) -> &[u64] {
        self.events.as_ref().map_or(&[], |events| &events.managers)
    }

    /// Returns the summary of the events.
    pub(super) fn events_summary(&self, site: &Site<'_>, elapsed_seconds: f64) -> Option<EventSummary> {
        self.events.as_ref().map(|events| events.summary(site, elapsed_seconds))
    }

    /// Returns the summaries of the tables in the files.
    pub(super) fn tables(&self) -> Vec<thalweg_record::ipc::file::TableSummary> {
        let order_thread = self.hits.iter().filter_map(|hits| hits.order_thread.as_ref());
        let sinks = self.events.iter().flat_map(|events| &events.sinks);
        let tables = order_thread.flat_map(OrderThread::summaries);
        let process = self.hits.iter().filter_map(|hits| hits.process.as_ref());
        let tables = tables.chain(process.flat_map(Process::summaries));
        let tables = tables.chain(sinks.flat_map(|sink| sink.summaries()));
        let tables = tables.chain(self.events.iter().flat_map(|events| events.ranges.iter().cloned()));
        tables.chain(self.raw.iter().flat_map(|raw| raw.writer.summaries())).collect()
    }
}
