use std::collections::BTreeMap;

use proptest::prelude::*;
use serde_json::json;
use thalweg_data::{Flags, Hit, Hits, Mark, Quality, SourceId, Statistics};

use super::*;
use crate::channels::{ChannelList, ChannelMap, ChannelSettings, SourceChannels};
use thalweg_data::HitEvents;

use crate::coincide::Coincidence;
use crate::cut::psd;

fn map() -> ChannelMap {
    let board = SourceChannels { source: SourceId(0), name: "board".into(), channels: 4..=7 };
    let calibrated =
        ChannelSettings { number: 5, energy_kev: Some(vec![10.0, 0.5]), ..ChannelSettings::default() };
    ChannelMap::new(&[board], &[calibrated], &[]).expect("valid")
}

fn hit(time_ps: i64, channel: u16, energy: u16, energy_short: u16) -> Hit {
    Hit { time_ps, channel, energy, energy_short, flags: Flags::NONE }
}

fn one(own: &[SpectrumSettings], path: Path) -> (SpectrumSet, Filler) {
    let (set, mut fillers) =
        SpectrumSet::new(&Settings::default(), own, &[], &map(), path, 1).expect("valid");
    (set, fillers.remove(0))
}

/// Fills hits in with their words.
fn fill(filler: &mut Filler, hits: &[Hit], pass: Option<&[u8]>, map: &ChannelMap) {
    let mut words = Vec::new();
    filler.word_maker().into_iter().for_each(|word_maker| word_maker.append(hits, pass, &mut words));
    filler.fill(hits, &words, pass, map);
}

const ALL: Path = Path { cuts_hits: true, widest_ps: Some(1000), has_reference: false };

fn find(set: &SpectrumSet, kind: Kind, at: At, channel: u16) -> u32 {
    let is_it = |info: &&Info| info.kind == kind && info.at == at && info.channel == Some(channel);
    set.spectra().iter().find(is_it).expect("there is one").id
}

fn counts(set: &SpectrumSet, id: u32) -> (BTreeMap<usize, u64>, Totals) {
    let mut counts = Vec::new();
    let totals = set.read(id, &mut counts).expect("known");
    (counts.into_iter().enumerate().filter(|(_, count)| *count > 0).collect(), totals)
}

#[test]
fn hits_are_found_in_their_bins_before_and_behind_the_cuts() {
    let (set, mut filler) = one(&[], ALL);
    let absent = Hit { flags: Flags::NO_ENERGY_SHORT, ..hit(0, 4, 4096, 0) };
    fill(&mut filler, &[hit(0, 4, 1600, 1200), hit(1, 5, 160, 200), absent], Some(&[1, 1, 0]), &map());
    filler.settle();
    let (energies, totals) = counts(&set, find(&set, Kind::Energy, At::Received, 4));
    assert_eq!((energies, totals.entries), (BTreeMap::from([(100, 1), (256, 1)]), 2));
    let (energies, totals) = counts(&set, find(&set, Kind::Energy, At::Kept, 4));
    assert_eq!((energies, totals.entries), (BTreeMap::from([(100, 1)]), 1));
    let (plane, totals) = counts(&set, find(&set, Kind::Plane, At::Received, 4));
    assert_eq!((plane, totals.entries), (BTreeMap::from([(64 * 256 + 6, 1)]), 1));
    let (plane, totals) = counts(&set, find(&set, Kind::Plane, At::Kept, 5));
    assert_eq!(
        (plane, totals.entries, totals.beside),
        (BTreeMap::new(), 1, 1),
        "a negative share is beside the plane"
    );
    let (kev, _) = counts(&set, find(&set, Kind::Kev, At::Received, 5));
    assert_eq!(kev, BTreeMap::from([(90, 1)]));
    assert_eq!(set.history().hits(0), 2);
}

/// A record of the counters of channel 4 at a time.
fn record(real_time_ps: i64, dead_time_ps: i64, saved: u64) -> Statistics {
    let counts = Statistics { triggers: saved, saved, counter_bits: 24, ..Statistics::default() };
    Statistics { channel: 4, real_time_ps, since_start_ps: real_time_ps, dead_time_ps, start: 1, ..counts }
}

