//! Nothing lost, nothing doubled, each hit in its slice.

use proptest::prelude::*;
use thalweg_data::{
    Closing, Events, Fragment, Fragments, Hit, Hits, LossReason, Mark, Pool, SourceId, Tick, Unit,
};

use super::*;
use crate::{Builder, Settings as BuildSettings};

fn settings(slice_ps: u64, disorder_ps: u64) -> Settings {
    Settings { slice_ps, disorder_ps, ahead_ms: 0, silence_ms: 0, ..Settings::default() }
}

fn hit(time_ps: i64, channel: u16) -> Hit {
    Hit { time_ps, channel, energy: channel ^ 0x55, energy_short: 3, flags: thalweg_data::Flags::LATE }
}

/// The hits of every fragment, with the number of its slice.
fn read(out: &Fragments) -> Vec<(u64, Vec<Hit>)> {
    let hits = |slices: &[thalweg_data::Slice]| {
        slices.iter().flat_map(|slice| read_hits(out.leases.bytes(*slice)).collect::<Vec<_>>()).collect()
    };
    out.iter().map(|(fragment, slices)| (fragment.trigger, hits(slices))).collect()
}

fn check(counters: &thalweg_data::Counters, unit: Unit) {
    assert_eq!(
        counters.total_input(unit),
        counters.total_output(unit) + counters.total_lost_any(unit) + counters.held(unit)
    );
}

#[test]
fn hits_are_cut_by_time_and_empty_slices_are_reported() {
    let pool = Pool::new(8, 4096).expect("small");
    let mut cutter = HitCutter::new(SourceId(2), &settings(1000, 100), &pool).expect("possible");
    let mut out = Fragments::default();
    let hits: Vec<Hit> = [0, 999, 1050, 950, 1000, 3100, 3099].map(|time_ps| hit(time_ps, 1)).into();
    let batch = Hits { hits: hits.clone(), ..Hits::default() };
    assert_eq!(cutter.cut(&batch, 0, &mut out), 7);
    assert_eq!(read(&out), [(0, vec![hits[0], hits[1], hits[3]]), (1, vec![hits[2], hits[4]]), (2, vec![])]);
    assert_eq!((cutter.timeline().counters().held(Unit::Hits), cutter.copied_bytes()), (2, 7 * 16));
    out.clear();
    assert!(cutter.timeline_mut().pass(5200, Mark(0), &mut out));
    assert_eq!(read(&out), [(3, vec![hits[5], hits[6]]), (4, vec![])]);
    let late = Hits { hits: vec![hit(4999, 9), hit(-1, 9), hit(5000, 9)], ..Hits::default() };
    assert_eq!(cutter.cut(&late, 0, &mut out), 3);
    assert_eq!(cutter.timeline().counters().total_lost(LossReason::Late, Unit::Hits), 1);
    assert_eq!(cutter.timeline().counters().total_lost(LossReason::OutOfWindow, Unit::Hits), 1);
    check(cutter.timeline().counters(), Unit::Hits);
    out.clear();
    assert!(cutter.timeline_mut().finish(Mark(0), &mut out));
    assert_eq!((read(&out), cutter.timeline().slices_left()), (vec![(5, vec![hit(5000, 9)])], 6));
}

#[test]
fn a_damaged_time_does_not_move_the_source_on() {
    let pool = Pool::new(8, 4096).expect("small");
    let settings = Settings { ahead_ms: 1, ..settings(1000, 0) };
    let mut cutter = HitCutter::new(SourceId(0), &settings, &pool).expect("possible");
    let mut batch = Hits { hits: vec![hit(500, 0), hit(1 << 60, 0), hit(700, 0)], ..Hits::default() };
    batch.header.mark = Mark(1);
    let mut out = Fragments::default();
    assert_eq!(cutter.cut(&batch, 0, &mut out), 3);
    assert_eq!((out.fragments.len(), cutter.timeline().counters().held(Unit::Hits)), (0, 2));
    assert_eq!(cutter.timeline().counters().total_lost(LossReason::OutOfWindow, Unit::Hits), 1);
}

