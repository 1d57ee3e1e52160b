//! HTTP with a store: one connection at a time, that a program can end.
//!
//! ```text
//!  request ─► HttpLink ─► connection kept, or connect · TLS ─► answer, or Failure: what the store said
//! ```
//! `object_store` sends through it as well, so that one client, one trust in certificates and one way to name errors hold for all stores.
//! Requests run on the calling thread; nothing is repeated here, because the route has a back-off of its own.

mod failure;
mod tls;

use std::future::Future;
use std::io;
use std::net::ToSocketAddrs;
use std::path::PathBuf;
use std::pin::{Pin, pin};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, OnceLock, PoisonError};
use std::task::{Context, Poll};
use std::time::{Duration, Instant};

use http_body_util::combinators::BoxBody;
use http_body_util::{BodyExt, Full};
use hyper::body::{Body, Bytes, Frame, SizeHint};
use hyper::client::conn::http1::{SendRequest, handshake};
use hyper::header::{HOST, HeaderValue};
use hyper::http::response::Parts;
use hyper::{Request, Response, Uri};
use hyper_util::rt::TokioIo;
use object_store::client::{
    HttpError, HttpErrorKind, HttpRequest, HttpResponse, HttpResponseBody, HttpService,
};
use rustls::ClientConfig;
use socket2::SockRef;
use thalweg_transport::tls::client_config;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::TcpStream;
use tokio::runtime::Runtime;
use tokio::time::timeout;
use tokio_rustls::TlsConnector;

pub(crate) use failure::{Answer, Failure};

use crate::error::ShipError;
use crate::link::notice_absence;

const CONNECT: Duration = Duration::from_secs(10);
/// Between two looks whether the program is to end.
const CHECK_EVERY: Duration = Duration::from_millis(100);
/// So long nothing may come or go: to complete a large object takes minutes.
const QUIET: Duration = Duration::from_secs(300);
/// A connection whose last answer was read is free again within this time.
const FREE: Duration = Duration::from_millis(100);
/// Longest answer that is kept in memory: a list of a thousand parts has a tenth of that.
const LONGEST_ANSWER: usize = 4 << 20;

/// What requests carry.
pub(crate) type Outgoing = BoxBody<Bytes, HttpError>;

/// What a request carries that is all in memory.
pub(crate) fn outgoing(bytes: impl Into<Bytes>) -> Outgoing {
    Full::new(bytes.into()).map_err(|never| match never {}).boxed()
}

/// Sends requests to stores, and waits for their answers.
#[derive(Debug)]
pub(crate) struct HttpLink {
    runtime: Runtime,
    service: Service,
    destination: String,
}

/// The same, for those that wait themselves.
#[derive(Clone, Debug)]
pub(crate) struct Service(Arc<Shared>);

#[derive(Debug)]
struct Shared {
    stop: Arc<AtomicBool>,
    tls_ca: Option<PathBuf>,
    tls: OnceLock<Arc<ClientConfig>>,
    idle: Mutex<Option<(Origin, SendRequest<Outgoing>)>>,
    failure: Mutex<Option<Failure>>,
    /// Grows with everything that comes and goes.
    moved: Arc<AtomicU64>,
    /// Whether the store has said that it encrypts with keys that make ETags of another kind.
    is_encrypted: AtomicBool,
}

#[derive(Clone, Debug, PartialEq, Eq)]
struct Origin {
    is_encrypted: bool,
    host: String,
    port: u16,
}

impl HttpLink {
    /// A link; nothing is connected yet.
    ///
    /// # Errors
    /// When the system has no resources for it.
    pub(crate) fn new(
        destination: &str,
        tls_ca: Option<PathBuf>,
        stop: &Arc<AtomicBool>,
    ) -> Result<HttpLink, ShipError> {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_io().enable_time().build();
        let runtime =
            runtime.map_err(|cause| ShipError::Connection { destination: destination.to_owned(), cause })?;
        let service = Service(Arc::new(Shared {
            stop: stop.clone(),
            tls_ca,
            tls: OnceLock::new(),
            idle: Mutex::new(None),
            failure: Mutex::new(None),
            moved: Arc::default(),
            is_encrypted: AtomicBool::new(false),
        }));
        Ok(HttpLink { runtime, service, destination: destination.to_owned() })
    }

