//! Measures the cost of the generator, against bare loops that send the same datagrams to the same receiver.
//!
//! ```text
//!  16 sources of 1 kB on loopback ─► one receiver that does not read
//!    all events due at once:  Emitter │ sendmmsg of 64 per source        datagrams per second of one thread
//!    an event each 200 µs:    Emitter │ wait, 16 × send                  first to last datagram of an event; how late
//! ```
//! The kernel drops what the receiver's buffer has no space for, at the last step and of both alike. The time is that of the thread's
//! processor for the rate, and the clock's for skew and lateness.

use std::io;
use std::net::{Ipv4Addr, SocketAddr, UdpSocket};
use std::time::{Duration, Instant};

use crate::transport::BareSender;
use serde_json::{Value, json};
use thalweg_data::measure::{Clock, Measurement, compare, median, range};
use thalweg_transport::thread_cpu_time;

use thalweg_qualify::trial::{Emission, Emitter, PayloadSizes, Schedule, new_run, soon};

const SOURCES: u8 = 16;
const PAYLOAD_BYTES: usize = 1000;
/// Events of a turn in which all are due at once.
const RATE_EVENTS: u64 = 4096;
/// Events of a turn that are due one by one, and how far apart.
const TIMED_EVENTS: u32 = 1000;
const SEPARATION: Duration = Duration::from_micros(200);

/// Sends events of 16 sources over loopback, `repeats` times: datagrams per second of processor time of one thread against a bare
/// `sendmmsg` loop, and skew and lateness of timed events against a bare `send` loop.
///
/// # Errors
/// When loopback sockets cannot be opened, or the kernel refuses datagrams.
pub fn emit(repeats: usize) -> io::Result<Measurement> {
    // It is not read; it answers for its port.
    let receiver = UdpSocket::bind((Ipv4Addr::LOCALHOST, 0))?;
    let to = receiver.local_addr()?;
    let addresses: Vec<SocketAddr> =
        (1..=SOURCES).map(|last| SocketAddr::from((Ipv4Addr::new(127, 0, 0, last), 0))).collect();
    let mut emitter = Emitter::open(new_run(), &addresses, to, PayloadSizes::constant(PAYLOAD_BYTES as u32))?;
    let mut bare = BareSender::open(&addresses, to, PAYLOAD_BYTES)?;
    let amount = RATE_EVENTS * u64::from(SOURCES);
    let (mut failed, mut bare_failed) = (0, 0);
    let rate = compare(
        Clock::Processor,
        repeats,
        || {
            let start = thread_cpu_time();
            failed += emitter.emit(0, SOURCES.into(), &Schedule::burst(RATE_EVENTS, 0.0), soon()).failed;
            thread_cpu_time() - start
        },
        || {
            let start = thread_cpu_time();
            bare_failed += amount - bare.many_each(RATE_EVENTS as usize);
            thread_cpu_time() - start
        },
    );
    let timed = Timed::measure(repeats, &mut emitter, &mut bare);
    failed += timed.failed;
    if failed + bare_failed > 0 {
        let why = format!(
            "the kernel refused {failed} datagrams of the generator and {bare_failed} of the baseline, so there is no figure; raise net.core.wmem_default and run it again"
        );
        return Err(io::Error::other(why));
    }
    let baseline = "a bare sendmmsg loop: 64 datagrams per call and socket, one socket after the other";
    Ok(Measurement::of_rate("emit", "datagrams/s", amount as f64, baseline, rate)
        .with("sources", SOURCES)
        .with("datagram_bytes", PAYLOAD_BYTES)
        .with("beside", timed.beside())
        .with("separation_us", SEPARATION.as_micros() as u64)
        .repeated(repeats))
}

/// Medians of events that are due one by one.
struct Timed {
    skew_s: f64,
    bare_skew_s: f64,
    /// Ours by the baseline's, pair by pair: below 1 ours is shorter.
    skew_ratio: f64,
    skew_ratio_range: [f64; 2],
    lateness_s: f64,
    bare_lateness_s: f64,
    failed: u64,
}

impl Timed {
    /// Two figures, medians over the events of a turn and then over the turns; the ratios are ours by the baseline's, pair by pair.
    fn beside(&self) -> Vec<Value> {
        let baseline = "the baseline, which waits for the time and then sends once per socket";
        vec![
            json!({
                "what": "skew", "value": 1e6 * self.skew_s, "unit": "µs", "ratio": self.skew_ratio,
                "ratio_range": self.skew_ratio_range, "baseline": baseline,
                "baseline_value": 1e6 * self.bare_skew_s,
                "remark": "first to last datagram of an event, median; below 1 ours is shorter",
            }),
            json!({
                "what": "lateness", "value": 1e6 * self.lateness_s, "unit": "µs",
                "ratio": self.lateness_s / self.bare_lateness_s, "baseline": "the same baseline",
                "baseline_value": 1e6 * self.bare_lateness_s, "remark": "of an event, median",
            }),
        ]
    }

    fn measure(repeats: usize, emitter: &mut Emitter, bare: &mut BareSender) -> Timed {
        let mut columns: [Vec<f64>; 5] = Default::default();
        let mut failed = 0;
        for turn in 0..=repeats.max(1) {
            let baseline = bare_turn(bare);
            let schedule = Schedule::burst(u64::from(TIMED_EVENTS), SEPARATION.as_secs_f64());
            let ours = emitter.emit(0, SOURCES.into(), &schedule, soon());
            failed += ours.failed + baseline.failed;
            // The first turn warms up.
            if turn > 0 {
                let (skew, bare_skew) = (ours.skew_median_s(), baseline.skew_median_s());
                let figures = [
                    skew,
                    bare_skew,
                    skew / bare_skew,
                    ours.lateness_median_s(),
                    baseline.lateness_median_s(),
                ];
                columns.iter_mut().zip(figures).for_each(|(column, figure)| column.push(figure));
            }
        }
        let skew_ratio_range = range(&columns[2]);
        let [skew_s, bare_skew_s, skew_ratio, lateness_s, bare_lateness_s] =
            columns.each_mut().map(|column| median(column));
        Timed { skew_s, bare_skew_s, skew_ratio, skew_ratio_range, lateness_s, bare_lateness_s, failed }
    }
}

/// One turn of the baseline: looks at the clock until an event is due, then sends.
fn bare_turn(bare: &mut BareSender) -> Emission {
    let mut emission = Emission::default();
    let start = Instant::now() + SEPARATION;
    for event in 0..TIMED_EVENTS {
        let due = start + SEPARATION * event;
        let mut now = Instant::now();
        while now < due {
            std::hint::spin_loop();
            now = Instant::now();
        }
        let sent = bare.one_each();
        emission.skew_s.push(now.elapsed().as_secs_f64());
        emission.lateness_s.push((now - due).as_secs_f64());
        emission.sent += sent;
        emission.failed += u64::from(SOURCES) - sent;
    }
    emission
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_bench_gives_rate_skew_and_lateness() {
        let measured = emit(1).expect("loopback");
        assert!(measured.value > 0.0 && measured.ratio > 0.0, "{measured:?}");
        let beside = measured.parameters["beside"].as_array().expect("two figures");
        assert_eq!(beside.len(), 2);
        for row in beside {
            assert!(row["value"].as_f64().is_some_and(|value| value > 0.0), "{row}");
        }
    }
}
