use proptest::prelude::*;
use thalweg_data::{Flags, Hit, HitEvent, HitEvents, SourceId, Unit};

use super::*;
use crate::channels::{ChannelMap, ChannelSettings, SourceChannels};
use crate::coincide::Coincidence;

fn map() -> ChannelMap {
    let board = |number: u16| SourceChannels {
        source: SourceId(number),
        name: format!("board {number}"),
        channels: number * 4..=number * 4 + 3,
    };
    let calibrated = ChannelSettings {
        number: 1,
        group: Some("gamma".into()),
        energy_kev: Some(vec![0.0, 0.5]),
        ..ChannelSettings::default()
    };
    let off = ChannelSettings { number: 7, enabled: Some(false), ..ChannelSettings::default() };
    ChannelMap::new(&[board(0), board(1)], &[calibrated, off], &[]).expect("valid")
}

fn hit(channel: u16, energy: u16, energy_short: u16, flags: Flags) -> Hit {
    Hit { time_ps: 1000, channel, energy, energy_short, flags }
}

fn keeps(expression: &str, hit: Hit) -> bool {
    let mut expression = Expression::parse(expression, Scope::Hit, &[region()]).expect("valid expression");
    let mut pass = [7];
    expression.evaluate_hits(&[hit], &map(), &mut pass);
    assert!(pass[0] <= 1);
    pass[0] == 1
}

fn region() -> Polygon {
    let settings = polygon::Settings {
        name: "neutrons".into(),
        x: "energy".into(),
        y: "psd".into(),
        points: vec![[100.0, 0.2], [1000.0, 0.2], [1000.0, 0.6], [100.0, 0.6]],
    };
    Polygon::new(&settings).expect("valid")
}

#[test]
fn every_field_and_operator_means_what_it_says() {
    let one = hit(1, 400, 300, Flags::PILE_UP);
    for yes in [
        "energy == 400",
        "energy_short < 301 && energy_short >= 300",
        "psd == 0.25",
        "keV == 200 keV",
        "keV < 0.2001 MeV",
        "channel == 1 && group == 1 && source == 0",
        "time == 1 ns",
        "pile_up",
        "!saturation",
        "energy in [400, 500]",
        "100 < energy <= 400",
        "energy - energy_short == 100",
        "2 * energy / 4 + 1 == 201",
        "-energy == -400",
        "1 + 2 * 3 == 7",
        "(1 + 2) * 3 == 9",
        "energy > 500 || psd > 0.1 && channel != 2",
        "!(energy > 500) && inside(neutrons)",
        "energy > 1e2 && energy < 4.5e+2",
    ] {
        assert!(keeps(yes, one), "{yes}");
        assert!(!keeps(&format!("!({yes})"), one), "!({yes})");
    }
}

/// Of decimals that single precision has a little below: 0.16 is one.
#[test]
fn a_pulse_shape_on_a_border_is_inside_in_either_precision() {
    let region = |name: &str, points: &[[f64; 2]]| {
        let (name, x, y) = (name.into(), "energy".into(), "psd".into());
        Polygon::new(&polygon::Settings { name, x, y, points: points.to_vec() }).expect("valid")
    };
    for hundredths in 1..100u16 {
        let border = format!("0.{hundredths:02}");
        let on_border = hit(0, 400, 400 - 4 * hundredths, Flags::NONE);
        let above = region("above", &[[0.0, f64::from(hundredths) / 100.0], [500.0, 2.0]]);
        let answer = |keep: &str| {
            let regions = std::slice::from_ref(&above);
            let mut expression = Expression::parse(keep, Scope::Hit, regions).expect("valid");
            let mut pass = [7];
            expression.evaluate_hits(&[on_border], &map(), &mut pass);
            pass[0]
        };
        for yes in [
            format!("psd >= {border}"),
            format!("psd == {border} && time > -1 s"),
            "inside(above)".to_owned(),
        ] {
            assert_eq!(answer(&yes), 1, "{yes}");
        }
    }
}

