//! Compares the output of time order with a plain sort, for many kinds of streams.

use std::collections::BTreeMap;

use proptest::prelude::*;
use thalweg_data::hit::{Extra, Layout, Statistics};
use thalweg_data::{Flags, Hit, Hits, Ledger, LossReason, Mark, Pool, SourceId, Stage, Unit};
use thalweg_order::{Full, Late, OrderError, Pushed, Settings, Standing, TimeOrder};

const BATCH_HITS: usize = 1024;

/// One batch to push: the times of its hits, and its header.
#[derive(Clone, Debug)]
struct Fed {
    source: u16,
    mark: u64,
    times: Vec<i64>,
    end: bool,
    snapshot: Option<u32>,
}

fn fed(source: u16, mark: u64, times: &[i64]) -> Fed {
    Fed { source, mark, times: times.to_vec(), end: false, snapshot: None }
}

fn end(source: u16, mark: u64) -> Fed {
    Fed { end: true, ..fed(source, mark, &[]) }
}

/// Pushes batches, pulls after each, and checks all invariants at every step.
struct Harness {
    order: TimeOrder,
    ledger: Ledger,
    sequences: Vec<u32>,
    taken: Vec<u64>,
    /// The output; `energy` and `energy_short` contain the sequence number within the source.
    out: Vec<Hit>,
    extras: Vec<Extra>,
    markers: Vec<(u16, u32)>,
    ended: bool,
    most_bytes: u64,
    sources: usize,
    batch: Hits,
}

impl Harness {
    fn new(settings: &Settings, sources: usize) -> Harness {
        let names: Vec<String> = (0..sources).map(|index| format!("board {index}")).collect();
        Harness {
            order: TimeOrder::new(settings, sources, BATCH_HITS),
            ledger: Ledger::create(None, &names).expect("memory"),
            sequences: vec![0; sources],
            taken: vec![0; sources],
            out: Vec::new(),
            extras: Vec::new(),
            markers: Vec::new(),
            ended: false,
            most_bytes: 0,
            sources,
            batch: Hits::default(),
        }
    }

    /// Fills the batch; every third hit has an extra with its sequence number.
    fn fill(&mut self, fed: &Fed) {
        let source = SourceId(fed.source);
        self.batch.header.source = source;
        self.batch.header.mark = Mark(fed.mark);
        self.batch.header.end = fed.end;
        self.batch.header.snapshot = fed.snapshot;
        for time_ps in &fed.times {
            let sequence = self.sequences[source.index()];
            self.sequences[source.index()] += 1;
            let flags = if sequence.is_multiple_of(3) { Flags::EXTRA } else { Flags::NONE };
            let hit = Hit {
                time_ps: *time_ps,
                channel: fed.source,
                energy: sequence as u16,
                energy_short: (sequence >> 16) as u16,
                flags,
            };
            self.batch.hits.push(hit);
            if flags.has(Flags::EXTRA) {
                self.batch.extras.push(Extra { number: sequence, ..Extra::of(&hit, source) });
            }
        }
    }

    fn feed(&mut self, fed: &Fed) {
        self.fill(fed);
        for _ in 0..3 {
            match self.order.push(&mut self.batch).expect("fed in order") {
                Pushed::Taken => {
                    self.taken[usize::from(fed.source)] += fed.times.len() as u64;
                    assert!(self.batch.hits.is_empty() && self.batch.extras.is_empty());
                    self.check_ledger();
                    self.most_bytes = self.most_bytes.max(self.order.held_bytes());
                    self.drain();
                    return;
                }
                Pushed::Full => self.drain(),
            }
        }
        panic!("a batch must be taken after everything was pulled");
    }

    fn check_ledger(&self) {
        for source in (0..self.sources).map(|index| SourceId(index as u16)) {
            let counters = self.order.counters(source);
            self.ledger.open(Stage::Order, source, &[Unit::Hits]).publish(counters);
            assert_eq!(counters.total_input(Unit::Hits), self.taken[source.index()]);
            let out = self.out.iter().filter(|hit| hit.channel == source.0).count();
            assert_eq!(counters.total_output(Unit::Hits), out as u64);
        }
        assert_eq!(self.ledger.snapshot().discrepancies(), []);
    }

