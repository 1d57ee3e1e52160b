//! A board driven over its control connection, without any vendor library.
//!
//! ```text
//!  Board::open ─ Opening ─► BoardInfo
//!  Board: check, get, set, arm, start, stop, disarm        one request, one reply
//! ```

use std::time::Duration;

use thalweg_data::{BoardStatus, ControlError, DeviceControl, Parameter};

use super::client::{BoardInfo, Client, Opening};
use super::message::{Reply, Request, Verb};
use super::status::{self, Status};
use super::{UDP_READY_REGISTER, nodes_of, parameters_of, starts_by_software};
use crate::digitizer2::Firmware;
use crate::digitizer2::parameters::check::Checker;
use crate::digitizer2::parameters::path::Ranged;
use crate::digitizer2::parameters::{BoardKind, Family};
use crate::format::{BoardControl, BoardFacts, ControlChannel, DataPlace};

/// A board that does not answer a request within this is gone.
const REPLY_WAIT: Duration = Duration::from_secs(10);
/// A board that has taken the command to arm and does not report within this that it is armed will not start, unless configured.
const ARM_TIMEOUT: Duration = Duration::from_secs(10);
/// Between two looks at whether it is.
const ARM_STEP: Duration = Duration::from_millis(20);
/// A running board that does not answer within this is gone.
const KEEP_ALIVE_WAIT: Duration = Duration::from_secs(3);

/// The control connection of one board.
pub struct Board {
    connection: Connection,
    info: BoardInfo,
    /// Armed by us and not disarmed since.
    armed: bool,
    arm_timeout: Duration,
    /// What its parameters are checked by; made for the first of them.
    checker: Option<Checker>,
}

struct Connection {
    channel: Box<dyn ControlChannel>,
    client: Client,
    bytes: Vec<u8>,
}

impl Connection {
    fn failed(&self, message: impl ToString) -> ControlError {
        ControlError { board: self.channel.place().to_owned(), message: message.to_string() }
    }

    fn ask(&mut self, request: &Request, wait: Duration) -> Result<Reply, ControlError> {
        self.bytes.clear();
        self.client.request(request, &mut self.bytes);
        let about = format!("`{}` `{}`", request.cmd, request.query);
        self.channel.send(&self.bytes).map_err(|cause| {
            self.failed(format!("{about} could not be sent: {cause}; is the board still on?"))
        })?;
        let deadline_ns = self.channel.now_ns() + wait.as_nanos() as u64;
        loop {
            let left_ns = deadline_ns.saturating_sub(self.channel.now_ns());
            if left_ns == 0 {
                let seconds = wait.as_secs();
                return Err(self.failed(format!("no whole reply to {about} within {seconds} s")));
            }
            let taken = match self.channel.receive(Duration::from_nanos(left_ns)) {
                Ok(Some(bytes)) => self.client.receive(request, bytes),
                Ok(None) => continue,
                Err(cause) => return Err(self.failed(format!("no reply to {about}: {cause}"))),
            };
            if let Some(reply) = taken.map_err(|error| self.failed(error))? {
                return Ok(reply);
            }
        }
    }
}

impl Board {
    /// Asks the board behind a control connection what must be known of it.
    ///
    /// # Errors
    /// When it does not answer, or is not such a board.
    pub fn open(channel: Box<dyn ControlChannel>) -> Result<Board, ControlError> {
        let mut connection = Connection { channel, client: Client::default(), bytes: Vec::new() };
        let mut opening = Opening::default();
        while let Some(request) = opening.next_request() {
            let reply = connection.ask(&request, REPLY_WAIT)?;
            opening.take(&reply).map_err(|error| connection.failed(error))?;
        }
        let info = opening
            .finish()
            .ok_or_else(|| connection.failed("the board reported too little about itself"))?;
        Ok(Board { connection, info, armed: false, arm_timeout: ARM_TIMEOUT, checker: None })
    }

