//! Statistics of the pulses: rates, lines, bands, partners; wide tolerances, fixed seeds.

use super::super::settings::{Coincidence, DeadTime, Detector, Isotope, Rates};
use super::*;

fn collect(settings: &Settings, seconds: f64) -> Vec<Pulse> {
    let mut physics = Physics::new(settings).expect("valid settings");
    let until = physics.board_time_fine((seconds * 1e12) as u64);
    let mut all = Vec::new();
    loop {
        let ready = physics.pulses_until(until);
        if ready.is_empty() {
            return all;
        }
        all.extend_from_slice(ready);
        let count = ready.len();
        physics.take(count);
    }
}

fn quiet() -> Settings {
    Settings {
        channels: 8,
        rate_hz: Rates::Each(20_000.0),
        detector: Detector {
            gain_spread_percent: 0.0,
            resolution_spread_percent: 0.0,
            ..Detector::default()
        },
        coincidence: Coincidence { fraction: 0.0, ..Coincidence::default() },
        ..Settings::default()
    }
}

#[test]
fn pulses_are_in_time_order_and_at_the_configured_rates() {
    let rates = Rates::List(vec![1e3, 5e3, 0.0, 20e3, 2e3, 40e3, 1e3, 7e3]);
    let coincidence = Coincidence { fraction: 0.2, ..Coincidence::default() };
    let settings = Settings { rate_hz: rates.clone(), coincidence, ..quiet() };
    let pulses = collect(&settings, 2.0);
    assert!(pulses.windows(2).all(|pair| pair[0].time_fine <= pair[1].time_fine));
    for channel in 0..8 {
        let expected = rates.of_channel(channel) * 2.0;
        let count = pulses.iter().filter(|pulse| pulse.channel == channel).count() as f64;
        // Dead time causes a loss of up to 2.4 % at 40 kHz.
        let tolerance = 5.0 * expected.sqrt() + 0.03 * expected;
        assert!((count - expected).abs() <= tolerance, "channel {channel}: {count} of {expected}");
    }
}

#[test]
fn the_stream_does_not_depend_on_the_requested_times() {
    let settings = Settings { total_rate_hz: Some(2e6), ..quiet() };
    let whole = collect(&settings, 0.01);
    let mut physics = Physics::new(&settings).expect("valid settings");
    let mut in_chunks = Vec::new();
    for step in 1..=1000u64 {
        let until = physics.board_time_fine(step * 10_000_000);
        loop {
            let ready = physics.pulses_until(until);
            let count = ready.len().min(7);
            if count == 0 {
                break;
            }
            in_chunks.extend_from_slice(&ready[..count]);
            physics.take(count);
        }
    }
    assert!(whole.len() > 15_000 && whole == in_chunks);
    physics.restart();
    let until = physics.board_time_fine(1_000_000_000);
    assert_eq!(physics.pulses_until(until).first(), whole.first());
}

#[test]
fn lines_are_at_the_expected_energies() {
    for (isotope, lines) in [
        (Isotope::Cs137, vec![661.7]),
        (Isotope::Na22, vec![511.0, 1274.5]),
        (Isotope::Co60, vec![1173.2, 1332.5]),
    ] {
        let pulses = collect(&Settings { isotopes: [(isotope, 1.0)].into(), ..quiet() }, 2.0);
        for line in lines {
            let near: Vec<f64> = pulses
                .iter()
                .map(|pulse| f64::from(pulse.energy) / 10.0)
                .filter(|kev| (kev - line).abs() < 0.05 * line)
                .collect();
            let mut histogram = [0u32; 101];
            near.iter().for_each(|kev| histogram[((kev / line - 0.95) * 1000.0) as usize] += 1);
            let smooth = |bin: usize| histogram[bin - 8..=bin + 8].iter().sum::<u32>();
            let peak = (8..93).max_by_key(|bin| smooth(*bin)).expect("not empty");
            let found = line * (0.95 + (peak as f64 + 0.5) / 1000.0);
            assert!((found - line).abs() < 0.012 * line, "{isotope:?}: {found} for {line}");
        }
    }
}

#[test]
fn neutrons_and_gammas_separate_by_pulse_shape() {
    let pulses = collect(&Settings { isotopes: [(Isotope::Cf252, 1.0)].into(), ..quiet() }, 1.0);
    let shape = |neutron: bool| {
        let tails: Vec<f64> = pulses
            .iter()
            .filter(|pulse| (5000.0..20_000.0).contains(&pulse.energy) && pulse.marks & marks::PILE_UP == 0)
            .filter(|pulse| (pulse.marks & marks::NEUTRON != 0) == neutron)
            .map(|pulse| f64::from(1.0 - pulse.energy_short / pulse.energy))
            .collect();
        let mean = tails.iter().sum::<f64>() / tails.len() as f64;
        let variance = tails.iter().map(|tail| (tail - mean).powi(2)).sum::<f64>() / tails.len() as f64;
        (mean, variance.sqrt(), tails.len())
    };
    let (gamma, neutron) = (shape(false), shape(true));
    assert!(gamma.2 > 1000 && neutron.2 > 1000, "{gamma:?} {neutron:?}");
    assert!((neutron.0 - gamma.0) / (2.355 * (gamma.1 + neutron.1)) > 1.2, "{gamma:?} {neutron:?}");
}

