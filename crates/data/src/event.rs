//! Data of triggered boards: [`Fragments`] before the builder, [`Events`] after it.
//!
//! ```text
//!  Frames ─ split ─► Fragments { fragment: source, trigger, ticks ─► its slices }
//!                        │ build
//!                        ▼
//!                    Events { event ─► its fragments, in source order ─► their slices; which sources are missing }
//! ```
//! A fragment is what one source sent for one trigger, including the header; an event is what all sources sent for it. Both
//! refer to bytes where they were received: the batch holds the leases, and nothing is copied until a sink gathers the bytes.

use serde::{Deserialize, Serialize};

use crate::batch::{Header, Mark};
use crate::id::SourceId;
use crate::pool::{BlockWriter, Leases};
use crate::slice::Slice;

/// One source's answer to one trigger: 24 bytes of plain data. Its slices are in the batch's list, in the order of the fragments.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[repr(C)]
pub struct Fragment {
    /// The trigger number: as the board sent it before the builder, extended to 64 bits after it.
    pub trigger: u64,
    /// The board's own time of the trigger, in its ticks; 0 if the format has none.
    pub ticks: u64,
    /// Bytes of all its slices together.
    pub bytes: u32,
    /// The source that sent it.
    pub source: SourceId,
    /// How many slices it has: 1, or more if it came in several datagrams or straddled a block; 0 if it has no bytes.
    pub slices: u16,
}

/// Fragments of one link, in the order in which they were found.
#[derive(Debug, Default)]
pub struct Fragments {
    /// Source and time of arrival.
    pub header: Header,
    /// The fragments.
    pub fragments: Vec<Fragment>,
    /// Their bytes: the first `fragments[0].slices` are those of the first fragment, and so on.
    pub slices: Vec<Slice>,
    /// The right to read them.
    pub leases: Leases,
}

impl Fragments {
    /// Empties the batch, returns its leases, keeps its memory.
    pub fn clear(&mut self) {
        self.header = Header::default();
        self.fragments.clear();
        self.slices.clear();
        self.leases.clear();
    }

    /// Copies a fragment into a block and adds it; returns `false` if it does not fit. For bytes that are not in a block yet, such as
    /// those that a program generates.
    pub fn append(&mut self, block: &mut BlockWriter, source: SourceId, trigger: u64, bytes: &[u8]) -> bool {
        let Some(slice) = block.append(bytes) else { return false };
        let bytes = slice.length;
        self.fragments.push(Fragment { trigger, bytes, source, slices: 1, ..Fragment::default() });
        self.slices.push(slice);
        self.leases.add(block.lease());
        true
    }

    /// Each fragment with its slices.
    pub fn iter(&self) -> impl Iterator<Item = (&Fragment, &[Slice])> {
        with_slices(&self.fragments, &self.slices)
    }
}

/// Why an event was closed and passed on.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[repr(u8)]
pub enum Closing {
    /// Every source has answered.
    #[default]
    Complete = 0,
    /// The sources that are missing have not answered within the time allowed.
    Age = 1,
    /// Newer triggers needed its row in the builder.
    Depth = 2,
    /// The run ended, or every missing source did.
    End = 3,
    /// A unit that had data of it was lost and did not come back in time.
    UnitLost = 4,
}

impl Closing {
    /// All of them.
    pub const ALL: [Closing; 5] =
        [Closing::Complete, Closing::Age, Closing::Depth, Closing::End, Closing::UnitLost];

    /// The name in files, on the page and in metrics.
    pub const fn word(self) -> &'static str {
        match self {
            Closing::Complete => "complete",
            Closing::Age => "age",
            Closing::Depth => "depth",
            Closing::End => "end",
            Closing::UnitLost => "unit_lost",
        }
    }

    /// The closing with this number, which files and messages contain.
    pub fn from_number(number: u8) -> Option<Closing> {
        Closing::ALL.get(usize::from(number)).copied()
    }
}

/// Why an event that came to an event filter is recorded.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[repr(u8)]
pub enum Selected {
    /// The filter has kept it.
    #[default]
    Kept = 0,
    /// The filter has rejected it, and it is one of those that are recorded all the same, for monitoring.
    Prescaled = 1,
    /// The filter has not decided it in time, and such events are recorded.
    Undecided = 2,
}

impl Selected {
    /// All of them.
    pub const ALL: [Selected; 3] = [Selected::Kept, Selected::Prescaled, Selected::Undecided];

    /// The name in files.
    pub const fn word(self) -> &'static str {
        match self {
            Selected::Kept => "kept",
            Selected::Prescaled => "prescaled",
            Selected::Undecided => "undecided",
        }
    }

    /// The one with this number, which files contain.
    pub fn from_number(number: u8) -> Option<Selected> {
        Selected::ALL.get(usize::from(number)).copied()
    }
}

