//! What is said when a board cannot be emulated as its settings ask for.
//!
//! ```text
//!  Settings ─ check, key by key ─► board
//!                 └─► SettingsError: key, what was found, what is allowed
//! ```

/// A setting that no emulated board can have.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
#[error("emulated board: `{key}` is {found}; allowed is {allowed}")]
pub struct SettingsError {
    /// The key, as in the configuration.
    pub key: &'static str,
    /// What was found.
    pub found: String,
    /// What to write instead.
    pub allowed: String,
}

/// Whether the value of a key is fine; if not, what is wrong with it.
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
