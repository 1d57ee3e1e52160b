//! The builder by hand: every bad input that a detector has shown so far.

use thalweg_data::{
    BlockWriter, Closing, Events, Fragment, Fragments, LossReason, Mark, Noted, Pool, SourceId, Unit,
};

use super::*;
use settings::Full;

mod jumps;

/// Boards that write into one pool, a builder, and what came out of it.
struct Bench {
    pool: Pool,
    builder: Builder,
    mark: u64,
    out: Vec<Built>,
}

/// An event, read.
#[derive(Clone, Debug, PartialEq)]
struct Built {
    trigger: u64,
    closing: Closing,
    fragments: Vec<(u16, u64, String)>,
    missing: Vec<u16>,
}

impl Bench {
    fn new(settings: &Settings, sources: u16) -> Bench {
        let mut builder = Builder::new(settings, 0..sources).expect("possible");
        builder.start_run(1);
        Bench { pool: Pool::new(4096, 4096).expect("small"), builder, mark: 0, out: Vec::new() }
    }

    fn batch(&self, writer: &mut BlockWriter, source: u16, triggers: &[u64]) -> Fragments {
        let mut batch = Fragments::default();
        batch.header.mark = Mark(self.mark);
        for trigger in triggers {
            let text = format!("{source}:{trigger}");
            batch.slices.push(writer.append(text.as_bytes()).expect("fits"));
            batch.fragments.push(Fragment {
                trigger: *trigger,
                ticks: trigger * 10,
                bytes: text.len() as u32,
                source: SourceId(source),
                slices: 1,
            });
        }
        batch.leases.add(writer.lease());
        batch
    }

    /// Offers fragments once; returns how many were taken.
    fn offer(&mut self, source: u16, triggers: &[u64]) -> usize {
        let mut writer = self.pool.take().expect("free");
        let batch = self.batch(&mut writer, source, triggers);
        let taken = self.builder.insert(&batch);
        self.check();
        taken
    }

    /// Offers fragments that have to be taken, and pulls.
    fn feed(&mut self, source: u16, triggers: &[u64]) {
        assert_eq!(self.offer(source, triggers), triggers.len());
        self.pull();
    }

    fn wait_ms(&mut self, ms: u64) {
        self.mark += ms * 1_000_000;
        self.builder.advance(Mark(self.mark));
        self.pull();
    }

    fn pull(&mut self) {
        let mut events = Events::default();
        while self.builder.pull(&mut events, 5) {
            self.check();
            let mut fragments = events.fragments_with_slices();
            for event in &events.events {
                let own = fragments.by_ref().take(event.fragments as usize);
                let read = own.map(|(fragment, slices)| {
                    let bytes: Vec<u8> =
                        slices.iter().flat_map(|slice| events.leases.bytes(*slice).to_vec()).collect();
                    assert_eq!((fragment.bytes as usize, fragment.trigger), (bytes.len(), event.trigger));
                    (fragment.source.0, fragment.ticks, String::from_utf8(bytes).expect("text"))
                });
                self.out.push(Built {
                    trigger: event.trigger,
                    closing: event.closing,
                    fragments: read.collect(),
                    missing: events.missing_of(event).iter().map(|source| source.0).collect(),
                });
            }
            drop(fragments);
            events.clear();
        }
        self.check();
    }

    fn end(&mut self) {
        self.builder.end_run();
        self.pull();
        assert!(self.builder.is_empty());
        assert_eq!((self.builder.held_bytes(), self.builder.standing().blocks), (0, 0));
        assert_eq!(self.pool.free_count(), self.pool.block_count());
    }

