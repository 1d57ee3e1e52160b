//! Serves an emulated device on a UDP port, a TCP port, or both.
//!
//! ```text
//!  datagrams, one thread ───────────┐
//!  connections, one thread for each ┴─► Device, one packet at a time ─► answer to the sender
//! ```

use std::io::{self, Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream, UdpSocket};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use super::{Bus, Device};
use crate::datagrams::{BUFFER_BYTES, Incoming, Outgoing, coalesce};
use crate::faults::{BadNetwork, Faults};
use crate::wire::{LENGTH_BYTES, frame_bytes};

/// Most open connections; further ones are closed at once.
const MOST_CONNECTIONS: usize = 64;
/// How often threads check whether the server ends.
const POLL: Duration = Duration::from_millis(50);

/// An address that cannot be listened on.
#[derive(Debug, thiserror::Error)]
#[error("{place}: {cause}; choose another port, or stop the process that uses it")]
pub struct ServeError {
    /// The address.
    pub place: SocketAddr,
    /// The error of the operating system.
    pub cause: io::Error,
}

/// Serves a device in the background, until it is dropped.
#[derive(Debug)]
pub struct DeviceServer<B> {
    device: Arc<Mutex<Device<B>>>,
    ending: Arc<AtomicBool>,
    threads: Vec<JoinHandle<()>>,
    udp: Option<SocketAddr>,
    tcp: Option<SocketAddr>,
}

fn lock<B>(device: &Mutex<Device<B>>) -> MutexGuard<'_, Device<B>> {
    // A panic leaves the state of a device usable, so a poisoned lock is used as it is.
    device.lock().unwrap_or_else(PoisonError::into_inner)
}

impl<B: Bus + Send + 'static> DeviceServer<B> {
    /// Serves a device at a UDP address, a TCP address, or both; port 0 lets the system choose.
    ///
    /// # Errors
    /// When an address cannot be listened on.
    pub fn new(
        device: Device<B>,
        udp: Option<SocketAddr>,
        tcp: Option<SocketAddr>,
    ) -> Result<DeviceServer<B>, ServeError> {
        DeviceServer::on_bad_network(device, udp, tcp, (0, Faults::default()))
    }

    /// As [`new`](DeviceServer::new), with faults for the datagrams in both directions, chosen by a seed.
    ///
    /// # Errors
    /// When an address cannot be listened on.
    pub fn on_bad_network(
        device: Device<B>,
        udp: Option<SocketAddr>,
        tcp: Option<SocketAddr>,
        (seed, faults): (u64, Faults),
    ) -> Result<DeviceServer<B>, ServeError> {
        let mut server = DeviceServer {
            device: Arc::new(Mutex::new(device)),
            ending: Arc::new(AtomicBool::new(false)),
            threads: Vec::new(),
            udp: None,
            tcp: None,
        };
        if let Some(place) = udp {
            let failed = |cause| ServeError { place, cause };
            let socket = UdpSocket::bind(place).map_err(failed)?;
            socket.set_read_timeout(Some(POLL)).map_err(failed)?;
            server.udp = Some(socket.local_addr().map_err(failed)?);
            let (device, ending) = (server.device.clone(), server.ending.clone());
            server
                .spawn("ipbus device", move || match faults.is_none() {
                    true => datagrams(&socket, &device, &ending),
                    false => bad_datagrams(&socket, &device, &ending, BadNetwork::new(seed, faults)),
                })
                .map_err(failed)?;
        }
        if let Some(place) = tcp {
            let failed = |cause| ServeError { place, cause };
            let listener = TcpListener::bind(place).map_err(failed)?;
            server.tcp = Some(listener.local_addr().map_err(failed)?);
            listener.set_nonblocking(true).map_err(failed)?;
            let (device, ending) = (server.device.clone(), server.ending.clone());
            server
                .spawn("ipbus listener", move || connections(&listener, &device, &ending))
                .map_err(failed)?;
        }
        Ok(server)
    }

    fn spawn(&mut self, name: &str, work: impl FnOnce() + Send + 'static) -> io::Result<()> {
        self.threads.push(std::thread::Builder::new().name(name.to_owned()).spawn(work)?);
        Ok(())
    }

    /// Its UDP address.
    pub fn udp_address(&self) -> Option<SocketAddr> {
        self.udp
    }

    /// The TCP address on which it listens.
    pub fn tcp_address(&self) -> Option<SocketAddr> {
        self.tcp
    }

    /// The device; while the guard lives, no packet is handled.
    pub fn device(&self) -> MutexGuard<'_, Device<B>> {
        lock(&self.device)
    }
}

impl<B> Drop for DeviceServer<B> {
    fn drop(&mut self) {
        self.ending.store(true, Ordering::Release);
        // The panic of a thread was already reported.
        self.threads.drain(..).for_each(|thread| drop(thread.join()));
    }
}

fn datagrams<B: Bus>(socket: &UdpSocket, device: &Mutex<Device<B>>, ending: &AtomicBool) {
    coalesce(socket);
    let (mut incoming, mut outgoing, mut reply) = (Incoming::default(), Outgoing::default(), Vec::new());
    while !ending.load(Ordering::Acquire) {
        // An error may come from an earlier answer, such as a closed port; serving continues.
        let Ok(from) = incoming.receive(socket) else { continue };
        // A run of requests gets a run of answers. An answer that cannot be sent counts as lost.
        while let Some(packet) = incoming.take() {
            if lock(device).answer(packet, &mut reply) {
                let _ = outgoing.add(&reply, socket, Some(from));
            }
        }
        let _ = outgoing.send(socket, Some(from));
    }
}

