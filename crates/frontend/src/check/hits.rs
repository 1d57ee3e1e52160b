//! The outcome of a run of a source of hits.
//!
//! ```text
//!  units of a framing ─► Decode ─► HitsOutcome { hits, extras, samples, …, snapshot }
//! ```

use thalweg_data::waveform::Samples;
use thalweg_data::{
    Counters, Decode, Extra, Flags, Frames, Hit, Hits, LedgerSnapshot, LossReason, Signal, SourceId, Stage,
    Statistics, Unit,
};

use super::host::Collect;
use super::ledger::{self, Counted};

/// The outcome of a run of a source of hits.
#[derive(Debug, Default)]
pub struct HitsOutcome {
    /// The hits, in the order of decoding.
    pub hits: Vec<Hit>,
    /// Their extras. Their slices are not valid after the run.
    pub extras: Vec<Extra>,
    /// The samples of each extra; empty if it has none.
    pub samples: Vec<Samples>,
    /// The bytes of each extra's samples, as received.
    pub sample_bytes: Vec<Vec<u8>>,
    /// The bytes of each extra's user words.
    pub words: Vec<Vec<u8>>,
    /// The bytes of each slice of a unit.
    pub units: Vec<Vec<u8>>,
    /// The counters that the board reports.
    pub statistics: Vec<Statistics>,
    /// The signals of the board about the run.
    pub signals: Vec<Signal>,
    /// How often a framing left over a whole block, so that the receiver gave the bytes up.
    pub given_up: u64,
    /// Counters of receive, unpack, decode and wire of source 0.
    pub snapshot: LedgerSnapshot,
}

impl HitsOutcome {
    /// The counters of one stage.
    ///
    /// # Panics
    /// When the run has no such stage.
    pub fn counters(&self, stage: Stage) -> &Counters {
        &self.snapshot.slot(stage, SourceId(0)).expect("the run has this stage").counters
    }

    /// Everything lost for one reason, in all stages.
    pub fn lost(&self, reason: LossReason, unit: Unit) -> u64 {
        self.snapshot.slots.iter().map(|slot| slot.counters.total_lost(reason, unit)).sum()
    }

    /// Checks that the ledger balances and agrees with the hits.
    ///
    /// # Panics
    /// When it does not.
    pub fn assert_closed(&self) {
        ledger::assert_balanced(&self.snapshot);
        assert!(
            self.snapshot.slot(Stage::Wire, SourceId(0)).is_some(),
            "the framing has counters of the wire"
        );
        assert_eq!(self.counters(Stage::Decode).total_output(Unit::Hits), self.hits.len() as u64);
        let with_extra = self.hits.iter().filter(|hit| hit.flags.has(Flags::EXTRA));
        let times = with_extra.map(|hit| hit.time_ps);
        assert!(
            times.eq(self.extras.iter().map(|extra| extra.time_ps)),
            "row k belongs to the k-th hit with an extra"
        );
    }
}

/// A decoder, and the hits that it has decoded so far.
pub struct DecodedHits {
    decode: Box<dyn Decode>,
    hits: Hits,
    outcome: HitsOutcome,
}

impl DecodedHits {
    pub(super) fn new(decode: Box<dyn Decode>) -> DecodedHits {
        DecodedHits { decode, hits: Hits::default(), outcome: HitsOutcome::default() }
    }
}

impl Collect for DecodedHits {
    type Units = Frames;
    type Outcome = HitsOutcome;
    /// Short enough for some batches within the millisecond for which a framing waits for a late datagram.
    const MARK_STEP_NS: u64 = 100_000;

    fn collect(&mut self, units: &Frames) {
        let DecodedHits { decode, hits, outcome } = self;
        hits.clear();
        decode.decode(units, hits);
        outcome.units.extend(units.slices.iter().map(|slice| units.bytes(*slice).to_vec()));
        outcome.hits.extend(&hits.hits);
        outcome.statistics.extend_from_slice(&hits.statistics);
        outcome.signals.extend(hits.signals.iter().map(|(_, signal)| *signal));
        let chain = |first: u32, count: u16| {
            let slices = hits.slices.iter().skip(first as usize).take(usize::from(count));
            slices.flat_map(|slice| hits.leases.bytes(*slice)).copied().collect()
        };
        for extra in &hits.extras {
            let mut samples = Samples::default();
            samples.read(extra, &hits.slices, &hits.leases);
            outcome.samples.push(samples);
            outcome.sample_bytes.push(chain(extra.samples_first, extra.samples_count));
            outcome.words.push(chain(extra.words_first, extra.words_count));
            outcome.extras.push(*extra);
        }
    }

    fn counted(&self) -> Counted<'_> {
        Counted {
            found: Unit::Frames,
            wire: &[Unit::Datagrams, Unit::Frames],
            decode: Some(self.decode.counters()),
        }
    }

    fn close(&mut self, snapshot: LedgerSnapshot, given_up: u64) {
        (self.outcome.snapshot, self.outcome.given_up) = (snapshot, given_up);
    }

    fn outcome(&self) -> &HitsOutcome {
        &self.outcome
    }

    fn into_outcome(self) -> HitsOutcome {
        self.outcome
    }
}