    /// The counters close, and what they say is held is what the columns have.
    fn check(&mut self) {
        let mut held_bytes = 0;
        for source in self.builder.sources().map(SourceId) {
            let counters = self.builder.counters(source).clone();
            for unit in [Unit::Fragments, Unit::Bytes] {
                let right = counters.total_output(unit) + counters.total_lost_any(unit) + counters.held(unit);
                assert_eq!(counters.total_input(unit), right, "{unit} of {source}");
            }
            let wire = self.builder.wire_counters(source);
            assert_eq!(
                wire.total_input(Unit::Fragments),
                wire.total_output(Unit::Fragments) + wire.total_lost_any(Unit::Fragments)
            );
            let filled = wire.total_gap_filled(Unit::Fragments);
            assert_eq!(wire.total_output(Unit::Fragments) - filled, counters.total_output(Unit::Fragments));
            let rows = &self.builder.rows;
            let open = (rows.base..rows.highest).filter(|trigger| rows.get(*trigger).is_open());
            let waiting = open.filter(|trigger| self.builder.columns.has(source.index(), *trigger)).count();
            let deferred = self.builder.deferred.length(source.index());
            assert_eq!(counters.held(Unit::Fragments), (waiting + deferred) as u64, "held of {source}");
            held_bytes += counters.held(Unit::Bytes);
        }
        assert_eq!(self.builder.held_bytes(), held_bytes);
        let open = self.builder.open_events() as u64;
        assert_eq!(self.builder.events_counters().held(Unit::Events), open);
    }

    fn lost(&mut self, source: u16, reason: LossReason) -> u64 {
        self.builder.counters(SourceId(source)).total_lost(reason, Unit::Fragments)
    }

    fn triggers(&self) -> Vec<u64> {
        self.out.iter().map(|event| event.trigger).collect()
    }
}

fn small() -> Settings {
    Settings { depth: 64, age_ms: 100, ..Settings::default() }
}

#[test]
fn fragments_of_one_trigger_become_an_event_in_source_order() {
    let mut bench = Bench::new(&small(), 3);
    bench.feed(2, &[0, 1]);
    bench.feed(0, &[0, 1]);
    assert_eq!(bench.out, []);
    bench.feed(1, &[0]);
    let fragment = |source: u16| (source, 0, format!("{source}:0"));
    let whole = Built {
        trigger: 0,
        closing: Closing::Complete,
        fragments: (0..3).map(fragment).collect(),
        missing: vec![],
    };
    assert_eq!(bench.out, [whole]);
    bench.end();
    assert_eq!((bench.out[1].closing, &bench.out[1].missing[..]), (Closing::End, &[1][..]));
    assert_eq!(bench.builder.events_counters().total_output(Unit::Events), 2);
    assert_eq!(bench.builder.event_bytes().total(), 2);
    assert_eq!(bench.builder.build_ns().total(), 2);
    assert_eq!((bench.builder.closed(Closing::Complete), bench.builder.closed(Closing::End)), (1, 1));
}

#[test]
fn what_comes_too_late_or_was_refused_before_fills_the_gap_and_no_other() {
    let mut bench = Bench::new(&small(), 2);
    let gaps = |bench: &mut Bench| {
        let wire = bench.builder.wire_counters(SourceId(1));
        let (opened, filled) =
            (wire.total_gap_opened(Unit::Fragments), wire.total_gap_filled(Unit::Fragments));
        (opened, filled, wire.total_lost(LossReason::MissingFragment, Unit::Fragments))
    };
    bench.feed(1, &[6]);
    bench.feed(0, &[6, 7, 8, 9]);
    bench.wait_ms(100);
    assert_eq!(gaps(&mut bench), (3, 0, 3));
    bench.feed(1, &[8]);
    assert_eq!((gaps(&mut bench), bench.lost(1, LossReason::LateFragment)), ((3, 1, 2), 1));
    // Two of three that the framing has refused are those of 7 and 9; that of 10 is missed when its event has left.
    bench.builder.note_refused(SourceId(1), 3);
    assert_eq!(gaps(&mut bench), (3, 3, 0));
    bench.feed(0, &[10, 11]);
    bench.wait_ms(100);
    assert_eq!(gaps(&mut bench), (5, 4, 1));
    bench.end();
}

