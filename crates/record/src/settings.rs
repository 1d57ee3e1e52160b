//! `[record]` of the configuration: what is kept, where, and how safely.
//!
//! ```text
//!  [record] in TOML ──► Settings ──► HitWriter, EventWriter, RawWriter, RunDirectory
//!  [record.retention] ──► Retention ──► OldRuns
//! ```

use std::path::{Path, PathBuf};

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use thalweg_data::record_part::MOST_RECORD_BYTES;
use thalweg_data::waveform_facts::{SampleRange, WaveformFacts};

use crate::error::RecordError;
use crate::row_group::MOST_GROUPS;
use crate::system;
use crate::table::Table;

/// What is recorded, where, and how safely.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct Settings {
    /// Directory that holds the run directories.
    pub directory: PathBuf,
    /// What is kept, where it comes up: `hits`, `extras`, `waveforms` and `statistics` of self-triggered boards and the
    /// `coincidences` among their hits, `events` and `fragments` of triggered boards, unless said otherwise; `raw` keeps the
    /// received bytes, so that the run can be replayed. `losses` is kept whatever stands here.
    pub tables: Vec<Table>,
    /// Which hits the tables of hits take, where there are cuts. Coincidences and spectra do not depend on it.
    pub hits: RecordedHits,
    /// How buffers are compressed.
    pub compression: Compression,
    /// Worker threads that compress.
    #[schemars(range(min = 1, max = 64))]
    pub compression_workers: usize,
    /// When what was written is forced to the disk. A power cut costs what was not. A number is the seconds from one time to the next, above 0
    /// and at most 86 400.
    pub sync: Sync,
    /// A batch is written when its first hit or event has waited this long, in seconds.
    pub batch_age_s: f64,
    /// A batch is written when it holds this many hits.
    #[schemars(range(min = 1, max = 16_777_216))]
    pub batch_hits: usize,
    /// A batch is written when its waveforms, fragments or raw bytes take this many bytes.
    #[schemars(range(min = 4096, max = 268_435_456))]
    pub batch_bytes: usize,
    /// When a table goes on in a new file, without a pause; without these, a run has one file per table and writer.
    pub files: FileLimits,
    /// Bytes of the disk that are left free: with fewer, the run waits or ends as `on_full` says, before the disk is full. Triggers are held
    /// back by BUSY meanwhile, and emulated boards are inhibited; what they have sent by then is still written. Choose what comes in a
    /// second or two.
    #[schemars(range(min = 1_000_000))]
    pub least_free_bytes: Option<u64>,
    /// What the run does when the disk is full. Where there is `[record.retention]`, old runs free space first.
    pub on_full: OnFull,
    /// When the tables of the oldest runs are removed; without it, never.
    pub retention: Option<Retention>,
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
            batch_hits: 64 * 1024,
            batch_bytes: 1024 * 1024,
            files: FileLimits::default(),
            least_free_bytes: None,
            on_full: OnFull::End,
            retention: None,
        }
    }
}

impl Settings {
    /// Whether a recording can be made with these.
    ///
    /// # Errors
    /// The key, what was found, and what to write.
    pub fn check(&self) -> Result<(), String> {
        let numbers = [
            ("compression_workers", self.compression_workers, 1..=64),
            ("batch_hits", self.batch_hits, 1..=16_777_216),
            ("batch_bytes", self.batch_bytes, 4096..=268_435_456),
        ];
        for (key, found, allowed) in numbers {
            if !allowed.contains(&found) {
                return Err(format!("`{key} = {found}`: write {} to {}", allowed.start(), allowed.end()));
            }
        }
        if self.directory.as_os_str().is_empty() {
            return Err("`directory = \"\"`: write the directory that the runs go to, \".\" for the one in which thalweg was started".to_owned());
        }
        self.files.check(&self.directory)?;
        self.check_free_bytes()?;
        self.sync.check()?;
        match (0.0..=86_400.0).contains(&self.batch_age_s) {
            true => Ok(()),
            false => Err(format!("`batch_age_s = {}`: write 0 to 86400 seconds", self.batch_age_s)),
        }
    }

    /// The mark at which a run waits must be one that can be left again, and below the one at which old runs are removed.
    fn check_free_bytes(&self) -> Result<(), String> {
        let Some(least) = self.least_free_bytes else { return Ok(()) };
        if least < Retention::LEAST_BYTES {
            return Err(format!(
                "`least_free_bytes = {least}`: it counts bytes; write {} or more",
                Retention::LEAST_BYTES
            ));
        }
        if let Some(disk) = bytes_of_disk(&self.directory).filter(|disk| least >= *disk) {
            let directory = self.directory.display();
            return Err(format!(
                "`least_free_bytes = {least}` is never free: the disk of {directory} has {disk} bytes; write less"
            ));
        }
        match self.retention.and_then(|retention| retention.least_free_bytes) {
            Some(retained) if least >= retained => Err(format!(
                "`least_free_bytes = {least}` is not below that of `[record.retention]`, {retained}: the run would wait before old runs \
                 are removed; write less here, or more there"
            )),
            _ => Ok(()),
        }
    }