    fn drain(&mut self) {
        let mut out = Hits::default();
        while self.order.pull(&mut out) {
            assert!(!self.ended, "nothing follows the end");
            assert!(out.hits.len() <= BATCH_HITS);
            if let Some(number) = out.header.snapshot {
                assert!(out.is_empty());
                self.markers.push((out.header.source.0, number));
            }
            self.ended = out.header.end;
            let mut shares = BTreeMap::new();
            out.hits.iter().for_each(|hit| *shares.entry(hit.channel).or_insert(0) += 1);
            let counted: BTreeMap<u16, u32> =
                out.shares.iter().map(|share| (share.source.0, share.hits)).collect();
            assert_eq!(shares, counted);
            let owners = out.hits.iter().filter(|hit| hit.flags.has(Flags::EXTRA));
            let paired = owners.map(|hit| (hit.time_ps, hit.channel, sequence(hit)));
            let rows = out.extras.iter().map(|row| (row.time_ps, row.source.0, row.number));
            assert!(paired.eq(rows), "row k belongs to the k-th hit with an extra");
            self.out.extend_from_slice(&out.hits);
            self.extras.extend_from_slice(&out.extras);
        }
        self.check_ledger();
    }

    fn end_all(&mut self) {
        let mark = self.order.mark().0;
        for source in 0..self.sources as u16 {
            if self.order.standing(SourceId(source)) != Standing::Ended {
                self.feed(&end(source, mark + 1));
            }
        }
        assert!(self.ended);
        assert_eq!(self.order.held_bytes(), 0);
    }

    /// (time, source, sequence) of the output.
    fn keys(&self) -> Vec<(i64, u16, u32)> {
        self.out.iter().map(|hit| (hit.time_ps, hit.channel, sequence(hit))).collect()
    }

    fn lost(&self, reason: LossReason) -> u64 {
        let of = |index| self.order.counters(SourceId(index as u16)).total_lost(reason, Unit::Hits);
        (0..self.sources).map(of).sum()
    }
}

fn sequence(hit: &Hit) -> u32 {
    u32::from(hit.energy) | u32::from(hit.energy_short) << 16
}

/// (time, source, sequence) of the input, sorted.
fn expected(feed: &[Fed]) -> Vec<(i64, u16, u32)> {
    let mut sequences = BTreeMap::new();
    let mut keys = Vec::new();
    for fed in feed {
        for time_ps in &fed.times {
            let sequence = sequences.entry(fed.source).or_insert(0);
            keys.push((*time_ps, fed.source, *sequence));
            *sequence += 1;
        }
    }
    keys.sort_unstable();
    keys
}

/// How the hits of one board are distributed in time.
#[derive(Clone, Debug)]
enum Kind {
    Uniform { gap: i64 },
    Bursty,
    Disordered { gap: i64, reach: i64 },
    Equal,
    Idle,
}

fn times_of(kind: &Kind, seeds: &[u16]) -> Vec<i64> {
    let mut now = -20_000;
    let mut step = |gap: i64| {
        now += gap;
        now
    };
    seeds
        .iter()
        .map(|seed| match kind {
            Kind::Uniform { gap } => step(i64::from(*seed) % (2 * gap)),
            Kind::Bursty => step(if seed % 50 == 0 { 9000 } else { i64::from(seed % 3) }),
            Kind::Disordered { gap, reach } => step(i64::from(*seed) % (2 * gap)) - i64::from(*seed) % reach,
            Kind::Equal => 7,
            Kind::Idle => step(0),
        })
        .collect()
}

const REACH: i64 = 800;

