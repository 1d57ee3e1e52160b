//! Settings of an x27xx board, checked.
//!
//! ```text
//!  [[source]] format = "digitizer2", tick_ps = 8000, channels = 64, firmware = "psd" ─► Settings ─► Plan
//!                                  properties that a board reports: BoardFacts ─ completed_by ─┘
//! ```

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use thalweg_data::{Tick, tick::TickError};

use super::wire::CHANNELS;
use crate::format::BoardFacts;

/// Firmware of the board, which determines how the words behind a hit are read.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum Firmware {
    /// DPP-PSD: long and short gate.
    #[default]
    Psd,
    /// DPP-PHA: pulse height.
    Pha,
    /// Open DPP: user words and packed samples.
    OpenDpp,
    /// DPP-ZLE: zero-length encoding.
    Zle,
    /// Scope: one event per trigger.
    Scope,
}

impl Firmware {
    /// Its name in the configuration.
    pub fn word(self) -> &'static str {
        match self {
            Firmware::Psd => "psd",
            Firmware::Pha => "pha",
            Firmware::OpenDpp => "opendpp",
            Firmware::Zle => "zle",
            Firmware::Scope => "scope",
        }
    }

    /// The firmware with this name.
    pub fn of_word(word: &str) -> Option<Firmware> {
        let all = [Firmware::Psd, Firmware::Pha, Firmware::OpenDpp, Firmware::Zle, Firmware::Scope];
        all.into_iter().find(|firmware| firmware.word() == word)
    }

    /// The firmware of an endpoint of the control protocol.
    pub fn of_endpoint(name: &str) -> Option<Firmware> {
        Some(match name {
            "dpppsd" => Firmware::Psd,
            "dpppha" => Firmware::Pha,
            "opendpp" => Firmware::OpenDpp,
            "dppzle" => Firmware::Zle,
            "scope" => Firmware::Scope,
            _ => return None,
        })
    }
}

/// Settings of one board, as written in the configuration.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct Settings {
    /// Sampling period in picoseconds: 8000 for the 2740 and 2745 (125 MS/s), 2000 for the 2730 (500 MS/s). The data do
    /// not contain it. Boards behind dig2:// and emulate:// report it: leave it out for them. Elsewhere, the default is
    /// 8000.
    pub tick_ps: Option<f64>,
    /// Channels of the board, 1 to 128. Hits of higher channels are counted as lost. Boards behind dig2:// and
    /// emulate:// report it. Elsewhere, the default is 64.
    pub channels: Option<u16>,
    /// The experiment's channel for channel 0 of the board.
    pub first_channel: u16,
    /// Firmware of the board. Boards behind dig2:// and emulate:// report it. Elsewhere, the default is psd.
    pub firmware: Option<Firmware>,
    /// Added to every time of this board, in picoseconds.
    pub time_offset_ps: i64,
    /// How many samples of its clock the board combines to one in waveforms of scope, ZLE and Open DPP firmware. Boards behind dig2://
    /// and emulate:// report it if they can. Elsewhere it is unknown by default, and so is the time between samples; PSD and PHA
    /// send it with each waveform.
    pub decimation: Option<u32>,
    /// Samples of a waveform before the trigger. Boards behind dig2:// and emulate:// report it if it is the same for all channels.
    /// Elsewhere it is unknown by default, and so is the time of the first sample.
    pub samples_before_trigger: Option<u32>,
}

/// Settings that cannot be used.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
pub enum SettingsError {
    /// An invalid sampling period.
    #[error("tick_ps: {0}")]
    Tick(#[from] TickError),
    /// No board has this number of channels.
    #[error("channels = {0}: a board of this family has 1 to {CHANNELS} channels")]
    Channels(u16),
    /// Channel numbers of the experiment have 16 bits.
    #[error(
        "first_channel = {first_channel}: with {channels} channels the last one would be beyond {}",
        u16::MAX
    )]
    FirstChannel {
        /// The configured first channel.
        first_channel: u16,
        /// Channels of the board.
        channels: u16,
    },
    /// The configuration contradicts the board.
    #[error(
        "{key} = {configured}, but {board} reports {reported}: remove `{key}`, or connect the intended board"
    )]
    Contradiction {
        /// The key.
        key: &'static str,
        /// The configured value.
        configured: String,
        /// The board's name.
        board: String,
        /// The value that the board reports.
        reported: String,
    },
    /// No board combines samples like this.
    #[error("decimation = {0}: write a power of two from 1 to 32768")]
    Decimation(u32),
    /// So large that times would exceed 64 bits.
    #[error("time_offset_ps = {0}: give at most 1e18 in either direction (eleven days)")]
    TimeOffset(i64),
}

