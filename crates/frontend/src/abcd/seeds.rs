//! Small files from which fuzzing starts.
//!
//! ```text
//!  emit ─► seeds ─► a fuzzer's mutations ─► check
//! ```
//! The first byte of an input chooses settings; see [`check`](super::check).

use super::emit;

/// Files for every choice of settings.
pub fn files() -> Vec<Vec<u8>> {
    let event = |index: u64| emit::Event {
        time: index * index * 1_000_003,
        q_short: 100 * index as u16,
        q_long: 300 * index as u16,
        baseline: 0x7DAF,
        channel: (index % 10) as u8,
        group_counter: 0,
    };
    (0..16u8)
        .map(|choice| {
            let mut input = vec![choice];
            (0..20).for_each(|index| emit::record(&event(index), &mut input));
            input
        })
        .collect()
}
