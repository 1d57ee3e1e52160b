//! Validates a configuration before anything is opened.
//!
//! ```text
//!  each source: keys, blocks, node, format · [record] · [trigger] · [busy] · [build] ─► the first that cannot be, and what could
//! ```
//! The check makes everything that the start makes of settings, without sockets and data files, and throws it away. So `--explain` finds
//! what the start would find, with the same messages.

use thalweg_analysis::event_filter;
use thalweg_data::{Pool, SourceId};
use thalweg_frontend::format::{BoardClock, EmulateSettings, FormatSettings, FramingInput};
use thalweg_monitor::alarm::{Alarms, Subjects};
use thalweg_readout::links::LinkPlan;
use thalweg_readout::pool_refusal;
use thalweg_record::Table;
use thalweg_transport::placement::Machine;
use thalweg_transport::udp::MESSAGE_ROOM_BYTES;

use super::capacity::EVENT_BATCH_BYTES;
use super::leading::followed;
use super::{HIT_BATCH_BYTES, Resolved};
use crate::config::{ChannelRange, ConfigError, Configuration, SourceSettings, check_slow_control, offered};

/// Blocks that a source uses in addition to those that wait for the raw recording: one that is filled, others being decoded.
const BLOCKS_IN_USE: usize = 4;

/// Finds what cannot work.
pub(super) fn check(resolved: &Resolved<'_>, machine: &Machine) -> Result<(), ConfigError> {
    let configuration = resolved.configuration;
    let recorded = configuration.record.check();
    recorded.map_err(|text| configuration.invalid(format!("[record]: {text}")))?;
    if let Some(filter) = &configuration.filter {
        let checked = check_filter(resolved, filter);
        checked.map_err(|message| configuration.invalid(format!("[filter]: {message}")))?;
    }
    for (source, plan) in configuration.sources.iter().zip(&resolved.source_table.links) {
        let checked = keys(source)
            .and_then(|()| node(source, machine))
            .and_then(|()| blocks(resolved, source, plan.as_ref()))
            .and_then(|()| opens(source));
        checked.map_err(|message| configuration.invalid_source(source, message))?;
    }
    channels(configuration)?;
    readers(resolved).map_err(|(source, message)| configuration.invalid_source(source, message))?;
    let not_allowed = |message: String| configuration.invalid(message);
    let monitor = configuration.monitor.as_ref();
    monitor.map_or(Ok(()), |monitor| monitor.check()).map_err(|error| not_allowed(error.to_string()))?;
    let record = &configuration.record;
    let retention = record.retention.map_or(Ok(()), |retention| retention.check(&record.directory));
    retention.map_err(|text| not_allowed(format!("[record.retention]: {text}")))?;
    let ship = configuration.ship.as_ref().map_or(Ok(()), thalweg_ship::Settings::check);
    ship.map_err(|text| not_allowed(format!("[ship]: {text}")))?;
    configuration.notify.check().map_err(|error| not_allowed(format!("[notify]: {error}")))?;
    Alarms::new(&configuration.alarms).map_err(|error| not_allowed(error.to_string()))?;
    alarms(resolved).map_err(not_allowed)?;
    hits(resolved)?;
    order(configuration).map_err(|message| not_allowed(format!("[order]: {message}")))?;
    has_boards_to_trigger(configuration).map_err(not_allowed)?;
    if resolved.triggered().any(|(source, _)| source.is_emulated()) {
        configuration.trigger_program()?;
    }
    followed(configuration, &resolved.source_table)?;
    if resolved.drives_busy() {
        configuration.busy.check().map_err(|error| not_allowed(format!("[busy]: {error}")))?;
    }
    check_slow_control(configuration).map_err(not_allowed)?;
    configuration.unit_rules.check().map_err(|error| not_allowed(error.to_string()))?;
    configuration.check_end(&configuration.run.end())?;
    configuration.run.check().map_err(|error| not_allowed(format!("[run]: {error}")))?;
    configuration.unattended.check().map_err(|error| not_allowed(format!("[unattended]: {error}")))?;
    if let Some(slices) = &configuration.slices {
        check_slices(resolved, slices).map_err(|message| not_allowed(format!("[slices]: {message}")))?;
    }
    if resolved.source_table.events.is_some() {
        configuration.build.check().map_err(|error| not_allowed(format!("[build]: {error}")))?;
    }
    Ok(())
}

