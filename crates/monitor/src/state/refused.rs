//! A datagram, block or fragment that was refused: whose, which, why, what was expected, and the bytes.

use std::fmt::Write;

use schemars::JsonSchema;
use serde::Serialize;
use thalweg_data::{LossReason, Refused, Stage};

/// A datagram, block or fragment that was refused, one of the first of its kind.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
pub struct RefusedUnit {
    /// Name of the board; of the link, where the board is not known.
    pub source: String,
    /// Where: `unpack` (framing) or `build`.
    pub stage: Stage,
    /// Why.
    pub reason: LossReason,
    /// The trigger number that it gave, if that could be read.
    pub trigger: Option<u64>,
    /// When it came, seconds since the clock of the run was started.
    pub seconds: f64,
    /// Its length; of a damaged stream, how much there was behind the damage. Bytes.
    pub bytes: u64,
    /// What would have been taken in its place.
    pub expected: String,
    /// Its first bytes, two hexadecimal digits each.
    pub head: String,
}

impl RefusedUnit {
    /// As it was kept, with the name of its board; `link` stands in where the board is not known.
    pub fn new(stage: Stage, refused: &Refused, names: &[String], link: &str) -> RefusedUnit {
        let name = refused.source.and_then(|source| names.get(source.index()));
        RefusedUnit {
            source: name.map_or_else(|| link.to_owned(), Clone::clone),
            stage,
            reason: refused.reason,
            trigger: refused.trigger,
            seconds: refused.mark.0 as f64 / 1e9,
            bytes: refused.bytes,
            expected: refused.expected.clone(),
            head: refused.head.iter().fold(String::new(), |mut text, byte| {
                let _ = write!(text, "{byte:02x}");
                text
            }),
        }
    }
}
