//! Loss on the way out of a board, by seed, with an exact count of what it took.

use rand::{RngExt, SeedableRng};
use rand_pcg::Pcg64Mcg;
use thalweg_frontend::format::{HitCounter, SelfTriggeredSettings};
use thalweg_frontend::self_triggered::Outgoing;

/// What was dropped.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Dropped {
    /// Datagrams.
    pub datagrams: u64,
    /// Their bytes.
    pub bytes: u64,
    /// Hits in them, where a datagram says by itself which it holds.
    pub hits: u64,
    /// Datagrams among them behind the last that was sent: only the sender knows of these.
    pub trailing: u64,
}

impl Dropped {
    /// Adds what the same board has dropped since.
    pub(super) fn add(&mut self, more: Dropped) {
        self.datagrams += more.datagrams;
        self.bytes += more.bytes;
        self.hits += more.hits;
        self.trailing = more.trailing;
    }
}

/// Chooses which datagrams to drop.
pub(super) struct Loss {
    share: f64,
    random: Pcg64Mcg,
    counter: Option<Box<dyn HitCounter>>,
    /// Datagrams dropped since the last that was sent.
    trailing: u64,
}

impl Loss {
    pub(super) fn new(share: f64, board: &dyn SelfTriggeredSettings) -> Loss {
        let counter = (share > 0.0).then(|| board.hit_counter()).flatten();
        Loss { share, random: Pcg64Mcg::seed_from_u64(board.seed() ^ 0x10_55), counter, trailing: 0 }
    }

    /// The datagrams that are sent; the others are added to `dropped`.
    pub(super) fn survivors<'o>(&mut self, out: &'o Outgoing, dropped: &mut Dropped) -> Vec<&'o [u8]> {
        if self.share <= 0.0 {
            return out.datagrams().collect();
        }
        let mut kept = Vec::with_capacity(out.lengths().len());
        for datagram in out.datagrams() {
            // Markers without data are let through: losing one loses nothing.
            let is_marker = self.counter.as_ref().is_some_and(|counter| !counter.has_data(datagram));
            if is_marker || self.random.random::<f64>() >= self.share {
                kept.push(datagram);
                self.trailing = if is_marker { self.trailing } else { 0 };
                continue;
            }
            let hits = self.counter.as_mut().map_or(0, |counter| counter.hits_in(datagram));
            dropped.add(Dropped { datagrams: 1, bytes: datagram.len() as u64, hits, trailing: 0 });
            self.trailing += 1;
        }
        dropped.trailing = self.trailing;
        kept
    }
}
