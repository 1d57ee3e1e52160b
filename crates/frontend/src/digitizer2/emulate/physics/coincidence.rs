//! Decays that two channels see. Every board computes the same decays.
//!
//! ```text
//!  (seed, time bin) ─► decays ─► first particle:  board, channel, time, keV
//!                           └──► second particle: board, channel, time, keV
//! ```
//! Boards do not communicate: each computes all decays of a time bin from the common seed and keeps the particles that
//! hit it. Therefore boards that are emulated in different processes, at different speeds, see partners of the same
//! decay.

use rand::{Rng, RngExt, SeedableRng};
use rand_distr::{Exp1, StandardNormal};
use rand_pcg::Pcg64Mcg;

use super::super::settings::{Isotope, Settings};
use super::alias::Alias;
use super::detector::Particle;
use super::spectrum::{self, BIN_KEV, Spectrum};

/// One particle of a decay, in one channel of this board.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Partner {
    /// Channel of this board.
    pub channel: u16,
    /// True time within the bin in picoseconds; it can be slightly outside.
    pub time_ps: f64,
    /// Deposited energy in keV electron equivalent.
    pub deposit_kev: f32,
    /// The kind of particle.
    pub particle: Particle,
}

/// The two particles of one kind of decay.
#[derive(Clone, Copy, Debug)]
enum Cascade {
    Annihilation,
    Cobalt,
    Fission,
}

/// The common process of all boards, seen by one board.
#[derive(Clone, Debug)]
pub struct Decays {
    seed: u64,
    board: u32,
    channels: u32,
    detectors: u32,
    mean_gap_ps: f64,
    jitter_ps: f64,
    board_jitter_ps: f64,
    flight_path_m: f64,
    threshold_kev: f64,
    kinds: Vec<(Cascade, f64)>,
    lines: [Option<Alias>; 3],
    fission: Option<(Alias, Alias)>,
}

const LINES_KEV: [f64; 3] = [511.0, 1173.2, 1332.5];
/// Metres per picosecond.
const LIGHT_SPEED: f64 = 2.997_924_58e-4;
const NEUTRON_MASS_KEV: f64 = 939_565.4;
/// Most draws of a neutron until its light is above threshold.
const DRAWS: usize = 16;

impl Decays {
    /// Creates the process of these settings; `None` if nothing decays in coincidence.
    pub fn new(settings: &Settings) -> Option<Decays> {
        let rate_hz = settings.decay_rate_hz();
        let weight = |isotope| settings.isotopes.get(&isotope).copied().unwrap_or(0.0);
        let kinds: Vec<(Cascade, f64)> = [
            (Cascade::Annihilation, weight(Isotope::Na22)),
            (Cascade::Cobalt, weight(Isotope::Co60)),
            (Cascade::Fission, weight(Isotope::Cf252)),
        ]
        .into_iter()
        .filter(|(_, weight)| *weight > 0.0)
        .collect();
        if rate_hz <= 0.0 || kinds.is_empty() {
            return None;
        }
        let threshold_kev = settings.detector.threshold_kev;
        let table = |mut spectrum: Spectrum| {
            spectrum.cut_below(threshold_kev);
            Alias::new(&spectrum.weights)
        };
        let fission = if weight(Isotope::Cf252) > 0.0 {
            let energies: Vec<f64> = spectrum::fission_neutrons().map(|(_, weight)| weight).collect();
            table(spectrum::gammas(Isotope::Cf252)).zip(Alias::new(&energies))
        } else {
            None
        };
        Some(Decays {
            seed: settings.seed,
            board: settings.board.into(),
            channels: settings.channels.into(),
            detectors: u32::from(settings.boards) * u32::from(settings.channels),
            mean_gap_ps: 1e12 / rate_hz,
            jitter_ps: settings.coincidence.jitter_ps * std::f64::consts::FRAC_1_SQRT_2,
            board_jitter_ps: settings.coincidence.board_jitter_ps * std::f64::consts::FRAC_1_SQRT_2,
            flight_path_m: settings.coincidence.flight_path_m,
            threshold_kev,
            kinds,
            lines: LINES_KEV.map(|energy| table(Spectrum::of_line(energy))),
            fission,
        })
    }

    /// Appends this board's particles of the decays in one time bin.
    pub fn fill(&self, bin: u64, bin_ps: f64, partners: &mut Vec<Partner>) {
        let mut random = Pcg64Mcg::seed_from_u64(super::mixed(self.seed, bin, 0xC01C));
        let mut time_ps = 0.0;
        loop {
            let gap: f64 = random.sample(Exp1);
            time_ps += gap * self.mean_gap_ps;
            if time_ps >= bin_ps {
                return;
            }
            self.decay(time_ps, &mut random, partners);
        }
    }

