//! An emulated SiTCP board: takes triggers and appends the bytes of its stream, without socket or clock.
//!
//! ```text
//!  Settings ─► Payloads (prepared) ─┐
//!  Trigger ─► Board ─► new header + one of the prepared bodies ─► bytes
//!               ▲ connect, follow(registers), answer_unfinished
//! ```
//! The host owns sockets and time: it calls [`Board::connect`] when a client has connected, [`Board::follow`] when
//! registers were written, and sends what [`Answer::answer`] appends. The same settings and triggers give the same
//! bytes. Bodies are prepared in advance, so that one core emits a million blocks a second; times on the scale of the
//! trigger's are updated in each body.

mod payloads;
mod registers;
mod settings;

use std::sync::Arc;

use thalweg_data::BoardId;

use self::payloads::{Payload, Payloads};
pub use self::registers::{SharedRegisters, SitcpBoard};
pub use self::settings::{Faults, Mode, Settings, SettingsError};
use super::emit::{self, BlockFields, FrameEnd};
use super::rbcp::Registers;
use super::settings::Profile;
use super::wire::recbe::{HIT, TIME_MASK};
use super::wire::{recbe, str_tdc};
use crate::trigger::{Answer, Trigger};

/// One emulated board.
#[derive(Clone, Debug)]
pub struct Board {
    board: BoardId,
    settings: Settings,
    payloads: Arc<Payloads>,
    sent_number: u16,
    /// Triggers seen on this connection.
    triggers: u64,
    blocks: u64,
    /// Number of blocks that were sent twice.
    doubled: u64,
    bytes: u64,
}

impl Board {
    /// Creates the board of this number.
    ///
    /// # Errors
    /// When the settings cannot be used.
    pub fn new(board: BoardId, settings: &Settings) -> Result<Board, SettingsError> {
        settings.check()?;
        let payloads = Arc::new(Payloads::new(settings));
        let settings = settings.clone();
        Ok(Board { board, settings, payloads, sent_number: 0, triggers: 0, blocks: 0, doubled: 0, bytes: 0 })
    }

    /// Creates another board like this one. Both send the same prepared bodies, so that those of hundreds of boards fit
    /// the cache; each board starts at a different one.
    pub fn like(&self, board: BoardId) -> Board {
        Board { board, sent_number: 0, triggers: 0, blocks: 0, doubled: 0, bytes: 0, ..self.clone() }
    }

    /// A client has connected: unsent data are discarded, and the counters restart.
    pub fn connect(&mut self) {
        self.sent_number = 0;
        self.triggers = 0;
    }

    /// Applies mode and window of the board's registers.
    pub fn follow(&mut self, registers: &Registers) {
        let mode = match registers.mode() {
            recbe::Mode::Raw => Mode::Raw,
            recbe::Mode::Suppressed => Mode::Suppressed,
        };
        let window = u16::from(registers.window());
        if (mode, window) != (self.settings.mode, self.settings.window) {
            (self.settings.mode, self.settings.window) = (mode, window);
            self.payloads = Arc::new(Payloads::new(&self.settings));
        }
    }

    /// The connection is closed in the middle of a block: appends the start of one.
    pub fn answer_unfinished(&mut self, trigger: Trigger, bytes: &mut Vec<u8>) {
        let start = bytes.len();
        self.block(trigger, bytes);
        bytes.truncate(start + (bytes.len() - start) * 2 / 3);
    }

    /// Number of sent blocks and bytes, including unfinished blocks.
    pub fn totals(&self) -> (u64, u64) {
        (self.blocks, self.bytes)
    }

    /// Appends one block.
    fn block(&mut self, trigger: Trigger, bytes: &mut Vec<u8>) {
        let start = bytes.len();
        let faults = &self.settings.faults;
        let payload = match self.triggers {
            nth if is_due(faults.empty_every, nth) => self.payloads.empty(),
            nth if is_due(faults.twelve_every, nth) => self.payloads.twelve(),
            nth => self.payloads.choose(nth.wrapping_add(u64::from(self.board.0) * 7)),
        };
        let number = self.answer_number(trigger) as u32;
        let time = trigger.time_ns as u16 & TIME_MASK;
        match self.settings.profile {
            Profile::Recbe | Profile::Belle2 => {
                let raw = self.settings.mode == Mode::Raw;
                let fields = BlockFields {
                    mode: if raw { recbe::Mode::Raw } else { recbe::Mode::Suppressed },
                    board: self.board,
                    sent_number: self.sent_number,
                    // The top bit is not part of the time, and some raw blocks have it set.
                    trigger_time: time | if raw && number & 1 == 1 { !TIME_MASK } else { 0 },
                    trigger: number,
                };
                let length = payload.body.len() as u16;
                let belle2 = self.settings.profile == Profile::Belle2;
                let header = if belle2 { fields.belle2_header(length) } else { fields.recbe_header(length) };
                bytes.extend_from_slice(&header);
                append_stamped(payload, time, bytes);
            }
            Profile::AdcSitcp => {
                let length = payload.body.len() as u32;
                bytes.extend_from_slice(&emit::adc_sitcp_header(u32::from(self.board.0), number, length));
                bytes.extend_from_slice(&payload.body);
            }
            Profile::StrTdc => {
                let length = payload.body.len() as u32;
                bytes.extend_from_slice(&payload.body);
                let (generated_bytes, sent_bytes) = (length, length);
                let end = FrameEnd { number, generated_bytes, sent_bytes, ..FrameEnd::default() };
                bytes.extend_from_slice(&end.bytes());
            }
        }
        self.sent_number = self.sent_number.wrapping_add(1);
        self.blocks += 1;
        self.bytes += (bytes.len() - start) as u64;
    }
}

impl Answer for Board {
    fn answer(&mut self, trigger: Trigger, bytes: &mut Vec<u8>, _ends: &mut Vec<usize>) {
        self.triggers += 1;
        if is_due(self.settings.faults.lose_every, self.triggers) {
            // The board had the event and counted it, but could not send it.
            self.sent_number = self.sent_number.wrapping_add(1);
            return;
        }
        self.block(trigger, bytes);
        if is_due(self.settings.faults.double_every, self.triggers) {
            self.block(trigger, bytes);
            self.doubled += 1;
        }
    }

    fn answer_number(&self, trigger: Trigger) -> u64 {
        let number = (trigger.number as u32).wrapping_add(self.settings.first_trigger);
        u64::from(match self.settings.profile {
            Profile::StrTdc => number & ((1 << str_tdc::FRAME_NUMBER_BITS) - 1),
            Profile::Recbe | Profile::Belle2 | Profile::AdcSitcp => number,
        })
    }

    fn doubled(&self) -> u64 {
        self.doubled
    }
}

fn is_due(every: u32, nth: u64) -> bool {
    every > 0 && nth.is_multiple_of(u64::from(every))
}

/// Appends a body; the times of its hits are made relative to the trigger's time.
fn append_stamped(payload: &Payload, trigger_time: u16, bytes: &mut Vec<u8>) {
    let start = bytes.len();
    bytes.extend_from_slice(&payload.body);
    for (at, before) in &payload.hits {
        let word = HIT | trigger_time.wrapping_sub(*before) & TIME_MASK;
        let at = start + *at as usize;
        bytes[at..at + 2].copy_from_slice(&word.to_be_bytes());
    }
}
