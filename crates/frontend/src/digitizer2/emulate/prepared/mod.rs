//! A ring of prepared datagrams, which is replayed with new times, counters and hashes.
//!
//! ```text
//!  content: a few ms of pulses, or external triggers ─► Ring: datagrams ─ lap after lap ─► copy ─ stamp ─ seal ─► out
//! ```
//! Simulating physics costs tens of nanoseconds per hit, and drawing a waveform microseconds. A board at its limit sends a
//! hit every 25 ns, or more than a gigabyte of samples per second, and an emulated board should be faster. Therefore the
//! data of a whole number of time bins are prepared once; each lap differs from the one before only by its period. All
//! boards of a set-up have the same period, so that partners in coincidence remain partners.

mod content;
mod seal;
mod stamp;

use thalweg_data::{Hit, Tick};

use self::content::Content;
pub(super) use self::content::preparing;
use self::seal::{LANES, seal};
use self::stamp::{
    Stamp, StampedWord, Stamps, stamp_one_word, stamp_short_time, stamp_time, stamp_two_words,
};
use super::encode::Encoder;
use super::packer::{AGGREGATE_HITS, Packer, datagram_data_bytes};
use super::physics::{FINE, Physics};
use super::settings::{Data, Firmware, Settings, Transport};
use crate::digitizer2::emit;
use crate::digitizer2::wire::{EventHeader, Footer, PacketHeader};
use crate::self_triggered::{Outgoing, Totals};

/// One datagram of the ring, without its footer.
#[derive(Clone, Debug)]
struct PreparedDatagram {
    /// Data in the ring's bytes.
    start: usize,
    end: usize,
    /// End of its stamps in the ring's list; they start where those of the datagram before end.
    stamps_end: usize,
    /// Hits of the events that start in it, and number of these events.
    hits: u32,
    events: u32,
    /// Clock count of the last hit of its unit, from the start of the lap.
    last_count: u64,
    /// Ends on an event boundary.
    is_aligned: bool,
    /// It is the last of its unit: what is sent as a whole.
    ends_unit: bool,
}

impl PreparedDatagram {
    fn data_bytes(&self) -> usize {
        self.end - self.start
    }
}

/// The prepared data, and the position of the replay.
#[derive(Debug)]
pub(super) struct Ring {
    bytes: Vec<u8>,
    datagrams: Vec<PreparedDatagram>,
    stamps: Stamps,
    listed: Vec<Stamp>,
    truth: Vec<Hit>,
    truth_start: Vec<usize>,
    packets: bool,
    /// Events continue in the next datagram, and a network buffer ends with each unit.
    is_spanning: bool,
    is_scope: bool,
    /// Hits in each event but the last of a unit: channels of a scope event, or most hits of an aggregate.
    event_hits: usize,
    tick: Tick,
    /// Clock counts per lap; not an integer if there is drift.
    period: f64,
    offset_count: u64,
    lap: u64,
    next: usize,
    trigger_id: u32,
}

/// Receives the truth. A replay without it does not spend time on it.
pub(super) struct TruthSink<'a> {
    pub(super) hits: &'a mut Vec<Hit>,
    pub(super) aggregates: &'a mut Vec<u32>,
}

impl Ring {
    /// Computes the ring. What does not fit into `prepared_mib` at the end of the lap is left out.
    pub(super) fn new(settings: &Settings, physics: &mut Physics, encoder: &mut Encoder) -> Ring {
        let is_spanning =
            !settings.aligned_datagrams || settings.largest_event_bytes() > datagram_data_bytes(settings);
        let is_scope = settings.firmware == Firmware::Scope;
        let is_plain = !is_scope && !is_spanning && settings.waveform_samples == 0;
        let one_word = settings.data == Data::OneWord;
        let event_hits = match settings.aggregate_hits {
            _ if is_scope => settings.channels.into(),
            0 if is_spanning => AGGREGATE_HITS as usize,
            0 => usize::MAX,
            hits => hits as usize,
        };
        let mut ring = Ring {
            bytes: Vec::new(),
            datagrams: Vec::new(),
            stamps: if is_plain { Stamps::PlainHits { one_word } } else { Stamps::Listed },
            listed: Vec::new(),
            truth: Vec::new(),
            truth_start: vec![0],
            packets: settings.transport == Transport::Tcp,
            is_spanning,
            is_scope,
            event_hits,
            tick: Tick::from_mhz(settings.sampling_mhz.into()).expect("the sampling rate was checked"),
            period: 0.0,
            offset_count: physics.bin_start_fine(0) / FINE,
            lap: 0,
            next: 0,
            trigger_id: 0,
        };
        let content = Content::new(settings, &mut ring);
        ring.period = match settings.external_trigger_counts() {
            Some(counts) => content.external_triggers(counts, encoder),
            None => content.pulses(physics, encoder),
        };
        ring
    }

