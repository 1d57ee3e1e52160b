//! Pulses: sampled waveforms of each channel.
//!
//! ```text
//!  /api/pulses/3?count=16 ─► Experiment::pulses ─► the latest sixteen
//! ```

use std::sync::Arc;

use axum::Json;
use axum::extract::{Path, State};
use axum::http::Uri;
use axum::response::IntoResponse;
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::json;

use super::request::{JsonBody, query};
use super::{Answer, Shared};
use crate::refusal::Refusal;

/// Pulses in an answer, unless said otherwise, and at most.
pub(super) const USUAL: usize = 16;
pub(super) const MOST: usize = 256;

pub(super) async fn channels(State(shared): State<Arc<Shared>>) -> Answer {
    Ok(Json(shared.ask(|experiment| experiment.pulse_channels()).await?).into_response())
}

pub(super) async fn latest(
    State(shared): State<Arc<Shared>>,
    Path(channel): Path<String>,
    uri: Uri,
) -> Answer {
    let channel: u16 = channel.parse().map_err(|_| {
        Refusal::not_found(format!("there is no channel {channel}"), "/api/pulses says which have pulses")
    })?;
    let count = match query(&uri, "count").map(|text| text.parse::<usize>()) {
        None => USUAL,
        Some(Ok(count)) => count.clamp(1, MOST),
        Some(Err(_)) => {
            return Err(Refusal::bad("count is not a number", format!("write count=1 to count={MOST}")));
        }
    };
    Ok(Json(shared.ask(move |experiment| experiment.pulses(channel, count)).await??).into_response())
}

/// The pulses to keep.
#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(rename = "PulseFilter")]
pub(super) struct Filter {
    /// Number of the channel.
    channel: u16,
    /// As in `[[cut]]`; an empty one keeps all.
    #[serde(default)]
    expression: String,
}

pub(super) async fn filter(State(shared): State<Arc<Shared>>, JsonBody(filter): JsonBody<Filter>) -> Answer {
    shared.ask(move |experiment| experiment.filter_pulses(filter.channel, &filter.expression)).await??;
    Ok(Json(json!({})).into_response())
}
