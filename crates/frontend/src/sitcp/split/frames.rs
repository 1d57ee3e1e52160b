//! Finds heartbeat frames of streaming boards: words, then two delimiters at the end of each frame.
//!
//! ```text
//!  | data data … delimiter 1 delimiter 2 | data … delimiter 1 de…   ─► one fragment, the rest is carried
//! ```
//! The number of the frame is at its end, so the type of every word is read; words of an unfinished frame are not read
//! again. A word of an unknown type, or a word between the two delimiters, is damage: the frame is lost, and the stream
//! resumes behind the next two trusted delimiters.

use thalweg_data::{Fragment, Fragments, LossReason, Unit};

use super::super::wire::str_tdc::{DELIMITER_BYTES, Kind, WORD_BYTES, Word};
use super::{Found, State};
use crate::framing::{Chunk, StreamCounts};

/// What is expected of a damaged frame.
const EXPECTED: &str = "words of known types, and two delimiters before the frame is longer than allowed";

impl State {
    /// Finds fragments in a chunk of a stream; returns the number of bytes left over.
    pub(super) fn frames(
        &mut self,
        chunk: &Chunk<'_>,
        fragments: &mut Fragments,
        counts: &mut StreamCounts,
    ) -> usize {
        let bytes = chunk.bytes;
        let (mut start, mut passed_bytes) = (0, 0);
        let left_over = loop {
            if self.searching {
                match search_frames(&bytes[start..], chunk.last) {
                    Found::Open(skipped) => {
                        counts.lose(LossReason::Resynchronised, skipped);
                        break bytes.len() - start - skipped;
                    }
                    Found::Edge(skipped) => {
                        counts.lose(LossReason::Resynchronised, skipped);
                        start += skipped;
                        self.searching = false;
                    }
                }
            }
            let data_end = start + self.scanned + inside_bytes(&bytes[start + self.scanned..]);
            if data_end + DELIMITER_BYTES - start > self.longest {
                self.scanned = 0;
                self.damaged(chunk, start, EXPECTED, counts);
                continue;
            }
            self.scanned = data_end - start;
            let Some(first) = Word::at(bytes, data_end) else { break bytes.len() - start };
            if first.is(Kind::Delimiter1) {
                let Some(second) = Word::at(bytes, data_end + WORD_BYTES) else { break bytes.len() - start };
                if second.is(Kind::Delimiter2) {
                    let end = data_end + DELIMITER_BYTES;
                    self.pass_on_frame(chunk, start..end, [first, second], fragments);
                    counts.begin_frames(1);
                    counts.counters.output(Unit::Frames, 1);
                    passed_bytes += end - start;
                    (start, self.scanned) = (end, 0);
                    continue;
                }
            }
            self.scanned = 0;
            self.damaged(chunk, start, EXPECTED, counts);
        };
        if passed_bytes > 0 {
            fragments.leases.add_for(chunk.slice, &chunk.received.leases);
            counts.counters.output(Unit::Bytes, passed_bytes as u64);
        }
        left_over
    }

    fn pass_on_frame(
        &mut self,
        chunk: &Chunk<'_>,
        range: std::ops::Range<usize>,
        [first, second]: [Word; 2],
        fragments: &mut Fragments,
    ) {
        let number = first.frame_number();
        let slice = chunk.slice.part(range.start, range.len()).expect("the frame is whole");
        self.unsent_bytes += u64::from(second.generated_bytes().saturating_sub(second.sent_bytes()));
        let source = self.boards.take(0, number);
        fragments.slices.push(slice.tagged(0));
        fragments.fragments.push(Fragment {
            trigger: u64::from(number),
            // A frame is a count of the board's slow clock: 2^19 ns.
            ticks: u64::from(number),
            bytes: slice.length,
            source,
            slices: 1,
        });
    }
}

/// Bytes of the words at the start that belong inside a frame.
fn inside_bytes(bytes: &[u8]) -> usize {
    let words = bytes.as_chunks().0;
    let outside = words.iter().position(|word| !Word::from_bytes(*word).is_inside());
    outside.unwrap_or(words.len()) * WORD_BYTES
}

/// Searches for two delimiters at any byte, since the start of words is unknown. They are trusted if their fields are
/// possible and a word of known type or the end of the stream follows.
fn search_frames(bytes: &[u8], last: bool) -> Found {
    let needed = DELIMITER_BYTES + if last { 0 } else { WORD_BYTES };
    for at in 0..(bytes.len() + 1).saturating_sub(needed) {
        let [first, second, next] = [0, 1, 2].map(|n| Word::at(bytes, at + n * WORD_BYTES));
        let (Some(first), Some(second)) = (first, second) else { break };
        let follows = next.map_or(at + DELIMITER_BYTES == bytes.len(), |next| {
            next.is_inside() || next.is(Kind::Delimiter1)
        });
        let whole_words = |bytes: u32| (bytes as usize).is_multiple_of(WORD_BYTES);
        let trusted = first.is(Kind::Delimiter1)
            && second.is(Kind::Delimiter2)
            && second.sent_bytes() <= second.generated_bytes()
            && whole_words(second.sent_bytes())
            && whole_words(second.generated_bytes())
            && follows;
        if trusted {
            return Found::Edge(at + DELIMITER_BYTES);
        }
    }
    Found::Open((bytes.len() + 1).saturating_sub(needed))
}
