//! Translates the board's flag words into [`Flags`].
//!
//! ```text
//!  high  7 6 5 4 3 2 1 0            low  11 … 6 … 3 2 1 0
//!        ? F W O P S ? U                  ?   self  ext over under inhibit
//!          └─────────┴─┴─► same bits of Flags
//! ```
//! If the words cannot be reconstructed from [`Flags`] (two low bits for one flag, bits without a meaning), the hit
//! gets an extra with the raw words.

use thalweg_data::Flags;

/// High-priority flags with a meaning, at their bit positions in [`Flags`].
pub(super) const HIGH: u32 = 0b0111_1101;
/// Low-priority flags with their own bit in [`Flags`]: external inhibit, external trigger, self trigger.
const LOW_ALONE: u32 = 1 << 0 | 1 << 3 | 1 << 6;
/// Raw flags ([`crate::digitizer2::wire::HitWords::raw_flags`]) that cannot be reconstructed from [`Flags`].
pub(super) const LOSSY: u32 = (0xFFF & !LOW_ALONE) | (0xFF & !HIGH) << 12;
/// The same for a one-word hit, which has no fine time and therefore not that flag.
pub(super) const LOSSY_ONE_WORD: u32 = LOSSY | 1 << (12 + 6);
/// Low-priority flags for under- and over-saturation.
const LOW_SATURATION: u32 = 1 << 1 | 1 << 2;
/// Low-priority flags for a trigger from elsewhere than the channel: external, global, software, LVDS, 64-channel,
/// ITLA, ITLB.
const LOW_OTHER_TRIGGER: u32 = 1 << 3 | 1 << 4 | 1 << 5 | 0b1111 << 7;

/// Flags of a hit of two words, without [`Flags::EXTRA`].
#[inline]
pub(super) fn translate(raw: u32) -> Flags {
    let mut flags = raw >> 12 & HIGH;
    flags |= (raw & 1) << 8 | (raw >> 6 & 1) << 9;
    flags |= u32::from(raw & LOW_OTHER_TRIGGER != 0) << 10;
    flags |= u32::from(raw & LOW_SATURATION != 0) << 2;
    Flags(flags as u16)
}

/// Flags of a hit of one word, without [`Flags::EXTRA`].
#[inline]
pub(super) fn translate_one_word(raw: u32) -> Flags {
    Flags(translate(raw).0 & !Flags::FINE_TIME.0) | Flags::NO_ENERGY_SHORT
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn raw_flags_that_are_not_lossy_can_be_reconstructed() {
        for raw in (0..1u32 << 20).filter(|raw| raw & LOSSY == 0) {
            let flags = u32::from(translate(raw).0);
            let low = (flags >> 8 & 1) | (flags >> 9 & 1) << 6 | (flags >> 10 & 1) << 3;
            assert_eq!((flags & HIGH) << 12 | low, raw);
        }
    }

    #[test]
    fn named_flags_have_the_bits_of_the_board() {
        assert_eq!(translate(1 << 12), Flags::PILE_UP);
        assert_eq!(translate(1 << 18 | 1 << 6), Flags::FINE_TIME | Flags::SELF_TRIGGER);
        assert_eq!(translate(1 << 1), Flags::SATURATION);
        assert_eq!(translate(1 << 9), Flags::EXTERNAL_TRIGGER);
        assert_eq!(translate_one_word(1 << 18), Flags::NO_ENERGY_SHORT);
    }
}
