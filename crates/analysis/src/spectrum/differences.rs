//! Signed time differences of pairs in an event, in the spectrum of the pair's higher channel.
//!
//! ```text
//!  [coincidence] with a reference    t(channel) − t(reference hit)
//!  without one                       t(channel) − t(lowest channel of the event)
//!                                      ─► bin ─► fill buffers, by channel ─► one more in each bin
//! ```
//! Which hit is subtracted is never decided by time: the difference to the earliest hit has one sign only, so that a
//! resolution of σ would show as half a Gaussian.

use thalweg_data::{Hit, HitEvents};

use super::axis::Axis;
use super::catalogue::{Block, Catalogue};
use super::fill_buffers::FillBuffers;
use super::store::{Store, Totals};
use crate::channels::ChannelMap;

/// Differences that wait, of each channel.
const FILL_BUFFER: usize = 512;

/// Fills the time differences.
#[derive(Debug)]
pub(super) struct Differences {
    block: Block,
    axis: Axis,
    /// Whether events have a reference hit that the user chose; else it is only their first hit.
    has_reference: bool,
    /// Bin of each, counted from 1: 0 is below the axis, and what is behind the last bin is above it.
    fill_buffers: FillBuffers,
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
        })
    }

    /// Takes all members of events, but those of the channel that is subtracted; `pass` says which of them are shown, `None` all. What is
    /// subtracted need not be shown: it is the event's time, whatever is asked of its other hits.
    pub fn fill(&mut self, events: &HitEvents, pass: Option<&[u8]>, map: &ChannelMap, store: &Store) {
        let Differences { block, axis, has_reference, fill_buffers } = self;
        let mut filling = fill_buffers.filling();
        let mut put = |member: &Hit, start: &Hit| {
            let Some(row) = map.row(member.channel) else { return };
            let difference = member.time_ps.wrapping_sub(start.time_ps) as f64;
            // Both ends of the window are within it, so the last bin has its upper edge, too.
            let place = match difference == axis.high {
                true => axis.bins,
                false => axis.bin(difference).map_or(0, |bin| (bin + 1) as u32),
            };
            if filling.push(row, place) {
                count(*block, row, filling.take(row), store);
            }
        };
        for (event, members) in events.iter() {
            // Most events, and without a loop over their members.
            if let ([first, second], false, None) = (members, *has_reference, pass) {
                let (start, other) =
                    if second.channel < first.channel { (second, first) } else { (first, second) };
                if start.channel != other.channel {
                    put(other, start);
                }
                continue;
            }
            let subtracted = match *has_reference {
                true => usize::from(event.reference),
                false => lowest_channel(members),
            };
            let Some(start) = members.get(subtracted) else { continue };
            for (index, member) in members.iter().enumerate() {
                let is_pair = match *has_reference {
                    true => index != subtracted,
                    false => member.channel != start.channel,
                };
                if is_pair && pass.is_none_or(|pass| pass[event.first as usize + index] != 0) {
                    put(member, start);
                }
            }
        }
    }

    /// Memory of those that wait, bytes.
    pub fn waiting_bytes(catalogue: &Catalogue) -> usize {
        catalogue.differences.map_or(0, |block| FillBuffers::bytes(block.count, FILL_BUFFER))
    }

    /// The numbers of its spectra.
    pub fn spectra(&self) -> std::ops::Range<usize> {
        self.block.first..self.block.first + self.block.count
    }

    /// Counts what is in the fill buffers.
    pub fn settle(&mut self, store: &Store) {
        let Differences { block, fill_buffers, .. } = self;
        fill_buffers.take_all(|row, places| count(*block, row, places, store));
    }
}

/// The index of the first member of the lowest channel.
fn lowest_channel(members: &[Hit]) -> usize {
    let channels = members.iter().enumerate();
    channels.min_by_key(|(_, member)| member.channel).map_or(0, |(index, _)| index)
}

fn count(block: Block, row: usize, places: &[u32], store: &Store) {
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
