//! Measures what a disk sustains: from the arguments to the table, the plot and the verdict.
//!
//! ```text
//!  arguments, [record] of a configuration ─► StorageSettings ─► measure ─► text, JSON, SVG ─► exit code
//! ```

use std::fmt::Write as _;
use std::path::{Path, PathBuf};

use anyhow::{Context, anyhow};
use thalweg_qualify::storage::{
    Access, DirectoryReport, FioRate, Judgement, Pass, Position, Rate, StorageError, StorageReport,
    StorageSettings, Sync, bytes_text, measure,
};
use thalweg_run::config::Configuration;
use thalweg_run::plot::storage_svg;

use crate::arguments::{QualifyStorage, StorageAccess};
use crate::commands::Ended;
use crate::report::{CommandOutcome, Failure, check_output, print, write_output};
use crate::signals::Signals;
use crate::terminal;

pub(super) fn storage(options: &QualifyStorage, json: bool) -> Ended {
    let settings = settings(options)?;
    if let Some(file) = &options.svg {
        check_output("--svg", file)?;
    }
    let signals = Signals::install().context("signals")?;
    let mut show = |words: &str| {
        if !json {
            terminal::notice(words);
        }
    };
    let report = measure(&settings, signals.stop(), &mut show).map_err(failure)?;
    let printed = print(&report, json, report_text);
    if let Some(file) = &options.svg {
        write_output("--svg", file, &storage_svg(&report))?;
    }
    printed?;
    let verdicts = || report.directories.iter().map(|directory| &directory.verdict);
    let is_good = settings.needs_bytes_per_s.is_none()
        || verdicts()
            .all(|verdict| verdict.as_ref().is_some_and(|verdict| verdict.judgement == Judgement::Passes));
    Ok(if is_good { CommandOutcome::Done } else { CommandOutcome::Failed })
}

/// Distinguishes an invalid argument from a disk that cannot be measured.
fn failure(error: StorageError) -> Failure {
    match error {
        StorageError::Settings(_) | StorageError::Directory { .. } | StorageError::Floor { .. } => {
            Failure::Usage(error.into())
        }
        _ => Failure::Other(error.into()),
    }
}

/// Returns the settings of a run: those of the configuration, or those of a run without any.
fn settings(options: &QualifyStorage) -> Result<StorageSettings, Failure> {
    let mut settings = StorageSettings::default();
    if let Some(file) = &options.config {
        let record = Configuration::read(file)?.record;
        (settings.sync, settings.batch_bytes) = (record.sync, record.batch_bytes as u64);
        settings.directories = vec![existing(&record.directory)];
    }
    if !options.directories.is_empty() {
        settings.directories.clone_from(&options.directories);
    }
    if settings.directories.is_empty() {
        let words = "no directory is given; give one on the disk that is to be measured, or a configuration with --config";
        return Err(Failure::Usage(anyhow!(words)));
    }
    if let Some(chunk) = options.chunk {
        settings.chunk_bytes = usize::try_from(chunk).unwrap_or(usize::MAX);
    }
    settings.batch_bytes = options.batch.unwrap_or(settings.batch_bytes);
    settings.sync = options.sync.unwrap_or(settings.sync);
    settings.file_bytes = options.bytes;
    settings.accesses = match options.access {
        StorageAccess::Both => vec![Access::Buffered, Access::Direct],
        StorageAccess::Buffered => vec![Access::Buffered],
        StorageAccess::Direct => vec![Access::Direct],
    };
    settings.is_filled = options.fill;
    settings.keep_free = options.keep_free.unwrap_or_default();
    settings.has_fio = !options.no_fio;
    settings.seed = options.seed;
    settings.needs_bytes_per_s = options.needs;
    settings.check().map_err(failure)?;
    Ok(settings)
}

/// The directory of a configuration, or the nearest one above it: the run makes what is not there, on the same disk.
fn existing(directory: &Path) -> PathBuf {
    let whole = std::path::absolute(directory).unwrap_or_else(|_| directory.to_owned());
    whole.ancestors().find(|path| path.is_dir()).map_or(whole.clone(), Path::to_owned)
}

fn report_text(report: &StorageReport) -> String {
    let mut text = String::new();
    let sync = match report.sync {
        Sync::None => "none".to_owned(),
        Sync::Batch => format!("batch, forced behind {}", bytes(report.batch_bytes)),
        Sync::Seconds(seconds) => format!("forced each {seconds} s"),
    };
    let memory = report.memory_bytes.map_or("unknown".to_owned(), bytes);
    let _ = writeln!(
        text,
        "two files of {} in calls of {}; sync {sync}; the host has {memory} of memory\nwritten: {} (seed {})",
        bytes(report.file_bytes),
        bytes(report.chunk_bytes),
        report.pattern,
        report.seed
    );
    for directory in &report.directories {
        text += &directory_text(directory);
    }
    if report.directories.len() > 1 {
        text += &comparison(&report.directories);
    }
    let published: Vec<String> = report
        .published
        .iter()
        .map(|figure| format!("{} {}", figure.what, gib(figure.bytes_per_s)))
        .collect();
    let source = report.published.first().map_or("", |figure| figure.source);
    let _ = write!(text, "published: {}\n           {source}", published.join(", "));
    for directory in &report.directories {
        if let Some(verdict) = &directory.verdict {
            let _ = write!(text, "\n{}: {}", directory.site.directory.display(), verdict.words);
        }
    }
    text
}

