//! The messages of the protocol on the wire: heads of [`Message`]s, written and read, nothing else.
//!
//! ```text
//!  head: "tw" version kind run:u32 items:u32 0:u32 │ fixed fields │ items × their size        all little-endian
//!        └──────────── 16 bytes ──────────────┘
//! ```
//! Reading checks everything before anything is used: magic, version, kind, that the length is what the number of items
//! makes it, that ranges do not leave 64 bits. So what [`read`] returns can be used without a further look, and
//! whatever else arrives is an error and no more. [`Part`] has tables of its own; see there.

use std::marker::PhantomData;

use thalweg_data::{Message, UnitId};

use super::part::{Part, PartError};
use super::{Address, Assignment, OnFile};

/// Version of the protocol. Units of different versions refuse each other.
pub const VERSION: u8 = 3;
pub(super) const MAGIC: [u8; 2] = *b"tw";
pub(super) const HEADER_BYTES: usize = 16;

/// Kinds of messages, by their number on the wire.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub(super) enum Kind {
    Hello = 1,
    ReadoutReport = 2,
    Progress = 3,
    BuilderReport = 4,
    Credits = 5,
    Done = 6,
    State = 7,
    Assign = 8,
    Release = 9,
    Part = 10,
    Busy = 11,
}

impl Kind {
    const ALL: [Kind; 11] = [
        Kind::Hello,
        Kind::ReadoutReport,
        Kind::Progress,
        Kind::BuilderReport,
        Kind::Credits,
        Kind::Done,
        Kind::State,
        Kind::Assign,
        Kind::Release,
        Kind::Part,
        Kind::Busy,
    ];

    fn from_number(number: u8) -> Option<Kind> {
        Kind::ALL.get(usize::from(number).checked_sub(1)?).copied()
    }
}

/// A message that cannot be used.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum MessageError {
    /// Not of this protocol.
    #[error(
        "{bytes} bytes that do not begin as a message of this protocol do; look who else connects to this port"
    )]
    Foreign {
        /// Length of the head.
        bytes: usize,
    },
    /// Of a unit of another version.
    #[error("protocol version {seen}, this unit speaks {VERSION}; run the same version on all hosts")]
    Version {
        /// What was seen.
        seen: u8,
    },
    /// A kind that there is not.
    #[error("message kind {seen} does not exist in version {VERSION}")]
    Kind {
        /// What was seen.
        seen: u8,
    },
    /// A length that contradicts the numbers of things in it.
    #[error("a message of kind {kind} with {items} items has {bytes} bytes, which cannot be")]
    Length {
        /// Its kind.
        kind: u8,
        /// The number of items it names.
        items: u32,
        /// Length of the head.
        bytes: usize,
    },
    /// A field whose value is not possible.
    #[error("a message of kind {kind} has an impossible {field}")]
    Field {
        /// Its kind.
        kind: u8,
        /// The name of the field.
        field: &'static str,
    },
    /// A part of a range that contradicts itself.
    #[error(transparent)]
    Part(#[from] PartError),
}

/// The progress of a readout unit.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Progress {
    /// Every trigger below is closed at this unit.
    pub closed_until: u64,
    /// Every trigger below is assigned, as far as this unit knows.
    pub assigned_until: u64,
    /// The lowest trigger that it keeps and that is not assigned; `closed_until` when there is none.
    pub lowest_unassigned: u64,
    /// Events kept.
    pub held_events: u64,
    /// Bytes kept.
    pub held_bytes: u64,
    /// It asks the trigger to hold back.
    pub busy: bool,
    /// It keeps as much as it may, and closes nothing before some of that is released.
    pub full: bool,
    /// Nothing follows in this run.
    pub ended: bool,
}

/// The capacity of a builder unit.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Credits {
    /// How many events it takes at a time, all that are open included; 0: none at the moment.
    pub limit: u32,
    /// Events it holds.
    pub held_events: u64,
    /// Bytes it holds.
    pub held_bytes: u64,
    /// It asks the trigger to hold back.
    pub busy: bool,
    /// Every readout unit is connected with it.
    pub is_reached: bool,
}

/// A range that a builder unit has written, or who was not in it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Finished {
    /// First trigger of the range.
    pub start: u64,
    /// Events with every source.
    pub complete: u32,
    /// Events without some.
    pub partial: u32,
    /// The attempt that was written.
    pub attempt: u8,
    /// `Some`: says only that this readout unit's part was not in it, but for `partial` trigger numbers from the start on; such items stand
    /// before the one with `None`.
    pub absent: Option<UnitId>,
}