#[test]
fn a_record_of_the_board_is_compared_with_the_hits_before_its_time() {
    let (set, mut filler) = one(&[], ALL);
    let hits: Vec<Hit> = (0..3000).map(|index| hit(index * 1_000_000, 4, 100, 50)).collect();
    let pass = vec![1; 3000];
    let ran = |filler: &mut Filler, from: usize, to: usize, statistics: Vec<Statistics>| {
        filler.begin(&Hits { statistics, ..Hits::default() }, &map());
        fill(filler, &hits[from..to], Some(&pass[from..to]), &map());
    };
    // Both come before the hits that they count: order holds hits, and passes records on.
    let records = vec![record(1_000_000_000, 100_000_000, 1010), record(2_000_000_000, 200_000_000, 2020)];
    ran(&mut filler, 0, 900, records);
    assert_eq!(set.history().normalised()[0].live_time_s, None, "not all hits before it have come");
    ran(&mut filler, 900, 1600, Vec::new());
    let known = set.history().normalised()[0];
    assert_eq!(known.live_time_s, Some(0.0009));
    assert!((known.rate_hz().value.expect("known") * 0.0009 - 1010.0).abs() < 1e-6);
    ran(&mut filler, 1600, 3000, Vec::new());
    filler.finish();
    let known = set.history().normalised()[0];
    assert_eq!(
        (known.hits(), known.live_time_s, known.live_time_quality),
        (3000, Some(0.0018), Quality::AtLeast)
    );
    assert!((known.corrected(3000).value.expect("known") - 3000.0 * 2020.0 / 2000.0).abs() < 1e-9);

    let id = find(&set, Kind::Energy, At::Received, 4);
    let metadata = |id| serde_json::to_value(set.uhi(id).expect("known")).expect("JSON")["metadata"].clone();
    let shown = metadata(id);
    assert_eq!((&shown["live_time_s"], &shown["live_time_quality"]), (&json!(0.0018), &json!("at_least")));
    assert_eq!((&shown["real_time_s"], &shown["loss_corrected_quality"]), (&json!(0.002), &json!("exact")));
    let corrected = known.corrected(3000);
    assert_eq!(shown["loss_corrected"], corrected.value.expect("known"));
    assert_eq!(shown["loss_corrected_uncertainty"], corrected.uncertainty.expect("known"));
    let is_plain = |value: &serde_json::Value| value.is_string() || value.is_number() || value.is_boolean();
    assert!(
        shown.as_object().expect("an object").values().all(is_plain),
        "as the schema of UHI wants it: {shown:#}"
    );
    let root = |id| set.root(id).expect("known");
    assert_eq!(root(id)["metadata"], shown, "ROOT JSON has the same");
    let title = root(id)["fTitle"].as_str().expect("a title").to_owned();
    let rate = known.rate_of_hz(3000);
    let [rate, uncertainty] = [rate.value, rate.uncertainty].map(|number| number.expect("known"));
    let said = format!("live time #geq 0.002 s, {rate:.1} #pm {uncertainty:.1} per second of live time");
    assert!(title.ends_with(&said), "{title}");
    // Of a channel whose board reports nothing, no time is given.
    let other = metadata(find(&set, Kind::Energy, At::Received, 6));
    assert_eq!((other.get("live_time_s"), &other["live_time_quality"]), (None, &json!("unknown")));
    let is_unknown = |shown: &serde_json::Value| {
        let absent = ["live_time_s", "loss_corrected", "rate_hz"].iter().all(|key| shown.get(key).is_none());
        let unknown = ["live_time_quality", "loss_corrected_quality", "rate_hz_quality"];
        absent && unknown.iter().all(|key| shown[key] == "unknown")
    };
    let of_events = metadata(find(&set, Kind::TimeDifference, At::Events, 4));
    assert!(is_unknown(&of_events) && !is_unknown(&shown), "{of_events:#}");
    let title = root(find(&set, Kind::TimeDifference, At::Events, 4))["fTitle"].clone();
    assert!(title.as_str().is_some_and(|title| title.ends_with(", live time unknown")), "{title}");
    set.empty(Some(id)).expect("known");
    let emptied = metadata(id);
    assert!(is_unknown(&emptied), "it has counts of another time: {emptied:#}");
}