#[test]
fn what_a_recording_cannot_give_is_missing_for_that_reason() {
    let mut bench = Bench::new(&small(), 2);
    bench.feed(1, &[6]);
    bench.feed(0, &[6, 7, 8]);
    bench.builder.note_unreadable(SourceId(1), 1);
    bench.wait_ms(100);
    let wire = bench.builder.wire_counters(SourceId(1));
    let of = |reason| wire.total_lost(reason, Unit::Fragments);
    assert_eq!((of(LossReason::RecordingDamaged), of(LossReason::MissingFragment)), (1, 1));
    assert_eq!(wire.total_gap_opened(Unit::Fragments), 2);
    bench.end();
}

#[test]
fn what_is_missing_at_its_age_is_listed() {
    let mut bench = Bench::new(&small(), 4);
    (0..3).for_each(|source| bench.feed(source, &[7, 8]));
    bench.feed(3, &[8]);
    assert_eq!(bench.out, [], "the order is kept");
    bench.wait_ms(99);
    assert_eq!(bench.out, []);
    bench.wait_ms(1);
    assert_eq!(bench.triggers(), [7, 8]);
    assert_eq!((bench.out[0].closing, &bench.out[0].missing[..]), (Closing::Age, &[3][..]));
    bench.feed(3, &[7]);
    assert_eq!(bench.lost(3, LossReason::LateFragment), 1);
    let wire = bench.builder.wire_counters(SourceId(3));
    assert_eq!(wire.total_gap_opened(Unit::Fragments), 1);
    assert_eq!(wire.total_lost_any(Unit::Fragments), 0, "it has come");
    assert_eq!(wire.total_input(Unit::Fragments), 2);
    assert!(bench.builder.dumps()[0].to_string().contains("33 3a 37"), "{}", bench.builder.dumps()[0]);
    bench.end();
}

#[test]
fn without_order_complete_events_leave_at_once() {
    let mut bench = Bench::new(&Settings { ordered: false, ..small() }, 2);
    (0..2).for_each(|source| bench.feed(source, &[100]));
    bench.out.clear();
    bench.feed(0, &[101, 102, 103, 104]);
    bench.feed(1, &[104, 102]);
    assert_eq!(bench.triggers(), [104, 102]);
    bench.feed(0, &[104]);
    bench.feed(1, &[102]);
    assert_eq!(
        (bench.lost(0, LossReason::DuplicateFragment), bench.lost(1, LossReason::DuplicateFragment)),
        (1, 1)
    );
    bench.wait_ms(100);
    assert_eq!(bench.triggers(), [104, 102, 101, 103]);
    bench.end();
}

#[test]
fn duplicates_are_counted_whether_their_event_is_here_or_gone() {
    let mut bench = Bench::new(&small(), 2);
    bench.feed(0, &[5, 5]);
    bench.feed(1, &[5]);
    bench.feed(1, &[5]);
    assert_eq!(
        (bench.lost(0, LossReason::DuplicateFragment), bench.lost(1, LossReason::DuplicateFragment)),
        (1, 1)
    );
    assert_eq!(bench.triggers(), [5]);
    bench.end();
}

#[test]
fn a_number_with_all_bits_set_is_late_and_no_duplicate() {
    let mut bench = Bench::new(&small(), 2);
    for source in [0, 1] {
        bench.feed(source, &[0, 1, 2]);
    }
    bench.feed(0, &[u64::from(u32::MAX)]);
    bench.feed(0, &[u64::from(u32::MAX) - 1]);
    let mut lost = |reason| bench.lost(0, reason);
    assert_eq!((lost(LossReason::DuplicateFragment), lost(LossReason::LateFragment)), (0, 2));
    bench.end();
}

#[test]
fn numbers_that_come_round_go_on() {
    let settings = Settings { trigger_bits: 8, ..small() };
    let mut bench = Bench::new(&settings, 3);
    for trigger in 0..1000u64 {
        for source in 0..3 {
            bench.feed((source + trigger as u16) % 3, &[trigger & 0xFF]);
        }
    }
    assert_eq!(bench.triggers(), (0..1000).collect::<Vec<_>>());
    bench.feed(1, &[0x100]);
    assert_eq!(bench.lost(1, LossReason::OutOfWindow), 1);
    bench.end();
}