    pub(crate) fn service(&self) -> &Service {
        &self.service
    }

    /// A task that goes on whenever something is waited for.
    pub(crate) fn spawn<T: Send + 'static>(
        &self,
        work: impl Future<Output = T> + Send + 'static,
    ) -> tokio::task::JoinHandle<T> {
        self.runtime.spawn(work)
    }

    /// Waits for something, until the program is to end, or nothing has moved for long.
    ///
    /// # Errors
    /// In these two cases.
    pub(crate) fn wait<T>(&self, work: impl Future<Output = T>) -> Result<T, ShipError> {
        let shared = &self.service.0;
        self.runtime.block_on(async {
            let mut work = pin!(work);
            let (mut moved, mut since) = (shared.moved.load(Ordering::Relaxed), Instant::now());
            loop {
                if let Ok(result) = timeout(CHECK_EVERY, work.as_mut()).await {
                    return Ok(result);
                }
                if shared.stop.load(Ordering::Acquire) {
                    return Err(ShipError::Stopped);
                }
                let now = shared.moved.load(Ordering::Relaxed);
                if now != moved {
                    (moved, since) = (now, Instant::now());
                }
                if since.elapsed() > QUIET {
                    let text = format!("nothing came or went for {} s", QUIET.as_secs());
                    let cause = io::Error::new(io::ErrorKind::TimedOut, text);
                    return Err(ShipError::Connection { destination: self.destination.clone(), cause });
                }
            }
        })
    }

    /// Sends a request and reads the whole answer, which must say that it went well.
    ///
    /// # Errors
    /// In the inner result, when it did not.
    pub(crate) fn ask(
        &self,
        request: Request<Outgoing>,
    ) -> Result<Result<(Parts, Bytes), Failure>, ShipError> {
        self.wait(self.service.ask(request))
    }

    /// What went wrong in the last request that `object_store` has made.
    pub(crate) fn take_failure(&self) -> Option<Failure> {
        self.service.0.failure().take()
    }

    /// Whether ETags of this store are no MD5: it encrypts with keys of its users.
    pub(crate) fn is_encrypted(&self) -> bool {
        self.service.0.is_encrypted.load(Ordering::Relaxed)
    }
}

impl Shared {
    fn failure(&self) -> std::sync::MutexGuard<'_, Option<Failure>> {
        self.failure.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn idle(&self) -> std::sync::MutexGuard<'_, Option<(Origin, SendRequest<Outgoing>)>> {
        self.idle.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn note_encryption(&self, parts: &Parts) {
        let header = |name: &str| parts.headers.get(name).and_then(|value| value.to_str().ok());
        let kms = header("x-amz-server-side-encryption").is_some_and(|kind| kind.contains("kms"));
        if kms || header("x-amz-server-side-encryption-customer-algorithm").is_some() {
            self.is_encrypted.store(true, Ordering::Relaxed);
        }
    }

    fn tls(&self) -> io::Result<Arc<ClientConfig>> {
        if let Some(known) = self.tls.get() {
            return Ok(known.clone());
        }
        let config = client_config(self.tls_ca.as_deref()).map_err(io::Error::other)?;
        Ok(self.tls.get_or_init(|| config).clone())
    }
}

impl Service {
    /// Sends a request; the body of the answer is still to be read.
    ///
    /// # Errors
    /// When there is no answer.
    pub(crate) async fn send(&self, request: Request<Outgoing>) -> Result<Response<Incoming>, Failure> {
        let (origin, mut request) = self.prepare(request).map_err(Failure::Lost)?;
        if let Some(mut sender) = self.take_idle(&origin).await {
            match sender.try_send_request(request).await {
                Ok(response) => return Ok(self.keep(origin, sender, response)),
                Err(mut error) => match error.take_message() {
                    // The store had closed the connection; nothing was sent.
                    Some(unsent) => request = unsent,
                    None => return Err(Failure::Lost(lost(&error.into_error()))),
                },
            }
        }
        let mut sender = self.connect(&origin).await.map_err(Failure::Lost)?;
        let response = sender.send_request(request).await.map_err(|error| Failure::Lost(lost(&error)))?;
        Ok(self.keep(origin, sender, response))
    }

