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
use thalweg_monitor::alarm::Alarms;
use thalweg_readout::links::LinkPlan;
use thalweg_readout::pool_refusal;
use thalweg_record::Table;
use thalweg_transport::placement::Machine;
use thalweg_transport::udp::MESSAGE_ROOM_BYTES;

use super::Resolved;
use super::capacity::EVENT_BATCH_BYTES;
use super::leading::followed;
use crate::config::{ChannelRange, ConfigError, Configuration, SourceSettings, check_slow_control};

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
    hits(resolved)?;
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

/// Checks that there are hits, if anything is to be done with them.
pub(super) fn hits(resolved: &Resolved<'_>) -> Result<(), ConfigError> {
    match !resolved.has_hits() && crate::processing::asks_for_anything(resolved.configuration) {
        true => Err(resolved.configuration.invalid(
            "channels, clocks, cuts, coincidences and spectra are of hits, and no source gives any",
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
    let ((blocks, block_bytes), scheme) = (endpoint.pool_shape(), endpoint.url.scheme());
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
            let (blocks, block_bytes) = source.endpoint.pool_shape();
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
