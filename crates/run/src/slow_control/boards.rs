//! The boards of `[[source]]` that have a control connection, armed and started together.
//!
//! ```text
//!  all configured (when opened) ─► all armed ─► read back ─► started: by software, or by a signal that somebody gives
//!                                    │ not in time: its name, the others disarmed          └─► stopped ─► status, disarmed
//!                                    └─► what was set and read, lock, news ─► Values ─► run.json
//! ```

use thalweg_data::ControlError;
use thalweg_readout::Applied;

use super::{DeviceRecord, Shared, Values, lock};
use crate::error::RunError;
use crate::pipeline::Signals;

/// The control of a board of a `[[source]]`.
pub(crate) struct ControlledBoard {
    /// The name of the source, followed by a number where it has several boards.
    pub(crate) name: String,
    /// The address, for people.
    pub(crate) url: String,
    /// The parameters that are set before it is armed.
    pub(crate) parameters: Vec<(String, String)>,
    pub(crate) control: Shared,
}

/// The boards of a path.
#[derive(Default)]
pub(crate) struct ControlledBoards {
    boards: Vec<ControlledBoard>,
    /// The first so many are armed.
    armed: usize,
    is_started: bool,
}

impl ControlledBoards {
    pub(crate) fn new(boards: Vec<ControlledBoard>) -> ControlledBoards {
        ControlledBoards { boards, ..ControlledBoards::default() }
    }

    pub(crate) fn all(&self) -> &[ControlledBoard] {
        &self.boards
    }

    /// Adds boards before they are armed.
    pub(crate) fn extend(&mut self, boards: Vec<ControlledBoard>) {
        self.boards.extend(boards);
    }

    /// Arms all of them, then notes what each was set to and reads. What cannot be read, or is rounded, is no error here.
    ///
    /// # Errors
    /// When one does not take a parameter or the command, or is not armed in time: its name, and what it reports.
    pub(crate) fn arm(&mut self, values: &Values) -> Result<(), RunError> {
        for board in &self.boards {
            lock(&board.control).arm().map_err(|error| board.failed(error))?;
            self.armed += 1;
        }
        self.boards.iter().for_each(|board| board.note(values));
        Ok(())
    }

    /// Starts those that start by software, in the order of the configuration; the others wait for their signal.
    ///
    /// # Errors
    /// When one does not take the command.
    pub(crate) fn start(&mut self) -> Result<(), RunError> {
        self.is_started = true;
        let (mut started, mut waiting) = (0, Vec::new());
        for board in &self.boards {
            let mut control = lock(&board.control);
            match control.start_signal() {
                Some(signal) => waiting.push(format!("\"{}\" by {signal}", board.name)),
                None => {
                    control.start().map_err(|error| board.failed(error))?;
                    started += 1;
                }
            }
        }
        let waiting = waiting.join(", ");
        match (started, waiting.is_empty()) {
            (_, true) => {}
            (0, false) => tracing::warn!(
                "no board starts by software, and all wait for their signal: {waiting}; give it now, or set `StartSource` of the \
                 first board of the chain to SWcmd"
            ),
            (_, false) => tracing::info!("boards that start by a signal: {waiting}"),
        }
        Ok(())
    }

    /// Stops those that were started; what they have measured is still on its way.
    pub(crate) fn stop(&self, signals: &Signals) {
        for board in self.boards.iter().filter(|_| self.is_started) {
            if let Err(error) = lock(&board.control).stop() {
                signals.fail(error.to_string());
            }
        }
    }

    /// Notes what they report at the end, and disarms those that were armed. That clears what they still hold.
    pub(crate) fn disarm(&self, values: &Values, signals: &Signals) {
        for board in &self.boards[..self.armed] {
            let mut control = lock(&board.control);
            if let Some(status) = control.status().filter(|_| self.is_started) {
                values.update(&board.name, |record| record.ended = Some(status));
            }
            if let Err(error) = control.disarm() {
                signals.note_failure(error.to_string());
            }
        }
    }
}

impl ControlledBoard {
    fn failed(&self, error: ControlError) -> RunError {
        RunError::Board { name: self.name.clone(), error }
    }

    fn note(&self, values: &Values) {
        let mut control = lock(&self.control);
        let mut read = |(path, set): &(String, String)| {
            let read = control.is_readable(path).then(|| control.get(path).ok()).flatten();
            Applied { path: path.clone(), set: set.clone(), read }
        };
        let parameters: Vec<Applied> = self.parameters.iter().map(&mut read).collect();
        let (armed, starts_by) = (control.status(), control.start_signal());
        if let Some(status) = armed.as_ref().filter(|status| !status.is_locked) {
            tracing::warn!(
                "\"{}\", {}: its clock is not locked at the start of the run: it reports \"{}\"; check `ClockSource` and the clock \
                 cables",
                self.name,
                self.url,
                status.text
            );
        }
        if !parameters.is_empty() || armed.is_some() {
            let record = DeviceRecord {
                url: self.url.clone(),
                parameters,
                armed,
                starts_by,
                ..DeviceRecord::default()
            };
            values.note(&self.name, record);
        }
    }
}