/// Checks that there are triggered boards, here or on another node, for the sections that are about them.
fn has_boards_to_trigger(configuration: &Configuration) -> Result<(), String> {
    let is_triggered = |source: &SourceSettings| matches!(source.format, FormatSettings::Triggered(_));
    if configuration.sources.iter().any(is_triggered) {
        return Ok(());
    }
    if configuration.has_trigger {
        let advice = "it triggers emulated boards, and this run has no source of triggered boards; self-triggered ones have their rate \
                      in [source.emulate]; take it out";
        return Err(format!("[trigger]: {advice}"));
    }
    if configuration.has_build && configuration.slices.is_none() {
        let advice = "it is about events of triggered boards, and this run has no source of them; events of hits are made by \
                      [coincidence], time slices by [slices]; take it out";
        return Err(format!("[build]: {advice}"));
    }
    Ok(())
}

/// Checks that there are hits, if anything is to be done with them.
pub(super) fn hits(resolved: &Resolved<'_>) -> Result<(), ConfigError> {
    match !resolved.has_hits() && crate::processing::asks_for_anything(resolved.configuration) {
        true => Err(resolved.configuration.invalid(
            "channels, clocks, cuts, coincidences and spectra are of hits, and no source gives any",
        )),
        false => Ok(()),
    }
}

/// Checks that there is what alarms name as their source.
fn alarms(resolved: &Resolved<'_>) -> Result<(), String> {
    let Resolved { configuration, source_table, .. } = resolved;
    let names_of = |subjects: Subjects| -> (&str, Vec<String>) {
        match subjects {
            Subjects::Run => ("", Vec::new()),
            Subjects::Sources => {
                ("[[source]]", source_table.entries.iter().map(|entry| entry.name.clone()).collect())
            }
            Subjects::Boards => ("board of events", source_table.filtered_boards().names.to_vec()),
            Subjects::Copies => {
                ("destination of [ship]", configuration.ship.iter().flat_map(|ship| ship.names()).collect())
            }
            Subjects::Clocks => {
                let reference = configuration.process.clocks.reference.as_ref();
                let sources = configuration.hit_sources().map(|(source, _)| source.head.name.clone());
                let compared = sources.filter(|name| reference.is_some_and(|reference| reference != name));
                ("source of hits that is compared with `reference` of [clocks]", compared.collect())
            }
        }
    };
    for alarm in &configuration.alarms {
        let Some(source) = alarm.source.as_deref().filter(|source| *source != "*") else { continue };
        let (what, names) = names_of(alarm.quantity.subjects());
        if !names.iter().any(|name| name == source) {
            return Err(format!(
                "[[alarm]] \"{}\": `source = \"{source}\"` is no {what}{}; \"*\" watches each",
                alarm.name,
                offered(names.iter().map(String::as_str))
            ));
        }
    }
    Ok(())
}

/// Checks that time order has memory for a full batch of each source: one that does not fit into it is lost even when nothing else waits. So
/// many sources that these would take more than the default cannot all send full ones.
fn order(configuration: &Configuration) -> Result<(), String> {
    let (found, sources) = (configuration.order.memory_bytes, configuration.hit_sources().count());
    let least = ((sources * HIT_BATCH_BYTES) as u64).min(thalweg_order::Settings::default().memory_bytes);
    match found < least {
        true => Err(format!(
            "`memory_bytes = {found}` does not hold a batch of each source, {HIT_BATCH_BYTES} B, and batches that do not fit are \
             lost; write {least} or more"
        )),
        false => Ok(()),
    }
}

