//! The family as the rest of the system knows it.

use thalweg_data::Unit;

#[cfg(any(test, feature = "harness"))]
use super::check;
use super::{GenericDecode, GenericUnpack, Settings};
#[cfg(any(test, feature = "harness"))]
use crate::format::FuzzTarget;
use crate::format::{Format, FramingInput, HitFormat, HitFraming, several};
#[cfg(any(test, feature = "harness"))]
use crate::seeds;

/// The entry of the family.
pub static FORMAT: Format = Format {
    #[cfg(any(test, feature = "harness"))]
    fuzz: &[FuzzTarget { name: "generic", seeds: seeds::generic, check }],
    ..Format::of_hits::<Settings>("generic", "Any stream whose headers the configuration describes.")
};

impl HitFormat for Settings {
    fn boxed(&self) -> Box<dyn HitFormat> {
        Box::new(self.clone())
    }

    fn framing(&self, input: FramingInput<'_>, decoders: usize) -> Result<HitFraming, String> {
        if self.stream != input.is_stream {
            let (found, write) = if input.is_stream { ("a stream", true) } else { ("datagrams", false) };
            return Err(format!("the URL gives {found}; write `stream = {write}`, or change the URL"));
        }
        let unpack = GenericUnpack::new(input.source, self).map_err(|error| error.to_string())?;
        let decoder = GenericDecode::new(input.source, self).map_err(|error| error.to_string())?;
        let decoder = decoder.behind(&unpack);
        Ok((Box::new(unpack), several(&decoder, decoders)))
    }

    fn wants_stream(&self) -> bool {
        self.stream
    }

    fn wire_units(&self, is_stream: bool, _is_asked: bool) -> &'static [Unit] {
        if is_stream { &[Unit::Frames] } else { &[Unit::Datagrams, Unit::Frames] }
    }

    fn channels(&self) -> (u16, u16) {
        (self.first_channel(), u16::try_from(self.channel_count()).unwrap_or(u16::MAX))
    }

    fn has_set(&self, key: &str) -> bool {
        key == "part" && self.part.is_some()
    }
}
