//! The commands that take data: `demo`, `run`, `replay`, `emulate`.

use std::path::Path;
use std::sync::Arc;

use thalweg_run::Replay;
use thalweg_run::config::Configuration;
use thalweg_run::plan::Plan;
use thalweg_run::serve::MessageLog;
use thalweg_run::spectra::{Picture, plot_run};
use thalweg_run::supervise::{EndWhen, LiveState, RunHandle, Summary, Watch};

use super::Ended;
use super::page::{Page, listen_at};
use crate::arguments;
use crate::progress::Display;
use crate::report::{CommandOutcome, Failure, print};
use crate::signals::Signals;
use crate::terminal;

fn watched<E: Into<Failure>>(
    json: bool,
    states: Option<f64>,
    handle: RunHandle,
    work: impl FnOnce(&mut Watch<'_>) -> Result<Summary, E>,
) -> Result<Summary, Failure> {
    let signals = Signals::install()?;
    let display = Display::new(json);
    let mut reported = std::time::Instant::now();
    let mut show = |state: &Arc<LiveState>| {
        signals.report_hangup();
        display.show(state);
        if let (Some(every), Ok(line)) = (states, serde_json::to_string(&**state))
            && reported.elapsed().as_secs_f64() >= every
        {
            reported = std::time::Instant::now();
            terminal::passing_line(&line);
        }
    };
    let result = work(&mut Watch { show: &mut show, stop: signals.stop(), handle });
    display.finish();
    result.map_err(Into::into)
}

pub(super) fn report(summary: &Summary, json: bool) -> Ended {
    // The result of the run does not depend on whether its summary finds a reader; `run.json` has it too.
    if let Err(cause) = print(summary, json, Summary::text) {
        tracing::error!("the summary could not be printed: {cause}");
    }
    Ok(outcome(summary))
}

/// What the exit code says of a run.
pub(super) fn outcome(summary: &Summary) -> CommandOutcome {
    match summary.is_good() && summary.no_data.is_none() {
        true => CommandOutcome::Done,
        false => CommandOutcome::Failed,
    }
}

pub(crate) fn run(options: &arguments::Run, json: bool, messages: &MessageLog) -> Ended {
    let mut configuration = Configuration::read(&options.file)?;
    configuration.node.clone_from(&options.node);
    if let Some(listen) = &options.listen {
        listen_at(&mut configuration, listen)?;
    }
    let plan = Plan::of(&configuration)?;
    if options.explain {
        print(&plan, json, if options.svg { Plan::svg } else { ToString::to_string })?;
        return Ok(CommandOutcome::Done);
    }
    if !json {
        terminal::notice(&if options.verbose { plan.to_string() } else { plan.brief() });
    }
    let own = configuration.run.end();
    let end = EndWhen { seconds: options.seconds.or(own.seconds), ..own };
    let handle = RunHandle::new();
    let _page = Page::beside(&handle, &configuration, messages)?;
    let configuration = configuration.with_old_runs_removed();
    let summary = watched(json, options.states, handle, |watch| {
        thalweg_run::run_planned(&configuration, plan, end, watch)
    })?;
    report(&summary, json)
}

pub(crate) fn demo(options: &arguments::Demo, json: bool, messages: &MessageLog) -> Ended {
    let demo = thalweg_run::demo::Demo {
        boards: options.boards,
        rate_hz: options.rate,
        seed: options.seed,
        loss: options.loss,
        directory: options.directory.clone(),
        truth: options.truth.clone(),
    };
    let mut configuration = demo.configuration()?;
    configuration.monitor = (!options.no_page).then(|| thalweg_run::demo::page(&options.listen));
    // Before anything is announced.
    let plan = Plan::of(&configuration)?;
    if !json {
        terminal::notice(&demo.story());
    }
    let end = EndWhen { seconds: Some(options.seconds), ..EndWhen::default() };
    let handle = RunHandle::new();
    let page = Page::beside(&handle, &configuration, messages)?;
    if let (Some(page), false) = (&page, json) {
        terminal::notice(&format!("look on while it runs, in a browser: {}", page.url()));
    }
    let summary =
        watched(json, None, handle, |watch| thalweg_run::run_planned(&configuration, plan, end, watch))?;
    let ended = report(&summary, json)?;
    if let (Some(run), false) = (&summary.run_directory, json) {
        if let Some(words) = demo.loss_text(&summary) {
            terminal::passing_line(&words);
        }
        let plot = plot_run(run, Picture::Data, None)?;
        let (run, plot) = (run.display(), plot.display());
        terminal::passing_line(&format!(
            "spectra: {plot}\nlook on: thalweg verify {run} · thalweg inspect {run}\n\
             in Python: pyarrow.ipc.open_stream(\"{run}/hits.arrows\").read_pandas()"
        ));
    }
    Ok(ended)
}

pub(crate) fn replay(options: &arguments::Replay, json: bool, messages: &MessageLog) -> Ended {
    let run = options.directory_of_runs.find(&options.run)?;
    let mut replay = Replay::open(&run, &options.replaced()?)?;
    if let Some(directory) = &options.directory {
        replay = replay.into_directory(directory);
    }
    if let Some(pace) = options.pace() {
        replay = replay.at_pace(pace);
    }
    if let Some(listen) = &options.listen {
        replay = replay.with_page(listen);
    }
    if !json {
        terminal::notice(&replay.story());
    }
    let handle = RunHandle::new();
    let _page = Page::beside(&handle, replay.configuration(), messages)?;
    let summary = watched(json, options.states, handle, |watch| replay.run(watch))?;
    report(&summary, json)
}

pub(crate) fn emulate(options: &arguments::Emulate, json: bool) -> Ended {
    let signals = Signals::install()?;
    if let Some(file) = &options.file {
        return emulate_detector(file, options, &signals, json);
    }
    let emulation = thalweg_run::emulate::Emulation {
        boards: options.boards,
        address: options.address,
        to: options.to,
        settings: options.settings.clone(),
        rate_hz: options.rate,
        seed: options.seed,
        loss: options.loss,
        truth: options.truth.clone(),
    };
    let hosted = emulation.start()?;
    if !json {
        terminal::notice(hosted.story());
    }
    let totals = hosted.serve(options.seconds, signals.stop())?;
    print(&totals, json, ToString::to_string)?;
    Ok(CommandOutcome::Done)
}

/// The triggered boards of a configuration.
fn emulate_detector(file: &Path, options: &arguments::Emulate, signals: &Signals, json: bool) -> Ended {
    let detector = thalweg_run::emulate::Detector {
        configuration: Configuration::read(file)?,
        to: options.to,
        rate_hz: options.rate,
        seed: options.seed,
        triggers: options.triggers,
    };
    let hosted = detector.start()?;
    if !json {
        terminal::notice(hosted.story());
    }
    print(&hosted.serve(options.seconds, signals.stop()), json, ToString::to_string)?;
    Ok(CommandOutcome::Done)
}