/// Checks that framing, decoders, faults and emulated boards can be made as the source asks.
fn opens(source: &SourceSettings) -> Result<(), String> {
    let emulated = match &source.emulate {
        Some(EmulateSettings::SelfTriggered(board)) if board.is_stream() => Err(format!(
            "[source.emulate] `transport` is not \"udp\", and boards at {} send datagrams; take it out, or serve the board with \
             `thalweg emulate` and read it at its address",
            source.endpoint.url
        )),
        Some(EmulateSettings::SelfTriggered(board)) => board.check().map_err(|error| error.to_string()),
        Some(EmulateSettings::Triggered(boards)) => boards.check(),
        None => Ok(()),
    };
    emulated?;
    let FormatSettings::Hits(format) = &source.format else { return Ok(()) };
    let endpoint = &source.endpoint;
    endpoint.check_single()?;
    let is_stream = endpoint.gives_stream().unwrap_or_else(|| format.wants_stream());
    let ((blocks, block_bytes), scheme) = (endpoint.pool_shape()?, endpoint.url.scheme());
    let input = FramingInput { source: SourceId(0), is_stream, scheme, asked: None, blocks, block_bytes };
    format.framing(input, 1)?;
    if let Some(faults) = &source.head.faults {
        faults.check(is_stream, &endpoint.url.to_string()).map_err(|error| error.to_string())?;
    }
    if !(0.0..=1.0).contains(&source.head.loss) {
        return Err(format!("`loss = {}`: write a fraction from 0 to 1", source.head.loss));
    }
    Ok(())
}

/// Checks that each thread that reads sources of hits has a name of its own.
fn readers<'r>(resolved: &Resolved<'r>) -> Result<(), (&'r SourceSettings, String)> {
    let threads = super::threads::threads(resolved);
    let named = |name: &str| threads.iter().filter(|thread| thread.name == name).count();
    for source in &resolved.configuration.sources {
        let Some(reader) = source.head.reader.as_deref() else { continue };
        if matches!(source.format, FormatSettings::Triggered(_)) {
            let message = "`reader` is of sources of hits; triggered boards are read by the thread that builds their events";
            return Err((source, format!("{message}; take it out")));
        }
        if named(reader) != 1 {
            return Err((
                source,
                format!("`reader = \"{reader}\"`: another thread of this run has that name; write another"),
            ));
        }
    }
    Ok(())
}

/// Checks that the channel of a hit identifies its source: no two sources have one in common.
fn channels(configuration: &Configuration) -> Result<(), ConfigError> {
    let Some([(other, taken), (name, range)]) = configuration.shared_channels() else { return Ok(()) };
    let others: Vec<ChannelRange> = configuration
        .channel_ranges()
        .filter_map(|(other, taken)| Some(taken).filter(|_| other != name))
        .collect();
    let advice = match range.moved_clear_of(&others) {
        Some(free) => format!("write `first_channel = {free}` for \"{name}\""),
        None => "no range of that length is free".to_owned(),
    };
    Err(configuration.invalid(format!(
        "source \"{name}\": its channels {range} overlap {taken} of \"{other}\", and a hit's channel would not say which of \
         them sent it; {advice}, or give `channels` as many as the boards have"
    )))
}

/// Checks that the data of these sources can be cut by time, and are recorded.
fn check_slices(resolved: &Resolved<'_>, slices: &thalweg_build::slices::Settings) -> Result<(), String> {
    let configuration = resolved.configuration;
    slices.check().map_err(|error| error.to_string())?;
    let keeps_data = !configuration.record.tables.is_empty();
    if keeps_data && !resolved.keeps(Table::Events) && !resolved.keeps(Table::Fragments) {
        return Err(
            "slices are recorded in the tables events and fragments; add them to [record] tables".to_owned()
        );
    }
    if !configuration.units.is_empty() {
        return Err("slices are built on one thread; take the [[unit]] tables out".to_owned());
    }
    let hits = configuration.hit_sources().count();
    if hits > 0 && hits < configuration.sources.len() {
        return Err("slices are of sources of hits or of fragments; this run has both".to_owned());
    }
    for source in &configuration.sources {
        let name = &source.head.name;
        let FormatSettings::Triggered(boards) = &source.format else { continue };
        match boards.clock() {
            BoardClock::Tick(_) => {}
            BoardClock::Unstated => {
                return Err(format!(
                    "the clock of \"{name}\" is not known; write `tick_ps`, the length of one of its counts"
                ));
            }
            BoardClock::None => {
                return Err(format!(
                    "fragments of \"{name}\" carry no time that goes on over the run; they are built by number"
                ));
            }
        }
    }
    let (blocks, least) = (slices.hit_blocks(hits), least_hit_blocks(resolved, slices, hits));
    if hits > 0 && blocks < least {
        let needed = least * hits * thalweg_build::slices::HIT_BLOCK_BYTES;
        return Err(format!(
            "memory_bytes = {} gives each source {blocks} blocks, and {least} are open or wait for the recording; \
             write memory_bytes = {needed} or more",
            slices.memory_bytes
        ));
    }
    Ok(())
}