#[test]
fn a_run_may_begin_while_numbers_come_round() {
    let mut bench = Bench::new(&Settings { trigger_bits: 16, ..small() }, 2);
    bench.feed(0, &[2, 3]);
    bench.feed(1, &[65_534, 65_535, 0, 1, 2, 3]);
    bench.end();
    assert_eq!(bench.triggers(), [65_534, 65_535, 65_536, 65_537, 65_538, 65_539]);
    assert_eq!(bench.out.iter().filter(|event| event.missing.is_empty()).count(), 2);
}

#[test]
fn boards_of_different_widths_go_together() {
    let mut bench = Bench::new(&small(), 2);
    bench.builder.set_trigger_bits(SourceId(1), 8).expect("deep enough");
    for trigger in 250..600u64 {
        bench.feed(1, &[trigger & 0xFF]);
        bench.feed(0, &[trigger]);
    }
    assert_eq!(bench.triggers(), (250..600).collect::<Vec<_>>());
    assert!(bench.builder.set_trigger_bits(SourceId(1), 4).is_err());
    bench.end();
}

#[test]
fn a_board_that_missed_the_reset_does_not_define_the_run() {
    let mut bench = Bench::new(&small(), 3);
    bench.feed(2, &[50_000, 50_001]);
    assert_eq!(bench.builder.standing().deferred, 2);
    (0..2).for_each(|source| bench.feed(source, &[0, 1]));
    assert_eq!(bench.builder.open_events(), 2);
    bench.wait_ms(100);
    assert_eq!(bench.triggers(), [0, 1]);
    assert_eq!(bench.lost(2, LossReason::OutOfWindow), 2);
    bench.end();
}

#[test]
fn one_that_speaks_alone_begins_after_the_age_when_it_has_been_reset() {
    let mut bench = Bench::new(&small(), 3);
    bench.feed(1, &[1]);
    bench.wait_ms(100);
    assert_eq!(bench.triggers(), [1]);
    let mut bench = Bench::new(&small(), 3);
    bench.feed(1, &[5000]);
    bench.wait_ms(1000);
    assert_eq!(bench.out, []);
    bench.end();
    assert_eq!(bench.triggers(), [5000]);
}

#[test]
fn a_first_trigger_that_is_stated_is_believed() {
    let mut bench = Bench::new(&Settings { first_trigger: Some(9), ..small() }, 2);
    bench.feed(0, &[8, 9]);
    bench.feed(1, &[9]);
    assert_eq!(bench.triggers(), [9]);
    assert_eq!(bench.lost(0, LossReason::LateFragment), 1);
    bench.end();
}

#[test]
fn two_boards_with_one_number_show_as_duplicates() {
    let mut bench = Bench::new(&small(), 2);
    for trigger in 0..10 {
        bench.feed(0, &[trigger]);
        bench.feed(0, &[trigger]);
        bench.feed(1, &[trigger]);
    }
    assert_eq!(bench.lost(0, LossReason::DuplicateFragment), 10);
    assert_eq!(bench.builder.dumps().len(), 3);
    bench.end();
}

#[test]
fn unknown_sources_and_other_runs_are_counted() {
    let mut bench = Bench::new(&small(), 2);
    bench.feed(7, &[1]);
    let unexpected = bench.builder.unknown_source_counters();
    for (unit, count) in [(Unit::Fragments, 1), (Unit::Bytes, 3)] {
        assert_eq!(unexpected.total_input(unit), count);
        assert_eq!(unexpected.total_lost(LossReason::UnknownSource, unit), count);
    }
    bench.end();
    bench.feed(0, &[3]);
    assert_eq!(bench.lost(0, LossReason::WrongRun), 1);
    bench.builder.start_run(2);
    assert_eq!(bench.builder.counters(SourceId(0)).total_input(Unit::Fragments), 0);
    (0..2).for_each(|source| bench.feed(source, &[0]));
    assert_eq!(bench.triggers(), [0]);
}

