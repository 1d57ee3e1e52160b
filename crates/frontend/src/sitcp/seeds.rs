//! Small streams and requests from which fuzzing starts.
//!
//! ```text
//!  Board ─► seeds ─► a fuzzer's mutations ─► check
//! ```
//! The first byte of an input chooses settings; see [`check`](super::check).

use thalweg_data::BoardId;

use super::{check, emulate};
use crate::trigger::{Answer, Trigger};

/// Streams of emulated SiTCP boards: every profile, boards named by header and by connection, whole and damaged.
pub fn streams() -> Vec<Vec<u8>> {
    let input = |choice: u8| {
        let profile = check::profile_of(choice);
        let mode = [emulate::Mode::Raw, emulate::Mode::Suppressed][usize::from(choice >> 4 & 1)];
        let faults = emulate::Faults { empty_every: 4, twelve_every: 3, ..Default::default() };
        let (window, hits) = (3, Some(3.0));
        let settings = emulate::Settings { profile, mode, window, hits, faults, ..Default::default() };
        let mut board = emulate::Board::new(BoardId(7), &settings).expect("the settings are valid");
        let (mut input, mut ends) = (vec![choice], Vec::new());
        for number in 0..8 {
            board.answer(Trigger { number, time_ns: number * 1000 }, &mut input, &mut ends);
        }
        if choice & 8 != 0 {
            let middle = input.len() / 2;
            input[middle] ^= 0x5A;
        }
        input
    };
    (0..32).map(input).collect()
}

/// Requests to the registers of a SiTCP board: reads, writes, addresses beyond the map.
pub fn requests() -> Vec<Vec<u8>> {
    use super::rbcp::wire::{Command, Request};
    let request =
        |command, length, address, data| Request { command, id: 0, length, address, data }.datagram();
    vec![
        request(Command::Read, 1, 5, &[]),
        request(Command::Write, 2, 0x1C, &[0x0E, 0xA6]),
        request(Command::Read, 6, 0xFFFF_FF12, &[]),
        request(Command::Read, 255, 0xFFFF_FFFE, &[]),
        request(Command::Read, 1, 0x1000, &[]),
        vec![0xFF, 0xC8, 0, 1, 0, 0, 0, 5, 2],
    ]
}
