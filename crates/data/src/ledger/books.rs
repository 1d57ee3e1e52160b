//! The books of one moment, and whether they close.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;

use schemars::JsonSchema;
use serde::Serialize;

use super::carrier::Carrier;
use super::counters::{Counters, entry};
use super::reasons::Quality;
use super::stages::StageRole;
use super::words::{LossReason, Noted, Stage, Unit};
use crate::batch::SourceId;
use crate::topology::{Counts, Lane, Topology};

/// One stage's counts for one source.
#[derive(Clone, Debug, PartialEq)]
pub struct AccountBook {
    /// Where.
    pub stage: Stage,
    /// Whose.
    pub source: SourceId,
    /// One bit per [`Unit`] that this stage counts.
    pub units: u64,
    /// The counts.
    pub counters: Counters,
}

/// All accounts at one moment.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Books {
    /// Names of the sources, by number.
    pub sources: Vec<String>,
    /// The open accounts, by source and stage.
    pub accounts: Vec<AccountBook>,
    /// Who feeds whom; without, what the accounts that there are tell of it.
    pub topology: Option<Arc<Topology>>,
    /// As each account was when a marker passed it: of sources that are read apart, at different moments.
    pub at_a_marker: bool,
    /// Of a recording of version 1: what came into being was not counted where it did.
    pub legacy: bool,
}

/// A place where the books do not close.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Discrepancy {
    /// Name of the source.
    pub source: String,
    /// Between which numbers, in words.
    pub law: String,
    /// What stands on the left.
    pub left: u64,
    /// What stands on the right.
    pub right: u64,
}

impl fmt::Display for Discrepancy {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Discrepancy { source, law, left, right } = self;
        write!(f, "{source}: {law}: {left} against {right}")
    }
}

/// One loss of one source.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, JsonSchema)]
pub struct Loss {
    /// Name of the source.
    pub source: String,
    /// Where it was lost or missed.
    pub stage: Stage,
    /// Why.
    pub reason: LossReason,
    /// In what unit.
    pub unit: Unit,
    /// How many.
    pub count: u64,
    /// Of how many that came there, the lost ones among them.
    pub of: u64,
    /// How well that is known.
    pub quality: Quality,
    /// What was seen, and what to do about it, by who knows the configuration; the books themselves leave it empty.
    pub advice: String,
}

impl Loss {
    /// Whether the same loss is counted under its reason elsewhere: of older recordings, missing on the wire because it was refused here.
    /// Sums over stages leave it out.
    pub fn is_echo(&self) -> bool {
        self.stage.role() == StageRole::SequenceNumbers && !self.reason.is_gap()
    }
}

/// The entries of one unit of one account, named, for files and the page.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, JsonSchema)]
pub struct Entries {
    /// Name of the source.
    pub source: String,
    /// The stage.
    pub stage: Stage,
    /// The unit.
    pub unit: Unit,
    /// Came in.
    #[serde(rename = "in")]
    pub input: u64,
    /// Passed on.
    #[serde(rename = "out")]
    pub output: u64,
    /// Framing that has done its work.
    pub overhead: u64,
    /// Left out on request.
    pub filtered: u64,
    /// In the stage's containers.
    pub held: u64,
    /// On the wire, what sequence numbers were found to lack. It only grows, as does what has filled it.
    pub gap_opened: u64,
    /// Of that, what has come all the same, too late or damaged: what was refused of it is lost where that was done.
    pub gap_filled: u64,
    /// Lost, by reason; of gaps, what is still missing.
    pub lost: BTreeMap<&'static str, u64>,
    /// Told beside what became of them: late but kept, unseen.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub noted: BTreeMap<&'static str, u64>,
}

impl AccountBook {
    /// Whether this stage counts `unit`.
    pub fn counts(&self, unit: Unit) -> bool {
        self.units >> unit as u32 & 1 == 1
    }

    /// How many of a unit there were here: what came in or, where it comes into being, what became of it.
    pub fn offered(&self, unit: Unit) -> u64 {
        self.counters.cell(unit, entry::IN).max(self.became(unit))
    }

    /// What became of a unit here, all together.
    pub(crate) fn became(&self, unit: Unit) -> u64 {
        let cell = |entry| self.counters.cell(unit, entry);
        cell(entry::OUT)
            + cell(entry::OVERHEAD)
            + cell(entry::FILTERED)
            + cell(entry::HELD)
            + self.counters.total_lost_any(unit)
    }
}

