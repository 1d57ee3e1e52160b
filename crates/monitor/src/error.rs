//! Errors that keep the page from being served.

use std::net::SocketAddr;
use std::path::PathBuf;

/// Why the page cannot be served. The message is what the operator reads.
#[derive(Debug, thiserror::Error)]
pub enum MonitorError {
    /// A key of `[monitor]` that are invalid.
    #[error("[monitor] {key} {message}")]
    Setting {
        /// The key.
        key: &'static str,
        /// What was found, and what to write.
        message: String,
    },
    /// An address that is none.
    #[error("{given_by} = \"{listen}\": {found}; write ADDRESS:PORT")]
    Address {
        /// What gave the address: a key or an option.
        given_by: &'static str,
        /// The address as written.
        listen: String,
        /// What is wrong with it.
        found: String,
    },
    /// Other hosts would be served without being asked for anything.
    #[error(
        "{given_by} = \"{listen}\" serves other hosts, and anyone there could stop a run: write token_file = \"token.txt\" in [monitor] with a \
         file of 16 characters or more (`head -c 24 /dev/urandom | base64 > token.txt; chmod 600 token.txt`), or the address \
         127.0.0.1:8090 and come through ssh -L 8090:localhost:8090"
    )]
    OpenToAll {
        /// What gave the address: a key or an option.
        given_by: &'static str,
        /// The address as written.
        listen: String,
    },
    /// A file of the settings could not be used.
    #[error("[monitor] {key} = {path}: {cause}; see that it is there and that this user may read it")]
    File {
        /// The key.
        key: &'static str,
        /// The file.
        path: PathBuf,
        /// What the system said.
        cause: std::io::Error,
    },
    /// Certificate and key do not make a server.
    #[error("[monitor] tls_certificate = {certificate}, tls_key = {key}: {cause}")]
    Tls {
        /// The certificate's file.
        certificate: PathBuf,
        /// The key's file.
        key: PathBuf,
        /// What the library said.
        cause: String,
    },
    /// Something else listens there.
    #[error(
        "the page's address {address} is taken by another program, perhaps another thalweg (`ss -ltnp 'sport = :{}'` names it): end that one, \
         or choose another port with {given_by}; port 0 takes a free one",
        .address.port()
    )]
    Busy {
        /// What gave the address: a key or an option.
        given_by: &'static str,
        /// The address.
        address: SocketAddr,
    },
    /// The address cannot be listened at.
    #[error(
        "the page cannot listen at {address}: {cause}; choose an address of this host and a port above 1023 with {given_by}"
    )]
    Listen {
        /// What gave the address: a key or an option.
        given_by: &'static str,
        /// The address.
        address: SocketAddr,
        /// What the system said.
        cause: std::io::Error,
    },
    /// The page's thread could not be started.
    #[error("the page's thread could not be started: {0}")]
    Thread(std::io::Error),
}