    /// Whether a table is kept.
    pub fn keeps(&self, table: Table) -> bool {
        self.tables.contains(&table)
    }

    /// Whether any table of hits, or of what belongs to them, is kept.
    pub fn keeps_hits(&self) -> bool {
        Table::OF_HITS.iter().any(|table| self.keeps(*table))
    }

    /// Whether rows of these tables are kept in none of them, nor as the bytes that they were made of.
    pub fn keeps_none_of(&self, tables: &[Table]) -> bool {
        !tables.iter().chain(&[Table::Raw]).any(|table| self.keeps(*table))
    }

    /// The longest that a hit waits in memory, nanoseconds.
    pub fn batch_age_ns(&self) -> u64 {
        // A cast of a float saturates; what is not a number becomes 0.
        (self.batch_age_s * 1e9) as u64
    }

    /// Bytes of memory that recording takes at most beside the blocks that raw batches hold, itemised, of sources with these waveforms.
    pub fn budget(&self, facts: impl IntoIterator<Item = WaveformFacts>) -> Vec<(&'static str, u64)> {
        let hit_columns = self.batch_hits as u64 * crate::hit_columns::BYTES_PER_HIT;
        let waveforms = if self.keeps(Table::Waveforms) { self.batch_bytes as u64 } else { 0 };
        let in_flight = match self.compression {
            // One in the making, those that are written, those that wait for it.
            Compression::None => 1 + 2 * MOST_GROUPS as u64,
            // Each row group that waits for its turn is there plain and compressed.
            _ => 2 * (self.row_groups_in_flight() as u64 + 2),
        };
        let mut has_records = facts.into_iter().map(|facts| facts.samples == SampleRange::Unsigned16);
        // A record is there row by row, and again channel by channel.
        let record = if self.keeps(Table::Waveforms) && has_records.any(|has| has) {
            2 * MOST_RECORD_BYTES
        } else {
            0
        };
        vec![
            ("hit columns", hit_columns * in_flight),
            ("waveform columns", waveforms * in_flight),
            ("scope record", record),
        ]
    }

    /// Blocks of `block_bytes` that the raw recording keeps on loan at most, over all sources that it records: a source's
    /// pool needs as many beside its own.
    pub fn raw_blocks_held(&self, block_bytes: usize) -> usize {
        let per_batch = (self.batch_bytes / block_bytes.max(1) + 2).min(crate::raw_writer::MOST_BLOCKS);
        let batches = match self.compression {
            // One in the making, one that waits for a full disk.
            Compression::None => 2,
            _ => 2 + self.row_groups_in_flight(),
        };
        per_batch * batches
    }

    /// Blocks with `block_bytes` of data that the recording of events keeps on loan of each of `sources` sources that send about as
    /// much as each other: a source's pool needs as many beside its own.
    pub fn event_blocks_held(&self, sources: usize, block_bytes: usize) -> usize {
        // A batch's bytes are spread over the sources, and in each over the end of one block and the start of the next.
        let bytes_per_source = self.batch_bytes / sources.max(1);
        let per_batch = (bytes_per_source / block_bytes.max(1) + 2).min(crate::event_writer::MOST_BLOCKS);
        let batches = match self.compression {
            // One in the making, one that waits for a full disk.
            Compression::None => 2,
            _ => 2 + self.row_groups_in_flight(),
        };
        per_batch * batches
    }

    /// Bytes of memory that the recording of events takes at most beside those blocks, itemised.
    pub fn event_budget(&self) -> Vec<(&'static str, u64)> {
        let rows = crate::event_writer::MOST_ROW_BYTES + self.batch_bytes as u64;
        match self.compression {
            Compression::None => vec![("event columns", 2 * rows)],
            _ => {
                let groups = self.row_groups_in_flight() as u64 + 2;
                let compressed = rows + crate::event_writer::MOST_ROW_BYTES;
                vec![("event columns", groups * rows), ("compressed events", groups * compressed)]
            }
        }
    }

    /// Bytes of memory that the recording of coincidences takes at most, itemised.
    pub fn coincidence_budget(&self) -> Vec<(&'static str, u64)> {
        let columns = self.batch_hits as u64 * crate::coincidence_columns::BYTES_PER_HIT;
        let in_flight = match self.compression {
            // One in the making, one that waits for a full disk.
            Compression::None => 2,
            // Each row group that waits for its turn is there plain and compressed.
            _ => 2 * (self.row_groups_in_flight() as u64 + 1),
        };
        vec![("coincidence columns", columns * in_flight)]
    }