impl Books {
    /// Books of accounts that are put together by hand, sorted by source and stage.
    pub fn of(sources: Vec<String>, accounts: Vec<AccountBook>) -> Books {
        Books { sources, accounts, ..Books::default() }
    }

    /// One account, if it is open.
    pub fn account(&self, stage: Stage, source: SourceId) -> Option<&AccountBook> {
        let place = self.accounts.binary_search_by_key(&(source, stage), |book| (book.source, book.stage));
        place.ok().map(|place| &self.accounts[place])
    }

    /// The sum over all sources of what a stage put out.
    pub fn total_output(&self, stage: Stage, unit: Unit) -> u64 {
        let accounts = self.accounts.iter().filter(|account| account.stage == stage);
        accounts.map(|account| account.counters.total_output(unit)).sum()
    }

    /// The sum of all losses in one unit at the stages for which `on_the_way` holds, over sources and reasons.
    pub fn total_lost(&self, unit: Unit, on_the_way: impl Fn(Stage) -> bool) -> u64 {
        let accounts = self.accounts.iter().filter(|account| on_the_way(account.stage));
        accounts.map(|account| account.counters.total_lost_any(unit)).sum()
    }

    /// The accounts of stages that do this.
    pub fn at(&self, role: StageRole) -> impl Iterator<Item = &AccountBook> {
        self.accounts.iter().filter(move |account| account.stage.role() == role)
    }

    /// The sum over all sources of what was put out by stages that do this.
    pub fn output_at(&self, role: StageRole, unit: Unit) -> u64 {
        self.at(role).map(|account| account.counters.total_output(unit)).sum()
    }

    /// The account of one source at the stage that does this; of several, the first.
    pub fn account_at(&self, role: StageRole, source: SourceId) -> Option<&AccountBook> {
        self.of_source(source).iter().find(|account| account.stage.role() == role)
    }

    /// Who feeds whom: as the run has said or, of books that do not say it, by the accounts that there are.
    pub fn path(&self) -> Arc<Topology> {
        let makes = |counts: &Counts| !counts.made.is_empty();
        let says_it =
            |topology: &&Arc<Topology>| topology.nodes.iter().any(|node| node.counts.iter().any(makes));
        let own = self.topology.as_ref().filter(says_it);
        own.map_or_else(|| Arc::new(Topology::legacy(self)), Arc::clone)
    }

    /// The accounts where a unit comes into being.
    pub fn making(&self, unit: Unit) -> Vec<&AccountBook> {
        let path = self.path();
        let makes = |own: &&AccountBook| own.counts(unit) && path.is_made(unit, own.stage, own.source);
        self.accounts.iter().filter(makes).collect()
    }

    /// What has come into being of one source in a unit, and was passed on.
    pub fn made_of(&self, source: SourceId, unit: Unit) -> u64 {
        let path = self.path();
        let accounts = self.of_source(source).iter();
        let made = accounts.filter(|own| own.counts(unit) && path.is_made(unit, own.stage, source));
        made.map(|account| account.counters.total_output(unit)).sum()
    }

    /// The accounts of events that are recorded: of those that are built, or of those that are made of hits.
    pub fn recorded_events(&self, lane: Lane) -> Vec<&AccountBook> {
        let path = self.path();
        let lane_of = |own: &AccountBook| path.lane_of(own.stage, own.source).unwrap_or(Lane::Events);
        let is_of_it = |own: &&AccountBook| lane_of(own) == lane;
        self.at(StageRole::Recording).filter(|own| own.counts(Unit::Events)).filter(is_of_it).collect()
    }

    /// The sum over all accounts of what is told beside.
    pub fn total_noted(&self, what: Noted, unit: Unit) -> u64 {
        self.accounts.iter().map(|account| account.counters.total_noted(what, unit)).sum()
    }

    /// The accounts of one source, in path order.
    pub(super) fn of_source(&self, source: SourceId) -> &[AccountBook] {
        let first = self.accounts.partition_point(|account| account.source < source);
        let end = self.accounts.partition_point(|account| account.source <= source);
        &self.accounts[first..end]
    }

