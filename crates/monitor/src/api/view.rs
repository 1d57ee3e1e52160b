//! What is shown of a run, changed while it goes on: a calibration, a cut, and back.
//!
//! ```text
//!  POST /api/view/calibrate {channel, energy_kev} ─► Experiment::calibrate ─► the change, with its number
//!  POST /api/view/cut {name, keep, polygon}       ─► Experiment::cut       ─►   "
//!  POST /api/view/revert {number}                 ─► Experiment::revert    ─►   "
//! ```

use std::sync::Arc;

use axum::Json;
use axum::extract::State;
use axum::response::IntoResponse;
use schemars::JsonSchema;
use serde::Deserialize;
use thalweg_analysis::view::{NewCalibration, NewCut};

use super::request::JsonBody;
use super::{Answer, Shared};

pub(super) async fn calibrate(
    State(shared): State<Arc<Shared>>,
    JsonBody(new): JsonBody<NewCalibration>,
) -> Answer {
    Ok(Json(shared.ask(move |experiment| experiment.calibrate(&new)).await??).into_response())
}

pub(super) async fn cut(State(shared): State<Arc<Shared>>, JsonBody(new): JsonBody<NewCut>) -> Answer {
    Ok(Json(shared.ask(move |experiment| experiment.cut(&new)).await??).into_response())
}

/// The change to take back.
#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(rename = "ChangeToRevert")]
pub(super) struct Revert {
    /// Its number, as the state of the run says it.
    number: u32,
}

pub(super) async fn revert(State(shared): State<Arc<Shared>>, JsonBody(revert): JsonBody<Revert>) -> Answer {
    Ok(Json(shared.ask(move |experiment| experiment.revert(revert.number)).await??).into_response())
}
