//! The entry of the family in `FORMATS`.

use super::{AbcdDecode, AbcdUnpack, Settings};
use crate::format::{Format, FramingInput, HitFormat, HitFraming, several};

/// The entry of the family.
pub static FORMAT: Format = Format {
    file_extension: Some("ade"),
    #[cfg(any(test, feature = "harness"))]
    fuzz: super::check::FUZZ,
    ..Format::of_hits::<Settings>("abcd", "ABCD `.ade` event files.")
};

// The ticks are only those of time stamps.
impl HitFormat for Settings {
    fn framing(&self, input: FramingInput<'_>, decoders: usize) -> Result<HitFraming, String> {
        let unpack = AbcdUnpack::new(input.source, self).map_err(|error| error.to_string())?;
        let decoder = AbcdDecode::new(input.source, self).map_err(|error| error.to_string())?;
        let decoder = decoder.behind(&unpack);
        Ok((Box::new(unpack), several(&decoder, decoders)))
    }

    fn channels(&self) -> (u16, u16) {
        (self.first_channel, u16::try_from(self.channel_count()).unwrap_or(u16::MAX))
    }
}
