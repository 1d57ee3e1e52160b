//! The 16-byte hit that every room after `decode` works on, and its extra row.
//!
//! ```text
//!  0        8      10       12            14     16
//!  | time_ps | chan | energy | energy_short | flags |
//! ```
//! A hit with data that do not fit into 16 bytes (raw flag bits without a flag here, a waveform, user words) has
//! [`Flags::EXTRA`] set: the k-th hit of a batch with that flag owns row k of the batch's extras.
//! An extra repeats the time of its hit. The same rule orders extras and hits, so every sort or merge leaves both in the same order.

use std::fmt;
use std::ops::{BitOr, BitOrAssign};

use crate::id::SourceId;
use crate::record_part::RecordPart;

/// Properties of a hit besides its numbers; the same set of flags for all formats.
#[derive(Clone, Copy, PartialEq, Eq, Default, Hash)]
#[repr(transparent)]
pub struct Flags(pub u16);

impl Flags {
    /// No flag is set.
    pub const NONE: Flags = Flags(0);
    /// A second pulse was in the gate.
    pub const PILE_UP: Flags = Flags(1 << 0);
    /// Triggers, or dead time, were lost just before this hit.
    pub const TRIGGER_LOST: Flags = Flags(1 << 1);
    /// The input saturated.
    pub const SATURATION: Flags = Flags(1 << 2);
    /// Shortly after a saturation.
    pub const POST_SATURATION: Flags = Flags(1 << 3);
    /// The charge integral overflowed.
    pub const CHARGE_OVERFLOW: Flags = Flags(1 << 4);
    /// The energy is inside the window that is set in the board.
    pub const IN_WINDOW: Flags = Flags(1 << 5);
    /// The time includes a valid fine time; if clear, the time is a whole number of board counts
    /// or its precision is not stated.
    pub const FINE_TIME: Flags = Flags(1 << 6);
    /// The board reported an error condition with the data that contained this hit.
    pub const BOARD_FAIL: Flags = Flags(1 << 7);
    /// An external inhibit was active.
    pub const INHIBIT: Flags = Flags(1 << 8);
    /// The channel triggered itself.
    pub const SELF_TRIGGER: Flags = Flags(1 << 9);
    /// Something other than the channel itself triggered.
    pub const EXTERNAL_TRIGGER: Flags = Flags(1 << 10);
    /// The format sends no energy; the field is 0 and means nothing.
    pub const NO_ENERGY: Flags = Flags(1 << 11);
    /// The format sends no short-gate energy; the field is 0 and means nothing.
    pub const NO_ENERGY_SHORT: Flags = Flags(1 << 12);
    /// Arrived after its position in the time order had passed, and was kept.
    pub const LATE: Flags = Flags(1 << 13);
    /// Made by the board or its software as a marker, or a further [part](crate::record_part) of a long record; not a pulse.
    pub const FAKE: Flags = Flags(1 << 14);
    /// This hit owns the next row of the extras.
    pub const EXTRA: Flags = Flags(1 << 15);

