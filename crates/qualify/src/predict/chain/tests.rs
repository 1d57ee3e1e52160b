//! Chains whose behaviour is known from elsewhere, and what holds for all of them.

use proptest::prelude::*;
use thalweg_frontend::trigger::{Kind, Program, Settings};

use super::sweep::Sweep;
use super::*;
use crate::predict::{Hop as OneHop, Prediction, Process, Triggers};
use crate::switch::burst::{even_times, lost_frames, peak_bytes};
use crate::switch::frame::Frame;

fn triggered(links: u32, payload_bytes: u32) -> Source {
    Source {
        name: "camera".to_owned(),
        links,
        carrier: Carrier::Datagrams,
        emission: Emission::Triggered,
        answers: vec![vec![payload_bytes]],
    }
}

fn plan(triggers: Settings, sources: Vec<Source>) -> Plan {
    Plan {
        triggers,
        sources,
        network: Network::default(),
        builders: 1,
        recorded_copies: 1,
        has_host: true,
        assumptions: Vec::new(),
    }
}

fn poisson(rate_hz: f64) -> Settings {
    Settings { program: Kind::Poisson, rate_hz, dead_time_ns: 0, ..Settings::default() }
}

/// All hops of the camera, none of them unknown.
fn camera(rate_hz: f64) -> Plan {
    let mut plan = plan(poisson(rate_hz), vec![triggered(44, 1024)]);
    plan.network.link.rate_bits_per_s = Some(1e9);
    plan.network.switch =
        Switch { output_rate_bits_per_s: Some(10e9), depth_bytes: Some(1e6), outputs: Some(1) };
    plan.network.host = Host { receive_bytes_per_s: Some(1.1e9), receive_buffer_bytes: Some(1e6) };
    plan.network.build = Build { bytes_per_s: Some(1e9), buffer_bytes: Some(2e6), kept: Some(0.25) };
    plan.network.disk = Disk { bytes_per_s: Some(300e6), buffer_bytes: Some(1e6) };
    plan
}

fn predict(plan: &Plan, triggers: u64) -> ChainPrediction {
    plan.chain().expect("it can be").predict(triggers).expect("triggers that can be")
}

#[test]
fn each_hop_has_the_load_of_what_is_asked_of_it_and_the_slowest_is_the_bottleneck() {
    let predicted = predict(&camera(20_000.0), 20_000);
    let load = |name: &str| predicted.hop(name).and_then(|hop| hop.utilisation).expect("known");
    let near =
        |found: f64, expected: f64| assert!((found / expected - 1.0).abs() < 1e-9, "{found} {expected}");
    near(load("source link"), 20_000.0 * 1090.0 * 8.0 / 1e9);
    near(load("switch output"), 20_000.0 * 44.0 * 1090.0 * 8.0 / 10e9);
    near(load("host socket"), 20_000.0 * 44.0 * 1024.0 / 1.1e9);
    near(load("builder"), 20_000.0 * 44.0 * 1024.0 / 1e9);
    near(load("disk"), 20_000.0 * 44.0 * 1024.0 * 0.25 / 300e6);
    assert_eq!(predicted.bottleneck, Some("builder"));
    near(predicted.saturates_at_hz.expect("it is triggered"), 1e9 / (44.0 * 1024.0));
    near(predicted.event_bytes.expect("it is triggered"), 44.0 * 1024.0);
}

#[test]
fn an_overloaded_hop_loses_what_it_cannot_carry_and_spares_those_behind_it() {
    let mut plan = camera(40_000.0);
    plan.network.build.kept = None;
    let predicted = predict(&plan, 100_000);
    assert_eq!((predicted.limited_by, predicted.limited_at), (TriggerLimit::Rate, Some("disk")));
    for name in ["switch output", "host socket", "builder", "disk"] {
        let hop = predicted.hop(name).expect("it is there");
        let expected = hop.full_probability.expect("saturated, or behind a slower one");
        let lost = hop.simulated.as_ref().expect("predicted").loss_probability;
        assert!((lost - expected).abs() < 0.01, "{name}: {lost} {expected}");
    }
    // After the switch 1.25 GB/s of the wire are left, of which 1024 of 1090 are payload.
    let socket = predicted.hop("host socket").and_then(|hop| hop.full_probability).expect("saturated");
    assert!((socket - (1.0 - 1.1e9 / (1.25e9 * 1024.0 / 1090.0))).abs() < 1e-9, "{socket}");
}

