//! Decodes whole events to hits.
//!
//! ```text
//!  Frames (aggregates, scope and special events) ─► Decoder ─► Hits, extras, statistics, signals
//!                                                    └─ damaged: lost{reason}, in frames and bytes
//! ```
//! Runs of plain hits are decoded by `block` at the speed of memory; everything else is read word by word with a
//! `cursor`. Waveforms and user words are not copied: an extra refers to their slices.
//!
//! A frame whose structure is damaged is counted as lost: the hits before the damage are kept, and the bytes from the
//! damage to the end of the frame are lost. A hit of a channel that the board does not have loses only its own bytes.
//!
//! **Zero-length encoding.** A record becomes a hit without energy. Its extra has `layout = Packed`, the good samples
//! as samples, and as user words the record's word 1 and its further counter words as sent; `number` contains the
//! default value (bits 15..0), whether the even runs are good (16), and whether the event ends with this record (17). A
//! reader reconstructs the record run by run ([`crate::digitizer2::wire::zle`]): the samples of a good run are in the
//! chain, those of a suppressed run have the default value.
//!
//! **Open DPP.** User words are a chain of 64-bit words whose top bit is framing; `number` contains the seven info bits
//! and, in bit 7, the special mark.

mod aggregate;
mod block;
mod events;
mod flags;
mod time;

use thalweg_data::batch::BoardStarts;
use thalweg_data::{Counters, Decode, Flags, Frames, Hits, LossReason, Mark, Slice, SourceId, Unit};

use self::block::Level;
use self::time::{Clock, Scale};
use super::cursor::Cursor;
use super::record_parts::is_part;
use super::records::PartOfAggregate;
use super::settings::{Firmware, Plan, Settings, SettingsError};
use super::wire::{CHANNELS, COUNTER_MASK, EventHeader, Format, TIME_MASK, WORD, counter_distance};

/// Decodes one board's events.
#[derive(Clone, Debug)]
pub struct Decoder {
    source: SourceId,
    plan: Plan,
    scale: Scale,
    clock: Clock,
    /// Whether the board's time restarts at 0 at each start, as for a board that we arm, and when the first start was
    /// seen.
    starts: Starts,
    /// Starts of the board so far, including those in batches that other decoders have read.
    starts_read: u32,
    level: Level,
    channel_counters: Box<[ChannelCounters; CHANNELS as usize]>,
    counters: Counters,
}

/// The board's 24-bit counters of one channel, and its 48 bits of dead time, extended.
#[derive(Clone, Copy, Debug, Default)]
struct ChannelCounters {
    triggers: u64,
    saved: u64,
    /// Counts of the board's clock.
    dead_time: i64,
}

impl ChannelCounters {
    fn extend(&mut self, triggers: u32, saved: u32) {
        let further = |old: u64, new: u32| old + u64::from(counter_distance(old as u32 & COUNTER_MASK, new));
        self.triggers = further(self.triggers, triggers);
        self.saved = further(self.saved, saved);
    }

    /// To the value nearest to that of before, so that a dead time that goes back does not look like one that has wrapped.
    fn extend_dead_time(&mut self, dead_time: u64) {
        let base = self.dead_time.saturating_sub(1 << 47).max(0);
        self.dead_time = time::extend(dead_time, base, TIME_MASK);
    }
}

/// The effect of a start of the board on its times.
#[derive(Clone, Copy, Debug)]
enum Starts {
    /// None.
    AsTheyCome,
    /// They restart at 0; no start has been seen.
    Expected,
    /// They restart at 0; the first start was seen at this mark.
    Seen(Mark),
}

/// The result of decoding one frame.
struct FrameOutcome {
    /// Bytes that became hits, statistics or signals, headers included.
    used: u64,
    /// The damage of the frame's structure, if any. Bytes are counted as lost where the damage is found.
    damage: Option<LossReason>,
}

impl FrameOutcome {
    fn all(bytes: usize) -> FrameOutcome {
        FrameOutcome { used: bytes as u64, damage: None }
    }

    fn none(reason: LossReason) -> FrameOutcome {
        FrameOutcome { used: 0, damage: Some(reason) }
    }
}

impl Decoder {
    /// Creates a decoder for `source`.
    ///
    /// # Errors
    /// When the settings cannot be used.
    pub fn new(source: SourceId, settings: &Settings) -> Result<Decoder, SettingsError> {
        let plan = settings.resolve()?;
        Ok(Decoder {
            source,
            plan,
            scale: Scale::new(plan.tick, plan.time_offset_ps),
            clock: Clock::new(),
            starts: Starts::AsTheyCome,
            starts_read: 0,
            level: Level::detect(),
            channel_counters: Box::new([ChannelCounters::default(); CHANNELS as usize]),
            counters: Counters::default(),
        })
    }

    /// Creates a decoder for a board that we arm and start. If the board is started again in the run, its time restarts
    /// at 0; the decoder adds the time between the marks of the first start and this one.
    ///
    /// # Errors
    /// As for [`Decoder::new`].
    pub fn of_armed_board(source: SourceId, settings: &Settings) -> Result<Decoder, SettingsError> {
        Ok(Decoder { starts: Starts::Expected, ..Decoder::new(source, settings)? })
    }

