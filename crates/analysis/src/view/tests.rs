use std::convert::Infallible;
use std::sync::Arc;

use thalweg_data::{Counters, Flags, Hit, Hits, Mark, SourceId, Unit};

use super::*;
use crate::channels::{ChannelMap, ChannelSettings, SourceChannels};
use crate::cut::{self, polygon};
use crate::process::{Processor, Selected, Settings, Stages, stages};
use crate::spectrum::{self, At, Kind, SpectrumSet};

/// Two boards of four channels; channel 1 is calibrated.
fn map() -> Arc<ChannelMap> {
    let board = |number: u16| SourceChannels {
        source: SourceId(number),
        name: format!("board {number}"),
        channels: number * 4..=number * 4 + 3,
    };
    let calibrated =
        ChannelSettings { number: 1, energy_kev: Some(vec![0.0, 2.0]), ..ChannelSettings::default() };
    Arc::new(ChannelMap::new(&[board(0), board(1)], &[calibrated], &[]).expect("valid"))
}

struct Run {
    stages: Stages,
    marks: u64,
    events: Vec<usize>,
}

impl Run {
    fn new(settings: &Settings) -> Run {
        let (map, names) = (map(), ["left".to_owned(), "right".to_owned()]);
        let stages = stages(settings, &map, &names).expect("valid");
        Run { stages, marks: 0, events: Vec::new() }
    }

    fn view(&self) -> View {
        self.stages.processor.view()
    }

    fn spectra(&self) -> SpectrumSet {
        self.stages.spectra.clone()
    }

    /// Takes a batch, a second after the one before.
    fn take(&mut self, hits: Vec<Hit>) {
        self.marks += 1;
        let mut batch = Selected::from(Hits { hits, ..Hits::default() });
        batch.hits.header.mark = Mark(self.marks * 1_000_000_000);
        let events = &mut self.events;
        let each = |made: &thalweg_data::HitEvents| {
            events.extend(made.iter().map(|(_, members)| members.len()));
            Ok::<(), Infallible>(())
        };
        self.stages.take(&mut batch, each).expect("infallible");
        self.stages.settle();
    }

    /// Counts of the one spectrum of this kind: bin, count.
    fn counts(&self, kind: Kind, at: At, channel: u16) -> Vec<(usize, u64)> {
        let set = self.spectra();
        let is_it = |info: &&spectrum::Info| (info.kind, info.at, info.channel) == (kind, at, Some(channel));
        let id = set.spectra().iter().find(is_it).expect("there is one").id;
        let mut counts = Vec::new();
        set.read(id, &mut counts).expect("known");
        counts.into_iter().enumerate().filter(|(_, count)| *count > 0).collect()
    }

    fn is_offered(&self, kind: Kind, at: At, channel: u16) -> bool {
        let set = self.spectra();
        let is_it = |info: &&spectrum::Info| (info.kind, info.at, info.channel) == (kind, at, Some(channel));
        set.spectra().iter().find(is_it).is_some_and(|info| set.is_filled(info))
    }

    /// Hits of a source that came, are shown, are filtered.
    fn shown(&self, source: u16) -> [u64; 3] {
        let counters: &Counters = self.stages.processor.shown_counters(SourceId(source));
        let of = [Counters::total_input, Counters::total_output, Counters::total_filtered];
        of.map(|count| count(counters, Unit::Hits))
    }
}

fn hit(time_ps: i64, channel: u16, energy: u16) -> Hit {
    Hit { time_ps, channel, energy, energy_short: energy / 2, flags: Flags::NONE }
}

fn calibration(channel: u16, energy_kev: &[f64]) -> NewCalibration {
    NewCalibration { channel, energy_kev: energy_kev.to_vec() }
}

fn cut(name: &str, keep: &str) -> NewCut {
    NewCut { name: name.into(), keep: keep.into(), polygon: None }
}

fn configured(keep: &str) -> Settings {
    let cut = cut::Settings {
        name: "configured".into(),
        keep: keep.into(),
        on: cut::Scope::Hit,
        members: cut::Quantity::Any,
    };
    Settings { cuts: vec![cut], ..Settings::default() }
}

