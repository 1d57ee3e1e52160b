//! The pulses that were taken, for whoever wants to see them.
//!
//! ```text
//!  PulseTap ─ try_lock ─► channel: latest pulses, persistence ◄─ lock ─ page, saved table
//!     └ somebody reads: it takes another pulse later
//! ```

use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard};

use thalweg_data::{Flags, Hit};

use super::persistence::Persistence;
use super::settings::PulseError;
use crate::channels::ChannelMap;
use crate::cut::{Expression, Polygon, Scope};

/// One pulse.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Pulse {
    /// Picoseconds since run start.
    pub time_ps: i64,
    /// Long-gate charge or pulse height.
    pub energy: u16,
    /// Short-gate charge.
    pub energy_short: u16,
    /// What else is known of it.
    pub flags: Flags,
    /// Nanoseconds from one sample to the next, where the source says so.
    pub ns_per_sample: Option<f64>,
    /// Values of each analog probe.
    pub analog: Vec<Vec<i32>>,
    /// 0 or 1 of each digital probe; the board says which of them is the trigger, a gate, a pile-up mark.
    pub digital: Vec<Vec<u8>>,
    /// The board's numbers for what the digital probes show, in their order; empty where it says nothing.
    pub digital_kinds: Vec<u8>,
    /// There were more samples than are kept, or the board cut the waveform short.
    pub truncated: bool,
}

impl Pulse {
    /// Number of samples.
    pub fn samples(&self) -> usize {
        self.analog.first().map_or(0, Vec::len)
    }

    /// First sample at which a digital probe is set: where the trigger is drawn when the probe is the trigger's.
    pub fn first_set(&self, probe: usize) -> Option<usize> {
        self.digital.get(probe)?.iter().position(|sample| *sample != 0)
    }

    pub(super) fn of(&mut self, hit: &Hit) {
        (self.time_ps, self.energy, self.energy_short, self.flags) =
            (hit.time_ps, hit.energy, hit.energy_short, hit.flags);
    }
}

/// The data kept for one channel.
#[derive(Debug, Default)]
pub(super) struct Row {
    /// Oldest first once it is full: `next` is overwritten next.
    pub latest: Vec<Pulse>,
    pub next: usize,
    pub persistence: Option<Box<Persistence>>,
}

impl Row {
    pub fn clear(&mut self) {
        (self.next, self.persistence) = (0, None);
        self.latest.clear();
    }

    /// The pulse to be written next, of `keep`.
    pub fn place(&mut self, keep: usize) -> &mut Pulse {
        if self.latest.len() < keep {
            self.next = self.latest.len();
            self.latest.push(Pulse::default());
        }
        let place = self.next;
        self.next = (place + 1) % keep;
        &mut self.latest[place]
    }
}

#[derive(Debug)]
pub(super) struct Shared {
    pub map: Arc<ChannelMap>,
    pub polygons: Vec<Polygon>,
    pub rows: Box<[Mutex<Row>]>,
    /// By row, and how often they were changed.
    pub filters: Mutex<Vec<Option<Expression>>>,
    pub filters_changed: AtomicU32,
    pub taken: AtomicU64,
    pub skipped: AtomicU64,
}

/// Pulses of all channels. Cheap to clone; every clone is the same store.
#[derive(Clone, Debug)]
pub struct PulseStore(pub(super) Arc<Shared>);

impl PulseStore {
    pub(super) fn new(map: &Arc<ChannelMap>, polygons: Vec<Polygon>) -> PulseStore {
        let channels = map.channels().len();
        PulseStore(Arc::new(Shared {
            map: map.clone(),
            polygons,
            rows: (0..channels).map(|_| Mutex::default()).collect(),
            filters: Mutex::new((0..channels).map(|_| None).collect()),
            filters_changed: AtomicU32::new(0),
            taken: AtomicU64::new(0),
            skipped: AtomicU64::new(0),
        }))
    }

    /// Channels that have pulses.
    pub fn channels(&self) -> Vec<u16> {
        let numbers = self.0.map.channels().iter().map(|channel| channel.number);
        let rows = numbers.zip(&self.0.rows);
        rows.filter(|(_, row)| !locked(row).latest.is_empty()).map(|(number, _)| number).collect()
    }

    /// The latest pulses of a channel, at most `count`, the latest first.
    ///
    /// # Errors
    /// When no source sends the channel.
    pub fn latest(&self, channel: u16, count: usize) -> Result<Vec<Pulse>, PulseError> {
        let row = locked(&self.0.rows[self.row(channel)?]);
        let (newer, older) = row.latest.split_at(row.next);
        Ok(newer.iter().rev().chain(older.iter().rev()).take(count).cloned().collect())
    }

    /// All pulses of a channel over one another; `None` when there were none.
    ///
    /// # Errors
    /// When no source sends the channel.
    pub fn persistence(&self, channel: u16) -> Result<Option<Persistence>, PulseError> {
        Ok(locked(&self.0.rows[self.row(channel)?]).persistence.as_deref().cloned())
    }

    /// Which pulses of a channel are taken from now on: those for which an expression over a hit's fields answers yes, or with `None`
    /// any. What was there is forgotten.
    ///
    /// # Errors
    /// When no source sends the channel, or the expression cannot be read.
    pub fn set_filter(&self, channel: u16, text: Option<&str>) -> Result<(), PulseError> {
        let row = self.row(channel)?;
        let parse = |text| Expression::parse(text, Scope::Hit, &self.0.polygons);
        locked(&self.0.filters)[row] = text.map(parse).transpose()?;
        self.0.filters_changed.fetch_add(1, Ordering::AcqRel);
        locked(&self.0.rows[row]).clear();
        Ok(())
    }

    /// The condition of a channel, as it was written.
    ///
    /// # Errors
    /// When no source sends the channel.
    pub fn filter(&self, channel: u16) -> Result<Option<String>, PulseError> {
        let row = self.row(channel)?;
        Ok(locked(&self.0.filters)[row].as_ref().map(|filter| filter.text().to_owned()))
    }

    /// Forgets all pulses, as at the start of a run.
    pub fn clear(&self) {
        self.0.rows.iter().for_each(|row| locked(row).clear());
    }

    /// Pulses taken, and pulses left because somebody was reading.
    pub fn counts(&self) -> (u64, u64) {
        (self.0.taken.load(Ordering::Relaxed), self.0.skipped.load(Ordering::Relaxed))
    }

    fn row(&self, channel: u16) -> Result<usize, PulseError> {
        self.0.map.row(channel).ok_or(PulseError::Channel(channel))
    }
}

/// Nothing is left half written by a panic that would matter to a picture.
pub(super) fn locked<T>(of: &Mutex<T>) -> MutexGuard<'_, T> {
    of.lock().unwrap_or_else(|poisoned| poisoned.into_inner())
}
