//! Prints a command's result and sets its exit code.

use std::fs::OpenOptions;
use std::path::Path;
use std::process::ExitCode;

use anyhow::{Context, anyhow};
use serde::Serialize;

use crate::terminal;

/// The end of a command that ended without an error of its own.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum CommandOutcome {
    /// The command did what it was asked.
    Done,
    /// A run or check that failed; the report has said why.
    Failed,
}

/// A command that could not do its work.
#[derive(Debug)]
pub(crate) enum Failure {
    /// The arguments or the configuration are wrong: exit code 2.
    Usage(anyhow::Error),
    /// Any other error: exit code 1.
    Other(anyhow::Error),
}

impl<E: Into<anyhow::Error>> From<E> for Failure {
    fn from(error: E) -> Failure {
        let error = error.into();
        let refused = matches!(error.downcast_ref(), Some(thalweg_run::RunError::Configuration(_)));
        let usage = refused || error.downcast_ref::<thalweg_run::config::ConfigError>().is_some();
        if usage { Failure::Usage(error) } else { Failure::Other(error) }
    }
}

/// Turns a result into the process's exit code, and writes a failure to standard error.
pub(crate) fn exit_code(result: Result<CommandOutcome, Failure>) -> ExitCode {
    let (error, code) = match result {
        Ok(CommandOutcome::Done) => return ExitCode::SUCCESS,
        Ok(CommandOutcome::Failed) => return ExitCode::from(1),
        Err(Failure::Usage(error)) => (error, 2),
        Err(Failure::Other(error)) => (error, 1),
    };
    terminal::notice(&format!("thalweg: {}", text_of(&error)));
    ExitCode::from(code)
}

/// An error and its causes. Errors that repeat the words of their cause stand for it.
fn text_of(error: &anyhow::Error) -> String {
    error.chain().map(ToString::to_string).fold(String::new(), |text, cause| match text.as_str() {
        "" => cause,
        said if said.contains(&cause) => text,
        _ => format!("{text}: {cause}"),
    })
}

/// Prints one JSON object, or the text.
///
/// # Errors
/// When it cannot be written.
pub(crate) fn print<T: Serialize>(
    value: &T,
    json: bool,
    text: impl FnOnce(&T) -> String,
) -> std::io::Result<()> {
    let text = if json { serde_json::to_string(value)? } else { text(value) };
    terminal::result(text.trim_end())
}

/// Refuses a file of the results that cannot be written, before the work that fills it. What is there stays as it is.
///
/// # Errors
/// The option that names the file, and what the system says.
pub(crate) fn check_output(option: &str, file: &Path) -> Result<(), Failure> {
    let is_new = !file.exists();
    let opened = OpenOptions::new().create(true).append(true).open(file);
    let tried = opened.and_then(|_| if is_new { std::fs::remove_file(file) } else { Ok(()) });
    tried.map_err(|cause| refused_output(option, file, &cause))
}

/// An output file that cannot be written, named with its option.
pub(crate) fn refused_output(option: &str, file: &Path, cause: &std::io::Error) -> Failure {
    Failure::Usage(anyhow!("{option} {}: {cause}; give a file that can be written", file.display()))
}

/// Writes a file of the results.
///
/// # Errors
/// When it cannot be written.
pub(crate) fn write_output(option: &str, file: &Path, text: &str) -> Result<(), Failure> {
    std::fs::write(file, text).with_context(|| format!("{option} {}", file.display()))?;
    Ok(())
}

/// A number with an SI prefix and three significant digits: `3.21 M`.
pub(crate) fn si(value: f64) -> String {
    let prefixes = [(1e12, " T"), (1e9, " G"), (1e6, " M"), (1e3, " k"), (1.0, " ")];
    let (scale, prefix) = prefixes.into_iter().find(|(scale, _)| value.abs() >= *scale).unwrap_or((1.0, " "));
    let scaled = value / scale;
    let digits = if scaled.abs() >= 100.0 || value.fract() == 0.0 && scale == 1.0 {
        0
    } else if scaled.abs() >= 10.0 {
        1
    } else {
        2
    };
    format!("{scaled:.digits$}{prefix}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_cause_is_reported_once() {
        let cause = || anyhow::anyhow!("run.json: no space left");
        assert_eq!(text_of(&cause().context("the run failed")), "the run failed: run.json: no space left");
        let repeated = cause().context("run.json: no space left; free some");
        assert_eq!(text_of(&repeated), "run.json: no space left; free some");
    }

    #[test]
    fn an_output_that_cannot_be_written_is_refused_with_its_option_and_one_that_is_there_stays() {
        let folder = tempfile::tempdir().expect("a folder");
        let file = folder.path().join("there.svg");
        std::fs::write(&file, "of yesterday").expect("a file");
        check_output("--svg", &file).expect("it can be written");
        assert_eq!(std::fs::read_to_string(&file).expect("it is there"), "of yesterday");
        let new = folder.path().join("new.svg");
        check_output("--svg", &new).expect("it can be written");
        assert!(!new.exists(), "nothing is left of the trial");
        let Err(Failure::Usage(refused)) = check_output("--svg", &folder.path().join("no/there.svg")) else {
            panic!("refused as an argument")
        };
        let refused = refused.to_string();
        assert!(refused.starts_with("--svg ") && refused.contains("no/there.svg"), "{refused}");
    }

    #[test]
    fn three_significant_digits() {
        assert_eq!(si(3_214_000.0), "3.21 M");
        assert_eq!(si(41_000_000.0), "41.0 M");
        assert_eq!(si(0.0), "0 ");
        assert_eq!(si(999.0), "999 ");
    }
}
