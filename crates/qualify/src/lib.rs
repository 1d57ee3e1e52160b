//! Measures what a host and a switch can do, before a run depends on it.
//!
//! - [`host`]: the host, what a run needs of it, and what sets what is not as it should be.
//! - [`testbed`]: a device that is known: a bridge with a shaped output between network namespaces.
//! - [`trial`]: a burst: sent as asked, received to its end, judged.
//! - [`rig`]: a device between its sources, here or on other hosts, and its receiver.
//! - [`watershed`]: how many events a device takes by their separation, and its depth and drain rate from that.
//! - [`outputs`]: whether two outputs share a buffer.
//! - [`throughput`]: the highest rate without a loss.
//! - [`incast`]: few events of more and more ports.
//! - [`soak`]: hours at a load that a device carries.
//! - [`recovery`]: how long after an overflow a burst passes.
//! - [`generator`]: synchronous sources as a program of their own.
//! - [`replay`]: a capture, sent again.
//! - [`receipt`]: what came of a generator's events, by source, and at which hop the rest was lost.
//! - [`device_counters`]: what a switch says that it has thrown away.
//! - [`switch`]: the physics of a buffer: queue, search, fit, a device that is simulated.
//! - [`storage`]: what a disk sustains, against what a plan needs.
//! - [`predict`]: what a planned run does to a queue, hop by hop.
//! - [`report`]: one page of a result.

pub mod device_counters;
pub mod generator;
pub mod host;
pub mod incast;
pub mod outputs;
pub mod predict;
pub mod receipt;
pub mod recovery;
pub mod replay;
pub mod report;
pub mod rig;
pub mod soak;
pub mod storage;
pub mod switch;
pub mod testbed;
pub mod throughput;
pub mod trial;
pub mod watershed;
