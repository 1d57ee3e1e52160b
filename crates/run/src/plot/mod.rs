//! A picture of what was recorded, for a look at the end of a run and for the logbook.
//!
//! ```text
//!  &[Hit] ─► Spectra (plain histograms) ─► spectra_svg ─► one SVG file
//!              energy per channel            ├─ energy, channel by channel, logarithmic
//!              energy–PSD plane              ├─ the plane as a map, and the sum per source
//!              hits in time                  └─ the rate
//!  list of losses ─► Lanes ─► beneath either picture
//!  passes over disks ─► storage_svg ─► one SVG file
//!  trials of a device under test ─► watershed_svg ─► one SVG file
//!  a sweep of a prediction ─► prediction_svg ─► one SVG file
//!  events, raw bytes ─► Timeline (sums over stretches of time) ─► timeline_svg ─► one SVG file
//! ```
//! Pure: hits in, text out. Filling costs a few nanoseconds per hit and a bounded amount of memory, so that a run
//! may do it on the way; the axes find their range themselves.

mod bars;
mod colour;
mod lines;
mod losses;
mod page;
mod panel;
mod prediction;
mod raster;
mod scale;
mod spectra;
mod storage;
pub(crate) mod svg;
mod timeline;
mod watershed;

pub use bars::{Bar, BarChart, bars_svg};
pub use lines::{Chart, Series, lines_svg};
pub use losses::Lanes;
pub use page::{Facts, PlotSource, spectra_svg};
pub use prediction::prediction_svg;
pub use spectra::{Histogram, Plane, Rate, Spectra};
pub use storage::storage_svg;
pub use timeline::{Line, Sum, TimeFacts, TimePanel, Timeline, timeline_svg};
pub use watershed::watershed_svg;