#[test]
fn a_long_silence_is_reported_in_portions() {
    let pool = Pool::new(8, 4096).expect("small");
    let mut cutter = HitCutter::new(SourceId(0), &settings(1000, 0), &pool).expect("possible");
    let batch = Hits { hits: vec![hit(3_000_500, 0)], ..Hits::default() };
    let (mut out, mut sent) = (Fragments::default(), 0);
    while cutter.cut(&batch, 0, &mut out) == 0 {
        assert_eq!(out.fragments.len(), MOST_AT_ONCE);
        sent += out.fragments.len();
        out.clear();
    }
    assert_eq!(sent + out.fragments.len(), 3000);
    check(cutter.timeline().counters(), Unit::Hits);
}

#[test]
fn without_a_free_block_hits_wait() {
    let pool = Pool::new(1, 64).expect("small");
    let mut cutter = HitCutter::new(SourceId(0), &settings(1000, 0), &pool).expect("possible");
    let batch = Hits { hits: (0..10).map(|time_ps| hit(time_ps, 0)).collect(), ..Hits::default() };
    let mut out = Fragments::default();
    assert_eq!(cutter.cut(&batch, 0, &mut out), 4);
    assert_eq!((cutter.cut(&batch, 4, &mut out), out.fragments.len()), (0, 0));
    check(cutter.timeline().counters(), Unit::Hits);
}

#[test]
fn settings_that_cannot_be_are_refused() {
    let refused = |settings: Settings| settings.check().expect_err("not possible").to_string();
    assert!(refused(settings(10, 0)).contains("slice_ps"));
    assert!(refused(settings(1000, 1_000_000)).contains("disorder_ps"));
    assert_eq!(Settings::default().check(), Ok(()));
}

#[test]
fn a_silent_source_has_had_nothing_to_say_by_its_own_clock() {
    let pool = Pool::new(8, 4096).expect("small");
    let settings = Settings { silence_ms: 1, slice_ps: 1_000_000_000, ..settings(1, 0) };
    let mut cutter = HitCutter::new(SourceId(0), &settings, &pool).expect("possible");
    let mut out = Fragments::default();
    assert!(cutter.timeline_mut().advance(Mark(50_000_000), &mut out));
    assert!(out.fragments.is_empty(), "one that never spoke has no clock");
    // Its clock is 40 ms behind the arrival, as of a board that was started late.
    let mut batch = Hits { hits: vec![hit(10_500_000_000, 0)], ..Hits::default() };
    batch.header.mark = Mark(50_500_000);
    assert_eq!(cutter.cut(&batch, 0, &mut out), 1);
    assert_eq!(out.fragments.len(), 10);
    assert!(cutter.timeline_mut().advance(Mark(51_400_000), &mut out));
    assert_eq!(out.fragments.len(), 10, "not silent for long enough");
    assert!(cutter.timeline_mut().advance(Mark(53_600_000), &mut out));
    assert_eq!(out.fragments.len(), 12, "2.1 ms beyond its latest hit, slices 10 and 11 are over");
    batch.hits[0].time_ps = 13_900_000_000;
    batch.header.mark = Mark(53_900_000);
    assert_eq!(cutter.cut(&batch, 0, &mut out), 1);
    assert_eq!(cutter.timeline().counters().total_lost_any(Unit::Hits), 0);
}

/// What becomes of a source whose hit of each millisecond of a second has an error in its time, or does not come.
fn cut_a_second(error_ms: impl Fn(i64) -> Option<i64>) -> HitCutter {
    let pool = Pool::new(64, 4096).expect("small");
    let settings = Settings { ahead_ms: 1000, silence_ms: 20, ..settings(1_000_000_000, 2_000_000_000) };
    let mut cutter = HitCutter::new(SourceId(0), &settings, &pool).expect("possible");
    let mut out = Fragments::default();
    for ms in 1..=1000 {
        let mut batch = Hits::default();
        batch.header.mark = Mark(ms as u64 * 1_000_000);
        batch.hits.extend(error_ms(ms).map(|error_ms| hit((ms + error_ms) * 1_000_000_000, 0)));
        assert_eq!(cutter.cut(&batch, 0, &mut out), batch.hits.len());
        assert!(cutter.timeline_mut().advance(batch.header.mark, &mut out));
        out.clear();
    }
    check(cutter.timeline().counters(), Unit::Hits);
    cutter
}

