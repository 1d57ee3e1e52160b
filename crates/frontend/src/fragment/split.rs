//! Finds fragments in datagrams.
//!
//! ```text
//!  datagram ─► header valid?  ─► ours? ─► one of one ──► Fragment, Slice
//!                 │                  │  └─► one of several ─► assembly ─► Fragment, a slice per datagram
//!                 └ wrong_constant   └ unknown_source · wrong_run · too_large
//!                   bad_hash · bad_length · bad_framing
//! ```
//! A fragment in one datagram costs five words of its header: no copy, no allocation, no atomic operation.

use std::sync::Arc;

use thalweg_data::{
    Counters, FirstRefused, Fragment, FragmentRecord, Fragments, Frames, Framing, Lease, LossReason, Mark,
    Refused, Slice, SourceId, Unit,
};

use super::admission::Admission;
use super::settings::{Settings, SettingsError};
use super::wire::{HEADER_BYTES, Header};
use crate::framing::{Assembly, BoardCounters, Part, UnitKey};

/// Finds fragments in the datagrams of one or several boards.
#[derive(Debug)]
pub struct Splitter {
    admission: Admission,
    assembly: Assembly,
    link: Counters,
    boards: BoardCounters,
    refused: FirstRefused,
}

/// A datagram whose header was admitted.
struct Admitted {
    /// The index of its board.
    index: u16,
    header: Header,
    /// Its fragment, if it has only this datagram.
    fragment: Fragment,
}

/// Counts of a batch's fragments in single datagrams, added up before they are counted.
#[derive(Default)]
struct Passed {
    datagrams: u64,
    bytes: u64,
}

impl Splitter {
    /// Creates a splitter of a link whose first board is `first_source`.
    ///
    /// # Errors
    /// When the settings cannot be used.
    pub fn new(first_source: SourceId, settings: &Settings) -> Result<Splitter, SettingsError> {
        Ok(Splitter {
            admission: Admission::new(first_source, settings)?,
            assembly: Assembly::new(
                settings.boards_there(),
                settings.open_fragments,
                settings.reassembly_ms,
                true,
            ),
            link: Counters::default(),
            boards: BoardCounters::new(settings.boards_there()),
            refused: FirstRefused::default(),
        })
    }

    /// From now on, accepts only fragments of this run; with `None`, of any run.
    pub fn expect_run(&mut self, run: Option<u32>) {
        self.admission.run = run;
    }

    /// Reads one datagram. Returns whether it was passed on as a whole.
    #[inline]
    fn datagram(
        &mut self,
        slice: Slice,
        bytes: &[u8],
        received: &Frames,
        fragments: &mut Fragments,
    ) -> Result<bool, LossReason> {
        let header = Header::read(bytes)?;
        let index = self.admission.admit(&header)?;
        let fragment = Fragment {
            trigger: header.trigger,
            ticks: header.ticks,
            bytes: slice.length,
            source: self.admission.source(index),
            slices: 1,
        };
        if header.parts > 1 {
            return self.part(Admitted { index, header, fragment }, slice, bytes, received, fragments);
        }
        self.boards.begin(index, header.trigger, &mut self.link);
        let whole = bytes.len() - HEADER_BYTES == header.length as usize;
        let fine = if whole { self.admission.verify(&header, bytes) } else { Err(LossReason::BadLength) };
        if let Err(reason) = fine {
            self.boards.of(index, &mut self.link).lost(reason, Unit::Fragments, 1);
            return Err(reason);
        }
        fragments.fragments.push(fragment);
        fragments.slices.push(slice.tagged(0));
        self.boards.of(index, &mut self.link).output(Unit::Fragments, 1);
        Ok(true)
    }

    #[cold]
    #[inline(never)]
    fn refuse(&mut self, reason: LossReason, mark: Mark, bytes: &[u8]) {
        if self.admission.is_left_out(bytes) {
            self.link.filtered(Unit::Datagrams, 1);
            self.link.filtered(Unit::Bytes, bytes.len() as u64);
            return;
        }
        self.link.lost(reason, Unit::Datagrams, 1);
        self.link.lost(reason, Unit::Bytes, bytes.len() as u64);
        self.refused.keep(reason, || self.admission.refused(reason, mark, bytes));
    }

    /// Reads one datagram of a fragment that has several.
    #[inline(never)]
    fn part(
        &mut self,
        admitted: Admitted,
        slice: Slice,
        bytes: &[u8],
        received: &Frames,
        fragments: &mut Fragments,
    ) -> Result<bool, LossReason> {
        let Admitted { index, header, fragment } = admitted;
        self.admission.verify(&header, bytes)?;
        let part = Part {
            board: index,
            key: UnitKey { trigger: header.trigger, run: header.run, ticks: header.ticks },
            index: header.part.into(),
            count: header.parts.into(),
            header_bytes: HEADER_BYTES,
            length: Some(header.length),
            ticks: header.ticks,
        };
        let counters = (&mut self.link, &mut self.boards);
        if let Some(number) = self.assembly.add(&part, slice, received, counters)? {
            let counters = (&mut self.link, &mut self.boards);
            self.assembly.pass_on(number, fragment, fragments, counters);
        }
        Ok(false)
    }
}

impl Framing for Splitter {
    type Output = Fragments;

    fn ask(&mut self, records: Vec<Arc<FragmentRecord>>) {
        self.boards.ask(records);
    }

    fn frame(&mut self, received: &Frames, fragments: &mut Fragments) -> usize {
        fragments.header = received.header;
        let mark = received.header.mark;
        self.assembly.expire(Some(mark), (&mut self.link, &mut self.boards));
        fragments.fragments.reserve(received.slices.len());
        fragments.slices.reserve(received.slices.len());
        let (mut passed, mut came_bytes) = (Passed::default(), 0);
        let (mut reading, mut leased): (Option<&Lease>, _) = (None, None);
        for slice in &received.slices {
            let lease = match reading {
                Some(lease) if lease.block() == slice.block => lease,
                _ => received.leases.find(slice.block).expect("a slice has its lease in the batch"),
            };
            reading = Some(lease);
            let bytes = lease.bytes(*slice);
            came_bytes += bytes.len() as u64;
            match self.datagram(*slice, bytes, received, fragments) {
                Ok(true) => {
                    passed.datagrams += 1;
                    passed.bytes += bytes.len() as u64;
                    if leased != Some(slice.block) {
                        fragments.leases.add_for(*slice, &received.leases);
                        leased = Some(slice.block);
                    }
                }
                Ok(false) => {}
                Err(reason) => self.refuse(reason, mark, bytes),
            }
        }
        self.link.input(Unit::Datagrams, received.slices.len() as u64);
        self.link.input(Unit::Bytes, came_bytes);
        self.link.output(Unit::Datagrams, passed.datagrams);
        self.link.output(Unit::Bytes, passed.bytes);
        self.assembly.count_held(&mut self.link);
        0
    }

    fn finish(&mut self, _carried: &Frames, fragments: &mut Fragments) {
        let _ = fragments;
        self.assembly.expire(None, (&mut self.link, &mut self.boards));
        self.assembly.count_held(&mut self.link);
    }

    fn counters(&self) -> &Counters {
        &self.link
    }

    fn board_counters(&self) -> &[Counters] {
        self.boards.several()
    }

    fn first_refused(&self) -> &[Refused] {
        self.refused.kept()
    }
}
