//! Arbitrary messages between units: for fuzzing.
//!
//! ```text
//!  input: |sender|action|head:u16|payload:u16|head…|payload…|… ─► readout unit, builder unit, event manager ─► snapshot, bounds
//! ```

use std::sync::OnceLock;

use thalweg_data::{Counters, Events, Mark, Message, Pool, Unit, UnitId};

use super::message::{self, Said};
use super::{
    Address, BuilderUnit, EventManager, Identity, Machine, Outbox, ReadoutUnit, RemoteEvents, Settings,
    ShipEvents, UnitLayout,
};

const RUN: u32 = 7;
/// Bytes before the head of a message in an input.
const WORD_BYTES: usize = 6;

/// Gives three units whatever is in `input`, each message from the sender that it names.
///
/// # Panics
/// When a unit does, its ledger does not balance, or what it says cannot be read.
pub fn check(input: &[u8]) {
    let settings = Settings { slots: 32, keep_events: 64, ..Settings::default() };
    let layout = UnitLayout { readouts: vec![0..2, 2..4], builders: 2 };
    let identity = Identity { number: UnitId(0), run: RUN, incarnation: 1 };
    let mut readout = ReadoutUnit::new(identity, layout.builders, &settings);
    let mut builder = BuilderUnit::new(identity, &layout, &settings, Mark(0));
    let mut manager = EventManager::new(RUN, 1, &layout, &settings, Mark(0));
    let (mut outbox, mut events, mut rest, mut now) = (Outbox::default(), Events::default(), input, Mark(0));
    while let Some((word, behind)) = rest.split_at_checked(WORD_BYTES) {
        let length = |at: usize| usize::from(u16::from_le_bytes([word[at], word[at + 1]]));
        let Some((head, behind)) = behind.split_at_checked(length(2)) else { break };
        let Some((payload, behind)) = behind.split_at_checked(length(4)) else { break };
        rest = behind;
        let message = message_of(head, payload);
        look_at(&message);
        let from = [
            Address::Manager,
            Address::Readout(UnitId(0)),
            Address::Readout(UnitId(1)),
            Address::Builder(UnitId(0)),
        ];
        let from = from.get(usize::from(word[0])).copied().unwrap_or(Address::Builder(UnitId(9)));
        now = Mark(now.0 + u64::from(word[1]) * 20_000_000);
        let units: [&mut dyn Machine; 3] = [&mut readout, &mut builder, &mut manager];
        for unit in units {
            if word[1] & 1 != 0 {
                unit.connected(from, now);
            }
            unit.on_message(from, &message, now);
            unit.poll(now, &mut outbox);
            if word[1] & 2 != 0 {
                unit.disconnected(from, now, &mut outbox);
            }
        }
        readable(&mut outbox);
        builder.pull(&mut events, 100, now);
        events.clear();
        builder.written(builder.position());
    }
    assert!(builder.open_ranges() <= 3 * settings.slots as usize + usize::from(u16::MAX), "unbounded");
    closes(builder.counters());
    closes(readout.counters());
}

