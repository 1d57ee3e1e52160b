//! Extras, waveforms and statistics become rows here.
//!
//! ```text
//!  k-th hit with EXTRA ─┐
//!  extras[k] ───────────┴─► row of `extras`, row of `waveforms` (samples expanded), both naming the hit's row
//! ```
//! A hit that is not recorded takes what belongs to it along; rows name the hits that are.
//!
//! Samples are recorded as the narrowest numbers that hold whatever the boards can send. Only signals that a board multiplies beyond 16
//! bits are 32 bits wide, in columns of their own.

use thalweg_data::hit::Layout;
use thalweg_data::record_join::{RecordJoin, ScopeRecord};
use thalweg_data::waveform::{ChannelsOfRecord, Samples, SamplesOf, joined_if_split};
use thalweg_data::waveform_facts::{WaveformFacts, WaveformHead};
use thalweg_data::{Extra, Flags, Hit, Hits, Slice};

use crate::ipc::columns::Columns;
use crate::table::Table;
use crate::waveform_sources::WaveformSources;

/// Columns of `waveforms` that hold its signals: two analog ones, the digital ones, and analog ones of more than 16 bits.
const ANALOG: usize = 4;
const DIGITAL: usize = 6;
const WIDE: usize = 16;
/// The first of the columns that say which part of its record a waveform is.
const PART: usize = 13;
/// The column of `extras` that holds user words.
const WORDS: usize = 8;
/// Bytes of a user word; boards send them most significant byte first.
const WORD_BYTES: usize = 8;

/// Rows that go with hits.
#[derive(Debug)]
pub(crate) struct ExtraColumns {
    /// The table `extras`, when it is kept.
    pub extras: Option<Columns>,
    /// The table `waveforms`, when it is kept.
    pub waveforms: Option<Columns>,
    /// The table `statistics`, when it is kept.
    pub statistics: Option<Columns>,
    /// Of a waveform whose signals all have 16 bits, and of one with a wide signal.
    narrow: SamplesOf<i16>,
    wide: Samples,
    /// The scope record whose channels are being appended, and its first slice.
    record: ChannelsOfRecord,
    record_at: Option<Slice>,
    sources: WaveformSources,
}

impl ExtraColumns {
    /// Columns of the tables that are kept, for waveforms of these sources.
    pub fn new(keeps: impl Fn(Table) -> bool, sources: &WaveformSources) -> ExtraColumns {
        let columns = |table| keeps(table).then(|| Columns::new(table));
        ExtraColumns {
            extras: columns(Table::Extras),
            waveforms: keeps(Table::Waveforms).then(|| Columns::of(sources.columns())),
            statistics: columns(Table::Statistics),
            narrow: SamplesOf::default(),
            wide: Samples::default(),
            record: ChannelsOfRecord::default(),
            record_at: None,
            sources: sources.clone(),
        }
    }

    /// Appends what belongs to the recorded hits of a batch, the first of which is row `first_row` of the table `hits`: all
    /// of them, or those whose verdict in `pass` is not 0.
    ///
    /// `joins` knows the records before, and is asked for each waveform of scope firmware.
    pub fn append(&mut self, batch: &Hits, pass: Option<&[u8]>, first_row: u64, joins: &mut RecordJoin) {
        self.record_at = None;
        if !batch.extras.is_empty() && (self.extras.is_some() || self.waveforms.is_some()) {
            let (mut row, mut extras) = (first_row, batch.extras.iter());
            for (place, hit) in batch.hits.iter().enumerate() {
                let passes = pass.is_none_or(|pass| pass[place] != 0);
                if hit.flags.has(Flags::EXTRA) {
                    // Also of a hit that does not pass: the next row belongs to the next owner.
                    let Some(extra) = extras.next() else { break };
                    if passes {
                        self.append_extra(batch, row, extra);
                        self.append_waveform(batch, row, hit, extra, joins);
                    } else {
                        joins.interrupt(extra.source, hit.channel);
                    }
                }
                row += u64::from(passes);
            }
        }
        self.append_statistics(batch);
    }

