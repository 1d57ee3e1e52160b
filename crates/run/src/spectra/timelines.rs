//! Pictures over time, of events and of raw bytes.
//!
//! ```text
//!  events.arrows ─► of each stretch: events, bytes, build times, complete ones ─► four panels
//!  raw-*.arrows ──► of each stretch and source: bytes, arrivals ────────────────► two panels
//! ```

use std::collections::HashMap;
use std::path::Path;

use thalweg_data::Unit;
use thalweg_record::read::{EventsFile, RecordedEvent, raw_arrivals, raw_sources};
use thalweg_record::{LossRow, RecordedTables, RunDirectory, RunRecord};

use super::{PlotError, SOFTWARE, loss_texts, title};
use crate::plot::{Sum, TimeFacts, TimePanel, Timeline, timeline_svg};

/// More lines than this cannot be distinguished.
pub(super) const MOST_LINES: usize = 8;

/// The sums over the events that were closed in one stretch.
#[derive(Clone, Debug, Default)]
struct EventSum {
    events: u64,
    complete: u64,
    bytes: u64,
    build_ns: u64,
    longest_build_ns: u64,
}

impl EventSum {
    fn add(&mut self, event: &RecordedEvent) {
        let build_ns = event.closed.since_ns(event.first_arrival);
        self.join(&EventSum {
            events: 1,
            complete: u64::from(event.missing.is_empty()),
            bytes: event.bytes,
            build_ns,
            longest_build_ns: build_ns,
        });
    }

    /// A mean over the events, where there are some.
    fn mean(&self, sum: u64) -> Option<f64> {
        (self.events > 0).then(|| sum as f64 / self.events as f64)
    }
}

impl Sum for EventSum {
    fn join(&mut self, other: &EventSum) {
        self.events += other.events;
        self.complete += other.complete;
        self.bytes += other.bytes;
        self.build_ns = self.build_ns.saturating_add(other.build_ns);
        self.longest_build_ns = self.longest_build_ns.max(other.longest_build_ns);
    }
}

/// Draws the events of a run over time.
///
/// # Errors
/// When a table cannot be read.
pub(super) fn events_picture(
    run: &Path,
    directory: &RunDirectory,
    (record, said): (&RunRecord, &RecordedTables),
    losses: &[LossRow],
) -> Result<String, PlotError> {
    let (mut over_time, mut all) = (Timeline::<EventSum>::default(), EventSum::default());
    let mut event = RecordedEvent::default();
    for files in directory.event_files()?.iter().filter(|files| files.events.exists()) {
        let mut file = EventsFile::open_alone(&files.events)?;
        let before = all.events;
        while file.next_event(&mut event)? {
            over_time.at(event.closed.0).add(&event);
            all.add(&event);
        }
        let name = files.events.file_name().map(|name| name.to_string_lossy()).unwrap_or_default();
        said.refuse_too_few(run, &name, all.events - before)?;
    }
    let complete = |sum: &EventSum| sum.mean(sum.complete).map(|part| 100.0 * part);
    let panels = [
        panel(
            "Events",
            "events/s",
            1.0,
            vec![over_time.line("", |sum, step| Some(sum.events as f64 / step))],
        ),
        panel("Event size, mean", "bytes", 1.0, vec![over_time.line("", |sum, _| sum.mean(sum.bytes))]),
        panel(
            "Time from the first fragment to the whole event",
            "milliseconds",
            1e-3,
            vec![
                over_time
                    .line("longest", |sum, _| (sum.events > 0).then_some(sum.longest_build_ns as f64 * 1e-6)),
                over_time.line("mean", |sum, _| sum.mean(sum.build_ns).map(|ns| ns * 1e-6)),
            ],
        ),
        TimePanel {
            title: "Events to which every board had answered".into(),
            y_title: "percent".to_owned(),
            y_range: (99.0, 100.0),
            lines: vec![over_time.line("", |sum, _| complete(sum))],
        },
    ];
    let part = match all.events - all.complete {
        0 if all.events > 0 => "  ·  all complete".to_owned(),
        0 => String::new(),
        partial => format!("  ·  {partial} of them incomplete"),
    };
    let size =
        all.mean(all.bytes).map_or(String::new(), |bytes| format!("  ·  {bytes:.0} bytes each on average"));
    let summary = format!("{} events recorded{part}{size}", all.events);
    Ok(draw(run, record, (&panels, losses), &with_losses(summary, record, Unit::Events)))
}

