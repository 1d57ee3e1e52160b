use std::sync::Arc;

use super::*;
use crate::ledger::{CounterSnapshot, Counters, Ledger, LedgerSnapshot, LossReason, Noted};

fn node(id: &str, stage: Stage, counts: Counts) -> Node {
    Node {
        id: id.to_owned(),
        stage,
        flow_path: FlowPath::Hits,
        thread: None,
        counts: vec![counts],
        marker: Marker::PerSubject,
    }
}

/// A source whose decoded hits have two takers, and a link with two boards whose fragments are built.
fn topology() -> Topology {
    let subject = |name: &str, kind, parent| Subject { name: name.to_owned(), kind, parent };
    let edge = |from: &str, to: &[&str], unit, fan, subjects| Edge {
        from: from.to_owned(),
        to: to.iter().map(|id| (*id).to_owned()).collect(),
        units: vec![unit],
        fan,
        via: Via::Call,
        subjects,
    };
    Topology {
        subjects: vec![
            subject("a", SubjectKind::Source, None),
            subject("link/0", SubjectKind::Board, Some(3)),
            subject("link/1", SubjectKind::Board, Some(3)),
            subject("link", SubjectKind::Link, None),
        ],
        nodes: vec![
            node("decode a", Stage::Decode, Counts::of(SourceId(0), &[Unit::Hits]).making(&[Unit::Hits])),
            node("order a", Stage::Order, Counts::of(SourceId(0), &[Unit::Hits])),
            node("slice a", Stage::TimeSlice, Counts::of(SourceId(0), &[Unit::Hits])),
            node("unpack link", Stage::Unpack, Counts::of(SourceId(3), &[Unit::Bytes])),
            node("build link", Stage::Build, Counts::of_each(1..3, &[Unit::Bytes])),
        ],
        edges: vec![
            edge("decode a", &["order a", "slice a"], Unit::Hits, Fan::Copy, Subjects::Same),
            edge("unpack link", &["build link"], Unit::Bytes, Fan::Copy, Subjects::Children),
        ],
        ..Topology::default()
    }
}

/// A snapshot in which each of these slots passes on all that comes in.
fn snapshot(topology: Topology, counts: &[(Stage, u16, Unit, u64)]) -> LedgerSnapshot {
    let ledger = Ledger::of(None, Arc::new(topology)).expect("memory");
    for (stage, source, unit, count) in counts {
        let mut counters = Counters::default();
        counters.input(*unit, *count);
        counters.output(*unit, *count);
        ledger.open(*stage, SourceId(*source), &[*unit]).publish(&counters);
    }
    ledger.snapshot()
}

const WHOLE: [(Stage, u16, Unit, u64); 6] = [
    (Stage::Decode, 0, Unit::Hits, 50),
    (Stage::Order, 0, Unit::Hits, 50),
    (Stage::TimeSlice, 0, Unit::Hits, 50),
    (Stage::Unpack, 3, Unit::Bytes, 300),
    (Stage::Build, 1, Unit::Bytes, 100),
    (Stage::Build, 2, Unit::Bytes, 200),
];

#[test]
fn the_output_of_a_node_is_the_input_of_each_taker() {
    assert_eq!(snapshot(topology(), &WHOLE).discrepancies(), []);
    for (index, equation) in [
        (1, "hits out of decode = into order"),
        (2, "into time_slice"),
        (5, "bytes out of unpack = into build"),
    ] {
        let mut wrong = WHOLE;
        wrong[index].3 += 1;
        let found: Vec<String> =
            snapshot(topology(), &wrong).discrepancies().iter().map(ToString::to_string).collect();
        assert!(found.len() == 1 && found[0].contains(equation), "{found:?}");
    }
}

#[test]
fn split_output_is_the_input_of_all_takers_together() {
    let mut split = topology();
    split.edges[0].fan = Fan::Split;
    let mut counts = WHOLE;
    (counts[1].3, counts[2].3) = (20, 30);
    assert_eq!(snapshot(split.clone(), &counts).discrepancies(), []);
    counts[2].3 = 31;
    assert_eq!(snapshot(split, &counts).discrepancies().len(), 1);
}

