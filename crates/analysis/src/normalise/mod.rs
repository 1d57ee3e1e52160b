//! Live time and losses: from counts to numbers that can be compared with those of another run.
//!
//! ```text
//!  records of a board's counters ─► BoardCounters ─► Covered: real, dead, saved, and hits that came in that time ─┐
//!  losses of the source, by the ledger ───────────────────────────────────────────────────────► SourceLoss ──────┴─► Normalised
//! ```
//! **Rate.** Whatever its dead time is like, extending or not, a channel accepts a pulse if it comes while the channel is live. So the
//! accepted pulses of a source of constant rate ρ are a counting process with the intensity ρ while live and 0 while dead, and
//! accepted − ρ · live time has the expectation 0 and the variance ρ · live time. The estimate ρ = accepted ÷ live time has then the relative
//! uncertainty 1 ÷ √accepted, and its interval is that of a Poisson number. This needs a live time that was measured; none is computed from a
//! rate and a model. (Knoll, Radiation Detection and Measurement, 4th ed., ch. 3 and 4; Pommé, Fitzgerald and Keightley, Uncertainty of nuclear
//! counting, Metrologia 52 (2015) S3.)
//!
//! **Losses.** A board counts what it has saved, whether it arrives or not. So a channel's accepted pulses are those that the board counts, and
//! the hits of any of its spectra stand for saved ÷ came as many: which hits are lost does not depend on what is in them. Without records of
//! the board, the losses of the source by the ledger are spread over its channels.
//!
//! **Events** of triggered boards have [the same](NormalisedEvents), of their trigger.
//!
//! **What is not known stays unknown.** A board without such records has no live time; its real time is never taken for it. Counters that jump
//! make everything of their channel unknown from then on, and so do counters that contradict the ledger.

mod board_counters;
mod events;
mod poisson;
#[cfg(test)]
mod tests;

use schemars::JsonSchema;
use serde::Serialize;
use thalweg_data::Quality;
use thalweg_data::ledger::LossTotal;

pub use board_counters::{BoardCounters, Covered};
pub use events::{EventCounts, FilteredCounts, NormalisedEvents, TriggerReport};
pub use poisson::interval_95;

/// Hits at the edges of a time that are on the other side of them for the board's counters: in its pipeline when it counted, or late.
const EDGE_HITS: u64 = 64;
/// Hits of a channel that may be in one lost unit, at most: hits are lost by whole datagrams.
const HITS_LOST_TOGETHER: f64 = 1024.0;

/// A number that was corrected for losses.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, JsonSchema)]
pub struct Corrected {
    /// The number; null where it is unknown.
    pub value: Option<f64>,
    /// Its standard uncertainty, of counting.
    pub uncertainty: Option<f64>,
    /// Lower end of its 95 % interval.
    pub low_95: Option<f64>,
    /// Upper end of its 95 % interval.
    pub high_95: Option<f64>,
    /// `exact`: all losses are in it, and its uncertainty is that of counting. `at_least`: a lower bound.
    pub quality: Quality,
}

impl Corrected {
    /// Nothing is known.
    pub const UNKNOWN: Corrected =
        Corrected { value: None, uncertainty: None, low_95: None, high_95: None, quality: Quality::Unknown };

    /// A number of counts, times a factor that is known much better.
    fn counted(counts: u64, factor: f64, quality: Quality) -> Corrected {
        let (low, high) = interval_95(counts);
        let scaled = |number: f64| Some(number * factor);
        Corrected {
            value: scaled(counts as f64),
            // None was counted: up to three would be no surprise.
            uncertainty: scaled((counts.max(1) as f64).sqrt()),
            low_95: scaled(low),
            high_95: scaled(high),
            quality,
        }
    }

    /// The same of `kept` counts that also stand for `lost` others, which could not be recorded.
    #[must_use]
    pub fn with_lost(self, kept: u64, lost: u64) -> Corrected {
        if lost == 0 {
            return self;
        }
        if kept == 0 {
            return Corrected::UNKNOWN;
        }
        let scaled = |number: Option<f64>| number.map(|number| number * (kept + lost) as f64 / kept as f64);
        Corrected {
            value: scaled(self.value),
            uncertainty: scaled(self.uncertainty),
            low_95: scaled(self.low_95),
            high_95: scaled(self.high_95),
            quality: self.quality,
        }
    }
}

