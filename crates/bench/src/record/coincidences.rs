//! Measures how fast coincidences become a file, against writing the same bytes as they are.
//!
//! ```text
//!  events of hits in memory ──► CoincidenceWriter ──► file     value
//!  bytes in memory ──► write ──► file                          baseline: as many bytes, the same sync policy
//! ```

use std::path::Path;

use thalweg_data::measure::Measurement;
use thalweg_data::{Flags, Hit, HitEvent, HitEvents};

use super::turn::Turn;
use super::way::{Spent, Way};
use super::{default_directory, fresh};
use thalweg_record::coincidence_writer::CoincidenceWriter;
use thalweg_record::settings::Settings;

/// Hits per turn.
const TURN_HITS: usize = 16 << 20;
/// Hits per incoming batch: 128 KiB, as coincidence gives them away.
const BATCH_HITS: usize = 8 * 1024;
/// Different batches in turn, so that hits come from the cache that coincidence leaves them in.
const BATCHES: usize = 8;
/// Bytes of a row: number, hit, difference, multiplicity, and a bit.
const ROW_BITS: usize = 8 * (8 + 16 + 8 + 2) + 1;

/// Records events of two to five hits, uncompressed, `repeats` times; the rate is that of their hits.
///
/// # Panics
/// When the directory cannot be written: there is nothing to measure then.
pub fn record_coincidences(repeats: usize) -> Measurement {
    record_coincidences_in(&Way::free(&default_directory(), repeats, Settings::default()))
}

/// Like [`record_coincidences`], in another way.
///
/// # Panics
/// When the directory cannot be written: there is nothing to measure then.
pub fn record_coincidences_in(way: &Way) -> Measurement {
    let batches = example_batches();
    let events: usize = batches.iter().map(|batch| batch.events.len()).sum();
    let per_event = (BATCHES * BATCH_HITS) as f64 / events as f64;
    let turn = Turn { bench: "record-coincidences", hits: TURN_HITS, raw_bytes: TURN_HITS * ROW_BITS / 8 };
    turn.measure(way, |directory| record_once(directory, way, &batches)).with("hits_per_event", per_event)
}

fn record_once(directory: &Path, way: &Way, batches: &[HitEvents]) -> (Spent, u64) {
    let run = fresh(directory, TURN_HITS * size_of::<Hit>());
    let mut writer = CoincidenceWriter::create(&run, &way.settings, &["bench".to_owned()])
        .expect("a fresh directory takes files");
    let mut pacer = way.pace.begin();
    for batch in batches.iter().cycle().take(TURN_HITS / BATCH_HITS) {
        pacer.wait_for(BATCH_HITS * ROW_BITS / 8);
        writer.write(batch).expect("the disk of a bench has room");
    }
    writer.finish().expect("the disk of a bench has room");
    let spent = pacer.spent();
    let bytes = writer.summaries().iter().map(|summary| summary.bytes).sum();
    drop(writer);
    let _ = std::fs::remove_dir_all(&run);
    (spent, bytes)
}

/// Batches of exactly [`BATCH_HITS`] hits in events whose lengths nothing foretells.
fn example_batches() -> Vec<HitEvents> {
    let mut number = 0u64;
    let mut batch = || {
        let mut batch = HitEvents::default();
        while batch.members.len() < BATCH_HITS {
            let noise = number.wrapping_mul(0x9E37_79B9_7F4A_7C15) >> 32;
            let count = (2 + noise as usize % 4).min(BATCH_HITS - batch.members.len());
            let (time_ps, first) = (number as i64 * 1_000_000, batch.members.len() as u32);
            batch.members.extend((0..count).map(|place| Hit {
                time_ps: time_ps + place as i64 * 7000,
                channel: (noise as usize + place) as u16 % 64,
                energy: (noise >> place) as u16 & 0x3FFF,
                energy_short: (noise >> place) as u16 & 0x1FFF,
                flags: Flags::FINE_TIME,
            }));
            let multiplicity = count as u16;
            batch.events.push(HitEvent {
                number,
                time_ps,
                first,
                count: count as u32,
                multiplicity,
                reference: 0,
            });
            number += 1;
        }
        batch
    };
    (0..BATCHES).map(|_| batch()).collect()
}
