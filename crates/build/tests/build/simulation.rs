//! Thousands of systems, each on its seed, in all of which the same must hold; see `thalweg_build::unit::simulate`.

use std::sync::atomic::{AtomicU64, Ordering};
use std::thread;

use thalweg_build::unit::simulate::{self, Plan, SimulationOutcome};

/// How many seeds; `THALWEG_SEEDS` asks for more, from `THALWEG_FIRST_SEED` on.
fn seeds(default: u64) -> std::ops::Range<u64> {
    let number = |name| std::env::var(name).ok().and_then(|text| text.parse::<u64>().ok());
    let first = number("THALWEG_FIRST_SEED").unwrap_or(0);
    first..first + number("THALWEG_SEEDS").unwrap_or(default)
}

/// Runs every seed, on two threads; a failure says which one it was.
fn run_all(seeds: std::ops::Range<u64>, plan: impl Fn(u64) -> Plan + Sync) -> SimulationOutcome {
    let next = AtomicU64::new(seeds.start);
    let work = || {
        let mut sum = SimulationOutcome::default();
        loop {
            let seed = next.fetch_add(1, Ordering::Relaxed);
            if seed >= seeds.end {
                return sum;
            }
            let outcome = simulate::run(&plan(seed)).unwrap_or_else(|failure| panic!("{failure}"));
            sum = plus(sum, outcome);
        }
    };
    let sums = thread::scope(|scope| {
        let workers = [scope.spawn(work), scope.spawn(work)];
        workers.map(|worker| worker.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic)))
    });
    let [one, other] = sums;
    plus(one, other)
}

fn plus(one: SimulationOutcome, other: SimulationOutcome) -> SimulationOutcome {
    SimulationOutcome {
        accepted: one.accepted + other.accepted,
        refused: one.refused + other.refused,
        once: one.once + other.once,
        repeated: one.repeated + other.repeated,
        lost: one.lost.plus(&other.lost),
        complete: one.complete + other.complete,
        partial: one.partial + other.partial,
        deaths: one.deaths + other.deaths,
        breaks: one.breaks + other.breaks,
        power_cuts: one.power_cuts + other.power_cuts,
        drained_ms: one.drained_ms.max(other.drained_ms),
    }
}

// What must hold of every seed is in the verdict, which knows the fate of each trigger by evidence; here is that the faults happened.

#[test]
fn whatever_goes_wrong_every_accepted_trigger_has_one_fate() {
    let outcome = run_all(seeds(300), Plan::from_seed);
    println!("{outcome:?}");
    let happened = outcome.deaths > 0 && outcome.repeated > 0 && outcome.lost.with_readout > 0;
    assert!(happened && outcome.refused > 0 && outcome.power_cuts == 0, "{outcome:?}");
    assert_eq!(outcome.lost.cut_from_disk, 0, "nobody cut the power: {outcome:?}");
}

#[test]
fn a_power_cut_takes_only_what_was_not_on_the_disk() {
    let outcome = run_all(seeds(200), Plan::with_power_cuts);
    println!("{outcome:?}");
    assert!(outcome.power_cuts > 0 && outcome.lost.cut_from_disk > 0, "{outcome:?}");
    // Who acknowledges what is synced loses nothing to a power cut: the verdict refuses it.
    let synced = |seed| Plan { acknowledges_synced: true, ..Plan::with_power_cuts(seed) };
    let outcome = run_all(seeds(100), synced);
    assert!(outcome.power_cuts > 0 && outcome.lost.cut_from_disk == 0, "{outcome:?}");
}

#[test]
fn what_was_acknowledged_is_read_although_everybody_dies_who_knew_it() {
    // Attempt 0 of triggers 1 to 5 goes with the power before it is synced. Attempt 1 is synced and acknowledged, and stays on its disk. Then
    // everybody dies who knew so: the event manager, its builder unit, and every readout unit but one that was not connected. Of that one
    // alone attempt 2 is built. Readers join both.
    let plan = Plan { acknowledges_synced: true, ..Plan::with_power_cuts(1583) };
    let outcome = simulate::run(&plan).unwrap_or_else(|failure| panic!("{failure}"));
    assert!(outcome.repeated > 0, "{outcome:?}");
}

#[test]
fn attempts_of_which_each_has_what_the_other_lacks_are_joined() {
    // A builder unit writes what one readout unit has, and dies before anyone knows; that readout unit dies, and the next attempt has what
    // another one kept.
    for seed in [6387, 6506] {
        let outcome =
            simulate::run(&Plan::with_power_cuts(seed)).unwrap_or_else(|failure| panic!("{failure}"));
        assert!(outcome.repeated > 0, "{outcome:?}");
    }
}

