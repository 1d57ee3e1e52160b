//! One value of a plan in steps, and what is predicted at each.
//!
//! ```text
//!  depth=1MB:100MB:20:log ─► Sweep ─ each value into the Plan ─► predictions ─► where each hop is saturated
//! ```

use schemars::JsonSchema;
use serde::Serialize;

use super::network::MOST_OUTPUTS;
use super::{Chain, ChainError, ChainPrediction, Emission, Plan};
use crate::predict::quantity::{self, QuantityError};

/// The most values.
const MOST_STEPS: usize = 1000;
/// Halvings of the interval in which a hop is saturated.
const HALVINGS: u32 = 50;

/// A quantity that can be swept.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Parameter {
    key: &'static str,
    unit: &'static str,
    example: &'static str,
    kind: Kind,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    Number,
    Whole,
    Size,
    BitRate,
    ByteRate,
}

const fn parameter(key: &'static str, unit: &'static str, example: &'static str, kind: Kind) -> Parameter {
    Parameter { key, unit, example, kind }
}

const PARAMETERS: [Parameter; 16] = [
    parameter("rate_hz", "Hz", "rate_hz=1000:40000:20", Kind::Number),
    parameter("rate_factor", "", "rate_factor=0.5:2:16", Kind::Number),
    parameter("dead_time_us", "µs", "dead_time_us=1:100:20", Kind::Number),
    parameter("links", "", "links=16:320:20", Kind::Whole),
    parameter("payload", "B", "payload=64:8972:20", Kind::Whole),
    parameter("link_rate", "b/s", "link_rate=1Gbit:10Gbit:10", Kind::BitRate),
    parameter("output_rate", "b/s", "output_rate=10Gbit:100Gbit:10", Kind::BitRate),
    parameter("outputs", "", "outputs=1:8:8", Kind::Whole),
    parameter("depth", "B", "depth=1MB:330MB:20:log", Kind::Size),
    parameter("receive_rate", "B/s", "receive_rate=500MB/s:2GB/s:16", Kind::ByteRate),
    parameter("receive_buffer", "B", "receive_buffer=1MiB:256MiB:9:log", Kind::Size),
    parameter("build_rate", "B/s", "build_rate=500MB/s:2GB/s:16", Kind::ByteRate),
    parameter("build_buffer", "B", "build_buffer=16MiB:1GiB:7:log", Kind::Size),
    parameter("kept", "", "kept=0.1:1:10", Kind::Number),
    parameter("disk_rate", "B/s", "disk_rate=100MB/s:1GB/s:10", Kind::ByteRate),
    parameter("disk_buffer", "B", "disk_buffer=1MiB:1GiB:11:log", Kind::Size),
];

/// A sweep that cannot be.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
pub enum SweepError {
    /// There is no such value.
    #[error("nothing is called `{0}`; what can be swept: {1}")]
    Unknown(String, String),
    /// It is not written as a sweep.
    #[error("\"{0}\" is no KEY=FROM:TO:STEPS; write for example {1}")]
    Form(String, &'static str),
    /// One of its values.
    #[error(transparent)]
    Quantity(#[from] QuantityError),
    /// The values do not rise.
    #[error(
        "`{key}` goes from {from} to {to}: the second must be larger than the first; write for example {example}"
    )]
    Order {
        /// The swept key.
        key: &'static str,
        /// The first value.
        from: f64,
        /// The last.
        to: f64,
        /// A sweep that can be.
        example: &'static str,
    },
    /// Too few or too many.
    #[error("\"{0}\" steps: write a number from 2 to {MOST_STEPS}")]
    Steps(String),
    /// The plan has nothing that it would change.
    #[error("`{key}` cannot be swept: {why}")]
    Nothing {
        /// The swept key.
        key: &'static str,
        /// Why not.
        why: &'static str,
    },
    /// A plan that cannot be predicted.
    #[error("`{key}` = {value}: {error}")]
    Chain {
        /// The swept key.
        key: &'static str,
        /// The value.
        value: f64,
        /// Why not.
        error: ChainError,
    },
}

/// A value and its steps.
#[derive(Clone, Debug, PartialEq)]
pub struct Sweep {
    parameter: Parameter,
    values: Vec<f64>,
    is_logarithmic: bool,
}

/// The prediction at a value.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
pub struct SweptPoint {
    /// The value, in the unit of the sweep.
    pub value: f64,
    /// The prediction there.
    pub prediction: ChainPrediction,
}

