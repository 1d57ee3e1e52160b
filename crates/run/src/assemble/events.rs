//! The path of triggered boards, from their links to recorded events.
//!
//! ```text
//!  [[source]] ─► links ─ Group ─► reader: receive, split, build ══events══► recorder
//!  [trigger]  ─► emulated boards, triggered together ▲     ╚══frames══► raw recorder
//!                             └──────── BUSY ────────┘
//! ```

use std::sync::Arc;
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use thalweg_build::Builder;
use thalweg_data::ring::circuit;
use thalweg_data::{Control, Events, LossReason, SourceId, Stage, Tally, Unit};
use thalweg_readout::host::triggered::{HostedBoards, TriggeredTotals};
use thalweg_record::{EventWriter, RawSource};

use super::{RawLinks, Site, joined, spawn};
use crate::error::RunError;
use crate::open_links::{OpenedLinks, open_links};
use crate::pipeline::{
    BoardBooks, EVENT_BATCHES, EventReader, EventReaderParts, EventRecorder, Ledgered, LinkBooks, Signals,
    link_units,
};
use crate::supervise::{BuildGauges, BuildLook, EventSummary};

/// How long emulated boards may take to send what they have answered, once triggers are stopped.
const FLUSH_LIMIT: Duration = Duration::from_secs(2);

/// The triggered sources and their threads while a run is under way.
pub(super) struct EventPath {
    /// One line per `[[source]]`, by its place in the configuration.
    pub(super) descriptions: Vec<(usize, String)>,
    pub(super) gauges: Arc<BuildGauges>,
    events: SourceId,
    /// The emulated boards and the sources they stand for.
    boards: Option<(HostedBoards, Vec<SourceId>)>,
    controls: Vec<Box<dyn Control>>,
    reader: JoinHandle<()>,
    recorder: JoinHandle<EventRecorder<EventWriter>>,
}

/// What is left of it.
pub(super) struct EventsTaken {
    /// With its sink; `None` after a panic.
    pub(super) recorder: Option<EventRecorder<EventWriter>>,
    emulated: Option<TriggeredTotals>,
    look: BuildLook,
    events: SourceId,
}

impl EventPath {
    /// Opens every link and starts the threads. Nothing flows yet. `None` of a run without triggered sources.
    ///
    /// # Errors
    /// When a link cannot be opened, or a file or thread cannot be made.
    pub(super) fn open(site: &Site<'_>, raw: &mut RawLinks) -> Result<Option<EventPath>, RunError> {
        let Some(events) = site.roster.events else { return Ok(None) };
        let Site { configuration, ledger, signals, roster, .. } = *site;
        let opened = open_links(site.configuration, site.origin, roster, site.clock, site.busy)?;
        let OpenedLinks { links, places, boards, controls, descriptions } = opened;
        let mut builder = Builder::new(&configuration.build, roster.boards.clone())?;
        builder.start_run(1);
        let open = |stage, source, units: &[Unit]| Ledgered::new(ledger.open(stage, source, units));
        let (mut books, mut raw_sources) = (Vec::new(), Vec::new());
        for place in &places {
            let one_board = place.boards.len() == 1;
            let build_units = [Unit::Fragments, Unit::Bytes];
            let wire: &[Unit] =
                if place.counts_frames { &[Unit::Fragments, Unit::Frames] } else { &[Unit::Fragments] };
            books.push(LinkBooks {
                receive: open(Stage::Receive, place.link, &link_units(place.stream, false)),
                unpack: open(Stage::Unpack, place.link, &link_units(place.stream, one_board)),
                boards: (place.boards.clone().map(SourceId))
                    .map(|source| BoardBooks {
                        source,
                        unpack: (!one_board).then(|| open(Stage::Unpack, source, &[Unit::Fragments])),
                        wire: open(Stage::Wire, source, wire),
                        build: open(Stage::Build, source, &build_units),
                    })
                    .collect(),
                drops: place.drops,
            });
            raw_sources.push(RawSource {
                source: place.link.0,
                name: roster.names[place.link.index()].clone(),
                stream: place.stream,
                block_bytes: place.block_bytes,
            });
        }
        let files = site.directory.events_of(None);
        let ordered = configuration.build.ordered;
        let sink = EventWriter::create(&files, &configuration.record, &roster.names, ordered)?;
        let (outlet, inlet) = circuit(EVENT_BATCHES, Events::default);
        let gauges = Arc::new(BuildGauges::default());
        let reader = EventReader::new(EventReaderParts {
            inputs: links,
            builder,
            links: books,
            events_books: open(Stage::Build, events, &[Unit::Events]),
            raw: raw.link(ledger, &raw_sources),
            outlet,
            busy: site.busy.clone(),
            gauges: gauges.clone(),
        });
        let recorded: Vec<Ledgered> = (roster.boards.clone().map(SourceId))
            .map(|board| open(Stage::Record, board, &[Unit::Fragments, Unit::Bytes]))
            .collect();
        let recorder = EventRecorder::new(
            inlet,
            sink,
            configuration.record.on_full,
            open(Stage::Record, events, &[Unit::Events]),
            (roster.boards.clone(), recorded),
        );
        let recorder = spawn("record events", signals, move |signals| recorder.run(signals))?;
        let reader = spawn("build events", signals, move |signals| reader.run(signals))?;
        Ok(Some(EventPath { descriptions, gauges, events, boards, controls, reader, recorder }))
    }