/// All fragments of one trigger, or of one time slice.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Event {
    /// The trigger number, extended to 64 bits; for a time slice, the number of the slice.
    pub trigger: u64,
    /// When its first fragment arrived.
    pub first_arrival: Mark,
    /// When it was closed; the difference from `first_arrival` is the build latency.
    pub closed: Mark,
    /// Bytes of all its fragments.
    pub bytes: u64,
    /// Index of its first fragment in the batch.
    pub first_fragment: u32,
    /// How many fragments it has, in the order of their sources.
    pub fragments: u32,
    /// Index of the first missing source in the batch's list.
    pub first_missing: u32,
    /// How many sources are missing.
    pub missing: u32,
    /// Why it was closed.
    pub closing: Closing,
    /// 0, or more if a unit died and another one built the event again. Readers of several files take the highest attempt.
    pub attempt: u8,
}

/// Built events, in the order of their trigger numbers unless the builder is configured otherwise.
#[derive(Debug, Default)]
pub struct Events {
    /// Time, and the marker that follows the batch; the source is that of the builder.
    pub header: Header,
    /// After this batch, the recorder writes everything that it buffers, because the blocks are needed.
    pub write_all: bool,
    /// The events.
    pub events: Vec<Event>,
    /// Their fragments, event by event.
    pub fragments: Vec<Fragment>,
    /// Bytes, fragment by fragment.
    pub slices: Vec<Slice>,
    /// Sources that did not answer, event by event.
    pub missing: Vec<SourceId>,
    /// The right to read the bytes.
    pub leases: Leases,
}

impl Events {
    /// Empties the batch, returns its leases, keeps its memory.
    pub fn clear(&mut self) {
        (self.header, self.write_all) = (Header::default(), false);
        self.events.clear();
        self.fragments.clear();
        self.slices.clear();
        self.missing.clear();
        self.leases.clear();
    }

    /// Each event with its fragments.
    pub fn iter(&self) -> impl Iterator<Item = (&Event, &[Fragment])> {
        self.events.iter().map(|event| (event, self.fragments_of(event)))
    }

    /// The fragments of an event of this batch.
    pub fn fragments_of(&self, event: &Event) -> &[Fragment] {
        &self.fragments[event.first_fragment as usize..][..event.fragments as usize]
    }

    /// The sources that are missing from an event of this batch.
    pub fn missing_of(&self, event: &Event) -> &[SourceId] {
        &self.missing[event.first_missing as usize..][..event.missing as usize]
    }

    /// Every fragment with its slices, event by event.
    pub fn fragments_with_slices(&self) -> impl Iterator<Item = (&Fragment, &[Slice])> {
        with_slices(&self.fragments, &self.slices)
    }
}

fn with_slices<'a>(
    fragments: &'a [Fragment],
    slices: &'a [Slice],
) -> impl Iterator<Item = (&'a Fragment, &'a [Slice])> {
    let mut rest = slices;
    fragments.iter().map(move |fragment| {
        let (own, others) = rest.split_at(usize::from(fragment.slices));
        rest = others;
        (fragment, own)
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::pool::Pool;

    #[test]
    fn a_fragment_is_24_plain_bytes() {
        assert_eq!(size_of::<Fragment>(), 24);
        assert!(!std::mem::needs_drop::<Fragment>());
    }

    #[test]
    fn iter_yields_each_fragment_with_its_slices() {
        let mut writer = Pool::new(1, 64).expect("small").take().expect("free");
        let mut batch = Fragments::default();
        for (source, chunks) in [(4, &["ab", "c"][..]), (5, &["d"][..])] {
            for chunk in chunks {
                batch.slices.push(writer.append(chunk.as_bytes()).expect("fits"));
            }
            let slices = chunks.len() as u16;
            batch.fragments.push(Fragment { source: SourceId(source), slices, ..Fragment::default() });
        }
        batch.leases.add(writer.lease());
        let read: Vec<Vec<u8>> = batch
            .iter()
            .map(|(_, slices)| slices.iter().flat_map(|slice| batch.leases.bytes(*slice).to_vec()).collect())
            .collect();
        assert_eq!(read, [b"abc".to_vec(), b"d".to_vec()]);
    }

    #[test]
    fn every_closing_and_every_mark_of_a_filter_has_its_number() {
        for closing in Closing::ALL {
            assert_eq!(Closing::from_number(closing as u8), Some(closing));
        }
        for selected in Selected::ALL {
            assert_eq!(Selected::from_number(selected as u8), Some(selected));
        }
        assert_eq!((Closing::from_number(5), Selected::from_number(3)), (None, None));
        assert_eq!(Closing::from_number(Closing::ALL.len() as u8), None);
    }
}