fn kind() -> impl Strategy<Value = Kind> {
    prop_oneof![
        3 => (1i64..4).prop_map(|gap| Kind::Uniform { gap }),
        1 => Just(Kind::Uniform { gap: 300 }),
        2 => Just(Kind::Bursty),
        2 => (1i64..400).prop_map(|gap| Kind::Disordered { gap, reach: REACH }),
        1 => Just(Kind::Equal),
        1 => Just(Kind::Idle),
    ]
}

/// Boards, divided into batches of a random length, in the order of their times.
fn boards(batch_length: std::ops::Range<usize>) -> impl Strategy<Value = (usize, Vec<Fed>)> {
    let board = (kind(), prop::collection::vec(any::<u16>(), 0..6000));
    (prop::collection::vec(board, 1..6), batch_length).prop_map(|(boards, length)| {
        let times: Vec<Vec<i64>> = boards
            .iter()
            .map(|(kind, seeds)| if matches!(kind, Kind::Idle) { Vec::new() } else { times_of(kind, seeds) })
            .collect();
        (times.len(), batches(&times, length))
    })
}

fn batches(times: &[Vec<i64>], length: usize) -> Vec<Fed> {
    let mut feed: Vec<Fed> = Vec::new();
    for (source, times) in times.iter().enumerate() {
        let mut mark = 0;
        for chunk in times.chunks(length.max(1)) {
            let latest = chunk.iter().max().copied().unwrap_or(0);
            mark = mark.max((latest + 30_000) as u64);
            feed.push(fed(source as u16, mark, chunk));
        }
    }
    feed.sort_by_key(|fed| (fed.mark, fed.source));
    feed
}

fn run(settings: &Settings, sources: usize, feed: &[Fed]) -> Harness {
    let mut harness = Harness::new(settings, sources);
    feed.iter().for_each(|fed| harness.feed(fed));
    harness.end_all();
    harness
}

fn patient() -> Settings {
    Settings { stall_ms: u64::MAX, disorder_ps: REACH as u64, ..Settings::default() }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(80))]

    #[test]
    fn every_hit_is_passed_on_once_and_in_order((sources, feed) in boards(1..3000)) {
        let harness = run(&patient(), sources, &feed);
        prop_assert_eq!(harness.keys(), expected(&feed));
    }

    #[test]
    fn the_division_into_batches_does_not_change_the_output((sources, feed) in boards(200..201), length in 1usize..150) {
        let mut finer = Vec::new();
        for fed in &feed {
            for times in fed.times.chunks(length) {
                finer.push(Fed { times: times.to_vec(), ..fed.clone() });
            }
        }
        prop_assert_eq!(run(&patient(), sources, &feed).out, run(&patient(), sources, &finer).out);
    }

    #[test]
    fn late_hits_are_flagged_or_counted_and_all_others_in_order(
        (sources, feed) in boards(1..2000),
        late in prop_oneof![Just(Late::Keep), Just(Late::Drop)],
        full in prop_oneof![Just(Full::PassOver), Just(Full::Drop)],
        memory_bytes in 20_000u64..400_000,
    ) {
        // No disorder is allowed, and memory is scarce: some hits are late, and some exceed the memory.
        let settings = Settings { disorder_ps: 0, late, full, memory_bytes, stall_ms: 0 };
        let harness = run(&settings, sources, &feed);
        let fed: usize = feed.iter().map(|fed| fed.times.len()).sum();
        let lost = harness.lost(LossReason::Late) + harness.lost(LossReason::OverBudget);
        prop_assert_eq!(harness.out.len() as u64 + lost, fed as u64);
        let in_time: Vec<_> = harness.out.iter().filter(|hit| !hit.flags.has(Flags::LATE)).collect();
        let key = |hit: &&Hit| (hit.time_ps, hit.channel, sequence(hit));
        prop_assert!(in_time.is_sorted_by_key(key));
        let mut keys = harness.keys();
        keys.sort_unstable();
        keys.dedup();
        prop_assert_eq!(keys.len(), harness.out.len());
        let largest = feed.iter().map(|fed| fed.times.len()).max().unwrap_or(0) as u64;
        prop_assert!(harness.most_bytes <= memory_bytes.max(largest * 16 + largest.div_ceil(3) * 72));
    }
}