#[test]
fn units_made_in_a_stage_balance_except_in_older_recordings() {
    let found = |legacy| {
        let snapshot = LedgerSnapshot { legacy, ..snapshot(topology(), &WHOLE) };
        let mut slots = snapshot.slots.clone();
        slots[0].counters.lost(LossReason::ZeroWords, Unit::Hits, 1);
        LedgerSnapshot { slots, ..snapshot }.discrepancies().len()
    };
    assert_eq!(found(false), 1, "a hit was lost that was not made");
    assert_eq!(found(true), 0, "units made were not counted then");
}

#[test]
fn each_board_of_an_event_has_a_fragment_or_is_missing() {
    let of = |id: &str, stage, first, subjects, units: &[Unit]| {
        node(id, stage, Counts::of_each(first..first + subjects, units))
    };
    let subject = |name: &str| Subject { name: name.to_owned(), kind: SubjectKind::Board, parent: None };
    let topology = Topology {
        subjects: ["a", "b", "events"].map(subject).to_vec(),
        nodes: vec![
            of("wire boards", Stage::Wire, 0, 2, &[Unit::Fragments]),
            of("build boards", Stage::Build, 0, 2, &[Unit::Fragments]),
            of("build events", Stage::Build, 2, 1, &[Unit::Events]),
        ],
        builders: vec![Builder {
            events: "build events".to_owned(),
            fragments: "build boards".to_owned(),
            wires: vec!["wire boards".to_owned()],
            notes_numbers: false,
        }],
        ..Topology::default()
    };
    let ledger = Ledger::of(None, Arc::new(topology)).expect("memory");
    let publish = |stage, source, unit, [built, lost]: [u64; 2], reason| {
        let mut counters = Counters::default();
        counters.input(unit, built + lost);
        counters.output(unit, built);
        counters.lost(reason, unit, lost);
        ledger.open(stage, SourceId(source), &[unit]).publish(&counters);
    };
    // Ten events are passed on and one is dropped; board b is missing in two of the ten and in the dropped one.
    publish(Stage::Wire, 0, Unit::Fragments, [11, 0], LossReason::MissingFragment);
    publish(Stage::Wire, 1, Unit::Fragments, [8, 3], LossReason::MissingFragment);
    publish(Stage::Build, 0, Unit::Fragments, [10, 1], LossReason::Incomplete);
    publish(Stage::Build, 1, Unit::Fragments, [8, 0], LossReason::Incomplete);
    publish(Stage::Build, 2, Unit::Events, [10, 1], LossReason::Incomplete);
    let mut snapshot = ledger.snapshot();
    assert_eq!(snapshot.discrepancies(), []);
    let events = snapshot.slots.iter_mut().find(|slot| slot.source == SourceId(2)).expect("built");
    events.counters.input(Unit::Events, 1);
    events.counters.output(Unit::Events, 1);
    let found = snapshot.discrepancies();
    assert_eq!(found.len(), 1);
    let words = found[0].to_string();
    assert_eq!(words, "events: boards × events = fragments in events + fragments missing: 24 against 22");
    snapshot.at_a_marker = true;
    assert_eq!(snapshot.discrepancies(), [], "at a marker, the counter slots are of different moments");
}

