//! Recorded data of public origin through order, coincidence, spectra and pulses: what physics says must come out.

use std::collections::BTreeSet;
use std::convert::Infallible;
use std::sync::Arc;

use thalweg_analysis::channels::{ChannelMap, SourceChannels};
use thalweg_analysis::coincide::{self, Coincidence, Leg, Mode};
use thalweg_analysis::process::{Selected, Settings, stages};
use thalweg_analysis::pulse::{self, PulseTap};
use thalweg_analysis::spectrum::{At, Kind};
use thalweg_data::{Hit, HitEvents, Hits, Mark, Pool, SourceId};
use thalweg_frontend::check::{self, HitsOutcome};
use thalweg_frontend::{abcd, compass};
use thalweg_order::{Pushed, TimeOrder};

fn recorded(name: &str) -> Option<Vec<u8>> {
    thalweg_prerequisite::recorded(name).map(|path| std::fs::read(path).expect("readable"))
}

fn abcd_hits(name: &str, tick_ps: f64) -> Option<Vec<Hit>> {
    let bytes = recorded(name)?;
    let settings = abcd::Settings::with_tick_ps(tick_ps);
    let unpack = abcd::AbcdUnpack::new(SourceId(0), &settings).expect("possible");
    let decode = abcd::AbcdDecode::new(SourceId(0), &settings).expect("possible");
    Some(check::hits_of_stream(unpack, decode, &bytes, &[65_536]).hits)
}

fn map(channels: u16) -> Arc<ChannelMap> {
    let board = SourceChannels { source: SourceId(0), name: "board".into(), channels: 0..=channels - 1 };
    Arc::new(ChannelMap::new(&[board], &[], &[]).expect("valid"))
}

/// A Gaussian band: centre, standard deviation, share.
type Band = [f64; 3];

/// The two bands of a projection, by expectation and maximisation, which needs no start values finer than a guess.
fn two_bands(projection: &[u64], low: f64, width: f64) -> [Band; 2] {
    let mut bands: [Band; 2] = [[0.2, 0.03, 0.5], [0.4, 0.03, 0.5]];
    for _ in 0..200 {
        let mut sums = [[0.0; 3]; 2];
        for (bin, count) in projection.iter().enumerate().filter(|(_, count)| **count > 0) {
            let (at, count) = (low + (bin as f64 + 0.5) * width, *count as f64);
            let height =
                |[mean, sigma, share]: Band| share / sigma * (-((at - mean) / sigma).powi(2) / 2.0).exp();
            let heights = bands.map(height);
            let sum = (heights[0] + heights[1]).max(f64::MIN_POSITIVE);
            for (sums, height) in sums.iter_mut().zip(heights) {
                let part = count * height / sum;
                *sums = [sums[0] + part, sums[1] + part * at, sums[2] + part * at * at];
            }
        }
        let all = sums[0][0] + sums[1][0];
        bands = sums.map(|[part, first, second]| {
            let mean = first / part;
            [mean, (second / part - mean * mean).sqrt().max(width / 4.0), part / all]
        });
    }
    bands
}

#[test]
fn neutrons_and_gammas_of_californium_are_two_bands() {
    let name = "example_data_DT5725_Ch0_Plastic_Cf-252_source_events.ade";
    let Some(hits) = abcd_hits(name, 3.90625) else { return };
    let mut stages = stages(&Settings::default(), &map(1), &["board".to_owned()]).expect("valid");
    let mut batch = Selected::from(Hits { hits, ..Hits::default() });
    stages.take(&mut batch, |_| Ok::<(), Infallible>(())).expect("infallible");
    stages.settle();
    let set = &stages.spectra;
    let is_plane =
        |info: &&thalweg_analysis::spectrum::Info| info.kind == Kind::Plane && info.at == At::Received;
    let plane = set.spectra().iter().find(is_plane).expect("every channel has one");
    let mut counts = Vec::new();
    set.read(plane.id, &mut counts).expect("known");
    // Energies of 5120 to 59904, columns 20 to 233 of 256: above, the charge saturates. Pulse shapes up to 0.6, of 1 in 256 rows.
    let projection: Vec<u64> = counts.chunks(256).take(154).map(|row| row[20..234].iter().sum()).collect();
    let [gammas, neutrons] = two_bands(&projection, 0.0, 1.0 / 256.0);
    let full_width = |band: Band| band[1] * (8.0 * 2f64.ln()).sqrt();
    let merit = (neutrons[0] - gammas[0]) / (full_width(gammas) + full_width(neutrons));
    println!("figure of merit above 5120: {merit:.3}; gammas {gammas:.3?}, neutrons {neutrons:.3?}");
    // Summed over all energies above the threshold, the bands are widened by their drift with energy: 0.9, where a band of one
    // energy alone would give more.
    assert!((0.85..1.0).contains(&merit), "{merit}");
    let at = |place: f64| projection[(place * 256.0) as usize];
    let between = (gammas[0] * 256.0) as usize..(neutrons[0] * 256.0) as usize;
    let valley = projection[between].iter().min().copied().unwrap_or(0);
    assert!(valley * 2 < at(gammas[0]).min(at(neutrons[0])), "the bands are separate");
}

