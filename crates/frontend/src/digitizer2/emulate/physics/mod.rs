//! Simulates the pulses of the detectors, in time order, reproducible from a seed.
//!
//! ```text
//!  time bin ─┬─ singles: Poisson per channel ─────────┐
//!            └─ decays shared by all boards ─ jitter ─┴─ merge ─ dead time, pile-up ─► Pulse, Pulse, …
//! ```
//! Time is divided into bins of 250 µs. The pulses of a bin depend on (seed, board, bin) alone, so that a board sends
//! the same data whatever times its host requests. The channels' dead times are the only per-hit state across bins.

pub mod alias;
pub mod coincidence;
pub mod detector;
pub mod pulse;
pub mod spectrum;

use rand::{Rng, RngExt, SeedableRng};
use rand_distr::Exp1;
use rand_pcg::Pcg64Mcg;

use super::settings::{DeadTime, Settings, SettingsError};
use alias::Alias;
use coincidence::{Decays, Partner};
use detector::{Particle, Response};
use spectrum::{BIN_KEV, BINS, Spectrum};

/// Length of a time bin in picoseconds.
pub const BIN_PS: u64 = 250_000_000;
/// Fine counts in one count of the board's clock.
pub const FINE: u64 = 1024;
/// Most time bins computed in one call, 2 s of true time: a board without a rate must not block its host.
const BINS_PER_CALL: usize = 8192;
/// Time for which a saturated input disturbs later pulses, in nanoseconds.
const POST_SATURATION_NS: f64 = 5000.0;

/// Properties of a pulse.
pub mod marks {
    /// A second pulse was in the gate; its charge is included in the energy.
    pub const PILE_UP: u8 = 1 << 0;
    /// The input saturated.
    pub const SATURATION: u8 = 1 << 1;
    /// The pulse is shortly after a saturation in the same channel.
    pub const POST_SATURATION: u8 = 1 << 2;
    /// The particle is a neutron.
    pub const NEUTRON: u8 = 1 << 3;
}

/// One pulse that the board triggered on.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Pulse {
    /// Board time in 1/1024 counts of its clock.
    pub time_fine: u64,
    /// Long-gate charge in energy channels, not yet limited to 16 bits.
    pub energy: f32,
    /// Short-gate charge in energy channels, not yet limited to 16 bits.
    pub energy_short: f32,
    /// Channel of the board.
    pub channel: u16,
    /// See [`marks`].
    pub marks: u8,
}

/// A channel's counters of the pulses that were taken as hits since the start of the run.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ChannelCounts {
    /// Pulses above threshold, including those in the dead time behind hits.
    pub triggers: u64,
    /// Pulses that became hits.
    pub saved: u64,
    /// Dead time behind these, in fine counts.
    dead_fine: u64,
    /// End of the dead time behind the latest.
    blind_until: u64,
}

impl ChannelCounts {
    /// Dead time until a board time by which all earlier pulses were taken, in fine counts.
    pub fn dead_fine_until(&self, until_fine: u64) -> u64 {
        self.dead_fine.saturating_sub(self.blind_until.saturating_sub(until_fine))
    }

    fn take(&mut self, pulse: &Pulse, dead_time: &DeadTimeBehind) {
        self.triggers += 1 + dead_time.pulses;
        self.saved += 1;
        self.dead_fine += dead_time.fine;
        self.blind_until = pulse.time_fine + dead_time.own_fine;
    }
}

/// The dead time behind a pulse, and the pulses in it.
#[derive(Clone, Copy, Debug, Default)]
struct DeadTimeBehind {
    fine: u64,
    /// The part behind this pulse; the rest was left by one before, which had been taken when another pulse extended it.
    own_fine: u64,
    pulses: u64,
}

#[derive(Clone, Copy, Debug, Default)]
struct ChannelState {
    blind_until: u64,
    gate_until: u64,
    disturbed_until: u64,
    last_pulse: u64,
    /// Dead time behind a pulse that was taken before.
    left: DeadTimeBehind,
    counts: ChannelCounts,
}

/// The stream of pulses of one board.
#[derive(Clone, Debug)]
pub struct Physics {
    singles: Singles,
    decays: Option<Decays>,
    response: Response,
    clock: Clock,
    gate: u64,
    dead: u64,
    extends: bool,
    disturbed: u64,
    next_bin: u64,
    channels: Box<[ChannelState]>,
    partners: Vec<Partner>,
    pulses: Vec<Pulse>,
    /// By pulse.
    dead_times: Vec<DeadTimeBehind>,
    taken: usize,
    dropped: u64,
    settled: usize,
}

