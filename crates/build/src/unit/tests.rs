//! Messages and units by themselves; the whole of them together is in `tests/build/simulation.rs`.

use proptest::prelude::*;
use thalweg_data::{Closing, Counters, Event, Events, Fragment, Mark, Message, Pool, SourceId, Unit, UnitId};

use super::message::{self, Credits, Finished, Progress, Released, Said};
use super::part::{PartHead, PartWriter};
use super::store::Table;
use super::*;

fn assignment() -> impl Strategy<Value = Assignment> {
    (0..1u64 << 60, 1..=Assignment::LONGEST, any::<(u16, u8, bool)>()).prop_map(
        |(start, length, (builder, attempt, written))| Assignment {
            start,
            length,
            builder: UnitId(builder),
            attempt,
            written,
        },
    )
}

fn finished() -> impl Strategy<Value = Finished> {
    any::<(u64, u32, u32, u8, Option<u16>)>().prop_map(|(start, complete, partial, attempt, absent)| {
        Finished { start, complete, partial, attempt, absent: absent.map(UnitId) }
    })
}

fn progress() -> impl Strategy<Value = Progress> {
    any::<([u64; 5], bool, bool, bool)>().prop_map(|(numbers, busy, full, ended)| {
        let [closed_until, assigned_until, lowest_unassigned, held_events, held_bytes] = numbers;
        Progress {
            closed_until,
            assigned_until,
            lowest_unassigned,
            held_events,
            held_bytes,
            busy,
            full,
            ended,
        }
    })
}

fn said(message: &Message) -> Said<'_> {
    let (run, said) = message::read(message).expect("what was written can be read");
    assert_eq!(run, 7);
    said
}

proptest! {
    #[test]
    fn what_is_written_is_read(
        numbers in any::<(u64, u64)>(),
        sent in progress(),
        ranges in prop::collection::vec(assignment(), 0..20),
        done in prop::collection::vec(finished(), 0..20),
        words in any::<(u32, u64, u64, bool, bool)>(),
    ) {
        let mut message = Message::default();
        let (one, two) = numbers;
        let (limit, held_events, held_bytes, busy, is_reached) = words;
        let given = Credits { limit, held_events, held_bytes, busy, is_reached };
        message::readout_report(&mut message, 7, one, two, &sent, ranges.iter().copied());
        let Said::ReadoutReport { incarnation, epoch, progress, open } = said(&message) else { panic!() };
        prop_assert_eq!((incarnation, epoch, progress), (one, two, sent));
        prop_assert_eq!(open.iter().collect::<Vec<_>>(), ranges.clone());
        message::progress(&mut message, 7, one, &sent);
        let Said::Progress { epoch, progress } = said(&message) else { panic!() };
        prop_assert_eq!((epoch, progress), (one, sent));
        let on_file = OnFile { until: one, attempt: words.0 as u8 };
        message::builder_report(&mut message, 7, one, two, on_file, &given, ranges.iter().copied());
        let Said::BuilderReport { incarnation, epoch, on_file: read, credits, ranges: list } = said(&message) else { panic!() };
        prop_assert_eq!((incarnation, epoch, credits, read), (one, two, given, on_file));
        prop_assert_eq!(list.iter().collect::<Vec<_>>(), ranges.clone());
        let numbers: Vec<UnitId> = ranges.iter().map(|range| range.builder).collect();
        message::credits(&mut message, 7, one, &given, numbers.iter().copied());
        let Said::Credits { credits, unreached, .. } = said(&message) else { panic!() };
        prop_assert_eq!((credits, unreached.iter().collect::<Vec<_>>()), (given, numbers));
        message::done(&mut message, 7, one, done.iter().copied());
        let Said::Done { ranges: read, .. } = said(&message) else { panic!() };
        prop_assert_eq!(read.iter().collect::<Vec<_>>(), done.clone());
        message::state(&mut message, 7, one, two, ranges.iter().copied());
        let Said::State { next, open, .. } = said(&message) else { panic!() };
        prop_assert_eq!((next, open.len()), (two, ranges.len()));
        message::assign(&mut message, 7, one, two, ranges.iter().copied());
        let Said::Assign { ranges: read, .. } = said(&message) else { panic!() };
        prop_assert_eq!(read.iter().collect::<Vec<_>>(), ranges);
        let released = |each: &Finished| Released { start: each.start, included: each.partial };
        message::release(&mut message, 7, one, done.iter().map(released));
        let Said::Release { ranges: read, .. } = said(&message) else { panic!() };
        prop_assert!(read.iter().eq(done.iter().map(released)));
        message::busy(&mut message, 7, one, words.3);
        let Said::Busy { busy, .. } = said(&message) else { panic!() };
        prop_assert_eq!(busy, words.3);
    }

    #[test]
    fn garbage_is_refused_and_harms_nobody(
        kind in 0u8..14,
        items in 0u32..6,
        tail in prop::collection::vec(any::<u8>(), 0..300),
        cut in any::<prop::sample::Index>(),
        flipped in any::<prop::sample::Index>(),
    ) {
        let mut messages = vec![Message::default(), part_message().0];
        messages[0].head.extend_from_slice(&[b't', b'w', message::VERSION, kind]);
        messages[0].head.extend_from_slice(&7u32.to_le_bytes());
        messages[0].head.extend_from_slice(&items.to_le_bytes());
        messages[0].head.extend_from_slice(&[0; 4]);
        messages[0].head.extend_from_slice(&tail);
        let place = flipped.index(messages[1].head.len());
        messages[1].head[place] ^= 1 << (kind % 8);
        if kind % 2 == 0 {
            let length = cut.index(messages[1].head.len());
            messages[1].head.truncate(length);
        }
        let identity = Identity { number: UnitId(0), run: 7, incarnation: 1 };
        let layout = UnitLayout { readouts: vec![0..2, 2..4], builders: 2 };
        let settings = Settings::default();
        let mut readout = ReadoutUnit::new(identity, 2, &settings);
        let mut builder = BuilderUnit::new(identity, &layout, &settings, Mark(0));
        let mut manager = EventManager::new(7, 1, &layout, &settings, Mark(0));
        let mut outbox = Outbox::default();
        let senders = [Address::Manager, Address::Readout(UnitId(0)), Address::Readout(UnitId(9)), Address::Builder(UnitId(1)), Address::Trigger];
        for message in &messages {
            for from in senders {
                let units: [&mut dyn Machine; 3] = [&mut readout, &mut builder, &mut manager];
                for unit in units {
                    unit.connected(from, Mark(0));
                    unit.on_message(from, message, Mark(1));
                    unit.poll(Mark(2), &mut outbox);
                }
            }
        }
        builder.pull(&mut Events::default(), 10, Mark(3));
        prop_assert!(builder.counters().held(Unit::Fragments) <= 8);
    }
}

