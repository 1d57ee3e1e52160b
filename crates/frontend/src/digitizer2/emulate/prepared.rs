//! A ring of prepared datagrams, which is replayed with new times, counters and hashes.
//!
//! ```text
//!  physics, a few ms ─► Ring: datagrams ─ lap after lap ─► copy ─ stamp times ─ hash, four in parallel ─► out
//! ```
//! Simulating physics costs tens of nanoseconds per hit. A board at its limit sends a hit every 25 ns, and an emulated
//! board should be faster. Therefore the pulses of a whole number of time bins are prepared once; each lap differs from
//! the one before only by its period. All boards of a set-up have the same period, so that partners in coincidence
//! remain partners.

use thalweg_data::{Hit, Tick};

use super::encode::Encoder;
use super::packer::{Packer, datagram_data_bytes};
use super::physics::{BIN_PS, FINE, Physics};
use super::settings::{Data, Detector, Rates, Settings, Transport};
use crate::digitizer2::emit;
use crate::digitizer2::wire::{EventHeader, Footer, PacketHeader, TIME_MASK};
use crate::self_triggered::{Outgoing, Totals};

/// Number of datagrams written and hashed in parallel: the hash is a chain of dependent steps, and four chains keep the
/// processor busy.
const LANES: usize = 4;
/// Hits in a ring, if rate and memory allow: enough for a smooth spectrum.
const HITS_WANTED: f64 = 131_072.0;
/// Most bins of a ring: otherwise, that of slow boards would last for minutes.
const BINS_MAXIMUM: u64 = 4096;

/// One datagram of the ring, without its footer.
#[derive(Clone, Debug)]
struct PreparedDatagram {
    /// Data in the ring's bytes.
    start: usize,
    end: usize,
    hits: u32,
    aggregates: u32,
    /// Clock count of the last hit, from the start of the lap.
    last_count: u64,
}

/// The prepared data, and the position of the replay.
#[derive(Debug)]
pub(super) struct Ring {
    bytes: Vec<u8>,
    datagrams: Vec<PreparedDatagram>,
    truth: Vec<Hit>,
    truth_start: Vec<usize>,
    one_word: bool,
    packets: bool,
    aggregate_hits: usize,
    tick: Tick,
    /// Clock counts per lap; not an integer if there is drift.
    period: f64,
    offset_count: u64,
    lap: u64,
    next: usize,
}

/// Largest fraction of the time in which a prepared channel is blind.
const BLIND: f64 = 0.1;

/// The board that prepares the data. At rates that no detector can sustain, its dead time is shortened. Its rates are
/// raised to compensate for the remaining dead time, so that the ring has the requested number of hits.
pub(super) fn preparing(settings: &Settings) -> Settings {
    let rates: Vec<f64> = (0..settings.channels).map(|channel| settings.channel_rate_hz(channel)).collect();
    let highest = rates.iter().copied().fold(1.0, f64::max);
    let dead_time_s = (settings.detector.dead_time_ns / 1e9).min(BLIND / highest);
    let detector = Detector {
        dead_time_ns: dead_time_s * 1e9,
        gate_ns: settings.detector.gate_ns.min(dead_time_s * 1e9),
        ..settings.detector.clone()
    };
    let rate_hz = Rates::List(rates.iter().map(|rate| rate / (1.0 - rate * dead_time_s)).collect());
    Settings { rate_hz, total_rate_hz: None, detector, ..settings.clone() }
}

/// Receives the truth. A replay without it does not spend time on it.
pub(super) struct TruthSink<'a> {
    pub(super) hits: &'a mut Vec<Hit>,
    pub(super) aggregates: &'a mut Vec<u32>,
}