/// All hits in one order, by the stage that does it.
fn ordered(hits: &[Hit]) -> Vec<Hit> {
    let mut latest_ps = i64::MIN;
    let back = |hit: &Hit| {
        latest_ps = latest_ps.max(hit.time_ps);
        (latest_ps - hit.time_ps) as u64
    };
    let disorder_ps = hits.iter().map(back).max().unwrap_or(0);
    assert!(disorder_ps > 0, "the file is not in order");
    let settings = thalweg_order::Settings { disorder_ps, ..thalweg_order::Settings::default() };
    let mut order = TimeOrder::new(&settings, 1, 8192);
    let (mut all, mut out, mut batch) = (Vec::new(), Hits::default(), Hits::default());
    for (index, chunk) in hits.chunks(8192).enumerate() {
        batch.hits.extend_from_slice(chunk);
        batch.header.mark = Mark(index as u64);
        batch.header.end = (index + 1) * 8192 >= hits.len();
        assert_eq!(order.push(&mut batch).expect("in order of marks"), Pushed::Taken);
        batch.clear();
        while order.pull(&mut out) {
            all.extend_from_slice(&out.hits);
            out.clear();
        }
    }
    assert_eq!(all.len(), hits.len());
    assert!(all.is_sorted_by_key(|hit| hit.time_ps));
    all
}

/// Events as the stage finds them: the times of their members.
fn found(settings: &coincide::Settings, hits: &[Hit]) -> Vec<Vec<i64>> {
    let map = map(8);
    let mut coincidence = Coincidence::new(settings, &map, 1).expect("valid");
    let (mut events, mut all) = (HitEvents::default(), Vec::new());
    for chunk in hits.chunks(1000) {
        coincidence.push(chunk, None);
    }
    coincidence.finish();
    while coincidence.pull(&mut events) {
        all.extend(events.iter().map(|(_, members)| members.iter().map(|hit| hit.time_ps).collect()));
    }
    all
}

/// Every window with enough different channels, joined where they share a hit: by looking at all of them.
fn chained(hits: &[Hit], window_ps: i64, at_least: usize) -> Vec<Vec<i64>> {
    let mut events: Vec<(usize, usize)> = Vec::new();
    for last in 0..hits.len() {
        let first = hits[..last].iter().rposition(|hit| hits[last].time_ps - hit.time_ps > window_ps);
        let first = first.map_or(0, |outside| outside + 1);
        let channels: BTreeSet<u16> = hits[first..=last].iter().map(|hit| hit.channel).collect();
        if channels.len() < at_least {
            continue;
        }
        match events.last_mut() {
            Some(event) if first <= event.1 => event.1 = last,
            _ => events.push((first, last)),
        }
    }
    let times = |(first, last): (usize, usize)| hits[first..=last].iter().map(|hit| hit.time_ps).collect();
    events.into_iter().map(times).collect()
}

/// Around each hit of one channel those of the others.
fn around(hits: &[Hit], channel: u16, window_ps: i64) -> Vec<Vec<i64>> {
    let mut events = Vec::new();
    for (index, centre) in hits.iter().enumerate().filter(|(_, hit)| hit.channel == channel) {
        let near = |hit: &&Hit| (hit.time_ps - centre.time_ps).abs() <= window_ps;
        let before = hits[..index].iter().rev().take_while(near).filter(|hit| hit.channel != channel);
        let behind = hits[index + 1..].iter().take_while(near).filter(|hit| hit.channel != channel);
        let mut members: Vec<i64> = before.map(|hit| hit.time_ps).collect();
        members.reverse();
        members.push(centre.time_ps);
        members.extend(behind.map(|hit| hit.time_ps));
        if members.len() > 1 {
            events.push(members);
        }
    }
    events
}

