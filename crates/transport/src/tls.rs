//! TLS: what a client trusts, and what a server shows.
//!
//! ```text
//!  `tls_ca`, or the host's authorities ─► authorities ─► client_config ─► a client
//!  certificate.pem, key.pem            ─► server_config ─► a server
//! ```

use std::path::{Path, PathBuf};
use std::sync::Arc;

use rustls::RootCertStore;
use rustls::crypto::ring::default_provider;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
pub use rustls::{ClientConfig, ServerConfig};

/// Why there is no TLS.
#[derive(Debug, thiserror::Error)]
pub enum TlsError {
    /// The file of `tls_ca` cannot be used.
    #[error(
        "`tls_ca = \"{}\"`: {cause}; write the PEM file of the authority that signed the server's certificate",
        file.display()
    )]
    AuthorityFile {
        /// The file.
        file: PathBuf,
        /// What is wrong with it.
        cause: String,
    },
    /// The host has no certificates of authorities.
    #[error(
        "this host has no CA certificates{0}; install the package `ca-certificates`, or name the PEM file of your own authority in `tls_ca`"
    )]
    NoAuthorities(String),
    /// A server's certificate and key cannot be used.
    #[error("{0}; both are PEM, and the key is that of the first certificate")]
    Certificate(String),
}

/// The certificates of the authorities that a client trusts: those in the PEM file `own`, or without one, those of the host.
///
/// # Errors
/// When the file cannot be used, or the host has none.
pub fn authorities(own: Option<&Path>) -> Result<Vec<CertificateDer<'static>>, TlsError> {
    match own {
        Some(file) => authorities_in(file),
        None => authorities_of_host(),
    }
}

/// The settings of a client that trusts these [`authorities`].
///
/// # Errors
/// As for [`authorities`].
pub fn client_config(own: Option<&Path>) -> Result<Arc<ClientConfig>, TlsError> {
    let mut store = RootCertStore::empty();
    store.add_parsable_certificates(authorities(own)?);
    let builder = ClientConfig::builder_with_provider(Arc::new(default_provider()));
    let builder = builder.with_safe_default_protocol_versions().expect("the provider has these versions");
    Ok(Arc::new(builder.with_root_certificates(store).with_no_client_auth()))
}

/// The settings of a server with this certificate chain and private key, both as PEM text.
///
/// # Errors
/// When they cannot be read, or do not belong together.
pub fn server_config(chain_pem: &[u8], key_pem: &[u8]) -> Result<Arc<ServerConfig>, TlsError> {
    let unusable = |cause: &dyn std::fmt::Display| TlsError::Certificate(cause.to_string());
    let chain: Result<Vec<_>, _> = CertificateDer::pem_slice_iter(chain_pem).collect();
    let chain = chain.map_err(|cause| unusable(&cause))?;
    let key = PrivateKeyDer::from_pem_slice(key_pem).map_err(|cause| unusable(&cause))?;
    let builder = ServerConfig::builder_with_provider(Arc::new(default_provider()));
    let builder = builder.with_safe_default_protocol_versions().expect("the provider has these versions");
    let config = builder.with_no_client_auth().with_single_cert(chain, key);
    config.map(Arc::new).map_err(|cause| unusable(&cause))
}

fn authorities_in(file: &Path) -> Result<Vec<CertificateDer<'static>>, TlsError> {
    let failed = |cause: String| TlsError::AuthorityFile { file: file.to_owned(), cause };
    let text = std::fs::read(file).map_err(|cause| failed(cause.to_string()))?;
    let found: Result<Vec<_>, _> = CertificateDer::pem_slice_iter(&text).collect();
    let found = found.map_err(|cause| failed(cause.to_string()))?;
    let mut store = RootCertStore::empty();
    for certificate in &found {
        store.add(certificate.clone()).map_err(|cause| failed(cause.to_string()))?;
    }
    if found.is_empty() { Err(failed("the file has no certificate".to_owned())) } else { Ok(found) }
}

fn authorities_of_host() -> Result<Vec<CertificateDer<'static>>, TlsError> {
    let found = rustls_native_certs::load_native_certs();
    if found.certs.is_empty() {
        let causes = found.errors.iter().map(|cause| format!(": {cause}"));
        return Err(TlsError::NoAuthorities(causes.collect()));
    }
    Ok(found.certs)
}
