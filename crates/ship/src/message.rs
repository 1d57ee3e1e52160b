//! What the two ends of a connection say to each other, as JSON in a frame.
//!
//! ```text
//!  shipper                                receiver
//!  Offer { run, file, kind, identity } ─► Have { proved, crc32c, finished }
//!  Chunk … Prove { from, to, crc32c }  ─► Proved { to, crc32c }        again and again
//!  Finish { digests }                  ─► Finished { digests }         or, at any time, Refused { refusal, text }
//! ```
//! Unknown keys are passed over, so that later versions may add some.

use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};

use crate::amount::RowCounts;
use crate::digests::Digests;
use crate::error::Refusal;

/// How a file comes to be complete.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum FileKind {
    /// An Arrow stream that grows by whole batches: its copy is a whole stream at every moment.
    Growing,
    /// Anything else: its copy appears when it is complete, in place of an older one.
    Whole,
}

/// Which file that is, to notice that it has become another one.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Identity {
    /// Its bytes.
    pub bytes: u64,
    /// When it was changed last, nanoseconds since 1970 by its file system's clock. Compared for equality only, so that a clock
    /// that is wrong does no harm.
    pub modified_ns: i64,
    /// Its number in its file system.
    pub inode: u64,
}

/// A file that is to be shipped.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Offer {
    /// The run: its directory's name, perhaps behind folders.
    pub run: String,
    /// The file's name.
    pub file: String,
    /// How it comes to be complete.
    pub kind: FileKind,
    /// Which one it is.
    pub identity: Identity,
    /// Its digests, where they are known: always where the destination takes closed files only. What is read back must have the CRC-32C;
    /// the others need not be computed again.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub digests: Option<Digests>,
}

/// What the far side has of it.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Have {
    /// Bytes from the beginning that are proved there.
    pub proved: u64,
    /// CRC-32C of these.
    pub crc32c: u32,
    /// The digests of the whole file, when it is complete there.
    pub finished: Option<Digests>,
    /// Whether the far side computes Adler-32 and MD5 of what it reads back, so that the shipper need not: `finish` may leave them out.
    #[serde(default)]
    pub makes_digests: bool,
}

/// A range of a file: of a growing one whole messages.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Range {
    /// Where it begins.
    pub from: u64,
    /// Where it ends.
    pub to: u64,
    /// CRC-32C of its bytes.
    pub crc32c: u32,
}

/// That the far side has read back everything up to here as it was sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Proved {
    /// Up to here.
    pub to: u64,
    /// CRC-32C of everything up to here.
    pub crc32c: u32,
    /// Batches and rows of everything up to here, as they were counted where it was read back; null of files without rows, and where an
    /// older version has not counted them.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub counted: Option<RowCounts>,
}

/// A no.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Refused {
    /// In a word, for programs.
    pub refusal: Refusal,
    /// In words, for people.
    pub text: String,
}

/// Longest text of a refusal.
const LONGEST_REFUSAL: usize = 2000;

impl Refused {
    /// A no with its reason.
    pub fn new(refusal: Refusal, text: impl Into<String>) -> Refused {
        Refused { refusal, text: text.into() }
    }

    /// The same as it may be shown: no longer than people read, and without what paints a terminal.
    pub fn shown(&self) -> String {
        self.text.chars().filter(|letter| !letter.is_control()).take(LONGEST_REFUSAL).collect()
    }
}

/// A message's bytes.
pub(crate) fn encode(message: &impl Serialize) -> Vec<u8> {
    serde_json::to_vec(message).expect("messages are plain data")
}

/// The message in these bytes; `None` when there is none.
pub(crate) fn decode<T: DeserializeOwned>(bytes: &[u8]) -> Option<T> {
    serde_json::from_slice(bytes).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn later_versions_may_add_keys_and_words() {
        let text = br#"{"refusal": "tired", "text": "later\u001b[31m", "since": 3}"#;
        let refused: Refused = decode(text).expect("a refusal");
        assert_eq!((refused.refusal, refused.shown()), (Refusal::Other, "later[31m".to_owned()));
        assert_eq!(decode::<Have>(b"{}"), None);
    }
}