/// The mean and the standard deviation of one channel's time differences, of 20 000 pairs of channel 6 and then channel 7 that
/// are `later_ps` apart, each smeared by a Gaussian of 540 ps: a resolution (FWHM) of 1270 ps.
fn measured_differences(settings: &crate::coincide::Settings, channel: u16, later_ps: f64) -> (f64, f64) {
    use rand::{RngExt, SeedableRng};
    let mut random = rand_pcg::Pcg64Mcg::seed_from_u64(1270);
    let mut smeared = || 540.0 * ((0..12).map(|_| random.random::<f64>()).sum::<f64>() - 6.0);
    let pairs = (1..=20_000i64).flat_map(|pair| {
        let difference_ps = (later_ps + smeared()).round() as i64;
        [hit(pair * 1_000_000, 6, 1, 0), hit(pair * 1_000_000 + difference_ps, 7, 1, 0)]
    });
    let mut hits: Vec<Hit> = pairs.collect();
    hits.sort_by_key(|hit| hit.time_ps);
    let path = Path {
        widest_ps: Some(settings.window_ps),
        has_reference: settings.reference.is_some(),
        ..Path::default()
    };
    let (set, mut filler) = one(&[], path);
    let mut stage = Coincidence::new(settings, &map(), 1).expect("valid");
    stage.push(&hits, None);
    stage.finish();
    let mut events = HitEvents::default();
    while stage.pull(&mut events) {
        filler.fill_events(&events, None, &map());
    }
    filler.settle();
    let id = find(&set, Kind::TimeDifference, At::Events, channel);
    let axis = &set.spectra()[id as usize].axes[0];
    let width = (axis.high - axis.low) / f64::from(axis.bins);
    let (found, totals) = counts(&set, id);
    assert_eq!(totals.entries, 20_000, "one difference of each pair");
    let moment = |of: &dyn Fn(f64) -> f64| {
        let each =
            found.iter().map(|(bin, count)| of(axis.low + (*bin as f64 + 0.5) * width) * *count as f64);
        each.sum::<f64>() / 20_000.0
    };
    let mean = moment(&|at| at);
    (mean, moment(&|at| (at - mean).powi(2)).sqrt())
}

#[test]
fn time_differences_of_pairs_have_both_signs_and_the_true_resolution() {
    let any_pair = crate::coincide::Settings { window_ps: 10_000, ..Default::default() };
    let (mean, deviation) = measured_differences(&any_pair, 7, 100.0);
    assert!((mean - 100.0).abs() < 20.0, "{mean} ps for 100 ps");
    assert!((deviation - 540.0).abs() < 16.0, "{deviation} ps for 540 ps");
}

#[test]
fn time_differences_to_a_reference_have_both_signs_and_the_true_resolution() {
    let reference = Some(crate::coincide::Leg { channels: (7..=7).into(), ..Default::default() });
    let mode = crate::coincide::Mode::Reference;
    let to_reference = crate::coincide::Settings { mode, reference, window_ps: 10_000, ..Default::default() };
    let (mean, deviation) = measured_differences(&to_reference, 6, 100.0);
    assert!((mean + 100.0).abs() < 20.0, "{mean} ps for -100 ps");
    assert!((deviation - 540.0).abs() < 16.0, "{deviation} ps for 540 ps");
}

#[test]
fn a_hit_at_the_largest_time_is_counted_whether_a_record_is_due_or_not() {
    let map = map();
    let (set, mut filler) = one(&[], ALL);
    fill(&mut filler, &[hit(0, 4, 100, 0), hit(i64::MAX, 4, 200, 0)], None, &map);
    let reported = Hits { statistics: vec![record(1000, 0, 2)], ..Hits::default() };
    filler.begin(&reported, &map);
    fill(&mut filler, &[hit(i64::MAX, 4, 300, 0)], None, &map);
    filler.finish();
    assert_eq!(set.history().hits(map.row(4).expect("a channel")), 3);
}

