//! Addresses of registers: those of all SiTCP boards, and those of RECBE.
//!
//! ```text
//!  0x0000_0000 … user logic (RECBE)    0xFFFF_FC00 … EEPROM    0xFFFF_FF00 … SiTCP, live
//! ```
//! Values of several bytes are big-endian at consecutive addresses. HUL and AMANEQ boards differ: they take one byte
//! per request, the low one first, and the address increases by 0x0001_0000 per byte.

/// SiTCP's own registers.
pub mod sitcp {
    use std::ops::RangeInclusive;

    /// First of the live registers.
    pub const BASE: u32 = 0xFFFF_FF00;
    /// Control: see the bits below.
    pub const CONTROL: u32 = BASE + 0x10;
    /// Bit of [`CONTROL`]: resets SiTCP; set it, then clear it.
    pub const CONTROL_RESET: u8 = 0x80;
    /// Bit of [`CONTROL`]: keep-alive segments.
    pub const CONTROL_KEEP_ALIVE: u8 = 0x04;
    /// Bit of [`CONTROL`]: fast retransmission.
    pub const CONTROL_FAST_RETRANSMIT: u8 = 0x02;
    /// Bit of [`CONTROL`]: collects data before sending (Nagle); on by default.
    pub const CONTROL_NAGLE: u8 = 0x01;
    /// Hardware address, 6 bytes.
    pub const HARDWARE_ADDRESS: u32 = BASE + 0x12;
    /// Internet address, 4 bytes.
    pub const INTERNET_ADDRESS: u32 = BASE + 0x18;
    /// TCP port of the data, 2 bytes.
    pub const TCP_PORT: u32 = BASE + 0x1C;
    /// UDP port of this protocol, 2 bytes.
    pub const RBCP_PORT: u32 = BASE + 0x22;
    /// The persistent copy from which the board starts; a wrong write can make the board useless (licence, hardware
    /// address).
    pub const EEPROM: RangeInclusive<u32> = 0xFFFF_FC00..=0xFFFF_FCFF;
    /// Opens the EEPROM with 0x00, closes it with 0xFF.
    pub const EEPROM_GUARD: u32 = 0xFFFF_FCFF;
}

/// Registers of a RECBE board, from its public configuration script (miya0034/Recbe).
pub mod recbe {
    /// Date of synthesis: year, month, day, number.
    pub const SYNTHESIS_DATE: u32 = 0x00;
    /// Version of the firmware.
    pub const FIRMWARE_VERSION: u32 = 0x04;
    /// Body of the blocks: 1 raw, 2 suppressed.
    pub const MODE: u32 = 0x05;
    /// Value of [`MODE`]: raw.
    pub const MODE_RAW: u8 = 1;
    /// Value of [`MODE`]: suppressed.
    pub const MODE_SUPPRESSED: u8 = 2;
    /// Length of the window in samples of 33.3 ns.
    pub const WINDOW: u32 = 0x06;
    /// Delay of the window in samples of 33.3 ns.
    pub const DELAY: u32 = 0x07;
    /// Threshold on the ADC sum, 2 bytes.
    pub const SUM_THRESHOLD: u32 = 0x08;
    /// Link to the trigger distributor: bit 0 trigger, 1 busy, 2 pulse.
    pub const TRIGGER_LINK: u32 = 0x0A;
    /// Time over threshold, on or off.
    pub const TIME_OVER_THRESHOLD: u32 = 0x0B;
    /// Channel masks of the six amplifier chips for the front-panel output, one byte each.
    pub const OUTPUT_MASKS: u32 = 0x0C;
    /// Coincidence window of that output in units of 8.33 ns.
    pub const OUTPUT_COINCIDENCE: u32 = 0x12;
    /// Threshold of the discriminators, 2 bytes.
    pub const DISCRIMINATOR_THRESHOLD: u32 = 0x1C;
    /// The busy signal of the board, on or off.
    pub const BUSY: u32 = 0x1E;
    /// Its width in microseconds.
    pub const BUSY_WIDTH: u32 = 0x1F;
    /// ADC pedestal of channel 0, 2 bytes; the other 47 follow.
    pub const PEDESTALS: u32 = 0x20;
}
