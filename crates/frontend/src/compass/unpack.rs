//! Finds whole records in a CoMPASS list file.
//!
//! ```text
//!  bytes ─► header? ─► record · record · … ─► one slice per run of whole records
//!                │ damage
//!                └─► search: byte by byte, until three records in a row are plausible
//! ```
//! Files of one run are read as one stream. The header is at its start; if a later file repeats it, it is skipped. The
//! format has neither a mark at a record nor a checksum, so damage shows only as a field beyond its limit; bytes
//! between there and the next plausible position are counted as `resynchronised`. A position is plausible if its record
//! has as many samples as the last whole one, and two more records follow or the stream ends with a whole one.

use thalweg_data::{Frames, LossReason, SourceId, Unit};

use super::settings::{Settings, SettingsError};
use super::wire::{Fields, Limits, Look, Record, RecordLayout};
use crate::framing::{Chunk, FindUnits, StreamCounts, StreamUnpack, first_of_chain_to_end};

/// Number of records in a row that end a search.
const CONFIRMATIONS: usize = 3;

/// Bits of a unit's tag: the fields in the low four, the number of records in the others.
pub(super) mod tag {
    use super::Fields;

    const COUNT_SHIFT: u32 = 4;
    /// Most records in one slice.
    pub const MOST_RECORDS: u32 = (1 << (31 - COUNT_SHIFT)) - 1;

    pub fn new(fields: Fields, records: u32) -> u32 {
        fields.bits() | records << COUNT_SHIFT
    }

    pub fn fields(tag: u32) -> Fields {
        Fields::from_bits(tag)
    }
}

/// Finds whole records; each unit is a slice of one or more records, and its tag contains their fields.
pub type CompassUnpack = StreamUnpack<RecordFinder>;

impl CompassUnpack {
    /// Creates a framing of one stream.
    ///
    /// # Errors
    /// When the settings cannot be used.
    pub fn new(source: SourceId, settings: &Settings) -> Result<CompassUnpack, SettingsError> {
        settings.validate()?;
        let (limits, given) = (settings.limits(), settings.fields());
        Ok(StreamUnpack::of(source, RecordFinder { limits, given, state: State::Start, last_samples: None }))
    }
}

#[derive(Clone, Copy, Debug, PartialEq)]
enum State {
    /// Nothing has been read.
    Start,
    /// At the start of a record.
    InStep(RecordLayout),
    /// Behind damage.
    Searching(RecordLayout),
    /// There is no header, in the file or the settings: nothing can be read.
    Refused,
}

/// Finds records by their lengths, and searches for the next ones behind damage.
#[derive(Debug)]
pub struct RecordFinder {
    limits: Limits,
    given: Option<Fields>,
    state: State,
    /// Samples of the last whole record: most waveforms of a run have the same length.
    last_samples: Option<u32>,
}

/// The result of a search; positions count from the start of the searched bytes.
enum Search {
    /// Records start here.
    Found(usize),
    /// Records may start here; more bytes are needed.
    Open(usize),
}

impl FindUnits for RecordFinder {
    fn find_units(&mut self, chunk: &Chunk<'_>, units: &mut Frames, counts: &mut StreamCounts) -> usize {
        let bytes = chunk.bytes;
        if chunk.interrupted.is_some()
            && let State::InStep(layout) = self.state
        {
            self.state = State::Searching(layout);
        }
        let mut at = 0;
        loop {
            let rest = &bytes[at..];
            match self.state {
                State::Refused => {
                    counts.lose(LossReason::WrongConstant, rest.len());
                    return 0;
                }
                State::Start => match rest.first_chunk() {
                    None => return rest.len(),
                    Some(word) => at += self.begin(u16::from_le_bytes(*word), counts),
                },
                State::Searching(layout) => match self.search(rest, layout, chunk.last) {
                    Search::Found(skipped) => {
                        counts.lose(LossReason::Resynchronised, skipped);
                        at += skipped;
                        self.state = State::InStep(layout);
                    }
                    Search::Open(skipped) => {
                        counts.lose(LossReason::Resynchronised, skipped);
                        return rest.len() - skipped;
                    }
                },
                State::InStep(layout) => {
                    let (whole, end) = self.run(layout, chunk, at, units, counts);
                    at += whole;
                    match end {
                        // Without samples, the length of a record is fixed and cannot be wrong.
                        RunEnd::Short
                            if chunk.last
                                && layout.fields.has(Fields::WAVEFORM)
                                && at + 1 < bytes.len()
                                && self.chain_to_end(&bytes[at + 1..], layout).is_some() =>
                        {
                            counts.lose_frame(LossReason::BadSamples);
                            counts.lose(LossReason::Resynchronised, 1);
                            at += 1;
                            self.state = State::Searching(layout);
                        }
                        RunEnd::Short => return bytes.len() - at,
                        RunEnd::Header => {
                            counts.counters.overhead(Unit::Bytes, Fields::HEADER_BYTES as u64);
                            at += Fields::HEADER_BYTES;
                        }
                        RunEnd::Damage(reason) => {
                            counts.lose_frame(reason);
                            counts.lose(LossReason::Resynchronised, 1);
                            at += 1;
                            self.state = State::Searching(layout);
                        }
                        RunEnd::Full => {}
                    }
                }
            }
        }
    }
}

