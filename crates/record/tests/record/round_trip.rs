//! What is written is what is read: by our reader, and by the arrow crate's own.

use std::fs;

use crate::example_run;
use crate::example_run::{batch, folder, hit, sample, sources, stock_read, stock_rows, user_word, write_run};
use arrow_array::cast::AsArray;
use arrow_array::types::{Int64Type, UInt16Type, UInt64Type};
use arrow_array::{Array, RecordBatch};
use thalweg_data::hit::Layout;
use thalweg_data::record_join::append_joined;
use thalweg_data::waveform_facts::{SampleRange, WaveformFacts};
use thalweg_data::{Extra, Flags, Hit, Hits, Mark, Pool, Signal, Sink, SourceId};
use thalweg_record::read::{HitsReader, TableReader, WaveformsReader};
use thalweg_record::{
    Compression, HitWriter, HitsFile, RunDirectory, RunRecord, Settings, Sync, Table, check, inspect, verify,
};

const HITS: usize = 5000;

fn every_compression() -> impl Iterator<Item = Settings> {
    [Compression::None, Compression::Lz4, Compression::Zstd].into_iter().map(|compression| Settings {
        compression,
        batch_hits: 700,
        sync: Sync::Batch,
        ..Settings::default()
    })
}

#[test]
fn hits_come_back_as_they_were() {
    for settings in every_compression() {
        let folder = folder();
        let run = write_run(folder.path(), &settings, HITS, 160);
        let hits = HitsReader::open(&run.table(Table::Hits)).expect("opens").read_all().expect("whole");
        assert_eq!(hits, (0..HITS).map(hit).collect::<Vec<_>>());
        let report = verify(run.path()).expect("a run");
        assert!(report.ok, "{:?}", report.problems);
        assert_eq!((report.hits, report.extras_missing), (HITS as u64, 0));
        assert!(report.ledger.closed && report.ledger.hits_recorded == Some(HITS as u64));
        for table in [Table::Hits, Table::Extras, Table::Waveforms, Table::Statistics] {
            let bytes = std::fs::read(run.table(table)).expect("a file");
            assert_eq!(check(&bytes).expect("whole").table, table);
        }
    }
}

#[test]
fn waveforms_and_extras_without_a_table_of_hits_are_whole() {
    for tables in [vec![Table::Waveforms], vec![Table::Extras, Table::Waveforms, Table::Raw]] {
        let folder = folder();
        let run =
            write_run(folder.path(), &Settings { tables, batch_hits: 700, ..Settings::default() }, HITS, 160);
        let report = verify(run.path()).expect("a run");
        assert!(report.ok, "{:?}", report.problems);
        assert_eq!((report.extras_unpaired, report.extras_missing), (0, 0));
        let waveforms = report.tables.iter().find(|found| found.table == Table::Waveforms).expect("a table");
        assert!(waveforms.rows > 0);
    }
}

#[test]
fn the_checksum_of_a_whole_file_is_known_without_reading_it_again() {
    for settings in every_compression() {
        let folder = folder();
        let run = write_run(folder.path(), &settings, HITS, 160);
        let record = RunRecord::read(&run.run_record()).expect("a record");
        assert!(record.tables.iter().any(|table| table.batches > 1), "{:?}", record.tables);
        for table in &record.tables {
            let bytes = std::fs::read(run.path().join(&table.file)).expect("a file");
            assert_eq!(table.bytes, bytes.len() as u64);
            assert_eq!(
                table.crc32c,
                [format!("{:08x}", thalweg_data::checksum::of(&bytes))],
                "{}",
                table.file
            );
        }
    }
}

