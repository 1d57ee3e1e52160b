//! Every rule against its definition, tried on random streams by the most obvious means.

use proptest::prelude::*;
use thalweg_data::{Flags, Hit, SourceId, Unit};

use super::*;
use crate::channels::{ChannelList, ChannelMap, ChannelSettings, SourceChannels};

/// Two boards of four channels; channels 0 to 2 are group "a", 3 to 5 group "b", 6 and 7 alone.
fn map() -> ChannelMap {
    let board = |number: u16| SourceChannels {
        source: SourceId(number),
        name: format!("board {number}"),
        channels: number * 4..=number * 4 + 3,
    };
    let channel = |number: u16, group: &str| ChannelSettings {
        number,
        group: Some(group.to_owned()),
        ..ChannelSettings::default()
    };
    let groups: Vec<_> = (0..6).map(|number| channel(number, if number < 3 { "a" } else { "b" })).collect();
    ChannelMap::new(&[board(0), board(1)], &groups, &[]).expect("valid")
}

fn hit(time_ps: i64, channel: u16) -> Hit {
    Hit { time_ps, channel, ..Hit::default() }
}

/// Times so close together that every kind of neighbourhood occurs, ties included.
fn streams() -> impl Strategy<Value = Vec<Hit>> {
    proptest::collection::vec((0i64..40, 0u16..8), 0..60).prop_map(|steps| {
        let mut time_ps = -100;
        steps
            .into_iter()
            .map(|(step, channel)| {
                time_ps += if step < 25 { step / 4 } else { step };
                hit(time_ps, channel)
            })
            .collect()
    })
}

/// Counts hits in by source, as who hands them over does.
fn count_in(stage: &mut Coincidence, map: &ChannelMap, hits: &[Hit]) {
    for hit in hits {
        let channel = map.get(hit.channel).expect("of a board");
        stage.count_in(channel.source, 1);
    }
}

type Found = Vec<(Vec<Hit>, usize)>;

/// What the stage makes of a stream that comes in chunks; its ledger must balance after each.
fn run(settings: &Settings, hits: &[Hit], chunk: usize) -> Found {
    let map = map();
    let mut stage = Coincidence::new(settings, &map, 2).expect("valid settings");
    let (mut events, mut found) = (HitEvents::default(), Found::new());
    let mut take = |stage: &mut Coincidence| {
        stage.pull(&mut events);
        found.extend(
            events.iter().map(|(event, members)| (members.to_vec(), usize::from(event.multiplicity))),
        );
        for source in [SourceId(0), SourceId(1)] {
            let counters = stage.counters(source);
            let right = counters.total_output(Unit::Hits)
                + counters.total_filtered(Unit::Hits)
                + counters.held(Unit::Hits);
            assert_eq!(counters.total_input(Unit::Hits), right, "the ledger of {source}");
        }
    };
    for batch in hits.chunks(chunk.max(1)) {
        count_in(&mut stage, &map, batch);
        stage.push(batch, None);
        stage.advance(batch[batch.len() - 1].time_ps);
        stage.settle();
        take(&mut stage);
    }
    stage.finish();
    stage.settle();
    take(&mut stage);
    let held: u64 = [0, 1].map(|source| stage.counters(SourceId(source)).held(Unit::Hits)).iter().sum();
    assert_eq!(held, 0, "nothing waits at the end");
    let distinct: std::collections::BTreeSet<(i64, u16, usize)> = found
        .iter()
        .flat_map(|(members, _)| members.iter().map(|hit| (hit.time_ps, hit.channel, 0)))
        .collect();
    let out: u64 =
        [0, 1].map(|source| stage.counters(SourceId(source)).total_output(Unit::Hits)).iter().sum();
    assert!(out >= distinct.len() as u64, "{out} hits went out, {} differ", distinct.len());
    found
}

fn different(hits: &[Hit], element: impl Fn(u16) -> u16) -> usize {
    hits.iter().map(|hit| element(hit.channel)).collect::<std::collections::BTreeSet<_>>().len()
}

fn by_channel(channel: u16) -> u16 {
    channel
}

fn by_group(channel: u16) -> u16 {
    [100, 100, 100, 101, 101, 101, 6, 7][usize::from(channel)]
}