/// Pulses without a partner.
#[derive(Clone, Debug)]
struct Singles {
    seed: u64,
    mean_gap_ps: f64,
    channels: Option<Alias>,
    deposits: Alias,
    /// Fraction of the particles of common decays that a channel sees: below 1 if its rate is lower than theirs.
    keep: Box<[f64]>,
}

/// The board's clock: converts true picoseconds to fine counts.
#[derive(Clone, Copy, Debug)]
struct Clock {
    fine_per_ps: f64,
    offset_fine: f64,
}

impl Clock {
    fn new(settings: &Settings) -> Clock {
        let fine_per_ps = f64::from(settings.sampling_mhz) * FINE as f64 / 1e6;
        Clock {
            fine_per_ps: fine_per_ps * (1.0 + settings.drift_ppm / 1e6),
            offset_fine: settings.offset_ps as f64 * fine_per_ps,
        }
    }

    /// The clock's reading at a true time, which is given as whole bins and the time within: exact enough for 106 days.
    #[inline(always)]
    fn fine(&self, bin_start_fine: f64, within_ps: f64) -> u64 {
        (bin_start_fine + within_ps * self.fine_per_ps) as u64
    }

    fn bin_start(&self, bin: u64) -> f64 {
        self.offset_fine + bin as f64 * (BIN_PS as f64 * self.fine_per_ps)
    }
}

