//! The entry of the family in `FORMATS`.

use serde::Deserialize;
use thalweg_data::{Fragments, Framing, LinkId, SourceId, Unit};
use toml::de::ValueDeserializer;

use super::boards::Boards;
use super::emulate;
use super::settings::NamedBy;
use super::{GenericDecode, GenericSplitter, GenericUnpack, Settings};
use crate::format::{
    BoardClock, BoardsByLink, EmulatedBoards, EmulatedLinks, EmulatedShape, Format, FormatSettings,
    FragmentFormat, FramingInput, HitFormat, HitFraming, own_emulated, several,
};

/// The entry of the family.
pub static FORMAT: Format = Format {
    #[cfg(any(test, feature = "harness"))]
    fuzz: super::check::FUZZ,
    ..Format::of_either::<Settings>("generic", "Any stream whose headers the configuration describes.", read)
        .with_emulated::<emulate::Settings>()
};

/// Boards with a table [source.fragments] are triggered.
fn read(value: ValueDeserializer<'_>) -> Result<FormatSettings, toml::de::Error> {
    let settings = Settings::deserialize(value)?;
    Ok(match settings.fragments {
        Some(_) => FormatSettings::Triggered(Box::new(settings)),
        None => FormatSettings::Hits(Box::new(settings)),
    })
}

impl HitFormat for Settings {
    fn framing(&self, input: FramingInput<'_>, decoders: usize) -> Result<HitFraming, String> {
        self.check_stream(input.is_stream)?;
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

impl Settings {
    fn check_stream(&self, is_stream: bool) -> Result<(), String> {
        if self.stream == is_stream {
            return Ok(());
        }
        let (found, write) = if is_stream { ("a stream", true) } else { ("datagrams", false) };
        Err(format!("the URL gives {found}: write `stream = {write}`, or change the URL"))
    }
}

impl FragmentFormat for Settings {
    fn boxed(&self) -> Box<dyn FragmentFormat> {
        Box::new(self.clone())
    }

    fn boards_per_link(&self) -> u16 {
        self.fragments.as_ref().map_or(1, |fragments| fragments.boards)
    }

    fn is_named_by_sender(&self) -> bool {
        self.fragments.as_ref().is_some_and(|fragments| fragments.named_by == NamedBy::Sender)
    }

    fn longest_unit(&self) -> usize {
        self.length.as_ref().and_then(|length| length.limit_bytes).unwrap_or(0)
    }

    fn of_link(&self, link: LinkId, boards_per_link: u16) -> Result<Box<dyn FragmentFormat>, String> {
        let mut own = self.clone();
        if let Some(fragments) = &mut own.fragments {
            fragments.boards = boards_per_link;
            fragments.first_board += u64::from(link.0) * u64::from(boards_per_link);
        }
        Ok(Box::new(own))
    }

    fn check(&self, first_source: SourceId) -> Result<(), String> {
        GenericSplitter::new(first_source, self).map(|_| ()).map_err(|error| error.to_string())
    }

    fn counts_frames(&self) -> bool {
        self.sequence.is_some()
    }

    fn trigger_bits(&self) -> Option<u32> {
        Boards::of(self).ok().map(|boards| boards.trigger.bits())
    }

    fn clock(&self) -> BoardClock {
        match Boards::of(self).ok().and_then(|boards| boards.time) {
            Some((_, Some(counter))) => BoardClock::Tick(counter.tick()),
            _ => BoardClock::None,
        }
    }

    fn has_lasting_time(&self) -> bool {
        self.clock() != BoardClock::None
    }

    fn framing(
        &self,
        first_source: SourceId,
        is_stream: bool,
    ) -> Result<Box<dyn Framing<Output = Fragments>>, String> {
        self.check_stream(is_stream)?;
        Ok(Box::new(GenericSplitter::new(first_source, self).map_err(|error| error.to_string())?))
    }

    fn emulates_streams(&self, _emulated: Option<&dyn EmulatedBoards>) -> bool {
        self.stream
    }

    fn emulated(
        &self,
        emulated: Option<&dyn EmulatedBoards>,
        shape: EmulatedShape,
    ) -> Result<Box<dyn EmulatedLinks>, String> {
        if FragmentFormat::is_named_by_sender(self) {
            return Err(
                "emulated boards of one port send from one address: write `named_by = \"header\"`".to_owned()
            );
        }
        let board = own_emulated::<emulate::Settings>(emulated)?;
        let boards = emulate::boards(shape.boards(), self, &board)?;
        Ok(Box::new(BoardsByLink { boards, boards_per_link: shape.boards_per_link }))
    }
}

impl EmulatedBoards for emulate::Settings {
    fn boxed(&self) -> Box<dyn EmulatedBoards> {
        Box::new(self.clone())
    }

    fn check(&self) -> Result<(), String> {
        emulate::Settings::check(self).map_err(|error| error.to_string())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_limit_that_is_written_is_the_longest_unit() {
        let longest = |keys: &str| {
            let text = format!(
                "byte_order = \"big\"\nheader_bytes = 4\n[field]\n[length]\npayload_bytes = 8\n{keys}"
            );
            let settings: Settings = toml::from_str(&text).expect("a description");
            FragmentFormat::longest_unit(&settings)
        };
        assert_eq!((longest("limit_bytes = 65536"), longest("limit_bytes = 500")), (65_536, 500));
        assert_eq!(longest(""), 0);
    }
}
