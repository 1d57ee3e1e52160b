//! What can go wrong when files are shipped.
//!
//! ```text
//!  of one file: named, the others go on        of a destination: held, tried again
//! ```

use std::io;
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

/// Why the far side does not take something.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Refusal {
    /// The two programs speak no common version.
    Version,
    /// The token is wrong, or one of the two has none.
    Token,
    /// A name that may be no path at the far side.
    Name,
    /// Another shipper is at this run.
    Locked,
    /// The far disk is full.
    DiskFull,
    /// What lies there is not the beginning of what is offered.
    Differs,
    /// The bytes that were read back are not those that were sent.
    Unproved,
    /// A message that has no place here.
    Unexpected,
    /// The far side's file system refuses.
    Failed,
    /// It does not take this file: it is too large there, or has a name that is not allowed.
    NotTaken,
    /// It has too much to do, and asks for time.
    Busy,
    /// What holds the files there does not exist, as a bucket.
    Missing,
    /// A word of a later version.
    #[serde(other)]
    Other,
}

/// The reason of a file that [differs](Refusal::Differs), in a word.
pub(crate) const DIFFERS: &str = "differs";

/// A file that was not shipped, or a destination that cannot be reached.
#[derive(Debug, thiserror::Error)]
pub enum ShipError {
    /// A file here cannot be read, or what is known of it not be written.
    #[error("{}: {action}: {cause}", path.display())]
    Local {
        /// The file.
        path: PathBuf,
        /// What was tried.
        action: &'static str,
        /// What the system said.
        cause: io::Error,
    },
    /// A file was changed by somebody else while it was shipped.
    #[error("{}: {found} while it was shipped, so the copy is not acknowledged; ship it again when nobody changes it", path.display())]
    Changed {
        /// The file.
        path: PathBuf,
        /// What is seen of it.
        found: String,
    },
    /// A table that is not whole.
    #[error("{}: {found}; run `thalweg recover` on its run, then ship it again", path.display())]
    Damaged {
        /// The file.
        path: PathBuf,
        /// What is wrong.
        found: String,
    },
    /// A file does not have the digest that was computed while it was written.
    #[error("{}: CRC-32C {found}, and run.json says {recorded}: it has changed since it was written; the copy is not acknowledged. See `thalweg verify`", path.display())]
    Digest {
        /// The file.
        path: PathBuf,
        /// As `run.json` has it.
        recorded: String,
        /// As it is now.
        found: String,
    },
    /// The far side says no.
    #[error("{destination}: {text}")]
    Refused {
        /// Who.
        destination: String,
        /// In a word.
        refusal: Refusal,
        /// In words.
        text: String,
    },
    /// The connection does not come about, or was lost.
    #[error("{destination}: {cause}")]
    Connection {
        /// Where to.
        destination: String,
        /// What was seen.
        cause: io::Error,
    },
    /// The certificate of the far side is not to be trusted.
    #[error(
        "{destination}: {found}; name the PEM file of the authority that signed its certificate in `tls_ca` of [ship] or --tls-ca, or correct the host's name"
    )]
    Untrusted {
        /// Who showed it.
        destination: String,
        /// What is wrong with it.
        found: String,
    },
    /// The two do not come to terms about TLS.
    #[error(
        "{destination}: TLS failed: {found}; write receive:// if `thalweg receive` has no certificate there"
    )]
    Tls {
        /// Where to.
        destination: String,
        /// What was seen.
        found: String,
    },
    /// What came cannot be read.
    #[error("{destination}: {found}; see that `thalweg receive` of this version listens there")]
    Protocol {
        /// Who sent it.
        destination: String,
        /// What it is.
        found: String,
    },
    /// Another program ships this run.
    #[error("{}: another `thalweg ship` is at this run; wait until it has ended, or end it", path.display())]
    Locked {
        /// The run.
        path: PathBuf,
    },
    /// A program at another host that mounts the directory ships this run.
    #[error("{}: {owner} ships this run; end that, or wait until it has not renewed its token for {takeover_s} s", path.display())]
    Owned {
        /// The run.
        path: PathBuf,
        /// Who.
        owner: String,
        /// When it is followed, seconds after it was seen last.
        takeover_s: u64,
    },
    /// What was asked for cannot be.
    #[error("{0}")]
    Settings(String),
    /// The program is to end.
    #[error("stopped before the file was shipped")]
    Stopped,
}

impl ShipError {
    /// An error of a local file.
    pub fn local(path: &Path, action: &'static str) -> impl FnOnce(io::Error) -> ShipError {
        move |cause| ShipError::Local { path: path.to_owned(), action, cause }
    }

    /// Why a file is not shipped, in a word.
    pub fn reason(&self) -> &'static str {
        match self {
            ShipError::Local { .. } => "unreadable",
            ShipError::Changed { .. } => "changed",
            ShipError::Damaged { .. } => "damaged",
            ShipError::Digest { .. } => "other_digest",
            ShipError::Locked { .. }
            | ShipError::Owned { .. }
            | ShipError::Refused { refusal: Refusal::Locked, .. } => "locked",
            ShipError::Refused { refusal: Refusal::Name, .. } => "bad_name",
            ShipError::Refused { refusal: Refusal::Differs, .. } => DIFFERS,
            ShipError::Refused { refusal: Refusal::Unproved, .. } => "unproved",
            ShipError::Refused { refusal: Refusal::NotTaken, .. } => "not_taken",
            _ => "refused",
        }
    }

    /// Whether it is about one file, and others can be shipped all the same.
    pub fn is_of_file(&self) -> bool {
        match self {
            ShipError::Local { .. }
            | ShipError::Changed { .. }
            | ShipError::Damaged { .. }
            | ShipError::Digest { .. }
            | ShipError::Locked { .. }
            | ShipError::Owned { .. } => true,
            ShipError::Refused { refusal, .. } => {
                use Refusal::{Differs, Locked, Name, NotTaken, Unproved};
                matches!(refusal, Name | Differs | Unproved | NotTaken | Locked)
            }
            _ => false,
        }
    }

    /// Whether another try needs a new connection.
    pub fn is_of_connection(&self) -> bool {
        match self {
            ShipError::Connection { .. }
            | ShipError::Untrusted { .. }
            | ShipError::Tls { .. }
            | ShipError::Protocol { .. }
            | ShipError::Stopped => true,
            ShipError::Refused { refusal, .. } => {
                matches!(refusal, Refusal::Version | Refusal::Token | Refusal::Unexpected)
            }
            _ => false,
        }
    }
}