    /// The books of groups of sources, as if each group were one: `groups` has a name and its sources. For a short look; the
    /// laws hold of the sources, not of groups.
    pub fn grouped<'g>(&self, groups: impl IntoIterator<Item = (&'g str, &'g [SourceId])>) -> Books {
        let groups: Vec<(&str, &[SourceId])> = groups.into_iter().collect();
        let topology = self.topology.as_ref().map(|topology| Arc::new(topology.grouped(&groups)));
        let mut grouped = Books { topology, ..Books::default() };
        for (index, (name, sources)) in groups.into_iter().enumerate() {
            grouped.sources.push(name.to_owned());
            let first = grouped.accounts.len();
            for account in sources.iter().flat_map(|source| self.of_source(*source)) {
                let own = &mut grouped.accounts[first..];
                match own.iter_mut().find(|own| own.stage == account.stage) {
                    Some(own) => {
                        own.units |= account.units;
                        own.counters.add_all(&account.counters);
                    }
                    None => {
                        let source = SourceId(index as u16);
                        grouped.accounts.push(AccountBook { source, ..account.clone() });
                    }
                }
            }
            grouped.accounts[first..].sort_by_key(|account| account.stage);
        }
        grouped
    }

    /// Every loss, in path order.
    pub fn losses(&self) -> Vec<Loss> {
        self.losses_by_source().into_iter().map(|(_, loss)| loss).collect()
    }

    /// The same, each with the number of its source.
    pub fn losses_by_source(&self) -> Vec<(SourceId, Loss)> {
        let mut losses = Vec::new();
        for account in &self.accounts {
            for (unit, reason) in
                Unit::ALL.iter().flat_map(|unit| LossReason::known().map(move |reason| (*unit, reason)))
            {
                let count = account.counters.total_lost(reason, unit);
                if count > 0 {
                    let (source, stage) = (self.name(account.source), account.stage);
                    let (quality, of) = (reason.quality(), account.offered(unit));
                    let advice = String::new();
                    let loss = Loss { source, stage, reason, unit, count, of, quality, advice };
                    losses.push((account.source, loss));
                }
            }
        }
        losses
    }

    /// How the data of a source come, by what its receiver counts. Of one board among several behind a link only the link
    /// knows.
    pub fn carrier(&self, source: SourceId) -> Carrier {
        match self.account_at(StageRole::Intake, source) {
            Some(account) if account.counts(Unit::Datagrams) => Carrier::Datagrams,
            Some(account) if account.counts(Unit::Bytes) => Carrier::Stream,
            _ => Carrier::Unknown,
        }
    }

    /// What one source has lost in a unit, every loss counted once: what is missing on the wire because it was refused
    /// here is left out.
    pub fn lost_once(&self, source: SourceId, unit: Unit) -> u64 {
        let of = |account: &AccountBook| match account.stage.role() {
            StageRole::SequenceNumbers => {
                let gaps = LossReason::known().filter(|reason| reason.is_gap());
                gaps.map(|reason| account.counters.total_lost(reason, unit)).sum()
            }
            _ => account.counters.total_lost_any(unit),
        };
        self.of_source(source).iter().map(of).sum()
    }

    /// Every account as named entries.
    pub fn entries(&self) -> Vec<Entries> {
        let units = |account: &AccountBook| {
            Unit::ALL.iter().copied().filter(|unit| account.counts(*unit)).collect::<Vec<_>>()
        };
        let row = |account: &AccountBook, unit: Unit| Entries {
            source: self.name(account.source),
            stage: account.stage,
            unit,
            input: account.counters.cell(unit, entry::IN),
            output: account.counters.cell(unit, entry::OUT),
            overhead: account.counters.cell(unit, entry::OVERHEAD),
            filtered: account.counters.cell(unit, entry::FILTERED),
            held: account.counters.cell(unit, entry::HELD),
            gap_opened: match account.stage.role() {
                StageRole::SequenceNumbers => account.counters.total_gap_opened(unit),
                _ => 0,
            },
            gap_filled: account.counters.total_gap_filled(unit),
            lost: LossReason::known()
                .map(|reason| (reason.word(), account.counters.total_lost(reason, unit)))
                .filter(|(_, count)| *count > 0)
                .collect(),
            noted: Noted::ALL
                .iter()
                .map(|what| (what.word(), account.counters.total_noted(*what, unit)))
                .filter(|(_, count)| *count > 0)
                .collect(),
        };
        self.accounts
            .iter()
            .flat_map(|account| units(account).into_iter().map(move |unit| row(account, unit)))
            .collect()
    }

    /// Whether everything balances.
    pub fn close(&self) -> bool {
        self.discrepancies().is_empty()
    }

    /// Every place where something does not balance, by the topology of the books.
    pub fn discrepancies(&self) -> Vec<Discrepancy> {
        match &self.topology {
            Some(topology) => topology.discrepancies(self),
            None => Topology::legacy(self).discrepancies(self),
        }
    }

    pub(crate) fn name(&self, source: SourceId) -> String {
        self.sources.get(source.index()).cloned().unwrap_or_else(|| source.to_string())
    }
}

