//! Numbers far from those of before: damaged ones, gaps, and boards that begin anew.

use super::*;

#[test]
fn one_board_alone_does_not_move_the_window() {
    let mut bench = Bench::new(&small(), 4);
    (0..4).for_each(|source| bench.feed(source, &[0]));
    bench.feed(3, &[1 << 20]);
    for trigger in 1..40 {
        (0..3).for_each(|source| bench.feed(source, &[trigger]));
        bench.feed(3, &[trigger]);
    }
    assert_eq!(bench.triggers(), (0..40).collect::<Vec<_>>());
    assert!(bench.builder.wants(SourceId(3)), "a jump holds nobody back");
    bench.wait_ms(100);
    assert_eq!((bench.lost(3, LossReason::OutOfWindow), bench.builder.standing().deferred), (1, 0));
    bench.end();
}

#[test]
fn a_jump_of_two_boards_is_followed() {
    let mut bench = Bench::new(&small(), 3);
    (0..3).for_each(|source| bench.feed(source, &[0, 1]));
    bench.feed(0, &[2, 10_000, 10_001]);
    assert_eq!(bench.triggers(), [0, 1]);
    bench.feed(1, &[10_001, 10_002]);
    assert_eq!(bench.triggers(), [0, 1, 2], "closed, since newer triggers need the room");
    assert_eq!(bench.out[2].closing, Closing::Depth);
    bench.feed(2, &[10_001]);
    bench.end();
    assert_eq!(bench.triggers(), [0, 1, 2, 10_000, 10_001, 10_002]);
    assert!(bench.out[4].missing.is_empty());
}

#[test]
fn a_damaged_number_of_a_lone_board_costs_one_fragment() {
    for far in [1 << 28, 200, 100] {
        for ordered in [true, false] {
            let mut bench = Bench::new(&Settings { ordered, ..small() }, 1);
            bench.feed(0, &[0, 1, 2, far + 2]);
            for trigger in 3..50 {
                bench.feed(0, &[trigger]);
                bench.wait_ms(10);
            }
            assert_eq!(bench.lost(0, LossReason::OutOfWindow), 1, "{far} {ordered}");
            bench.end();
            bench.out.sort_by_key(|event| event.trigger);
            assert_eq!(bench.triggers(), (0..50).collect::<Vec<_>>(), "{far} {ordered}");
            assert_eq!(bench.builder.events_counters().total_noted(Noted::Unseen, Unit::Events), 0);
        }
    }
}

#[test]
fn a_damaged_number_at_the_end_of_a_run_costs_one_fragment() {
    let mut bench = Bench::new(&small(), 2);
    (0..2).for_each(|source| bench.feed(source, &[0, 1]));
    bench.feed(0, &[(1 << 28) + 2]);
    // First the links end, one after the other, and then the run.
    for source in [1, 0] {
        bench.builder.end(SourceId(source));
        bench.pull();
    }
    bench.end();
    assert_eq!((bench.triggers(), bench.lost(0, LossReason::OutOfWindow)), (vec![0, 1], 1));
    assert_eq!(bench.builder.dumps()[0].expected(), "triggers 2 to 65");
    assert_eq!(bench.builder.events_counters().total_noted(Noted::Unseen, Unit::Events), 0);
}

#[test]
fn a_lone_board_that_stays_elsewhere_is_followed() {
    // The only one, or the one that is left; with holes, in one batch or one by one, faster or slower than events come of age.
    let numbers: Vec<u64> = (0..40).map(|number| 10_000 + 20 * number).collect();
    for sources in [1, 2] {
        for age_ms in [100, 5] {
            for batch in [1, 40] {
                let mut bench = Bench::new(&Settings { age_ms, ..small() }, sources);
                (0..sources).for_each(|source| bench.feed(source, &[0, 1]));
                (1..sources).for_each(|source| bench.builder.end(SourceId(source)));
                for numbers in numbers.chunks(batch) {
                    let mut taken = 0;
                    while taken < numbers.len() {
                        taken += bench.offer(0, &numbers[taken..]);
                        bench.pull();
                    }
                    bench.wait_ms(10);
                }
                bench.end();
                let lost = bench.lost(0, LossReason::OutOfWindow) as usize;
                assert_eq!(bench.triggers()[2..], numbers[lost..], "{sources} {age_ms} {batch}");
                assert_eq!(lost, if age_ms == 5 && batch == 1 { 7 } else { 0 });
            }
        }
    }
}

