//! An x27xx board driven over its own control protocol, without any vendor library.
//!
//! ```text
//!  Board::open ─ connect, look for the raw endpoint ─► DataPort
//!  Board: get, set, arm, start, stop, disarm           one request, one reply, over TCP
//!  UDP data: empty datagrams until the board knows whom to stream to
//! ```

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream, UdpSocket};
use std::time::{Duration, Instant};

use thalweg_data::{ControlError, DeviceControl, Parameter};
use thalweg_frontend::digitizer2::control::{
    BoardInfo, Client, Opening, Reply, Request, UDP_READY_REGISTER, Verb, parameters_of,
};
use thalweg_frontend::format::BoardFacts;

/// A board that does not answer a request within this is gone.
const REPLY_WAIT: Duration = Duration::from_secs(10);
/// A running board that does not answer within this is gone.
const KEEP_ALIVE_WAIT: Duration = Duration::from_secs(3);
/// Empty datagrams are sent this often.
const INTRODUCTION_STEP: Duration = Duration::from_millis(10);
/// After so many, what the board says is about us.
const SETTLED_ROUNDS: u32 = 10;

/// The control connection of one board.
pub struct Board {
    connection: Connection,
    info: BoardInfo,
    /// Armed by us and not disarmed since.
    armed: bool,
}

struct Connection {
    address: SocketAddr,
    stream: TcpStream,
    client: Client,
    bytes: Vec<u8>,
}

impl Connection {
    fn failed(&self, message: impl ToString) -> ControlError {
        ControlError { board: format!("dig2://{}", self.address), message: message.to_string() }
    }

    fn ask(&mut self, request: &Request) -> Result<Reply, ControlError> {
        self.bytes.clear();
        self.client.request(request, &mut self.bytes);
        let about = format!("`{}` `{}`", request.cmd, request.query);
        self.stream.write_all(&self.bytes).map_err(|cause| {
            self.failed(format!("{about} could not be sent: {cause}; is the board still on?"))
        })?;
        let deadline = Instant::now() + REPLY_WAIT;
        let mut chunk = [0; 4096];
        loop {
            let length = match self.stream.read(&mut chunk) {
                Ok(0) => return Err(self.failed(format!("the board closed the connection at {about}"))),
                Ok(length) => length,
                Err(cause) if cause.kind() == std::io::ErrorKind::Interrupted => 0,
                Err(cause) => return Err(self.failed(format!("no reply to {about}: {cause}"))),
            };
            match self.client.receive(request, &chunk[..length]) {
                Ok(Some(reply)) => return Ok(reply),
                Ok(None) if Instant::now() < deadline => {}
                Ok(None) => return Err(self.failed(format!("no whole reply to {about} within 10 s"))),
                Err(error) => return Err(self.failed(error)),
            }
        }
    }
}

impl Board {
    /// Opens the board at its control port and asks what must be known.
    ///
    /// # Errors
    /// When it cannot be reached, or is not such a board.
    pub fn open(address: SocketAddr, wait: Duration) -> Result<Board, ControlError> {
        let failed = |cause: std::io::Error| ControlError {
            board: format!("dig2://{address}"),
            message: format!(
                "no control connection: {cause}; check address, cable and that no other program holds it"
            ),
        };
        let stream = TcpStream::connect_timeout(&address, wait).map_err(failed)?;
        stream.set_nodelay(true).map_err(failed)?;
        stream.set_read_timeout(Some(REPLY_WAIT)).map_err(failed)?;
        stream.set_write_timeout(Some(REPLY_WAIT)).map_err(failed)?;
        let mut connection = Connection { address, stream, client: Client::default(), bytes: Vec::new() };
        let mut opening = Opening::default();
        while let Some(request) = opening.next_request() {
            let reply = connection.ask(&request)?;
            opening.take(&reply).map_err(|error| connection.failed(error))?;
        }
        let info = opening
            .finish()
            .ok_or_else(|| connection.failed("the board reported too little about itself"))?;
        Ok(Board { connection, info, armed: false })
    }

    /// Returns the facts that the board reported when it was opened.
    pub fn info(&self) -> &BoardInfo {
        &self.info
    }

    /// What the board is. A name or a number that it does not report stays empty.
    ///
    /// `parameters` are those that will be set before the run: what they change of the waveforms is not known before.
    pub fn facts(&mut self, parameters: &[(String, String)]) -> BoardFacts {
        let mut text = |path| self.get(path).unwrap_or_default();
        let (model, serial) = (text("/par/modelname"), text("/par/serialnum"));
        let facts = self.info.facts(model, serial);
        let changes = |word: &str| parameters.iter().any(|(path, _)| path.to_lowercase().contains(word));
        BoardFacts {
            decimation: if changes("decimation") { None } else { self.number("/par/decimationfactor") },
            samples_before_trigger: if changes("pretrigger") { None } else { self.samples_before_trigger() },
            ..facts
        }
    }

