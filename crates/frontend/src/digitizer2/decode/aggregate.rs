//! Decodes the hits of an aggregate.
//!
//! ```text
//!  |header| plain plain plain … |wave hit|one-word|statistics| plain …
//!          └─ blocks ──────────┘└─ record by record ────────┘└ blocks
//! ```

use thalweg_data::hit::Layout;
use thalweg_data::{Extra, Flags, Hit, Hits, LossReason, Statistics, Unit};

use super::block::{BlockPlan, NOT_PLAIN, NOT_PLAIN_OPEN};
use super::flags::{LOSSY, LOSSY_ONE_WORD, translate, translate_one_word};
use super::{Decoder, Firmware, FrameOutcome, words_bytes};
use crate::digitizer2::cursor::Cursor;
use crate::digitizer2::wire::{
    COUNTER_MASK, CounterInfo, EventHeader, ExtraType, ExtraWord, HitWords, OneWordHit, TimeInfo, WORD,
    WaveHeader, ZleWords,
};

/// Records that are read one by one before blocks are tried again.
const RECORDS_BETWEEN_BLOCKS: usize = 8;

/// Number of waveforms by which the prefetch of a header is ahead.
const WAVES_AHEAD: usize = 8;
/// Bytes of a hit with a waveform, without its samples.
const WAVE_HIT_HEADER: usize = 4 * WORD;

/// The result of decoding one record whose end is known.
enum Record {
    Used,
    Lost(LossReason),
}

