//! Fixes for values of the host, as text for people and as an operation that can be run.
//!
//! ```text
//!  Fix ─┬► command  "sysctl -w net.core.rmem_max=67108864"       printed
//!       ├► kept_by  "a line in /etc/sysctl.d/90-thalweg.conf"    printed
//!       └► apply    writes /proc/sys, /sys, or runs ethtool      as root, when asked for
//! ```
//! Nothing is applied without being asked for, and no shell has a part in it.

use std::path::PathBuf;
use std::process::Command;

/// The file that keeps values of sysctl over a start of the host.
pub const SYSCTL_FILE: &str = "/etc/sysctl.d/90-thalweg.conf";

/// Sets one value.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Fix {
    /// A value of sysctl: its key and the value.
    Sysctl(&'static str, String),
    /// A file below `/sys`.
    File(PathBuf, String),
    /// A program and its arguments.
    Program(Vec<String>),
}

/// Why a value could not be set.
#[derive(Debug, thiserror::Error)]
pub enum FixError {
    /// A file could not be written.
    #[error("{path} = {value}: {cause}; it needs root, and in a container the host's own")]
    Write {
        /// The file.
        path: String,
        /// The value to be written.
        value: String,
        /// The error of the system.
        cause: std::io::Error,
    },
    /// A program could not be started.
    #[error("{command}: {cause}; install what it is part of (ethtool, iproute2), or run it on the host")]
    Start {
        /// The whole line.
        command: String,
        /// The error of the system.
        cause: std::io::Error,
    },
    /// A program has failed.
    #[error("{command}: {said}")]
    Failed {
        /// The whole line.
        command: String,
        /// The output of the command.
        said: String,
    },
}

impl Fix {
    /// A program with its arguments, from one line with single spaces.
    pub(super) fn program(line: &str) -> Fix {
        Fix::Program(line.split(' ').map(str::to_owned).collect())
    }

    /// The line that does it.
    pub fn command(&self) -> String {
        match self {
            Fix::Sysctl(key, value) if value.contains(' ') => format!("sysctl -w {key}=\"{value}\""),
            Fix::Sysctl(key, value) => format!("sysctl -w {key}={value}"),
            Fix::File(path, value) => format!("echo {value} > {}", path.display()),
            Fix::Program(words) => words.join(" "),
        }
    }

    /// Describes how it survives the next start of the host.
    pub fn kept_by(&self) -> &'static str {
        match self {
            Fix::Sysctl(..) => "a line in /etc/sysctl.d/90-thalweg.conf",
            Fix::File(..) => "a unit of systemd that writes it at start; it is lost otherwise",
            Fix::Program(_) => {
                "the configuration of the network (a .link file of systemd-networkd, or a dispatcher of NetworkManager); it is lost otherwise"
            }
        }
    }

    /// The line of a file for sysctl, where it is a value of that.
    pub fn sysctl_line(&self) -> Option<String> {
        match self {
            Fix::Sysctl(key, value) => Some(format!("{key} = {value}")),
            _ => None,
        }
    }

    /// Sets the value.
    ///
    /// # Errors
    /// When it may not be set, or what sets it is not there.
    pub fn apply(&self) -> Result<(), FixError> {
        match self {
            Fix::Sysctl(key, value) => write(PathBuf::from("/proc/sys").join(key.replace('.', "/")), value),
            Fix::File(path, value) => write(path.clone(), value),
            Fix::Program(words) => run(words),
        }
    }
}

fn write(path: PathBuf, value: &str) -> Result<(), FixError> {
    std::fs::write(&path, value).map_err(|cause| FixError::Write {
        path: path.display().to_string(),
        value: value.to_owned(),
        cause,
    })
}

fn run(words: &[String]) -> Result<(), FixError> {
    let (command, [program, arguments @ ..]) = (words.join(" "), words) else { return Ok(()) };
    let ended = Command::new(program)
        .args(arguments)
        .output()
        .map_err(|cause| FixError::Start { command: command.clone(), cause })?;
    match ended.status.success() {
        true => Ok(()),
        false => {
            let said = String::from_utf8_lossy(&ended.stderr).trim().to_owned();
            Err(FixError::Failed { command, said })
        }
    }
}
