//! What flows through thalweg, and the words that every room shares.
//!
//! ```text
//!  Pool ──► Block ──► Slice (16 bytes, plain)          bytes on loan, never copied
//!                └──► Lease (the right to read)        one per block and batch
//!
//!  Frames ──► Hits                                     the batches between rooms: self-triggered boards,
//!    │    └─► Fragments ──► Events                       and triggered ones
//!    └── Mark: when it arrived                         the only clock downstream
//!
//!  Counters ──► Ledger ──► LedgerSnapshot                          every byte and hit, accounted
//! ```
//!
//! Nothing here opens a socket or a file of data, reads a clock, or knows a format.
//! `unsafe` lives in [`pool`] and [`ring`], both model-checked with loom, in the mappings of the [`ledger`] and of
//! [`cells`], in the one system call of [`memory`], in the choice of vector instructions in [`waveform`], and in the hint of [`prefetch`].
//!
//! - [`batch`]: the batches that travel between rooms: `Frames` before decoding, `Hits` after it.
//! - [`pool`]: fixed-size blocks on loan, and the leases by which they are read.
//! - [`memory`]: which memory a pool is made of: pages and node.
//! - [`slice`](mod@slice): where bytes lie.
//! - [`stream`]: streams whose units straddle receive calls.
//! - [`hit`]: sixteen bytes, and what they cannot say.
//! - [`waveform`]: samples out of the words in which a board sent them.
//! - [`tick`]: board time into picoseconds, exactly.
//! - [`event`]: fragments of triggered boards, and the events that are built of them.
//! - [`hit_events`]: events of hits, as a coincidence gives them.
//! - [`id`]: the numbers that name sources, links, boards and units.
//! - [`message`]: what units tell each other.
//! - [`range`]: what became of a range of triggers on its way between two units.
//! - [`traits`]: the traits between crates: source, framing, decode, sink, control.
//! - [`ring`]: bounded queues between threads.
//! - [`state`]: the state of a run, and the word for "please stop".
//! - [`ledger`]: what every stage counts, and what must balance.
//! - [`topology`]: who feeds whom in a run.
//! - [`sent`]: what a sender of this process has sent, for its receiver to ask.
//! - [`sent_fragments`]: the same of a triggered board's answers.
//! - [`refused`]: the first few units that were refused, for people to see.
//! - [`measure`]: how a figure is measured against its baseline.
//! - [`cells`]: many counters that are fast to reach at random.
//! - [`prefetch`]: words to the memory about what is needed soon.
//! - [`simd`]: loops compiled for the widest instructions of this processor.
//! - `sync`: atomics, in the shape that the models of concurrency replace.

#![deny(unsafe_op_in_unsafe_fn)]

mod sync;

pub mod batch;
pub mod cells;
pub mod event;
pub mod hit;
pub mod hit_events;
pub mod id;
pub mod ledger;
pub mod measure;
pub mod memory;
pub mod message;
pub mod pool;
pub mod prefetch;
pub mod range;
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

pub use batch::{Frames, Hits, Mark, SnapshotNumber};
pub use event::{Closing, Event, Events, Fragment, Fragments};
pub use hit::{Extra, Flags, Hit, Signal, Statistics};
pub use hit_events::{HitEvent, HitEvents};
pub use id::{BoardId, LinkId, SourceId, UnitId};
pub use ledger::{
    CounterSlot, Counters, Ledger, LedgerSnapshot, LossReason, Noted, Quality, Stage, StageRole, Unit,
};
pub use memory::{HugePages, Memory};
pub use message::Message;
pub use pool::{BlockWriter, Lease, Leases, Pool, PoolError};
pub use range::{EventSum, RangeFate, RangeRecord};
pub use refused::{FirstRefused, Refused};
pub use sent::SentRecord;
pub use sent_fragments::{AnswerFates, FragmentRecord};
pub use slice::{BlockId, Slice};
pub use state::{Busy, RunState};
pub use tick::Tick;
pub use traits::{
    ControlError, Decode, DeviceControl, EventSink, Framed, Framing, Parameter, Received, Sink, SinkError,
    Source, SourceError,
};