#[test]
fn boards_of_very_different_rates_are_merged_with_an_idle_board() {
    let fast: Vec<i64> = (0..60_000).collect();
    let slow: Vec<i64> = (0..600).map(|index| index * 100).collect();
    let feed = batches(&[fast, Vec::new(), slow], 700);
    let harness = run(&patient(), 3, &feed);
    assert_eq!(harness.keys(), expected(&feed));
}

#[test]
fn a_silent_source_is_passed_over_and_joins_again() {
    let settings = Settings { stall_ms: 1, late: Late::Drop, ..Settings::default() };
    let mut harness = Harness::new(&settings, 2);
    let ms = 1_000_000;
    harness.feed(&fed(0, 0, &[10]));
    harness.feed(&fed(1, 0, &[10, 20]));
    harness.feed(&fed(1, 30 * ms, &[30, 40]));
    assert_eq!(harness.order.standing(SourceId(0)), Standing::PassedOver);
    assert_eq!(harness.order.times_passed_over(SourceId(0)), 1);
    assert_eq!(harness.keys().len(), 4, "all hits up to the latest of the other source");
    // 35 is before the released time; 50 is not.
    harness.feed(&fed(0, 31 * ms, &[35, 50]));
    assert_eq!(harness.order.standing(SourceId(0)), Standing::Live);
    assert_eq!(harness.lost(LossReason::Late), 1);
    harness.feed(&fed(1, 31 * ms, &[60]));
    harness.end_all();
    assert_eq!(harness.keys().iter().map(|key| key.0).collect::<Vec<_>>(), [10, 10, 20, 30, 40, 50, 60]);
}

const MS: u64 = 1_000_000;
/// One millisecond of data.
const MS_PS: i64 = 1_000_000_000;

/// Source 1 sends a hit a millisecond, a millisecond after its time. So late come the rare hits of source 0, one each `period_ms`, until it
/// is silent from `gone_ms` on.
fn with_a_rare_source(settings: &Settings, (period_ms, gone_ms): (i64, i64), late_ms: &[i64]) -> Harness {
    let mut harness = Harness::new(settings, 2);
    for now_ms in 1..10_000i64 {
        let mark = now_ms as u64 * MS;
        let count = now_ms / period_ms;
        let late_ms = late_ms[count as usize % late_ms.len()];
        let is_due = now_ms < gone_ms && count > 0 && now_ms == count * period_ms + late_ms;
        let rare: &[i64] = if is_due { &[count * period_ms * MS_PS] } else { &[] };
        harness.feed(&fed(0, mark, rare));
        harness.feed(&fed(1, mark, &[(now_ms - 1) * MS_PS]));
        if let Some(last) = harness.out.last().filter(|_| now_ms > 1000) {
            let behind_ms = now_ms - last.time_ps / MS_PS;
            assert!(behind_ms <= 600, "at {now_ms} ms the order is {behind_ms} ms behind");
        }
    }
    harness
}

fn late_of(harness: &Harness, source: u16) -> usize {
    harness.out.iter().filter(|hit| hit.channel == source && hit.flags.has(Flags::LATE)).count()
}

#[test]
fn of_a_source_with_rare_hits_the_first_alone_is_late() {
    for period_ms in [250, 700, 1000] {
        let late_ms = [17, 12, 21, 5, 18, 30, 3, 16];
        let mut harness = with_a_rare_source(&Settings::default(), (period_ms, i64::MAX), &late_ms);
        harness.end_all();
        let sent = harness.out.iter().filter(|hit| hit.channel == 0).count();
        assert!(sent >= 9 && late_of(&harness, 0) <= 1, "{} of {sent} are late", late_of(&harness, 0));
        assert_eq!(late_of(&harness, 1), 0);
    }
}