/// How many of such hits are late; no time is damaged.
fn late_of_a_second(error_ms: impl Fn(i64) -> Option<i64>) -> u64 {
    let cutter = cut_a_second(error_ms);
    let counters = cutter.timeline().counters();
    assert_eq!(counters.total_lost(LossReason::OutOfWindow, Unit::Hits), 0);
    counters.total_lost(LossReason::Late, Unit::Hits)
}

#[test]
fn a_time_ahead_or_a_clock_set_back_costs_no_more_than_its_error() {
    // Two milliseconds may be out of order, and the slice of the latest of them is open.
    let ahead = late_of_a_second(|ms| Some(if ms == 100 { 400 } else { 0 }));
    assert_eq!(ahead, 397);
    let back = late_of_a_second(|ms| Some(if ms > 300 { -200 } else { 0 }));
    assert_eq!(back, 197);
    // Nor, beyond the hit from which on its times are near each other, with hits that come more seldom than `silence_ms`.
    let seldom = late_of_a_second(|ms| (ms % 50 == 0).then_some(if ms == 100 { 400 } else { 0 }));
    assert_eq!(seldom, 8 + 1);
    assert_eq!(late_of_a_second(|ms| (ms % 50 == 0).then_some(0)), 0);
}

#[test]
fn a_late_or_damaged_time_after_a_silence_does_not_hold_a_silent_source() {
    // Within 100 ms it sends, and then it is silent, but for times that are 650 ms late, or damaged: one, or the rest of a buffer.
    let cut = |error_ms: i64, last_ms: i64| {
        cut_a_second(move |ms| match ms {
            ..=100 => Some(0),
            700.. if ms <= last_ms => Some(error_ms),
            _ => None,
        })
    };
    let undisturbed = cut(0, 0).timeline().slices_left();
    assert_eq!(undisturbed, 1000 - 20 - 2);
    for (error_ms, reason) in
        [(-650, LossReason::Late), (-750, LossReason::OutOfWindow), (1 << 20, LossReason::OutOfWindow)]
    {
        for last_ms in [700, 715] {
            let cutter = cut(error_ms, last_ms);
            let timeline = cutter.timeline();
            assert_eq!(timeline.counters().total_lost(reason, Unit::Hits), last_ms as u64 - 699);
            assert_eq!(timeline.slices_left(), undisturbed, "{error_ms} {last_ms}");
        }
    }
}

#[test]
fn the_builder_of_slices_has_rows_for_all_that_are_open() {
    let build = BuildSettings { age_ms: 1000, depth: 16, ..BuildSettings::default() };
    let wide = Settings::default().builder(&build);
    assert_eq!((wide.depth, wide.trigger_bits, wide.first_trigger), (512, 64, Some(0)));
    assert_eq!(Settings { slice_ps: 1_000_000, ..Settings::default() }.builder(&build).depth, 1 << 20);
}

#[test]
fn fragments_are_cut_without_copying() {
    let pool = Pool::new(8, 4096).expect("small");
    let mut writer = pool.take().expect("free");
    let tick = Tick::from_ps(100).expect("not zero");
    let mut cutter = FragmentCutter::new(4..5, &settings(1000, 0), tick).expect("possible");
    let mut batch = Fragments::default();
    // The last two are beyond what 64 bits of picoseconds say.
    let beyond = i64::MAX as u64 / 100 + 1;
    for (source, ticks) in [(4, 0), (4, 9), (4, 10), (4, 8), (5, 10), (4, 40), (4, beyond), (4, u64::MAX)] {
        batch.slices.push(writer.append(&[ticks as u8; 3]).expect("fits"));
        batch.fragments.push(Fragment { ticks, source: SourceId(source), slices: 1, ..Fragment::default() });
    }
    batch.leases.add(writer.lease());
    let mut out = Fragments::default();
    assert_eq!(cutter.cut(&batch, 0, &mut out), 8);
    assert!(cutter.finish(Mark(0), &mut out));
    let read: Vec<(u64, u16, u32)> =
        out.fragments.iter().map(|fragment| (fragment.trigger, fragment.slices, fragment.bytes)).collect();
    assert_eq!(read, [(0, 1, 6), (1, 1, 3), (2, 0, 0), (3, 0, 0), (4, 1, 3)]);
    assert_eq!(out.leases.bytes(out.slices[0]), [0, 0, 0, 9, 9, 9]);
    assert_eq!(cutter.timelines()[0].counters().total_lost(LossReason::Late, Unit::Fragments), 1);
    assert_eq!(cutter.timelines()[0].counters().total_lost(LossReason::UnknownSource, Unit::Fragments), 1);
    assert_eq!(cutter.timelines()[0].counters().total_lost(LossReason::TimeRange, Unit::Fragments), 2);
    check(cutter.timelines()[0].counters(), Unit::Fragments);
}

