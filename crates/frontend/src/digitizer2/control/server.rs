//! The side of the board: takes requests, and returns replies and actions of the board.
//!
//! ```text
//!  bytes ─► Session ─► Request ─► Server { Tree, registers } ─► Reply ─► bytes
//!                                    └─ Action ─► perform (`service`: the host's board) ─► done or refused
//! ```
//! The tree answers most requests by itself. A request to the running board becomes an [`Action`] of the host before
//! the reply is written, so that the reply contains a refusal by the board.

use std::collections::HashMap;

use super::faults::Faults;
use super::message::{Assembler, Flag, LONGEST_REQUEST, MessageError, Reply, Request, Verb};
use super::status::{self, Status};
use super::tree::{Tree, TreeError};
use crate::digitizer2::emulate::Settings;
use crate::self_triggered::{Moment, State};

/// The version that the server reports: 1.4.2, which common clients expect.
const VERSION: &str = "10402";
/// Most user registers that are kept.
const REGISTERS_MAXIMUM: usize = 4096;

/// An action that a client requests of the board.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Action {
    /// Arm; send a clear marker.
    Arm,
    /// Become idle.
    Disarm,
    /// Start the run.
    Start,
    /// Stop the run.
    Stop,
    /// Trigger once. Emulated boards trigger themselves and may ignore it.
    SoftwareTrigger,
    /// Discard pending data; send a clear marker.
    Clear,
    /// Return to the state after power-on; send a clear marker. The tree has been reset.
    Reset,
    /// A parameter has been set. Emulated boards read [`Tree::board_settings`] when they are armed.
    Set {
        /// Path from the root, in lower case; a range as given.
        path: String,
        /// The new value.
        value: String,
    },
}

/// One board's control service; its connections share it.
#[derive(Debug)]
pub struct Server {
    tree: Tree,
    registers: HashMap<u64, String>,
    udp_client_port: u16,
    faults: Faults,
    /// The board when the last request came, with what has been commanded since.
    at: Moment,
    /// The time at which it was armed last.
    armed_ns: u64,
}

/// Performs an action of the host's board: `Ok` when done, otherwise the reason of the refusal.
pub type Perform<'a> = dyn FnMut(&Action, &Tree) -> Result<(), String> + 'a;

impl Server {
    /// Creates the service of the board with these settings, whose TCP data port is `data_port`.
    pub fn new(settings: &Settings, data_port: u16) -> Server {
        Server {
            tree: Tree::new(settings, data_port),
            registers: HashMap::new(),
            udp_client_port: 0,
            faults: settings.control_faults.clone(),
            at: Moment::default(),
            armed_ns: 0,
        }
    }

    /// Takes note of the host's board before the next requests.
    pub fn observe(&mut self, at: Moment) {
        self.at = at;
        self.report_status();
    }

    fn report_status(&mut self) {
        let since_ns = self.at.now_ns.saturating_sub(self.armed_ns);
        let is_armed = self.at.state == State::Armed && since_ns >= self.faults.arm_ns();
        let is_running = self.at.state == State::Running;
        let is_locked = self.at.state == State::Idle || since_ns < self.faults.unlock_ns();
        let status = Status::emulated(is_armed, is_running, is_locked);
        self.tree.report(status::ACQUISITION, status.acquisition.to_string());
        self.tree.report(status::ERRORS, status.errors.to_string());
    }

    fn start_sources(&self) -> String {
        self.tree.value("/par/startsource").unwrap_or_default()
    }

    /// Whether none of the start sources is the software start.
    pub fn starts_by_signal(&self) -> bool {
        !super::starts_by_software(&self.start_sources())
    }

    /// The parameters with the changes of clients.
    pub fn tree(&self) -> &Tree {
        &self.tree
    }

    /// Sets the client's port from which an empty datagram was received: the board sends its data there.
    pub fn udp_client(&mut self, port: u16) {
        self.udp_client_port = port;
    }

    /// Answers one request.
    pub fn answer(&mut self, request: &Request, perform: &mut Perform<'_>) -> Reply {
        let Some(verb) = Verb::from_word(&request.cmd) else {
            return Reply::refused(&request.cmd, format!("unknown request `{}`", request.cmd));
        };
        let answered = match verb {
            Verb::SendCommand => return self.command(request, perform),
            Verb::SetValue => self.set(request, perform),
            _ => self.read(verb, request).map_err(|error| error.to_string()),
        };
        match answered {
            Ok(value) => Reply::done(request, value),
            Err(reason) => Reply::refused(&request.cmd, reason),
        }
    }

    fn read(&self, verb: Verb, request: &Request) -> Result<Vec<String>, TreeError> {
        let (tree, handle, path) = (&self.tree, request.handle, request.query.as_str());
        Ok(match verb {
            Verb::Connect => vec![tree.root().to_string(), VERSION.into()],
            Verb::GetDeviceTree => vec![tree.to_json().to_string()],
            Verb::GetChildHandles => tree.children(handle, path)?.iter().map(u64::to_string).collect(),
            Verb::GetHandle => vec![tree.handle_at(handle, path)?.to_string()],
            Verb::GetParentHandle => vec![tree.parent(handle, path)?.to_string()],
            Verb::GetPath => vec![tree.path(tree.handle_at(handle, path)?)?],
            Verb::GetNodeProperties => {
                let (name, kind) = tree.properties(handle, path)?;
                vec![name.to_string(), kind.word().to_string()]
            }
            _ => match self.register(request)? {
                Some(value) => vec![value],
                None => tree.values(handle, path)?,
            },
        })
    }