proptest! {
    /// A side is walked upwards by one region and downwards by its neighbour, and points on it belong to one of them.
    #[test]
    fn regions_side_by_side_share_no_hit_and_leave_none_out(
        (x0, y0, x1, y1) in (500u16..600, 0u16..400, 500u16..600, 401u16..900), steps in 1u16..50,
    ) {
        let [low, high] = [[f64::from(x0), f64::from(y0)], [f64::from(x1), f64::from(y1)]];
        let region = |far: f64, corners: [[f64; 2]; 2]| {
            let [first, second] = corners;
            let points = vec![first, second, [far, second[1]], [far, first[1]]];
            let (name, x, y) = ("side".into(), "energy".into(), "energy_short".into());
            Polygon::new(&polygon::Settings { name, x, y, points }).expect("valid")
        };
        let (left, right) = (region(0.0, [low, high]), region(2000.0, [high, low]));
        let on_side = |step: u16| {
            let along = |from: u16, to: u16| i32::from(from) + (i32::from(to) - i32::from(from)) * i32::from(step) / i32::from(steps);
            (f64::from(along(x0, x1)), f64::from(along(y0, y1)))
        };
        let (x, y): (Vec<f64>, Vec<f64>) = (0..steps).map(on_side).unzip();
        let inside = |region: &Polygon| {
            let mut inside = vec![0; x.len()];
            region.fill(&x, &y, &mut inside);
            inside
        };
        for (place, (left, right)) in inside(&left).into_iter().zip(inside(&right)).enumerate() {
            prop_assert_eq!(left + right, 1, "{} {}", x[place], y[place]);
        }
    }
}

#[test]
fn the_energies_of_an_event_are_those_of_its_hits_that_have_one() {
    let described =
        ChannelSettings { number: 0, energy_kev: Some(vec![25.0, 0.1]), ..ChannelSettings::default() };
    let board = SourceChannels { source: SourceId(0), name: "board".into(), channels: 0..=3 };
    let map = ChannelMap::new(&[board], &[described], &[]).expect("valid");
    let members = [hit(0, 1000, 0, Flags::NONE), hit(0, 0, 0, Flags::NO_ENERGY)];
    let facts = EventFacts::of(&HitEvent::default(), &members, &map);
    assert_eq!((facts.sum_energy, facts.sum_kev), (1000.0, 125.0));
}

#[test]
fn what_is_absent_compares_with_nothing() {
    let without = hit(0, 400, 0, Flags::NO_ENERGY_SHORT);
    for no in
        ["psd > 0", "psd <= 0", "psd == psd", "psd != 0.5", "psd in [-9, 9]", "keV > 0", "inside(neutrons)"]
    {
        assert!(!keeps(no, without), "{no}");
    }
    assert!(!keeps("psd <= 1", hit(0, 0, 0, Flags::NONE)), "of no charge there is no share");
}

#[test]
fn mistakes_are_shown_where_they_are() {
    let message = |text: &str| Expression::parse(text, Scope::Hit, &[region()]).expect_err(text).to_string();
    assert!(message("psd >").contains("a field, a flag or a number is missing here"));
    assert!(message("enrgy > 2").contains("there is no field or flag \"enrgy\"; there are energy, "));
    assert!(message("energy").contains("compare it"));
    assert!(message("energy && pile_up").contains("this is a number, where a yes or no"));
    assert!(message("pile_up > 3").contains("this is a yes or no, where a number"));
    assert!(message("energy > 2 keVV").contains("no unit"));
    assert!(message("(energy > 2").contains("\")\" is missing"));
    assert!(message("energy > 2 3").contains("should have ended"));
    assert!(message("energy > 1e400").contains("1e400 is more than any number here"));
    assert!(message("energy in [5, 2]").contains("no smaller"));
    assert!(message("inside(gammas)").contains("there are neutrons"));
    assert!(message("multiplicity > 2").contains("on = \"event\""));
    assert!(message("").contains("empty"));
    assert!(message("energy > 2 & psd > 1").contains("'&' has no meaning"));
    assert!(message(&"(".repeat(500)).contains("brackets"));
    let marked = message("energy > 2 && enrgy > 2");
    let mark = marked.lines().last().expect("a mark");
    assert_eq!(mark.find('^'), Some(4 + "energy > 2 && ".len()), "{marked}");
}

