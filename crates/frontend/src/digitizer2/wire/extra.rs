//! Words that may follow a hit's two words: typed extra words, and the header of a waveform.
//!
//! ```text
//!  extra word    63 last | 62..60 type: 0 wave info, 1 time info, 2 counter info | 59..0 data
//!  wave header   63 truncated | 11..0 sample words that follow
//! ```
//! In Open DPP, an extra word has 63 user-defined bits instead, and a waveform has no info word.

use super::{TIME_MASK, bits};

/// The type of an extra word.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ExtraType {
    /// How to read the waveform.
    WaveInfo,
    /// Dead time of a statistics record.
    TimeInfo,
    /// Trigger counters of a statistics record.
    CounterInfo,
    /// Unknown: skipped.
    Unknown(u8),
}

/// One extra word of PSD or PHA.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ExtraWord(pub u64);

impl ExtraWord {
    const DATA: u64 = (1 << 60) - 1;

    /// An extra word; `kind` is the number of its type.
    pub const fn new(kind: u8, data: u64, last: bool) -> ExtraWord {
        ExtraWord((last as u64) << 63 | (kind as u64 & 7) << 60 | data & Self::DATA)
    }

    /// No other extra word follows.
    #[inline]
    pub const fn last(self) -> bool {
        self.0 >> 63 == 1
    }

    /// Its type.
    #[inline]
    pub const fn kind(self) -> ExtraType {
        match bits(self.0, 60, 3) {
            0 => ExtraType::WaveInfo,
            1 => ExtraType::TimeInfo,
            2 => ExtraType::CounterInfo,
            other => ExtraType::Unknown(other as u8),
        }
    }

    /// Its 60 bits.
    #[inline]
    pub const fn data(self) -> u64 {
        self.0 & Self::DATA
    }
}

/// One analog probe of a waveform.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub struct Probe {
    /// Number of the signal, 0 to 7; PSD and PHA number them differently.
    pub code: u8,
    /// Samples are two's complement of 14 bits.
    pub signed: bool,
    /// Code of the factor: 0 → 1, 1 → 4, 2 → 8, 3 → 16.
    pub factor_code: u8,
}

impl Probe {
    const fn to_bits(self) -> u64 {
        (self.code as u64 & 7) | (self.signed as u64) << 3 | (self.factor_code as u64 & 3) << 4
    }

    const fn from_bits(bits: u64) -> Probe {
        Probe { code: bits as u8 & 7, signed: bits >> 3 & 1 == 1, factor_code: (bits >> 4) as u8 & 3 }
    }

    /// The factor by which samples are multiplied.
    pub const fn factor(self) -> i32 {
        [1, 4, 8, 16][self.factor_code as usize & 3]
    }
}

/// The data of an extra word of type wave info: the format of the waveform's samples.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub struct WaveInfo {
    /// The two analog probes.
    pub analog: [Probe; 2],
    /// Codes of the four digital probes, 0 to 15.
    pub digital: [u8; 4],
    /// Trigger threshold.
    pub threshold: u16,
    /// Down-sampling as a power of two, 0 to 3.
    pub log2_decimation: u8,
}

impl WaveInfo {
    /// Reads the 60 data bits.
    pub const fn from_data(data: u64) -> WaveInfo {
        WaveInfo {
            analog: [Probe::from_bits(data), Probe::from_bits(data >> 6)],
            digital: [
                bits(data, 12, 4) as u8,
                bits(data, 16, 4) as u8,
                bits(data, 20, 4) as u8,
                bits(data, 24, 4) as u8,
            ],
            threshold: bits(data, 28, 16) as u16,
            log2_decimation: bits(data, 44, 2) as u8,
        }
    }

    /// The 60 data bits.
    pub const fn to_data(self) -> u64 {
        self.analog[0].to_bits()
            | self.analog[1].to_bits() << 6
            | (self.digital[0] as u64 & 15) << 12
            | (self.digital[1] as u64 & 15) << 16
            | (self.digital[2] as u64 & 15) << 20
            | (self.digital[3] as u64 & 15) << 24
            | (self.threshold as u64) << 28
            | (self.log2_decimation as u64 & 3) << 44
    }
}

/// The word in front of a waveform's samples.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct WaveHeader(pub u64);

impl WaveHeader {
    /// Most sample words that one waveform can have.
    pub const MOST_WORDS: usize = 4095;

    /// A header for `words` sample words, at most [`WaveHeader::MOST_WORDS`].
    pub const fn new(words: u16, truncated: bool) -> WaveHeader {
        WaveHeader((truncated as u64) << 63 | words as u64 & 0xFFF)
    }

    /// Whether the board cut the waveform short.
    #[inline]
    pub const fn truncated(self) -> bool {
        self.0 >> 63 == 1
    }

    /// Sample words that follow.
    #[inline]
    pub const fn word_count(self) -> usize {
        bits(self.0, 0, 12) as usize
    }
}

/// The data of an extra word of type time info.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TimeInfo(pub u64);

impl TimeInfo {
    /// Dead time in time stamp counts, 48 bits.
    pub const fn dead_time(self) -> u64 {
        self.0 & TIME_MASK
    }
}

/// The data of an extra word of type counter info.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CounterInfo(pub u64);

impl CounterInfo {
    /// Both counters, 24 bits each.
    pub const fn new(triggers: u32, saved: u32) -> CounterInfo {
        CounterInfo(saved as u64 & 0xFF_FFFF | (triggers as u64 & 0xFF_FFFF) << 24)
    }

    /// Hits that the board saved, modulo 2^24.
    pub const fn saved(self) -> u32 {
        bits(self.0, 0, 24) as u32
    }

    /// Triggers that the board saw, modulo 2^24.
    pub const fn triggers(self) -> u32 {
        bits(self.0, 24, 24) as u32
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn wave_info_is_that_of_the_worked_example() {
        let word = ExtraWord(0x8000_1003_2321_0488);
        assert!(word.last());
        assert_eq!(word.kind(), ExtraType::WaveInfo);
        let info = WaveInfo::from_data(0x1003_2321_0488);
        assert_eq!(info.analog[0], Probe { code: 0, signed: true, factor_code: 0 });
        assert_eq!(info.analog[1], Probe { code: 2, signed: false, factor_code: 1 });
        assert_eq!((info.digital, info.threshold, info.log2_decimation), ([0, 1, 2, 3], 50, 1));
        assert_eq!(info.to_data(), 0x1003_2321_0488);
        assert_eq!(info.analog[1].factor(), 4);
    }

    #[test]
    fn statistics_words_are_those_of_the_worked_example() {
        let (time, counters) = (ExtraWord(0x1000_0000_0000_04d2), ExtraWord(0xa000_0013_8800_137e));
        assert_eq!((time.kind(), time.last()), (ExtraType::TimeInfo, false));
        assert_eq!(TimeInfo(time.data()).dead_time(), 1234);
        assert_eq!((counters.kind(), counters.last()), (ExtraType::CounterInfo, true));
        let counters = CounterInfo(counters.data());
        assert_eq!((counters.triggers(), counters.saved()), (5000, 4990));
        assert_eq!(CounterInfo::new(5000, 4990), counters);
    }
}
