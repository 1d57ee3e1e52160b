//! Posts over HTTP and HTTPS to servers on loopback that accept, refuse, answer late or do not answer.

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::path::PathBuf;
use std::process::Command;
use std::sync::Arc;
use std::thread::JoinHandle;
use std::time::Duration;

use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::{ServerConfig, ServerConnection, StreamOwned};
use thalweg_transport::http::{HttpClient, HttpError, HttpSettings, look_up, parse_url};
use thalweg_transport::tls::TlsError;

const BODY: &[u8] = b"{\"busy\": true}";

/// A file of the monitor's tests: the self-signed certificate of localhost and 127.0.0.1, or its key.
fn file(name: &str) -> PathBuf {
    PathBuf::from(concat!(env!("CARGO_MANIFEST_DIR"), "/../monitor/tests/monitor")).join(name)
}

fn settings() -> HttpSettings {
    let patient = Duration::from_secs(20);
    HttpSettings { connect_timeout: patient, timeout: patient, tls_ca: None, look_up_once: false }
}

fn trusting() -> HttpSettings {
    HttpSettings { tls_ca: Some(file("tls-certificate.pem")), ..settings() }
}

fn post(url: &str, settings: HttpSettings) -> Result<(), HttpError> {
    HttpClient::new(parse_url(url)?, settings)?.post_json(BODY)
}

/// A server that accepts one client and passes its connection to `with`.
fn serve<T: Send + 'static>(
    on: &str,
    with: impl FnOnce(TcpStream) -> T + Send + 'static,
) -> (SocketAddr, JoinHandle<T>) {
    let listener = TcpListener::bind((on, 0)).expect("loopback");
    let at = listener.local_addr().expect("bound");
    (at, std::thread::spawn(move || with(listener.accept().expect("a client").0)))
}

/// Reads a request to the end of its body.
fn request(stream: &mut impl Read) -> String {
    let (mut received, mut chunk) = (Vec::new(), [0; 512]);
    while !received.ends_with(BODY) {
        match stream.read(&mut chunk).expect("a request") {
            0 => break,
            length => received.extend_from_slice(&chunk[..length]),
        }
    }
    String::from_utf8(received).expect("text")
}

/// A server that returns the request and sends `answer`.
fn answering(answer: &'static [u8]) -> (SocketAddr, JoinHandle<String>) {
    serve("127.0.0.1", move |mut stream| {
        let received = request(&mut stream);
        stream.write_all(answer).expect("a client");
        received
    })
}

