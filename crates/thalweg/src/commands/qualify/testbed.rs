//! `qualify testbed`: a device to try things at, there until it is not needed any more.

use std::net::Ipv4Addr;
use std::process::{Child, Command, ExitStatus};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use anyhow::Context;
use serde::Serialize;
use signal_hook::consts::SIGTERM;
use thalweg_qualify::testbed::{RECEIVER, TestbedSettings};

use super::device::testbed as made;
use crate::arguments::QualifyTestbed;
use crate::commands::Ended;
use crate::report::{CommandOutcome, print};
use crate::signals::Signals;

/// Between two looks at whether to end.
const CHECK_EVERY: Duration = Duration::from_millis(50);

/// The place of the device.
#[derive(Debug, Serialize)]
struct Place {
    settings: TestbedSettings,
    /// Network namespaces: sources, device, receiver.
    namespaces: [String; 3],
    first_source: String,
    receiver: String,
    /// Behind the second output, where there is one: every second source may send there.
    second_receiver: Option<String>,
}

pub(super) fn testbed(options: &QualifyTestbed, json: bool) -> Ended {
    // Before there is anything to remove.
    let signals = Signals::install()?;
    let testbed = made(&options.testbed)?;
    let place = Place {
        settings: testbed.settings(),
        namespaces: testbed.namespaces().map(str::to_owned),
        first_source: testbed.source(0).to_string(),
        receiver: RECEIVER.to_string(),
        second_receiver: testbed.receivers().get(1).map(Ipv4Addr::to_string),
    };
    let Some((program, arguments)) = options.command.split_first() else {
        print(&place, json, words_of)?;
        while !signals.stop_requested() {
            std::thread::sleep(CHECK_EVERY);
        }
        return Ok(CommandOutcome::Done);
    };
    let [sources, device, receiver] = &place.namespaces;
    let terminated = Arc::new(AtomicBool::new(false));
    signal_hook::flag::register(SIGTERM, terminated.clone())?;
    let child = Command::new(program)
        .args(arguments)
        .env("THALWEG_SOURCES", sources)
        .env("THALWEG_DEVICE", device)
        .env("THALWEG_RECEIVER", receiver)
        .spawn()
        .with_context(|| format!("{program} could not be started"))?;
    let ended = wait(child, &terminated)?;
    Ok(if ended.success() { CommandOutcome::Done } else { CommandOutcome::Failed })
}

/// Waits for the program, and passes SIGTERM on to it. SIGINT of a terminal has reached it already.
fn wait(mut child: Child, terminated: &AtomicBool) -> anyhow::Result<ExitStatus> {
    loop {
        if let Some(ended) = child.try_wait()? {
            return Ok(ended);
        }
        if terminated.swap(false, Ordering::AcqRel) {
            let process = rustix::process::Pid::from_child(&child);
            rustix::process::kill_process(process, rustix::process::Signal::TERM)?;
        }
        std::thread::sleep(CHECK_EVERY);
    }
}

fn words_of(place: &Place) -> String {
    let [sources, device, receiver] = &place.namespaces;
    let second = place.second_receiver.as_ref().map_or(String::new(), |address| format!(" and {address}"));
    format!(
        "sources      namespace {sources}, from {}\nreceiver     namespace {receiver}, {}{second}\ndevice       namespace {device}: tc -n {device} -s qdisc show dev out0\n\
         Try:  ip netns exec {receiver} thalweg qualify receive --listen {}:50000\n      ip netns exec {sources} thalweg qualify emit --to {}:50000\nIt is removed on Ctrl-C.",
        place.first_source, place.receiver, place.receiver, place.receiver
    )
}
