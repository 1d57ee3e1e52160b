//! HTTP/1.1 on a loopback port, one thread a connection, that can vanish in the middle of anything.

use std::collections::BTreeMap;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use rustls::crypto::ring::default_provider;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::{ServerConfig, ServerConnection, StreamOwned};

/// A request, with path, query and names of headers as they are meant.
#[derive(Clone, Debug, Default)]
pub struct Request {
    pub method: String,
    pub path: String,
    pub query: BTreeMap<String, String>,
    pub headers: BTreeMap<String, String>,
    pub body: Vec<u8>,
}

/// An answer.
#[derive(Clone, Debug, Default)]
pub struct Answer {
    pub status: u16,
    pub headers: Vec<(String, String)>,
    pub body: Vec<u8>,
}

impl Answer {
    pub fn new(status: u16) -> Answer {
        Answer { status, ..Answer::default() }
    }

    #[must_use]
    pub fn header(mut self, name: &str, value: impl ToString) -> Answer {
        self.headers.push((name.to_owned(), value.to_string()));
        self
    }

    #[must_use]
    pub fn body(self, body: impl Into<Vec<u8>>) -> Answer {
        Answer { body: body.into(), ..self }
    }
}

/// What becomes of a request once its head was read.
pub enum Head {
    /// Its body is read.
    Go,
    /// It is answered at once.
    Answer(Answer),
    /// It is answered at once, behind a word that the answer takes some time.
    AnswerBehindProcessing(Answer),
    /// The connection is closed when half of its body was read.
    VanishInBody,
}

/// What becomes of it once it was read.
pub enum Reaction {
    Answer(Answer),
    /// The connection is closed.
    Vanish,
    /// The connection is closed in the middle of the answer's body.
    VanishInAnswer(Answer),
}

pub trait Handler: Send + Sync + 'static {
    fn head(&self, request: &Request) -> Head;
    fn react(&self, request: Request) -> Reaction;
}

/// A server, until it is dropped.
pub struct Server {
    pub address: SocketAddr,
    stop: Arc<AtomicBool>,
}

impl Server {
    pub fn start(handler: Arc<dyn Handler>) -> Server {
        Server::start_with(handler, None)
    }

    /// The same over TLS.
    pub fn start_tls(handler: Arc<dyn Handler>) -> Server {
        let certificate =
            CertificateDer::from_pem_file(certificate_file("tls-certificate.pem")).expect("PEM");
        let key = PrivateKeyDer::from_pem_file(certificate_file("tls-key.pem")).expect("PEM");
        let config = ServerConfig::builder_with_provider(Arc::new(default_provider()));
        let config = config.with_safe_default_protocol_versions().expect("versions");
        let config = config.with_no_client_auth().with_single_cert(vec![certificate], key).expect("a pair");
        Server::start_with(handler, Some(Arc::new(config)))
    }

    fn start_with(handler: Arc<dyn Handler>, tls: Option<Arc<ServerConfig>>) -> Server {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a loopback port");
        let address = listener.local_addr().expect("bound");
        let stop = Arc::new(AtomicBool::new(false));
        let ends = stop.clone();
        std::thread::spawn(move || {
            for stream in listener.incoming().flatten() {
                if ends.load(Ordering::Acquire) {
                    return;
                }
                let (handler, tls) = (handler.clone(), tls.clone());
                std::thread::spawn(move || {
                    let _ = stream.set_nodelay(true);
                    match tls {
                        Some(tls) => {
                            let connection = ServerConnection::new(tls).expect("a connection");
                            serve(StreamOwned::new(connection, stream), handler.as_ref());
                        }
                        None => serve(stream, handler.as_ref()),
                    }
                });
            }
        });
        Server { address, stop }
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Release);
        let _ = TcpStream::connect(self.address);
    }
}

/// The certificate that the page is tested with: of localhost and 127.0.0.1, signed by itself.
pub fn certificate_file(name: &str) -> PathBuf {
    PathBuf::from(concat!(env!("CARGO_MANIFEST_DIR"), "/../monitor/tests/monitor")).join(name)
}