#[test]
fn an_applied_calibration_shows_energies_in_kev_from_the_next_batch_until_it_is_reverted() {
    let mut run = Run::new(&Settings::default());
    run.take(vec![hit(10, 0, 100), hit(20, 1, 100)]);
    assert!(!run.is_offered(Kind::Kev, At::Received, 0) && run.is_offered(Kind::Kev, At::Received, 1));
    assert_eq!(run.counts(Kind::Kev, At::Received, 1), [(200, 1)], "as configured");

    let first = run.view().calibrate(&calibration(0, &[7.0, 1.0])).expect("valid");
    let second = run.view().calibrate(&calibration(1, &[0.0, 3.0])).expect("valid");
    assert_eq!((first.number, second.number, first.since_seconds), (1, 2, None));
    assert_eq!(first.lines, "[[channel]]\nnumber = 0\nenergy_kev = [7.0, 1.0]\n");
    run.take(vec![hit(30, 0, 100), hit(40, 1, 100)]);
    assert_eq!(run.counts(Kind::Kev, At::Received, 0), [(107, 1)]);
    assert!(run.is_offered(Kind::Kev, At::Received, 0));
    assert_eq!(run.counts(Kind::Kev, At::Received, 1), [(300, 1)], "hits of one calibration alone");
    assert_eq!(run.counts(Kind::Energy, At::Received, 1), [(6, 2)], "measured energies go on");
    let standing = run.view().standing();
    assert_eq!((standing[0].since_seconds, standing[0].after_ps), (Some(2.0), Some(20)));

    run.view().revert(2).expect("it stands");
    run.view().revert(1).expect("it stands");
    run.take(vec![hit(50, 1, 100)]);
    assert_eq!(run.counts(Kind::Kev, At::Received, 1), [(200, 1)], "as configured again");
    assert!(!run.is_offered(Kind::Kev, At::Received, 0));
    let history = run.view().history();
    assert_eq!(history.iter().map(|each| each.until_seconds).collect::<Vec<_>>(), [Some(3.0), Some(3.0)]);
    assert!(run.view().standing().is_empty());
}

#[test]
fn an_applied_cut_filters_what_is_shown_and_the_counts_balance_before_and_behind_it() {
    for (settings, came) in [(Settings::default(), 4), (configured("energy > 100"), 3)] {
        let is_cut = came == 3;
        let mut run = Run::new(&settings);
        let hits = || vec![hit(0, 0, 50), hit(1, 0, 200), hit(2, 0, 400), hit(3, 0, 800)];
        run.take(hits());
        assert_eq!(run.shown(0), [came, came, 0]);
        assert_eq!(run.is_offered(Kind::Energy, At::Kept, 0), is_cut);

        let applied = run.view().cut(&cut("low", "energy < 500")).expect("valid");
        run.take(hits());
        assert_eq!(run.shown(0), [2 * came, 2 * came - 1, 1]);
        assert!(run.is_offered(Kind::Energy, At::Kept, 0));
        let kept: u64 = run.counts(Kind::Energy, At::Kept, 0).iter().map(|(_, count)| count).sum();
        assert_eq!(kept, came - 1, "only hits behind the change");
        let all: u64 = run.counts(Kind::Energy, At::Received, 0).iter().map(|(_, count)| count).sum();
        assert_eq!(all, 8, "all received hits, also those that were kept before the change");
        let standing = run.view().standing();
        assert_eq!((standing[0].input, standing[0].kept), (came, came - 1));

        run.view().revert(applied.number).expect("it stands");
        run.take(hits());
        assert_eq!(run.shown(0), [3 * came, 3 * came - 1, 1]);
        assert_eq!(run.is_offered(Kind::Energy, At::Kept, 0), is_cut);
        assert_eq!(run.shown(1), [0; 3]);
        let history = run.view().history();
        assert_eq!(
            (history[0].input, history[0].kept, history[0].until_seconds),
            (came, came - 1, Some(3.0))
        );
    }
}

#[test]
fn cuts_coincidences_and_what_is_recorded_do_not_follow_what_is_applied() {
    let settings = Settings {
        coincidence: Some(crate::coincide::Settings { window_ps: 100, ..Default::default() }),
        ..configured("keV > 100 || channel != 1")
    };
    let mut run = Run::new(&settings);
    let hits = |start: i64| vec![hit(start, 0, 300), hit(start + 20, 1, 100), hit(start + 30, 5, 900)];
    run.view().calibrate(&calibration(1, &[0.0, 0.5])).expect("valid");
    run.view().cut(&cut("high", "energy > 500")).expect("valid");
    run.take(hits(0));
    run.take(hits(10_000));
    run.stages.finish(|_| Ok::<(), Infallible>(())).expect("infallible");
    let cut = run.stages.selector.cut_counters(SourceId(0));
    assert_eq!(cut.total_filtered(Unit::Hits), 0, "a cut of the configuration has its calibration");
    assert_eq!(run.events, [3], "an event has all of its members");
    // Channel 5 is 30 ps behind the lowest channel; channel 1, 20 ps behind, is not shown.
    assert_eq!(
        run.counts(Kind::TimeDifference, At::Events, 5).iter().map(|(_, count)| count).sum::<u64>(),
        2
    );
    assert_eq!(run.counts(Kind::TimeDifference, At::Events, 1), []);
    assert_eq!((run.shown(0), run.shown(1)), ([4, 0, 4], [2, 2, 0]));
}

