//! What can go wrong between units, in words that say what to try.
//!
//! ```text
//!  hello, frame, system call ─► PeerError { what, where, what to do }
//! ```

use std::io;
use std::time::Duration;

use super::frame::FrameError;
use crate::TransportError;

/// What is amiss with the key of the run.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum KeyProblem {
    /// Both have one, and they differ.
    #[error("its key is not that of this unit; give all nodes the same [run] key_file or key_env")]
    Another,
    /// Only this end has one.
    #[error("it shows no key, and this unit asks for one; give all nodes the same [run] key_file or key_env")]
    TheyHaveNone,
    /// Only the other end has one.
    #[error(
        "it asks for the key of its run, and this unit has none; write [run] key_file or key_env as at the other nodes"
    )]
    WeHaveNone,
}

/// A unit that cannot be reached, or a connection that is of no further use. All others go on.
#[derive(Debug, thiserror::Error)]
pub enum PeerError {
    /// A URL that no unit can have.
    #[error("`{url}`: {reason}")]
    Url {
        /// What was written.
        url: String,
        /// What is wrong with it.
        reason: String,
    },
    /// A setting that cannot work.
    #[error("{0}")]
    Settings(String),
    /// Somebody listens there already.
    #[error("{place}: another unit listens there; stop it or choose another name")]
    Taken {
        /// The URL.
        place: String,
    },
    /// Nobody listens there.
    #[error("{place}: no unit listens there (yet); start it, or check the name")]
    Absent {
        /// The URL.
        place: String,
    },
    /// It could not be reached in time.
    #[error("{place}: not reached within {} ms; at last: {problem}", wait.as_millis())]
    NotReached {
        /// The URL.
        place: String,
        /// How long it was tried.
        wait: Duration,
        /// What the last try came to.
        problem: String,
    },
    /// It is connected and says nothing.
    #[error("{place}: silent for {} ms; its process hangs, its host is gone, or it is no unit of ours", wait.as_millis())]
    Silent {
        /// The URL.
        place: String,
        /// How long it was waited for.
        wait: Duration,
    },
    /// No version is common to both ends.
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
    /// The two ends have not the same key.
    #[error("{place}: {problem}")]
    Key {
        /// The URL.
        place: String,
        /// What differs.
        problem: KeyProblem,
    },
    /// Other hosts reach it, and there is no key.
    #[error(
        "{place} is reached by other hosts, and this unit has no key: write [run] key_file (or key_env) with the same key at all nodes; \
         without one, units talk on loopback only"
    )]
    Unguarded {
        /// The URL.
        place: String,
    },
    /// The other end does not talk to us.
    #[error("{place}: refused: {words}")]
    Refused {
        /// The URL.
        place: String,
        /// What it said.
        words: String,
    },
    /// What came is not what a unit sends.
    #[error("{place}: {problem}")]
    Frame {
        /// The URL.
        place: String,
        /// What came.
        problem: FrameError,
    },
    /// A message that the other end does not take; the connection goes on.
    #[error(
        "{place}: a message of {bytes} bytes, at most {most} are taken there; send less at a time, or give its pool more blocks"
    )]
    TooLong {
        /// The URL.
        place: String,
        /// Its length.
        bytes: u64,
        /// The limit.
        most: u64,
    },
    /// The other end is gone without a word: it was killed, or the network broke.
    #[error("{place}: connection lost: {cause}")]
    Lost {
        /// The URL.
        place: String,
        /// What was seen.
        cause: String,
    },
    /// It was closed, by this end or after an error.
    #[error("{place}: the connection is closed")]
    Closed {
        /// The URL.
        place: String,
    },
    /// A socket could not be opened.
    #[error(transparent)]
    Transport(#[from] TransportError),
    /// A system call failed for good.
    #[error("{place}: {call} failed: {cause}")]
    System {
        /// The URL.
        place: String,
        /// The call.
        call: &'static str,
        /// What the system said.
        cause: io::Error,
    },
}

impl PeerError {
    /// Whether a unit is there that this one cannot work with: of another version, configuration or run.
    pub fn is_mismatch(&self) -> bool {
        matches!(self, PeerError::Version { .. } | PeerError::Configuration { .. } | PeerError::Run { .. })
    }

    /// Whether trying again is of no use before somebody changes something.
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