    /// The firmware whose data it decodes.
    #[cfg(any(test, feature = "harness"))]
    pub(super) fn firmware(&self) -> Firmware {
        self.plan.firmware
    }

    /// Restarts the board's clock and counters.
    fn restart(&mut self, mark: Mark) {
        match self.starts {
            Starts::AsTheyCome => {}
            Starts::Expected => self.starts = Starts::Seen(mark),
            Starts::Seen(first) => {
                let later_ps = i64::try_from(mark.since_ns(first)).unwrap_or(i64::MAX).saturating_mul(1000);
                let offset_ps = self.plan.time_offset_ps.saturating_add(later_ps);
                self.scale = Scale::new(self.plan.tick, offset_ps);
            }
        }
        match self.starts {
            Starts::AsTheyCome => self.clock.restart(self.starts_read),
            Starts::Expected | Starts::Seen(_) => self.clock.restart_at_zero(self.starts_read, mark),
        }
        self.channel_counters.fill(ChannelCounters::default());
    }

    /// Follows the starts of the board that other decoders of the source have read.
    #[cold]
    fn catch_up(&mut self, starts: BoardStarts) {
        self.starts_read = starts.count;
        if starts.count > 1 && matches!(self.starts, Starts::Expected) {
            self.starts = Starts::Seen(starts.first);
        }
        self.restart(starts.latest);
    }

    fn frame(&mut self, chain: &[Slice], units: &Frames, hits: &mut Hits) {
        let tag = chain.first().map_or(0, |slice| slice.tag);
        if is_part(tag) {
            return self.part(chain, units, hits);
        }
        // An aggregate in parts: its header is counted with the first one, and the frame with the last.
        let part = PartOfAggregate::of_tag(tag);
        let frames = u64::from(part.is_none_or(|part| part.is_last));
        let repeated = if part.is_none_or(|part| part.is_first) { 0 } else { WORD as u64 };
        let bytes = chain.iter().map(|slice| u64::from(slice.length)).sum::<u64>() - repeated;
        self.counters.input(Unit::Frames, frames);
        self.counters.input(Unit::Bytes, bytes);
        let slices_before = hits.slices.len();
        let outcome = match Cursor::new(chain, &units.leases) {
            Some(cursor) => self.event((bytes, part.is_some()), cursor, hits),
            None => FrameOutcome::none(LossReason::BadLength),
        };
        if hits.slices.len() > slices_before {
            chain.iter().for_each(|slice| hits.leases.add_for(*slice, &units.leases));
        }
        self.counters.output(Unit::Bytes, outcome.used - repeated);
        match outcome.damage {
            None => self.counters.output(Unit::Frames, frames),
            Some(reason) => self.counters.lost(reason, Unit::Frames, frames),
        }
    }

    /// Decodes an event of so many bytes, or a part of one.
    fn event(
        &mut self,
        (bytes, is_part): (u64, bool),
        mut cursor: Cursor<'_>,
        hits: &mut Hits,
    ) -> FrameOutcome {
        let lost = |this: &mut Decoder, reason| {
            this.counters.lost(reason, Unit::Bytes, bytes);
            FrameOutcome::none(reason)
        };
        let Some(header) = cursor.word().map(EventHeader) else { return lost(self, LossReason::BadLength) };
        if header.word_count() == 0 {
            return lost(self, LossReason::ZeroWords);
        }
        if header.byte_count() != bytes && !is_part {
            return lost(self, LossReason::WordCount);
        }
        match header.format() {
            Format::Aggregate => self.aggregate(header, &mut cursor, hits),
            Format::Scope => match self.scope(header, &mut cursor, hits) {
                Ok(()) => FrameOutcome::all(bytes as usize),
                Err(reason) => lost(self, reason),
            },
            Format::Special => match self.special(header, &mut cursor, hits) {
                Ok(()) => FrameOutcome::all(bytes as usize),
                Err(reason) => lost(self, reason),
            },
            Format::Unknown(_) => lost(self, LossReason::UnknownFormat),
        }
    }

    /// Flags that every hit of an event has.
    fn event_flags(&self, header: EventHeader) -> Flags {
        let fail = if header.board_fail() { Flags::BOARD_FAIL } else { Flags::NONE };
        let short = match self.plan.firmware {
            Firmware::Pha => Flags::NO_ENERGY_SHORT,
            _ => Flags::NONE,
        };
        fail | short
    }
}

impl Decode for Decoder {
    fn decode(&mut self, units: &Frames, hits: &mut Hits) {
        if units.starts.count > self.starts_read {
            self.catch_up(units.starts);
        }
        self.clock.arrive(units.header.mark, self.plan.tick);
        let mut rest = units.slices.as_slice();
        while !rest.is_empty() {
            let last = rest.iter().position(|slice| !slice.continues()).unwrap_or(rest.len() - 1);
            let (chain, others) = rest.split_at(last + 1);
            rest = others;
            self.frame(chain, units, hits);
        }
    }

    fn counters(&self) -> &Counters {
        &self.counters
    }
}

/// Bytes of `words` words.
const fn words_bytes(words: usize) -> usize {
    words * WORD
}

#[cfg(test)]
mod tests;
