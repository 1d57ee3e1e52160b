//! What was applied to a run, and what can be.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::cut::{Passed, polygon};

/// What kind of change it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum ChangeKind {
    /// The energy of a channel in keV.
    Calibration,
    /// A further cut on hits, behind those of the configuration.
    Cut,
}

/// A calibration to be applied.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct NewCalibration {
    /// Number of the channel.
    pub channel: u16,
    /// Energy in keV as a polynomial of the measured energy, constant first, one to six coefficients; it rises over all measured energies.
    pub energy_kev: Vec<f64>,
}

/// A cut to be applied.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct NewCut {
    /// What it is called; another name than those of the cuts that there are.
    pub name: String,
    /// Which hits it keeps: an expression as in `[[cut]]`.
    pub keep: String,
    /// A region that the expression calls `inside(name)`, beside those of the configuration.
    #[serde(default)]
    pub polygon: Option<polygon::Settings>,
}

/// A change that was applied to what is shown of a run, and is not in its configuration.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
#[schemars(rename = "AppliedChange")]
pub struct Applied {
    /// Its number in this run, from 1.
    pub number: u32,
    /// What kind of change it is.
    pub kind: ChangeKind,
    /// Name of the channel, or of the cut.
    pub name: String,
    /// The channel, of a calibration.
    pub channel: Option<u16>,
    /// The lines that say the same in a configuration.
    pub lines: String,
    /// Since when, seconds since run start on the arrival clock; null until the next batch.
    pub since_seconds: Option<f64>,
    /// Of hits behind this time, picoseconds since run start: that of the last hit before the change.
    pub after_ps: Option<i64>,
    /// Until when, seconds since run start, of one that was reverted or replaced; null while it stands.
    pub until_seconds: Option<f64>,
    /// Of a cut: hits that came to it.
    #[serde(rename = "in")]
    pub input: u64,
    /// Of a cut: hits that it kept.
    pub kept: u64,
}

impl Applied {
    pub(super) fn new(number: u32, kind: ChangeKind, name: String, lines: String) -> Applied {
        Applied {
            number,
            kind,
            name,
            channel: None,
            lines,
            since_seconds: None,
            after_ps: None,
            until_seconds: None,
            input: 0,
            kept: 0,
        }
    }

    pub(super) fn count(&mut self, passed: Passed) {
        (self.input, self.kept) = (passed.input, passed.kept);
    }
}

impl NewCalibration {
    pub(super) fn lines(&self) -> String {
        format!("[[channel]]\nnumber = {}\nenergy_kev = {}\n", self.channel, numbers(&self.energy_kev))
    }
}

impl NewCut {
    pub(super) fn lines(&self) -> String {
        let region = self.polygon.as_ref().map_or_else(String::new, |polygon| {
            let points: Vec<String> = polygon.points.iter().map(|point| numbers(point)).collect();
            let [name, x, y] = [&polygon.name, &polygon.x, &polygon.y].map(|text| quoted(text));
            let points = points.join(", ");
            format!("[[polygon]]\nname = {name}\nx = {x}\ny = {y}\npoints = [{points}]\n\n")
        });
        format!("{region}[[cut]]\nname = {}\nkeep = {}\n", quoted(&self.name), quoted(&self.keep))
    }
}

/// A text of TOML: what JSON escapes, TOML reads.
fn quoted(text: &str) -> String {
    serde_json::Value::from(text).to_string()
}

fn numbers(numbers: &[f64]) -> String {
    let each: Vec<String> = numbers.iter().map(|number| format!("{number:?}")).collect();
    format!("[{}]", each.join(", "))
}