/// Derives the seed for one purpose from the common seed.
fn mixed(seed: u64, bin: u64, purpose: u64) -> u64 {
    let mut word =
        seed ^ purpose.wrapping_mul(0x9E37_79B9_7F4A_7C15) ^ bin.wrapping_mul(0xD1B5_4A32_D192_ED03);
    word = (word ^ (word >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
    word = (word ^ (word >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
    word ^ (word >> 31)
}

impl Physics {
    /// Creates the pulses of these settings, from time 0.
    ///
    /// # Errors
    /// When the settings cannot be used; see [`Settings::check`].
    pub fn new(settings: &Settings) -> Result<Physics, SettingsError> {
        settings.check()?;
        let fine = |ns: f64| (ns * f64::from(settings.sampling_mhz) * FINE as f64 / 1000.0) as u64;
        Ok(Physics {
            singles: Singles::new(settings)?,
            decays: Decays::new(settings),
            response: Response::new(settings),
            clock: Clock::new(settings),
            gate: fine(settings.detector.gate_ns),
            dead: fine(settings.detector.dead_time_ns),
            extends: settings.detector.dead_time == DeadTime::Extending,
            disturbed: fine(POST_SATURATION_NS),
            next_bin: 0,
            channels: vec![ChannelState::default(); settings.channels.into()].into(),
            partners: Vec::new(),
            pulses: Vec::new(),
            dead_times: Vec::new(),
            taken: 0,
            dropped: 0,
            settled: 0,
        })
    }

    /// Returns to time 0; the same pulses follow.
    pub fn restart(&mut self) {
        self.next_bin = 0;
        self.channels.fill(ChannelState::default());
        self.pulses.clear();
        self.dead_times.clear();
        (self.taken, self.dropped, self.settled) = (0, 0, 0);
    }

    /// The board's clock at a true time since start.
    pub fn board_time_fine(&self, since_start_ps: u64) -> u64 {
        self.clock.fine(self.clock.bin_start(since_start_ps / BIN_PS), (since_start_ps % BIN_PS) as f64)
    }

    /// The board's clock at the start of a bin.
    pub fn bin_start_fine(&self, bin: u64) -> u64 {
        self.clock.fine(self.clock.bin_start(bin), 0.0)
    }

    /// The detectors.
    pub fn response(&self) -> &Response {
        &self.response
    }

    /// The counters of a channel.
    pub fn counts(&self, channel: u16) -> ChannelCounts {
        self.channels.get(usize::from(channel)).map(|state| state.counts).unwrap_or_default()
    }

    /// The next pulses with a board time below `until_fine`, in time order, but not necessarily all of them; none if
    /// there are no more, or if so many time bins were empty that the caller should return to its other work. Call
    /// [`Physics::take`] or [`Physics::pass_over`] with the number used.
    pub fn pulses_until(&mut self, until_fine: u64) -> &[Pulse] {
        for _ in 0..BINS_PER_CALL {
            if self.taken < self.settled || self.is_worked_out(until_fine) {
                break;
            }
            self.next();
        }
        let ready = &self.pulses[self.taken..self.settled];
        match ready.last() {
            Some(last) if last.time_fine >= until_fine => {
                let end = ready.partition_point(|pulse| pulse.time_fine < until_fine);
                &ready[..end]
            }
            _ => ready,
        }
    }

    /// Whether all pulses before `until_fine` have been computed; if not, call [`Physics::pulses_until`] again.
    pub fn is_worked_out(&self, until_fine: u64) -> bool {
        self.settled_until() >= until_fine
    }

    /// Marks the first `count` pulses of the last call as hits, and counts them.
    pub fn take(&mut self, count: usize) {
        let end = (self.taken + count).min(self.settled);
        let taken = self.taken..end;
        for (pulse, dead_time) in self.pulses[taken.clone()].iter().zip(&self.dead_times[taken]) {
            self.channels[usize::from(pulse.channel)].counts.take(pulse, dead_time);
        }
        self.taken = end;
    }

    /// Leaves out the first `count` pulses of the last call, for which the board was inhibited.
    pub fn pass_over(&mut self, count: usize) {
        self.taken = (self.taken + count).min(self.settled);
    }

    /// Board time before which no pulse can change; a pulse whose gate is open at the end of the last bin can.
    fn settled_until(&self) -> u64 {
        self.bin_start_fine(self.next_bin).saturating_sub(self.gate)
    }

    /// Computes one more bin.
    fn next(&mut self) {
        self.pulses.drain(..self.taken);
        self.dead_times.drain(..self.taken);
        self.dropped += self.taken as u64;
        self.taken = 0;
        let bin = self.next_bin;
        self.partners.clear();
        if let Some(decays) = &self.decays {
            decays.fill(bin, BIN_PS as f64, &mut self.partners);
            self.partners.sort_unstable_by(|a, b| a.time_ps.total_cmp(&b.time_ps));
        }
        let mut random = Pcg64Mcg::seed_from_u64(mixed(self.singles.seed, bin, 0x517));
        let keep = &self.singles.keep;
        self.partners.retain(|partner| {
            let keep = keep[usize::from(partner.channel)];
            keep >= 1.0 || random.random::<f64>() < keep
        });
        let start_fine = self.clock.bin_start(bin);
        let last_ps = (BIN_PS - 1) as f64;
        let mut partner = 0;
        let mut time_ps = 0.0;
        loop {
            time_ps += self.singles.gap_ps(&mut random);
            while let Some(next) =
                self.partners.get(partner).filter(|next| next.time_ps <= time_ps || time_ps > last_ps)
            {
                let arrival = Partner { time_ps: next.time_ps.clamp(0.0, last_ps), ..*next };
                partner += 1;
                self.arrive(&arrival, start_fine, &mut random);
            }
            if time_ps > last_ps {
                break;
            }
            let arrival = self.singles.arrival(time_ps, &mut random);
            self.arrive(&arrival, start_fine, &mut random);
        }
        self.next_bin += 1;
        let until = self.settled_until();
        self.settled = self.pulses.partition_point(|pulse| pulse.time_fine < until);
    }

    /// Takes one particle in one channel: it starts a new pulse, adds charge in an open gate, or is lost while the
    /// channel is blind.
    #[inline(always)]
    fn arrive(&mut self, arrival: &Partner, start_fine: f64, random: &mut Pcg64Mcg) {
        let time_fine = self.clock.fine(start_fine, arrival.time_ps);
        let measured = self.response.measure(arrival.channel, arrival.deposit_kev, arrival.particle, random);
        let state = &mut self.channels[usize::from(arrival.channel)];
        if time_fine < state.blind_until {
            let index = state.last_pulse.wrapping_sub(self.dropped) as usize;
            let behind = self.dead_times.get_mut(index).unwrap_or(&mut state.left);
            behind.pulses += 1;
            if self.extends {
                let more = time_fine + self.dead - state.blind_until;
                behind.fine += more;
                behind.own_fine += more;
                state.blind_until += more;
            }
            if time_fine < state.gate_until {
                // A gate that was open at the end of the last bin belongs to a pulse that can still change.
                if let Some(pulse) = self.pulses.get_mut(index) {
                    let part = (state.gate_until - time_fine) as f32 / self.gate as f32;
                    pulse.energy += measured.energy * (1.3 * part).min(1.0);
                    pulse.energy_short += measured.energy_short * (part - 0.6).clamp(0.0, 0.4) * 2.5;
                    pulse.marks |= marks::PILE_UP | if measured.saturated { marks::SATURATION } else { 0 };
                }
            }
            return;
        }
        let mut pulse = Pulse {
            time_fine,
            energy: measured.energy,
            energy_short: measured.energy_short,
            channel: arrival.channel,
            marks: if arrival.particle == Particle::Neutron { marks::NEUTRON } else { 0 },
        };
        if time_fine < state.disturbed_until {
            pulse.marks |= marks::POST_SATURATION;
        }
        if measured.saturated {
            pulse.marks |= marks::SATURATION;
            state.disturbed_until = time_fine + self.disturbed;
        }
        state.blind_until = time_fine + self.dead;
        state.gate_until = time_fine + self.gate;
        state.last_pulse = self.dropped + self.pulses.len() as u64;
        let left = std::mem::take(&mut state.left);
        let fine = left.fine + self.dead;
        self.dead_times.push(DeadTimeBehind { fine, own_fine: self.dead, pulses: left.pulses });
        self.pulses.push(pulse);
    }
}

impl Singles {
    fn new(settings: &Settings) -> Result<Singles, SettingsError> {
        let (mut gammas, mut neutrons) = (Spectrum::default(), Spectrum::default());
        for (isotope, weight) in &settings.isotopes {
            let neutron_fraction = if *isotope == super::settings::Isotope::Cf252 { 0.4 } else { 0.0 };
            gammas.add_weighted(&spectrum::gammas(*isotope), weight * (1.0 - neutron_fraction));
            if neutron_fraction > 0.0 {
                neutrons.add_weighted(&spectrum::neutrons(), weight * neutron_fraction);
            }
        }
        for spectrum in [&mut gammas, &mut neutrons] {
            spectrum.cut_below(settings.detector.threshold_kev);
        }
        gammas.weights.extend_from_slice(&neutrons.weights);
        let deposits = Alias::new(&gammas.weights).ok_or_else(|| SettingsError {
            key: "isotopes",
            found: "without anything above threshold".into(),
            allowed: "at least one isotope with a fraction above 0".into(),
        })?;
        // Partners of decays hit all channels with equal probability and are part of the channels' rates.
        let detectors = f64::from(settings.boards) * f64::from(settings.channels);
        let partners_hz = 2.0 * settings.decay_rate_hz() / detectors;
        let keep = (0..settings.channels).map(|channel| {
            if partners_hz > 0.0 { settings.channel_rate_hz(channel) / partners_hz } else { 1.0 }
        });
        let rates: Vec<f64> = (0..settings.channels)
            .map(|channel| (settings.channel_rate_hz(channel) - partners_hz).max(0.0))
            .collect();
        let total: f64 = rates.iter().sum();
        Ok(Singles {
            seed: mixed(settings.seed, settings.board.into(), 0xB0A2D),
            mean_gap_ps: if total > 0.0 { 1e12 / total } else { f64::INFINITY },
            channels: Alias::new(&rates),
            deposits,
            keep: keep.collect(),
        })
    }

    #[inline(always)]
    fn gap_ps(&self, random: &mut Pcg64Mcg) -> f64 {
        let gap: f64 = random.sample(Exp1);
        // Avoids 0 times infinity: without a rate, the gap is beyond every bin.
        (gap + f64::MIN_POSITIVE) * self.mean_gap_ps
    }

    #[inline(always)]
    fn arrival(&self, time_ps: f64, random: &mut Pcg64Mcg) -> Partner {
        let channel = self.channels.as_ref().map_or(0, |channels| channels.draw(random.next_u64())) as u16;
        let word = random.next_u64();
        let spread = (word & 0xFFFF) as f32 / 65536.0 - 0.5;
        let drawn = self.deposits.draw(word);
        let particle = if drawn < BINS { Particle::Gamma } else { Particle::Neutron };
        let deposit_kev = ((drawn % BINS) as f32 + spread) * BIN_KEV as f32;
        Partner { channel, time_ps, deposit_kev, particle }
    }
}

#[cfg(test)]
mod tests;
