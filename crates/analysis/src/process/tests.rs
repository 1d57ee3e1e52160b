use std::convert::Infallible;
use std::sync::Arc;

use thalweg_data::batch::Share;
use thalweg_data::{Flags, Hit, Hits, SourceId, Unit};

use super::*;
use crate::channels::{ChannelList, Entry, SourceChannels};
use crate::cut::Scope;
use crate::spectrum::{At, Kind};

fn map() -> Arc<ChannelMap> {
    let board = |number: u16| SourceChannels {
        source: SourceId(number),
        name: format!("board {number}"),
        channels: number * 4..=number * 4 + 3,
    };
    Arc::new(ChannelMap::new(&[board(0), board(1)], &[], &[]).expect("valid"))
}

#[test]
fn hits_go_through_cuts_coincidence_and_spectra_and_the_ledger_balances() {
    let cut = |name: &str, keep: &str, on| cut::Settings {
        name: name.into(),
        keep: keep.into(),
        on,
        members: Default::default(),
    };
    let settings = Settings {
        cuts: vec![
            cut("bright", "energy > 100", Scope::Hit),
            cut("triples", "multiplicity >= 3", Scope::Event),
        ],
        coincidence: Some(crate::coincide::Settings { window_ps: 50, ..Default::default() }),
        ..Settings::default()
    };
    let names = ["left".to_owned(), "right".to_owned()];
    let map = map();
    let mut stages = stages(&settings, &map, &names).expect("valid");
    let set = stages.spectra.clone();
    let hit = |time_ps, channel, energy| Hit {
        time_ps,
        channel,
        energy,
        energy_short: energy / 2,
        flags: Flags::NONE,
    };
    let hits = vec![
        hit(0, 0, 200),
        hit(10, 5, 200),
        hit(20, 6, 50),
        hit(1000, 0, 300),
        hit(1001, 1, 300),
        hit(1002, 4, 300),
    ];
    let mut batch = Selected::from(Hits { hits, ..Hits::default() });
    let mut found = Vec::new();
    let mut each = |events: &HitEvents| {
        found.extend(events.iter().map(|(event, members)| (event.number, members.len())));
        Ok::<(), Infallible>(())
    };
    stages.take(&mut batch, &mut each).expect("infallible");
    assert_eq!(batch.kept().map(|kept| kept.pass), Some(&[1, 1, 0, 1, 1, 1][..]));
    stages.finish(&mut each).expect("infallible");
    let Stages { selector, processor, .. } = &stages;
    assert_eq!(found, [(1, 3)], "the pair was cut as an event");
    let (made, events) = (selector.made_counters(), processor.events_counters());
    assert_eq!((made.total_input(Unit::Events), made.total_output(Unit::Events)), (2, 2));
    assert_eq!((events.total_input(Unit::Events), events.total_filtered(Unit::Events)), (2, 1));
    for source in [SourceId(0), SourceId(1)] {
        let (cut, coincident) =
            (selector.cut_counters(source), selector.coincidence_counters(source).expect("there is one"));
        assert_eq!(
            cut.total_input(Unit::Hits),
            cut.total_output(Unit::Hits) + cut.total_filtered(Unit::Hits)
        );
        assert_eq!(
            cut.total_output(Unit::Hits),
            coincident.total_input(Unit::Hits),
            "what is kept is looked at"
        );
        assert_eq!(coincident.held(Unit::Hits), 0);
    }
    let of = |kind, at| set.spectra().iter().filter(move |info| info.kind == kind && info.at == at);
    let entries =
        |kind, at| of(kind, at).map(|info| set.totals(info.id).expect("known").entries).sum::<u64>();
    assert_eq!((entries(Kind::Energy, At::Received), entries(Kind::Energy, At::Kept)), (6, 5));
    assert_eq!((entries(Kind::Plane, At::Received), entries(Kind::TimeDifference, At::Events)), (6, 2));
}

#[test]
fn an_invalid_setting_is_refused_by_its_room() {
    let clocks = crate::clocks::Settings { reference: Some("nobody".into()), ..Default::default() };
    let refused = stages(&Settings { clocks, ..Settings::default() }, &map(), &["left".to_owned()]);
    assert!(refused.expect_err("no such source").to_string().contains("nobody"));
}