#[test]
fn pile_up_and_saturation_agree_with_times_and_energies() {
    let settings = Settings { rate_hz: Rates::Each(100_000.0), ..quiet() };
    let pulses = collect(&settings, 0.5);
    let piled = pulses.iter().filter(|pulse| pulse.marks & marks::PILE_UP != 0).count() as f64;
    // 100 kHz and a gate of 400 ns: 4 %.
    assert!((piled / pulses.len() as f64 - 0.039).abs() < 0.004, "{piled} of {}", pulses.len());
    let saturated = pulses.iter().filter(|pulse| pulse.marks & marks::SATURATION != 0).count();
    let after = pulses.iter().filter(|pulse| pulse.marks & marks::POST_SATURATION != 0).count();
    assert!(saturated > 50 && after > 5, "{saturated} {after}");
    let mut last = [0u64; 8];
    for pulse in &pulses {
        let gap = pulse.time_fine - last[usize::from(pulse.channel)];
        assert!(last[usize::from(pulse.channel)] == 0 || gap >= 600 * 128);
        last[usize::from(pulse.channel)] = pulse.time_fine;
    }
}

#[test]
fn dead_time_extends_or_not_as_configured_and_is_counted() {
    // Half a pulse comes in each dead time.
    let rate_hz = 100_000.0;
    for (dead_time, saved_fraction) in
        [(DeadTime::NonExtending, 1.0 / 1.5), (DeadTime::Extending, (-0.5f64).exp())]
    {
        let detector = Detector { dead_time_ns: 5000.0, dead_time, ..quiet().detector };
        let settings = Settings { rate_hz: Rates::Each(rate_hz), detector, ..quiet() };
        let mut physics = Physics::new(&settings).expect("valid settings");
        let until = physics.board_time_fine(1_000_000_000_000);
        let mut last = [0u64; 8];
        loop {
            let pulses = physics.pulses_until(until);
            let count = pulses.len();
            if count == 0 {
                break;
            }
            for pulse in pulses {
                let before = std::mem::replace(&mut last[usize::from(pulse.channel)], pulse.time_fine);
                assert!(before == 0 || pulse.time_fine - before >= 5000 * 128);
            }
            physics.take(count);
        }
        for channel in 0..8 {
            let counts = physics.counts(channel);
            let (triggers, saved) = (counts.triggers as f64, counts.saved as f64);
            let live = 1.0 - counts.dead_fine_until(until) as f64 / until as f64;
            assert!((triggers - rate_hz).abs() < 5.0 * rate_hz.sqrt(), "{dead_time:?}: {counts:?}");
            assert!((saved / triggers - saved_fraction).abs() < 0.01, "{dead_time:?}: {counts:?}");
            assert!((live - saved_fraction).abs() < 0.01, "{dead_time:?}: live for {live}");
            // Pulses per live time are the true ones, whatever the dead time is like.
            assert!(
                (saved / live - rate_hz).abs() < 5.0 * rate_hz / saved.sqrt(),
                "{dead_time:?}: {counts:?}"
            );
        }
    }
}

#[test]
fn partners_are_found_between_independent_boards() {
    let coincidence =
        Coincidence { fraction: 0.5, jitter_ps: 300.0, board_jitter_ps: 200.0, ..Coincidence::default() };
    let isotopes = [(Isotope::Na22, 1.0)].into();
    let one = Settings { boards: 2, rate_hz: Rates::Each(2000.0), coincidence, isotopes, ..quiet() };
    let other = Settings { board: 1, ..one.clone() };
    let (left, right) = (collect(&one, 2.0), collect(&other, 2.0));
    let mut differences_ps = Vec::new();
    let mut start = 0;
    for hit in &left {
        while right.get(start).is_some_and(|partner| partner.time_fine + 4096 < hit.time_fine) {
            start += 1;
        }
        for partner in right[start..].iter().take_while(|partner| partner.time_fine < hit.time_fine + 4096) {
            differences_ps.push((partner.time_fine as f64 - hit.time_fine as f64) * 7.8125);
        }
    }
    let near: Vec<f64> = differences_ps.iter().copied().filter(|ps| ps.abs() < 2000.0).collect();
    // 16 kHz a board, half of it in pairs, 8/15 of them across boards: 8 500 pairs in 2 s.
    assert!((7500..9500).contains(&near.len()), "{}", near.len());
    let sigma = (near.iter().map(|ps| ps * ps).sum::<f64>() / near.len() as f64).sqrt();
    assert!((sigma - 360.6).abs() < 40.0, "{sigma}");
    assert!(differences_ps.len() - near.len() < 600);
}

#[test]
fn drift_and_offset_change_board_time() {
    let sparse = Settings { rate_hz: Rates::Each(100.0), ..quiet() };
    let settings = Settings { drift_ppm: 50.0, offset_ps: 1_000_000, ..sparse.clone() };
    let (true_clock, drifting) = (collect(&sparse, 1.0), collect(&settings, 1.0));
    let (first, last) = (drifting[0].time_fine - true_clock[0].time_fine, 50_000_000.0 / 7.8125);
    assert!((first as f64 / 128_000.0 - 1.0).abs() < 0.5, "{first}");
    let index = true_clock.len() - 2;
    let late = drifting[index].time_fine as f64 - true_clock[index].time_fine as f64 - 128_000.0;
    assert!((late / last - 1.0).abs() < 0.02, "{late} {last}");
}
