//! The server: one thread, one socket, a bounded number of connections.
//!
//! ```text
//!  listener ─► Connections ─► connection ─ TLS? ─► Watched ─► HTTP/1 ─► guard ─► api · metrics · page
//!      └ all places in use: 503 and closed
//! ```
//! What may take time (the experiment's answers, files) is done on a few more threads that the runtime keeps for it.

use std::io::ErrorKind;
use std::net::{SocketAddr, TcpListener};
use std::sync::Arc;
use std::thread::JoinHandle;
use std::time::Duration;

use axum::Router;
use futures_util::future::select;
use hyper::body::Body;
use hyper::server::conn::http1;
use hyper::service::{Service, service_fn};
use hyper_util::rt::{TokioIo, TokioTimer};
use hyper_util::service::TowerToHyperService;
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::runtime::{Builder, Runtime};
use tokio::sync::{Semaphore, oneshot};
use tokio_rustls::TlsAcceptor;

use crate::api::{Shared, router};
use crate::connections::{Connection, Connections};
use crate::error::MonitorError;
use crate::experiment::Experiment;
use crate::guard::Guard;
use crate::settings::Settings;
use crate::stall::Watched;

/// A request's head must come within this time; a connection that asks nothing is closed after it.
const HEAD_WITHIN: Duration = Duration::from_secs(20);
/// And within this while half of all connections are taken.
const HEAD_WITHIN_CROWD: Duration = Duration::from_secs(2);
/// And a TLS handshake within this.
const HANDSHAKE_WITHIN: Duration = Duration::from_secs(5);
/// Longest head of a request, bytes.
const LONGEST_HEAD: usize = 32 << 10;
/// What the kernel keeps for one who reads slowly, bytes.
const SEND_BUFFER: usize = 512 << 10;
/// Connections beyond the limit that are refused with an answer at once; the others are closed.
const MOST_REFUSALS: usize = 32;
/// Threads for what takes time: more than may be asked for at once, so that the state is never behind them.
const THREADS: usize = 16;

/// The page, as long as this lives.
#[derive(Debug)]
pub struct Monitor {
    address: SocketAddr,
    is_secure: bool,
    _serving: Serving,
}

/// A server's thread; it ends when this is dropped.
#[derive(Debug)]
pub(crate) struct Serving {
    stop: Option<oneshot::Sender<()>>,
    thread: Option<JoinHandle<()>>,
}

impl Monitor {
    /// Serves the page until the monitor is dropped.
    ///
    /// # Errors
    /// When the settings are invalid, certificate or token cannot be read, or the address cannot be listened at.
    pub fn start(settings: &Settings, experiment: Arc<dyn Experiment>) -> Result<Monitor, MonitorError> {
        let checked = settings.checked()?;
        let tls = match &checked.tls {
            Some((certificate, key)) => Some(crate::tls::acceptor(certificate, key)?),
            None => None,
        };
        let listener = match listen(settings.given_by, checked.address) {
            // Asked only when it is taken: who looks before may be overtaken.
            Err(MonitorError::Busy { address, .. }) if settings.or_any_port => {
                listen(settings.given_by, SocketAddr::new(address.ip(), 0))?
            }
            listener => listener?,
        };
        let address = listener.local_addr().unwrap_or(checked.address);
        let guard = Guard {
            token: checked.token,
            is_loopback: address.ip().is_loopback(),
            is_secure: tls.is_some(),
            port: address.port(),
            hosts: settings.hosts.clone(),
        };
        let is_secure = tls.is_some();
        let shared = Shared::new(experiment, guard, settings);
        let counting = shared.clone();
        let server = Server {
            router: router(shared.clone()),
            on_refused: Box::new(move || counting.traffic.refused_connection()),
            tls,
            stall: Duration::from_secs_f64(settings.stall_s),
            connections: Connections::new(settings.connections),
            refusals: Arc::new(Semaphore::new(MOST_REFUSALS)),
        };
        let serving = server.start(listener, async move { shared.hub.tick().await })?;
        Ok(Monitor { address, is_secure, _serving: serving })
    }