#[test]
fn more_hits_than_a_fill_buffer_holds_are_all_counted() {
    let (set, mut filler) = one(&[], ALL);
    let map = map();
    let hits: Vec<Hit> = (0..40_000).map(|each: u16| hit(0, 4 + each % 2, each, each - each / 2)).collect();
    let pass: Vec<u8> = (0..40_000).map(|each| u8::from(each % 3 == 0)).collect();
    fill(&mut filler, &hits, Some(&pass), &map);
    let unsent: Vec<Hit> = (0..20_000).map(|each| hit(0, 900, each, 0)).collect();
    fill(&mut filler, &unsent, Some(&[0; 20_000]), &map);
    let received = find(&set, Kind::Energy, At::Received, 4);
    let before = set.totals(received).expect("known").entries;
    assert!(
        (16_384..20_000).contains(&before),
        "a full fill buffer is counted at once, the rest waits: {before}"
    );
    filler.settle();
    for channel in [4, 5] {
        let ours = |index: &usize| usize::from(channel) == 4 + index % 2;
        for (at, is_in) in [(At::Received, 1), (At::Kept, 3)] {
            let (energies, totals) = counts(&set, find(&set, Kind::Energy, at, channel));
            let expected = (0..40_000).filter(ours).filter(|index| index % is_in == 0).count() as u64;
            assert_eq!((totals.entries, energies.values().sum::<u64>()), (expected, expected));
            let (plane, _) = counts(&set, find(&set, Kind::Plane, at, channel));
            // The first has no energy, hence no shape.
            assert_eq!(plane.values().sum::<u64>(), expected - u64::from(channel == 4));
        }
        assert_eq!(set.history().hits(usize::from(channel) - 4), 20_000);
    }
}

#[test]
fn a_spectrum_behind_the_cuts_is_emptied_with_the_one_before_them() {
    let (set, mut filler) = one(&[], ALL);
    let [received, kept] = [At::Received, At::Kept].map(|at| find(&set, Kind::Energy, at, 4));
    for asked in [received, kept] {
        fill(&mut filler, &[hit(0, 4, 160, 80), hit(0, 4, 320, 80)], Some(&[1, 0]), &map());
        filler.settle();
        assert_eq!([received, kept].map(|id| counts(&set, id).1.entries), [2, 1]);
        set.empty(Some(asked)).expect("known");
        filler.rest();
        assert_eq!([received, kept].map(|id| counts(&set, id).1.entries), [0, 0]);
    }
}

#[test]
fn time_differences_and_pairs_come_from_events() {
    let axis = |field: &str| AxisSettings { field: field.into(), bins: 16, low: 0.0, high: 16.0 };
    let pair = SpectrumSettings {
        name: "pair".into(),
        x: axis("energy"),
        y: Some(axis("energy")),
        cut: Some("multiplicity == 2".into()),
        at: At::Events,
        channels: (4..=4).into(),
        groups: vec![],
        partner: Some(Partner { channels: (5..=5).into(), groups: vec![] }),
    };
    let (set, mut filler) = one(&[pair], ALL);
    let settings = crate::coincide::Settings { window_ps: 1000, ..Default::default() };
    let mut stage = Coincidence::new(&settings, &map(), 1).expect("valid");
    stage.push(&[hit(0, 5, 3, 0), hit(500, 4, 7, 0), hit(90_000, 4, 1, 0)], None);
    stage.finish();
    let mut events = HitEvents::default();
    assert!(stage.pull(&mut events));
    filler.fill_events(&events, None, &map());
    filler.settle();
    let (differences, _) = counts(&set, find(&set, Kind::TimeDifference, At::Events, 5));
    assert_eq!(differences, BTreeMap::from([(256, 1)]), "channel 5 is half the window before channel 4");
    for _ in 0..1000 {
        filler.fill_events(&events, None, &map());
    }
    filler.settle();
    let (differences, totals) = counts(&set, find(&set, Kind::TimeDifference, At::Events, 5));
    assert_eq!((differences, totals.entries), (BTreeMap::from([(256, 1001)]), 1001), "however many wait");
    let own = set.spectra().last().expect("the pair").id;
    assert_eq!(counts(&set, own).0, BTreeMap::from([(3 * 16 + 7, 1001)]));
}

