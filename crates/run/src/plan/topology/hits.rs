//! The path of hits: from a source of its own time to time order, and what is made of ordered hits.

use thalweg_analysis::hit_stage::{HitStageRole, MadeStage};
use thalweg_data::topology::{Counts, Fan, FlowPath, Subjects, Via};
use thalweg_data::{SourceId, Stage, Unit};
use thalweg_record::Table;

use super::{Making, Place, counts_of};
use crate::config::SourceSettings;
use crate::plan::thread_names;
use crate::processing::Processing;
use thalweg_frontend::format::HitFormat;

/// The units that a sender counts, where it can be asked.
const SENT: &[Unit] = &[Unit::Hits, Unit::Datagrams];
/// The name of all sources of hits together.
const ALL: &str = "hits";

impl Making<'_, '_> {
    pub(super) fn hits(&mut self, processing: Option<&Processing>) {
        let resolved = self.resolved;
        let sources: Vec<(&SourceSettings, &dyn HitFormat)> = resolved.configuration.hit_sources().collect();
        if sources.is_empty() {
            return;
        }
        let each = || (0..sources.len() as u16).map(SourceId);
        let mut decoders = Vec::new();
        for (id, (source, format)) in each().zip(&sources) {
            decoders.push(self.hit_source(id, source, *format));
        }
        let of_hits = |unit| counts_of(each(), &[unit]);
        let order = self.node(Stage::Order, place(ALL, thread_names::ORDER), of_hits(Unit::Hits));
        for (decoder, (source, _)) in decoders.iter().zip(&sources) {
            debug_assert!(decoder.ends_with(&source.head.name));
            self.edges_to(decoder, &[&order], &[Unit::Hits], (Fan::Copy, Via::Ring, Subjects::Same));
        }
        let added = processing.map_or(&[][..], |processing| &processing.stages.added);
        let last = self.added(order, added, of_hits(Unit::Hits));
        let cut = processing.and_then(|processing| self.processing(&last, processing, of_hits(Unit::Hits)));
        let record = self.node(Stage::Record, place(ALL, thread_names::ORDER), of_hits(Unit::Hits));
        self.edge(&last, &record, &[Unit::Hits]);
        if let Some(cut) = cut.filter(|_| resolved.keeps(Table::Coincidences)) {
            let coincidences = place(crate::source_table::COINCIDENCES, thread_names::PROCESS);
            let counts = self.topology.node(&cut).map_or_else(Vec::new, |node| node.counts.clone());
            let record = self.node(Stage::Record, coincidences, counts);
            self.edge(&cut, &record, &[Unit::Events]);
        }
        if resolved.slices_hits() {
            self.slices(&decoders, of_hits(Unit::Hits));
        }
    }

    /// One source up to its decoder, whose name is returned.
    fn hit_source(&mut self, id: SourceId, source: &SourceSettings, format: &dyn HitFormat) -> String {
        let name = source.head.name.as_str();
        // A board says only when it is asked how its data come.
        let is_stream = source.endpoint.gives_stream();
        let received: &[Unit] =
            if is_stream == Some(true) { &[Unit::Bytes] } else { &[Unit::Datagrams, Unit::Bytes] };
        let may: &[Unit] = if is_stream.is_none() { &[Unit::Datagrams] } else { &[] };
        let of = |units: &[Unit]| Counts { may: may.to_vec(), ..Counts::of(id, units) };
        let reader = place(name, source.head.reader());
        let is_asked = source.asks_sender() && !self.resolved.is_replay;
        let wire_units = format.wire_units(is_stream == Some(true), is_asked);
        let sender = is_asked.then(|| {
            // A sender does not report what it no longer remembers.
            let counts = Counts { may: SENT.to_vec(), ..Counts::of(id, SENT) };
            self.node_at_the_end(Stage::Sender, place(name, ""), vec![counts])
        });
        let wire = (!wire_units.is_empty()).then(|| self.node(Stage::Wire, reader, vec![of(wire_units)]));
        let receive = self.node(Stage::Receive, reader, vec![of(received)]);
        let framed: Vec<Unit> = received.iter().copied().chain([Unit::Frames]).collect();
        if self.resolved.keeps(Table::Raw) {
            let raw = self.node(Stage::Raw, place(name, thread_names::RAW), vec![of(received)]);
            self.edge(&receive, &raw, received);
        }
        let unpack = self.node(Stage::Unpack, reader, vec![of(&framed).making(&[Unit::Frames])]);
        self.edge(&receive, &unpack, received);
        if let Some(wire) = &wire {
            let framed: Vec<Unit> = wire_units.iter().copied().filter(|unit| *unit != Unit::Hits).collect();
            self.audit(wire, &unpack, &framed);
        }
        let workers = format!("{name}-decode");
        let decodes = if source.head.workers > 0 { place(name, &workers) } else { reader };
        let decoded = Counts::of(id, &[Unit::Bytes, Unit::Frames, Unit::Hits]).making(&[Unit::Hits]);
        let decode = self.node(Stage::Decode, decodes, vec![decoded]);
        self.edge(&unpack, &decode, &[Unit::Bytes, Unit::Frames]);
        if let (Some(sender), Some(wire)) = (sender, wire) {
            let over_network = (Fan::Copy, Via::Network, Subjects::Same);
            self.edges_to(&sender, &[&wire], SENT, over_network);
            // The hits that were in the frames which came are those that are found in them.
            self.edges_to(&wire, &[&decode], &[Unit::Hits], over_network);
        }
        decode
    }