    /// Samples before the trigger, if they are the same for all channels. Not asked for longer than until the first channel that
    /// differs, or does not say.
    fn samples_before_trigger(&mut self) -> Option<u32> {
        let paths = self.info.before_trigger_paths();
        let first = self.number(paths.first()?)?;
        paths[1..].iter().all(|path| self.number(path) == Some(first)).then_some(first)
    }

    /// The value of a parameter that is a whole number; `None` of one that is not, or that the board does not have.
    fn number(&mut self, path: &str) -> Option<u32> {
        let number: f64 = self.get(path).ok()?.trim().parse().ok()?;
        (number.fract() == 0.0 && (0.0..=f64::from(u32::MAX)).contains(&number)).then_some(number as u32)
    }

    /// Returns the address of the board's control port.
    pub(crate) fn address(&self) -> SocketAddr {
        self.connection.address
    }

    /// Asks for something that every board knows, to learn whether it is there.
    ///
    /// # Errors
    /// When it does not answer within a few seconds, or the connection is gone.
    pub(crate) fn keep_alive(&mut self) -> Result<(), ControlError> {
        let patience = |board: &Board, wait| board.connection.stream.set_read_timeout(Some(wait));
        patience(self, KEEP_ALIVE_WAIT).map_err(|cause| self.connection.failed(cause))?;
        let answered = self.get("/par/numch").map(drop);
        patience(self, REPLY_WAIT).map_err(|cause| self.connection.failed(cause))?;
        answered
    }

    /// Lets go of a board that does not answer, without a word to it.
    pub(crate) fn abandon(mut self) {
        self.armed = false;
    }

    /// Sends empty datagrams from our data port until the board says that it knows where to stream.
    ///
    /// # Errors
    /// When it does not say so within `wait`.
    pub fn introduce(
        &mut self,
        own_port: u16,
        mut send_empty: impl FnMut() -> Result<(), String>,
        wait: Duration,
    ) -> Result<(), ControlError> {
        let request = Request {
            value: UDP_READY_REGISTER.to_owned(),
            ..Request::get(self.info.root, "/par/registermisc")
        };
        let own_port = own_port.to_string();
        let deadline = Instant::now() + wait;
        for round in 0.. {
            send_empty().map_err(|error| self.connection.failed(error))?;
            let reply = self.connection.ask(&request)?;
            match reply.value.first() {
                Some(port) if *port == own_port => return Ok(()),
                // All that is documented is "not 0"; but at first this may still mean the client before us.
                Some(known) if known != "0" && round >= SETTLED_ROUNDS => return Ok(()),
                _ => {}
            }
            if Instant::now() >= deadline {
                return Err(self.connection.failed(
                    "the board did not see our datagrams; is its 10 GbE port on this network, and UDP let through?",
                ));
            }
            std::thread::sleep(INTRODUCTION_STEP);
        }
        Ok(())
    }

    /// Selects undecoded data and sets the configured parameters, in order.
    ///
    /// # Errors
    /// When the board refuses one.
    pub fn prepare(&mut self, parameters: &[(String, String)]) -> Result<(), ControlError> {
        let raw =
            self.info.endpoints.iter().map(|(name, _)| name.as_str()).find(|name| name.starts_with("raw"));
        if let Some(raw) = raw.map(str::to_owned) {
            self.set("/endpoint/par/activeendpoint", &raw)?;
        }
        parameters.iter().try_for_each(|(path, value)| self.set(path, value))
    }

    fn command(&mut self, path: &str) -> Result<(), ControlError> {
        self.connection.ask(&Request::command(self.info.root, path)).map(drop)
    }
}

impl DeviceControl for Board {
    fn get(&mut self, path: &str) -> Result<String, ControlError> {
        let reply = self.connection.ask(&Request::get(self.info.root, path))?;
        reply.value.into_iter().next().ok_or_else(|| self.connection.failed(format!("`{path}` has no value")))
    }

    fn set(&mut self, path: &str, value: &str) -> Result<(), ControlError> {
        self.connection.ask(&Request::set(self.info.root, path, value)).map(drop)
    }

    fn list(&mut self) -> Result<Vec<Parameter>, ControlError> {
        let reply = self.connection.ask(&Request::new(Verb::GetDeviceTree, self.info.root, "", ""))?;
        let tree = reply.value.first().map_or("", String::as_str);
        parameters_of(tree).map_err(|message| self.connection.failed(message))
    }

    fn arm(&mut self) -> Result<(), ControlError> {
        self.command("/cmd/armacquisition")?;
        self.armed = true;
        Ok(())
    }

    fn start(&mut self) -> Result<(), ControlError> {
        self.command("/cmd/swstartacquisition")
    }

    fn stop(&mut self) -> Result<(), ControlError> {
        self.command("/cmd/swstopacquisition")
    }

    fn disarm(&mut self) -> Result<(), ControlError> {
        self.armed = false;
        self.command("/cmd/disarmacquisition")
    }
}

impl Drop for Board {
    fn drop(&mut self) {
        if self.armed {
            // A run that failed leaves no board streaming; nobody is left to report an error to.
            let _ = self.disarm();
        }
    }
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