#[test]
fn a_stock_reader_sees_the_same_hits_and_nulls() {
    for settings in every_compression() {
        let folder = folder();
        let run = write_run(folder.path(), &settings, HITS, 160);
        let batches = stock_read(&run.table(Table::Hits)).expect("a stock reader reads it");
        assert_eq!(batches.iter().map(RecordBatch::num_rows).sum::<usize>(), HITS);
        let mut index = 0;
        for batch in &batches {
            let column = |name: &str| batch.column_by_name(name).expect("a column");
            let (time_ps, channel) = (
                column("time_ps").as_primitive::<Int64Type>(),
                column("channel").as_primitive::<UInt16Type>(),
            );
            let energy = column("energy").as_primitive::<UInt16Type>();
            let flags = column("flags").as_primitive::<UInt16Type>();
            for row in 0..batch.num_rows() {
                let hit = hit(index);
                assert_eq!(time_ps.value(row), hit.time_ps);
                assert_eq!(channel.value(row), hit.channel);
                assert_eq!(energy.is_null(row), hit.flags.has(Flags::NO_ENERGY));
                assert!(energy.is_null(row) || energy.value(row) == hit.energy);
                assert_eq!(flags.value(row), hit.flags.0);
                index += 1;
            }
        }
    }
}

#[test]
fn waveforms_and_user_words_meet_their_hits() {
    for settings in every_compression() {
        let folder = folder();
        let run = write_run(folder.path(), &settings, HITS, 160);
        let mut rows = 0;
        for batch in stock_read(&run.table(Table::Waveforms)).expect("a stock reader reads it") {
            let hits = batch.column_by_name("hit").expect("a column").as_primitive::<UInt64Type>();
            let analog = batch.column_by_name("analog_1").expect("a column").as_list::<i32>();
            for row in 0..batch.num_rows() {
                let index = hits.value(row) as usize;
                let samples = analog.value(row);
                let samples =
                    samples.as_primitive::<UInt16Type>().values().iter().map(|sample| i32::from(*sample));
                assert_eq!(
                    samples.collect::<Vec<_>>(),
                    (0..index % 7 * 4).map(|k| sample(index, k)).collect::<Vec<_>>()
                );
                rows += 1;
            }
        }
        assert_eq!(rows, HITS / 10);
        for batch in stock_read(&run.table(Table::Extras)).expect("a stock reader reads it") {
            let hits = batch.column_by_name("hit").expect("a column").as_primitive::<UInt64Type>();
            let words = batch.column_by_name("words").expect("a column").as_list::<i32>();
            let truncated = batch.column_by_name("truncated").expect("a column").as_boolean();
            for row in 0..batch.num_rows() {
                let index = hits.value(row) as usize;
                assert_eq!(
                    words.value(row).as_primitive::<UInt64Type>().values().to_vec(),
                    [user_word(index)]
                );
                assert_eq!(truncated.value(row), index.is_multiple_of(20));
            }
        }
        assert_eq!(stock_rows(&run.table(Table::Statistics)), HITS.div_ceil(160));
    }
}

/// Words of two probes whose samples are 1, 2, 3 and 4 times `step`, with no digital signal.
fn dual_probe(step: u64) -> Vec<u8> {
    let sample = |k: u64| ((k * step) & 0x3FFF) * 0x1_0001;
    [sample(1) | sample(2) << 32, sample(3) | sample(4) << 32].map(u64::to_be_bytes).concat()
}

