//! Settings of an emulated board.
//!
//! ```text
//!  configuration ─► Settings ─ check ─► Board
//! ```
//! Every key has a default; an unknown key is refused. All boards of one set-up have the same `seed`, `boards`,
//! `isotopes` and `coincidence`, and differ in `board`: from these, each board calculates on its own the decays that
//! several boards see.

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::zle::most_record_bytes;
use crate::digitizer2;
use crate::digitizer2::control::Faults;
use crate::digitizer2::parameters::Family;
pub use crate::emulated_settings::SettingsError;
use crate::emulated_settings::check;
use crate::format::BoardFacts;

/// Most channels of a board: the format's channel number has 7 bits.
pub const CHANNELS_MAXIMUM: u16 = 128;
/// Most channels of a board with scope or ZLE firmware: scope events have a 64-bit mask of channels.
pub const SCOPE_CHANNELS_MAXIMUM: u16 = 64;
/// Most samples of one waveform: 4095 words of two samples (caen-digitizer2, wave header).
pub const WAVEFORM_SAMPLES_MAXIMUM: u32 = 8188;
/// Most samples of a scope record: 84 ms at 500 MS/s.
pub const RECORD_SAMPLES_MAXIMUM: u32 = 42_000_000;
/// Most samples that a board combines to one.
pub const DECIMATION_MAXIMUM: u32 = 1 << 15;
/// Largest UDP payload over IPv4.
pub const DATAGRAM_BYTES_MAXIMUM: u32 = 65_507;
/// Most boards that may share decays.
pub const BOARDS_MAXIMUM: u16 = 1024;
/// Highest rate of a whole board in hits per second: far above that of hardware, low enough to limit the memory.
pub const RATE_MAXIMUM_HZ: f64 = 1e9;
/// Largest ring of prepared data in MiB.
pub const PREPARED_MIB_MAXIMUM: u32 = 4096;

/// Firmware of the board, which determines the format of its data.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum Firmware {
    /// Charge in two gates: `energy` and `energy_short` (pulse shape).
    #[default]
    Psd,
    /// Pulse height.
    Pha,
    /// All channels' samples on each trigger; no hits.
    Scope,
    /// User firmware frame (Open DPP): energy, pulse shape and 16-bit samples.
    Opendpp,
    /// Samples of all channels on each trigger, without those near the baseline (zero-length encoding); no hits.
    Zle,
}

impl Firmware {
    /// Whether a trigger opens a window of all channels, instead of a hit of its own.
    pub fn has_windows(self) -> bool {
        matches!(self, Firmware::Scope | Firmware::Zle)
    }
}

/// Content of a hit on the wire.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Data {
    /// 16 bytes: full time, fine time, both energies, all flags.
    #[default]
    TwoWord,
    /// 8 bytes: 32-bit time, energy, high-priority flags (data reduction).
    OneWord,
}

/// The network protocol of the data.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum Transport {
    /// Datagrams with a footer word (10 GbE).
    #[default]
    Udp,
    /// Packets with a 32-byte header (1 GbE, USB).
    Tcp,
}

/// Pace of board time. The board itself knows only the `now` of its host, which implements the pace.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Pace {
    /// A second of data per second.
    #[default]
    RealTime,
    /// As fast as the receiver reads.
    Unlimited,
}

/// A source of radiation.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum Isotope {
    /// ²²Na: 511 keV in pairs, 1275 keV.
    Na22,
    /// ¹³⁷Cs: 662 keV.
    Cs137,
    /// ⁶⁰Co: 1173 and 1332 keV in cascade.
    Co60,
    /// ²⁵²Cf: fission neutrons and gammas, distinguished by pulse shape.
    Cf252,
    /// Environment: ⁴⁰K, ²⁰⁸Tl, a falling continuum, cosmic rays.
    Background,
}

/// Hits per second: one number for every channel, or one per channel.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(untagged, expecting = "expected a rate in Hz (20000.0), or a list of one for each channel")]
pub enum Rates {
    /// The same for each channel.
    Each(f64),
    /// One per channel; as many as there are channels.
    List(Vec<f64>),
}

impl Rates {
    /// The rate of one channel, hits per second; 0 beyond the list.
    pub fn of_channel(&self, channel: u16) -> f64 {
        match self {
            Rates::Each(rate) => *rate,
            Rates::List(list) => list.get(usize::from(channel)).copied().unwrap_or(0.0),
        }
    }
}