/// Checked settings.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Plan {
    /// Length of one time stamp count.
    pub tick: Tick,
    /// Channels of the board, 1 to 128.
    pub channels: u16,
    /// The experiment's channel for channel 0 of the board.
    pub first_channel: u16,
    /// Firmware of the board.
    pub firmware: Firmware,
    /// Added to every time, in picoseconds.
    pub time_offset_ps: i64,
    /// How many samples of its clock the board combines to one in a scope record, if known.
    pub decimation: Option<u32>,
}

impl Settings {
    /// The sampling period in picoseconds, 8000 by default.
    pub fn tick_ps(&self) -> f64 {
        self.tick_ps.unwrap_or(8000.0)
    }

    /// Channels of the board, 64 by default.
    pub fn channels(&self) -> u16 {
        self.channels.unwrap_or(64)
    }

    /// These settings, completed by the properties that the board reports.
    ///
    /// # Errors
    /// When the board contradicts a setting: with both values.
    pub fn completed_by(&self, board: &BoardFacts) -> Result<Settings, SettingsError> {
        let contradiction = |key, configured: String, reported: String| {
            Err(SettingsError::Contradiction { key, configured, board: board.name(), reported })
        };
        // A period written by hand may be rounded to a few digits. Comparisons with NaN are false.
        let is_reported = |tick_ps: f64| (tick_ps / board.tick_ps - 1.0).abs() <= 1e-6;
        if let Some(tick_ps) = self.tick_ps.filter(|tick_ps| !is_reported(*tick_ps)) {
            let reported = format!("{} ({} MS/s)", board.tick_ps, board.sampling_mhz);
            return contradiction("tick_ps", tick_ps.to_string(), reported);
        }
        if let Some(channels) = self.channels.filter(|channels| *channels != board.channels) {
            return contradiction("channels", channels.to_string(), board.channels.to_string());
        }
        let reported_firmware = board.firmware.as_deref().and_then(Firmware::of_word);
        if let (Some(configured), Some(reported)) = (self.firmware, reported_firmware)
            && configured != reported
        {
            return contradiction("firmware", configured.word().to_owned(), reported.word().to_owned());
        }
        let differs = |configured: Option<u32>, reported: Option<u32>| {
            let (configured, reported) = configured.zip(reported)?;
            (configured != reported).then(|| (configured.to_string(), reported.to_string()))
        };
        if let Some((configured, reported)) = differs(self.decimation, board.decimation) {
            return contradiction("decimation", configured, reported);
        }
        let before = self.samples_before_trigger;
        if let Some((configured, reported)) = differs(before, board.samples_before_trigger) {
            return contradiction("samples_before_trigger", configured, reported);
        }
        Ok(Settings {
            tick_ps: Some(board.tick_ps),
            decimation: self.decimation.or(board.decimation),
            samples_before_trigger: before.or(board.samples_before_trigger),
            channels: Some(board.channels),
            firmware: reported_firmware.or(self.firmware),
            ..self.clone()
        })
    }

