//! A board with ports of its own: control by TCP, data by TCP or UDP (caen-control-protocol).
//!
//! ```text
//!  client ── control port ──► ControlSession ─► BoardCommand ─► the board
//!         ── empty datagram ─► UDP port    ┐
//!         ── connect ────────► TCP port    ┴─► the data thread sends there
//! ```

use std::io::{ErrorKind, Read, Write};
use std::net::{IpAddr, SocketAddr, TcpListener, TcpStream, UdpSocket};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use thalweg_frontend::format::SelfTriggeredSettings;
use thalweg_frontend::self_triggered::{BoardCommand, ControlService};
use thalweg_transport::udp::bind_shared;
use thalweg_transport::{TcpSender, UdpSender};

use super::data::{Pump, send_datagrams};
use super::threads::Threads;
use super::{HostError, Shared};

/// Between two looks at a quiet socket.
const CHECK_EVERY: Duration = Duration::from_millis(20);
/// Between two looks for a client of UDP data, which sends an empty datagram every 10 ms.
const CLIENT_CHECK_EVERY: Duration = Duration::from_millis(1);
/// Clients that one board serves at a time.
const MOST_CLIENTS: usize = 16;

type SharedService = Arc<dyn ControlService>;

/// Opens the ports and starts the threads.
pub(super) fn spawn(
    shared: &Arc<Shared>,
    pump: Pump,
    board: &dyn SelfTriggeredSettings,
    (address, control_port, udp_port): (IpAddr, u16, u16),
) -> Result<Threads, HostError> {
    let listen = |port| {
        let place = SocketAddr::new(address, port);
        let listener = TcpListener::bind(place).map_err(|cause| HostError::Socket { place, cause })?;
        listener.set_nonblocking(true).map_err(|cause| HostError::Socket { place, cause })?;
        Ok::<_, HostError>(listener)
    };
    let control = listen(control_port)?;
    let mut threads = Threads::default();
    let service = |data_port| {
        let service = board.control(data_port).map(SharedService::from).ok_or(HostError::NoControlPort)?;
        Ok::<_, HostError>(shared.control.get_or_init(|| service).clone())
    };
    let service = match board.is_stream() {
        true => {
            let data = listen(0)?;
            let service = service(data.local_addr().map_or(0, |local| local.port()))?;
            threads.spawn("board data", move || serve_tcp(pump, &data))?;
            service
        }
        false => {
            let place = SocketAddr::new(address, udp_port);
            let failed = |cause| HostError::Socket { place, cause };
            let socket = bind_shared(place).map_err(failed)?;
            socket.set_nonblocking(true).map_err(failed)?;
            let service = service(0)?;
            let known = service.clone();
            threads.spawn("board data", move || serve_udp(pump, &socket, place, &*known))?;
            service
        }
    };
    let shared = shared.clone();
    threads.spawn("board control", move || serve_control(&shared, &control, &service))?;
    Ok(threads)
}

fn serve_control(shared: &Arc<Shared>, listener: &TcpListener, service: &SharedService) {
    let clients = Arc::new(AtomicUsize::new(0));
    let mut connections = Threads::default();
    while !shared.is_ending() {
        connections.forget_ended();
        match listener.accept() {
            Ok((stream, _)) if clients.load(Ordering::Acquire) < MOST_CLIENTS => {
                let (board, service, served) = (shared.clone(), service.clone(), clients.clone());
                clients.fetch_add(1, Ordering::AcqRel);
                let work = move || {
                    // A client that breaks off has ended its session; the board goes on.
                    let _broken = converse(&board, stream, &*service);
                    // The next client has to say anew where to stream to.
                    service.udp_client(0);
                    served.fetch_sub(1, Ordering::AcqRel);
                };
                if let Err(error) = connections.spawn("board client", work) {
                    shared.fail(error.to_string());
                }
            }
            Ok((stream, _)) => drop(stream),
            Err(_) => std::thread::sleep(CHECK_EVERY),
        }
    }
    connections.join(&shared.failures);
}