#[test]
fn the_order_stays_behind_for_what_a_silent_source_was_seen_to_need_and_no_more() {
    let harness = with_a_rare_source(&Settings::default(), (1000, 5000), &[20]);
    let last = harness.out.last().expect("the other continues");
    assert_eq!(last.channel, 1);
    let behind_ms = 9999 - last.time_ps / MS_PS;
    // Twice 20 ms less the delay of the other, and at most 20 ms from one advance to the next.
    assert!((39..=60).contains(&behind_ms), "{behind_ms} ms");
    // Who comes later than a silent source is waited for is taken for a board that has restarted its clock.
    let settings = Settings { stall_ms: 50, ..Settings::default() };
    let harness = with_a_rare_source(&settings, (1000, i64::MAX), &[80]);
    assert_eq!(late_of(&harness, 0), 9);
    let behind_ms = 9999 - harness.out.last().expect("the other continues").time_ps / MS_PS;
    assert!(behind_ms <= 22, "{behind_ms} ms");
}

#[test]
fn memory_is_not_used_up_by_waiting_for_a_silent_source() {
    // The silent source is waited for by 400 ms; the memory holds 100 ms of the other.
    for full in [Full::PassOver, Full::Drop] {
        let settings = Settings { full, memory_bytes: 100 * 40, ..Settings::default() };
        let mut harness = with_a_rare_source(&settings, (5000, i64::MAX), &[200]);
        assert_eq!(harness.order.times_passed_over(SourceId(1)), 0);
        harness.end_all();
        // Until it is passed over for the first time, the order waits for the silent source in any case.
        let lost = harness.lost(LossReason::OverBudget);
        assert!(lost < if full == Full::Drop { 500 } else { 1 }, "{lost} hits with {full:?}");
    }
}

/// Bytes of that many hits, with their extras.
fn bytes_of(hits: u64) -> u64 {
    hits * 40
}

#[test]
fn a_slow_source_alone_is_passed_over_when_memory_is_used_up_whatever_it_once_needed() {
    // Source 0 is silent, comes back 200 ms late, is live, and stands still from 3 s on; the memory holds 300 ms.
    let settings = Settings { memory_bytes: bytes_of(300), ..Settings::default() };
    let mut harness = Harness::new(&settings, 2);
    for now_ms in 1..5000i64 {
        let mark = now_ms as u64 * MS;
        match now_ms {
            1200 => harness.feed(&fed(0, mark, &[(now_ms - 200) * MS_PS])),
            1..100 | 1201..3000 => harness.feed(&fed(0, mark, &[now_ms * MS_PS])),
            _ => {}
        }
        harness.feed(&fed(1, mark, &[now_ms * MS_PS]));
    }
    assert_eq!(harness.order.standing(SourceId(0)), Standing::PassedOver);
    assert_eq!(harness.order.times_passed_over(SourceId(1)), 0);
    assert_eq!(harness.lost(LossReason::OverBudget), 0);
    harness.end_all();
}

#[test]
fn memory_that_is_used_up_now_and_then_does_not_make_rare_hits_late_for_ever() {
    // Each second, source 0 sends a hit, 35 ms late. Each two seconds, source 2 stands still for longer than the memory
    // holds; or source 1 sends more than that at once, while the order stays behind for source 0.
    for (burst, most_late) in [(0, 2), (400, 7)] {
        let settings = Settings { memory_bytes: bytes_of(300), ..Settings::default() };
        let mut harness = Harness::new(&settings, 3);
        for now_ms in 1..12_000i64 {
            let (mark, now_ps) = (now_ms as u64 * MS, now_ms * MS_PS);
            if now_ms > 1000 && now_ms % 1000 == 35 {
                harness.feed(&fed(0, mark, &[now_ps - 35 * MS_PS]));
            }
            harness.feed(&fed(1, mark, &[now_ps]));
            if now_ms % 2000 == 1500 {
                (0..burst).for_each(|step| harness.feed(&fed(1, mark, &[now_ps + step])));
            }
            if burst > 0 || now_ms % 2000 < 1600 {
                harness.feed(&fed(2, mark, &[now_ps]));
            }
        }
        harness.end_all();
        let late = late_of(&harness, 0);
        assert!(late <= most_late, "burst of {burst}: {late} of 11 are late");
        assert_eq!(harness.lost(LossReason::OverBudget), 0);
    }
}

