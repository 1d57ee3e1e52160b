//! Posts JSON to a server over HTTP or HTTPS, beside the data path: BUSY and alarms.
//!
//! ```text
//!  url, settings ─► HttpClient ─ JSON ─► connect · TLS · POST ─► 2xx, or what was seen and what to do
//! ```
//! Each post opens its own connection and reads only the status of the answer. The client follows no redirect and uses no
//! proxy of the environment: only the server that the configuration names gets the post.

use std::io;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use rustls::crypto::ring::default_provider;
use ureq::config::Config;
use ureq::http::Uri;
use ureq::tls::{Certificate, RootCerts, TlsConfig};
use ureq::unversioned::resolver::{DefaultResolver, ResolvedSocketAddrs, Resolver};
use ureq::unversioned::transport::{DefaultConnector, NextTimeout};
use url::Url;

use crate::tls::{TlsError, authorities};

/// How many addresses of a name are tried; `ureq` keeps no more.
const MOST_ADDRESSES: usize = 16;

/// Why a post failed, or cannot be made.
#[derive(Debug, thiserror::Error)]
pub enum HttpError {
    /// The text is no URL that can be posted to.
    #[error("{0}; write http://HOST:PORT/PATH or https://HOST:PORT/PATH")]
    Url(String),
    /// There are no authorities to check the server's certificate against.
    #[error(transparent)]
    Authorities(#[from] TlsError),
    /// The server refused the connection.
    #[error("connection refused; check that the server runs and that the port is right")]
    Refused,
    /// No connection in time.
    #[error("not connected within {} ms; check address, cable and firewall", .0.as_millis())]
    NotConnected(Duration),
    /// No answer in time, with or without a connection.
    #[error("no answer within {} ms; check what delays the server", .0.as_millis())]
    NoAnswer(Duration),
    /// The connection ended before an answer came.
    #[error("the server closed the connection without an answer; see its log")]
    Closed,
    /// An answer other than 2xx.
    #[error("the server answered with status {0}, not 2xx; see its log")]
    Status(u16),
    /// The server's certificate is not signed by a trusted authority, or is for another host name.
    #[error("{0}; name the PEM file of the authority that signed it in `tls_ca`, or correct the host's name")]
    Untrusted(String),
    /// The TLS handshake failed for another reason.
    #[error("TLS failed: {0}; write http:// if the server speaks plain HTTP")]
    Tls(String),
    /// The answer is not HTTP.
    #[error("the answer is not HTTP: {0}; write https:// if the server speaks TLS")]
    NotHttp(String),
    /// The system or the name server reported an error.
    #[error("{0}; check host, network and server")]
    System(String),
}

/// Timeouts and trust of an [`HttpClient`].
#[derive(Clone, Debug)]
pub struct HttpSettings {
    /// How long connecting may take, TLS included.
    pub connect_timeout: Duration,
    /// How long a whole post may take.
    pub timeout: Duration,
    /// The PEM file of the authorities that a server's certificate is checked against; without it, those of the host.
    pub tls_ca: Option<PathBuf>,
    /// Whether to look the host's name up once, when the client is made, so that no post waits for a name server.
    pub look_up_once: bool,
}

/// Parses a URL to post to.
///
/// # Errors
/// When the text is no URL of HTTP or HTTPS with a host.
pub fn parse_url(text: &str) -> Result<Url, HttpError> {
    if text.contains(|letter: char| letter.is_whitespace() || letter.is_control()) {
        return Err(HttpError::Url("the URL has blanks or control characters".to_owned()));
    }
    let url = Url::parse(text).map_err(|cause| HttpError::Url(cause.to_string()))?;
    match (url.scheme(), url.host_str()) {
        ("http" | "https", Some(_)) => Ok(url),
        (scheme, _) => Err(HttpError::Url(format!("the scheme `{scheme}` is not supported"))),
    }
}

/// Looks up the addresses of a URL's host.
///
/// # Errors
/// When its name has no address.
pub fn look_up(url: &Url) -> Result<Vec<SocketAddr>, HttpError> {
    let found = url.socket_addrs(|| None).map_err(|cause| HttpError::System(cause.to_string()))?;
    if found.is_empty() {
        return Err(HttpError::Url("the host has no address".to_owned()));
    }
    Ok(found)
}

/// Posts to one URL.
#[derive(Debug)]
pub struct HttpClient {
    url: Url,
    settings: HttpSettings,
    agent: ureq::Agent,
}

impl HttpClient {
    /// Makes a client; sends nothing yet.
    ///
    /// # Errors
    /// When the certificates of authorities cannot be read, or with `look_up_once`, when the name has no address.
    pub fn new(url: Url, settings: HttpSettings) -> Result<HttpClient, HttpError> {
        let config = Config::builder()
            .proxy(None)
            .max_redirects(0)
            .max_redirects_will_error(false)
            .http_status_as_error(false)
            .max_idle_connections(0)
            .user_agent(concat!("thalweg/", env!("CARGO_PKG_VERSION")))
            .timeout_connect(Some(settings.connect_timeout))
            .timeout_global(Some(settings.timeout))
            .tls_config(tls(&url, settings.tls_ca.as_deref())?)
            .build();
        let connector = DefaultConnector::default();
        let agent = match settings.look_up_once {
            true => ureq::Agent::with_parts(config, connector, Known(look_up(&url)?)),
            false => ureq::Agent::with_parts(config, connector, DefaultResolver::default()),
        };
        Ok(HttpClient { url, settings, agent })
    }

