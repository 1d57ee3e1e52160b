//! Slow control of a run: devices are set before it, read while it goes on, and switched with its trigger and BUSY.
//!
//! ```text
//!  [[control]] ─► device ─ parameters: set, read back, compared ─► run.json
//!                   │ ◄─ keeper: one thread per device ─ each `every_s` ─► Values ─┬─► live state: page, alarms, metrics
//!                   │                                                             └─► thread "series" ─► series.arrows
//!                   └ ◄─ [busy] register, [trigger] enable: switched
//! ```
//! None of it is on the data path. A device that does not answer costs its series values, which are shown as unknown, and nothing else.

mod boards;
mod keeper;
mod recorder;
mod values;

use std::sync::{Arc, Mutex, MutexGuard};

use thalweg_data::{BoardStatus, ControlError, DeviceControl};
use thalweg_readout::{Applied, DeviceSettings, SetRegister, Switch};

use crate::config::Configuration;
use crate::error::RunError;
use crate::pipeline::Signals;

pub(crate) use boards::{ControlledBoard, ControlledBoards};
pub(crate) use keeper::Keeper;
pub(crate) use recorder::Recorder;
pub(crate) use values::Values;

/// A device that several threads drive, one at a time: its keeper, BUSY, the trigger.
pub(crate) type Shared = Arc<Mutex<Box<dyn DeviceControl>>>;

/// Takes a device for one command.
pub(crate) fn lock(control: &Shared) -> MutexGuard<'_, Box<dyn DeviceControl>> {
    control.lock().unwrap_or_else(|poisoned| poisoned.into_inner())
}

/// The key of the devices' parameters among the details of a run's record.
pub(crate) const DETAIL: &str = "controls";

/// The values that were set at a device or board, and its readings then; for `run.json`.
#[derive(Clone, Debug, Default, serde::Serialize)]
pub(crate) struct DeviceRecord {
    url: String,
    parameters: Vec<Applied>,
    /// What a board reported when all were armed.
    #[serde(skip_serializing_if = "Option::is_none")]
    armed: Option<BoardStatus>,
    /// The signal that starts a board, if it is not the software start.
    #[serde(skip_serializing_if = "Option::is_none")]
    starts_by: Option<String>,
    /// What a board reported at the end.
    #[serde(skip_serializing_if = "Option::is_none")]
    ended: Option<BoardStatus>,
    /// What changed meanwhile, with the seconds since the start of the run.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    news: Vec<String>,
}

/// The devices of a run.
#[derive(Default)]
pub(crate) struct Devices(Vec<(String, Shared)>);

impl Devices {
    /// Opens every `[[control]]`, sets its parameters, and notes them.
    ///
    /// # Errors
    /// When one does not answer, refuses a parameter, or does not read as it was set.
    pub(crate) fn open(configuration: &Configuration, values: &Values) -> Result<Devices, RunError> {
        let mut devices = Devices::default();
        for settings in &configuration.controls {
            let name = &settings.name;
            let named = |error: ControlError| {
                RunError::Configuration(configuration.invalid(format!("[[control]] \"{name}\": {error}")))
            };
            let address_table = settings.address_table.as_ref().map(|table| configuration.beside(table));
            let located = DeviceSettings { address_table, ..settings.clone() };
            let mut control = located.open().map_err(named)?;
            let parameters = settings.apply(&mut *control).map_err(named)?;
            values.note(
                name,
                DeviceRecord { url: settings.url.clone(), parameters, ..DeviceRecord::default() },
            );
            devices.0.push((name.clone(), Arc::new(Mutex::new(control))));
        }
        Ok(devices)
    }

    /// The devices with their names.
    pub(crate) fn all(&self) -> &[(String, Shared)] {
        &self.0
    }

    /// Returns what switches a register of one of them, where there is such a device.
    pub(crate) fn switch(&self, switch: &Switch) -> Option<SetRegister> {
        let switch = switch.clone();
        let (_, control) = self.0.iter().find(|(name, _)| *name == switch.of)?;
        let control = control.clone();
        Some(Box::new(move |on| {
            lock(&control).set(&switch.path, switch.value(on)).map_err(|error| error.to_string())
        }))
    }
}

/// The trigger that a register lets through.
pub(crate) struct Enable {
    words: String,
    set: SetRegister,
}

impl Enable {
    /// Returns the enable switch of a run that has one.
    pub(crate) fn of(configuration: &Configuration, devices: &Devices) -> Option<Enable> {
        let switch = configuration.enable.as_ref()?;
        Some(Enable { words: switch.to_string(), set: devices.switch(switch)? })
    }

    /// Lets triggers through, or holds them back. A register that refuses the value twice ends the run: its data could not be interpreted. The
    /// second attempt changes nothing where the first was carried out, and succeeds where another program has used the device meanwhile.
    pub(crate) fn set(&mut self, on: bool, signals: &Signals) {
        if let Err(error) = (self.set)(on).or_else(|_| (self.set)(on)) {
            let what = if on { "enabled" } else { "disabled" };
            signals.fail(format!("the trigger could not be {what}, {}: {error}", self.words));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_trigger_whose_register_refuses_once_is_switched_and_twice_ends_the_run() {
        let failures_of = |refusals| {
            let (mut left, signals) = (refusals, Signals::default());
            let set: SetRegister = Box::new(move |_| {
                left -= 1;
                if left >= 0 { Err("numbered by another client".to_owned()) } else { Ok(()) }
            });
            Enable { words: "CTRL.TRIGGER".to_owned(), set }.set(false, &signals);
            signals.failures()
        };
        assert_eq!(failures_of(1), [""; 0]);
        let [failure] = &failures_of(2)[..] else { panic!("one failure") };
        assert!(failure.contains("could not be disabled, CTRL.TRIGGER: numbered"), "{failure}");
    }
}
