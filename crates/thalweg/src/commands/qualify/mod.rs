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

use anyhow::anyhow;

use super::Ended;
use crate::arguments::{Qualify, QualifyCommand};
use crate::report::Failure;

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

/// Refuses numbers of ports that the device does not have.
fn check_ports(asked: &[u32], sources: u32) -> Result<(), Failure> {
    match asked.iter().find(|ports| **ports > sources) {
        None => Ok(()),
        Some(ports) => Err(Failure::Usage(anyhow!(
            "--ports {ports}: the device has {sources} sources; write at most {sources}, or give it more: a testbed has {ports} with \
             sources={ports}, hosts have more with --sources-per-host"
        ))),
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ports_that_the_device_does_not_have_are_refused_with_how_many_it_has() {
        check_ports(&[1, 4], 4).unwrap_or_else(|error| panic!("{error:?}"));
        let Err(Failure::Usage(refused)) = check_ports(&[2, 8], 4) else { panic!("refused as an argument") };
        let refused = refused.to_string();
        for word in ["--ports 8", "4 sources", "sources=8"] {
            assert!(refused.contains(word), "{word} in {refused}");
        }
    }
}
