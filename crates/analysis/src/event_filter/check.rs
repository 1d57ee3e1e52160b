//! Reads any text as an expression over built events, and asks it of any events: for fuzzing and for tests.
//!
//! ```text
//!  bytes ─► text, events ─► answers at once = answers one by one
//! ```

use thalweg_data::{AnswerSheet, Closing, Event, EventFilter, Events, Fragment, Mark, Pool, SourceId};

use super::{Boards, EventExpression};
use crate::cut::CutError;

/// The boards of these events: three, from this number on.
const FIRST: u16 = 5;
pub(super) const NAMES: [&str; 3] = ["left", "camera/0", "camera/1"];
/// Events that are made of the bytes, at most: more than one chunk of columns.
const MOST_EVENTS: usize = 300;

/// Of one event, the fragments: by source, the bytes of each.
pub(super) type FragmentBytes = Vec<(u16, Vec<u8>)>;

/// The text before the first zero byte is an expression; the next byte says how long slices are, and what is behind it makes events.
///
/// # Panics
/// When an answer depends on the events beside it, or on those that are due with it.
pub fn check(bytes: &[u8]) {
    let text_end = bytes.iter().position(|byte| *byte == 0).unwrap_or(bytes.len());
    let Ok(text) = std::str::from_utf8(&bytes[..text_end]) else { return };
    let mut filter = match parsed(text) {
        Ok(filter) => filter,
        Err(refused) => {
            assert!(!refused.to_string().is_empty(), "who refuses says why");
            return;
        }
    };
    let (slice_bytes, rest) = bytes.get(text_end + 1..).and_then(<[u8]>::split_first).unwrap_or((&1, &[]));
    let slice_bytes = usize::from(*slice_bytes).max(1);
    let all = events_of(rest);
    let mut decide = |first_trigger: u64, all: &[FragmentBytes]| {
        decided(&mut filter, &batch(first_trigger, all, slice_bytes), 0)
    };
    let at_once = decide(0, &all);
    for ((trigger, keep), own) in (0..).zip(&at_once).zip(&all) {
        assert_eq!(decide(trigger, std::slice::from_ref(own)), [*keep], "{text} of event {trigger}");
    }
    let middle = all.len() / 2;
    let rest = decided(&mut filter, &batch(0, &all, slice_bytes), middle);
    assert_eq!(rest, at_once[middle..], "{text} of the events from {middle} on");
}

/// The answers to the events of a batch from this one on.
pub(super) fn decided(filter: &mut EventExpression, events: &Events, first: usize) -> Vec<bool> {
    let sheet = AnswerSheet::of(first..events.events.len());
    filter.decide(events, &mut sheet.answers());
    sheet.events().map(|event| sheet.get(event).expect("an expression answers for each event")).collect()
}

/// An expression over events of the three boards.
pub(super) fn parsed(text: &str) -> Result<EventExpression, CutError> {
    EventExpression::parse(text, Boards { first: SourceId(FIRST), names: &NAMES.map(str::to_owned) })
}

/// Each event is a byte that says which boards have answered, and behind it for each of them a length and its bytes.
fn events_of(mut bytes: &[u8]) -> Vec<FragmentBytes> {
    let mut all = Vec::new();
    while let [boards, rest @ ..] = bytes {
        bytes = rest;
        let mut own = FragmentBytes::new();
        for board in (0..3u16).filter(|board| boards >> board & 1 == 1) {
            let (length, rest) = bytes.split_first().unwrap_or((&0, &[]));
            let (fragment, rest) = rest.split_at(usize::from(*length).min(rest.len()));
            own.push((FIRST + board, fragment.to_vec()));
            bytes = rest;
        }
        all.push(own);
        if all.len() == MOST_EVENTS {
            break;
        }
    }
    all
}

/// A batch of one event per entry, with triggers from the first on: fragments by source, each in slices of so many bytes.
pub(super) fn batch(first_trigger: u64, all: &[FragmentBytes], slice_bytes: usize) -> Events {
    let pool = Pool::new(64, 4096).expect("small");
    let mut block = pool.take().expect("free");
    let mut events = Events::default();
    for (place, own) in all.iter().enumerate() {
        let trigger = first_trigger.wrapping_add(place as u64);
        let arrival_ns = trigger.wrapping_mul(2_000_000);
        let first_fragment = events.fragments.len() as u32;
        for (source, bytes) in own {
            let mut slices = 0;
            for chunk in bytes.chunks(slice_bytes) {
                let slice = block.append(chunk).unwrap_or_else(|| {
                    block = pool.take().expect("free");
                    block.append(chunk).expect("fits")
                });
                events.slices.push(slice);
                events.leases.add(block.lease());
                slices += 1;
            }
            events.fragments.push(Fragment {
                trigger,
                ticks: 100 * u64::from(*source),
                bytes: bytes.len() as u32,
                source: SourceId(*source),
                slices,
            });
        }
        events.events.push(Event {
            trigger,
            first_arrival: Mark(arrival_ns),
            closed: Mark(arrival_ns.wrapping_add(500)),
            bytes: own.iter().map(|(_, bytes)| bytes.len() as u64).sum(),
            first_fragment,
            fragments: own.len() as u32,
            missing: NAMES.len() as u32 - own.len() as u32,
            closing: if own.len() == NAMES.len() { Closing::Complete } else { Closing::Age },
            ..Event::default()
        });
    }
    events
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const WORDS: [&str; 26] = [
        "trigger",
        "time",
        "latency",
        "missing",
        "bytes",
        "complete",
        "ticks(\"left\")",
        "u16_le(\"camera/1\", 2)",
        "f64_be(\"left\", 0)",
        "max(u8, 3)",
        "sum(i32_le, 0)",
        "present(\"camera/0\")",
        "bit(\"left\", 1, 7)",
        "(",
        ")",
        "!",
        "&&",
        "||",
        ">",
        "==",
        "+",
        "in [1, 2]",
        "100 ns",
        "7",
        "u64_be(\"left\", 0)",
        "9007199254740993",
    ];

    proptest! {
        #[test]
        fn no_bytes_and_no_words_break_it(
            bytes in proptest::collection::vec(any::<u8>(), 0..200),
            words in proptest::collection::vec(0..WORDS.len(), 0..12),
        ) {
            check(&bytes);
            let text = words.into_iter().map(|word| WORDS[word]).collect::<Vec<_>>().join(" ");
            check(&[text.as_bytes(), &[0], &bytes].concat());
        }
    }

    #[test]
    fn every_word_of_these_is_known_somewhere() {
        for text in [
            "ticks(\"left\") > 7",
            "u16_le(\"camera/1\", 2) > 7",
            "f64_be(\"left\", 0) > 7",
            "u64_be(\"left\", 0) > 9007199254740993",
            "max(u8, 3) > 7",
            "sum(i32_le, 0) > 7",
            "present(\"camera/0\")",
            "bit(\"left\", 1, 7)",
        ] {
            parsed(text).unwrap_or_else(|refused| panic!("{refused}"));
        }
    }
}
