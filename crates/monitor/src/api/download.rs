//! Sends an open file, chunk by chunk, whole or from somewhere on.
//!
//! ```text
//!  file, length, "bytes=100-199" ─► 206, content-range ─► chunks of 256 KiB, each when the last is gone
//! ```
//! Ranges as RFC 9110, section 14: one range of bytes; several are answered with the whole file, which is allowed.

use std::fs::File;
use std::ops::Range;
use std::os::unix::fs::FileExt;

use axum::body::{Body, Bytes};
use axum::http::{StatusCode, header};
use axum::response::IntoResponse;
use futures_util::stream::unfold;
use tokio::sync::OwnedSemaphorePermit;

use super::Answer;
use crate::refusal::Refusal;

const CHUNK: u64 = 256 << 10;

/// A file on its way.
pub(super) struct Download {
    pub name: String,
    pub file: File,
    /// Bytes of it when it was opened; what is added later is not sent.
    pub length: u64,
    pub place: OwnedSemaphorePermit,
}

impl Download {
    /// The answer that sends it.
    pub fn respond(self, range: Option<&str>) -> Answer {
        let length = self.length;
        let part = match range.map(|range| parse(range, length)) {
            None | Some(Asked::All) => None,
            Some(Asked::Part(part)) => Some(part),
            Some(Asked::Outside) => {
                let error = format!("the file has {length} bytes");
                let refusal =
                    Refusal::new(StatusCode::RANGE_NOT_SATISFIABLE, error, "ask for a range inside");
                return Ok(([(header::CONTENT_RANGE, format!("bytes */{length}"))], refusal).into_response());
            }
        };
        let sent = part.clone().unwrap_or(0..length);
        let plain = |character: char| {
            if character.is_ascii_graphic() && !"\"\\%".contains(character) { character } else { '_' }
        };
        let name: String = self.name.chars().map(plain).collect();
        let kind = if name.ends_with(".json") { "application/json" } else { "application/octet-stream" };
        let headers = [
            (header::CONTENT_TYPE, kind.to_owned()),
            (header::CONTENT_LENGTH, (sent.end - sent.start).to_string()),
            (header::CONTENT_DISPOSITION, format!("attachment; filename=\"{name}\"")),
            (header::ACCEPT_RANGES, "bytes".to_owned()),
        ];
        let body = self.body(sent);
        Ok(match part {
            None => (headers, body).into_response(),
            Some(part) => {
                let range = format!("bytes {}-{}/{length}", part.start, part.end - 1);
                (StatusCode::PARTIAL_CONTENT, headers, [(header::CONTENT_RANGE, range)], body).into_response()
            }
        })
    }

    fn body(self, sent: Range<u64>) -> Body {
        Body::from_stream(unfold((self, sent), |(download, rest)| async move {
            if rest.is_empty() {
                return None;
            }
            let Download { name, file, length, place } = download;
            let read = tokio::task::spawn_blocking(move || {
                let mut chunk = vec![0; (rest.end - rest.start).min(CHUNK) as usize];
                let result = file.read_exact_at(&mut chunk, rest.start).map(|()| Bytes::from(chunk));
                (file, rest, result)
            });
            // A reader that fails ends the connection: the other end sees that bytes are missing.
            let (file, rest, result) = read.await.ok()?;
            let after = match &result {
                Ok(chunk) => rest.start + chunk.len() as u64..rest.end,
                Err(_) => rest.end..rest.end,
            };
            Some((result, (Download { name, file, length, place }, after)))
        }))
    }
}

/// What a range asks for.
#[derive(Debug, PartialEq, Eq)]
enum Asked {
    All,
    Part(Range<u64>),
    Outside,
}

fn parse(range: &str, length: u64) -> Asked {
    let Some((first, last)) = range.trim().strip_prefix("bytes=").and_then(|range| range.split_once('-'))
    else {
        return Asked::All;
    };
    let part = match (first.trim().parse::<u64>(), last.trim().parse::<u64>()) {
        (Ok(first), Ok(last)) if first <= last => first..last.saturating_add(1).min(length),
        (Ok(first), Err(_)) if last.trim().is_empty() => first..length,
        (Err(_), Ok(last)) if first.trim().is_empty() => length.saturating_sub(last)..length,
        _ => return Asked::All,
    };
    if part.start < part.end { Asked::Part(part) } else { Asked::Outside }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn ranges_are_those_of_the_standard() {
        assert_eq!(parse("bytes=0-0", 10), Asked::Part(0..1));
        assert_eq!(parse("bytes=5-", 10), Asked::Part(5..10));
        assert_eq!(parse("bytes=-3", 10), Asked::Part(7..10));
        assert_eq!(parse("bytes=-30", 10), Asked::Part(0..10));
        assert_eq!(parse("bytes=8-99", 10), Asked::Part(8..10));
        assert_eq!(parse("bytes=10-", 10), Asked::Outside);
        assert_eq!(parse("bytes=-0", 10), Asked::Outside);
        for all in ["bytes=1-2,4-5", "bytes=5-4", "lines=1-2", "bytes=", "bytes=a-b"] {
            assert_eq!(parse(all, 10), Asked::All, "{all}");
        }
    }

    proptest! {
        #[test]
        fn a_part_lies_inside(range in "bytes=[0-9]{0,20}-[0-9]{0,20}", length in any::<u64>()) {
            if let Asked::Part(part) = parse(&range, length) {
                prop_assert!(part.start < part.end && part.end <= length);
            }
        }
    }
}
