//! `fio` beside our own figures, where it is installed: the same bytes, block size and access, by a program that others know.
//!
//! ```text
//!  fio --rw=write, then --rw=read ─► JSON ─► bytes per second
//!  not installed, or it fails ─► why
//! ```

use std::io::{ErrorKind, Read};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use schemars::JsonSchema;
use serde::Serialize;
use serde_json::Value;

use super::error::StorageError;
use super::transfer::Access;

/// Between two looks at whether it has ended.
const CHECK_EVERY: Duration = Duration::from_millis(20);

/// The rates that `fio` measured.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
pub struct FioRate {
    /// `write` or `read`.
    pub work: &'static str,
    /// Buffered or direct.
    pub access: Access,
    /// Bytes per second; null where it did not measure.
    pub bytes_per_s: Option<f64>,
    /// The command that was started.
    pub command: String,
    /// Why there is no figure; empty where there is one.
    pub remark: String,
}

/// Lets `fio` write a file, forced to the disk after a number of bytes where that is asked for, and read it back.
///
/// # Errors
/// Only when it was stopped: that `fio` is missing or fails is a remark.
pub(super) fn measure(
    file: &Path,
    (bytes, chunk_bytes): (u64, u64),
    (access, forced_behind): (Access, Option<u64>),
    stop: &AtomicBool,
) -> Result<Vec<FioRate>, StorageError> {
    let mut rates = Vec::new();
    for work in ["write", "read"] {
        let direct = u8::from(access == Access::Direct);
        let mut words = vec![
            format!("--name=thalweg-{work}"),
            format!("--filename={}", file.display()),
            format!("--rw={work}"),
            format!("--size={bytes}"),
            format!("--bs={chunk_bytes}"),
            format!("--direct={direct}"),
            "--ioengine=psync".to_owned(),
            "--end_fsync=1".to_owned(),
            "--refill_buffers".to_owned(),
            "--output-format=json".to_owned(),
        ];
        if let Some(bytes) = forced_behind {
            words.push(format!("--fdatasync={}", bytes.div_ceil(chunk_bytes).max(1)));
        }
        let command = format!("fio {}", words.join(" "));
        let (bytes_per_s, remark) = match run(&words, stop)? {
            Ok(said) => match rate(&said, work) {
                Ok(rate) => (Some(rate), String::new()),
                Err(why) => (None, why),
            },
            Err(why) => (None, why),
        };
        let is_without = bytes_per_s.is_none();
        rates.push(FioRate { work, access, bytes_per_s, command, remark });
        if is_without {
            break;
        }
    }
    Ok(rates)
}

/// Its output, or why there is none.
fn run(words: &[String], stop: &AtomicBool) -> Result<Result<String, String>, StorageError> {
    let started = Command::new("fio")
        .args(words)
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn();
    let mut child = match started {
        Ok(child) => child,
        Err(cause) if cause.kind() == ErrorKind::NotFound => {
            return Ok(Err("fio is not installed (apt-get install fio, dnf install fio)".to_owned()));
        }
        Err(cause) => return Ok(Err(format!("fio cannot be started: {cause}"))),
    };
    // Its report is longer than a pipe holds, so it is read while `fio` runs.
    let output = |from: Option<Box<dyn Read + Send>>| {
        std::thread::spawn(move || {
            let mut text = String::new();
            let _ = from.map(|mut from| from.read_to_string(&mut text));
            text
        })
    };
    let out = output(child.stdout.take().map(|out| Box::new(out) as Box<dyn Read + Send>));
    let error = output(child.stderr.take().map(|error| Box::new(error) as Box<dyn Read + Send>));
    let is_good = ended(&mut child, stop)?;
    let (out, error) = (out.join().unwrap_or_default(), error.join().unwrap_or_default());
    match is_good {
        true => Ok(Ok(out)),
        false => Ok(Err(format!("fio failed: {}", error.lines().next().unwrap_or("it does not say why")))),
    }
}

/// Waits for its end; stopped, it is killed.
fn ended(child: &mut Child, stop: &AtomicBool) -> Result<bool, StorageError> {
    loop {
        match child.try_wait() {
            Ok(Some(status)) => return Ok(status.success()),
            Ok(None) if !stop.load(Ordering::Acquire) => std::thread::sleep(CHECK_EVERY),
            // Stopped, or it cannot be waited for.
            Ok(None) | Err(_) => {
                let _ = child.kill();
                let _ = child.wait();
                return Err(StorageError::Stopped);
            }
        }
    }
}

/// The rate in `fio`'s JSON (fio(1), section JSON OUTPUT); it may print lines of other kinds before it.
fn rate(said: &str, work: &str) -> Result<f64, String> {
    let begin = said.find('{').ok_or("fio printed no JSON")?;
    let report: Value = serde_json::from_str(&said[begin..])
        .map_err(|cause| format!("fio's JSON cannot be read: {cause}"))?;
    let job = &report["jobs"][0];
    match (job["error"].as_i64(), job[work]["bw_bytes"].as_f64()) {
        (Some(0), Some(rate)) if rate > 0.0 => Ok(rate),
        (Some(error), _) if error != 0 => Err(format!("fio reports error {error} of the system")),
        _ => Err("fio's JSON has no `bw_bytes`; fio 3 and later writes it".to_owned()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_rate_is_read_from_the_report_of_fio() {
        let said = "note: both iodepth >= 1 and synchronous I/O engine are selected\n\
                    {\"fio version\": \"fio-3.33\", \"jobs\": [{\"error\": 0, \"write\": {\"bw_bytes\": 512000000, \"bw\": 500000}, \"read\": {\"bw_bytes\": 0}}]}";
        assert_eq!(rate(said, "write"), Ok(512e6));
        assert!(rate(said, "read").is_err_and(|why| why.contains("bw_bytes")));
        assert!(rate("", "write").is_err() && rate("{", "write").is_err());
        let failed = "{\"jobs\": [{\"error\": 28}]}";
        assert_eq!(rate(failed, "write"), Err("fio reports error 28 of the system".to_owned()));
    }
}
