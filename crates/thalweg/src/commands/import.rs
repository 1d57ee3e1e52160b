//! `import`: a MIDAS file as a recording.
//!
//! ```text
//!  FILE, --runs, --title ─► ImportRequest ─► thalweg_export ─► progress on standard error ─► a report
//! ```

use std::fmt::Write;
use std::time::{Duration, Instant};

use thalweg_export::{ImportReport, ImportRequest};

use super::Ended;
use crate::arguments;
use crate::report::{CommandOutcome, print, si};
use crate::signals::Signals;
use crate::terminal;

/// Lines of progress come this often.
const EVERY: Duration = Duration::from_secs(5);

pub(crate) fn import(options: &arguments::Import, json: bool) -> Ended {
    let signals = Signals::install()?;
    let request = ImportRequest {
        file: options.file.clone(),
        directory: arguments::RunsDirectory::of(options.runs.clone()).path(),
        title: options.title.clone(),
    };
    let mut last = Instant::now();
    let report = thalweg_export::import(&request, &mut |bytes| {
        if !json && last.elapsed() >= EVERY {
            last = Instant::now();
            terminal::notice(&format!("{}B of events read", si(bytes as f64)));
        }
        !signals.stop_requested()
    });
    let report = report.map_err(anyhow::Error::from)?;
    print(&report, json, imported)?;
    Ok(if report.remarks.is_empty() { CommandOutcome::Done } else { CommandOutcome::Failed })
}

fn imported(report: &ImportReport) -> String {
    let mut text = format!("imported: {}\n", report.run_directory.display());
    for (count, what) in [
        (report.events, "events"),
        (report.fragments, "fragments"),
        (report.hits, "hits"),
        (report.coincidences, "coincidences"),
    ] {
        if count > 0 {
            let _ = writeln!(text, "  {count:>12} {what}");
        }
    }
    let _ = writeln!(text, "  sources {}", report.sources.join(", "));
    for remark in &report.remarks {
        let _ = writeln!(text, "  {remark}");
    }
    text
}
