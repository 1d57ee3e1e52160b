//! Addresses of destinations.
//!
//! ```text
//!  receive://HOST:PORT[/FOLDER] · receives://… with TLS · file:///MOUNTED/PATH
//!  s3://BUCKET[/PREFIX] · webdav+https://HOST[:PORT]/PATH ─► Address
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
    /// A bucket of a store that speaks S3, and what comes before the names of runs, empty for nothing.
    Bucket(String, String),
    /// A collection of a WebDAV server, as an address of http or https.
    Collection(Url),
}

/// What may be written.
pub(crate) const FORMS: &str =
    "write receive://HOST:PORT, file:///MOUNTED/PATH, s3://BUCKET/PREFIX or webdav+https://HOST/PATH";

impl Address {
    /// Reads a URL.
    ///
    /// # Errors
    /// When it is none that files can be shipped to, with what to write.
    pub fn parse(text: &str) -> Result<Address, ShipError> {
        let wrong = |why: &str| ShipError::Settings(format!("{text}: {why}; {FORMS}"));
        let url = Url::parse(text).map_err(|cause| wrong(&cause.to_string()))?;
        if url.query().is_some() || url.fragment().is_some() || !url.username().is_empty() {
            return Err(wrong("it has more than a host, a port and a folder"));
        }
        let folder = || {
            let folder = url.path().trim_matches('/').to_owned();
            if folder.contains('%') {
                return Err(wrong("a folder has blanks or other letters that addresses have no place for"));
            }
            if !folder.is_empty() {
                FarName::new(&folder, "file").map_err(|why| wrong(&why))?;
            }
            Ok(folder)
        };
        match (url.scheme(), url.host_str(), url.port()) {
            (scheme @ ("receive" | "receives"), Some(host), Some(port)) if !host.is_empty() => {
                let host = host.trim_matches(['[', ']']).to_owned();
                Ok(Address::Receiver { host, port, folder: folder()?, with_tls: scheme == "receives" })
            }
            ("receive" | "receives", _, None) => Err(wrong("a port is missing")),
            ("file", None, _) => {
                let path = url.to_file_path().map_err(|()| wrong("it is no path"))?;
                Ok(Address::Folder(path))
            }
            ("s3", _, Some(_)) => {
                Err(wrong("a port belongs to the store and not to the bucket, into `endpoint` of [ship]"))
            }
            ("s3", Some(bucket), None) if !bucket.is_empty() => {
                Ok(Address::Bucket(bucket.to_owned(), folder()?))
            }
            ("s3", ..) => Err(wrong("a bucket is missing")),
            ("webdav+https" | "davs", Some(host), _) if !host.is_empty() => collection("https", &url, wrong),
            ("webdav+http" | "dav", Some(host), _) if !host.is_empty() => collection("http", &url, wrong),
            ("webdav+https" | "davs" | "webdav+http" | "dav", ..) => Err(wrong("a host is missing")),
            _ => Err(wrong("nothing is shipped there")),
        }
    }

    /// The name of the run at the far side.
    pub fn run_name(&self, run: &str) -> String {
        match self {
            Address::Receiver { folder, .. } | Address::Bucket(_, folder) if !folder.is_empty() => {
                format!("{folder}/{run}")
            }
            _ => run.to_owned(),
        }
    }

    /// Whether files may come there that still grow.
    pub fn takes_growing(&self) -> bool {
        matches!(self, Address::Receiver { .. } | Address::Folder(_))
    }
}

fn collection(scheme: &str, url: &Url, wrong: impl Fn(&str) -> ShipError) -> Result<Address, ShipError> {
    // Another scheme cannot be set: http addresses have rules of their own.
    let rest = &url[url::Position::BeforeHost..];
    let url = Url::parse(&format!("{scheme}://{rest}")).map_err(|cause| wrong(&cause.to_string()))?;
    Ok(Address::Collection(url))
}

/// Whether a host of an address is this one.
pub(crate) fn is_loopback(url: &Url) -> bool {
    match url.host() {
        Some(url::Host::Ipv4(address)) => address.is_loopback(),
        Some(url::Host::Ipv6(address)) => address.is_loopback(),
        Some(url::Host::Domain(name)) => name == "localhost",
        None => false,
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
            Address::Bucket(bucket, prefix) if prefix.is_empty() => write!(f, "s3://{bucket}"),
            Address::Bucket(bucket, prefix) => write!(f, "s3://{bucket}/{prefix}"),
            Address::Collection(url) => write!(f, "webdav+{}", url.as_str().trim_end_matches('/')),
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
            "s3://bucket",
            "s3://bucket.of.ours/site/a",
            "webdav+https://dcache:2880/data/x",
            "webdav+http://[::1]:8080/data",
        ] {
            assert_eq!(read(text).expect(text), text);
        }
        assert_eq!(read("davs://eos.far/data/").expect("read"), "webdav+https://eos.far/data");
        assert_eq!(read("dav://far:8080").expect("read"), "webdav+http://far:8080");
        for text in [
            "far:7070",
            "receive://far",
            "receive://far:1/a//b",
            "s3://",
            "s3:///a",
            "s3://bucket:9000/a",
            "s3://bucket/a/.b",
            "s3://bucket/a b",
            "webdav+https:///a",
            "webdav+https://far/a?b",
            "file://host/a",
            "receive://u@far:1",
        ] {
            let error = read(text).expect_err(text).to_string();
            assert!(error.contains("receive://HOST:PORT"), "{error}");
        }
    }
}
