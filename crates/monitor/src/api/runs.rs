//! Recorded runs: their list, one of them, its files, its comment, its notes.
//!
//! ```text
//!  /api/runs/run-000017/files/hits.arrows ─► listing ─► download
//! ```

use std::path::PathBuf;
use std::sync::Arc;

use axum::Json;
use axum::extract::{Path, State};
use axum::http::{HeaderMap, StatusCode, header};
use axum::response::IntoResponse;
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::json;

use super::download::Download;
use super::request::JsonBody;
use super::{Answer, Shared};
use crate::experiment::{Experiment, RequestRefused};
use crate::listing;
use crate::refusal::Refusal;

fn no_run(name: &str) -> Refusal {
    Refusal::not_found(format!("there is no run \"{name}\""), "/api/runs lists those that there are")
}

/// The directory with the directories of runs, for a name that one of these can have.
fn runs_of(experiment: &dyn Experiment, name: &str) -> Option<PathBuf> {
    experiment.runs_directory().filter(|_| experiment.is_name_of_run(name))
}

/// Asks about a run that is there. The experiment gets names of the listing only.
async fn ask_of_run<T: Send + 'static>(
    shared: &Shared,
    name: String,
    question: impl FnOnce(&dyn Experiment, &str) -> Result<T, RequestRefused> + Send + 'static,
) -> Result<T, Refusal> {
    let answer = shared.ask(move |experiment| {
        match runs_of(experiment, &name).is_some_and(|runs| listing::has_run(&runs, &name)) {
            true => question(experiment, &name).map_err(Refusal::from),
            false => Err(no_run(&name)),
        }
    });
    answer.await?
}

pub(super) async fn list(State(shared): State<Arc<Shared>>) -> Answer {
    Ok(Json(shared.ask(|experiment| experiment.runs()).await??).into_response())
}

pub(super) async fn one(State(shared): State<Arc<Shared>>, Path(name): Path<String>) -> Answer {
    let refusal = no_run(&name);
    let run = ask_of_run(&shared, name, |experiment, name| experiment.run(name)).await?;
    Ok(Json(run.ok_or(refusal)?).into_response())
}

pub(super) async fn file(
    State(shared): State<Arc<Shared>>,
    Path((name, file)): Path<(String, String)>,
    headers: HeaderMap,
) -> Answer {
    let place = shared.downloads.clone().try_acquire_owned().map_err(|_| {
        let advice =
            "wait until one of them is done; large files are copied faster from the directory itself";
        Refusal::new(StatusCode::SERVICE_UNAVAILABLE, "too many files are being sent", advice)
    })?;
    let missing = Refusal::not_found(
        format!("there is no file \"{file}\" of a run \"{name}\""),
        "/api/runs lists what there is",
    );
    let range = headers.get(header::RANGE).and_then(|range| range.to_str().ok()).map(str::to_owned);
    let opened = shared.ask({
        let file = file.clone();
        move |experiment| listing::open(&runs_of(experiment, &name)?, &name, &file)
    });
    let (opened, length) = opened.await?.ok_or(missing)?;
    Download { name: file, file: opened, length, place }.respond(range.as_deref())
}

/// A comment.
#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(rename = "RunComment")]
pub(super) struct Comment {
    /// Its text.
    comment: String,
}

pub(super) async fn comment(
    State(shared): State<Arc<Shared>>,
    Path(name): Path<String>,
    JsonBody(body): JsonBody<Comment>,
) -> Answer {
    ask_of_run(&shared, name, move |experiment, name| experiment.comment(name, &body.comment)).await?;
    Ok(Json(json!({})).into_response())
}

/// A change of a run's labels.
#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
#[derive(Default)]
#[schemars(rename = "NewRunLabels")]
pub(super) struct NewLabels {
    /// Labels that the run gets: words of a-z, 0-9, _ and -.
    added: Vec<String>,
    /// Labels that it loses.
    removed: Vec<String>,
}

pub(super) async fn label(
    State(shared): State<Arc<Shared>>,
    Path(name): Path<String>,
    JsonBody(NewLabels { added, removed }): JsonBody<NewLabels>,
) -> Answer {
    ask_of_run(&shared, name, move |experiment, name| experiment.label(name, &added, &removed)).await?;
    Ok(Json(json!({})).into_response())
}

/// A note of the operator.
#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(rename = "NewRunNote")]
pub(super) struct NewNote {
    /// Its text.
    text: String,
}

impl NewNote {
    /// What it says.
    fn words(&self) -> Result<String, Refusal> {
        match self.text.trim() {
            "" => Err(Refusal::bad("a note without words", "write something in `text`")),
            text => Ok(text.to_owned()),
        }
    }
}

pub(super) async fn add_note(
    State(shared): State<Arc<Shared>>,
    Path(name): Path<String>,
    JsonBody(body): JsonBody<NewNote>,
) -> Answer {
    let text = body.words()?;
    ask_of_run(&shared, name, move |experiment, name| experiment.add_note(name, &text)).await?;
    Ok(Json(json!({})).into_response())
}

pub(super) async fn notes_for_next(State(shared): State<Arc<Shared>>) -> Answer {
    Ok(Json(shared.ask(|experiment| experiment.notes_for_next()).await??).into_response())
}

pub(super) async fn add_note_for_next(
    State(shared): State<Arc<Shared>>,
    JsonBody(body): JsonBody<NewNote>,
) -> Answer {
    let text = body.words()?;
    shared.ask(move |experiment| experiment.add_note_for_next(&text)).await??;
    Ok(Json(json!({})).into_response())
}

/// Nothing has to be said.
#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(rename = "NoArguments")]
pub(super) struct Nothing {}

pub(super) async fn verify(
    State(shared): State<Arc<Shared>>,
    Path(name): Path<String>,
    JsonBody(Nothing {}): JsonBody<Nothing>,
) -> Answer {
    Ok(Json(ask_of_run(&shared, name, |experiment, name| experiment.verify(name)).await?).into_response())
}
