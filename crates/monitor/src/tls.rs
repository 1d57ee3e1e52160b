//! The page over TLS, where a certificate is configured.
//!
//! ```text
//!  certificate.pem, key.pem ─► acceptor ─► stream of plain bytes
//! ```

use std::path::{Path, PathBuf};
use std::sync::Arc;

use tokio_rustls::TlsAcceptor;
use tokio_rustls::rustls::ServerConfig;
use tokio_rustls::rustls::crypto::ring::default_provider;
use tokio_rustls::rustls::pki_types::pem::PemObject;
use tokio_rustls::rustls::pki_types::{CertificateDer, PrivateKeyDer};

use crate::error::MonitorError;

/// Reads certificate and key.
pub(crate) fn acceptor(certificate: &Path, key: &Path) -> Result<TlsAcceptor, MonitorError> {
    let readable = |name, path: &Path| {
        let error = |cause| MonitorError::File { key: name, path: PathBuf::from(path), cause };
        std::fs::read(path).map_err(error)
    };
    let certificate_text = readable("tls_certificate", certificate)?;
    let key_text = readable("tls_key", key)?;
    let unusable =
        |cause: String| MonitorError::Tls { certificate: certificate.into(), key: key.into(), cause };
    let chain: Result<Vec<_>, _> = CertificateDer::pem_slice_iter(&certificate_text).collect();
    let chain = chain.map_err(|cause| unusable(cause.to_string()))?;
    let private = PrivateKeyDer::from_pem_slice(&key_text).map_err(|cause| unusable(cause.to_string()))?;
    let config = ServerConfig::builder_with_provider(Arc::new(default_provider()))
        .with_safe_default_protocol_versions()
        .and_then(|builder| builder.with_no_client_auth().with_single_cert(chain, private))
        .map_err(|cause| unusable(cause.to_string()))?;
    Ok(TlsAcceptor::from(Arc::new(config)))
}
