//! One function per command: from what was typed to what is printed.

mod about;
mod board;
mod data_taking;
mod doctor;
mod export;
mod hub;
mod import;
mod ipbus;
mod page;
mod predict;
mod qualify;
mod receive;
mod recording_reports;
mod recordings;
mod runs;
mod ship;

pub(crate) use about::{bench, completions, manual, node, schema};
pub(crate) use board::board;
pub(crate) use data_taking::{demo, emulate, replay, run};
pub(crate) use doctor::doctor;
pub(crate) use export::export;
pub(crate) use hub::hub;
pub(crate) use import::import;
pub(crate) use ipbus::ipbus;
pub(crate) use page::serve;
pub(crate) use predict::predict;
pub(crate) use qualify::qualify;
pub(crate) use receive::receive;
pub(crate) use recordings::{inspect, plot, recover, verify};
pub(crate) use runs::runs;
pub(crate) use ship::ship;

use crate::report::{CommandOutcome, Failure};

type Ended = Result<CommandOutcome, Failure>;
