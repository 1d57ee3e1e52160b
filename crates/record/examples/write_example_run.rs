//! `cargo run -p thalweg-record --example write_example_run DIRECTORY [none|lz4|zstd]`: a small run of every table, for
//! trying other programs on. Prints the run's directory.

use std::error::Error;

use thalweg_data::hit::Layout;
use thalweg_data::{
    Closing, Counters, Event, EventSink, Events, Extra, Flags, Fragment, Frames, Hit, HitEvent, HitEvents,
    Hits, Ledger, Mark, Pool, Sink, SourceId, Stage, Statistics, Unit,
};
use thalweg_record::{
    CoincidenceWriter, Compression, EventWriter, HitWriter, RawSource, RawWriter, RunDirectory, RunRecord,
    RunRecordState, Settings, Table,
};

/// Events of the example, and boards that answer to them.
const EVENTS: u64 = 1000;
const BOARDS: u16 = 4;

fn main() -> Result<(), Box<dyn Error>> {
    let mut arguments = std::env::args().skip(1);
    let directory = arguments.next().ok_or("where to? give a directory")?;
    let compression = match arguments.next().as_deref() {
        Some("lz4") => Compression::Lz4,
        Some("zstd") => Compression::Zstd,
        _ => Compression::None,
    };
    let settings = Settings { compression, batch_hits: 5000, batch_bytes: 256 * 1024, ..Settings::default() };
    let boards = (1..=BOARDS).map(|board| format!("board {board}"));
    let names = std::iter::once("left".to_owned()).chain(boards);
    let sources: Vec<String> = names.chain(["coincidences".to_owned()]).collect();
    let run = RunDirectory::create(directory.as_ref(), "example")?;
    let mut record = RunRecord::start(&run, "example", "# an example\n", &sources);
    record.write(&run)?;
    let ledger = Ledger::create(Some(&run.ledger()), &sources)?;
    let (mut hits, mut raw) = writers(&run, &settings, &sources)?;
    let pool = Pool::new(8, 1 << 20)?;
    for turn in 0..20 {
        let mark = Mark(turn * 1_000_000);
        hits.write(&some_hits(&pool, turn as usize * 1000, mark)?)?;
        raw.write(&some_frames(&pool, turn, mark)?)?;
    }
    hits.finish()?;
    raw.finish()?;
    ledger.open(Stage::Raw, SourceId(0), &[Unit::Bytes, Unit::Datagrams]).publish(raw.counters(SourceId(0)));
    let events = write_events(&run, &settings, &sources)?;
    for source in (0..=BOARDS).map(SourceId) {
        let slot =
            ledger.open(Stage::Record, source, &[Unit::Hits, Unit::Fragments, Unit::Bytes, Unit::Events]);
        let mut counters = hits.counters(source).clone();
        counters.add_all(events.source_counters(source));
        if source == SourceId(0) {
            counters.add_all(events.counters());
        }
        slot.publish(&counters);
    }
    let coincidences = write_coincidences(&run, &settings, &sources)?;
    publish_coincidences(&ledger, SourceId(BOARDS + 1), coincidences.counters());
    let mut tables = hits.summaries();
    tables.extend([raw.summaries(), events.summaries(), coincidences.summaries()].into_iter().flatten());
    record.documents.push(run.write_spectra(b"{}\n")?);
    record.stop(RunRecordState::Stopped, tables, Some(&ledger.snapshot()));
    record.write(&run)?;
    println!("{}", run.path().display());
    Ok(())
}

fn writers(
    run: &RunDirectory,
    settings: &Settings,
    sources: &[String],
) -> Result<(HitWriter, RawWriter), Box<dyn Error>> {
    let source = RawSource { source: 0, name: "left".to_owned(), stream: false, block_bytes: 1 << 20 };
    let hits = HitWriter::create(run.path(), settings, sources)?;
    Ok((hits, RawWriter::create(&run.table(Table::Raw), settings, &[source])?))
}

/// Events of four boards; the third does not answer to every tenth.
fn write_events(
    run: &RunDirectory,
    settings: &Settings,
    sources: &[String],
) -> Result<EventWriter, Box<dyn Error>> {
    let mut writer = EventWriter::create(&run.events_of(None), settings, sources, true)?;
    let pool = Pool::new(64, 1 << 16)?;
    for first in (0..EVENTS).step_by(50) {
        let mut batch = Events::default();
        batch.header.mark = Mark(first * 1_000_000);
        let mut block = pool.take().ok_or("no block is free")?;
        for trigger in first..first + 50 {
            let partial = trigger % 10 == 9;
            let mut event = Event {
                trigger,
                first_arrival: Mark(trigger * 1_000_000),
                closed: Mark(trigger * 1_000_000 + 250_000),
                first_fragment: batch.fragments.len() as u32,
                first_missing: batch.missing.len() as u32,
                closing: if partial { Closing::Age } else { Closing::Complete },
                ..Event::default()
            };
            for source in (1..=BOARDS).map(SourceId) {
                if partial && source.0 == 3 {
                    batch.missing.push(source);
                    event.missing += 1;
                    continue;
                }
                let bytes = u32::from(source.0) * 8 + (trigger % 100) as u32;
                let payload: Vec<u8> = (0..bytes).map(|place| (place + trigger as u32) as u8).collect();
                batch.slices.push(block.append(&payload).ok_or("a block has no room")?);
                batch.fragments.push(Fragment { trigger, ticks: trigger * 125, bytes, source, slices: 1 });
                event.fragments += 1;
                event.bytes += u64::from(bytes);
            }
            batch.events.push(event);
        }
        batch.leases.add(block.lease());
        writer.write(&batch)?;
    }
    writer.finish()?;
    Ok(writer)
}

