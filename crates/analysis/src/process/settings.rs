//! All settings of the stages behind time order, together.

use crate::channels::ChannelMap;
use crate::clocks::{self, ClockError};
use crate::coincide::{self, CoincidenceError, Mode};
use crate::cut::{self, CutError, Expression, HitCuts, Polygon, Scope, polygon};
use crate::hit_stage::{self, HitStageError};
use crate::pulse::{self, PulseError};
use crate::spectrum::{self, At, Path, SpectrumError, SpectrumSettings};

/// What is done with ordered hits; each part is a section of the configuration.
#[derive(Clone, Debug, Default)]
pub struct Settings {
    /// `[[stage]]`.
    pub stages: Vec<hit_stage::Settings>,
    /// `[clocks]`.
    pub clocks: clocks::Settings,
    /// `[[cut]]`.
    pub cuts: Vec<cut::Settings>,
    /// `[[polygon]]`.
    pub polygons: Vec<polygon::Settings>,
    /// `[coincidence]`.
    pub coincidence: Option<coincide::Settings>,
    /// `[spectra]`.
    pub spectra: spectrum::Settings,
    /// `[[spectrum]]`.
    pub own_spectra: Vec<SpectrumSettings>,
    /// `[pulses]`.
    pub pulses: pulse::Settings,
}

impl Settings {
    /// What of the path there is for spectra to be filled from.
    pub(super) fn path(&self, cuts: &HitCuts) -> Path {
        let has_reference =
            self.coincidence.as_ref().is_some_and(|coincidence| coincidence.mode == Mode::Reference);
        let widest = |coincidence: &coincide::Settings| {
            let reference = coincidence.reference.as_ref().filter(|_| has_reference);
            let ends = reference.map(|leg| [leg.from_ps.unwrap_or(0).abs(), leg.to_ps.unwrap_or(0).abs()]);
            ends.into_iter().flatten().chain([coincidence.window_ps]).max().unwrap_or(0)
        };
        Path { cuts_hits: !cuts.keep_all(), widest_ps: self.coincidence.as_ref().map(widest), has_reference }
    }

    /// What of these settings, which are valid, can keep nothing of the hits of a run with these channels.
    pub(super) fn warnings(&self, map: &ChannelMap) -> Vec<String> {
        let polygons: Vec<Polygon> = self.polygons.iter().flat_map(Polygon::new).collect();
        let cuts = self.cuts.iter().map(|cut| ("cut", &cut.name, &cut.keep, cut.on));
        let spectra = self.own_spectra.iter().filter_map(|spectrum| {
            let scope = if spectrum.at == At::Events { Scope::Event } else { Scope::Hit };
            Some(("spectrum", &spectrum.name, spectrum.cut.as_ref()?, scope))
        });
        let warnings = cuts.chain(spectra).flat_map(|(section, name, text, scope)| {
            let expression = Expression::parse(text, scope, &polygons);
            let found = expression.map_or_else(|_| Vec::new(), |expression| expression.foreign_numbers(map));
            found.into_iter().map(move |message| format!("[[{section}]] \"{name}\": {message}"))
        });
        warnings.collect()
    }
}

/// An invalid setting.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
pub enum ProcessError {
    /// Of the clocks.
    #[error(transparent)]
    Clocks(#[from] ClockError),
    /// Of the coincidence.
    #[error(transparent)]
    Coincidence(#[from] CoincidenceError),
    /// Of a cut.
    #[error(transparent)]
    Cut(#[from] CutError),
    /// Of a stage that is added.
    #[error(transparent)]
    Stage(#[from] HitStageError),
    /// Of the pulses that are looked at.
    #[error(transparent)]
    Pulse(#[from] PulseError),
    /// Of a spectrum.
    #[error(transparent)]
    Spectrum(#[from] SpectrumError),
}