fn directory_text(directory: &DirectoryReport) -> String {
    let site = &directory.site;
    let unknown = || "unknown".to_owned();
    let rotating = match site.is_rotating {
        Some(true) => ", says it rotates",
        Some(false) => ", says it does not rotate",
        None => "",
    };
    let model = site.model.as_ref().map_or(String::new(), |model| format!(", {model}"));
    let mut text = format!(
        "\n{}\n  {} on {}, disk {}{model}{rotating}\n  mounted {}\n  {} free of {}; {} stay free\n",
        site.directory.display(),
        site.file_system.clone().unwrap_or_else(unknown),
        site.device.clone().unwrap_or_else(unknown),
        site.disk_text(),
        site.mount_options.clone().unwrap_or_else(unknown),
        bytes(directory.free_bytes),
        bytes(directory.total_bytes),
        bytes(directory.floor_bytes),
    );
    let _ = writeln!(text, "  {:<24}{:>12}{:>16}{:>15}", "", "mean", "lowest second", "longest call");
    directory.passes.iter().for_each(|pass| text += &pass_text(pass));
    directory.fio.iter().for_each(|rate| text += &fio_text(rate));
    if !directory.positions.is_empty() {
        let _ =
            writeln!(text, "  {:<24}{:>12}{:>12}   position on {}", "", "write", "read", site.disk_text());
        directory.positions.iter().for_each(|position| text += &position_text(position));
    }
    for remark in &directory.remarks {
        let _ = writeln!(text, "  note: {remark}");
    }
    text
}

fn pass_text(pass: &Pass) -> String {
    let mut text = String::new();
    let (work, access) = (pass.work.word(), pass.access.word());
    for (rate, of) in [(&pass.write, "written"), (&pass.read, "read")] {
        let Some(rate) = rate else { continue };
        let name = match (&pass.write, &pass.read) {
            (Some(_), Some(_)) => format!("{work}, {of}, {access}"),
            _ => format!("{work}, {access}"),
        };
        text += &rate_text(&name, rate);
    }
    if pass.write.is_none() && pass.read.is_none() {
        let _ = writeln!(text, "  {:<24}{:>12}", format!("{work}, {access}"), "–");
    }
    if !pass.remark.is_empty() {
        let _ = writeln!(text, "      {}", pass.remark);
    }
    text
}

fn rate_text(name: &str, rate: &Rate) -> String {
    let lowest = rate.lowest_second_bytes_per_s.map_or("–".to_owned(), per_second);
    let mut text = format!(
        "  {name:<24}{:>12}{lowest:>16}{:>12.1} ms\n",
        per_second(rate.bytes_per_s),
        1e3 * rate.longest_call_s
    );
    if let Some(fall) = &rate.fall {
        let _ = writeln!(
            text,
            "      falls from {} to {} behind {}: as behind a full cache, or beside others",
            per_second(fall.from_bytes_per_s),
            per_second(fall.to_bytes_per_s),
            bytes_text(fall.after_bytes)
        );
    }
    text
}

fn fio_text(rate: &FioRate) -> String {
    let name = format!("fio, {}, {}", rate.work, rate.access.word());
    match rate.bytes_per_s {
        Some(bytes_per_s) => format!("  {name:<24}{:>12}\n", per_second(bytes_per_s)),
        None => format!("  {name:<24}{:>12}   {}\n", "–", rate.remark),
    }
}

fn position_text(position: &Position) -> String {
    let at = match &position.placement {
        Some(found) => {
            format!("{} to {}, extents: {}", bytes(found.from_bytes), bytes(found.to_bytes), found.extents)
        }
        None => format!("unknown: {}", position.remark),
    };
    format!(
        "  {:<24}{:>12}{:>12}   {at}\n",
        format!("file {}", position.file + 1),
        per_second(position.write.bytes_per_s),
        per_second(position.read.bytes_per_s)
    )
}

/// The same figure of every directory, against that of the first.
fn comparison(directories: &[DirectoryReport]) -> String {
    let mut text = String::from("\ncompared with the first\n");
    let Some((first, others)) = directories.split_first() else { return text };
    let mean = |pass: &Pass| pass.write.as_ref().or(pass.read.as_ref()).map(|rate| rate.bytes_per_s);
    for other in others {
        for pass in &other.passes {
            let same = first.passes.iter().find(|of| of.work == pass.work && of.access == pass.access);
            if let (Some(here), Some(there)) = (mean(pass), same.and_then(mean)) {
                let name = format!("{}, {}", pass.work.word(), pass.access.word());
                let _ = writeln!(
                    text,
                    "  {name:<24}{:>12} of {} ÷ {} of {} = {:.2}",
                    per_second(here),
                    other.site.directory.display(),
                    per_second(there),
                    first.site.directory.display(),
                    here / there
                );
            }
        }
    }
    text + "\n"
}

fn bytes(count: u64) -> String {
    bytes_text(count as f64)
}

fn per_second(bytes_per_s: f64) -> String {
    format!("{}/s", bytes_text(bytes_per_s))
}

/// Formats a figure as it was published.
fn gib(bytes_per_s: f64) -> String {
    format!("{:.2} GiB/s", bytes_per_s / (1 << 30) as f64)
}
