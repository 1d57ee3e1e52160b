//! Reads requests: the body as JSON, the query as pairs.
//!
//! ```text
//!  body ─ at most 64 KiB, within 10 s ─► JSON ─► T, or what is wrong with it
//! ```

use std::time::Duration;

use axum::body::to_bytes;
use axum::extract::{FromRequest, Request};
use axum::http::{StatusCode, Uri};
use serde::de::DeserializeOwned;

use crate::connections::Requests;
use crate::refusal::Refusal;

const LONGEST: usize = 64 << 10;
const WITHIN: Duration = Duration::from_secs(10);

/// A body, understood. An empty one is as good as `{}`.
pub(super) struct JsonBody<T>(pub T);

impl<S: Send + Sync, T: DeserializeOwned> FromRequest<S> for JsonBody<T> {
    type Rejection = Refusal;

    async fn from_request(request: Request, _: &S) -> Result<JsonBody<T>, Refusal> {
        let requests = request.extensions().get::<Requests>().cloned();
        let reading = tokio::time::timeout(WITHIN, to_bytes(request.into_body(), LONGEST));
        let Ok(read) = reading.await else {
            return Err(Refusal::new(
                StatusCode::REQUEST_TIMEOUT,
                "the body did not come within 10 s",
                "send it at once",
            ));
        };
        let bytes = read.map_err(|cause| {
            let error = format!("the body cannot be read: {cause}");
            Refusal::new(StatusCode::PAYLOAD_TOO_LARGE, error, format!("send at most {LONGEST} bytes"))
        })?;
        requests.iter().for_each(Requests::came_whole);
        let text: &[u8] = if bytes.is_empty() { b"{}" } else { &bytes };
        serde_json::from_slice(text).map(JsonBody).map_err(|cause| {
            Refusal::bad(
                format!("the body is not what is expected: {cause}"),
                "/api/openapi.json describes it",
            )
        })
    }
}

/// One value of a query.
pub(super) fn query(uri: &Uri, key: &str) -> Option<String> {
    let mut pairs = url::form_urlencoded::parse(uri.query().unwrap_or_default().as_bytes());
    pairs.find(|(name, _)| name == key).map(|(_, value)| value.into_owned())
}