#[cfg(test)]
mod tests {
    use super::super::file::Ledger;
    use super::*;

    const PATH: [(Stage, &[Unit]); 6] = [
        (Stage::Wire, &[Unit::Datagrams, Unit::Frames]),
        (Stage::Receive, &[Unit::Datagrams, Unit::Bytes]),
        (Stage::Unpack, &[Unit::Datagrams, Unit::Bytes, Unit::Frames]),
        (Stage::Decode, &[Unit::Bytes, Unit::Frames, Unit::Hits]),
        (Stage::Order, &[Unit::Hits]),
        (Stage::Record, &[Unit::Hits]),
    ];

    type Increment = (Stage, fn(&mut Counters));

    /// Every increment that a small run makes: where, and what.
    fn increments() -> Vec<Increment> {
        use LossReason::*;
        use Stage::*;
        use Unit::*;
        vec![
            (Wire, |t| t.input(Datagrams, 11)),
            (Wire, |t| t.output(Datagrams, 9)),
            (Wire, |t| t.lost(DatagramGap, Datagrams, 2)),
            (Wire, |t| t.input(Frames, 20)),
            (Wire, |t| t.output(Frames, 18)),
            (Wire, |t| t.lost(FrameGap, Frames, 2)),
            (Receive, |t| t.input(Datagrams, 11)),
            (Receive, |t| t.output(Datagrams, 10)),
            (Receive, |t| t.lost(UnexpectedSender, Datagrams, 1)),
            (Receive, |t| t.input(Bytes, 1100)),
            (Receive, |t| t.output(Bytes, 1000)),
            (Receive, |t| t.lost(UnexpectedSender, Bytes, 100)),
            (Unpack, |t| t.input(Datagrams, 10)),
            (Unpack, |t| t.output(Datagrams, 9)),
            (Unpack, |t| t.lost(DuplicateDatagram, Datagrams, 1)),
            (Unpack, |t| t.input(Bytes, 1000)),
            (Unpack, |t| t.output(Bytes, 820)),
            (Unpack, |t| t.overhead(Bytes, 80)),
            (Unpack, |t| t.lost(DuplicateDatagram, Bytes, 100)),
            (Unpack, |t| t.input(Frames, 18)),
            (Unpack, |t| t.output(Frames, 18)),
            (Decode, |t| t.input(Frames, 18)),
            (Decode, |t| t.output(Frames, 17)),
            (Decode, |t| t.lost(ZeroWords, Frames, 1)),
            (Decode, |t| t.input(Bytes, 820)),
            (Decode, |t| t.output(Bytes, 800)),
            (Decode, |t| t.lost(ZeroWords, Bytes, 20)),
            (Decode, |t| t.input(Hits, 50)),
            (Decode, |t| t.output(Hits, 50)),
            (Order, |t| t.input(Hits, 50)),
            (Order, |t| t.output(Hits, 45)),
            (Order, |t| t.lost(Late, Hits, 2)),
            (Order, |t| t.set_held(Hits, 3)),
            (Record, |t| t.input(Hits, 45)),
            (Record, |t| t.output(Hits, 40)),
            (Record, |t| t.set_held(Hits, 5)),
        ]
    }

    fn books_without(left_out: Option<usize>) -> Books {
        let ledger = Ledger::create(None, &["left".to_owned()]).expect("memory");
        for (stage, units) in PATH {
            let account = ledger.open(stage, SourceId(0), units);
            let mut counters = Counters::default();
            for (index, (place, increment)) in increments().into_iter().enumerate() {
                if place == stage && Some(index) != left_out {
                    increment(&mut counters);
                }
            }
            account.publish(&counters);
            account.snapshot(7, &counters);
        }
        let books = ledger.snapshot_books(7).expect("every account has passed the marker");
        assert_eq!(Books { at_a_marker: false, ..books.clone() }, ledger.books());
        books
    }

