//! The entry of the family in `FORMATS`.

use thalweg_data::waveform_facts::{SampleRange, WaveformFacts};

use super::{CompassDecode, CompassUnpack, Settings};
use crate::format::{Format, FramingInput, HitFormat, HitFraming, several};

/// The entry of the family.
pub static FORMAT: Format = Format {
    file_extension: Some("bin"),
    #[cfg(any(test, feature = "harness"))]
    fuzz: super::check::FUZZ,
    ..Format::of_hits::<Settings>("compass", "CoMPASS list-mode `.BIN` files.")
};

// A record has samples, but not their sampling rate.
impl HitFormat for Settings {
    fn framing(&self, input: FramingInput<'_>, decoders: usize) -> Result<HitFraming, String> {
        let unpack = CompassUnpack::new(input.source, self).map_err(|error| error.to_string())?;
        let decoder = CompassDecode::new(input.source, self).map_err(|error| error.to_string())?;
        Ok((Box::new(unpack), several(&decoder, decoders)))
    }

    fn waveforms(&self) -> WaveformFacts {
        WaveformFacts { samples: SampleRange::Unsigned16, ..WaveformFacts::default() }
    }

    fn channels(&self) -> (u16, u16) {
        (self.first_channel, u16::try_from(self.channel_count()).unwrap_or(u16::MAX))
    }
}