    /// The URL that it posts to.
    pub fn url(&self) -> &Url {
        &self.url
    }

    /// Posts a JSON text; returns when the server has answered 2xx.
    ///
    /// # Errors
    /// When the server does not answer in time, or not with 2xx; see [`HttpError`].
    pub fn post_json(&self, body: &[u8]) -> Result<(), HttpError> {
        let request = self.agent.post(self.url.as_str());
        let request = request.header("Content-Type", "application/json").header("Connection", "close");
        let answer = request.send(body).map_err(|error| self.error(error))?;
        match answer.status() {
            status if status.is_success() => Ok(()),
            status => Err(HttpError::Status(status.as_u16())),
        }
    }

    fn error(&self, error: ureq::Error) -> HttpError {
        match error {
            ureq::Error::Timeout(ureq::Timeout::Connect) => {
                HttpError::NotConnected(self.settings.connect_timeout)
            }
            ureq::Error::Timeout(_) => HttpError::NoAnswer(self.settings.timeout),
            ureq::Error::Protocol(cause) => HttpError::NotHttp(cause.to_string()),
            ureq::Error::Rustls(cause) => tls_error(&cause),
            ureq::Error::Io(cause) => io_error(&cause),
            other => HttpError::System(other.to_string()),
        }
    }
}

/// A resolver that returns known addresses and asks no name server.
#[derive(Debug)]
struct Known(Vec<SocketAddr>);

impl Resolver for Known {
    fn resolve(
        &self,
        _uri: &Uri,
        _config: &Config,
        _timeout: NextTimeout,
    ) -> Result<ResolvedSocketAddrs, ureq::Error> {
        let mut known = self.empty();
        self.0.iter().take(MOST_ADDRESSES).for_each(|address| known.push(*address));
        Ok(known)
    }
}

/// The TLS settings with the trusted authorities. They are not read for plain HTTP.
fn tls(url: &Url, own: Option<&Path>) -> Result<TlsConfig, HttpError> {
    let trusted = match (own, url.scheme()) {
        (None, scheme) if scheme != "https" => Vec::new(),
        _ => authorities(own)?,
    };
    let trusted = trusted.iter().map(|certificate| Certificate::from_der(certificate).to_owned());
    let builder = TlsConfig::builder().unversioned_rustls_crypto_provider(Arc::new(default_provider()));
    Ok(builder.root_certs(RootCerts::new_with_certs(&trusted.collect::<Vec<_>>())).build())
}

/// TLS reports its errors through the `io::Error` of a read or write.
fn io_error(cause: &io::Error) -> HttpError {
    if let Some(error) = cause.get_ref().and_then(|inner| inner.downcast_ref::<rustls::Error>()) {
        return tls_error(error);
    }
    match cause.kind() {
        io::ErrorKind::ConnectionRefused => HttpError::Refused,
        io::ErrorKind::UnexpectedEof => HttpError::Closed,
        _ => HttpError::System(cause.to_string()),
    }
}

fn tls_error(error: &rustls::Error) -> HttpError {
    match error {
        rustls::Error::InvalidCertificate(_) => HttpError::Untrusted(error.to_string()),
        _ => HttpError::Tls(error.to_string()),
    }
}
