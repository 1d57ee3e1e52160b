//! The values of an emulated board's parameters after power-on, and what it takes less of than a real one.
//!
//! ```text
//!  emulate::Settings ─► InitialValues ─ value("triggerthr"), emulated_rule("chrecordlengths") ─► nodes of the Tree
//! ```

use crate::digitizer2::Firmware;
use crate::digitizer2::emulate::{Settings, buffer_bytes};
use crate::digitizer2::parameters::{BoardKind, Family, Range, Rule, Words};

/// Emulated waveforms have whole words of four samples.
const WORD_SAMPLES: f64 = 4.0;

/// The values after power-on.
pub(super) struct InitialValues<'s> {
    settings: &'s Settings,
    model: String,
    serial: String,
    /// What the board is.
    pub(super) kind: BoardKind,
}

impl<'s> InitialValues<'s> {
    pub(super) fn of(settings: &'s Settings) -> InitialValues<'s> {
        let facts = settings.facts();
        let firmware = facts.firmware.as_deref().and_then(Firmware::of_word).unwrap_or_default();
        let kind =
            BoardKind { firmware, family: Family::of_model(&facts.model), sampling_mhz: facts.sampling_mhz };
        InitialValues { settings, model: facts.model, serial: facts.serial, kind }
    }

    pub(super) fn period_ns(&self) -> f64 {
        1000.0 / self.kind.sampling_mhz
    }

    /// The rule of the emulated board for a parameter, by its name in lower case.
    pub(super) fn emulated_rule(&self, name: &str, rule: Rule) -> Rule {
        match name {
            "chrecordlengths" | "recordlengths" | "chpretriggers" | "pretriggers" => {
                let most = f64::from(self.settings.most_samples());
                Rule::Number(Some(Range::stepped(0.0, most, WORD_SAMPLES)))
            }
            // It is part of the emulated board's data, which were made before.
            "decimationfactor" => {
                let decimation = f64::from(self.settings.decimation);
                Rule::Number(Some(Range::stepped(decimation, decimation, 1.0)))
            }
            _ => rule,
        }
    }

    /// The value of a parameter, by its name in lower case; those of a channel depend on its number.
    pub(super) fn value(&self, name: &str, rule: &Rule, number: Option<u16>) -> String {
        let stated = number.map_or_else(|| self.of_board(name), |number| self.of_channel(name, number));
        stated.unwrap_or_else(|| match rule {
            Rule::ReadOnly => "0".to_owned(),
            Rule::Anything => String::new(),
            Rule::Boolean => "False".to_owned(),
            Rule::Number(range) => range.map_or(0.0, |range| range.low.max(0.0)).to_string(),
            Rule::OneOf(words) | Rule::AnyOf(words) => first_of(words),
        })
    }

    fn of_board(&self, name: &str) -> Option<String> {
        let Settings { channels, sampling_mhz, .. } = self.settings;
        let family = self.kind.family.unwrap_or(Family::X2740);
        let has_14_bits = matches!(family, Family::X2730 | Family::X2751);
        let family = family.number();
        let firmware = match self.kind.firmware {
            Firmware::Psd => "DPP_PSD",
            Firmware::Pha => "DPP_PHA",
            Firmware::Scope => "Scope",
            Firmware::Zle => "DPP_ZLE",
            Firmware::OpenDpp => "DPP_OPEN",
        };
        Some(match name {
            "numch" => channels.to_string(),
            "adc_samplrate" => sampling_mhz.to_string(),
            "adc_nbit" => if has_14_bits { "14" } else { "16" }.to_owned(),
            "modelname" => self.model.clone(),
            "modelcode" => format!("WVX{family}XAAAA"),
            "familycode" => family.to_owned(),
            "formfactor" => "VME64X".to_owned(),
            "serialnum" => self.serial.clone(),
            "cupver" => "2025091500".to_owned(),
            "fpga_fwver" => "1.0.0".to_owned(),
            "fwtype" => firmware.to_owned(),
            "license" => "emulated".to_owned(),
            "licensestatus" => "Licensed".to_owned(),
            "inputrange" => "2".to_owned(),
            "zin" => "50".to_owned(),
            "boardready" => "True".to_owned(),
            "maxrawdatasize" => buffer_bytes(self.settings).max(1 << 20).to_string(),
            "decimationfactor" => self.settings.decimation.to_string(),
            "recordlengths" => self.settings.waveform_samples.to_string(),
            "pretriggers" => self.settings.samples_before_trigger().to_string(),
            "enstatevents" => boolean(self.settings.statistics_interval_ms > 0),
            name if name.starts_with("tempsens") => "40".to_owned(),
            _ => return None,
        })
    }

    fn of_channel(&self, name: &str, channel: u16) -> Option<String> {
        let gate_samples = |fraction: f64| {
            let samples = self.settings.detector.gate_ns * fraction / self.period_ns();
            samples.floor().to_string()
        };
        Some(match name {
            "chenable" => "True".to_owned(),
            "eventtriggersource" => "ChSelfTrigger".to_owned(),
            "wavetriggersource" if self.settings.waveform_samples > 0 => "ChSelfTrigger".to_owned(),
            "chrecordlengths" => self.settings.waveform_samples.to_string(),
            "chpretriggers" => self.settings.samples_before_trigger().to_string(),
            "dcoffset" | "triggerthr" => "20".to_owned(),
            "gatelonglengths" => gate_samples(1.0),
            "gateshortlengths" => gate_samples(0.2),
            "selftrgrate" => format!("{:.0}", self.settings.channel_rate_hz(channel)),
            _ => return None,
        })
    }
}

fn first_of(words: &Words) -> String {
    words.all().next().unwrap_or_default().to_owned()
}

fn boolean(value: bool) -> String {
    if value { "True" } else { "False" }.to_owned()
}