/// The sums over the data that arrived in one stretch.
#[derive(Clone, Debug, Default)]
struct RawSum {
    arrivals: u64,
    bytes: u64,
}

impl Sum for RawSum {
    fn join(&mut self, other: &RawSum) {
        self.arrivals += other.arrivals;
        self.bytes += other.bytes;
    }
}

/// Draws the raw bytes of a run over time, by source.
///
/// # Errors
/// When a table cannot be read.
pub(super) fn raw_picture(
    run: &Path,
    directory: &RunDirectory,
    record: &RunRecord,
    losses: &[LossRow],
) -> Result<String, PlotError> {
    let sources = raw_sources(run)?;
    let mut over_time = vec![(RawSum::default(), Timeline::<RawSum>::default()); sources.len()];
    let numbers = sources.iter().map(|content| content.source.source).enumerate();
    let places: HashMap<u16, usize> = numbers.map(|(place, number)| (number, place)).collect();
    for file in directory.raw_files()? {
        raw_arrivals(&file, |arrival| {
            if let Some((all, timeline)) = places.get(&arrival.source).map(|place| &mut over_time[*place]) {
                let sum = RawSum { arrivals: 1, bytes: arrival.bytes };
                all.join(&sum);
                timeline.at(arrival.mark_ns).join(&sum);
            }
        })?;
    }
    let shown = || sources.iter().zip(&over_time).take(MOST_LINES);
    let line = |of: fn(&RawSum) -> u64, scale: f64| {
        let lines = shown().map(|(content, (_, timeline))| {
            timeline.line(&content.source.name, |sum, step| Some(of(sum) as f64 / step * scale))
        });
        lines.collect::<Vec<_>>()
    };
    let few = match sources.len() {
        0..=MOST_LINES => String::new(),
        many => format!(", the first {MOST_LINES} of {many} sources"),
    };
    let panels = [
        panel(&format!("Bytes received{few}"), "MB/s", 1e-3, line(|sum| sum.bytes, 1e-6)),
        panel(
            &format!("Datagrams, or chunks of a stream{few}"),
            "per second",
            1.0,
            line(|sum| sum.arrivals, 1.0),
        ),
    ];
    let bytes: u64 = over_time.iter().map(|(all, _)| all.bytes).sum();
    let arrivals: u64 = over_time.iter().map(|(all, _)| all.arrivals).sum();
    let summary = format!("{:.3} MB in {arrivals} datagrams or chunks of streams, raw", bytes as f64 * 1e-6);
    Ok(draw(run, record, (&panels, losses), &with_losses(summary, record, Unit::Bytes)))
}

fn panel(title: &str, y_title: &str, least: f64, lines: Vec<crate::plot::Line>) -> TimePanel {
    TimePanel { title: title.to_owned(), y_title: y_title.to_owned(), y_range: (0.0, least), lines }
}

/// A summary, with what was lost and what there is to say of the ledger behind it.
fn with_losses(summary: String, record: &RunRecord, unit: Unit) -> String {
    let [lost, ledger] = loss_texts(record, unit);
    // A run whose ledger counts none of them has nothing to say of losses.
    let parts = [summary, lost, ledger].into_iter().filter(|part| !part.is_empty());
    parts.collect::<Vec<_>>().join("  ·  ")
}

pub(super) fn draw(
    run: &Path,
    record: &RunRecord,
    (panels, losses): (&[TimePanel], &[LossRow]),
    summary: &str,
) -> String {
    let footer = format!("{}  ·  started {}", run.display(), record.started);
    let facts = TimeFacts { title: title(record), summary, footer: &footer, software: SOFTWARE };
    timeline_svg(panels, losses, &facts)
}