    fn value(&mut self, path: &str, wait: Duration) -> Result<String, ControlError> {
        let reply = self.connection.ask(&Request::get(self.info.root, path), wait)?;
        reply.value.into_iter().next().ok_or_else(|| self.connection.failed(format!("`{path}` has no value")))
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

    /// The whole tree of the board, as JSON.
    fn tree(&mut self) -> Result<String, ControlError> {
        let request = Request::new(Verb::GetDeviceTree, self.info.root, "", "");
        let reply = self.connection.ask(&request, REPLY_WAIT)?;
        Ok(reply.value.into_iter().next().unwrap_or_default())
    }

    /// The limits that the board lists, and the table where it lists none.
    fn make_checker(&mut self) -> Checker {
        let nodes = self.tree().ok().and_then(|tree| nodes_of(&tree).ok());
        let family = self.get("/par/modelname").ok().and_then(|model| Family::of_model(&model));
        let firmware = self.info.firmware_endpoint().and_then(Firmware::of_endpoint).unwrap_or_default();
        let kind = BoardKind { firmware, family, sampling_mhz: self.info.sampling_mhz };
        Checker { kind, channels: self.info.channels, nodes }
    }

    /// What the board reports of its acquisition and its clock; `None` if it has no such parameter.
    fn reported(&mut self, wait: Duration) -> Option<Status> {
        let mut bits = |path| Status::bits(&self.value(path, wait).ok()?);
        let acquisition = bits(status::ACQUISITION)?;
        Some(Status { acquisition, errors: bits(status::ERRORS).unwrap_or(0) })
    }

    fn wait_until_armed(&mut self) -> Result<(), ControlError> {
        let deadline_ns = self.connection.channel.now_ns() + self.arm_timeout.as_nanos() as u64;
        // A board that reports no status has said with its reply that it is armed.
        while let Some(status) = self.reported(REPLY_WAIT) {
            if status.is_armed() {
                return Ok(());
            }
            if self.connection.channel.now_ns() >= deadline_ns {
                let seconds = self.arm_timeout.as_secs_f64();
                let message = format!(
                    "it took the command to arm, and is not armed {seconds} s later: it reports \"{status}\"; see its clock \
                     source and its error lights, or give it more time (`arm_timeout_s`)"
                );
                return Err(self.connection.failed(message));
            }
            self.connection.channel.pause(ARM_STEP);
        }
        Ok(())
    }

    fn command(&mut self, path: &str) -> Result<(), ControlError> {
        self.connection.ask(&Request::command(self.info.root, path), REPLY_WAIT).map(drop)
    }
}

impl DeviceControl for Board {
    /// Of a range, such as `/ch/0..63/par/dcoffset`, the one value that all have, or those of each.
    fn get(&mut self, path: &str) -> Result<String, ControlError> {
        let ranged = path.contains("..").then(|| Ranged::of(path).ok()).flatten();
        let Some(ranged) = ranged else { return self.value(path, REPLY_WAIT) };
        let values: Result<Vec<String>, _> =
            ranged.each().map(|path| self.value(&path, REPLY_WAIT)).collect();
        let values = values?;
        match values.split_first() {
            Some((first, others)) if others.iter().all(|other| other == first) => Ok(first.clone()),
            _ => Ok(values.join(", ")),
        }
    }

    fn set(&mut self, path: &str, value: &str) -> Result<(), ControlError> {
        self.connection.ask(&Request::set(self.info.root, path, value), REPLY_WAIT).map(drop)
    }

    fn list(&mut self) -> Result<Vec<Parameter>, ControlError> {
        let tree = self.tree()?;
        parameters_of(&tree).map_err(|message| self.connection.failed(message))
    }

    fn arm(&mut self) -> Result<(), ControlError> {
        self.command("/cmd/armacquisition")?;
        self.armed = true;
        let waited = self.wait_until_armed();
        if waited.is_err() {
            // It may be armed later, when nobody waits for it any more; what is reported is that it was not.
            let _refused = self.disarm();
        }
        waited
    }

