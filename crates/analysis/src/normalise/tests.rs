//! Counters that wrap, restart and jump, and what is known by them.

use proptest::prelude::*;
use thalweg_data::Statistics;

use super::*;

const MS: i64 = 1_000_000_000;
const WRAP: u64 = 1 << 24;

/// A record at a millisecond of a board that was started, as it is sent: with 24 bits of its counters.
fn record(ms: i64, dead_ms: i64, saved: u64) -> Statistics {
    Statistics {
        real_time_ps: ms * MS,
        since_start_ps: ms * MS,
        dead_time_ps: dead_ms * MS,
        saved: saved % WRAP,
        start: 1,
        counter_bits: 24,
        ..Statistics::default()
    }
}

/// The counters of a channel behind these records, each with the hits of the channel before it.
fn counters(records: &[(Statistics, u64)]) -> BoardCounters {
    let mut counters = BoardCounters::default();
    for (record, hits) in records {
        counters.arrive(*record);
        assert_eq!(counters.due_ps(), Some(record.real_time_ps));
        counters.pass(*hits);
    }
    counters
}

const NO_LOSS: SourceLoss = SourceLoss { quality: Quality::Exact, ..SourceLoss::UNKNOWN };

fn lost(fraction: f64) -> SourceLoss {
    SourceLoss { fraction, of_units: Some(0.0), ..NO_LOSS }
}

#[test]
fn saved_counters_give_the_loss_and_the_live_time_of_a_channel() {
    let counters = counters(&[(record(1000, 200, 4000), 3960), (record(2000, 400, 8000), 7900)]);
    let known = Normalised::of(7900, &counters, &lost(0.01));
    assert_eq!((known.real_time_s, known.live_time_s), (Some(2.0), Some(1.6)));
    assert!((known.dead_time_fraction().expect("known") - 0.2).abs() < 1e-9);
    assert_eq!(known.live_time_quality, Quality::Exact);
    let rate = known.rate_hz();
    assert_eq!((rate.value, rate.quality), (Some(5000.0), Quality::Exact));
    let relative = rate.uncertainty.expect("known") / 5000.0;
    assert!((relative - 1.0 / 8000f64.sqrt()).abs() < 1e-6, "as of a Poisson number of 8000: {relative}");
    // A spectrum of every tenth of its hits stands for every tenth of what the board has saved.
    let part = known.corrected(790);
    assert!((part.value.expect("known") - 800.0).abs() < 1e-9 && part.quality == Quality::Exact);
    assert!((known.rate_of_hz(790).value.expect("known") - 500.0).abs() < 1e-9);
    // Hits behind the last record are in no known live time.
    let later = Normalised::of(8500, &counters, &lost(0.01));
    assert_eq!((later.live_time_s, later.live_time_quality), (Some(1.6), Quality::AtLeast));
    assert_eq!(later.rate_hz(), rate);
}

#[test]
fn a_board_without_records_has_no_live_time_and_the_losses_of_its_source() {
    let none = BoardCounters::default();
    let of_source = Normalised::of(990, &none, &lost(0.01));
    assert_eq!((of_source.live_time_s, of_source.real_time_s), (None, None), "real time is not taken for it");
    assert_eq!((of_source.live_time_quality, of_source.rate_hz()), (Quality::Unknown, Corrected::UNKNOWN));
    let corrected = of_source.corrected(990);
    assert!((corrected.value.expect("known") - 1000.0).abs() < 1e-9 && corrected.quality == Quality::Exact);
    let bound = SourceLoss { of_units: Some(0.02), ..SourceLoss::UNKNOWN };
    for loss in [bound, SourceLoss::UNKNOWN] {
        let corrected = Normalised::of(990, &none, &loss).corrected(990);
        assert_eq!((corrected.value, corrected.quality), (Some(990.0), Quality::AtLeast), "none is invented");
    }
}

#[test]
fn counters_are_extended_over_wraps_by_the_hits_that_came() {
    // Two records of three are lost with their datagrams: the counter has wrapped more than once between those that came.
    let saved = [9_000_000, 18_000_000, 63_000_000];
    let records: Vec<_> = saved.iter().map(|saved| record((*saved / 9000) as i64, 0, *saved)).collect();
    let counters = counters(&[(records[0], 8_990_000), (records[1], 17_950_000), (records[2], 62_000_000)]);
    let covered = counters.covered().expect("three records");
    assert_eq!((covered.saved, covered.hits, counters.jumps()), (63_000_000, 62_000_000, 0));
}

