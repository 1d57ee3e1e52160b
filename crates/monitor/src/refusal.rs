//! An answer that says no, and what to do about it.
//!
//! ```text
//!  Refusal { status, error, advice } ─► {"error": "…", "advice": "…"}
//! ```

use axum::Json;
use axum::http::StatusCode;
use axum::response::{IntoResponse, Response};

use crate::experiment::RequestRefused;

/// Why a request is not answered as asked.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Refusal {
    pub status: StatusCode,
    pub body: RequestRefused,
}

impl Refusal {
    /// A refusal with this error and advice.
    pub fn new(status: StatusCode, error: impl Into<String>, advice: impl Into<String>) -> Refusal {
        Refusal { status, body: RequestRefused::new(error, advice) }
    }

    /// What was asked for is not there.
    pub fn not_found(what: impl Into<String>, advice: impl Into<String>) -> Refusal {
        Refusal::new(StatusCode::NOT_FOUND, what, advice)
    }

    /// The request is invalid.
    pub fn bad(error: impl Into<String>, advice: impl Into<String>) -> Refusal {
        Refusal::new(StatusCode::BAD_REQUEST, error, advice)
    }
}

impl From<RequestRefused> for Refusal {
    /// The experiment's no: the request is fine, and not possible as things stand.
    fn from(body: RequestRefused) -> Refusal {
        Refusal { status: StatusCode::CONFLICT, body }
    }
}

impl IntoResponse for Refusal {
    fn into_response(self) -> Response {
        (self.status, Json(self.body)).into_response()
    }
}
