//! The names of a run's threads: in its plan, in `[threads]`, and in the system.

use crate::config::{SourceSettings, UnitSettings};

/// Puts the hits of all sources into time order, finds coincidences, and records hits.
pub(crate) const ORDER: &str = "order";
/// Fills spectra, records coincidences.
pub(crate) const PROCESS: &str = "process";
/// Reads all triggered boards, and builds their events.
pub(crate) const BUILD: &str = "build";
/// Records events.
pub(crate) const RECORD: &str = "record";
/// Decide which built events are kept.
pub(crate) const FILTER: &str = "filter";
/// Records received bytes.
pub(crate) const RAW: &str = "raw";
/// Writes the recorded hits to their files.
pub(crate) const WRITE: &str = "write";
/// Compress what is recorded.
pub(crate) const COMPRESS: &str = "compress";
/// Emulated boards, and what triggers them.
pub(crate) const EMULATE: &str = "emulate";
/// Holds triggers back while the event manager says BUSY.
pub(crate) const GATE: &str = "gate";
/// Keeps the list of losses.
pub(crate) const LOSSES: &str = "losses";
/// Keeps the lists of ranges of the units.
pub(crate) const RANGES: &str = "ranges";
/// Look after a board or device, one each.
pub(crate) const KEEPER: &str = "keeper";
/// Records the values of slow control.
pub(crate) const SERIES: &str = "series";

/// Those that decode a source.
pub(crate) fn decoders(source: &SourceSettings) -> String {
    format!("{}-decode", source.head.name)
}

/// The one that reads the sources of a readout unit, and builds their events.
pub(crate) fn reader(readout: &UnitSettings) -> String {
    format!("{}-read", readout.name)
}

/// One of those that decide which events of a recorder are kept.
pub(crate) fn filter_worker(recorder: &str, number: usize) -> String {
    format!("{recorder}-filter-{number}")
}

/// The one that writes the files of a builder unit.
pub(crate) fn files(builder: &UnitSettings) -> String {
    format!("{}-record", builder.name)
}