/// Two events of sources 0 and 1, the second without source 1.
fn batch(pool: &Pool) -> Events {
    let mut events = Events::default();
    let mut writer = pool.take().expect("a block");
    for (trigger, sources) in [(10, &[0, 1][..]), (12, &[0][..])] {
        let first = events.fragments.len();
        let mut bytes = 0;
        for source in sources {
            let payload = format!("trigger {trigger} of source {source}");
            events.slices.push(writer.append(payload.as_bytes()).expect("space"));
            bytes += payload.len() as u64;
            events.fragments.push(Fragment {
                trigger,
                ticks: trigger * 100,
                bytes: payload.len() as u32,
                source: SourceId(*source),
                slices: 1,
            });
        }
        let missing = 2 - sources.len() as u32;
        events.events.push(Event {
            trigger,
            first_arrival: Mark(trigger),
            closed: Mark(trigger + 5),
            bytes,
            first_fragment: first as u32,
            fragments: sources.len() as u32,
            first_missing: 0,
            missing,
            closing: if missing > 0 { Closing::Age } else { Closing::Complete },
            attempt: 0,
        });
    }
    events.missing.push(SourceId(1));
    events.leases.add(writer.lease());
    events
}

fn part_message() -> (Message, Pool) {
    let pool = Pool::new(1, 4096).expect("small");
    let table = {
        let mut table = Table { events: batch(&pool), spans: Vec::new() };
        part::spans_of(&table.events, &mut table.spans);
        table
    };
    let range = Assignment { start: 8, length: 8, builder: UnitId(0), attempt: 0, written: false };
    let head = PartHead { epoch: 1, range, readout: UnitId(0), from: 8, until: 16, lost: false };
    let mut message = Message::default();
    let mut writer = PartWriter::new(&mut message, 7, head);
    writer.message().leases.add_all(&table.events.leases);
    (0..2).for_each(|place| part::append_event(&mut writer, &table, place));
    writer.finish(16);
    (message, pool)
}

#[test]
fn a_batch_shipped_to_the_next_level_is_the_same_there() {
    let pool = Pool::new(1, 4096).expect("small");
    let events = batch(&pool);
    let mut ship = ShipEvents::new(Identity { number: UnitId(3), run: 7, incarnation: 1 }, 1 << 20);
    let mut message = Message::default();
    assert_eq!(ship.ship(&events, 0, &mut message), 2);
    let mut remote = RemoteEvents::new(7, 0..2);
    let mut there = Events::default();
    remote.events(&message, &mut there).expect("it is whole");
    assert_eq!((&there.events, &there.fragments), (&events.events, &events.fragments));
    assert_eq!((&there.slices, &there.missing), (&events.slices, &events.missing));
    let mut fragments = thalweg_data::Fragments::default();
    remote.fragments(&message, &mut fragments).expect("it is whole");
    assert_eq!(fragments.fragments, events.fragments);
    assert_eq!(fragments.leases.bytes(fragments.slices[2]), b"trigger 12 of source 0");
    // A source that is not this builder's, another run: refused, and nothing is left behind.
    there.clear();
    assert!(RemoteEvents::new(7, 1..2).events(&message, &mut there).is_err());
    assert!(RemoteEvents::new(8, 0..2).events(&message, &mut there).is_err());
    assert_eq!((there.events.len(), there.slices.len(), there.leases.len()), (0, 0, 0));
}

