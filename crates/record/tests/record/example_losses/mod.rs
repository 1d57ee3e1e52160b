//! A ledger whose losses grow as a test asks, and the list of them.

use thalweg_data::{CounterSlot, Counters, Ledger, LedgerSnapshot, LossReason, SourceId, Stage, Unit};
use thalweg_record::read::LossesReader;
use thalweg_record::{
    LossBounds, LossList, LossRow, RunDirectory, RunRecord, RunRecordState, Settings, Table,
};

use crate::example_run::sources;

/// A second, in the unit of the table's times.
pub const SECOND_NS: u64 = 1_000_000_000;

/// One run with two boards, which lose fragments on the wire.
pub struct Losing {
    pub run: RunDirectory,
    pub list: LossList,
    ledger: Ledger,
    boards: Vec<(CounterSlot, Counters)>,
}

impl Losing {
    pub fn new(parent: &std::path::Path, bounds: LossBounds) -> Losing {
        let run = RunDirectory::create(parent, "losing").expect("made");
        let ledger = Ledger::create(Some(&run.ledger()), &sources()).expect("made");
        let open =
            |source| (ledger.open(Stage::Wire, SourceId(source), &[Unit::Fragments]), Counters::default());
        let boards = vec![open(0), open(1)];
        let sync = Settings::default().sync;
        let list = LossList::create(&run, &sources(), sync, bounds).expect("made");
        Losing { run, list, ledger, boards }
    }

    /// Counts at one board as `count` says.
    pub fn count(&mut self, board: usize, count: impl FnOnce(&mut Counters)) {
        let (slot, counters) = &mut self.boards[board];
        count(counters);
        slot.publish(counters);
    }

    /// A board loses so many fragments.
    pub fn lose(&mut self, board: usize, count: u64) {
        self.count(board, |counters| {
            counters.input(Unit::Fragments, count);
            counters.lost(LossReason::MissingFragment, Unit::Fragments, count);
        });
    }

    pub fn snapshot(&self) -> LedgerSnapshot {
        self.ledger.snapshot()
    }

    /// Reads the ledger at so many seconds.
    pub fn take(&mut self, second: u64) {
        let snapshot = self.snapshot();
        self.list.take(&snapshot, &|_, _| Vec::new(), second * SECOND_NS).expect("written");
    }

    /// Ends the run at so many seconds; returns the rows on file.
    pub fn finish(&mut self, second: u64) -> Vec<LossRow> {
        let snapshot = self.snapshot();
        self.list.finish(&self.run, &snapshot, &|_, _| Vec::new(), second * SECOND_NS).expect("written");
        let mut record = RunRecord::start(&self.run, "losing", "", &sources());
        record.stop(RunRecordState::Stopped, vec![self.list.summary()], Some(&snapshot));
        record.write(&self.run).expect("written");
        self.run.release_reserved();
        rows(&self.run)
    }
}

/// The rows on file.
pub fn rows(run: &RunDirectory) -> Vec<LossRow> {
    let reader = LossesReader::open(&run.table(Table::Losses)).expect("opens");
    reader.read_all().expect("reads")
}