#[test]
fn every_trigger_is_an_event_or_unseen() {
    let of = |id: &str, stage, subject| node(id, stage, Counts::of(SourceId(subject), &[Unit::Events]));
    let subject = |name: &str| Subject { name: name.to_owned(), kind: SubjectKind::Events, parent: None };
    let topology = Topology {
        subjects: ["events", "unit"].map(subject).to_vec(),
        nodes: vec![of("trigger events", Stage::Trigger, 0), of("build unit", Stage::Build, 1)],
        edges: vec![Edge {
            from: "trigger events".to_owned(),
            to: vec!["build unit".to_owned()],
            units: vec![Unit::Events],
            fan: Fan::Copy,
            via: Via::Network,
            subjects: Subjects::Whole,
        }],
        builders: vec![Builder {
            events: "build unit".to_owned(),
            fragments: "build unit".to_owned(),
            wires: Vec::new(),
            notes_numbers: true,
        }],
        ..Topology::default()
    };
    let found = |accepted, built, unseen, numbers, at_a_marker| -> Vec<String> {
        let ledger = Ledger::of(None, Arc::new(topology.clone())).expect("memory");
        let publish = |stage, source, events, notes: [u64; 2]| {
            let mut counters = Counters::default();
            counters.input(Unit::Events, events);
            counters.output(Unit::Events, events);
            counters.noted(Noted::Unseen, Unit::Events, notes[0]);
            counters.noted(Noted::Numbers, Unit::Events, notes[1]);
            ledger.open(stage, SourceId(source), &[Unit::Events]).publish(&counters);
        };
        publish(Stage::Trigger, 0, accepted, [0, 0]);
        publish(Stage::Build, 1, built, [unseen, numbers]);
        let snapshot = LedgerSnapshot { at_a_marker, ..ledger.snapshot() };
        snapshot.discrepancies().iter().map(ToString::to_string).collect()
    };
    assert_eq!(found(100, 90, 10, 100, false), [""; 0]);
    assert_eq!(
        found(101, 90, 10, 100, false),
        ["events: events out of trigger = into build + unseen: 101 against 100"]
    );
    assert_eq!(
        found(100, 90, 10, 99, false),
        ["unit: trigger numbers from the first to the last = events + triggers unseen: 99 against 100"]
    );
    assert_eq!(found(101, 90, 3, 90, true), [""; 0], "unseen triggers are noted later");
}

/// Two boards, a readout unit and a builder unit in one process.
fn units_of_one_process() -> Topology {
    let subject = |name: &str, kind| Subject { name: name.to_owned(), kind, parent: None };
    let fragments = &[Unit::Fragments];
    let of_boards = |subjects| Counts { subjects, ..Counts::of(SourceId(0), fragments) };
    let one = |id: &str| vec![id.to_owned()];
    let sum = |from: &str, to: &str| Sum {
        from: one(from),
        to: one(to),
        units: fragments.to_vec(),
        is_acknowledged: from == "ship ru",
    };
    Topology {
        subjects: vec![
            subject("a", SubjectKind::Board),
            subject("b", SubjectKind::Board),
            subject("ru", SubjectKind::Unit),
            subject("bu", SubjectKind::Unit),
        ],
        nodes: vec![
            node("build ru/fragments", Stage::Build, of_boards(2)),
            node("ship ru", Stage::Ship, Counts::of(SourceId(2), fragments)),
            node("build bu", Stage::Build, Counts::of(SourceId(3), fragments)),
            node("record fragments", Stage::Record, of_boards(2)),
        ],
        edges: vec![Edge {
            units: fragments.to_vec(),
            via: Via::Peer,
            ..over_network(("build ru/fragments", "record fragments"))
        }],
        sums: vec![
            sum("build ru/fragments", "ship ru"),
            sum("ship ru", "build bu"),
            sum("build bu", "record fragments"),
        ],
        ..Topology::default()
    }
}

#[test]
fn what_units_lose_is_in_the_sum_over_all_boards() {
    let topology = units_of_one_process();
    // Fragments that came too late for the builder unit, and those that it says to have and the readout unit has not lost.
    let of_run = |[late, missing]: [u64; 2], recorded: [u64; 2], at_a_marker| -> Vec<String> {
        let ledger = Ledger::of(None, Arc::new(topology.clone())).expect("memory");
        let publish = |stage, source, count, lost| {
            let mut counters = Counters::default();
            counters.input(Unit::Fragments, count);
            counters.output(Unit::Fragments, count - lost);
            counters.lost(LossReason::LateFragment, Unit::Fragments, lost);
            ledger.open(stage, SourceId(source), &[Unit::Fragments]).publish(&counters);
        };
        publish(Stage::Build, 0, 9, 0);
        publish(Stage::Build, 1, 5, 0);
        publish(Stage::Ship, 2, 14, late);
        publish(Stage::Build, 3, 14, late + missing);
        publish(Stage::Record, 0, recorded[0], 0);
        publish(Stage::Record, 1, recorded[1], 0);
        let snapshot = LedgerSnapshot { at_a_marker, ..ledger.snapshot() };
        snapshot.discrepancies().iter().map(ToString::to_string).collect()
    };
    assert_eq!(of_run([0, 0], [9, 5], false), [""; 0]);
    assert_eq!(of_run([3, 0], [7, 4], false), [""; 0], "whose fragments came too late is not known");
    assert_eq!(
        of_run([2, 1], [7, 4], false),
        ["ru: fragments out of ship ≤ out of build, all together: 12 against 11"],
        "one was acknowledged, and is nowhere"
    );
    assert_eq!(
        of_run([2, 0], [7, 4], false),
        ["bu: fragments out of build = into record, all together: 12 against 11"],
        "one of them is nowhere"
    );
    assert_eq!(of_run([0, 0], [10, 2], true), [""; 0], "units are at different moments");
}