/// Checks that there are events to be filtered, and that each worker can have its filter.
fn check_filter(resolved: &Resolved<'_>, filter: &event_filter::Settings) -> Result<(), String> {
    if resolved.source_table.events.is_none() {
        return Err("it selects built events, and this run builds none: it takes sources of triggered boards, or [slices]; for \
                    hits and their coincidences there is [[cut]]"
            .to_owned());
    }
    filter.check().map_err(|error| error.to_string())?;
    event_filter::make(filter, resolved.source_table.filtered_boards())
        .map(drop)
        .map_err(|error| error.to_string())
}

/// Blocks of a link that the workers of an event filter may keep for ever: those of a batch each.
fn blocks_of_filter(resolved: &Resolved<'_>, links: usize, block_bytes: usize) -> usize {
    let Some(filter) = resolved.filter() else { return 0 };
    let of_batch = (EVENT_BATCH_BYTES as usize / links.max(1)).div_ceil(block_bytes) + 1;
    filter.workers * of_batch
}

/// Blocks of a source that may be in use at once: its open slices, what the recording keeps, and some to go on with.
fn least_hit_blocks(resolved: &Resolved<'_>, slices: &thalweg_build::slices::Settings, hits: usize) -> usize {
    let open = (slices.disorder_ps / slices.slice_ps.max(1)) as usize + 2;
    let record = &resolved.configuration.record;
    open + record.event_blocks_held(hits, thalweg_build::slices::HIT_BLOCK_BYTES) + BLOCKS_IN_USE
}

/// Keys that do not belong together.
fn keys(source: &SourceSettings) -> Result<(), String> {
    let head = &source.head;
    if head.workers > 64 {
        return Err(format!(
            "workers = {} is more than the 64 allowed; more than one per core brings nothing",
            head.workers
        ));
    }
    let of_hits = [
        ("workers", head.workers > 0),
        ("disorder_ps", head.disorder_ps.is_some()),
        ("faults", head.faults.is_some()),
        ("loss", head.loss != 0.0),
    ];
    let is_triggered = matches!(source.format, FormatSettings::Triggered(_));
    if is_triggered && let Some((key, _)) = of_hits.iter().find(|(_, set)| *set) {
        return Err(format!("`{key}` is for sources of hits; take it out of this triggered one"));
    }
    let scheme = source.endpoint.url.scheme();
    // In a triggered source with a network address, `thalweg emulate FILE` reads it.
    if source.emulate.is_some() && scheme != "emulate" && !(is_triggered && matches!(scheme, "tcp" | "udp")) {
        return Err(format!(
            "[source.emulate] belongs to an emulate:// URL, and this one is {}",
            source.endpoint.url
        ));
    }
    Ok(())
}

/// Checks that there is such a node, and that memory can be bound to it.
fn node(source: &SourceSettings, machine: &Machine) -> Result<(), String> {
    let Some(wanted) = source.endpoint.numa_node else { return Ok(()) };
    if !machine.nodes.iter().any(|node| node.number == wanted) {
        let nodes: Vec<String> = machine.nodes.iter().map(|node| node.number.to_string()).collect();
        return Err(format!(
            "`numa_node = {wanted}`: this machine has no such node, only {}; take the key out",
            nodes.join(", ")
        ));
    }
    let memory = thalweg_data::Memory { numa_node: Some(wanted), ..thalweg_data::Memory::default() };
    Pool::of(1, 4096, memory).map(drop).map_err(|error| pool_refusal(&error))
}

