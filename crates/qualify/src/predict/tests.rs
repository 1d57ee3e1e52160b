//! Hops whose behaviour is known from elsewhere.

use super::*;
use crate::switch::burst::{even_times, lost_frames};
use crate::switch::frame::Frame;

const DEAD_TIME_NS: u64 = 2000;

fn hop(links: u32, depth_bytes: f64) -> Hop {
    Hop::new(links, 1e9, 10e9, depth_bytes, Frame::new(1024).expect("one frame")).expect("a hop")
}

fn constant(rate_hz: f64) -> Triggers {
    Triggers { rate_hz, process: Process::Constant, seed: 1 }
}

fn poisson(rate_hz: f64, dead_time_ns: u64) -> Triggers {
    Triggers { rate_hz, process: Process::Poisson { dead_time_ns }, seed: 1 }
}

fn predict(hop: &Hop, triggers: &Triggers, count: u64) -> Prediction {
    Prediction::new(hop, triggers, count).expect("triggers that can be")
}

#[test]
fn nectarcam_holds_8900_events_back_to_back_and_26_kilohertz_for_ever() {
    let computed = published::nectarcam::reproduce().expect("a hop");
    // By hand: (330 MB - 10 900 B) / (47 960 B - 10 900 B), as 44 × 1090 B come and 10 900 B leave in 8.72 us.
    assert_eq!(computed.events_back_to_back, Some(8904));
    assert!((computed.static_limit_hz - 26_063.0).abs() < 1.0, "{}", computed.static_limit_hz);
    assert!((computed.saturation_separation_s - 38.37e-6).abs() < 0.01e-6);
    for published in &computed.published {
        let off = published.computed_its_way / published.published - 1.0;
        assert!(off.abs() < 0.01, "{published:?}");
    }
    let [events, limit] = computed.published.as_slice() else { panic!("two figures") };
    assert!((limit.on_wire_bytes - 26_063.0).abs() < 1.0);
    assert!((events.on_wire_bytes - 10_091.0).abs() < 1.0, "{events:?}");
}

#[test]
fn a_burst_of_exactly_the_events_that_fit_loses_nothing_and_one_more_does() {
    let hop = hop(44, 33e6);
    let largest = hop.events_back_to_back().expect("the links are faster than the output");
    let lost = |events| {
        let times_s = even_times(events, hop.link_time_s());
        lost_frames(hop.edge().queue, &times_s, 44, f64::from(hop.frame().wire_bytes()))
    };
    assert_eq!(lost(largest), 0);
    assert!(lost(largest + 1) > 0);
    // Triggers faster than the links are back to back on them.
    let predicted = |events| predict(&hop, &constant(1e6), events).simulated.lost_frames;
    assert_eq!(predicted(largest), 0);
    assert!(predicted(largest + 1) > 0);
}

#[test]
fn links_that_are_no_faster_than_the_output_never_overflow_it() {
    let predicted = predict(&hop(9, 1e6), &poisson(50_000.0, DEAD_TIME_NS), 200_000);
    assert_eq!((predicted.events_back_to_back, predicted.bottleneck), (None, Bottleneck::None));
    assert_eq!(predicted.simulated.lost_frames, 0);
    let slow = predict(&hop(9, 1e6), &constant(120_000.0), 1000);
    assert_eq!(slow.bottleneck, Bottleneck::Link);
    assert!((slow.static_limit_hz - 1.0 / 8.72e-6).abs() < 1.0);
    // 1000 triggers, 8.33 us apart where the link needs 8.72 us.
    assert!((slow.simulated.link_delay_s - 999.0 * (8.72e-6 - 1.0 / 120_000.0)).abs() < 1e-8);
}

