//! Hits that pass the cuts are recorded as a plain filter would have it, with what belongs to them, and the ledger balances.

use crate::example_run::{batch, folder, sources, stock_read, waveforms, write_run};
use arrow_array::RecordBatch;
use proptest::prelude::*;
use thalweg_data::batch::Share;
use thalweg_data::{Counters, Flags, Hits, Ledger, Mark, Pool, Sink, SourceId, Stage, Unit};
use thalweg_record::read::HitsReader;
use thalweg_record::{
    HitWriter, RecordedHits, RunDirectory, RunRecord, RunRecordState, Settings, Table, verify,
};

/// Channels 0 to 16 are of the left board.
fn source_of(channel: u16) -> SourceId {
    SourceId(u16::from(channel > 16))
}

fn shares_of(hits: &Hits) -> Vec<Share> {
    let count = |source| hits.hits.iter().filter(|hit| source_of(hit.channel) == source).count() as u32;
    [0, 1].map(|source| Share { source: SourceId(source), hits: count(SourceId(source)) }).to_vec()
}

/// The batch without the hits that do not pass, one after the other.
fn filtered(mut hits: Hits, pass: &[u8]) -> Hits {
    let owners: Vec<usize> =
        (0..hits.hits.len()).filter(|place| hits.hits[*place].flags.has(Flags::EXTRA)).collect();
    let extras =
        owners.iter().zip(&hits.extras).filter(|(place, _)| pass[**place] != 0).map(|(_, extra)| *extra);
    hits.extras = extras.collect();
    let passing = hits.hits.iter().zip(pass).filter(|(_, pass)| **pass != 0).map(|(hit, _)| *hit);
    hits.hits = passing.collect();
    hits.shares = shares_of(&hits);
    hits
}

/// What a stock reader finds. Both writers end their batches at the same hits.
fn rows(run: &RunDirectory, table: Table) -> Vec<RecordBatch> {
    stock_read(&run.table(table)).expect("a stock reader reads it")
}

fn total(writer: &HitWriter, total: impl Fn(&Counters) -> u64) -> [u64; 2] {
    [0, 1].map(|source| total(writer.counters(SourceId(source))))
}

fn complete(run: &RunDirectory, writer: &HitWriter) -> bool {
    let ledger = Ledger::create(Some(&run.ledger()), &sources()).expect("made");
    for source in [0, 1].map(SourceId) {
        ledger.open(Stage::Record, source, &[Unit::Hits]).publish(writer.counters(source));
    }
    let mut record = RunRecord::start(run, "kept", "", &sources());
    record.stop(RunRecordState::Stopped, writer.summaries(), Some(&ledger.snapshot()));
    record.write(run).expect("written");
    ledger.snapshot().close()
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(48))]

    #[test]
    fn what_is_kept_is_what_a_plain_filter_keeps(
        pass in prop::collection::vec(prop_oneof![Just(0u8), Just(1), Just(255)], 0..1500),
        step in 1usize..700,
        batch_hits in 1usize..900,
        known_channels in prop::sample::select(&[0usize, 10, 33][..]),
    ) {
        let folder = folder();
        let kept = Settings { hits: RecordedHits::Kept, batch_hits, ..Settings::default() };
        let plain = Settings { batch_hits, ..Settings::default() };
        let [one, other] = ["kept", "plain"].map(|title| RunDirectory::create(folder.path(), title).expect("made"));
        let channels: Box<[SourceId]> = (0..known_channels as u16).map(source_of).collect();
        let mut writer = HitWriter::create(one.path(), &kept, &sources()).expect("made").with_sources_of_channels(channels);
        let mut reference = HitWriter::create(other.path(), &plain, &sources()).expect("made");
        let pool = Pool::new(2, 1 << 20).expect("small");
        for (number, pass) in pass.chunks(step).enumerate() {
            let range = number * step..number * step + pass.len();
            let mut hits = batch(&pool, range.clone(), Mark(number as u64));
            hits.shares = shares_of(&hits);
            writer.write_passing(&hits, Some(pass)).expect("written");
            reference.write(&filtered(hits, pass)).expect("written");
        }
        writer.finish().expect("written");
        reference.finish().expect("written");
        for table in [Table::Hits, Table::Extras, Table::Waveforms, Table::Statistics] {
            prop_assert_eq!(rows(&one, table), rows(&other, table), "{}", table.word());
        }
        let [came, left_out, out] = [
            total(&writer, |counters| counters.total_input(Unit::Hits)),
            total(&writer, |counters| counters.total_filtered(Unit::Hits)),
            total(&writer, |counters| counters.total_output(Unit::Hits)),
        ];
        prop_assert_eq!(came.iter().sum::<u64>(), pass.len() as u64);
        prop_assert_eq!(out.iter().sum::<u64>(), pass.iter().filter(|pass| **pass != 0).count() as u64);
        for source in 0..2 {
            prop_assert_eq!(came[source], out[source] + left_out[source]);
        }
        if known_channels == 33 {
            prop_assert_eq!(out, total(&reference, |counters| counters.total_output(Unit::Hits)));
        }
        prop_assert!(complete(&one, &writer), "the ledger balances");
        let report = verify(one.path()).expect("a run");
        prop_assert!(report.ok, "{:?}", report.problems);
    }
}

#[test]
fn of_all_hits_none_is_left_out() {
    let folder = folder();
    let run = RunDirectory::create(folder.path(), "all").expect("made");
    let mut writer =
        HitWriter::create_of(run.path(), &Settings::default(), &sources(), &waveforms()).expect("made");
    let pool = Pool::new(2, 1 << 20).expect("small");
    writer.write_passing(&batch(&pool, 0..100, Mark(0)), Some(&[0; 100])).expect("written");
    writer.finish().expect("written");
    let all = HitsReader::open(&run.table(Table::Hits)).expect("opens").read_all().expect("whole");
    assert_eq!(all.len(), 100);
    let reference = write_run(folder.path(), &Settings::default(), 100, 100);
    assert_eq!(rows(&run, Table::Waveforms), rows(&reference, Table::Waveforms));
}
