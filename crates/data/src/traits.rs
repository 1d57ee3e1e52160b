//! The traits between rooms. A stage uses these traits and does not know its neighbours.
//!
//! ```text
//!  Source ─Frames─► Framing ─Frames─► Decode ─Hits─► … ─Hits─► Sink
//!     ▲                └──Fragments─► build ─Events─► EventSink
//!     DeviceControl
//! ```
//! `Framing` is sequential: it follows sequence numbers and finds what is missing. `Decode` can be split over
//! workers, batch by batch. Each has [`Counters`] of the units that it handles; the thread that calls it publishes the counters
//! in the ledger between batches.

use std::os::fd::BorrowedFd;
use std::sync::Arc;
use std::time::Duration;

use crate::batch::{Frames, Header, Hits, Mark};
use crate::event::{Events, Fragments, Selected};
use crate::filter_answers::Answers;
use crate::ledger::Counters;
use crate::refused::Refused;
use crate::sent_fragments::FragmentRecord;

/// The result of one call of [`Source::receive`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Received {
    /// The batch contains bytes.
    Data,
    /// Nothing arrived within the wait; the batch contains only a mark.
    Idle,
    /// No block was free; the batch contains only a mark, and the source has applied its policy.
    Full,
    /// The source has ended.
    End,
}

/// A permanent failure of a source. The message says what happened, where, and what to try.
#[derive(Debug, thiserror::Error)]
#[error("{place}: {message}")]
pub struct SourceError {
    /// The URL or file.
    pub place: String,
    /// What happened, and what to do.
    pub message: String,
}

/// Where bytes come from: a socket, a file, a capture, a recording.
pub trait Source: Send {
    /// Fills an empty batch with the available bytes, waits for them at most `wait`, and sets the mark of the batch.
    ///
    /// # Errors
    /// If the source has failed for good; a bad datagram is counted and is no error.
    fn receive(&mut self, frames: &mut Frames, wait: Duration) -> Result<Received, SourceError>;

    /// Carries the last `bytes` bytes of the batch just returned, the start of a unit whose rest has not arrived, over to the next batch,
    /// which begins with them. Called for streams only.
    fn carry(&mut self, bytes: usize);

    /// Appends the carried bytes to `frames` once more, as one slice that is marked as carried: for a framing whose source has
    /// ended. Called for streams only.
    fn give_carried(&mut self, frames: &mut Frames) {
        let _ = frames;
    }

    /// What was received and what was lost here, in datagrams and bytes.
    fn counters(&self) -> &Counters;

    /// Bytes that wait in the system to be received, including the kernel's overhead. After a stop, they still belong to the run. 0 if the
    /// number is not known.
    fn waiting_bytes(&self) -> u64 {
        0
    }

    /// Discards the data that wait to be received, and counts them as abandoned, because the run has ended.
    ///
    /// # Errors
    /// If the source has failed for good.
    fn abandon(&mut self) -> Result<(), SourceError> {
        Ok(())
    }

    /// Counters of the kernel and of devices as `(name, value)`. They show *where* a loss happened and are never added to it.
    fn drop_counters(&self) -> Vec<(&'static str, u64)> {
        Vec::new()
    }

    /// Which parts of a file could not be read, as text; `None` if everything was read or the source is not a file.
    fn unreadable(&self) -> Option<String> {
        None
    }

    /// How often the connection was lost and opened again. A new stream begins each time.
    fn connections(&self) -> u32 {
        0
    }

    /// One line of text on how the source was set up: backend, requested and granted receive buffer.
    fn description(&self) -> String;

    /// Whether bytes are a stream, whose units may straddle receive calls, and not datagrams.
    fn is_stream(&self) -> bool;

    /// The socket on which a thread that reads several sources waits; `None` if the source needs no wait, such as a file.
    fn socket(&self) -> Option<BorrowedFd<'_>> {
        None
    }

    /// Sets the length of the units, bytes (0: several lengths). A stream then ends its batches with whole units where it can.
    fn expect_units(&mut self, bytes: usize) {
        let _ = bytes;
    }

    /// Prefetches the data that the next receive call needs.
    fn prefetch(&self) {}
}

/// A batch to which a framing appends: [`Frames`] for decoders, or [`Fragments`] for a builder.
pub trait Framed: Default + Send {
    /// Number of whole units in the batch.
    fn unit_count(&self) -> usize;

    /// The header of the batch.
    fn header_mut(&mut self) -> &mut Header;

    /// Empties the batch and keeps its memory.
    fn clear(&mut self);
}

impl Framed for Frames {
    fn unit_count(&self) -> usize {
        self.slices.len()
    }

    fn header_mut(&mut self) -> &mut Header {
        &mut self.header
    }

    fn clear(&mut self) {
        Frames::clear(self);
    }
}

impl Framed for Fragments {
    fn unit_count(&self) -> usize {
        self.fragments.len()
    }

