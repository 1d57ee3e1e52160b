//! Changes of what is shown of a run, asked for on the page: applied, reported, and kept with the run.
//!
//! ```text
//!  page ─ calibrate · cut · revert ─► View of the run ─► message, line in notes.jsonl      run.json at the end: all of them
//! ```

use std::path::Path;

use thalweg_analysis::view::{Applied, View, ViewError};
use thalweg_monitor::RequestRefused;

use super::recorded;
use crate::supervise::RunHandle;

/// Changes what is shown of a run that takes data, and writes down that it was so. `done` is the word for it.
pub(super) fn change(
    run: &RunHandle,
    directory: &Path,
    done: &str,
    change: impl FnOnce(&View) -> Result<Applied, ViewError>,
) -> Result<Applied, RequestRefused> {
    let state = run.state();
    if !state.state.takes_data() {
        return Err(RequestRefused::new(format!("the run is {}", state.state), "start one first"));
    }
    let none = || {
        RequestRefused::new(
            "this run has no hits whose channels are known",
            "add a source of hits for the next run",
        )
    };
    let observed = run.observed().ok_or_else(none)?;
    let applied =
        change(&observed.view).map_err(|error| RequestRefused::new(error.to_string(), error.advice()))?;
    let text = text_of(&applied, done, state.elapsed_seconds);
    tracing::info!("{text}");
    // It is in run.json at the end; until then this line says so, also of a run that is killed.
    let name = state.run.name.as_deref().unwrap_or_default();
    if let Err(RequestRefused { error, advice }) = recorded::add_note(directory, name, &text) {
        tracing::warn!("the change is made, and could not be noted with the run: {error}; {advice}");
    }
    Ok(applied)
}

/// A sentence on one line: what was done, when, and to what.
fn text_of(applied: &Applied, done: &str, seconds: f64) -> String {
    let lines: Vec<&str> = applied.lines.lines().filter(|line| !line.is_empty()).collect();
    format!(
        "change {} {done} {seconds:.1} s after the start, to what is shown and not to what is recorded: {}",
        applied.number,
        lines.join(" ")
    )
}
