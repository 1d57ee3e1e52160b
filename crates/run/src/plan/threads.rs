//! The threads of a run, and the rings between them.
//!
//! ```text
//!  sources of hits ─► NAME ══► (NAME-decode ══►) order ══► process, write
//!  triggered ones ──► build ══► record        or      UNIT-read ══► UNIT (readout) … UNIT (builder, manager), gate
//!  received bytes ══► raw                     beside them: compress, emulate
//! ```

use thalweg_readout::BlockPolicy;
use thalweg_record::{Compression, Table};

use super::capacity::{BATCHES, EVENT_BATCHES, RAW_BATCHES, SELECTED_BATCHES, TRIGGERS_WAITING};
use super::thread_names;
use super::units::UnitPlan;
use super::{Resolved, Ring, Thread};
use crate::config::{SourceSettings, read_by_keepers};

/// All threads, in path order.
pub(super) fn threads(resolved: &Resolved<'_>) -> Vec<Thread> {
    let configuration = resolved.configuration;
    let mut threads = Vec::new();
    for (reader, sources) in configuration.hit_readers() {
        of_hits(reader, &sources, &mut threads);
    }
    of_ordered_hits(resolved, &mut threads);
    match &resolved.units {
        None if resolved.builds_here() => {
            let (mut names, mut links) = (Vec::new(), 0);
            for (source, plan) in resolved.triggered() {
                names.push(&source.head.name[..]);
                links += plan.links;
            }
            let boards = resolved.source_table.boards.len();
            let what = match configuration.slices {
                None => "builds events",
                Some(_) => "cuts and builds time slices",
            };
            threads.push(Thread::new(
                thread_names::BUILD,
                format!("reads {links} link(s) of {}, {what} of {boards} boards", super::spelled(&names)),
            ));
        }
        None => {}
        Some(units) => of_units(resolved, units, &mut threads),
    }
    if resolved.records_events() {
        threads.push(Thread::new(thread_names::RECORD, "records the events"));
    }
    if let Some(filter) = resolved.filter() {
        let count = filter.workers * resolved.event_recorders().len();
        let does = "decides which built events are kept";
        threads.push(Thread { count, ..Thread::new(thread_names::FILTER, does) });
    }
    if resolved.keeps(Table::Raw) && reads(resolved) {
        threads.push(Thread::new(thread_names::RAW, "records received bytes"));
    }
    threads.push(Thread::new(thread_names::LOSSES, "lists what was lost when"));
    let record = &configuration.record;
    if record.compression != Compression::None {
        let count = record.compression_workers * resolved.writers();
        threads.push(Thread { count, ..Thread::new(thread_names::COMPRESS, "compresses what is recorded") });
    }
    let keepers = read_by_keepers(configuration).count()
        + if resolved.has_devices() { configuration.controls.len() } else { 0 };
    if keepers > 0 && !resolved.is_replay {
        let does = "sees whether its board or device is there, reads its series";
        threads.push(Thread { count: keepers, ..Thread::new(thread_names::KEEPER, does) });
    }
    if resolved.records_series() {
        threads.push(Thread::new(thread_names::SERIES, "records the values of slow control"));
    }
    if resolved.emulates() {
        threads.push(Thread::new(thread_names::EMULATE, "the emulated boards, and what triggers them"));
    }
    threads
}

/// Those behind the decoders.
fn of_ordered_hits(resolved: &Resolved<'_>, threads: &mut Vec<Thread>) {
    let configuration = resolved.configuration;
    if resolved.has_hits() {
        let cuts = if resolved.slices_hits() { "; cuts and builds time slices" } else { "" };
        let coincidences =
            if configuration.process.coincidence.is_some() { ", finds coincidences" } else { "" };
        let does = format!("puts the hits of all sources into time order{coincidences}, records them{cuts}");
        threads.push(Thread::new(thread_names::ORDER, does));
        if configuration.record.keeps_hits() {
            threads.push(Thread::new(thread_names::WRITE, "writes the hits to their files"));
        }
    }
    if resolved.processes_hits() {
        let records = if resolved.keeps_coincidences() { ", records coincidences" } else { "" };
        threads.push(Thread::new(thread_names::PROCESS, format!("fills spectra{records}")));
    }
}

/// The thread that reads these sources, and those that decode them.
fn of_hits(reader: &str, sources: &[(usize, &SourceSettings)], threads: &mut Vec<Thread>) {
    let decodes = sources.iter().any(|(_, source)| source.head.workers == 0);
    let does = if decodes { "receives, finds units, decodes" } else { "receives, finds units" };
    threads.push(match sources {
        [(_, source)] => Thread { url: Some(source.endpoint.url.to_string()), ..Thread::new(reader, does) },
        _ => {
            let names: Vec<&str> = sources.iter().map(|(_, source)| &source.head.name[..]).collect();
            Thread::new(reader, format!("{does} of {}", super::spelled(&names)))
        }
    });
    for (_, source) in sources.iter().filter(|(_, source)| source.head.workers > 0) {
        let name = thread_names::decoders(source);
        threads.push(Thread { count: source.head.workers, ..Thread::new(name, "decodes in turn") });
    }
}

