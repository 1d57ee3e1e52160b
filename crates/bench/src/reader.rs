//! What a readout thread does with bytes in memory: splits and decodes those of some boards.
//!
//! ```text
//!  batches of received bytes, those of its boards ─► unpack ─► decode ─► hits, here or for another thread
//! ```

use std::ops::Range;
use std::time::Duration;

use thalweg_data::ring::Upstream;
use thalweg_data::{Decode, Frames, Framing, Hits, SourceId};
use thalweg_frontend::digitizer2::{Decoder, Settings, UdpUnpack};

use super::path::LARGEST_UNIT_BYTES;

/// Channels of each board.
pub(super) const CHANNELS: u16 = 64;
/// Decoded batches between two threads, as a run has for each source.
pub(super) const DECODED_BATCHES: usize = 8;
/// How long a thread waits for another before it looks whether that has ended.
pub(super) const WAIT: Duration = Duration::from_millis(20);

/// The framing and the decoder of each of its boards.
pub(super) struct Reader {
    first: u16,
    boards: Vec<(UdpUnpack, Decoder)>,
    units: Frames,
}

impl Reader {
    /// Of the boards with these numbers.
    pub fn new(boards: Range<u16>) -> Result<Reader, String> {
        let board = |board: u16| {
            let settings = Settings { first_channel: board * CHANNELS, ..Settings::default() };
            let decoder = Decoder::new(SourceId(board), &settings).map_err(|error| error.to_string())?;
            Ok((UdpUnpack::new(SourceId(board), LARGEST_UNIT_BYTES), decoder))
        };
        let first = boards.start;
        let boards = boards.map(board).collect::<Result<_, String>>()?;
        Ok(Reader { first, boards, units: Frames::default() })
    }

    /// Appends the hits of a batch of one of its boards.
    pub fn read(&mut self, frames: &Frames, hits: &mut Hits) {
        let (unpack, decode) = &mut self.boards[frames.header.source.index() - usize::from(self.first)];
        unpack.frame(frames, &mut self.units);
        (self.units.header, hits.header) = (frames.header, frames.header);
        decode.decode(&self.units, hits);
        self.units.clear();
    }

    /// Reads the batches of its boards for another thread.
    pub fn read_all(mut self, batches: &[Frames], mut outlet: Upstream<Hits>) {
        let boards = usize::from(self.first)..usize::from(self.first) + self.boards.len();
        for frames in batches.iter().filter(|frames| boards.contains(&frames.header.source.index())) {
            let mut hits = loop {
                if let Some(hits) = outlet.empty_wait(WAIT) {
                    break hits;
                }
                if outlet.is_closed() {
                    return;
                }
            };
            self.read(frames, &mut hits);
            outlet.send(hits);
        }
    }
}