/// What the ledger says of the lost hits of one source, up to where hits are counted in spectra.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct SourceLoss {
    /// Fraction of its hits that is lost, 0 to 1; of those that are known to be lost.
    fraction: f64,
    /// Fraction of the coarser units that are lost with an unknown number of hits; `None` where nobody knows even that.
    of_units: Option<f64>,
    quality: Quality,
    /// Whether hits that came had no part in the events that they belong to.
    has_hits_apart: bool,
}

impl SourceLoss {
    /// Nothing is known of it.
    pub const UNKNOWN: SourceLoss =
        SourceLoss { fraction: 0.0, of_units: None, quality: Quality::Unknown, has_hits_apart: false };

    /// Of a source's total in a report of losses.
    pub fn of(total: &LossTotal) -> SourceLoss {
        let known = total.known.fraction.unwrap_or(0.0);
        let of_units = match (total.quality, total.bound) {
            (Quality::Exact, _) => Some(0.0),
            (_, bound) => bound.and_then(|bound| bound.fraction),
        };
        SourceLoss { fraction: known, of_units, quality: total.quality, has_hits_apart: false }
    }

    /// Hits that came had no part in the events that they belong to: they were late, or the events were cut short.
    #[must_use]
    pub fn with_hits_apart(self) -> SourceLoss {
        SourceLoss { has_hits_apart: true, ..self }
    }

    /// What each hit that came stands for.
    fn factor(&self) -> Option<f64> {
        (self.fraction < 1.0).then(|| 1.0 / (1.0 - self.fraction))
    }

    /// Whether that many of a channel's saved hits can be lost.
    fn allows(&self, lost: u64, saved: u64) -> bool {
        let Some(of_units) = self.of_units else { return true };
        let expected = saved as f64 * (self.fraction + of_units).min(1.0);
        let scatter = (expected * HITS_LOST_TOGETHER.min(saved as f64)).sqrt();
        lost as f64 <= EDGE_HITS as f64 + 2.0 * expected + 8.0 * scatter
    }
}

/// How well the live time of a channel is known, and what its hits stand for.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Normalised {
    /// Seconds that the channel's board counted; `None` where the board reports none.
    pub real_time_s: Option<f64>,
    /// Seconds of these in which the channel could take a hit.
    pub live_time_s: Option<f64>,
    /// How well the live time is known. `at_least`: the last hits came after the board's last record of its counters.
    pub live_time_quality: Quality,
    /// Hits that came.
    hits: u64,
    /// Hits that came in the time above.
    hits_covered: u64,
    /// Accepted pulses in that time, by the board's counter, if all is well with it.
    accepted: Option<u64>,
    /// What each hit that came stands for.
    factor: Option<f64>,
    /// How well that is known.
    quality: Quality,
    /// Whether hits that came had no part in the events that they belong to.
    has_hits_apart: bool,
}

impl Normalised {
    /// Of a channel whose `hits` came, of what its board's records cover, and of the losses of its source.
    pub fn of(hits: u64, counters: &BoardCounters, loss: &SourceLoss) -> Normalised {
        let covered = counters.covered().filter(|_| counters.jumps() == 0);
        let ps = |time: fn(&Covered) -> i64| covered.as_ref().map(|own| time(own) as f64 / 1e12);
        let live_time_quality = match covered {
            None => Quality::Unknown,
            Some(own) if own.hits == hits => Quality::Exact,
            Some(_) => Quality::AtLeast,
        };
        let accepted = covered.map(|own| own.saved.max(own.hits));
        let lost = covered.zip(accepted).map(|(own, accepted)| accepted - own.hits);
        let contradicts =
            counters.jumps() > 0 || lost.zip(accepted).is_some_and(|(lost, all)| !loss.allows(lost, all));
        let (factor, quality) = match (covered.zip(accepted), loss.quality) {
            _ if contradicts => (None, Quality::Unknown),
            (Some((own, accepted)), _) if own.hits > 0 => {
                (Some(accepted as f64 / own.hits as f64), Quality::Exact)
            }
            // Nothing came of what the board has saved.
            (Some((_, accepted)), _) if accepted > 0 => (None, Quality::Unknown),
            (_, Quality::Exact) => (loss.factor(), Quality::Exact),
            _ => (loss.factor(), Quality::AtLeast),
        };
        Normalised {
            real_time_s: ps(|own| own.real_ps),
            live_time_s: ps(|own| (own.real_ps - own.dead_ps).max(0)),
            live_time_quality,
            hits,
            hits_covered: covered.map_or(0, |own| own.hits),
            accepted: accepted.filter(|_| !contradicts),
            factor,
            quality,
            has_hits_apart: loss.has_hits_apart,
        }
    }

