//! The way to a board's control port, of any family.
//!
//! ```text
//!  BoardPlace ─ connect ─► Channel: a stream, or datagrams ─ ControlEntry of the family ─► BoardControl
//! ```

use std::io::{Error, ErrorKind, Read, Write};
use std::net::{SocketAddr, TcpStream, UdpSocket};
use std::time::{Duration, Instant};

use thalweg_data::{BoardStatus, ControlError, DeviceControl, Parameter};
use thalweg_frontend::format::{BoardControl, ControlChannel, ControlEntry, ControlTransport};

/// A board that accepts no request within this is gone.
const SEND_WAIT: Duration = Duration::from_secs(10);
/// The shortest wait of a socket.
const LEAST_WAIT: Duration = Duration::from_micros(100);

/// Empty datagrams are sent this often.
const INTRODUCTION_STEP: Duration = Duration::from_millis(10);
/// After so many, what the board says is about us.
const SETTLED_ROUNDS: u32 = 10;
/// Longest datagram of an answer, and most bytes of a stream that are taken at once.
const MOST_BYTES: usize = 4096;

/// Where a board is controlled, and in which protocol.
#[derive(Clone, Copy, Debug)]
pub struct BoardPlace {
    /// The protocol, of the board's family.
    pub entry: &'static ControlEntry,
    /// Its control port.
    pub address: SocketAddr,
}

/// A running board may first send what it has measured.
const DISARM_WITHIN: Duration = Duration::from_secs(5);
const DISARM_EVERY: Duration = Duration::from_millis(200);

/// Makes a board idle that a program has left armed or running. Returns what it reports then, which is that it runs if it does not stop; `None`
/// of a board that reports nothing of that, to which nothing is done.
///
/// # Errors
/// When it does not answer, or refuses.
pub fn make_idle(control: &mut dyn DeviceControl) -> Result<Option<BoardStatus>, ControlError> {
    let until = Instant::now() + DISARM_WITHIN;
    let mut reported = control.status();
    while reported.is_some() {
        control.disarm()?;
        reported = control.status();
        if !reported.as_ref().is_some_and(|status| status.is_running) || Instant::now() >= until {
            break;
        }
        std::thread::sleep(DISARM_EVERY);
    }
    Ok(reported)
}

impl std::fmt::Display for BoardPlace {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}://{}", self.entry.scheme, self.address)
    }
}

impl BoardPlace {
    /// Opens the way to the control port. A stream is connected within `wait`; of datagrams, none is sent yet.
    ///
    /// # Errors
    /// When it cannot be reached.
    pub fn connect(self, wait: Duration) -> Result<Box<dyn ControlChannel>, ControlError> {
        let opened = match self.entry.transport {
            ControlTransport::Stream => connected_stream(self.address, wait).map(Socket::Stream).map_err(|cause| {
                format!("no control connection: {cause}; check address, cable and that no other program holds it")
            }),
            ControlTransport::Datagrams => connected_socket(self.address)
                .map(Socket::Datagrams)
                .map_err(|cause| format!("no route leads there: {cause}; check address and interface")),
        };
        let socket = opened.map_err(|message| self.failed(message))?;
        Ok(Box::new(Channel {
            place: self.to_string(),
            socket,
            start: Instant::now(),
            bytes: [0; MOST_BYTES],
        }))
    }

    /// Opens the board.
    ///
    /// # Errors
    /// When it cannot be reached, does not answer, or is not of the family.
    pub fn open(self, wait: Duration) -> Result<Box<dyn BoardControl>, ControlError> {
        self.entry.open(self.connect(wait)?)
    }

    /// Opens the board for a run. Nothing of it is changed.
    ///
    /// # Errors
    /// As of `open`, and when another program has armed or started it: its data would go astray.
    pub(crate) fn open_idle(self, wait: Duration) -> Result<Box<dyn BoardControl>, ControlError> {
        let mut board = self.open(wait)?;
        board.check_idle()?;
        Ok(board)
    }

    /// Sends empty datagrams from our data port until the board says that it knows where to stream.
    ///
    /// # Errors
    /// When it does not say so within `wait`.
    pub(crate) fn introduce(
        self,
        board: &mut dyn BoardControl,
        own_port: u16,
        mut send_empty: impl FnMut() -> Result<(), String>,
        wait: Duration,
    ) -> Result<(), ControlError> {
        let deadline = Instant::now() + wait;
        for round in 0.. {
            send_empty().map_err(|message| self.failed(message))?;
            if board.knows_receiver(own_port, round >= SETTLED_ROUNDS)? {
                break;
            }
            if Instant::now() >= deadline {
                let message = "the board did not see our datagrams; is its 10 GbE port on this network, and UDP let through?";
                return Err(self.failed(message.to_owned()));
            }
            std::thread::sleep(INTRODUCTION_STEP);
        }
        Ok(())
    }

    pub(crate) fn failed(self, message: String) -> ControlError {
        ControlError { board: self.to_string(), message }
    }
}

