//! Prepares the bodies that an emulated board sends.
//!
//! ```text
//!  seed ─► pulses of some channels ─► samples and hit times ─► raw body
//!                                          └ over threshold ─► suppressed body
//! ```
//! A pulse starts from the channel's pedestal, a drift time before the trigger, and has the shape of a shaping
//! amplifier.

use rand::{RngExt, SeedableRng};
use rand_distr::{Exp1, StandardNormal};
use rand_pcg::Pcg64Mcg;

use super::settings::{Mode, Settings};
use crate::sitcp::emit;
use crate::sitcp::settings::Profile;
use crate::sitcp::wire::recbe::{CHANNELS, HIT, SAMPLE_BYTES};
use crate::sitcp::wire::str_tdc::{Kind, Word};
use crate::sitcp::wire::{adc_sitcp, recbe};

/// One body.
#[derive(Clone, Debug, Default)]
pub(super) struct Payload {
    pub body: Vec<u8>,
    /// In a raw body: offsets of the hit words, and the TDC counts from each hit to the trigger.
    pub hits: Vec<(u32, u16)>,
}

/// All bodies of a board.
#[derive(Debug)]
pub(super) struct Payloads {
    bodies: Vec<Payload>,
    empty: Payload,
    twelve: Payload,
}

/// Nanoseconds per sample: 4 clocks of 120 MHz.
const SAMPLE_NS: f64 = 4.0 / 0.120;
/// Samples above their pedestal by this many ADC counts belong to a hit.
const THRESHOLD: i32 = 15;
const PEDESTAL: i32 = 200;
/// Highest value of a 10-bit converter.
const ADC_FULL: i32 = 1023;
/// Highest value of the 12-bit converter of ADC-SiTCP.
const ADC_SITCP_FULL: i32 = 4095;
const ADC_SITCP_PEDESTAL: i32 = 2170;
/// Nanoseconds of a heartbeat frame.
const FRAME_NS: u32 = 1 << 19;
/// Rise time of a pulse in samples.
const SHAPING: f64 = 2.0;

impl Payloads {
    pub fn new(settings: &Settings) -> Payloads {
        let mut random = Pcg64Mcg::seed_from_u64(settings.seed);
        let make = |_| match (settings.profile, settings.mode) {
            (Profile::Recbe | Profile::Belle2, Mode::Raw) => raw(settings, &mut random),
            (Profile::Recbe | Profile::Belle2, Mode::Suppressed) => suppressed(settings, &mut random),
            (Profile::AdcSitcp, _) => waveforms(settings, &mut random),
            (Profile::StrTdc, _) => edges(settings, &mut random),
        };
        let bodies = (0..settings.prepared).map(make).collect();
        let mut twelve = Payload::default();
        let suppresses = matches!(settings.profile, Profile::Recbe | Profile::Belle2);
        if suppresses && settings.mode == Mode::Suppressed {
            emit::channel_record(21, 7, 640, &[12, 20, 31], &mut twelve.body);
        }
        Payloads { bodies, empty: Payload::default(), twelve }
    }

    #[inline]
    pub fn choose(&self, nth: u64) -> &Payload {
        &self.bodies[(nth % self.bodies.len() as u64) as usize]
    }

    pub fn empty(&self) -> &Payload {
        &self.empty
    }

    pub fn twelve(&self) -> &Payload {
        &self.twelve
    }
}

/// One hit of a channel.
struct Pulse {
    height: f64,
    /// Time of its start, from the start of the window.
    start_ns: f64,
}

impl Pulse {
    fn draw(samples: u16, random: &mut Pcg64Mcg) -> Pulse {
        let exponential: f64 = random.sample(Exp1);
        let start_ns = random.random_range(0.1..0.7) * f64::from(samples.max(1)) * SAMPLE_NS;
        Pulse { height: 60.0 + 150.0 * exponential, start_ns }
    }

    /// Its amplitude in a sample.
    fn at(&self, sample: u16) -> f64 {
        let since = (f64::from(sample) * SAMPLE_NS - self.start_ns) / SAMPLE_NS;
        let rise = since / SHAPING;
        if rise <= 0.0 { 0.0 } else { self.height * rise * (1.0 - rise).exp() }
    }
}

/// The pulses of an event: each channel is hit with the same probability.
fn draw_pulses(channels: usize, settings: &Settings, random: &mut Pcg64Mcg) -> Vec<Option<Pulse>> {
    let probability = settings.mean_hits() / channels as f64;
    let samples = settings.window;
    (0..channels)
        .map(|_| (random.random::<f64>() < probability).then(|| Pulse::draw(samples, random)))
        .collect()
}

