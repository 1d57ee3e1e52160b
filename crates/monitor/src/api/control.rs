//! Start, stop, pause, resume; and alarms that somebody has seen.
//!
//! ```text
//!  POST /api/run/start {title, seconds} ─► RunRequest::Start ─► 200 {state}, or 409 {error, advice}
//! ```

use std::sync::Arc;

use axum::Json;
use axum::extract::State;
use axum::response::IntoResponse;
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::json;

use super::request::JsonBody;
use super::runs::Nothing;
use super::{Answer, Shared};
use crate::experiment::{RunRequest, StartRun};
use crate::refusal::Refusal;

async fn command(shared: &Shared, command: RunRequest) -> Answer {
    let state = shared.ask(move |experiment| experiment.command(command)).await??;
    Ok(Json(json!({ "state": state.word() })).into_response())
}

pub(super) async fn start(State(shared): State<Arc<Shared>>, JsonBody(start): JsonBody<StartRun>) -> Answer {
    if start.seconds.is_some_and(|seconds| !(seconds.is_finite() && seconds > 0.0)) {
        return Err(Refusal::bad("seconds is not a time", "write a positive number, or leave it out"));
    }
    if [start.hits, start.events].contains(&Some(0)) {
        return Err(Refusal::bad(
            "a run of nothing is not a run",
            "write hits and events above 0, or leave them out",
        ));
    }
    command(&shared, RunRequest::Start(start)).await
}

/// Which alarm is seen.
#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(rename = "SeenAlarm")]
pub(super) struct Seen {
    /// Its name.
    name: String,
    /// The source, clock or board that it is about; empty when it is about the whole.
    #[serde(default)]
    subject: String,
}

pub(super) async fn acknowledge(State(shared): State<Arc<Shared>>, JsonBody(seen): JsonBody<Seen>) -> Answer {
    shared.ask(move |experiment| experiment.acknowledge(&seen.name, &seen.subject)).await??;
    Ok(Json(json!({})).into_response())
}

pub(super) async fn stop(
    State(shared): State<Arc<Shared>>,
    JsonBody(Nothing {}): JsonBody<Nothing>,
) -> Answer {
    command(&shared, RunRequest::Stop).await
}

pub(super) async fn pause(
    State(shared): State<Arc<Shared>>,
    JsonBody(Nothing {}): JsonBody<Nothing>,
) -> Answer {
    command(&shared, RunRequest::Pause).await
}

pub(super) async fn resume(
    State(shared): State<Arc<Shared>>,
    JsonBody(Nothing {}): JsonBody<Nothing>,
) -> Answer {
    command(&shared, RunRequest::Resume).await
}
