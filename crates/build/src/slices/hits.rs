//! One source's hits, cut by time: sixteen bytes each, copied once into blocks.
//!
//! ```text
//!  Hits ─► the writer of their slice ─► slices of blocks ─► one fragment per slice
//! ```
//! Each open slice has a writer of its own, so that hits out of order do not cut it into many; when the slice has left, the
//! writer goes on behind it with the next.

use std::collections::VecDeque;

use thalweg_data::{BlockWriter, Flags, Fragments, Hit, Hits, Pool, SourceId, Unit};

use super::timeline::{Place, Timeline};
use super::{Settings, SliceError};

/// Bytes of a hit in a slice: `time_ps` (8), `channel`, `energy`, `energy_short`, `flags` (2 each), little-endian.
pub const HIT_BYTES: usize = thalweg_data::ledger::SLICED_HIT_BYTES as usize;

/// Cuts the hits of one source into time slices.
pub struct HitCutter {
    timeline: Timeline,
    pool: Pool,
    /// Of the slice that leaves next, and so on.
    writers: VecDeque<Option<BlockWriter>>,
    /// Slices that had left when the writers were last put in step.
    left: u64,
    copied_bytes: u64,
    extras_left_out: u64,
}

impl HitCutter {
    /// A cutter for one source, which copies into blocks of this pool.
    ///
    /// # Errors
    /// When time cannot be cut as the settings say.
    pub fn new(source: SourceId, settings: &Settings, pool: &Pool) -> Result<HitCutter, SliceError> {
        let timeline = Timeline::new(source, settings, Unit::Hits)?;
        let writers = (0..timeline.open_slices()).map(|_| None).collect();
        Ok(HitCutter { timeline, pool: pool.clone(), writers, left: 0, copied_bytes: 0, extras_left_out: 0 })
    }

    /// Takes hits from number `first` of the batch on and appends the slices that have left to `out`. Returns how many hits
    /// were taken: fewer than all when `out` is full, which is then to be built and cleared, or when no block is free, which
    /// is when `out` is empty. Waveforms and user words stay behind.
    pub fn cut(&mut self, hits: &Hits, first: usize, out: &mut Fragments) -> usize {
        (out.header.source, out.header.mark) = (hits.header.source, hits.header.mark);
        let mut rest = hits.hits.get(first..).unwrap_or(&[]);
        let offered = rest.len();
        while let Some(hit) = rest.first() {
            let taken = match self.timeline.place(hit.time_ps, hits.header.mark, out) {
                Place::Open(index) => self.copy(index, rest),
                Place::Lost(reason) => {
                    self.timeline.counters.lost(reason, Unit::Hits, 1);
                    1
                }
                Place::Full => 0,
            };
            if taken == 0 {
                break;
            }
            rest = &rest[taken..];
        }
        let taken = offered - rest.len();
        self.timeline.counters.input(Unit::Hits, taken as u64);
        self.timeline.count_held();
        taken
    }

    /// Copies the hits at the start of `hits` that belong to this open slice and move nothing on, as many as fit in its
    /// block. Returns how many.
    fn copy(&mut self, index: usize, hits: &[Hit]) -> usize {
        self.keep_step();
        let writer = &mut self.writers[index];
        if writer.as_ref().is_none_or(|writer| writer.remaining() < HIT_BYTES) {
            *writer = self.pool.take();
        }
        let Some(writer) = writer else { return 0 };
        let number = self.timeline.number(index) as i64;
        let fits = writer.remaining() / HIT_BYTES;
        let latest_ps = hits[0].time_ps;
        let own = hits.iter().take(fits).take_while(|hit| {
            // What is later than the first may be proof that an older slice is over; the next turn sees to it.
            hit.time_ps <= latest_ps || self.timeline.moves_nothing(hit.time_ps)
        });
        let count = own.take_while(|hit| self.timeline.slice_of(hit.time_ps) == number).count();
        for (bytes, hit) in writer.tail().chunks_exact_mut(HIT_BYTES).zip(&hits[..count]) {
            bytes.copy_from_slice(&hit_bytes(hit));
            self.extras_left_out += u64::from(hit.flags.has(Flags::EXTRA));
        }
        let slice = writer.publish(count * HIT_BYTES);
        self.copied_bytes += u64::from(slice.length);
        let open = self.timeline.open(index);
        open.leases().add(writer.lease());
        open.add(slice, count as u64);
        count
    }

    /// The writers move on as slices leave.
    fn keep_step(&mut self) {
        let steps = self.timeline.slices_left() - self.left;
        let around = steps % self.writers.len() as u64;
        self.writers.rotate_left(around as usize);
        self.left = self.timeline.slices_left();
    }

    /// Returns the open slices, and what became of the hits.
    pub fn timeline(&self) -> &Timeline {
        &self.timeline
    }

    /// For reporting how far the source has come, and that it has ended.
    pub fn timeline_mut(&mut self) -> &mut Timeline {
        &mut self.timeline
    }

    /// Whether there is a block for hits that no writer has space for.
    pub fn has_free_block(&self) -> bool {
        self.pool.free_count() > 0
    }

    /// Bytes that were copied: the one copy that cutting costs.
    pub fn copied_bytes(&self) -> u64 {
        self.copied_bytes
    }

    /// Hits whose waveforms or user words stayed behind.
    pub fn extras_left_out(&self) -> u64 {
        self.extras_left_out
    }
}

fn hit_bytes(hit: &Hit) -> [u8; HIT_BYTES] {
    let mut bytes = [0; HIT_BYTES];
    bytes[..8].copy_from_slice(&hit.time_ps.to_le_bytes());
    bytes[8..10].copy_from_slice(&hit.channel.to_le_bytes());
    bytes[10..12].copy_from_slice(&hit.energy.to_le_bytes());
    bytes[12..14].copy_from_slice(&hit.energy_short.to_le_bytes());
    bytes[14..].copy_from_slice(&hit.flags.0.to_le_bytes());
    bytes
}

/// Reads the hits in one slice of a block; bytes that make no whole hit at its end are left.
pub fn read_hits(bytes: &[u8]) -> impl Iterator<Item = Hit> + '_ {
    bytes.as_chunks::<HIT_BYTES>().0.iter().map(
        |[t0, t1, t2, t3, t4, t5, t6, t7, c0, c1, e0, e1, s0, s1, f0, f1]| Hit {
            time_ps: i64::from_le_bytes([*t0, *t1, *t2, *t3, *t4, *t5, *t6, *t7]),
            channel: u16::from_le_bytes([*c0, *c1]),
            energy: u16::from_le_bytes([*e0, *e1]),
            energy_short: u16::from_le_bytes([*s0, *s1]),
            flags: Flags(u16::from_le_bytes([*f0, *f1])),
        },
    )
}
