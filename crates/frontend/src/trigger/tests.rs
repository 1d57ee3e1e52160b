use proptest::prelude::*;

use thalweg_data::{Fragment, Fragments, LossReason, Mark, SourceId, Unit};

use super::*;

fn program(text: &str) -> Program {
    Program::new(&toml::from_str::<Settings>(text).expect("settings")).expect("a program")
}

fn times(text: &str) -> Vec<u64> {
    program(text).map(|trigger| trigger.time_ns).collect()
}

#[test]
fn the_defaults_are_valid_and_an_unknown_key_is_refused() {
    let settings: Settings = toml::from_str("").expect("all keys have defaults");
    assert_eq!(settings, Settings::default());
    assert_eq!(program("").nth(1), Some(Trigger { number: 1, time_ns: 1_000_000 }));
    assert!(toml::from_str::<Settings>("rat_hz = 4").is_err());
}

#[test]
fn a_constant_rate_never_drifts() {
    assert_eq!(times("rate_hz = 3\nseconds = 1.1"), [0, 333_333_333, 666_666_667, 1_000_000_000]);
    let late = program("rate_hz = 3").nth(3_000_000).expect("endless");
    assert_eq!(late.time_ns, 1_000_000_000_000_000);
}

#[test]
fn pulses_have_the_configured_first_number_and_time() {
    let pulses: Vec<Trigger> =
        program("rate_hz = 1e6\ntriggers = 3\nfirst_number = 7\nfirst_ns = 5").collect();
    let expected = [(7, 5), (8, 1005), (9, 2005)].map(|(number, time_ns)| Trigger { number, time_ns });
    assert_eq!(pulses, expected);
}

#[test]
fn bursts_repeat() {
    let text = "program = \"bursts\"\nrate_hz = 1e6\nburst_triggers = 2\nburst_rate_hz = 1e4\ntriggers = 5";
    assert_eq!(times(text), [0, 1000, 100_000, 101_000, 200_000]);
}

#[test]
fn listed_times_are_used_except_within_the_minimum_gap() {
    let text = "program = \"times\"\ntimes = \"\"\"\n0\n10 us # two at the gap\n12 us\n13 us\n1 ms\"\"\"";
    assert_eq!(times(text), [0, 10_000, 12_000, 13_000, 1_000_000]);
    let mut gapped = program(&format!("{text}\nminimum_gap_ns = 2000\nfirst_ns = 1"));
    let found: Vec<(u64, u64)> = gapped.by_ref().map(|trigger| (trigger.number, trigger.time_ns)).collect();
    assert_eq!(found, [(0, 1), (1, 10_001), (2, 12_001), (3, 1_000_001)]);
    assert_eq!(gapped.left_out(), 1);
}

#[test]
fn poisson_keeps_dead_time_and_rate_and_repeats_with_its_seed() {
    let text = "program = \"poisson\"\nrate_hz = 1e5\ntriggers = 100_000";
    let once = times(text);
    assert_eq!(once, times(text));
    assert_ne!(once[..9], times(&format!("{text}\nseed = 2"))[..9]);
    assert!(once.windows(2).all(|pair| pair[1] - pair[0] >= 2000));
    // With a dead time of 2 us, 1e5 / (1 + 0.2) remain; the mean of 1e5 gaps is known to 0.3 %.
    let rate_hz = 1e9 * 99_999.0 / (once[99_999] - once[0]) as f64;
    assert!((rate_hz / (1e5 / 1.2) - 1.0).abs() < 0.015, "{rate_hz}");
    let waits: Vec<f64> = once.windows(2).map(|pair| (pair[1] - pair[0] - 2000) as f64).collect();
    let longer = waits.iter().filter(|wait| **wait > 10_000.0).count() as f64 / waits.len() as f64;
    assert!((longer - (-1.0f64).exp()).abs() < 0.01, "{longer}");
}

#[test]
fn the_error_of_an_invalid_program_names_the_key() {
    let refused = |text: &str| {
        let settings: Settings = toml::from_str(text).expect("settings");
        Program::new(&settings).expect_err("impossible").to_string()
    };
    for (text, word) in [
        ("rate_hz = 0", "`rate_hz` is 0"),
        ("rate_hz = nan", "`rate_hz` is NaN"),
        ("rate_hz = 1e6\nminimum_gap_ns = 2000", "at most 500000 with `minimum_gap_ns = 2000`"),
        ("seconds = -1.0", "`seconds` is -1"),
        ("dead_time_ns = 10000000001", "`dead_time_ns`"),
        ("readout_ns = 10000000001", "`readout_ns`"),
        ("program = \"bursts\"\nburst_triggers = 0", "1 or more"),
        ("program = \"bursts\"\nburst_triggers = 101", "at most 100"),
        ("program = \"times\"", "has no times"),
        ("program = \"times\"\ntimes = \"0\\nsoon\"", "line 2 of the times: `soon`"),
    ] {
        let message = refused(text);
        assert!(message.contains(word), "{text}: {message}");
    }
}

