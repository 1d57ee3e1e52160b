//! `cargo run -p thalweg-record --example write_example_run DIRECTORY [none|lz4|zstd]`: a small run of every table, for
//! trying other programs on. Prints the run's directory.

use std::error::Error;

use thalweg_data::hit::Layout;
use thalweg_data::{
    Extra, Flags, Frames, Hit, Hits, Ledger, Mark, Pool, Sink, SourceId, Stage, Statistics, Unit,
};
use thalweg_record::{
    Compression, HitWriter, RawSource, RawWriter, RunDirectory, RunRecord, RunRecordState, Settings, Table,
};

fn main() -> Result<(), Box<dyn Error>> {
    let mut arguments = std::env::args().skip(1);
    let directory = arguments.next().ok_or("where to? give a directory")?;
    let compression = match arguments.next().as_deref() {
        Some("lz4") => Compression::Lz4,
        Some("zstd") => Compression::Zstd,
        _ => Compression::None,
    };
    let settings = Settings { compression, batch_hits: 5000, ..Settings::default() };
    let sources = ["left".to_owned()];
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
    ledger.open(Stage::Record, SourceId(0), &[Unit::Hits]).publish(hits.tally(SourceId(0)));
    ledger.open(Stage::Raw, SourceId(0), &[Unit::Bytes, Unit::Datagrams]).publish(raw.tally(SourceId(0)));
    let tables = hits.summaries().into_iter().chain(raw.summaries()).collect();
    record.stop(RunRecordState::Stopped, tables, Some(&ledger.books()));
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
