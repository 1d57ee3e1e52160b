//! Spectra: histograms of one and two dimensions, filled on the data path and read while they grow.
//!
//! ```text
//!  hits, pass ─► WordMaker ─► words ─► Filler ─► bins ◄─ SpectrumSet ─► page, export, run files
//!  events ───────────────────────────►   │
//!                               one per thread, no lock; added up by who reads
//! ```
//! Every run has the energies of each channel, the plane of energy against pulse shape, and the signed time differences of pairs in
//! its events; [`SpectrumSettings`] describes more, of any two fields with any cut.

pub mod axis;
mod catalogue;
mod custom;
mod differences;
mod export;
mod fill_buffers;
mod filler;
mod history;
mod hit_words;
mod pack;
mod set;
mod settings;
mod standard;
mod store;
#[cfg(test)]
mod tests;

pub use axis::{Axis, AxisSettings};
pub use catalogue::{BeyondMemory, Info, Kind, Path};
pub use export::SavedSpectra;
pub use filler::Filler;
pub use history::History;
pub use hit_words::{HitWord, WordMaker};
pub use pack::{pack, unpack};
pub use set::{SpectrumSet, Totals};
pub use settings::{At, Partner, Settings, SpectrumError, SpectrumSettings};