#[test]
fn an_edge_to_another_process_is_not_checked() {
    let mut peer = topology();
    peer.edges.iter_mut().for_each(|edge| edge.via = Via::Peer);
    let mut wrong = WHOLE;
    wrong[1].3 = 7;
    assert_eq!(snapshot(peer, &wrong).discrepancies(), []);
}

#[test]
fn counter_slots_opened_otherwise_than_declared_are_faults() {
    let ledger = Ledger::of(None, Arc::new(topology())).expect("memory");
    for (stage, source, unit, _) in &WHOLE[1..] {
        drop(ledger.open(*stage, SourceId(*source), &[*unit]));
    }
    let faults = ledger.claim_faults(&[Marker::PerSubject]);
    assert_eq!(faults, ["decode a: the counter slot of a is declared and was not opened"]);
    assert_eq!(ledger.claim_faults(&[Marker::End]), [""; 0], "nothing is declared for the end");
    drop(ledger.open(Stage::Decode, SourceId(0), &[Unit::Hits, Unit::Frames]));
    drop(ledger.open(Stage::Order, SourceId(0), &[Unit::Hits]));
    drop(ledger.open(Stage::Ship, SourceId(0), &[Unit::Events]));
    let faults = ledger.claim_faults(&[Marker::PerSubject]).join("; ");
    for word in [
        "decode a: counts frames of a",
        "order a: the counter slot of a is opened twice",
        "ship of a: opened and not declared",
    ] {
        assert!(faults.contains(word), "{word} in {faults}");
    }
}

#[test]
fn a_claim_has_the_declared_units_and_an_undeclared_claim_is_a_fault() {
    let ledger = Ledger::of(None, Arc::new(topology())).expect("memory");
    let mut counters = Counters::default();
    counters.output(Unit::Hits, 50);
    ledger.claim("decode a", SourceId(0)).publish(&counters);
    for (node, subject) in [("decode b", 0), ("decode a", 3)] {
        let nobody = ledger.claim(node, SourceId(subject));
        nobody.publish(&counters);
        nobody.snapshot(1, &counters);
    }
    let slots = ledger.snapshot().slots;
    assert_eq!(slots.len(), 1, "undeclared counts are discarded: {slots:?}");
    let CounterSnapshot { stage, source, units, .. } = slots[0];
    assert_eq!((stage, source, units), (Stage::Decode, SourceId(0), 1 << Unit::Hits as u32));
    let faults = ledger.claim_faults(&[]);
    assert_eq!(
        faults,
        ["decode b of a: opened and not declared", "decode a of link: opened and not declared"]
    );
    drop(ledger.claim_of("order a", SourceId(0), &[Unit::Frames]));
    let faults = ledger.claim_faults(&[]).join("; ");
    for words in
        ["counts frames of a, which are not declared", "does not count hits of a, which are declared"]
    {
        assert!(faults.contains(words), "{words} in {faults}");
    }
}

