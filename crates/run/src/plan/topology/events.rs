//! The path of triggered boards: fragments, and the events that are built of them.

use thalweg_data::topology::{
    Builder, ControlEdge, ControlKind, Counts, Fan, FlowPath, SubjectKind, Subjects, Via,
};
use thalweg_data::{SourceId, Stage, Unit};
use thalweg_readout::Switch;
use thalweg_record::Table;

use super::{Making, Place, counts_of};
use crate::config::{Configuration, SourceSettings};
use crate::plan::thread_names;
use crate::plan::{answers_own_trigger, gate};
use thalweg_frontend::format::FormatSettings;

/// The units that builders and recorders count of each board.
const OF_BOARDS: &[Unit] = &[Unit::Fragments, Unit::Bytes];
const EVENTS: &[Unit] = &[Unit::Events];
/// The units that an emulated board counts.
const FRAGMENTS: &[Unit] = &[Unit::Fragments];

impl Making<'_, '_> {
    pub(super) fn events(&mut self) {
        let resolved = self.resolved;
        let Some(events) = resolved.source_table.events.filter(|_| resolved.triggered().next().is_some())
        else {
            return self.units_without_boards();
        };
        let is_emulated = |source: &SourceSettings| source.is_emulated() && !resolved.is_replay;
        let emulated = resolved.triggered().any(|(source, _)| is_emulated(source));
        if emulated {
            self.trigger(events);
        }
        let mut given = Vec::new();
        for (index, source) in resolved.configuration.sources.iter().enumerate() {
            let is_read = resolved.triggered().any(|(read, _)| read.head.name == source.head.name);
            if is_read {
                given.extend(self.triggered_source(index, is_emulated(source)));
            }
        }
        if resolved.units.is_some() {
            self.units(&given);
        } else {
            let build = Place { of: "events", flow_path: FlowPath::Events, thread: thread_names::BUILD };
            let built = self.builds(build, events, &given);
            let is_triggered = |index: &usize| resolved.source_table.links[*index].is_some();
            let sources: Vec<usize> =
                (0..resolved.configuration.sources.len()).filter(is_triggered).collect();
            self.triggered_by(&built, &sources);
        }
        if emulated {
            self.control("build", "trigger", ControlKind::Busy);
            if let Some(follow) = &resolved.configuration.follow {
                self.control(&follow.source, "trigger", ControlKind::Follow);
            }
        }
    }