#[test]
fn a_board_that_ran_before_counts_from_its_first_record() {
    let ran = |record: Statistics| Statistics { start: 0, ..record };
    let counters =
        counters(&[(ran(record(9000, 900, 70_000)), 10), (ran(record(10_000, 1000, 80_000)), 10_010)]);
    let covered = counters.covered().expect("two records");
    assert_eq!(
        (covered.real_ps, covered.dead_ps, covered.saved, covered.hits),
        (1000 * MS, 100 * MS, 10_000, 10_000)
    );
}

#[test]
fn a_board_that_is_started_again_goes_on_from_its_first_record_since_then() {
    let again = |ms: i64, saved| Statistics {
        start: 2,
        real_time_ps: (ms + 60_000) * MS,
        ..record(ms, ms / 10, saved)
    };
    let counters =
        counters(&[(record(1000, 100, 4000), 4000), (again(1000, 300), 4500), (again(2000, 600), 4800)]);
    let covered = counters.covered().expect("records of both");
    assert_eq!((covered.real_ps, covered.dead_ps, counters.jumps()), (2000 * MS, 200 * MS, 0));
    assert_eq!((covered.saved, covered.hits), (4300, 4300));
}

#[test]
fn counters_that_jump_make_their_channel_unknown_from_then_on() {
    let good = (record(1000, 100, 4000), 4000);
    let next = record(2000, 200, 8000);
    let cases = [
        ("saved hits go back", Statistics { saved: 1000, ..next }),
        ("real time goes back", Statistics { since_start_ps: 500 * MS, ..next }),
        ("dead time goes back", Statistics { dead_time_ps: 50 * MS, ..next }),
        ("more dead time than time", Statistics { dead_time_ps: 1200 * MS, ..next }),
        (
            "saved hits go ahead by more than half of the range",
            Statistics { saved: 8000 + WRAP / 2 + 100, ..next },
        ),
    ];
    for (what, jumped) in cases {
        let after = Statistics { since_start_ps: 3000 * MS, dead_time_ps: 1300 * MS, ..jumped };
        let counters = counters(&[good, (jumped, 8000), (after, 8000)]);
        assert!(counters.jumps() >= 1, "{what}");
        let known = Normalised::of(12_000, &counters, &lost(0.0));
        assert_eq!((known.live_time_s, known.live_time_quality), (None, Quality::Unknown), "{what}");
        assert_eq!(
            (known.rate_hz(), known.corrected(12_000)),
            (Corrected::UNKNOWN, Corrected::UNKNOWN),
            "{what}"
        );
    }
}

#[test]
fn counters_that_contradict_the_ledger_are_not_believed() {
    let ahead = counters(&[(record(1000, 100, 4000), 4000), (record(2000, 200, 10_000), 8000)]);
    let of = |loss: SourceLoss| Normalised::of(8000, &ahead, &loss);
    assert_eq!(ahead.jumps(), 0, "2000 hits more may have been sent");
    assert_eq!(of(lost(0.0)).rate_hz(), Corrected::UNKNOWN, "but nothing was lost");
    assert_eq!(of(lost(0.0)).corrected(8000), Corrected::UNKNOWN);
    assert_eq!(of(lost(0.0)).live_time_s, Some(1.8), "which its clock does not need");
    assert_eq!(of(lost(0.2)).corrected(8000).value, Some(10_000.0));
    let bound = SourceLoss { of_units: Some(0.2), ..SourceLoss::UNKNOWN };
    assert_eq!(of(bound).corrected(8000).quality, Quality::Exact, "a fifth of the datagrams is lost");
    assert_eq!(of(SourceLoss::UNKNOWN).corrected(8000).value, Some(10_000.0), "nobody knows better");
}

#[test]
fn a_channel_of_which_nothing_came_is_not_corrected() {
    let saved = counters(&[(record(1000, 0, 40), 0)]);
    assert_eq!(Normalised::of(0, &saved, &lost(1.0)).corrected(0), Corrected::UNKNOWN);
    let silent = counters(&[(record(1000, 0, 0), 0)]);
    let rate = Normalised::of(0, &silent, &lost(0.0)).rate_hz();
    assert_eq!((rate.value, rate.uncertainty, rate.low_95), (Some(0.0), Some(1.0), Some(0.0)));
    assert!((3.6..3.75).contains(&rate.high_95.expect("known")), "{rate:?}");
}