    fn decay(&self, time_ps: f64, random: &mut Pcg64Mcg, partners: &mut Vec<Partner>) {
        let first = random.random_range(0..self.detectors);
        let second = (first + random.random_range(1..self.detectors)) % self.detectors;
        let emitted = self.emit(random);
        let mut normal = || -> f64 { random.sample(StandardNormal) };
        let (board_a, board_b) = (normal() * self.board_jitter_ps, normal() * self.board_jitter_ps);
        let same_board = first / self.channels == second / self.channels;
        let shifts = [board_a, if same_board { board_a } else { board_b }];
        for ((detector, (particle, deposit, delay)), shift) in
            [first, second].into_iter().zip(emitted).zip(shifts)
        {
            let time_ps = time_ps + delay + shift + normal() * self.jitter_ps;
            if detector / self.channels == self.board {
                let channel = (detector % self.channels) as u16;
                partners.push(Partner { channel, time_ps, deposit_kev: deposit as f32, particle });
            }
        }
    }

    /// The two particles of a decay: kind, deposited keV, delay by flight in picoseconds.
    fn emit(&self, random: &mut Pcg64Mcg) -> [(Particle, f64, f64); 2] {
        let sum: f64 = self.kinds.iter().map(|(_, weight)| weight).sum();
        let mut draw = random.random::<f64>() * sum;
        let mut kind = self.kinds[0].0;
        for (cascade, weight) in &self.kinds {
            kind = *cascade;
            draw -= weight;
            if draw < 0.0 {
                break;
            }
        }
        let light = self.flight_path_m / LIGHT_SPEED;
        match kind {
            Cascade::Annihilation => {
                [(); 2].map(|()| (Particle::Gamma, deposit(self.lines[0].as_ref(), random), light))
            }
            Cascade::Cobalt => {
                [1, 2].map(|line| (Particle::Gamma, deposit(self.lines[line].as_ref(), random), light))
            }
            Cascade::Fission => {
                let gamma = deposit(self.fission.as_ref().map(|(gammas, _)| gammas), random);
                [(Particle::Gamma, gamma, light), self.neutron(random)]
            }
        }
    }

    fn neutron(&self, random: &mut Pcg64Mcg) -> (Particle, f64, f64) {
        let mut seen = (Particle::Neutron, self.threshold_kev, 0.0);
        let Some((_, energies)) = &self.fission else { return seen };
        for _ in 0..DRAWS {
            let step = energies.draw(random.next_u64());
            let energy = 50.0 + spectrum::NEUTRON_STEP_KEV * (step as f64 + random.random::<f64>() - 0.5);
            let energy = energy.max(1.0);
            let total = 1.0 + energy / NEUTRON_MASS_KEV;
            let speed = LIGHT_SPEED * (1.0 - 1.0 / (total * total)).sqrt();
            seen.2 = self.flight_path_m / speed;
            let light = spectrum::proton_light_kev(energy * random.random::<f64>());
            if light >= self.threshold_kev {
                seen.1 = light;
                return seen;
            }
        }
        seen
    }
}

fn deposit(table: Option<&Alias>, random: &mut Pcg64Mcg) -> f64 {
    let word = random.next_u64();
    let spread = (word & 0xFFFF) as f64 / 65536.0 - 0.5;
    table.map_or(0.0, |table| (table.draw(word) as f64 + spread) * BIN_KEV)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn settings(board: u16) -> Settings {
        let coincidence = super::super::super::settings::Coincidence {
            decay_rate_hz: Some(1e6),
            jitter_ps: 100.0,
            board_jitter_ps: 50.0,
            ..Default::default()
        };
        let isotopes = [(Isotope::Na22, 1.0)].into();
        Settings { board, boards: 2, channels: 4, coincidence, isotopes, ..Settings::default() }
    }

    #[test]
    fn two_boards_see_the_same_decays() {
        let boards = [0, 1].map(|board| Decays::new(&settings(board)).expect("sodium emits pairs"));
        let mut seen = [Vec::new(), Vec::new()];
        let bin_ps = 1e9;
        (0..20).for_each(|bin| boards[0].fill(bin, bin_ps, &mut seen[0]));
        (0..20).for_each(|bin| boards[1].fill(bin, bin_ps, &mut seen[1]));
        // 20 bins of 1 ms at 1 MHz: 20 000 decays, 40 000 particles, half of them on each board.
        assert!((19_000..21_000).contains(&seen[0].len()), "{}", seen[0].len());
        let mut one = Vec::new();
        boards[0].fill(7, bin_ps, &mut one);
        let mut other = Vec::new();
        boards[1].fill(7, bin_ps, &mut other);
        let with_partner = one
            .iter()
            .filter(|hit| other.iter().any(|partner| (partner.time_ps - hit.time_ps).abs() < 600.0));
        // 4 of 7 particles of a board have their partner on the other one.
        let fraction = with_partner.count() as f64 / one.len() as f64;
        assert!((fraction - 4.0 / 7.0).abs() < 0.08, "{fraction}");
    }

    #[test]
    fn neutrons_arrive_after_their_gamma() {
        let isotopes = [(Isotope::Cf252, 1.0)].into();
        let decays = Decays::new(&Settings { isotopes, boards: 1, ..settings(0) }).expect("fission");
        let mut seen = Vec::new();
        decays.fill(0, 1e9, &mut seen);
        let late = seen.as_chunks::<2>().0.iter().filter(|pair| pair[1].time_ps > pair[0].time_ps + 10_000.0);
        assert!(late.count() * 10 > seen.len() / 2 * 8);
    }
}
