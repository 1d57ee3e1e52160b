//! The way to a board's control port, of any family.
//!
//! ```text
//!  ControlEntry (of the family) ─ connect ─► StreamChannel | DatagramChannel ─► BoardControl (of the family)
//! ```

use std::io::{Error, ErrorKind, Read, Write};
use std::net::{SocketAddr, TcpStream, UdpSocket};
use std::time::{Duration, Instant};

use thalweg_data::{ControlError, DeviceControl, Parameter};
use thalweg_frontend::format::{BoardControl, ControlChannel, ControlEntry, ControlTransport};

/// A board that accepts no request within this is gone.
const SEND_WAIT: Duration = Duration::from_secs(10);
/// The shortest wait of a socket.
const LEAST_WAIT: Duration = Duration::from_micros(100);

/// Opens the way to a board's control port. A stream is connected within `wait`; of datagrams, none is sent yet.
///
/// # Errors
/// When it cannot be reached.
pub fn connect(
    entry: &ControlEntry,
    address: SocketAddr,
    wait: Duration,
) -> Result<Box<dyn ControlChannel>, ControlError> {
    let place = format!("{}://{address}", entry.scheme);
    let failed = |message: String| ControlError { board: place.clone(), message };
    match entry.transport {
        ControlTransport::Stream => match StreamChannel::connect(&place, address, wait) {
            Ok(channel) => Ok(Box::new(channel)),
            Err(cause) => Err(failed(format!(
                "no control connection: {cause}; check address, cable and that no other program holds it"
            ))),
        },
        ControlTransport::Datagrams => match DatagramChannel::connect(&place, address) {
            Ok(channel) => Ok(Box::new(channel)),
            Err(cause) => Err(failed(format!("no route leads there: {cause}; check address and interface"))),
        },
    }
}

/// Opens a board at its control port.
///
/// # Errors
/// When it cannot be reached, does not answer, or is not of the family.
pub fn open(
    entry: &ControlEntry,
    address: SocketAddr,
    wait: Duration,
) -> Result<Box<dyn BoardControl>, ControlError> {
    entry.open(connect(entry, address, wait)?)
}

struct StreamChannel {
    place: String,
    stream: TcpStream,
    start: Instant,
    bytes: [u8; 4096],
}

impl StreamChannel {
    fn connect(place: &str, address: SocketAddr, wait: Duration) -> std::io::Result<StreamChannel> {
        let stream = TcpStream::connect_timeout(&address, wait)?;
        stream.set_nodelay(true)?;
        stream.set_write_timeout(Some(SEND_WAIT))?;
        Ok(StreamChannel { place: place.to_owned(), stream, start: Instant::now(), bytes: [0; 4096] })
    }
}

impl ControlChannel for StreamChannel {
    fn place(&self) -> &str {
        &self.place
    }

    fn now_ns(&self) -> u64 {
        self.start.elapsed().as_nanos() as u64
    }

    fn send(&mut self, bytes: &[u8]) -> Result<(), String> {
        self.stream.write_all(bytes).map_err(|cause| cause.to_string())
    }

    fn receive(&mut self, wait: Duration) -> Result<Option<&[u8]>, String> {
        let set = self.stream.set_read_timeout(Some(wait.max(LEAST_WAIT)));
        set.map_err(|cause| cause.to_string())?;
        match self.stream.read(&mut self.bytes) {
            Ok(0) => Err("the board closed the connection".to_owned()),
            Ok(length) => Ok(Some(&self.bytes[..length])),
            Err(cause) if is_silence(&cause) => Ok(None),
            Err(cause) => Err(cause.to_string()),
        }
    }
}

struct DatagramChannel {
    place: String,
    socket: UdpSocket,
    start: Instant,
    datagram: [u8; 512],
}

impl DatagramChannel {
    fn connect(place: &str, address: SocketAddr) -> std::io::Result<DatagramChannel> {
        let socket = UdpSocket::bind(local_address_towards(address)?)?;
        socket.connect(address)?;
        Ok(DatagramChannel { place: place.to_owned(), socket, start: Instant::now(), datagram: [0; 512] })
    }
}

impl ControlChannel for DatagramChannel {
    fn place(&self) -> &str {
        &self.place
    }

    fn now_ns(&self) -> u64 {
        self.start.elapsed().as_nanos() as u64
    }

    fn send(&mut self, bytes: &[u8]) -> Result<(), String> {
        self.socket.send(bytes).map(drop).map_err(|cause| cause.to_string())
    }

    fn receive(&mut self, wait: Duration) -> Result<Option<&[u8]>, String> {
        let wait = wait.max(LEAST_WAIT);
        self.socket.set_read_timeout(Some(wait)).map_err(|cause| cause.to_string())?;
        match self.socket.recv(&mut self.datagram) {
            Ok(length) => Ok(Some(&self.datagram[..length])),
            Err(cause) if is_silence(&cause) => Ok(None),
            // Nobody listens: the board may be starting, so that its family goes on asking, at its times.
            Err(cause) if cause.kind() == ErrorKind::ConnectionRefused => {
                std::thread::sleep(wait);
                Ok(None)
            }
            Err(cause) => Err(cause.to_string()),
        }
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
        control: Box<dyn BoardControl>,
        parameters: Vec<(String, String)>,
    ) -> Result<SetWhenArmed, ControlError> {
        for (path, value) in &parameters {
            control.check(path, value).map_err(|error| ControlError {
                message: format!("parameter `{path}`: {}", error.message),
                ..error
            })?;
        }
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
