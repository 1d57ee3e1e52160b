//! Inspects a recording, a data file or a stream.
//!
//! A recording is read as it is. Anything else is taken through the real path into a recording that is thrown away,
//! so that what is said of it is what a run would record.

use std::path::{Path, PathBuf};

use thalweg_frontend::FORMATS;
use thalweg_record::{Inspection, RecordError, RunDirectory};

use crate::assemble::run;
use crate::config::{ConfigError, Configuration};
use crate::error::RunError;
use crate::supervise::{EndWhen, Watch};

/// Hits that are listed.
const FIRST_HITS: usize = 10;

/// The recording, file or stream to inspect.
#[derive(Clone, Debug)]
pub struct Request {
    /// A run's directory, a recorded table, a data file, or a source URL.
    pub what: String,
    /// The format of the file or stream.
    pub format: Option<String>,
    /// One count of the clock, for formats that do not say.
    pub tick_ps: Option<f64>,
    /// The time for which a stream is inspected, seconds.
    pub seconds: f64,
}

/// Something that cannot be looked at.
#[derive(Debug, thiserror::Error)]
pub enum InspectError {
    /// A recording could not be read.
    #[error(transparent)]
    Record(#[from] RecordError),
    /// A file or stream could not be taken.
    #[error(transparent)]
    Run(#[from] RunError),
    /// The request says too little.
    #[error(transparent)]
    Configuration(#[from] ConfigError),
    /// There is no such file.
    #[error("{0}: there is no such file or run; write a path, a run's number, or a URL")]
    NotThere(String),
    /// A format with a key that is required and not given.
    #[error(
        "{what}: the format {format} needs `{key}`; {advice}",
        advice = match &key[..] {
            "tick_ps" => "write --tick-ps",
            _ => "`inspect` has no option for it: write a configuration with that key, and use `thalweg run`",
        }
    )]
    NeedsKey {
        /// What was to be inspected.
        what: String,
        /// Its format.
        format: String,
        /// The key.
        key: String,
    },
    /// It is not known what the file speaks.
    #[error("{0}: not a recording; say what it speaks with --format, one of {formats}", formats = words_of_formats())]
    NoFormat(String),
}

/// The words of all formats, for messages.
fn words_of_formats() -> String {
    FORMATS.iter().map(|format| format.word).collect::<Vec<_>>().join(", ")
}

/// Looks.
///
/// # Errors
/// When there is nothing to read, or it is not known how.
pub fn inspect(request: &Request) -> Result<Inspection, InspectError> {
    let path = Path::new(&request.what);
    if let Ok(run) = RunDirectory::find(path) {
        return Ok(thalweg_record::inspect(&run, FIRST_HITS)?);
    }
    if path.extension().is_some_and(|extension| extension == "arrows") {
        return Ok(thalweg_record::inspect(path, FIRST_HITS)?);
    }
    if !request.what.contains("://") && !path.exists() {
        return Err(InspectError::NotThere(request.what.clone()));
    }
    let guess = || {
        let extension = path.extension()?.to_str()?.to_ascii_lowercase();
        let family = FORMATS.iter().find(|format| format.file_extension == Some(extension.as_str()));
        family.map(|format| format.word.to_owned())
    };
    let format =
        request.format.clone().or_else(guess).ok_or_else(|| InspectError::NoFormat(request.what.clone()))?;
    let folder = ThrownAway::new();
    let needs_key = |error: ConfigError| match missing_key(&error) {
        Some(key) => InspectError::NeedsKey { what: request.what.clone(), format: format.clone(), key },
        None => error.into(),
    };
    let configuration = configuration(request, &format, &folder.0).map_err(needs_key)?;
    let is_live = !matches!(configuration.sources[0].endpoint.url.scheme(), "file" | "pcap");
    let end = EndWhen { seconds: is_live.then_some(request.seconds), ..EndWhen::default() };
    let summary = run(&configuration, end, &mut Watch::nobody())?;
    let recorded = summary.run_directory.unwrap_or_else(|| folder.0.clone());
    let mut found = thalweg_record::inspect(&recorded, FIRST_HITS)?;
    found.path = PathBuf::from(&request.what);
    found.title = format!("as {format}");
    found.tables.clear();
    found.problems.extend(summary.failures);
    Ok(found)
}

/// The key without which a format's settings cannot be read, if that is what is wrong.
fn missing_key(error: &ConfigError) -> Option<String> {
    let ConfigError::NotAllowed { report, .. } = error else { return None };
    let (_, behind) = report.split_once("missing field `")?;
    behind.split_once('`').map(|(key, _)| key.to_owned())
}

fn configuration(request: &Request, format: &str, folder: &Path) -> Result<Configuration, ConfigError> {
    let path = Path::new(&request.what);
    let url = match request.what.contains("://") {
        true => request.what.clone(),
        false => {
            format!("file://{}", std::path::absolute(path).unwrap_or_else(|_| path.to_owned()).display())
        }
    };
    let tick = request.tick_ps.map_or(String::new(), |tick_ps| format!("tick_ps = {tick_ps:?}\n"));
    let text = format!(
        "[[source]]\nname = \"inspected\"\nformat = {format:?}\nurl = {url:?}\n{tick}\n[record]\ndirectory = {folder:?}\n"
    );
    Configuration::parse(Path::new("(inspect)"), text)
}

/// A folder that goes when it is no longer needed.
struct ThrownAway(PathBuf);

impl ThrownAway {
    fn new() -> ThrownAway {
        ThrownAway(std::env::temp_dir().join(format!("thalweg-inspect-{}", std::process::id())))
    }
}

impl Drop for ThrownAway {
    fn drop(&mut self) {
        // A directory that cannot be removed stays in the system's temporary folder, which is emptied now and then.
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn refusal(what: &Path, format: Option<&str>) -> String {
        let (what, format) = (what.display().to_string(), format.map(str::to_owned));
        let request = Request { what, format, tick_ps: None, seconds: 0.1 };
        inspect(&request).expect_err("refused").to_string()
    }

    #[test]
    fn what_cannot_be_inspected_is_refused_by_what_is_missing() {
        let folder = tempfile::tempdir().expect("temporary folder");
        let file = folder.path().join("run.data");
        std::fs::write(&file, [0; 64]).expect("written");
        assert!(refusal(&file, None).contains("say what it speaks with --format"));
        let abcd = refusal(&file, Some("abcd"));
        assert!(abcd.ends_with("run.data: the format abcd needs `tick_ps`; write --tick-ps"), "{abcd}");
        let generic = refusal(&file, Some("generic"));
        assert!(generic.contains("needs `") && generic.contains("thalweg run"), "{generic}");
        for format in [None, Some("compass")] {
            let gone = refusal(&folder.path().join("gone.bin"), format);
            assert!(gone.contains("gone.bin: there is no such file or run"), "{gone}");
        }
        let empty = refusal(folder.path().join("empty").as_path(), None);
        assert!(empty.contains("there is no such file or run"), "{empty}");
        std::fs::create_dir(folder.path().join("empty")).expect("made");
        let empty = refusal(folder.path().join("empty").as_path(), None);
        assert!(empty.contains("no run is in this directory"), "{empty}");
    }
}
