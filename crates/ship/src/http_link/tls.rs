//! TLS with stores: the name that a certificate must have, and what to do when TLS does not come about.
//!
//! ```text
//!  host ─► ServerName      error of TLS ─► what was seen, what to do
//! ```

use std::io;

use rustls::Error;
use rustls::pki_types::ServerName;

/// The name that the certificate must have.
///
/// # Errors
/// When it can be in none.
pub(super) fn name(host: &str) -> io::Result<ServerName<'static>> {
    ServerName::try_from(host.to_owned()).map_err(|cause| io::Error::new(io::ErrorKind::InvalidInput, cause))
}

/// The same error with what to do.
pub(super) fn explained(cause: io::Error) -> io::Error {
    let advice = match cause.get_ref().and_then(|inner| inner.downcast_ref::<Error>()) {
        Some(Error::InvalidCertificate(_)) => {
            "name the PEM file of the authority that signed it in `tls_ca`, or correct the host's name"
        }
        Some(_) => "write http where the store speaks no TLS",
        None => return cause,
    };
    io::Error::new(cause.kind(), format!("{cause}; {advice}"))
}
