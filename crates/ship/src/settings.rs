//! `[ship]` of the configuration: where copies go, and how.
//!
//! ```text
//!  [ship] in TOML, or the command line ─► Settings ─► Shipper · CopyRule
//! ```

use std::path::PathBuf;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use url::Url;

use crate::address::{Address, FORMS, is_loopback};
use crate::windows::Window;

/// Longest time that an alarm waits for, or looks ahead: a year.
const MOST_ALARM_S: f64 = 86_400.0 * 365.0;

/// Copies of the runs elsewhere, by `thalweg ship --config`. With this section `[record.retention]` removes the tables of a run only
/// when their copies are proved.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct Settings {
    /// Where files go: `receive://HOST:PORT[/FOLDER]`, with TLS `receives://HOST:PORT[/FOLDER]`, `file:///MOUNTED/PATH`,
    /// `s3://BUCKET[/PREFIX]` or `webdav+https://HOST[:PORT]/PATH`. Each has a state of its own.
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
    /// Leaves cores and disk to data taking: the threads that ship have the lowest priority (nice 19, the last level of best effort). Without,
    /// they compete with it as equals.
    pub yields: bool,
    /// When files are shipped, UTC, such as `"22:00-06:00"`; always without.
    pub windows: Vec<String>,
    /// File with the token that `thalweg receive` has, too; at least 16 characters.
    pub token_file: Option<PathBuf>,
    /// PEM file of the authorities that the certificate of a far host is checked against, in place of those that this host trusts.
    pub tls_ca: Option<PathBuf>,
    /// A run is shipped by one program, over all hosts that mount its directory. One that is dead or unreachable for so many seconds is followed
    /// by another one.
    #[schemars(range(min = 2, max = 3600))]
    pub takeover_s: u64,
    /// `thalweg serve` and `thalweg run` raise an alarm when a destination has proved nothing for so many seconds although something waits
    /// there; 0 for none.
    #[schemars(range(min = 0))]
    pub alarm_silent_s: f64,
    /// They raise one when the disk of the runs will be full within so many seconds and a destination is behind; 0 for none.
    #[schemars(range(min = 0))]
    pub alarm_disk_left_s: f64,
    /// Program and arguments that are run when a run is complete at a destination. It finds the run's directory in `THALWEG_RUN`, the
    /// destination in `THALWEG_DESTINATION` and the list of files with their digests in `THALWEG_MANIFEST`. It is run again until it ends
    /// with 0.
    pub on_shipped: Vec<String>,
    /// Address of the store that has the buckets of `s3://`, such as `https://s3.example.org:9000`; without, `AWS_ENDPOINT_URL`, or that
    /// of the region at Amazon. Keys are where other programs look for them: `AWS_ACCESS_KEY_ID` and `AWS_SECRET_ACCESS_KEY`.
    pub endpoint: Option<String>,
    /// Region of the store; without, `AWS_REGION`, or `us-east-1`.
    pub region: Option<String>,
    /// Speaks plain http with stores at other hosts, too. What is sent can be read and changed on the way then.
    pub allow_http: bool,
    /// File with the bearer token that WebDAV servers are shown, read again for each connection; without, `BEARER_TOKEN_FILE` or
    /// `BEARER_TOKEN` of the environment.
    pub bearer_token_file: Option<PathBuf>,
}

