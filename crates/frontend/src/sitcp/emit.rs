//! The encoders: write what a board sends, block by block.
//!
//! ```text
//!  fields · body ─► the bytes of one block
//! ```
//! They are the inverse of [`super::wire`], for emulated boards and tests.

use thalweg_data::BoardId;

use super::wire::recbe::{self, Mode};
use super::wire::str_tdc::{Kind, Word};
use super::wire::{adc_sitcp as adc, str_tdc};

/// The header fields of RECBE or Belle II.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BlockFields {
    /// How the body is written.
    pub mode: Mode,
    /// The board's number; RECBE sends 8 bits of it.
    pub board: BoardId,
    /// RECBE: the board's count of blocks.
    pub sent_number: u16,
    /// Time of the trigger, 15 bits; the top bit is sent as given.
    pub trigger_time: u16,
    /// Number of the trigger.
    pub trigger: u32,
}

impl BlockFields {
    /// A RECBE header for a body of `body_bytes`.
    pub fn recbe_header(&self, body_bytes: u16) -> [u8; recbe::HEADER_BYTES] {
        let [sent_high, sent_low] = self.sent_number.to_be_bytes();
        self.header([self.board.0 as u8, sent_high, sent_low], body_bytes)
    }

    /// A Belle II header for a body of `body_bytes`.
    pub fn belle2_header(&self, body_bytes: u16) -> [u8; recbe::HEADER_BYTES] {
        let [board_high, board_low] = self.board.0.to_be_bytes();
        self.header([0, board_high, board_low], body_bytes)
    }

    fn header(&self, [one, two, three]: [u8; 3], body_bytes: u16) -> [u8; recbe::HEADER_BYTES] {
        let [time_high, time_low] = self.trigger_time.to_be_bytes();
        let [length_high, length_low] = body_bytes.to_be_bytes();
        let [a, b, c, d] = self.trigger.to_be_bytes();
        [self.mode.type_byte(), one, two, three, time_high, time_low, length_high, length_low, a, b, c, d]
    }

    /// Appends a RECBE block.
    ///
    /// # Panics
    /// When the body is longer than its length field allows.
    pub fn recbe(&self, body: &[u8], out: &mut Vec<u8>) {
        out.extend(self.recbe_header(short(body.len())));
        out.extend(body);
    }

    /// Appends a Belle II block.
    ///
    /// # Panics
    /// As for [`BlockFields::recbe`].
    pub fn belle2(&self, body: &[u8], out: &mut Vec<u8>) {
        out.extend(self.belle2_header(short(body.len())));
        out.extend(body);
    }
}

fn short(length: usize) -> u16 {
    u16::try_from(length).expect("the length of a body has 16 bits")
}

/// Appends one channel's record to a suppressed body.
///
/// # Panics
/// When there are more than the 124 times that a record can hold.
pub fn channel_record(channel: u8, over_threshold: u16, adc_sum: u16, times: &[u16], body: &mut Vec<u8>) {
    let length =
        u8::try_from(recbe::RECORD_BYTES + 2 * times.len()).expect("the length of a record has 8 bits");
    body.extend([channel, length]);
    body.extend(over_threshold.to_be_bytes());
    body.extend(adc_sum.to_be_bytes());
    times.iter().for_each(|time| body.extend(time.to_be_bytes()));
}

/// Pads a suppressed body to a multiple of four bytes.
pub fn pad(body: &mut Vec<u8>) {
    if !body.len().is_multiple_of(4) {
        body.extend(recbe::PAD);
    }
}

/// Appends one sample of all channels to a raw body: the ADC words, then the TDC words.
pub fn raw_sample(adc: &[u16; recbe::CHANNELS], tdc: &[u16; recbe::CHANNELS], body: &mut Vec<u8>) {
    adc.iter().chain(tdc).for_each(|word| body.extend(word.to_be_bytes()));
}

/// The header of an ADC-SiTCP event.
pub fn adc_sitcp_header(user: u32, trigger: u32, body_bytes: u32) -> [u8; adc::HEADER_BYTES] {
    let [_, u1, u2, u3] = user.to_be_bytes();
    let [l0, l1, l2, l3] = body_bytes.to_be_bytes();
    let [t0, t1, t2, t3] = trigger.to_be_bytes();
    [adc::TYPE, u1, u2, u3, l0, l1, l2, l3, t0, t1, t2, t3]
}

/// Appends an ADC-SiTCP event.
///
/// # Panics
/// When the body is longer than its length field allows.
pub fn adc_sitcp(user: u32, trigger: u32, body: &[u8], out: &mut Vec<u8>) {
    let length = u32::try_from(body.len()).expect("the length of a body has 32 bits");
    out.extend(adc_sitcp_header(user, trigger, length));
    out.extend(body);
}

fn word(kind: Kind) -> u64 {
    (kind as u64) << 58
}

/// A low-resolution edge; times in nanoseconds, `time_ns` within the frame (19 bits).
pub fn low_resolution_edge(kind: Kind, channel: u8, over_threshold_ns: u16, time_ns: u32) -> Word {
    let time = u64::from(time_ns & 0x7_FFFF);
    Word(word(kind) | u64::from(channel) << 50 | u64::from(over_threshold_ns) << 34 | time << 15)
}

/// A high-resolution edge; channel 0 to 127, times in units of 0.977 ps.
pub fn high_resolution_edge(kind: Kind, channel: u8, over_threshold: u32, time: u32) -> Word {
    let (over_threshold, time) = (u64::from(over_threshold & 0x3F_FFFF), u64::from(time & 0x1FFF_FFFF));
    Word(word(kind) | u64::from(channel & 0x7F) << 51 | over_threshold << 29 | time)
}

/// The two delimiters of a heartbeat frame.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct FrameEnd {
    /// Error bits of the frame, see [`str_tdc::flag`].
    pub flags: u16,
    /// The offset of the clock.
    pub clock_offset: i16,
    /// The number of the frame, 24 bits.
    pub number: u32,
    /// The user's register.
    pub user_register: u16,
    /// Bytes of data that the board had, 20 bits.
    pub generated_bytes: u32,
    /// Bytes of data that it sent, 20 bits.
    pub sent_bytes: u32,
}

impl FrameEnd {
    /// The bytes of both delimiters.
    pub fn bytes(&self) -> [u8; str_tdc::DELIMITER_BYTES] {
        let first = word(Kind::Delimiter1)
            | u64::from(self.flags) << 40
            | u64::from(self.clock_offset as u16) << 24
            | u64::from(self.number & 0xFF_FFFF);
        let second = word(Kind::Delimiter2)
            | u64::from(self.user_register) << 40
            | u64::from(self.generated_bytes & 0xF_FFFF) << 20
            | u64::from(self.sent_bytes & 0xF_FFFF);
        let mut bytes = [0; str_tdc::DELIMITER_BYTES];
        let (one, two) = bytes.split_at_mut(str_tdc::WORD_BYTES);
        one.copy_from_slice(&first.to_le_bytes());
        two.copy_from_slice(&second.to_le_bytes());
        bytes
    }
}

/// Appends a heartbeat frame.
pub fn frame(words: &[Word], end: &FrameEnd, out: &mut Vec<u8>) {
    words.iter().for_each(|word| out.extend(word.0.to_le_bytes()));
    out.extend(end.bytes());
}