    fn append_extra(&mut self, batch: &Hits, row: u64, extra: &Extra) {
        let Some(columns) = &mut self.extras else { return };
        columns.push(0, row.to_le_bytes());
        columns.push(1, extra.time_ps.to_le_bytes());
        columns.push(2, extra.source.0.to_le_bytes());
        columns.push(3, extra.raw_flags.to_le_bytes());
        columns.push(4, extra.number.to_le_bytes());
        columns.push(5, extra.info.to_le_bytes());
        columns.push(6, [extra.layout as u8]);
        columns.push_bit(7, extra.truncated);
        let first = extra.words_first as usize;
        let chain = batch.slices.get(first..first + usize::from(extra.words_count)).unwrap_or(&[]);
        match joined_if_split(chain, &batch.leases) {
            None => push_words(columns, chain.iter().map(|slice| batch.leases.bytes(*slice))),
            Some(bytes) => push_words(columns, [&bytes[..]].into_iter()),
        }
        columns.end_row();
    }

    fn append_waveform(&mut self, batch: &Hits, row: u64, hit: &Hit, extra: &Extra, joins: &mut RecordJoin) {
        let ExtraColumns { waveforms: Some(columns), narrow, wide, record, record_at, sources, .. } = self
        else {
            return;
        };
        if extra.samples_count == 0 {
            return;
        }
        let (facts, head) = (sources.facts(extra.source), WaveformHead::of(extra));
        columns.push(0, row.to_le_bytes());
        columns.push(1, extra.time_ps.to_le_bytes());
        columns.push(2, hit.channel.to_le_bytes());
        columns.push(3, extra.source.0.to_le_bytes());
        let fits = head.bounds.map(|bounds| sources.fits(bounds));
        let length = if fits != [true; 2] {
            wide.read(extra, &batch.slices, &batch.leases);
            push_mixed_signals(columns, wide, fits);
            wide.analog_1.len()
        } else if extra.layout == Layout::Interleaved {
            // The channels of a record follow each other, each with slices of its own that are the same bytes.
            let first = batch.slices.get(extra.samples_first as usize).copied();
            if std::mem::replace(record_at, first) != first {
                record.read(extra, &batch.slices, &batch.leases);
            }
            let samples = record.channel((extra.info & 0xFF) as usize);
            push_narrow_signals(columns, [samples, &[]], &[], sources.has_wide());
            samples.len()
        } else {
            narrow.read(extra, &batch.slices, &batch.leases);
            let analog = [&narrow.analog_1[..], &narrow.analog_2[..]];
            push_narrow_signals(columns, analog, &narrow.digital, sources.has_wide());
            narrow.analog_1.len()
        };
        columns.push_optional(7, facts.sample_ps(&head).map(f64::to_le_bytes));
        columns.push_optional(8, facts.first_sample_ps(&head).map(i64::to_le_bytes));
        let [first, second] = facts.analog_codes(&head);
        columns.push_optional(9, first.map(|code| [code]));
        columns.push_optional(10, second.map(|code| [code]));
        columns.push_optional(11, head.digital.map(u16::to_le_bytes));
        let overlapped = scope_record(extra, &facts, &head, length)
            .and_then(|record| joins.next(extra.source, hit.channel, record));
        columns.push_optional(12, overlapped.map(u32::to_le_bytes));
        let part = extra.part();
        columns.push_optional(PART, part.map(|part| part.index.to_le_bytes()));
        columns.push_optional(PART + 1, part.map(|part| part.count.to_le_bytes()));
        columns.push_optional(PART + 2, part.map(|part| (part.first_sample() as u32).to_le_bytes()));
        columns.end_row();
    }

    fn append_statistics(&mut self, batch: &Hits) {
        let Some(columns) = &mut self.statistics else { return };
        for row in &batch.statistics {
            columns.push(0, batch.header.mark.0.to_le_bytes());
            columns.push(1, row.source.0.to_le_bytes());
            columns.push(2, row.channel.to_le_bytes());
            columns.push(3, row.real_time_ps.to_le_bytes());
            columns.push(4, row.dead_time_ps.to_le_bytes());
            columns.push(5, row.triggers.to_le_bytes());
            columns.push(6, row.saved.to_le_bytes());
            columns.end_row();
        }
    }

