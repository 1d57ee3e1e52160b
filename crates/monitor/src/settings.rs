//! `[monitor]`: where the page is served, and to whom.
//!
//! ```text
//!  [monitor] in TOML ──► Settings ─ check ─► Token, Certificate ──► Monitor
//! ```

use std::net::{SocketAddr, ToSocketAddrs};
use std::path::{Path, PathBuf};
use std::time::Duration;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::error::MonitorError;
use crate::token::Token;

/// Where the page is served, and to whom.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct Settings {
    /// Whether there is a page at all.
    pub enabled: bool,
    /// Address and port; port 0 takes a free one. An address that other hosts reach needs a token.
    pub listen: String,
    /// What a caller must show. The configuration is recorded with every run, and a token written here with it: `token_file` keeps it apart.
    pub token: Option<Token>,
    /// A file whose first line is the token.
    pub token_file: Option<PathBuf>,
    /// Certificate chain, PEM; with `tls_key`, the page speaks https.
    pub tls_certificate: Option<PathBuf>,
    /// Its private key, PEM.
    pub tls_key: Option<PathBuf>,
    /// Names, beside `localhost` and addresses of this host, under which the page is asked for: as of a proxy before it.
    pub hosts: Vec<String>,
    /// How often the state is sent to those who watch, hertz.
    #[schemars(range(min = 0.1, max = 50.0))]
    pub update_hz: f64,
    /// Most who may watch at once.
    #[schemars(range(min = 1, max = 1024))]
    pub streams: usize,
    /// Most connections at once.
    #[schemars(range(min = 8, max = 4096))]
    pub connections: usize,
    /// A browser that has taken nothing for so long is let go, seconds.
    #[schemars(range(min = 0.1, max = 600.0))]
    pub stall_s: f64,
    /// Whether any free port will do where that one is taken: of a demonstration, not of an experiment that is looked for.
    #[serde(skip)]
    #[schemars(skip)]
    pub or_any_port: bool,
    /// What gave `listen`, for messages: an option of the command line, or the key.
    #[serde(skip)]
    #[schemars(skip)]
    pub given_by: &'static str,
}

impl Default for Settings {
    fn default() -> Settings {
        Settings {
            enabled: true,
            listen: "127.0.0.1:8090".to_owned(),
            token: None,
            token_file: None,
            tls_certificate: None,
            tls_key: None,
            hosts: Vec::new(),
            update_hz: 10.0,
            streams: 32,
            connections: 256,
            stall_s: 10.0,
            or_any_port: false,
            given_by: "[monitor] listen",
        }
    }
}

/// Settings that can be served.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Checked {
    pub address: SocketAddr,
    pub token: Option<Token>,
    /// Certificate and key.
    pub tls: Option<(PathBuf, PathBuf)>,
}

impl Settings {
    /// Whether these settings can be meant. To be asked when the configuration is read: whoever opens the page to other hosts without a
    /// token is to learn it then.
    ///
    /// # Errors
    /// What was found, and what to write.
    pub fn check(&self) -> Result<(), MonitorError> {
        match self.enabled {
            true => self.checked().map(|_| ()),
            false => Ok(()),
        }
    }

    /// Has the page served at an address of the command line, whatever `[monitor]` says.
    pub fn serve_at(&mut self, listen: &str) {
        (self.enabled, self.listen, self.given_by) = (true, listen.to_owned(), "--listen");
    }

    /// Takes paths as they are meant in a configuration file: relative to its folder.
    pub fn relative_to(&mut self, folder: &Path) {
        for path in [&mut self.token_file, &mut self.tls_certificate, &mut self.tls_key].into_iter().flatten()
        {
            *path = folder.join(&*path);
        }
    }

    pub(crate) fn checked(&self) -> Result<Checked, MonitorError> {
        let address = self.address()?;
        let token = self.shown_token()?;
        if !address.ip().is_loopback() && token.is_none() {
            return Err(MonitorError::OpenToAll { given_by: self.given_by, listen: self.listen.clone() });
        }
        let tls = match (&self.tls_certificate, &self.tls_key) {
            (Some(certificate), Some(key)) => Some((certificate.clone(), key.clone())),
            (None, None) => None,
            (Some(_), None) => return Err(wrong("tls_certificate", "needs `tls_key` beside it")),
            (None, Some(_)) => return Err(wrong("tls_key", "needs `tls_certificate` beside it")),
        };
        let within = |key: &'static str, value: f64, low: f64, high: f64| match (low..=high).contains(&value)
        {
            true => Ok(()),
            false => Err(wrong(key, &format!("is {value}; write {low} to {high}"))),
        };
        within("update_hz", self.update_hz, 0.1, 50.0)?;
        within("streams", self.streams as f64, 1.0, 1024.0)?;
        within("connections", self.connections as f64, 8.0, 4096.0)?;
        within("stall_s", self.stall_s, 0.1, 600.0)?;
        if let Some(host) = self.hosts.iter().find(|host| !is_host_name(host)) {
            return Err(wrong(
                "hosts",
                &format!("has \"{host}\"; write a name without port, as \"daq.lab\""),
            ));
        }
        Ok(Checked { address, token, tls })
    }