/// A TLS server with the test certificate; it returns the request, or nothing if the client does not trust it.
fn answering_over_tls(on: &str) -> (SocketAddr, JoinHandle<String>) {
    let certificate = CertificateDer::from_pem_file(file("tls-certificate.pem")).expect("PEM");
    let key = PrivateKeyDer::from_pem_file(file("tls-key.pem")).expect("PEM");
    let config = ServerConfig::builder_with_provider(Arc::new(rustls::crypto::ring::default_provider()))
        .with_safe_default_protocol_versions()
        .and_then(|builder| builder.with_no_client_auth().with_single_cert(vec![certificate], key))
        .expect("a certificate and its key");
    serve(on, move |stream| {
        let connection = ServerConnection::new(Arc::new(config)).expect("a connection");
        let mut stream = StreamOwned::new(connection, stream);
        if stream.conn.complete_io(&mut stream.sock).is_err() {
            return String::new();
        }
        let received = request(&mut stream);
        stream.write_all(b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n").expect("a client");
        received
    })
}

#[test]
fn a_post_sends_json_on_its_own_connection() {
    let (at, server) = answering(b"HTTP/1.1 204 No Content\r\n\r\n");
    post(&format!("http://{at}/trigger/busy?a=b"), settings()).expect("taken");
    let received = server.join().expect("served");
    assert!(received.starts_with("POST /trigger/busy?a=b HTTP/1.1\r\n"), "{received}");
    let (head, body) = received.split_once("\r\n\r\n").expect("a head");
    let head = head.to_lowercase();
    for line in
        [&format!("host: {at}"), "content-type: application/json", "content-length: 14", "connection: close"]
    {
        assert!(head.lines().any(|found| found == line), "{line} in {head}");
    }
    assert_eq!(body.as_bytes(), BODY);
}

#[test]
fn the_client_uses_no_proxy_of_the_environment() {
    let mut test = Command::new(std::env::current_exe().expect("this program"));
    let name = "http::a_post_sends_json_on_its_own_connection";
    for variable in ["http_proxy", "HTTP_PROXY", "ALL_PROXY"] {
        test.env(variable, "http://127.0.0.1:1");
    }
    let ran = test.env_remove("NO_PROXY").args(["--exact", name]).output().expect("it runs");
    let output = String::from_utf8_lossy(&ran.stdout);
    assert!(ran.status.success() && output.contains("1 passed"), "{output}");
}

#[test]
fn a_status_other_than_2xx_is_an_error_and_a_redirect_is_not_followed() {
    for (answer, status) in [
        (&b"HTTP/1.1 500 Oops\r\nContent-Length: 0\r\n\r\n"[..], 500),
        (b"HTTP/1.1 404 Not Found\r\n\r\n", 404),
        (b"HTTP/1.1 302 Found\r\nLocation: http://127.0.0.1:1/\r\n\r\n", 302),
        (b"HTTP/1.1 307 Elsewhere\r\nLocation: http://127.0.0.1:1/\r\n\r\n", 307),
    ] {
        let (at, _server) = answering(answer);
        let error = post(&format!("http://{at}"), settings()).expect_err("not taken");
        assert!(matches!(error, HttpError::Status(found) if found == status), "{error}");
    }
}

#[test]
fn an_absent_a_silent_and_another_server_give_different_errors() {
    let gone = TcpListener::bind("127.0.0.1:0").and_then(|listener| listener.local_addr()).expect("loopback");
    let error = post(&format!("http://{gone}/"), settings()).expect_err("no server");
    assert!(matches!(error, HttpError::Refused), "{error}");

    let silent = TcpListener::bind("127.0.0.1:0").expect("loopback");
    let at = silent.local_addr().expect("bound");
    let hurried = HttpSettings { timeout: Duration::from_millis(50), ..settings() };
    for scheme in ["http", "https"] {
        let hurried = HttpSettings { tls_ca: trusting().tls_ca, ..hurried.clone() };
        let error = post(&format!("{scheme}://{at}/"), hurried).expect_err("no answer");
        assert!(matches!(error, HttpError::NoAnswer(_)), "{error}");
        assert!(error.to_string().contains("50 ms"), "{error}");
    }
    let hurried = HttpSettings { connect_timeout: Duration::from_millis(50), ..trusting() };
    let error = post(&format!("https://{at}/"), hurried).expect_err("no TLS");
    assert!(matches!(error, HttpError::NotConnected(_)), "{error}");

    let (at, _server) = serve("127.0.0.1", |mut stream| drop(request(&mut stream)));
    let error = post(&format!("http://{at}/"), settings()).expect_err("closed");
    assert!(matches!(error, HttpError::Closed), "{error}");

    let (at, _server) = answering(b"SSH-2.0-OpenSSH_9.9\r\n\r\n");
    let error = post(&format!("http://{at}/"), settings()).expect_err("another protocol");
    assert!(matches!(error, HttpError::NotHttp(_)), "{error}");
}

#[test]
fn a_server_over_tls_is_trusted_by_the_file_of_its_authority() {
    for host in ["127.0.0.1", "localhost"] {
        let (at, server) = answering_over_tls("127.0.0.1");
        // `localhost` may resolve to IPv6 first; the server listens on IPv4 only.
        post(&format!("https://{host}:{}/busy", at.port()), trusting()).expect("trusted");
        let received = server.join().expect("served");
        assert!(
            received.starts_with("POST /busy HTTP/1.1\r\n") && received.ends_with("{\"busy\": true}"),
            "{received}"
        );
    }
}

#[test]
fn a_certificate_of_another_authority_or_of_another_host_is_not_trusted() {
    let (at, server) = answering_over_tls("127.0.0.1");
    match post(&format!("https://{at}/"), settings()) {
        Err(HttpError::Authorities(TlsError::NoAuthorities(_))) => {
            thalweg_prerequisite::skip("the package ca-certificates")
        }
        Err(error @ HttpError::Untrusted(_)) => {
            assert!(error.to_string().contains("invalid peer certificate"), "{error}");
            assert!(error.to_string().contains("`tls_ca`"), "{error}");
            assert_eq!(server.join().expect("served"), "");
        }
        other => panic!("{other:?}"),
    }
    let (at, server) = answering_over_tls("127.0.0.2");
    let error = post(&format!("https://{at}/"), trusting()).expect_err("a name that is not in it");
    assert!(matches!(error, HttpError::Untrusted(_)), "{error}");
    assert!(error.to_string().contains("not valid for name"), "{error}");
    assert_eq!(server.join().expect("served"), "");
}

#[test]
fn tls_to_a_server_of_plain_http_is_an_error() {
    let (at, _server) = serve("127.0.0.1", |mut stream| {
        let mut hello = [0; 512];
        let _some = stream.read(&mut hello).expect("a hello");
        stream.write_all(b"HTTP/1.1 400 Bad Request\r\n\r\n").expect("a client");
    });
    let error = post(&format!("https://{at}/"), trusting()).expect_err("no TLS");
    assert!(matches!(error, HttpError::Tls(_)), "{error}");
    assert!(error.to_string().contains("write http://"), "{error}");
}

#[test]
fn invalid_settings_are_refused_before_anything_is_sent() {
    let message = |url: &str, settings: HttpSettings| post(url, settings).expect_err("refused").to_string();
    for url in ["ftp://x/", "x", "127.0.0.1:80", "http://", "http://127.0.0.1:1/a b", "mailto:a@b"] {
        let text = message(url, settings());
        assert!(text.contains("write http://HOST:PORT/PATH or https://HOST:PORT/PATH"), "{url}: {text}");
    }
    for (name, cause) in [("nothing.pem", "No such file"), ("tls-key.pem", "no certificate")] {
        let wrong = HttpSettings { tls_ca: Some(file(name)), ..settings() };
        let text = message("https://127.0.0.1:1/", wrong);
        assert!(text.contains(name) && text.contains(cause) && text.contains("`tls_ca"), "{text}");
    }
}

#[test]
fn a_name_that_is_looked_up_once_needs_no_name_server_later() {
    let (at, server) = answering(b"HTTP/1.1 200 OK\r\n\r\n");
    let url = parse_url(&format!("http://localhost:{}/", at.port())).expect("an address");
    assert!(look_up(&url).expect("known").contains(&at));
    let client = HttpClient::new(url, HttpSettings { look_up_once: true, ..settings() }).expect("known");
    client.post_json(BODY).expect("taken");
    let port = at.port();
    assert!(server.join().expect("served").to_lowercase().contains(&format!("host: localhost:{port}\r\n")));
}