    /// Checks all settings.
    ///
    /// # Errors
    /// The value that cannot be used, and what is allowed.
    pub fn resolve(&self) -> Result<Plan, SettingsError> {
        let tick = Tick::from_ps_f64(self.tick_ps())?;
        let (first_channel, channels) = (self.first_channel, self.channels());
        if !(1..=CHANNELS).contains(&channels) {
            return Err(SettingsError::Channels(channels));
        }
        if first_channel.checked_add(channels - 1).is_none() {
            return Err(SettingsError::FirstChannel { first_channel, channels });
        }
        if self.time_offset_ps.unsigned_abs() > 1_000_000_000_000_000_000 {
            return Err(SettingsError::TimeOffset(self.time_offset_ps));
        }
        let combines = |samples: u32| samples.is_power_of_two() && samples <= 1 << 15;
        if let Some(decimation) = self.decimation.filter(|decimation| !combines(*decimation)) {
            return Err(SettingsError::Decimation(decimation));
        }
        Ok(Plan {
            tick,
            channels,
            first_channel,
            firmware: self.firmware.unwrap_or_default(),
            time_offset_ps: self.time_offset_ps,
            decimation: self.decimation,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn defaults_are_a_2740() {
        let settings: Settings = serde_json::from_str("{}").expect("all have defaults");
        assert_eq!(settings, Settings::default());
        assert_eq!(settings.resolve().map(|plan| plan.tick.whole_ps()), Ok(Some(8000)));
        let settings: Settings = serde_json::from_str(r#"{"firmware":"opendpp"}"#).expect("a known firmware");
        assert_eq!(settings.firmware, Some(Firmware::OpenDpp));
        assert!(serde_json::from_str::<Settings>(r#"{"chanels":3}"#).is_err());
    }

    #[test]
    fn the_board_completes_the_configuration_and_a_contradiction_is_refused_with_both_values() {
        let board = BoardFacts {
            model: "VX2730".to_owned(),
            serial: "17".to_owned(),
            firmware: Some("pha".to_owned()),
            firmware_version: None,
            sampling_mhz: 500.0,
            tick_ps: 2000.0,
            channels: 32,
            decimation: Some(1),
            samples_before_trigger: None,
        };
        let plan = Settings::default().completed_by(&board).expect("nothing contradicts").resolve();
        let plan = plan.expect("a board");
        let known = (plan.tick.whole_ps(), plan.channels, plan.firmware);
        assert_eq!(known, (Some(2000), 32, Firmware::Pha));
        let same = Settings { tick_ps: Some(2000.0), channels: Some(32), ..Settings::default() };
        assert!(same.completed_by(&board).is_ok());
        let before = Settings { samples_before_trigger: Some(16), ..Settings::default() };
        let completed = before.completed_by(&board).expect("the board does not say");
        assert_eq!((completed.samples_before_trigger, completed.decimation), (Some(16), Some(1)));
        let refused = |settings: Settings, words: [&str; 4]| {
            let message = settings.completed_by(&board).expect_err("contradiction").to_string();
            words.iter().for_each(|word| assert!(message.contains(word), "{word} in {message}"));
        };
        let usual = Settings::default;
        refused(Settings { tick_ps: Some(8000.0), ..usual() }, ["tick_ps = 8000", "2000", "VX2730", "17"]);
        refused(Settings { channels: Some(64), ..usual() }, ["channels = 64", "32", "VX2730", "17"]);
        refused(Settings { decimation: Some(4), ..usual() }, ["decimation = 4", "reports 1", "VX2730", "17"]);
        refused(Settings { firmware: Some(Firmware::Psd), ..usual() }, ["psd", "pha", "VX2730", "17"]);
    }

    #[test]
    fn wrong_values_are_refused_with_what_is_allowed() {
        let with = |change: fn(&mut Settings)| {
            let mut settings = Settings::default();
            change(&mut settings);
            settings.resolve().expect_err("cannot be used").to_string()
        };
        assert!(with(|s| s.channels = Some(129)).contains("1 to 128"));
        assert!(with(|s| s.channels = Some(0)).contains("1 to 128"));
        assert!(with(|s| s.first_channel = 65_500).contains("65535"));
        assert!(with(|s| s.decimation = Some(3)).contains("power of two"));
        assert!(with(|s| s.tick_ps = Some(-1.0)).contains("tick_ps"));
        assert!(with(|s| s.time_offset_ps = i64::MIN).contains("time_offset_ps"));
    }
}