#[test]
fn a_topology_answers_queries_for_makers_takers_and_groups() {
    let topology = topology();
    let ids = |nodes: Vec<&Node>| nodes.iter().map(|node| node.id.clone()).collect::<Vec<_>>();
    let makers: Vec<&Node> = topology.makers(Unit::Hits).collect();
    assert_eq!(ids(topology.takers(&makers, Unit::Hits)), ["order a", "slice a"]);
    assert_eq!(ids(makers), ["decode a"]);
    assert!(topology.is_made(Unit::Hits, Stage::Decode, SourceId(0)));
    assert!(!topology.is_made(Unit::Hits, Stage::Order, SourceId(0)));
    let leading_to =
        |id: &str| topology.leading_to(topology.node(id).into_iter()).into_iter().collect::<Vec<_>>();
    assert_eq!(leading_to("order a"), ["decode a", "order a"]);
    assert_eq!(leading_to("decode a"), ["decode a"]);
    let one = [SourceId(1), SourceId(2), SourceId(3)];
    let grouped = topology.grouped(&[("a", &[SourceId(0)]), ("link", &one)]);
    assert_eq!(grouped.names(), ["a", "link"]);
    assert_eq!(grouped.nodes.len(), 5, "a node of each group and stage: {:?}", grouped.nodes);
    let node = |stage| grouped.counting(stage, SourceId(1)).map(|(node, _)| node).expect("it counts");
    let behind = grouped.takers(&[node(Stage::Unpack)], Unit::Bytes);
    assert_eq!(behind, [node(Stage::Build)], "a link and its boards are one");
    assert!(grouped.is_made(Unit::Hits, Stage::Decode, SourceId(0)));
    assert_eq!(grouped.faults(), [""; 0]);
}

#[test]
fn duplicate_and_unknown_names_are_faults() {
    assert_eq!(topology().faults(), [""; 0]);
    let mut wrong = topology();
    wrong.nodes.push(wrong.nodes[0].clone());
    wrong.edges[0].to.push("nowhere".to_owned());
    wrong.nodes[1].thread = Some("nobody".to_owned());
    assert_eq!(
        wrong.faults(),
        ["two nodes are called decode a", "no node is called nowhere", "no thread is called nobody"]
    );
}

#[test]
fn a_ledger_file_contains_its_topology() {
    let folder = tempfile::tempdir().expect("temporary folder");
    let path = folder.path().join("ledger.bin");
    let ledger = Ledger::of(Some(&path), Arc::new(topology())).expect("fresh file");
    let mut counters = Counters::default();
    counters.output(Unit::Hits, 5);
    ledger.open(Stage::Decode, SourceId(0), &[Unit::Hits]).publish(&counters);
    let read = Ledger::read_file(&path).expect("a ledger");
    assert_eq!(read, ledger.snapshot());
    assert_eq!(read.topology.as_deref(), Some(&topology()));
}

#[test]
fn a_ledger_file_whose_topology_has_unknown_names_is_refused() {
    let folder = tempfile::tempdir().expect("temporary folder");
    let path = folder.path().join("ledger.bin");
    let mut topology = topology();
    topology.edges[1].fan = Fan::Split;
    let ledger = Ledger::of(Some(&path), Arc::new(topology)).expect("fresh file");
    ledger.open(Stage::Unpack, SourceId(3), &[Unit::Bytes]).publish(&Counters::default());
    assert_eq!(Ledger::read_file(&path).expect("a ledger").discrepancies(), []);
    let mut bytes = std::fs::read(&path).expect("readable");
    let name = b"[\"build link\"]";
    let place = bytes.windows(name.len()).position(|there| there == name).expect("the edge's taker");
    bytes[place + 2] ^= 1;
    std::fs::write(&path, bytes).expect("writable");
    let error = Ledger::read_file(&path).map(drop).expect_err("a wrong topology").to_string();
    assert!(error.contains("no node is called cuild link"), "{error}");
}

#[test]
fn an_edge_to_unknown_nodes_has_no_equation() {
    let mut topology = topology();
    topology.edges[1].fan = Fan::Split;
    for to in [vec!["nowhere".to_owned()], Vec::new()] {
        topology.edges[1].to = to;
        let ledger = Ledger::of(None, Arc::new(topology.clone())).expect("memory");
        ledger.open(Stage::Unpack, SourceId(3), &[Unit::Bytes]).publish(&Counters::default());
        assert_eq!(ledger.snapshot().discrepancies(), []);
    }
}