#[test]
fn a_record_waits_for_its_hits_and_a_newer_one_behind_it() {
    let mut counters = BoardCounters::default();
    for ms in [1, 2, 3] {
        counters.arrive(record(ms, 0, 10 * ms as u64));
    }
    assert_eq!((counters.due_ps(), counters.covered()), (Some(MS), None));
    counters.pass(10);
    assert_eq!(counters.due_ps(), Some(3 * MS), "the newest is compared next");
    counters.pass(30);
    let covered = counters.covered().expect("two records");
    assert_eq!((counters.due_ps(), covered.real_ps, covered.saved, covered.hits), (None, 3 * MS, 30, 30));
}

#[test]
fn rates_of_channels_add_up_and_one_that_is_unknown_hides_their_sum() {
    let counters = counters(&[(record(1000, 0, 400), 400)]);
    let one = Normalised::of(400, &counters, &lost(0.0));
    let sum = rate_together_hz([one, one].into_iter());
    assert_eq!(sum.value, Some(800.0));
    assert!((sum.uncertainty.expect("known") - 800f64.sqrt()).abs() < 1e-9);
    let unknown = Normalised::of(5, &BoardCounters::default(), &lost(0.0));
    assert_eq!(rate_together_hz([one, unknown].into_iter()), Corrected::UNKNOWN);
    let exact = corrected_together(7, [one, one].into_iter());
    assert_eq!((exact.value, exact.quality), (Some(7.0), Quality::Exact));
    assert_eq!(corrected_events(7, [one, one].into_iter()), exact);
    let tenth = Normalised::of(900, &BoardCounters::default(), &lost(0.1));
    let least = corrected_together(7, [one, tenth].into_iter());
    assert_eq!((least.value, least.quality), (Some(7.0), Quality::AtLeast));
    assert_eq!(
        corrected_events(7, [one, tenth].into_iter()),
        Corrected::UNKNOWN,
        "not even a bound: there are vetoes"
    );
    // All hits came, but some of them were in no event: too late, or cut off it.
    let apart = Normalised::of(400, &counters, &lost(0.0).with_hits_apart());
    assert_eq!(corrected_events(7, [one, apart].into_iter()), Corrected::UNKNOWN);
    assert_eq!(corrected_together(7, [one, apart].into_iter()), exact);
}

#[test]
fn events_that_are_kept_stand_for_those_that_could_not_be_recorded() {
    let unharmed = Normalised::of(400, &BoardCounters::default(), &lost(0.0));
    let kept = corrected_events(600, std::iter::once(unharmed));
    let all = kept.with_lost(600, 400);
    assert_eq!((all.value, all.quality), (Some(1000.0), Quality::Exact));
    assert!(
        (all.uncertainty.expect("known") - 1000.0 / 600f64.sqrt()).abs() < 1e-9,
        "as of 600 counts: {all:?}"
    );
    assert_eq!(kept.with_lost(600, 0), kept);
    assert_eq!(corrected_events(0, std::iter::once(unharmed)).with_lost(0, 400), Corrected::UNKNOWN);
}

#[test]
fn the_interval_is_that_of_a_poisson_number() {
    // Garwood's exact limits, by tables of χ².
    for (count, low, high) in [(1, 0.0253, 5.572), (10, 4.795, 18.39), (100, 81.36, 121.63)] {
        let (found_low, found_high) = interval_95(count);
        let width = high - low;
        assert!((found_low - low).abs() < 0.01 * width, "{count}: {found_low}");
        assert!((found_high - high).abs() < 0.01 * width, "{count}: {found_high}");
    }
}

proptest! {
    #[test]
    fn any_records_are_taken_without_a_panic(
        records in proptest::collection::vec((any::<[i64; 3]>(), any::<[u64; 2]>(), any::<[u8; 2]>()), 0..20),
    ) {
        let mut counters = BoardCounters::default();
        for ([real_time_ps, since_start_ps, dead_time_ps], [saved, hits], [start, counter_bits]) in records {
            let start = u32::from(start % 3);
            let of = Statistics { real_time_ps, since_start_ps, dead_time_ps, saved, start, counter_bits, ..Statistics::default() };
            counters.arrive(of);
            counters.pass(hits >> 8);
            let known = Normalised::of(hits >> 8, &counters, &lost(0.5));
            prop_assert!(known.live_time_s.is_none_or(|live| live >= 0.0));
            prop_assert!(known.rate_hz().value.is_none_or(f64::is_finite));
        }
    }
}
