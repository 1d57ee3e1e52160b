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
//!  Counters ──► Ledger ──► Books                          every byte and hit, accounted
//! ```
//!
//! Nothing here opens a socket or a file of data, reads a clock, or knows a format.
//! `unsafe` lives in [`pool`] and [`ring`], both model-checked with loom, in the mappings of the [`ledger`] and of
//! [`cells`], in the one system call of [`memory`], in the choice of vector instructions in [`waveform`], and in the hint of [`prefetch`].

#![deny(unsafe_op_in_unsafe_fn)]

mod sync;

pub mod batch;
pub mod cells;
pub mod event;
pub mod hit;
pub mod hit_events;
pub mod ledger;
pub mod measure;
pub mod memory;
pub mod message;
pub mod pool;
pub mod prefetch;
pub mod range;
pub mod refused;
pub mod ring;
pub mod room;
pub mod sent;
pub mod sent_fragments;
pub mod slice;
pub mod state;
pub mod stream;
pub mod tick;
pub mod topology;
pub mod waveform;
pub mod wide;

pub use batch::{Frames, Hits, Mark, SnapshotNumber, SourceId};
pub use event::{Closing, Event, Events, Fragment, Fragments};
pub use hit::{Extra, Flags, Hit, Signal, Statistics};
pub use hit_events::{HitEvent, HitEvents};
pub use ledger::{Account, Books, Counters, Ledger, LossReason, Noted, Quality, Stage, StageRole, Unit};
pub use memory::{HugePages, Memory};
pub use message::Message;
pub use pool::{BlockWriter, Lease, Leases, Pool, PoolError};
pub use range::{EventSum, RangeFate, RangeRecord};
pub use refused::{FirstRefused, Refused};
pub use room::{
    Control, ControlError, Decode, EventSink, Framed, Framing, Parameter, Received, Sink, SinkError, Source,
    SourceError,
};
pub use sent::SentRecord;
pub use sent_fragments::{AnswerFates, FragmentRecord};
pub use slice::{BlockId, Slice};
pub use state::{Busy, RunState};
pub use tick::Tick;