/// A range that may be forgotten.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Released {
    /// First trigger of the range.
    pub start: u64,
    /// For so many trigger numbers from the start on the receiver's part was in what was written; [`Released::WHOLE`]: for all.
    pub included: u32,
}

impl Released {
    /// All of a range.
    pub const WHOLE: u32 = u32::MAX;
}

/// Something of a fixed size that messages have lists of.
pub trait Item: Copy {
    /// Bytes on the wire.
    const BYTES: usize;
    /// Appends it.
    fn put(self, head: &mut Vec<u8>);
    /// Reads it from exactly `BYTES` bytes.
    fn get(bytes: &[u8]) -> Self;
    /// Whether it is possible.
    fn is_possible(self) -> bool {
        true
    }
}

pub(super) fn u16_at(bytes: &[u8], at: usize) -> u16 {
    u16::from_le_bytes([bytes[at], bytes[at + 1]])
}

pub(super) fn u32_at(bytes: &[u8], at: usize) -> u32 {
    u32::from_le_bytes(bytes[at..at + 4].try_into().expect("four bytes"))
}

pub(super) fn u64_at(bytes: &[u8], at: usize) -> u64 {
    u64::from_le_bytes(bytes[at..at + 8].try_into().expect("eight bytes"))
}

impl Item for Assignment {
    const BYTES: usize = 16;

    fn put(self, head: &mut Vec<u8>) {
        head.extend_from_slice(&self.start.to_le_bytes());
        head.extend_from_slice(&self.length.to_le_bytes());
        head.extend_from_slice(&self.builder.0.to_le_bytes());
        head.extend_from_slice(&[self.attempt, self.written.into()]);
    }

    fn get(bytes: &[u8]) -> Assignment {
        Assignment {
            start: u64_at(bytes, 0),
            length: u32_at(bytes, 8),
            builder: UnitId(u16_at(bytes, 12)),
            attempt: bytes[14],
            written: bytes[15] != 0,
        }
    }

    fn is_possible(self) -> bool {
        (1..=Assignment::LONGEST).contains(&self.length)
            && self.start.checked_add(u64::from(self.length)).is_some()
    }
}

impl Item for Finished {
    const BYTES: usize = 20;

    fn put(self, head: &mut Vec<u8>) {
        head.extend_from_slice(&self.start.to_le_bytes());
        head.extend_from_slice(&self.complete.to_le_bytes());
        head.extend_from_slice(&self.partial.to_le_bytes());
        head.extend_from_slice(&[self.attempt, self.absent.is_some().into()]);
        head.extend_from_slice(&self.absent.unwrap_or_default().0.to_le_bytes());
    }

    fn get(bytes: &[u8]) -> Finished {
        Finished {
            start: u64_at(bytes, 0),
            complete: u32_at(bytes, 8),
            partial: u32_at(bytes, 12),
            attempt: bytes[16],
            absent: (bytes[17] != 0).then(|| UnitId(u16_at(bytes, 18))),
        }
    }
}

impl Item for Released {
    const BYTES: usize = 12;

    fn put(self, head: &mut Vec<u8>) {
        head.extend_from_slice(&self.start.to_le_bytes());
        head.extend_from_slice(&self.included.to_le_bytes());
    }

    fn get(bytes: &[u8]) -> Released {
        Released { start: u64_at(bytes, 0), included: u32_at(bytes, 8) }
    }
}

impl Item for UnitId {
    const BYTES: usize = 2;

    fn put(self, head: &mut Vec<u8>) {
        head.extend_from_slice(&self.0.to_le_bytes());
    }

    fn get(bytes: &[u8]) -> UnitId {
        UnitId(u16_at(bytes, 0))
    }
}

/// A checked list within a message.
#[derive(Clone, Copy, Debug)]
pub struct List<'a, T> {
    bytes: &'a [u8],
    item: PhantomData<T>,
}

impl<'a, T: Item + 'a> List<'a, T> {
    /// The items, in order.
    pub fn iter(self) -> impl Iterator<Item = T> + use<'a, T> {
        self.bytes.chunks_exact(T::BYTES).map(T::get)
    }

    /// How many there are.
    pub fn len(self) -> usize {
        self.bytes.len() / T::BYTES
    }

    /// Whether there are none.
    pub fn is_empty(self) -> bool {
        self.bytes.is_empty()
    }
}

