//! `export`: a recording in the format of other programs.
//!
//! ```text
//!  RUN, --to, --table ─► Request ─► thalweg_export ─► progress on standard error ─► a report
//! ```

use std::fmt::Write;
use std::time::{Duration, Instant};

use thalweg_export::{ExportError, Format, Progress, Report, Request};
use thalweg_record::{RunDirectory, RunRecord};
use thalweg_run::recording::Table;

use super::Ended;
use crate::arguments;
use crate::progress::StandingLines;
use crate::report::{CommandOutcome, Failure, print, si};
use crate::signals::Signals;
use crate::terminal;

/// Plain lines come this often.
const PLAIN_EVERY: Duration = Duration::from_secs(5);
/// A line on a terminal is drawn this often.
const DRAWN_EVERY: Duration = Duration::from_millis(200);

pub(crate) fn export(options: &arguments::Export, json: bool) -> Ended {
    let signals = Signals::install()?;
    let request = request(options)?;
    let mut display = Display { lines: StandingLines::on_terminal(json), json, last: Instant::now() };
    let result = thalweg_export::export(&request, &mut |progress| {
        display.show(progress);
        !signals.stop_requested()
    });
    if let Some(lines) = display.lines {
        lines.finish();
    }
    let report = result.map_err(|error| match error {
        ExportError::Refused(_) => Failure::Usage(error.into()),
        _ => Failure::Other(error.into()),
    })?;
    print(&report, json, exported)?;
    Ok(CommandOutcome::Done)
}

fn request(options: &arguments::Export) -> Result<Request, Failure> {
    let format = Format::ALL.into_iter().find(|format| format.word() == options.to);
    let with_kev = options.energies == Some(arguments::Energies::Kev);
    let needs_channels = with_kev || options.channel_names;
    let run = options.directory_of_runs.find(&options.run)?;
    Ok(Request {
        format: format.ok_or_else(|| anyhow::anyhow!("no format is called {}", options.to))?,
        out: options.out.clone(),
        tables: options.tables.iter().filter_map(|word| Table::from_word(word)).collect(),
        with_kev,
        with_names: options.channel_names,
        described: if needs_channels { described(&run)? } else { Vec::new() },
        run,
    })
}

/// What `[[channel]]` of the run's configuration says. A configuration that cannot be read, as of another version, says nothing.
fn described(run: &std::path::Path) -> Result<Vec<thalweg_analysis::channels::ChannelSettings>, Failure> {
    #[derive(Default, serde::Deserialize)]
    #[serde(default)]
    struct Channels {
        channel: Vec<thalweg_analysis::channels::ChannelSettings>,
    }
    let directory = RunDirectory::open(run)?;
    let record = RunRecord::read(&directory.run_record())?;
    Ok(toml::from_str::<Channels>(&record.configuration).unwrap_or_default().channel)
}

/// Shows how far an export is.
struct Display {
    lines: Option<StandingLines>,
    json: bool,
    last: Instant,
}

impl Display {
    fn show(&mut self, progress: &Progress) {
        let every = if self.lines.is_some() { DRAWN_EVERY } else { PLAIN_EVERY };
        if self.json || self.last.elapsed() < every {
            return;
        }
        self.last = Instant::now();
        let percent = 100.0 * progress.bytes as f64 / progress.bytes_total.max(1) as f64;
        let text = format!(
            "{:.0} %  {}B of {}B  {}: {}rows",
            percent.min(100.0),
            si(progress.bytes as f64),
            si(progress.bytes_total as f64),
            progress.file,
            si(progress.rows as f64)
        );
        match &mut self.lines {
            Some(lines) => lines.show(vec![text]),
            None => terminal::notice(&text),
        }
    }
}

fn exported(report: &Report) -> String {
    let mut text = format!("exported: {} ({}B)\n", report.out.display(), si(report.bytes as f64));
    for table in &report.tables {
        let _ =
            writeln!(text, "  {:<20} {:>12} rows in {:>6} batches", table.file, table.rows, table.batches);
    }
    for remark in &report.remarks {
        let _ = writeln!(text, "  {remark}");
    }
    text
}
