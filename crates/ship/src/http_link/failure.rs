//! What a store said when something did not go well, and what that is to a shipper.
//!
//! ```text
//!  status, <Error><Code>…</Code> ─► Answer ─► ShipError: in a word, and what was seen, where, what to do
//! ```

use std::fmt;
use std::io;

use hyper::http::response::Parts;

use crate::error::{Refusal, ShipError};

/// Longest text of a store that is shown, characters.
const LONGEST_TEXT: usize = 300;

/// Why a request has failed.
#[derive(Debug)]
pub(crate) enum Failure {
    /// The store has answered.
    Answer(Answer),
    /// It has not.
    Lost(io::Error),
}

/// An answer that does not say that all went well.
#[derive(Debug)]
pub(crate) struct Answer {
    /// What was asked: method and path.
    pub(crate) asked: String,
    pub(crate) status: u16,
    /// The word of S3 for it, empty without one.
    pub(crate) code: String,
    /// What the store said, for people.
    pub(crate) text: String,
    /// Where else to ask.
    pub(crate) location: Option<String>,
}

impl Answer {
    pub(crate) fn read(asked: String, parts: Parts, body: &[u8]) -> Answer {
        let text = String::from_utf8_lossy(body);
        let document = roxmltree::Document::parse(&text).ok();
        let element = |name: &str| {
            let mut all = document.iter().flat_map(|document| document.descendants());
            let found = all.find(|node| node.tag_name().name() == name)?;
            Some(found.text()?.to_owned())
        };
        let code = element("Code").unwrap_or_default();
        let words = element("Message").unwrap_or_else(|| match document {
            Some(_) => String::new(),
            // Pages for browsers say nothing more.
            None if text.trim_start().starts_with('<') => String::new(),
            None => text.trim().to_owned(),
        });
        let location = parts.headers.get("location").and_then(|value| value.to_str().ok());
        Answer {
            asked,
            status: parts.status.as_u16(),
            code: shown(&code),
            text: shown(&words),
            location: location.map(str::to_owned),
        }
    }

    /// As an error; `access` says what to do when access is denied.
    pub(crate) fn error(&self, destination: &str, access: &str) -> ShipError {
        let (refusal, advice) = match (self.status, &self.code[..]) {
            (507, _) | (_, "QuotaExceeded" | "InsufficientStorage" | "XMinioStorageFull") => {
                (Refusal::DiskFull, "the store is full; make space there, or have the quota raised")
            }
            (403, "RequestTimeTooSkewed") => (
                Refusal::Token,
                "the clock of this host and that of the store differ; set the one that is wrong",
            ),
            (401 | 403, _) | (400, "ExpiredToken" | "InvalidToken" | "TokenRefreshRequired") => {
                (Refusal::Token, access)
            }
            (404, "NoSuchBucket") | (400, "InvalidBucketName") => {
                (Refusal::Missing, "make the bucket, or correct the address")
            }
            (404, _) => (Refusal::Missing, "it does not exist there; correct the address"),
            (300..=399, _) | (_, "AuthorizationHeaderMalformed") => {
                (Refusal::Failed, "it is at another address; correct `region` and `endpoint`, or the address")
            }
            (429 | 500 | 502 | 503 | 504, _) => {
                (Refusal::Busy, "it cannot answer now; this is tried again, later each time")
            }
            (400, "RequestTimeout" | "IncompleteBody" | "BadDigest" | "XAmzContentSHA256Mismatch") => {
                (Refusal::Busy, "the bytes did not come there whole; this is tried again, later each time")
            }
            // What is there of an upload is held against what is known of it at the next try.
            (400, "InvalidPart" | "InvalidPartOrder" | "EntityTooSmall") => {
                (Refusal::Failed, "see the log of the store")
            }
            (413, _) | (400, "EntityTooLarge") => {
                (Refusal::NotTaken, "the store takes no file of this size; have its limit raised")
            }
            (414, _) | (400, "KeyTooLongError") => (
                Refusal::NotTaken,
                "the store takes no name of this length; ship into a folder with a shorter one",
            ),
            (423, _) => (Refusal::Locked, "a client has locked it there; have that lock removed"),
            (400 | 415 | 422, _) => (Refusal::NotTaken, "the store does not take this file; see its log"),
            _ => (Refusal::Failed, "see the log of the store"),
        };
        ShipError::Refused { destination: destination.to_owned(), refusal, text: format!("{self}; {advice}") }
    }
}

impl Failure {
    pub(crate) fn error(self, destination: &str, access: &str) -> ShipError {
        let destination = destination.to_owned();
        match self {
            Failure::Answer(answer) => answer.error(&destination, access),
            Failure::Lost(cause) if cause.kind() == io::ErrorKind::InvalidData => {
                let text = format!("{cause}; see that a store of this kind listens there");
                ShipError::Connection { destination, cause: io::Error::new(cause.kind(), text) }
            }
            Failure::Lost(cause) => ShipError::Connection { destination, cause },
        }
    }

    /// The status that was answered.
    pub(crate) fn status(&self) -> Option<u16> {
        match self {
            Failure::Answer(answer) => Some(answer.status),
            Failure::Lost(_) => None,
        }
    }
}

impl fmt::Display for Answer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Answer { asked, status, code, text, .. } = self;
        write!(f, "{asked}: {status}")?;
        if !code.is_empty() {
            write!(f, " {code}")?;
        }
        if text.is_empty() { Ok(()) } else { write!(f, " ({text})") }
    }
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Failure::Answer(answer) => answer.fmt(f),
            Failure::Lost(cause) => cause.fmt(f),
        }
    }
}

/// No longer than people read, and without what paints a terminal.
fn shown(text: &str) -> String {
    text.chars().filter(|letter| !letter.is_control()).take(LONGEST_TEXT).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_refusal_of_one_file_differs_from_one_of_the_store() {
        for (status, code, is_of_file) in [
            (400, "", true),
            (400, "InvalidRequest", true),
            (400, "EntityTooLarge", true),
            (400, "KeyTooLongError", true),
            (413, "", true),
            (414, "", true),
            (415, "", true),
            (422, "", true),
            (423, "", true),
            (400, "AuthorizationHeaderMalformed", false),
            (400, "ExpiredToken", false),
            (400, "RequestTimeout", false),
            (400, "InvalidPart", false),
            (400, "InvalidBucketName", false),
            (401, "", false),
            (403, "RequestTimeTooSkewed", false),
            (404, "", false),
            (409, "", false),
            (429, "", false),
            (503, "", false),
            (507, "", false),
        ] {
            let (asked, code, text) = ("PUT /a".to_owned(), code.to_owned(), String::new());
            let answer = Answer { asked, status, code, text, location: None };
            let error = answer.error("s3://a", "check the key");
            assert_eq!(error.is_of_file(), is_of_file, "{error}");
        }
    }
}