/// A delayed datagram: when it is due, its bytes, the client's address, whether it is an answer.
type Delayed = (Instant, Vec<u8>, SocketAddr, bool);

/// As [`datagrams`], through a bad network.
fn bad_datagrams<B: Bus>(
    socket: &UdpSocket,
    device: &Mutex<Device<B>>,
    ending: &AtomicBool,
    mut network: BadNetwork,
) {
    let (mut buffer, mut reply) = (vec![0; BUFFER_BYTES], Vec::new());
    let mut delayed: Vec<Delayed> = Vec::new();
    // Datagrams that are due: received ones, and answers.
    let mut at_once: Vec<(Vec<u8>, SocketAddr, bool)> = Vec::new();
    let mut travel =
        |bytes: &[u8], who: SocketAddr, is_answer: bool, delayed: &mut Vec<Delayed>, at_once: &mut Vec<_>| {
            for delay in network.copies() {
                match delay {
                    None => at_once.push((bytes.to_vec(), who, is_answer)),
                    Some(delay) => delayed.push((Instant::now() + delay, bytes.to_vec(), who, is_answer)),
                }
            }
        };
    while !ending.load(Ordering::Acquire) {
        let now = Instant::now();
        for due in delayed.extract_if(.., |(due, ..)| *due <= now) {
            at_once.push((due.1, due.2, due.3));
        }
        while let Some((bytes, who, is_answer)) = at_once.pop() {
            if is_answer {
                // An answer that cannot be sent counts as lost.
                let _ = socket.send_to(&bytes, who);
            } else if lock(device).answer(&bytes, &mut reply) {
                travel(&reply, who, true, &mut delayed, &mut at_once);
            }
        }
        let next = delayed.iter().map(|(due, ..)| due.saturating_duration_since(now)).min();
        let _ = socket.set_read_timeout(Some(next.unwrap_or(POLL).clamp(Duration::from_micros(10), POLL)));
        // An error may come from an earlier answer, such as a closed port; serving continues.
        if let Ok((count, from)) = socket.recv_from(&mut buffer) {
            travel(&buffer[..count], from, false, &mut delayed, &mut at_once);
        }
    }
}

fn connections<B: Bus + Send + 'static>(
    listener: &TcpListener,
    device: &Arc<Mutex<Device<B>>>,
    ending: &Arc<AtomicBool>,
) {
    let open = Arc::new(AtomicUsize::new(0));
    let mut threads: Vec<JoinHandle<()>> = Vec::new();
    while !ending.load(Ordering::Acquire) {
        let Ok((stream, _)) = listener.accept() else {
            std::thread::sleep(POLL / 10);
            continue;
        };
        threads.retain(|thread| !thread.is_finished());
        if open.load(Ordering::Acquire) >= MOST_CONNECTIONS {
            continue;
        }
        let (device, ending, count) = (device.clone(), ending.clone(), open.clone());
        count.fetch_add(1, Ordering::AcqRel);
        let work = move || {
            // The end of the stream, a reset and invalid data close this connection only.
            let _ = serve(stream, &device, &ending);
            count.fetch_sub(1, Ordering::AcqRel);
        };
        match std::thread::Builder::new().name("ipbus connection".to_owned()).spawn(work) {
            Ok(thread) => threads.push(thread),
            Err(_) => drop(open.fetch_sub(1, Ordering::AcqRel)),
        }
    }
    threads.into_iter().for_each(|thread| drop(thread.join()));
}

fn serve<B: Bus>(mut stream: TcpStream, device: &Mutex<Device<B>>, ending: &AtomicBool) -> io::Result<()> {
    stream.set_nonblocking(false)?;
    stream.set_nodelay(true)?;
    stream.set_read_timeout(Some(POLL))?;
    stream.set_write_timeout(Some(Duration::from_secs(10)))?;
    let most = lock(device).status().buffer_bytes as usize;
    let (mut length, mut packet, mut reply, mut framed) =
        ([0; LENGTH_BYTES], Vec::new(), Vec::new(), Vec::new());
    loop {
        read_whole(&mut stream, &mut length, ending)?;
        let bytes =
            frame_bytes(length, most).map_err(|error| io::Error::new(io::ErrorKind::InvalidData, error))?;
        packet.resize(bytes, 0);
        read_whole(&mut stream, &mut packet, ending)?;
        if lock(device).answer(&packet, &mut reply) {
            framed.clear();
            framed.extend((reply.len() as u32).to_be_bytes());
            framed.extend(&reply);
            stream.write_all(&framed)?;
        }
    }
}

fn read_whole(stream: &mut TcpStream, bytes: &mut [u8], ending: &AtomicBool) -> io::Result<()> {
    let mut have = 0;
    while have < bytes.len() {
        match stream.read(&mut bytes[have..]) {
            Ok(0) => return Err(io::ErrorKind::UnexpectedEof.into()),
            Ok(count) => have += count,
            Err(cause) if matches!(cause.kind(), io::ErrorKind::WouldBlock | io::ErrorKind::TimedOut) => {
                if ending.load(Ordering::Acquire) {
                    return Err(cause);
                }
            }
            Err(cause) if cause.kind() == io::ErrorKind::Interrupted => {}
            Err(cause) => return Err(cause),
        }
    }
    Ok(())
}
