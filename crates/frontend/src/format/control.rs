//! The interface of a family's slow control to its host.
//!
//! ```text
//!  ControlEntry ─ open(channel) ─► BoardControl: get, set, arm, start … and, of boards that name it, the place of their data
//!                      │
//!                      └ ControlChannel: the host's socket and clock; in tests, an emulated board
//! ```
//! The family has the protocol, the host has the socket. Calls block until the board has answered, or has not for too long.

use std::time::Duration;

use thalweg_data::{ControlError, DeviceControl};

use super::BoardFacts;

/// How boards of a family are controlled.
pub struct ControlEntry {
    /// The scheme of its URLs, such as `rbcp`.
    pub scheme: &'static str,
    /// The port at which boards answer, unless the URL has another.
    pub port: u16,
    /// What carries requests and answers.
    pub transport: ControlTransport,
    /// Whether a URL of this scheme is a source: the board itself says where its data are to be had.
    pub is_source: bool,
    pub(crate) open: OpenBoard,
    /// Reads the settings of boards in a file of their vendor's program.
    pub import: Option<ImportSettings>,
}

/// Reads the boards of a settings file. The error says what the text is instead, or that it has no board of the family.
pub type ImportSettings = fn(&str) -> Result<Vec<ImportedSettings>, String>;

/// The settings of one board in a file of its vendor's program.
#[derive(Clone, Debug, Default, PartialEq, Eq, serde::Serialize)]
pub struct ImportedSettings {
    /// The board as the file names it.
    pub board: String,
    /// Its parameters.
    pub parameters: Vec<(String, String)>,
    /// The settings that are no parameter here.
    pub not_imported: Vec<NotImported>,
}

/// A setting that was not taken from a file.
#[derive(Clone, Debug, PartialEq, Eq, serde::Serialize)]
pub struct NotImported {
    /// Its name in the file.
    pub key: String,
    /// Its value there.
    pub value: String,
    /// The channels that it is for.
    pub place: String,
    /// Why it was not taken.
    pub reason: String,
}

/// Opens the board behind a channel.
type OpenBoard = fn(Box<dyn ControlChannel>) -> Result<Box<dyn BoardControl>, ControlError>;

/// What carries the requests to a board and its answers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ControlTransport {
    /// A TCP connection.
    Stream,
    /// UDP datagrams, which may get lost.
    Datagrams,
}

/// A way to one board. The host implements it with a socket.
pub trait ControlChannel: Send {
    /// The board's URL, for messages.
    fn place(&self) -> &str;

    /// Nanoseconds since the channel was opened.
    fn now_ns(&self) -> u64;

    /// Sends bytes of a stream, or a datagram.
    ///
    /// # Errors
    /// When the board cannot be reached any more.
    fn send(&mut self, bytes: &[u8]) -> Result<(), String>;

    /// What came next, a datagram or some bytes of a stream; `None` if nothing did within `wait`.
    ///
    /// # Errors
    /// When the board cannot be reached any more, or has closed the connection.
    fn receive(&mut self, wait: Duration) -> Result<Option<&[u8]>, String>;

    /// Waits before the board is asked again.
    fn pause(&mut self, wait: Duration);
}

/// The place of a board's data.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DataPlace {
    /// Its TCP port, to which the host connects.
    Stream(u16),
    /// Its UDP port, to which the host sends empty datagrams until the board knows whom to send its data to.
    Datagrams(u16),
}

/// The control of a board of which the host may know more than its parameters.
pub trait BoardControl: DeviceControl {
    /// What is known of the board since it was opened, without its name; asks nothing.
    fn known_facts(&self) -> BoardFacts {
        BoardFacts::default()
    }

    /// All that the board reports of itself. `parameters` are those that will be set before the run: what they change is not known
    /// yet.
    fn facts(&mut self, _parameters: &[(String, String)]) -> BoardFacts {
        self.known_facts()
    }

    /// Sets for how long [`DeviceControl::arm`] waits for a board that reports whether it is armed.
    fn set_arm_timeout(&mut self, _timeout: Duration) {}

    /// Whether the board is neither armed nor running, and so free for a run. A board that reports nothing of that is.
    ///
    /// # Errors
    /// What the board reports, and how to free it.
    fn check_idle(&mut self) -> Result<(), ControlError> {
        Ok(())
    }

    /// The place of its data, if the board names one.
    fn data(&self) -> Option<DataPlace> {
        None
    }

    /// Whether the board knows that datagrams go to this port of the host. `is_settled` is true once so many empty datagrams were sent
    /// that any port the board knows is ours.
    ///
    /// # Errors
    /// When the board does not answer.
    fn knows_receiver(&mut self, _own_port: u16, _is_settled: bool) -> Result<bool, ControlError> {
        Ok(true)
    }

    /// Whether a parameter can be set to this value, as far as is known before it is set.
    ///
    /// # Errors
    /// What is wrong with it, and what is allowed.
    fn check(&mut self, _path: &str, _value: &str) -> Result<(), ControlError> {
        Ok(())
    }

    /// Checks all parameters of a run before the first is set.
    ///
    /// # Errors
    /// The first that cannot be set, and what is wrong with it.
    fn check_all(&mut self, parameters: &[(String, String)]) -> Result<(), ControlError> {
        parameters.iter().try_for_each(|(path, value)| {
            let named = |error: ControlError| ControlError {
                message: format!("parameter `{path}`: {}", error.message),
                ..error
            };
            self.check(path, value).map_err(named)
        })
    }

    /// Sets the parameters of a run, in their order, and whatever the host needs besides.
    ///
    /// # Errors
    /// When the board refuses one.
    fn prepare(&mut self, parameters: &[(String, String)]) -> Result<(), ControlError> {
        parameters.iter().try_for_each(|(path, value)| self.set(path, value))
    }

    /// Asks for something that every board knows, to learn whether it is there.
    ///
    /// # Errors
    /// When it does not answer within a few seconds, or the connection is gone.
    fn keep_alive(&mut self) -> Result<(), ControlError> {
        Ok(())
    }

    /// Gives up a board that does not answer: nothing more is said to it.
    fn abandon(&mut self) {}
}

impl ControlEntry {
    /// Opens a board.
    ///
    /// # Errors
    /// When it does not answer, or is not of this family.
    pub fn open(&self, channel: Box<dyn ControlChannel>) -> Result<Box<dyn BoardControl>, ControlError> {
        (self.open)(channel)
    }
}

/// An entry is known by its scheme.
impl PartialEq for ControlEntry {
    fn eq(&self, other: &ControlEntry) -> bool {
        self.scheme == other.scheme
    }
}

impl Eq for ControlEntry {}

impl std::fmt::Debug for ControlEntry {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(self.scheme)
    }
}

/// A number of a register, decimal or after 0x.
pub fn register_number(text: &str) -> Option<u64> {
    match text.strip_prefix("0x").or_else(|| text.strip_prefix("0X")) {
        Some(digits) => u64::from_str_radix(digits, 16).ok(),
        None => text.parse().ok(),
    }
}