    /// Where it is: to be shown, and opened in a browser on this host.
    pub fn url(&self) -> String {
        let scheme = if self.is_secure { "https" } else { "http" };
        match self.address.ip().is_unspecified() {
            true => format!("{scheme}://localhost:{}/", self.address.port()),
            false => format!("{scheme}://{}/", self.address),
        }
    }

    /// Address and port that are listened at.
    pub fn address(&self) -> SocketAddr {
        self.address
    }
}

impl Drop for Serving {
    fn drop(&mut self) {
        // The thread is gone if it does not receive this.
        let _ = self.stop.take().map(|stop| stop.send(()));
        if self.thread.take().is_some_and(|thread| thread.join().is_err()) {
            tracing::error!("the page's thread had failed");
        }
    }
}

pub(crate) fn listen(given_by: &'static str, address: SocketAddr) -> Result<TcpListener, MonitorError> {
    let open = || {
        let domain = socket2::Domain::for_address(address);
        let socket = socket2::Socket::new(domain, socket2::Type::STREAM, Some(socket2::Protocol::TCP))?;
        socket.set_reuse_address(true)?;
        // Inherited by every connection.
        socket.set_send_buffer_size(SEND_BUFFER)?;
        socket.bind(&address.into())?;
        socket.listen(128)?;
        socket.set_nonblocking(true)?;
        Ok(socket.into())
    };
    open().map_err(|cause: std::io::Error| match cause.kind() {
        ErrorKind::AddrInUse => MonitorError::Busy { given_by, address },
        _ => MonitorError::Listen { given_by, address, cause },
    })
}

/// What is served, to how many, and how slow they may be.
struct Server {
    router: Router,
    /// Counts a connection for which there was no place.
    on_refused: Box<dyn Fn() + Send + Sync>,
    tls: Option<TlsAcceptor>,
    stall: Duration,
    connections: Arc<Connections>,
    refusals: Arc<Semaphore>,
}

/// Serves a router over plain HTTP, with the usual limits, until what is returned is dropped.
pub(crate) fn serve_plainly(listener: TcpListener, router: Router) -> Result<Serving, MonitorError> {
    let settings = Settings::default();
    let server = Server {
        router,
        on_refused: Box::new(|| {}),
        tls: None,
        stall: Duration::from_secs_f64(settings.stall_s),
        connections: Connections::new(settings.connections),
        refusals: Arc::new(Semaphore::new(MOST_REFUSALS)),
    };
    server.start(listener, std::future::ready(()))
}

impl Server {
    /// Serves on a thread of its own, with something else going on beside.
    fn start(
        self,
        listener: TcpListener,
        beside: impl Future<Output = ()> + Send + 'static,
    ) -> Result<Serving, MonitorError> {
        let runtime = Builder::new_current_thread()
            .enable_all()
            .max_blocking_threads(THREADS)
            .thread_keep_alive(Duration::from_secs(10))
            .thread_name("monitor-asks")
            .build()
            .map_err(MonitorError::Thread)?;
        let (stop, stopped) = oneshot::channel();
        let thread = std::thread::Builder::new()
            .name("monitor".to_owned())
            .spawn(move || serve(runtime, self, listener, beside, stopped))
            .map_err(MonitorError::Thread)?;
        Ok(Serving { stop: Some(stop), thread: Some(thread) })
    }
}

fn serve(
    runtime: Runtime,
    server: Server,
    listener: TcpListener,
    beside: impl Future<Output = ()> + Send + 'static,
    stopped: oneshot::Receiver<()>,
) {
    runtime.block_on(async move {
        let listener = match tokio::net::TcpListener::from_std(listener) {
            Ok(listener) => listener,
            Err(cause) => return tracing::error!("the page's socket is not usable: {cause}"),
        };
        let beside = tokio::spawn(beside);
        let accepting = std::pin::pin!(accept(server, listener));
        // Either the word to stop, or the end of the one who would say it.
        select(accepting, stopped).await;
        beside.abort();
    });
    // What still asks a disk or the experiment is not waited for.
    runtime.shutdown_background();
}

