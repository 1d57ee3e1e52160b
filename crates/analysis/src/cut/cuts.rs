//! All cuts of a run, read once: those on hits, and those on events.
//!
//! ```text
//!  [[cut]], [[polygon]] ─► read ─┬─► HitCuts:   behind time order
//!                                └─► EventCuts: behind coincidence
//! ```
//! They are two stages, as the recording and the thread behind it need the verdict on hits, and only that thread has events.

use super::error::CutError;
use super::event_cuts::EventCuts;
use super::expression::Expression;
use super::hit_cuts::HitCuts;
use super::polygon::{self, Polygon};
use super::settings::{Quantity, Scope, Settings};
use crate::channels::ChannelMap;

/// How many came to one cut, and how many it kept.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Passed {
    /// Came to it: those that the cuts before it kept.
    pub input: u64,
    /// It kept.
    pub kept: u64,
}

/// One cut, read.
#[derive(Debug)]
pub(super) struct Cut {
    pub name: String,
    pub quantity: Quantity,
    pub expression: Expression,
}

/// The cuts of a run with sources numbered below `sources`: on hits, and on events.
///
/// # Errors
/// When a cut or polygon is invalid, or cuts events where there are none.
pub fn read(
    settings: &[Settings],
    polygons: &[polygon::Settings],
    makes_events: bool,
    map: &ChannelMap,
    sources: usize,
) -> Result<(HitCuts, EventCuts), CutError> {
    let polygons = Polygon::read(polygons)?;
    let (mut on_hits, mut on_events) = (Vec::new(), Vec::new());
    for (index, each) in settings.iter().enumerate() {
        check_name(each, &settings[..index])?;
        let of = |error| CutError::Of { name: each.name.clone(), error: Box::new(error) };
        let expression = Expression::parse(&each.keep, each.on, &polygons).map_err(of)?;
        let list = match each.on {
            Scope::Hit => &mut on_hits,
            Scope::Event if makes_events => &mut on_events,
            Scope::Event => return Err(CutError::NoEvents(each.name.clone())),
        };
        list.push(Cut { name: each.name.clone(), quantity: each.members, expression });
    }
    Ok((HitCuts::new(on_hits, map, sources), EventCuts::new(on_events)))
}

fn check_name(cut: &Settings, before: &[Settings]) -> Result<(), CutError> {
    if cut.name.is_empty() {
        return Err(CutError::Nameless);
    }
    match before.iter().any(|other| other.name == cut.name) {
        true => Err(CutError::Twice(cut.name.clone())),
        false => Ok(()),
    }
}