impl RecordFinder {
    /// Reads the first word of a stream; returns how many of its bytes are used.
    fn begin(&mut self, word: u16, counts: &mut StreamCounts) -> usize {
        if let Some(fields) = Fields::from_header(word) {
            counts.counters.overhead(Unit::Bytes, Fields::HEADER_BYTES as u64);
            self.state = State::InStep(RecordLayout::of(fields));
            return Fields::HEADER_BYTES;
        }
        self.state = match self.given {
            Some(fields) => State::InStep(RecordLayout::of(fields)),
            None => State::Refused,
        };
        0
    }

    /// Passes on the run of whole records at `start`; returns its bytes and what ended it.
    fn run(
        &mut self,
        layout: RecordLayout,
        chunk: &Chunk<'_>,
        start: usize,
        units: &mut Frames,
        counts: &mut StreamCounts,
    ) -> (usize, RunEnd) {
        let bytes = &chunk.bytes[start..];
        let (mut at, mut records) = (0, 0u32);
        let end = loop {
            match Record::look(&bytes[at..], layout, &self.limits) {
                Look::Record(_) if records == tag::MOST_RECORDS => break RunEnd::Full,
                Look::Record(record) => {
                    at += record.bytes().len();
                    records += 1;
                    self.last_samples = Some(record.sample_count());
                }
                Look::Implausible(_) if is_header(&bytes[at..], layout) => break RunEnd::Header,
                Look::Short if is_header(&bytes[at..], layout) => break RunEnd::Header,
                Look::Short => break RunEnd::Short,
                Look::Implausible(reason) => break RunEnd::Damage(reason),
            }
        };
        counts.begin_frames(u64::from(records));
        if records > 0 {
            let part = chunk.slice.part(start, at).expect("a run is inside its chunk");
            let part = part.tagged(tag::new(layout.fields, records));
            counts.pass_on(chunk, part, u64::from(records), units);
        }
        (at, end)
    }

    fn search(&self, bytes: &[u8], layout: RecordLayout, last: bool) -> Search {
        if last && let Some(skipped) = self.chain_to_end(bytes, layout) {
            return Search::Found(skipped);
        }
        for skipped in 0..bytes.len() {
            match self.confirm(&bytes[skipped..], layout) {
                Some(true) => return Search::Found(skipped),
                None => return Search::Open(skipped),
                Some(false) => {}
            }
        }
        Search::Open(bytes.len())
    }

    /// Whether the record here, as far as it has been received, has as many samples as the last whole one.
    fn is_like_the_last(&self, bytes: &[u8], layout: RecordLayout) -> bool {
        let first = self.last_samples.map_or(self.limits, |samples| Limits { samples, ..self.limits });
        match Record::look(bytes, layout, &first) {
            Look::Implausible(_) => false,
            Look::Record(record) => self.last_samples.is_none_or(|samples| samples == record.sample_count()),
            Look::Short => true,
        }
    }

    /// Position from which whole records follow each other to the end of the stream.
    fn chain_to_end(&self, bytes: &[u8], layout: RecordLayout) -> Option<usize> {
        let whole = |bytes: &[u8]| match Record::look(bytes, layout, &self.limits) {
            Look::Record(record) => Some(record.bytes().len()),
            Look::Short | Look::Implausible(_) => None,
        };
        first_of_chain_to_end(bytes, whole, |bytes| self.is_like_the_last(bytes, layout))
    }

    /// Whether records follow each other at the start of `bytes`; `None` if more bytes are needed.
    fn confirm(&self, mut bytes: &[u8], layout: RecordLayout) -> Option<bool> {
        if !self.is_like_the_last(bytes, layout) {
            return Some(false);
        }
        for _ in 0..CONFIRMATIONS {
            match Record::look(bytes, layout, &self.limits) {
                Look::Record(record) => bytes = &bytes[record.bytes().len()..],
                Look::Short => return None,
                Look::Implausible(_) => return Some(false),
            }
        }
        Some(true)
    }
}

enum RunEnd {
    /// A record is not complete yet.
    Short,
    /// The header is repeated: the next file of the run.
    Header,
    /// A field beyond its limit.
    Damage(LossReason),
    /// The slice has the most records that its tag can count.
    Full,
}

/// Whether the header of the same run is here; no valid board number has the same value.
fn is_header(bytes: &[u8], layout: RecordLayout) -> bool {
    bytes.first_chunk().is_some_and(|word| u16::from_le_bytes(*word) == layout.fields.header())
}