/// Bytes that come to lie in a block of a triggered source, at least. The end of a block that has no space for the longest message stays empty.
fn filled_bytes(source: &SourceSettings, block_bytes: usize) -> usize {
    match source.gives_streams() {
        true => block_bytes,
        false => block_bytes.saturating_sub(MESSAGE_ROOM_BYTES) + source.endpoint.datagram_bytes as usize,
    }
}

/// Checks that the source has more blocks than the recording keeps.
fn blocks(resolved: &Resolved<'_>, source: &SourceSettings, plan: Option<&LinkPlan>) -> Result<(), String> {
    let record = &resolved.configuration.record;
    let (links, blocks, block_bytes) = match plan {
        Some(plan) => (plan.links, plan.blocks, plan.block_bytes),
        None => {
            let (blocks, block_bytes) = source.endpoint.pool_shape()?;
            (1, blocks, block_bytes)
        }
    };
    let held_by_events = match plan {
        Some(plan) if resolved.keeps(Table::Fragments) => {
            // Links with as many boards as this one has share a batch.
            let links = resolved.source_table.boards.len() / usize::from(plan.boards_per_link.max(1));
            record.event_blocks_held(links, filled_bytes(source, block_bytes))
        }
        _ => 0,
    };
    let held_raw = if resolved.keeps(Table::Raw) { record.raw_blocks_held(block_bytes) } else { 0 };
    let held_by_filter = if plan.is_some() { blocks_of_filter(resolved, links, block_bytes) } else { 0 };
    let held = held_raw + held_by_events + held_by_filter;
    // In a triggered source, one block is being filled, and others wait for fragments of other boards.
    if blocks < held + BLOCKS_IN_USE {
        let needed = (held + BLOCKS_IN_USE) * block_bytes * links;
        let and_filter = if held_by_filter > 0 { " or are in the event filter" } else { "" };
        return Err(format!(
            "memory_bytes gives {blocks} blocks of {block_bytes} B, and {held} wait for the recording{and_filter}; \
             write memory_bytes = {needed} or more, or smaller block_bytes"
        ));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::*;
    use crate::plan::Plan;

    const HITS: &str = "[[source]]\nname = \"left\"\nformat = \"digitizer2\"\nurl = \"emulate://\"\n\
                        [[source]]\nname = \"right\"\nformat = \"digitizer2\"\nurl = \"emulate://\"\nfirst_channel = 64\n";
    const BOARDS: &str =
        "[[source]]\nname = \"camera\"\nformat = \"fragment\"\nurl = \"emulate://\"\nboards = 2\n";

    fn planned(text: &str) -> Result<(), String> {
        let configuration = Configuration::parse(Path::new("run.toml"), text.to_owned())
            .map_err(|error| error.to_string())?;
        Plan::of(&configuration).map(drop).map_err(|error| error.to_string())
    }

    #[track_caller]
    fn refused(text: &str, words: &[&str]) {
        let message = planned(text).expect_err(text);
        for part in words.iter().chain(&["run.toml: line "]) {
            assert!(message.contains(part), "`{part}` in {message}");
        }
    }

    #[test]
    fn alarms_of_sources_that_are_not_there_are_refused_with_those_that_are() {
        let of = |base: &str, quantity: &str, source: &str| {
            format!(
                "{base}[[alarm]]\nname = \"x\"\nquantity = \"{quantity}\"\nabove = 1.0\nsource = \"{source}\"\n"
            )
        };
        let clocks = format!("{HITS}[clocks]\nreference = \"left\"\n");
        let ship = format!("{HITS}[ship]\nto = [\"receive://archive:7070\"]\n");
        for (base, quantity, source, there) in [
            (HITS, "ring_fill", "nope", "no [[source]]; there is \"left\", \"right\"; \"*\" watches each"),
            (BOARDS, "lost", "camera/0", "there is \"camera\""),
            (BOARDS, "completeness", "camera", "no board of events; there is \"camera/0\", \"camera/1\""),
            (HITS, "completeness", "left", "no board of events; there is none"),
            (&clocks, "clock_unlocked", "left", "there is \"right\""),
            (HITS, "clock_unlocked", "left", "`reference` of [clocks]; there is none"),
            (&ship, "ship_silent_s", "archive", "there is \"receive://archive:7070\""),
        ] {
            refused(&of(base, quantity, source), &[&format!("`source = \"{source}\"` is no "), there]);
            assert_eq!(planned(&of(base, quantity, "*")), Ok(()));
        }
        for (base, quantity, source) in [
            (HITS, "ring_fill", "right"),
            (BOARDS, "lost", "camera"),
            (BOARDS, "completeness", "camera/1"),
            (&clocks, "clock_unlocked", "right"),
            (&ship, "ship_silent_s", "receive://archive:7070"),
        ] {
            assert_eq!(planned(&of(base, quantity, source)), Ok(()));
        }
    }

    #[test]
    fn a_trigger_without_triggered_boards_is_refused() {
        for keys in ["rate_hz = 1000.0\n", "triggers = 5\n"] {
            refused(
                &format!("{HITS}[trigger]\n{keys}"),
                &["line 10: [trigger]: ", "[source.emulate]", "take it out"],
            );
            assert_eq!(planned(&format!("{BOARDS}[trigger]\n{keys}")), Ok(()));
        }
        let unit = |name: &str, kind: &str, more: &str| {
            format!("[[unit]]\nname = \"{name}\"\nkind = \"{kind}\"\n{more}\n")
        };
        let units = unit("ru", "readout", "sources = [\"camera\"]\nnode = \"boards\"")
            + &unit("bu", "builder", "node = \"first\"\nlisten = \"tcp://127.0.0.1:7001\"")
            + &unit("evm", "manager", "node = \"first\"\nlisten = \"tcp://127.0.0.1:7000\"");
        let text = format!("{BOARDS}{units}[trigger]\ntriggers = 5\n");
        let mut other_node = Configuration::parse(Path::new("run.toml"), text).expect("valid");
        other_node.node = Some("first".to_owned());
        assert!(Plan::of(&other_node).is_ok(), "its boards are at another node");
        // A register can let a trigger of self-triggered boards through.
        let switch = "[[control]]\nname = \"crate\"\nurl = \"ipbusudp-2.0://127.0.0.1:50001\"\naddress_table = \"crate.xml\"\n\
                      [trigger.enable]\nof = \"crate\"\npath = \"T\"\n";
        assert_eq!(planned(&format!("{HITS}{switch}")), Ok(()));
    }

    #[test]
    fn rules_of_building_without_anything_to_build_are_refused() {
        let build = "[build]\nage_ms = 500\n";
        refused(&format!("{HITS}{build}"), &["line 10: [build]: ", "[slices]", "take it out"]);
        assert_eq!(planned(&format!("{BOARDS}{build}")), Ok(()));
        assert_eq!(planned(&format!("{HITS}[slices]\n{build}")), Ok(()));
    }

    #[test]
    fn time_order_that_does_not_hold_a_batch_of_each_source_is_refused() {
        let of = |sources: &str, bytes: u64| format!("{sources}[order]\nmemory_bytes = {bytes}\n");
        refused(&of(HITS, 10), &["`memory_bytes = 10`", "write 1048576 or more"]);
        refused(&of(HITS, 1_048_575), &["write 1048576 or more"]);
        assert_eq!(planned(&of(HITS, 1_048_576)), Ok(()));
        assert_eq!(planned(&of(BOARDS, 10)), Ok(()), "there are no hits to be ordered");
    }

    #[test]
    fn an_unknown_key_of_a_triggered_source_is_refused_with_the_keys_that_it_may_have() {
        let message = planned(&format!("{BOARDS}fault = 1\n")).expect_err("unknown");
        let (allowed, of_hits) = message.split_once("; in a source of hits also ").expect("both");
        assert!(allowed.contains("memory_bytes") && !allowed.contains("faults"), "{message}");
        assert!(of_hits.contains("workers, reader, disorder_ps, faults, loss"), "{message}");
    }
}
