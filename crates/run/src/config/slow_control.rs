//! `[[series]]`, and the check that every device named in the configuration exists.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use thalweg_readout::Switch;
use thalweg_record::SeriesName;

use super::Configuration;

/// Shortest and longest time between two readings, seconds.
const EVERY_S: std::ops::RangeInclusive<f64> = 0.01..=86_400.0;

/// `[[series]]`: a register or parameter that is read while a run goes on.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct SeriesSettings {
    /// A short name, unique; used in `series.arrows`, on the page, in metrics and by `[[alarm]] series`.
    pub name: String,
    /// The `[[control]]` that has it, or the `[[source]]` of a dig2:// board.
    pub of: String,
    /// The register or parameter: a node of the address table, an address, /par/….
    pub path: String,
    /// Between two readings, seconds.
    #[serde(default = "one")]
    pub every_s: f64,
    /// What a count is worth, in `unit`: the value is `scale` × what was read + `offset`.
    #[serde(default = "one")]
    pub scale: f64,
    /// See `scale`.
    #[serde(default)]
    pub offset: f64,
    /// The unit of the value, as in "degC".
    #[serde(default)]
    pub unit: String,
}

fn one() -> f64 {
    1.0
}

impl SeriesSettings {
    /// The value of what was read; `None` of what is no number.
    pub(crate) fn value_of(&self, text: &str) -> Option<f64> {
        let text = text.trim();
        let number = match text.strip_prefix("0x") {
            Some(digits) => u64::from_str_radix(digits, 16).ok().map(|number| number as f64),
            None => text.parse().ok(),
        };
        number.map(|number| self.scale * number + self.offset).filter(|value| value.is_finite())
    }

    /// Returns the name as the table has it.
    pub(crate) fn name(&self) -> SeriesName {
        SeriesName {
            name: self.name.clone(),
            of: self.of.clone(),
            path: self.path.clone(),
            unit: self.unit.clone(),
        }
    }

    fn check(&self) -> Result<(), String> {
        let refuse = |words: String| Err(format!("[[series]] \"{}\": {words}", self.name));
        if self.name.is_empty() || self.name.starts_with('/') {
            return refuse("a name has a letter or more, and does not begin with /".to_owned());
        }
        if !EVERY_S.contains(&self.every_s) {
            let (least, most) = (EVERY_S.start(), EVERY_S.end());
            return refuse(format!("`every_s = {}`: write {least} to {most}", self.every_s));
        }
        if !self.scale.is_finite() || self.scale == 0.0 {
            return refuse(format!("`scale = {}`: write a number other than 0", self.scale));
        }
        if !self.offset.is_finite() {
            return refuse(format!("`offset = {}`: write a number", self.offset));
        }
        Ok(())
    }
}

/// Returns the sources whose boards have a keeper that can read for a series, in addition to the devices.
pub(crate) fn read_by_keepers(configuration: &Configuration) -> impl Iterator<Item = &str> {
    let of_boards = configuration.hit_sources().filter(|(source, _)| source.endpoint.url.control().is_some());
    of_boards.map(|(source, _)| source.head.name.as_str())
}

/// Finds names that name nothing, or two things.
///
/// # Errors
/// The section and the key, and what could stand there.
pub(crate) fn check(configuration: &Configuration) -> Result<(), String> {
    let (controls, series) = (&configuration.controls, &configuration.series);
    for (index, control) in controls.iter().enumerate() {
        let name = &control.name;
        control.check().map_err(|words| format!("[[control]] \"{name}\": {words}"))?;
        let is_taken = controls[..index].iter().any(|other| other.name == *name)
            || configuration.sources.iter().any(|source| source.head.name == *name);
        if is_taken || name.is_empty() {
            return Err(format!(
                "[[control]] \"{name}\": devices and sources have names of their own; choose another"
            ));
        }
    }
    let devices = || controls.iter().map(|control| control.name.as_str());
    for (index, each) in series.iter().enumerate() {
        each.check()?;
        if series[..index].iter().any(|other| other.name == each.name) {
            return Err(format!("[[series]] \"{}\": two series have this name; names are unique", each.name));
        }
        let mut known = devices().chain(read_by_keepers(configuration));
        if !known.any(|name| name == each.of) {
            return Err(format!(
                "[[series]] \"{}\": `of = \"{}\"` is no [[control]], nor a [[source]] with a dig2:// board{}",
                each.name,
                each.of,
                offered(devices().chain(read_by_keepers(configuration)))
            ));
        }
    }
    let named = configuration.alarms.iter().filter_map(|alarm| Some((&alarm.name, alarm.series.as_ref()?)));
    for (alarm, name) in named {
        if !series.iter().any(|each| each.name == *name) {
            return Err(format!(
                "[[alarm]] \"{alarm}\": `series = \"{name}\"` is no [[series]]{}",
                offered(series.iter().map(|each| each.name.as_str()))
            ));
        }
    }
    let switches = [
        ("[busy] register", configuration.busy.register.as_ref()),
        ("[trigger.enable]", configuration.enable.as_ref()),
    ];
    for (section, switch) in switches {
        if let Some(Switch { of, .. }) = switch
            && !devices().any(|name| name == of)
        {
            return Err(format!("{section}: `of = \"{of}\"` is no [[control]]{}", offered(devices())));
        }
    }
    Ok(())
}

/// The names that there are, as the end of a message.
pub(crate) fn offered<'n>(names: impl Iterator<Item = &'n str>) -> String {
    let names: Vec<String> = names.map(|name| format!("\"{name}\"")).collect();
    if names.is_empty() { "; there is none".to_owned() } else { format!("; there is {}", names.join(", ")) }
}