impl Default for Settings {
    fn default() -> Settings {
        Settings {
            to: Vec::new(),
            copies: 1,
            streams: 4,
            stay_behind: 0,
            limit_bytes_per_s: None,
            yields: true,
            windows: Vec::new(),
            token_file: None,
            tls_ca: None,
            takeover_s: 60,
            alarm_silent_s: 3600.0,
            alarm_disk_left_s: 43_200.0,
            on_shipped: Vec::new(),
            endpoint: None,
            region: None,
            allow_http: false,
            bearer_token_file: None,
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
            return Err(format!("`to` is empty; {FORMS}"));
        }
        self.to.iter().try_for_each(|text| {
            match Address::parse(text).map_err(|error| error.to_string())? {
                Address::Collection(url) => self.check_encryption(text, &url),
                _ => Ok(()),
            }
        })?;
        if let Some(text) = &self.endpoint {
            let url = Url::parse(text).ok().filter(|url| matches!(url.scheme(), "http" | "https"));
            let url = url.filter(|url| url.host().is_some() && url.query().is_none());
            let url = url.ok_or_else(|| format!("`endpoint = \"{text}\"`: write https://HOST[:PORT]"))?;
            self.check_encryption(text, &url)?;
        }
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
        if !(2..=3600).contains(&self.takeover_s) {
            return Err(format!("`takeover_s = {}`: write 2 to 3600 seconds", self.takeover_s));
        }
        for (key, seconds) in
            [("alarm_silent_s", self.alarm_silent_s), ("alarm_disk_left_s", self.alarm_disk_left_s)]
        {
            if !(0.0..=MOST_ALARM_S).contains(&seconds) {
                return Err(format!("`{key} = {seconds}`: write seconds, 0 for no alarm"));
            }
        }
        match self.limit_bytes_per_s {
            Some(limit) if limit < 1000 => {
                Err(format!("`limit_bytes_per_s = {limit}`: it counts bytes; write 1000 or more"))
            }
            _ => Ok(()),
        }
    }

    /// The name of a destination in messages and states. That of a bucket has its endpoint, since two stores may have buckets of one name.
    pub fn name_of(&self, address: &Address) -> String {
        let names = ["AWS_ENDPOINT_URL_S3", "AWS_ENDPOINT_URL", "AWS_ENDPOINT"];
        let of_environment = || names.iter().find_map(|name| std::env::var(name).ok());
        match address {
            Address::Bucket(..) => match self.endpoint.clone().or_else(of_environment) {
                Some(endpoint) => format!("{address} at {}", endpoint.trim_end_matches('/')),
                None => address.to_string(),
            },
            _ => address.to_string(),
        }
    }

    /// The names of all destinations.
    pub fn names(&self) -> impl Iterator<Item = String> {
        let addresses = self.to.iter().filter_map(|text| Address::parse(text).ok());
        addresses.map(|address| self.name_of(&address))
    }

    /// Whether a store may be spoken to at this address.
    pub(crate) fn check_encryption(&self, text: &str, url: &Url) -> Result<(), String> {
        if url.scheme() == "https" || self.allow_http || is_loopback(url) {
            return Ok(());
        }
        Err(format!("{text}: keys and data would be sent unencrypted; write https, or `allow_http = true`"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn settings_that_cannot_work_are_refused_in_words() {
        let check = |text: &str| serde_json::from_str::<Settings>(text).expect("known keys").check();
        assert_eq!(check(r#"{"to": ["receive://far:7070", "file:///mnt"], "copies": 2}"#), Ok(()));
        assert_eq!(
            check(r#"{"to": ["s3://a", "dav://[::1]/b"], "endpoint": "http://localhost:9000"}"#),
            Ok(())
        );
        for (text, words) in [
            ("{}", "`to` is empty"),
            (r#"{"to": ["ftp://far"]}"#, "receive://HOST:PORT"),
            (r#"{"to": ["file:///a", "file:///a"]}"#, "twice"),
            (r#"{"to": ["file:///a"], "copies": 2}"#, "write 1 to 1"),
            (r#"{"to": ["file:///a"], "streams": 0}"#, "write 1 to 32"),
            (r#"{"to": ["file:///a"], "limit_bytes_per_s": 5}"#, "1000 or more"),
            (r#"{"to": ["file:///a"], "alarm_silent_s": -1}"#, "0 for no alarm"),
            (r#"{"to": ["file:///a"], "windows": ["25:00-6"]}"#, "22:00-06:00"),
            (r#"{"to": ["webdav+http://far/a"]}"#, "allow_http = true"),
            (r#"{"to": ["s3://a"], "endpoint": "http://far:9000"}"#, "allow_http = true"),
            (r#"{"to": ["s3://a"], "endpoint": "far:9000"}"#, "https://HOST"),
        ] {
            let found = check(text).expect_err(text);
            assert!(found.contains(words), "{found}");
        }
    }
}
