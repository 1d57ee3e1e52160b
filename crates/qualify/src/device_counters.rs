//! Drop counters of the switch, read by a command of the user's.
//!
//! ```text
//!  sh -c COMMAND ─► {"port 3 ifOutDiscards": 12, …} ─► before and after ─► LossCounters::since
//! ```
//! Every number that the command prints counts frames or datagrams that were thrown away. It is run before and after each trial.

use std::collections::BTreeMap;
use std::io::Read;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use crate::host::{Counter, LossCounters};

/// A command that takes longer is given up.
const PATIENCE: Duration = Duration::from_secs(10);
/// Between two looks at whether it has ended.
const CHECK_EVERY: Duration = Duration::from_millis(2);
/// The most bytes that its output may have.
const MOST_BYTES: u64 = 1 << 20;

/// Why nothing is known of the device.
#[derive(Debug, thiserror::Error)]
pub enum CountersError {
    /// It could not be run.
    #[error("counters command `{command}`: {cause}")]
    Run {
        /// The command.
        command: String,
        /// The error of the system.
        cause: std::io::Error,
    },
    /// It took too long.
    #[error("counters command `{command}` has not ended after {seconds} s")]
    Slow {
        /// The command.
        command: String,
        /// The time for which it was waited for.
        seconds: u64,
    },
    /// It failed.
    #[error("counters command `{command}` ended with {status}: {error}")]
    Failed {
        /// The command.
        command: String,
        /// The status with which it ended.
        status: std::process::ExitStatus,
        /// The end of what it said.
        error: String,
    },
    /// It printed something else.
    #[error(
        "counters command `{command}` printed \"{printed}\": {why}; it prints one JSON object of counts, as {{\"port 3 ifOutDiscards\": 12}}"
    )]
    Printed {
        /// The command.
        command: String,
        /// The beginning of what it printed.
        printed: String,
        /// The fault in its output.
        why: String,
    },
}

/// A command that prints the counts of a device.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CountersCommand(pub String);

impl CountersCommand {
    /// Runs it.
    ///
    /// # Errors
    /// When it does not end well in time, or prints something else than counts.
    pub fn read(&self) -> Result<LossCounters, CountersError> {
        let command = || self.0.clone();
        let run = |cause| CountersError::Run { command: command(), cause };
        let mut child = Command::new("sh")
            .args(["-c", &self.0])
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .map_err(run)?;
        // Both ends are read while it runs, so that no full pipe keeps it from ending.
        let outputs = [take(child.stdout.take()), take(child.stderr.take())];
        let began = Instant::now();
        let status = loop {
            match child.try_wait().map_err(run)? {
                Some(status) => break status,
                None if began.elapsed() > PATIENCE => {
                    let _killed = child.kill().and_then(|()| child.wait());
                    return Err(CountersError::Slow { command: command(), seconds: PATIENCE.as_secs() });
                }
                None => std::thread::sleep(CHECK_EVERY),
            }
        };
        let [printed, error] = outputs.map(|output| output.join().unwrap_or_default());
        match status.success() {
            true => self.parse(&printed),
            false => {
                Err(CountersError::Failed { command: command(), status, error: beginning(error.trim()) })
            }
        }
    }

    fn parse(&self, printed: &str) -> Result<LossCounters, CountersError> {
        let read: Result<BTreeMap<String, u64>, _> = serde_json::from_str(printed);
        let wrong = |why: String| CountersError::Printed {
            command: self.0.clone(),
            printed: beginning(printed.trim()),
            why,
        };
        let counts = read.map_err(|error| wrong(error.to_string()))?;
        match counts.is_empty() {
            true => Err(wrong("there is no count in it".to_owned())),
            false => {
                let counter = |(name, total)| Counter { name, total };
                Ok(LossCounters::of_device(counts.into_iter().map(counter).collect()))
            }
        }
    }
}

fn take<R: Read + Send + 'static>(output: Option<R>) -> std::thread::JoinHandle<String> {
    std::thread::spawn(move || {
        let mut text = Vec::new();
        let _read = output.map(|output| output.take(MOST_BYTES).read_to_end(&mut text));
        String::from_utf8_lossy(&text).into_owned()
    })
}

fn beginning(text: &str) -> String {
    text.chars().take(200).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(command: &str) -> Result<LossCounters, CountersError> {
        CountersCommand(command.to_owned()).read()
    }

    #[test]
    fn a_command_prints_counts_and_what_else_it_does_is_an_error_with_its_words() {
        let counters =
            read(r#"echo '{"port 3 ifOutDiscards": 12, "port 4 ifOutDiscards": 0}'"#).expect("counts");
        let later =
            read(r#"echo '{"port 3 ifOutDiscards": 15, "port 4 ifOutDiscards": 0}'"#).expect("counts");
        assert_eq!(later.since(&counters).iter().map(|counter| counter.total).sum::<u64>(), 3);
        for (command, word) in [
            ("echo no such switch >&2; exit 3", "exit status: 3: no such switch"),
            ("echo 12", "printed \"12\""),
            ("echo '{}'", "no count in it"),
            ("echo '{\"a\": -1}'", "invalid value"),
            ("true", "printed \"\""),
        ] {
            let error = read(command).expect_err(command).to_string();
            assert!(error.contains(word), "{command}: {error}");
        }
    }
}
