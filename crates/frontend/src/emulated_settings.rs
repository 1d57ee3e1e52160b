//! The error of invalid settings of an emulated board.
//!
//! ```text
//!  Settings ─ check, key by key ─► board
//!                 └─► SettingsError: key, what was found, what is allowed
//! ```

/// An invalid setting of an emulated board.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
#[error("emulated board: `{key}` is {found}; allowed is {allowed}")]
pub struct SettingsError {
    /// The key, as in the configuration.
    pub key: &'static str,
    /// The value in the configuration.
    pub found: String,
    /// What to write instead.
    pub allowed: String,
}

/// Checks the value of a key, which is valid if `fine`.
///
/// # Errors
/// When it is not.
pub(crate) fn check(
    fine: bool,
    key: &'static str,
    found: impl ToString,
    allowed: impl Into<String>,
) -> Result<(), SettingsError> {
    if fine { Ok(()) } else { Err(SettingsError { key, found: found.to_string(), allowed: allowed.into() }) }
}
