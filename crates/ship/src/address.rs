//! Addresses of destinations.
//!
//! ```text
//!  receive://HOST:PORT[/FOLDER] · receives://… with TLS · file:///MOUNTED/PATH ─► Address
//! ```

use std::fmt;
use std::path::PathBuf;

use url::Url;

use crate::error::ShipError;
use crate::names::FarName;

/// Where files are shipped to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Address {
    /// A far `thalweg receive`.
    Receiver {
        /// Name or address.
        host: String,
        /// Port.
        port: u16,
        /// The folder below its directory, empty for none.
        folder: String,
        /// Whether the connection is encrypted, and the host proved by its certificate.
        with_tls: bool,
    },
    /// A directory that is mounted here.
    Folder(PathBuf),
}

impl Address {
    /// Reads a URL.
    ///
    /// # Errors
    /// When it is none that files can be shipped to, with what to write.
    pub fn parse(text: &str) -> Result<Address, ShipError> {
        let wrong = |why: &str| {
            ShipError::Settings(format!("{text}: {why}; write receive://HOST:PORT or file:///MOUNTED/PATH"))
        };
        let url = Url::parse(text).map_err(|cause| wrong(&cause.to_string()))?;
        if url.query().is_some() || url.fragment().is_some() || !url.username().is_empty() {
            return Err(wrong("it has more than a host, a port and a folder"));
        }
        match (url.scheme(), url.host_str(), url.port()) {
            (scheme @ ("receive" | "receives"), Some(host), Some(port)) if !host.is_empty() => {
                let folder = url.path().trim_matches('/').to_owned();
                if !folder.is_empty() {
                    FarName::new(&folder, "file").map_err(|why| wrong(&why))?;
                }
                let host = host.trim_matches(['[', ']']).to_owned();
                Ok(Address::Receiver { host, port, folder, with_tls: scheme == "receives" })
            }
            ("receive" | "receives", _, None) => Err(wrong("a port is missing")),
            ("file", None, _) => {
                let path = url.to_file_path().map_err(|()| wrong("it is no path"))?;
                Ok(Address::Folder(path))
            }
            _ => Err(wrong("nothing is shipped there")),
        }
    }

    /// The name of the run at the far side.
    pub fn run_name(&self, run: &str) -> String {
        match self {
            Address::Receiver { folder, .. } if !folder.is_empty() => format!("{folder}/{run}"),
            _ => run.to_owned(),
        }
    }
}

impl fmt::Display for Address {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Address::Receiver { host, port, folder, with_tls } => {
                let host = if host.contains(':') { format!("[{host}]") } else { host.clone() };
                let folder = if folder.is_empty() { String::new() } else { format!("/{folder}") };
                let scheme = if *with_tls { "receives" } else { "receive" };
                write!(f, "{scheme}://{host}:{port}{folder}")
            }
            Address::Folder(path) => write!(f, "file://{}", path.display()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_are_read_and_others_refused_with_what_to_write() {
        let read = |text: &str| Address::parse(text).map(|address| address.to_string());
        for text in [
            "receive://far:7070",
            "receives://far:7070/a",
            "receive://[::1]:7070/site/a",
            "file:///mnt/archive",
        ] {
            assert_eq!(read(text).expect(text), text);
        }
        for text in [
            "far:7070",
            "receive://far",
            "receive://far:1/a//b",
            "s3://bucket/a",
            "file://host/a",
            "receive://u@far:1",
        ] {
            let error = read(text).expect_err(text).to_string();
            assert!(error.contains("receive://HOST:PORT"), "{error}");
        }
    }
}