    /// Adds the stages after time order: filters one after the other, sinks in parallel. Returns the node whose hits go on.
    fn added(&mut self, order: String, added: &[MadeStage], of_hits: Vec<Counts>) -> String {
        let mut last = order;
        for made in added {
            let node = self.node(made.stage, place(ALL, thread_names::ORDER), of_hits.clone());
            self.edge(&last, &node, &[Unit::Hits]);
            if made.role == HitStageRole::Filter {
                last = node;
            }
        }
        last
    }

    /// Adds what is done with ordered hits; returns the node of the cuts on the events that are made of them, if any.
    fn processing(&mut self, order: &str, processing: &Processing, of_hits: Vec<Counts>) -> Option<String> {
        let cuts = !processing.stages.selector.keeps_all();
        let cut = cuts.then(|| self.node(Stage::Cut, place(ALL, thread_names::ORDER), of_hits.clone()));
        if let Some(cut) = &cut {
            self.edge(order, cut, &[Unit::Hits]);
        }
        let kept = cut.as_deref().unwrap_or(order);
        if processing.stages.processor.shows_hits() {
            let spectra = self.node(Stage::Spectra, place(ALL, thread_names::PROCESS), of_hits.clone());
            self.edge(kept, &spectra, &[Unit::Hits]);
        }
        if !processing.stages.selector.makes_events() {
            return None;
        }
        let coincide = self.node(Stage::Coincide, place(ALL, thread_names::ORDER), of_hits);
        self.edge(kept, &coincide, &[Unit::Hits]);
        let slot = self.resolved.source_table.coincidences?;
        let events = vec![Counts::of(slot, &[Unit::Events])];
        let coincidences = |thread| place(crate::source_table::COINCIDENCES, thread);
        let made = vec![Counts::of(slot, &[Unit::Events]).making(&[Unit::Events])];
        let made = self.node(Stage::Coincide, coincidences(thread_names::ORDER), made);
        let cut = self.node(Stage::Cut, coincidences(thread_names::PROCESS), events);
        self.edge(&made, &cut, &[Unit::Events]);
        Some(cut)
    }

    /// Time slices of hits: built on the thread of time order, out of what was decoded.
    fn slices(&mut self, decoders: &[String], of_hits: Vec<Counts>) {
        let Some(events) = self.resolved.source_table.events else { return };
        let slices = Place { flow_path: FlowPath::Events, ..place("slices", thread_names::ORDER) };
        let boards = self.resolved.source_table.boards.clone();
        let wire = self.node(Stage::Wire, slices, vec![Counts::of_each(boards, &[Unit::Fragments])]);
        let cut = self.node(Stage::TimeSlice, slices, of_hits);
        for decoder in decoders {
            self.edges_to(decoder, &[&cut], &[Unit::Hits], (Fan::Copy, Via::Ring, Subjects::Same));
        }
        self.building(slices, events, &wire);
    }
}

fn place<'p>(of: &'p str, thread: &'p str) -> Place<'p> {
    Place { of, flow_path: FlowPath::Hits, thread }
}
