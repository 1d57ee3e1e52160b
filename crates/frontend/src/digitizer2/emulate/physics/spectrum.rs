//! The spectrum of a detector with perfect resolution: lines on their Compton continua, and neutrons' light.
//!
//! ```text
//!  isotope ─► gamma lines ─ photo peak + Klein–Nishina + backscatter ─┐
//!         └─► fission neutrons ─ recoil protons ─ quenching ──────────┴─► Spectrum (2 keV bins)
//! ```
//! Energies are in keV of electron-equivalent light. Formulas: Klein and Nishina for the energy of the Compton
//! electron; a Maxwellian of 1.42 MeV for fission neutrons of ²⁵²Cf; the usual four-parameter light curve of liquid
//! scintillators for recoil protons.

use super::super::settings::Isotope;

/// Width of a bin in keV.
pub const BIN_KEV: f64 = 2.0;
/// Number of bins of a spectrum: up to 8192 keV.
pub const BINS: usize = 4096;
const ELECTRON_KEV: f64 = 511.0;

/// Deposited energy before resolution; bin `i` is centred on `i * BIN_KEV`.
#[derive(Clone, Debug)]
pub struct Spectrum {
    /// Weight of each bin.
    pub weights: Vec<f64>,
}

impl Default for Spectrum {
    fn default() -> Self {
        Spectrum { weights: vec![0.0; BINS] }
    }
}

impl Spectrum {
    /// One gamma line with its continua.
    pub fn of_line(energy_kev: f64) -> Spectrum {
        let mut spectrum = Spectrum::default();
        spectrum.add_gamma(energy_kev, 1.0, 0.0);
        spectrum
    }

    /// Sum of the weights.
    pub fn sum(&self) -> f64 {
        self.weights.iter().sum()
    }

    /// Adds `other`, scaled so that its sum becomes `weight`.
    pub fn add_weighted(&mut self, other: &Spectrum, weight: f64) {
        let scale = weight / other.sum().max(f64::MIN_POSITIVE);
        self.weights.iter_mut().zip(&other.weights).for_each(|(weight, other)| *weight += other * scale);
    }

    /// Removes the part below the threshold, whose edge has a width of a tenth of its value.
    pub fn cut_below(&mut self, threshold_kev: f64) {
        for (bin, weight) in self.weights.iter_mut().enumerate() {
            let above = bin as f64 * BIN_KEV - 0.95 * threshold_kev;
            *weight *= (above / (0.1 * threshold_kev).max(1e-3)).clamp(0.0, 1.0);
        }
    }

    /// Adds weight at an energy, divided between the two nearest bins so that the mean is exact.
    fn add_at(&mut self, energy_kev: f64, weight: f64) {
        let position = energy_kev / BIN_KEV;
        if !(0.0..(BINS - 1) as f64).contains(&position) {
            return;
        }
        let (bin, part) = (position as usize, position.fract());
        self.weights[bin] += weight * (1.0 - part);
        self.weights[bin + 1] += weight * part;
    }

    /// Adds a gamma line: peak, Compton continuum, multiple scattering above the edge, backscatter. A `width_kev` above
    /// 0 spreads the peak evenly, for lines that represent a range of a continuum.
    fn add_gamma(&mut self, energy_kev: f64, weight: f64, width_kev: f64) {
        let peak = (0.38 * (ELECTRON_KEV / energy_kev).powf(0.75)).clamp(0.04, 0.85);
        let steps = ((width_kev / BIN_KEV) as usize).max(1);
        for step in 0..steps {
            let line_kev = energy_kev + ((step as f64 + 0.5) / steps as f64 - 0.5) * width_kev;
            self.add_at(line_kev, weight * peak / steps as f64);
        }
        let rest = weight * (1.0 - peak);
        self.add_compton(energy_kev, rest * 0.80);
        self.add_multiple_scattering(energy_kev, rest * 0.11);
        self.add_backscatter(energy_kev, rest * 0.09);
    }

    fn add_compton(&mut self, energy_kev: f64, weight: f64) {
        let edge = compton_edge_kev(energy_kev);
        let bins = ((edge / BIN_KEV) as usize).max(1);
        let electron = |step: usize| (step as f64 + 0.5) / bins as f64 * edge;
        let rates: Vec<f64> = (0..bins).map(|step| klein_nishina(energy_kev, electron(step))).collect();
        let scale = weight / rates.iter().sum::<f64>();
        rates.iter().enumerate().for_each(|(step, rate)| self.add_at(electron(step), rate * scale));
    }

    /// Adds multiple Compton scattering, which fills the valley between edge and peak and falls towards the peak.
    fn add_multiple_scattering(&mut self, energy_kev: f64, weight: f64) {
        let low = 0.75 * compton_edge_kev(energy_kev);
        let bins = (((energy_kev - low) / BIN_KEV) as usize).max(1);
        for step in 0..bins {
            let part = (step as f64 + 0.5) / bins as f64;
            self.add_at(low + part * (energy_kev - low), weight * 2.0 * (1.0 - part) / bins as f64);
        }
    }

    /// Adds gammas that are scattered back by material behind the source, 95° to 180°, then fully absorbed.
    fn add_backscatter(&mut self, energy_kev: f64, weight: f64) {
        const STEPS: usize = 60;
        let ratio = energy_kev / ELECTRON_KEV;
        // Equal steps of the cosine are equal steps of the solid angle.
        let cosine = |step: usize| -0.087 - 0.913 * (step as f64 + 0.5) / STEPS as f64;
        let kept = |step: usize| 1.0 / (1.0 + ratio * (1.0 - cosine(step)));
        let rate = |step: usize| {
            let (kept, cosine) = (kept(step), cosine(step));
            kept * kept * (kept + 1.0 / kept - 1.0 + cosine * cosine)
        };
        let sum: f64 = (0..STEPS).map(rate).sum();
        (0..STEPS).for_each(|step| self.add_at(energy_kev * kept(step), weight * rate(step) / sum));
    }

