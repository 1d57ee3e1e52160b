//! `[record]` of the configuration: what is kept, where, and how safely.
//!
//! ```text
//!  [record] in TOML ──► Settings ──► HitWriter, EventWriter, RawWriter, RunDirectory
//! ```

use std::path::PathBuf;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::table::Table;

/// What is recorded, where, and how safely.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct Settings {
    /// Directory that holds the run directories.
    pub directory: PathBuf,
    /// What is kept, where it comes up: `hits`, `extras`, `waveforms` and `statistics` of self-triggered boards and the
    /// `coincidences` among their hits, `events` and `fragments` of triggered boards, unless said otherwise; `raw` keeps the
    /// received bytes, so that the run can be replayed.
    pub tables: Vec<Table>,
    /// Which hits the tables of hits take, where there are cuts. Coincidences and spectra do not depend on it.
    pub hits: RecordedHits,
    /// How buffers are compressed.
    pub compression: Compression,
    /// Worker threads that compress.
    #[schemars(range(min = 1, max = 64))]
    pub compression_workers: usize,
    /// When what was written is forced to the disk. A power cut costs what was not.
    pub sync: Sync,
    /// A batch is written when its first hit or event has waited this long, in seconds.
    pub batch_age_s: f64,
    /// A batch is written when it holds this many hits.
    #[schemars(range(min = 1, max = 16_777_216))]
    pub batch_hits: usize,
    /// A batch is written when its waveforms, fragments or raw bytes take this many bytes.
    #[schemars(range(min = 4096, max = 268_435_456))]
    pub batch_bytes: usize,
    /// What the run does when the disk is full.
    pub on_full: OnFull,
}

impl Default for Settings {
    fn default() -> Settings {
        Settings {
            directory: PathBuf::from("runs"),
            tables: vec![
                Table::Hits,
                Table::Extras,
                Table::Waveforms,
                Table::Statistics,
                Table::Events,
                Table::Fragments,
                Table::Coincidences,
            ],
            hits: RecordedHits::All,
            compression: Compression::None,
            compression_workers: 2,
            sync: Sync::None,
            batch_age_s: 1.0,
            batch_hits: 128 * 1024,
            batch_bytes: 1024 * 1024,
            on_full: OnFull::End,
        }
    }
}

impl Settings {
    /// Whether a table is kept.
    pub fn keeps(&self, table: Table) -> bool {
        self.tables.contains(&table)
    }

    /// The longest that a hit waits in memory, nanoseconds.
    pub fn batch_age_ns(&self) -> u64 {
        // A cast of a float saturates; what is not a number becomes 0.
        (self.batch_age_s * 1e9) as u64
    }

    /// Bytes of memory that recording takes at most beside the blocks that raw batches hold, itemised.
    pub fn budget(&self) -> Vec<(&'static str, u64)> {
        let hit_columns = self.batch_hits as u64 * crate::hit_columns::BYTES_PER_HIT;
        let waveforms = if self.keeps(Table::Waveforms) { self.batch_bytes as u64 } else { 0 };
        let in_flight = match self.compression {
            Compression::None => 1,
            // Each cut that waits for its turn is there plain and compressed.
            _ => 2 * (self.cuts_in_flight() as u64 + 1),
        };
        vec![("hit columns", hit_columns * in_flight), ("waveform columns", waveforms * in_flight)]
    }

    /// Blocks of `block_bytes` that the raw recording keeps on loan at most, over all sources that it records: a source's
    /// pool needs as many beside its own.
    pub fn raw_blocks_held(&self, block_bytes: usize) -> usize {
        let per_batch = (self.batch_bytes / block_bytes.max(1) + 2).min(crate::raw_writer::MOST_BLOCKS);
        let batches = match self.compression {
            // One in the making, one that waits for a full disk.
            Compression::None => 2,
            _ => 2 + self.cuts_in_flight(),
        };
        per_batch * batches
    }