#[test]
fn three_scintillators_have_the_coincidences_that_counting_by_hand_finds() {
    let name = "example_data_DT5730_Ch2_LaBr3_Ch4_LYSO_Ch6_YAP_events.ade";
    let Some(hits) = abcd_hits(name, 1.953125) else { return };
    let hits = ordered(&hits);
    for window_ps in [0, 2_000, 20_000, 200_000, 5_000_000] {
        for at_least in [2, 3] {
            let settings = coincide::Settings {
                mode: Mode::Majority,
                window_ps,
                at_least: Some(at_least),
                ..coincide::Settings::default()
            };
            let (found, counted) =
                (found(&settings, &hits), chained(&hits, window_ps, usize::from(at_least)));
            println!("{at_least} of 3 within {window_ps} ps: {} events", counted.len());
            assert!(found == counted, "{at_least} of 3 within {window_ps} ps: {} events", found.len());
        }
        for reference in ["2", "4"] {
            let channels = serde_json::from_str(&format!("[{reference}]")).expect("a list of channels");
            let settings = coincide::Settings {
                mode: Mode::Reference,
                window_ps,
                reference: Some(Leg { channels, ..Leg::default() }),
                ..coincide::Settings::default()
            };
            let counted = around(&hits, reference.parse().expect("a number"), window_ps);
            println!("around channel {reference} within {window_ps} ps: {} events", counted.len());
            let found = found(&settings, &hits);
            assert!(found == counted, "around {reference} within {window_ps} ps: {} events", found.len());
        }
    }
}

/// The batch that a decoder made, from what the check has copied out of it.
fn batch_of(outcome: &HitsOutcome, pool: &Pool) -> Hits {
    let mut batch = Hits { hits: outcome.hits.clone(), ..Hits::default() };
    let mut writer = pool.take().expect("a block");
    for (extra, bytes) in outcome.extras.iter().zip(&outcome.sample_bytes) {
        let mut extra = *extra;
        (extra.samples_first, extra.samples_count) = (batch.slices.len() as u32, 1);
        batch.slices.push(writer.append(bytes).expect("room in the block"));
        batch.extras.push(extra);
    }
    batch.leases.add(writer.lease());
    batch
}

#[test]
fn waveforms_of_a_compass_file_are_seen_as_pulses() {
    let Some(bytes) = recorded("compass_test_data.BIN") else { return };
    let settings = compass::Settings::default();
    let unpack = compass::CompassUnpack::new(SourceId(0), &settings).expect("defaults");
    let decode = compass::CompassDecode::new(SourceId(0), &settings).expect("defaults");
    let outcome = check::hits_of_stream(unpack, decode, &bytes, &[65_536]);
    let pool = Pool::new(1, 4 << 20).expect("a pool");
    let (batch, map) = (batch_of(&outcome, &pool), map(16));
    let settings = pulse::Settings { per_second: 10_000, keep: 128, ..pulse::Settings::default() };
    let (mut tap, store) = PulseTap::new(&settings, &[], &map).expect("valid");
    tap.look(&batch, &map);
    let channels: BTreeSet<u16> = outcome.hits.iter().map(|hit| hit.channel).collect();
    assert_eq!(store.channels(), channels.iter().copied().collect::<Vec<_>>());
    for channel in channels {
        let mut pulses = store.latest(channel, 128).expect("known");
        pulses.reverse();
        let rows = outcome.hits.iter().zip(&outcome.samples).filter(|(hit, _)| hit.channel == channel);
        let expected: Vec<_> = rows.map(|(hit, samples)| (hit.time_ps, samples.analog_1.clone())).collect();
        let seen: Vec<_> =
            pulses.into_iter().map(|mut pulse| (pulse.time_ps, pulse.analog.remove(0))).collect();
        assert!(seen == expected, "channel {channel}: {} pulses of {}", seen.len(), expected.len());
        let persistence = store.persistence(channel).expect("known").expect("there were pulses");
        assert_eq!(persistence.counts.iter().sum::<u32>() as u64, persistence.pulses * 1000);
    }
}
