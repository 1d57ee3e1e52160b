//! The arguments of `predict`: a configuration, a hop, or a published installation.

use std::path::PathBuf;

use clap::Args;
use thalweg_qualify::predict::chain::sweep::Sweep;
use thalweg_qualify::predict::quantity;

use super::qualification::{above_zero_hz, dead_time_us};

#[derive(Debug, Args)]
pub(crate) struct Predict {
    /// A configuration of `thalweg run`: every hop from its sources to the disk.
    #[arg(conflicts_with_all = PREDICTED_HOP)]
    pub(crate) configuration: Option<PathBuf>,
    /// What a configuration does not say: rates and depths of links, switch, host and disk, and what real boards send.
    #[arg(long, value_name = "FILE", requires = "configuration")]
    pub(crate) network: Option<PathBuf>,
    /// Compute a published installation and print its published figures beside.
    #[arg(long, value_enum, conflicts_with_all = PREDICTED_HOP, conflicts_with = "configuration")]
    pub(crate) reproduce: Option<PublishedTest>,
    /// Sources that send together, each on a link of its own.
    #[arg(long, required_unless_present_any = OTHER_WAYS, value_parser = clap::value_parser!(u32).range(1..=65_536))]
    pub(crate) links: Option<u32>,
    /// Rate of each link, as 1Gbit.
    #[arg(long, required_unless_present_any = OTHER_WAYS, value_name = "RATE", value_parser = quantity::bits_per_second)]
    pub(crate) link_rate: Option<f64>,
    /// Rate of the output, as 10Gbit.
    #[arg(long, required_unless_present_any = OTHER_WAYS, value_name = "RATE", value_parser = quantity::bits_per_second)]
    pub(crate) output_rate: Option<f64>,
    /// Depth of the buffer before the output, as 330MB.
    #[arg(long, required_unless_present_any = OTHER_WAYS, value_name = "SIZE", value_parser = quantity::bytes)]
    pub(crate) depth: Option<f64>,
    /// UDP payload that each source sends at a trigger, in bytes.
    #[arg(long, required_unless_present_any = OTHER_WAYS, value_name = "BYTES")]
    pub(crate) payload: Option<u32>,
    /// Triggers per second, before dead time; of a configuration, in place of its own.
    #[arg(long, required_unless_present_any = OTHER_WAYS, conflicts_with = "reproduce", value_name = "HZ", value_parser = above_zero_hz)]
    pub(crate) rate_hz: Option<f64>,
    /// Triggers at random, or at equal distances.
    #[arg(long, value_enum, default_value_t = TriggerProcess::Poisson, conflicts_with_all = OTHER_WAYS)]
    pub(crate) triggers: TriggerProcess,
    /// Dead time behind each trigger; for random triggers.
    #[arg(long, value_name = "MICROSECONDS", default_value_t = 0.0, value_parser = dead_time_us, conflicts_with_all = OTHER_WAYS)]
    pub(crate) dead_time_us: f64,
    /// Predict at several values of one quantity, KEY=FROM:TO:STEPS, with `:log` behind it at equal ratios; as rate_hz=1000:40000:20.
    #[arg(long, value_name = "KEY=FROM:TO:STEPS", value_parser = Sweep::parse, conflicts_with = "reproduce")]
    pub(crate) sweep: Option<Sweep>,
    /// Draw the sweep to this file: utilisation and loss of each hop; of nectarcam, the published figure.
    #[arg(long, value_name = "FILE")]
    pub(crate) svg: Option<PathBuf>,
    /// Number of triggers that are simulated; 1000000 of one hop, 100000 of a configuration or an installation, 20000 at each value of a sweep
    /// unless given.
    #[arg(long, value_name = "TRIGGERS", value_parser = clap::value_parser!(u64).range(1..=1_000_000_000))]
    pub(crate) simulate: Option<u64>,
    /// Seed of the simulated triggers; of a configuration, in place of its own.
    #[arg(long, conflicts_with = "reproduce")]
    pub(crate) seed: Option<u64>,
}

/// The options that describe a hop, and nothing else.
const PREDICTED_HOP: [&str; 5] = ["links", "link_rate", "output_rate", "depth", "payload"];
/// What can be given in place of a hop.
const OTHER_WAYS: [&str; 2] = ["reproduce", "configuration"];

/// Published installations that can be computed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub(crate) enum PublishedTest {
    /// 44 boards of the NectarCAM camera, 1 kB each, at 1 Gb/s into 10 Gb/s
    Nectarcam,
    /// The whole camera: 265 boards into 4 × 10 Gb/s, reduced to 10 Gb/s behind event building
    NectarcamCamera,
    /// The two levels of COMET Phase-I: 105 boards into a front-end computer, eight of these into a back-end computer
    Comet,
    /// An event builder of the size of CMS: 60 × 60 units, 100 kHz × 2 MB
    Cms,
}

/// How triggers lie in time.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub(crate) enum TriggerProcess {
    /// At random
    Poisson,
    /// At equal distances
    Constant,
}