/// Events of hits of channels 0, 1 and 2, the first of which is the reference; the third answers to every fifth.
fn write_coincidences(
    run: &RunDirectory,
    settings: &Settings,
    sources: &[String],
) -> Result<CoincidenceWriter, Box<dyn Error>> {
    let mut writer = CoincidenceWriter::create(run.path(), settings, sources)?;
    for first in (0..EVENTS).step_by(50) {
        let mut batch = HitEvents::default();
        for number in first..first + 50 {
            let (time_ps, count) = (number as i64 * 1_000_000, if number % 5 == 0 { 3 } else { 2 });
            let (start, multiplicity) = (batch.members.len() as u32, count as u16);
            batch.members.extend((0..count as u16).map(|channel| {
                // Channel 1 answers 300 ps before the reference, channel 2 behind it.
                let dt_ps = [0, -300, 7000][usize::from(channel)];
                let energy = 100 * (channel + 1) + (number % 50) as u16;
                let flags = if channel == 1 { Flags::NO_ENERGY_SHORT } else { Flags::FINE_TIME };
                Hit { time_ps: time_ps + dt_ps, channel, energy, energy_short: 0, flags }
            }));
            batch.members[start as usize..].sort_by_key(|hit| hit.time_ps);
            let event = HitEvent { number, time_ps, first: start, count, multiplicity, reference: 1 };
            batch.events.push(event);
        }
        writer.advance(Mark(first * 1_000_000))?;
        writer.write(&batch)?;
    }
    writer.finish()?;
    Ok(writer)
}

/// The counters of events of hits: made, kept by the cuts, recorded.
fn publish_coincidences(ledger: &Ledger, slot: SourceId, recorded: &Counters) {
    let mut passed = Counters::default();
    passed.input(Unit::Events, recorded.total_input(Unit::Events));
    passed.output(Unit::Events, recorded.total_input(Unit::Events));
    ledger.open(Stage::Coincide, slot, &[Unit::Events]).publish(&passed);
    ledger.open(Stage::Cut, slot, &[Unit::Events]).publish(&passed);
    ledger.open(Stage::Record, slot, &[Unit::Events]).publish(recorded);
}

fn some_hits(pool: &Pool, first: usize, mark: Mark) -> Result<Hits, Box<dyn Error>> {
    let mut batch = Hits::default();
    batch.header.mark = mark;
    let mut block = pool.take().ok_or("no block is free")?;
    for index in first..first + 1000 {
        let flags = match index % 10 {
            0 => Flags::EXTRA,
            4 => Flags::NO_ENERGY | Flags::NO_ENERGY_SHORT,
            _ => Flags::FINE_TIME,
        };
        let (channel, energy) = ((index % 16) as u16, (index * 13) as u16);
        let hit = Hit { time_ps: index as i64 * 1000, channel, energy, energy_short: energy / 2, flags };
        batch.hits.push(hit);
        if flags.has(Flags::EXTRA) {
            let samples: Vec<u8> =
                (0..40).flat_map(|k| (index as u16).wrapping_add(k * k).to_le_bytes()).collect();
            let samples_first = batch.slices.len() as u32;
            batch.slices.extend(block.append(&samples));
            batch.slices.extend(block.append(&(index as u64).to_be_bytes()));
            batch.extras.push(Extra {
                layout: Layout::Plain,
                samples_first,
                samples_count: 1,
                words_first: samples_first + 1,
                words_count: 1,
                ..Extra::of(&hit, SourceId(0))
            });
        }
    }
    batch.leases.add(block.lease());
    let counter = first as u64 + 1000;
    let (real_time_ps, dead_time_ps) = (counter as i64 * 1000, 7);
    let (source, channel) = (SourceId(0), 1);
    batch.statistics.push(Statistics {
        source,
        channel,
        real_time_ps,
        dead_time_ps,
        triggers: counter,
        saved: counter,
        ..Statistics::default()
    });
    Ok(batch)
}

fn some_frames(pool: &Pool, turn: u64, mark: Mark) -> Result<Frames, Box<dyn Error>> {
    let mut frames = Frames::default();
    frames.header.mark = mark;
    let mut block = pool.take().ok_or("no block is free")?;
    for length in [0, 5, 12, 13, 300, 9000].into_iter().take(turn as usize % 7) {
        let bytes: Vec<u8> = (0..length).map(|index| (index * 7 + turn as usize) as u8).collect();
        frames.slices.extend(block.append(&bytes));
        block.align(512);
    }
    frames.leases.add(block.lease());
    Ok(frames)
}