#[test]
fn a_program_beyond_64_bits_of_time_ends() {
    let text = "program = \"times\"\ntimes = \"0, 10 s\"\nfirst_ns = 9223372036854775807";
    assert_eq!(times(text).len(), 2);
    assert_eq!(times("rate_hz = 1e-6\nfirst_ns = 9223372036854775807").len(), 9224);
}

#[test]
fn triggers_are_refused_while_busy_and_numbered_without_holes() {
    let mut supervisor = Supervisor::new(100);
    let mut accepted = Vec::new();
    for trigger in program("rate_hz = 1e6\ntriggers = 10") {
        supervisor.set_busy((3000..6000).contains(&trigger.time_ns), trigger.time_ns);
        accepted.extend(supervisor.offer(trigger).map(|trigger| (trigger.number, trigger.time_ns / 1000)));
    }
    assert_eq!(accepted, [(100, 0), (101, 1), (102, 2), (103, 6), (104, 7), (105, 8), (106, 9)]);
    let counters = supervisor.counters();
    assert_eq!((counters.total_input(Unit::Events), counters.total_output(Unit::Events)), (10, 7));
    assert_eq!(counters.total_lost(LossReason::Busy, Unit::Events), 3);
    assert_eq!((supervisor.busy_ns(9000), supervisor.raised()), (3000, 1));
    supervisor.set_busy(true, 9000);
    supervisor.set_busy(true, 9500);
    assert_eq!((supervisor.busy_ns(9600), supervisor.raised()), (3600, 2));
}

#[test]
fn boards_that_read_out_a_trigger_refuse_others_and_the_time_is_counted_once() {
    let mut supervisor = Supervisor::new(0).reading_out(2500);
    let accepted: Vec<u64> = program("rate_hz = 1e6\ntriggers = 7")
        .filter_map(|trigger| supervisor.offer(trigger).map(|trigger| trigger.time_ns / 1000))
        .collect();
    assert_eq!(accepted, [0, 3, 6]);
    assert_eq!(
        (supervisor.busy_ns(6000), supervisor.busy_ns(7000), supervisor.busy_ns(8500)),
        (5000, 6000, 7500)
    );
    assert_eq!(supervisor.counters().total_lost(LossReason::Busy, Unit::Events), 4);
    // BUSY from the midst of a readout on takes what lies behind it.
    supervisor.set_busy(true, 7000);
    assert_eq!((supervisor.busy_ns(8000), supervisor.busy_ns(9000)), (7000, 8000));
    supervisor.set_busy(false, 10_000);
    assert_eq!(supervisor.busy_ns(10_000), 9000);
    supervisor.set_busy(true, 11_000);
    supervisor.set_busy(false, 11_200);
    assert_eq!(supervisor.busy_ns(20_000), 9200);
}

fn seen(numbers: &[(u64, u64)]) -> Fragments {
    let mut fragments = Fragments::default();
    fragments.header.mark = Mark(5000);
    for (trigger, ticks) in numbers {
        for source in [SourceId(3), SourceId(4)] {
            let own = Fragment { trigger: *trigger, ticks: *ticks, source, ..Fragment::default() };
            fragments.fragments.push(own);
        }
    }
    fragments
}

#[test]
fn a_follower_fills_in_gaps_and_ignores_duplicates() {
    let settings = FollowSettings { trigger_bits: 8, tick_ps: Some(8000.0), longest_gap: 20 };
    let mut follower = Follower::new(SourceId(3), &settings).expect("possible");
    let mut triggers = Vec::new();
    follower.follow(&seen(&[(254, 1000), (255, 1010), (2, 1040), (2, 1040), (1, 1030)]), &mut triggers);
    let found: Vec<(u64, u64)> = triggers.iter().map(|trigger| (trigger.number, trigger.time_ns)).collect();
    assert_eq!(found, [(254, 5000), (255, 5080), (0, 5160), (1, 5240), (2, 5320)]);
    assert_eq!((follower.filled(), follower.ignored(), follower.resets()), (2, 2, 0));
    // Reset during the run: the number is far away, and its clock restarts.
    triggers.clear();
    follower.follow(&seen(&[(100, 1), (101, 2)]), &mut triggers);
    let found: Vec<(u64, u64)> = triggers.iter().map(|trigger| (trigger.number, trigger.time_ns)).collect();
    assert_eq!(found, [(100, 5320), (101, 5328)]);
    assert_eq!(follower.resets(), 1);
}