/// Inputs to start from: what units say to each other.
pub fn seeds() -> Vec<Vec<u8>> {
    let range = super::Assignment { start: 8, length: 8, builder: UnitId(0), attempt: 0, written: false };
    let mut messages: Vec<(u8, Message)> = Vec::new();
    let mut say = |from: u8, write: &dyn Fn(&mut Message)| {
        let mut message = Message::default();
        write(&mut message);
        messages.push((from, message));
    };
    let (progress, credits) = (
        message::Progress { closed_until: 16, ..Default::default() },
        message::Credits { limit: 32, ..Default::default() },
    );
    let done = message::Finished { start: 8, complete: 1, partial: 1, attempt: 0, absent: None };
    let released = message::Released { start: 8, included: message::Released::WHOLE };
    say(1, &|m| message::readout_report(m, RUN, 1, 0, &progress, [range].into_iter()));
    say(2, &|m| message::readout_report(m, RUN, 1, 0, &progress, [range].into_iter()));
    let on_file = super::OnFile { until: 8, attempt: 1 };
    say(3, &|m| message::builder_report(m, RUN, 1, 0, on_file, &credits, [range].into_iter()));
    say(0, &|m| message::state(m, RUN, 1, 8, [range].into_iter()));
    say(0, &|m| message::assign(m, RUN, 1, 16, [range].into_iter()));
    say(1, &|m| message::progress(m, RUN, 1, &progress));
    say(3, &|m| message::credits(m, RUN, 1, &credits, [UnitId(0)].into_iter()));
    let pool = Pool::new(1, 4096).expect("a small pool");
    let mut events = Events::default();
    let mut writer = pool.take().expect("its block");
    events.slices.extend(writer.append(&[9; 40]));
    events.leases.add(writer.lease());
    events.fragments.push(thalweg_data::Fragment { trigger: 8, bytes: 40, slices: 1, ..Default::default() });
    events.events.push(thalweg_data::Event { trigger: 8, fragments: 1, bytes: 40, ..Default::default() });
    let mut part = Message::default();
    ShipEvents::new(Identity { number: UnitId(0), run: RUN, incarnation: 1 }, 1 << 20)
        .ship(&events, 0, &mut part);
    messages.push((1, part));
    let mut say = |from: u8, write: &dyn Fn(&mut Message)| {
        let mut message = Message::default();
        write(&mut message);
        messages.push((from, message));
    };
    say(3, &|m| message::done(m, RUN, 1, [done].into_iter()));
    say(0, &|m| message::release(m, RUN, 1, [released].into_iter()));
    say(0, &|m| message::busy(m, RUN, 1, true));
    let each: Vec<Vec<u8>> = messages.iter().map(|(from, message)| input_of(*from, message)).collect();
    let mut all = vec![each.concat()];
    all.extend(each);
    all
}

fn input_of(from: u8, message: &Message) -> Vec<u8> {
    let mut input = vec![from, 1];
    input.extend((message.head.len() as u16).to_le_bytes());
    input.extend((message.payload_bytes() as u16).to_le_bytes());
    input.extend(&message.head);
    message.slices.iter().for_each(|slice| input.extend(message.leases.bytes(*slice)));
    input
}

/// A message in blocks, its payload cut into chunks.
fn message_of(head: &[u8], payload: &[u8]) -> Message {
    static POOL: OnceLock<Pool> = OnceLock::new();
    const CHUNK_BYTES: usize = 100;
    let pool = POOL.get_or_init(|| Pool::new(256, 4096).expect("memory for a megabyte"));
    let mut message = Message { head: head.to_vec(), ..Message::default() };
    let mut writer = None;
    for chunk in payload.chunks(CHUNK_BYTES) {
        if writer.as_ref().is_none_or(|writer: &thalweg_data::BlockWriter| writer.remaining() < CHUNK_BYTES) {
            writer = pool.take();
        }
        let Some(writer) = &mut writer else { break };
        message.slices.extend(writer.append(chunk));
        message.leases.add(writer.lease());
    }
    message
}

/// A part that is read adds exactly what it says, and one that is not adds nothing.
fn look_at(message: &Message) {
    let mut events = Events::default();
    let taken = RemoteEvents::new(RUN, 0..2).events(message, &mut events);
    let bytes: u64 = events.slices.iter().map(|slice| u64::from(slice.length)).sum();
    match (taken, message::read(message)) {
        (Ok(()), Ok((_, Said::Part(part)))) => {
            assert_eq!(bytes, part.payload_bytes, "payload");
            assert_eq!(bytes, events.events.iter().map(|event| event.bytes).sum::<u64>(), "events");
        }
        (Ok(()), other) => panic!("events out of {other:?}"),
        (Err(_), _) => assert_eq!((events.events.len(), bytes), (0, 0), "left behind"),
    }
}

fn readable(outbox: &mut Outbox) {
    let destinations: Vec<Address> = outbox.destinations().collect();
    for to in destinations {
        while let Some(message) = outbox.take(to) {
            message::read(&message).expect("what a unit says can be read");
        }
    }
}

fn closes(counters: &Counters) {
    for unit in [Unit::Events, Unit::Fragments, Unit::Bytes] {
        let right = counters.total_output(unit) + counters.total_lost_any(unit) + counters.held(unit);
        assert_eq!(counters.total_input(unit), right, "{unit}");
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn seeds_are_understood() {
        let seeds = seeds();
        let head = &seeds[1][WORD_BYTES..];
        assert!(message::read(&message_of(head, &[])).is_ok());
        seeds.iter().for_each(|input| check(input));
        // Cut short, and each byte changed.
        for input in &seeds {
            for place in 0..input.len() {
                check(&input[..place]);
                let mut other = input.clone();
                other[place] ^= 1 << (place % 8);
                check(&other);
            }
        }
    }
}