    /// Hits of the channel that came.
    pub fn hits(&self) -> u64 {
        self.hits
    }

    /// Dead time ÷ real time, 0 to 1.
    pub fn dead_time_fraction(&self) -> Option<f64> {
        let (real, live) = (self.real_time_s?, self.live_time_s?);
        (real > 0.0).then(|| (real - live) / real)
    }

    /// The accepted pulses that some of the channel's hits stand for.
    pub fn corrected(&self, hits: u64) -> Corrected {
        match self.factor {
            Some(factor) => Corrected::counted(hits, factor, self.quality),
            None => Corrected::UNKNOWN,
        }
    }

    /// Pulses of the channel per second of live time.
    pub fn rate_hz(&self) -> Corrected {
        let live = self.live_time_s.filter(|live| *live > 0.0);
        match (self.accepted, live) {
            (Some(accepted), Some(live)) => Corrected::counted(accepted, 1.0 / live, Quality::Exact),
            _ => Corrected::UNKNOWN,
        }
    }

    /// The same of some of its hits, which are spread over the run as all of them are.
    pub fn rate_of_hz(&self, hits: u64) -> Corrected {
        let live = self.live_time_s.filter(|live| *live > 0.0);
        match (self.factor, live) {
            (Some(factor), Some(live)) if self.hits > 0 => {
                let covered = self.hits_covered as f64 / self.hits as f64;
                Corrected::counted(hits, factor * covered / live, self.quality)
            }
            _ => Corrected::UNKNOWN,
        }
    }
}

/// The rate of several channels together, such as those of a board. Unknown where that of one with hits is.
pub fn rate_together_hz(channels: impl Iterator<Item = Normalised>) -> Corrected {
    let rates = channels.filter(|own| own.hits > 0 || own.live_time_s.is_some()).map(|own| own.rate_hz());
    let terms: Option<Vec<(f64, f64)>> = rates.map(|rate| rate.value.zip(rate.uncertainty)).collect();
    let Some(terms) = terms.filter(|terms| !terms.is_empty()) else { return Corrected::UNKNOWN };
    let value: f64 = terms.iter().map(|(value, _)| value).sum();
    let uncertainty = terms.iter().map(|(_, uncertainty)| uncertainty.powi(2)).sum::<f64>().sqrt();
    let half = poisson::NORMAL_95 * uncertainty;
    Corrected {
        value: Some(value),
        uncertainty: Some(uncertainty),
        low_95: Some((value - half).max(0.0)),
        high_95: Some(value + half),
        quality: Quality::Exact,
    }
}

/// What events of hits of these channels stand for: `exact` where none of them has lost any, and all that came were in time. A hit that is
/// missing takes an event away, or leaves one in that it would have vetoed: then nobody knows.
pub fn corrected_events(count: u64, channels: impl Iterator<Item = Normalised> + Clone) -> Corrected {
    let are_all_in_events = channels.clone().all(|own| !own.has_hits_apart);
    match corrected_together(count, channels) {
        exact if exact.quality == Quality::Exact && are_all_in_events => exact,
        _ => Corrected::UNKNOWN,
    }
}

/// The least that hits of several channels stand for: each is lost at least as often as a hit of the channel that loses least. `exact`
/// where none of them has lost any.
pub fn corrected_together(count: u64, channels: impl Iterator<Item = Normalised>) -> Corrected {
    let none = (f64::INFINITY, true);
    let (least, is_exact) = channels.fold(none, |(least, is_exact), own| {
        let factor = own.factor.unwrap_or(1.0);
        (least.min(factor), is_exact && own.quality == Quality::Exact && factor == 1.0)
    });
    let quality = if is_exact { Quality::Exact } else { Quality::AtLeast };
    Corrected::counted(count, if least.is_finite() { least } else { 1.0 }, quality)
}