    /// One source up to what goes to a builder: the nodes that give fragments, with the units.
    fn triggered_source(&mut self, index: usize, is_emulated: bool) -> Vec<String> {
        let resolved = self.resolved;
        let (source, entry) = (&resolved.configuration.sources[index], &resolved.source_table.entries[index]);
        let Some(first) = entry.links.first() else { return Vec::new() };
        let links = || entry.links.iter().map(|place| place.link);
        let boards = || entry.links.iter().flat_map(|place| place.boards.clone()).map(SourceId);
        let one_board = first.boards.contains(&first.link.0);
        let received: &[Unit] =
            if source.gives_streams() { &[Unit::Bytes] } else { &[Unit::Datagrams, Unit::Bytes] };
        let sender = is_emulated.then(|| {
            let place = Place { of: &entry.name, flow_path: FlowPath::Events, thread: "" };
            // A board does not report what it no longer remembers.
            let may = |counts: Counts| Counts { may: FRAGMENTS.to_vec(), ..counts };
            self.node_at_the_end(
                Stage::Sender,
                place,
                counts_of(boards(), FRAGMENTS).into_iter().map(may).collect(),
            )
        });
        let thread = resolved.reader_of(source);
        let reads = Place { of: &entry.name, flow_path: FlowPath::Events, thread: &thread };
        let wire_units: &[Unit] = match counts_frames(&source.format) {
            true => &[Unit::Fragments, Unit::Frames],
            false => &[Unit::Fragments],
        };
        let wire = self.node(Stage::Wire, reads, counts_of(boards(), wire_units));
        let receive = self.node(Stage::Receive, reads, counts_of(links(), received));
        if resolved.keeps(Table::Raw) {
            let raw = self.node(
                Stage::Raw,
                Place { thread: thread_names::RAW, ..reads },
                counts_of(links(), received),
            );
            self.edge(&receive, &raw, received);
        }
        // Datagrams are units already; a stream is cut into frames, each of which is a fragment. Where several boards share the stream, those
        // whose board cannot be read count for the link.
        let is_stream = source.gives_streams();
        let made: Vec<Unit> = [(is_stream, Unit::Frames), (one_board || is_stream, Unit::Fragments)]
            .into_iter()
            .filter_map(|(is_made, unit)| is_made.then_some(unit))
            .collect();
        let framed = [received, &made].concat();
        let unpacked = counts_of(links(), &framed).into_iter().map(|counts| counts.making(&made)).collect();
        let unpack = self.node(Stage::Unpack, reads, unpacked);
        self.edge(&receive, &unpack, received);
        let boards_of = format!("{}/boards", entry.name);
        let apart = Place { of: &boards_of, ..reads };
        let found = match one_board {
            true => unpack.clone(),
            false => {
                let made = |counts: Counts| counts.making(&[Unit::Fragments]);
                let of_boards = counts_of(boards(), &[Unit::Fragments]).into_iter().map(made).collect();
                self.node(Stage::Unpack, apart, of_boards)
            }
        };
        if let Some(sender) = sender {
            let over_network = (Fan::Copy, Via::Network, Subjects::Same);
            self.edges_to(&sender, &[&found], FRAGMENTS, over_network);
        }
        if resolved.configuration.slices.is_some() {
            let slices = self.node(Stage::TimeSlice, reads, counts_of(boards(), &[Unit::Fragments]));
            self.edge(&found, &slices, &[Unit::Fragments]);
            return vec![wire];
        }
        let mut given = vec![wire, found];
        given.extend((!one_board).then_some(unpack));
        given
    }

    /// A builder of the fragments of these nodes: what it counts of each board, and of events. `given` are the names of wires, of
    /// what frames fragments, and of links whose boards share them. Returns the node that counts events.
    fn builds(&mut self, place: Place<'_>, events: SourceId, given: &[String]) -> String {
        let (fragments, built) = self.builder(place, events, given);
        let boards = self.resolved.source_table.boards.clone();
        let records = Place { of: "events", thread: thread_names::RECORD, ..place };
        let (selected, selected_fragments) = match self.resolved.filter() {
            Some(_) => self.filters(records, events, &built, &fragments),
            None => (built.clone(), fragments),
        };
        let recorded = self.node(Stage::Record, records, vec![Counts::of(events, EVENTS)]);
        let of_boards = Place { of: "fragments", ..records };
        let kept = self.node(Stage::Record, of_boards, vec![Counts::of_each(boards, OF_BOARDS)]);
        self.edge(&selected, &recorded, EVENTS);
        self.edge(&selected_fragments, &kept, OF_BOARDS);
        built
    }

    /// The event filter behind such a builder, on the thread of the recorder: what it counts of events, and of each board.
    fn filters(
        &mut self,
        place: Place<'_>,
        events: SourceId,
        built: &str,
        fragments: &str,
    ) -> (String, String) {
        let boards = self.resolved.source_table.boards.clone();
        let selected = self.node(Stage::Filter, place, vec![Counts::of(events, EVENTS)]);
        let of_boards = Place { of: "fragments", ..place };
        let of_boards = self.node(Stage::Filter, of_boards, vec![Counts::of_each(boards, OF_BOARDS)]);
        self.edge(built, &selected, EVENTS);
        self.edge(fragments, &of_boards, OF_BOARDS);
        (selected, of_boards)
    }

    /// Says that every trigger is an event of this builder or was lost on the way, where its boards answer that trigger alone.
    fn triggered_by(&mut self, built: &str, sources: &[usize]) {
        let trigger = format!("{} events", Stage::Trigger);
        let has_trigger = self.topology.node(&trigger).is_some();
        if has_trigger && answers_own_trigger(self.resolved.configuration, sources) {
            let how = (Fan::Copy, Via::Network, Subjects::Whole);
            self.edges_to(&trigger, &[built], EVENTS, how);
        }
    }