impl Decoder {
    pub(super) fn aggregate(
        &mut self,
        header: EventHeader,
        cursor: &mut Cursor<'_>,
        hits: &mut Hits,
    ) -> FrameOutcome {
        let flags = self.event_flags(header);
        let first_hit = hits.hits.len();
        let mut used = WORD as u64;
        let mut made = 0;
        let mut damage = None;
        'all: while cursor.remaining() > 0 {
            if self.plan.firmware != Firmware::Zle {
                let (bytes, plain) = self.blocks(flags, cursor, hits);
                used += bytes as u64;
                made += plain;
            }
            for _ in 0..RECORDS_BETWEEN_BLOCKS {
                let before = cursor.remaining();
                if before == 0 {
                    break;
                }
                let (slices, extras) = (hits.slices.len(), hits.extras.len());
                let decoded = hits.hits.len();
                match self.record(flags, cursor, hits) {
                    Ok(Record::Used) => used += (before - cursor.remaining()) as u64,
                    Ok(Record::Lost(reason)) => {
                        hits.slices.truncate(slices);
                        let bytes = (before - cursor.remaining()) as u64;
                        self.counters.lost(reason, Unit::Bytes, bytes);
                    }
                    Err(reason) => {
                        hits.slices.truncate(slices);
                        hits.extras.truncate(extras);
                        self.counters.lost(reason, Unit::Bytes, before as u64);
                        damage = Some(reason);
                        break 'all;
                    }
                }
                made += hits.hits.len() - decoded;
            }
        }
        self.counters.input(Unit::Hits, made as u64);
        self.counters.output(Unit::Hits, (hits.hits.len() - first_hit) as u64);
        FrameOutcome { used, damage }
    }

    /// Decodes runs of plain hits; returns their length in bytes and their number.
    fn blocks(&mut self, flags: Flags, cursor: &mut Cursor<'_>, hits: &mut Hits) -> (usize, usize) {
        let (mut bytes, mut made) = (0, 0);
        loop {
            let words = cursor.here().as_chunks::<WORD>().0;
            let &[first, second, ..] = words else { return (bytes, made) };
            let one_word = OneWordHit::is(u64::from_be_bytes(first));
            let base = match one_word {
                true => self.clock.base_short(self.plan.tick),
                false => self.clock.base_long(),
            };
            let plain = one_word || u64::from_be_bytes(second) >> 62 == 0b10;
            let Some(tick) = self.scale.plain(base).filter(|_| plain) else { return (bytes, made) };
            let open = self.plan.firmware == Firmware::OpenDpp;
            let plan = BlockPlan {
                base,
                tick,
                offset_ps: self.scale.offset_ps(),
                highest_channel: self.plan.channels - 1,
                first_channel: self.plan.first_channel,
                flags,
                not_plain: if open { NOT_PLAIN_OPEN } else { NOT_PLAIN },
                short: !flags.has(Flags::NO_ENERGY_SHORT),
            };
            let decoded = match one_word {
                true => self.level.one_word_hits(&plan, words, &mut hits.hits),
                false => self.level.two_word_hits(&plan, words, &mut hits.hits),
            };
            if decoded.hits == 0 {
                return (bytes, made);
            }
            made += decoded.hits;
            let taken = decoded.hits * if one_word { 1 } else { 2 };
            let used = &words[..taken];
            if decoded.lossy > 0 {
                self.add_extras(&used[taken - taken / decoded.hits * decoded.lossy..], one_word, hits);
            }
            self.follow_clock(used, one_word);
            cursor.skip_here(words_bytes(taken));
            bytes += words_bytes(taken);
        }
    }

    /// Makes the newest time of a run of hits the reference.
    fn follow_clock(&mut self, words: &[[u8; 8]], one_word: bool) {
        let last = match (one_word, words) {
            (true, [.., word]) => {
                let hit = OneWordHit(u64::from_be_bytes(*word));
                self.clock.short(hit.timestamp(), self.plan.tick)
            }
            (false, [.., first, _]) => self.clock.long(HitWords(u64::from_be_bytes(*first), 0).timestamp()),
            _ => return,
        };
        self.clock.set(last);
    }

    /// Appends extras for those of the newest hits whose flags need one. `words` contains the words of these hits.
    fn add_extras(&self, words: &[[u8; 8]], one_word: bool, hits: &mut Hits) {
        let size = if one_word { 1 } else { 2 };
        let first = hits.hits.len() - words.len() / size;
        for (hit, words) in hits.hits[first..].iter_mut().zip(words.chunks_exact(size)) {
            let word = |index: usize| words.get(index).map_or(0, |word: &[u8; 8]| u64::from_be_bytes(*word));
            let (raw, lossy, named) = match one_word {
                true => {
                    let raw = OneWordHit(word(0)).raw_flags();
                    (raw, LOSSY_ONE_WORD, translate_one_word(raw))
                }
                false => {
                    let raw = HitWords(word(0), word(1)).raw_flags();
                    (raw, LOSSY, translate(raw))
                }
            };
            if raw & lossy != 0 {
                hit.flags |= named | Flags::EXTRA;
                hits.extras.push(Extra { raw_flags: raw, ..Extra::of(hit, self.source) });
            }
        }
    }

    /// Decodes one hit or statistics record. An error means that its end cannot be found.
    fn record(
        &mut self,
        flags: Flags,
        cursor: &mut Cursor<'_>,
        hits: &mut Hits,
    ) -> Result<Record, LossReason> {
        let word_0 = cursor.word().ok_or(LossReason::TruncatedHit)?;
        if self.plan.firmware == Firmware::Zle {
            return self.zle_record(word_0, flags, cursor, hits);
        }
        if OneWordHit::is(word_0) {
            return Ok(self.one_word_hit(OneWordHit(word_0), flags, hits));
        }
        let words = HitWords(word_0, cursor.word().ok_or(LossReason::TruncatedHit)?);
        match self.plan.firmware {
            Firmware::OpenDpp => self.open_hit(words, flags, cursor, hits),
            _ if words.special() => self.statistics_record(words, cursor, hits),
            _ => self.hit(words, flags, cursor, hits),
        }
    }

    fn one_word_hit(&mut self, word: OneWordHit, flags: Flags, hits: &mut Hits) -> Record {
        if word.channel() >= self.plan.channels {
            return Record::Lost(LossReason::BadChannel);
        }
        let count = self.clock.short(word.timestamp(), self.plan.tick);
        self.clock.set(count);
        let raw = word.raw_flags();
        let Some(time_ps) = self.scale.ps(count, 0) else { return Record::Lost(LossReason::TimeRange) };
        let mut hit = Hit {
            time_ps,
            channel: self.plan.first_channel + word.channel(),
            energy: word.energy(),
            energy_short: 0,
            flags: flags | translate_one_word(raw),
        };
        if raw & LOSSY_ONE_WORD != 0 {
            hit.flags |= Flags::EXTRA;
            hits.extras.push(Extra { raw_flags: raw, ..Extra::of(&hit, self.source) });
        }
        hits.hits.push(hit);
        Record::Used
    }

    /// Decodes a hit of two words, whose channel was checked; `None` if its time does not fit 64 bits of picoseconds.
    fn two_word_hit(&mut self, words: HitWords, flags: Flags) -> Option<Hit> {
        let count = self.clock.long(words.timestamp());
        self.clock.set(count);
        let short = if flags.has(Flags::NO_ENERGY_SHORT) { 0 } else { words.energy_short() };
        Some(Hit {
            time_ps: self.scale.ps(count, words.fine())?,
            channel: self.plan.first_channel + words.channel(),
            energy: words.energy(),
            energy_short: short,
            flags: flags | translate(words.raw_flags()),
        })
    }

    /// Decodes a hit of PSD or PHA.
    fn hit(
        &mut self,
        words: HitWords,
        flags: Flags,
        cursor: &mut Cursor<'_>,
        hits: &mut Hits,
    ) -> Result<Record, LossReason> {
        if words.last() && words.wave() {
            return Ok(Record::Lost(LossReason::BadSamples));
        }
        let mut info = 0;
        let mut last = words.last();
        while !last {
            let extra = ExtraWord(cursor.word().ok_or(LossReason::TruncatedHit)?);
            if extra.kind() == ExtraType::WaveInfo {
                info = extra.data();
            }
            last = extra.last();
        }
        let wave = if words.wave() { Some(wave(cursor, hits)?) } else { None };
        if words.channel() >= self.plan.channels {
            return Ok(Record::Lost(LossReason::BadChannel));
        }
        let Some(mut hit) = self.two_word_hit(words, flags) else {
            return Ok(Record::Lost(LossReason::TimeRange));
        };
        let raw_flags = words.raw_flags();
        if raw_flags & LOSSY != 0 || wave.is_some() {
            hit.flags |= Flags::EXTRA;
            let mut extra = Extra { raw_flags, ..Extra::of(&hit, self.source) };
            if let Some(wave) = wave {
                wave.describe(&mut extra, Layout::DualProbe);
                extra.info = info;
            }
            hits.extras.push(extra);
        }
        hits.hits.push(hit);
        Ok(Record::Used)
    }

    /// Decodes a hit of Open DPP: user words, packed samples.
    fn open_hit(
        &mut self,
        words: HitWords,
        flags: Flags,
        cursor: &mut Cursor<'_>,
        hits: &mut Hits,
    ) -> Result<Record, LossReason> {
        if words.last() && words.wave() {
            return Ok(Record::Lost(LossReason::BadSamples));
        }
        let words_first = hits.slices.len() as u32;
        let user_words = if words.last() { 0 } else { last_marked_words(cursor, hits)? };
        let wave = if words.wave() { Some(wave(cursor, hits)?) } else { None };
        if words.channel() >= self.plan.channels {
            return Ok(Record::Lost(LossReason::BadChannel));
        }
        let Some(mut hit) = self.two_word_hit(words, flags) else {
            return Ok(Record::Lost(LossReason::TimeRange));
        };
        let raw_flags = words.raw_flags();
        let number = u32::from(words.info()) | u32::from(words.special()) << 7;
        if raw_flags & LOSSY != 0 || number != 0 || user_words > 0 || wave.is_some() {
            hit.flags |= Flags::EXTRA;
            let mut extra = Extra { raw_flags, number, ..Extra::of(&hit, self.source) };
            if user_words > 0 {
                (extra.words_first, extra.words_count) = (words_first, user_words);
            }
            if let Some(wave) = wave {
                wave.describe(&mut extra, Layout::Packed);
            }
            hits.extras.push(extra);
        }
        hits.hits.push(hit);
        Ok(Record::Used)
    }

    fn statistics_record(
        &mut self,
        words: HitWords,
        cursor: &mut Cursor<'_>,
        hits: &mut Hits,
    ) -> Result<Record, LossReason> {
        let (mut dead_time, mut counters, mut last) = (None, None, words.last());
        while !last {
            let extra = ExtraWord(cursor.word().ok_or(LossReason::TruncatedHit)?);
            match extra.kind() {
                ExtraType::TimeInfo => dead_time = Some(TimeInfo(extra.data()).dead_time()),
                ExtraType::CounterInfo => counters = Some(CounterInfo(extra.data())),
                ExtraType::WaveInfo | ExtraType::Unknown(_) => {}
            }
            last = extra.last();
        }
        let channel = words.channel();
        if channel >= self.plan.channels {
            return Ok(Record::Lost(LossReason::BadChannel));
        }
        let count = self.clock.long(words.timestamp());
        let Some(real_time_ps) = self.scale.ps(count, 0) else {
            return Ok(Record::Lost(LossReason::TimeRange));
        };
        let own = &mut self.channel_counters[usize::from(channel)];
        own.extend_dead_time(dead_time.unwrap_or(0));
        if let Some(counters) = counters {
            own.extend(counters.triggers(), counters.saved());
        }
        hits.statistics.push(Statistics {
            source: self.source,
            channel: self.plan.first_channel + channel,
            real_time_ps,
            dead_time_ps: self.scale.duration_ps(own.dead_time.unsigned_abs()),
            triggers: own.triggers,
            saved: own.saved,
            since_start_ps: self.scale.duration_ps(u64::try_from(count).unwrap_or(0)),
            start: self.starts_read,
            counter_bits: COUNTER_MASK.count_ones() as u8,
        });
        Ok(Record::Used)
    }

    /// Decodes a zero-length-encoding record; its user words are word 1 and the further counter words.
    fn zle_record(
        &mut self,
        word_0: u64,
        flags: Flags,
        cursor: &mut Cursor<'_>,
        hits: &mut Hits,
    ) -> Result<Record, LossReason> {
        if OneWordHit::is(word_0) {
            return Err(LossReason::WrongConstant);
        }
        let words_first = hits.slices.len() as u32;
        let mut peeked = cursor.clone();
        let words = ZleWords(word_0, peeked.word().ok_or(LossReason::TruncatedHit)?);
        let words_count = last_marked_words(cursor, hits)?;
        let wave = if words.wave() { Some(wave(cursor, hits)?) } else { None };
        if words.channel() >= self.plan.channels {
            return Ok(Record::Lost(LossReason::BadChannel));
        }
        let count = self.clock.long(words.timestamp());
        self.clock.set(count);
        let Some(time_ps) = self.scale.ps(count, 0) else { return Ok(Record::Lost(LossReason::TimeRange)) };
        let hit = Hit {
            time_ps,
            channel: self.plan.first_channel + words.channel(),
            energy: 0,
            energy_short: 0,
            flags: flags | Flags::NO_ENERGY | Flags::NO_ENERGY_SHORT | Flags::EXTRA,
        };
        let number = u32::from(words.default_value())
            | u32::from(words.even_are_good()) << 16
            | u32::from(words.last_channel()) << 17;
        let mut extra = Extra { number, words_first, words_count, ..Extra::of(&hit, self.source) };
        if let Some(wave) = wave {
            wave.describe(&mut extra, Layout::Packed);
        }
        hits.extras.push(extra);
        hits.hits.push(hit);
        Ok(Record::Used)
    }
}