/// By definition: the hits of every window that ends at a hit and holds enough; windows that share a hit together.
fn chains(hits: &[Hit], window_ps: i64, at_least: usize, element: fn(u16) -> u16) -> Found {
    let mut spans: Vec<(usize, usize)> = Vec::new();
    for last in 0..hits.len() {
        let inside: Vec<usize> =
            (0..=last).filter(|each| hits[last].time_ps - hits[*each].time_ps <= window_ps).collect();
        let window: Vec<Hit> = inside.iter().map(|each| hits[*each]).collect();
        if different(&window, element) >= at_least {
            match spans.last_mut() {
                Some((_, end)) if inside[0] <= *end => *end = last,
                _ => spans.push((inside[0], last)),
            }
        }
    }
    spans.into_iter().map(|(first, last)| event(&hits[first..=last], element)).collect()
}

fn event(members: &[Hit], element: fn(u16) -> u16) -> (Vec<Hit>, usize) {
    (members.to_vec(), different(members, element))
}

fn opened(hits: &[Hit], window_ps: i64, at_least: usize) -> Found {
    let (mut found, mut first) = (Found::new(), 0);
    while first < hits.len() {
        let until = hits.partition_point(|hit| hit.time_ps <= hits[first].time_ps + window_ps);
        let members = &hits[first..until];
        first = match different(members, by_channel) >= at_least {
            true => {
                found.push(event(members, by_channel));
                until
            }
            false => first + 1,
        };
    }
    found
}

fn gaps(hits: &[Hit], gap_ps: i64, at_least: usize) -> Found {
    let together = hits.chunk_by(|one, next| next.time_ps - one.time_ps <= gap_ps);
    let whole = together.filter(|members| different(members, by_channel) >= at_least);
    whole.map(|members| event(members, by_channel)).collect()
}

/// By definition: around each hit of channel 0, the hits of channels 2 to 7 in the stretch.
fn referenced(hits: &[Hit], from_ps: i64, to_ps: i64, at_least: usize) -> Found {
    let mut found = Found::new();
    for (place, centre) in hits.iter().enumerate().filter(|(_, hit)| hit.channel == 0) {
        let stretch = centre.time_ps + from_ps..=centre.time_ps + to_ps;
        let partner = |hit: &Hit| hit.channel >= 2 && stretch.contains(&hit.time_ps);
        let partners: Vec<Hit> = hits.iter().copied().filter(partner).collect();
        if different(&partners, by_channel) >= at_least {
            let members: Vec<Hit> = hits
                .iter()
                .enumerate()
                .filter(|(index, hit)| *index == place || partner(hit))
                .map(|(_, hit)| *hit)
                .collect();
            found.push(event(&members, by_channel));
        }
    }
    found
}

fn leg(channels: impl Into<ChannelList>, from_ps: i64, to_ps: i64) -> Option<Leg> {
    Some(Leg { channels: channels.into(), groups: vec![], from_ps: Some(from_ps), to_ps: Some(to_ps) })
}

fn of_reference(from_ps: i64, to_ps: i64, at_least: u16) -> Settings {
    Settings {
        mode: Mode::Reference,
        channels: (2..=7).into(),
        reference: leg(0..=0, from_ps, to_ps),
        at_least: Some(at_least),
        ..Settings::default()
    }
}

fn majority(window_ps: i64, at_least: u16) -> Settings {
    Settings { mode: Mode::Majority, window_ps, at_least: Some(at_least), ..Settings::default() }
}

