//! Measures what a device under test can do.
//!
//! ```text
//!  device: testbed or hosts ─► Rig ─► watershed, throughput, incast, recovery ─► text, JSON, SVG, page
//!  storage: what a disk sustains
//!  emit, receive: sources and receiver on their own          testbed: a device to try them at
//! ```

mod device;
mod generate;
mod incast;
mod outputs;
mod recovery;
mod soak;
mod storage;
mod testbed;
mod throughput;
mod watershed;

use super::Ended;
use crate::arguments::{Qualify, QualifyCommand};

pub(crate) fn qualify(options: &Qualify, json: bool) -> Ended {
    match &options.command {
        QualifyCommand::Watershed(options) => watershed::watershed(options, json),
        QualifyCommand::Throughput(options) => throughput::throughput(options, json),
        QualifyCommand::Incast(options) => incast::incast(options, json),
        QualifyCommand::Recovery(options) => recovery::recovery(options, json),
        QualifyCommand::Soak(options) => soak::soak(options, json),
        QualifyCommand::Testbed(options) => testbed::testbed(options, json),
        QualifyCommand::Emit(options) => generate::emit(options, json),
        QualifyCommand::Receive(options) => generate::receive(options, json),
        QualifyCommand::Storage(options) => storage::storage(options, json),
    }
}

/// The sign of an outcome in a list and in a picture.
fn sign(outcome: &str) -> &'static str {
    match outcome {
        "lossless" => "●",
        "lossy" => "×",
        _ => "?",
    }
}

/// `: why`, or nothing.
fn because(why: &str) -> String {
    if why.is_empty() { String::new() } else { format!(": {why}") }
}