#[test]
fn one_slow_return_does_not_delay_the_order_for_the_rest_of_the_run() {
    let mut late_ms = [20; 20];
    late_ms[3] = 200;
    let mut harness = Harness::new(&Settings::default(), 2);
    let mut behind_ms = Vec::new();
    for now_ms in 1..20_000i64 {
        let (mark, second) = (now_ms as u64 * MS, now_ms / 1000);
        if second > 0 && now_ms % 1000 == late_ms[second as usize] {
            harness.feed(&fed(0, mark, &[second * 1000 * MS_PS]));
        }
        harness.feed(&fed(1, mark, &[now_ms * MS_PS]));
        if now_ms % 1000 == 999 {
            behind_ms.push(now_ms - harness.out.last().map_or(0, |last| last.time_ps / MS_PS));
        }
    }
    assert!(behind_ms[4] > 300, "after the slow return: {} ms", behind_ms[4]);
    assert!(behind_ms[19] <= 100, "at the end: {} ms", behind_ms[19]);
    assert!(late_of(&harness, 0) <= 2);
}

#[test]
fn a_restarted_board_does_not_hold_up_the_others() {
    let settings = Settings { stall_ms: 50, late: Late::Keep, ..Settings::default() };
    let mut harness = Harness::new(&settings, 2);
    for turn in 0..200i64 {
        let restarted = if turn < 100 { turn } else { turn - 100 };
        harness.feed(&fed(0, turn as u64 * MS, &[restarted * MS_PS]));
        harness.feed(&fed(1, turn as u64 * MS, &[turn * MS_PS]));
    }
    assert_eq!(harness.order.standing(SourceId(0)), Standing::PassedOver);
    let last = harness.out.iter().rev().find(|hit| hit.channel == 1).expect("the other board continues");
    assert!(last.time_ps > 170 * MS_PS, "the other board is at {} ps", last.time_ps);
    harness.end_all();
    let late = harness.out.iter().filter(|hit| hit.flags.has(Flags::LATE)).count();
    // The first few hits after the restart are still in time.
    assert!((80..=100).contains(&late), "{late}");
    assert_eq!(harness.out.len(), 400);
}

#[test]
fn one_damaged_time_does_not_make_later_hits_late() {
    let settings = Settings { stall_ms: u64::MAX, ..Settings::default() };
    let mut harness = Harness::new(&settings, 1);
    let day_ps = 86_400_000_000_000_000;
    for turn in 0..100i64 {
        let damaged = if turn == 40 { day_ps } else { 1000 * turn + 1 };
        harness.feed(&fed(0, 30_000_000 * turn as u64, &[1000 * turn, damaged]));
    }
    // The next batch confirms a beam pause of one minute.
    let minute_ps = 60_000_000_000_000;
    harness.feed(&fed(0, 30_000_000 * 100, &[minute_ps]));
    assert_eq!(harness.out.last().map(|hit| hit.time_ps), Some(99_000));
    harness.feed(&fed(0, 30_000_000 * 101, &[minute_ps + 1]));
    assert_eq!(harness.out.last().map(|hit| hit.time_ps), Some(minute_ps));
    harness.end_all();
    assert!(harness.out.iter().all(|hit| !hit.flags.has(Flags::LATE)));
    assert!(harness.out.is_sorted_by_key(|hit| hit.time_ps));
    assert_eq!((harness.out.len(), harness.out.last().map(|hit| hit.time_ps)), (202, Some(day_ps)));
}

