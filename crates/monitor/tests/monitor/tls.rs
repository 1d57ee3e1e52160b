//! The page over TLS, with a certificate made for these tests only.

use std::io::{Read, Write};
use std::net::TcpStream;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use tokio_rustls::rustls::crypto::ring::default_provider;
use tokio_rustls::rustls::pki_types::pem::PemObject;
use tokio_rustls::rustls::pki_types::{CertificateDer, ServerName};
use tokio_rustls::rustls::{ClientConfig, ClientConnection, RootCertStore, StreamOwned};

use super::client::Answer;
use super::serve_with;
use thalweg_monitor::{Monitor, MonitorError, Settings};

fn file(name: &str) -> PathBuf {
    PathBuf::from(concat!(env!("CARGO_MANIFEST_DIR"), "/tests/monitor")).join(name)
}

#[test]
fn with_a_certificate_the_page_speaks_https_only() {
    let served = serve_with(|settings| {
        settings.tls_certificate = Some(file("tls-certificate.pem"));
        settings.tls_key = Some(file("tls-key.pem"));
    });
    assert!(served.monitor.url().starts_with("https://"));
    let mut roots = RootCertStore::empty();
    roots.add(CertificateDer::from_pem_file(file("tls-certificate.pem")).expect("PEM")).expect("a root");
    let config = ClientConfig::builder_with_provider(Arc::new(default_provider()))
        .with_safe_default_protocol_versions()
        .expect("versions")
        .with_root_certificates(roots)
        .with_no_client_auth();
    let connection =
        ClientConnection::new(Arc::new(config), ServerName::try_from("localhost").expect("a name"))
            .expect("a client");
    let socket = TcpStream::connect(served.monitor.address()).expect("a server");
    socket.set_read_timeout(Some(Duration::from_secs(60))).expect("set");
    let mut stream = StreamOwned::new(connection, socket);
    stream
        .write_all(b"GET /api/state HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\n\r\n")
        .expect("said");
    let mut received = Vec::new();
    // An end without a farewell is an error here, and no matter.
    let _ = stream.read_to_end(&mut received);
    assert_eq!(Answer::read(&received).expect("an answer").status, 200);
    let plain = served.client().say(b"GET /api/state HTTP/1.1\r\nhost: localhost\r\n\r\n");
    assert!(Answer::read(&plain).is_none());
}

#[test]
fn a_certificate_that_is_none_is_said() {
    let served = serve_with(|_| {});
    let start = |certificate: &str, key: &str| {
        let settings = Settings {
            listen: "127.0.0.1:0".into(),
            tls_certificate: Some(file(certificate)),
            tls_key: Some(file(key)),
            ..Settings::default()
        };
        Monitor::start(&settings, served.fake.clone()).expect_err("refused")
    };
    assert!(matches!(start("nothing.pem", "tls-key.pem"), MonitorError::File { key: "tls_certificate", .. }));
    assert!(matches!(start("main.rs", "tls-key.pem"), MonitorError::Tls { .. }));
    assert!(matches!(start("tls-certificate.pem", "tls-certificate.pem"), MonitorError::Tls { .. }));
}