/// The content of a message.
#[derive(Clone, Copy, Debug)]
pub enum Said<'a> {
    /// Who speaks on this connection.
    Hello {
        /// The speaker.
        from: Address,
    },
    /// All that a readout unit knows.
    ReadoutReport {
        /// Which start of it this is.
        incarnation: u64,
        /// The epoch it last had a state of; 0: none.
        epoch: u64,
        /// How far it is.
        progress: Progress,
        /// What is assigned and not released.
        open: List<'a, Assignment>,
    },
    /// The progress of a readout unit.
    Progress {
        /// The epoch it speaks of.
        epoch: u64,
        /// How far.
        progress: Progress,
    },
    /// All that a builder unit knows.
    BuilderReport {
        /// Which start of it this is.
        incarnation: u64,
        /// The epoch it last had a state of; 0: none.
        epoch: u64,
        /// What its files have.
        on_file: OnFile,
        /// What it can take.
        credits: Credits,
        /// What it builds, and what it has written and the manager does not know of.
        ranges: List<'a, Assignment>,
    },
    /// The capacity of a builder unit.
    Credits {
        /// The epoch it speaks of.
        epoch: u64,
        /// How much.
        credits: Credits,
        /// Readout units that it has no connection with.
        unreached: List<'a, UnitId>,
    },
    /// What a builder unit has written.
    Done {
        /// The epoch it speaks of.
        epoch: u64,
        /// The ranges.
        ranges: List<'a, Finished>,
    },
    /// All that a unit must know.
    State {
        /// The manager's epoch.
        epoch: u64,
        /// Every trigger below is assigned.
        next: u64,
        /// The ranges that are assigned and not done; to a builder unit, its own.
        open: List<'a, Assignment>,
    },
    /// New work.
    Assign {
        /// The manager's epoch.
        epoch: u64,
        /// Every trigger below is assigned now.
        next: u64,
        /// The ranges.
        ranges: List<'a, Assignment>,
    },
    /// Work that is done.
    Release {
        /// The manager's epoch.
        epoch: u64,
        /// The ranges.
        ranges: List<'a, Released>,
    },
    /// A readout unit's part of a range, or of events on their way to the next level.
    Part(Part<'a>),
    /// Whether the trigger has to hold back.
    Busy {
        /// The manager's epoch.
        epoch: u64,
        /// Whether.
        busy: bool,
    },
}

// ---- writing -------------------------------------------------------------------------------------------------------

/// A head in the making.
struct Writer<'a> {
    head: &'a mut Vec<u8>,
    items: u32,
}

pub(super) fn begin(head: &mut Vec<u8>, kind: Kind, run: u32) {
    head.clear();
    head.extend_from_slice(&MAGIC);
    head.extend_from_slice(&[VERSION, kind as u8]);
    head.extend_from_slice(&run.to_le_bytes());
    head.extend_from_slice(&[0; 8]);
}

impl Writer<'_> {
    fn new(message: &mut Message, kind: Kind, run: u32) -> Writer<'_> {
        message.clear();
        begin(&mut message.head, kind, run);
        Writer { head: &mut message.head, items: 0 }
    }

    fn numbers(self, numbers: &[u64]) -> Self {
        numbers.iter().for_each(|number| self.head.extend_from_slice(&number.to_le_bytes()));
        self
    }

    fn progress(self, progress: &Progress) -> Self {
        let flags = u64::from(progress.busy) | u64::from(progress.ended) << 1 | u64::from(progress.full) << 2;
        self.numbers(&[
            progress.closed_until,
            progress.assigned_until,
            progress.lowest_unassigned,
            progress.held_events,
            progress.held_bytes,
            flags,
        ])
    }

    fn credits(self, credits: &Credits) -> Self {
        let Credits { limit, busy, is_reached, .. } = *credits;
        let word = u64::from(limit) | u64::from(busy) << 32 | u64::from(is_reached) << 33;
        self.numbers(&[word, credits.held_events, credits.held_bytes])
    }

    fn items<T: Item>(mut self, items: impl Iterator<Item = T>) {
        for item in items {
            item.put(self.head);
            self.items += 1;
        }
        self.head[8..12].copy_from_slice(&self.items.to_le_bytes());
    }
}