#[test]
fn a_message_of_another_run_or_version_is_counted_and_no_more() {
    let mut readout =
        ReadoutUnit::new(Identity { number: UnitId(0), run: 1, incarnation: 1 }, 1, &Settings::default());
    let mut message = Message::default();
    message::release(&mut message, 2, 1, std::iter::empty());
    readout.on_message(Address::Manager, &message, Mark(0));
    message.head[2] = message::VERSION + 1;
    readout.on_message(Address::Manager, &message, Mark(0));
    let error = message::read(&message).expect_err("another version").to_string();
    assert!(error.contains("same version on all hosts"), "{error}");
    assert_eq!((readout.refused().wrong_run, readout.refused().damaged), (1, 1));
}

#[test]
fn a_report_of_more_ranges_than_triggers_can_be_open_is_refused() {
    let layout = UnitLayout { readouts: vec![0..2, 2..4], builders: 1 };
    let settings = Settings { slots: 8, keep_events: 64, ..Settings::default() };
    let mut manager = EventManager::new(7, 1, &layout, &settings, Mark(0));
    let ranges = |count: u64| {
        (0..count).map(|start| Assignment {
            start,
            length: 1,
            builder: UnitId(0),
            attempt: 0,
            written: false,
        })
    };
    let (mut message, credits) = (Message::default(), message::Credits::default());
    manager.connected(Address::Builder(UnitId(0)), Mark(0));
    for (count, refused) in [(1184, 0), (1185, 1)] {
        message::builder_report(&mut message, 7, 1, 0, OnFile::default(), &credits, ranges(count));
        manager.on_message(Address::Builder(UnitId(0)), &message, Mark(1));
        assert_eq!(manager.refused().damaged, refused, "{count} ranges");
    }
    message::readout_report(&mut message, 7, 1, 0, &message::Progress::default(), ranges(1185));
    manager.connected(Address::Readout(UnitId(0)), Mark(0));
    manager.on_message(Address::Readout(UnitId(0)), &message, Mark(1));
    assert_eq!(manager.refused().damaged, 2);
}

#[test]
fn a_unit_that_restarts_finds_the_numbers_of_a_short_counter_again() {
    let pool = Pool::new(1, 4096).expect("small");
    let settings = Settings { trigger_bits: 16, ..Settings::default() };
    let mut readout = ReadoutUnit::new(Identity { number: UnitId(0), run: 1, incarnation: 2 }, 1, &settings);
    let mut message = Message::default();
    readout.connected(Address::Manager, Mark(0));
    // The others are in the third turn of the counter, just before its trigger 12.
    message::state(&mut message, 1, 5, 3 * 65_536 + 11, std::iter::empty());
    readout.on_message(Address::Manager, &message, Mark(0));
    assert!(readout.insert(&mut batch(&pool)));
    assert_eq!(readout.progress().closed_until, 3 * 65_536 + 13);
    assert_eq!(readout.held_events(), 1, "trigger 10 is the others' past");
    let lost = |counters: &Counters| counters.total_lost_any(Unit::Events);
    assert_eq!(lost(readout.counters()), 1);
}

#[test]
fn a_range_that_nobody_built_is_sent_to_whom_it_is_given_with_the_same_attempt() {
    let pool = Pool::new(1, 4096).expect("small");
    let identity = Identity { number: UnitId(0), run: 1, incarnation: 1 };
    let (mut readout, mut outbox) = (ReadoutUnit::new(identity, 1, &Settings::default()), Outbox::default());
    assert!(readout.insert(&mut batch(&pool)));
    readout.connected(Address::Builder(UnitId(0)), Mark(0));
    let nobody = Assignment { start: 10, length: 3, builder: Assignment::NOBODY, attempt: 2, written: false };
    let mut message = Message::default();
    message::state(&mut message, 1, 5, 13, [nobody].into_iter());
    readout.on_message(Address::Manager, &message, Mark(1));
    readout.poll(Mark(2), &mut outbox);
    assert!(outbox.take(Address::Builder(UnitId(0))).is_none());
    message::assign(&mut message, 1, 5, 13, [Assignment { builder: UnitId(0), ..nobody }].into_iter());
    readout.on_message(Address::Manager, &message, Mark(3));
    readout.poll(Mark(4), &mut outbox);
    let part = outbox.take(Address::Builder(UnitId(0))).expect("a part");
    let Ok((1, Said::Part(part))) = message::read(&part) else { panic!("{part:?}") };
    assert_eq!((part.head.range.start, part.head.range.attempt, part.fragments), (10, 2, 3));
}