/// Decays that two channels see, on one or two boards.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct Coincidence {
    /// Fraction of the hits that have a partner, 0 to 1.
    pub fraction: f64,
    /// Decays per second over all boards. By default, this follows from `fraction`, if all boards have this board's
    /// total rate. Set it if boards have different rates.
    pub decay_rate_hz: Option<f64>,
    /// Standard deviation of the time difference between two channels of one board, in picoseconds.
    pub jitter_ps: f64,
    /// Additional standard deviation between two boards, in picoseconds; it is added in squares.
    pub board_jitter_ps: f64,
    /// Distance from a fission source to the detectors in metres: neutrons arrive later than gammas.
    pub flight_path_m: f64,
}

impl Default for Coincidence {
    fn default() -> Self {
        Coincidence {
            fraction: 0.1,
            decay_rate_hz: None,
            jitter_ps: 500.0,
            board_jitter_ps: 200.0,
            flight_path_m: 0.5,
        }
    }
}

/// What a pulse does that comes while its channel is blind.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum DeadTime {
    /// Nothing: the channel is blind for a fixed time after each hit (non-paralysable).
    #[default]
    NonExtending,
    /// The channel stays blind for the whole time after this pulse, too (paralysable).
    Extending,
}

/// The detectors in front of the board.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct Detector {
    /// Energy channels per keV.
    pub gain_per_kev: f64,
    /// Standard deviation of the gain between channels, in percent.
    pub gain_spread_percent: f64,
    /// Full width at half maximum at 662 keV, in percent.
    pub resolution_percent: f64,
    /// Standard deviation of that resolution between channels, in percent of it.
    pub resolution_spread_percent: f64,
    /// Threshold in keV, below which nothing is detected.
    pub threshold_kev: f64,
    /// Energy in keV above which the input saturates.
    pub saturation_kev: f64,
    /// Charge integration time in nanoseconds; a second pulse within it is piled up.
    pub gate_ns: f64,
    /// Time in nanoseconds after a trigger for which the channel is blind; at least the gate.
    pub dead_time_ns: f64,
    /// Whether a pulse in that time extends it.
    pub dead_time: DeadTime,
}

impl Default for Detector {
    fn default() -> Self {
        Detector {
            gain_per_kev: 10.0,
            gain_spread_percent: 2.0,
            resolution_percent: 4.5,
            resolution_spread_percent: 8.0,
            threshold_kev: 25.0,
            saturation_kev: 5500.0,
            gate_ns: 400.0,
            dead_time_ns: 600.0,
            dead_time: DeadTime::NonExtending,
        }
    }
}