#[test]
fn a_ledger_of_version_1_is_read_with_its_edges() {
    let folder = tempfile::tempdir().expect("temporary folder");
    let path = folder.path().join("ledger.bin");
    // One line for the header, one for the name. Each counter slot has one for its units, then in, out, overhead, filtered, held and the
    // losses of each unit. There are no notes.
    let row = 5 + crate::LossReason::COUNT;
    let cells = Unit::COUNT * row;
    let slot = 8 + cells.next_multiple_of(8);
    // Spectra, the last listed stage, had no counts.
    let stages = Stage::COUNT - 1;
    let mut words = vec![0u64; 16 + stages * slot];
    words[0] = u64::from_le_bytes(*b"THALEDGR");
    words[1..5].copy_from_slice(&[1, 1, stages as u64, cells as u64]);
    words[8] = u64::from(b'a');
    for (stage, hits) in [(Stage::Order, 50), (Stage::Record, 49)] {
        let first = 16 + stage.index() * slot;
        words[first] = 1 << Unit::Hits as u32;
        words[first + 8 + Unit::Hits as usize * row..][..2].fill(hits);
    }
    let bytes: Vec<u8> = words.iter().flat_map(|word| word.to_ne_bytes()).collect();
    std::fs::write(&path, bytes).expect("writable");
    let snapshot = Ledger::read_file(&path).expect("version 1");
    assert_eq!(snapshot.topology, None);
    let found: Vec<String> = snapshot.discrepancies().iter().map(ToString::to_string).collect();
    assert_eq!(found, ["a: hits out of order = into record: 50 against 49"]);
}

#[test]
fn a_ledger_with_another_order_of_cells_is_read_by_name() {
    let folder = tempfile::tempdir().expect("temporary folder");
    let path = folder.path().join("ledger.bin");
    let ledger = Ledger::create(Some(&path), &["a".to_owned()]).expect("fresh file");
    let mut counters = Counters::default();
    counters.lost(crate::LossReason::Late, Unit::Hits, 3);
    ledger.open(Stage::Order, SourceId(0), &[Unit::Hits]).publish(&counters);
    // Two names of equal length are exchanged, and so are the meanings of their cells.
    let text = std::fs::read(&path).expect("readable");
    let swapped = replaced(
        &replaced(&replaced(&text, b"\"late\"", b"\"****\""), b"\"busy\"", b"\"late\""),
        b"\"****\"",
        b"\"busy\"",
    );
    std::fs::write(&path, swapped).expect("writable");
    let snapshot = Ledger::read_file(&path).expect("a ledger");
    assert_eq!(snapshot.slots[0].counters.total_lost(crate::LossReason::Busy, Unit::Hits), 3);
    std::fs::write(&path, replaced(&text, b"\"late\"", b"\"rust\"")).expect("writable");
    // A reason that this program does not know is read by its name.
    let unknown = Ledger::read_file(&path).expect("a ledger").entries();
    assert_eq!(unknown[0].lost.get("rust"), Some(&3), "{unknown:?}");
    std::fs::write(&path, replaced(&text, b"\"late\"", b"\"****\"")).expect("writable");
    let message = Ledger::read_file(&path).expect_err("not a name").to_string();
    assert!(message.contains("`****` is not a valid name in the ledger"), "{message}");
}

fn replaced(bytes: &[u8], from: &[u8], to: &[u8]) -> Vec<u8> {
    let start = bytes.windows(from.len()).position(|window| window == from).expect("the name is there");
    [&bytes[..start], to, &bytes[start + from.len()..]].concat()
}

fn over_network((from, to): (&str, &str)) -> Edge {
    Edge {
        from: from.to_owned(),
        to: vec![to.to_owned()],
        units: vec![Unit::Hits],
        fan: Fan::Copy,
        via: Via::Network,
        subjects: Subjects::Same,
    }
}

