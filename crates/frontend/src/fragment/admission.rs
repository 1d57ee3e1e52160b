//! Which headers are ours, and the boards' own accounts: the same for datagrams and streams.
//!
//! ```text
//!  Header ─► board known? ─► run? ─► length? ─► checksum? ─► index of the board
//!              └ unknown_source └ wrong_run └ too_large └ bad_hash
//! ```

use thalweg_data::{LossReason, SourceId, Tally};

use super::settings::{Checksum, Settings, SettingsError};
use super::wire::Header;

/// What a header must say.
#[derive(Clone, Debug)]
pub(super) struct Admission {
    first_source: u16,
    first_board: u16,
    boards: u16,
    longest_fragment_bytes: u32,
    checksum: Checksum,
    pub run: Option<u32>,
}

impl Admission {
    pub fn new(first_source: SourceId, settings: &Settings) -> Result<Admission, SettingsError> {
        settings.check(first_source)?;
        Ok(Admission {
            first_source: first_source.0,
            first_board: settings.first_board,
            boards: settings.boards,
            longest_fragment_bytes: settings.longest_fragment_bytes,
            checksum: settings.checksum,
            run: settings.run,
        })
    }

    /// Index of the board, when all that the header says is possible.
    #[inline]
    pub fn admit(&self, header: &Header) -> Result<u16, LossReason> {
        let index = header.board.wrapping_sub(self.first_board);
        if index >= self.boards {
            return Err(LossReason::UnknownSource);
        }
        if self.run.is_some_and(|run| run != header.run) {
            return Err(LossReason::WrongRun);
        }
        if header.length > self.longest_fragment_bytes {
            return Err(LossReason::TooLarge);
        }
        Ok(index)
    }

    /// Whether `unit`, header and payload, may be believed as a whole.
    #[inline]
    pub fn verify(&self, header: &Header, unit: &[u8]) -> Result<(), LossReason> {
        let fine = match (self.checksum, header.checksum) {
            (Checksum::Ignored, _) | (Checksum::IfSent, None) => true,
            (Checksum::Required, None) => false,
            (_, Some(_)) => header.matches(unit),
        };
        if fine { Ok(()) } else { Err(LossReason::BadHash) }
    }

    #[inline]
    pub fn longest_fragment_bytes(&self) -> u32 {
        self.longest_fragment_bytes
    }

    #[inline]
    pub fn source(&self, index: u16) -> SourceId {
        // Checked at the start: the last board's source has 16 bits.
        SourceId(self.first_source + index)
    }
}

/// The fragments of each board, where a link has several.
#[derive(Debug)]
pub(super) struct BoardTallies {
    several: Vec<Tally>,
}

impl BoardTallies {
    pub fn new(boards: u16) -> BoardTallies {
        let several = if boards > 1 { usize::from(boards) } else { 0 };
        BoardTallies { several: vec![Tally::default(); several] }
    }

    /// The tally that counts a board's fragments: its own, or that of the link to it alone.
    #[inline]
    pub fn of<'a>(&'a mut self, index: u16, link: &'a mut Tally) -> &'a mut Tally {
        self.several.get_mut(usize::from(index)).unwrap_or(link)
    }

    pub fn several(&self) -> &[Tally] {
        &self.several
    }
}