/// An emulated board.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct Settings {
    /// Number of this board among those that share decays, from 0.
    pub board: u16,
    /// Number of boards that share decays.
    pub boards: u16,
    /// The same seed gives the same bytes; all boards of a set-up have the same seed.
    pub seed: u64,
    /// Number of channels, 1 to 128; with scope or ZLE firmware, 1 to 64.
    pub channels: u16,
    /// Sampling rate in MHz; one count of the board's clock is one sampling period.
    pub sampling_mhz: u32,
    /// Model of the board: a 2740, 2745, 2730 or 2751, such as "VX2745". Without it VX2740, and VX2730 from 500 MHz on.
    pub model: Option<String>,
    /// Hits per second per channel above threshold, or a list with one value per channel.
    pub rate_hz: Rates,
    /// Scales the rates of the channels so that the board has this many hits per second.
    pub total_rate_hz: Option<f64>,
    /// Sources of radiation, with their fractions of the hits.
    pub isotopes: BTreeMap<Isotope, f64>,
    /// Decays that two channels see.
    pub coincidence: Coincidence,
    /// The detectors.
    pub detector: Detector,
    /// Firmware of the board.
    pub firmware: Firmware,
    /// Content of a hit on the wire.
    pub data: Data,
    /// Samples per waveform, a multiple of 4 up to 8188; 0 for none. Scope and ZLE firmware need at least 4; scope firmware with
    /// `external_trigger_hz` it can have 42000000 (84 ms at 500 MS/s).
    pub waveform_samples: u32,
    /// Samples of a waveform before its trigger; without it a quarter of them.
    pub samples_before_trigger: Option<u32>,
    /// One in so many hits has a waveform; 1 for all. All scope events have waveforms.
    pub waveform_every: u32,
    /// Drift of the board's clock in parts per million; positive if it is fast.
    pub drift_ppm: f64,
    /// Reading of the board's clock at its start, in picoseconds.
    pub offset_ps: u64,
    /// Most hits in an aggregate; 0 for as many as fit a datagram, or 1024 where it need not fit one, in 256 KiB at most.
    pub aggregate_hits: u32,
    /// Age of an aggregate at which it is sent at the latest, in milliseconds of board time.
    pub flush_ms: f64,
    /// The network protocol of the data.
    pub transport: Transport,
    /// Largest UDP payload in bytes, with its footer.
    pub datagram_bytes: u32,
    /// Whether each datagram contains whole aggregates; otherwise aggregates continue in the next datagram.
    pub aligned_datagrams: bool,
    /// A network buffer ends after this many datagrams.
    pub datagrams_per_buffer: u32,
    /// Milliseconds between the board's statistics records; 0 for none.
    pub statistics_interval_ms: u32,
    /// Sends events that mark start and stop of the run.
    pub start_stop_events: bool,
    /// Board time in seconds after which the board stops by itself.
    pub duration_s: Option<f64>,
    /// Pace of board time.
    pub pace: Pace,
    /// Replays a ring of prepared data with new times and counters, for rates that are too high to simulate physics.
    /// These data are sent only in whole datagrams, or network buffers if datagrams are not aligned; an incomplete one at a
    /// stop is not sent.
    pub prepared: bool,
    /// Largest ring of prepared data in MiB.
    pub prepared_mib: u32,
    /// All channels are triggered at once at this constant rate, instead of by their own pulses at `rate_hz`. With scope
    /// firmware the samples are a ramp, the number of the sample plus that of the channel, in which a missing one shows; a
    /// rate at which records would overlap gives records that follow each other without a gap. Needs `prepared`.
    pub external_trigger_hz: Option<f64>,
    /// How many samples the board combines to one, a power of two up to 32768. More than 1 needs scope firmware and
    /// `external_trigger_hz`.
    pub decimation: u32,
    /// What the board does wrong on its control port, as `thalweg emulate` serves it.
    pub control_faults: Faults,
}

impl Default for Settings {
    fn default() -> Self {
        Settings {
            board: 0,
            boards: 1,
            seed: 1,
            channels: 64,
            sampling_mhz: 125,
            model: None,
            rate_hz: Rates::Each(1000.0),
            total_rate_hz: None,
            isotopes: [
                (Isotope::Na22, 1.0),
                (Isotope::Cs137, 1.0),
                (Isotope::Co60, 1.0),
                (Isotope::Cf252, 2.0),
                (Isotope::Background, 0.5),
            ]
            .into(),
            coincidence: Coincidence::default(),
            detector: Detector::default(),
            firmware: Firmware::Psd,
            data: Data::TwoWord,
            waveform_samples: 0,
            samples_before_trigger: None,
            waveform_every: 1,
            drift_ppm: 0.0,
            offset_ps: 0,
            aggregate_hits: 0,
            flush_ms: 5.0,
            transport: Transport::Udp,
            datagram_bytes: 8972,
            aligned_datagrams: true,
            datagrams_per_buffer: 64,
            statistics_interval_ms: 0,
            start_stop_events: true,
            duration_s: None,
            pace: Pace::RealTime,
            prepared: false,
            prepared_mib: 4,
            external_trigger_hz: None,
            decimation: 1,
            control_faults: Faults::default(),
        }
    }
}

/// Whether a number is within a range, which NaN never is.
fn within(value: f64, low: f64, high: f64) -> bool {
    (low..=high).contains(&value)
}

impl Settings {
    /// Checks the settings.
    ///
    /// # Errors
    /// The first key whose value cannot be used.
    pub fn check(&self) -> Result<(), SettingsError> {
        self.check_board()?;
        self.check_rates()?;
        self.check_coincidence()?;
        self.check_detector()?;
        self.check_data()
    }

