//! Errors in a configuration, with their place.

use std::path::PathBuf;

/// A configuration that cannot be used. The message is the whole answer: file, line, key, found, allowed.
#[derive(Debug, thiserror::Error)]
pub enum ConfigError {
    /// The file could not be read.
    #[error("{file}: {cause}; give the path of a configuration file (`thalweg schema` describes one)")]
    Unreadable {
        /// The file.
        file: PathBuf,
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