    fn start_signal(&mut self) -> Option<String> {
        let sources = self.value("/par/startsource", REPLY_WAIT).ok()?;
        (!starts_by_software(&sources)).then_some(sources)
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

    fn status(&mut self) -> Option<BoardStatus> {
        let status = self.reported(KEEP_ALIVE_WAIT)?;
        let (is_armed, is_running) = (status.is_armed(), status.is_running());
        Some(BoardStatus { is_armed, is_running, is_locked: status.is_locked(), text: status.to_string() })
    }
}

impl BoardControl for Board {
    fn set_arm_timeout(&mut self, timeout: Duration) {
        self.arm_timeout = timeout;
    }

    /// The firmware is named by its endpoint, so that two that we do not know differ, too.
    fn known_facts(&self) -> BoardFacts {
        let facts = self.info.facts(String::new(), String::new());
        BoardFacts { firmware: self.info.firmware_endpoint().map(str::to_owned), ..facts }
    }

    fn facts(&mut self, parameters: &[(String, String)]) -> BoardFacts {
        let mut text = |path| self.get(path).unwrap_or_default();
        let (model, serial) = (text("/par/modelname"), text("/par/serialnum"));
        let versions = [("FPGA", text("/par/fpga_fwver")), ("CUP", text("/par/cupver"))];
        let versions = versions.iter().filter(|(_, version)| !version.is_empty());
        let versions: Vec<String> = versions.map(|(part, version)| format!("{part} {version}")).collect();
        let facts = self.info.facts(model, serial);
        let changes = |word: &str| parameters.iter().any(|(path, _)| path.to_lowercase().contains(word));
        BoardFacts {
            firmware_version: (!versions.is_empty()).then(|| versions.join(", ")),
            decimation: if changes("decimation") { None } else { self.number("/par/decimationfactor") },
            samples_before_trigger: if changes("pretrigger") { None } else { self.samples_before_trigger() },
            ..facts
        }
    }

    fn check_idle(&mut self) -> Result<(), ControlError> {
        let Some(status) = self.reported(REPLY_WAIT).filter(|status| status.is_armed()) else {
            return Ok(());
        };
        let message = format!(
            "another program uses the board: it reports \"{status}\"; end that program, or, if none does, make the board idle with \
             `thalweg board disarm {}`",
            self.connection.channel.place()
        );
        Err(self.connection.failed(message))
    }

    fn data(&self) -> Option<DataPlace> {
        Some(self.info.data)
    }

    fn knows_receiver(&mut self, own_port: u16, is_settled: bool) -> Result<bool, ControlError> {
        let request = Request {
            value: UDP_READY_REGISTER.to_owned(),
            ..Request::get(self.info.root, "/par/registermisc")
        };
        let reply = self.connection.ask(&request, REPLY_WAIT)?;
        Ok(match reply.value.first() {
            Some(port) if *port == own_port.to_string() => true,
            // All that is documented is "not 0"; but at first this may still mean the client before us.
            Some(known) => known != "0" && is_settled,
            None => false,
        })
    }

    fn check(&mut self, path: &str, value: &str) -> Result<(), ControlError> {
        let checker = match self.checker.take() {
            Some(checker) => checker,
            None => self.make_checker(),
        };
        let checked = checker.check(path, value);
        self.checker = Some(checker);
        checked.map_err(|message| self.connection.failed(message))
    }

    /// Selects undecoded data and sets the parameters.
    fn prepare(&mut self, parameters: &[(String, String)]) -> Result<(), ControlError> {
        let raw =
            self.info.endpoints.iter().map(|(name, _)| name.as_str()).find(|name| name.starts_with("raw"));
        if let Some(raw) = raw.map(str::to_owned) {
            self.set("/endpoint/par/activeendpoint", &raw)?;
        }
        parameters.iter().try_for_each(|(path, value)| self.set(path, value))
    }

    fn keep_alive(&mut self) -> Result<(), ControlError> {
        self.value("/par/numch", KEEP_ALIVE_WAIT).map(drop)
    }

    fn abandon(&mut self) {
        self.armed = false;
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
