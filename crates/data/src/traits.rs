//! The traits between rooms. A stage knows these and never its neighbour.
//!
//! ```text
//!  Source ─Frames─► Framing ─Frames─► Decode ─Hits─► … ─Hits─► Sink
//!     ▲                └──Fragments─► build ─Events─► EventSink
//!     DeviceControl
//! ```
//! `Framing` is sequential: it keeps sequence numbers and finds what is missing. `Decode` may be split over
//! workers batch by batch. Each keeps running [`Counters`] per unit it handles and says what it did; the
//! thread that drives it publishes the counters in the ledger between batches.

use std::os::fd::BorrowedFd;
use std::sync::Arc;
use std::time::Duration;

use crate::batch::{Frames, Header, Hits, Mark};
use crate::event::{Events, Fragments};
use crate::ledger::Counters;
use crate::refused::Refused;
use crate::sent_fragments::FragmentRecord;

/// What one call of [`Source::receive`] found.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Received {
    /// The batch holds bytes.
    Data,
    /// Nothing came within the wait; the batch holds a mark alone.
    Idle,
    /// No block was free; the batch holds a mark alone, and the source's policy has been applied.
    Full,
    /// Nothing will come any more.
    End,
}

/// A source that failed for good. The message says what was seen, where, and what to try.
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
    /// Fills an empty batch with what is there, waiting at most `wait`, and sets its mark.
    ///
    /// # Errors
    /// When the source is of no further use; a bad datagram is not an error but a count.
    fn receive(&mut self, frames: &mut Frames, wait: Duration) -> Result<Received, SourceError>;

    /// Takes back the last `bytes` of the batch just given: the head of a unit whose rest has not come.
    /// The next batch begins with them. Only stream sources are asked.
    fn carry(&mut self, bytes: usize);

    /// Appends the carried bytes to `frames` once more, as one slice that is marked as carried: for a framing whose source has
    /// ended. Only stream sources are asked.
    fn give_carried(&mut self, frames: &mut Frames) {
        let _ = frames;
    }

    /// What came in and what was lost here, in datagrams and bytes.
    fn counters(&self) -> &Counters;

    /// Bytes that came and wait to be received, memory around them included: after a stop they belong to the run still. 0 where
    /// nobody knows.
    fn waiting_bytes(&self) -> u64 {
        0
    }

    /// Throws away what waits to be received, and counts it as abandoned: the run has ended, and nobody will take it.
    ///
    /// # Errors
    /// When the source is of no further use.
    fn abandon(&mut self) -> Result<(), SourceError> {
        Ok(())
    }

    /// Counters of the kernel and the like, which say *where* a loss happened and are never added to it:
    /// `(name, value)`.
    fn drop_counters(&self) -> Vec<(&'static str, u64)> {
        Vec::new()
    }

    /// What of a file could not be read, and where, in words; `None` when all of it was, and of what is no file.
    fn unreadable(&self) -> Option<String> {
        None
    }

    /// How often its connection was lost and opened again: at each, a stream begins anew.
    fn connections(&self) -> u32 {
        0
    }

    /// One line on how the source was set up: backend, receive buffer asked for and granted.
    fn description(&self) -> String;

    /// Whether bytes are a stream (units may straddle receive calls) rather than datagrams.
    fn is_stream(&self) -> bool;

    /// What to wait on where a thread reads several sources; `None` of one that is simply asked, such as a file.
    fn socket(&self) -> Option<BorrowedFd<'_>> {
        None
    }

    /// Takes note that units have this length (0: several lengths). A stream then ends its batches with whole ones where it can.
    fn expect_units(&mut self, bytes: usize) {
        let _ = bytes;
    }

    /// Asks the memory for what the next receive call needs.
    fn prefetch(&self) {}
}

/// A batch that a framing appends to: [`Frames`] for decoders, or [`Fragments`] for a builder.
pub trait Framed: Default + Send {
    /// Whole units in it.
    fn unit_count(&self) -> usize;

    /// Where and when it comes from.
    fn header_mut(&mut self) -> &mut Header;

    /// Empties it and keeps its memory.
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

/// Finds whole units in received bytes and says what is missing between them. What comes out is either [`Frames`], which a
/// [`Decode`] turns into hits, or [`Fragments`], whose key, trigger number and source, is read in the same pass: framing and header
/// are the same few bytes.
pub trait Framing: Send {
    /// What is found.
    type Output: Framed;

    /// Appends what is found in `received` to `units`, with the leases it needs; returns how many bytes at the end of a stream's
    /// last slice are the head of a unit still to come (0 for datagrams).
    fn frame(&mut self, received: &Frames, units: &mut Self::Output) -> usize;

    /// Takes note that the source has ended behind `carried`, the bytes that wait for more ([`Source::give_carried`]; empty of
    /// datagrams): units that are whole there are appended to `units`, and what is unfinished is lost now.
    fn finish(&mut self, carried: &Frames, units: &mut Self::Output) {
        let _ = (carried, units);
    }

    /// Takes note that the source's connection was opened again: `finish` has lost what was unfinished, and what comes next is the
    /// beginning of a stream.
    fn begin_anew(&mut self) {}

    /// How often the board has said in its data that it was started; 0 of a format that does not say.
    fn starts(&self) -> u32 {
        0
    }

    /// The boards, in the order of their numbers, can be asked what they have answered: their records learn what has come. A framing
    /// whose boards cannot be asked has no use for it.
    fn ask(&mut self, records: Vec<Arc<FragmentRecord>>) {
        let _ = records;
    }

