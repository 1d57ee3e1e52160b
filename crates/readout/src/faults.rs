//! Fault injection: drops, delays, reorders and damages what a source delivers, from a seed.
//!
//! ```text
//!  Source ─Frames─► Faulty ─Frames─► the path, which believes that this is what the network brought
//!                     │
//!        drop · duplicate · reorder · truncate · bit flip       each counted by itself
//! ```
//! What is dropped here is never seen by the receive stage, just as on a wire: the counters describe what is passed on,
//! and the path must find the rest by sequence numbers. The fate of the n-th datagram depends on the seed and on n
//! alone, not on how datagrams fall into batches. Published bytes never change: a datagram with a flipped bit is a copy
//! in blocks of this decorator's own.
//!
//! In a stream nothing can be dropped or reordered as a whole: there, only bits flip and chunks lose their ends.

use std::time::Duration;

use rand::{Rng, SeedableRng};
use rand_pcg::Pcg64Mcg;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use thalweg_data::pool::BlockWriter;
use thalweg_data::stream::{Room, StreamBuffer};
use thalweg_data::{
    Counters, Frames, LossReason, Mark, Pool, PoolError, Received, Slice, Source, SourceError, Unit,
};

/// Blocks for damaged copies.
const BLOCKS: usize = 16;
/// Bytes per block: more than the longest datagram.
const BLOCK_BYTES: usize = 256 << 10;
/// Room below which a stream takes a new block.
const SMALLEST_TAIL: usize = 4096;

/// How bad the network of a source of hits is: the probability of each fault, per datagram (of a stream: per chunk received). Triggered
/// sources have no such table.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct FaultSettings {
    /// It never arrives. Not for streams.
    #[schemars(range(min = 0.0, max = 1.0))]
    pub drop: f64,
    /// It arrives twice. Not for streams.
    #[schemars(range(min = 0.0, max = 1.0))]
    pub duplicate: f64,
    /// It arrives behind the next one. Not for streams.
    #[schemars(range(min = 0.0, max = 1.0))]
    pub reorder: f64,
    /// Its end is missing.
    #[schemars(range(min = 0.0, max = 1.0))]
    pub truncate: f64,
    /// One of its bits is wrong.
    #[schemars(range(min = 0.0, max = 1.0))]
    pub bit_flip: f64,
    /// The same seed does the same damage.
    pub seed: u64,
}

impl FaultSettings {
    /// Whether any fault can happen.
    pub fn any(&self) -> bool {
        self.named().iter().any(|(_, probability)| *probability > 0.0)
    }

    /// Bytes of memory that the decorator takes beside the source's own, for the budget.
    pub const MEMORY_BYTES: usize = BLOCKS * BLOCK_BYTES;

    /// Whether these can be done to a stream, or to datagrams, from `place`.
    ///
    /// # Errors
    /// Names what cannot be.
    pub fn check(&self, is_stream: bool, place: &str) -> Result<(), FaultError> {
        for (name, value) in self.named() {
            if !(0.0..=1.0).contains(&value) {
                return Err(FaultError::NotAProbability { name, value });
            }
            let only_datagrams = ["drop", "duplicate", "reorder"].contains(&name);
            if is_stream && only_datagrams && value > 0.0 {
                return Err(FaultError::NotInStreams { name, place: place.to_owned() });
            }
        }
        Ok(())
    }

    fn named(&self) -> [(&'static str, f64); 5] {
        [
            ("drop", self.drop),
            ("duplicate", self.duplicate),
            ("reorder", self.reorder),
            ("truncate", self.truncate),
            ("bit_flip", self.bit_flip),
        ]
    }
}

/// Faults that cannot be made.
#[derive(Debug, thiserror::Error)]
pub enum FaultError {
    /// A probability beyond 0 to 1.
    #[error("faults: {name} = {value} is not a probability; write a number from 0.0 to 1.0")]
    NotAProbability {
        /// The key.
        name: &'static str,
        /// What was found.
        value: f64,
    },
    /// A fault that a stream cannot have.
    #[error(
        "faults: {name} is for datagrams, and {place} is a stream; only truncate and bit_flip are possible"
    )]
    NotInStreams {
        /// The key.
        name: &'static str,
        /// The source.
        place: String,
    },
    /// No memory for damaged copies.
    #[error("faults: {0}")]
    Memory(#[from] PoolError),
}

