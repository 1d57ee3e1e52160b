//! A board that answers each trigger with one fragment.
//!
//! ```text
//!  Trigger { number, time_ns } ─► Header { board, run, number, ticks } + Content::payload ─► bytes, ends
//! ```

use std::sync::Arc;

use thalweg_data::BoardId;

use super::content::Content;
use super::settings::{Settings, SettingsError};
use crate::fragment::emit;
use crate::fragment::wire::Header;
use crate::trigger::{Answer, Trigger};

/// An emulated board.
#[derive(Clone, Debug)]
pub struct Board {
    header: Header,
    content: Arc<Content>,
    trigger_mask: u64,
    tick_ps: u64,
    datagram_bytes: usize,
    stream: bool,
    checksum: bool,
    sent: u64,
}

/// Creates `count` boards with consecutive numbers from `first` on, which share their prepared content.
///
/// # Errors
/// When the settings cannot be used.
pub fn boards(first: BoardId, count: u16, settings: &Settings) -> Result<Vec<Board>, SettingsError> {
    let content = Arc::new(Content::new(settings)?);
    Ok((0..count).map(|offset| Board::with_content(first.plus(offset), settings, content.clone())).collect())
}

impl Board {
    /// Creates the board of this number.
    ///
    /// # Errors
    /// When the settings cannot be used.
    pub fn new(board: BoardId, settings: &Settings) -> Result<Board, SettingsError> {
        Ok(Board::with_content(board, settings, Arc::new(Content::new(settings)?)))
    }

    fn with_content(board: BoardId, settings: &Settings, content: Arc<Content>) -> Board {
        Board {
            header: Header { board, run: settings.run, ..Header::default() },
            content,
            trigger_mask: u64::MAX >> (64 - settings.trigger_bits),
            tick_ps: settings.tick_ps,
            datagram_bytes: settings.datagram_bytes as usize,
            stream: settings.stream,
            checksum: settings.checksum,
            sent: 0,
        }
    }

    /// Starts a run: all headers from now on have its number.
    pub fn start_run(&mut self, run: u32) {
        self.header.run = run;
    }

    /// Number of fragments that the board has sent.
    pub fn sent(&self) -> u64 {
        self.sent
    }

    /// The board's number.
    pub fn number(&self) -> BoardId {
        self.header.board
    }

    fn ticks(&self, time_ns: u64) -> u64 {
        match self.tick_ps {
            1000 => time_ns,
            // The clock wraps as 64 bits do.
            tick_ps => (u128::from(time_ns) * 1000 / u128::from(tick_ps)) as u64,
        }
    }
}

impl Answer for Board {
    fn answer(&mut self, trigger: Trigger, bytes: &mut Vec<u8>, ends: &mut Vec<usize>) {
        let number = self.answer_number(trigger);
        let header = Header { trigger: number, ticks: self.ticks(trigger.time_ns), ..self.header };
        let payload = self.content.payload(header.board, number);
        match self.stream {
            true => emit::stream(&header, payload, self.checksum, bytes),
            false => emit::datagrams(&header, payload, self.datagram_bytes, self.checksum, bytes, ends),
        }
        self.sent += 1;
    }

    fn answer_number(&self, trigger: Trigger) -> u64 {
        trigger.number & self.trigger_mask
    }
}