#[test]
fn the_order_does_not_wait_for_an_idle_board_that_has_ended() {
    let mut harness = Harness::new(&patient(), 2);
    harness.feed(&fed(1, 0, &[1, 2, 3000]));
    assert!(harness.out.is_empty());
    harness.feed(&end(0, 1));
    assert_eq!(harness.out.len(), 2, "up to the allowed disorder");
    harness.feed(&end(1, 1));
    assert!(harness.ended);
}

#[test]
fn a_snapshot_marker_is_passed_on_with_the_batch_of_its_source() {
    let mut harness = Harness::new(&patient(), 2);
    harness.feed(&fed(0, 0, &[5000]));
    harness.feed(&Fed { snapshot: Some(7), ..fed(1, 0, &[1, 2, 9000]) });
    assert_eq!(harness.markers, [(1, 7)]);
    harness.feed(&Fed { snapshot: Some(7), end: true, ..fed(0, 1, &[]) });
    harness.end_all();
    assert_eq!(harness.markers, [(1, 7), (0, 7)]);
}

#[test]
fn invalid_batches_are_refused_without_effect() {
    let mut order = TimeOrder::new(&Settings::default(), 2, BATCH_HITS);
    let mut batch = Hits::default();
    let mut push = |source: u16, mark: u64, end: bool| {
        batch.header.source = SourceId(source);
        batch.header.mark = Mark(mark);
        batch.header.end = end;
        order.push(&mut batch)
    };
    assert!(matches!(push(2, 0, false), Err(OrderError::UnknownSource { .. })));
    assert_eq!(push(1, 5, false), Ok(Pushed::Taken));
    assert!(matches!(push(0, 5, false), Err(OrderError::MarkWentBack { .. })));
    assert!(matches!(push(1, 4, false), Err(OrderError::MarkWentBack { .. })));
    assert_eq!(push(1, 5, true), Ok(Pushed::Taken));
    assert!(matches!(push(1, 6, false), Err(OrderError::AfterEnd { .. })));
}

#[test]
fn the_smallest_and_largest_times_are_ordered_like_others() {
    let feed = [fed(0, 0, &[i64::MIN, i64::MAX]), fed(1, 0, &[i64::MIN, 0, i64::MAX, i64::MAX])];
    let harness = run(&Settings { stall_ms: u64::MAX, ..Settings::default() }, 2, &feed);
    assert_eq!(harness.keys(), expected(&feed));
}

#[test]
fn board_statistics_are_passed_on() {
    let mut order = TimeOrder::new(&Settings::default(), 1, BATCH_HITS);
    let (mut batch, mut out) = (Hits::default(), Hits::default());
    let statistics = Statistics {
        source: SourceId(0),
        channel: 3,
        real_time_ps: 1,
        dead_time_ps: 0,
        triggers: 2,
        saved: 2,
        ..Statistics::default()
    };
    batch.statistics.push(statistics);
    batch.header.end = true;
    assert_eq!(order.push(&mut batch), Ok(Pushed::Taken));
    assert!(order.pull(&mut out));
    assert_eq!(out.statistics, [statistics]);
    assert!(order.pull(&mut out) && out.header.end);
    assert!(!order.pull(&mut out));
}

