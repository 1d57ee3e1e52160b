//! Finds fragments in the TCP stream of SiTCP boards.
//!
//! ```text
//!  bytes ─► header → length → body ─► board ─► Fragment { trigger, ticks, source } + one slice, with its header
//!              │ impossible             └ unknown_source
//!              └─► search: byte by byte, until two headers in a row can be trusted ─► resynchronised
//! ```
//! The first byte of a connection is the first of a block. TCP loses nothing, so an impossible header means that the
//! board or the settings are wrong. Other readers of such boards then close and connect again. This one keeps the
//! connection: bytes between the damage and the next trusted position are counted as `resynchronised`, the damaged
//! block as `bad_framing`. At the end of the stream, a block that ends exactly there needs no confirmation.
//!
//! `finish` ends an epoch: unfinished data are lost, and the next bytes are a new connection, which starts with a block
//! and whose block counters do not continue the old ones.

mod blocks;
mod boards;
mod frames;

use std::sync::Arc;

use thalweg_data::{
    Counters, FirstRefused, FragmentRecord, Fragments, Frames, Framing, LossReason, Refused, SourceId,
};

use self::boards::Boards;
use super::settings::{Profile, Settings, SettingsError};
use super::wire::Head;
use super::wire::adc_sitcp::AdcSitcp;
use super::wire::recbe::{Belle2, Recbe};
use crate::framing::{Chunk, StreamCounts};

/// Finds the blocks of the boards behind one connection.
#[derive(Debug)]
pub struct Splitter {
    counts: StreamCounts,
    profile: Profile,
    state: State,
}

/// The position of the framing in its stream, and its boards.
#[derive(Debug)]
struct State {
    boards: Boards,
    longest: usize,
    /// Set behind damage, until the next trusted position.
    searching: bool,
    /// For streaming boards: bytes of the unfinished frame that have been read.
    scanned: usize,
    damages: u64,
    unsent_bytes: u64,
    refused: FirstRefused,
}

impl Splitter {
    /// Creates a splitter of one connection, whose boards become `first_source` and the next sources.
    ///
    /// # Errors
    /// When the settings cannot be used.
    pub fn new(first_source: SourceId, settings: &Settings) -> Result<Splitter, SettingsError> {
        settings.validate()?;
        let state = State {
            boards: Boards::new(first_source, settings),
            longest: settings.longest_block(),
            searching: false,
            scanned: 0,
            damages: 0,
            unsent_bytes: 0,
            refused: FirstRefused::default(),
        };
        Ok(Splitter { counts: StreamCounts::default(), profile: settings.profile, state })
    }

    /// Counters outside of the ledger: `(name, value)`.
    pub fn drop_counters(&self) -> Vec<(&'static str, u64)> {
        vec![
            ("stream_damages", self.state.damages),
            ("sent_number_restarts", self.state.boards.restarts()),
            ("board_unsent_bytes", self.state.unsent_bytes),
        ]
    }
}

impl Framing for Splitter {
    type Output = Fragments;

    fn ask(&mut self, records: Vec<Arc<FragmentRecord>>) {
        self.state.boards.ask(records);
    }

    fn frame(&mut self, received: &Frames, fragments: &mut Fragments) -> usize {
        fragments.header = received.header;
        let before = fragments.fragments.len();
        let Splitter { counts, profile, state } = self;
        let left_over =
            counts.chunks(received, |chunk, counts| state.find_fragments(*profile, chunk, fragments, counts));
        self.state.boards.publish(&fragments.fragments[before..], &mut self.counts.counters);
        left_over
    }

    fn finish(&mut self, carried: &Frames, fragments: &mut Fragments) {
        let before = fragments.fragments.len();
        let Splitter { counts, profile, state } = self;
        let unfinished =
            counts.finish(carried, |chunk, counts| state.find_fragments(*profile, chunk, fragments, counts));
        if let Some(reason @ LossReason::Unfinished) = unfinished {
            counts.lose_fragment(reason);
        }
        self.state.boards.publish(&fragments.fragments[before..], &mut self.counts.counters);
        self.state.searching = false;
        self.state.scanned = 0;
        self.state.boards.begin_epoch();
    }

    fn counters(&self) -> &Counters {
        &self.counts.counters
    }

    fn board_counters(&self) -> &[Counters] {
        self.state.boards.counters()
    }

    fn wire_counters(&self) -> &[Counters] {
        self.state.boards.wire_counters()
    }

    /// The first damages of the stream, and blocks of unknown boards.
    fn first_refused(&self) -> &[Refused] {
        self.state.refused.kept()
    }
}

impl State {
    /// Finds fragments by the rules of the profile; returns the number of bytes left over.
    fn find_fragments(
        &mut self,
        profile: Profile,
        chunk: &Chunk<'_>,
        fragments: &mut Fragments,
        counts: &mut StreamCounts,
    ) -> usize {
        self.interrupt(chunk, counts);
        match profile {
            Profile::Recbe => self.blocks::<Recbe>(chunk, fragments, counts),
            Profile::Belle2 => self.blocks::<Belle2>(chunk, fragments, counts),
            Profile::AdcSitcp => self.blocks::<AdcSitcp>(chunk, fragments, counts),
            Profile::StrTdc => self.frames(chunk, fragments, counts),
        }
    }

    /// The carried bytes are gone, and the stream continues in the middle of a block.
    fn interrupt(&mut self, chunk: &Chunk<'_>, counts: &mut StreamCounts) {
        if let Some(reason) = chunk.interrupted {
            match reason {
                // The trigger numbers before and behind the gap show what is missing.
                LossReason::RecordingDamaged => self.boards.begin_epoch(),
                _ => counts.lose_fragment(reason),
            }
            self.searching = true;
            self.scanned = 0;
            self.damages += 1;
        }
    }

    /// Handles an impossible block at this position of the chunk: starts a search for the next one.
    fn damaged(&mut self, chunk: &Chunk<'_>, at: usize, expected: &str, counts: &mut StreamCounts) {
        counts.lose_fragment(LossReason::BadFraming);
        self.searching = true;
        self.damages += 1;
        let mark = chunk.received.header.mark;
        self.refused.keep(LossReason::BadFraming, || {
            Refused::new(LossReason::BadFraming, mark, &chunk.bytes[at..], expected.to_owned())
        });
    }

    /// Keeps a block of an unknown board for display.
    #[cold]
    fn unknown_board(&mut self, chunk: &Chunk<'_>, range: std::ops::Range<usize>, head: &Head) {
        let reason = LossReason::UnknownSource;
        let mark = chunk.received.header.mark;
        let (first, last) = self.boards.numbers();
        self.refused.keep(reason, || {
            let expected = format!("{first} to {}; this is {}", last.0, head.board);
            let trigger = Some(u64::from(head.trigger));
            Refused { trigger, ..Refused::new(reason, mark, &chunk.bytes[range], expected) }
        });
    }
}

/// The result of a search; positions count from the start of the searched bytes.
enum Found {
    /// The stream can be trusted again behind this number of bytes.
    Edge(usize),
    /// This number of bytes can be skipped; the rest needs more bytes.
    Open(usize),
}