/// Those of the units that this process hosts.
fn of_units(resolved: &Resolved<'_>, units: &UnitPlan, threads: &mut Vec<Thread>) {
    let configuration = resolved.configuration;
    for (readout, boards) in units.readouts.iter().zip(&units.layout.readouts) {
        let unit = &readout.settings;
        if configuration.hosts(unit) {
            let names: Vec<&str> = unit.sources.iter().map(|name| &name[..]).collect();
            let does = format!("reads {}, builds events of {} boards", super::spelled(&names), boards.len());
            threads.push(Thread::new(thread_names::reader(unit), does));
            threads.push(Thread::new(&unit.name, "keeps those events, sends them to builder units"));
        }
    }
    for unit in resolved.builders() {
        let does = "puts the parts of events together";
        threads.push(Thread { url: Some(unit.url()), ..Thread::new(&unit.name, does) });
        threads.push(Thread::new(thread_names::files(unit), "records them"));
    }
    let hosts_readout = units.readouts.iter().any(|readout| configuration.hosts(&readout.settings));
    if hosts_readout || resolved.builders().next().is_some() {
        threads.push(Thread::new(thread_names::RANGES, "lists what became of each range of triggers"));
    }
    if configuration.hosts(&units.manager) {
        let manager = &units.manager;
        let does = "assigns events to builder units";
        threads.push(Thread { url: Some(manager.url()), ..Thread::new(&manager.name, does) });
    }
    if resolved.has_gate() {
        threads.push(Thread::new(thread_names::GATE, "holds triggers back while the manager says BUSY"));
    }
}

fn reads(resolved: &Resolved<'_>) -> bool {
    resolved.has_hits() || resolved.triggered().next().is_some()
}

/// All rings, in path order.
pub(super) fn rings(resolved: &Resolved<'_>) -> Vec<Ring> {
    let configuration = resolved.configuration;
    let mut rings = Vec::new();
    for (source, _) in configuration.hit_sources() {
        let workers = source.head.workers;
        let full = when_full(source);
        let decode = thread_names::decoders(source);
        let ring = |from: &str, to: &str, carries: &str, full: &str| Ring {
            from: from.to_owned(),
            to: to.to_owned(),
            carries: carries.to_owned(),
            batches: BATCHES * workers.max(1),
            full: full.to_owned(),
        };
        if workers == 0 {
            rings.push(ring(source.head.reader(), thread_names::ORDER, "hits", full));
        } else {
            rings.push(ring(source.head.reader(), &decode, "units", full));
            rings.push(ring(&decode, thread_names::ORDER, "hits", "it waits"));
        }
    }
    rings.extend(resolved.processes_hits().then(to_process));
    of_events(resolved, &mut rings);
    if resolved.keeps(Table::Raw) {
        rings.extend(resolved.readers().into_iter().map(|from| Ring {
            from,
            to: thread_names::RAW.to_owned(),
            carries: "received bytes".to_owned(),
            batches: RAW_BATCHES,
            full: "it waits".to_owned(),
        }));
    }
    if let Some(follow) = &configuration.follow
        && let Some((source, _)) = resolved.triggered().find(|(source, _)| source.head.name == follow.source)
    {
        rings.push(Ring {
            from: resolved.reader_of(source),
            to: thread_names::EMULATE.to_owned(),
            carries: "triggers".to_owned(),
            batches: TRIGGERS_WAITING,
            full: "triggers are refused, and counted".to_owned(),
        });
    }
    rings
}

/// The rings of built events, from their builders to their recorders and filters.
fn of_events(resolved: &Resolved<'_>, rings: &mut Vec<Ring>) {
    let built = |from: String, to: &str, batches: usize| Ring {
        from,
        to: to.to_owned(),
        carries: "events".to_owned(),
        batches,
        full: "BUSY; it waits, and boards are not read".to_owned(),
    };
    let recorded = resolved.event_batches();
    if resolved.builds_here() {
        rings.push(built(thread_names::BUILD.to_owned(), thread_names::RECORD, recorded));
    }
    if resolved.slices_hits() {
        let full = "it waits, and so do its sources".to_owned();
        rings.push(Ring { full, ..built(thread_names::ORDER.to_owned(), thread_names::RECORD, recorded) });
    }
    for readout in resolved.units.iter().flat_map(|units| &units.readouts) {
        let unit = &readout.settings;
        if resolved.configuration.hosts(unit) {
            rings.push(built(thread_names::reader(unit), &unit.name, EVENT_BATCHES));
        }
    }
    for unit in resolved.builders() {
        let full = "it takes no more events, and readout units keep them".to_owned();
        rings.push(Ring { full, ..built(unit.name.clone(), &thread_names::files(unit), recorded) });
    }
    if let Some(filter) = resolved.filter() {
        rings.extend(resolved.event_recorders().into_iter().map(|from| Ring {
            from,
            to: thread_names::FILTER.to_owned(),
            carries: "events to decide".to_owned(),
            batches: filter.workers,
            full: "batches wait for a worker that is free".to_owned(),
        }));
    }
}

fn to_process() -> Ring {
    Ring {
        from: thread_names::ORDER.to_owned(),
        to: thread_names::PROCESS.to_owned(),
        carries: "ordered hits".to_owned(),
        batches: SELECTED_BATCHES,
        full: "it waits, and so do its sources".to_owned(),
    }
}

/// Describes what a reader does that cannot pass a batch on.
fn when_full(source: &SourceSettings) -> &'static str {
    match (source.endpoint.url.scheme(), source.endpoint.policy) {
        (_, BlockPolicy::Busy) => "it waits; BUSY when its blocks are used up",
        ("tcp", _) => "it waits, and so does the board",
        ("file" | "pcap", _) => "it waits",
        _ => "it waits; the kernel's buffer overflows, counted",
    }
}
