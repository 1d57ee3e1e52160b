//! The commands that read recordings: `verify`, `recover`, `inspect`, `plot`.

use thalweg_run::recording;
use thalweg_run::spectra::{Picture, plot_run};

use super::{Ended, recording_reports};
use crate::arguments;
use crate::report::{CommandOutcome, print};

pub(crate) fn verify(options: &arguments::Recordings, json: bool) -> Ended {
    let runs = options.runs.iter().map(|run| options.directory_of_runs.find(run));
    let runs = runs.collect::<Result<Vec<_>, _>>()?;
    let is_ok = match runs.as_slice() {
        [run] => {
            let report = recording::verify(run)?;
            print(&report, json, recording_reports::verified)?;
            report.ok
        }
        nodes => {
            let report = recording::verify_nodes(nodes)?;
            print(&report, json, recording_reports::verified_nodes)?;
            report.ok
        }
    };
    Ok(if is_ok { CommandOutcome::Done } else { CommandOutcome::Failed })
}

pub(crate) fn recover(options: &arguments::Recording, json: bool) -> Ended {
    let report = recording::recover(&options.directory_of_runs.find(&options.run)?)?;
    print(&report, json, recording_reports::recovered)?;
    Ok(CommandOutcome::Done)
}

pub(crate) fn inspect(options: &arguments::Inspect, json: bool) -> Ended {
    let request = thalweg_run::inspect::Request {
        what: options.directory_of_runs.find_number(&options.what)?,
        format: options.format.clone(),
        tick_ps: options.tick_ps,
        seconds: options.seconds,
    };
    let report = thalweg_run::inspect::inspect(&request)?;
    print(&report, json, recording_reports::inspected)?;
    Ok(CommandOutcome::Done)
}

pub(crate) fn plot(options: &arguments::Plot, json: bool) -> Ended {
    let what = if options.series { Picture::Series } else { Picture::Data };
    let run = options.directory_of_runs.find(&options.run)?;
    let file = plot_run(&run, what, options.output.as_deref())?;
    print(&serde_json::json!({ "plot": file }), json, |_| file.display().to_string())?;
    Ok(CommandOutcome::Done)
}