    /// Lets triggers come.
    pub(super) fn start(&mut self, site: &Site<'_>) {
        let start = |control: &mut Box<dyn Control>| control.arm().and_then(|()| control.start());
        if let Err(error) = self.controls.iter_mut().try_for_each(start) {
            site.signals.fail(error.to_string());
        }
        if let Some((boards, _)) = &self.boards {
            boards.start();
        }
    }

    /// Stops the triggers and waits until emulated boards have sent what they have answered, if they can.
    pub(super) fn stop(&mut self, signals: &Signals) {
        if let Some((boards, _)) = &mut self.boards {
            boards.stop();
            let deadline = Instant::now() + FLUSH_LIMIT;
            while !boards.is_silent() && Instant::now() < deadline {
                std::thread::sleep(Duration::from_millis(1));
            }
        }
        for control in &mut self.controls {
            if let Err(error) = control.stop().and_then(|()| control.disarm()) {
                signals.fail(error.to_string());
            }
        }
    }

    /// Whether emulated boards have come to the end of their program, and everything they sent was given to a socket.
    pub(super) fn is_silent(&self) -> bool {
        self.boards.as_ref().is_some_and(|(boards, _)| boards.is_silent())
    }

    /// Waits for the threads, which end once everything is written.
    pub(super) fn finish(self, site: &Site<'_>) -> EventsTaken {
        joined(self.reader, site.signals);
        let recorder = joined(self.recorder, site.signals);
        // The boards hang up only now: a connection that ends before the run does is news.
        let emulated = self.boards.map(|(mut boards, sources)| {
            boards.end();
            boards.failures().into_iter().for_each(|message| site.signals.fail(message));
            let totals = boards.totals();
            close_sender_books(site, self.events, &totals, &sources);
            totals
        });
        EventsTaken { recorder, emulated, look: self.gauges.latest(), events: self.events }
    }
}

/// Enters what the trigger and the boards count: the first pages of the books of events and fragments.
fn close_sender_books(site: &Site<'_>, events: SourceId, totals: &TriggeredTotals, sources: &[SourceId]) {
    let books = site.ledger.books();
    let output = |stage, source, unit| {
        books.account(stage, source).map_or(0, |account| account.tally.total_output(unit))
    };
    for (source, board) in sources.iter().zip(&totals.boards) {
        let (answered, sent) = (board.fragments, board.fragments - board.discarded_fragments);
        let found = output(Stage::Unpack, *source, Unit::Fragments).min(sent);
        let mut tally = Tally::default();
        tally.input(Unit::Fragments, answered);
        tally.output(Unit::Fragments, found);
        tally.lost(LossReason::Abandoned, Unit::Fragments, board.discarded_fragments);
        tally.lost(LossReason::NeverReceived, Unit::Fragments, sent - found);
        site.ledger.open(Stage::Sender, *source, &[Unit::Fragments]).publish(&tally);
    }
    let seen = books.account(Stage::Build, events).map_or(0, |account| {
        account.tally.total_output(Unit::Events) + account.tally.total_lost_any(Unit::Events)
    });
    let mut tally = Tally::default();
    tally.input(Unit::Events, totals.offered());
    tally.output(Unit::Events, seen.min(totals.accepted()));
    tally.lost(LossReason::Busy, Unit::Events, totals.refused());
    tally.lost(LossReason::NeverReceived, Unit::Events, totals.accepted().saturating_sub(seen));
    site.ledger.open(Stage::Trigger, events, &[Unit::Events]).publish(&tally);
}

impl EventsTaken {
    /// What is said of the events at the end of the run.
    pub(super) fn summary(&self, site: &Site<'_>) -> EventSummary {
        let books = site.ledger.books();
        let built =
            books.account(Stage::Build, self.events).map(|account| account.tally.clone()).unwrap_or_default();
        let boards = || site.roster.boards.clone().map(SourceId);
        let missing = boards().filter_map(|board| books.account(Stage::Wire, board));
        let lost = boards().filter_map(|board| books.account(Stage::Build, board));
        let look = &self.look;
        let closed = thalweg_data::Closing::ALL.iter().zip(look.closed);
        EventSummary {
            triggers_offered: self.emulated.as_ref().map(TriggeredTotals::offered),
            triggers_refused: self.emulated.as_ref().map(TriggeredTotals::refused),
            events_built: built.total_output(Unit::Events),
            events_partial: look.partial(),
            events_dropped: built.total_lost_any(Unit::Events),
            events_recorded: books.total_output(Stage::Record, Unit::Events),
            fragments_recorded: books.total_output(Stage::Record, Unit::Fragments),
            fragments_missing: missing
                .map(|account| account.tally.total_lost(LossReason::MissingFragment, Unit::Fragments))
                .sum(),
            fragments_lost: lost.map(|account| account.tally.total_lost_any(Unit::Fragments)).sum(),
            closed: closed.filter(|(_, count)| *count > 0).map(|(why, count)| (why.word(), count)).collect(),
            median_event_bytes: look.median_event_bytes,
            median_build_us: look.median_build_ns as f64 / 1e3,
            p99_build_us: look.p99_build_ns as f64 / 1e3,
            busy_share: look.busy_share,
            emulation: self.emulated.as_ref().map(|totals| {
                serde_json::json!({
                    "busy_ms": totals.busy_ns as f64 / 1e6,
                    "busy_raised": totals.busy_raised,
                    "lateness_us": spread_us(&totals.lateness),
                    "skew_us": spread_us(&totals.skew),
                })
            }),
        }
    }
}

fn spread_us(times: &thalweg_readout::host::triggered::Times) -> serde_json::Value {
    let us = |share| times.quantile_ns(share) as f64 / 1e3;
    serde_json::json!({ "median": us(0.5), "p99": us(0.99), "highest": us(1.0) })
}
