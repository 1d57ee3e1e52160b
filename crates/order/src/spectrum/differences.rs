//! Times of each channel's hits after the reference of their events.
//!
//! ```text
//!  events ─► member − reference ─► place ─► trays, by channel ─► one more in each bin
//! ```

use thalweg_data::HitEvents;

use super::axis::Axis;
use super::catalogue::{Block, Catalogue};
use super::store::{Store, Totals};
use super::trays::Trays;
use crate::channels::ChannelMap;

/// Differences that wait, of each channel.
const TRAY: usize = 512;

/// Fills the time differences.
#[derive(Debug)]
pub(super) struct Differences {
    block: Block,
    axis: Axis,
    /// Bin of each, counted from 1: 0 is below the axis, and what is behind the last bin is above it.
    trays: Trays<u32>,
}

impl Differences {
    /// For the spectra of a catalogue, if it has any of these.
    pub fn new(catalogue: &Catalogue) -> Option<Differences> {
        let block = catalogue.differences?;
        // The axes of all channels are alike.
        let axis = catalogue.spectra[block.first].axes[0].clone();
        Some(Differences { block, axis, trays: Trays::new(block.count, TRAY) })
    }

    /// Takes all members of events but the references.
    pub fn fill(&mut self, events: &HitEvents, map: &ChannelMap, store: &Store) {
        for (event, members) in events.iter() {
            let reference = usize::from(event.reference);
            let Some(centre) = members.get(reference) else { continue };
            for (index, member) in members.iter().enumerate() {
                let Some(row) = map.row(member.channel).filter(|_| index != reference) else { continue };
                let difference = member.time_ps.wrapping_sub(centre.time_ps) as f64;
                let place = self.axis.bin(difference).map_or(0, |bin| (bin + 1) as u32);
                if self.trays.push(row, place) {
                    count(self.block, row, self.trays.take(row), store);
                }
            }
        }
    }

    /// Counts what lies in the trays.
    pub fn settle(&mut self, store: &Store) {
        let Differences { block, trays, .. } = self;
        trays.take_all(|row, places| count(*block, row, places, store));
    }
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
