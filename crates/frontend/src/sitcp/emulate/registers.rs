//! Registers that an emulated board shares with its register port.
//!
//! ```text
//!  request ─► SharedRegisters ─► answers
//!                 │ changed
//!                 ▼
//!             SitcpBoard: mode and window of its blocks; a reset closes its connection
//! ```

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard};

use super::Board;
use crate::format::{DueDatagram, EmulatedRegisters};
use crate::sitcp::rbcp::Registers;
use crate::trigger::{Answer, Hosted, Trigger};

/// Registers that the board and its register port share.
#[derive(Clone)]
pub struct SharedRegisters {
    registers: Arc<Mutex<Registers>>,
    /// Number of served requests.
    version: Arc<AtomicU64>,
}

impl SharedRegisters {
    /// Shares the registers.
    pub fn new(registers: Registers) -> SharedRegisters {
        SharedRegisters { registers: Arc::new(Mutex::new(registers)), version: Arc::default() }
    }

    /// A copy of their current state.
    pub fn now(&self) -> Registers {
        lock(&self.registers).clone()
    }
}

impl EmulatedRegisters for SharedRegisters {
    fn answer(&mut self, datagram: &[u8], now_ns: u64, answers: &mut Vec<DueDatagram>) {
        lock(&self.registers).answer(datagram, now_ns, answers);
        // The board looks after them when it sees a new number.
        self.version.fetch_add(1, Ordering::AcqRel);
    }
}

/// An emulated SiTCP board that follows its registers.
pub struct SitcpBoard {
    board: Board,
    registers: Option<SharedRegisters>,
    version: u64,
    resets: u64,
}

impl SitcpBoard {
    /// Creates a board; without registers its settings do not change.
    pub fn new(board: Board, registers: Option<SharedRegisters>) -> SitcpBoard {
        SitcpBoard { board, registers, version: 0, resets: 0 }
    }
}

impl Answer for SitcpBoard {
    fn answer(&mut self, trigger: Trigger, bytes: &mut Vec<u8>, ends: &mut Vec<usize>) {
        self.board.answer(trigger, bytes, ends);
    }

    fn answer_number(&self, trigger: Trigger) -> u64 {
        self.board.answer_number(trigger)
    }

    fn doubled(&self) -> u64 {
        self.board.doubled()
    }
}

impl Hosted for SitcpBoard {
    fn connected(&mut self) {
        self.board.connect();
    }

    fn attend(&mut self) -> bool {
        let Some(shared) = &self.registers else { return false };
        let version = shared.version.load(Ordering::Acquire);
        if version == self.version {
            return false;
        }
        self.version = version;
        let registers = lock(&shared.registers);
        self.board.follow(&registers);
        let before = std::mem::replace(&mut self.resets, registers.resets());
        before != self.resets
    }
}

/// Registers are consistent between requests, even after a panic.
fn lock(registers: &Mutex<Registers>) -> MutexGuard<'_, Registers> {
    registers.lock().unwrap_or_else(|poisoned| poisoned.into_inner())
}