async fn accept(server: Server, listener: tokio::net::TcpListener) {
    let mut has_warned = false;
    loop {
        let (stream, from) = match listener.accept().await {
            Ok(accepted) => accepted,
            Err(cause) => {
                // As when no file descriptor is left: those who have one give it back some time.
                if !std::mem::replace(&mut has_warned, true) {
                    tracing::warn!("the page cannot take connections: {cause}; it goes on trying");
                }
                tokio::time::sleep(Duration::from_millis(100)).await;
                continue;
            }
        };
        if std::mem::take(&mut has_warned) {
            tracing::info!("the page takes connections again");
        }
        let is_crowded = server.connections.is_crowded();
        let Some(place) = server.connections.admit(from.ip()) else {
            (server.on_refused)();
            if let (Ok(place), None) = (server.refusals.clone().try_acquire_owned(), &server.tls) {
                tokio::spawn(async move {
                    let _ = tokio::time::timeout(Duration::from_millis(500), answer_full(stream)).await;
                    drop(place);
                });
            }
            continue;
        };
        let head_within = if is_crowded { HEAD_WITHIN_CROWD } else { HEAD_WITHIN };
        let speaker = Speaker { router: server.router.clone(), stall: server.stall, head_within, place };
        let tls = server.tls.clone();
        tokio::spawn(async move {
            let speaking = std::pin::pin!(speaker.connection(stream, tls));
            let evicted = std::pin::pin!(speaker.place.evicted());
            select(speaking, evicted).await;
        });
    }
}

/// Speaks HTTP on one connection.
struct Speaker {
    router: Router,
    stall: Duration,
    head_within: Duration,
    place: Connection,
}

impl Speaker {
    async fn connection(&self, stream: TcpStream, tls: Option<TlsAcceptor>) {
        // Without it small answers wait for acknowledgements; with neither, the page still works.
        let _ = stream.set_nodelay(true);
        match tls {
            None => self.speak(stream).await,
            Some(tls) => {
                if let Ok(Ok(stream)) = tokio::time::timeout(HANDSHAKE_WITHIN, tls.accept(stream)).await {
                    self.speak(stream).await;
                }
            }
        }
    }

    async fn speak<S: AsyncRead + AsyncWrite + Unpin + Send + 'static>(&self, stream: S) {
        let io = TokioIo::new(Watched::new(stream, self.stall));
        let (requests, router) = (self.place.requests(), TowerToHyperService::new(self.router.clone()));
        let service = service_fn(move |mut request: hyper::Request<hyper::body::Incoming>| {
            // One with a body has come whole when that is read.
            if request.body().is_end_stream() {
                requests.came_whole();
            }
            request.extensions_mut().insert(requests.clone());
            let (answering, requests) = (router.call(request), requests.clone());
            async move { answering.await.map(|response| response.map(|body| requests.answer(body))) }
        });
        let mut http = http1::Builder::new();
        http.timer(TokioTimer::new()).header_read_timeout(self.head_within).max_buf_size(LONGEST_HEAD);
        // Whatever ends a connection is the other end's affair.
        let _ = http.serve_connection(io, service).await;
    }
}

/// Says that there is no place, to one who has asked.
async fn answer_full(mut stream: TcpStream) -> std::io::Result<()> {
    const BODY: &str = r#"{"error":"all connections are taken","advice":"close pages that are not looked at, or raise [monitor] connections"}"#;
    // What was asked is read, so that closing does not take the answer back.
    let _read = stream.read(&mut [0; 4096]).await?;
    let head = format!(
        "HTTP/1.1 503 Service Unavailable\r\ncontent-type: application/json\r\ncontent-length: {}\r\nconnection: close\r\n\r\n",
        BODY.len()
    );
    stream.write_all(head.as_bytes()).await?;
    stream.write_all(BODY.as_bytes()).await?;
    stream.shutdown().await
}