#[test]
fn samples_are_as_narrow_as_their_signal_allows_and_say_when_and_what_they_are() {
    let folder = folder();
    let run = RunDirectory::create(folder.path(), "narrow").expect("made");
    let psd = WaveformFacts {
        samples: SampleRange::Scaled14,
        sample_ps: Some(2000.0),
        samples_before_trigger: Some(10),
        analog_probes: &["adc_input", "baseline", "cfd"],
        digital_probes: &["trigger", "time_filter_armed"],
        ..WaveformFacts::default()
    };
    let scope = WaveformFacts { samples: SampleRange::Unsigned16, analog_probes: &["adc_input"], ..psd };
    let mut writer =
        HitWriter::create_of(run.path(), &Settings::default(), &sources(), &[psd, scope]).expect("made");
    let (pool, mut hits) = (Pool::new(2, 4096).expect("small"), Hits::default());
    let mut block = pool.take().expect("free");
    let signed = 1 << 3;
    // Signal 1 is the input with its sign; signal 2 is the CFD times 8. Digital: time filter, trigger, 2, 3; every second sample.
    let halved = signed | (2 | 2 << 4) << 6 | 0x3201 << 12 | 1 << 44;
    for (source, layout, info, bytes) in [
        (0, Layout::DualProbe, signed, dual_probe(0x3FFF)),
        (0, Layout::DualProbe, halved, dual_probe(0x0F00)),
        (1, Layout::Packed, 0, [0xFFFF_8000_0001_0000_u64.to_be_bytes()].concat()),
    ] {
        let hit = Hit { flags: Flags::EXTRA, ..Hit::default() };
        let first = hits.slices.len() as u32;
        hits.slices.push(block.append(&bytes).expect("space"));
        let extra = Extra::of(&hit, SourceId(source));
        hits.hits.push(hit);
        hits.extras.push(Extra { layout, info, samples_first: first, samples_count: 1, ..extra });
    }
    hits.leases.add(block.lease());
    writer.write(&hits).expect("written");
    writer.finish().expect("written");
    let batches = stock_read(&run.table(Table::Waveforms)).expect("a stock reader reads it");
    let column = |name: &str| batches[0].column_by_name(name).expect("a column").clone();
    let lists = |name: &str| {
        let column = column(name);
        let lists = column.as_list::<i32>();
        (format!("{:?}", lists.value_type()), (0..3).map(|row| lists.value(row).len()).collect::<Vec<_>>())
    };
    assert_eq!(lists("analog_1"), ("Int16".to_owned(), vec![4, 4, 0]));
    assert_eq!(lists("analog_2"), ("Int16".to_owned(), vec![4, 0, 0]));
    assert_eq!(lists("analog_1_wide"), ("Int32".to_owned(), vec![0, 0, 4]), "16 bits without a sign");
    assert_eq!(lists("analog_2_wide"), ("Int32".to_owned(), vec![0, 4, 0]));
    let (mut reader, mut found) =
        (WaveformsReader::open(&run.table(Table::Waveforms)).expect("a table"), vec![]);
    assert!(reader.next_batch(&mut found).expect("whole"));
    assert_eq!(found[0].analog, [vec![-1, -2, -3, -4], vec![0x3FFF, 0x3FFE, 0x3FFD, 0x3FFC]]);
    let factor = |factor: i32| (1..5).map(|k| (k * 0x0F00) % 0x4000 * factor).collect::<Vec<_>>();
    assert_eq!(found[1].analog[1], factor(8));
    assert_eq!(found[2].analog, [vec![0, 1, 0x8000, 0xFFFF], vec![]]);
    let period: Vec<_> = found.iter().map(|row| (row.sample_ps, row.first_sample_ps)).collect();
    assert_eq!(period, [(Some(2000.0), Some(-20_000)), (Some(4000.0), None), (None, None)]);
    let names = |row: usize| found[row].analog_names.each_ref().map(|name| name.as_deref());
    assert_eq!((names(0), names(1)), ([Some("adc_input"); 2], [Some("adc_input"), Some("cfd")]));
    assert_eq!(names(2), [Some("adc_input"), None]);
    let digital = found[1].digital_names.each_ref().map(|name| name.as_deref());
    assert_eq!(digital, [Some("time_filter_armed"), Some("trigger"), None, None]);
}

/// A scope event of two channels: `samples` samples from sample `start` on, each with its own number, of which the board claims to have
/// sent `claimed` before.
fn scope_event(
    hits: &mut Hits,
    block: &mut thalweg_data::BlockWriter,
    start: u64,
    samples: u64,
    claimed: u32,
) {
    let word = |at: u64| (0..4).fold(0, |word, k| word | ((at + k) & 0xFFFF) << (16 * k));
    let words = (start..start + samples).step_by(4).flat_map(|at| [word(at), word(at + 1000)]);
    let bytes: Vec<u8> = words.flat_map(u64::to_be_bytes).collect();
    let samples_first = hits.slices.len() as u32;
    hits.slices.push(block.append(&bytes).expect("space"));
    for channel in 0..2 {
        let hit = Hit { time_ps: start as i64 * 8000, channel, flags: Flags::EXTRA, ..Hit::default() };
        let info = 2 << 16 | u64::from(channel);
        let extra = Extra { layout: Layout::Interleaved, info, ..Extra::of(&hit, SourceId(0)) };
        hits.extras.push(Extra { samples_first, samples_count: 1, raw_flags: claimed << 13, ..extra });
        hits.hits.push(hit);
    }
}