    /// Every flag with its name, as in files, on the page and in cut expressions.
    pub const NAMES: [(Flags, &'static str); 16] = [
        (Flags::PILE_UP, "pile_up"),
        (Flags::TRIGGER_LOST, "trigger_lost"),
        (Flags::SATURATION, "saturation"),
        (Flags::POST_SATURATION, "post_saturation"),
        (Flags::CHARGE_OVERFLOW, "charge_overflow"),
        (Flags::IN_WINDOW, "in_window"),
        (Flags::FINE_TIME, "fine_time"),
        (Flags::BOARD_FAIL, "board_fail"),
        (Flags::INHIBIT, "inhibit"),
        (Flags::SELF_TRIGGER, "self_trigger"),
        (Flags::EXTERNAL_TRIGGER, "external_trigger"),
        (Flags::NO_ENERGY, "no_energy"),
        (Flags::NO_ENERGY_SHORT, "no_energy_short"),
        (Flags::LATE, "late"),
        (Flags::FAKE, "fake"),
        (Flags::EXTRA, "extra"),
    ];

    /// Whether all of `other` are set.
    #[inline]
    pub const fn has(self, other: Flags) -> bool {
        self.0 & other.0 == other.0
    }

    /// The flags of both.
    #[inline]
    pub const fn with(self, other: Flags) -> Flags {
        Flags(self.0 | other.0)
    }
}

impl BitOr for Flags {
    type Output = Flags;
    fn bitor(self, other: Flags) -> Flags {
        self.with(other)
    }
}

impl BitOrAssign for Flags {
    fn bitor_assign(&mut self, other: Flags) {
        *self = self.with(other);
    }
}

impl fmt::Debug for Flags {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

impl fmt::Display for Flags {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut names = Flags::NAMES.iter().filter(|(flag, _)| self.has(*flag)).map(|(_, name)| *name);
        f.write_str(names.next().unwrap_or("-"))?;
        names.try_for_each(|name| write!(f, "+{name}"))
    }
}

/// One self-triggered record.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
#[repr(C, align(16))]
pub struct Hit {
    /// Picoseconds since run start: `floor` of the exact board time, plus the source's offset.
    pub time_ps: i64,
    /// Channel of the experiment: the source's first channel plus the board's own.
    pub channel: u16,
    /// Long-gate charge or pulse height, as the board measured it.
    pub energy: u16,
    /// Short-gate charge; see [`Flags::NO_ENERGY_SHORT`].
    pub energy_short: u16,
    /// Further properties.
    pub flags: Flags,
}

/// Something with a position in the time order. One rule orders hits and extras:
/// by time, then source, then sequence within the source.
pub trait Timed: Copy {
    /// Picoseconds since run start.
    fn time_ps(&self) -> i64;
}

impl Timed for Hit {
    #[inline(always)]
    fn time_ps(&self) -> i64 {
        self.time_ps
    }
}

impl Timed for Extra {
    #[inline(always)]
    fn time_ps(&self) -> i64 {
        self.time_ps
    }
}

/// How to read the samples of an extra; see [`crate::waveform`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
#[repr(u8)]
pub enum Layout {
    /// No samples.
    #[default]
    None = 0,
    /// Big-endian 64-bit words of two 32-bit samples: two 14-bit analog and four digital probes.
    DualProbe = 1,
    /// Big-endian 64-bit words of four 16-bit samples, first sample in the lowest bits.
    Packed = 2,
    /// As `Packed`, but every `stride`-th word belongs to this channel, from word `first`.
    Interleaved = 3,
    /// Little-endian 16-bit samples, one after another.
    Plain = 4,
}

/// Data of a hit that do not fit into it: 40 bytes, plain data. Samples and user words stay
/// in the blocks where they were received, as chains of slices of the batch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(C)]
pub struct Extra {
    /// The time of the hit that owns this row.
    pub time_ps: i64,
    /// The format's own description of the samples: for `DualProbe` the wave-info word
    /// (caen-digitizer2, data bits 59..0); for `Interleaved` `stride << 16 | first`, with the bits of a [`RecordPart`]
    /// if it is one; else 0.
    pub info: u64,
    /// The format's raw flag word: low-priority flags in bits 11..0, high-priority in 19..12
    /// (digitizer2); all 32 bits of CoMPASS.
    pub raw_flags: u32,
    /// A number whose meaning depends on the format: trigger id of a scope event, probe code of a waveform.
    pub number: u32,
    /// First slice of the samples' chain in the batch's slices.
    pub samples_first: u32,
    /// First slice of the user words' chain in the batch's slices.
    pub words_first: u32,
    /// Number of slices of samples; 0 when there are none.
    pub samples_count: u16,
    /// Number of slices of user words; 0 when there are none.
    pub words_count: u16,
    /// The source, which orders hits of the same time and is a column of the table.
    pub source: SourceId,
    /// How to read the samples.
    pub layout: Layout,
    /// The board cut the waveform short.
    pub truncated: bool,
}

impl Extra {
    /// An empty extra row of `hit`.
    pub fn of(hit: &Hit, source: SourceId) -> Extra {
        Extra {
            time_ps: hit.time_ps,
            info: 0,
            raw_flags: 0,
            number: 0,
            samples_first: 0,
            words_first: 0,
            samples_count: 0,
            words_count: 0,
            source,
            layout: Layout::None,
            truncated: false,
        }
    }

    /// Which part of its record the samples are; `None` where they are all of it.
    pub fn part(&self) -> Option<RecordPart> {
        match self.layout {
            Layout::Interleaved => RecordPart::from_info(self.info),
            _ => None,
        }
    }
}

/// A board's own counters of one channel.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Statistics {
    /// The board.
    pub source: SourceId,
    /// Channel of the experiment.
    pub channel: u16,
    /// Real time since run start, picoseconds.
    pub real_time_ps: i64,
    /// Dead time since run start, picoseconds.
    pub dead_time_ps: i64,
    /// Triggers, by the board's counter, extended beyond its 24 bits where the format allows.
    pub triggers: u64,
    /// Hits saved, likewise.
    pub saved: u64,
    /// The same real time by the board's clock alone, which counts from the board's start, picoseconds.
    pub since_start_ps: i64,
    /// Which start of the board in this run its counters count from, from 1 on; 0 of a board that ran before.
    pub start: u32,
    /// Bits of the board's counters of triggers and hits: what is counted is known modulo this power of two.
    pub counter_bits: u8,
}

/// What a board reports about the run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Signal {
    /// Acquisition started.
    Start {
        /// Samples per acquisition window, in the board's units.
        acquisition_width: u32,
        /// Number of traces.
        traces: u8,
        /// Down-sampling as a power of two.
        log2_decimation: u8,
        /// Channels that take part.
        channel_mask: u64,
    },
    /// Acquisition stopped.
    Stop {
        /// Time of the stop, picoseconds since run start.
        time_ps: i64,
        /// Dead time, in counts of the board.
        dead_time_counts: u32,
    },
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_hit_is_sixteen_bytes_and_aligned() {
        assert_eq!((size_of::<Hit>(), align_of::<Hit>()), (16, 16));
        assert_eq!(size_of::<Extra>(), 40);
    }

    #[test]
    fn flags_are_displayed_by_name() {
        assert_eq!((Flags::PILE_UP | Flags::EXTRA).to_string(), "pile_up+extra");
        assert_eq!(Flags::NONE.to_string(), "-");
        let every = Flags::NAMES.iter().fold(Flags::NONE, |all, (flag, _)| all | *flag);
        assert_eq!(every, Flags(u16::MAX));
    }
}
