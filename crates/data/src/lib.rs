//! The data that flow through thalweg, and the types and traits that all crates share.
//!
//! ```text
//!  Pool ──► Block ──► Slice (16 bytes, plain)          received bytes, never copied
//!                └──► Lease (the right to read)        one per block and batch
//!
//!  Frames ──► Hits                                     the batches between rooms: self-triggered boards,
//!    │    └─► Fragments ──► Events                       and triggered ones
//!    └── Mark: time of arrival                         the only clock downstream
//!
//!  Counters ──► Ledger ──► LedgerSnapshot              counts of every byte and hit
//! ```
//!
//! This crate opens no socket and no data file, reads no clock, and knows no format.
//! `unsafe` is confined to [`pool`] and [`ring`], both model-checked with loom, the mappings of the [`ledger`] and of
//! [`cells`], the system calls of [`memory`], the vector instructions of [`simd`], and the prefetch hints of [`prefetch`] and
//! [`waveform`].
//!
//! - [`batch`]: the batches that travel between rooms: `Frames` before decoding, `Hits` after it.
//! - [`pool`]: fixed-size blocks on loan, and the leases by which they are read.
//! - [`borrowed`]: blocks of another process that this one reads where they lie.
//! - [`memory`]: the memory of a pool: page size, NUMA node, and whether other processes can read it.
//! - [`slice`](mod@slice): the position of bytes in a block.
//! - [`stream`]: streams whose units straddle receive calls.
//! - [`checksum`]: CRC-32C of what is recorded or sent.
//! - [`hit`]: the 16-byte hit, and the extra row for data that do not fit into it.
//! - [`waveform`]: decodes samples from the words in which a board sent them.
//! - [`waveform_facts`]: the period, offset and signals of waveforms, as far as they are known.
//! - [`record_join`]: which scope records of a channel follow each other without a gap.
//! - [`record_part`]: the parts of a scope record that is too large to be handled whole.
//! - [`tick`]: converts board time to picoseconds, exactly.
//! - [`event`]: fragments of triggered boards, and the events that are built of them.
//! - [`filter_answers`]: the answers of an event filter, seen event by event.
//! - [`hit_fields`]: splits hits into columns.
//! - [`hit_events`]: events of hits, the output of a coincidence.
//! - [`id`]: the numbers that name sources, links, boards and units.
//! - [`message`]: messages between units.
//! - [`range`]: records of what two units did with a range of triggers.
//! - [`traits`]: the traits between crates: source, framing, decode, sink, control.
//! - [`ring`]: bounded queues between threads.
//! - [`state`]: the state of a run.
//! - [`busy`]: the BUSY flag, and for how long it was raised.
//! - [`ledger`]: what every stage counts, and what must balance.
//! - [`topology`]: which stage feeds which in a run.
//! - [`sent`]: records of what a sender of this process has sent, for its receiver.
//! - [`sent_fragments`]: the same for the answers of a triggered board.
//! - [`refused`]: the first few refused units, kept for inspection.
//! - [`measure`]: how a figure is measured against its baseline.
//! - [`cells`]: large arrays of counters, for fast random access.
//! - [`prefetch`]: prefetch hints.
//! - [`simd`]: loops compiled for the widest instructions of this processor.
//! - `sync`: atomics and cells, which loom's replace in the models.

#![deny(unsafe_op_in_unsafe_fn)]

mod sync;

pub mod batch;
pub mod borrowed;
pub mod busy;
pub mod cells;
pub mod checksum;
pub mod event;
pub mod filter_answers;
pub mod hit;
pub mod hit_events;
pub mod hit_fields;
pub mod id;
pub mod ledger;
pub mod measure;
pub mod memory;
pub mod message;
pub mod pool;
pub mod prefetch;
pub mod range;
pub mod record_join;
pub mod record_part;
pub mod refused;
pub mod ring;
pub mod sent;
pub mod sent_fragments;
pub mod simd;
pub mod slice;
pub mod state;
pub mod stream;
pub mod tick;
pub mod topology;
pub mod traits;
pub mod waveform;
pub mod waveform_facts;

pub use batch::{Frames, Hits, Mark, SnapshotNumber};
pub use borrowed::{BorrowError, BorrowedPool};
pub use busy::{Busy, BusyTime};
pub use event::{Closing, Event, Events, Fragment, Fragments, Selected};
pub use filter_answers::{AnswerSheet, Answers};
pub use hit::{Extra, Flags, Hit, Signal, Statistics};
pub use hit_events::{HitEvent, HitEvents};
pub use id::{BoardId, LinkId, SourceId, UnitId};
pub use ledger::{
    CounterSlot, Counters, DataKept, Kept, Ledger, LedgerSnapshot, LossReason, Noted, Quality, Stage,
    StageRole, Unit,
};
pub use memory::{HugePages, Memory};
pub use message::Message;
pub use pool::{BlockWriter, Lease, Leases, Pool, PoolError};
pub use range::{EventSum, RangeFate, RangeRecord};
pub use refused::{FirstRefused, Refused};
pub use sent::SentRecord;
pub use sent_fragments::{AnswerFates, FragmentRecord};
pub use slice::{BlockId, Slice};
pub use state::RunState;
pub use tick::Tick;
pub use traits::{
    BoardStatus, ControlError, Decode, DeviceControl, EventFilter, EventSink, Framed, Framing, Parameter,
    Received, Sink, SinkError, Source, SourceError,
};