#[test]
fn ended_sources_are_not_waited_for_and_may_come_back() {
    let mut bench = Bench::new(&small(), 3);
    (0..3).for_each(|source| bench.feed(source, &[0]));
    bench.builder.end(SourceId(1));
    bench.feed(0, &[1, 2]);
    bench.feed(2, &[1]);
    assert_eq!(bench.triggers(), [0, 1]);
    assert_eq!((bench.out[1].closing, &bench.out[1].missing[..]), (Closing::End, &[1][..]));
    bench.feed(1, &[2]);
    assert_eq!(bench.triggers(), [0, 1]);
    bench.feed(2, &[2]);
    assert_eq!(bench.out[2].closing, Closing::Complete);
    bench.end();
}

#[test]
fn fragments_of_several_slices_keep_their_order() {
    let mut bench = Bench::new(&Settings { chained_slices: Some(4), ..small() }, 2);
    let chained = |bench: &Bench, source: u16, trigger: u64| {
        let mut batch = Fragments::default();
        for slice in 0..3 {
            let mut writer = bench.pool.take().expect("free");
            batch.slices.push(writer.append(format!("{slice}").as_bytes()).expect("fits"));
            batch.leases.add(writer.lease());
        }
        let fragment = Fragment { trigger, source: SourceId(source), slices: 3, bytes: 3, ticks: 0 };
        batch.fragments.push(fragment);
        batch
    };
    for source in [0, 1] {
        let batch = chained(&bench, source, 0);
        assert_eq!(bench.builder.insert(&batch), 1);
    }
    let third = chained(&bench, 0, 1);
    assert_eq!(bench.builder.insert(&third), 0, "four links are in use");
    bench.check();
    bench.pull();
    assert_eq!(bench.out[0].fragments, [(0, 0, "012".to_owned()), (1, 0, "012".to_owned())]);
    assert_eq!(bench.builder.insert(&third), 1);
    drop(third);
    bench.end();
    assert_eq!(bench.out[1].fragments.len(), 1);
}

#[test]
fn too_many_slices_are_lost_and_a_full_table_closes_the_oldest() {
    let mut bench = Bench::new(&Settings { chained_slices: Some(1), ..small() }, 2);
    let chained = |bench: &Bench, trigger: u64, slices: u16| {
        let mut writer = bench.pool.take().expect("free");
        let mut batch = Fragments::default();
        for _ in 0..slices {
            batch.slices.push(writer.append(b"x").expect("fits"));
        }
        batch.leases.add(writer.lease());
        batch.fragments.push(Fragment { trigger, slices, ..Fragment::default() });
        batch
    };
    (0..2).for_each(|source| bench.feed(source, &[0]));
    assert_eq!(bench.builder.insert(&chained(&bench, 1, 3)), 1);
    assert_eq!(bench.lost(0, LossReason::TooLarge), 1);
    assert_eq!(bench.builder.insert(&chained(&bench, 2, 2)), 1);
    assert_eq!(bench.builder.insert(&chained(&bench, 3, 2)), 0);
    bench.pull();
    assert_eq!((bench.out[1].trigger, bench.out[1].closing), (2, Closing::Depth));
    assert_eq!(bench.builder.insert(&chained(&bench, 3, 2)), 1);
    bench.end();
}

#[test]
fn dropped_events_are_counted_exactly() {
    let mut bench = Bench::new(&Settings { incomplete: Incomplete::Drop, ..small() }, 3);
    (0..3).for_each(|source| bench.feed(source, &[0]));
    (0..2).for_each(|source| bench.feed(source, &[1]));
    (0..3).for_each(|source| bench.feed(source, &[2]));
    bench.wait_ms(100);
    assert_eq!(bench.triggers(), [0, 2]);
    assert_eq!((bench.lost(0, LossReason::Incomplete), bench.lost(2, LossReason::Incomplete)), (1, 0));
    assert_eq!(bench.builder.events_counters().total_lost(LossReason::Incomplete, Unit::Events), 1);
    let missing = bench.builder.wire_counters(SourceId(2));
    assert_eq!(missing.total_lost(LossReason::MissingFragment, Unit::Fragments), 1);
    bench.end();
}

