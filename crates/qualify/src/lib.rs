//! What a host and a switch can do, found before a run depends on it.
//!
//! ```text
//!  host      /proc, /sys, drivers, what a run needs ─► checks, and what sets what is not as it should be
//!  testbed   a bridge with a shaped output between network namespaces: a device that is known
//!  trial     a burst: sent as asked, received to its end, judged
//!  generator a trigger program, sent by synchronous sources, and what was sent of it
//!  receipt   what came of it, by source
//!  rig       a device between its sources and its receiver
//!  throughput the highest rate without a loss
//!  watershed search × trials ─► map of a device, its depth and drain rate
//!  switch    trials (when sent, how much, lost or not) ─► search ─► fit: depth and drain rate of a buffer
//!  predict   depth, rates, triggers ─► load, loss and bottleneck of a hop
//! ```

pub mod device_counters;
pub mod generator;
pub mod host;
pub mod incast;
pub mod predict;
pub mod receipt;
pub mod recovery;
pub mod report;
pub mod rig;
pub mod switch;
pub mod testbed;
pub mod throughput;
pub mod trial;
pub mod watershed;
