use std::convert::Infallible;
use std::sync::Arc;

use thalweg_data::{Flags, Hit, Hits, SourceId, Unit};

use super::*;
use crate::channels::SourceChannels;
use crate::cut::{Scope, Verdicts};
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
    let Stages { mut cuts, mut processor, spectra: set, .. } =
        stages(&settings, &map, &names).expect("valid");
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
    let batch = Hits { hits, ..Hits::default() };
    let mut found = Vec::new();
    let mut each = |events: &HitEvents| {
        found.extend(events.iter().map(|(event, members)| (event.number, members.len())));
        Ok::<(), Infallible>(())
    };
    let mut verdicts = Verdicts::default();
    let pass = cuts.cut(&batch.hits, &map, &mut verdicts);
    assert_eq!(pass.map(|kept| kept.pass), Some(&[1, 1, 0, 1, 1, 1][..]));
    processor.process(&batch, pass, &mut each).expect("infallible");
    cuts.settle();
    processor.finish(&mut each).expect("infallible");
    processor.settle();
    assert_eq!(found, [(1, 3)], "the pair was cut as an event");
    let (_, events) = processor.events_counters();
    assert_eq!((events.total_input(Unit::Events), events.total_filtered(Unit::Events)), (2, 1));
    for source in [SourceId(0), SourceId(1)] {
        let (cut, coincident) =
            (cuts.counters(source), processor.coincidence_counters(source).expect("there is one"));
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
    let Stages { mut cuts, mut processor, .. } = stages(&settings, &map, &names).expect("valid");
    let pair = |index: i64| {
        [0, 1].map(|channel| Hit { time_ps: index * 1000, channel, energy: 200, ..Hit::default() })
    };
    let batch = Hits { hits: (0..5000).flat_map(pair).collect(), ..Hits::default() };
    let mut verdicts = Verdicts::default();
    let pass = cuts.cut(&batch.hits, &map, &mut verdicts);
    let result = processor.process(&batch, pass, |_| Err("the disk is full"));
    assert_eq!((pass.map(|kept| kept.pass.len()), result), (Some(10_000), Err("the disk is full")));
    cuts.settle();
    processor.settle();
    assert_eq!(cuts.counters(SourceId(0)).total_output(Unit::Hits), 10_000);
    let coincident = processor.coincidence_counters(SourceId(0)).expect("there is one");
    assert_eq!(coincident.total_input(Unit::Hits), 10_000);
}