#[test]
fn scope_records_that_touch_or_overlap_are_one_continuous_record_per_channel() {
    let folder = folder();
    let run = RunDirectory::create(folder.path(), "scope").expect("made");
    let facts = WaveformFacts {
        samples: SampleRange::Unsigned16,
        sample_ps: Some(8000.0),
        decimation: Some(1),
        ..WaveformFacts::default()
    };
    let mut writer =
        HitWriter::create_of(run.path(), &Settings::default(), &sources(), &[facts]).expect("made");
    let pool = Pool::new(2, 1 << 16).expect("small");
    // Touching, overlapping by 4 in the next batch, behind a gap, and with an overlap of more than it holds.
    for events in [&[(0, 16, 0), (16, 8, 0)][..], &[(20, 16, 4), (40, 8, 0), (44, 4, 7)]] {
        let (mut hits, mut block) = (Hits::default(), pool.take().expect("free"));
        events.iter().for_each(|(start, samples, claimed)| {
            scope_event(&mut hits, &mut block, *start, *samples, *claimed)
        });
        hits.leases.add(block.lease());
        writer.write(&hits).expect("written");
        // A batch in which a board only says something of itself takes no record away.
        let mut said = Hits::default();
        said.signals.push((SourceId(0), Signal::Stop { time_ps: 0, dead_time_counts: 0 }));
        writer.write(&said).expect("written");
    }
    writer.finish().expect("written");
    let counts = writer.joins();
    assert_eq!((counts.joined, counts.samples_overlapped, counts.refused), (4, 8, 2));
    let mut reader = WaveformsReader::open(&run.table(Table::Waveforms)).expect("a table");
    let (mut rows, mut records) = (Vec::new(), [const { Vec::<Vec<i32>>::new() }; 2]);
    while reader.next_batch(&mut rows).expect("whole") {
        for row in &rows {
            let records = &mut records[usize::from(row.channel)];
            if row.overlapped.is_none() {
                records.push(Vec::new());
            }
            let last = records.last_mut().expect("one has begun");
            append_joined(last, &row.analog[0], row.overlapped.unwrap_or(0));
        }
    }
    for (channel, records) in records.iter().enumerate() {
        let numbers = |range: std::ops::Range<i32>| {
            range.map(|sample| sample + 1000 * channel as i32).collect::<Vec<_>>()
        };
        assert_eq!(*records, [numbers(0..36), numbers(40..48), numbers(44..48)], "channel {channel}");
    }
}

#[test]
fn an_open_file_is_a_whole_stream_at_every_moment() {
    let folder = folder();
    let settings = Settings { batch_hits: 100, ..Settings::default() };
    let mut writer = HitWriter::create(folder.path(), &settings, &sources()).expect("made");
    let pool = Pool::new(2, 1 << 20).expect("small");
    for start in (0..2000).step_by(50) {
        writer.write(&batch(&pool, start..start + 50, Mark(0))).expect("written");
        let rows = stock_rows(&folder.path().join("hits.arrows"));
        assert_eq!(rows as u64, writer.hits_on_file());
        assert_eq!(rows, (start + 50) / 100 * 100);
        assert!(stock_rows(&folder.path().join("waveforms.arrows")) <= rows);
    }
    // Dropped as by a panic, without `finish`: what is on file stays whole.
    drop(writer);
    assert_eq!(stock_rows(&folder.path().join("hits.arrows")), 2000);
}