#[test]
fn a_cut_in_kev_follows_the_calibration_that_is_applied() {
    let mut run = Run::new(&Settings::default());
    run.view().cut(&cut("line", "keV in [250, 350]")).expect("valid");
    run.take(vec![hit(0, 1, 100), hit(1, 1, 150)]);
    assert_eq!(run.counts(Kind::Energy, At::Kept, 1), [(9, 1)], "150 is 300 keV as configured");
    run.view().calibrate(&calibration(1, &[0.0, 3.0])).expect("valid");
    run.take(vec![hit(2, 1, 100), hit(3, 1, 150)]);
    assert_eq!(
        run.counts(Kind::Energy, At::Kept, 1),
        [(6, 1)],
        "100 is 300 keV now; what was kept before is gone"
    );
}

#[test]
fn a_spectrum_of_a_user_begins_anew_where_it_asks_for_what_has_changed() {
    let own = |name: &str, field: &str, at| spectrum::SpectrumSettings {
        name: name.into(),
        x: spectrum::AxisSettings { field: field.into(), bins: 1024, low: 0.0, high: 1024.0 },
        y: None,
        cut: None,
        at,
        channels: Default::default(),
        groups: vec![],
        partner: None,
    };
    let own_spectra = vec![
        own("calibrated", "keV", At::Received),
        own("measured", "energy", At::Received),
        own("kept", "energy", At::Kept),
    ];
    let mut run = Run::new(&Settings { own_spectra, ..Settings::default() });
    let entries = |run: &Run| {
        let set = run.spectra();
        let own = set.spectra().iter().filter(|info| info.kind == Kind::Own);
        own.map(|info| set.totals(info.id).expect("known").entries).collect::<Vec<_>>()
    };
    let hits = || vec![hit(0, 1, 100), hit(1, 1, 200)];
    run.take(hits());
    assert_eq!(entries(&run), [2, 2, 2]);
    run.view().calibrate(&calibration(1, &[0.0, 3.0])).expect("valid");
    run.take(hits());
    assert_eq!(entries(&run), [2, 4, 4]);
    run.view().cut(&cut("low", "energy < 150")).expect("valid");
    run.take(hits());
    assert_eq!(entries(&run), [4, 6, 1]);
}

#[test]
fn a_change_is_followed_at_a_mark_without_hits() {
    let mut run = Run::new(&Settings::default());
    run.take(vec![hit(40, 0, 100)]);
    run.view().cut(&cut("low", "energy < 150")).expect("valid");
    run.stages.processor.rest(Mark(2_500_000_000));
    let standing = run.view().standing();
    assert_eq!((standing[0].since_seconds, standing[0].after_ps), (Some(2.5), Some(40)));
}

#[test]
fn a_drawn_region_is_a_cut_and_its_lines_are_those_of_a_configuration() {
    let mut run = Run::new(&Settings::default());
    let region = polygon::Settings {
        name: "neutrons".into(),
        x: "energy".into(),
        y: "psd".into(),
        points: vec![[100.0, 0.4], [1000.0, 0.4], [1000.0, 0.6], [100.0, 0.6]],
    };
    let new = NewCut { polygon: Some(region), ..cut("neutrons", "inside(neutrons)") };
    let applied = run.view().cut(&new).expect("valid");
    let lines = "[[polygon]]\nname = \"neutrons\"\nx = \"energy\"\ny = \"psd\"\n\
                 points = [[100.0, 0.4], [1000.0, 0.4], [1000.0, 0.6], [100.0, 0.6]]\n\n\
                 [[cut]]\nname = \"neutrons\"\nkeep = \"inside(neutrons)\"\n";
    assert_eq!(applied.lines, lines);
    run.take(vec![hit(0, 2, 200), hit(1, 2, 2000)]);
    assert_eq!(run.shown(0), [2, 1, 1]);
}