/// What was done, counted exactly.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Faults {
    /// Datagrams that never arrived.
    pub dropped_datagrams: u64,
    /// Their bytes.
    pub dropped_bytes: u64,
    /// Datagrams that arrived a second time.
    pub duplicated: u64,
    /// Bytes that arrived a second time.
    pub duplicated_bytes: u64,
    /// Datagrams that arrived behind their successor.
    pub reordered: u64,
    /// Datagrams or chunks whose end was cut off.
    pub truncated: u64,
    /// Bytes cut off.
    pub truncated_bytes: u64,
    /// Bits that were flipped.
    pub flipped_bits: u64,
}

impl Faults {
    /// The counters under their names.
    pub fn named(&self) -> [(&'static str, u64); 8] {
        [
            ("faults_dropped_datagrams", self.dropped_datagrams),
            ("faults_dropped_bytes", self.dropped_bytes),
            ("faults_duplicated", self.duplicated),
            ("faults_duplicated_bytes", self.duplicated_bytes),
            ("faults_reordered", self.reordered),
            ("faults_truncated", self.truncated),
            ("faults_truncated_bytes", self.truncated_bytes),
            ("faults_flipped_bits", self.flipped_bits),
        ]
    }
}

/// What is to happen to one datagram. Drawn once, in a fixed number of draws, so that no fault moves another.
#[derive(Clone, Copy, Debug)]
struct Fate {
    drop: bool,
    duplicate: bool,
    reorder: bool,
    truncate: Option<f64>,
    flip: Option<f64>,
}

impl Fate {
    fn draw(settings: &FaultSettings, random: &mut Pcg64Mcg) -> Fate {
        // 53 bits: what a double can hold; never 1, so that probability 1 always and 0 never happens.
        let mut part = || (random.next_u64() >> 11) as f64 / (1u64 << 53) as f64;
        let [drop, duplicate, reorder, truncate, flip, cut, place]: [f64; 7] =
            std::array::from_fn(|_| part());
        Fate {
            drop: drop < settings.drop,
            duplicate: duplicate < settings.duplicate,
            reorder: reorder < settings.reorder,
            truncate: (truncate < settings.truncate).then_some(cut),
            flip: (flip < settings.bit_flip).then_some(place),
        }
    }

    /// How many of `length` bytes are left.
    fn kept(&self, length: usize) -> usize {
        self.truncate.map_or(length, |part| (part * length as f64) as usize)
    }

    /// Which bit of `length` bytes is flipped: byte and mask.
    fn flipped(&self, length: usize) -> Option<(usize, u8)> {
        let bit = (self.flip? * length as f64 * 8.0) as usize;
        (length > 0).then_some((bit / 8, 1 << (bit % 8)))
    }
}

/// A source behind a bad network.
pub struct Faulty {
    source: Box<dyn Source>,
    settings: FaultSettings,
    random: Pcg64Mcg,
    faults: Faults,
    /// What the source gave, and how far into it we are: slices, and bytes of a stream's slice.
    incoming: Frames,
    next_slice: usize,
    next_byte: usize,
    /// The fate of the datagram at `next_slice`, when it was drawn and no block was free to carry it out.
    fate: Option<Fate>,
    /// A datagram that waits for its successor.
    overtaken: Frames,
    copies: Copies,
    /// What was passed on.
    passed: Counters,
    counters: Counters,
    /// The latest mark: a batch without bytes of its own has it, too.
    mark: Mark,
    ended: bool,
}

/// Where damaged bytes go.
enum Copies {
    Datagrams { pool: Pool, writer: Option<BlockWriter> },
    Stream(StreamBuffer),
}

impl Faulty {
    /// Puts a bad network in front of `source`.
    ///
    /// # Errors
    /// When a probability is none, or a stream is to lose datagrams, or the memory is not there.
    pub fn new(source: Box<dyn Source>, settings: FaultSettings) -> Result<Faulty, FaultError> {
        settings.check(source.is_stream(), &source.description())?;
        let pool = Pool::new(BLOCKS, BLOCK_BYTES)?;
        let copies = match source.is_stream() {
            true => Copies::Stream(StreamBuffer::new(pool, SMALLEST_TAIL)),
            false => Copies::Datagrams { pool, writer: None },
        };
        Ok(Faulty {
            random: Pcg64Mcg::seed_from_u64(settings.seed),
            source,
            settings,
            faults: Faults::default(),
            incoming: Frames::default(),
            next_slice: 0,
            next_byte: 0,
            fate: None,
            overtaken: Frames::default(),
            copies,
            passed: Counters::default(),
            counters: Counters::default(),
            mark: Mark::default(),
            ended: false,
        })
    }

    /// What was done so far.
    pub fn faults(&self) -> Faults {
        self.faults
    }

