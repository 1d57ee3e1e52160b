//! The errors of connections between units; each message says what to try.
//!
//! ```text
//!  hello, frame, system call ─► PeerError { what, where, what to do }
//! ```

use std::io;
use std::time::Duration;

use super::frame::FrameError;
use crate::TransportError;

/// How the keys of two ends differ.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum KeyProblem {
    /// Both ends have a key, and they differ.
    #[error("its key is not that of this unit; give all nodes the same [run] key_file or key_env")]
    Another,
    /// Only this end has a key.
    #[error("it has no key, and this unit requires one; give all nodes the same [run] key_file or key_env")]
    TheyHaveNone,
    /// Only the other end has a key.
    #[error(
        "it requires the key of its run, and this unit has none; write [run] key_file or key_env as on the other nodes"
    )]
    WeHaveNone,
}

/// Why a unit cannot be reached, or a connection can no longer be used. Other connections go on.
#[derive(Debug, thiserror::Error)]
pub enum PeerError {
    /// An invalid URL of a unit.
    #[error("`{url}`: {reason}")]
    Url {
        /// The text.
        url: String,
        /// What is wrong with it.
        reason: String,
    },
    /// An invalid setting.
    #[error("{0}")]
    Settings(String),
    /// Another unit listens there already.
    #[error("{place}: another unit listens there; stop it or choose another name")]
    Taken {
        /// The URL.
        place: String,
    },
    /// No unit listens there.
    #[error("{place}: no unit listens there (yet); start it, or check the name")]
    Absent {
        /// The URL.
        place: String,
    },
    /// The unit was not reached in time.
    #[error("{place}: not reached within {} ms; last error: {problem}", wait.as_millis())]
    NotReached {
        /// The URL.
        place: String,
        /// How long this unit tried.
        wait: Duration,
        /// Why the last try failed.
        problem: String,
    },
    /// The other end is connected and sends nothing.
    #[error("{place}: silent for {} ms; its process hangs, its host is down, or it is not a unit", wait.as_millis())]
    Silent {
        /// The URL.
        place: String,
        /// How long it was silent.
        wait: Duration,
    },
    /// The ends have no common version.
    #[error(
        "{place}: unit `{name}` speaks versions {} to {}, this one {} to {}; install the same version on both hosts",
        theirs.0, theirs.1, ours.0, ours.1
    )]
    Version {
        /// The URL.
        place: String,
        /// The other unit.
        name: String,
        /// Its lowest and highest version.
        theirs: (u16, u16),
        /// Ours.
        ours: (u16, u16),
    },
    /// The other end was started with another configuration.
    #[error(
        "{place}: unit `{name}` was started with another configuration (digest {theirs:016x}, this one {ours:016x}); \
         start all nodes of a run from the same file"
    )]
    Configuration {
        /// The URL.
        place: String,
        /// The other unit.
        name: String,
        /// Digest of its configuration.
        theirs: u64,
        /// Ours.
        ours: u64,
    },
    /// The other end belongs to another run.
    #[error(
        "{place}: unit `{name}` belongs to the run \"{theirs}\", this one to \"{ours}\"; end the nodes of the older run"
    )]
    Run {
        /// The URL.
        place: String,
        /// The other unit.
        name: String,
        /// Its run.
        theirs: String,
        /// Ours.
        ours: String,
    },
    /// The ends do not have the same key.
    #[error("{place}: {problem}")]
    Key {
        /// The URL.
        place: String,
        /// What differs.
        problem: KeyProblem,
    },
    /// Other hosts can reach the URL, and this unit has no key.
    #[error(
        "{place} is reached by other hosts, and this unit has no key: write [run] key_file (or key_env) with the same key at all nodes; \
         without one, units talk on loopback only"
    )]
    Unguarded {
        /// The URL.
        place: String,
    },
    /// One end refuses the connection.
    #[error("{place}: refused: {words}")]
    Refused {
        /// The URL.
        place: String,
        /// The reason.
        words: String,
    },
    /// The other end sent an invalid frame.
    #[error("{place}: {problem}")]
    Frame {
        /// The URL.
        place: String,
        /// What is wrong with the frame.
        problem: FrameError,
    },
    /// A message is longer than the other end accepts; the connection goes on.
    #[error(
        "{place}: a message of {bytes} bytes is too long, at most {most} are accepted there; send less at a time, or give its pool more blocks"
    )]
    TooLong {
        /// The URL.
        place: String,
        /// Length of the message's head or payload, bytes.
        bytes: u64,
        /// The limit, bytes.
        most: u64,
    },
    /// The connection ended without a goodbye: the other end was killed, or the network failed.
    #[error("{place}: connection lost: {cause}")]
    Lost {
        /// The URL.
        place: String,
        /// How the loss was noticed.
        cause: String,
    },
    /// The connection has been closed, by this end or after an error.
    #[error("{place}: the connection is closed")]
    Closed {
        /// The URL.
        place: String,
    },
    /// A socket could not be opened.
    #[error(transparent)]
    Transport(#[from] TransportError),
    /// A system call failed; trying again does not help.
    #[error("{place}: {call} failed: {cause}")]
    System {
        /// The URL.
        place: String,
        /// Name of the call.
        call: &'static str,
        /// The system's error.
        cause: io::Error,
    },
}

impl PeerError {
    /// Whether the other end is a unit of another version, configuration or run.
    pub fn is_mismatch(&self) -> bool {
        matches!(self, PeerError::Version { .. } | PeerError::Configuration { .. } | PeerError::Run { .. })
    }

    /// Whether trying again does not help until somebody changes something.
    pub fn is_final(&self) -> bool {
        matches!(
            self,
            PeerError::Url { .. }
                | PeerError::Settings(_)
                | PeerError::Version { .. }
                | PeerError::Configuration { .. }
                | PeerError::Run { .. }
                | PeerError::Key { .. }
                | PeerError::Unguarded { .. }
                | PeerError::Refused { .. }
                | PeerError::Transport(TransportError::Settings(_))
        )
    }
}
