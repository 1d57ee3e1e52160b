//! The page over TLS, where a certificate is configured.
//!
//! ```text
//!  certificate.pem, key.pem ─► acceptor ─► stream of plain bytes
//! ```

use std::path::{Path, PathBuf};

use thalweg_transport::tls::server_config;
use tokio_rustls::TlsAcceptor;

use crate::error::MonitorError;

/// Reads certificate and key.
pub(crate) fn acceptor(certificate: &Path, key: &Path) -> Result<TlsAcceptor, MonitorError> {
    let readable = |name, path: &Path| {
        let error = |cause| MonitorError::File { key: name, path: PathBuf::from(path), cause };
        std::fs::read(path).map_err(error)
    };
    let certificate_text = readable("tls_certificate", certificate)?;
    let key_text = readable("tls_key", key)?;
    let config = server_config(&certificate_text, &key_text);
    let config = config.map_err(|cause| MonitorError::Tls {
        certificate: certificate.into(),
        key: key.into(),
        cause: cause.to_string(),
    })?;
    Ok(TlsAcceptor::from(config))
}