    /// Blocks of `block_bytes` that the recording of events keeps on loan of each of `sources` sources that send about as
    /// much as each other: a source's pool needs as many beside its own.
    pub fn event_blocks_held(&self, sources: usize, block_bytes: usize) -> usize {
        // A batch's bytes are spread over the sources, and in each over the end of one block and the start of the next.
        let bytes_per_source = self.batch_bytes / sources.max(1);
        let per_batch = (bytes_per_source / block_bytes.max(1) + 2).min(crate::event_writer::MOST_BLOCKS);
        let batches = match self.compression {
            // One in the making, one that waits for a full disk.
            Compression::None => 2,
            _ => 2 + self.cuts_in_flight(),
        };
        per_batch * batches
    }

    /// Bytes of memory that the recording of events takes at most beside those blocks, itemised.
    pub fn event_budget(&self) -> Vec<(&'static str, u64)> {
        let rows = crate::event_writer::MOST_ROW_BYTES + self.batch_bytes as u64;
        match self.compression {
            Compression::None => vec![("event columns", 2 * rows)],
            _ => {
                let cuts = self.cuts_in_flight() as u64 + 2;
                let compressed = rows + crate::event_writer::MOST_ROW_BYTES;
                vec![("event columns", cuts * rows), ("compressed events", cuts * compressed)]
            }
        }
    }

    /// Bytes of memory that the recording of coincidences takes at most, itemised.
    pub fn coincidence_budget(&self) -> Vec<(&'static str, u64)> {
        let columns = self.batch_hits as u64 * crate::coincidence_columns::BYTES_PER_HIT;
        let in_flight = match self.compression {
            // One in the making, one that waits for a full disk.
            Compression::None => 2,
            // Each cut that waits for its turn is there plain and compressed.
            _ => 2 * (self.cuts_in_flight() as u64 + 1),
        };
        vec![("coincidence columns", columns * in_flight)]
    }

    /// Cuts that may be in the hands of the compressing threads.
    pub(crate) fn cuts_in_flight(&self) -> usize {
        2 * self.compression_workers.clamp(1, 64)
    }
}

/// Which hits are recorded, where there are cuts.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum RecordedHits {
    /// All of them: cuts can be tried anew on the recording.
    #[default]
    All,
    /// Those that pass the cuts on hits, with what belongs to them; the others are counted as filtered.
    Kept,
}

/// How the buffers of a batch are compressed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Compression {
    /// Not at all.
    #[default]
    None,
    /// LZ4 frames: fast, for live data.
    Lz4,
    /// Zstandard: smaller, slower.
    Zstd,
}

/// When what was written is forced to the disk.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Sync {
    /// When the kernel sees fit (commonly within 30 s), and at the end of the run.
    #[default]
    None,
    /// After each batch.
    Batch,
    /// When this many seconds have passed since the last time.
    #[serde(untagged)]
    Seconds(f64),
}

/// What the run does when the disk is full. The sink only says so; the run acts.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum OnFull {
    /// Waits for space and goes on; what comes meanwhile is counted as lost.
    Pause,
    /// Ends the run.
    #[default]
    End,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sync_is_a_word_or_a_number() {
        let read = |text: &str| serde_json::from_str::<Sync>(text);
        assert_eq!(read("\"none\"").expect("a word"), Sync::None);
        assert_eq!(read("\"batch\"").expect("a word"), Sync::Batch);
        assert_eq!(read("5").expect("a number"), Sync::Seconds(5.0));
        assert!(read("\"often\"").is_err());
    }

    #[test]
    fn settings_survive_their_own_text_and_refuse_unknown_words() {
        let settings = Settings { sync: Sync::Seconds(2.5), ..Settings::default() };
        let text = serde_json::to_string(&settings).expect("plain data");
        assert_eq!(serde_json::from_str::<Settings>(&text).expect("own text"), settings);
        assert!(serde_json::from_str::<Settings>("{\"diretory\": \"x\"}").is_err());
        assert!(serde_json::to_string(&schemars::schema_for!(Settings)).is_ok());
    }
}