    /// Row groups that may be with the compressing threads.
    pub(crate) fn row_groups_in_flight(&self) -> usize {
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
#[serde(rename_all = "snake_case", expecting = "expected \"none\", \"batch\", or a number of seconds")]
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

impl Sync {
    /// Longest time between two: a day.
    const LONGEST_S: f64 = 86_400.0;

    /// Whether this can be meant.
    ///
    /// # Errors
    /// What was found, and what to write.
    fn check(self) -> Result<(), String> {
        match self {
            Sync::Seconds(seconds) if !(seconds > 0.0 && seconds <= Sync::LONGEST_S) => Err(format!(
                "`sync = {seconds}`: write more than 0 and at most {} seconds, \"batch\" to force each batch to the disk, or \"none\"",
                Sync::LONGEST_S
            )),
            _ => Ok(()),
        }
    }
}

/// `[record.files]`: a table goes on in a new file (`hits.0001.arrows`, `hits.0002.arrows`, …) at the first batch behind one of these. All
/// tables of a writer do so at the same batch. Readers take the files for one table.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct FileLimits {
    /// Bytes of one file.
    #[schemars(range(min = 1_000_000))]
    pub most_bytes: Option<u64>,
    /// Seconds from a file's first batch on.
    #[schemars(range(min = 1))]
    pub most_s: Option<f64>,
    /// Rows of one file: hits, events, or rows of another table.
    #[schemars(range(min = 1000))]
    pub most_rows: Option<u64>,
    /// Directories on other disks in which the files lie in turn, after `[record] directory`: a disk that is not written can be read at
    /// its full speed. They must exist when a run begins. Each gets a directory with the name of the run, and links in the run's own
    /// directory lead there.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub directories: Vec<PathBuf>,
}

impl FileLimits {
    const LEAST_BYTES: u64 = 1_000_000;
    const LEAST_ROWS: u64 = 1000;

    /// Whether the directories on other disks are there.
    ///
    /// # Errors
    /// When one is not.
    pub fn check_directories(&self) -> Result<(), RecordError> {
        self.directories.iter().try_for_each(|directory| FileLimits::check_directory(directory))
    }

    /// A disk that is not mounted must not be taken for the directory that it would be mounted at: so none is made.
    pub(crate) fn check_directory(directory: &Path) -> Result<(), RecordError> {
        if directory.is_dir() {
            return Ok(());
        }
        let found = "no such directory, and `directories` in `[record.files]` names it; mount its disk, or make the directory";
        Err(RecordError::Missing { path: directory.to_owned(), found: found.to_owned() })
    }

    /// Whether files of this kind can be meant.
    ///
    /// # Errors
    /// The key, what was found, and what to write.
    fn check(&self, directory: &Path) -> Result<(), String> {
        let is_limited = self.most_bytes.is_some() || self.most_s.is_some() || self.most_rows.is_some();
        if let (Some(other), false) = (self.directories.first(), is_limited) {
            let other = other.display();
            return Err(format!(
                "`directories` in `[record.files]` names {other}, and no file ever ends; write most_bytes, most_s or most_rows, too"
            ));
        }
        let absolute = |path: &Path| std::path::absolute(path).unwrap_or_else(|_| path.to_owned());
        if let Some(same) = self.directories.iter().find(|other| absolute(other) == absolute(directory)) {
            let same = same.display();
            return Err(format!(
                "`directories` in `[record.files]` names {same}, which is `[record] directory`; name others"
            ));
        }
        let counts = [
            ("most_bytes", self.most_bytes, FileLimits::LEAST_BYTES),
            ("most_rows", self.most_rows, FileLimits::LEAST_ROWS),
        ];
        for (key, found, least) in counts {
            if let Some(found) = found.filter(|found| *found < least) {
                return Err(format!("`{key} = {found}` in `[record.files]`: write {least} or more"));
            }
        }
        match self.most_s {
            Some(found) if !(1.0..=1e9).contains(&found) => {
                Err(format!("`most_s = {found}` in `[record.files]`: write 1 second or more"))
            }
            _ => Ok(()),
        }
    }