    /// Sends a request and reads the whole answer.
    ///
    /// # Errors
    /// When there is none, or it does not say that all went well.
    pub(crate) async fn ask(&self, request: Request<Outgoing>) -> Result<(Parts, Bytes), Failure> {
        let asked = format!("{} {}", request.method(), request.uri().path());
        let (parts, mut body) = self.send(request).await?.into_parts();
        let mut bytes = Vec::new();
        while let Some(frame) = body.frame().await {
            let data = frame.map_err(|error| Failure::Lost(lost(&error)))?.into_data();
            if let Ok(data) = data {
                if bytes.len() + data.len() > LONGEST_ANSWER {
                    let text = format!("{asked}: an answer of more than {LONGEST_ANSWER} bytes");
                    return Err(Failure::Lost(io::Error::new(io::ErrorKind::InvalidData, text)));
                }
                bytes.extend_from_slice(&data);
            }
        }
        match parts.status.is_success() {
            true => Ok((parts, bytes.into())),
            false => Err(Failure::Answer(Answer::read(asked, parts, &bytes))),
        }
    }

    /// The request as it goes over a connection.
    fn prepare(&self, request: Request<Outgoing>) -> io::Result<(Origin, Request<Outgoing>)> {
        let (mut parts, body) = request.into_parts();
        let origin = Origin::of(&parts.uri)?;
        if !parts.headers.contains_key(HOST) {
            let host = parts.uri.authority().map(|authority| authority.as_str()).unwrap_or_default();
            // A port that everybody knows is left out, as it is in what is signed.
            let host = if origin.has_usual_port() {
                host.trim_end_matches(":80").trim_end_matches(":443")
            } else {
                host
            };
            parts.headers.insert(HOST, HeaderValue::from_str(host).map_err(io::Error::other)?);
        }
        let path = parts.uri.path_and_query().map_or("/", |path| path.as_str());
        parts.uri = path.parse().map_err(io::Error::other)?;
        let body = Counted { body, moved: self.0.moved.clone() }.boxed();
        Ok((origin, Request::from_parts(parts, body)))
    }

    async fn take_idle(&self, origin: &Origin) -> Option<SendRequest<Outgoing>> {
        let (to, mut sender) = self.0.idle().take()?;
        if to != *origin {
            return None;
        }
        let is_ready = timeout(FREE, sender.ready()).await;
        matches!(is_ready, Ok(Ok(()))).then_some(sender)
    }

    fn keep(
        &self,
        origin: Origin,
        sender: SendRequest<Outgoing>,
        response: Response<hyper::body::Incoming>,
    ) -> Response<Incoming> {
        *self.0.idle() = Some((origin, sender));
        response.map(|body| Counted { body, moved: self.0.moved.clone() })
    }

    async fn connect(&self, origin: &Origin) -> io::Result<SendRequest<Outgoing>> {
        let mut last = io::Error::from(io::ErrorKind::NotFound);
        for address in (origin.host.as_str(), origin.port).to_socket_addrs()? {
            match timeout(CONNECT, TcpStream::connect(address)).await {
                Ok(Ok(stream)) => {
                    stream.set_nodelay(true)?;
                    notice_absence(&SockRef::from(&stream))?;
                    if !origin.is_encrypted {
                        return greeted(stream).await;
                    }
                    let (name, config) = (tls::name(&origin.host)?, self.0.tls()?);
                    let stream = timeout(CONNECT, TlsConnector::from(config).connect(name, stream));
                    let stream = stream.await.map_err(|_| not_connected())?;
                    return greeted(stream.map_err(tls::explained)?).await;
                }
                Ok(Err(cause)) => last = cause,
                Err(_) => last = not_connected(),
            }
        }
        Err(last)
    }
}

fn not_connected() -> io::Error {
    let text = format!("not connected within {} s; check address and firewall", CONNECT.as_secs());
    io::Error::new(io::ErrorKind::TimedOut, text)
}