    /// The value of a register, if the request is for one.
    fn register(&self, request: &Request) -> Result<Option<String>, TreeError> {
        if request.value.is_empty() {
            return Ok(None);
        }
        let path =
            self.tree.handle_at(request.handle, &request.query).and_then(|handle| self.tree.path(handle));
        Ok(match path.as_deref() {
            Ok("/par/registermisc") if request.value.eq_ignore_ascii_case(super::UDP_READY_REGISTER) => {
                Some(self.udp_client_port.to_string())
            }
            Ok("/par/registermisc") => Some("0".into()),
            Ok("/par/registeruser") => {
                let address = number(&request.value);
                Some(address.and_then(|address| self.registers.get(&address).cloned()).unwrap_or("0".into()))
            }
            _ => None,
        })
    }

    fn set(&mut self, request: &Request, perform: &mut Perform<'_>) -> Result<Vec<String>, String> {
        let before = self.tree.clone();
        self.tree.set(request.handle, &request.query, &request.value).map_err(|error| error.to_string())?;
        let folder = self.tree.path(request.handle).map_err(|error| error.to_string())?;
        let separator = if request.query.starts_with('/') { "" } else { "/" };
        let path = format!("{folder}{separator}{}", request.query.to_lowercase());
        if path == "/par/registeruser" {
            self.set_register(&request.value)?;
        }
        let action = Action::Set { path, value: request.value.clone() };
        if let Err(reason) = perform(&action, &self.tree) {
            self.tree = before;
            return Err(reason);
        }
        Ok(Vec::new())
    }

    fn set_register(&mut self, assignment: &str) -> Result<(), String> {
        let wanted = || format!("`{assignment}` is not `address=value` with two numbers");
        let (address, value) = assignment.split_once('=').ok_or_else(wanted)?;
        let (address, value) = (number(address).ok_or_else(wanted)?, number(value).ok_or_else(wanted)?);
        if self.registers.len() >= REGISTERS_MAXIMUM && !self.registers.contains_key(&address) {
            return Err(format!("an emulated board has {REGISTERS_MAXIMUM} user registers; all are in use"));
        }
        self.registers.insert(address, value.to_string());
        Ok(())
    }

    fn command(&mut self, request: &Request, perform: &mut Perform<'_>) -> Reply {
        let name = match self.tree.command(request.handle, &request.query) {
            Ok(name) => name,
            Err(error) => return Reply::refused(&request.cmd, error),
        };
        let (action, flag) = match name {
            "armacquisition" => (Action::Arm, Some(Flag::Arm)),
            "disarmacquisition" => (Action::Disarm, Some(Flag::Disarm)),
            "swstartacquisition" => (Action::Start, None),
            "swstopacquisition" => (Action::Stop, None),
            "sendswtrigger" => (Action::SoftwareTrigger, None),
            "cleardata" => (Action::Clear, Some(Flag::Clear)),
            "reset" => (Action::Reset, Some(Flag::Reset)),
            _ => return Reply::done(request, Vec::new()),
        };
        if action == Action::Reset {
            self.tree.reset();
            self.registers.clear();
        }
        if action == Action::Start && self.starts_by_signal() {
            let sources = self.start_sources();
            let reason = format!("`/par/startsource` is {sources}, without {}", super::SOFTWARE_START);
            return Reply::refused(&request.cmd, reason);
        }
        match perform(&action, &self.tree) {
            Ok(()) => {
                self.follow(&action);
                Reply { flag, ..Reply::done(request, Vec::new()) }
            }
            Err(reason) => Reply::refused(&request.cmd, reason),
        }
    }

    /// The state of the board after a command.
    fn follow(&mut self, action: &Action) {
        self.at.state = match action {
            Action::Arm => {
                self.armed_ns = self.at.now_ns;
                State::Armed
            }
            Action::Start => State::Running,
            Action::Disarm | Action::Reset => State::Idle,
            _ => return,
        };
        self.report_status();
    }
}

/// Reads a decimal number, or a hexadecimal one with `0x`.
fn number(text: &str) -> Option<u64> {
    let text = text.trim();
    match text.strip_prefix("0x").or_else(|| text.strip_prefix("0X")) {
        Some(digits) => u64::from_str_radix(digits, 16).ok(),
        None => text.parse().ok(),
    }
}

/// One control connection.
#[derive(Debug)]
pub struct Session {
    assembler: Assembler,
}

impl Default for Session {
    fn default() -> Self {
        Session { assembler: Assembler::new(LONGEST_REQUEST) }
    }
}

impl Session {
    /// Reads received bytes and appends the replies to `out`.
    ///
    /// # Errors
    /// When the stream cannot be read any more. The caller then sends `out`, which ends with the reason, and closes the
    /// connection.
    pub fn receive(
        &mut self,
        bytes: &[u8],
        server: &mut Server,
        perform: &mut Perform<'_>,
        out: &mut Vec<u8>,
    ) -> Result<(), MessageError> {
        self.assembler.push(bytes);
        loop {
            let json = match self.assembler.next_message() {
                Ok(Some(json)) => json,
                Ok(None) => return Ok(()),
                Err(error) => {
                    Reply::refused("", &error).encode(out);
                    return Err(error);
                }
            };
            match Request::decode(&json) {
                Ok(request) => server.answer(&request, perform).encode(out),
                Err(error) => Reply::refused("", error).encode(out),
            }
        }
    }
}
