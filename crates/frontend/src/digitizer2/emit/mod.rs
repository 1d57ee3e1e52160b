//! Writes what a board sends: each structure of the format is appended to a vector of bytes.
//!
//! ```text
//!  HitFields ─ hit / one_word_hit / wave_hit / packed_hit / statistics / zle_record ─┐
//!                                                    begin_aggregate … end_aggregate ┴─► events
//!  ScopeFields · StartFields · StopFields ───────────────────────────────────────────► events
//!  events ─ packet / clear_marker ─► TCP stream        events ─ datagram / Datagrams ─► UDP
//! ```
//! A function that cannot fail appends and returns nothing. A field that is wider than on the wire loses its high bits.
//! Emulated boards and the decoder's tests use these functions: decoding the output gives the input.

mod hits;
mod network;
mod runs;

pub use hits::{
    AggregateStart, HitFields, StatisticsFields, ZleFields, begin_aggregate, end_aggregate, hit,
    one_word_hit, packed_hit, set_event_counter, statistics, wave_hit, wave_sample, zle_record,
};
pub use network::{Datagrams, clear_marker, datagram, empty_datagram, footer, packet, rehash, set_buffer_id};
pub use runs::{ScopeFields, StartFields, StopFields, scope_event, start, stop};

/// Appends one word in the byte order of the wire.
#[inline]
pub fn word(out: &mut Vec<u8>, word: u64) {
    out.extend_from_slice(&word.to_be_bytes());
}

/// Appends 16-bit samples, four per word, the first in the lowest bits; the last word is padded with zeros.
pub(crate) fn packed_samples(out: &mut Vec<u8>, samples: &[u16]) {
    let (whole, rest) = samples.as_chunks::<4>();
    for four in whole {
        word(out, four_samples(*four));
    }
    if !rest.is_empty() {
        let mut four = [0; 4];
        four[..rest.len()].copy_from_slice(rest);
        word(out, four_samples(four));
    }
}

#[inline]
fn four_samples(four: [u16; 4]) -> u64 {
    four.iter().rev().fold(0, |word, sample| word << 16 | u64::from(*sample))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::digitizer2::wire::{Probe, WaveInfo};

    fn words(bytes: &[u8]) -> Vec<u64> {
        bytes.as_chunks::<8>().0.iter().map(|word| u64::from_be_bytes(*word)).collect()
    }

    #[test]
    fn hits_and_aggregates_are_those_of_the_worked_examples() {
        let mut out = Vec::new();
        let start = begin_aggregate(&mut out, 7, false, false);
        let fields = HitFields {
            channel: 5,
            timestamp: 123_456_789,
            fine: 512,
            energy: 1000,
            energy_short: 800,
            flags_low: 0x040,
            flags_high: 0x40,
        };
        hit(&mut out, &fields);
        let one = HitFields { channel: 63, timestamp: 0xFFFF_FFFF, energy: 65535, flags_high: 1, ..fields };
        one_word_hit(&mut out, &one);
        end_aggregate(&mut out, start);
        let expected =
            [0x2000_0007_0000_0004, 0x0500_0000_075b_cd15, 0x8101_000c_8200_03e8, 0xbf01_ffff_ffff_ffff];
        assert_eq!(words(&out), expected);
        set_event_counter(&mut out, 8);
        assert_eq!(words(&out)[0], 0x2000_0008_0000_0004);
    }

    #[test]
    fn statistics_are_those_of_the_worked_example() {
        let mut out = Vec::new();
        statistics(
            &mut out,
            &StatisticsFields {
                channel: 2,
                real_time: 1_000_000,
                dead_time: 1234,
                triggers: 5000,
                saved: 4990,
            },
        );
        assert_eq!(words(&out), [0x0280_0000_000f_4240, 0, 0x1000_0000_0000_04d2, 0xa000_0013_8800_137e]);
    }

    #[test]
    fn a_waveform_is_that_of_the_worked_example() {
        let info = WaveInfo {
            analog: [
                Probe { code: 0, signed: true, factor_code: 0 },
                Probe { code: 2, signed: false, factor_code: 1 },
            ],
            digital: [0, 1, 2, 3],
            threshold: 50,
            log2_decimation: 1,
        };
        let samples = [
            wave_sample(-1, 1, 0b0001),
            wave_sample(2, 2, 0),
            wave_sample(-3, 3, 0),
            wave_sample(4, 4, 0b1000),
        ];
        let mut out = Vec::new();
        let fields = HitFields { timestamp: 10, energy: 20, energy_short: 10, ..HitFields::default() };
        wave_hit(&mut out, &fields, &info, &samples, false);
        let expected = [
            0x0000_0000_0000_000a,
            0x4000_0000_2800_0014,
            0x8000_1003_2321_0488,
            0x0000_0000_0000_0002,
            0x0002_0002_0001_7fff,
            0x8004_0004_0003_3ffd,
        ];
        assert_eq!(words(&out), expected);
    }

    #[test]
    fn scope_start_and_stop_are_those_of_the_worked_examples() {
        let mut out = Vec::new();
        let fields =
            ScopeFields { trigger_id: 3, timestamp: 4096, channel_mask: 0b101, ..ScopeFields::default() };
        scope_event(&mut out, &fields, &[&[1, 2, 3, 4], &[16, 32, 48, 64]]);
        let samples = [0x0004_0003_0002_0001, 0x0040_0030_0020_0010];
        assert_eq!(words(&out), [&[0x1000_0003_0000_0005, 0x1000, 5], &samples[..]].concat());
        out.clear();
        start(
            &mut out,
            &StartFields { acquisition_width: 64, traces: 2, log2_decimation: 0, channel_mask: u64::MAX },
        );
        stop(&mut out, &StopFields { timestamp: 123_456, dead_time: 77 });
        let expected = [
            0x3000_0003_0000_0004,
            0x0200_0000_0400_0040,
            0x0100_0000_ffff_ffff,
            0x0100_0000_ffff_ffff,
            0x3200_0002_0000_0003,
            0x0000_0000_0001_e240,
            0x0100_0000_0000_004d,
        ];
        assert_eq!(words(&out), expected);
    }
}
