//! The device that a command measures, and the page of the results.
//!
//! ```text
//!  --testbed KEY=VALUE,… ─► Testbed ─┐
//!  --hosts A,B --receive C ─► Hosts ─┴─► Rig ─► command ─► text, JSON, --svg, --report
//! ```

use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::time::{Duration, Instant, SystemTime};

use anyhow::{Context, anyhow};
use serde::Serialize;
use thalweg_qualify::device_counters::CountersCommand;
use thalweg_qualify::report::Report;
use thalweg_qualify::rig::{FlowControl, Hosts, PauseState, Rig, RigError, StartSkew};
use thalweg_qualify::testbed::{Testbed, TestbedSettings, become_root_of_own_namespace};

use crate::arguments::{QualifiedDevice, QualifyOutputs};
use crate::report::{Failure, check_output, print, refused_output, write_output};
use crate::signals::Signals;

/// A page that is looked at meanwhile is written so often.
const LIVE_EVERY: Duration = Duration::from_secs(1);
/// The options that name the files of a result.
const SVG: &str = "--svg";
const REPORT: &str = "--report";

/// A device under test before sources and receiver are opened.
pub(super) struct Device {
    what: What,
    stop: Arc<AtomicBool>,
}

enum What {
    Testbed(Testbed),
    Hosts(Hosts),
}

impl Device {
    pub(super) fn open(options: &QualifiedDevice) -> Result<Device, Failure> {
        let stop = Signals::install()?.stop_flag().clone();
        let what = match (&options.testbed, options.receive, options.datagram) {
            (Some(text), ..) => What::Testbed(testbed(text)?),
            (None, Some(receiver), Some(datagram_bytes)) => What::Hosts(Hosts {
                receiver,
                controls: options.hosts.clone(),
                sources_per_host: options.sources_per_host,
                datagram_bytes,
                rate_bits_per_s: options.rate,
                longest_drain: Duration::from_secs_f64(options.longest_drain_ms * 1e-3),
                counters: options.counters_command.clone().map(CountersCommand),
            }),
            (None, ..) => {
                return Err(Failure::Usage(anyhow!("--testbed, or --hosts with --receive and --datagram")));
            }
        };
        Ok(Device { what, stop })
    }

    /// The datagrams that are asked for where nothing else is, bytes.
    pub(super) fn datagram_bytes(&self) -> u32 {
        match &self.what {
            What::Testbed(testbed) => testbed.settings().datagram_bytes,
            What::Hosts(hosts) => hosts.datagram_bytes,
        }
    }

    /// Opens sources and receiver, with datagrams of this size.
    pub(super) fn rig(&self, datagram_bytes: u32) -> Result<Rig<'_>, RigError> {
        match &self.what {
            What::Testbed(testbed) => Rig::at_testbed(testbed, datagram_bytes, &self.stop),
            What::Hosts(hosts) => Rig::between(&Hosts { datagram_bytes, ..hosts.clone() }, &self.stop),
        }
    }
}

/// Makes a testbed, as root or in a user namespace.
pub(super) fn testbed(text: &str) -> Result<Testbed, Failure> {
    let settings: TestbedSettings =
        text.parse().map_err(|error| Failure::Usage(anyhow!("--testbed: {error}")))?;
    become_root_of_own_namespace().context(
        "a testbed needs root, or a kernel that gives user namespaces to anybody (kernel.unprivileged_userns_clone, user.max_user_namespaces)",
    )?;
    Ok(Testbed::new(settings)?)
}

/// Describes how sources started together.
pub(super) fn start_text(skew: StartSkew) -> String {
    match skew {
        StartSkew::OneHost => "all sources are on one host".to_owned(),
        StartSkew::WithinMicroseconds(most) => format!("hosts started within {most} µs, as their clocks say"),
        StartSkew::Unknown => {
            "how well hosts started together is unknown: nobody holds the clock of one of them".to_owned()
        }
    }
}

/// Describes the effect of PAUSE; empty for a device of this host's kernel, which has none.
pub(super) fn flow_control_text(found: &FlowControl) -> Option<String> {
    (found.state != PauseState::NoCard).then(|| found.words.clone())
}

/// The same, as a fact of a page.
pub(super) fn flow_control_fact(found: &FlowControl) -> Option<(String, String)> {
    flow_control_text(found).map(|words| ("flow control".to_owned(), words))
}

/// The files that are requested in addition to the printed text, and the page as it grows.
pub(super) struct Outputs<'o> {
    options: &'o QualifyOutputs,
    written: Option<Instant>,
}

impl Outputs<'_> {
    /// Nothing is measured for files that cannot be written.
    pub(super) fn new(options: &QualifyOutputs) -> Result<Outputs<'_>, Failure> {
        if let Some(file) = &options.svg {
            check_output(SVG, file)?;
        }
        if let Some(file) = &options.report {
            Report::check_place(file).map_err(|cause| refused_output(REPORT, file, &cause))?;
        }
        Ok(Outputs { options, written: None })
    }

    /// Writes the page as it is now, at most once a second. One that cannot be written any more is said at the end.
    pub(super) fn live(&mut self, report: impl FnOnce() -> Report) {
        let due = self.written.is_none_or(|written| written.elapsed() >= LIVE_EVERY);
        if let Some(file) = self.options.report.as_ref().filter(|_| due) {
            let _later = report().write(file, &made_by());
            self.written = Some(Instant::now());
        }
    }

    /// Prints the result, then writes what is asked for: whatever becomes of one of them, the others are had.
    pub(super) fn finish<T: Serialize>(
        &self,
        (found, json): (&T, bool),
        words: impl FnOnce(&T) -> String,
        svg: impl FnOnce(&T) -> String,
        report: impl FnOnce(&T) -> Report,
    ) -> Result<(), Failure> {
        let printed = print(found, json, words);
        let drawn = self.options.svg.as_ref().map(|file| write_output(SVG, file, &svg(found)));
        if let Some(file) = &self.options.report {
            let written = report(found).write(file, &made_by());
            written.with_context(|| format!("{REPORT} {}", file.display()))?;
        }
        drawn.transpose()?;
        Ok(printed?)
    }
}

/// Returns the tools, place and time of a measurement.
fn made_by() -> Vec<(String, String)> {
    let read = |path: &str| {
        std::fs::read_to_string(path).map_or("unknown".to_owned(), |text| text.trim().to_owned())
    };
    let words: Vec<String> = std::env::args().collect();
    [
        ("thalweg", env!("CARGO_PKG_VERSION").to_owned()),
        ("command", words.join(" ")),
        ("host", read("/proc/sys/kernel/hostname")),
        ("kernel", read("/proc/sys/kernel/osrelease")),
        (
            "processors",
            std::thread::available_parallelism().map_or("unknown".to_owned(), |count| count.to_string()),
        ),
        ("time (UTC)", thalweg_run::recording::utc_text(SystemTime::now())),
    ]
    .map(|(name, value)| (name.to_owned(), value))
    .into()
}