#[test]
fn an_overloaded_output_loses_what_it_cannot_carry() {
    let predicted = predict(&hop(265, 330e6), &poisson(7000.0, 0), 400_000);
    assert_eq!(predicted.bottleneck, Bottleneck::Output);
    let expected = 1.0 - 1.0 / predicted.output_load;
    assert_eq!(predicted.full_probability, Some(expected));
    // The buffer takes some of it once, at the beginning.
    let lost = predicted.simulated.loss_probability;
    assert!((lost / expected - 1.0).abs() < 0.02, "{lost} {expected}");
    let held = predicted.simulated.peak_bytes;
    assert!(held <= 330e6 && held > 330e6 - 1090.0 * 265.0, "{held}");
}

#[test]
fn overloaded_links_pass_on_no_more_than_they_carry() {
    let predicted = predict(&hop(44, 10e6), &constant(200_000.0), 200_000);
    assert_eq!(predicted.bottleneck, Bottleneck::Output, "links and output are overloaded, the output more");
    // 44 Gb/s come into 10 Gb/s, however many triggers there are.
    let expected = 1.0 - 10.0 / 44.0;
    assert!(predicted.full_probability.is_some_and(|probability| (probability - expected).abs() < 1e-9));
    assert!((predicted.simulated.loss_probability / expected - 1.0).abs() < 0.01, "{predicted:?}");
}

#[test]
fn constant_triggers_below_the_limit_lose_nothing_and_need_one_event_of_buffer() {
    let predicted = predict(&hop(44, 47_960.0), &constant(26_000.0), 100_000);
    assert_eq!((predicted.simulated.lost_frames, predicted.bottleneck), (0, Bottleneck::None));
    assert_eq!(predicted.full_probability, Some(0.0));
    let shallow = predict(&hop(44, 40_000.0), &constant(1000.0), 1000);
    assert_eq!((shallow.full_probability, shallow.bottleneck), (Some(1.0), Bottleneck::Buffer));
    assert_eq!(shallow.simulated.damaged_triggers, 1000);
    assert_eq!(shallow.simulated.lost_frames, 1000 * (44 - 36), "36 frames of 1090 bytes fit");
}

#[test]
fn the_heavy_traffic_approximation_lies_above_the_simulation_by_less_than_ten_times() {
    // Load 0.9, twenty events of room: rare enough to be a tail, frequent enough to be counted.
    for (depth_events, dead_time_ns) in [(10.0, 0), (20.0, 0), (10.0, 10_000)] {
        let hop = hop(44, depth_events * 47_960.0);
        let accepted_hz = 0.9 * hop.static_limit_hz();
        let triggers = poisson(accepted_hz / (1.0 - accepted_hz * dead_time_ns as f64 * 1e-9), dead_time_ns);
        assert!((triggers.accepted_rate_hz() / accepted_hz - 1.0).abs() < 1e-9);
        let predicted = predict(&hop, &triggers, 1_000_000);
        let (theory, seen) = (
            predicted.full_probability.expect("heavy traffic"),
            predicted.simulated.damaged_triggers as f64 / predicted.simulated.triggers as f64,
        );
        // The queue of the approximation has no limit, and so is above the depth more often than one that has lost: 4 to 6 times here.
        assert!(seen < theory && theory < 10.0 * seen, "{depth_events} {dead_time_ns}: {theory} {seen}");
    }
}

#[test]
fn the_simulation_gives_the_loss_of_queues_with_one_and_two_places() {
    // M/D/1/1: load / (1 + load) (Erlang). M/D/1/2: 1 - 1 / (exp(-load) + load), by its embedded chain.
    let frame = Frame::new(1024).expect("one frame");
    for load in [0.3_f64, 0.7, 1.0, 1.5] {
        for (places, exact) in [(1.0, load / (1.0 + load)), (2.0, 1.0 - 1.0 / ((-load).exp() + load))] {
            let hop = Hop::new(1, 1e13, 100e6, places * 1090.0, frame).expect("a hop");
            let triggers = poisson(load * hop.static_limit_hz(), 0);
            let lost = predict(&hop, &triggers, 1_000_000).simulated.loss_probability;
            assert!((lost / exact - 1.0).abs() < 0.01, "load {load}, {places} places: {lost} {exact}");
        }
    }
}