#[test]
fn sent_hits_arrive_or_are_missing_on_the_wire() {
    let of = |id: &str, stage| node(id, stage, Counts::of(SourceId(0), &[Unit::Hits]));
    let topology = Topology {
        subjects: vec![Subject { name: "a".to_owned(), kind: SubjectKind::Source, parent: None }],
        nodes: vec![of("sender a", Stage::Sender), of("wire a", Stage::Wire), of("decode a", Stage::Decode)],
        edges: [("sender a", "wire a"), ("wire a", "decode a")].map(over_network).into(),
        ..Topology::default()
    };
    let found = |sent: Option<u64>, [came, missing]: [u64; 2], decoded, uncounted| -> Vec<String> {
        let ledger = Ledger::of(None, Arc::new(topology.clone())).expect("memory");
        let publish = |stage, [came, lost]: [u64; 2], reason, uncounted| {
            let mut counters = Counters::default();
            counters.input(Unit::Hits, came + lost);
            counters.output(Unit::Hits, came);
            counters.lost(reason, Unit::Hits, lost);
            counters.noted(Noted::Uncounted, Unit::Frames, uncounted);
            ledger.open(stage, SourceId(0), &[Unit::Hits]).publish(&counters);
        };
        if let Some(sent) = sent {
            publish(Stage::Sender, [sent, 7], LossReason::NeverReceived, 0);
        }
        publish(Stage::Wire, [came, missing], LossReason::FrameGap, uncounted);
        publish(Stage::Decode, [decoded, 0], LossReason::FrameGap, 0);
        ledger.snapshot().discrepancies().iter().map(ToString::to_string).collect()
    };
    assert_eq!(found(Some(100), [80, 20], 80, 0), [""; 0]);
    assert_eq!(found(None, [80, 20], 80, 0), [""; 0], "a sender that cannot be asked says nothing");
    assert_eq!(
        found(Some(100), [80, 19], 80, 0),
        ["a: hits out of sender = into wire + unseen: 100 against 99"],
        "the gap has fewer hits than are missing"
    );
    assert_eq!(
        found(Some(100), [80, 20], 79, 0),
        ["a: hits out of wire = into decode + unseen: 80 against 79"],
        "a hit arrived and was not found"
    );
    assert_eq!(found(None, [50, 20], 80, 3), [""; 0], "the hits of uncounted frames are not known");
}

#[test]
fn fragments_cut_off_are_not_counted_as_received() {
    let boards = || Counts { subjects: 2, ..Counts::of(SourceId(0), &[Unit::Fragments]) };
    let of = |id: &str, stage| node(id, stage, boards());
    let subject = |name: &str| Subject { name: name.to_owned(), kind: SubjectKind::Board, parent: None };
    let topology = Topology {
        subjects: vec![subject("a"), subject("b")],
        nodes: vec![of("sender s", Stage::Sender), of("unpack s", Stage::Unpack)],
        edges: vec![Edge { units: vec![Unit::Fragments], ..over_network(("sender s", "unpack s")) }],
        ..Topology::default()
    };
    let found = |[first, second]: [[u64; 3]; 2]| -> Vec<String> {
        let ledger = Ledger::of(None, Arc::new(topology.clone())).expect("memory");
        for (source, [sent, came, cut]) in [(SourceId(0), first), (SourceId(1), second)] {
            let mut counters = Counters::default();
            counters.input(Unit::Fragments, sent);
            counters.output(Unit::Fragments, sent);
            ledger.open(Stage::Sender, source, &[Unit::Fragments]).publish(&counters);
            let mut counters = Counters::default();
            counters.input(Unit::Fragments, came);
            counters.output(Unit::Fragments, came - cut);
            counters.lost(LossReason::Unfinished, Unit::Fragments, cut);
            counters.noted(Noted::CutOff, Unit::Fragments, cut);
            ledger.open(Stage::Unpack, source, &[Unit::Fragments]).publish(&counters);
        }
        ledger.snapshot().discrepancies().iter().map(ToString::to_string).collect()
    };
    assert_eq!(found([[100, 100, 0], [90, 91, 1]]), [""; 0]);
    assert_eq!(
        found([[100, 100, 0], [90, 90, 1]]),
        ["b: fragments out of sender = into unpack + unseen − cut off: 90 against 89"],
        "each board is checked separately"
    );
}