/// Says who speaks on this connection; sent and read by the hosts of units.
pub fn hello(message: &mut Message, run: u32, from: Address) {
    let (role, number) = match from {
        Address::Manager => (0, 0),
        Address::Readout(number) => (1, number.0),
        Address::Builder(number) => (2, number.0),
        Address::Trigger => (3, 0),
    };
    Writer::new(message, Kind::Hello, run).numbers(&[role << 16 | u64::from(number)]);
}

/// Writes a readout unit's report.
pub fn readout_report(
    message: &mut Message,
    run: u32,
    incarnation: u64,
    epoch: u64,
    progress: &Progress,
    open: impl Iterator<Item = Assignment>,
) {
    Writer::new(message, Kind::ReadoutReport, run)
        .numbers(&[incarnation, epoch])
        .progress(progress)
        .items(open);
}

/// Writes a readout unit's progress.
pub fn progress(message: &mut Message, run: u32, epoch: u64, progress: &Progress) {
    Writer::new(message, Kind::Progress, run).numbers(&[epoch]).progress(progress);
}

/// Writes a builder unit's report.
pub fn builder_report(
    message: &mut Message,
    run: u32,
    incarnation: u64,
    epoch: u64,
    on_file: OnFile,
    credits: &Credits,
    ranges: impl Iterator<Item = Assignment>,
) {
    Writer::new(message, Kind::BuilderReport, run)
        .numbers(&[incarnation, epoch, on_file.until, on_file.attempt.into()])
        .credits(credits)
        .items(ranges);
}

/// Writes a builder unit's credits, and which readout units it has no connection with.
pub fn credits(
    message: &mut Message,
    run: u32,
    epoch: u64,
    credits: &Credits,
    unreached: impl Iterator<Item = UnitId>,
) {
    Writer::new(message, Kind::Credits, run).numbers(&[epoch]).credits(credits).items(unreached);
}

/// Writes what a builder unit has written.
pub fn done(message: &mut Message, run: u32, epoch: u64, ranges: impl Iterator<Item = Finished>) {
    Writer::new(message, Kind::Done, run).numbers(&[epoch]).items(ranges);
}

/// Writes the event manager's state.
pub fn state(message: &mut Message, run: u32, epoch: u64, next: u64, open: impl Iterator<Item = Assignment>) {
    Writer::new(message, Kind::State, run).numbers(&[epoch, next]).items(open);
}

/// Writes new work.
pub fn assign(
    message: &mut Message,
    run: u32,
    epoch: u64,
    next: u64,
    ranges: impl Iterator<Item = Assignment>,
) {
    Writer::new(message, Kind::Assign, run).numbers(&[epoch, next]).items(ranges);
}

/// Writes work that is done.
pub fn release(message: &mut Message, run: u32, epoch: u64, ranges: impl Iterator<Item = Released>) {
    Writer::new(message, Kind::Release, run).numbers(&[epoch]).items(ranges);
}

/// Writes whether the trigger has to hold back.
pub fn busy(message: &mut Message, run: u32, epoch: u64, busy: bool) {
    Writer::new(message, Kind::Busy, run).numbers(&[epoch, busy.into()]);
}

// ---- reading -------------------------------------------------------------------------------------------------------

struct Reader<'a> {
    kind: Kind,
    items: u32,
    bytes: usize,
    rest: &'a [u8],
}

impl<'a> Reader<'a> {
    fn wrong_length(&self) -> MessageError {
        MessageError::Length { kind: self.kind as u8, items: self.items, bytes: self.bytes }
    }

    fn numbers<const COUNT: usize>(&mut self) -> Result<[u64; COUNT], MessageError> {
        let (own, rest) = self.rest.split_at_checked(8 * COUNT).ok_or_else(|| self.wrong_length())?;
        self.rest = rest;
        Ok(std::array::from_fn(|place| u64_at(own, 8 * place)))
    }

    fn progress(&mut self) -> Result<Progress, MessageError> {
        let [closed_until, assigned_until, lowest_unassigned, held_events, held_bytes, flags] =
            self.numbers()?;
        Ok(Progress {
            closed_until,
            assigned_until,
            lowest_unassigned,
            held_events,
            held_bytes,
            busy: flags & 1 != 0,
            ended: flags & 2 != 0,
            full: flags & 4 != 0,
        })
    }