impl Ring {
    /// Computes the ring. Datagrams at the end of the lap that do not fit into `prepared_mib` are left out.
    pub(super) fn new(settings: &Settings, physics: &mut Physics, encoder: &mut Encoder) -> Ring {
        let hit_bytes = encoder.hit_bytes();
        let bins = bins_of(settings, hit_bytes);
        physics.restart();
        let offset_fine = physics.bin_start_fine(0);
        let until = physics.bin_start_fine(bins);
        let fine_per_lap = (BIN_PS * bins) as f64 * f64::from(settings.sampling_mhz) * FINE as f64 / 1e6;
        let most_hits =
            if settings.aggregate_hits == 0 { usize::MAX } else { settings.aggregate_hits as usize };
        let mut ring = Ring {
            bytes: Vec::new(),
            datagrams: Vec::new(),
            truth: Vec::new(),
            truth_start: vec![0],
            one_word: settings.data == Data::OneWord,
            packets: settings.transport == Transport::Tcp,
            aggregate_hits: most_hits,
            tick: Tick::from_mhz(settings.sampling_mhz.into()).expect("the sampling rate was checked"),
            period: fine_per_lap * (1.0 + settings.drift_ppm / 1e6) / FINE as f64,
            offset_count: offset_fine / FINE,
            lap: 0,
            next: 0,
        };
        let most_bytes = (settings.prepared_mib as usize) << 20;
        let data_bytes = datagram_data_bytes(settings);
        let mut builder = Builder { data_bytes, most_hits, hit_bytes, open: None, hits_in_aggregate: 0 };
        while ring.bytes.len() < most_bytes {
            let pulses = physics.pulses_until(until);
            if pulses.is_empty() {
                break;
            }
            for pulse in pulses {
                builder.begin_hit(&mut ring);
                let pulse =
                    super::physics::Pulse { time_fine: pulse.time_fine - ring.offset_count * FINE, ..*pulse };
                encoder.hit(&pulse, &mut ring.bytes);
                ring.truth.push(encoder.truth(&pulse));
                let datagram = ring.datagrams.last_mut().expect("the hit was begun");
                datagram.hits += 1;
                datagram.last_count = pulse.time_fine / FINE;
            }
            let count = pulses.len();
            physics.take(count);
        }
        builder.finish(&mut ring);
        physics.restart();
        ring
    }

    /// Returns to the first lap.
    pub(super) fn restart(&mut self) {
        (self.lap, self.next) = (0, 0);
    }

    /// Memory of the ring in bytes.
    pub(super) fn memory_bytes(&self) -> usize {
        self.bytes.len() + size_of_val(self.truth.as_slice()) + size_of_val(self.datagrams.as_slice())
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

    fn base_count(&self, lap: u64) -> u64 {
        self.offset_count + (lap as f64 * self.period) as u64
    }

    /// Appends the datagrams whose last hit is before `until_count`, until `out` is full; returns whether more are due.
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
        loop {
            let base = self.base_count(self.lap);
            let due = self.due(base, until_count);
            if due == 0 {
                return false;
            }
            if out.is_full() {
                return true;
            }
            let count = due.min(LANES);
            let start = out.bytes.len();
            let datagrams = self.next..self.next + count;
            for index in datagrams.clone() {
                if let Some(truth) = &mut truth {
                    self.append_truth(index, base, packer.aggregate_counter, truth);
                }
                self.stamp(index, base, packer, out);
            }
            if !self.packets {
                seal(start, &self.datagrams[datagrams], packer, out);
            }
            self.next += count;
            if self.next == self.datagrams.len() {
                (self.next, self.lap) = (0, self.lap + 1);
            }
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
            hits += self.datagrams[self.next..self.next + due]
                .iter()
                .map(|datagram| u64::from(datagram.hits))
                .sum::<u64>();
            self.next += due;
            if self.next == self.datagrams.len() {
                (self.next, self.lap) = (0, self.lap + 1);
            }
        }
        hits
    }

    /// Number of the next datagrams of this lap that are due, up to the number of lanes.
    fn due(&self, base: u64, until_count: u64) -> usize {
        let next = self.datagrams[self.next..].iter().take(LANES);
        next.take_while(|datagram| base + datagram.last_count < until_count).count()
    }