    /// Returns to the first lap.
    pub(super) fn restart(&mut self) {
        (self.lap, self.next, self.trigger_id) = (0, 0, 0);
    }

    /// Memory of the ring in bytes.
    pub(super) fn memory_bytes(&self) -> usize {
        let lists = size_of_val(self.datagrams.as_slice()) + size_of_val(self.listed.as_slice());
        self.bytes.len() + size_of_val(self.truth.as_slice()) + lists
    }

    /// Clock count of the last sent hit.
    pub(super) fn reached_count(&self) -> u64 {
        let (lap, datagram) = match (self.next.checked_sub(1), self.lap.checked_sub(1)) {
            (Some(index), _) => (self.lap, self.datagrams.get(index)),
            (None, Some(lap)) => (lap, self.datagrams.last()),
            (None, None) => return 0,
        };
        datagram.map_or(0, |datagram| self.base_count(lap) + datagram.last_count)
    }

    /// The number of the next event: of a trigger, or an aggregate.
    fn next_event(&self, packer: &Packer) -> u32 {
        if self.is_scope { self.trigger_id } else { packer.aggregate_counter }
    }

    fn base_count(&self, lap: u64) -> u64 {
        self.offset_count + (lap as f64 * self.period) as u64
    }

    /// Appends the units whose last hit is before `until_count`, until `out` is full; returns whether more are due.
    pub(super) fn produce(
        &mut self,
        until_count: u64,
        packer: &mut Packer,
        out: &mut Outgoing,
        mut truth: Option<TruthSink<'_>>,
    ) -> bool {
        if self.datagrams.is_empty() {
            return false;
        }
        let mut begins_unit = true;
        loop {
            let base = self.base_count(self.lap);
            let due = self.due(base, until_count);
            if due == 0 {
                return false;
            }
            if begins_unit {
                if out.is_full() {
                    return true;
                }
                if self.is_spanning && !self.packets {
                    packer.begin_buffer(out);
                }
            }
            let start = out.bytes.len();
            let datagrams = self.next..self.next + due;
            for index in datagrams.clone() {
                if let Some(truth) = &mut truth {
                    self.append_truth(index, base, self.next_event(packer), truth);
                }
                self.append(index, base, packer, out);
            }
            if !self.packets {
                seal(start, &self.datagrams[datagrams], self.is_spanning, packer, out);
            }
            begins_unit = self.advance(due);
        }
    }

    /// Skips the datagrams that are due until that count, and returns the number of their hits.
    pub(super) fn pass_over(&mut self, until_count: u64) -> u64 {
        let mut hits = 0;
        while !self.datagrams.is_empty() {
            let due = self.due(self.base_count(self.lap), until_count);
            if due == 0 {
                break;
            }
            let skipped = &self.datagrams[self.next..self.next + due];
            hits += skipped.iter().map(|datagram| u64::from(datagram.hits)).sum::<u64>();
            self.advance(due);
        }
        hits
    }

    /// Number of the next datagrams of this lap that are due, up to the number of lanes. Those of a spanning unit are due
    /// together, without any of the next unit.
    fn due(&self, base: u64, until_count: u64) -> usize {
        let next = self.datagrams[self.next..].iter().take(LANES);
        let due = next.clone().take_while(|datagram| base + datagram.last_count < until_count).count();
        let unit = next.take_while(|datagram| !datagram.ends_unit).count() + 1;
        if self.is_spanning { due.min(unit) } else { due }
    }

    /// Moves on, at the end to the next lap; returns whether the next datagram begins a unit.
    fn advance(&mut self, datagrams: usize) -> bool {
        self.next += datagrams;
        let ended = self.datagrams[self.next - 1].ends_unit;
        if self.next == self.datagrams.len() {
            (self.next, self.lap) = (0, self.lap + 1);
        }
        ended
    }