#[test]
fn hits_at_either_end_of_the_window_have_a_bin() {
    let (set, mut filler) = one(&[], ALL);
    let settings = crate::coincide::Settings { window_ps: 1000, ..Default::default() };
    let mut stage = Coincidence::new(&settings, &map(), 1).expect("valid");
    let apart = [hit(0, 4, 1, 0), hit(1000, 5, 1, 0), hit(90_000, 5, 1, 0), hit(91_000, 4, 1, 0)];
    stage.push(&apart, None);
    stage.finish();
    let mut events = HitEvents::default();
    assert!(stage.pull(&mut events));
    filler.fill_events(&events, None, &map());
    filler.settle();
    let (differences, totals) = counts(&set, find(&set, Kind::TimeDifference, At::Events, 5));
    assert_eq!((differences, totals.below, totals.above), (BTreeMap::from([(0, 1), (1023, 1)]), 0, 0));
}

#[test]
fn both_hits_of_a_pair_pass_the_cut_and_what_is_shown() {
    let axis = |field: &str| AxisSettings { field: field.into(), bins: 16, low: 0.0, high: 16.0 };
    let pair = |cut: &str| SpectrumSettings {
        name: cut.into(),
        x: axis("energy"),
        y: Some(axis("energy")),
        cut: Some(cut.into()),
        at: At::Events,
        channels: (4..=4).into(),
        groups: vec![],
        partner: Some(Partner { channels: (5..=6).into(), groups: vec![] }),
    };
    let (set, mut filler) = one(&[pair("energy > 3"), pair("energy > 8"), pair("energy >= 0")], ALL);
    let mut stage = Coincidence::new(&crate::coincide::Settings::default(), &map(), 1).expect("valid");
    stage.push(&[hit(0, 5, 3, 0), hit(10, 4, 9, 0), hit(20, 6, 7, 0)], None);
    stage.finish();
    let mut events = HitEvents::default();
    assert!(stage.pull(&mut events));
    let id = |index: usize| set.spectra()[set.spectra().len() - 3 + index].id;
    filler.fill_events(&events, None, &map());
    filler.settle();
    let found = [0, 1, 2].map(|index| counts(&set, id(index)).0);
    let bins = |y: usize| BTreeMap::from([(y * 16 + 9, 1)]);
    assert_eq!(found, [bins(7), BTreeMap::new(), bins(3)]);
    // On the page, a cut takes the first hit away.
    filler.fill_events(&events, Some(&[0, 1, 1]), &map());
    filler.settle();
    let found = counts(&set, id(2)).0;
    assert_eq!(found, BTreeMap::from([(3 * 16 + 9, 1), (7 * 16 + 9, 1)]));
}

#[test]
fn spectra_are_emptied_by_their_filler_and_without_one() {
    let (set, mut filler) = one(&[], Path::default());
    let id = find(&set, Kind::Energy, At::Received, 4);
    fill(&mut filler, &[hit(0, 4, 16, 0)], None, &map());
    filler.settle();
    let before = set.revision(id).expect("known");
    set.empty(Some(id)).expect("known");
    fill(&mut filler, &[hit(0, 4, 32, 0)], None, &map());
    filler.settle();
    assert_eq!(
        counts(&set, id).0,
        BTreeMap::from([(2, 1)]),
        "what came before is gone, what came later is not"
    );
    assert_ne!(set.revision(id).expect("known"), before);
    drop(filler);
    set.empty(None).expect("all");
    assert_eq!(counts(&set, id), (BTreeMap::new(), Totals::default()));
    assert!(set.empty(Some(9999)).expect_err("no such spectrum").to_string().contains("9999"));
}

#[test]
fn several_fillers_are_added_up() {
    let (set, mut fillers) =
        SpectrumSet::new(&Settings::default(), &[], &[], &map(), Path::default(), 2).expect("valid");
    for filler in &mut fillers {
        fill(filler, &[hit(0, 6, 160, 80)], None, &map());
        filler.settle();
    }
    let (energies, totals) = counts(&set, find(&set, Kind::Energy, At::Received, 6));
    assert_eq!((energies, totals.entries), (BTreeMap::from([(10, 2)]), 2));
}