    fn credits(&mut self) -> Result<Credits, MessageError> {
        let [word, held_events, held_bytes] = self.numbers()?;
        let [busy, is_reached] = [32, 33].map(|bit| word >> bit & 1 != 0);
        Ok(Credits { limit: word as u32, held_events, held_bytes, busy, is_reached })
    }

    fn items<T: Item + 'a>(&mut self) -> Result<List<'a, T>, MessageError> {
        let list = List { bytes: self.rest, item: PhantomData };
        if u64::from(self.items) * T::BYTES as u64 != self.rest.len() as u64 {
            return Err(self.wrong_length());
        }
        self.rest = &[];
        if !list.iter().all(T::is_possible) {
            return Err(MessageError::Field { kind: self.kind as u8, field: "item" });
        }
        Ok(list)
    }

    /// Nothing may follow.
    fn end(&self, said: Said<'a>) -> Result<Said<'a>, MessageError> {
        if self.rest.is_empty() { Ok(said) } else { Err(self.wrong_length()) }
    }
}

fn address(word: u64) -> Result<Address, MessageError> {
    match (word >> 16, word as u16) {
        (0, 0) => Ok(Address::Manager),
        (1, number) => Ok(Address::Readout(UnitId(number))),
        (2, number) => Ok(Address::Builder(UnitId(number))),
        (3, 0) => Ok(Address::Trigger),
        _ => Err(MessageError::Field { kind: Kind::Hello as u8, field: "address" }),
    }
}

/// Reads a message: the run it is of, and what it says.
///
/// # Errors
/// When it is not of this protocol and version, or contradicts itself.
pub fn read(message: &Message) -> Result<(u32, Said<'_>), MessageError> {
    let head = message.head.as_slice();
    if head.len() < HEADER_BYTES || head[..2] != MAGIC {
        return Err(MessageError::Foreign { bytes: head.len() });
    }
    if head[2] != VERSION {
        return Err(MessageError::Version { seen: head[2] });
    }
    let kind = Kind::from_number(head[3]).ok_or(MessageError::Kind { seen: head[3] })?;
    let run = u32_at(head, 4);
    if kind == Kind::Part {
        return Ok((run, Said::Part(Part::read(message)?)));
    }
    let rest = &head[HEADER_BYTES..];
    Ok((run, body(Reader { kind, items: u32_at(head, 8), bytes: head.len(), rest })?))
}

fn body(mut reader: Reader<'_>) -> Result<Said<'_>, MessageError> {
    let said = match reader.kind {
        Kind::Hello => Said::Hello { from: address(reader.numbers::<1>()?[0])? },
        Kind::ReadoutReport => {
            let [incarnation, epoch] = reader.numbers()?;
            Said::ReadoutReport { incarnation, epoch, progress: reader.progress()?, open: reader.items()? }
        }
        Kind::Progress => {
            let [epoch] = reader.numbers()?;
            Said::Progress { epoch, progress: reader.progress()? }
        }
        Kind::BuilderReport => {
            let [incarnation, epoch, until, attempt] = reader.numbers()?;
            let on_file = OnFile { until, attempt: attempt as u8 };
            let credits = reader.credits()?;
            Said::BuilderReport { incarnation, epoch, on_file, credits, ranges: reader.items()? }
        }
        Kind::Credits => {
            let [epoch] = reader.numbers()?;
            Said::Credits { epoch, credits: reader.credits()?, unreached: reader.items()? }
        }
        Kind::Done => {
            let [epoch] = reader.numbers()?;
            Said::Done { epoch, ranges: reader.items()? }
        }
        Kind::State => {
            let [epoch, next] = reader.numbers()?;
            Said::State { epoch, next, open: reader.items()? }
        }
        Kind::Assign => {
            let [epoch, next] = reader.numbers()?;
            Said::Assign { epoch, next, ranges: reader.items()? }
        }
        Kind::Release => {
            let [epoch] = reader.numbers()?;
            Said::Release { epoch, ranges: reader.items()? }
        }
        Kind::Busy => {
            let [epoch, busy] = reader.numbers()?;
            Said::Busy { epoch, busy: busy != 0 }
        }
        // Parts have a reader of their own; see `read`.
        Kind::Part => return Err(reader.wrong_length()),
    };
    reader.end(said)
}