    /// The same of time slices, whose fragments come into being where they are cut.
    pub(super) fn building(&mut self, place: Place<'_>, events: SourceId, wire: &str) {
        self.builds(place, events, &[wire.to_owned()]);
    }

    /// The counters of one builder; returns those of fragments and of events.
    fn builder(&mut self, place: Place<'_>, events: SourceId, given: &[String]) -> (String, String) {
        let counted = |making: &Self, id: &String| making.topology.node(id).map(|node| node.counts.clone());
        let is_shared = |making: &Self, counts: &[Counts]| {
            let kind = |subject: SourceId| making.topology.subjects[subject.index()].kind;
            counts.iter().flat_map(Counts::each).any(|subject| kind(subject) == SubjectKind::Link)
        };
        let wires: Vec<&String> = given.iter().filter(|id| id.starts_with(Stage::Wire.word())).collect();
        let boards =
            wires.iter().filter_map(|id| counted(self, id)).flatten().flat_map(|counts| counts.each());
        let of_boards = counts_of(boards, OF_BOARDS);
        let name = format!("{}/fragments", place.of);
        let fragments = self.node(Stage::Build, Place { of: &name, ..place }, of_boards);
        let built = vec![Counts::of(events, EVENTS).making(EVENTS)];
        let built = self.node(Stage::Build, place, built);
        let wires: Vec<String> = wires.into_iter().cloned().collect();
        let (events, of_boards) = (built.clone(), fragments.clone());
        self.topology.builders.push(Builder { events, fragments: of_boards, wires, notes_numbers: true });
        for id in given {
            let Some(counts) = counted(self, id) else { continue };
            let has_bytes = counts.iter().any(|counts| counts.units.contains(&Unit::Bytes));
            if id.starts_with(Stage::Wire.word()) {
                self.audit(id, &fragments, &[Unit::Fragments]);
            } else if is_shared(self, &counts) {
                let how = (Fan::Copy, Via::Call, Subjects::Children);
                self.edges_to(id, &[&fragments], &[Unit::Bytes], how);
            } else {
                self.edge(id, &fragments, if has_bytes { OF_BOARDS } else { &[Unit::Fragments] });
            }
        }
        (fragments, built)
    }

    /// Units: each readout unit builds of its own boards and ships, builder units put together and record.
    fn units(&mut self, given: &[String]) {
        let resolved = self.resolved;
        let Some(units) = &resolved.units else { return };
        let (mut shipped, mut fragments) = (Vec::new(), Vec::new());
        for readout in &units.readouts {
            let unit = &readout.settings;
            if !resolved.configuration.hosts(unit) {
                continue;
            }
            let names =
                readout.sources.iter().map(|index| resolved.source_table.entries[*index].name.as_str());
            let of_it = |name: &str| {
                let own = given.iter().filter(move |id| {
                    id.split_once(' ').is_some_and(|(_, of)| of == name || of == format!("{name}/boards"))
                });
                own.cloned().collect::<Vec<_>>()
            };
            let own: Vec<String> = names.flat_map(of_it).collect();
            let thread = thread_names::reader(unit);
            let slot = resolved.source_table.unit(&unit.name);
            let builds = Place { of: &unit.name, flow_path: FlowPath::Events, thread: &thread };
            let (of_boards, built) = self.builder(builds, slot, &own);
            self.triggered_by(&built, &readout.sources);
            let ships = Place { thread: &unit.name, ..builds };
            let counted = vec![Counts::of(slot, &[Unit::Events, Unit::Fragments, Unit::Bytes])];
            let ship = self.node(Stage::Ship, ships, counted);
            self.edge(&built, &ship, EVENTS);
            self.sum(std::slice::from_ref(&of_boards), std::slice::from_ref(&ship), false);
            fragments.push(of_boards);
            shipped.push(ship);
        }
        self.builder_units(&shipped, &fragments);
    }

    /// A node of the distributed system that reads no boards.
    fn units_without_boards(&mut self) {
        if self.resolved.units.is_some() {
            self.builder_units(&[], &[]);
        }
    }

