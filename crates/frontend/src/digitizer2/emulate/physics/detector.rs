//! Calculates the board's measurement from the deposited energy: gain, resolution, pulse shape.
//!
//! ```text
//!  (channel, keV, particle) ─ resolution ─ gain ─ tail of the pulse ─► energy, energy_short
//! ```
//! The pulse shape is that of a detector that resolves gamma lines and gives slower light for neutrons. The fraction of
//! the charge in the tail, `1 - energy_short / energy`, is near 0.14 for gammas and near 0.30 for neutrons; both bands
//! widen towards low energy until they meet.

use rand::{Rng, RngExt, SeedableRng};
use rand_distr::StandardNormal;
use rand_pcg::Pcg64Mcg;

use super::super::settings::Settings;

/// The particle, which determines the pulse shape.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Particle {
    /// A gamma: fast light.
    Gamma,
    /// A neutron, detected by its recoil proton: more light in the tail.
    Neutron,
}

/// A detector's response to a particle.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Measured {
    /// Long-gate charge in energy channels.
    pub energy: f32,
    /// Short-gate charge in energy channels.
    pub energy_short: f32,
    /// Whether the input saturated.
    pub saturated: bool,
}

#[derive(Clone, Copy, Debug)]
struct ChannelResponse {
    gain_per_kev: f32,
    /// Variance of the energy per keV.
    variance_per_kev: f32,
    tail: f32,
}

/// The detectors of one board: nominal values, and the differences between channels.
#[derive(Clone, Debug)]
pub struct Response {
    channels: Box<[ChannelResponse]>,
    saturation_kev: f32,
}

/// Variance of electronic noise in keV squared.
const NOISE_VARIANCE: f32 = 4.0;

impl Response {
    /// The detectors of the board with these settings; their differences follow from seed and board.
    pub fn new(settings: &Settings) -> Response {
        let detector = &settings.detector;
        let mut random =
            Pcg64Mcg::seed_from_u64(settings.seed ^ (u64::from(settings.board) << 32) ^ 0xDE7E_C708);
        let channels = (0..settings.channels).map(|_| {
            let mut spread = |percent: f64| {
                let normal: f64 = random.sample(StandardNormal);
                1.0 + normal.clamp(-3.0, 3.0) * percent / 100.0
            };
            let gain = detector.gain_per_kev * spread(detector.gain_spread_percent);
            let width = detector.resolution_percent * spread(detector.resolution_spread_percent);
            let sigma = width / 100.0 / 2.3548;
            ChannelResponse {
                gain_per_kev: gain as f32,
                variance_per_kev: (sigma * sigma * 661.7) as f32,
                tail: spread(2.0) as f32,
            }
        });
        Response { channels: channels.collect(), saturation_kev: detector.saturation_kev as f32 }
    }

    /// Energy channels per keV of a channel.
    pub fn gain_per_kev(&self, channel: u16) -> f64 {
        self.channels.get(usize::from(channel)).map_or(0.0, |response| response.gain_per_kev.into())
    }

    /// The measurement of a deposit by `channel`, which must be one of the board's.
    #[inline(always)]
    pub fn measure(
        &self,
        channel: u16,
        deposit_kev: f32,
        particle: Particle,
        random: &mut impl Rng,
    ) -> Measured {
        let response = self.channels[usize::from(channel)];
        let noise: f32 = random.sample(StandardNormal);
        let seen = deposit_kev + noise * (response.variance_per_kev * deposit_kev + NOISE_VARIANCE).sqrt();
        let saturated = seen > self.saturation_kev;
        let seen =
            if saturated { self.saturation_kev + 0.1 * (seen - self.saturation_kev) } else { seen.max(1.0) };
        let (tail, width) = match particle {
            Particle::Gamma => (0.14 + 3.0 / (seen + 80.0), 0.010),
            Particle::Neutron => (0.29 + 12.0 / (seen + 120.0), 0.012),
        };
        let shape: f32 = random.sample(StandardNormal);
        let tail = response.tail * tail + shape * (width * width + 0.055 / seen).sqrt();
        let energy = seen * response.gain_per_kev;
        Measured { energy, energy_short: energy * (1.0 - tail.clamp(0.0, 0.95)), saturated }
    }
}
