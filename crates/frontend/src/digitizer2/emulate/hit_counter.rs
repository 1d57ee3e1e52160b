//! Counts the hits of a lost datagram, by decoding it.

use thalweg_data::{Decode, Frames, Hits, Pool, SourceId};

use super::settings::Settings;
use crate::digitizer2::{self, Decoder};
use crate::format::HitCounter;

/// Bytes of the footer; a marker has only these.
const FOOTER_BYTES: usize = 8;

/// Counts the hits of one emulated board, each of whose datagrams contains whole aggregates.
pub(super) struct DecodedHits {
    pool: Pool,
    decoder: Decoder,
    hits: Hits,
}

impl DecodedHits {
    pub(super) fn new(board: &Settings) -> Option<DecodedHits> {
        let settings = digitizer2::Settings::default().completed_by(&board.facts()).ok()?;
        let pool = Pool::new(1, (board.datagram_bytes as usize).next_multiple_of(64).max(1 << 16)).ok()?;
        Some(DecodedHits { pool, decoder: Decoder::new(SourceId(0), &settings).ok()?, hits: Hits::default() })
    }
}

impl HitCounter for DecodedHits {
    fn has_data(&self, datagram: &[u8]) -> bool {
        datagram.len() > FOOTER_BYTES
    }

    fn hits_in(&mut self, datagram: &[u8]) -> u64 {
        let Some(mut writer) = self.pool.take() else { return 0 };
        let mut frames = Frames::default();
        let mut rest = &datagram[..datagram.len() - FOOTER_BYTES];
        // A datagram of the board: whole events, each with its length in the low half of its first word.
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
