//! Loss on the way out of a board, by seed, with an exact account of what it took.

use rand::{RngExt, SeedableRng};
use rand_pcg::Pcg64Mcg;
use thalweg_data::{Decode, Frames, Hits, Pool, SourceId};
use thalweg_frontend::digitizer2::emulate::{Outgoing, Settings};
use thalweg_frontend::digitizer2::{self, Decoder};

/// What was dropped.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Dropped {
    /// Datagrams.
    pub datagrams: u64,
    /// Their bytes, footers included.
    pub bytes: u64,
    /// Hits in them, where each datagram holds whole aggregates.
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
    counter: Option<HitCounter>,
    /// Datagrams dropped since the last that was sent.
    trailing: u64,
}

impl Loss {
    pub(super) fn new(share: f64, board: &Settings) -> Loss {
        let stream = board.seed ^ (u64::from(board.board) << 32) ^ 0x10_55;
        let counter = (share > 0.0).then(|| HitCounter::new(board)).flatten();
        Loss { share, random: Pcg64Mcg::seed_from_u64(stream), counter, trailing: 0 }
    }

    /// The datagrams that are sent; the others are added to `dropped`.
    pub(super) fn survivors<'o>(&mut self, out: &'o Outgoing, dropped: &mut Dropped) -> Vec<&'o [u8]> {
        if self.share <= 0.0 {
            return out.datagrams().collect();
        }
        let mut kept = Vec::with_capacity(out.lengths().len());
        for datagram in out.datagrams() {
            // Markers without data are let through: losing one loses nothing.
            let is_marker = datagram.len() <= 8;
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

/// Counts the hits in a datagram by decoding it.
struct HitCounter {
    pool: Pool,
    decoder: Decoder,
    hits: Hits,
}

impl HitCounter {
    fn new(board: &Settings) -> Option<HitCounter> {
        let settings = digitizer2::Settings::default().completed_by(&board.facts()).ok()?;
        let pool = Pool::new(1, (board.datagram_bytes as usize).next_multiple_of(64).max(1 << 16)).ok()?;
        Some(HitCounter { pool, decoder: Decoder::new(SourceId(0), &settings).ok()?, hits: Hits::default() })
    }

    fn hits_in(&mut self, datagram: &[u8]) -> u64 {
        let Some(mut writer) = self.pool.take() else { return 0 };
        let mut frames = Frames::default();
        let mut rest = &datagram[..datagram.len() - 8];
        // A board's own datagram: whole events, each with its length in the low half of its first word.
        while let Some(header) = rest.first_chunk::<8>() {
            let header = u64::from_be_bytes(*header);
            let length = ((header as u32 as usize) * 8).clamp(8, rest.len());
            let (event, behind) = rest.split_at(length);
            let Some(slice) = writer.append(event) else { break };
            frames.slices.push(slice.tagged((header >> 60) as u32));
            rest = behind;
        }
        frames.leases.add(writer.lease());
        self.hits.clear();
        self.decoder.decode(&frames, &mut self.hits);
        self.hits.hits.len() as u64
    }
}