    /// Appends the data of one datagram with times and counters of this lap, and leaves space for the footer.
    fn stamp(&self, index: usize, base: u64, packer: &mut Packer, out: &mut Outgoing) {
        let datagram = &self.datagrams[index];
        let data = &self.bytes[datagram.start..datagram.end];
        let start = if self.packets {
            let start = out.bytes.len();
            emit::packet(&mut out.bytes, data, datagram.aggregates, true);
            out.end_datagram(start);
            start + PacketHeader::BYTES
        } else {
            out.bytes.extend_from_slice(data);
            out.bytes.len() - data.len()
        };
        let mut hits = 0;
        let mut rest = &mut out.bytes[start..];
        while let Some(head) = rest.first_chunk::<8>() {
            let words = EventHeader(u64::from_be_bytes(*head)).word_count() as usize;
            emit::set_aggregate_counter(rest, packer.aggregate_counter);
            packer.aggregate_counter = packer.aggregate_counter.wrapping_add(1);
            let hit_words = if self.one_word { 1 } else { 2 };
            hits += (words as u64 - 1) / hit_words;
            packer.write_frame(hits);
            let (aggregate, tail) = rest.split_at_mut(8 * words);
            if self.one_word {
                stamp_one_word(&mut aggregate[8..], base);
            } else {
                stamp_two_words(&mut aggregate[8..], base);
            }
            rest = tail;
        }
        if !self.packets {
            out.bytes.extend_from_slice(&[0; Footer::BYTES]);
        }
        let framing = if self.packets { PacketHeader::BYTES } else { Footer::BYTES };
        count(datagram, framing, packer);
    }

    fn append_truth(&self, index: usize, base: u64, first_aggregate: u32, truth: &mut TruthSink<'_>) {
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
        let counter =
            |hit: usize| first_aggregate.wrapping_add((hit / self.aggregate_hits) as u32) & 0xFF_FFFF;
        truth.aggregates.extend((0..datagram.hits as usize).map(counter));
    }
}

fn count(datagram: &PreparedDatagram, framing: usize, packer: &mut Packer) {
    let bytes = (datagram.end - datagram.start + framing) as u64;
    let totals: &mut Totals = &mut packer.totals;
    totals.hits += u64::from(datagram.hits);
    totals.aggregates += u64::from(datagram.aggregates);
    totals.datagrams += 1;
    totals.bytes += bytes;
}

/// Bins of a lap: a power of two, so that the periods of boards with different rates are multiples of each other.
fn bins_of(settings: &Settings, hit_bytes: usize) -> u64 {
    let per_bin = settings.board_rate_hz().max(1e-3) * BIN_PS as f64 / 1e12;
    let fit = f64::from(settings.prepared_mib) * 1_048_576.0 / hit_bytes as f64 * 0.95;
    let bins = (HITS_WANTED.min(fit) / per_bin).clamp(1.0, BINS_MAXIMUM as f64) as u64;
    1 << bins.ilog2()
}

/// Adds `base` to the 48-bit time of word 0 of each hit.
fn stamp_two_words(hits: &mut [u8], base: u64) {
    for hit in hits.as_chunks_mut::<16>().0 {
        let first = hit.first_chunk_mut::<8>().expect("16 bytes hold 8");
        let word = u64::from_be_bytes(*first);
        let word = word & !TIME_MASK | word.wrapping_add(base) & TIME_MASK;
        *first = word.to_be_bytes();
    }
}

/// Adds `base` to the 32-bit time in bits 47..16 of each hit.
fn stamp_one_word(hits: &mut [u8], base: u64) {
    const TIME: u64 = 0xFFFF_FFFF << 16;
    for hit in hits.as_chunks_mut::<8>().0 {
        let word = u64::from_be_bytes(*hit);
        let word = word & !TIME | word.wrapping_add(base << 16) & TIME;
        *hit = word.to_be_bytes();
    }
}

/// Writes the footers of the datagrams in `out` from `start` on.
fn seal(mut start: usize, datagrams: &[PreparedDatagram], packer: &mut Packer, out: &mut Outgoing) {
    let lengths = datagrams.iter().map(|datagram| datagram.end - datagram.start + Footer::BYTES);
    let equal =
        datagrams.len() == LANES && lengths.clone().all(|length| Some(length) == lengths.clone().next());
    out.lengths.extend(lengths.clone().map(|length| length as u32));
    if !equal {
        for length in lengths {
            let (buffer_id, datagram_id, last) = packer.next_datagram(false);
            packer.write_datagram(buffer_id, datagram_id);
            emit::rehash(&mut out.bytes[start..start + length], buffer_id, datagram_id, true, last);
            start += length;
        }
        return;
    }
    let length = (out.bytes.len() - start) / LANES;
    let ids: [(u16, u32, bool); LANES] = std::array::from_fn(|_| packer.next_datagram(false));
    let hashes = hash_lanes(&out.bytes[start..], length, ids.map(|(_, datagram_id, _)| datagram_id));
    for (lane, (buffer_id, datagram_id, last)) in ids.into_iter().enumerate() {
        packer.write_datagram(buffer_id, datagram_id);
        let words = (length / 8 - 1) as u16;
        let footer = Footer::new(buffer_id, hashes[lane], true, words, last).0;
        let end = start + (lane + 1) * length;
        out.bytes[end - Footer::BYTES..end].copy_from_slice(&footer.to_be_bytes());
    }
}

