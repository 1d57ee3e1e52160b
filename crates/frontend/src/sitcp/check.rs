//! Fuzz targets of the family.
//!
//! ```text
//!  any bytes ─► profile chosen by the first byte ─► two connections, in chunks ─► splitter ─► the ledger balances
//!  any bytes ─► a board's register port, and a client that waits for an answer
//! ```

use thalweg_data::SourceId;

use super::rbcp::{self, Client, Faults, Operation, Registers};
use super::seeds;
use super::settings::{NamedBy, Profile, Settings};
use super::split::Splitter;
use crate::check::Host;
use crate::format::FuzzTarget;

/// Fuzz targets of the family.
pub(super) static FUZZ: &[FuzzTarget] = &[
    FuzzTarget { name: "sitcp", seeds: seeds::streams, check: check_stream },
    FuzzTarget { name: "sitcp_registers", seeds: seeds::requests, check: check_registers },
];

/// The profile chosen by the first byte of a fuzzer's input.
pub fn profile_of(choice: u8) -> Profile {
    [Profile::Recbe, Profile::Belle2, Profile::AdcSitcp, Profile::StrTdc][usize::from(choice & 3)]
}

/// Reads arbitrary bytes as the stream of a board, in chunks and twice; panics if the ledger does not balance.
pub fn check_stream(input: &[u8]) {
    let Some((choice, bytes)) = input.split_first() else { return };
    let profile = profile_of(*choice);
    let named_by = if choice & 4 == 0 { NamedBy::Header } else { NamedBy::Connection };
    let one = profile == Profile::StrTdc || named_by == NamedBy::Connection;
    let boards = if one || choice & 8 == 0 { 1 } else { 5 };
    let settings = Settings { profile, boards, named_by, first_board: 7, ..Settings::default() };
    let chunk_sizes: &[usize] = [&[4096, 17][..], &[3, 1]][usize::from(choice >> 4 & 1)];
    let splitter = Splitter::new(SourceId(1), &settings).expect("the settings are valid");
    let mut host = Host::of_fragments(SourceId(1), splitter);
    host.connection(bytes, chunk_sizes);
    host.connection(bytes, chunk_sizes);
    host.finish().assert_closed();
}

/// Sends arbitrary bytes to an emulated board's register port and to a client that waits for an answer.
///
/// # Panics
/// When one of them panics, or an answer of the board is invalid.
pub fn check_registers(input: &[u8]) {
    let mut registers = Registers::recbe(7, Faults::default());
    let mut answers = Vec::new();
    registers.answer(input, 0, &mut answers);
    for answer in &answers {
        rbcp::wire::Reply::check(&answer.datagram).expect("a board answers with replies");
    }
    let mut client = Client::new(rbcp::Settings::default());
    let begun = client.begin(Operation::Read { address: 5, length: 1 }, 0);
    begun.expect("no operation is active");
    client.transmit(0);
    client.receive(input);
    answers.iter().for_each(|answer| client.receive(&answer.datagram));
}