#[test]
fn a_reader_of_a_growing_file_reads_what_was_whole_when_it_was_opened() {
    let folder = folder();
    let settings = Settings { batch_hits: 20, ..Settings::default() };
    let path = write_run(folder.path(), &settings, 60, 20).table(Table::Hits);
    let (whole, mut reader) = (fs::read(&path).expect("a file"), TableReader::open(&path).expect("opens"));
    let ends: Vec<usize> =
        std::iter::from_fn(|| Some(reader.next_batch().expect("whole")?.end() as usize)).collect();
    let marker = whole[ends[2]..].to_vec();
    for length in ends[0] + marker.len()..whole.len() {
        // Of the first end that was written whole, and of a part of what is being written behind it.
        let end = if length < ends[1] + marker.len() { ends[0] } else { ends[1] };
        let mut then = whole[..length].to_vec();
        then[end..end + marker.len()].copy_from_slice(&marker);
        fs::write(&path, &then).expect("written");
        let reader = HitsReader::open(&path).expect("opens");
        fs::write(&path, &whole).expect("written");
        let hits = reader.read_all().unwrap_or_else(|error| panic!("{length} bytes: {error}"));
        let least = if end == ends[0] { 20 } else { 40 };
        assert!(hits.len() >= least && hits.len().is_multiple_of(20), "{length} bytes: {} hits", hits.len());
    }
    fs::write(&path, &whole[..ends[1] + marker.len()]).expect("cut behind the prefix of a batch");
    HitsReader::open(&path).expect("opens").read_all().expect_err("it does not grow");
}

#[test]
fn verify_calls_nothing_damaged_that_a_run_is_writing() {
    let folder = folder();
    let settings = Settings { batch_hits: 20, ..Settings::default() };
    let run = write_run(folder.path(), &settings, 60, 20);
    RunRecord::start(&run, "example", "", &sources()).write(&run).expect("written");
    let end = TableReader::open(&run.table(Table::Hits)).and_then(|mut reader| reader.next_batch());
    let end = end.expect("opens").expect("a batch").end() as usize;
    let whole = fs::read(run.table(Table::Hits)).expect("a file");
    let marker = &whole[whole.len() - 8..];
    let half_a_batch = &whole[end + marker.len()..][..100];
    fs::write(run.table(Table::Hits), [&whole[..end], marker, half_a_batch].concat()).expect("written");
    let report = verify(run.path()).expect("a run");
    let [problem] = &report.problems[..] else { panic!("{:?}", report.problems) };
    assert!(problem.contains("is being written"), "{problem}");
    assert_eq!(report.hits, 20);
}

/// Lets time pass until so many hits are on file; compressing threads take their own.
fn advance_until(writer: &mut HitWriter, from: Mark, hits: u64) {
    let mut mark = from;
    while writer.hits_on_file() < hits {
        writer.advance(mark).expect("written");
        mark.0 += 1;
    }
}

#[test]
fn age_writes_a_batch_and_the_counters_say_where_each_hit_is() {
    let folder = folder();
    for compression in [Compression::None, Compression::Lz4] {
        let settings = Settings { compression, ..Settings::default() };
        let run = RunDirectory::create(folder.path(), "age").expect("made");
        let mut writer = HitWriter::create(run.path(), &settings, &sources()).expect("made");
        let pool = Pool::new(2, 1 << 20).expect("small");
        writer.write(&batch(&pool, 0..30, Mark(5))).expect("written");
        assert_eq!(example_run::slot(writer.counters(SourceId(0))), [20, 0, 20, 0]);
        assert_eq!(example_run::slot(writer.counters(SourceId(1))), [10, 0, 10, 0]);
        // The first batch is written early, the next ones at their full age.
        writer.advance(Mark(20_000_004)).expect("written");
        assert_eq!(writer.hits_on_file(), 0);
        advance_until(&mut writer, Mark(20_000_005), 30);
        assert_eq!(example_run::slot(writer.counters(SourceId(0))), [20, 20, 0, 0]);
        writer.write(&batch(&pool, 30..60, Mark(30_000_000))).expect("written");
        writer.advance(Mark(1_029_999_999)).expect("written");
        assert_eq!(writer.hits_on_file(), 30);
        assert_eq!(example_run::slot(writer.counters(SourceId(1))), [20, 10, 10, 0]);
        advance_until(&mut writer, Mark(1_030_000_000), 60);
        writer.finish().expect("written");
        assert_eq!(example_run::slot(writer.counters(SourceId(1))), [20, 20, 0, 0]);
    }
}