#[test]
fn a_hop_behind_a_slower_one_never_fills() {
    let mut plan = camera(24_000.0);
    plan.network.switch.depth_bytes = Some(30e6);
    plan.network.host = Host { receive_bytes_per_s: Some(1.25e9), receive_buffer_bytes: Some(3000.0) };
    let predicted = predict(&plan, 50_000);
    let socket = predicted.hop("host socket").expect("it is there");
    assert_eq!(socket.full_probability, Some(0.0));
    assert_eq!(socket.simulated.as_ref().map(|seen| seen.lost_frames), Some(0));
}

#[test]
fn what_is_not_known_is_not_predicted_and_named() {
    let mut plan = plan(poisson(1000.0), vec![triggered(265, 1000)]);
    let predicted = predict(&plan, 1000);
    assert!(predicted.hops.iter().all(|hop| !hop.is_predicted && hop.simulated.is_none()), "{predicted:#?}");
    assert_eq!((predicted.bottleneck, predicted.limited_by), (None, TriggerLimit::None));
    let switch = predicted.hop("switch output").expect("it is there");
    assert_eq!(switch.unknown, ["[switch] output_rate", "[switch] depth"]);
    // A rate alone gives a load, and the depth that is needed.
    plan.network.switch.output_rate_bits_per_s = Some(10e9);
    let predicted = predict(&plan, 1000);
    let switch = predicted.hop("switch output").expect("it is there");
    assert_eq!((switch.unknown.as_slice(), switch.full_probability), (&["[switch] depth"][..], None));
    let peak_bytes = switch.simulated.as_ref().expect("its rate is known").peak_bytes;
    assert!(peak_bytes >= 265.0 * 1066.0, "{peak_bytes}");
}

#[test]
fn streams_lose_nothing_and_wait() {
    let mut source = triggered(105, 6156);
    source.carrier = Carrier::Stream;
    let mut plan = plan(poisson(2000.0), vec![source]);
    plan.network.build = Build { bytes_per_s: Some(400e6), buffer_bytes: Some(10e6), kept: None };
    let predicted = predict(&plan, 2000);
    let builder = predicted.hop("builder").expect("it is there");
    assert!(builder.utilisation.is_some_and(|load| load > 3.0), "{builder:#?}");
    let seen = builder.simulated.as_ref().expect("its rate is known");
    assert!(seen.lost_frames == 0 && seen.held_back_frames > 0, "{seen:?}");
    assert_eq!((seen.frames_out, predicted.limited_by), (seen.frames_in, TriggerLimit::Rate));
    assert_eq!(builder.full_probability, None);
}

#[test]
fn links_are_spread_over_outputs_and_events_over_builders() {
    let mut plan = camera(10_000.0);
    plan.sources = vec![triggered(265, 1024)];
    plan.network.switch.outputs = Some(4);
    plan.builders = 3;
    let predicted = predict(&plan, 3000);
    let load = |name: &str| predicted.hop(name).and_then(|hop| hop.utilisation).expect("known");
    // 265 links over four outputs: 67 of the first, 66 of the others.
    assert!((load("switch output") - 10_000.0 * 67.0 * 1090.0 * 8.0 / 10e9).abs() < 1e-9);
    assert!((load("builder") - 10_000.0 * 265.0 * 1024.0 / 3e9).abs() < 1e-9);
}

