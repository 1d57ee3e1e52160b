//! The parameters of a board as a whole, and of its groups of channels and connectors.

use super::Kind::{Among, AnyOf, Boolean, Number, OneOf, Samples, Text};
use super::words::*;
use super::{Definition, Family, Firmwares, Limits, read, set};

/// `/par`: first what a board reports, then what is set.
pub(super) const BOARD: &[Definition] = &[
    read("ModelName", "", "Model, such as VX2740."),
    read("ModelCode", "", "Order code of the board."),
    read("PBCode", "", "Order code of the piggyback board."),
    read("FamilyCode", "", "Number of the family, such as 2740."),
    read("FormFactor", "", "VME, VME64X or desktop."),
    read("SerialNum", "", "Serial number."),
    read("PCBrev_MB", "", "Revision of the main board."),
    read("PCBrev_PB", "", "Revision of the piggyback board."),
    read("CupVer", "", "Version of the software package, which contains the firmware."),
    read("FPGA_FwVer", "", "Version of the FPGA firmware."),
    read("FwType", "", "Firmware: Scope, DPP_PSD, DPP_PHA, DPP_ZLE, DPP_OPEN."),
    read("License", "", "License code of the firmware."),
    read("LicenseStatus", "", "Whether the firmware is licensed."),
    read("LicenseRemainingTime", "s", "Time until a firmware without license stops."),
    read("NumCh", "", "Number of channels."),
    read("ADC_Nbit", "bit", "Resolution of the ADC."),
    read("ADC_SamplRate", "MS/s", "Sampling rate."),
    read("InputRange", "Vpp", "Input range at gain 1."),
    read("InputType", "", "Single ended or differential inputs."),
    read("Zin", "Ohm", "Input impedance."),
    read("IPAddress", "", "Address of the 1 GbE port."),
    read("Netmask", "", "Network mask of the 1 GbE port."),
    read("Gateway", "", "Gateway of the 1 GbE port."),
    read("MaxRawDataSize", "B", "Most bytes of one raw data block."),
    read("AcquisitionStatus", "", "Bits: armed, running, its clock is valid, busy, license failed."),
    read("ErrorFlags", "", "Bits: power, clock chips not locked, memory, temperatures."),
    read("LedStatus", "", "Bits: the lights of the front panel."),
    read("BoardReady", "", "True if no error bit is set."),
    read("TempSensAirIn", "degC", "Temperature of the air that comes in."),
    read("TempSensAirOut", "degC", "Temperature of the air that goes out."),
    read("TempSensCore", "degC", "Temperature of the FPGA."),
    read("TempSensFirstADC", "degC", "Temperature of the first ADC."),
    read("TempSensLastADC", "degC", "Temperature of the last ADC."),
    read("TempSensHottestADC", "degC", "Temperature of the hottest ADC."),
    read("TempSensADC0", "degC", "Temperature of ADC 0."),
    read("TempSensADC1", "degC", "Temperature of ADC 1."),
    read("TempSensADC2", "degC", "Temperature of ADC 2."),
    read("TempSensADC3", "degC", "Temperature of ADC 3."),
    read("TempSensADC4", "degC", "Temperature of ADC 4."),
    read("TempSensADC5", "degC", "Temperature of ADC 5."),
    read("TempSensADC6", "degC", "Temperature of ADC 6."),
    read("TempSensADC7", "degC", "Temperature of ADC 7."),
    read("TempSensDCDC", "degC", "Temperature of the power converter."),
    read("VInSensDCDC", "V", "Input voltage of the power converter."),
    read("VOutSensDCDC", "V", "Output voltage of the power converter."),
    read("IOutSensDCDC", "A", "Output current of the power converter."),
    read("FreqSensCore", "Hz", "Switching frequency of the power converter."),
    read("DutyCycleSensDCDC", "%", "Duty cycle of the power converter."),
    read("SpeedSensFan1", "rpm", "Speed of fan 1."),
    read("SpeedSensFan2", "rpm", "Speed of fan 2."),
    set("ClockSource", OneOf(CLOCK_SOURCES), "", "Own clock, or that of the front panel input."),
    set("EnClockOutFP", Boolean, "", "Gives the clock out at the front panel, for the next board."),
    set(
        "VolatileClockOutDelay",
        Number(Limits::both(-18_888.888, 18_888.888, 74.074)),
        "ps",
        "Delay of the clock output, until power-off.",
    ),
    set(
        "PermanentClockOutDelay",
        Number(Limits::both(-18_888.888, 18_888.888, 74.074)),
        "ps",
        "Delay of the clock output, kept in flash memory.",
    ),
    set("StartSource", AnyOf(START_SOURCES), "", "What starts the armed board: SWcmd is the software start."),
    set(
        "RunDelay",
        Number(Limits::both(0.0, 524_280.0, 8.0)),
        "ns",
        "Time from the start signal to the start of the run: larger at the head of a chain.",
    ),
    set("EnAutoDisarmAcq", Boolean, "", "Disarms the board at the end of a run."),
    set("SyncOutMode", OneOf(SYNC_OUTPUTS), "", "Signal at the SYNC output, for the next board."),
    set("TrgOutMode", Among(TRIGGER_OUTPUTS), "", "Signal at TRG-OUT."),
    set("GPIOMode", Among(GPIO_MODES), "", "Signal at GPIO."),
    set("IOlevel", OneOf(IO_LEVELS), "", "Level of the front panel signals."),
    set("BusyInSource", OneOf(BUSY_INPUTS), "", "Input whose signal counts as BUSY."),
    set("BoardVetoSource", AnyOf(BOARD_VETOES), "", "Input whose signal vetoes all channels."),
    set("BoardVetoPolarity", OneOf(LEVELS), "", "Level of the veto signal."),
    set(
        "BoardVetoWidth",
        Number(Limits::both(0.0, 34_359_738_360.0, 1.0)),
        "ns",
        "Length of a veto; 0 for as long as the signal lasts.",
    ),
    set("GlobalTriggerSource", AnyOf(BOARD_TRIGGERS), "", "Signals that make the global trigger.")
        .of(Firmwares::DPP),
    set("AcqTriggerSource", AnyOf(BOARD_TRIGGERS), "", "Signals that trigger all channels.")
        .of(Firmwares::SCOPE.and(Firmwares::ZLE).and(Firmwares::OPEN)),
    set("RecordLength", Samples(Limits::UNKNOWN), "", "Length of a record.")
        .of(Firmwares::SCOPE.and(Firmwares::ZLE)),
    set("PreTrigger", Samples(Limits::UNKNOWN), "", "Part of a record before the trigger.")
        .of(Firmwares::SCOPE),
    set("TriggerDelay", Samples(Limits::UNKNOWN), "", "Delay of the trigger.").of(Firmwares::SCOPE),
    set("DecimationFactor", Number(Limits::UNKNOWN), "samples", "Samples that are combined to one.")
        .of(Firmwares::SCOPE),
    set("EnChSuppr", Boolean, "", "Leaves out channels without a pulse.").of(Firmwares::SCOPE),
    set("EnDataReduction", Boolean, "", "Sends hits in one word.").of(Firmwares::DPP),
    set("EnStatEvents", Boolean, "", "Sends real time, dead time and counts of each channel.")
        .of(Firmwares::DPP),
    set(
        "TestPulsePeriod",
        Number(Limits::both(0.0, 34_359_738_360.0, 8.0)),
        "ns",
        "Period of the test pulse.",
    ),
    set("TestPulseWidth", Number(Limits::both(0.0, 34_359_738_360.0, 8.0)), "ns", "Width of the test pulse."),
    set(
        "TestPulseLowLevel",
        Number(Limits::both(0.0, 65_535.0, 1.0)),
        "ADC counts",
        "Low level of its wave.",
    ),
    set(
        "TestPulseHighLevel",
        Number(Limits::both(0.0, 65_535.0, 1.0)),
        "ADC counts",
        "High level of its wave.",
    ),
    set("DACoutMode", Among(DAC_MODES), "", "Signal at the analog output."),
    set(
        "DACoutStaticLevel",
        Number(Limits::both(0.0, 16_383.0, 1.0)),
        "DAC counts",
        "Level of the mode Static.",
    ),
    set("DACoutChSelect", Number(Limits::both(0.0, 64.0, 1.0)), "", "Channel of the mode ChInput."),
    set("ITLAMainLogic", OneOf(MAIN_LOGIC), "", "Trigger logic A: how channels are combined."),
    set("ITLAPairLogic", OneOf(PAIR_LOGIC), "", "Trigger logic A: how pairs of channels are combined first."),
    set(
        "ITLAMajorityLev",
        Number(Limits::both(1.0, 63.0, 1.0)),
        "channels",
        "Trigger logic A: the majority.",
    ),
    set("ITLAPolarity", OneOf(LOGIC_POLARITIES), "", "Trigger logic A: inverted or not."),
    set("ITLAMask", Text, "", "Trigger logic A: its channels, 64 bits."),
    set(
        "ITLAGateWidth",
        Number(Limits::both(0.0, 524_280.0, 8.0)),
        "ns",
        "Trigger logic A: width of a pulse.",
    ),
    set("ITLAEnRetrigger", Text, "", "Trigger logic A: whether a pulse is prolonged by the next."),
    set("ITLBMainLogic", OneOf(MAIN_LOGIC), "", "Trigger logic B: how channels are combined."),
    set("ITLBPairLogic", OneOf(PAIR_LOGIC), "", "Trigger logic B: how pairs of channels are combined first."),
    set(
        "ITLBMajorityLev",
        Number(Limits::both(1.0, 63.0, 1.0)),
        "channels",
        "Trigger logic B: the majority.",
    ),
    set("ITLBPolarity", OneOf(LOGIC_POLARITIES), "", "Trigger logic B: inverted or not."),
    set("ITLBMask", Text, "", "Trigger logic B: its channels, 64 bits."),
    set(
        "ITLBGateWidth",
        Number(Limits::both(0.0, 524_280.0, 8.0)),
        "ns",
        "Trigger logic B: width of a pulse.",
    ),
    set("ITLBEnRetrigger", Text, "", "Trigger logic B: whether a pulse is prolonged by the next."),
    set("SinFunction", OneOf(INPUT_FUNCTIONS), "", "What S-IN does besides.").of(Firmwares::PHA),
    set("GpiFunction", OneOf(INPUT_FUNCTIONS), "", "What GPI does besides.").of(Firmwares::PHA),
    set("LVDSIOReg", Text, "", "Register of the LVDS connector."),
    set("ErrorFlagMask", Text, "", "Error bits that make BoardReady false."),
    set("ErrorFlagDataMask", Text, "", "Error bits that are marked in the data."),
    set("EnOffsetCalibration", Boolean, "", "Applies the calibration of the offsets."),
    set("RegisterMisc", Text, "", "A register, by its address."),
    set("RegisterUser", Text, "", "A register of Open DPP firmware: address=value."),
];

/// `/group/N/par`.
pub(super) const GROUP: &[Definition] =
    &[set("InputDelay", Number(Limits::slow(0.0, 32_768.0, 8.0)), "ns", "Delay of four channels.")
        .of(Firmwares::DPP)];

/// `/vga/N/par`.
pub(super) const VGA: &[Definition] =
    &[set("VGAGain", Number(Limits::slow(0.0, 40.0, 0.5)), "dB", "Gain of sixteen channels.")
        .on(&[Family::X2745])];

/// `/lvds/N/par`.
pub(super) const LVDS: &[Definition] = &[
    set("LVDSMode", Among(LVDS_MODES), "", "What four pairs of the LVDS connector are for."),
    set("LVDSDirection", OneOf(DIRECTIONS), "", "Their direction."),
];