/// The position of a waveform.
struct Wave {
    first: u32,
    count: u16,
    truncated: bool,
}

impl Wave {
    fn describe(self, extra: &mut Extra, layout: Layout) {
        (extra.samples_first, extra.samples_count) = (self.first, self.count);
        (extra.layout, extra.truncated) = (layout, self.truncated);
    }
}

/// Reads a wave header and appends the slices of the samples, which are not read.
fn wave(cursor: &mut Cursor<'_>, hits: &mut Hits) -> Result<Wave, LossReason> {
    let header = WaveHeader(cursor.word().ok_or(LossReason::TruncatedHit)?);
    let first = hits.slices.len() as u32;
    let bytes = words_bytes(header.word_count());
    let count = cursor.take(bytes, &mut hits.slices).ok_or(LossReason::BadSamples)?;
    // The next hit is found only behind this one; most waveforms have the same length, so its position is estimated.
    cursor.expect_at(WAVES_AHEAD * (bytes + WAVE_HIT_HEADER));
    Ok(Wave { first, count, truncated: header.truncated() })
}

/// Takes the words up to and including the first with bit 63 set, as a chain.
fn last_marked_words(cursor: &mut Cursor<'_>, hits: &mut Hits) -> Result<u16, LossReason> {
    let mut ahead = cursor.clone();
    let mut words = 0;
    loop {
        let word = ahead.word().ok_or(LossReason::TruncatedHit)?;
        words += 1;
        if word & HitWords::LAST != 0 {
            break;
        }
    }
    cursor.take(words_bytes(words), &mut hits.slices).ok_or(LossReason::TooLarge)
}
