//! The entry of the family in `FORMATS`.

use thalweg_data::{BoardId, LossReason};

use super::wire::{self, Datagram};
use super::{emulate, settings::Settings};
use crate::format::Format;
use crate::numbered::NumberedHits;
use crate::unit_decode::{BoardHit, HitMapping, UnitHits};

/// The entry of the family.
pub static FORMAT: Format = Format {
    document: Some("docs/formats/example.md"),
    #[cfg(any(test, feature = "harness"))]
    fuzz: super::check::FUZZ,
    ..Format::of_hits::<Settings>("example", "The documented example of a format; no hardware speaks it.")
        .with_self_triggered::<emulate::Settings>()
};

impl NumberedHits for Settings {
    const BITS: u32 = 32;

    fn number(&self, datagram: &[u8]) -> Result<u64, LossReason> {
        let Datagram { board, number, .. } = Datagram::read(datagram)?;
        if board == BoardId(self.board) { Ok(number.into()) } else { Err(LossReason::UnexpectedSender) }
    }

    fn mapping(&self) -> Result<HitMapping, String> {
        HitMapping::new(self.tick_ps, self.time_offset_ps, (self.channels, self.first_channel))
    }
}

impl UnitHits for Settings {
    const HIT_BYTES: usize = wire::HIT_BYTES;

    fn hits<'u>(&self, unit: &'u [u8]) -> impl Iterator<Item = BoardHit> + 'u {
        Datagram::read(unit).into_iter().flat_map(|datagram| datagram.hits())
    }
}
