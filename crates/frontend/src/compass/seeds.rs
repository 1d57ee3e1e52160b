//! Small files from which fuzzing starts.
//!
//! ```text
//!  emit ─► seeds ─► a fuzzer's mutations ─► check
//! ```
//! The first byte of an input chooses settings; see [`check`](super::check).

use super::{emit, wire};

/// Files in all sixteen combinations of fields, with and without their header.
pub fn files() -> Vec<Vec<u8>> {
    let event = |index: u64, samples: usize| emit::Event {
        board: (index % 4) as u16,
        channel: (index % 16) as u16,
        time_ps: index * 123_456_789,
        energy: 100 + index as u16,
        calibrated: index as f64 * 0.5,
        energy_short: 50 + index as u16,
        flags: 0x4000 | 1 << (index % 22),
        probe: 1,
        samples: (0..samples).map(|sample| (1000 + sample) as u16).collect(),
    };
    (0..16u8)
        .map(|bits| {
            let fields = wire::Fields::from_bits(u32::from(bits));
            // Every other file has no header; its first byte then chooses the fields.
            let mut input = vec![bits | (bits % 2) << 4 | (bits & 2) << 4];
            if bits % 2 == 0 {
                emit::header(fields, &mut input);
            }
            (0..12).for_each(|index| emit::record(fields, &event(index, 10), &mut input));
            input
        })
        .collect()
}