/// The point at which a hop is saturated.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
pub struct Saturation {
    /// The name of the hop.
    pub hop: &'static str,
    /// The value at which its utilisation is 1; of whole numbers, the first on the other side.
    pub value: f64,
}

/// The result of a sweep.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
pub struct Swept {
    /// The swept quantity.
    pub parameter: &'static str,
    /// Its unit; empty for a number.
    pub unit: &'static str,
    /// True if its values are at equal ratios.
    pub is_logarithmic: bool,
    /// Value by value.
    pub points: Vec<SweptPoint>,
    /// Each hop that becomes saturated, or comes out of it, between two of the values.
    pub saturations: Vec<Saturation>,
}

impl Sweep {
    /// Reads `KEY=FROM:TO:STEPS`, or `KEY=FROM:TO:STEPS:log` for equal ratios.
    ///
    /// # Errors
    /// When it is none, with what to write.
    pub fn parse(text: &str) -> Result<Sweep, SweepError> {
        let (key, range) =
            text.split_once('=').ok_or_else(|| SweepError::Form(text.to_owned(), PARAMETERS[0].example))?;
        let parameter = PARAMETERS.into_iter().find(|parameter| parameter.key == key.trim());
        let parameter = parameter.ok_or_else(|| {
            let keys: Vec<&str> = PARAMETERS.iter().map(|parameter| parameter.key).collect();
            SweepError::Unknown(key.trim().to_owned(), keys.join(", "))
        })?;
        let parts: Vec<&str> = range.split(':').collect();
        let (from, to, steps, is_logarithmic) = match parts.as_slice() {
            [from, to, steps] => (from, to, steps, false),
            [from, to, steps, "log"] => (from, to, steps, true),
            _ => return Err(SweepError::Form(text.to_owned(), parameter.example)),
        };
        let (from, to) = (parameter.read(from)?, parameter.read(to)?);
        if from >= to {
            return Err(SweepError::Order { key: parameter.key, from, to, example: parameter.example });
        }
        let count = steps.trim().parse().ok().filter(|count| (2..=MOST_STEPS).contains(count));
        let count = count.ok_or_else(|| SweepError::Steps(steps.trim().to_owned()))?;
        let at = |step: usize| {
            let fraction = step as f64 / (count - 1) as f64;
            let value = if is_logarithmic {
                from * (to / from).powf(fraction)
            } else {
                from + (to - from) * fraction
            };
            if parameter.kind == Kind::Whole { value.round() } else { value }
        };
        let mut values: Vec<f64> = (0..count).map(at).collect();
        values.dedup();
        Ok(Sweep { parameter, values, is_logarithmic })
    }

    /// Predicts the plan at every value, each with a simulation of `simulated_triggers` triggers.
    ///
    /// # Errors
    /// When the plan does not have what is swept, or there can be no such plan at a value.
    pub fn run(&self, plan: &Plan, simulated_triggers: u64) -> Result<Swept, SweepError> {
        let mut points = Vec::new();
        for value in self.values.iter().copied() {
            let chain = self.chain(plan, value)?;
            let error = |error| SweepError::Chain { key: self.parameter.key, value, error };
            points.push(SweptPoint { value, prediction: chain.predict(simulated_triggers).map_err(error)? });
        }
        let saturations = self.saturations(plan, &points)?;
        let Parameter { key, unit, .. } = self.parameter;
        Ok(Swept { parameter: key, unit, is_logarithmic: self.is_logarithmic, points, saturations })
    }

    fn chain(&self, plan: &Plan, value: f64) -> Result<Chain, SweepError> {
        let mut plan = plan.clone();
        self.parameter.set(&mut plan, value)?;
        plan.chain().map_err(|error| SweepError::Chain { key: self.parameter.key, value, error })
    }

    /// Returns where the load of a hop is 1, by halving between values on both sides of it.
    fn saturations(&self, plan: &Plan, points: &[SweptPoint]) -> Result<Vec<Saturation>, SweepError> {
        let mut found = Vec::new();
        for pair in points.windows(2) {
            for (hop, (low, high)) in pair[0].prediction.hops.iter().zip(&pair[1].prediction.hops).enumerate()
            {
                let (Some(low), Some(high)) = (low.utilisation, high.utilisation) else { continue };
                let is_above = low > 1.0;
                if is_above == (high > 1.0) {
                    continue;
                }
                let value = self.crossing([pair[0].value, pair[1].value], |value| {
                    let (link, hops) = self.chain(plan, value)?.loads();
                    let load = if hop == 0 { link } else { hops[hop - 1] };
                    Ok(load.is_some_and(|load| load > 1.0) == is_above)
                })?;
                found.push(Saturation { hop: pair[0].prediction.hops[hop].name, value });
            }
        }
        found.sort_by(|one, other| one.value.total_cmp(&other.value));
        Ok(found)
    }