    /// Whether a file with so much in it is complete.
    pub(crate) fn are_reached(&self, file_bytes: u64, age_ns: u64, rows: u64) -> bool {
        let reached = |limit: Option<u64>, found: u64| limit.is_some_and(|limit| found >= limit);
        let most_ns = self.most_s.map(|seconds| (seconds * 1e9) as u64);
        reached(self.most_bytes, file_bytes) || reached(most_ns, age_ns) || reached(self.most_rows, rows)
    }
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

/// `[record.retention]`: the tables of the oldest runs in `directory` are removed so that these bounds hold, and each run's
/// `run.json`, snapshot and spectra stay. The newest run, and one that has not ended, is never touched.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Retention {
    /// Most bytes that the tables of all runs take together, that of the present one included.
    #[schemars(range(min = 1_000_000))]
    pub most_bytes: Option<u64>,
    /// Bytes of the disk that are left free. Choose more than is written in half a minute.
    #[schemars(range(min = 1_000_000))]
    pub least_free_bytes: Option<u64>,
    /// Most runs that have tables, the present one included.
    #[schemars(range(min = 1))]
    pub most_runs: Option<u64>,
}

impl Retention {
    /// Fewer bytes are a slip of the pen: they would leave nothing.
    const LEAST_BYTES: u64 = 1_000_000;

    /// Whether this can be meant of the runs in `directory`, which need not be there yet.
    ///
    /// # Errors
    /// In words, when it says nothing, would leave nothing, or asks for more than the disk has.
    pub fn check(&self, directory: &Path) -> Result<(), String> {
        let Retention { most_bytes, least_free_bytes, most_runs } = *self;
        if *self == Retention::default() {
            let words =
                "says nothing; write most_bytes, least_free_bytes or most_runs, or take the section out";
            return Err(words.to_owned());
        }
        let bytes = [("most_bytes", most_bytes), ("least_free_bytes", least_free_bytes)];
        for (key, bytes) in bytes {
            if let Some(bytes) = bytes.filter(|bytes| *bytes < Retention::LEAST_BYTES) {
                let least = Retention::LEAST_BYTES;
                return Err(format!(
                    "{key} = {bytes} is too little; it counts bytes, and allowed are {least} and more"
                ));
            }
        }
        if most_runs == Some(0) {
            return Err("most_runs = 0 would leave no run; allowed are 1 and more".to_owned());
        }
        match (least_free_bytes, bytes_of_disk(directory)) {
            (Some(least), Some(disk)) if least >= disk => Err(format!(
                "least_free_bytes = {least} is never free: the disk of {} has {disk} bytes; write less",
                directory.display()
            )),
            _ => Ok(()),
        }
    }
}

/// Bytes of the disk of a directory. One that is not there yet will be made on the disk of the nearest folder that is.
fn bytes_of_disk(directory: &Path) -> Option<u64> {
    let there = std::path::absolute(directory).unwrap_or_else(|_| directory.to_owned());
    there.ancestors().find_map(|folder| system::disk_bytes(folder).ok())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_retention_that_says_nothing_or_leaves_nothing_is_refused_in_words() {
        let check = |text: &str| {
            serde_json::from_str::<Retention>(text).expect("known keys").check(Path::new("/no/such/folder"))
        };
        for (text, words) in [
            ("{}", "says nothing"),
            (r#"{"most_bytes": 2000}"#, "most_bytes = 2000"),
            (r#"{"least_free_bytes": 0}"#, "least_free_bytes = 0"),
            (r#"{"most_runs": 0}"#, "most_runs = 0"),
            (r#"{"least_free_bytes": 9000000000000000000}"#, "never free"),
        ] {
            let found = check(text).expect_err(text);
            assert!(found.contains(words), "{found}");
        }
        assert_eq!(check(r#"{"most_bytes": 1000000, "least_free_bytes": 1000000, "most_runs": 1}"#), Ok(()));
        assert!(serde_json::from_str::<Retention>(r#"{"most_bytes": -1}"#).is_err());
        assert!(serde_json::from_str::<Retention>(r#"{"most": 1}"#).is_err());
    }

    #[test]
    fn sync_is_a_word_or_a_number() {
        let read = |text: &str| serde_json::from_str::<Sync>(text);
        assert_eq!(read("\"none\"").expect("a word"), Sync::None);
        assert_eq!(read("\"batch\"").expect("a word"), Sync::Batch);
        assert_eq!(read("5").expect("a number"), Sync::Seconds(5.0));
        for wrong in ["\"often\"", "true", "[]"] {
            let found = read(wrong).expect_err(wrong).to_string();
            assert!(found.contains("expected \"none\", \"batch\", or a number of seconds"), "{found}");
        }
    }

    #[test]
    fn sync_seconds_are_above_0_and_at_most_a_day() {
        let check = |seconds| Settings { sync: Sync::Seconds(seconds), ..Settings::default() }.check();
        for allowed in [0.001, 2.5, 86_400.0] {
            assert_eq!(check(allowed), Ok(()));
        }
        for refused in [-3.0, 0.0, 86_400.1, 1e30, f64::INFINITY, f64::NAN] {
            let found = check(refused).expect_err("not a time to wait");
            assert!(found.starts_with(&format!("`sync = {refused}`: write more than 0")), "{found}");
        }
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