const CONTINUE: &[u8] = b"HTTP/1.1 100 Continue\r\n\r\n";
const PROCESSING: &[u8] = b"HTTP/1.1 102 Processing\r\n\r\n";

fn serve(stream: impl Read + Write, handler: &dyn Handler) {
    let mut reader = BufReader::new(stream);
    while let Some(mut request) = head(&mut reader) {
        let length: usize =
            request.headers.get("content-length").and_then(|text| text.parse().ok()).unwrap_or(0);
        let is_head = request.method == "HEAD";
        match handler.head(&request) {
            Head::Go => {}
            Head::Answer(answer) => {
                // What comes of the body is no request.
                let _ = send(reader.get_mut(), &answer, is_head, answer.body.len());
                return;
            }
            Head::AnswerBehindProcessing(answer) => {
                let _ = reader.get_mut().write_all(PROCESSING);
                let _ = send(reader.get_mut(), &answer, is_head, answer.body.len());
                return;
            }
            Head::VanishInBody => {
                if request.headers.contains_key("expect") {
                    let _ = reader.get_mut().write_all(CONTINUE);
                }
                let _ = reader.read_exact(&mut vec![0; length / 2]);
                return;
            }
        }
        if request.headers.contains_key("expect")
            && reader.get_mut().write_all(CONTINUE).and_then(|()| reader.get_mut().flush()).is_err()
        {
            return;
        }
        request.body = vec![0; length];
        if reader.read_exact(&mut request.body).is_err() {
            return;
        }
        let is_sent = match handler.react(request) {
            Reaction::Answer(answer) => send(reader.get_mut(), &answer, is_head, answer.body.len()),
            Reaction::VanishInAnswer(answer) => {
                let _ = send(reader.get_mut(), &answer, is_head, answer.body.len() / 2);
                return;
            }
            Reaction::Vanish => return,
        };
        if is_sent.is_err() {
            return;
        }
    }
}

fn head(reader: &mut impl BufRead) -> Option<Request> {
    let mut line = String::new();
    reader.read_line(&mut line).ok().filter(|bytes| *bytes > 0)?;
    let mut words = line.split_whitespace();
    let (method, target) = (words.next()?.to_owned(), words.next()?);
    let (path, query) = target.split_once('?').unwrap_or((target, ""));
    let pairs = query.split('&').filter(|pair| !pair.is_empty());
    let query = pairs
        .map(|pair| pair.split_once('=').unwrap_or((pair, "")))
        .map(|(key, value)| (decoded(key), decoded(value)));
    let mut request = Request { method, path: decoded(path), query: query.collect(), ..Request::default() };
    loop {
        let mut line = String::new();
        reader.read_line(&mut line).ok()?;
        let Some((name, value)) = line.trim_end().split_once(':') else { return Some(request) };
        request.headers.insert(name.to_lowercase(), value.trim().to_owned());
    }
}

fn decoded(text: &str) -> String {
    let (mut bytes, mut rest) = (Vec::new(), text.as_bytes());
    while let Some((first, behind)) = rest.split_first() {
        let code =
            behind.get(..2).and_then(|code| u8::from_str_radix(std::str::from_utf8(code).ok()?, 16).ok());
        match code.filter(|_| *first == b'%') {
            Some(byte) => (bytes.push(byte), rest = &behind[2..]).1,
            None => (bytes.push(*first), rest = behind).1,
        }
    }
    String::from_utf8_lossy(&bytes).into_owned()
}

fn send(stream: &mut impl Write, answer: &Answer, is_head: bool, bytes: usize) -> std::io::Result<()> {
    let mut text = format!("HTTP/1.1 {} -\r\n", answer.status);
    if !answer.headers.iter().any(|(name, _)| name == "content-length") && answer.status != 204 {
        text += &format!("content-length: {}\r\n", answer.body.len());
    }
    for (name, value) in &answer.headers {
        text += &format!("{name}: {value}\r\n");
    }
    stream.write_all((text + "\r\n").as_bytes())?;
    stream.write_all(if is_head { &[] } else { &answer.body[..bytes] })?;
    stream.flush()
}
