//! The values of slow control: the latest ones for display, all of them for the recording.

use std::collections::BTreeMap;
use std::sync::{Mutex, MutexGuard};

use thalweg_monitor::state::SeriesValue;
use thalweg_record::Reading;

use super::DeviceRecord;
use crate::config::SeriesSettings;

/// Readings that wait for the recorder at most: it comes several times a second.
const MOST_WAITING: usize = 65_536;

/// News that are noted of a board; all of them are logged.
const MOST_NEWS: usize = 100;

/// The readings of the keepers. The lock is taken once per reading, and by readers of the values.
#[derive(Debug, Default)]
pub(crate) struct Values(Mutex<Inner>);

#[derive(Debug, Default)]
struct Inner {
    latest: BTreeMap<String, SeriesValue>,
    waiting: Vec<Reading>,
    /// Readings for which there was no space.
    not_kept: u64,
    /// The values that were set at each device or board.
    records: BTreeMap<String, DeviceRecord>,
}

impl Values {
    /// Starts with every one of these series unknown.
    pub(crate) fn of(series: &[SeriesSettings]) -> Values {
        let unknown = |each: &SeriesSettings| SeriesValue { value: None, unit: each.unit.clone() };
        let latest = series.iter().map(|each| (each.name.clone(), unknown(each))).collect();
        Values(Mutex::new(Inner { latest, ..Inner::default() }))
    }

    fn inner(&self) -> MutexGuard<'_, Inner> {
        self.0.lock().unwrap_or_else(|poisoned| poisoned.into_inner())
    }

    /// Takes a reading.
    pub(crate) fn add(&self, reading: Reading) {
        let mut inner = self.inner();
        if let Some(latest) = inner.latest.get_mut(&reading.series) {
            latest.value = reading.value;
        }
        match inner.waiting.len() < MOST_WAITING {
            true => inner.waiting.push(reading),
            false => inner.not_kept += 1,
        }
    }

    /// Notes what was set at a device or board.
    pub(crate) fn note(&self, name: &str, record: DeviceRecord) {
        self.inner().records.insert(name.to_owned(), record);
    }

    /// Changes the record of a device or board, if it has one.
    pub(crate) fn update(&self, name: &str, change: impl FnOnce(&mut DeviceRecord)) {
        if let Some(record) = self.inner().records.get_mut(name) {
            change(record);
        }
    }

    /// Notes that something has changed at a board, so many nanoseconds after the start of the run.
    pub(crate) fn note_news(&self, name: &str, time_ns: u64, news: &str) {
        let seconds = time_ns as f64 / 1e9;
        self.update(name, |record| {
            if record.news.len() < MOST_NEWS {
                record.news.push(format!("{seconds:.1} s: {news}"));
            }
        });
    }

    /// Returns what was set at each device or board; `None` where nothing was.
    pub(crate) fn records(&self) -> Option<serde_json::Value> {
        let inner = self.inner();
        (!inner.records.is_empty()).then(|| serde_json::to_value(&inner.records).unwrap_or_default())
    }

    /// The latest value of each series.
    pub(crate) fn latest(&self) -> BTreeMap<String, SeriesValue> {
        self.inner().latest.clone()
    }

    /// Gives what was read since the last time into `readings`.
    pub(crate) fn take(&self, readings: &mut Vec<Reading>) {
        readings.append(&mut self.inner().waiting);
    }

    /// Readings that the recorder never got.
    pub(crate) fn not_kept(&self) -> u64 {
        self.inner().not_kept
    }
}
