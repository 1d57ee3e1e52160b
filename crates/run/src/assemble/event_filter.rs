//! The event filter of a recorder, with its workers.
//!
//! ```text
//!  [filter] ─┬─► a filter for each worker ─► a thread each ─┐
//!            └─► FilterStage ◄──────────────────────────────┴─► in front of EventRecorder
//! ```

use std::sync::Arc;

use thalweg_analysis::event_filter;
use thalweg_data::Events;
use thalweg_data::ring::Downstream;
use thalweg_record::EventWriter;
use thalweg_record::directory::EventFiles;

use super::Site;
use crate::error::RunError;
use crate::gauges::BuildGauges;
use crate::pipeline::{EventInlet, FilterSlots, FilterStage, FilterWorker};
use crate::plan::capacity::FILTER_BATCHES;
use crate::plan::thread_names;

/// Makes the files of events, which say by what these were selected.
pub(super) fn event_writer(
    site: &Site<'_>,
    files: &EventFiles,
    ordered: bool,
) -> Result<EventWriter, RunError> {
    let configuration = site.configuration;
    let filter = configuration.filter.as_ref().map(event_filter::Settings::text);
    let names = &site.source_table.names;
    site.writer(|| {
        EventWriter::create_selected(files, &configuration.record, names, ordered, filter.as_deref())
    })
}

/// Makes the inlet of the recorder with this thread: the ring itself or, where one is configured, a filter behind it, whose workers it
/// starts.
///
/// # Errors
/// When there is no thread.
pub(super) fn event_inlet(
    site: &Site<'_>,
    recorder: &str,
    ring: Downstream<Events>,
    slots: impl FnOnce() -> FilterSlots,
    gauges: &Arc<BuildGauges>,
) -> Result<EventInlet, RunError> {
    let Some(settings) = &site.configuration.filter else { return Ok(EventInlet::Ring(ring)) };
    let boards = site.source_table.filtered_boards();
    let workers = site.claims.ring(recorder, thread_names::FILTER);
    let mut links = Vec::new();
    for number in 1..=workers {
        let made = event_filter::make(settings, boards);
        let filter = made.map_err(|error| site.configuration.invalid(format!("[filter]: {error}")))?;
        let name = thread_names::filter_worker(recorder, number);
        let (link, worker) = FilterWorker::new(name.clone(), filter);
        links.push(link);
        site.spawn_apart(thread_names::FILTER, &name, move || worker.run())?;
    }
    let capacity = FILTER_BATCHES * settings.workers;
    let boards = (boards.first, boards.names.len());
    let filter = FilterStage::new(ring, links, settings, capacity, boards, slots(), gauges.clone());
    Ok(EventInlet::Filter(Box::new(filter)))
}