    /// Bytes in the columns.
    pub fn byte_count(&self) -> usize {
        self.each().map(Columns::byte_count).sum()
    }

    /// Whether no column holds a row.
    pub fn is_empty(&self) -> bool {
        self.each().all(|columns| columns.rows() == 0)
    }

    /// Empties the columns, keeps their memory.
    pub fn clear(&mut self) {
        let all = [&mut self.extras, &mut self.waveforms, &mut self.statistics];
        all.into_iter().flatten().for_each(Columns::clear);
    }

    fn each(&self) -> impl Iterator<Item = &Columns> {
        [&self.extras, &self.waveforms, &self.statistics].into_iter().flatten()
    }
}

/// User words as numbers, from bytes that are whole words each.
fn push_words<'a>(columns: &mut Columns, parts: impl Iterator<Item = &'a [u8]> + Clone) {
    let words = parts.clone().map(|bytes| bytes.len() / WORD_BYTES).sum();
    let words = if columns.list_has_capacity(WORDS, words) { words } else { 0 };
    columns.push_list(WORDS, words, |bytes| {
        let received = parts.flat_map(|bytes| bytes.as_chunks().0);
        let to = bytes.as_chunks_mut::<WORD_BYTES>().0.iter_mut();
        to.zip(received).for_each(|(to, word)| *to = u64::from_be_bytes(*word).to_le_bytes());
    });
}

/// A waveform of scope firmware as one of successive records; `None` of other firmware, whose waveforms are pulses.
fn scope_record(
    extra: &Extra,
    facts: &WaveformFacts,
    head: &WaveformHead,
    length: usize,
) -> Option<ScopeRecord> {
    if extra.layout != Layout::Interleaved {
        return None;
    }
    // All records have as many samples before their trigger, so the triggers are as far from each other as the first samples.
    let start = facts.sample_ps(head).map(|sample_ps| (extra.time_ps as f64 / sample_ps).round() as i64);
    let part = extra.part().map_or(0, |part| part.index);
    Some(ScopeRecord { start, length: length as u32, claimed: extra.raw_flags >> 13 & 7, part })
}

/// The signals of a waveform that 16 bits hold.
fn push_narrow_signals(columns: &mut Columns, analog: [&[i16]; 2], digital: &[u8], has_wide: bool) {
    for (probe, signal) in analog.into_iter().enumerate() {
        push_samples(columns, ANALOG + probe, signal, i16::to_le_bytes);
        if has_wide {
            push_samples(columns, WIDE + probe, &[], i32::to_le_bytes);
        }
    }
    push_samples(columns, DIGITAL, digital, |sample| [sample]);
}

/// The signals of a waveform of which 16 bits do not hold all: each is in the columns that hold it.
fn push_mixed_signals(columns: &mut Columns, samples: &Samples, fits: [bool; 2]) {
    for (probe, signal) in [&samples.analog_1, &samples.analog_2].into_iter().enumerate() {
        let (narrow, wide) = if fits[probe] { (&signal[..], &[][..]) } else { (&[][..], &signal[..]) };
        push_samples(columns, ANALOG + probe, narrow, |sample| (sample as u16).to_le_bytes());
        push_samples(columns, WIDE + probe, wide, i32::to_le_bytes);
    }
    push_samples(columns, DIGITAL, &samples.digital, |sample| [sample]);
}

/// Samples as a list; none when the batch's offsets have no space, which `batch_bytes` keeps from happening.
fn push_samples<T: Copy, const N: usize>(
    columns: &mut Columns,
    column: usize,
    samples: &[T],
    bytes_of: impl Fn(T) -> [u8; N],
) {
    let samples = if columns.list_has_capacity(column, samples.len()) { samples } else { &[] };
    columns.push_list(column, samples.len(), |bytes| {
        let to = bytes.as_chunks_mut::<N>().0.iter_mut();
        to.zip(samples).for_each(|(to, sample)| *to = bytes_of(*sample));
    });
}