proptest! {
    #[test]
    fn chains_are_what_they_are_defined_to_be(hits in streams(), window_ps in 0i64..30, at_least in 2u16..5, chunk in 1usize..40) {
        prop_assert_eq!(run(&majority(window_ps, at_least), &hits, chunk), chains(&hits, window_ps, at_least.into(), by_channel));
        let groups = Settings { distinct: Distinct::Groups, ..majority(window_ps, at_least.min(4)) };
        prop_assert_eq!(run(&groups, &hits, chunk), chains(&hits, window_ps, at_least.into(), by_group));
    }

    #[test]
    fn any_pair_keeps_exactly_the_hits_with_a_partner(hits in streams(), window_ps in 0i64..30, chunk in 1usize..40) {
        let settings = Settings { window_ps, ..Settings::default() };
        let kept: Vec<Hit> = run(&settings, &hits, chunk).into_iter().flat_map(|(members, _)| members).collect();
        let has_partner = |one: &Hit| {
            hits.iter().any(|other| other.channel != one.channel && (one.time_ps - other.time_ps).abs() <= window_ps)
        };
        prop_assert_eq!(kept, hits.iter().copied().filter(has_partner).collect::<Vec<_>>());
    }

    #[test]
    fn opened_windows_are_what_they_are_defined_to_be(hits in streams(), window_ps in 0i64..30, at_least in 2u16..5, chunk in 1usize..40) {
        let settings = Settings { events: Grouping::Window, ..majority(window_ps, at_least) };
        prop_assert_eq!(run(&settings, &hits, chunk), opened(&hits, window_ps, at_least.into()));
    }

    #[test]
    fn gaps_are_what_they_are_defined_to_be(hits in streams(), gap_ps in 0i64..30, at_least in 2u16..5, chunk in 1usize..40) {
        let settings = Settings { events: Grouping::Gap, gap_ps: Some(gap_ps), ..majority(1000, at_least) };
        prop_assert_eq!(run(&settings, &hits, chunk), gaps(&hits, gap_ps, at_least.into()));
    }

    #[test]
    fn references_are_what_they_are_defined_to_be(
        hits in streams(), from_ps in -30i64..30, width_ps in 0i64..30, at_least in 1u16..4, chunk in 1usize..40,
    ) {
        let to_ps = from_ps + width_ps;
        let settings = of_reference(from_ps, to_ps, at_least);
        prop_assert_eq!(run(&settings, &hits, chunk), referenced(&hits, from_ps, to_ps, at_least.into()));
    }

    #[test]
    fn veto_and_gate_admit_exactly_the_hits_that_they_should(
        hits in streams(), veto in (-30i64..30, 0i64..30), gate in (-30i64..30, 0i64..60), chunk in 1usize..40,
    ) {
        let settings = Settings {
            veto: leg(6..=6, veto.0, veto.0 + veto.1),
            gate: leg(7..=7, gate.0, gate.0 + gate.1),
            ..majority(10, 2)
        };
        let near = |hit: &Hit, channel: u16, from_ps: i64, width_ps: i64| {
            let around = |other: &Hit| (other.time_ps + from_ps..=other.time_ps + from_ps + width_ps).contains(&hit.time_ps);
            hits.iter().any(|other| other.channel == channel && around(other))
        };
        let admitted = |hit: &&Hit| hit.channel < 6 && near(hit, 7, gate.0, gate.1) && !near(hit, 6, veto.0, veto.1);
        let admitted: Vec<Hit> = hits.iter().filter(admitted).copied().collect();
        prop_assert_eq!(run(&settings, &hits, chunk), chains(&admitted, 10, 2, by_channel));
    }

    #[test]
    fn long_events_are_closed_and_the_ledger_still_balances(hits in streams(), chunk in 1usize..40, longest in 2usize..6) {
        for events in [Grouping::Chain, Grouping::Window, Grouping::Gap] {
            let settings = Settings { longest_event_hits: longest, events, ..majority(20, 2) };
            let found = run(&settings, &hits, chunk);
            prop_assert!(found.iter().all(|(members, multiplicity)| members.len() <= longest && *multiplicity >= 2));
        }
        let settings = Settings { longest_event_hits: longest, ..of_reference(-20, 20, 1) };
        prop_assert!(run(&settings, &hits, chunk).iter().all(|(members, _)| (2..=longest).contains(&members.len())));
    }
}

/// What the stage makes of a stream, and how many events it counts as cut short.
fn run_and_count(settings: &Settings, hits: &[Hit]) -> (Vec<Vec<Hit>>, u64) {
    let mut stage = Coincidence::new(settings, &map(), 2).expect("valid");
    count_in(&mut stage, &map(), hits);
    stage.push(hits, None);
    stage.finish();
    stage.settle();
    let mut events = HitEvents::default();
    stage.pull(&mut events);
    (events.iter().map(|(_, members)| members.to_vec()).collect(), stage.cut_short())
}