#[test]
fn changes_that_cannot_be_applied_are_refused_with_words() {
    let run = Run::new(&configured("energy > 100"));
    let view = run.view();
    let calibrate = |channel, given: &[f64]| {
        view.calibrate(&calibration(channel, given)).expect_err("refused").to_string()
    };
    assert!(calibrate(99, &[0.0, 1.0]).contains("no source of this run sends channel 99"));
    assert!(
        calibrate(0, &[]).contains("no polynomial")
            && calibrate(0, &[0.0, f64::NAN]).contains("no polynomial")
    );
    assert!(calibrate(0, &[0.0; 7]).contains("no polynomial"));
    assert!(calibrate(0, &[0.0, -1.0]).contains("does not rise from measured energy 0 to 1"));
    assert!(calibrate(0, &[0.0, 1.0, -1e-5]).contains("does not rise from measured energy 50000 to 50001"));
    assert!(calibrate(0, &[1e308, 1e308]).contains("does not rise"));
    let refuse = |new: NewCut| view.cut(&new).expect_err("refused").to_string();
    assert!(refuse(cut("configured", "energy > 1")).contains("there is a cut \"configured\" already"));
    assert!(refuse(cut("", "energy > 1")).contains("without a name"));
    assert!(refuse(cut("a", "enrgy > 1")).contains("there is no field or flag \"enrgy\""));
    assert!(refuse(cut("a", "multiplicity > 1")).contains("on = \"event\""));
    assert!(refuse(cut(&"a".repeat(200), "energy > 1")).contains("200 characters; 100 are the most"));
    let region = |points: Vec<[f64; 2]>| polygon::Settings {
        name: "r".into(),
        x: "energy".into(),
        y: "psd".into(),
        points,
    };
    let drawn = |points| NewCut { polygon: Some(region(points)), ..cut("a", "inside(r)") };
    assert!(refuse(drawn(vec![[0.0, 0.0]])).contains("1 points; draw 3 to 64"));
    assert!(
        refuse(drawn((0..65).map(|at| [f64::from(at), 0.0]).collect())).contains("65 points; draw 3 to 64")
    );
    assert!(refuse(drawn(vec![[0.0, 0.0], [1.0, f64::NAN], [1.0, 1.0]])).contains("finite"));
    assert!(view.revert(1).expect_err("none stands").to_string().contains("no change 1"));

    let none = Run::new(&Settings {
        spectra: spectrum::Settings { enabled: false, ..Default::default() },
        ..Settings::default()
    });
    assert!(
        none.view()
            .calibrate(&calibration(0, &[0.0, 1.0]))
            .expect_err("nothing")
            .to_string()
            .contains("no spectra of calibrated")
    );
    assert!(
        none.view()
            .cut(&cut("a", "energy > 1"))
            .expect_err("nothing")
            .to_string()
            .contains("no spectra of what cuts keep")
    );
}

#[test]
fn changes_are_bounded_and_end_with_the_run() {
    let mut run = Run::new(&Settings::default());
    let view = run.view();
    for number in 0..64 {
        view.cut(&cut(&format!("cut {number}"), "energy > 1")).expect("there is space");
    }
    let full = view.cut(&cut("one more", "energy > 1")).expect_err("full");
    assert_eq!(full.to_string(), "64 changes are applied to this run, and no more can be");
    assert!(view.calibrate(&calibration(0, &[0.0, 1.0])).is_err());
    view.revert(64).expect("it stands");
    // Reverted ones are kept, too. (To check a calibration takes milliseconds.)
    for _ in 0..950 {
        let made = view.cut(&cut("for a moment", "energy > 1")).expect("there is space");
        view.revert(made.number).expect("it stands");
    }
    for slope in 1..=10 {
        view.calibrate(&calibration(0, &[0.0, f64::from(slope)])).expect("one replaces the other");
    }
    let many = view.calibrate(&calibration(0, &[0.0, 1.0])).expect_err("too many").to_string();
    assert!(many.contains("1024 changes have been made"), "{many}");
    run.take(vec![hit(0, 0, 4), hit(1, 0, 1)]);
    assert_eq!(run.shown(0), [2, 1, 1]);
    let processor: &mut Processor = &mut run.stages.processor;
    processor.finish();
    assert_eq!(view.revert(1), Err(ViewError::Over));
    assert_eq!(view.cut(&cut("late", "energy > 1")).map(|_| ()), Err(ViewError::Over));
    let standing = view.standing();
    assert_eq!((standing.len(), standing[0].input, standing[0].kept), (64, 2, 1));
    assert!(view.history().iter().all(
        |each| each.since_seconds.is_some() != (each.until_seconds.is_none() && !standing.contains(each))
    ));
}