#[test]
fn invalid_spectra_are_refused() {
    let axis = |field: &str| AxisSettings { field: field.into(), bins: 16, low: 0.0, high: 16.0 };
    let own = |name: &str, field: &str| SpectrumSettings {
        name: name.into(),
        x: axis(field),
        y: None,
        cut: None,
        at: At::Received,
        channels: Default::default(),
        groups: vec![],
        partner: None,
    };
    let message = |own: &[SpectrumSettings], settings: Settings| {
        SpectrumSet::new(&settings, own, &[], &map(), Path::default(), 1)
            .expect_err("not possible")
            .to_string()
    };
    let base = Settings::default;
    assert!(message(&[own("a", "enrgy")], base()).contains("there are energy"));
    assert!(message(&[own("a", "energy"), own("a", "energy")], base()).contains("unique"));
    assert!(message(&[own("a", "dt")], base()).contains("at = \"events\""));
    assert!(
        message(&[SpectrumSettings { cut: Some("psd >".into()), ..own("a", "energy") }], base())
            .contains("missing")
    );
    assert!(
        message(&[SpectrumSettings { at: At::Events, ..own("a", "energy") }], base())
            .contains("[coincidence]")
    );
    assert!(
        message(&[SpectrumSettings { channels: (9..=9).into(), ..own("a", "energy") }], base())
            .contains("channel 9")
    );
    assert!(message(&[], Settings { energy_bins: 100, ..base() }).contains("powers of two"));
    assert!(message(&[], Settings { time_bins: 1, ..base() }).contains("16 to 65536"));
}

#[test]
fn exports_have_the_counts_where_others_look_for_them() {
    let (set, mut filler) = one(&[], Path::default());
    fill(&mut filler, &[hit(0, 4, 160, 80), hit(0, 4, 160, 80)], None, &map());
    filler.settle();
    let energy = find(&set, Kind::Energy, At::Received, 4);
    let uhi = |id| serde_json::to_value(set.uhi(id).expect("known")).expect("words");
    let line = uhi(energy);
    assert_eq!(line["storage"]["values"][1 + 10], 2);
    assert_eq!(line["storage"]["values"].as_array().map(Vec::len), Some(4096 + 2));
    let root = set.root(energy).expect("known");
    assert_eq!((root["fArray"][1 + 10].clone(), root["fNcells"].clone()), (2.into(), 4098.into()));
    let plane = find(&set, Kind::Plane, At::Received, 4);
    assert_eq!(uhi(plane)["storage"]["values"][0][128], 2);
    assert_eq!(set.root(plane).expect("known")["fArray"][(128 + 1) * 258 + 1], 2);
}

/// The names of what is saved in so many bytes, and of what is not.
fn saved(set: &SpectrumSet, most_bytes: usize) -> [Vec<String>; 2] {
    let SavedSpectra { text, left_out } = set.all_uhi(most_bytes).expect("JSON says numbers");
    assert!(text.len() <= most_bytes, "{} of {most_bytes} bytes", text.len());
    let all: BTreeMap<String, serde_json::Value> = serde_json::from_slice(&text).expect("JSON");
    [all.into_keys().collect(), left_out]
}

fn own(name: &str, field: &str, bins: u32) -> SpectrumSettings {
    let axis = |bins| AxisSettings { field: field.into(), bins, low: 0.0, high: 65_536.0 };
    SpectrumSettings {
        name: name.into(),
        x: axis(bins),
        y: Some(axis(bins)),
        cut: None,
        at: At::Received,
        channels: ChannelList::default(),
        groups: vec![],
        partner: None,
    }
}

#[test]
fn own_spectra_are_saved_first_and_what_does_not_fit_is_named() {
    let (set, mut filler) = one(&[own("large", "energy", 512), own("small", "energy", 16)], Path::default());
    fill(&mut filler, &[hit(0, 4, 160, 80)], None, &map());
    filler.settle();
    let (energy, plane) = ("channel 4: energy (received)", "channel 4: energy and pulse shape (received)");
    let all = ["channel 4: energy (received)", plane, "large (received)", "small (received)"];
    assert_eq!(saved(&set, 1 << 20), [all.map(String::from).to_vec(), vec![]], "empty ones are left out");
    let names = |names: &[&str]| names.iter().map(|name| (*name).to_owned()).collect::<Vec<String>>();
    let without_plane = [names(&[energy, "large (received)", "small (received)"]), names(&[plane])];
    assert_eq!(saved(&set, 600_000), without_plane);
    let small_ones = [names(&[energy, "small (received)"]), names(&["large (received)", plane])];
    assert_eq!(saved(&set, 20_000), small_ones, "a large one takes no place from smaller ones");
    assert_eq!(saved(&set, 1000)[0], [""; 0]);
}