async fn greeted<S>(stream: S) -> io::Result<SendRequest<Outgoing>>
where
    S: AsyncRead + AsyncWrite + Unpin + Send + 'static,
{
    let (sender, connection) = handshake(TokioIo::new(stream)).await.map_err(|error| lost(&error))?;
    tokio::spawn(async move {
        // What goes wrong is the answer to the request that is on its way.
        let _ = connection.await;
    });
    Ok(sender)
}

/// What the system said beneath HTTP, or that there was no whole answer.
fn lost(error: &hyper::Error) -> io::Error {
    let mut source = std::error::Error::source(error);
    while let Some(cause) = source {
        if let Some(cause) = cause.downcast_ref::<io::Error>() {
            return io::Error::new(cause.kind(), cause.to_string());
        }
        source = cause.source();
    }
    match error.is_parse() {
        true => io::Error::new(io::ErrorKind::InvalidData, format!("its answer is not HTTP ({error})")),
        false => io::Error::new(io::ErrorKind::ConnectionAborted, error.to_string()),
    }
}

impl Origin {
    fn of(uri: &Uri) -> io::Result<Origin> {
        let is_encrypted = match uri.scheme_str() {
            Some("https") => true,
            Some("http") => false,
            _ => return Err(io::Error::new(io::ErrorKind::InvalidInput, format!("{uri} is not http"))),
        };
        let host = uri.host().unwrap_or_default().trim_matches(['[', ']']).to_owned();
        let port = uri.port_u16().unwrap_or(if is_encrypted { 443 } else { 80 });
        Ok(Origin { is_encrypted, host, port })
    }

    fn has_usual_port(&self) -> bool {
        self.port == if self.is_encrypted { 443 } else { 80 }
    }
}

/// The body of an answer.
pub(crate) type Incoming = Counted<hyper::body::Incoming>;

/// A body that notes that something moves.
#[derive(Debug)]
pub(crate) struct Counted<B> {
    body: B,
    moved: Arc<AtomicU64>,
}

impl<B: Body + Unpin> Body for Counted<B> {
    type Data = B::Data;
    type Error = B::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<B::Data>, B::Error>>> {
        let polled = Pin::new(&mut self.body).poll_frame(context);
        if polled.is_ready() {
            self.moved.fetch_add(1, Ordering::Relaxed);
        }
        polled
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}

impl HttpService for Service {
    fn call<'s, 'f>(
        &'s self,
        request: HttpRequest,
    ) -> Pin<Box<dyn Future<Output = Result<HttpResponse, HttpError>> + Send + 'f>>
    where
        's: 'f,
        Self: 'f,
    {
        Box::pin(self.answer(request.map(BodyExt::boxed)))
    }
}

impl Service {
    /// The answer for `object_store`; what is wrong is kept, because its errors are texts.
    async fn answer(&self, request: Request<Outgoing>) -> Result<HttpResponse, HttpError> {
        *self.0.failure() = None;
        let asked = format!("{} {}", request.method(), request.uri().path());
        let response = self.send(request).await.map_err(|failure| self.fail(failure))?;
        let (parts, body) = response.into_parts();
        self.0.note_encryption(&parts);
        let service = self.clone();
        let body = body.map_err(move |error| service.fail(Failure::Lost(lost(&error))));
        if parts.status.is_success() {
            return Ok(HttpResponse::from_parts(parts, HttpResponseBody::new(body)));
        }
        let text = http_body_util::Limited::new(body, LONGEST_ANSWER).collect().await;
        let text = text.map(|text| text.to_bytes()).unwrap_or_default();
        *self.0.failure() = Some(Failure::Answer(Answer::read(asked, parts.clone(), &text)));
        let body = Full::new(text).map_err(|never| match never {});
        Ok(HttpResponse::from_parts(parts, HttpResponseBody::new(body)))
    }

    fn fail(&self, failure: Failure) -> HttpError {
        let error = HttpError::new(HttpErrorKind::Request, io::Error::other(failure.to_string()));
        *self.0.failure() = Some(failure);
        error
    }
}
