use rand::RngExt;
use rand::SeedableRng;
use rand_pcg::Pcg64Mcg;
use thalweg_data::hit::Extra;
use thalweg_data::{Flags, Hit, Hits, SourceId, Statistics};

use super::*;
use crate::channels::{ChannelMap, ChannelSettings, SourceChannels};

fn board(number: u16) -> SourceChannels {
    SourceChannels {
        source: SourceId(number),
        name: format!("board {number}"),
        channels: number * 4..=number * 4 + 3,
    }
}

fn map() -> ChannelMap {
    let late = ChannelSettings { number: 5, offset_ps: Some(-70), ..ChannelSettings::default() };
    ChannelMap::new(&[board(0), board(1)], &[late], &[]).expect("valid")
}

fn names() -> Vec<String> {
    vec!["left".into(), "right".into()]
}

#[test]
fn times_are_moved_with_their_extras() {
    let correction = Correction { name: "right".into(), offset_ps: 1000, drift_ppb: 50.0 };
    let settings = Settings { source: vec![correction], ..Settings::default() };
    settings.check(&names()).expect("valid");
    let aligner = Aligner::new(&settings, &names(), &map());
    let hit = |time_ps, channel, flags| Hit { time_ps, channel, flags, ..Hit::default() };
    let mut batch = Hits {
        hits: vec![hit(1_000_000_000_000, 4, Flags::NONE), hit(2_000_000_000_000, 5, Flags::EXTRA)],
        ..Hits::default()
    };
    batch.extras.push(Extra::of(&batch.hits[1], SourceId(1)));
    batch.header.source = SourceId(1);
    let (real_time_ps, since_start_ps) = (2_000_000_000_000, 1_999_000_000_000);
    batch.statistics.push(Statistics { channel: 5, real_time_ps, since_start_ps, ..Statistics::default() });
    aligner.align(&mut batch, &map());
    assert_eq!(batch.hits[0].time_ps, 1_000_000_000_000 + 1000 + 50_000);
    let record = batch.statistics[0];
    assert_eq!(record.real_time_ps, batch.hits[1].time_ps, "it counts the hits before it, by their times");
    assert_eq!(record.since_start_ps, since_start_ps, "this is by the board's clock alone");
    assert_eq!(batch.hits[1].time_ps, 2_000_000_000_000 + 1000 + 100_000 - 70);
    assert_eq!(batch.extras[0].time_ps, batch.hits[1].time_ps);
    assert_eq!((aligner.disorder_ps(SourceId(0)), aligner.disorder_ps(SourceId(1))), (0, 70));
    batch.header.source = SourceId(0);
    let before = batch.hits.clone();
    aligner.align(&mut batch, &map());
    assert_eq!(batch.hits, before, "the reference is not moved");
}

/// Two boards that see the same decays, among chance; the right one is late by `offset_ps`, and slower by `drift_ppb`.
fn seconds(count: i64, offset_ps: f64, drift_ppb: f64, coincident: bool) -> Vec<Hit> {
    let mut random = Pcg64Mcg::seed_from_u64(11);
    let mut hits = Vec::new();
    for second in 0..count {
        for _ in 0..3000 {
            let time_ps = second * 1_000_000_000_000 + random.random_range(0..1_000_000_000_000);
            let late = if coincident { 0 } else { random.random_range(-500_000_000..500_000_000) };
            let jitter = random.random_range(-2000.0..2000.0);
            let seen = time_ps + late + (offset_ps + jitter + time_ps as f64 * drift_ppb * 1e-9) as i64;
            hits.push(Hit { time_ps, channel: 1, ..Hit::default() });
            hits.push(Hit { time_ps: seen, channel: 6, ..Hit::default() });
        }
    }
    hits.sort_by_key(|hit| hit.time_ps);
    hits
}

fn watch(hits: &[Hit]) -> ClockState {
    watch_with(hits, &map())
}

fn watch_with(hits: &[Hit], map: &ChannelMap) -> ClockState {
    let settings = Settings { reference: Some("left".into()), interval_s: 1.0, ..Settings::default() };
    let mut monitor = ClockMonitor::new(&settings, &names()).expect("a reference is named");
    hits.chunks(1000).for_each(|batch| monitor.look(batch, map));
    let mut states = monitor.state();
    assert_eq!(states.len(), 1);
    states.remove(0)
}