    pub(crate) fn period(&self) -> Duration {
        Duration::from_secs_f64(1.0 / self.update_hz)
    }

    fn address(&self) -> Result<SocketAddr, MonitorError> {
        let unusable = |found: String| MonitorError::Address {
            given_by: self.given_by,
            listen: self.listen.clone(),
            found,
        };
        // `localhost` may have two addresses; the first is as good as the other.
        let mut addresses = self.listen.to_socket_addrs().map_err(|cause| unusable(cause.to_string()))?;
        addresses.next().ok_or_else(|| unusable("this name has no address".to_owned()))
    }

    fn shown_token(&self) -> Result<Option<Token>, MonitorError> {
        let token = match (&self.token, &self.token_file) {
            (Some(_), Some(_)) => return Err(wrong("token", "and `token_file` are both there; keep one")),
            (Some(token), None) => token.clone(),
            (None, Some(path)) => {
                let text = std::fs::read_to_string(path).map_err(|cause| MonitorError::File {
                    key: "token_file",
                    path: path.clone(),
                    cause,
                })?;
                Token::new(text.lines().next().unwrap_or_default().trim())
            }
            (None, None) => return Ok(None),
        };
        match token.flaw() {
            Some(flaw) => Err(wrong("token", flaw)),
            None => Ok(Some(token)),
        }
    }
}

fn is_host_name(host: &str) -> bool {
    let is_allowed = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'.' | b'-' | b'_');
    !host.is_empty() && host.bytes().all(is_allowed)
}

fn wrong(key: &'static str, message: &str) -> MonitorError {
    MonitorError::Setting { key, message: message.to_owned() }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn message(settings: &Settings) -> String {
        settings.check().expect_err("refused").to_string()
    }

    #[test]
    fn the_defaults_serve_this_host_only() {
        let settings = Settings::default();
        assert!(settings.checked().expect("usable").address.ip().is_loopback());
        let text = serde_json::to_string(&settings).expect("plain data");
        assert_eq!(serde_json::from_str::<Settings>(&text).expect("own text"), settings);
        assert!(serde_json::from_str::<Settings>("{\"lisen\": \"x\"}").is_err());
    }

    #[test]
    fn other_hosts_need_a_token() {
        let open = Settings { listen: "0.0.0.0:8090".into(), ..Settings::default() };
        assert!(message(&open).contains("token_file"), "{}", message(&open));
        let short = Settings { token: Some(Token::new("short")), ..open.clone() };
        assert!(message(&short).contains("16"), "{}", message(&short));
        let long = Settings { token: Some(Token::new("0123456789abcdef")), ..open.clone() };
        assert!(long.check().is_ok());
        assert!(Settings { enabled: false, ..open }.check().is_ok());
    }

    #[test]
    fn a_token_file_gives_its_first_line() {
        let file = tempfile::NamedTempFile::new().expect("a file");
        std::fs::write(file.path(), "0123456789abcdef\nmore\n").expect("written");
        let settings = Settings { token_file: Some(file.path().into()), ..Settings::default() };
        assert_eq!(settings.checked().expect("usable").token, Some(Token::new("0123456789abcdef")));
        let folder = file.path().parent().expect("a folder");
        let mut relative =
            Settings { token_file: file.path().file_name().map(Into::into), ..Settings::default() };
        relative.relative_to(folder);
        assert_eq!(relative, settings);
        let both = Settings { token: Some(Token::new("x")), ..settings };
        assert!(message(&both).contains("both"));
        let missing = Settings { token_file: Some("/nonexistent".into()), ..Settings::default() };
        assert!(message(&missing).contains("/nonexistent"));
    }

    #[test]
    fn what_is_invalid_is_refused_with_its_key() {
        let with = |change: fn(&mut Settings)| {
            let mut settings = Settings::default();
            change(&mut settings);
            message(&settings)
        };
        assert!(with(|settings| settings.listen = "here".into()).contains("listen"));
        assert!(with(|settings| settings.update_hz = f64::NAN).contains("update_hz"));
        assert!(with(|settings| settings.streams = 0).contains("streams"));
        assert!(with(|settings| settings.hosts = vec!["http://x".into()]).contains("hosts"));
        assert!(with(|settings| settings.tls_key = Some("k".into())).contains("tls_certificate"));
    }
}
