//! Decides which headers are accepted, for datagrams and streams alike.
//!
//! ```text
//!  Header ─► board known? ─► run? ─► length? ─► checksum? ─► index of the board
//!              └ unknown_source └ wrong_run └ too_large └ bad_hash
//! ```

use thalweg_data::{BoardId, LossReason, Mark, Refused, SourceId};

use super::settings::{Checksum, Settings, SettingsError};
use super::wire::{HEADER_BYTES, Header, MARK, VERSION, checksum};

/// Conditions for a header.
#[derive(Clone, Debug)]
pub(super) struct Admission {
    first_source: SourceId,
    first_board: BoardId,
    boards: u16,
    /// If boards are left out: the index of each board, or [`LEFT_OUT`]; otherwise empty.
    indices: Vec<u16>,
    longest_fragment_bytes: u32,
    checksum: Checksum,
    pub run: Option<u32>,
}

impl Admission {
    pub fn new(first_source: SourceId, settings: &Settings) -> Result<Admission, SettingsError> {
        settings.check(first_source)?;
        Ok(Admission {
            first_source,
            first_board: BoardId(settings.first_board),
            boards: settings.boards,
            indices: indices(settings),
            longest_fragment_bytes: settings.longest_fragment(),
            checksum: settings.checksum,
            run: settings.run,
        })
    }

    /// Returns the index of the board if the header meets all conditions.
    #[inline]
    pub fn admit(&self, header: &Header) -> Result<u16, LossReason> {
        let index = header.board.offset_from(self.first_board);
        if index >= self.boards {
            return Err(LossReason::UnknownSource);
        }
        let index = match self.indices.get(usize::from(index)) {
            None => index,
            Some(&LEFT_OUT) => return Err(LossReason::UnknownSource),
            Some(index) => *index,
        };
        if self.run.is_some_and(|run| run != header.run) {
            return Err(LossReason::WrongRun);
        }
        if header.length > self.longest_fragment_bytes {
            return Err(LossReason::TooLarge);
        }
        Ok(index)
    }

    /// Checks the payload of `unit`, which has a header and its payload.
    #[inline]
    pub fn verify(&self, header: &Header, unit: &[u8]) -> Result<(), LossReason> {
        let fine = match (self.checksum, header.checksum) {
            (Checksum::Ignored, _) | (Checksum::IfSent, None) => true,
            (Checksum::Required, None) => false,
            (_, Some(_)) => header.matches(unit),
        };
        if fine { Ok(()) } else { Err(LossReason::BadHash) }
    }

    /// Whether a refused unit is of a board that is left out by configuration.
    #[cold]
    pub fn is_left_out(&self, unit: &[u8]) -> bool {
        let offset = Header::read(unit).ok().map(|header| header.board.offset_from(self.first_board));
        offset.is_some_and(|offset| self.indices.get(usize::from(offset)) == Some(&LEFT_OUT))
    }

    /// Describes a refused unit: its source by its header, and what was expected instead.
    #[cold]
    pub fn refused(&self, reason: LossReason, mark: Mark, unit: &[u8]) -> Refused {
        let header = Header::read(unit).ok();
        let offset = header.map(|header| header.board.offset_from(self.first_board));
        let index = offset.filter(|offset| *offset < self.boards);
        let index = index.map(|offset| self.indices.get(usize::from(offset)).copied().unwrap_or(offset));
        Refused {
            source: index.filter(|index| *index != LEFT_OUT).map(|index| self.source(index)),
            trigger: header.map(|header| header.trigger),
            ..Refused::new(reason, mark, unit, self.expected(reason, header, unit))
        }
    }

    fn expected(&self, reason: LossReason, header: Option<Header>, unit: &[u8]) -> String {
        let payload = unit.len().saturating_sub(HEADER_BYTES);
        match (reason, header) {
            (LossReason::WrongConstant, _) => {
                format!("{MARK:04x} {VERSION:02x}, with which every header starts")
            }
            (LossReason::UnknownSource, Some(header)) => {
                let last = u32::from(self.first_board.0) + u32::from(self.boards) - 1;
                format!("{} to {last}; this is {}", self.first_board, header.board)
            }
            (LossReason::WrongRun, Some(header)) => {
                format!("run {}; this is of run {}", self.run.unwrap_or_default(), header.run)
            }
            (LossReason::TooLarge, Some(header)) => {
                format!("a length of at most {}; this is {}", self.longest_fragment_bytes, header.length)
            }
            (LossReason::BadHash, Some(header)) => match (header.checksum, checksum(unit)) {
                (Some(sent), Some(right)) => format!("the checksum {right:08x}; this has {sent:08x}"),
                _ => "a checksum, which `checksum = \"required\"` demands; this has none".to_owned(),
            },
            (LossReason::BadHash, None) => "a correct header check in bytes 38 and 39".to_owned(),
            (LossReason::BadLength, Some(header)) if header.parts == 1 => {
                format!("{} bytes behind the header, by its length; there are {payload}", header.length)
            }
            (LossReason::BadLength, Some(header)) => {
                format!("datagrams of {} bytes together; this one has {payload}", header.length)
            }
            (LossReason::BadLength, None) => format!("a header of {HEADER_BYTES} bytes"),
            (LossReason::DuplicateDatagram, Some(header)) => {
                format!(
                    "a datagram other than {} of {}, which was already received",
                    header.part, header.parts
                )
            }
            (LossReason::BadFraming, Some(header)) => {
                format!("one datagram, or the number in the other datagrams; this has {}", header.parts)
            }
            (LossReason::BadFraming, None) => "known flags, and a `part` below `parts`".to_owned(),
            _ => "a header by docs/formats/fragment.md".to_owned(),
        }
    }

    #[inline]
    pub fn longest_fragment_bytes(&self) -> u32 {
        self.longest_fragment_bytes
    }

    #[inline]
    pub fn source(&self, index: u16) -> SourceId {
        // The settings ensure that the source of the last board has 16 bits.
        self.first_source.plus(index)
    }
}

/// Stands for the index of a board that is left out.
const LEFT_OUT: u16 = u16::MAX;

fn indices(settings: &Settings) -> Vec<u16> {
    if settings.without.is_empty() {
        return Vec::new();
    }
    let mut indices = vec![LEFT_OUT; usize::from(settings.boards)];
    for (index, offset) in settings.offsets().enumerate() {
        indices[usize::from(offset)] = index as u16;
    }
    indices
}