#[test]
fn events_that_nobody_takes_keep_no_hit_from_the_stages() {
    let names = ["a".to_owned()];
    let board = SourceChannels { source: SourceId(0), name: "a".into(), channels: 0..=7 };
    let map = Arc::new(ChannelMap::new(&[board], &[], &[]).expect("valid"));
    let settings = Settings {
        cuts: vec![crate::cut::Settings {
            name: "bright".into(),
            keep: "energy > 100".into(),
            on: crate::cut::Scope::Hit,
            members: crate::cut::Quantity::Any,
        }],
        coincidence: Some(crate::coincide::Settings { window_ps: 10, ..Default::default() }),
        ..Settings::default()
    };
    let mut stages = stages(&settings, &map, &names).expect("valid");
    let pair = |index: i64| {
        [0, 1].map(|channel| Hit { time_ps: index * 1000, channel, energy: 200, ..Hit::default() })
    };
    let hits = Hits { hits: (0..5000).flat_map(pair).collect(), ..Hits::default() };
    let mut batch = Selected::from(hits);
    let result = stages.take(&mut batch, |_| Err("the disk is full"));
    let seen = batch.kept().map(|kept| kept.pass.len());
    assert_eq!((seen, result), (Some(10_000), Err("the disk is full")));
    stages.settle();
    assert_eq!(stages.selector.cut_counters(SourceId(0)).total_output(Unit::Hits), 10_000);
    let coincident = stages.selector.coincidence_counters(SourceId(0)).expect("there is one");
    assert_eq!(coincident.total_input(Unit::Hits), 10_000);
}

/// Every hit is near to every other, and all are references: each makes an event of all of them that are within reach.
#[test]
fn events_that_are_too_many_for_their_batch_go_ahead_of_it() {
    let names = ["a".to_owned()];
    let board = SourceChannels { source: SourceId(0), name: "a".into(), channels: 0..=7 };
    let map = Arc::new(ChannelMap::new(&[board], &[], &[]).expect("valid"));
    let all = || ChannelList(vec![Entry::Range("0-7".to_owned())]);
    let leg = crate::coincide::Leg { channels: all(), ..Default::default() };
    let coincidence = crate::coincide::Settings {
        mode: crate::coincide::Mode::Reference,
        window_ps: 60,
        reference: Some(leg),
        channels: all(),
        ..Default::default()
    };
    let settings = Settings { coincidence: Some(coincidence), ..Settings::default() };
    let hit = |index: u16| Hit { time_ps: i64::from(index), channel: index % 8, ..Hit::default() };
    let hits = Hits {
        hits: (0..4000).map(hit).collect(),
        shares: vec![Share { source: SourceId(0), hits: 4000 }],
        ..Hits::default()
    };
    let mut stages = stages(&settings, &map, &names).expect("valid");
    let mut batch = Selected::from(hits);
    let (mut calls, mut numbers, mut most) = (0, Vec::new(), 0);
    let mut each = |events: &HitEvents| {
        calls += 1;
        most = most.max(events.members.len());
        numbers.extend(events.events.iter().map(|event| event.number));
        Ok::<(), Infallible>(())
    };
    stages.take(&mut batch, &mut each).expect("infallible");
    stages.finish(&mut each).expect("infallible");
    assert!(calls > 5, "{calls} batches of events");
    assert!(most < MOST_MEMBERS + 512 * 121, "{most} hits in one batch of events");
    assert_eq!(numbers, (0..4000).collect::<Vec<u64>>(), "each once, in order");
    let (made, kept) = (stages.selector.made_counters(), stages.processor.events_counters());
    assert_eq!((made.total_output(Unit::Events), kept.total_output(Unit::Events)), (4000, 4000));
    let coincident = stages.selector.coincidence_counters(SourceId(0)).expect("there is one");
    assert_eq!(
        (coincident.total_input(Unit::Hits), coincident.total_output(Unit::Hits)),
        (4000, 4000),
        "a hit that stands in many events goes out once"
    );
}