    fn check_board(&self) -> Result<(), SettingsError> {
        let boards = self.boards;
        check(within(boards.into(), 1.0, BOARDS_MAXIMUM.into()), "boards", boards, "1 to 1024")?;
        check(self.board < boards, "board", self.board, format!("0 to {}", boards - 1))?;
        let most = if self.firmware.has_windows() { SCOPE_CHANNELS_MAXIMUM } else { CHANNELS_MAXIMUM };
        check((1..=most).contains(&self.channels), "channels", self.channels, format!("1 to {most}"))?;
        check((1..=10_000).contains(&self.sampling_mhz), "sampling_mhz", self.sampling_mhz, "1 to 10000")?;
        let model = self.model();
        check(
            Family::of_model(model).is_some(),
            "model",
            model,
            "a 2740, 2745, 2730 or 2751, such as VX2745",
        )?;
        check(within(self.drift_ppm, -1000.0, 1000.0), "drift_ppm", self.drift_ppm, "-1000 to 1000")?;
        check(self.offset_ps <= 1 << 60, "offset_ps", self.offset_ps, "at most 2^60")?;
        let duration = self.duration_s.unwrap_or(1.0);
        check(within(duration, 0.0, 8e6), "duration_s", duration, "0 to 8000000")
    }

    fn check_rates(&self) -> Result<(), SettingsError> {
        if let Rates::List(list) = &self.rate_hz {
            let allowed = format!("one rate for each of the {} channels", self.channels);
            check(
                list.len() == usize::from(self.channels),
                "rate_hz",
                format!("{} rates", list.len()),
                allowed,
            )?;
        }
        for channel in 0..self.channels {
            let rate = self.rate_hz.of_channel(channel);
            check(within(rate, 0.0, RATE_MAXIMUM_HZ), "rate_hz", rate, "0 to 1e9 hits per second")?;
        }
        if let Some(total) = self.total_rate_hz {
            check(within(total, 0.0, RATE_MAXIMUM_HZ), "total_rate_hz", total, "0 to 1e9 hits per second")?;
        }
        let total = self.board_rate_hz();
        check(
            total <= RATE_MAXIMUM_HZ,
            "rate_hz",
            format!("{total} for the board"),
            "at most 1e9 for the board",
        )?;
        for weight in self.isotopes.values() {
            check(within(*weight, 0.0, 1e9), "isotopes", weight, "fractions that are not negative")?;
        }
        let sum: f64 = self.isotopes.values().sum();
        check(
            sum > 0.0,
            "isotopes",
            "without any fraction above 0",
            "at least one isotope with a fraction above 0",
        )
    }

    fn check_coincidence(&self) -> Result<(), SettingsError> {
        let coincidence = &self.coincidence;
        check(
            within(coincidence.fraction, 0.0, 1.0),
            "coincidence.fraction",
            coincidence.fraction,
            "0 to 1",
        )?;
        let decays = self.decay_rate_hz();
        check(within(decays, 0.0, RATE_MAXIMUM_HZ), "coincidence.decay_rate_hz", decays, "0 to 1e9")?;
        let jitter = coincidence.jitter_ps;
        check(within(jitter, 0.0, 1e6), "coincidence.jitter_ps", jitter, "0 to 1000000")?;
        let jitter = coincidence.board_jitter_ps;
        check(within(jitter, 0.0, 1e6), "coincidence.board_jitter_ps", jitter, "0 to 1000000")?;
        let path = coincidence.flight_path_m;
        check(within(path, 0.0, 100.0), "coincidence.flight_path_m", path, "0 to 100")
    }

    fn check_detector(&self) -> Result<(), SettingsError> {
        let detector = &self.detector;
        for (key, value, low, high, allowed) in [
            ("detector.gain_per_kev", detector.gain_per_kev, 1e-3, 1e3, "0.001 to 1000"),
            ("detector.gain_spread_percent", detector.gain_spread_percent, 0.0, 20.0, "0 to 20"),
            ("detector.resolution_percent", detector.resolution_percent, 0.0, 50.0, "0 to 50"),
            ("detector.resolution_spread_percent", detector.resolution_spread_percent, 0.0, 30.0, "0 to 30"),
            ("detector.threshold_kev", detector.threshold_kev, 0.0, 400.0, "0 to 400"),
            ("detector.saturation_kev", detector.saturation_kev, 1.0, 1e6, "1 to 1000000"),
            ("detector.gate_ns", detector.gate_ns, 0.0, 10_000.0, "0 to 10000"),
            ("detector.dead_time_ns", detector.dead_time_ns, 0.0, 1e9, "0 to 1000000000"),
        ] {
            check(within(value, low, high), key, value, allowed)?;
        }
        let allowed = format!("at least the gate of {} ns", detector.gate_ns);
        check(
            detector.dead_time_ns >= detector.gate_ns,
            "detector.dead_time_ns",
            detector.dead_time_ns,
            allowed,
        )
    }

