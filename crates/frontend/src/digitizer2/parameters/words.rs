//! The words that parameters take.

pub(super) const CLOCK_SOURCES: &[&str] = &["Internal", "FPClkIn"];
pub(super) const IO_LEVELS: &[&str] = &["NIM", "TTL"];
/// `SWcmd` is the software start; the others are signals, which no client gives.
pub(super) const START_SOURCES: &[&str] = &["SWcmd", "SINedge", "SINlevel", "EncodedClkIn", "LVDS", "P0"];
pub(super) const BOARD_TRIGGERS: &[&str] = &[
    "SwTrg",
    "TrgIn",
    "TestPulse",
    "GPIO",
    "LVDS",
    "P0",
    "ITLA",
    "ITLB",
    "ITLA_AND_ITLB",
    "ITLA_OR_ITLB",
    "EncodedClkIn",
    "UserTrg",
];
pub(super) const BUSY_INPUTS: &[&str] = &["Disabled", "SIN", "GPIO", "LVDS"];
pub(super) const TRIGGER_OUTPUTS: &[&str] = &[
    "Disabled",
    "TrgIn",
    "SwTrg",
    "P0",
    "LVDS",
    "ITLA",
    "ITLB",
    "ITLA_AND_ITLB",
    "ITLA_OR_ITLB",
    "EncodedClkIn",
    "Run",
    "RefClk",
    "TestPulse",
    "Busy",
    "Fixed0",
    "Fixed1",
    "SyncIn",
    "SIN",
    "GPIO",
    "AcceptTrg",
    "TrgClk",
    "UserTrgout",
];
pub(super) const GPIO_MODES: &[&str] = &[
    "Disabled",
    "TrgIn",
    "SwTrg",
    "P0",
    "SIN",
    "LVDS",
    "ITLA",
    "ITLB",
    "ITLA_AND_ITLB",
    "ITLA_OR_ITLB",
    "EncodedClkIn",
    "Run",
    "RefClk",
    "TestPulse",
    "Busy",
    "Fixed0",
    "Fixed1",
];
pub(super) const SYNC_OUTPUTS: &[&str] = &["Disabled", "SyncIn", "TestPulse", "IntClk", "Run", "User"];
pub(super) const BOARD_VETOES: &[&str] = &["Disabled", "SIN", "GPIO", "LVDS", "P0", "EncodedClkIn"];
pub(super) const LEVELS: &[&str] = &["ActiveHigh", "ActiveLow"];
pub(super) const DAC_MODES: &[&str] =
    &["Static", "ChInput", "ChSum", "OverThrSum", "Ramp", "Sin5MHz", "Square"];
pub(super) const MAIN_LOGIC: &[&str] = &["OR", "AND", "Majority"];
pub(super) const PAIR_LOGIC: &[&str] = &["NONE", "OR", "AND"];
pub(super) const LOGIC_POLARITIES: &[&str] = &["Direct", "Inverted"];
pub(super) const INPUT_FUNCTIONS: &[&str] = &["None", "ResetTimestamp"];
pub(super) const LVDS_MODES: &[&str] = &["SelfTriggers", "Sync", "IORegister"];
pub(super) const DIRECTIONS: &[&str] = &["Input", "Output"];

pub(super) const POLARITIES: &[&str] = &["Positive", "Negative"];
pub(super) const SWITCH: &[&str] = &["Disabled", "Enabled"];
pub(super) const WAVE_DATA: &[&str] =
    &["ADC_DATA", "ADC_TEST_TOGGLE", "ADC_TEST_RAMP", "ADC_TEST_SIN", "Ramp", "SquareWave"];
pub(super) const TRIGGER_LOGICS: &[&str] = &["Disabled", "ITLA", "ITLB"];
pub(super) const EVENT_TRIGGERS: &[&str] = &[
    "Disabled",
    "ChSelfTrigger",
    "Ch64Trigger",
    "SwTrg",
    "TRGIN",
    "GlobalTriggerSource",
    "LVDS",
    "ITLA",
    "ITLB",
];
pub(super) const WAVE_TRIGGERS: &[&str] = &[
    "Disabled",
    "ChSelfTrigger",
    "Ch64Trigger",
    "SwTrg",
    "TRGIN",
    "GlobalTriggerSource",
    "LVDS",
    "ITLA",
    "ITLB",
    "ADCOverSaturation",
    "ADCUnderSaturation",
    "ExternalInhibit",
];
pub(super) const WAVE_SAVING: &[&str] = &["Always", "OnRequest"];
pub(super) const WAVE_RESOLUTIONS: &[&str] = &["Res8", "Res16", "Res32", "Res64"];
pub(super) const DOWNSAMPLING: &[&str] = &["1", "2", "4", "8"];
pub(super) const CHANNEL_VETOES: &[&str] =
    &["Disabled", "BoardVeto", "ADCOverSaturation", "ADCUnderSaturation"];
pub(super) const SELECTORS: &[&str] = &["All", "PileUp", "EnergySkim"];
pub(super) const COINCIDENCES: &[&str] =
    &["Disabled", "Ch64Trigger", "TRGIN", "GlobalTriggerSource", "ITLA", "ITLB"];

pub(super) const PSD_ANALOG: &[&str] = &["ADCInput", "ADCInputBaseline", "CFDFilter"];
pub(super) const PSD_DIGITAL: &[&str] = &[
    "Trigger",
    "CFDFilterArmed",
    "ReTriggerGuard",
    "ADCInputBaselineFreeze",
    "ADCInputOverthreshold",
    "ChargeReady",
    "LongGate",
    "PileUpTrigger",
    "ShortGate",
    "ADCSaturation",
    "ChargeOverRange",
    "ADCInputNegativeOverthreshold",
];
pub(super) const BASELINE_AVERAGES: &[&str] = &["Fixed", "Low", "MediumLow", "MediumHigh", "High"];
pub(super) const SMOOTHING: &[&str] = &["1", "2", "4", "8", "16"];
pub(super) const TRIGGER_FILTERS: &[&str] = &["LeadingEdge", "CFD"];
pub(super) const CFD_FRACTIONS: &[&str] = &["25", "50", "75", "100"];
pub(super) const CHARGE_GAINS: &[&str] = &["x1", "x4", "x16", "x64", "x256"];

pub(super) const PHA_ANALOG: &[&str] =
    &["ADCInput", "TimeFilter", "EnergyFilter", "EnergyFilterBaseline", "EnergyFilterMinusBaseline"];
pub(super) const PHA_DIGITAL: &[&str] = &[
    "Trigger",
    "TimeFilterArmed",
    "ReTriggerGuard",
    "EnergyFilterBaselineFreeze",
    "EnergyFilterPeaking",
    "EnergyFilterPeakReady",
    "EnergyFilterPileUpGuard",
    "EventPileUp",
    "ADCSaturation",
    "ADCSaturationProtection",
    "PostSaturationEvent",
    "EnergyFilterSaturation",
    "AcquisitionInhibit",
];
pub(super) const PEAK_AVERAGES: &[&str] = &["OneShot", "LowAVG", "MediumAVG", "HighAVG"];
pub(super) const FILTER_BASELINES: &[&str] =
    &["Fixed", "VeryLow", "Low", "MediumLow", "Medium", "MediumHigh", "High"];
pub(super) const LOW_FREQUENCY: &[&str] = &["Off", "On"];

pub(super) const THRESHOLD_MODES: &[&str] = &["Absolute", "Relative"];
pub(super) const EDGES: &[&str] = &["Rise", "Fall"];
pub(super) const DEFAULT_VALUES: &[&str] = &["Baseline"];