    fn header_mut(&mut self) -> &mut Header {
        &mut self.header
    }

    fn clear(&mut self) {
        Fragments::clear(self);
    }
}

/// Finds whole units in received bytes and what is missing between them. The output is either [`Frames`], which a
/// [`Decode`] turns into hits, or [`Fragments`] with trigger number and source, which are read in the same pass because framing and
/// header are the same few bytes.
pub trait Framing: Send {
    /// The batch of units.
    type Output: Framed;

    /// Appends the units in `received` to `units`, with the leases that they need. Returns how many bytes at the end of a stream's
    /// last slice are the start of an incomplete unit (0 for datagrams).
    fn frame(&mut self, received: &Frames, units: &mut Self::Output) -> usize;

    /// Called when the source has ended. `carried` are the bytes that wait for more ([`Source::give_carried`]; empty for
    /// datagrams): whole units in them are appended to `units`, and the unfinished rest is counted as lost.
    fn finish(&mut self, carried: &Frames, units: &mut Self::Output) {
        let _ = (carried, units);
    }

    /// Called after `finish` when the source's connection was opened again: the next bytes are the start of a stream.
    fn begin_anew(&mut self) {}

    /// How often the board was started, by its data; 0 if the format does not contain this.
    fn starts(&self) -> u32 {
        0
    }

    /// Sets the records of what the boards have answered, in the order of the board numbers, in which the framing marks the answers that
    /// arrived. A framing of boards without records ignores them.
    fn ask(&mut self, records: Vec<Arc<FragmentRecord>>) {
        let _ = records;
    }

    /// Datagrams, bytes and frames of the link: in, out, overhead, lost. For a link to a single board, also its fragments.
    fn counters(&self) -> &Counters;

    /// For a link to several boards, the fragments of each board, in the order of the board numbers; else empty.
    fn board_counters(&self) -> &[Counters] {
        &[]
    }

    /// What was sent, received and missing by the boards' own sequence numbers: one set of counters per board, in the order of the board
    /// numbers; empty if the format has no sequence numbers.
    fn wire_counters(&self) -> &[Counters] {
        &[]
    }

    /// The first few refused units, kept for inspection; empty if the format keeps none.
    fn first_refused(&self) -> &[Refused] {
        &[]
    }
}

/// Turns whole units into hits.
pub trait Decode: Send {
    /// Appends the hits of `units` to `hits`, with the leases that their extras need.
    fn decode(&mut self, units: &Frames, hits: &mut Hits);

    /// Frames, bytes and hits: in, out, lost.
    fn counters(&self) -> &Counters;
}

/// Why a sink could not take a batch.
#[derive(Debug, thiserror::Error)]
pub enum SinkError {
    /// The disk is full; the data written before are complete. The batch was not taken.
    #[error("{message}")]
    Full {
        /// Which disk is full, and what to do.
        message: String,
    },
    /// Anything else that ends this sink.
    #[error("{place}: {message}")]
    Failed {
        /// File or address.
        place: String,
        /// What happened, and what to do.
        message: String,
    },
}

/// Where hits go. A sink is bounded, and counts in the ledger.
pub trait Sink: Send {
    /// Takes a batch. The sink itself counts a refused batch as lost.
    ///
    /// # Errors
    /// If the sink can take no more; see [`SinkError`].
    fn write(&mut self, hits: &Hits) -> Result<(), SinkError>;

    /// Advances the time to `mark`: data that have waited long enough are written.
    ///
    /// # Errors
    /// As for `write`.
    fn advance(&mut self, mark: Mark) -> Result<(), SinkError>;

    /// Writes everything that is buffered. Data that a full disk refuses stay buffered for another try.
    ///
    /// # Errors
    /// As for `write`.
    fn complete(&mut self) -> Result<(), SinkError>;

    /// Writes everything and closes. Data that a full disk refuses are lost.
    ///
    /// # Errors
    /// As for `write`.
    fn finish(&mut self) -> Result<(), SinkError>;

    /// Hits of one source: in, out, held, lost.
    fn counters(&self, source: crate::SourceId) -> &Counters;
}

/// Decides which built events are kept. Each worker of an event filter has its own, so that it may keep memory from batch to batch. It may
/// take long, and may even never return: the other workers and the run go on without it.
///
/// ```
/// use thalweg_data::{Answers, EventFilter, Events};
///
/// /// Keeps large events.
/// struct Large(u64);
///
/// impl EventFilter for Large {
///     fn decide(&mut self, events: &Events, answers: &mut Answers<'_>) {
///         for event in answers.due_of(events) {
///             answers.give(event.bytes > self.0);
///         }
///     }
/// }
/// ```
pub trait EventFilter: Send {
    /// Decides those events of a batch that are [due](Answers::due), in their order, and gives each answer as soon as it is known: if this
    /// hangs or panics, the answers given so far count, and the event that would have been next is undecided. An event without an answer when
    /// it returns is undecided, too.
    fn decide(&mut self, events: &Events, answers: &mut Answers<'_>);
}

/// Where events go. A sink is bounded, and counts in the ledger.
pub trait EventSink: Send {
    /// Takes a batch. The sink itself counts a refused batch as lost.
    ///
    /// # Errors
    /// If the sink can take no more; see [`SinkError`].
    fn write(&mut self, events: &Events) -> Result<(), SinkError>;

