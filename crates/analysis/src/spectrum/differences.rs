//! Signed time differences of pairs in an event, in the spectrum of the pair's higher channel.
//!
//! ```text
//!  [coincidence] with a reference    t(channel) − t(reference hit)
//!  without one                       t(channel) − t(lowest channel of the event)
//!                                      ─► bin ─► fill buffers, by channel ─► one more in each bin
//! ```
//! Which hit is subtracted is never decided by time: the difference to the earliest hit has one sign only, so that a
//! resolution of σ would show as half a Gaussian.

use thalweg_data::simd::{Wide, whole_part_long, widest};
use thalweg_data::{Hit, HitEvents};

use super::axis::Axis;
use super::catalogue::{Block, Catalogue};
use super::fill_buffers::FillBuffers;
use super::store::{Store, Totals};
use crate::channels::ChannelMap;

/// Differences that wait, of each channel.
const FILL_BUFFER: usize = 512;
/// Differences whose bins are computed together.
const CHUNK: usize = 256;

/// Fills the time differences.
#[derive(Debug)]
pub(super) struct Differences {
    block: Block,
    axis: Axis,
    /// Whether events have a reference hit that the user chose; else it is only their first hit.
    has_reference: bool,
    /// Bin of each, counted from 1: 0 is below the axis, and what is behind the last bin is above it.
    fill_buffers: FillBuffers,
    pairs: Box<PairChunk>,
}

/// Differences of some pairs, picoseconds, and whose they are, by row of the channel map.
#[derive(Debug)]
struct PairChunk {
    count: usize,
    rows: [u16; CHUNK],
    differences_ps: [f64; CHUNK],
}

impl Differences {
    /// For the spectra of a catalogue, if it has any of these.
    pub fn new(catalogue: &Catalogue) -> Option<Differences> {
        let block = catalogue.differences?;
        // The axes of all channels are alike.
        let axis = catalogue.spectra[block.first].axes[0].clone();
        let has_reference = catalogue.has_reference;
        Some(Differences {
            block,
            axis,
            has_reference,
            fill_buffers: FillBuffers::new(block.count, FILL_BUFFER),
            pairs: Box::new(PairChunk { count: 0, rows: [0; CHUNK], differences_ps: [0.0; CHUNK] }),
        })
    }

    /// Takes all members of events, but those of the channel that is subtracted; `pass` says which of them are shown, `None` all. What is
    /// subtracted need not be shown: it is the event's time, whatever is asked of its other hits.
    pub fn fill(&mut self, events: &HitEvents, pass: Option<&[u8]>, map: &ChannelMap, store: &Store) {
        for (event, members) in events.iter() {
            if let ([first, second], false, None) = (members, self.has_reference, pass) {
                let (start, other) =
                    if second.channel < first.channel { (second, first) } else { (first, second) };
                if start.channel != other.channel {
                    self.put(other, start, map, store);
                }
                continue;
            }
            let subtracted = match self.has_reference {
                true => usize::from(event.reference),
                false => lowest_channel(members),
            };
            let Some(start) = members.get(subtracted) else { continue };
            for (index, member) in members.iter().enumerate() {
                let is_pair = match self.has_reference {
                    true => index != subtracted,
                    false => member.channel != start.channel,
                };
                if is_pair && pass.is_none_or(|pass| pass[event.first as usize + index] != 0) {
                    self.put(member, start, map, store);
                }
            }
        }
        self.put_pairs(store);
    }

    #[inline(always)]
    fn put(&mut self, member: &Hit, start: &Hit, map: &ChannelMap, store: &Store) {
        let Some(row) = map.row(member.channel) else { return };
        let pairs = &mut *self.pairs;
        pairs.rows[pairs.count] = row as u16;
        pairs.differences_ps[pairs.count] = member.time_ps.wrapping_sub(start.time_ps) as f64;
        pairs.count += 1;
        if pairs.count == CHUNK {
            self.put_pairs(store);
        }
    }

    /// Puts the bins of the pairs at hand into the fill buffers.
    fn put_pairs(&mut self, store: &Store) {
        let count = std::mem::take(&mut self.pairs.count);
        let (rows, differences_ps) = (&self.pairs.rows[..count], &self.pairs.differences_ps[..count]);
        let mut places = [0; CHUNK];
        widest(PairPlaces { differences_ps, axis: &self.axis, places: &mut places });
        let mut filling = self.fill_buffers.filling();
        for (row, place) in rows.iter().zip(places) {
            let row = usize::from(*row);
            if filling.push(row, place) {
                count_places(self.block, row, filling.take(row), store);
            }
        }
    }

    /// The numbers of its spectra.
    pub fn spectra(&self) -> std::ops::Range<usize> {
        self.block.first..self.block.first + self.block.count
    }

    /// Counts what is in the fill buffers.
    pub fn settle(&mut self, store: &Store) {
        let Differences { block, fill_buffers, .. } = self;
        fill_buffers.take_all(|row, places| count_places(*block, row, places, store));
    }
}

/// The index of the first member of the lowest channel.
fn lowest_channel(members: &[Hit]) -> usize {
    let channels = members.iter().enumerate();
    channels.min_by_key(|(_, member)| member.channel).map_or(0, |(index, _)| index)
}

/// The bin of each difference, counted from 1.
struct PairPlaces<'p> {
    differences_ps: &'p [f64],
    axis: &'p Axis,
    places: &'p mut [u32; CHUNK],
}

impl Wide for PairPlaces<'_> {
    type Output = ();

    #[inline(always)]
    fn run(self) {
        let (low, scale, behind) = (self.axis.low, self.axis.scale(), self.axis.bins + 1);
        for (place, difference_ps) in self.places.iter_mut().zip(self.differences_ps) {
            let bin = (difference_ps - low) * scale;
            *place = if bin < 0.0 { 0 } else { whole_part_long(bin, behind) + 1 };
        }
    }
}

fn count_places(block: Block, row: usize, places: &[u32], store: &Store) {
    let first_bin = block.range(row).start;
    let totals = &store.totals[block.first + row];
    Totals::add(&totals.entries, places.len() as u64);
    for place in places {
        match (*place as usize).checked_sub(1) {
            None => Totals::add(&totals.below, 1),
            Some(bin) if bin < block.stride => store.count(first_bin + bin),
            Some(_) => Totals::add(&totals.above, 1),
        }
    }
}
