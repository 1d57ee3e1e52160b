//! Losses of small ledgers as people read them.

use super::super::counters::Counters;
use super::super::file::Ledger;
use super::super::kept::SLICED_HIT_BYTES;
use super::*;

/// A stage, its units, and its counts.
type Counting = (Stage, &'static [Unit], fn(&mut Counters));

fn snapshot(slots: &[Counting]) -> LedgerSnapshot {
    let ledger = Ledger::create(None, &["left".to_owned()]).expect("memory");
    for (stage, units, count) in slots {
        let mut counters = Counters::default();
        count(&mut counters);
        ledger.open(*stage, SourceId(0), units).publish(&counters);
    }
    ledger.snapshot()
}

const LOST_FRAMES: [Counting; 2] = [
    (Stage::Wire, &[Unit::Frames], |counters| {
        counters.input(Unit::Frames, 6500);
        counters.output(Unit::Frames, 6370);
        counters.lost(LossReason::FrameGap, Unit::Frames, 130);
    }),
    (Stage::Decode, &[Unit::Frames, Unit::Hits], |counters| counters.output(Unit::Hits, 1_000_000)),
];

#[test]
fn a_fragment_of_a_stream_that_is_refused_is_reported_once() {
    let unpack: Counting = (Stage::Unpack, &[Unit::Bytes, Unit::Frames, Unit::Fragments], |counters| {
        for (unit, all, refused) in
            [(Unit::Bytes, 1000, 200), (Unit::Frames, 11, 2), (Unit::Fragments, 10, 2)]
        {
            counters.input(unit, all);
            counters.output(unit, all - refused);
            counters.lost(LossReason::BadHash, unit, refused);
        }
        counters.lost(LossReason::Unfinished, Unit::Frames, 1);
    });
    let report = LossReport::of(&snapshot(&[unpack]), StageRole::Recording);
    let kinds: Vec<String> = report.kinds.iter().map(LossKind::what).collect();
    assert_eq!(
        kinds,
        [
            "lost 2 fragments (20.0 %) of left at unpack: bad_hash",
            "lost 1 frames (8.3 %) of left at unpack: unfinished"
        ]
    );
}

#[test]
fn losses_are_those_of_units_that_a_stage_counts() {
    let unpack: Counting = (Stage::Unpack, &[Unit::Bytes], |counters| {
        counters.lost(LossReason::Unfinished, Unit::Frames, 1);
        counters.lost(LossReason::Unfinished, Unit::Bytes, 6);
    });
    let units: Vec<Unit> = snapshot(&[unpack]).losses().iter().map(|loss| loss.unit).collect();
    assert_eq!(units, [Unit::Bytes], "entries, and so what is read of a record, have these alone");
}

#[test]
fn a_percentage_is_rounded_once() {
    assert_eq!(LostCount::new(Unit::Events, 3045, 6000).percent(""), " (50.8 %)");
    assert_eq!(percent_of(3045, 6000), Some(50.75));
    assert_eq!(percent_of(1, 0), None);
}

#[test]
fn lost_frames_make_the_number_of_lost_hits_unknown_with_a_bound() {
    let report = LossReport::of(&snapshot(&LOST_FRAMES), StageRole::Recording);
    assert_eq!(report.text(), "hits lost: unknown, ≥ 130 frames (≥ 2.0 %)");
    let hits = report.total(Unit::Hits).expect("the run has hits");
    assert_eq!((hits.quality, hits.known.count, hits.is_none()), (Quality::Unknown, 0, false));
    let kind = report.kinds[0].to_string();
    assert_eq!(kind, "lost 130 frames (2.0 %) of left at wire: frame_gap");
}

#[test]
fn totals_of_senders_make_lost_hits_exact() {
    let mut slots = LOST_FRAMES.to_vec();
    slots.push((Stage::Sender, &[Unit::Hits], |counters| {
        counters.input(Unit::Hits, 1_020_000);
        counters.output(Unit::Hits, 1_000_000);
        counters.lost(LossReason::NeverReceived, Unit::Hits, 20_000);
    }));
    assert_eq!(LossReport::of(&snapshot(&slots), StageRole::Recording).text(), "hits lost: 20000 (2.0 %)");
}

/// 416 records of a channel came in 16 parts each, of which a full disk took the first 3968.
#[test]
fn parts_of_records_are_among_all_that_there_were() {
    let slots: [Counting; 3] = [
        (Stage::Sender, &[Unit::Hits], |counters| {
            counters.input(Unit::Hits, 416);
            counters.output(Unit::Hits, 416);
        }),
        (Stage::Decode, &[Unit::Frames, Unit::Hits], |counters| {
            counters.output(Unit::Hits, 6656);
            counters.noted(Noted::Continued, Unit::Hits, 6240);
        }),
        (Stage::Record, &[Unit::Hits], |counters| {
            counters.input(Unit::Hits, 6656);
            counters.output(Unit::Hits, 3968);
            counters.lost(LossReason::DiskFull, Unit::Hits, 2688);
        }),
    ];
    let report = LossReport::of(&snapshot(&slots), StageRole::Recording);
    assert_eq!(report.text(), "hits lost: 2688 (40.4 %)");
}

#[test]
fn send_records_make_lost_hits_exact_during_the_run() {
    let asked = |uncounted| {
        let mut slots = LOST_FRAMES.to_vec();
        slots[0].1 = &[Unit::Frames, Unit::Hits];
        slots[0].2 = if uncounted {
            |counters| {
                (LOST_FRAMES[0].2)(counters);
                counters.noted(Noted::Uncounted, Unit::Frames, 130);
            }
        } else {
            |counters| {
                (LOST_FRAMES[0].2)(counters);
                counters.input(Unit::Hits, 20_000);
                counters.lost(LossReason::FrameGap, Unit::Hits, 20_000);
            }
        };
        LossReport::of(&snapshot(&slots), StageRole::Recording).text()
    };
    assert_eq!(asked(false), "hits lost: 20000 (2.0 %)");
    assert_eq!(asked(true), "hits lost: unknown, ≥ 130 frames (≥ 2.0 %)");
}

#[test]
fn duplicates_and_unexpected_senders_are_no_lost_hits() {
    let report = LossReport::of(
        &snapshot(&[
            (Stage::Receive, &[Unit::Datagrams], |counters| {
                counters.input(Unit::Datagrams, 11);
                counters.output(Unit::Datagrams, 10);
                counters.lost(LossReason::UnexpectedSender, Unit::Datagrams, 1);
            }),
            (Stage::Unpack, &[Unit::Datagrams], |counters| {
                counters.input(Unit::Datagrams, 10);
                counters.output(Unit::Datagrams, 9);
                counters.lost(LossReason::DuplicateDatagram, Unit::Datagrams, 1);
            }),
            (Stage::Decode, &[Unit::Hits], |counters| counters.output(Unit::Hits, 90)),
        ]),
        StageRole::Recording,
    );
    assert_eq!(report.text(), "no hits lost");
    assert_eq!(report.kinds.len(), 2, "they are listed nevertheless: {report:#?}");
}

#[test]
fn refused_triggers_are_no_lost_events() {
    let report = LossReport::of(
        &snapshot(&[
            (Stage::Trigger, &[Unit::Events], |counters| {
                counters.input(Unit::Events, 200);
                counters.output(Unit::Events, 146);
                counters.lost(LossReason::Busy, Unit::Events, 54);
            }),
            (Stage::Record, &[Unit::Events], |counters| counters.output(Unit::Events, 146)),
        ]),
        StageRole::Recording,
    );
    assert_eq!(report.text(), "no events lost");
    let kind = report.kinds[0].to_string();
    assert_eq!(kind, "refused 54 triggers (27.0 %) of left at trigger: busy");
}

#[test]
fn a_fragment_missing_by_sender_and_trigger_numbers_is_counted_once() {
    let missed: Counting = (Stage::Wire, &[Unit::Fragments], |counters| {
        counters.input(Unit::Fragments, 100);
        counters.output(Unit::Fragments, 97);
        counters.lost(LossReason::MissingFragment, Unit::Fragments, 3);
    });
    let dropped: Counting = (Stage::Receive, &[Unit::Datagrams], |counters| {
        counters.input(Unit::Datagrams, 100);
        counters.lost(LossReason::NoBlock, Unit::Datagrams, 3);
    });
    let by_number = LossReport::of(&snapshot(&[missed, dropped]), StageRole::Recording);
    assert_eq!(by_number.text(), "fragments lost: 3 (3.0 %)");
    // The sender also knows of triggers that no board has answered.
    let sent: Counting = (Stage::Sender, &[Unit::Fragments], |counters| {
        counters.input(Unit::Fragments, 400);
        counters.output(Unit::Fragments, 97);
        counters.lost(LossReason::NeverReceived, Unit::Fragments, 303);
    });
    let by_sender = LossReport::of(&snapshot(&[sent, missed, dropped]), StageRole::Recording);
    assert_eq!(by_sender.text(), "fragments lost: 303 (75.8 %)");
    let killed = by_sender.of_killed_run(|_| 0);
    assert_eq!(killed.text(), "fragments lost: unknown, ≥ 303 fragments (≥ 75.8 %)");
}

#[test]
fn fragments_that_an_event_filter_rejects_are_not_among_all_that_there_were() {
    let found: Counting = (Stage::Unpack, &[Unit::Fragments], |counters| {
        counters.output(Unit::Fragments, 300);
    });
    let filtered: Counting = (Stage::Filter, &[Unit::Fragments, Unit::Events], |counters| {
        for unit in [Unit::Fragments, Unit::Events] {
            counters.input(unit, 300);
            counters.filtered(unit, 200);
            counters.output(unit, 100);
        }
    });
    let recorded: Counting = (Stage::Record, &[Unit::Fragments, Unit::Events], |counters| {
        for unit in [Unit::Fragments, Unit::Events] {
            counters.input(unit, 100);
            counters.output(unit, 75);
            counters.lost(LossReason::DiskFull, unit, 25);
        }
    });
    let report = LossReport::of(&snapshot(&[found, filtered, recorded]), StageRole::Recording);
    assert_eq!(report.text(), "fragments lost: 25 (25.0 %); events lost: 25 (25.0 %)");
}

#[test]
fn every_total_of_a_killed_run_is_a_bound() {
    let decoded: Counting = (Stage::Decode, &[Unit::Hits], |counters| counters.output(Unit::Hits, 90));
    let report = LossReport::of(&snapshot(&[decoded]), StageRole::Recording);
    assert_eq!(report.clone().of_killed_run(|_| 9).text(), "hits lost: unknown, ≥ 9 hits (≥ 10.0 %)");
    assert_eq!(report.clone().of_killed_run(|_| 95).text(), "hits lost: unknown, ≥ 95 hits (≥ 100.0 %)");
    let killed = report.of_killed_run(|_| 0);
    assert_eq!(killed.text(), "hits lost: unknown");
    assert!(!killed.totals[0].is_none());
}

#[test]
fn hits_of_an_inhibited_board_were_never_sent() {
    let sent: Counting = (Stage::Sender, &[Unit::Hits], |counters| {
        counters.input(Unit::Hits, 300);
        counters.filtered(Unit::Hits, 200);
        counters.output(Unit::Hits, 90);
        counters.lost(LossReason::NeverReceived, Unit::Hits, 10);
    });
    let report = LossReport::of(
        &snapshot(&[sent, (Stage::Decode, &[Unit::Hits], |counters| counters.output(Unit::Hits, 90))]),
        StageRole::Recording,
    );
    assert_eq!(report.text(), "hits lost: 10 (10.0 %)");
}

#[test]
fn rows_that_files_have_lost_since_are_lost() {
    let decoded: Counting = (Stage::Decode, &[Unit::Hits], |counters| counters.output(Unit::Hits, 90));
    let report = LossReport::of(&snapshot(&[decoded]), StageRole::Recording);
    let whole = report.clone().of_damaged_run(|_| 0);
    assert_eq!(whole, report);
    let damaged = report.of_damaged_run(|total| if total.known.unit == Unit::Hits { 9 } else { 0 });
    assert_eq!(damaged.text(), "hits lost: 9 (10.0 %)");
    let (_, of_source) = &damaged.sources[0];
    assert_eq!(of_source.text, "hits lost: unknown", "which source's they were is not known");
}

#[test]
fn a_damaged_recording_makes_the_number_of_lost_fragments_unknown() {
    let missed: Counting = (Stage::Wire, &[Unit::Fragments], |counters| {
        counters.input(Unit::Fragments, 100);
        counters.output(Unit::Fragments, 97);
        counters.lost(LossReason::MissingFragment, Unit::Fragments, 3);
    });
    let unread: Counting = (Stage::Receive, &[Unit::Bytes], |counters| {
        counters.input(Unit::Bytes, 5000);
        counters.output(Unit::Bytes, 4000);
        counters.lost(LossReason::RecordingDamaged, Unit::Bytes, 1000);
    });
    let report = LossReport::of(&snapshot(&[missed, unread]), StageRole::Recording);
    assert_eq!(report.text(), "fragments lost: unknown, ≥ 3 fragments and ≥ 1000 bytes (≥ 20.0 %)");
}

#[test]
fn bytes_without_a_gap_in_the_numbers_make_the_number_of_lost_events_unknown() {
    let unread: Counting = (Stage::Receive, &[Unit::Bytes], |counters| {
        counters.input(Unit::Bytes, 5000);
        counters.output(Unit::Bytes, 4000);
        counters.lost(LossReason::RecordingDamaged, Unit::Bytes, 1000);
    });
    let found: Counting = (Stage::Unpack, &[Unit::Fragments], |counters| {
        counters.output(Unit::Fragments, 80);
    });
    let built: Counting = (Stage::Build, &[Unit::Events], |counters| counters.output(Unit::Events, 80));
    let recorded: Counting = (Stage::Record, &[Unit::Events], |counters| counters.output(Unit::Events, 80));
    let trigger = |count: fn(&mut Counters)| -> Counting { (Stage::Trigger, &[Unit::Events], count) };
    let report = LossReport::of(&snapshot(&[unread, found, built, recorded]), StageRole::Recording);
    assert_eq!(
        report.text(),
        "fragments lost: unknown, ≥ 1000 bytes (≥ 20.0 %); events lost: unknown, ≥ 1000 bytes (≥ 20.0 %)"
    );
    // A trigger that counts its own knows of each event.
    let counted = trigger(|counters| {
        counters.input(Unit::Events, 80);
        counters.output(Unit::Events, 80);
    });
    let report = LossReport::of(&snapshot(&[counted, unread, found, built, recorded]), StageRole::Recording);
    assert_eq!(report.text(), "fragments lost: unknown, ≥ 1000 bytes (≥ 20.0 %); no events lost");
}

#[test]
fn unseen_triggers_make_the_number_of_lost_events_unknown() {
    let recorded: Counting = (Stage::Record, &[Unit::Events], |counters| counters.output(Unit::Events, 581));
    let found: Counting = (Stage::Unpack, &[Unit::Fragments], |counters| {
        counters.output(Unit::Fragments, 581);
    });
    let built: Counting = (Stage::Build, &[Unit::Events], |counters| {
        counters.output(Unit::Events, 581);
        counters.noted(Noted::Unseen, Unit::Events, 419);
    });
    let report = LossReport::of(&snapshot(&[found, built, recorded]), StageRole::Recording);
    assert_eq!(
        report.text(),
        "fragments lost: unknown, 419 triggers unseen (41.9 %); events lost: unknown, 419 triggers unseen (41.9 %)"
    );
}

#[test]
fn fragments_of_other_triggers_make_the_number_of_lost_events_unknown() {
    // 500 events of two boards, of which this many are missing in events, and this many are far from all of them.
    let text = |boards: [(u64, u64); 2]| {
        let names = ["left", "right", "events"].map(str::to_owned);
        let ledger = Ledger::create(None, &names).expect("memory");
        let publish = |stage, source, unit, count: &dyn Fn(&mut Counters)| {
            let mut counters = Counters::default();
            count(&mut counters);
            ledger.open(stage, SourceId(source), &[unit]).publish(&counters);
        };
        for (source, (missing, far)) in (0..).zip(boards) {
            publish(Stage::Wire, source, Unit::Fragments, &|counters| {
                counters.input(Unit::Fragments, 500);
                counters.output(Unit::Fragments, 500 - missing);
                counters.lost(LossReason::MissingFragment, Unit::Fragments, missing);
            });
            publish(Stage::Build, source, Unit::Fragments, &|counters| {
                counters.input(Unit::Fragments, 500 - missing + far);
                counters.output(Unit::Fragments, 500 - missing);
                counters.lost(LossReason::OutOfWindow, Unit::Fragments, far);
            });
        }
        for stage in [Stage::Build, Stage::Record] {
            publish(stage, 2, Unit::Events, &|counters| counters.output(Unit::Events, 500));
        }
        let report = LossReport::of(&ledger.snapshot(), StageRole::Recording);
        report.total(Unit::Events).expect("events are recorded").text.clone()
    };
    assert_eq!(
        text([(0, 2000), (0, 2000)]),
        "events lost: unknown, ≥ 4000 fragments (≥ 80.0 %) of other triggers"
    );
    // Damaged numbers of fragments that are missing in events, a board that was reset alone, and one with data of a run before.
    for none in [[(0, 0), (0, 0)], [(3, 3), (2, 1)], [(400, 400), (0, 0)], [(0, 0), (0, 30)]] {
        assert_eq!(text(none), "no events lost", "{none:?}");
    }
}

/// The path of the hits of "left" through these stages, one after the other. A stage with a third element is a branch of that stage.
fn path_of(stages: &[(Stage, Unit, Option<Stage>)]) -> Topology {
    use crate::topology::{Counts, Edge, Fan, Marker, SubjectKind, Subjects, Via};
    let mut topology = Topology::of_names(&["left".to_owned()]);
    topology.subjects[0].kind = SubjectKind::Source;
    let mut last: Option<Stage> = None;
    for (stage, unit, beside) in stages {
        let made: &[Unit] = if *stage == Stage::Decode { &[Unit::Hits] } else { &[] };
        topology.nodes.push(Node {
            id: stage.word().to_owned(),
            stage: *stage,
            flow_path: FlowPath::Hits,
            thread: None,
            counts: vec![Counts::of(SourceId(0), &[*unit]).making(made)],
            marker: Marker::PerSubject,
        });
        let from = beside.or(last);
        topology.edges.extend(from.map(|from| Edge {
            from: from.word().to_owned(),
            to: vec![stage.word().to_owned()],
            units: vec![*unit],
            fan: Fan::Copy,
            via: Via::Call,
            subjects: Subjects::Same,
        }));
        last = if beside.is_some() { last } else { Some(*stage) };
    }
    topology
}

#[test]
fn hits_lost_at_an_added_filter_count_and_those_lost_on_a_branch_do_not() {
    let filter = Stage::add("some_filter", "takes hits out").expect("a free slot");
    let sink = Stage::add("some_sink", "takes hits").expect("a free slot");
    let stages = [
        (Stage::Receive, Unit::Bytes, None),
        (Stage::Raw, Unit::Bytes, Some(Stage::Receive)),
        (Stage::Decode, Unit::Hits, None),
        (Stage::Order, Unit::Hits, None),
        (filter, Unit::Hits, None),
        (sink, Unit::Hits, Some(filter)),
        (Stage::Record, Unit::Hits, None),
    ];
    let ledger = Ledger::of(None, std::sync::Arc::new(path_of(&stages))).expect("memory");
    for (stage, unit, _) in stages {
        let mut counters = Counters::default();
        counters.input(unit, 1000);
        let lost = if stage == filter { 7 } else { 100 };
        if stage == filter || stage == sink || stage == Stage::Raw {
            counters.lost(LossReason::WriteFailed, unit, lost);
        }
        if stage == Stage::Record {
            counters.lost(LossReason::DiskFull, unit, 1);
        }
        ledger.open(stage, SourceId(0), &[unit]).publish(&counters);
    }
    let snapshot = ledger.snapshot();
    let both = [SourceId(0)];
    for snapshot in [&snapshot, &snapshot.grouped([("left", &both[..])])] {
        let report = LossReport::of(snapshot, StageRole::Recording);
        assert_eq!(report.text(), "hits lost: 8 (0.80 %)");
        let kinds: Vec<Stage> = report.kinds.iter().map(|kind| kind.stage).collect();
        assert_eq!(kinds, [Stage::Raw, filter, sink, Stage::Record], "including branches, in path order");
    }
}

/// A run that records coincidences alone, the last of which a full disk refused.
const LOST_COINCIDENCES: [Counting; 2] = [
    (Stage::Coincide, &[Unit::Events], |counters| counters.output(Unit::Events, 1000)),
    (Stage::Record, &[Unit::Events], |counters| {
        counters.input(Unit::Events, 1000);
        counters.output(Unit::Events, 624);
        counters.lost(LossReason::DiskFull, Unit::Events, 376);
    }),
];

#[test]
fn lost_coincidences_have_a_total_beside_that_of_built_events() {
    let ledger = snapshot(&LOST_COINCIDENCES);
    assert_eq!(ledger.lost_coincidences(), Some(376));
    assert_eq!(snapshot(&LOST_FRAMES).lost_coincidences(), None);
    let group = [SourceId(0)];
    for ledger in [&ledger, &ledger.grouped([("coincidences", &group[..])])] {
        let report = LossReport::of(ledger, StageRole::Recording);
        assert_eq!(report.text(), "coincidences lost: 376 (37.6 %)");
        assert_eq!(report.total(Unit::Events), None, "no events are built");
    }
    let report = LossReport::of(&ledger, StageRole::Recording);
    let of_coincidences = |total: &LossTotal| u64::from(total.of_coincidences);
    let damaged = report.clone().of_damaged_run(of_coincidences).text();
    assert_eq!(damaged, "coincidences lost: 377 (37.7 %)");
    let killed = report.of_killed_run(of_coincidences);
    assert_eq!(killed.text(), "coincidences lost: unknown, ≥ 377 coincidences (≥ 37.7 %)");
    let words = serde_json::to_string(&killed.totals).expect("JSON");
    assert_eq!(serde_json::from_str::<Vec<LossTotal>>(&words).expect("the same"), killed.totals);
}

#[test]
fn a_ledger_has_the_same_losses_with_and_without_a_topology() {
    let stages = [
        (Stage::Receive, Unit::Bytes, None),
        (Stage::Raw, Unit::Bytes, Some(Stage::Receive)),
        (Stage::Unpack, Unit::Bytes, None),
        (Stage::Decode, Unit::Hits, None),
        (Stage::TimeSlice, Unit::Hits, Some(Stage::Decode)),
        (Stage::Order, Unit::Hits, None),
        (Stage::Record, Unit::Hits, None),
    ];
    for ((lossy, unit, _), kept_by, expected) in [
        (stages[0], StageRole::Recording, "hits lost: unknown, ≥ 10 bytes (≥ 1.0 %)"),
        (stages[1], StageRole::Recording, "no hits lost"),
        (stages[2], StageRole::Recording, "hits lost: unknown, ≥ 10 bytes (≥ 1.0 %)"),
        (stages[3], StageRole::Slices, "hits lost: 10 (1.0 %)"),
        (stages[4], StageRole::Recording, "no hits lost"),
        (stages[4], StageRole::Slices, "hits lost: 10 (1.0 %)"),
        (stages[5], StageRole::Recording, "hits lost: 10 (1.0 %)"),
        (stages[5], StageRole::Slices, "no hits lost"),
    ] {
        let ledger = Ledger::of(None, std::sync::Arc::new(path_of(&stages))).expect("memory");
        for (stage, unit, _) in stages {
            let mut counters = Counters::default();
            counters.input(unit, 1000);
            ledger.open(stage, SourceId(0), &[unit]).publish(&counters);
        }
        let mut snapshot = ledger.snapshot();
        let own = snapshot.slots.iter_mut().find(|slot| slot.stage == lossy).expect("opened");
        own.counters.lost(LossReason::WriteFailed, unit, 10);
        let legacy = LedgerSnapshot { topology: None, legacy: true, ..snapshot.clone() };
        let text = |snapshot: &LedgerSnapshot| LossReport::of(snapshot, kept_by).text();
        assert_eq!(
            [text(&snapshot), text(&legacy)],
            [expected, expected],
            "lost at {lossy}, kept by {kept_by:?}"
        );
    }
}

#[test]
fn what_a_builder_unit_refuses_is_lost_once() {
    use crate::topology::{Counts, Marker, Subject};
    let subject = |name: &str| Subject { name: name.to_owned(), kind: SubjectKind::Unit, parent: None };
    let node = |stage: Stage, number| Node {
        id: format!("{stage} {number}"),
        stage,
        flow_path: FlowPath::Events,
        thread: None,
        counts: vec![Counts::of(SourceId(number), &[Unit::Events, Unit::Fragments]).making(&[Unit::Events])],
        marker: Marker::PerSubject,
    };
    let report = |stages: &[(Stage, u16)]| {
        let topology = Topology {
            subjects: ["ru", "bu"].map(subject).to_vec(),
            nodes: stages.iter().map(|(stage, number)| node(*stage, *number)).collect(),
            ..Topology::default()
        };
        let ledger = Ledger::of(None, std::sync::Arc::new(topology)).expect("memory");
        for (stage, number) in stages {
            let mut counters = Counters::default();
            counters.input(Unit::Fragments, 100);
            counters.lost(LossReason::LateFragment, Unit::Fragments, 5);
            if *stage == Stage::Ship {
                // Its parts of so many events, of which others may have lost theirs, too.
                counters.input(Unit::Events, 20);
                counters.lost(LossReason::LateFragment, Unit::Events, 1);
            }
            ledger.open(*stage, SourceId(*number), &[Unit::Events, Unit::Fragments]).publish(&counters);
        }
        let report = LossReport::of(&ledger.snapshot(), StageRole::Recording);
        let stages: Vec<Stage> = report.kinds.iter().map(|kind| kind.stage).collect();
        (report.total(Unit::Fragments).map(|total| total.known.count), stages)
    };
    assert_eq!(report(&[(Stage::Ship, 0), (Stage::Build, 1)]), (Some(5), vec![Stage::Ship]));
    assert_eq!(
        report(&[(Stage::Build, 1)]),
        (None, vec![Stage::Build]),
        "readout units elsewhere have lost them"
    );
}

/// So many datagrams came, and so many of them the disk did not take.
const RAW: Counting = (Stage::Raw, &[Unit::Datagrams, Unit::Bytes], |counters| {
    for (unit, came, lost) in [(Unit::Datagrams, 300, 60), (Unit::Bytes, 300_000, 60_000)] {
        counters.input(unit, came);
        counters.output(unit, came - lost);
        counters.lost(LossReason::DiskFull, unit, lost);
    }
});

#[test]
fn raw_bytes_that_the_disk_did_not_take_are_lost_hits_where_these_are_in_no_table() {
    let received: Counting =
        (Stage::Receive, &[Unit::Datagrams, Unit::Bytes], |counters| counters.output(Unit::Datagrams, 300));
    let decoded: Counting = (Stage::Decode, &[Unit::Hits], |counters| counters.output(Unit::Hits, 9000));
    let recorded: Counting = (Stage::Record, &[Unit::Hits], |counters| counters.output(Unit::Hits, 9000));
    let slots = snapshot(&[received, RAW, decoded, recorded]);
    assert_eq!(LossReport::of(&slots, StageRole::Recording).text(), "no hits lost", "they are in a table");
    let raw_alone = DataKept { hits: Kept::RawBytes, ..DataKept::default() };
    let report = LossReport::of(&slots, raw_alone);
    assert_eq!(report.text(), "hits lost: unknown, ≥ 60 datagrams (≥ 20.0 %)");
    let of_source = report.of_source(SourceId(0)).expect("it has hits");
    assert_eq!((of_source.text.as_str(), of_source.known_lost()), (report.text().as_str(), None));
    let gone = DataKept { raw_bytes_missing: 90_000, ..raw_alone };
    assert_eq!(LossReport::of(&slots, gone).text(), "hits lost: unknown, ≥ 150000 bytes (≥ 50.0 %)");
}

#[test]
fn raw_bytes_that_the_disk_did_not_take_are_lost_events_where_these_are_in_no_table() {
    let found: Counting =
        (Stage::Unpack, &[Unit::Fragments], |counters| counters.output(Unit::Fragments, 1000));
    let built: Counting = (Stage::Build, &[Unit::Events], |counters| counters.output(Unit::Events, 1000));
    let recorded: Counting = (Stage::Record, &[Unit::Events], |counters| counters.output(Unit::Events, 1000));
    let slots = snapshot(&[RAW, found, built, recorded]);
    let text = |fragments, events| {
        LossReport::of(&slots, DataKept { fragments, events, ..DataKept::default() }).text()
    };
    let lost = "lost: unknown, ≥ 60 datagrams (≥ 20.0 %)";
    assert_eq!(text(Kept::Rows, Kept::Rows), "no fragments lost; no events lost");
    assert_eq!(text(Kept::Rows, Kept::RawBytes), format!("no fragments lost; events {lost}"));
    assert_eq!(text(Kept::RawBytes, Kept::RawBytes), format!("fragments {lost}; events {lost}"));
}

/// A run that keeps its hits in time slices: 1000 hits of 100 in each; of the slices, the filter rejects 2, and 1 is lost on the disk.
fn sliced() -> LedgerSnapshot {
    let ledger = Ledger::create(None, &["left".to_owned(), "left/slices".to_owned()]).expect("memory");
    let open = |stage, source, units, count: &dyn Fn(&mut Counters)| {
        let mut counters = Counters::default();
        count(&mut counters);
        ledger.open(stage, SourceId(source), units).publish(&counters);
    };
    let hits = |counters: &mut Counters| counters.output(Unit::Hits, 1000);
    open(Stage::Decode, 0, &[Unit::Hits], &hits);
    open(Stage::TimeSlice, 0, &[Unit::Hits], &hits);
    let slices = |out: u64, filtered: u64, lost: u64| {
        move |counters: &mut Counters| {
            for (unit, each) in [(Unit::Fragments, 1), (Unit::Bytes, 100 * SLICED_HIT_BYTES)] {
                counters.input(unit, (out + filtered + lost) * each);
                counters.output(unit, out * each);
                counters.filtered(unit, filtered * each);
                counters.lost(LossReason::DiskFull, unit, lost * each);
            }
        }
    };
    const UNITS: &[Unit] = &[Unit::Fragments, Unit::Bytes];
    open(Stage::Build, 1, UNITS, &slices(10, 0, 0));
    open(Stage::Filter, 1, UNITS, &slices(8, 2, 0));
    open(Stage::Record, 1, UNITS, &slices(7, 0, 1));
    ledger.snapshot()
}

#[test]
fn hits_in_time_slices_are_recorded_left_out_and_lost_with_these() {
    let (snapshot, kept) = (sliced(), DataKept::from(StageRole::Slices));
    assert_eq!((kept.hits_recorded(&snapshot), kept.hits_left_out(&snapshot)), (Some(700), Some(200)));
    let text = |snapshot: &LedgerSnapshot| {
        let report = LossReport::of(snapshot, kept);
        report.total(Unit::Hits).expect("the run has hits").text.clone()
    };
    assert_eq!(text(&snapshot), "hits lost: 100 (10.0 %)");
    let sources = [SourceId(0), SourceId(1)];
    let grouped = snapshot.grouped([("left", &sources[..])]);
    assert_eq!(text(&grouped), "hits lost: 100 (10.0 %)");
    let of_source = LossReport::of(&grouped, kept);
    assert_eq!(of_source.of_source(SourceId(0)).map(|total| total.known.count), Some(100));
    let in_a_table = LossReport::of(&snapshot, StageRole::Recording);
    assert_eq!(in_a_table.total(Unit::Hits).map(LossTotal::is_none), Some(true));
}

#[test]
fn where_no_hits_are_kept_all_that_came_are_taken_and_none_is_left_out() {
    let recording = |out: u64, filtered: u64| {
        let ledger = Ledger::create(None, &["left".to_owned()]).expect("memory");
        let mut counters = Counters::default();
        counters.input(Unit::Hits, out + filtered);
        counters.output(Unit::Hits, out);
        counters.filtered(Unit::Hits, filtered);
        ledger.open(Stage::Record, SourceId(0), &[Unit::Hits]).publish(&counters);
        ledger.snapshot()
    };
    let counted = |hits, snapshot: &LedgerSnapshot| {
        let kept = DataKept { hits, ..DataKept::default() };
        (kept.hits_recorded(snapshot), kept.hits_left_out(snapshot))
    };
    assert_eq!(counted(Kept::Rows, &recording(700, 300)), (Some(700), Some(300)));
    assert_eq!(counted(Kept::Nothing, &recording(0, 1000)), (Some(1000), None));
    assert_eq!(counted(Kept::Nothing, &recording(0, 0)), (None, None), "a run without hits");
    assert_eq!(counted(Kept::Rows, &snapshot(&[])), (None, None));
}

#[test]
fn lost_events_of_a_killed_run_are_a_fraction_of_all_that_came() {
    let recorded: Counting = (Stage::Record, &[Unit::Events], |counters| {
        counters.input(Unit::Events, 150);
        counters.output(Unit::Events, 50);
        counters.set_held(Unit::Events, 100);
    });
    let report = LossReport::of(&snapshot(&[recorded]), StageRole::Recording).of_killed_run(|_| 100);
    assert_eq!(report.text(), "events lost: unknown, ≥ 100 events (≥ 66.7 %)");
    assert_eq!(report.totals[0].known.of, 150);
}

/// The report of two boards that share a link, which has lost a block whose board nobody can read. So many fragments of the first board are
/// missing by the trigger numbers of the other one.
fn of_shared_link(missing: u64, lose: fn(&mut Counters)) -> LossReport {
    use crate::topology::{Counts, Marker};
    const OF_LINK: [Unit; 3] = [Unit::Bytes, Unit::Frames, Unit::Fragments];
    const FRAGMENTS: [Unit; 1] = [Unit::Fragments];
    let mut topology = Topology::of_names(&["left", "right", "link"].map(str::to_owned));
    topology.subjects[2].kind = SubjectKind::Link;
    topology.subjects[..2].iter_mut().for_each(|board| board.parent = Some(2));
    let counting = [
        (Stage::Wire, Counts::of_each(0..2, &FRAGMENTS)),
        (Stage::Unpack, Counts::of_each(0..2, &FRAGMENTS).making(&FRAGMENTS)),
        (Stage::Unpack, Counts::of(SourceId(2), &OF_LINK).making(&FRAGMENTS)),
    ];
    let node = |(stage, counts): (Stage, Counts)| Node {
        id: format!("{stage} {}", counts.first),
        stage,
        flow_path: FlowPath::Events,
        thread: None,
        counts: vec![counts],
        marker: Marker::PerSubject,
    };
    topology.nodes.extend(counting.map(node));
    let ledger = Ledger::of(None, std::sync::Arc::new(topology)).expect("memory");
    let mut link = Counters::default();
    lose(&mut link);
    ledger.open(Stage::Unpack, SourceId(2), &OF_LINK).publish(&link);
    for (board, missing) in [(0, missing), (1, 0)] {
        let (mut wire, mut found) = (Counters::default(), Counters::default());
        wire.input(Unit::Fragments, 100);
        wire.output(Unit::Fragments, 100 - missing);
        wire.lost(LossReason::MissingFragment, Unit::Fragments, missing);
        found.input(Unit::Fragments, 100 - missing);
        found.output(Unit::Fragments, 100 - missing);
        ledger.open(Stage::Wire, SourceId(board), &FRAGMENTS).publish(&wire);
        ledger.open(Stage::Unpack, SourceId(board), &FRAGMENTS).publish(&found);
    }
    LossReport::of(&ledger.snapshot(), StageRole::Recording)
}

#[test]
fn a_fragment_that_a_shared_link_has_lost_is_counted_once() {
    let text = |missing, lose| of_shared_link(missing, lose).text();
    let cut_off = |link: &mut Counters| {
        link.input(Unit::Fragments, 1);
        link.noted(Noted::CutOff, Unit::Fragments, 1);
        link.lost(LossReason::Unfinished, Unit::Fragments, 1);
    };
    assert_eq!(text(0, |_| ()), "no fragments lost");
    assert_eq!(text(0, cut_off), "fragments lost: 1 (0.50 %)", "no board has gone on behind it");
    assert_eq!(text(1, cut_off), "fragments lost: 1 (0.50 %)", "it is the one that is missing");
    assert_eq!(text(3, cut_off), "fragments lost: 3 (1.5 %)");
    let kinds = of_shared_link(0, cut_off).kinds;
    assert_eq!(kinds[0].what(), "lost 1 fragments (0.50 %) of link at unpack: unfinished");
    let bytes = |link: &mut Counters| {
        link.input(Unit::Bytes, 100);
        link.lost(LossReason::Resynchronised, Unit::Bytes, 2);
    };
    assert_eq!(text(0, bytes), "fragments lost: unknown, ≥ 2 bytes (≥ 2.0 %)");
    assert_eq!(text(1, bytes), "fragments lost: 1 (0.50 %)");
}