#[test]
fn an_incomplete_event_may_stop_the_run() {
    let mut bench = Bench::new(&Settings { incomplete: Incomplete::Stop, ..small() }, 2);
    (0..2).for_each(|source| bench.feed(source, &[0]));
    bench.feed(0, &[1]);
    bench.wait_ms(100);
    assert_eq!(bench.builder.stop(), Some(&Stop { trigger: 1, missing: vec![SourceId(1)] }));
}

#[test]
fn who_waits_for_ever_holds_the_sources_back_and_loses_nothing() {
    let mut bench = Bench::new(&Settings { incomplete: Incomplete::Wait, ..small() }, 2);
    (0..2).for_each(|source| bench.feed(source, &[0]));
    let (mut next, mut refused) = (1, false);
    for _ in 0..200 {
        match bench.offer(0, &[next]) {
            0 => refused = true,
            _ => next += 1,
        }
        bench.wait_ms(50);
    }
    assert!(refused && !bench.builder.wants(SourceId(0)) && bench.builder.wants(SourceId(1)));
    assert_eq!(bench.triggers(), [0]);
    for trigger in 1..next {
        bench.feed(1, &[trigger]);
    }
    assert_eq!(bench.triggers(), (0..next).collect::<Vec<_>>());
    assert!(bench.builder.wants(SourceId(0)));
    bench.end();
}

#[test]
fn at_depth_the_oldest_is_closed_or_the_sources_are_held() {
    for (full, closings) in [(Full::Close, Closing::Depth), (Full::Hold, Closing::Age)] {
        let mut bench = Bench::new(&Settings { full, ..small() }, 3);
        (0..3).for_each(|source| bench.feed(source, &[0]));
        for trigger in 1..300 {
            for source in 0..2 {
                while bench.offer(source, &[trigger]) == 0 {
                    bench.wait_ms(100);
                }
                bench.pull();
            }
        }
        bench.end();
        assert_eq!(bench.triggers(), (0..300).collect::<Vec<_>>(), "{full:?}");
        assert_eq!(bench.out[1].closing, closings);
    }
}

#[test]
fn a_source_above_its_bytes_is_not_read_unless_the_oldest_event_waits_for_it() {
    let mut bench = Bench::new(&Settings { source_bytes: Some(20), ..small() }, 2);
    (0..2).for_each(|source| bench.feed(source, &[0]));
    bench.feed(0, &[1, 2, 3, 4, 5, 6, 7, 8]);
    assert!(!bench.builder.wants(SourceId(0)) && bench.builder.wants(SourceId(1)));
    bench.feed(1, &[1, 2, 3, 4, 5]);
    assert!(bench.builder.wants(SourceId(0)));
    bench.end();
}

#[test]
fn at_a_stop_events_leave_that_miss_only_silent_sources() {
    for incomplete in [Incomplete::Partial, Incomplete::Wait, Incomplete::Stop] {
        let mut bench = Bench::new(&Settings { incomplete, first_trigger: Some(0), ..small() }, 3);
        bench.feed(0, &[0, 1, 2, 3, 4]);
        bench.feed(1, &[0, 1, 2]);
        assert!(bench.out.is_empty());
        assert!([1, 2].map(|source| bench.builder.awaits(SourceId(source))) == [false, true]);
        assert!(bench.builder.free_blocks_at_stop(|source| source == SourceId(2)));
        bench.pull();
        assert_eq!(bench.triggers(), [0, 1, 2], "what the second source may still answer stays");
        assert!(bench.out.iter().all(|event| event.closing == Closing::Depth && event.missing == [2]));
        assert!(bench.builder.awaits(SourceId(1)));
        // It does not: one event at a time.
        assert!(bench.builder.free_blocks_at_stop(|source| source == SourceId(2)));
        bench.pull();
        assert_eq!(bench.triggers(), [0, 1, 2, 3]);
        assert_eq!(bench.builder.stop(), None, "{incomplete:?}: the run is being stopped already");
        bench.end();
        assert!(!bench.builder.free_blocks_at_stop(|_| true), "nothing is left");
    }
}

