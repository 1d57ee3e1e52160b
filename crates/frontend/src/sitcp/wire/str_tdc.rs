//! Words of the streaming TDC on AMANEQ and HUL boards (Str-TDC): heartbeat frames of 64-bit little-endian words.
//!
//! ```text
//!  data · data · throttle · … · delimiter 1 (frame number) · delimiter 2 (bytes generated and sent)
//!  └──────────── one heartbeat frame of 524 µs ─────────────────────────────────────────────────┘
//! ```
//! Bits 63 to 58 of a word are its type. A frame without hits also has its two delimiters. Sources: the VHDL of
//! strtdc-src, the guide of RyotaroHonda/ug-amaneq, NestdaqUnpacker; they differ in the number of the type-1 throttle
//! start, for which the VHDL is used.

/// Bytes of a word.
pub const WORD_BYTES: usize = 8;
/// Bytes of the two delimiters.
pub const DELIMITER_BYTES: usize = 2 * WORD_BYTES;
/// Bits of a frame number.
pub const FRAME_NUMBER_BITS: u32 = 24;
/// Highest sum of data bytes that the second delimiter can hold.
pub const LONGEST_DATA: usize = (1 << 20) - WORD_BYTES;

/// Error bits of a frame, in delimiter 1.
pub mod flag {
    /// The frame's output was throttled.
    pub const OUTPUT_THROTTLING: u16 = 1 << 5;
    /// Hits were dropped before the frame was made: input throttling of type 2.
    pub const INPUT_THROTTLING_2: u16 = 1 << 6;
    /// Input throttling of type 1.
    pub const INPUT_THROTTLING_1: u16 = 1 << 7;
    /// The board's frame number differs from its own expectation.
    pub const LOCAL_MISMATCH: u16 = 1 << 9;
    /// The board's frame number differs from that of the clock's master.
    pub const GLOBAL_MISMATCH: u16 = 1 << 10;
    /// A buffer overflowed.
    pub const OVERFLOW: u16 = 1 << 11;
    /// The link to the clock's master failed.
    pub const LINK_ERROR: u16 = 1 << 13;
    /// Radiation upset a memory of the board.
    pub const RADIATION: u16 = 1 << 14;
}

/// The kind of a word.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum Kind {
    /// A rising edge.
    Leading = 0x0B,
    /// A falling edge.
    Trailing = 0x0D,
    /// Input throttling of type 1 ends.
    Throttle1End = 0x11,
    /// Input throttling of type 2 ends.
    Throttle2End = 0x12,
    /// Input throttling of type 1 begins.
    Throttle1Start = 0x19,
    /// Input throttling of type 2 begins.
    Throttle2Start = 0x1A,
    /// The first word of a frame's end.
    Delimiter1 = 0x1C,
    /// The second word of a frame's end.
    Delimiter2 = 0x1E,
}

impl Kind {
    /// All of them.
    pub const ALL: [Kind; 8] = [
        Kind::Leading,
        Kind::Trailing,
        Kind::Throttle1End,
        Kind::Throttle2End,
        Kind::Throttle1Start,
        Kind::Throttle2Start,
        Kind::Delimiter1,
        Kind::Delimiter2,
    ];
    /// One bit per type of a word inside a frame.
    const INSIDE: u64 = 1 << 0x0B | 1 << 0x0D | 1 << 0x11 | 1 << 0x12 | 1 << 0x19 | 1 << 0x1A;
}

/// One word.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Word(pub u64);

impl Word {
    /// Reads a word from its bytes.
    #[inline]
    pub fn from_bytes(bytes: [u8; WORD_BYTES]) -> Word {
        Word(u64::from_le_bytes(bytes))
    }

    /// Reads the word at a position, if it is complete.
    #[inline]
    pub fn at(bytes: &[u8], at: usize) -> Option<Word> {
        Some(Word::from_bytes(*bytes.get(at..)?.first_chunk()?))
    }

    /// Whether this word is inside a frame, not a delimiter.
    #[inline]
    pub fn is_inside(self) -> bool {
        Kind::INSIDE >> (self.0 >> 58) & 1 == 1
    }

    /// Returns the kind of the word, if known.
    pub fn kind(self) -> Option<Kind> {
        Kind::ALL.into_iter().find(|kind| *kind as u64 == self.0 >> 58)
    }

    /// Whether the word is of this kind.
    #[inline]
    pub fn is(self, kind: Kind) -> bool {
        self.0 >> 58 == kind as u64
    }

    #[inline]
    fn field(self, high: u32, low: u32) -> u64 {
        self.0 >> low & (u64::MAX >> (63 - (high - low)))
    }

    /// Delimiter 1: error bits of the frame, see [`flag`].
    pub fn flags(self) -> u16 {
        self.field(55, 40) as u16
    }

    /// Delimiter 1: the offset of the clock (LACCP).
    pub fn clock_offset(self) -> i16 {
        self.field(39, 24) as i16
    }

    /// Delimiter 1: the number of the frame, 24 bits.
    #[inline]
    pub fn frame_number(self) -> u32 {
        self.field(23, 0) as u32
    }

    /// Delimiter 2: the user register.
    pub fn user_register(self) -> u16 {
        self.field(55, 40) as u16
    }

    /// Delimiter 2: bytes of data that the board had for this frame.
    #[inline]
    pub fn generated_bytes(self) -> u32 {
        self.field(39, 20) as u32
    }

    /// Delimiter 2: bytes of data that the board sent.
    #[inline]
    pub fn sent_bytes(self) -> u32 {
        self.field(19, 0) as u32
    }

    /// Low-resolution edge: `(channel, time over threshold, time)`, both in nanoseconds.
    pub fn low_resolution(self) -> (u8, u16, u32) {
        (self.field(57, 50) as u8, self.field(49, 34) as u16, self.field(33, 15) as u32)
    }

    /// High-resolution edge: `(channel, time over threshold, time)`, both in units of 0.977 ps.
    pub fn high_resolution(self) -> (u8, u32, u32) {
        (self.field(57, 51) as u8, self.field(50, 29) as u32, self.field(28, 0) as u32)
    }

    /// Throttle, low resolution: `(channel, time)`, in units of 8 ns.
    pub fn throttle(self) -> (u8, u16) {
        (self.field(57, 50) as u8, self.field(33, 18) as u16)
    }
}