#[test]
fn a_unit_of_another_kind_than_the_field_is_refused_where_it_stands() {
    let parse = |text: &str| Expression::parse(text, Scope::Event, &[]);
    for (text, at, words) in [
        (
            "energy > 3 keV",
            "3 keV",
            "`energy` has no unit, and this number is an energy; write it without a unit",
        ),
        (
            "keV > 3 ns",
            "3 ns",
            "`keV` is in keV, and this number is a time; write it without a unit, or with one of energy",
        ),
        ("-1 MeV <= time", "1 MeV", "`time` is in ps, and this number is an energy"),
        ("channel == 1 && dt in [1, 2 eV]", "2 eV", "with one of time"),
        ("psd in [-1 s, 1]", "1 s", "`psd` has no unit, and this number is a time"),
        ("1 keV < keV < 2 us", "2 us", "with one of energy"),
    ] {
        let message = parse(text).expect_err(text).to_string();
        assert!(message.contains(words), "{message}");
        let mark = message.lines().last().and_then(|line| line.find('^'));
        assert_eq!(mark, text.find(at).map(|place| place + 4), "{message}");
    }
    for text in [
        "keV > 3",
        "1 MeV < sum_keV < 2 MeV",
        "dt in [-1 ns, 1 us]",
        "energy * 2 keV > 3 MeV",
        "energy > 2 * 3 keV",
        "energy > (3 keV)",
        "3 keV < 1 ns",
    ] {
        parse(text).expect(text);
    }
}

#[test]
fn invalid_regions_are_refused() {
    let message = |points: &[[f64; 2]]| {
        let settings = polygon::Settings {
            name: "n".into(),
            x: "energy".into(),
            y: "psd".into(),
            points: points.to_vec(),
        };
        Polygon::new(&settings).expect_err("not a region").to_string()
    };
    assert!(message(&[[0.0, 0.0], [1.0, 1.0], [1.0, 0.0], [0.0, 1.0]]).contains("without crossing itself"));
    assert!(message(&[[0.0, 0.0]]).contains("3 to 64"));
    assert!(message(&[[0.0, 0.0], [1.0, f64::NAN], [1.0, 0.0]]).contains("finite"));
    assert!(message(&[[0.0, 0.0], [1.0, 1.0], [2.0, 2.0]]).contains("encloses nothing"));
    let unknown =
        polygon::Settings { name: "n".into(), x: "energies".into(), y: "psd".into(), points: vec![] };
    assert!(Polygon::new(&unknown).expect_err("no field").to_string().contains("energies"));
}

#[test]
fn cuts_are_counted_by_name_and_source_and_the_ledger_balances() {
    let map = map();
    let cut = |name: &str, keep: &str, on| Settings {
        name: name.into(),
        keep: keep.into(),
        on,
        members: Quantity::Any,
    };
    let settings = [cut("bright", "energy > 100", Scope::Hit), cut("clean", "!pile_up", Scope::Hit)];
    let (mut cuts, _) = read(&settings, &[], false, &map, 2).expect("valid");
    let hits = [
        hit(0, 50, 0, Flags::NONE),
        hit(1, 150, 0, Flags::PILE_UP),
        hit(5, 150, 0, Flags::NONE),
        hit(7, 150, 0, Flags::NONE),
    ];
    let mut verdicts = Verdicts::default();
    let kept = cuts.cut(&hits, &map, &mut verdicts).expect("something is cut");
    assert_eq!(kept.pass, [0, 0, 1, 0]);
    assert_eq!(kept.shares.iter().map(|share| share.hits).sum::<u32>(), 1);
    cuts.settle();
    let passed: Vec<_> =
        cuts.passed().map(|(name, passed)| (name.to_owned(), passed.input, passed.kept)).collect();
    assert_eq!(passed, [("bright".to_owned(), 3, 2), ("clean".to_owned(), 2, 1)]);
    for (source, (input, output)) in [(0, (2, 0)), (1, (2, 1))] {
        let counters = cuts.counters(SourceId(source));
        assert_eq!((counters.total_input(Unit::Hits), counters.total_output(Unit::Hits)), (input, output));
        assert_eq!(counters.total_filtered(Unit::Hits), input - output);
    }
    let error =
        |settings: &[Settings]| read(settings, &[], false, &map, 2).expect_err("not possible").to_string();
    assert!(
        error(&[cut("a", "psd > 1", Scope::Hit), cut("a", "psd > 2", Scope::Hit)]).contains("two [[cut]]")
    );
    assert!(error(&[cut("a", "multiplicity > 1", Scope::Event)]).contains("add one"));
    let region = polygon::Settings {
        name: "n".into(),
        x: "energy".into(),
        y: "psd".into(),
        points: vec![[0.0, 0.0], [1.0, 1.0]],
    };
    let twice = read(&[], &[region.clone(), region], false, &map, 2).expect_err("not possible").to_string();
    assert!(twice.contains("two [[polygon]] are called \"n\""), "{twice}");
    assert!(error(&[cut("a", "psd >", Scope::Hit)]).contains("[[cut]] \"a\""));
}