#[test]
fn a_batch_has_the_same_hits_whether_or_not_the_clock_was_looked_at_while_nothing_came() {
    let folder = folder();
    let pool = Pool::new(2, 1 << 20).expect("small");
    let settings = Settings { batch_age_s: 0.1, ..Settings::default() };
    let files = [true, false].map(|looks| {
        let run = RunDirectory::create(folder.path(), "aged").expect("made");
        let mut writer = HitWriter::create(run.path(), &settings, &sources()).expect("made");
        for (number, ms) in [0_u64, 15, 60, 90, 130, 190, 400, 410, 520].into_iter().enumerate() {
            let mark = Mark(1 + ms * 1_000_000);
            let hits = batch(&pool, number * 10..number * 10 + 10, mark);
            writer.write(&hits).expect("written");
            // A replay knows the times at which something came, and no others.
            for idle in (1..100).filter(|_| looks) {
                let until = [15, 60, 90, 130, 190, 400, 410, 520, 600][number] * 1_000_000;
                let idle = Mark(mark.0 + idle * 1_000_000);
                writer.advance(Mark(idle.0.min(until))).expect("written");
            }
        }
        writer.finish().expect("written");
        std::fs::read(run.table(Table::Hits)).expect("there")
    });
    assert!(files[0] == files[1], "the same bytes");
}

#[test]
fn a_file_of_hits_alone() {
    let folder = folder();
    let path = folder.path().join("truth.arrows");
    let hits: Vec<Hit> = (0..300_000).map(hit).collect();
    let mut file = HitsFile::create(&path, Compression::None, &[("title", "truth")]).expect("made");
    hits.chunks(777).for_each(|chunk| file.write(chunk).expect("written"));
    assert_eq!(file.finish().expect("written").rows, 300_000);
    assert_eq!(HitsReader::open(&path).expect("opens").read_all().expect("whole"), hits);
    assert_eq!(stock_rows(&path), 300_000);
    assert!(HitsFile::create(&path, Compression::None, &[]).is_err(), "nothing is written over");
}

#[test]
fn inspection_counts_what_is_there() {
    let folder = folder();
    let run = write_run(folder.path(), &Settings::default(), HITS, 500);
    let found = inspect(run.path(), 3).expect("readable");
    assert_eq!((found.hits, found.first_hits.len(), found.channels.len()), (HITS as u64, 3, 33));
    assert_eq!(found.first_time_ps, Some(-5000));
    assert_eq!(found.flags["extra"], 500);
    assert_eq!(found.ledger_closed, Some(true));
    assert!((found.rate_hz - 1e9).abs() < 1e6, "{}", found.rate_hz);
    assert!(serde_json::to_string(&found).is_ok());
}

#[test]
fn hits_out_of_order_are_found_unless_marked_as_late() {
    let folder = folder();
    let run = RunDirectory::create(folder.path(), "late").expect("made");
    let mut file = HitsFile::create(&run.table(Table::Hits), Compression::None, &[]).expect("made");
    let at = |time_ps, flags| Hit { time_ps, flags, ..Hit::default() };
    file.write(&[at(5, Flags::NONE), at(3, Flags::LATE), at(6, Flags::NONE)]).expect("written");
    file.write(&[at(4, Flags::NONE)]).expect("written");
    file.finish().expect("written");
    let report = verify(run.path()).expect("a run");
    assert_eq!((report.hits_late, report.hits_out_of_order), (1, 1));
}
