//! The control port of an emulated board, with the protocol of its family.
//!
//! ```text
//!  client ─ bytes ─► ControlSession ─► BoardCommand ─► perform (the host's: its board) ─► done or refused ─► bytes
//! ```

use super::{BoardError, SelfTriggeredBoard, State};
use crate::format::SelfTriggeredSettings;

/// A command from a client to the board.
#[derive(Clone, Debug)]
pub enum BoardCommand {
    /// Arm; with new settings of the board, if clients have changed them since the last time.
    Arm(Option<Box<dyn SelfTriggeredSettings>>),
    /// Become idle.
    Disarm,
    /// Start the run.
    Start,
    /// Stop the run.
    Stop,
    /// Discard pending data.
    Clear,
    /// Return to the state after power-on.
    Reset,
}

impl BoardCommand {
    /// Performs the command on a board, which is the one to be armed.
    ///
    /// # Errors
    /// When the state of the board does not allow it.
    pub fn perform(&self, board: &mut dyn SelfTriggeredBoard, now_ns: u64) -> Result<(), BoardError> {
        match self {
            BoardCommand::Arm(_) => board.arm()?,
            BoardCommand::Start => board.start(now_ns)?,
            BoardCommand::Stop => board.stop(now_ns),
            BoardCommand::Disarm => board.disarm(now_ns),
            BoardCommand::Clear => board.clear(),
            BoardCommand::Reset => board.reset(),
        }
        Ok(())
    }
}

/// Performs a command on the host's board: `Ok` when done, otherwise the reason of the refusal.
pub type Perform<'a> = dyn FnMut(&BoardCommand) -> Result<(), String> + 'a;

/// The host's board at the time of a request.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Moment {
    /// Nanoseconds of the host's clock.
    pub now_ns: u64,
    /// The state of the board.
    pub state: State,
}

/// One board's control service; its connections share it.
pub trait ControlService: Send + Sync {
    /// Opens one more connection.
    fn session(&self) -> Box<dyn ControlSession>;

    /// The client has sent an empty datagram from this port, to which the board then streams. 0 means that nobody
    /// listens.
    fn udp_client(&self, port: u16);

    /// Whether clients have set the board to start by a signal, such as that of another board, and not by their command.
    fn starts_by_signal(&self) -> bool {
        false
    }
}

/// One control connection.
pub trait ControlSession: Send {
    /// Reads received bytes, and appends the replies to `out`.
    ///
    /// # Errors
    /// When the connection is to be closed; the content of `out` should still be sent.
    fn receive(
        &mut self,
        bytes: &[u8],
        at: Moment,
        perform: &mut Perform<'_>,
        out: &mut Vec<u8>,
    ) -> Result<(), String>;
}
