//! The parameters of a channel.

use super::Kind::{Among, AnyOf, Boolean, Number, OneOf, Samples, Text};
use super::rule::Range;
use super::words::*;
use super::{Definition, Family, Firmwares, Limits, read, set};

const DPP: Firmwares = Firmwares::DPP;
const PSD: Firmwares = Firmwares::PSD;
const PHA: Firmwares = Firmwares::PHA;
const SCOPE: Firmwares = Firmwares::SCOPE;
const ZLE: Firmwares = Firmwares::ZLE;

const fn samples(low: f64, high: f64) -> Limits {
    Limits::slow(low, high, 1.0)
}

/// 32 ns or more, and so many samples. No public source has the step.
const fn waveforms(most_samples: f64) -> Limits {
    Limits {
        at_125_mhz: Some(Range::within(4.0, most_samples)),
        at_500_mhz: Some(Range::within(16.0, most_samples)),
    }
}

/// `/ch/N/par`: what every firmware has, DPP, PSD, PHA, scope, ZLE.
pub(super) const CHANNEL: &[Definition] = &[
    read("ChStatus", "", "Bits: initialised, enabled, running."),
    read("SelfTrgRate", "Hz", "Rate of its self-trigger."),
    read("GainFactor", "", "Factor of its gain calibration."),
    read("ADCToVolts", "V", "Volts per ADC count."),
    read("ChRealtimeMonitor", "", "Real time of the run, in clock counts.").of(DPP),
    read("ChDeadtimeMonitor", "", "Dead time of the run, in clock counts.").of(DPP),
    read("ChTriggerCnt", "", "Triggers of the run.").of(DPP),
    read("ChSavedEventCnt", "", "Hits of the run that were sent.").of(DPP),
    read("ChWaveCnt", "", "Waveforms of the run that were sent.").of(DPP),
    read("Energy_Nbit", "bit", "Bits of an energy.").of(PHA),
    set("ChEnable", Boolean, "", "Whether the channel takes data."),
    set("DCOffset", Number(Limits::both(0.0, 100.0, 0.1)), "%", "Offset of the input, of the full range."),
    set("SignalOffset", Number(Limits::UNKNOWN), "uV", "Offset of the signal."),
    set("ChGain", Number(Limits::UNKNOWN.fast(Range::within(0.0, 29.0))), "dB", "Gain of the input.")
        .on(&[Family::X2730]),
    set("SelfTriggerWidth", Number(Limits::UNKNOWN), "ns", "Width of its self-trigger signal."),
    set("ITLConnect", OneOf(TRIGGER_LOGICS), "", "The trigger logic that its self-trigger goes to."),
    set("WaveDataSource", Among(WAVE_DATA), "", "The ADC, or a test signal."),
    set("PulsePolarity", OneOf(POLARITIES), "", "Polarity of the pulses.").of(DPP.and(ZLE)),
    set(
        "TriggerThr",
        Number(Limits::slow(0.0, 8191.0, 1.0).fast(Range::stepped(1.0, 8191.0, 1.0))),
        "ADC counts",
        "Threshold of the self-trigger.",
    )
    .of(DPP),
    set("EventTriggerSource", AnyOf(EVENT_TRIGGERS), "", "Signals that make a hit.").of(DPP),
    set("WaveTriggerSource", AnyOf(WAVE_TRIGGERS), "", "Signals that make a waveform; Disabled for none.")
        .of(DPP),
    set("WaveSaving", OneOf(WAVE_SAVING), "", "Keeps every waveform, or those requested.").of(DPP),
    set("ChRecordLength", Samples(waveforms(8100.0)), "", "Length of a waveform.").of(DPP),
    set("ChPreTrigger", Samples(waveforms(4000.0)), "", "Part of a waveform before the trigger.").of(DPP),
    set("WaveResolution", OneOf(WAVE_RESOLUTIONS), "", "Time between samples of a waveform, in ns.")
        .of(DPP)
        .on(&[Family::X2740, Family::X2745]),
    set("WaveDownSamplingFactor", OneOf(DOWNSAMPLING), "", "Samples that are combined to one.")
        .of(DPP)
        .on(&[Family::X2730]),
    set("ChannelsTriggerMask", Text, "", "The channels of Ch64Trigger, 64 bits.").of(DPP),
    set("ChannelVetoSource", AnyOf(CHANNEL_VETOES), "", "Signals that veto the channel.").of(DPP),
    set("ADCVetoWidth", Number(Limits::both(0.0, 524_280.0, 1.0)), "ns", "Length of a veto by saturation.")
        .of(DPP),
    set("EventSelector", OneOf(SELECTORS), "", "Hits that are sent.").of(DPP),
    set("WaveSelector", OneOf(SELECTORS), "", "Hits whose waveforms are sent.").of(DPP),
    set("CoincidenceMask", AnyOf(COINCIDENCES), "", "Signals that a hit must coincide with.").of(DPP),
    set("AntiCoincidenceMask", AnyOf(COINCIDENCES), "", "Signals that a hit must not coincide with.").of(DPP),
    set(
        "CoincidenceLength",
        Samples(samples(0.0, 65_535.0).fast(Range::within(0.0, 262_140.0))),
        "",
        "Window of both.",
    )
    .of(DPP),
    set(
        "EnergySkimLowDiscriminator",
        Number(Limits::both(0.0, 65_534.0, 1.0)),
        "energy counts",
        "Smallest energy of EnergySkim.",
    )
    .of(DPP),
    set(
        "EnergySkimHighDiscriminator",
        Number(Limits::both(0.0, 65_534.0, 1.0)),
        "energy counts",
        "Largest energy of EnergySkim.",
    )
    .of(DPP),
    set("WaveAnalogProbe0", OneOf(PSD_ANALOG), "", "Signal of analog waveform 1.").of(PSD),
    set("WaveAnalogProbe1", OneOf(PSD_ANALOG), "", "Signal of analog waveform 2.").of(PSD),
    set("WaveDigitalProbe0", OneOf(PSD_DIGITAL), "", "Signal of digital waveform 1.").of(PSD),
    set("WaveDigitalProbe1", OneOf(PSD_DIGITAL), "", "Signal of digital waveform 2.").of(PSD),
    set("WaveDigitalProbe2", OneOf(PSD_DIGITAL), "", "Signal of digital waveform 3.").of(PSD),
    set("WaveDigitalProbe3", OneOf(PSD_DIGITAL), "", "Signal of digital waveform 4.").of(PSD),
    set(
        "ADCInputBaselineAvg",
        OneOf(BASELINE_AVERAGES),
        "",
        "Averaging of the baseline; Fixed for AbsoluteBaseline.",
    )
    .of(PSD),
    set(
        "AbsoluteBaseline",
        Number(Limits::slow(0.0, 65_535.0, 1.0).fast(Range::stepped(0.0, 16_383.0, 1.0))),
        "ADC counts",
        "The fixed baseline.",
    )
    .of(PSD),
    set(
        "ADCInputBaselineGuard",
        Samples(samples(0.0, 1000.0)),
        "",
        "Time after a pulse in which the baseline is held.",
    )
    .of(PSD),
    set("SmoothingFactor", OneOf(SMOOTHING), "", "Samples that are averaged.").of(PSD),
    set("ChargeSmoothing", OneOf(SWITCH), "", "Whether charges are integrated of smoothed samples.").of(PSD),
    set("TimeFilterSmoothing", OneOf(SWITCH), "", "Whether times are found in smoothed samples.").of(PSD),
    set("TriggerFilterSelection", OneOf(TRIGGER_FILTERS), "", "How a pulse is found.").of(PSD),
    set("TriggerHysteresis", OneOf(SWITCH), "", "Whether a pulse must fall before the next.").of(PSD),
    set(
        "CFDDelay",
        Samples(samples(4.0, 1023.0).fast(Range::stepped(1.0, 1020.0, 1.0))),
        "",
        "Delay of the constant-fraction discriminator.",
    )
    .of(PSD),
    set("CFDFraction", OneOf(CFD_FRACTIONS), "%", "Fraction of the constant-fraction discriminator.").of(PSD),
    set(
        "TimeFilterRetriggerGuard",
        Samples(samples(0.0, 1000.0).fast(Range::within(4.0, 4000.0))),
        "",
        "Time after a trigger without another.",
    )
    .of(PSD),
    set(
        "GateLongLength",
        Samples(samples(0.0, 4000.0).fast(Range::stepped(1.0, 4000.0, 1.0))),
        "",
        "Length of the long gate.",
    )
    .of(PSD),
    set(
        "GateShortLength",
        Samples(samples(0.0, 4000.0).fast(Range::stepped(1.0, 4000.0, 1.0))),
        "",
        "Length of the short gate.",
    )
    .of(PSD),
    set(
        "GateOffset",
        Samples(samples(0.0, 250.0).fast(Range::stepped(8.0, 1000.0, 1.0))),
        "",
        "Time from the start of the gates to the trigger.",
    )
    .of(PSD),
    set(
        "LongChargeIntegratorPedestal",
        Number(Limits::both(0.0, 1000.0, 1.0)),
        "energy counts",
        "Added to the long charge.",
    )
    .of(PSD),
    set(
        "ShortChargeIntegratorPedestal",
        Number(Limits::both(0.0, 1000.0, 1.0)),
        "energy counts",
        "Added to the short charge.",
    )
    .of(PSD),
    set("EnergyGain", OneOf(CHARGE_GAINS), "", "Factor of the charges.").of(PSD),
    set(
        "PileupGap",
        Number(Limits::both(0.0, 65_535.0, 1.0)),
        "samples",
        "Gap between peaks that are a pile-up.",
    )
    .of(PSD),
    set(
        "NeutronThreshold",
        Number(Limits::both(0.0, 1000.0, 1.0)),
        "",
        "Pulse shape that counts as a neutron.",
    )
    .of(PSD),
    set("EventNeutronReject", OneOf(SWITCH), "", "Whether neutrons are left out.").of(PSD),
    set("WaveNeutronReject", OneOf(SWITCH), "", "Whether waveforms of neutrons are left out.").of(PSD),
    set("WaveAnalogProbe0", OneOf(PHA_ANALOG), "", "Signal of analog waveform 1.").of(PHA),
    set("WaveAnalogProbe1", OneOf(PHA_ANALOG), "", "Signal of analog waveform 2.").of(PHA),
    set("WaveDigitalProbe0", OneOf(PHA_DIGITAL), "", "Signal of digital waveform 1.").of(PHA),
    set("WaveDigitalProbe1", OneOf(PHA_DIGITAL), "", "Signal of digital waveform 2.").of(PHA),
    set("WaveDigitalProbe2", OneOf(PHA_DIGITAL), "", "Signal of digital waveform 3.").of(PHA),
    set("WaveDigitalProbe3", OneOf(PHA_DIGITAL), "", "Signal of digital waveform 4.").of(PHA),
    set(
        "TimeFilterRiseTime",
        Samples(samples(4.0, 250.0).fast(Range::stepped(8.0, 250.0, 1.0))),
        "",
        "Rise time of the time filter.",
    )
    .of(PHA),
    set(
        "TimeFilterRetriggerGuard",
        Samples(samples(0.0, 1000.0).fast(Range::stepped(0.0, 4000.0, 4.0))),
        "",
        "Time after a trigger without another.",
    )
    .of(PHA),
    set(
        "EnergyFilterRiseTime",
        Samples(samples(4.0, 1625.0).fast(Range::stepped(8.0, 6500.0, 4.0))),
        "",
        "Rise time of the trapezoid.",
    )
    .of(PHA),
    set(
        "EnergyFilterFlatTop",
        Samples(samples(4.0, 375.0).fast(Range::stepped(16.0, 1500.0, 4.0))),
        "",
        "Flat top of the trapezoid.",
    )
    .of(PHA),
    set(
        "EnergyFilterPoleZero",
        Samples(samples(4.0, 65_500.0).fast(Range::stepped(16.0, 65_500.0, 1.0))),
        "",
        "Decay time of the pulses.",
    )
    .of(PHA),
    set(
        "EnergyFilterPeakingPosition",
        Number(Limits::both(10.0, 90.0, 1.0)),
        "%",
        "Where the flat top is read.",
    )
    .of(PHA),
    set("EnergyFilterPeakingAvg", OneOf(PEAK_AVERAGES), "", "Averaging of the flat top.").of(PHA),
    set(
        "EnergyFilterBaselineAvg",
        OneOf(FILTER_BASELINES),
        "",
        "Averaging of the baseline of the trapezoid.",
    )
    .of(PHA),
    set(
        "EnergyFilterBaselineGuard",
        Samples(samples(0.0, 1000.0).fast(Range::stepped(0.0, 4000.0, 4.0))),
        "",
        "Time after a pulse in which the baseline is held.",
    )
    .of(PHA),
    set(
        "EnergyFilterPileUpGuard",
        Samples(samples(0.0, 8000.0).fast(Range::stepped(0.0, 32_000.0, 32.0))),
        "",
        "Time after a pulse in which another is a pile-up.",
    )
    .of(PHA),
    set(
        "EnergyFilterFineGain",
        Number(Limits::slow(0.0, 10.0, 0.001).fast(Range::stepped(1.0, 10.0, 0.001))),
        "",
        "Factor of the energy.",
    )
    .of(PHA),
    set("EnergyFilterLFLimitation", OneOf(LOW_FREQUENCY), "", "Limitation of low frequencies.").of(PHA),
    set("TriggerThr", Number(Limits::UNKNOWN), "ADC counts", "Threshold of the self-trigger.")
        .of(SCOPE.and(ZLE)),
    set("TriggerThrMode", OneOf(THRESHOLD_MODES), "", "Whether the threshold is above the baseline.")
        .of(SCOPE),
    set("SelfTriggerEdge", OneOf(EDGES), "", "Edge at which the self-trigger fires.").of(SCOPE),
    set("SamplesOverThreshold", Number(Limits::UNKNOWN), "samples", "Samples over the threshold that fire.")
        .of(SCOPE),
    set("OverThresholdVetoWidth", Number(Limits::UNKNOWN), "ns", "Time after a trigger without another.")
        .of(SCOPE),
    set(
        "ChSupprThr",
        Number(Limits::UNKNOWN),
        "ADC counts",
        "Threshold below which the channel is left out.",
    )
    .of(SCOPE),
    set(
        "ChSupprSamplesOverThreshold",
        Number(Limits::UNKNOWN),
        "samples",
        "Samples over it that keep the channel.",
    )
    .of(SCOPE),
    set("ChPreTrigger", Samples(Limits::UNKNOWN), "", "Part of a record before the trigger.").of(ZLE),
    set("EnZLESuppr", Boolean, "", "Leaves out samples between pulses.").of(ZLE),
    set("ZLEChSupprThr", Number(Limits::UNKNOWN), "ADC counts", "Threshold above which samples are kept.")
        .of(ZLE),
    set("ChLookBackSamples", Number(Limits::UNKNOWN), "samples", "Samples that are kept before a pulse.")
        .of(ZLE),
    set("ChLookForwardSamples", Number(Limits::UNKNOWN), "samples", "Samples that are kept after a pulse.")
        .of(ZLE),
    set("DefaultValueSource", Among(DEFAULT_VALUES), "", "Value of the samples that are left out.").of(ZLE),
];