#[test]
fn busy_has_a_hysteresis() {
    let mut bench = Bench::new(&Settings { incomplete: Incomplete::Wait, ..small() }, 3);
    (0..3).for_each(|source| bench.feed(source, &[0]));
    let mut raised_at = 0;
    for trigger in 1..60 {
        (0..2).for_each(|source| bench.feed(source, &[trigger]));
        if bench.builder.is_busy() && raised_at == 0 {
            raised_at = trigger;
        }
    }
    assert_eq!(raised_at, 49);
    let lowered_at = (1..60).find(|trigger| {
        bench.feed(2, &[*trigger]);
        !bench.builder.is_busy()
    });
    assert_eq!(lowered_at, Some(27));
    bench.end();
}

#[test]
fn refused_fragments_are_in_the_ledger() {
    let mut bench = Bench::new(&small(), 2);
    let mut writer = bench.pool.take().expect("free");
    let batch = bench.batch(&mut writer, 0, &(0..100).collect::<Vec<_>>());
    drop(writer);
    let taken = bench.builder.insert(&batch);
    assert_eq!(taken, 32, "nobody has agreed yet");
    bench.builder.refuse(&batch, taken);
    bench.check();
    assert_eq!(bench.lost(0, LossReason::OverBudget), 100 - taken as u64);
    drop(batch);
    bench.end();
}

#[test]
fn the_budget_is_what_is_allocated() {
    let settings = Settings { depth: 1024, ..Settings::default() };
    let budget = Budget::of(&settings, 512);
    assert_eq!(budget.columns, 512 * (1024 + 2) * 32);
    assert_eq!(budget.own() + budget.payload, budget.items().iter().map(|(_, bytes)| bytes).sum::<u64>());
}

#[test]
fn fragments_without_bytes_are_answers() {
    let mut bench = Bench::new(&Settings { first_trigger: Some(0), ..small() }, 3);
    let empty = |trigger| Fragment { source: SourceId(1), trigger, ..Fragment::default() };
    let batch = Fragments { fragments: vec![empty(0), empty(1), empty(40)], ..Fragments::default() };
    bench.feed(0, &[0, 1]);
    assert_eq!(bench.builder.insert(&batch), 3);
    bench.check();
    bench.feed(2, &[0, 1]);
    assert_eq!(bench.triggers(), [0, 1]);
    assert_eq!(bench.out[0].fragments[1], (1, 0, String::new()));
    bench.end();
    assert_eq!(bench.out[2].missing, [0, 2]);
}

#[test]
fn a_batch_gives_what_its_fragments_give_one_by_one() {
    // Numbers of 8 bits in a window of 16: they come round within a batch, and so do the rows; with one that comes twice, one that
    // is missing, and one of the past.
    let settings = Settings { depth: 16, trigger_bits: 8, ..small() };
    let numbers = (249..269).filter(|number| *number != 260).chain([268, 254, 269, 270]);
    let sent: Vec<u64> = numbers.map(|number| number % 256).collect();
    for ordered in [true, false] {
        let [mut whole, mut one_by_one] = [(); 2]
            .map(|()| Bench::new(&Settings { ordered, first_trigger: Some(249), ..settings.clone() }, 2));
        for part in sent.chunks(4) {
            whole.feed(0, part);
            whole.feed(1, part);
            part.iter().for_each(|number| one_by_one.feed(0, &[*number]));
            part.iter().for_each(|number| one_by_one.feed(1, &[*number]));
        }
        let events: Vec<u64> = (249..271).filter(|number| *number != 260).collect();
        for bench in [&mut whole, &mut one_by_one] {
            bench.end();
            assert_eq!(bench.triggers(), events, "{ordered}");
            assert_eq!(bench.lost(0, LossReason::DuplicateFragment), 2, "{ordered}");
        }
        assert_eq!(whole.out, one_by_one.out);
        assert_eq!(whole.builder.counters(SourceId(1)), one_by_one.builder.counters(SourceId(1)));
    }
}
