//! The control port of an emulated board, as its family's protocol has it.
//!
//! ```text
//!  client ─ bytes ─► ControlSession ─► BoardCommand ─► perform (the host's: its board) ─► done or refused ─► bytes
//! ```

use super::{BoardError, SelfTriggeredBoard};
use crate::format::SelfTriggeredSettings;

/// A command from a client to the board.
#[derive(Clone, Debug)]
pub enum BoardCommand {
    /// Get ready; as this other board, where clients have set something since the last time.
    Arm(Option<Box<dyn SelfTriggeredSettings>>),
    /// Become idle.
    Disarm,
    /// Start the run.
    Start,
    /// Stop the run.
    Stop,
    /// Void what is held.
    Clear,
    /// As after power-on.
    Reset,
}

impl BoardCommand {
    /// Performs it on a board, which is the one that is to be armed.
    ///
    /// # Errors
    /// When the board's state does not allow it.
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

/// What the host does with a command: `Ok` when done, else the text of the refusal.
pub type Perform<'a> = dyn FnMut(&BoardCommand) -> Result<(), String> + 'a;

/// One board's control service; its connections share it.
pub trait ControlService: Send + Sync {
    /// One more connection.
    fn session(&self) -> Box<dyn ControlSession>;

    /// An empty datagram has come from this port of the client: the board knows now where to stream. 0 when nobody listens.
    fn udp_client(&self, port: u16);
}

/// One control connection.
pub trait ControlSession: Send {
    /// Takes what was received and appends the replies to `out`.
    ///
    /// # Errors
    /// When the connection is to be closed; what stands in `out` should still be sent.
    fn receive(&mut self, bytes: &[u8], perform: &mut Perform<'_>, out: &mut Vec<u8>) -> Result<(), String>;
}
