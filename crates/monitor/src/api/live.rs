//! The state of the run, its configuration, the host, and the metrics.
//!
//! ```text
//!  Hub ─► /api/state, /api/events        snapshot, state ─► /metrics        snapshot ─► /api/topology        past ─► /api/history
//! ```

use std::sync::Arc;

use axum::Json;
use axum::body::Body;
use axum::extract::State;
use axum::http::{StatusCode, Uri, header};
use axum::response::{IntoResponse, Response};

use super::request::query;
use super::{Answer, Shared, WAIT};
use crate::hub::Frame;
use crate::metrics;
use crate::refusal::Refusal;

pub(super) const OPENAPI: &str = include_str!("../openapi.json");

const JSON: (header::HeaderName, &str) = (header::CONTENT_TYPE, "application/json");

/// The state, if it can be given in time.
async fn frame(shared: &Shared) -> Result<Arc<Frame>, Refusal> {
    let refuse = |error: &str| {
        let advice = "look into the log of the program; taking data goes on";
        Refusal::new(StatusCode::INTERNAL_SERVER_ERROR, error, advice)
    };
    match tokio::time::timeout(WAIT, shared.hub.frame()).await {
        Ok(frame) => frame.ok_or_else(|| refuse("the state cannot be sent")),
        Err(_) => Err(refuse("the state did not come in time")),
    }
}

pub(super) async fn state(State(shared): State<Arc<Shared>>) -> Answer {
    let frame = frame(&shared).await?;
    Ok(([JSON], frame.json.clone()).into_response())
}

pub(super) async fn events(State(shared): State<Arc<Shared>>) -> Response {
    let Some(events) = shared.hub.watch() else {
        let refusal = Refusal::new(
            StatusCode::SERVICE_UNAVAILABLE,
            "all streams are taken",
            "close pages that are not looked at, or raise [monitor] streams; /api/state can still be asked",
        );
        return ([(header::CONNECTION, "close"), (header::RETRY_AFTER, "5")], refusal).into_response();
    };
    // Proxies that gather answers would hold events back.
    let headers = [(header::CONTENT_TYPE.as_str(), "text/event-stream"), ("x-accel-buffering", "no")];
    (headers, Body::from_stream(events)).into_response()
}

pub(super) async fn configuration(State(shared): State<Arc<Shared>>) -> Answer {
    Ok(Json(shared.ask(|experiment| experiment.configuration()).await?).into_response())
}

/// The last ten minutes unless said otherwise, and a day at most.
const USUAL_SECONDS: f64 = 600.0;
const MOST_SECONDS: f64 = 86_400.0;

pub(super) async fn history(State(shared): State<Arc<Shared>>, uri: Uri) -> Answer {
    let seconds = match query(&uri, "seconds").map(|text| text.parse::<f64>()) {
        None => USUAL_SECONDS,
        Some(Ok(seconds)) if (0.0..=MOST_SECONDS).contains(&seconds) => seconds,
        Some(_) => {
            let advice =
                format!("write 1 to {MOST_SECONDS}; up to {USUAL_SECONDS} are by second, more by minute");
            return Err(Refusal::bad("`seconds` is no time that is kept", advice));
        }
    };
    Ok(Json(shared.ask(move |experiment| experiment.past(seconds)).await?).into_response())
}

pub(super) async fn topology(State(shared): State<Arc<Shared>>) -> Answer {
    let snapshot = shared.ask(|experiment| experiment.snapshot()).await?;
    let none = || Refusal::new(StatusCode::NOT_FOUND, "there was no run yet", "start one, and ask again");
    let topology = snapshot.and_then(|snapshot| snapshot.topology).ok_or_else(none)?;
    Ok(Json(&*topology).into_response())
}

pub(super) async fn system(State(shared): State<Arc<Shared>>) -> Answer {
    Ok(Json(shared.ask(|experiment| experiment.system()).await?).into_response())
}

pub(super) async fn openapi() -> impl IntoResponse {
    ([JSON], OPENAPI)
}

pub(super) async fn metrics(State(shared): State<Arc<Shared>>) -> Answer {
    let frame = frame(&shared).await?;
    let own = metrics::Own {
        streams: shared.hub.streams() as u64,
        answers: shared.traffic.answers().collect(),
        refused_connections: shared.traffic.refused_connections(),
    };
    let text = shared
        .ask(move |experiment| metrics::text(experiment.snapshot().as_ref(), &frame.state, &own))
        .await?;
    Ok(([(header::CONTENT_TYPE, metrics::CONTENT_TYPE)], text).into_response())
}