    /// The value from which something does not hold any more that holds at the first of two values, and not at the second.
    fn crossing(
        &self,
        [mut from, mut to]: [f64; 2],
        mut holds: impl FnMut(f64) -> Result<bool, SweepError>,
    ) -> Result<f64, SweepError> {
        let is_whole = self.parameter.kind == Kind::Whole;
        for _ in 0..HALVINGS {
            let middle = 0.5 * (from + to);
            // Between two whole numbers there is none, and what holds there is no answer.
            let middle = if is_whole { middle.floor() } else { middle };
            if is_whole && middle == from {
                break;
            }
            if holds(middle)? { from = middle } else { to = middle }
        }
        Ok(to)
    }
}

impl Parameter {
    fn read(self, text: &str) -> Result<f64, SweepError> {
        let text = text.trim();
        let number = || text.parse().ok().filter(|value: &f64| *value > 0.0 && value.is_finite());
        Ok(match self.kind {
            Kind::Size => quantity::bytes(text)?,
            Kind::BitRate => quantity::bits_per_second(text)?,
            Kind::ByteRate => quantity::bytes_per_second(text)?,
            Kind::Number | Kind::Whole => {
                number().ok_or(QuantityError::Number(text.to_owned(), self.example))?
            }
        })
    }

    fn set(self, plan: &mut Plan, value: f64) -> Result<(), SweepError> {
        let nothing = |why| SweepError::Nothing { key: self.key, why };
        let is_triggered = plan.sources.iter().any(|source| source.emission == Emission::Triggered);
        let network = &mut plan.network;
        match self.key {
            "rate_hz" | "dead_time_us" if !is_triggered => {
                return Err(nothing(
                    "no source is triggered; sweep rate_factor, which multiplies the rates of all sources",
                ));
            }
            "rate_hz" => plan.triggers.rate_hz = value,
            "rate_factor" => {
                plan.triggers.rate_hz *= value;
                plan.triggers.burst_rate_hz *= value;
                for source in &mut plan.sources {
                    if let Emission::Free { rate_hz, .. } = &mut source.emission {
                        *rate_hz *= value;
                    }
                }
            }
            "dead_time_us" => plan.triggers.dead_time_ns = (value * 1e3).round() as u64,
            "links" | "payload" if plan.sources.len() != 1 => {
                return Err(nothing("there are several sources, and it is not said which of them is meant"));
            }
            "links" => plan.sources[0].links = value as u32,
            "payload" => plan.sources[0].answers = vec![vec![value as u32]],
            "link_rate" => network.link.rate_bits_per_s = Some(value),
            "output_rate" => network.switch.output_rate_bits_per_s = Some(value),
            "outputs" => network.switch.outputs = Some(value as u32),
            "depth" => network.switch.depth_bytes = Some(value),
            _ if !plan.has_host => return Err(nothing("give a configuration: only that has a host")),
            "receive_rate" => network.host.receive_bytes_per_s = Some(value),
            "receive_buffer" => network.host.receive_buffer_bytes = Some(value),
            "build_rate" => network.build.bytes_per_s = Some(value),
            "build_buffer" => network.build.buffer_bytes = Some(value),
            "kept" => network.build.kept = Some(value),
            "disk_rate" => network.disk.bytes_per_s = Some(value),
            _ => network.disk.buffer_bytes = Some(value),
        }
        if self.key == "kept" && value > 1.0 {
            return Err(nothing("it is a fraction, at most 1"));
        }
        if matches!(self.key, "links" | "payload") && !(1.0..=f64::from(1 << 24)).contains(&value) {
            return Err(nothing("it must be from 1 to 16777216"));
        }
        if self.key == "outputs" && !(1.0..=f64::from(MOST_OUTPUTS)).contains(&value) {
            return Err(nothing("a switch has from 1 to 4096"));
        }
        Ok(())
    }
}