#[test]
fn the_planes_of_a_board_of_64_channels_fit_in_what_their_zeros_take() {
    let board = SourceChannels { source: SourceId(0), name: "board".into(), channels: 0..=63 };
    let map = ChannelMap::new(&[board], &[], &[]).expect("valid");
    let made = SpectrumSet::new(&Settings::default(), &[], &[], &map, Path::default(), 1);
    let (set, mut fillers) = made.expect("valid");
    let hits: Vec<Hit> = (0..64).map(|channel| hit(0, channel, 160, 80)).collect();
    fill(&mut fillers[0], &hits, None, &map);
    fillers[0].settle();
    let [saved, left_out] = saved(&set, 10 << 20);
    assert_eq!((saved.len(), left_out.len()), (128, 0));
}

#[test]
fn spectra_of_one_name_are_all_saved() {
    let named = |number| ChannelSettings { number, name: Some("Ge".into()), ..ChannelSettings::default() };
    let board = SourceChannels { source: SourceId(0), name: "board".into(), channels: 4..=7 };
    let map = ChannelMap::new(&[board], &[named(4), named(5)], &[]).expect("valid");
    let settings = Settings { planes: false, ..Settings::default() };
    let made =
        SpectrumSet::new(&settings, &[own("channel 6: energy", "energy", 16)], &[], &map, Path::default(), 1);
    let (set, mut fillers) = made.expect("valid");
    // What another channel has does not change a name.
    for (hits, expected) in [
        (vec![hit(0, 5, 160, 80)], vec!["Ge: energy (received), channel 5", "channel 6: energy (received)"]),
        (
            vec![hit(0, 4, 160, 80), hit(0, 6, 160, 80), hit(0, 7, 160, 80)],
            vec![
                "Ge: energy (received), channel 4",
                "Ge: energy (received), channel 5",
                "channel 6: energy (received)",
                "channel 6: energy (received), channel 6",
                "channel 7: energy (received)",
            ],
        ),
    ] {
        fill(&mut fillers[0], &hits, None, &map);
        fillers[0].settle();
        assert_eq!(saved(&set, 1 << 20), [expected.into_iter().map(String::from).collect(), vec![]]);
    }
}

#[test]
fn default_spectra_that_the_memory_has_no_space_for_are_said() {
    let beyond = |memory_bytes, planes| {
        let settings = Settings { memory_bytes, planes, ..Settings::default() };
        let made = SpectrumSet::new(&settings, &[], &[], &map(), Path::default(), 1);
        made.expect("valid").0.beyond_memory()
    };
    // Four channels of two spectra of 4096 bins, and of planes of 65536.
    let (energies, planes) = (4 * 2 * 4096 * 4, 4 * 65_536 * 4);
    assert_eq!(beyond(energies + planes, true), None);
    assert_eq!(beyond(energies + planes - 1, true), Some(BeyondMemory::Planes));
    assert_eq!(beyond(energies, false), None, "nobody asked for planes");
    assert_eq!(beyond(energies - 1, false), Some(BeyondMemory::All));
}

#[test]
fn a_calibrated_energy_on_an_edge_is_in_the_bin_above_it_as_in_the_default_spectrum() {
    let calibrated =
        ChannelSettings { number: 4, energy_kev: Some(vec![0.0, 0.29]), ..ChannelSettings::default() };
    let board = SourceChannels { source: SourceId(0), name: "board".into(), channels: 4..=7 };
    let map = ChannelMap::new(&[board], &[calibrated], &[]).expect("valid");
    let kev = |name: &str, bins, high| {
        let x = AxisSettings { field: "keV".into(), bins, low: 0.0, high };
        SpectrumSettings { x, y: None, ..own(name, "keV", 16) }
    };
    let settings = Settings { highest_kev: 2048.0, ..Settings::default() };
    let all = [kev("same", 4096, 2048.0), kev("tenths", 20_000, 2000.0)];
    let made = SpectrumSet::new(&settings, &all, &[], &map, Path::default(), 1);
    let (set, mut fillers) = made.expect("valid");
    let energies: Vec<u16> = (0..6800).step_by(10).collect();
    let hits: Vec<Hit> = energies.iter().map(|energy| hit(0, 4, *energy, 0)).collect();
    fill(&mut fillers[0], &hits, None, &map);
    fillers[0].settle();
    let id_of = |name: &str| set.spectra().iter().find(|info| info.name == name).expect("there").id;
    let (default, _) = counts(&set, find(&set, Kind::Kev, At::Received, 4));
    assert_eq!(
        default[&58], 1,
        "29 keV in bins of half a keV, although 100 times 0.29 is less in double precision"
    );
    assert_eq!(counts(&set, id_of("same")).0, default);
    // Ten times 0.29 keV are 29 tenths.
    let tenths: BTreeMap<usize, u64> =
        energies.iter().map(|energy| (usize::from(*energy) / 10 * 29, 1)).collect();
    assert_eq!(counts(&set, id_of("tenths")).0, tenths);
}

