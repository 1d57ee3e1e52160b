//! The control port of an emulated board, for its host.
//!
//! ```text
//!  ControlSession ─► Session, Server ─► Action, Tree ─► BoardCommand ─► the host's board
//! ```

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use super::server::{Action, Server, Session};
use super::tree::Tree;
use crate::digitizer2::emulate::Settings;
use crate::self_triggered::{BoardCommand, ControlService, ControlSession, Moment, Perform};

/// The control service of one emulated board.
#[derive(Clone)]
pub struct Service(Arc<Mutex<Shared>>);

/// State shared by all connections to a board.
struct Shared {
    server: Server,
    /// The initial settings of the board; clients change them.
    first: Settings,
    /// The settings with which the board was created or last armed.
    armed: Settings,
}

impl Service {
    /// Creates the service of the board with these settings, whose TCP data port is `data_port`.
    pub fn new(settings: &Settings, data_port: u16) -> Service {
        let server = Server::new(settings, data_port);
        Service(Arc::new(Mutex::new(Shared { server, first: settings.clone(), armed: settings.clone() })))
    }

    /// The settings of the board with the changes of clients.
    #[cfg(test)]
    pub(super) fn wanted(&self) -> Settings {
        let shared = self.shared();
        shared.server.tree().board_settings(&shared.first)
    }

    fn shared(&self) -> MutexGuard<'_, Shared> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl ControlService for Service {
    fn session(&self) -> Box<dyn ControlSession> {
        Box::new(Connection { session: Session::default(), service: self.clone() })
    }

    fn udp_client(&self, port: u16) {
        self.shared().server.udp_client(port);
    }

    fn starts_by_signal(&self) -> bool {
        self.shared().server.starts_by_signal()
    }
}

/// One connection.
struct Connection {
    session: Session,
    service: Service,
}

impl ControlSession for Connection {
    fn receive(
        &mut self,
        bytes: &[u8],
        at: Moment,
        perform: &mut Perform<'_>,
        out: &mut Vec<u8>,
    ) -> Result<(), String> {
        let Shared { server, first, armed } = &mut *self.service.shared();
        server.observe(at);
        let mut act = |action: &Action, tree: &Tree| {
            let command = match action {
                Action::Arm => {
                    let wanted = tree.board_settings(first);
                    let changed = (wanted != *armed).then(|| wanted.clone());
                    perform(&BoardCommand::Arm(changed.map(|settings| Box::new(settings) as _)))?;
                    *armed = wanted;
                    return Ok(());
                }
                Action::Disarm => BoardCommand::Disarm,
                Action::Start => BoardCommand::Start,
                Action::Stop => BoardCommand::Stop,
                Action::Clear => BoardCommand::Clear,
                Action::Reset => BoardCommand::Reset,
                // Emulated boards trigger themselves, and read their parameters when they are armed.
                Action::SoftwareTrigger | Action::Set { .. } => return Ok(()),
            };
            perform(&command)
        };
        let followed = self.session.receive(bytes, server, &mut act, out);
        followed.map_err(|error| error.to_string())
    }
}
