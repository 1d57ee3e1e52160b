//! Errors in a configuration, with their place.

use std::path::{Path, PathBuf};

/// A configuration that cannot be used. The message is the whole answer: file, line, key, found, allowed.
#[derive(Debug, thiserror::Error)]
pub enum ConfigError {
    /// The file could not be read.
    #[error("{file}: {cause}; give the path of {wanted}")]
    Unreadable {
        /// The file.
        file: PathBuf,
        /// What it was to be, and where that is described.
        wanted: &'static str,
        /// The error of the system.
        cause: std::io::Error,
    },
    /// Something in it is not allowed, or does not fit the rest or this machine.
    #[error("{file}: {report}")]
    NotAllowed {
        /// The file.
        file: PathBuf,
        /// Line, key, what was found and what is allowed.
        report: String,
    },
}

/// What [`read_text`] asks for where a configuration is read.
pub(crate) const CONFIGURATION: &str = "a configuration file (`thalweg schema` describes one)";

/// Reads a file that was named on the command line, or in a configuration. `wanted` says what it is to be, for the user.
///
/// # Errors
/// When it cannot be read.
pub(crate) fn read_text(file: &Path, wanted: &'static str) -> Result<String, ConfigError> {
    std::fs::read_to_string(file).map_err(|cause| ConfigError::Unreadable {
        file: file.to_owned(),
        wanted,
        cause,
    })
}