proptest! {
    #[test]
    fn every_hit_is_counted_once_in_every_spectrum_that_it_belongs_to(
        rows in proptest::collection::vec((4u16..8, any::<u16>(), any::<u16>(), any::<u16>(), 0u8..2), 0..900),
    ) {
        let map = map();
        let (set, mut filler) = one(&[], ALL);
        let hits: Vec<Hit> = rows.iter().map(|(channel, energy, short, flags, _)| Hit {
            flags: Flags(*flags), ..hit(0, *channel, *energy, *short)
        }).collect();
        let pass: Vec<u8> = rows.iter().map(|row| row.4).collect();
        fill(&mut filler, &hits, Some(&pass), &map);
        filler.settle();
        for at in [At::Received, At::Kept] {
            for channel in 4..8 {
                let ours: Vec<&Hit> = hits.iter().zip(&pass).filter(|(hit, pass)| {
                    hit.channel == channel && (at == At::Received || **pass == 1) && !hit.flags.has(Flags::NO_ENERGY) && !hit.flags.has(Flags::FAKE)
                }).map(|(hit, _)| hit).collect();
                let mut expected = BTreeMap::new();
                ours.iter().for_each(|hit| *expected.entry(usize::from(hit.energy >> 4)).or_insert(0u64) += 1);
                let (energies, totals) = counts(&set, find(&set, Kind::Energy, at, channel));
                prop_assert_eq!((energies, totals.entries), (expected, ours.len() as u64));
                let shaped: Vec<&&Hit> = ours.iter().filter(|hit| !psd::<f32>(hit).is_nan()).collect();
                let (plane, totals) = counts(&set, find(&set, Kind::Plane, at, channel));
                prop_assert_eq!(totals.entries, shaped.len() as u64);
                prop_assert_eq!(plane.values().sum::<u64>() + totals.beside, totals.entries);
            }
        }
    }
}

#[test]
fn waiting_hits_are_counted_in_turn_and_all_of_them_within_200_ms() {
    let (set, mut filler) = one(&[], ALL);
    let entries = || -> u64 {
        let ids = (4..8).map(|channel| find(&set, Kind::Energy, At::Received, channel));
        ids.map(|id| set.totals(id).expect("known").entries).sum()
    };
    let mut at = |milliseconds: f64, hits: &[Hit]| {
        let mut batch = Hits::default();
        batch.header.mark = Mark((milliseconds * 1e6) as u64);
        filler.begin(&batch, &map());
        fill(&mut filler, hits, Some(&[0; 4][..hits.len()]), &map());
        entries()
    };
    let hits: Vec<Hit> = (4..8).map(|channel| hit(0, channel, 160, 80)).collect();
    assert_eq!(at(1000.0, &hits), 0, "they wait");
    let counted: Vec<u64> = (1..=32).map(|part| at(1000.0 + 6.25 * f64::from(part), &[])).collect();
    assert!(counted.is_sorted() && counted[31] == 4, "{counted:?}");
    assert!(counted.windows(2).all(|pair| pair[1] - pair[0] <= 1), "one channel at a time: {counted:?}");
    // After a long silence, everything that waits is counted at once.
    assert_eq!((at(1300.0, &hits[..2]), at(9000.0, &[])), (4, 6));
}