#[test]
fn boards_that_are_not_triggered_together_need_less_depth() {
    let free = Source { emission: Emission::Free { rate_hz: 1000.0, hits: 500.0 }, ..triggered(44, 8000) };
    let peak = |source: Source| {
        let mut plan = plan(Settings { rate_hz: 1000.0, ..Settings::default() }, vec![source]);
        plan.network.switch.output_rate_bits_per_s = Some(10e9);
        let predicted = predict(&plan, 44_000);
        let load = predicted.hop("switch output").and_then(|hop| hop.utilisation).expect("known");
        assert!((load - 44.0 * 1000.0 * 8066.0 * 8.0 / 10e9).abs() < 1e-9, "{load}");
        predicted.hop("switch output").and_then(|hop| hop.simulated.clone()).expect("known").peak_bytes
    };
    let (together, apart) = (peak(triggered(44, 8000)), peak(free));
    assert!((together - 44.0 * 8066.0).abs() < 1.0 && apart < 0.5 * together, "{together} {apart}");
}

#[test]
fn a_burst_that_fits_is_known_to_and_a_longer_one_is_seen_to_lose() {
    let burst = |triggers| Settings {
        program: Kind::Bursts,
        rate_hz: 50_000.0,
        burst_triggers: triggers,
        burst_rate_hz: 10.0,
        ..Settings::default()
    };
    let one = |triggers| {
        let mut plan = camera(1000.0);
        plan.triggers = burst(triggers);
        predict(&plan, 10 * triggers).hops[1].clone()
    };
    // (1 MB - 25 kB) / (47 960 - 25 000) B
    let (fits, too_long) = (one(42), one(43));
    assert_eq!((fits.full_probability, too_long.full_probability), (Some(0.0), None));
    let lost = |hop: &HopPrediction| hop.simulated.as_ref().map_or(0, |seen| seen.lost_frames);
    assert!(lost(&fits) == 0 && lost(&too_long) > 0, "{too_long:#?}");
}

#[test]
fn triggers_that_come_during_a_readout_load_no_hop() {
    let mut plan = camera(20_000.0);
    let load = |plan: &Plan| {
        let predicted = predict(plan, 20_000);
        let hop = predicted.hop("switch output").expect("it is there");
        let busy = hop.simulated.as_ref().expect("predicted").busy;
        (predicted.mean_rate_hz.expect("triggered"), hop.utilisation.expect("known"), busy)
    };
    let (all_hz, all, _) = load(&plan);
    // 1 / (50 µs + 200 µs): a fifth of them.
    plan.triggers.readout_ns = 200_000;
    let (rate_hz, utilisation, busy) = load(&plan);
    assert!((all_hz / rate_hz - 5.0).abs() < 1e-9 && (all / utilisation - 5.0).abs() < 1e-9, "{rate_hz}");
    assert!((busy / utilisation - 1.0).abs() < 0.02, "{busy} {utilisation}");
}

#[test]
fn a_sweep_finds_where_each_hop_is_saturated() {
    let sweep = Sweep::parse("rate_hz=5000:40000:8").expect("a sweep");
    let swept = sweep.run(&camera(1.0), 200).expect("it can be");
    assert_eq!((swept.points.len(), swept.points[1].value), (8, 10_000.0));
    let at = |name: &str| swept.saturations.iter().find(|found| found.hop == name).map(|found| found.value);
    let near = |found: Option<f64>, expected: f64| {
        assert!(found.is_some_and(|found| (found / expected - 1.0).abs() < 1e-6), "{found:?} {expected}")
    };
    near(at("switch output"), 10e9 / 8.0 / (44.0 * 1090.0));
    near(at("builder"), 1e9 / (44.0 * 1024.0));
    assert_eq!(at("source link"), None);
    let deeper = Sweep::parse("depth=100kB:10MB:3:log").expect("a sweep").run(&camera(24_000.0), 5000);
    let lost: Vec<f64> = deeper
        .expect("it can be")
        .points
        .iter()
        .map(|point| point.prediction.hops[1].simulated.as_ref().map_or(0.0, |seen| seen.loss_probability))
        .collect();
    assert!(lost[0] > lost[1] && lost[1] >= lost[2], "{lost:?}");
}