#[test]
fn the_same_seed_gives_the_same_losses_and_another_seed_others() {
    let hop = hop(44, 10.0 * 47_960.0);
    let triggers = poisson(0.95 * hop.static_limit_hz(), 0);
    let simulated = |seed| predict(&hop, &Triggers { seed, ..triggers }, 100_000).simulated;
    assert_eq!(simulated(1), simulated(1));
    assert_ne!(simulated(1).lost_frames, simulated(2).lost_frames);
    assert!(simulated(1).loss_limit_95().is_none());
}

#[test]
fn values_that_no_hop_has_are_refused_by_name() {
    let frame = Frame::new(1024).expect("one frame");
    for (hop, word) in [
        (Hop::new(0, 1e9, 1e9, 1e6, frame), "number of links"),
        (Hop::new(1, 0.0, 1e9, 1e6, frame), "rate of a link"),
        (Hop::new(1, 1e9, f64::NAN, 1e6, frame), "rate of the output"),
        (Hop::new(1, 1e9, 1e9, f64::INFINITY, frame), "depth"),
    ] {
        let error = hop.expect_err(word).to_string();
        assert!(error.contains(word), "{error}");
    }
    assert!(Prediction::new(&self::hop(1, 1e6), &constant(0.0), 10).is_err());
}

fn near(found: f64, expected: f64, within: f64) {
    assert!((found / expected - 1.0).abs() < within, "{found} {expected}");
}

#[test]
fn the_camera_is_limited_behind_event_building_and_its_switch_holds_a_second_at_1100_hertz() {
    let camera = published::camera::reproduce(20_000).expect("a chain");
    let [ratio, switch_hz, built_hz, second_hz] = camera.figures.as_slice() else { panic!("four figures") };
    // 10 Gb/s by 67 × 1090 B; by 265 × 1024 B; 330 MB by 265 × 1090 B.
    near(switch_hz.ours, 17_116.0, 1e-4);
    near(built_hz.ours, 4606.4, 1e-4);
    near(second_hz.ours, 1142.5, 1e-4);
    near(ratio.ours, 3.716, 1e-3);
    let [level] = camera.levels.as_slice() else { panic!("one level") };
    assert_eq!(level.prediction.bottleneck, Some("behind event building"));
    assert_eq!((level.prediction.damaged_triggers, level.prediction.triggers), (0, 20_000));
    assert!(level.prediction.hop("camera server").is_some_and(|hop| !hop.is_predicted));
}

#[test]
fn the_printed_figures_of_comet_disagree_by_these_factors() {
    let comet = published::comet::reproduce(2000).expect("a chain");
    let ours: Vec<f64> = comet.figures.iter().map(|figure| figure.ours).collect();
    for (found, expected) in ours.iter().zip([492.19, 547.76, 68.492, 641.24, 0.45579, 1.1429]) {
        near(*found, expected, 1e-3);
    }
    let loads: Vec<f64> = comet
        .levels
        .iter()
        .flat_map(|level| &level.prediction.hops)
        .filter_map(|hop| hop.utilisation)
        .collect();
    for (found, expected) in loads.iter().zip([1.4605, 2.8071, 0.8493, 2.1940, 3.2910]) {
        near(*found, expected, 1e-3);
    }
    assert_eq!(loads.len(), 5, "links are not published, and not predicted");
}

#[test]
fn a_builder_of_the_size_of_cms_carries_twice_what_is_planned() {
    let cms = published::cms::reproduce(5000).expect("a chain");
    let prediction = &cms.levels[0].prediction;
    near(prediction.saturates_at_hz.expect("triggered"), 206_669.0, 1e-4);
    for hop in &prediction.hops {
        near(hop.utilisation.expect("known"), 0.48387, 1e-4);
    }
    let link = prediction.hop("builder unit link").and_then(|hop| hop.simulated.clone()).expect("predicted");
    assert_eq!((link.frames_in, link.lost_frames), (300_000, 0));
    // An event at least waits there, and seldom two.
    assert!((1.9e6..8e6).contains(&link.peak_bytes), "{}", link.peak_bytes);
}