    #[test]
    fn books_with_every_increment_close() {
        assert_eq!(books_without(None).discrepancies(), []);
    }

    #[test]
    fn taking_away_any_one_increment_opens_the_books() {
        for left_out in 0..increments().len() {
            assert!(!books_without(Some(left_out)).close(), "increment {left_out} is covered by no law");
        }
    }

    #[test]
    fn a_discrepancy_says_where() {
        let text = books_without(Some(29))
            .discrepancies()
            .iter()
            .map(ToString::to_string)
            .collect::<Vec<_>>()
            .join("; ");
        assert!(text.contains("left: hits out of decode = into order: 50 against 0"), "{text}");
    }

    #[test]
    fn losses_have_place_reason_and_quality() {
        let losses = books_without(None).losses();
        assert!(
            losses.iter().any(|loss| loss.stage == Stage::Wire
                && loss.reason == LossReason::FrameGap
                && loss.count == 2)
        );
        assert!(losses.iter().all(|loss| loss.quality == Quality::Exact));
    }

    #[test]
    fn groups_add_what_their_sources_have() {
        let mut books = books_without(None);
        let second = books.accounts.clone().into_iter();
        books.accounts.extend(second.map(|account| AccountBook { source: SourceId(1), ..account }));
        books.sources.push("right".to_owned());
        let both = [SourceId(0), SourceId(1)];
        let grouped = books.grouped([("left", &both[..1]), ("both", &both)]);
        assert_eq!(grouped.sources, ["left", "both"]);
        let hits = |source| {
            let account = grouped.account(Stage::Order, SourceId(source)).expect("counted");
            (account.counters.total_input(Unit::Hits), account.counters.held(Unit::Hits))
        };
        assert_eq!((hits(0), hits(1)), ((50, 3), (100, 6)));
        assert_eq!(grouped.accounts.len(), 2 * PATH.len());
    }

    #[test]
    fn one_entry_is_summed_without_the_books() {
        let ledger = Ledger::create(None, &["left".to_owned(), "right".to_owned()]).expect("memory");
        let mut counters = Counters::default();
        counters.output(Unit::Events, 5);
        for source in [SourceId(0), SourceId(1)] {
            ledger.open(Stage::Record, source, &[Unit::Events]).publish(&counters);
        }
        assert_eq!(ledger.output_at(StageRole::Recording, Unit::Events), 10);
        assert_eq!(ledger.output_at(StageRole::Work, Unit::Events), 0);
    }

    #[test]
    fn what_was_refused_here_and_so_is_missing_on_the_wire_is_counted_once() {
        let ledger = Ledger::create(None, &["left".to_owned()]).expect("memory");
        let (mut wire, mut unpack) = (Counters::default(), Counters::default());
        wire.lost(LossReason::BadHash, Unit::Fragments, 3);
        wire.lost(LossReason::MissingFragment, Unit::Fragments, 2);
        unpack.lost(LossReason::BadHash, Unit::Fragments, 3);
        ledger.open(Stage::Wire, SourceId(0), &[Unit::Fragments]).publish(&wire);
        ledger.open(Stage::Unpack, SourceId(0), &[Unit::Fragments]).publish(&unpack);
        let books = ledger.books();
        assert_eq!(books.lost_once(SourceId(0), Unit::Fragments), 5);
        assert_eq!(books.losses().iter().filter(|loss| loss.is_echo()).count(), 1);
    }

    #[test]
    fn the_file_outlives_the_ledger() {
        let folder = tempfile::tempdir().expect("temporary folder");
        let path = folder.path().join("ledger.bin");
        let ledger =
            Ledger::create(Some(&path), &["östlich".to_owned(), "b".to_owned()]).expect("fresh file");
        let account = ledger.open(Stage::Order, SourceId(1), &[Unit::Hits]);
        let mut counters = Counters::default();
        counters.input(Unit::Hits, 12);
        counters.output(Unit::Hits, 12);
        account.publish(&counters);
        let books = ledger.books();
        drop((account, ledger));
        assert_eq!(Ledger::read_file(&path).expect("a ledger"), books);
        std::fs::write(&path, b"not a ledger at all").expect("writable");
        let message = Ledger::read_file(&path).expect_err("foreign").to_string();
        assert!(message.contains("not a ledger of version 1"), "{message}");
    }
}
