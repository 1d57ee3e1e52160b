use std::sync::Arc;

use thalweg_data::hit::{Extra, Layout};
use thalweg_data::{Flags, Hit, Hits, Mark, Pool, SourceId};

use super::*;
use crate::channels::{ChannelMap, SourceChannels};
use crate::view::NewCalibration;

fn map() -> Arc<ChannelMap> {
    let board = SourceChannels { source: SourceId(0), name: "board".into(), channels: 0..=3 };
    Arc::new(ChannelMap::new(&[board], &[], &[]).expect("valid"))
}

/// Hits of channels 0 to 3 in turn with one waveform each, `samples` long; every fifth hit has none.
fn batch(pool: &Pool, hits: u16, samples: u16, mark: Mark) -> Hits {
    let mut batch = Hits::default();
    batch.header.mark = mark;
    let mut writer = pool.take().expect("a block");
    for index in 0..hits {
        let flags = if index % 5 == 4 { Flags::NONE } else { Flags::EXTRA };
        let hit =
            Hit { time_ps: i64::from(index), channel: index % 4, energy: index, flags, ..Hit::default() };
        batch.hits.push(hit);
        if flags == Flags::NONE {
            continue;
        }
        let bytes: Vec<u8> = (0..samples).flat_map(|sample| (sample + index).to_le_bytes()).collect();
        let mut extra = Extra::of(&hit, SourceId(0));
        (extra.layout, extra.samples_count) = (Layout::Plain, 1);
        extra.samples_first = batch.slices.len() as u32;
        batch.slices.push(writer.append(&bytes).expect("space"));
        batch.extras.push(extra);
    }
    batch.leases.add(writer.lease());
    batch
}

fn settings(per_second: u32) -> Settings {
    Settings { per_second, keep: 4, ..Settings::default() }
}

#[test]
fn the_latest_pulses_of_each_channel_are_kept_with_their_samples() {
    let (map, pool) = (map(), Pool::new(2, 1 << 20).expect("a pool"));
    let (mut tap, store) = PulseTap::new(&settings(10_000), &[], &map).expect("valid");
    tap.set_ns_per_sample(SourceId(0), Some(4.0));
    tap.look(&batch(&pool, 40, 32, Mark(0)), &map);
    assert_eq!(store.channels(), [0, 1, 2, 3]);
    let pulses = store.latest(1, 10).expect("known");
    let energies: Vec<u16> = pulses.iter().map(|pulse| pulse.energy).collect();
    assert_eq!(energies, [37, 33, 25, 21], "29 has no waveform, and four are kept");
    assert_eq!(pulses[0].analog, [(37..69).collect::<Vec<i32>>()]);
    assert_eq!((pulses[0].ns_per_sample, pulses[0].samples()), (Some(4.0), 32));
    assert_eq!(store.latest(1, 1).expect("known").len(), 1);
    let persistence = store.persistence(1).expect("known").expect("there were pulses");
    assert_eq!(persistence.counts.iter().sum::<u32>() as u64, persistence.pulses * 32);
    assert_eq!(store.latest(9, 1), Err(PulseError::Channel(9)));
}

#[test]
fn a_condition_picks_pulses_and_forgets_the_others() {
    let (map, pool) = (map(), Pool::new(4, 1 << 20).expect("a pool"));
    let (mut tap, store) = PulseTap::new(&settings(10_000), &[], &map).expect("valid");
    tap.look(&batch(&pool, 40, 32, Mark(0)), &map);
    store.set_filter(2, Some("energy > 30")).expect("valid");
    assert!(store.latest(2, 10).expect("known").is_empty());
    tap.look(&batch(&pool, 40, 32, Mark(200_000_000)), &map);
    let energies = |channel| -> Vec<u16> {
        store.latest(channel, 10).expect("known").iter().map(|pulse| pulse.energy).collect()
    };
    assert_eq!(energies(2), [38]);
    assert_eq!(energies(1).len(), 4);
    assert_eq!(store.filter(2), Ok(Some("energy > 30".to_owned())));
    let refused = store.set_filter(2, Some("enrgy > 30")).expect_err("no such field").to_string();
    assert!(refused.contains('^'), "{refused}");
    store.set_filter(2, None).expect("valid");
    tap.look(&batch(&pool, 40, 32, Mark(400_000_000)), &map);
    assert_eq!(energies(2).len(), 4);
}

#[test]
fn no_more_are_taken_than_the_budget_of_each_tenth_of_a_second() {
    let (map, pool) = (map(), Pool::new(12, 1 << 20).expect("a pool"));
    let (mut tap, store) = PulseTap::new(&settings(20), &[], &map).expect("valid");
    for tenth in 0..10 {
        tap.look(&batch(&pool, 40, 32, Mark(tenth * 100_000_000)), &map);
        assert_eq!(store.counts().0, 2 * (tenth + 1));
    }
}

#[test]
fn who_reads_is_not_waited_for() {
    let (map, pool) = (map(), Pool::new(2, 1 << 20).expect("a pool"));
    let (mut tap, store) = PulseTap::new(&settings(10_000), &[], &map).expect("valid");
    let reading = store.0.rows[0].lock().expect("nobody panics");
    tap.look(&batch(&pool, 40, 32, Mark(0)), &map);
    drop(reading);
    assert!(store.latest(0, 10).expect("known").is_empty());
    assert_eq!(store.counts().1, 8);
    assert_eq!(store.channels(), [1, 2, 3]);
}

#[test]
fn long_waveforms_are_cut_and_ranges_are_checked() {
    let (map, pool) = (map(), Pool::new(2, 1 << 20).expect("a pool"));
    let short = Settings { longest_samples: 16, ..settings(100) };
    let (mut tap, store) = PulseTap::new(&short, &[], &map).expect("valid");
    tap.look(&batch(&pool, 4, 32, Mark(0)), &map);
    let pulse = store.latest(0, 1).expect("known").remove(0);
    assert!(pulse.truncated && pulse.samples() == 16);
    let refused = PulseTap::new(&Settings { keep: 0, ..settings(1) }, &[], &map);
    assert!(refused.expect_err("no pulses").to_string().contains("write 1 to 1024"));
}

#[test]
fn a_condition_in_kev_follows_the_calibration_that_is_applied() {
    use crate::process::{self, Selected};
    let (map, pool) = (map(), Pool::new(4, 1 << 20).expect("a pool"));
    let pulses = settings(10_000);
    let names = ["board".to_owned()];
    let all = process::Settings { pulses, ..Default::default() };
    let mut stages = process::stages(&all, &map, &names).expect("valid");
    let store = stages.processor.pulse_store();
    store.set_filter(2, Some("keV > 60")).expect("valid");
    let view = stages.processor.view();
    let mut take = |mark| {
        let mut batch = Selected::from(batch(&pool, 40, 32, mark));
        stages.take(&mut batch, |_| Ok::<(), ()>(()))
    };
    take(Mark(0)).expect("nothing fails");
    assert!(store.latest(2, 10).expect("known").is_empty(), "no channel is calibrated");
    view.calibrate(&NewCalibration { channel: 2, energy_kev: vec![0.0, 2.0] }).expect("valid");
    take(Mark(200_000_000)).expect("nothing fails");
    let energies: Vec<u16> = store.latest(2, 10).expect("known").iter().map(|pulse| pulse.energy).collect();
    assert_eq!(energies, [38], "34 has no waveform");
}