    fn add_exponential(&mut self, from_kev: f64, to_kev: f64, fall_kev: f64, weight: f64) {
        let bins = from_kev as usize / BIN_KEV as usize..(to_kev / BIN_KEV) as usize;
        let height = |bin: usize| (-(bin as f64) * BIN_KEV / fall_kev).exp();
        let sum: f64 = bins.clone().map(height).sum();
        bins.for_each(|bin| self.add_at(bin as f64 * BIN_KEV, weight * height(bin) / sum));
    }
}

/// The largest energy that a gamma can give to an electron in one scattering, in keV.
pub fn compton_edge_kev(energy_kev: f64) -> f64 {
    let ratio = 2.0 * energy_kev / ELECTRON_KEV;
    energy_kev * ratio / (1.0 + ratio)
}

/// Klein–Nishina: relative probability of a Compton electron of `electron_kev`.
fn klein_nishina(energy_kev: f64, electron_kev: f64) -> f64 {
    let ratio = energy_kev / ELECTRON_KEV;
    let part = electron_kev / energy_kev;
    let left = 1.0 - part;
    2.0 + part * part / (ratio * ratio * left * left) + part / left * (part - 2.0 / ratio)
}

/// Light of a recoil proton in keV electron equivalent.
pub fn proton_light_kev(proton_kev: f64) -> f64 {
    let energy = proton_kev / 1000.0;
    (1000.0 * (0.83 * energy - 2.82 * (1.0 - (-0.25 * energy.powf(0.93)).exp()))).max(0.0)
}

/// The gammas of an isotope, in their own proportions; the sum is 1.
pub fn gammas(isotope: Isotope) -> Spectrum {
    let mut spectrum = Spectrum::default();
    match isotope {
        Isotope::Na22 => {
            spectrum.add_gamma(511.0, 1.8, 0.0);
            spectrum.add_gamma(1274.5, 0.65, 0.0);
        }
        Isotope::Cs137 => {
            spectrum.add_gamma(661.7, 1.0, 0.0);
            spectrum.add_at(32.2, 0.05);
        }
        Isotope::Co60 => {
            spectrum.add_gamma(1173.2, 1.0, 0.0);
            spectrum.add_gamma(1332.5, 0.95, 0.0);
        }
        Isotope::Cf252 => {
            const WIDTH_KEV: f64 = 100.0;
            for step in 2..70 {
                let energy = f64::from(step) * WIDTH_KEV;
                spectrum.add_gamma(energy, (-energy / 850.0).exp(), WIDTH_KEV);
            }
        }
        Isotope::Background => {
            spectrum.add_exponential(0.0, 2700.0, 240.0, 0.62);
            for (energy, weight) in [(351.9, 0.02), (609.3, 0.04), (1460.8, 0.19), (2614.5, 0.09)] {
                spectrum.add_gamma(energy, weight, 0.0);
            }
            spectrum.add_exponential(200.0, 8000.0, 4000.0, 0.03);
        }
    }
    let mut whole = Spectrum::default();
    whole.add_weighted(&spectrum, 1.0);
    whole
}

/// Distance of the energies that [`fission_neutrons`] returns, in keV.
pub const NEUTRON_STEP_KEV: f64 = 100.0;

/// Energies of fission neutrons in keV, with their probabilities: a Maxwellian of 1.42 MeV.
pub fn fission_neutrons() -> impl Iterator<Item = (f64, f64)> {
    (0..120).map(|step| {
        let energy = 50.0 + NEUTRON_STEP_KEV * f64::from(step);
        (energy, energy.sqrt() * (-energy / 1420.0).exp())
    })
}

/// Light of fission neutrons: each recoil proton energy up to the neutron's is equally likely.
pub fn neutrons() -> Spectrum {
    // The light of each recoil energy is computed once; neutrons of more energy also produce it.
    let neutrons: Vec<(f64, f64)> = fission_neutrons().collect();
    let highest = neutrons.last().map_or(0.0, |(energy, _)| *energy);
    let mut spectrum = Spectrum::default();
    const RECOILS: usize = 4000;
    let mut above = neutrons.iter().map(|(energy, weight)| weight / energy).sum::<f64>();
    let mut next = neutrons.iter().peekable();
    for step in 0..RECOILS {
        let recoil = highest * (step as f64 + 0.5) / RECOILS as f64;
        while let Some((energy, weight)) = next.next_if(|(energy, _)| *energy < recoil) {
            above -= weight / energy;
        }
        spectrum.add_at(proton_light_kev(recoil), above.max(0.0));
    }
    let mut smooth = Spectrum::default();
    smooth.add_weighted(&spectrum, 1.0);
    smooth
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_has_its_edge_and_peak_at_the_expected_energies() {
        assert!((compton_edge_kev(661.7) - 477.3).abs() < 0.5);
        let line = Spectrum::of_line(662.0);
        assert!((line.sum() - 1.0).abs() < 1e-9);
        let between = |low: f64, high: f64| -> f64 {
            line.weights[(low / BIN_KEV) as usize..(high / BIN_KEV) as usize].iter().sum()
        };
        assert!(between(658.0, 666.0) > 0.25);
        assert!(between(430.0, 476.0) > 2.0 * between(490.0, 536.0));
        assert!(between(184.0, 224.0) > 1.3 * between(250.0, 290.0));
    }

    #[test]
    fn recoil_light_is_quenched() {
        let light = proton_light_kev(2000.0);
        assert!(light > 400.0 && light < 800.0, "{light}");
    }
}