/// Hands what a cutter gave to the builder and clears it; the hits of every event that leaves.
fn build(builder: &mut Builder, out: &mut Fragments, built: &mut Vec<(u64, u16, Hit)>) {
    let (mut events, mut first) = (Events::default(), 0);
    loop {
        first += builder.insert_from(out, first);
        while builder.pull(&mut events, 16) {
            for (fragment, slices) in events.fragments_with_slices() {
                for slice in slices {
                    let hits = read_hits(events.leases.bytes(*slice));
                    built.extend(hits.map(|hit| (fragment.trigger, fragment.source.0, hit)));
                }
            }
            assert!(events.events.iter().all(|event| event.closing == Closing::Complete));
            events.clear();
        }
        if first == out.fragments.len() {
            break;
        }
    }
    out.clear();
}

proptest! {
    /// Sources whose hits are out of order up to the stated bound, in batches of any length, taken in turn.
    #[test]
    fn every_hit_of_every_source_is_in_its_slice_once(
        gaps in prop::collection::vec(prop::collection::vec((0..700i64, 0..300i64), 0..200), 1..4),
        batch_hits in 1..50usize,
        slice_ps in 1000..5000u64,
    ) {
        let pool = Pool::new(256, 256).expect("small");
        let sources = gaps.len() as u16;
        let mut times = Vec::new();
        for source in &gaps {
            let mut now = 0;
            let times_of_source: Vec<i64> = source.iter().map(|(gap, back)| {
                now += gap;
                (now - back).max(0)
            }).collect();
            times.push(times_of_source);
        }
        let end_ps = times.iter().flatten().max().copied().unwrap_or(0) + 1_000;
        let build_settings =
            BuildSettings { trigger_bits: 64, first_trigger: Some(0), depth: 1024, ..BuildSettings::default() };
        let mut builder = Builder::new(&build_settings, 0..sources).expect("possible");
        builder.start_run(1);
        let mut cutters: Vec<HitCutter> = (0..sources)
            .map(|source| HitCutter::new(SourceId(source), &settings(slice_ps, 300), &pool).expect("possible"))
            .collect();
        let (mut out, mut built, mut sent) = (Fragments::default(), Vec::new(), Vec::new());
        for turn in 0..200usize.div_ceil(batch_hits) {
            for (source, cutter) in cutters.iter_mut().enumerate() {
                let own: Vec<Hit> = times[source].iter().skip(turn * batch_hits).take(batch_hits)
                    .enumerate().map(|(index, time_ps)| hit(*time_ps, (turn * batch_hits + index) as u16)).collect();
                sent.extend(own.iter().map(|hit| (hit.time_ps as u64 / slice_ps, source as u16, *hit)));
                let batch = Hits { hits: own, ..Hits::default() };
                let mut taken = 0;
                while taken < batch.hits.len() {
                    taken += cutter.cut(&batch, taken, &mut out);
                    check(cutter.timeline().counters(), Unit::Hits);
                    build(&mut builder, &mut out, &mut built);
                }
            }
        }
        for cutter in &mut cutters {
            prop_assert!(cutter.timeline_mut().pass(end_ps + 300 + slice_ps as i64, Mark(0), &mut out));
            prop_assert_eq!(cutter.timeline().counters().total_lost_any(Unit::Hits), 0);
            prop_assert_eq!(cutter.timeline().counters().held(Unit::Hits), 0);
            build(&mut builder, &mut out, &mut built);
        }
        prop_assert!(builder.is_empty());
        drop(cutters);
        prop_assert_eq!(pool.free_count(), pool.block_count());
        let key = |(slice, source, hit): &(u64, u16, Hit)| (*source, hit.channel, *slice);
        built.sort_by_key(key);
        sent.sort_by_key(key);
        prop_assert_eq!(built, sent);
    }
}