    /// Appends the data of one datagram with times and counters of this lap, and leaves space for the footer.
    fn append(&mut self, index: usize, base: u64, packer: &mut Packer, out: &mut Outgoing) {
        let datagram = &self.datagrams[index];
        let data = &self.bytes[datagram.start..datagram.end];
        let framing = if self.packets { PacketHeader::BYTES } else { Footer::BYTES };
        let start = if self.packets {
            let start = out.bytes.len();
            emit::packet(&mut out.bytes, data, datagram.events, datagram.is_aligned);
            out.end_datagram(start);
            start + PacketHeader::BYTES
        } else {
            out.bytes.extend_from_slice(data);
            out.bytes.len() - data.len()
        };
        let mut number = self.next_event(packer);
        match self.stamps {
            Stamps::PlainHits { one_word } => {
                stamp_aggregates(&mut out.bytes[start..], one_word, base, &mut number, packer);
            }
            Stamps::Listed => {
                let first = index.checked_sub(1).map_or(0, |before| self.datagrams[before].stamps_end);
                let stamps = &self.listed[first..datagram.stamps_end];
                stamp_listed(&mut out.bytes[start..], stamps, base, &mut number, packer);
            }
        }
        match self.is_scope {
            true => self.trigger_id = number,
            false => packer.aggregate_counter = number,
        }
        if !self.packets {
            out.bytes.extend_from_slice(&[0; Footer::BYTES]);
        }
        self.count(index, framing, &mut packer.totals);
    }

    fn count(&self, index: usize, framing_bytes: usize, totals: &mut Totals) {
        let datagram = &self.datagrams[index];
        totals.hits += u64::from(datagram.hits);
        match self.is_scope {
            true => totals.scope_events += u64::from(datagram.events),
            false => totals.aggregates += u64::from(datagram.events),
        }
        totals.datagrams += 1;
        totals.bytes += (datagram.data_bytes() + framing_bytes) as u64;
    }

    fn append_truth(&self, index: usize, base: u64, first_event: u32, truth: &mut TruthSink<'_>) {
        let datagram = &self.datagrams[index];
        let shift_ps = self.tick.to_ps(base as i64);
        let hits = &self.truth[self.truth_start[index]..][..datagram.hits as usize];
        let exact = self.tick.whole_ps().is_some();
        truth.hits.extend(hits.iter().map(|hit| {
            // If a tick is not a whole number of picoseconds, the sum is rounded down once: the period and the rest
            // cannot be rounded separately.
            let time_ps = if exact {
                hit.time_ps + shift_ps
            } else {
                self.tick.to_ps(self.tick.from_time(hit.time_ps) + base as i64)
            };
            Hit { time_ps, ..*hit }
        }));
        let counter = |hit: usize| first_event.wrapping_add((hit / self.event_hits) as u32) & 0xFF_FFFF;
        truth.aggregates.extend((0..datagram.hits as usize).map(counter));
    }
}

/// Numbers the aggregates of plain hits in `data`, and adds `base` to the times of their hits.
fn stamp_aggregates(mut data: &mut [u8], one_word: bool, base: u64, number: &mut u32, packer: &Packer) {
    let mut hits = 0;
    while let Some(head) = data.first_chunk::<8>() {
        let words = EventHeader(u64::from_be_bytes(*head)).word_count() as usize;
        emit::set_event_counter(data, *number);
        *number = number.wrapping_add(1);
        hits += (words as u64 - 1) / if one_word { 1 } else { 2 };
        packer.write_frame(hits);
        let (aggregate, tail) = data.split_at_mut(8 * words);
        match one_word {
            true => stamp_one_word(&mut aggregate[8..], base),
            false => stamp_two_words(&mut aggregate[8..], base),
        }
        data = tail;
    }
}

/// Numbers the events that start in `data`, and adds `base` to the times in it.
fn stamp_listed(data: &mut [u8], stamps: &[Stamp], base: u64, number: &mut u32, packer: &Packer) {
    let mut hits_until = 0;
    for stamp in stamps {
        let rest = &mut data[stamp.offset as usize..];
        if let StampedWord::Counter { hits } = stamp.word {
            emit::set_event_counter(rest, *number);
            *number = number.wrapping_add(1);
            hits_until += u64::from(hits);
            packer.write_frame(hits_until);
            continue;
        }
        let word = rest.first_chunk_mut().expect("a word is never divided");
        match stamp.word {
            StampedWord::ShortTime => stamp_short_time(word, base),
            _ => stamp_time(word, base),
        }
    }
}