    fn check_data(&self) -> Result<(), SettingsError> {
        self.check_samples()?;
        let samples = self.waveform_samples;
        let before = self.samples_before_trigger();
        let allowed = "at most `waveform_samples`";
        check(before <= samples, "samples_before_trigger", before, allowed)?;
        check(self.waveform_every > 0, "waveform_every", self.waveform_every, "1 or more")?;
        let windows = self.firmware.has_windows();
        let allowed = "at least 4 with scope or zle firmware";
        check(!windows || samples > 0, "waveform_samples", samples, allowed)?;
        let zle = self.firmware == Firmware::Zle;
        check(!self.prepared || !zle, "prepared", "true", "false with zle firmware")?;
        let one_word = self.data == Data::OneWord;
        let plain = samples == 0 && matches!(self.firmware, Firmware::Psd | Firmware::Pha);
        check(!one_word || plain, "data", "one-word", "two-word with waveforms, scope, zle or opendpp")?;
        let extends = self.detector.dead_time == DeadTime::Extending;
        check(
            !self.prepared || !extends,
            "detector.dead_time",
            "extending",
            "non-extending with `prepared`",
        )?;
        let none = self.statistics_interval_ms == 0;
        check(
            !self.prepared || none,
            "statistics_interval_ms",
            self.statistics_interval_ms,
            "0 with `prepared`",
        )?;
        let bytes = self.datagram_bytes;
        check((64..=DATAGRAM_BYTES_MAXIMUM).contains(&bytes), "datagram_bytes", bytes, "64 to 65507")?;
        self.check_event_fits()?;
        let buffer = self.datagrams_per_buffer;
        check((1..=65_536).contains(&buffer), "datagrams_per_buffer", buffer, "1 to 65536")?;
        let whole = u64::from(buffer) * u64::from(bytes);
        let allowed = "such that a buffer has at most 64 MiB";
        check(whole <= 64 << 20, "datagrams_per_buffer", buffer, allowed)?;
        check(within(self.flush_ms, 0.0, 10_000.0), "flush_ms", self.flush_ms, "0 to 10000")?;
        let mib = self.prepared_mib;
        check((1..=PREPARED_MIB_MAXIMUM).contains(&mib), "prepared_mib", mib, "1 to 4096")
    }

    /// Whether waveforms are scope records at an external trigger, which hold no drawn pulses.
    fn is_record(&self) -> bool {
        self.firmware == Firmware::Scope && self.external_trigger_hz.is_some()
    }

    /// Most samples of a waveform.
    pub fn most_samples(&self) -> u32 {
        if self.is_record() { RECORD_SAMPLES_MAXIMUM } else { WAVEFORM_SAMPLES_MAXIMUM }
    }

    fn check_samples(&self) -> Result<(), SettingsError> {
        let (samples, most, is_record) = (self.waveform_samples, self.most_samples(), self.is_record());
        let allowed = format!("a multiple of 4 up to {most}");
        check(samples.is_multiple_of(4) && samples <= most, "waveform_samples", samples, allowed)?;
        let bytes = self.scope_event_bytes().div_ceil(1 << 20);
        let allowed = "so small that an event fits `prepared_mib`";
        let fits = !is_record || bytes <= self.prepared_mib as usize;
        check(fits, "waveform_samples", samples, allowed)?;
        let decimation = self.decimation;
        let combines = decimation.is_power_of_two() && decimation <= DECIMATION_MAXIMUM;
        check(combines, "decimation", decimation, "a power of two up to 32768")?;
        let allowed = "1 without scope firmware and `external_trigger_hz`";
        check(decimation == 1 || is_record, "decimation", decimation, allowed)?;
        let Some(rate_hz) = self.external_trigger_hz else { return Ok(()) };
        let key = "external_trigger_hz";
        check(within(rate_hz, 1e-3, RATE_MAXIMUM_HZ), key, rate_hz, "0.001 to 1e9")?;
        check(self.prepared, key, rate_hz, "absent without `prepared`")
    }