#[test]
fn a_sweep_of_whole_numbers_ends_at_the_first_one_on_the_other_side() {
    let mut plan = one_hop(100, 330e6, poisson(5000.0));
    plan.network.switch.output_rate_bits_per_s = Some(1e9);
    let saturation = |text: &str, plan: &Plan, hop: &str| {
        let swept = Sweep::parse(text).expect("a sweep").run(plan, 10).expect("it can be");
        swept.saturations.into_iter().find(|found| found.hop == hop).expect("it is passed").value
    };
    // 20 links of 100 to each of 5 outputs: 87 %; to each of 4: 109 %.
    for text in ["outputs=1:7:3", "outputs=4:5:2", "outputs=1:64:7:log"] {
        assert_eq!(saturation(text, &plan, "switch output"), 5.0, "{text}");
    }
    plan = one_hop(16, 330e6, poisson(20_000.0));
    // (6184 + 66) B × 20 kHz is all of 1 Gb/s.
    assert_eq!(saturation("payload=100:9000:4", &plan, "source link"), 6185.0);
}

#[test]
fn a_sweep_that_cannot_be_is_refused_with_what_to_write() {
    for (text, words) in [
        ("rate_hz", "rate_hz=1000:40000:20"),
        ("speed=1:2:3", "rate_hz, rate_factor"),
        ("rate_hz=1000:40000", "rate_hz=1000:40000:20"),
        ("rate_hz=4000:1000:5", "larger than the first"),
        ("rate_hz=0:1000:5", "above 0"),
        ("rate_hz=1000:2000:1", "from 2 to 1000"),
        ("rate_hz=1000:2000:5:lin", "rate_hz=1000:40000:20"),
        ("depth=1Mb:2Mb:5", "330MB"),
        ("output_rate=1GB/s:2GB/s:5", "10Gbit"),
    ] {
        let error = Sweep::parse(text).expect_err(text).to_string();
        assert!(error.contains(words), "{text}: {error}");
    }
    let run =
        |text: &str, plan: &Plan| Sweep::parse(text).expect(text).run(plan, 10).expect_err(text).to_string();
    let mut alone = camera(1000.0);
    alone.has_host = false;
    assert!(run("disk_rate=1MB/s:2MB/s:3", &alone).contains("configuration"));
    assert!(run("kept=0.5:2:4", &camera(1000.0)).contains("at most 1"));
    assert!(run("outputs=4096:4097:2", &camera(1000.0)).contains("from 1 to 4096"));
    let mut two = camera(1000.0);
    two.sources.push(triggered(3, 100));
    assert!(run("payload=1:9:3", &two).contains("several sources"));
    two.sources.iter_mut().for_each(|source| source.emission = Emission::Free { rate_hz: 1.0, hits: 1.0 });
    assert!(run("rate_hz=1:9:3", &two).contains("rate_factor"));
}

#[test]
fn sources_and_triggers_that_cannot_be_are_refused() {
    let mut silent = camera(1000.0);
    silent.sources[0].emission = Emission::Free { rate_hz: 0.0, hits: 1.0 };
    assert!(silent.chain().is_err_and(|error| error.to_string().contains("sends nothing")));
    let mut none = camera(1000.0);
    none.sources.clear();
    assert!(none.chain().is_err_and(|error| error.to_string().contains("1 to 65536")));
    let mut still = camera(1000.0);
    still.triggers.rate_hz = 0.0;
    assert!(still.chain().is_err_and(|error| error.to_string().contains("rate_hz")));
}

