//! The ledger of a checked run.
//!
//! ```text
//!  one board:       source first             wire · receive · unpack (· decode)
//!  several boards:  sources first, first + 1, …     wire · unpack of the board's fragments
//!                   the source behind them          receive · unpack of the link
//! ```

use thalweg_data::ledger::CounterSnapshot;
use thalweg_data::{Counters, Framing, LedgerSnapshot, SourceId, Stage, Unit};

/// Units of receive calls.
const RECEIVED: [Unit; 2] = [Unit::Datagrams, Unit::Bytes];

/// The counters of a run, whose framing finds frames for a decoder, or fragments.
#[derive(Clone, Copy, Debug)]
pub struct Counted<'a> {
    /// The unit found by the framing.
    pub found: Unit,
    /// The units of the sequence numbers that the framing follows.
    pub wire: &'static [Unit],
    /// The counters of the decoder, if there is one.
    pub decode: Option<&'a Counters>,
}

/// Assembles the counters of a run whose first board is `first_source`. A stream of fragments is cut into frames first.
pub(super) fn snapshot<F: Framing + ?Sized>(
    first_source: SourceId,
    receive: &Counters,
    framing: &F,
    counted: Counted<'_>,
    is_stream: bool,
) -> LedgerSnapshot {
    let slot = |stage, source: usize, units: &[Unit], counters: &Counters| CounterSnapshot {
        stage,
        source: SourceId(source as u16),
        units: units.iter().fold(0, |mask, unit| mask | 1 << *unit as u64),
        counters: counters.clone(),
    };
    let (first, boards) = (first_source.index(), framing.board_counters());
    // A link to one board has the source of that board and no board counters.
    let link = first + boards.len();
    let found = (boards.is_empty() || is_stream).then_some(counted.found);
    let link_units: Vec<Unit> =
        RECEIVED.into_iter().chain(found).chain(is_stream.then_some(Unit::Frames)).collect();
    let mut slots = vec![
        slot(Stage::Receive, link, &RECEIVED, receive),
        slot(Stage::Unpack, link, &link_units, framing.counters()),
    ];
    for (source, counters) in (first..).zip(boards) {
        slots.push(slot(Stage::Unpack, source, &[counted.found], counters));
    }
    for (source, counters) in (first..).zip(framing.wire_counters()) {
        slots.push(slot(Stage::Wire, source, counted.wire, counters));
    }
    if let Some(counters) = counted.decode {
        slots.push(slot(Stage::Decode, first, &[Unit::Bytes, Unit::Frames, Unit::Hits], counters));
    }
    let sources = slots.iter().map(|slot| slot.source.index() + 1).max().unwrap_or(0);
    LedgerSnapshot::of(vec!["checked".to_owned(); sources], slots)
}

/// Panics if the ledger does not balance.
pub(super) fn assert_balanced(snapshot: &LedgerSnapshot) {
    let discrepancies = snapshot.discrepancies();
    assert!(discrepancies.is_empty(), "the ledger does not balance: {discrepancies:?}");
}