#[test]
fn where_nothing_goes_wrong_every_event_is_complete_and_written_once() {
    let outcome = run_all(seeds(100), Plan::calm);
    println!("{outcome:?}");
    assert_eq!((outcome.once, outcome.complete), (outcome.accepted, outcome.accepted), "{outcome:?}");
}

#[test]
fn who_finds_its_builder_unit_late_loses_nothing() {
    // Longer than units are silent that are taken for dead: readout units wait between their attempts to connect.
    let late = |seed| Plan { late_connection_ms: 100, ..Plan::calm(seed) };
    assert!(late(0).late_connection_ms > 3 * late(0).settings.dead_ms);
    let outcome = run_all(seeds(100), late);
    assert!(outcome.accepted > 0, "{outcome:?}");
    assert_eq!((outcome.once, outcome.complete), (outcome.accepted, outcome.accepted), "{outcome:?}");
}

#[test]
fn a_readout_unit_that_reaches_no_builder_unit_is_waited_for_and_then_left_out() {
    let cut_off = |seed| Plan {
        late_connection_ms: 2_000,
        faulty_ms: 1_500,
        readouts: 3,
        builders: 1,
        ..Plan::calm(seed)
    };
    let outcome = run_all(seeds(30), cut_off);
    assert!(outcome.partial > 0 && outcome.complete > 0, "{outcome:?}");
}

#[test]
fn a_seed_gives_the_same_run_again() {
    for seed in [3, 17, 99] {
        assert_eq!(simulate::run(&Plan::from_seed(seed)), simulate::run(&Plan::from_seed(seed)));
    }
}

/// Runs one system that has failed before; as then, nobody waits until readout units are connected with builder units.
#[track_caller]
fn holds(seed: u64) -> SimulationOutcome {
    let mut plan = Plan::from_seed(seed);
    plan.settings.reach_ms = 0;
    simulate::run(&plan).unwrap_or_else(|failure| panic!("{failure}"))
}

#[test]
fn what_nobody_remembers_but_a_file_is_not_written_as_older_than_it_is() {
    // Every unit that knew of a range dies, and a readout unit that comes later has all of its boards' fragments. Without what builder
    // units say of their files, the range is written with the same attempt again.
    let outcome = simulate::run(&Plan::from_seed(56_646)).unwrap_or_else(|failure| panic!("{failure}"));
    assert!(outcome.deaths >= 3, "{outcome:?}");
}

#[test]
fn what_was_sent_to_a_unit_that_died_is_not_taken_for_written() {
    // A readout unit has sent a range to a builder unit that dies with it, and so does the manager; the one that comes then has it from
    // nobody, because who is left knows less.
    let outcome = simulate::run(&Plan::from_seed(39_847)).unwrap_or_else(|failure| panic!("{failure}"));
    assert!(outcome.lost.counted_by_readout > 0, "{outcome:?}");
}

#[test]
fn a_part_that_came_too_late_is_counted_although_the_word_of_it_is_lost() {
    // The connections of a readout unit break while its part waits, and while the manager says that it was done without it.
    let outcome = holds(139_061);
    assert!(outcome.breaks > 0, "{outcome:?}");
}

#[test]
fn what_was_released_is_not_built_again_without_those_who_knew_of_it() {
    // A manager dies twice while a readout unit that knows of a release is not connected, and another that does not know of it is.
    holds(222_198);
    // The same with a builder unit that had written the next attempt already; and one that is informed of a range it had forgotten.
    holds(243_935);
    holds(151_548);
}

#[test]
fn a_part_that_came_too_late_is_counted_also_by_who_knew_an_earlier_attempt() {
    // A range is given to another builder unit and done without a readout unit that is not connected to the manager meanwhile: when it
    // is back it names the range by the attempt of before.
    assert!(holds(460_908).repeated > 0);
    // The same where the builder unit had it for the second time, and counted the part as late.
    holds(501_725);
}

#[test]
fn a_range_that_waited_for_a_builder_unit_is_sent_to_the_one_that_comes() {
    // A readout unit is informed of ranges that nobody builds, and then who does, with the same attempt.
    let outcome = holds(568_150);
    assert!(outcome.drained_ms < 1_000, "{outcome:?}");
}

#[test]
fn what_is_on_file_is_not_counted_as_lost_after_a_connection_broke() {
    // The connection to a builder unit breaks behind a part, and that to the manager while it says that the range is done.
    for seed in [38, 79, 82, 106] {
        holds(seed);
    }
}

#[test]
fn a_later_attempt_that_had_nothing_leaves_the_row_of_the_one_before() {
    // A builder unit dies behind its last write; the next one has nothing of the range, because the readout unit is away.
    for seed in [217, 300, 895] {
        holds(seed);
    }
}

#[test]
fn a_report_of_all_that_a_builder_unit_remembers_is_accepted() {
    for seed in [3758, 5146] {
        holds(seed);
    }
}