struct Channel {
    place: String,
    socket: Socket,
    start: Instant,
    bytes: [u8; MOST_BYTES],
}

enum Socket {
    Stream(TcpStream),
    Datagrams(UdpSocket),
}

fn connected_stream(address: SocketAddr, wait: Duration) -> std::io::Result<TcpStream> {
    let stream = TcpStream::connect_timeout(&address, wait)?;
    stream.set_nodelay(true)?;
    stream.set_write_timeout(Some(SEND_WAIT))?;
    Ok(stream)
}

fn connected_socket(address: SocketAddr) -> std::io::Result<UdpSocket> {
    let socket = UdpSocket::bind(local_address_towards(address)?)?;
    socket.connect(address)?;
    Ok(socket)
}

impl Channel {
    fn take(&mut self, wait: Duration) -> std::io::Result<usize> {
        match &mut self.socket {
            Socket::Stream(stream) => {
                stream.set_read_timeout(Some(wait))?;
                stream.read(&mut self.bytes)
            }
            Socket::Datagrams(socket) => {
                socket.set_read_timeout(Some(wait))?;
                socket.recv(&mut self.bytes)
            }
        }
    }
}

impl ControlChannel for Channel {
    fn place(&self) -> &str {
        &self.place
    }

    fn now_ns(&self) -> u64 {
        self.start.elapsed().as_nanos() as u64
    }

    fn send(&mut self, bytes: &[u8]) -> Result<(), String> {
        let sent = match &mut self.socket {
            Socket::Stream(stream) => stream.write_all(bytes),
            Socket::Datagrams(socket) => socket.send(bytes).map(drop),
        };
        sent.map_err(|cause| cause.to_string())
    }

    fn receive(&mut self, wait: Duration) -> Result<Option<&[u8]>, String> {
        let wait = wait.max(LEAST_WAIT);
        let is_stream = matches!(self.socket, Socket::Stream(_));
        match self.take(wait) {
            Ok(0) if is_stream => Err("the board closed the connection".to_owned()),
            Ok(length) => Ok(Some(&self.bytes[..length])),
            Err(cause) if is_silence(&cause) => Ok(None),
            // Nobody listens: the board may be starting, so that its family goes on asking, at its times.
            Err(cause) if !is_stream && cause.kind() == ErrorKind::ConnectionRefused => {
                std::thread::sleep(wait);
                Ok(None)
            }
            Err(cause) => Err(cause.to_string()),
        }
    }

    fn pause(&mut self, wait: Duration) {
        std::thread::sleep(wait);
    }
}

fn is_silence(cause: &Error) -> bool {
    matches!(cause.kind(), ErrorKind::WouldBlock | ErrorKind::TimedOut | ErrorKind::Interrupted)
}

/// The local address from which `towards` is reached, with any port.
///
/// # Errors
/// When no route leads there.
pub(crate) fn local_address_towards(towards: SocketAddr) -> std::io::Result<SocketAddr> {
    let any: SocketAddr = if towards.is_ipv4() { ([0, 0, 0, 0], 0).into() } else { ([0u16; 8], 0).into() };
    let socket = UdpSocket::bind(any)?;
    socket.connect(towards)?;
    Ok(SocketAddr::new(socket.local_addr()?.ip(), 0))
}

/// A board whose parameters are set when it is armed.
pub(crate) struct SetWhenArmed {
    control: Box<dyn BoardControl>,
    parameters: Vec<(String, String)>,
}

impl SetWhenArmed {
    /// # Errors
    /// When a parameter cannot be set to its value.
    pub(crate) fn new(
        mut control: Box<dyn BoardControl>,
        parameters: Vec<(String, String)>,
    ) -> Result<SetWhenArmed, ControlError> {
        control.check_all(&parameters)?;
        Ok(SetWhenArmed { control, parameters })
    }
}

impl DeviceControl for SetWhenArmed {
    fn get(&mut self, path: &str) -> Result<String, ControlError> {
        self.control.get(path)
    }

    fn set(&mut self, path: &str, value: &str) -> Result<(), ControlError> {
        self.control.set(path, value)
    }

    fn is_readable(&mut self, path: &str) -> bool {
        self.control.is_readable(path)
    }

    fn list(&mut self) -> Result<Vec<Parameter>, ControlError> {
        self.control.list()
    }

    fn arm(&mut self) -> Result<(), ControlError> {
        self.control.prepare(&self.parameters)?;
        self.control.arm()
    }

    fn start_signal(&mut self) -> Option<String> {
        self.control.start_signal()
    }

    fn status(&mut self) -> Option<BoardStatus> {
        self.control.status()
    }

    fn start(&mut self) -> Result<(), ControlError> {
        self.control.start()
    }

    fn stop(&mut self) -> Result<(), ControlError> {
        self.control.stop()
    }

    fn disarm(&mut self) -> Result<(), ControlError> {
        self.control.disarm()
    }

    fn service(&mut self) -> Option<String> {
        self.control.service()
    }
}