    /// Clock counts of a scope record.
    pub fn record_counts(&self) -> u64 {
        u64::from(self.waveform_samples) * u64::from(self.decimation)
    }

    /// Clock counts between two external triggers: at least a scope record.
    pub fn external_trigger_counts(&self) -> Option<u64> {
        let counts = (f64::from(self.sampling_mhz) * 1e6 / self.external_trigger_hz?).round() as u64;
        let record = if self.firmware == Firmware::Scope { self.record_counts() } else { 1 };
        Some(counts.max(record).next_multiple_of(self.decimation.max(1).into()))
    }

    /// Bytes of a scope event.
    pub fn scope_event_bytes(&self) -> usize {
        24 + 2 * self.waveform_samples as usize * usize::from(self.channels)
    }

    /// Bytes of the largest event that an aligned datagram must hold: a scope event, or an aggregate of one hit.
    pub fn largest_event_bytes(&self) -> usize {
        let samples = self.waveform_samples as usize;
        match self.firmware {
            Firmware::Scope => self.scope_event_bytes(),
            Firmware::Opendpp => 8 + 24 + 2 * samples,
            Firmware::Zle => 8 + most_record_bytes(samples),
            Firmware::Psd | Firmware::Pha => 8 + 32 + 4 * samples,
        }
    }

    /// An aligned datagram must fit the largest event.
    fn check_event_fits(&self) -> Result<(), SettingsError> {
        let whole = self.aligned_datagrams && self.transport == Transport::Udp;
        let fits = self.largest_event_bytes() + 8 <= self.datagram_bytes as usize;
        let allowed = "false when a waveform or scope event is larger than a datagram";
        check(!whole || fits, "aligned_datagrams", "true", allowed)
    }

    /// Mean bytes of a scope event, or of a hit; the most of an event of zero-length encoding.
    pub fn event_bytes(&self) -> f64 {
        let samples = f64::from(self.waveform_samples);
        let waveform_bytes = match self.firmware {
            _ if self.waveform_samples == 0 => 0.0,
            Firmware::Scope => return self.scope_event_bytes() as f64,
            // How much is suppressed depends on the pulses: this is the most.
            Firmware::Zle => {
                return (most_record_bytes(self.waveform_samples as usize) * usize::from(self.channels))
                    as f64;
            }
            Firmware::Opendpp => 16.0 + 2.0 * samples,
            Firmware::Psd | Firmware::Pha => 16.0 + 4.0 * samples,
        };
        let hit_bytes = if self.data == Data::OneWord { 8.0 } else { 16.0 };
        hit_bytes + waveform_bytes / f64::from(self.waveform_every)
    }

    /// Hits in a window of all channels: one for each. A hit by itself is one.
    pub fn hits_per_event(&self) -> f64 {
        if self.firmware.has_windows() { self.channels.into() } else { 1.0 }
    }

    /// Scope events, or hits, per second.
    pub fn event_rate_hz(&self) -> f64 {
        let clock_hz = f64::from(self.sampling_mhz) * 1e6;
        let triggers_hz = self.external_trigger_counts().map(|counts| clock_hz / counts as f64);
        match (self.firmware, triggers_hz) {
            (Firmware::Scope, Some(triggers_hz)) => triggers_hz,
            (Firmware::Scope | Firmware::Zle, None) => {
                self.board_rate_hz().min(clock_hz / self.record_counts().max(1) as f64)
            }
            (_, Some(triggers_hz)) => triggers_hz * f64::from(self.channels),
            (_, None) => self.board_rate_hz(),
        }
    }

    /// The properties that the board reports.
    pub fn facts(&self) -> BoardFacts {
        let firmware = match self.firmware {
            Firmware::Psd => digitizer2::Firmware::Psd,
            Firmware::Pha => digitizer2::Firmware::Pha,
            Firmware::Scope => digitizer2::Firmware::Scope,
            Firmware::Opendpp => digitizer2::Firmware::OpenDpp,
            Firmware::Zle => digitizer2::Firmware::Zle,
        };
        BoardFacts {
            model: self.model().to_owned(),
            serial: (10_000 + u32::from(self.board)).to_string(),
            firmware: Some(firmware.word().to_owned()),
            firmware_version: None,
            sampling_mhz: self.sampling_mhz.into(),
            tick_ps: 1e6 / f64::from(self.sampling_mhz),
            channels: self.channels,
            decimation: Some(self.decimation),
            samples_before_trigger: Some(self.samples_before_trigger()),
        }
    }