#[test]
fn samples_stay_readable_and_blocks_return_to_the_pool() {
    let pool = Pool::new(4, 4096).expect("small");
    let mut order = TimeOrder::new(&Settings::default(), 2, BATCH_HITS);
    let (mut batch, mut out) = (Hits::default(), Hits::default());
    for source in 0..2u16 {
        let mut writer = pool.take().expect("free");
        for index in 0..50u16 {
            let hit =
                Hit { time_ps: i64::from(index), channel: source, flags: Flags::EXTRA, ..Hit::default() };
            let slice = writer.append(&(1000 * source + index).to_le_bytes()).expect("fits");
            let samples_first = batch.slices.len() as u32;
            batch.slices.push(slice);
            batch.leases.add(writer.lease());
            let layout = Layout::Plain;
            batch.extras.push(Extra {
                samples_first,
                samples_count: 1,
                layout,
                ..Extra::of(&hit, SourceId(source))
            });
            batch.hits.push(hit);
        }
        batch.header.source = SourceId(source);
        batch.header.end = true;
        assert_eq!(order.push(&mut batch), Ok(Pushed::Taken));
    }
    assert!(order.pull(&mut out));
    assert_eq!(out.hits.len(), 100);
    for (hit, extra) in out.hits.iter().zip(&out.extras) {
        let slice = out.slices[extra.samples_first as usize];
        assert_eq!(out.leases.bytes(slice), (1000 * hit.channel + hit.time_ps as u16).to_le_bytes());
    }
    assert_eq!(pool.free_count(), 2);
    out.clear();
    assert_eq!(pool.free_count(), 4);
}

#[test]
fn blocks_of_waveforms_that_were_passed_on_are_free() {
    // Each hit comes by itself, with a block of samples; the next one lets it pass.
    let pool = Pool::new(4, 64).expect("small");
    let mut order = TimeOrder::new(&Settings::default(), 1, 4096);
    let (mut batch, mut out, mut passed) = (Hits::with_capacity(4096), Hits::default(), 0i64);
    for number in 0..100u64 {
        let mut writer = pool.take().unwrap_or_else(|| panic!("hit {number} finds no block"));
        let hit = Hit { time_ps: number as i64, flags: Flags::EXTRA, ..Hit::default() };
        let slice = writer.append(&number.to_le_bytes()).expect("it fits");
        batch.header.mark = Mark(number * 30_000_000);
        batch.hits.push(hit);
        batch.extras.push(Extra { samples_count: 1, ..Extra::of(&hit, SourceId(0)) });
        batch.slices.push(slice);
        batch.leases.add(writer.lease());
        assert_eq!(order.push(&mut batch), Ok(Pushed::Taken));
        while order.pull(&mut out) {
            for (hit, extra) in out.hits.iter().zip(&out.extras) {
                let sample = out.leases.bytes(out.slices[extra.samples_first as usize]);
                assert_eq!((hit.time_ps, sample), (passed, &passed.to_le_bytes()[..]));
                passed += 1;
            }
        }
    }
    assert_eq!(passed, 99, "the last one waits");
}

#[test]
fn of_a_batch_that_was_passed_on_in_part_only_the_rest_holds_blocks() {
    // Four hits come before the order advances, each with a block of samples; the last one waits for more.
    let pool = Pool::new(4, 64).expect("small");
    let mut order = TimeOrder::new(&Settings::default(), 1, 4096);
    let (mut batch, mut out) = (Hits::with_capacity(4096), Hits::default());
    for number in 0..4u64 {
        let mut writer = pool.take().expect("free");
        let hit = Hit { time_ps: number as i64, flags: Flags::EXTRA, ..Hit::default() };
        let slice = writer.append(&number.to_le_bytes()).expect("it fits");
        batch.header.mark = Mark(if number == 3 { 30_000_000 } else { 0 });
        batch.hits.push(hit);
        batch.extras.push(Extra { samples_count: 1, ..Extra::of(&hit, SourceId(0)) });
        batch.slices.push(slice);
        batch.leases.add(writer.lease());
        assert_eq!(order.push(&mut batch), Ok(Pushed::Taken));
    }
    assert!(order.pull(&mut out));
    assert_eq!(out.hits.len(), 3);
    while order.pull(&mut out) {}
    assert_eq!(pool.free_count(), 3, "the blocks of the hits that were passed on");
    (batch.header.mark, batch.header.end) = (Mark(30_000_000), true);
    assert_eq!(order.push(&mut batch), Ok(Pushed::Taken));
    assert!(order.pull(&mut out));
    assert_eq!(out.leases.bytes(out.slices[0]), 3u64.to_le_bytes());
    out.clear();
    assert_eq!(pool.free_count(), 4);
}
