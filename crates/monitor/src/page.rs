//! The page's files, part of the binary.
//!
//! ```text
//!  /app.js ─► ("app.js", bytes) ─► content type, entity tag
//!  /runs/17 ─► index.html            a screen of the page: it reads the place itself
//! ```
//! A path from a URL is compared with the names of a list; no file is opened.

use axum::http::{HeaderMap, HeaderValue, StatusCode, Uri, header};
use axum::response::{IntoResponse, Response};

use crate::refusal::Refusal;

const FILES: &[(&str, &[u8])] = &include!(concat!(env!("OUT_DIR"), "/page_files.rs"));

/// Answers with a file of the page.
pub(crate) async fn file(uri: Uri, headers: HeaderMap) -> Result<Response, Refusal> {
    let asked = uri.path().trim_start_matches('/');
    let is_screen =
        !asked.starts_with("api/") && !asked.rsplit('/').next().is_some_and(|last| last.contains('.'));
    let name = if is_screen && find(asked).is_none() { "index.html" } else { asked };
    let Some(bytes) = find(name) else {
        let advice = if asked.starts_with("api/") {
            "/api/openapi.json says what there is"
        } else {
            "the page is at /"
        };
        return Err(Refusal::not_found(format!("there is no /{asked}"), advice));
    };
    let tag = format!("\"{:016x}\"", fingerprint(bytes));
    let is_known = headers.get(header::IF_NONE_MATCH).is_some_and(|known| known.as_bytes() == tag.as_bytes());
    let mut response = match is_known {
        true => StatusCode::NOT_MODIFIED.into_response(),
        false => ([(header::CONTENT_TYPE, content_type(name))], bytes).into_response(),
    };
    let answer = response.headers_mut();
    answer.insert(header::CACHE_CONTROL, HeaderValue::from_static("no-cache"));
    if let Ok(tag) = HeaderValue::from_str(&tag) {
        answer.insert(header::ETAG, tag);
    }
    Ok(response)
}

fn find(name: &str) -> Option<&'static [u8]> {
    FILES.iter().find(|(file, _)| *file == name).map(|(_, bytes)| *bytes)
}

/// FNV-1a: says whether two builds have the same file.
fn fingerprint(bytes: &[u8]) -> u64 {
    bytes
        .iter()
        .fold(0xcbf2_9ce4_8422_2325, |hash, byte| (hash ^ u64::from(*byte)).wrapping_mul(0x0100_0000_01b3))
}

fn content_type(name: &str) -> &'static str {
    match name.rsplit('.').next().unwrap_or_default() {
        "html" => "text/html; charset=utf-8",
        "js" | "mjs" => "text/javascript; charset=utf-8",
        "css" => "text/css; charset=utf-8",
        "svg" => "image/svg+xml",
        "png" => "image/png",
        "ico" => "image/x-icon",
        "woff2" => "font/woff2",
        "json" | "map" | "webmanifest" => "application/json",
        "txt" => "text/plain; charset=utf-8",
        _ => "application/octet-stream",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn there_is_a_first_page() {
        assert!(find("index.html").is_some());
        assert_eq!(content_type("a/b.min.js"), "text/javascript; charset=utf-8");
        assert_ne!(fingerprint(b"a"), fingerprint(b"b"));
    }
}
