//! The names of the signals that a waveform can have, by their codes.
//!
//! ```text
//!  wave info: code of a probe ──► "cfd"; an empty name is no signal
//! ```
//! Codes mean different signals in PSD and PHA firmware.

use crate::digitizer2::settings::Firmware;

const INPUT: &[&str] = &["adc_input"];
const PSD_ANALOG: &[&str] = &["adc_input", "baseline", "cfd"];
const PHA_ANALOG: &[&str] =
    &["adc_input", "time_filter", "energy_filter", "energy_filter_baseline", "energy_filter_minus_baseline"];
const PSD_DIGITAL: &[&str] = &[
    "trigger",
    "time_filter_armed",
    "retrigger_guard",
    "energy_filter_baseline_freeze",
    "over_threshold",
    "charge_ready",
    "long_gate",
    "event_pile_up",
    "short_gate",
    "input_saturation",
    "charge_over_range",
    "negative_over_threshold",
];
const PHA_DIGITAL: &[&str] = &[
    "trigger",
    "time_filter_armed",
    "retrigger_guard",
    "energy_filter_baseline_freeze",
    "energy_filter_peaking",
    "energy_filter_peak_ready",
    "energy_filter_pile_up_guard",
    "event_pile_up",
    "adc_saturation",
    "adc_saturation_protection",
    "post_saturation_event",
    "energy_filter_saturation",
    "signal_inhibit",
];

/// Names of the analog and of the digital signals of a firmware. Open DPP leaves to the user what its samples are.
pub const fn probe_names(firmware: Firmware) -> (&'static [&'static str], &'static [&'static str]) {
    match firmware {
        Firmware::Psd => (PSD_ANALOG, PSD_DIGITAL),
        Firmware::Pha => (PHA_ANALOG, PHA_DIGITAL),
        Firmware::Scope | Firmware::Zle => (INPUT, &[]),
        Firmware::OpenDpp => (&[], &[]),
    }
}