/// The hash of four datagrams of equal length, in parallel; the same as [`crate::digitizer2::wire::hash`] of each.
fn hash_lanes(bytes: &[u8], length: usize, datagram_ids: [u32; LANES]) -> [u32; LANES] {
    const SEED: u32 = 5381;
    const FACTOR: u32 = 33;
    let lanes: [&[[u8; 8]]; LANES] = std::array::from_fn(|lane| {
        bytes[lane * length..(lane + 1) * length - Footer::BYTES].as_chunks::<8>().0
    });
    let words = length / 8 - 1;
    let [first, second, third, fourth] = lanes.map(|lane| &lane[..words]);
    let step = |hash: u32, word: &[u8; 8]| hash.wrapping_mul(FACTOR) ^ u64::from_be_bytes(*word) as u32;
    let mut hashes = datagram_ids.map(|id| SEED.wrapping_mul(FACTOR) ^ (id & 0xFF_FFFF));
    for index in 0..words {
        hashes = [
            step(hashes[0], &first[index]),
            step(hashes[1], &second[index]),
            step(hashes[2], &third[index]),
            step(hashes[3], &fourth[index]),
        ];
    }
    hashes
}

/// Divides the prepared hits into datagrams of whole aggregates.
struct Builder {
    data_bytes: usize,
    most_hits: usize,
    hit_bytes: usize,
    open: Option<emit::AggregateStart>,
    hits_in_aggregate: usize,
}

impl Builder {
    /// Starts a hit at the end of the ring's bytes, in a new datagram or aggregate if the open one is full.
    fn begin_hit(&mut self, ring: &mut Ring) {
        let used = ring.datagrams.last().map_or(0, |datagram| ring.bytes.len() - datagram.start);
        if self.hits_in_aggregate == self.most_hits {
            self.end_aggregate(ring);
        }
        let header = if self.open.is_some() { 0 } else { 8 };
        if ring.datagrams.is_empty() || used + header + self.hit_bytes > self.data_bytes {
            self.finish(ring);
            let start = ring.bytes.len();
            ring.datagrams.push(PreparedDatagram {
                start,
                end: start,
                hits: 0,
                aggregates: 0,
                last_count: 0,
            });
        }
        if self.open.is_none() {
            self.open = Some(emit::begin_aggregate(&mut ring.bytes, 0, false, false));
        }
        self.hits_in_aggregate += 1;
    }

    fn end_aggregate(&mut self, ring: &mut Ring) {
        if let Some(start) = self.open.take() {
            emit::end_aggregate(&mut ring.bytes, start);
            if let Some(datagram) = ring.datagrams.last_mut() {
                datagram.aggregates += 1;
            }
        }
        self.hits_in_aggregate = 0;
    }

    /// Ends the current datagram.
    fn finish(&mut self, ring: &mut Ring) {
        self.end_aggregate(ring);
        if let Some(datagram) = ring.datagrams.last_mut() {
            datagram.end = ring.bytes.len();
            ring.truth_start.push(ring.truth.len());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::digitizer2::wire::hash;

    #[test]
    fn parallel_hashes_are_those_of_each_datagram() {
        let length = 8 * 50;
        let bytes: Vec<u8> = (0..LANES * length).map(|index| (index * 31 % 251) as u8).collect();
        let hashes = hash_lanes(&bytes, length, [0, 1, 2, 0xFF_FFFF]);
        for (lane, id) in [0, 1, 2, 0xFF_FFFF].into_iter().enumerate() {
            let data = &bytes[lane * length..(lane + 1) * length - 8];
            assert_eq!(hashes[lane], hash(id, data.as_chunks::<8>().0));
        }
    }
}
