//! One function per command: from what was typed to what is printed.

mod board;
mod doctor;
mod hub;
mod ipbus;
mod look;
mod page;
mod predict;
mod qualify;
mod take;
mod tell;
mod words;

pub(crate) use board::board;
pub(crate) use doctor::doctor;
pub(crate) use hub::hub;
pub(crate) use ipbus::ipbus;
pub(crate) use look::{inspect, plot, recover, verify};
pub(crate) use page::serve;
pub(crate) use predict::predict;
pub(crate) use qualify::qualify;
pub(crate) use take::{demo, emulate, replay, run};
pub(crate) use tell::{bench, completions, manual, node, schema};

use crate::report::{Failure, Outcome};

type Ended = Result<Outcome, Failure>;