    /// Passes on what can be of the incoming batch; whether all of it was dealt with.
    fn pass_datagrams(&mut self, frames: &mut Frames) -> bool {
        while let Some(slice) = self.incoming.slices.get(self.next_slice).copied() {
            let fate = match self.fate.take() {
                Some(fate) => fate,
                None => Fate::draw(&self.settings, &mut self.random),
            };
            if fate.drop {
                self.faults.dropped_datagrams += 1;
                self.faults.dropped_bytes += u64::from(slice.length);
            } else if !self.pass_datagram(slice, fate, frames) {
                self.fate = Some(fate);
                return false;
            }
            self.next_slice += 1;
        }
        true
    }

    /// Damages one datagram and passes it on; false when there is no block for the damaged copy.
    fn pass_datagram(&mut self, slice: Slice, fate: Fate, frames: &mut Frames) -> bool {
        let kept = fate.kept(slice.length as usize);
        let mut damaged = slice.part(0, kept).expect("what is kept is no more than there was");
        // The leases of this one datagram: on the source's block, or on the copy's.
        let mut own = Frames::default();
        match fate.flipped(kept).filter(|_| kept <= BLOCK_BYTES) {
            Some(place) => {
                let Some(copy) = self.copy_flipped(damaged, place, &mut own) else { return false };
                damaged = copy;
                self.faults.flipped_bits += 1;
            }
            None => own.leases.add_for(damaged, &self.incoming.leases),
        }
        if kept < slice.length as usize {
            self.faults.truncated += 1;
            self.faults.truncated_bytes += u64::from(slice.length) - kept as u64;
        }
        own.slices.push(damaged);
        if fate.duplicate {
            own.slices.push(damaged);
            self.faults.duplicated += 1;
            self.faults.duplicated_bytes += kept as u64;
        }
        if fate.reorder && self.overtaken.slices.is_empty() {
            self.faults.reordered += 1;
            self.overtaken = own;
            return true;
        }
        self.push(&own, frames);
        self.release_overtaken(frames);
        true
    }

    fn copy_flipped(&mut self, slice: Slice, (byte, mask): (usize, u8), own: &mut Frames) -> Option<Slice> {
        let Copies::Datagrams { pool, writer } = &mut self.copies else { return None };
        let length = slice.length as usize;
        if writer.as_ref().is_none_or(|writer| writer.remaining() < length) {
            // The old one is let go first: with its readers gone, it is the block that is taken.
            *writer = None;
            *writer = pool.take();
        }
        let writer = writer.as_mut()?;
        let room = &mut writer.tail()[..length];
        room.copy_from_slice(self.incoming.leases.bytes(slice));
        room[byte] ^= mask;
        let copy = writer.publish(length).tagged(slice.tag);
        own.leases.add(writer.lease());
        Some(copy)
    }

    fn push(&mut self, own: &Frames, frames: &mut Frames) {
        for slice in &own.slices {
            frames.slices.push(*slice);
            for (unit, count) in [(Unit::Datagrams, 1), (Unit::Bytes, u64::from(slice.length))] {
                self.passed.input(unit, count);
                self.passed.output(unit, count);
            }
        }
        frames.leases.add_all(&own.leases);
    }

    fn release_overtaken(&mut self, frames: &mut Frames) {
        if !self.overtaken.slices.is_empty() {
            let own = std::mem::take(&mut self.overtaken);
            self.push(&own, frames);
        }
    }

    /// Passes on one chunk of the incoming stream; whether all of it was dealt with.
    fn pass_stream(&mut self, frames: &mut Frames) -> bool {
        let Copies::Stream(buffer) = &mut self.copies else { return true };
        while let Some(slice) = self.incoming.slices.get(self.next_slice).copied() {
            // A chunk that is larger than the buffer goes in parts, each a chunk of its own.
            let rest = slice.part(self.next_byte, slice.length as usize - self.next_byte);
            let rest = rest.expect("we are inside the slice");
            let tail = match buffer.room() {
                Room::Tail(tail) => tail,
                Room::NoBlock => return false,
                Room::UnitTooLarge => {
                    buffer.carry(0);
                    continue;
                }
            };
            let length = tail.len().min(rest.length as usize);
            let fate = Fate::draw(&self.settings, &mut self.random);
            let kept = fate.kept(length);
            let bytes = &self.incoming.leases.bytes(rest)[..kept];
            tail[..kept].copy_from_slice(bytes);
            if let Some((byte, mask)) = fate.flipped(kept) {
                tail[byte] ^= mask;
                self.faults.flipped_bits += 1;
            }
            if kept < length {
                self.faults.truncated += 1;
                self.faults.truncated_bytes += (length - kept) as u64;
            }
            self.next_byte += length;
            if self.next_byte == slice.length as usize {
                (self.next_slice, self.next_byte) = (self.next_slice + 1, 0);
            }
            if kept > 0 {
                buffer.publish(kept, frames);
                for (unit, count) in [(Unit::Datagrams, 1), (Unit::Bytes, kept as u64)] {
                    self.passed.input(unit, count);
                    self.passed.output(unit, count);
                }
                // One chunk per batch, so that what the framing leaves over can be carried.
                break;
            }
        }
        self.next_slice >= self.incoming.slices.len()
    }

