//! Synchronous sources as a program of their own: what was asked for, and what was sent of it.
//!
//! ```text
//!  trigger program ─► times ─► Emitter: K datagrams each, then the end of every source ─► Emitted
//! ```
//! The triggers are those that drive emulated boards. A generator that cannot keep up says so: its report has the rate that was asked for
//! and the one that was sent, and how late the events were.

use std::net::SocketAddr;
use std::time::Duration;

use schemars::JsonSchema;
use serde::Serialize;
pub use thalweg_frontend::trigger::{Kind, Settings, SettingsError, parse_times};

use crate::rig::control::{Opening, program_times};
use crate::rig::{StartSkew, emit_program};
use crate::trial::{Emission, Emitter, quantile, soon};

/// A sent rate below this part of the one asked for is another program.
const LEAST_RATE: f64 = 0.98;

/// A quantity of every event: half of them are below the first, one in a hundred above the second.
#[derive(Clone, Copy, Debug, Serialize, JsonSchema)]
pub struct Spread {
    /// Median, µs.
    pub p50_us: f64,
    /// One in a hundred is above, µs.
    pub p99_us: f64,
    /// The largest, µs.
    pub most_us: f64,
}

impl Spread {
    pub(crate) fn of(values_s: &[f64]) -> Spread {
        let at = |fraction| 1e6 * quantile(values_s, fraction);
        Spread { p50_us: at(0.5), p99_us: at(0.99), most_us: at(1.0) }
    }
}

/// The outcome of an emission.
#[derive(Clone, Debug, Serialize, JsonSchema)]
pub struct Emitted {
    /// Sources.
    pub sources: u32,
    /// Events.
    pub events: u64,
    /// Datagrams that the kernel has taken.
    pub sent: u64,
    /// Datagrams that it has not.
    pub failed: u64,
    /// Events per second that were asked for, in the mean; null of fewer than two.
    pub asked_rate_hz: Option<f64>,
    /// Events per second that were sent.
    pub sent_rate_hz: Option<f64>,
    /// The lateness of events.
    pub lateness: Spread,
    /// The time from the first source's datagram of an event to the last one's.
    pub skew: Spread,
    /// The accuracy with which sources started together.
    pub start_skew: StartSkew,
    /// The time at which each event began, s from when the first was due.
    #[serde(skip)]
    pub times_s: Vec<f64>,
    /// Why this is not what was asked for; empty where it is.
    pub remark: String,
}

impl Emitted {
    fn of(sources: u32, start_skew: StartSkew, asked_s: &[f64], emission: &Emission) -> Emitted {
        let rate = |times: &[f64]| {
            let seconds = times.last()? - times.first()?;
            (seconds > 0.0).then(|| (times.len() - 1) as f64 / seconds)
        };
        let (asked_rate_hz, sent_rate_hz) = (rate(asked_s), rate(&emission.times_s));
        let is_slow = asked_rate_hz.zip(sent_rate_hz).is_some_and(|(asked, sent)| sent < LEAST_RATE * asked);
        let remark = match (emission.failed, is_slow) {
            (0, false) => String::new(),
            (0, true) => "events were sent more slowly than asked for: fewer sources, shorter datagrams, or a core of its own".to_owned(),
            (failed, _) => format!("{failed} datagrams were not taken by the kernel: is the way up, and somebody there?"),
        };
        Emitted {
            sources,
            events: emission.times_s.len() as u64,
            sent: emission.sent,
            failed: emission.failed,
            asked_rate_hz,
            sent_rate_hz,
            lateness: Spread::of(&emission.lateness_s),
            skew: Spread::of(&emission.skew_s),
            start_skew,
            times_s: emission.times_s.clone(),
            remark,
        }
    }

    /// Returns true if it is what was asked for.
    pub fn is_as_asked(&self) -> bool {
        self.remark.is_empty()
    }
}

/// Sends the events of a trigger program, at most `most` of them, and the end of every source.
///
/// # Errors
/// When the settings of the program are invalid.
pub fn generate(emitter: &mut Emitter, settings: &Settings, most: u64) -> Result<Emitted, String> {
    let times = program_times(settings, most)?;
    let emission = emitter.emit_and_end(0, emitter.sources(), times.iter().copied(), soon());
    let asked_s: Vec<f64> = times.iter().map(Duration::as_secs_f64).collect();
    Ok(Emitted::of(emitter.sources(), StartSkew::OneHost, &asked_s, &emission))
}

/// Does the same with sources on other hosts that start together.
///
/// # Errors
/// When the settings are invalid, in words, or a host does not answer, or refuses.
pub fn generate_on_hosts(
    hosts: &[SocketAddr],
    opening: &Opening,
    settings: &Settings,
    most: u64,
) -> Result<Emitted, String> {
    let asked_s: Vec<f64> = program_times(settings, most)?.iter().map(Duration::as_secs_f64).collect();
    let seconds = Duration::from_secs_f64(asked_s.last().copied().unwrap_or(0.0));
    let sent = emit_program(hosts, opening, settings, most, seconds);
    let (emission, skew) = sent.map_err(|error| error.to_string())?;
    let sources = u32::from(opening.sources) * hosts.len() as u32;
    Ok(Emitted::of(sources, skew, &asked_s, &emission))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_generator_does_not_claim_what_it_did_not_send() {
        let asked: Vec<f64> = (0..100).map(|event| f64::from(event) * 1e-4).collect();
        let emission = |separation_s: f64, failed| Emission {
            times_s: (0..100).map(|event| f64::from(event) * separation_s).collect(),
            lateness_s: vec![1e-7; 100],
            skew_s: vec![2e-5; 100],
            sent: 1600 - failed,
            failed,
            ..Emission::default()
        };
        let good = Emitted::of(16, StartSkew::OneHost, &asked, &emission(1e-4, 0));
        assert!(good.is_as_asked() && good.skew.p50_us == 20.0, "{good:?}");
        assert!(good.asked_rate_hz.is_some_and(|rate| (rate - 1e4).abs() < 1e-6), "{good:?}");
        assert!(
            Emitted::of(16, StartSkew::OneHost, &asked, &emission(1.5e-4, 0))
                .remark
                .contains("more slowly than asked for")
        );
        assert!(
            Emitted::of(16, StartSkew::OneHost, &asked, &emission(1e-4, 3)).remark.starts_with("3 datagrams")
        );
        assert_eq!(Emitted::of(16, StartSkew::OneHost, &asked[..1], &Emission::default()).sent_rate_hz, None);
    }
}
