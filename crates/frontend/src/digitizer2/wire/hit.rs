//! The words of a hit: two, or one if the board reduces data.
//!
//! ```text
//!  word 0   63 last = 0 | 62..56 channel | 55 special | 54..48 info | 47..0 time stamp
//!  word 1   63 last | 62 wave | 61..50 flags low | 49..42 flags high | 41..26 short | 25..16 fine | 15..0 energy
//!
//!  one word 63 last = 1 | 62..56 channel | 55..48 flags high | 47..16 time stamp, low 32 bits | 15..0 energy
//! ```

use super::{TIME_MASK, bits};

/// Words 0 and 1 of a hit of DPP-PSD, DPP-PHA or Open DPP, or of a statistics record.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct HitWords(pub u64, pub u64);

impl HitWords {
    /// Bit 63: last word of the header.
    pub const LAST: u64 = 1 << 63;
    /// Word 0, bit 55.
    pub const SPECIAL: u64 = 1 << 55;
    /// Word 1, bit 62.
    pub const WAVE: u64 = 1 << 62;

    /// Channel of the board, 0 to 127.
    #[inline(always)]
    pub const fn channel(self) -> u16 {
        bits(self.0, 56, 7) as u16
    }

    /// A statistics record (PSD, PHA), or a hit that user logic has marked (Open DPP).
    #[inline]
    pub const fn special(self) -> bool {
        self.0 & Self::SPECIAL != 0
    }

    /// Open DPP: seven user-defined bits.
    pub const fn info(self) -> u8 {
        bits(self.0, 48, 7) as u8
    }

    /// Time stamp in sampling periods, 48 bits.
    #[inline(always)]
    pub const fn timestamp(self) -> u64 {
        self.0 & TIME_MASK
    }

    /// Whether no extra word follows.
    #[inline]
    pub const fn last(self) -> bool {
        self.1 & Self::LAST != 0
    }

    /// Whether a waveform follows the extra words.
    #[inline]
    pub const fn wave(self) -> bool {
        self.1 & Self::WAVE != 0
    }

    /// Low-priority flags in bits 11..0, high-priority flags in 19..12.
    #[inline(always)]
    pub const fn raw_flags(self) -> u32 {
        (bits(self.1, 50, 12) | bits(self.1, 42, 8) << 12) as u32
    }

    /// Short-gate charge (PSD, Open DPP).
    #[inline(always)]
    pub const fn energy_short(self) -> u16 {
        bits(self.1, 26, 16) as u16
    }

    /// Fine time in 1/1024 of a time stamp count.
    #[inline(always)]
    pub const fn fine(self) -> u16 {
        bits(self.1, 16, 10) as u16
    }

    /// Energy, or long-gate charge.
    #[inline(always)]
    pub const fn energy(self) -> u16 {
        self.1 as u16
    }
}

/// A hit of one word: no short energy, no fine time, no low flags, 32 bits of time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct OneWordHit(pub u64);

impl OneWordHit {
    /// Whether the first word of a hit is the only one.
    #[inline(always)]
    pub const fn is(word: u64) -> bool {
        word & HitWords::LAST != 0
    }

    /// Channel of the board, 0 to 127.
    #[inline(always)]
    pub const fn channel(self) -> u16 {
        bits(self.0, 56, 7) as u16
    }

    /// High-priority flags in bits 19..12, as in [`HitWords::raw_flags`].
    #[inline(always)]
    pub const fn raw_flags(self) -> u32 {
        (bits(self.0, 48, 8) << 12) as u32
    }

    /// The low 32 bits of the time stamp: they wrap after 34.4 s at 8 ns.
    #[inline(always)]
    pub const fn timestamp(self) -> u32 {
        bits(self.0, 16, 32) as u32
    }

    /// Energy, or long-gate charge.
    #[inline(always)]
    pub const fn energy(self) -> u16 {
        self.0 as u16
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hits_are_those_of_the_worked_examples() {
        let hit = HitWords(0x0500_0000_075b_cd15, 0x8101_000c_8200_03e8);
        assert_eq!((hit.channel(), hit.timestamp(), hit.energy()), (5, 123_456_789, 1000));
        assert_eq!((hit.energy_short(), hit.fine(), hit.raw_flags()), (800, 512, 0x40 << 12 | 0x040));
        assert!(hit.last() && !hit.wave() && !hit.special());
        let one = OneWordHit(0xbf01_ffff_ffff_ffff);
        assert!(OneWordHit::is(one.0));
        assert_eq!((one.channel(), one.timestamp(), one.energy()), (63, u32::MAX, u16::MAX));
        assert_eq!(one.raw_flags(), 0x01 << 12);
    }
}
