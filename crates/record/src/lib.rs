//! Run files: written, checked, repaired and replayed.
//!
//! ```text
//!  Hits ──────► HitWriter ─────────► columns ──► RowGroup ──► hits · extras · waveforms · statistics
//!  HitEvents ─► CoincidenceWriter ─► columns ──► RowGroup ──► coincidences       │
//!  Ledgers ─────► LossList ──────────► columns ────────► losses              │
//!  Reading ───► SeriesList ────────► columns ────────► series              │
//!  Events ────► EventWriter ──► extents of blocks ──► events · fragments    │
//!  Frames ────► RawWriter ───► extents of blocks ──► raw                    │  .arrows, run.json, ledger.bin
//!                                                                           ▼
//!        RawReplay (a Source) ◄── read ── verify · recover · inspect ◄── RunDirectory ◄── OldRuns
//! ```
//!
//! A table is one Arrow IPC *stream* file that is a whole stream at every moment, also while it is being written
//! and after `kill -9` (see [`ipc::file`]): any stock reader opens it. Each batch carries a CRC-32C.
//!
//! What a crash can cost: `kill -9` costs what was not yet in a batch (at most [`Settings::batch_age_s`] of data and
//! what is being compressed); a power cut costs, besides, what the kernel had not yet put on the disk, which is what
//! [`Settings::sync`] bounds. In both cases [`recover`](read::recover()) leaves the whole batches.
//!
//! - [`settings`]: what is kept, where, and how safely.
//! - [`directory`]: run directories: one per run, numbered, never written twice.
//! - `directory_lock`: who has a directory open.
//! - `early_losses`: events lost at once, while events before them were held.
//! - `locked_directories`: which directories of this host are open, and by whom: [`locked_directories()`].
//! - [`table`]: the tables of a run and their columns.
//! - `table_part`: one file of a table: [`TablePart`].
//! - [`ipc`]: Arrow streams that are whole at every moment.
//! - `amounts`: how much of each source is in a row group.
//! - `group_files`: the files of a sink.
//! - `row_group`: the rows that enter all tables of a sink at once.
//! - `fragment_columns`: fragments become rows here.
//! - `gather`: payload that lies scattered becomes one buffer of a batch.
//! - [`hit_writer`]: hits, extras, waveforms and statistics.
//! - `hit_columns`: hits become columns here, once.
//! - `extra_columns`: extras, waveforms and statistics become rows here.
//! - `waveform_sources`: the sources of a table of waveforms.
//! - [`hits_file`]: a file of hits alone, outside any run.
//! - [`coincidence_writer`]: events of hits.
//! - `coincidence_columns`: their columns.
//! - [`event_writer`]: events and their fragments.
//! - [`raw_writer`]: received bytes as they came, with their marks.
//! - `loss_list`: what was lost when, as a table: [`LossList`].
//! - `loss_row`: one row of it: [`LossRow`].
//! - `range_list`: what became of each range of triggers, as a table: [`RangeList`].
//! - `series_list`: values of slow control, as a table: [`SeriesList`].
//! - [`run_record`]: `run.json`: what a run was.
//! - `run_losses`: what a recorded run has lost, by its ledger and since.
//! - `replay_record`: what a replayed run was made of: [`ReplayRecord`].
//! - `json_lines`: files of lines that people add to.
//! - `recorded_tables`: the tables that a run has recorded, against those that are there: [`RecordedTables`].
//! - `notes`: what people write down: [`Note`].
//! - `removed`: what is left of tables that were removed: [`RemovedTables`].
//! - `retention`: the policy by which the tables of old runs are removed: [`OldRuns`].
//! - `space_watch`: whether the disk has too little space left: [`SpaceWatch`].
//! - `missing`: rows that a recovered run is known to miss: [`MissingRows`].
//! - `written_log`: what a recording loses when somebody else touches its files.
//! - [`advice`]: what can be done about a loss.
//! - [`read`]: run files read back: replay, verify, recover, inspect.
//! - [`catalogue`]: all runs of a directory: listed, found, labelled.
//! - `system`: the system calls by which run files are written.
//! - `faults`: a disk that fails when a test says so (feature `harness`).
//! - `error`: what can go wrong: [`RecordError`].

pub mod advice;
mod amounts;
pub mod catalogue;
mod coincidence_columns;
pub mod coincidence_writer;
pub mod directory;
mod directory_lock;
mod early_losses;
mod error;
pub mod event_writer;
mod extra_columns;
#[cfg(any(test, feature = "harness"))]
pub mod faults;
mod fragment_columns;
mod gather;
mod group_files;
mod hit_columns;
pub mod hit_writer;
pub mod hits_file;
pub mod ipc;
mod json_lines;
mod locked_directories;
mod loss_list;
mod loss_row;
mod missing;
mod notes;
mod range_list;
pub mod raw_writer;
pub mod read;
mod recorded_tables;
mod removed;
mod replay_record;
mod retention;
mod row_group;
mod run_losses;
pub mod run_record;
mod series_list;
pub mod settings;
mod space_watch;
mod system;
pub mod table;
mod table_part;
mod waveform_sources;
mod written_log;

pub use catalogue::{Catalogue, EntryState, LabelChange, Query, RunEntry};
pub use coincidence_writer::CoincidenceWriter;
pub use directory::{DocumentSummary, EventFiles, RunDirectory};
pub use error::RecordError;
pub use event_writer::{EventWriter, FILTER_KEY};
pub use hit_writer::HitWriter;
pub use hits_file::HitsFile;
pub use ipc::file::TableSummary;
pub use locked_directories::{LockedDirectory, locked_directories};
pub use loss_list::{LossBounds, LossList, MissedTriggers};
pub use loss_row::{LIST_FULL, LossRow, TriggerRange};
pub use missing::MissingRows;
pub use notes::Note;
pub use range_list::{RangeBounds, RangeList, ReadoutName, UnitNames};
pub use raw_writer::{RawSource, RawWriter};
pub use read::{
    EdgeReport, Inspection, NodesReport, Pace, RawReplay, RecoverReport, ShippedReport, VerifyReport, check,
    inspect, raw_sources, recover, verify, verify_nodes,
};
pub use recorded_tables::{MissingFile, RecordedTables};
pub use removed::RemovedTables;
pub use replay_record::{ReplacedSections, ReplayRecord};
pub use retention::{OldRuns, RemovedRun, Retained};
pub use run_record::{
    ChannelsRecord, CoincidenceRecord, CutRecord, IdentityRecord, RunRecord, RunRecordState, utc_text,
};
pub use series_list::{Reading, SeriesList, SeriesName};
pub use settings::{Compression, FileLimits, OnFull, RecordedHits, Retention, Settings, Sync};
pub use space_watch::SpaceWatch;
pub use system::begin_write_back;
pub use table::{Table, data_kept, first_part_of};
pub use table_part::TablePart;
