//! Slow-control devices during a run, and BUSY through them.
//!
//! ```text
//!  [[control]] ─► Devices ─┬─► SlowControl: keepers, recorder of series
//!                          └─► BUSY, beside its datagrams and posts
//! ```

use std::sync::Arc;

use thalweg_data::{Busy, Mark};
use thalweg_readout::{BusyOutput, BusySettings};
use thalweg_record::ipc::file::TableSummary;

use super::{Signals, Site};
use crate::config::Configuration;
use crate::error::RunError;
use crate::open::Origin;
use crate::plan::thread_names;
use crate::plan::{UnitPlan, drives_busy, drives_devices};
use crate::slow_control::{Devices, Keeper, Recorder, Values};
use crate::source_table::SourceTable;

/// The devices of a run that takes data, and BUSY of a real trigger, also through a register of one of them: where this process drives
/// either.
pub(super) fn open(
    configuration: &Configuration,
    (origin, source_table): (&Origin, &SourceTable),
    values: &Values,
    busy: &Arc<Busy>,
) -> Result<(Option<Devices>, BusyOutput), RunError> {
    let plan = UnitPlan::of(configuration, source_table)?;
    // A replay asks no trigger to wait: it may be taking data for another run.
    let is_live = matches!(origin, Origin::Configured);
    let drives = is_live && drives_devices(configuration, plan.as_ref());
    let devices = drives.then(|| Devices::open(configuration, values)).transpose()?;
    let raises = is_live && drives_busy(configuration, plan.as_ref());
    let settings = if raises { configuration.busy.clone() } else { BusySettings::default() };
    let register = settings.register.as_ref().zip(devices.as_ref());
    let register = register.and_then(|(switch, devices)| devices.switch(switch));
    // As long as the run lasts, by one of all nodes; until every link is open, the trigger waits.
    busy.raise(Mark(0));
    let output = BusyOutput::open(&settings, busy, register)?;
    Ok((devices, output))
}

/// Slow control while a run goes on.
pub(super) struct SlowControl {
    keepers: Vec<Keeper>,
    recorder: Option<Recorder>,
}

impl SlowControl {
    pub(super) fn start(site: &Site<'_>, devices: &Devices) -> Result<SlowControl, RunError> {
        let Site { configuration, directory, values, clock, placement, .. } = *site;
        let keepers = devices.all().iter().map(|(name, control)| site.keeper(name, control));
        let keepers = keepers.collect::<Result<Vec<_>, _>>()?;
        if !keepers.is_empty() {
            site.claims.threads(thread_names::KEEPER, keepers.len());
        }
        let start = || Recorder::start(configuration, directory, values, (clock, placement));
        let recorder = (!configuration.series.is_empty()).then(start).transpose()?;
        if recorder.is_some() {
            site.claims.threads(thread_names::SERIES, 1);
        }
        Ok(SlowControl { keepers, recorder })
    }

    pub(super) fn finish(self, signals: &Signals) -> Option<TableSummary> {
        self.keepers.into_iter().for_each(|keeper| keeper.finish(signals));
        self.recorder.and_then(|recorder| recorder.finish(signals))
    }
}