#[test]
fn events_are_cut_as_wholes() {
    let map = map();
    let at = |time_ps, channel, energy| Hit { time_ps, ..hit(channel, energy, 0, Flags::NONE) };
    let hits =
        [at(0, 0, 10), at(50, 1, 90), at(1_000_000, 0, 500), at(1_000_020, 2, 20), at(1_000_030, 4, 1)];
    let mut stage = Coincidence::new(&crate::coincide::Settings::default(), &map, 2).expect("valid");
    stage.push(&hits, None);
    stage.finish();
    let mut events = HitEvents::default();
    assert!(stage.pull(&mut events));
    let kept = |keep: &str, members| {
        let cut = Settings { name: "cut".into(), keep: keep.into(), on: Scope::Event, members };
        let (_, mut cuts) = read(&[cut], &[], true, &map, 2).expect("valid");
        let mut events = events.clone();
        cuts.cut(&mut events, &map);
        let members: usize = events.iter().map(|(_, members)| members.len()).sum();
        assert_eq!(members, events.members.len(), "nothing of an event that is gone stays");
        events.events.iter().map(|event| event.number).collect::<Vec<_>>()
    };
    assert_eq!(kept("multiplicity == 3", Quantity::Any), [1]);
    assert_eq!(kept("sum_energy == 100", Quantity::Any), [0]);
    assert_eq!(kept("dt == 50 ps", Quantity::Any), [0]);
    assert_eq!(kept("dt <= 30 ps", Quantity::All), [1]);
    assert_eq!(kept("energy > 80", Quantity::Any), [0, 1]);
    assert_eq!(kept("energy > 80", Quantity::All), Vec::<u64>::new());
}

proptest! {
    #[test]
    fn no_text_makes_the_parser_fall(text in "[a-z0-9_ .<>=!&|()\\[\\]+*/,-]{0,60}") {
        let _ = Expression::parse(&text, Scope::Event, &[region()]);
    }

    #[test]
    fn columns_agree_with_one_hit_at_a_time(
        rows in proptest::collection::vec((0u16..8, 0u16..2000, 0u16..2000, any::<u16>()), 1..700),
    ) {
        let hits: Vec<Hit> = rows.iter().map(|(channel, energy, short, flags)| hit(*channel, *energy, *short, Flags(*flags))).collect();
        let text = "psd > 0.12 && energy > 200 && !pile_up || keV in [10, 300] && inside(neutrons)";
        let mut expression = Expression::parse(text, Scope::Hit, &[region()]).expect("valid");
        let (map, mut pass) = (map(), vec![0; hits.len()]);
        expression.evaluate_hits(&hits, &map, &mut pass);
        for (hit, pass) in hits.iter().zip(pass) {
            let absent = hit.flags.has(Flags::NO_ENERGY);
            let psd: f32 = psd(hit);
            let energy = f64::from(hit.energy);
            let first = psd > 0.12 && !absent && energy > 200.0 && !hit.flags.has(Flags::PILE_UP);
            let inside = !absent && (100.0..1000.0).contains(&energy) && (0.2..0.6).contains(&f64::from(psd));
            let kev = if absent { f64::NAN } else { map.kev(hit.channel, hit.energy) };
            prop_assert_eq!(pass == 1, first || (10.0..=300.0).contains(&kev) && inside, "{:?}", hit);
        }
    }
}