    fn model(&self) -> &str {
        let usual = if self.sampling_mhz >= 500 { "VX2730" } else { "VX2740" };
        self.model.as_deref().unwrap_or(usual)
    }

    /// Samples of a waveform before its trigger.
    pub fn samples_before_trigger(&self) -> u32 {
        self.samples_before_trigger.unwrap_or(self.waveform_samples / 4)
    }

    /// Hits per second of one channel, scaled by `total_rate_hz`.
    pub fn channel_rate_hz(&self, channel: u16) -> f64 {
        let rate = self.rate_hz.of_channel(channel);
        let Some(total) = self.total_rate_hz else { return rate };
        let sum: f64 = (0..self.channels).map(|channel| self.rate_hz.of_channel(channel)).sum();
        if sum > 0.0 { rate * total / sum } else { total / f64::from(self.channels) }
    }

    /// Hits per second of the board.
    pub fn board_rate_hz(&self) -> f64 {
        let sum = (0..self.channels).map(|channel| self.rate_hz.of_channel(channel)).sum();
        self.total_rate_hz.unwrap_or(sum)
    }

    /// Decays per second that two channels see, over all boards.
    pub fn decay_rate_hz(&self) -> f64 {
        let channels = u32::from(self.boards) * u32::from(self.channels);
        if channels < 2 || !self.has_cascade() {
            return 0.0;
        }
        let pairs = self.coincidence.fraction * self.board_rate_hz() * f64::from(self.boards) / 2.0;
        self.coincidence.decay_rate_hz.unwrap_or(pairs)
    }

    /// Whether any of the isotopes emits two particles at once.
    pub fn has_cascade(&self) -> bool {
        let cascade = [Isotope::Na22, Isotope::Co60, Isotope::Cf252];
        cascade.iter().any(|isotope| self.isotopes.get(isotope).is_some_and(|weight| *weight > 0.0))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_defaults_are_valid_and_an_unknown_key_is_refused() {
        let board: Settings = serde_json::from_str("{}").expect("all keys have defaults");
        assert_eq!(board, Settings::default());
        assert_eq!(board.check(), Ok(()));
        assert!(serde_json::from_str::<Settings>(r#"{"chanels": 4}"#).is_err());
        assert!(serde_json::from_str::<Settings>(r#"{"isotopes": {"u235": 1}}"#).is_err());
    }

    #[test]
    fn rates_are_one_number_or_a_list() {
        let text = r#"{"channels": 2, "rate_hz": [1, 2.5], "data": "one-word", "firmware": "pha"}"#;
        let board: Settings = serde_json::from_str(text).expect("valid");
        assert_eq!((board.channel_rate_hz(1), board.board_rate_hz()), (2.5, 3.5));
        assert_eq!(board.check(), Ok(()));
        let scaled = Settings { total_rate_hz: Some(7.0), ..board };
        assert_eq!((scaled.channel_rate_hz(1), scaled.board_rate_hz()), (5.0, 7.0));
    }

    #[test]
    fn the_error_of_an_invalid_board_names_the_key() {
        let key = |settings: Settings| settings.check().map_err(|error| error.key);
        let usual = Settings::default;
        assert_eq!(key(Settings { channels: 129, ..usual() }), Err("channels"));
        assert_eq!(key(Settings { model: Some("DT5730".to_owned()), ..usual() }), Err("model"));
        assert_eq!(key(Settings { rate_hz: Rates::Each(f64::NAN), ..usual() }), Err("rate_hz"));
        assert_eq!(key(Settings { board: 1, ..usual() }), Err("board"));
        assert_eq!(key(Settings { firmware: Firmware::Scope, ..usual() }), Err("waveform_samples"));
        assert_eq!(key(Settings { waveform_samples: 8188, ..usual() }), Err("aligned_datagrams"));
        let message = Settings { datagram_bytes: 9, ..usual() }.check().expect_err("too short").to_string();
        assert!(message.contains("`datagram_bytes` is 9") && message.contains("64 to 65507"), "{message}");
    }
}