    /// Those that are in this process. `fragments` is what the readout units here have built of each board.
    fn builder_units(&mut self, shipped: &[String], fragments: &[String]) {
        let resolved = self.resolved;
        let Some(units) = &resolved.units else { return };
        let mut hosted = Vec::new();
        for unit in resolved.builders() {
            let slot = resolved.source_table.unit(&unit.name);
            let place = Place { of: &unit.name, flow_path: FlowPath::Events, thread: &unit.name };
            let counted = Counts::of(slot, &[Unit::Events, Unit::Fragments, Unit::Bytes]).making(EVENTS);
            let build = self.node(Stage::Build, place, vec![counted]);
            let files = thread_names::files(unit);
            let files = Place { thread: &files, ..place };
            let mut selected = build.clone();
            if resolved.filter().is_some() {
                selected = self.node(Stage::Filter, files, vec![Counts::of(slot, EVENTS)]);
                self.edge(&build, &selected, EVENTS);
            }
            let record = self.node(Stage::Record, files, vec![Counts::of(slot, EVENTS)]);
            self.edge(&selected, &record, EVENTS);
            hosted.push(build);
        }
        let takers: Vec<&str> = hosted.iter().map(String::as_str).collect();
        for ship in shipped.iter().filter(|_| !takers.is_empty()) {
            self.edges_to(ship, &takers, &[Unit::Fragments], (Fan::Split, Via::Peer, Subjects::Same));
        }
        let boards = resolved.source_table.boards.clone();
        if !hosted.is_empty() {
            let place = Place { of: "fragments", flow_path: FlowPath::Events, thread: "" };
            let counted = || vec![Counts::of_each(boards.clone(), OF_BOARDS)];
            let filter = resolved.filter().map(|_| self.node_at_the_end(Stage::Filter, place, counted()));
            let kept = self.node_at_the_end(Stage::Record, place, counted());
            filter.iter().for_each(|filter| self.edge(filter, &kept, OF_BOARDS));
            let taker = filter.unwrap_or(kept);
            self.sum(&hosted, std::slice::from_ref(&taker), false);
            // With all units in one process, what was built of each board comes into its files, but for what units lose.
            if hosted.len() == units.builders.len() && shipped.len() == units.readouts.len() {
                self.sum(shipped, &hosted, true);
                for built in fragments {
                    self.edges_to(
                        built,
                        &[&taker],
                        &[Unit::Fragments],
                        (Fan::Copy, Via::Peer, Subjects::Same),
                    );
                }
            }
        }
        let manager = &units.manager.name;
        for unit in units.builders.iter() {
            self.control(&unit.name, manager, ControlKind::Credit);
        }
        if gate(&units.readouts, resolved.configuration).is_some() {
            self.control(manager, "trigger", ControlKind::Gate);
        }
    }

    /// Adds what the trigger of emulated boards counts when the run is over.
    fn trigger(&mut self, events: SourceId) {
        if self.resolved.configuration.slices.is_none() {
            let place = Place { of: "events", flow_path: FlowPath::Events, thread: "" };
            self.node_at_the_end(Stage::Trigger, place, vec![Counts::of(events, EVENTS)]);
        }
    }

    /// A real trigger: the lines by which BUSY reaches it, and the register that lets it through while data are taken.
    pub(super) fn real_trigger(&mut self) {
        let resolved = self.resolved;
        if resolved.is_replay || !resolved.drives_busy() {
            return;
        }
        let Configuration { busy, enable, .. } = resolved.configuration;
        let register = |switch: &Switch| format!("{} {}", switch.of, switch.path);
        let lines = [busy.udp.clone(), busy.http.clone(), busy.register.as_ref().map(register)];
        for place in lines.iter().flatten() {
            self.control("run", place, ControlKind::Busy);
        }
        if let Some(switch) = enable {
            self.control("run", &register(switch), ControlKind::Gate);
        }
    }

    fn control(&mut self, from: &str, to: &str, kind: ControlKind) {
        self.topology.controls.push(ControlEdge { from: from.to_owned(), to: to.to_owned(), kind });
    }
}

/// Returns true if boards of a format count what they send.
fn counts_frames(format: &FormatSettings) -> bool {
    match format {
        FormatSettings::Triggered(boards) => boards.counts_frames(),
        FormatSettings::Hits(_) => false,
    }
}
