//! Runs a front end as the host does and checks that its ledger balances: for its tests and for fuzzing.
//!
//! ```text
//!  bytes ──► chunks ────┐                                      ┌► decoder ─► HitsOutcome      ┐
//!                       ├► Host: blocks of a pool ─► framing ──┤                              ├► assert_closed
//!  joined ─► datagrams ─┘                                      └───────────► FragmentsOutcome ┘
//! ```
//! This is not part of the data path: it copies all data. Families add their own settings, chosen by the first byte of
//! a fuzzer's input, and their seeds.

mod fragments;
mod hits;
mod host;
mod joined;
mod ledger;

use thalweg_data::{Decode, Fragments, Frames, Framing, Hit, SourceId};

use crate::format::{FramingInput, HitFormat, SelfTriggeredSettings};
use crate::self_triggered::Outgoing;

pub use fragments::FragmentsOutcome;
pub use hits::{DecodedHits, HitsOutcome};
pub use host::{BLOCK_BYTES, Collect, Host};
pub use joined::{joined, split};

/// Reads `bytes` as a stream, in chunks of the given sizes, used in turn; each is a receive call. Decodes the found
/// units.
///
/// # Panics
/// As [`Host::connection`].
pub fn hits_of_stream(
    framing: impl Framing<Output = Frames>,
    decode: impl Decode + 'static,
    bytes: &[u8],
    chunk_sizes: &[usize],
) -> HitsOutcome {
    let mut host = Host::of_hits(Box::new(framing), Box::new(decode));
    host.connection(bytes, chunk_sizes);
    host.finish()
}

/// Reads datagrams, and decodes the found units.
///
/// # Panics
/// As [`Host::datagram`].
pub fn hits_of_datagrams<'a>(
    framing: impl Framing<Output = Frames>,
    decode: impl Decode + 'static,
    datagrams: impl IntoIterator<Item = &'a [u8]>,
) -> HitsOutcome {
    let mut host = Host::of_hits(Box::new(framing), Box::new(decode));
    host.datagrams(datagrams);
    host.finish()
}

/// Reads `bytes` as a stream, in chunks of the given sizes, used in turn, with a splitter whose first board is source
/// 0.
///
/// # Panics
/// As [`Host::connection`].
pub fn fragments_of_stream(
    splitter: impl Framing<Output = Fragments>,
    bytes: &[u8],
    chunk_sizes: &[usize],
) -> FragmentsOutcome {
    let mut host = Host::of_fragments(SourceId(0), splitter);
    host.connection(bytes, chunk_sizes);
    host.finish()
}

/// Reads datagrams with a splitter whose first board is source 0.
///
/// # Panics
/// As [`Host::datagram`].
pub fn fragments_of_datagrams<'a>(
    splitter: impl Framing<Output = Fragments>,
    datagrams: impl IntoIterator<Item = &'a [u8]>,
) -> FragmentsOutcome {
    let mut host = Host::of_fragments(SourceId(0), splitter);
    host.datagrams(datagrams);
    host.finish()
}

/// The datagrams that an emulated board sends in its first `run_ms`, and their hits.
///
/// # Panics
/// When the settings cannot be used.
pub fn sent(settings: &dyn SelfTriggeredSettings, run_ms: u64) -> (Vec<Vec<u8>>, Vec<Hit>) {
    let mut board = settings.board().expect("the settings are valid");
    let (mut out, mut datagrams, mut hits) = (Outgoing::new(BLOCK_BYTES), Vec::new(), Vec::new());
    board.record_truth(true);
    board.arm().and_then(|()| board.start(0)).expect("it was idle");
    board.stop(run_ms * 1_000_000);
    while board.produce(run_ms * 1_000_000, &mut out) || !out.is_empty() {
        datagrams.extend(out.datagrams().map(<[u8]>::to_vec));
        out.clear();
    }
    board.take_truth(&mut hits);
    (datagrams, hits)
}

/// The outcome of datagrams that a source with these settings receives.
///
/// # Panics
/// When the settings cannot be used, or the front end panics.
pub fn received<'a>(format: &dyn HitFormat, datagrams: impl IntoIterator<Item = &'a [u8]>) -> HitsOutcome {
    let input = FramingInput {
        source: SourceId(0),
        is_stream: false,
        scheme: "udp",
        asked: None,
        blocks: host::BLOCKS,
        block_bytes: BLOCK_BYTES,
    };
    let (framing, mut decoders) = format.framing(input, 1).expect("the settings are valid");
    let mut host = Host::of_hits(framing, decoders.remove(0));
    host.datagrams(datagrams);
    host.finish()
}
