//! Decides whether outputs share a buffer, from the depth of one while it alone is congested and while the other one is, too.
//!
//! ```text
//!  sources of output 1 ─► map ─► depth alone    ─┐                     1: a buffer of its own
//!  sources of both     ─► map ─► depth together ─┴─► together ÷ alone ─┤
//!                                                                      below: they share one (½: all of it, and without a limit)
//! ```
//! RFC 8239 (section 3) asks for several outputs at once for this. Switches with one chip mostly share, and limit what an output may take
//! of what is free; then the ratio lies between ½ and 1.

use schemars::JsonSchema;
use serde::Serialize;

use crate::rig::{Rig, RigError};
use crate::switch::fit::Fit;
use crate::watershed::{self, Settings, Watershed};

/// An output that loses less than a tenth of its depth to another one has a buffer of its own.
const OWN_FROM: f64 = 0.9;

/// The verdict of two maps.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum OutputBuffers {
    /// Each output has a buffer of its own.
    Own,
    /// Outputs share a buffer.
    Shared,
    /// The intervals allow both, or an output holds more together with another one than alone.
    Undecided,
}

impl OutputBuffers {
    /// Describes the verdict.
    pub fn text(self) -> &'static str {
        match self {
            OutputBuffers::Own => "each output has a buffer of its own",
            OutputBuffers::Shared => "outputs share a buffer",
            OutputBuffers::Undecided => "undecided",
        }
    }
}

/// The depth of an output in use with another one, against its depth alone.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, JsonSchema)]
pub struct Comparison {
    /// Depth together ÷ depth alone.
    pub ratio: f64,
    /// The lower and upper bound, by the ends of both intervals of 95 %.
    pub ratio_interval: [f64; 2],
    /// The verdict.
    pub verdict: OutputBuffers,
}

/// Compares the depth of an output in two maps.
pub fn compare(alone: &Fit, together: &Fit) -> Comparison {
    let ([alone_low, alone_high], [low, high]) = (alone.depth_interval_bytes, together.depth_interval_bytes);
    let ratio_interval = [low / alone_high, high / alone_low];
    let verdict = match ratio_interval {
        [low, _] if (OWN_FROM..=1.0 / OWN_FROM).contains(&low) => OutputBuffers::Own,
        [_, high] if high < OWN_FROM => OutputBuffers::Shared,
        _ => OutputBuffers::Undecided,
    };
    Comparison { ratio: together.depth_bytes / alone.depth_bytes, ratio_interval, verdict }
}

/// Both maps, and what they say.
#[derive(Clone, Debug, Serialize, JsonSchema)]
pub struct OutputsMap {
    /// The first output alone.
    pub alone: Watershed,
    /// All outputs at once; depth and rate are those of each.
    pub together: Watershed,
    /// One against the other; null where one of the maps has no depth.
    pub comparison: Option<Comparison>,
    /// Why there is no comparison, or what is wrong with it; empty where nothing is.
    pub remark: String,
}

/// Maps the first output alone, then all of them at once. `seen` is given each map as it grows.
///
/// # Errors
/// When the device or the receiver is gone.
pub fn map(
    rig: &mut Rig<'_>,
    settings: &Settings,
    seen: &mut dyn FnMut(&Watershed),
) -> Result<OutputsMap, RigError> {
    rig.use_outputs(1);
    let alone = watershed::map(rig, settings, seen)?;
    rig.use_outputs(rig.outputs());
    let together = watershed::map(rig, settings, seen)?;
    rig.use_outputs(1);
    let comparison = alone.fit.as_ref().zip(together.fit.as_ref()).map(|(alone, both)| compare(alone, both));
    let remark = match &comparison {
        Some(comparison) => undecided(comparison),
        None => [("alone", &alone), ("together", &together)]
            .iter()
            .filter(|(_, map)| map.fit.is_none())
            .map(|(name, map)| format!("{name}: no depth: {}", map.remark))
            .collect::<Vec<_>>()
            .join("; "),
    };
    Ok(OutputsMap { alone, together, comparison, remark })
}

/// Why the verdict is none; empty where it is one.
fn undecided(comparison: &Comparison) -> String {
    let [low, high] = comparison.ratio_interval;
    match comparison.verdict {
        OutputBuffers::Own | OutputBuffers::Shared => String::new(),
        OutputBuffers::Undecided if low > 1.0 / OWN_FROM => {
            "an output holds more beside another one than alone, which no buffer does; measure again"
                .to_owned()
        }
        OutputBuffers::Undecided => format!(
            "the depth of an output beside the other one is {low:.2} to {high:.2} of that alone, which allows both; use more columns, or a quieter host"
        ),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::switch::fit::fit;
    use crate::switch::search::{Search, Settings as SearchSettings};
    use crate::switch::simulate::{Buffers, Device, Settings as DeviceSettings, Stalls};

    const FRAME_BYTES: f64 = 1066.0;
    const RATE_BYTES_PER_S: f64 = 12.5e6;
    const SOURCES: u32 = 8;

    /// The fit of a device with stalls, per output.
    fn fitted(buffers: Buffers, seed: u64) -> Fit {
        let stalls = Some(Stalls { rate_hz: 2.0, mean_s: 1e-3, noticed_s: 8e-3 });
        let settings =
            DeviceSettings { buffers, rate_bytes_per_s: RATE_BYTES_PER_S, burst_bytes: 5e3, stalls, seed };
        let saturation_s = f64::from(SOURCES) * FRAME_BYTES / RATE_BYTES_PER_S;
        let mut search = Search::new(SearchSettings::spread(8, saturation_s));
        fit(&Device::new(settings).explore(&mut search, SOURCES, FRAME_BYTES)).expect("fits")
    }

    #[test]
    fn outputs_that_share_a_buffer_hold_half_as_much_each_when_both_are_congested() {
        for seed in 0..2 {
            let depth_bytes = 800e3 + 50e3 * seed as f64;
            let of = |outputs| fitted(Buffers::OfOutputs { depth_bytes, outputs }, seed + u64::from(outputs));
            let found = compare(&of(1), &of(2));
            assert_eq!(found.verdict, OutputBuffers::Shared, "{found:?}");
            assert!((found.ratio - 0.5).abs() < 0.02, "{found:?}");
            assert_eq!(undecided(&found), "");
        }
    }

    #[test]
    fn outputs_with_a_buffer_each_hold_the_same_whatever_the_other_one_does() {
        for seed in 0..2 {
            let of = |seed| fitted(Buffers::Shared { depth_bytes: 800e3 }, seed);
            let found = compare(&of(seed), &of(seed + 7));
            assert_eq!(found.verdict, OutputBuffers::Own, "{found:?}");
            assert!(found.ratio_interval[0] <= 1.0 && 1.0 <= found.ratio_interval[1], "{found:?}");
        }
    }

    #[test]
    fn wide_intervals_and_an_output_that_gains_by_another_one_decide_nothing_and_say_why() {
        let known = fitted(Buffers::Shared { depth_bytes: 800e3 }, 1);
        let with = |low: f64, high: f64| Fit { depth_interval_bytes: [low, high], ..known.clone() };
        let wide = compare(&with(780e3, 820e3), &with(600e3, 820e3));
        assert_eq!(wide.verdict, OutputBuffers::Undecided);
        assert!(undecided(&wide).contains("0.73 to 1.05 of that alone"), "{}", undecided(&wide));
        let more = compare(&with(780e3, 820e3), &with(1.2e6, 1.3e6));
        assert_eq!(more.verdict, OutputBuffers::Undecided);
        assert!(undecided(&more).contains("holds more beside another one"));
    }
}
