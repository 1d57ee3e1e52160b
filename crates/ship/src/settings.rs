//! `[ship]` of the configuration: where copies go, and how.
//!
//! ```text
//!  [ship] in TOML, or the command line ─► Settings ─► Shipper · CopyRule
//! ```

use std::path::PathBuf;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::address::Address;
use crate::windows::Window;

/// Copies of the runs elsewhere, by `thalweg ship --config`. With this section `[record.retention]` removes the tables of a run only
/// when their copies are proved.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct Settings {
    /// Where files go: `receive://HOST:PORT[/FOLDER]`, with TLS `receives://HOST:PORT[/FOLDER]`, or `file:///MOUNTED/PATH`. Each has a state of its own.
    pub to: Vec<String>,
    /// Proved copies that a table needs before `[record.retention]` may remove it.
    #[schemars(range(min = 1, max = 16))]
    pub copies: usize,
    /// Files that go to one destination at a time, each over a connection of its own.
    #[schemars(range(min = 1, max = 32))]
    pub streams: usize,
    /// Runs that stay unshipped behind the newest one: 0 ships the run that is being taken, 1 begins with a run when the next has begun.
    pub stay_behind: u64,
    /// Most bytes per second, over all destinations.
    #[schemars(range(min = 1000))]
    pub limit_bytes_per_s: Option<u64>,
    /// When files are shipped, UTC, such as `"22:00-06:00"`; always without.
    pub windows: Vec<String>,
    /// File with the token that `thalweg receive` has, too; at least 16 characters.
    pub token_file: Option<PathBuf>,
    /// PEM file of the authorities that the certificate of a far host is checked against, in place of those that this host trusts.
    pub tls_ca: Option<PathBuf>,
    /// Program and arguments that are run when a run is complete at a destination. It finds the run's directory in `THALWEG_RUN`, the
    /// destination in `THALWEG_DESTINATION` and the list of files with their digests in `THALWEG_MANIFEST`. It is run again until it ends
    /// with 0.
    pub on_shipped: Vec<String>,
}

impl Default for Settings {
    fn default() -> Settings {
        Settings {
            to: Vec::new(),
            copies: 1,
            streams: 4,
            stay_behind: 0,
            limit_bytes_per_s: None,
            windows: Vec::new(),
            token_file: None,
            tls_ca: None,
            on_shipped: Vec::new(),
        }
    }
}

impl Settings {
    /// Whether files can be shipped with these.
    ///
    /// # Errors
    /// The key, what was found, and what to write.
    pub fn check(&self) -> Result<(), String> {
        if self.to.is_empty() {
            return Err("`to` is empty; write receive://HOST:PORT or file:///MOUNTED/PATH".to_owned());
        }
        self.to
            .iter()
            .try_for_each(|text| Address::parse(text).map(drop).map_err(|error| error.to_string()))?;
        self.windows.iter().try_for_each(|text| Window::parse(text).map(drop))?;
        let mut known = self.to.clone();
        known.sort();
        known.dedup();
        if known.len() < self.to.len() {
            return Err("`to` names a destination twice".to_owned());
        }
        if !(1..=self.to.len()).contains(&self.copies) {
            let (copies, most) = (self.copies, self.to.len());
            return Err(format!("`copies = {copies}`: write 1 to {most}, as many as `to` has destinations"));
        }
        if !(1..=32).contains(&self.streams) {
            return Err(format!("`streams = {}`: write 1 to 32", self.streams));
        }
        match self.limit_bytes_per_s {
            Some(limit) if limit < 1000 => {
                Err(format!("`limit_bytes_per_s = {limit}`: it counts bytes; write 1000 or more"))
            }
            _ => Ok(()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn settings_that_cannot_work_are_refused_in_words() {
        let check = |text: &str| serde_json::from_str::<Settings>(text).expect("known keys").check();
        assert_eq!(check(r#"{"to": ["receive://far:7070", "file:///mnt"], "copies": 2}"#), Ok(()));
        for (text, words) in [
            ("{}", "`to` is empty"),
            (r#"{"to": ["ftp://far"]}"#, "receive://HOST:PORT"),
            (r#"{"to": ["file:///a", "file:///a"]}"#, "twice"),
            (r#"{"to": ["file:///a"], "copies": 2}"#, "write 1 to 1"),
            (r#"{"to": ["file:///a"], "streams": 0}"#, "write 1 to 32"),
            (r#"{"to": ["file:///a"], "limit_bytes_per_s": 5}"#, "1000 or more"),
            (r#"{"to": ["file:///a"], "windows": ["25:00-6"]}"#, "22:00-06:00"),
        ] {
            let found = check(text).expect_err(text);
            assert!(found.contains(words), "{found}");
        }
    }
}