#[test]
fn a_chain_that_a_window_makes_too_long_is_cut_at_the_longest_event() {
    let settings = Settings { longest_event_hits: 6, ..majority(900, 3) };
    let stream = |rest: &[(i64, u16)]| -> Vec<Hit> {
        let first = [(1000, 0), (1100, 1), (1200, 2), (2000, 3), (2400, 3), (2600, 3)];
        first.iter().chain(rest).map(|(time_ps, channel)| hit(*time_ps, *channel)).collect()
    };
    // The two behind have no third with them, or have one.
    let hits = stream(&[(2700, 4), (2800, 5)]);
    assert_eq!(run_and_count(&settings, &hits), (vec![hits[..6].to_vec()], 1));
    let hits = stream(&[(2700, 4), (2800, 5), (2900, 6)]);
    assert_eq!(run_and_count(&settings, &hits), (vec![hits[..6].to_vec(), hits[6..].to_vec()], 1));
}

#[test]
fn an_event_of_a_reference_that_is_cut_short_counts_once() {
    let settings = Settings { longest_event_hits: 4, ..of_reference(0, 100, 1) };
    let partners = (1..=10).map(|time_ps| hit(time_ps, 2 + time_ps as u16 % 6));
    let hits: Vec<Hit> = std::iter::once(hit(0, 0)).chain(partners).collect();
    assert_eq!(run_and_count(&settings, &hits), (vec![hits[..4].to_vec()], 1));
}

/// A gate hit that comes a second later would have admitted them: what is decided without it is counted.
#[test]
fn hits_that_are_decided_because_too_many_wait_are_counted() {
    const SURPLUS: i64 = 100;
    let settings = Settings { gate: leg(7..=7, -1_000_000_000_000, 0), ..majority(10, 2) };
    let mut stage = Coincidence::new(&settings, &map(), 2).expect("valid");
    let hits: Vec<Hit> = (0..held::MOST_WAITING as i64 + SURPLUS).map(|time_ps| hit(time_ps, 0)).collect();
    stage.push(&hits, None);
    assert_eq!(stage.cut_short(), SURPLUS as u64);
    stage.push(&[hit(999_999_000_000, 7)], None);
    stage.finish();
    assert_eq!(stage.cut_short(), SURPLUS as u64, "what is left was decided with the gate");
}

/// More hits than are looked through at a time: pairs and more lie across every kind of border.
#[test]
fn events_do_not_depend_on_where_hits_were_divided() {
    let (mut time_ps, mut state) = (0, 7u32);
    let mut next = |limit: u32| {
        state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
        (state >> 16) % limit
    };
    let hits: Vec<Hit> = (0..3000)
        .map(|_| {
            time_ps += i64::from(if next(3) == 0 { next(6) } else { 6 + next(60) });
            hit(time_ps, next(8) as u16)
        })
        .collect();
    for at_least in [2, 3] {
        let chain = majority(10, at_least);
        let expected = chains(&hits, 10, at_least.into(), by_channel);
        let opened_windows = Settings { events: Grouping::Window, ..chain.clone() };
        let pauses = Settings { events: Grouping::Gap, ..chain.clone() };
        assert!(expected.len() > 20, "{} events of {at_least}", expected.len());
        for chunk in [hits.len(), scan::STRETCH, scan::STRETCH + 1, 7] {
            assert_eq!(run(&chain, &hits, chunk), expected);
            assert_eq!(run(&opened_windows, &hits, chunk), opened(&hits, 10, at_least.into()));
            assert_eq!(run(&pauses, &hits, chunk), gaps(&hits, 10, at_least.into()));
        }
    }
}

#[test]
fn both_ends_of_a_window_are_within() {
    let settings = Settings { window_ps: 100, ..Settings::default() };
    assert_eq!(run(&settings, &[hit(0, 0), hit(100, 1)], 1).len(), 1);
    assert_eq!(run(&settings, &[hit(0, 0), hit(101, 1)], 1).len(), 0);
    assert_eq!(run(&settings, &[hit(0, 0), hit(1, 0)], 1).len(), 0, "one channel is no pair");
}

#[test]
fn hits_that_were_cut_or_are_late_take_no_part() {
    let map = map();
    let mut stage = Coincidence::new(&Settings::default(), &map, 2).expect("valid");
    let late = Hit { flags: Flags::LATE, ..hit(5, 2) };
    let hits = [hit(1000, 0), hit(1001, 1), late, hit(1002, 2)];
    count_in(&mut stage, &map, &[hits[0], hits[2], hits[3]]);
    stage.push(&hits, Some(&[1, 0, 1, 1]));
    stage.finish();
    stage.settle();
    let mut events = HitEvents::default();
    assert!(stage.pull(&mut events));
    assert_eq!(events.members, [hit(1000, 0), hit(1002, 2)]);
    assert_eq!(
        (
            stage.counters(SourceId(0)).total_input(Unit::Hits),
            stage.counters(SourceId(0)).total_filtered(Unit::Hits)
        ),
        (3, 1)
    );
}