    /// Takes those events of a batch for which `selected`, which has an entry per event, says why. It does not see the others.
    ///
    /// # Errors
    /// As for `write`.
    fn write_selected(&mut self, events: &Events, selected: &[Option<Selected>]) -> Result<(), SinkError>;

    /// Advances the time to `mark`: data that have waited long enough are written.
    ///
    /// # Errors
    /// As for `write`.
    fn advance(&mut self, mark: Mark) -> Result<(), SinkError>;

    /// Writes everything that is buffered. Data that a full disk refuses stay buffered for another try.
    ///
    /// # Errors
    /// As for `write`.
    fn complete(&mut self) -> Result<(), SinkError>;

    /// Writes everything and closes. Data that a full disk refuses are lost.
    ///
    /// # Errors
    /// As for `write`.
    fn finish(&mut self) -> Result<(), SinkError>;

    /// Events: in, out, held, lost.
    fn counters(&self) -> &Counters;

    /// Fragments and bytes of one source: in, out, held, lost.
    fn source_counters(&self, source: crate::SourceId) -> &Counters;
}

/// A command that a board refused or did not answer.
#[derive(Debug, thiserror::Error)]
#[error("{board}: {message}")]
pub struct ControlError {
    /// The board's address.
    pub board: String,
    /// What was requested, what the board answered, and what to do.
    pub message: String,
}

/// What a board reports of its acquisition and its clock.
#[derive(Clone, Debug, PartialEq, Eq, serde::Serialize)]
pub struct BoardStatus {
    /// Whether it waits for its start, or runs.
    pub is_armed: bool,
    /// Whether it takes data.
    pub is_running: bool,
    /// Whether its clock is locked: its times cannot be compared with those of others while it is not.
    pub is_locked: bool,
    /// All that it reports, as text.
    pub text: String,
}

/// A parameter or register that a board lists.
#[derive(Clone, Debug, PartialEq, Eq, serde::Serialize)]
pub struct Parameter {
    /// The board's own path.
    pub path: String,
    /// Its value; `None` if it was not received.
    pub value: Option<String>,
    /// Whether it can be set to this value again.
    pub is_settable: bool,
}

/// Controls a board: its parameters, and start and stop. Blocking; never called from the data path. Boards that are started by a trigger
/// or a register do nothing in `arm`, `start`, `stop` and `disarm`.
pub trait DeviceControl: Send {
    /// Reads one parameter by the board's own path.
    ///
    /// # Errors
    /// If the board refuses or cannot be reached.
    fn get(&mut self, path: &str) -> Result<String, ControlError>;

    /// Writes one parameter.
    ///
    /// # Errors
    /// As for `get`.
    fn set(&mut self, path: &str, value: &str) -> Result<(), ControlError>;

    /// Whether a parameter can be read; some can only be written.
    fn is_readable(&mut self, _path: &str) -> bool {
        true
    }

    /// Every parameter that the board or its address table lists, with its value; empty if there is no list.
    ///
    /// # Errors
    /// As for `get`.
    fn list(&mut self) -> Result<Vec<Parameter>, ControlError> {
        Ok(Vec::new())
    }

    /// Makes the board ready to start, and waits until it is.
    ///
    /// # Errors
    /// As for `get`, and if it is not ready in time.
    fn arm(&mut self) -> Result<(), ControlError> {
        Ok(())
    }

    /// The signal that starts the armed board, if `start` does not: that of another board, or of the experiment.
    fn start_signal(&mut self) -> Option<String> {
        None
    }

    /// What the board reports of its acquisition and its clock; `None` if it does not.
    fn status(&mut self) -> Option<BoardStatus> {
        None
    }

    /// Starts the acquisition. A board with a `start_signal` is not asked to.
    ///
    /// # Errors
    /// As for `get`.
    fn start(&mut self) -> Result<(), ControlError> {
        Ok(())
    }

    /// Stops the acquisition; the board still sends the data in its memory.
    ///
    /// # Errors
    /// As for `get`.
    fn stop(&mut self) -> Result<(), ControlError> {
        Ok(())
    }

    /// Makes the board idle.
    ///
    /// # Errors
    /// As for `get`.
    fn disarm(&mut self) -> Result<(), ControlError> {
        Ok(())
    }

    /// Called once a second while the board takes data: checks whether the board is reachable, and reopens it after an outage. Returns
    /// what has changed since the last call, as text.
    fn service(&mut self) -> Option<String> {
        None
    }
}