/// One control connection, until the client closes it.
fn converse(shared: &Shared, mut stream: TcpStream, service: &dyn ControlService) -> std::io::Result<()> {
    stream.set_nonblocking(false)?;
    stream.set_nodelay(true)?;
    stream.set_read_timeout(Some(CHECK_EVERY))?;
    stream.set_write_timeout(Some(Duration::from_secs(2)))?;
    let (mut session, mut bytes, mut replies) = (service.session(), vec![0; 16 << 10], Vec::new());
    while !shared.is_ending() {
        let length = match stream.read(&mut bytes) {
            Ok(0) => return Ok(()),
            Ok(length) => length,
            Err(error)
                if matches!(
                    error.kind(),
                    ErrorKind::WouldBlock | ErrorKind::TimedOut | ErrorKind::Interrupted
                ) =>
            {
                continue;
            }
            Err(error) => return Err(error),
        };
        replies.clear();
        let mut perform = |command: &BoardCommand| shared.perform(command);
        let followed = session.receive(&bytes[..length], shared.moment(), &mut perform, &mut replies);
        stream.write_all(&replies)?;
        if followed.is_err() {
            return Ok(());
        }
    }
    Ok(())
}

/// Streams to whoever has connected last: a client that is gone without a word keeps no other one waiting.
fn serve_tcp(mut pump: Pump, listener: &TcpListener) {
    let shared = pump.shared.clone();
    let mut next = None;
    while !shared.is_ending() {
        let Some(stream) = next.take().or_else(|| newest_client(listener)) else {
            std::thread::sleep(CHECK_EVERY);
            continue;
        };
        let Ok(mut sender) = TcpSender::over(stream) else { continue };
        pump.forget_unsent();
        shared.board().connected();
        while !(shared.is_ending() && pump.is_drained()) {
            next = newest_client(listener);
            if next.is_some() || has_left(sender.stream()) {
                break;
            }
            // While a client takes nothing, the next one may come.
            let mut send = |packets: &[&[u8]]| {
                let go_on = || {
                    next = next.take().or_else(|| newest_client(listener));
                    next.is_none() && !shared.is_ending()
                };
                match sender.send(packets, go_on) {
                    Ok(true) => Ok(()),
                    Ok(false) => Err("the client was left".to_owned()),
                    Err(error) => Err(error.to_string()),
                }
            };
            if pump.turn(&mut send).is_err() {
                break;
            }
        }
    }
}

/// The last of those who wait to be served.
fn newest_client(listener: &TcpListener) -> Option<TcpStream> {
    std::iter::from_fn(|| listener.accept().ok()).last().map(|(stream, _)| stream)
}

/// Whether the client has closed its end. What it sends on a data connection means nothing.
fn has_left(mut stream: &TcpStream) -> bool {
    match stream.read(&mut [0; 64]) {
        Ok(length) => length == 0,
        Err(error) => !matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::Interrupted),
    }
}

/// Streams to whoever has sent an empty datagram last.
fn serve_udp(mut pump: Pump, listening: &UdpSocket, place: SocketAddr, service: &dyn ControlService) {
    let shared = pump.shared.clone();
    let mut client: Option<UdpSender> = None;
    // Nobody has listened at the client's port at some time.
    let mut is_refused = false;
    while !(shared.is_ending() && (client.is_none() || pump.is_drained())) {
        // What a client sends that is known comes to the socket that is connected to it.
        let received = client.as_ref().map(|client| client.socket().recv(&mut [0; 64]));
        let again = client.as_ref().map(UdpSender::peer).filter(|_| matches!(received, Some(Ok(_))));
        is_refused |= matches!(received, Some(Err(cause)) if cause.kind() == ErrorKind::ConnectionRefused);
        let sender = last_client(listening).or(again);
        if let Some(to) = sender.filter(|to| client.as_ref().is_none_or(|client| client.peer() != *to)) {
            match UdpSender::open_shared(place, to) {
                Ok(sender) => {
                    shared.board().connected();
                    (client, is_refused) = (Some(sender), false);
                }
                Err(error) => shared.fail(error.to_string()),
            }
        }
        if let (Some(_), Some(client)) = (sender, &client) {
            // Also when it was known: the end of another control connection may have made us forget it.
            service.udp_client(client.peer().port());
        }
        let Some(sender) = &mut client else {
            std::thread::sleep(CLIENT_CHECK_EVERY);
            continue;
        };
        let sent = pump.turn(&mut |datagrams| send_datagrams(sender, datagrams, &shared));
        if sent.is_err() || (is_refused || sender.refused() > 0) && pump.is_drained() {
            // Nobody listens any more.
            service.udp_client(0);
            client = None;
        }
    }
}

/// Who has sent the last of the empty datagrams that have come.
fn last_client(listening: &UdpSocket) -> Option<SocketAddr> {
    std::iter::from_fn(|| listening.recv_from(&mut [0; 64]).ok()).last().map(|(_, from)| from)
}