fn sample(pedestal: i32, full: i32, pulse: Option<&Pulse>, at: u16, random: &mut Pcg64Mcg) -> i32 {
    let noise: f64 = random.sample(StandardNormal);
    let signal = pulse.map_or(0.0, |pulse| pulse.at(at));
    (pedestal + (signal + 1.5 * noise).round() as i32).clamp(0, full)
}

fn raw(settings: &Settings, random: &mut Pcg64Mcg) -> Payload {
    let pulses = draw_pulses(CHANNELS, settings, random);
    let window_ns = f64::from(settings.window) * SAMPLE_NS;
    let mut payload = Payload::default();
    for at in 0..settings.window {
        let (mut adc, mut tdc) = ([0; CHANNELS], [0; CHANNELS]);
        for (channel, pulse) in pulses.iter().enumerate() {
            adc[channel] = sample(PEDESTAL, ADC_FULL, pulse.as_ref(), at, random) as u16;
            let begins = |pulse: &&Pulse| (pulse.start_ns / SAMPLE_NS) as u16 == at;
            if let Some(pulse) = pulse.as_ref().filter(begins) {
                tdc[channel] = HIT;
                let word = usize::from(at) * SAMPLE_BYTES + 2 * (CHANNELS + channel);
                payload.hits.push((word as u32, (window_ns - pulse.start_ns) as u16));
            }
        }
        emit::raw_sample(&adc, &tdc, &mut payload.body);
    }
    payload
}

fn suppressed(settings: &Settings, random: &mut Pcg64Mcg) -> Payload {
    let window_ns = f64::from(settings.window) * SAMPLE_NS;
    let mut body = Vec::new();
    for (channel, pulse) in draw_pulses(CHANNELS, settings, random).into_iter().enumerate() {
        let Some(pulse) = pulse else { continue };
        let above = |at| sample(PEDESTAL, ADC_FULL, Some(&pulse), at, random);
        let over: Vec<i32> =
            (0..settings.window).map(above).filter(|adc| *adc > PEDESTAL + THRESHOLD).collect();
        let sum = over.iter().sum::<i32>().min(i32::from(u16::MAX)) as u16;
        let first = (window_ns - pulse.start_ns) as u16;
        // Second and third hits of the same channel, each shortly after the one before.
        let mut times = vec![first];
        let most = if settings.profile == Profile::Belle2 { 2 } else { 3 };
        while times.len() < most && random.random_bool(0.35) {
            let earlier = times[times.len() - 1];
            times.push(earlier.saturating_sub(random.random_range(5..40)));
        }
        if settings.profile == Profile::Belle2 && times.len() == 2 {
            times[1] |= HIT;
        }
        emit::channel_record(channel as u8, over.len() as u16, sum, &times, &mut body);
    }
    if settings.pads {
        emit::pad(&mut body);
    }
    debug_assert!(body.len() <= recbe::LONGEST_BODY);
    Payload { body, hits: Vec::new() }
}

fn waveforms(settings: &Settings, random: &mut Pcg64Mcg) -> Payload {
    let pulses = draw_pulses(adc_sitcp::CHANNELS, settings, random);
    let mut body = Vec::new();
    for at in 0..settings.window {
        for pulse in &pulses {
            let adc = sample(ADC_SITCP_PEDESTAL, ADC_SITCP_FULL, pulse.as_ref(), at, random) as u16;
            body.extend(adc.to_be_bytes());
        }
    }
    Payload { body, hits: Vec::new() }
}

/// Edges roughly in time order, like those of real boards.
fn edges(settings: &Settings, random: &mut Pcg64Mcg) -> Payload {
    let count = (settings.mean_hits() * random.random_range(0.5..1.5)).round() as usize;
    let mut times: Vec<u32> = (0..count).map(|_| random.random_range(0..FRAME_NS)).collect();
    times.sort_unstable();
    let mut edge = |time: u32| -> Word {
        let time = time.saturating_sub(random.random_range(0..64));
        let width = random.random_range(10..200);
        emit::low_resolution_edge(Kind::Leading, random.random_range(0..128), width, time)
    };
    let body = times.into_iter().flat_map(|time| edge(time).0.to_le_bytes()).collect();
    Payload { body, hits: Vec::new() }
}