    /// Datagrams, bytes and frames of the link: in, out, overhead, lost. Of a link to a single board its fragments, too.
    fn counters(&self) -> &Counters;

    /// Of a link to several boards the fragments of each, in the order of their numbers; else empty.
    fn board_counters(&self) -> &[Counters] {
        &[]
    }

    /// What the boards' own sequence numbers say was sent, seen, and never seen: one set of counters per board, in the order of their numbers;
    /// empty of a format that does not count.
    fn wire_counters(&self) -> &[Counters] {
        &[]
    }

    /// The first few units that were refused, for people to look at; empty of a format that keeps none.
    fn first_refused(&self) -> &[Refused] {
        &[]
    }
}

/// Turns whole units into hits.
pub trait Decode: Send {
    /// Appends the hits of `units` to `hits`, with the leases that their extras need.
    fn decode(&mut self, units: &Frames, hits: &mut Hits);

    /// Frames and bytes in, used and lost; hits out.
    fn counters(&self) -> &Counters;
}

/// A sink that could not take a batch.
#[derive(Debug, thiserror::Error)]
pub enum SinkError {
    /// The disk is full; what was written is whole. The batch was not taken.
    #[error("{message}")]
    Full {
        /// Which, and what to do.
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

/// Where hits go. Bounded, and accounted for in the ledger.
pub trait Sink: Send {
    /// Takes a batch. A batch that is refused is counted as lost by the sink itself.
    ///
    /// # Errors
    /// When the sink can take no more; see [`SinkError`].
    fn write(&mut self, hits: &Hits) -> Result<(), SinkError>;

    /// Lets time pass: what has waited long enough is written.
    ///
    /// # Errors
    /// As for `write`.
    fn advance(&mut self, mark: Mark) -> Result<(), SinkError>;

    /// Writes everything that there is. What a full disk refuses stays here, for another try.
    ///
    /// # Errors
    /// As for `write`.
    fn complete(&mut self) -> Result<(), SinkError>;

    /// Writes everything and closes. What a full disk refuses is lost.
    ///
    /// # Errors
    /// As for `write`.
    fn finish(&mut self) -> Result<(), SinkError>;

    /// Hits in, out, held, lost, of one source.
    fn counters(&self, source: crate::SourceId) -> &Counters;
}

/// Where events go. Bounded, and accounted for in the ledger.
pub trait EventSink: Send {
    /// Takes a batch. A batch that is refused is counted as lost by the sink itself.
    ///
    /// # Errors
    /// When the sink can take no more; see [`SinkError`].
    fn write(&mut self, events: &Events) -> Result<(), SinkError>;

    /// Lets time pass: what has waited long enough is written.
    ///
    /// # Errors
    /// As for `write`.
    fn advance(&mut self, mark: Mark) -> Result<(), SinkError>;

    /// Writes everything that there is. What a full disk refuses stays here, for another try.
    ///
    /// # Errors
    /// As for `write`.
    fn complete(&mut self) -> Result<(), SinkError>;

    /// Writes everything and closes. What a full disk refuses is lost.
    ///
    /// # Errors
    /// As for `write`.
    fn finish(&mut self) -> Result<(), SinkError>;

    /// Events in, out, held, lost.
    fn counters(&self) -> &Counters;

    /// Fragments and bytes of one source: in, out, held, lost.
    fn source_counters(&self, source: crate::SourceId) -> &Counters;
}

/// A command that a board did not take.
#[derive(Debug, thiserror::Error)]
#[error("{board}: {message}")]
pub struct ControlError {
    /// The board's address.
    pub board: String,
    /// What was asked, what came back, what to do.
    pub message: String,
}

/// A parameter or register that a board lists.
#[derive(Clone, Debug, PartialEq, Eq, serde::Serialize)]
pub struct Parameter {
    /// The board's own path.
    pub path: String,
    /// What it reads; `None` where it did not come.
    pub value: Option<String>,
    /// Whether it can be written.
    pub is_settable: bool,
}

/// Drives a board: parameters and the run. Blocking; never called from the data path. Of a board that a trigger or a register starts,
/// nothing is done to arm, start, stop and disarm it.
pub trait DeviceControl: Send {
    /// Reads one parameter by the board's own path.
    ///
    /// # Errors
    /// When the board refuses or cannot be reached.
    fn get(&mut self, path: &str) -> Result<String, ControlError>;

    /// Writes one parameter.
    ///
    /// # Errors
    /// As for `get`.
    fn set(&mut self, path: &str, value: &str) -> Result<(), ControlError>;

    /// Whether a parameter can be read: some can only be written.
    fn is_readable(&mut self, _path: &str) -> bool {
        true
    }

    /// Every parameter that the board lists by itself, or by its address table, with its value; none of a board that lists none.
    ///
    /// # Errors
    /// As for `get`.
    fn list(&mut self) -> Result<Vec<Parameter>, ControlError> {
        Ok(Vec::new())
    }

    /// Makes the board ready to start.
    ///
    /// # Errors
    /// As for `get`.
    fn arm(&mut self) -> Result<(), ControlError> {
        Ok(())
    }

    /// Starts the acquisition.
    ///
    /// # Errors
    /// As for `get`.
    fn start(&mut self) -> Result<(), ControlError> {
        Ok(())
    }

    /// Stops the acquisition; what is in the board is still sent.
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

    /// Called once a second while the board takes data: looks whether it is there, and opens one again that was gone. Returns
    /// what has changed since the last call, in words.
    fn service(&mut self) -> Option<String> {
        None
    }
}