#[test]
fn a_shared_hit_stands_in_both_events_and_goes_out_once() {
    let found = run(&of_reference(-10, 10, 1), &[hit(0, 0), hit(5, 2), hit(10, 0)], 3);
    assert_eq!(found.len(), 2);
    assert!(found.iter().all(|(members, _)| members.contains(&hit(5, 2))));
}

#[test]
fn impossible_settings_are_refused_with_what_to_write() {
    let message =
        |settings: Settings| Coincidence::new(&settings, &map(), 2).expect_err("impossible").to_string();
    let base = Settings::default;
    assert!(message(Settings { window_ps: -1, ..base() }).contains("0 to 10 s"));
    assert!(message(Settings { window_ps: WIDEST_PS + 1, ..base() }).contains("0 to 10 s"));
    assert!(message(majority(10, 9)).contains("8 different channels"));
    assert!(message(majority(10, 1)).contains("write 2 to 8"));
    assert!(message(Settings { at_least: Some(3), ..base() }).contains("mode = \"majority\""));
    assert!(message(Settings { mode: Mode::Reference, ..base() }).contains("[coincidence.reference]"));
    assert!(message(Settings { veto: leg(6..=6, 10, -10), ..base() }).contains("from_ps = 10"));
    assert!(message(Settings { veto: Some(Leg::default()), ..base() }).contains("names no channel"));
    assert!(message(Settings { groups: vec!["c".into()], ..base() }).contains("there are: a, b"));
    let source = SourceChannels { source: SourceId(0), name: "a".to_owned(), channels: 0..=3 };
    let ungrouped = ChannelMap::new(&[source], &[], &[]).expect("valid");
    let missing = Coincidence::new(&Settings { groups: vec!["c".into()], ..base() }, &ungrouped, 2);
    assert!(
        missing.expect_err("impossible").to_string().contains("there are: none; give channels a `group`")
    );
    assert!(message(Settings { channels: (0..=9).into(), ..base() }).contains("no source sends channel 8"));
    assert!(message(Settings { longest_event_hits: 1, ..base() }).contains("2 to 65536"));
    let with_gap = |mode| message(Settings { mode, gap_ps: Some(1), reference: leg(0..=0, 0, 0), ..base() });
    for mode in [Settings { ..base() }, majority(10, 2)] {
        let text = message(Settings { gap_ps: Some(1), ..mode.clone() });
        let word = if mode.mode == Mode::Majority { "\"majority\"" } else { "\"any_pair\"" };
        assert!(text.contains(word) && text.contains("events = \"gap\""), "{text}");
    }
    assert!(with_gap(Mode::Reference).contains("leave it out"));
    let all_veto = message(Settings { veto: leg(0..=7, -10, 10), ..base() });
    assert!(
        all_veto.contains("0 different channels take part, and an event needs 2; list more"),
        "{all_veto}"
    );
    assert!(message(Settings { events: Grouping::Gap, ..of_reference(0, 1, 1) }).contains("its own event"));
}

#[test]
fn hits_at_the_smallest_and_largest_times_are_settled_at_the_end() {
    let times = [i64::MIN, i64::MIN + 10, 0, i64::MAX - 10, i64::MAX, i64::MAX];
    let hits: Vec<Hit> =
        times.iter().zip([0, 4, 1, 0, 4, 1]).map(|(time, channel)| hit(*time, channel)).collect();
    let base = Settings { window_ps: 100, ..Settings::default() };
    let mut all: Vec<Settings> = [Grouping::Chain, Grouping::Window, Grouping::Gap]
        .map(|events| Settings { events, ..base.clone() })
        .into();
    all.push(Settings { mode: Mode::Reference, reference: leg(0..=0, -100, 100), ..base });
    for settings in all {
        let vetoed = Settings { veto: leg(7..=7, -100, 100), ..settings.clone() };
        for settings in [settings, vetoed] {
            // That nothing waits at the end, is tried there.
            for chunk in [1, hits.len()] {
                run(&settings, &hits, chunk);
            }
        }
    }
}
