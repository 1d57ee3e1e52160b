//! What a host and a switch can do, found before a run depends on it.
//!
//! ```text
//!  host       /proc, /sys, drivers, what a run needs ─► checks, and what sets what is not as it should be
//!  testbed    a bridge with a shaped output between network namespaces: a device that is known
//!  trial      a burst: sent as asked, received to its end, judged
//!  rig        a device between its sources, here or on other hosts, and its receiver
//!  watershed  search × trials ─► map of a device: its depth, its drain rate, its queues
//!  outputs    two maps: one output congested, then both ─► whether they share a buffer
//!  throughput the highest rate without a loss          incast    few events of more and more ports
//!  soak       hours at a load that a device carries
//!  recovery   how long after an overflow a burst passes
//!  generator  a trigger program, sent by synchronous sources, and what was sent of it      replay  a capture, sent again
//!  receipt    what came of it, by source, and at which hop the rest was lost
//!  switch     trials (when sent, how much, lost or not) ─► search ─► fit: depth and drain rate of a buffer
//!  storage    write, read, both at once, over time and by position ─► what a disk sustains, against what a plan needs
//!  predict    depth, rates, triggers ─► load, loss and bottleneck of a hop
//!  report     one page of a result
//!  bench      what sending costs beside a bare loop
//! ```

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