#[test]
fn a_board_that_stays_elsewhere_is_followed_once_it_is_left_alone() {
    let mut bench = Bench::new(&small(), 2);
    (0..2).for_each(|source| bench.feed(source, &[0, 1]));
    (5000..5010).for_each(|trigger| bench.feed(0, &[trigger]));
    assert_eq!(bench.builder.standing().deferred, 10);
    bench.builder.end(SourceId(1));
    bench.pull();
    assert_eq!(bench.triggers()[2..], (5000..5010).collect::<Vec<_>>());
    bench.end();
}

#[test]
fn a_gap_of_all_boards_is_passed_however_long_it_is() {
    for first in [30, 33, 40, 64, 65, 100, 127, 128, 200, 5000] {
        for full in [Full::Close, Full::Hold] {
            let mut bench = Bench::new(&Settings { full, ..small() }, 3);
            let numbers: Vec<u64> = (0..2).chain(first..first + 100).collect();
            for trigger in &numbers {
                (0..3).for_each(|source| bench.feed(source, &[*trigger]));
            }
            assert_eq!(bench.triggers(), numbers, "{full:?}");
            bench.end();
        }
    }
}

#[test]
fn a_board_that_resets_in_mid_run_is_counted_and_not_mixed() {
    let mut bench = Bench::new(&small(), 3);
    for trigger in 0..200 {
        for source in 0..3 {
            let number = if source == 1 && trigger >= 100 { trigger - 100 } else { trigger };
            assert_eq!(bench.offer(source, &[number]), 1);
        }
        bench.wait_ms(10);
    }
    bench.end();
    assert_eq!(bench.triggers(), (0..200).collect::<Vec<_>>());
    assert!(bench.out[100..].iter().all(|event| event.missing == [1]));
    let of_reset = [LossReason::LateFragment, LossReason::OutOfWindow, LossReason::DuplicateFragment];
    assert_eq!(of_reset.iter().map(|reason| bench.lost(1, *reason)).sum::<u64>(), 100);
}

#[test]
fn numbers_that_begin_anew_are_no_duplicates() {
    // Two boards answer 1000 triggers, and then again so many from 0 on, with this time between them.
    for (interval_ms, copies) in [(0, 512), (1, 100), (20, 7)] {
        let mut bench = Bench::new(&Settings { depth: 1024, ..small() }, 2);
        (0..2).for_each(|source| bench.feed(source, &[0]));
        for trigger in (1..1000).chain(0..1000) {
            (0..2).for_each(|source| bench.feed(source, &[trigger]));
            bench.wait_ms(interval_ms);
        }
        for source in 0..2 {
            let lost =
                [LossReason::DuplicateFragment, LossReason::OutOfWindow].map(|why| bench.lost(source, why));
            assert_eq!(lost, [copies, 1000 - copies], "{interval_ms}");
        }
        // The count goes on where it was, and a burst of copies behind it is one.
        (0..2).for_each(|source| bench.feed(source, &[1000]));
        (489..1001).for_each(|trigger| bench.feed(0, &[trigger]));
        assert_eq!(bench.lost(0, LossReason::DuplicateFragment), copies + 512);
        bench.end();
        assert_eq!(bench.triggers(), (0..1001).collect::<Vec<_>>());
    }
}

#[test]
fn a_fragment_that_is_repeated_for_long_is_a_duplicate() {
    let mut bench = Bench::new(&small(), 2);
    (0..2).for_each(|source| bench.feed(source, &[0, 1, 2]));
    for _ in 0..1000 {
        bench.feed(0, &[2]);
        bench.wait_ms(10);
    }
    assert_eq!(bench.lost(0, LossReason::DuplicateFragment), 1000);
    bench.end();
}