/// Makes a chain of links and one output.
fn one_hop(links: u32, depth_bytes: f64, triggers: Settings) -> Plan {
    let mut plan = plan(triggers, vec![triggered(links, 1024)]);
    plan.has_host = false;
    plan.network.link.rate_bits_per_s = Some(1e9);
    plan.network.switch =
        Switch { output_rate_bits_per_s: Some(10e9), depth_bytes: Some(depth_bytes), outputs: None };
    plan
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(32))]

    #[test]
    fn a_chain_of_one_hop_is_the_single_hop(
        links in 1..80_u32, depth_events in 0.5..30.0_f64, load in 0.2..1.5_f64, seed in 0..1000_u64, is_constant in any::<bool>(),
    ) {
        let frame = Frame::new(1024).expect("one frame");
        let depth_bytes = depth_events * f64::from(links) * 1090.0;
        let hop = OneHop::new(links, 1e9, 10e9, depth_bytes, frame).expect("a hop");
        let rate_hz = load * hop.static_limit_hz();
        let process = if is_constant { Process::Constant } else { Process::Poisson { dead_time_ns: 2000 } };
        let single = Prediction::new(&hop, &Triggers { rate_hz, process, seed }, 3000).expect("triggers");
        let program = if is_constant { Kind::Constant } else { Kind::Poisson };
        let settings = Settings { program, rate_hz, dead_time_ns: 2000, seed, ..Settings::default() };
        let chain = predict(&one_hop(links, depth_bytes, settings), 3000);
        let seen = chain.hops[1].simulated.as_ref().expect("known");
        prop_assert_eq!((seen.frames_in, seen.lost_frames), (single.simulated.frames, single.simulated.lost_frames));
        prop_assert_eq!(seen.damaged_triggers, single.simulated.damaged_triggers);
        prop_assert!((seen.peak_bytes - single.simulated.peak_bytes).abs() < 1e-3);
        prop_assert!((chain.hops[1].utilisation.expect("known") / single.output_load - 1.0).abs() < 1e-9);
        match (chain.hops[1].full_probability, single.full_probability) {
            (Some(chain), Some(single)) => prop_assert!((chain - single).abs() < 1e-9, "{} {}", chain, single),
            (chain, single) => prop_assert_eq!(chain, single),
        }
    }

    #[test]
    fn lossless_in_the_closed_form_is_lossless_in_the_simulation(
        links in 11..80_u32, depth_events in 2.0..40.0_f64, fraction in 0.0..0.95_f64, over in 0..3_u64,
    ) {
        let depth_bytes = depth_events * f64::from(links) * 1090.0;
        let frame = Frame::new(1024).expect("one frame");
        let hop = OneHop::new(links, 1e9, 10e9, depth_bytes, frame).expect("a hop");
        let gap_s = (fraction * hop.edge().saturation_separation_s()).max(1.01 * hop.link_time_s());
        prop_assume!(gap_s < 0.98 * hop.edge().saturation_separation_s());
        let largest = hop.edge().largest_burst(gap_s).expect("below saturation");
        let settings = |triggers| Settings { program: Kind::Bursts, rate_hz: 1.0 / gap_s, burst_triggers: triggers, burst_rate_hz: 1.0, ..Settings::default() };
        prop_assume!(largest > 0 && (largest + over) as f64 * gap_s < 0.5);
        let triggers = largest + over;
        let chain = predict(&one_hop(links, depth_bytes, settings(triggers)), 2 * triggers);
        let hop_seen = &chain.hops[1];
        prop_assert_eq!(hop_seen.full_probability, (over == 0).then_some(0.0));
        let lost = hop_seen.simulated.as_ref().map_or(0, |seen| seen.lost_frames);
        // One event more may fit in part, by the frames that leave while it comes: nothing is known of it.
        prop_assert!(if over == 0 { lost == 0 } else { over == 1 || lost > 0 }, "{} over: {}", over, lost);
        // The recursion of the burst says the same, frame for frame; nanoseconds are rounded.
        let nanoseconds = |time_s: &f64| (time_s * 1e9).round() * 1e-9;
        let times_s: Vec<f64> = even_times(triggers, gap_s).iter().map(nanoseconds).collect();
        prop_assert_eq!(lost, 2 * lost_frames(hop.edge().queue, &times_s, links, 1090.0));
        let peak = peak_bytes(&times_s, f64::from(links) * 1090.0, 1.25e9).min(depth_bytes);
        let seen = hop_seen.simulated.as_ref().map_or(0.0, |seen| seen.peak_bytes);
        prop_assert!((seen - peak).abs() < 1091.0, "{} {}", seen, peak);
    }

    #[test]
    fn frames_that_came_have_left_or_are_lost_or_on_their_way_at_every_hop_and_time(
        links in 1..60_u32, load in 0.2..2.5_f64, outputs in 1..5_u32, builders in 1..4_u32, is_stream in any::<bool>(), seed in 0..1000_u64,
    ) {
        let mut plan = camera(load * 20_000.0);
        plan.triggers.seed = seed;
        plan.sources = vec![
            Source { answers: vec![vec![1024], vec![200, 8000], vec![3]], ..triggered(links, 0) },
            Source {
                emission: Emission::Free { rate_hz: 2000.0, hits: 3.0 },
                carrier: if is_stream { Carrier::Stream } else { Carrier::Datagrams },
                ..triggered(7, 5000)
            },
        ];
        plan.network.switch.outputs = Some(outputs);
        plan.builders = builders;
        let chain = plan.chain().expect("it can be");
        let mut flow = flow::Flow::new(&chain, 1000).expect("triggers");
        let mut goes_on = true;
        while goes_on {
            goes_on = flow.advance();
            let ledger = flow.ledger();
            for (seen, waiting) in &ledger {
                prop_assert_eq!(seen.frames_in, seen.frames_out + seen.lost_frames + waiting);
            }
            for pair in ledger.windows(2) {
                prop_assert_eq!(pair[0].0.frames_out, pair[1].0.frames_in);
            }
        }
        prop_assert!(flow.ledger().iter().all(|(_, waiting)| *waiting == 0));
        let outcome = flow.finish();
        prop_assert_eq!(outcome.triggers, 1000);
    }

    #[test]
    fn loads_of_sources_add_up_and_go_with_the_rate(first in 1..50_u32, second in 1..50_u32, bytes in 1..9000_u32, factor in 0.1..3.0_f64) {
        let of = |sources: Vec<Source>, factor: f64| {
            let mut plan = camera(1000.0 * factor);
            plan.sources = sources;
            let (_, loads) = plan.chain().expect("it can be").loads();
            loads.into_iter().flatten().collect::<Vec<f64>>()
        };
        let both = of(vec![triggered(first, bytes), triggered(second, 700)], 1.0);
        let (one, other) = (of(vec![triggered(first, bytes)], 1.0), of(vec![triggered(second, 700)], factor));
        prop_assert_eq!(both.len(), 4);
        for ((both, one), other) in both.iter().zip(&one).zip(&other) {
            prop_assert!((both / (one + other / factor) - 1.0).abs() < 1e-9);
        }
    }
}

#[test]
fn the_mean_rate_is_that_of_the_program() {
    let listed =
        Settings { program: Kind::Times, times: Some("0, 1 ms, 4 ms".to_owned()), ..Settings::default() };
    let bursts = Settings { program: Kind::Bursts, rate_hz: 1e5, ..Settings::default() };
    let random = Settings { dead_time_ns: 20_000, ..poisson(10_000.0) };
    for (settings, expected) in [(listed, 500.0), (bursts, 100.0), (random, 10_000.0 / 1.2)] {
        let plan = plan(settings.clone(), vec![triggered(1, 100)]);
        let chain = plan.chain().expect("it can be");
        assert!((chain.mean_rate_hz() / expected - 1.0).abs() < 1e-9, "{settings:?}");
        let seen: Vec<u64> =
            Program::new(&settings).expect("a program").take(20_000).map(|trigger| trigger.time_ns).collect();
        let span_s = (seen[seen.len() - 1] - seen[0]) as f64 * 1e-9;
        let counted = (seen.len() - 1) as f64 / span_s;
        assert!((counted / expected - 1.0).abs() < 0.03, "{counted} {expected}");
    }
}