    /// Whether something of the incoming batch is still to be passed on.
    fn unfinished(&self) -> bool {
        self.next_slice < self.incoming.slices.len()
    }

    fn pass(&mut self, frames: &mut Frames) {
        let all = match self.copies {
            Copies::Datagrams { .. } => self.pass_datagrams(frames),
            Copies::Stream(_) => self.pass_stream(frames),
        };
        frames.header = self.incoming.header;
        self.mark = self.mark.max(frames.header.mark);
        frames.header.mark = self.mark;
        if all {
            self.incoming.clear();
            (self.next_slice, self.next_byte) = (0, 0);
        } else {
            // What follows the whole batch follows its last part.
            (frames.header.snapshot, frames.header.end) = (None, false);
        }
    }

    /// The counters: what was passed on, and what the source itself left out or lost, which came through the network, too.
    fn settle(&mut self) {
        let inner = self.source.counters();
        let mut counters = self.passed.clone();
        for unit in [Unit::Datagrams, Unit::Bytes] {
            for reason in LossReason::known().filter(|each| inner.total_lost(*each, unit) > 0) {
                counters.input(unit, inner.total_lost(reason, unit));
                counters.lost(reason, unit, inner.total_lost(reason, unit));
            }
            counters.filtered(unit, inner.total_filtered(unit));
            counters.overhead(unit, inner.total_overhead(unit));
            counters.set_held(unit, inner.held(unit));
            counters.input(unit, inner.total_filtered(unit) + inner.total_overhead(unit) + inner.held(unit));
        }
        self.counters = counters;
    }
}

impl Source for Faulty {
    fn receive(&mut self, frames: &mut Frames, wait: Duration) -> Result<Received, SourceError> {
        let mut received = Received::Data;
        if !self.unfinished() && !self.ended {
            self.incoming.clear();
            // The framing behind us leaves bytes over in our copy, never in the source's.
            let connection = self.source.connections();
            received = self.source.receive(&mut self.incoming, wait)?;
            if self.source.is_stream() {
                self.source.carry(0);
                if self.source.connections() != connection {
                    // What the framing left over came on the connection before.
                    self.carry(0);
                }
            }
            self.ended = received == Received::End;
        }
        self.pass(frames);
        if received != Received::Data || self.ended {
            // Nothing will overtake it now.
            self.release_overtaken(frames);
        }
        self.settle();
        Ok(match received {
            _ if !frames.slices.is_empty() => Received::Data,
            _ if self.unfinished() => Received::Full,
            _ if self.ended => Received::End,
            // All of it was dropped.
            Received::Data => Received::Idle,
            other => other,
        })
    }

    fn carry(&mut self, bytes: usize) {
        if let Copies::Stream(buffer) = &mut self.copies {
            buffer.carry(bytes);
        }
    }

    fn give_carried(&mut self, frames: &mut Frames) {
        if let Copies::Stream(buffer) = &mut self.copies {
            buffer.give_carried(frames);
        }
    }

    fn counters(&self) -> &Counters {
        &self.counters
    }

    fn waiting_bytes(&self) -> u64 {
        self.source.waiting_bytes()
    }

    fn abandon(&mut self) -> Result<(), SourceError> {
        let result = self.source.abandon();
        self.settle();
        result
    }

    fn drop_counters(&self) -> Vec<(&'static str, u64)> {
        let mut drop_counters = self.source.drop_counters();
        drop_counters.extend(self.faults.named());
        drop_counters
    }

    fn unreadable(&self) -> Option<String> {
        self.source.unreadable()
    }

    fn description(&self) -> String {
        let faults = self.settings.named().into_iter().filter(|(_, probability)| *probability > 0.0);
        let faults = faults.map(|(name, probability)| format!("{name} {probability}")).collect::<Vec<_>>();
        let (source, seed) = (self.source.description(), self.settings.seed);
        format!("{source}; behind a bad network by seed {seed}: {}", faults.join(", "))
    }

    fn is_stream(&self) -> bool {
        self.source.is_stream()
    }

    fn connections(&self) -> u32 {
        self.source.connections()
    }
}

#[cfg(test)]
mod tests;
