//! The outcome of a run of triggered boards.
//!
//! ```text
//!  fragments of a splitter ─► FragmentsOutcome { fragments and their bytes, snapshot }
//! ```

use thalweg_data::{Counters, Fragment, Fragments, LedgerSnapshot, LossReason, SourceId, Stage, Unit};

use super::host::Collect;
use super::ledger::{self, Counted};

/// The outcome of a run of triggered boards.
#[derive(Debug, Default)]
pub struct FragmentsOutcome {
    /// The fragments, each with a copy of its bytes.
    pub fragments: Vec<(Fragment, Vec<u8>)>,
    /// How often a splitter left over a whole block, so that the receiver gave the bytes up.
    pub given_up: u64,
    /// The ledger. Each board is a source of its own. The link is counted as the source of its board, or as the one
    /// behind its last board if it has several.
    pub snapshot: LedgerSnapshot,
}

impl FragmentsOutcome {
    /// The splitter's counters of the link.
    ///
    /// # Panics
    /// Before the end of the run.
    pub fn link(&self) -> &Counters {
        let received = self.snapshot.slots.iter().find(|slot| slot.stage == Stage::Receive);
        self.unpacked(received.expect("the run has ended").source)
    }

    /// The counters of this source's fragments.
    ///
    /// # Panics
    /// When there is no such source.
    pub fn unpacked(&self, source: SourceId) -> &Counters {
        &self.snapshot.slot(Stage::Unpack, source).expect("a board of the run").counters
    }

    /// The counters of what a board sent, by its own numbers.
    ///
    /// # Panics
    /// When its format does not count.
    pub fn wire(&self, source: SourceId) -> &Counters {
        &self.snapshot.slot(Stage::Wire, source).expect("a board that counts").counters
    }

    /// Everything lost for one reason, in all counters.
    pub fn lost(&self, reason: LossReason, unit: Unit) -> u64 {
        self.snapshot.slots.iter().map(|slot| slot.counters.total_lost(reason, unit)).sum()
    }

    /// The trigger numbers, in the order of the fragments.
    pub fn triggers(&self) -> Vec<u64> {
        self.fragments.iter().map(|(fragment, _)| fragment.trigger).collect()
    }

    /// Checks that the ledger balances and agrees with the fragments.
    ///
    /// # Panics
    /// When it does not.
    pub fn assert_closed(&self) {
        ledger::assert_balanced(&self.snapshot);
        let unpacked = || self.snapshot.slots.iter().filter(|slot| slot.stage == Stage::Unpack);
        for slot in unpacked().filter(|slot| slot.counts(Unit::Fragments)) {
            let own = self.fragments.iter().filter(|(fragment, _)| fragment.source == slot.source).count();
            let counted = slot.counters.total_output(Unit::Fragments);
            assert_eq!(counted, own as u64, "fragments of source {}", slot.source);
        }
        let counted: u64 = unpacked().map(|slot| slot.counters.total_output(Unit::Fragments)).sum();
        assert_eq!(counted, self.fragments.len() as u64, "each fragment is counted once");
        let bytes: usize = self.fragments.iter().map(|(_, bytes)| bytes.len()).sum();
        assert_eq!(self.link().total_output(Unit::Bytes), bytes as u64);
        for (fragment, bytes) in &self.fragments {
            assert_eq!(fragment.bytes as usize, bytes.len(), "the length of a fragment is that of its bytes");
        }
    }
}

impl Collect for FragmentsOutcome {
    type Units = Fragments;
    type Outcome = FragmentsOutcome;
    const MARK_STEP_NS: u64 = 1_000_000;

    fn collect(&mut self, units: &Fragments) {
        for (fragment, slices) in units.iter() {
            let bytes = slices.iter().flat_map(|slice| units.leases.bytes(*slice)).copied();
            self.fragments.push((*fragment, bytes.collect()));
        }
    }

    fn counted(&self) -> Counted<'_> {
        Counted { found: Unit::Fragments, wire: &[Unit::Frames], decode: None }
    }

    fn close(&mut self, snapshot: LedgerSnapshot, given_up: u64) {
        (self.snapshot, self.given_up) = (snapshot, given_up);
    }

    fn outcome(&self) -> &FragmentsOutcome {
        self
    }

    fn into_outcome(self) -> FragmentsOutcome {
        self
    }
}