#[test]
fn a_followed_tick_that_is_no_whole_number_of_nanoseconds_does_not_drift() {
    let settings = FollowSettings { tick_ps: Some(2500.0), ..FollowSettings::default() };
    let mut follower = Follower::new(SourceId(3), &settings).expect("possible");
    let mut triggers = Vec::new();
    let numbers: Vec<(u64, u64)> = (0..1000).map(|number| (number, 40 + 3 * number)).collect();
    numbers.chunks(7).for_each(|some| follower.follow(&seen(some), &mut triggers));
    // 7.5 ns each; a fragment that comes twice, or late, changes nothing.
    follower.follow(&seen(&[(999, 3037), (998, 3034), (1000, 3040)]), &mut triggers);
    let expected = (0..=1000).map(|number| 5000 + 15 * number / 2);
    assert!(triggers.iter().map(|trigger| trigger.time_ns).eq(expected), "{:?}", triggers.last());
    // Its clock restarts, and the same holds from there on.
    triggers.clear();
    follower.follow(&seen(&[(1001, 5), (1002, 6), (1003, 7)]), &mut triggers);
    let found: Vec<u64> = triggers.iter().map(|trigger| trigger.time_ns).collect();
    assert_eq!(found, [12_500, 12_502, 12_505]);
}

#[test]
fn a_leader_that_was_reset_nearby_is_followed_after_a_while() {
    let mut follower = Follower::new(SourceId(3), &FollowSettings::default()).expect("possible");
    let mut triggers = Vec::new();
    let numbers: Vec<(u64, u64)> = (0..500).chain(0..100).map(|number| (number, 0)).collect();
    follower.follow(&seen(&numbers), &mut triggers);
    assert_eq!((triggers.len(), follower.ignored(), follower.resets()), (568, 32, 1));
}

#[test]
fn invalid_leaders_are_refused() {
    let new = |settings: &FollowSettings| Follower::new(SourceId(0), settings).map(drop);
    let usual = FollowSettings::default;
    assert_eq!(new(&FollowSettings { trigger_bits: 65, ..usual() }), Err(FollowError::Bits(65)));
    let gap = FollowSettings { trigger_bits: 4, longest_gap: 4, ..usual() };
    assert_eq!(new(&gap), Err(FollowError::Gap(4, 3)));
    assert!(new(&FollowSettings { tick_ps: Some(-1.0), ..usual() }).is_err());
}

proptest! {
    #[test]
    fn times_ascend_and_numbers_follow_each_other(
        kind in 0..3usize, rate_hz in 1.0..1e9f64, burst_triggers in 1..50u64, seed: u64, first_number: u64,
    ) {
        let program = [Kind::Constant, Kind::Bursts, Kind::Poisson][kind];
        let burst_rate_hz = (rate_hz / burst_triggers as f64 / 2.0).max(1e-6);
        let settings =
            Settings { program, rate_hz, burst_triggers, burst_rate_hz, seed, first_number, ..Settings::default() };
        let triggers: Vec<Trigger> = Program::new(&settings).expect("possible").take(200).collect();
        prop_assert_eq!(triggers.len(), 200);
        for pair in triggers.windows(2) {
            prop_assert!(pair[0].time_ns < pair[1].time_ns || rate_hz > 5e8);
            prop_assert!(pair[0].time_ns <= pair[1].time_ns);
            prop_assert_eq!(pair[0].number.wrapping_add(1), pair[1].number);
        }
    }

    #[test]
    fn any_text_is_times_or_refused(text in "[0-9a-z µ.,#\n_-]{0,80}") {
        if let Ok(times) = parse_times(&text) {
            prop_assert!(times.windows(2).all(|pair| pair[0] < pair[1]));
        }
    }

    #[test]
    fn a_follower_never_goes_back(numbers in prop::collection::vec((0..40u64, 0..1000u64), 0..60)) {
        let settings = FollowSettings { trigger_bits: 5, tick_ps: Some(1.5), longest_gap: 7 };
        let mut follower = Follower::new(SourceId(3), &settings).expect("possible");
        let mut triggers = Vec::new();
        follower.follow(&seen(&numbers), &mut triggers);
        prop_assert!(triggers.windows(2).all(|pair| pair[0].time_ns <= pair[1].time_ns));
        prop_assert!(triggers.iter().all(|trigger| trigger.number < 32));
        prop_assert!(triggers.len() <= numbers.len() * 8);
    }
}
