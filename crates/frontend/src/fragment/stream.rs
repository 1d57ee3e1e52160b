//! Finds fragments in a stream: header, payload, header, payload.
//!
//! ```text
//!  | header | payload | header | payload | he…      ─► Fragment, Slice; the start of the next is carried
//!           damage ─► search, byte by byte, for the next header with a correct check
//! ```
//! A length is used only if the header check is correct. A fragment that is not ours, or whose payload is damaged, is
//! so left out as a whole, and the next one is found without a search. The first byte of damaged data is counted by
//! what is wrong with it, the rest up to the next header as `resynchronised`.

use std::sync::Arc;

use thalweg_data::{
    Counters, FirstRefused, Fragment, FragmentRecord, Fragments, Frames, Framing, LossReason, Refused,
    SourceId, Unit,
};

use super::admission::Admission;
use super::settings::{Settings, SettingsError};
use super::wire::{HEADER_BYTES, Header, MARK};
use crate::framing::{BoardCounters, Chunk, StreamCounts};

/// Finds fragments in the stream of one or several boards.
#[derive(Debug)]
pub struct StreamSplitter {
    counts: StreamCounts,
    finder: FragmentFinder,
}

#[derive(Debug)]
struct FragmentFinder {
    admission: Admission,
    boards: BoardCounters,
    refused: FirstRefused,
    searching: bool,
}

impl StreamSplitter {
    /// Creates a splitter of a link whose first board is `first_source`.
    ///
    /// # Errors
    /// When the settings cannot be used.
    pub fn new(first_source: SourceId, settings: &Settings) -> Result<StreamSplitter, SettingsError> {
        let finder = FragmentFinder {
            admission: Admission::new(first_source, settings)?,
            boards: BoardCounters::new(settings.boards_there()),
            refused: FirstRefused::default(),
            searching: false,
        };
        Ok(StreamSplitter { counts: StreamCounts::default(), finder })
    }

    /// From now on, accepts only fragments of this run; with `None`, of any run.
    pub fn expect_run(&mut self, run: Option<u32>) {
        self.finder.admission.run = run;
    }
}

impl Framing for StreamSplitter {
    type Output = Fragments;

    fn ask(&mut self, records: Vec<Arc<FragmentRecord>>) {
        self.finder.boards.ask(records);
    }

    fn frame(&mut self, received: &Frames, fragments: &mut Fragments) -> usize {
        let StreamSplitter { counts, finder } = self;
        fragments.header = received.header;
        let mut no_units = Frames::default();
        counts.unpack(received, &mut no_units, |chunk, _, counts| {
            finder.find_fragments(chunk, fragments, counts)
        })
    }

    fn finish(&mut self, carried: &Frames, fragments: &mut Fragments) {
        let StreamSplitter { counts, finder } = self;
        counts.finish(carried, |chunk, counts| finder.find_fragments(chunk, fragments, counts));
    }

    fn counters(&self) -> &Counters {
        &self.counts.counters
    }

    fn board_counters(&self) -> &[Counters] {
        self.finder.boards.several()
    }

    /// The first damages of the stream, and refused fragments.
    fn first_refused(&self) -> &[Refused] {
        self.finder.refused.kept()
    }
}

impl FragmentFinder {
    /// Finds fragments in a chunk of a stream; returns the number of bytes left over.
    fn find_fragments(
        &mut self,
        chunk: &Chunk<'_>,
        fragments: &mut Fragments,
        counts: &mut StreamCounts,
    ) -> usize {
        self.searching |= chunk.interrupted.is_some();
        let (mut at, mut frames, mut passed, before) = (0, 0, 0, fragments.fragments.len());
        let left_over = loop {
            let rest = &chunk.bytes[at..];
            if self.searching {
                let skipped = search(rest);
                counts.lose(LossReason::Resynchronised, skipped);
                at += skipped;
                if rest.len() - skipped < HEADER_BYTES {
                    break rest.len() - skipped;
                }
                self.searching = false;
                continue;
            }
            if rest.len() < HEADER_BYTES {
                break rest.len();
            }
            let header = match self.head(rest) {
                Ok(header) => header,
                Err(reason) => {
                    self.refuse(reason, chunk, rest);
                    counts.lose(reason, 1);
                    (at, self.searching) = (at + 1, true);
                    continue;
                }
            };
            let length = HEADER_BYTES + header.length as usize;
            let Some(unit) = rest.get(..length) else { break rest.len() };
            frames += 1;
            match self.fragment(&header, unit, counts) {
                Ok(fragment) => {
                    let slice = chunk.slice.part(at, length).expect("the fragment is whole");
                    fragments.fragments.push(fragment);
                    fragments.slices.push(slice.tagged(0));
                    passed += length as u64;
                }
                Err(_) if self.admission.is_left_out(unit) => {
                    counts.leave_out_frame(length);
                }
                Err(reason) => {
                    self.refuse(reason, chunk, unit);
                    counts.refuse_frame(reason, length);
                }
            }
            at += length;
        };
        counts.begin_frames(frames);
        let found = fragments.fragments.len() - before;
        if found > 0 {
            fragments.leases.add_for(chunk.slice, &chunk.received.leases);
            counts.counters.output(Unit::Frames, found as u64);
            counts.counters.output(Unit::Bytes, passed);
        }
        left_over
    }

    #[cold]
    fn refuse(&mut self, reason: LossReason, chunk: &Chunk<'_>, unit: &[u8]) {
        let mark = chunk.received.header.mark;
        self.refused.keep(reason, || self.admission.refused(reason, mark, unit));
    }

    /// Reads a header whose length can be trusted.
    #[inline]
    fn head(&self, bytes: &[u8]) -> Result<Header, LossReason> {
        let header = Header::read(bytes)?;
        if header.parts != 1 {
            return Err(LossReason::BadFraming);
        }
        if header.length > self.admission.longest_fragment_bytes() {
            return Err(LossReason::TooLarge);
        }
        Ok(header)
    }

    #[inline]
    fn fragment(
        &mut self,
        header: &Header,
        unit: &[u8],
        counts: &mut StreamCounts,
    ) -> Result<Fragment, LossReason> {
        let index = self.admission.admit(header)?;
        let counters = self.boards.begin(index, header.trigger, &mut counts.counters);
        if let Err(reason) = self.admission.verify(header, unit) {
            counters.lost(reason, Unit::Fragments, 1);
            return Err(reason);
        }
        counters.output(Unit::Fragments, 1);
        Ok(Fragment {
            trigger: header.trigger,
            ticks: header.ticks,
            bytes: unit.len() as u32,
            source: self.admission.source(index),
            slices: 1,
        })
    }
}

/// Number of bytes to skip to the next valid header, or to one that may become valid with more bytes.
fn search(bytes: &[u8]) -> usize {
    let mark = MARK.to_be_bytes();
    let possible = |at: &usize| {
        let rest = &bytes[*at..];
        let begins = rest.iter().zip(mark).all(|(byte, expected)| *byte == expected);
        begins && (rest.len() < HEADER_BYTES || Header::read(rest).is_ok())
    };
    (0..bytes.len()).find(possible).unwrap_or(bytes.len())
}
