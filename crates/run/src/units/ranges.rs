//! Collects the records of ranges of triggers of this process's units, on their way to the files.
//!
//! ```text
//!  unit's thread          machine ─► RangeNotes ─► RangeInbox ─┐
//!  thread of the lists    ranges-UNIT.arrows ◄─ RangeList ◄────┘ every 250 ms
//!  run.json               identity: event managers ◄─ Managers ◄─ whoever knows one
//! ```
//! A unit never waits for the disk of its list: what the thread of the lists does not take in time is joined, and the list says so.

use std::collections::BTreeSet;
use std::sync::{Arc, Mutex, PoisonError};

use thalweg_data::{Counters, EventSum, RangeFate, RangeRecord, Unit};

use crate::plan::capacity::MOST_RANGES_WAITING;

/// Most event managers that are remembered: the first and the latest.
const MOST_MANAGERS: usize = 1_000;

/// Records on their way from one unit to the thread of the lists.
#[derive(Debug, Default)]
pub(crate) struct RangeInbox(Mutex<Waiting>);

#[derive(Debug, Default)]
struct Waiting {
    records: Vec<RangeRecord>,
    joined: Vec<RangeRecord>,
}

impl RangeInbox {
    fn put(&self, records: &mut Vec<RangeRecord>) {
        let mut waiting = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let Waiting { records: all, joined } = &mut *waiting;
        // After ranges were joined, no further ones are listed singly.
        let has_room = joined.is_empty() && all.len() + records.len() <= MOST_RANGES_WAITING;
        match has_room {
            true => all.append(records),
            false => records.drain(..).for_each(|record| record.join_to(joined)),
        }
    }

    /// Exchanges what waits for empty lists; joined ranges come after the rest.
    pub(crate) fn take(&self, records: &mut Vec<RangeRecord>, joined: &mut Vec<RangeRecord>) {
        let mut waiting = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        std::mem::swap(records, &mut waiting.records);
        std::mem::swap(joined, &mut waiting.joined);
    }
}

/// The event managers that units of this process know, by their epochs.
#[derive(Debug, Default)]
pub(crate) struct Managers(Mutex<BTreeSet<u64>>);

impl Managers {
    /// Those of these epochs are known.
    pub(crate) fn add(&self, epochs: impl IntoIterator<Item = u64>) {
        let mut known = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        known.extend(epochs.into_iter().filter(|epoch| *epoch > 0));
        while known.len() > MOST_MANAGERS {
            let Some(second) = known.iter().nth(1).copied() else { break };
            known.remove(&second);
        }
    }

    /// All of them, ascending.
    pub(crate) fn all(&self) -> Vec<u64> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).iter().copied().collect()
    }
}

/// The side of a unit: what it has noted, and which event manager it knows.
#[derive(Debug)]
pub(crate) struct RangeNotes {
    inbox: Arc<RangeInbox>,
    known: KnownManager,
    /// The sum that the records so far have passed on.
    passed_on: EventSum,
}

/// The event manager from which a unit had the last message.
#[derive(Debug)]
pub(crate) struct KnownManager {
    managers: Arc<Managers>,
    epoch: u64,
}

impl KnownManager {
    pub(crate) fn new(managers: Arc<Managers>) -> KnownManager {
        KnownManager { managers, epoch: 0 }
    }

    /// The unit goes by this epoch; 0 if it knows none.
    pub(crate) fn note(&mut self, epoch: u64) {
        if epoch != self.epoch {
            self.epoch = epoch;
            self.managers.add([epoch]);
        }
    }
}

impl RangeNotes {
    pub(crate) fn new(inbox: Arc<RangeInbox>, managers: Arc<Managers>) -> RangeNotes {
        RangeNotes { inbox, known: KnownManager::new(managers), passed_on: EventSum::default() }
    }

    /// Takes the records of a unit that goes by this epoch.
    pub(crate) fn take(&mut self, records: &mut Vec<RangeRecord>, epoch: u64) {
        self.known.note(epoch);
        if records.is_empty() {
            return;
        }
        for record in records.iter() {
            match (record.fate, record.readout) {
                // For a readout unit its own part counts, for a builder unit whole events.
                (RangeFate::Acknowledged, _) | (RangeFate::OnFile | RangeFate::Given, None) => {
                    self.passed_on.add(record.sum);
                }
                _ => {}
            }
        }
        self.inbox.put(records);
    }

    /// Checks that the records add up to what the unit has counted; describes the difference.
    ///
    /// # Errors
    /// When they do not, which is a defect.
    pub(crate) fn check(&self, counters: &Counters) -> Result<(), String> {
        let noted = [self.passed_on.events, self.passed_on.fragments, self.passed_on.bytes];
        let counted = [Unit::Events, Unit::Fragments, Unit::Bytes].map(|unit| counters.total_output(unit));
        match noted == counted {
            true => Ok(()),
            false => Err(format!(
                "{noted:?} events, fragments and bytes were passed on, range by range, and {counted:?} counted: a defect, please report it"
            )),
        }
    }
}

#[cfg(test)]
mod tests {
    use thalweg_data::UnitId;

    use super::*;

    fn record(first: u64, fate: RangeFate) -> RangeRecord {
        RangeRecord {
            first,
            last: first,
            ranges: 1,
            attempt: 0,
            epoch: 7,
            readout: Some(UnitId(0)),
            builder: UnitId(0),
            fate,
            sum: EventSum::of(first, 2, 20),
        }
    }

    #[test]
    fn records_that_nobody_takes_are_joined_and_none_is_lost() {
        let (inbox, managers) = (Arc::<RangeInbox>::default(), Arc::<Managers>::default());
        let mut notes = RangeNotes::new(inbox.clone(), managers.clone());
        let count = MOST_RANGES_WAITING as u64 + 10;
        for first in 0..count {
            notes.take(&mut vec![record(first, RangeFate::Acknowledged)], 7);
        }
        let (mut records, mut joined) = (Vec::new(), Vec::new());
        inbox.take(&mut records, &mut joined);
        assert_eq!((records.len(), joined.len(), joined[0].ranges), (MOST_RANGES_WAITING, 1, 10));
        assert_eq!(managers.all(), [7]);
        let mut counters = Counters::default();
        counters.output(Unit::Events, count);
        counters.output(Unit::Fragments, 2 * count);
        counters.output(Unit::Bytes, 20 * count);
        assert_eq!(notes.check(&counters), Ok(()));
        counters.output(Unit::Fragments, 1);
        assert!(notes.check(&counters).is_err());
    }

    #[test]
    fn of_many_event_managers_the_first_and_the_latest_are_known() {
        let managers = Managers::default();
        managers.add(0..2_000);
        let all = managers.all();
        assert_eq!((all.len(), all[0], all[1], all.last()), (MOST_MANAGERS, 1, 1_001, Some(&1_999)));
    }
}