#[test]
fn offset_and_drift_are_found_in_the_data() {
    let state = watch(&seconds(20, -40_000.0, 2.0, true));
    let (offset_ps, drift_ppb) = (state.offset_ps.expect("a peak"), state.drift_ppb.expect("a line"));
    let expected_ps = -40_000.0 + state.measured_at_s.expect("measured") * 2000.0;
    assert!((offset_ps - expected_ps).abs() < 300.0, "{state:?} is not {expected_ps}");
    assert!((drift_ppb - 2.0).abs() < 0.1, "{state:?}");
    let at_start_ps = state.offset_at_start_ps.expect("a line");
    assert!((at_start_ps + 40_000.0).abs() < 300.0, "{state:?}");
    assert!(state.locked && state.offset_error_ps.expect("known") < 500.0, "{state:?}");
}

#[test]
fn clocks_are_not_compared_by_channels_that_are_left_out() {
    let off = ChannelSettings { number: 6, enabled: Some(false), ..ChannelSettings::default() };
    let boards = [0, 1].map(board);
    let map = ChannelMap::new(&boards, &[off], &[]).expect("valid");
    let hits = seconds(5, 0.0, 0.0, true);
    assert_eq!(watch_with(&hits, &map).offset_ps, None);
}

#[test]
fn what_is_measured_corrects_the_next_run() {
    let hits = seconds(20, -40_000.0, 20.0, true);
    let measured = watch(&hits);
    let correction = Correction {
        name: "right".into(),
        offset_ps: -measured.offset_at_start_ps.expect("a line").round() as i64,
        drift_ppb: -measured.drift_ppb.expect("a line"),
    };
    let settings = Settings { source: vec![correction], ..Settings::default() };
    let (aligner, map) = (Aligner::new(&settings, &names(), &map()), map());
    let mut right =
        Hits { hits: hits.iter().copied().filter(|hit| hit.channel == 6).collect(), ..Hits::default() };
    right.header.source = SourceId(1);
    aligner.align(&mut right, &map);
    let mut aligned: Vec<Hit> = hits.into_iter().filter(|hit| hit.channel == 1).chain(right.hits).collect();
    aligned.sort_by_key(|hit| hit.time_ps);
    let left = watch(&aligned);
    assert!(left.offset_ps.expect("a peak").abs() < 500.0, "{measured:?} leaves {left:?}");
}

#[test]
fn a_board_without_a_peak_or_far_away_is_not_locked() {
    let chance = watch(&seconds(5, 0.0, 0.0, false));
    assert_eq!((chance.offset_ps, chance.locked), (None, false), "{chance:?}");
    let far = watch(&seconds(5, 300_000.0, 0.0, true));
    assert!(!far.locked && (far.offset_ps.expect("a peak") - 300_000.0).abs() < 2000.0, "{far:?}");
}

#[test]
fn invalid_clocks_are_refused() {
    let message = |settings: Settings| settings.check(&names()).expect_err("not possible").to_string();
    let base = Settings::default;
    let correction = |name: &str, drift_ppb| Correction { name: name.into(), offset_ps: 0, drift_ppb };
    assert!(
        message(Settings { reference: Some("middle".into()), ..base() }).contains("there are: left, right")
    );
    assert!(message(Settings { source: vec![correction("up", 0.0)], ..base() }).contains("\"up\""));
    let twice = vec![correction("left", 0.0), correction("left", 1.0)];
    assert!(message(Settings { source: twice, ..base() }).contains("keep one"));
    assert!(message(Settings { source: vec![correction("left", f64::NAN)], ..base() }).contains("drift_ppb"));
    let far = Correction { offset_ps: i64::MAX, ..correction("left", 0.0) };
    assert!(message(Settings { source: vec![far], ..base() }).contains("[[clocks.source]] offset_ps"));
    assert!(message(Settings { range_ps: 0, ..base() }).contains("range_ps"));
    assert!(message(Settings { interval_s: 0.0, ..base() }).contains("interval_s"));
}
