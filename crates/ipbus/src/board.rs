//! A target with its address table: registers by name, under the table's own rules.
//!
//! ```text
//!  Access, Access, … ─ name ─► Node: may it be read, written? does the value fit, the block? ─┐
//!                    └ 0x1000 ─► whole words, without rules ──────────────────────────────────┴─► one dispatch ─► values
//! ```
//! What the rules forbid is refused before anything is sent.

use std::collections::{BTreeMap, BTreeSet};

use crate::client::{Client, DispatchError, Failure, Outcome, Queue, Value};
use crate::table::{Mode, Node, Permission, Table, bits_in, number, value_in};

/// A register that was not read or written.
#[derive(Debug, thiserror::Error)]
pub enum BoardError {
    /// There is none of this name.
    #[error("{0}")]
    NoNode(String),
    /// The table forbids it.
    #[error("`{node}` {why}")]
    Denied {
        /// The node.
        node: String,
        /// What it is, and what can be done instead.
        why: String,
    },
    /// The target has not done it.
    #[error("`{node}`: {cause}")]
    Dispatch {
        /// The node.
        node: String,
        /// What happened.
        cause: DispatchError,
    },
}

/// A target and its registers by name.
pub struct Board {
    client: Client,
    table: Table,
}

/// One thing to do with a register: by its name in the table, or by its address, which stands for whole words without rules.
#[derive(Debug)]
pub enum Access<'a> {
    /// Gives its value: of a part of a word, its bits alone.
    Read(&'a str),
    /// Of a part of a word the other bits stay.
    Write(&'a str, u32),
    /// It becomes `(old & keep) | set` in one step of the target; gives the old value. Of a part of a word the other bits stay.
    ChangeBits {
        /// The register.
        register: &'a str,
        /// Bits that stay as they are.
        keep: u32,
        /// Bits that are set.
        set: u32,
    },
    /// It becomes `old + addend`, modulo 2³², in one step of the target; gives the old value. Not of a part of a word.
    Add {
        /// The register.
        register: &'a str,
        /// What is added.
        addend: u32,
    },
    /// Reads words of a block from `offset` on, or of a port.
    ReadBlock {
        /// The block.
        register: &'a str,
        /// Words of it before the first one.
        offset: usize,
        /// Where they land.
        block: &'a mut [u32],
    },
    /// Writes words of a block from `offset` on, or of a port.
    WriteBlock {
        /// The block.
        register: &'a str,
        /// Words of it before the first one.
        offset: usize,
        /// What is written.
        block: &'a [u32],
    },
}

impl Access<'_> {
    fn register(&self) -> &str {
        match self {
            Access::Read(register) | Access::Write(register, _) => register,
            Access::ChangeBits { register, .. }
            | Access::Add { register, .. }
            | Access::ReadBlock { register, .. }
            | Access::WriteBlock { register, .. } => register,
        }
    }
}

/// Where a register lies, and what may be done.
#[derive(Clone, Copy)]
struct Place<'t> {
    name: &'t str,
    address: u32,
    mask: u32,
    mode: Mode,
    permission: Permission,
}

impl<'t> Place<'t> {
    /// What a name or an address stands for.
    fn of(table: &'t Table, register: &'t str) -> Result<Place<'t>, BoardError> {
        if let Some(Node { name, address, mask, mode, permission, .. }) = table.node(register) {
            return Ok(Place { name, address: *address, mask: *mask, mode: *mode, permission: *permission });
        }
        let address = number(register).ok_or_else(|| BoardError::NoNode(table.no_such(register)))?;
        let mode = Mode::Incremental { size: u32::MAX };
        Ok(Place { name: register, address, mask: u32::MAX, mode, permission: Permission::ReadWrite })
    }

    fn denied<T>(self, why: impl Into<String>) -> Result<T, BoardError> {
        Err(BoardError::Denied { node: self.name.to_owned(), why: why.into() })
    }

    fn is_masked(self) -> bool {
        self.mask != u32::MAX
    }

    fn value_of(self, word: u32) -> u32 {
        value_in(self.mask, word)
    }

    fn check_reads(self) -> Result<(), BoardError> {
        if self.permission.reads() { Ok(()) } else { self.denied("is write-only") }
    }

    fn check_writes(self) -> Result<(), BoardError> {
        if self.permission.writes() { Ok(()) } else { self.denied("is read-only") }
    }

    fn check_word(self) -> Result<(), BoardError> {
        match self.mode {
            Mode::Hierarchical => self.denied("is a group of nodes and no word; name one of them"),
            Mode::Single | Mode::Incremental { .. } | Mode::NonIncremental { .. } => Ok(()),
        }
    }

    /// Whether a block of so many words from `offset` on is one of this node's.
    fn check_block(self, offset: usize, words: usize) -> Result<(), BoardError> {
        self.check_word()?;
        let most = match self.mode {
            Mode::Incremental { size } => Some(size as usize),
            Mode::NonIncremental { size } => size.map(|size| size as usize),
            Mode::Single | Mode::Hierarchical => Some(1),
        };
        if self.is_masked() {
            return self.denied("is a part of a word and no block");
        }
        if offset > 0 && !matches!(self.mode, Mode::Incremental { .. }) {
            return self.denied("is no block; there is nothing behind its first word");
        }
        match most.filter(|most| offset + words > *most) {
            Some(most) => self.denied(format!("has {most} word(s); {words} from {offset} on were asked for")),
            None => Ok(()),
        }
    }

    /// A value in its place of the word.
    fn bits_of(self, value: u32) -> Result<u32, BoardError> {
        let (mask, most) = (self.mask, self.value_of(u32::MAX));
        let wide = || format!("has the bits {mask:#010x}: {value:#x} is more than {most:#x}, the most");
        bits_in(mask, value).map_or_else(|| self.denied(wide()), Ok)
    }

    /// Puts an access into the queue, if the table allows it; the value that comes of it, where one does.
    fn queue<'a>(self, access: Access<'a>, queue: &mut Queue<'_, 'a>) -> Result<Option<Value>, BoardError> {
        if !matches!(access, Access::Write(..) | Access::WriteBlock { .. }) {
            self.check_reads()?;
        }
        if !matches!(access, Access::Read(_) | Access::ReadBlock { .. }) {
            self.check_writes()?;
        }
        self.check_word()?;
        match access {
            Access::Read(_) => return Ok(Some(queue.read(self.address))),
            Access::Write(_, value) => {
                let bits = self.bits_of(value)?;
                if self.is_masked() {
                    // The others are read with it.
                    self.check_reads()?;
                    queue.change_bits(self.address, !self.mask, bits);
                } else {
                    queue.write(self.address, bits);
                }
            }
            Access::ChangeBits { keep, set, .. } => {
                let bits = self.bits_of(set)?;
                let kept = (keep << self.mask.trailing_zeros()) | !self.mask;
                return Ok(Some(queue.change_bits(self.address, kept, bits)));
            }
            Access::Add { addend, .. } => {
                if self.is_masked() {
                    return self.denied("is a part of a word: a sum would run over into the bits above it");
                }
                return Ok(Some(queue.add_to(self.address, addend)));
            }
            Access::ReadBlock { offset, block, .. } => {
                self.check_block(offset, block.len())?;
                match self.mode {
                    Mode::NonIncremental { .. } => queue.read_fifo(self.address, block),
                    _ => queue.read_block(self.address.wrapping_add(offset as u32), block),
                };
            }
            Access::WriteBlock { offset, block, .. } => {
                self.check_block(offset, block.len())?;
                match self.mode {
                    Mode::NonIncremental { .. } => queue.write_fifo(self.address, block),
                    _ => queue.write_block(self.address.wrapping_add(offset as u32), block),
                };
            }
        }
        Ok(None)
    }
}

impl Board {
    /// A client with its table.
    pub fn new(client: Client, table: Table) -> Board {
        Board { client, table }
    }

    /// Its table.
    pub fn table(&self) -> &Table {
        &self.table
    }

    /// Its client.
    pub fn client_mut(&mut self) -> &mut Client {
        &mut self.client
    }

    /// Does all of these, in their order, in one dispatch; gives for each the value that it gives, and 0 where it gives none. When one of them
    /// is not allowed, nothing is sent.
    ///
    /// # Errors
    /// When one is not allowed, or not everything is done.
    pub fn perform(&mut self, accesses: Vec<Access<'_>>) -> Result<Vec<u32>, BoardError> {
        let Board { client, table } = self;
        let mut queue = client.queue();
        let mut asked = Vec::with_capacity(accesses.len());
        let names: Vec<String> = accesses.iter().map(|access| access.register().to_owned()).collect();
        for (access, name) in accesses.into_iter().zip(&names) {
            let place = Place::of(table, name)?;
            asked.push((place, place.queue(access, &mut queue)?));
        }
        match queue.dispatch() {
            Ok(done) => {
                let value = |(place, value): (Place<'_>, Option<Value>)| {
                    value.map_or(0, |value| place.value_of(done.word(value)))
                };
                Ok(asked.into_iter().map(value).collect())
            }
            Err(cause) => {
                let first = cause.outcomes.iter().position(|outcome| *outcome != Outcome::Done);
                let node = names.get(first.unwrap_or(0)).cloned().unwrap_or_default();
                Err(BoardError::Dispatch { node, cause })
            }
        }
    }

    fn one(&mut self, access: Access<'_>) -> Result<u32, BoardError> {
        self.perform(vec![access]).map(|values| values.first().copied().unwrap_or_default())
    }

    /// The value of a register.
    ///
    /// # Errors
    /// When it may not be read, or does not come.
    pub fn read(&mut self, register: &str) -> Result<u32, BoardError> {
        self.one(Access::Read(register))
    }

    /// Writes a register. Of a part of a word the other bits stay.
    ///
    /// # Errors
    /// When it may not be written, the value does not fit, or it is not done.
    pub fn write(&mut self, register: &str, value: u32) -> Result<(), BoardError> {
        self.one(Access::Write(register, value)).map(drop)
    }

    /// The values of registers, each as [`Board::read`] gives it, in one dispatch: registers of one word are parts of one reading. Behind
    /// one that is refused the others are read in another dispatch, and none twice.
    pub fn read_all(&mut self, names: &[&str]) -> Vec<Result<u32, BoardError>> {
        let Board { client, table } = self;
        let places: Vec<Result<Place<'_>, BoardError>> = names
            .iter()
            .map(|name| Place::of(table, name))
            .map(|place| place.and_then(|place| place.check_reads().and(place.check_word()).map(|()| place)))
            .collect();
        let words = words_at(client, places.iter().flatten().map(|place| place.address).collect());
        let value = |place: Place<'_>| match &words[&place.address] {
            Ok(word) => Ok(place.value_of(*word)),
            Err(cause) => Err(BoardError::Dispatch { node: place.name.to_owned(), cause: cause.clone() }),
        };
        places.into_iter().map(|place| place.and_then(value)).collect()
    }

    /// A register becomes `(old & keep) | set` in one step of the target; gives the old value.
    ///
    /// # Errors
    /// When it may not be read and written, `set` does not fit, or it is not done.
    pub fn change_bits(&mut self, register: &str, keep: u32, set: u32) -> Result<u32, BoardError> {
        self.one(Access::ChangeBits { register, keep, set })
    }

    /// A register becomes `old + addend`, modulo 2³², in one step of the target; gives the old value.
    ///
    /// # Errors
    /// When it is a part of a word, may not be read and written, or it is not done.
    pub fn add(&mut self, register: &str, addend: u32) -> Result<u32, BoardError> {
        self.one(Access::Add { register, addend })
    }

    /// Reads words of a block from `offset` on, or of a port.
    ///
    /// # Errors
    /// When they are not all of this node, may not be read, or do not come.
    pub fn read_block(&mut self, register: &str, offset: usize, block: &mut [u32]) -> Result<(), BoardError> {
        self.one(Access::ReadBlock { register, offset, block }).map(drop)
    }

    /// Writes words of a block from `offset` on, or of a port.
    ///
    /// # Errors
    /// When they are not all of this node, may not be written, or it is not done.
    pub fn write_block(&mut self, register: &str, offset: usize, block: &[u32]) -> Result<(), BoardError> {
        self.one(Access::WriteBlock { register, offset, block }).map(drop)
    }
}

/// The words at some addresses, each read once.
fn words_at(client: &mut Client, addresses: BTreeSet<u32>) -> BTreeMap<u32, Result<u32, DispatchError>> {
    let mut all = BTreeMap::new();
    let mut missing: Vec<u32> = addresses.into_iter().collect();
    while !missing.is_empty() {
        let mut words = vec![0; missing.len()];
        let mut queue = client.queue();
        for (address, word) in missing.iter().zip(&mut words) {
            queue.read_block(*address, std::slice::from_mut(word));
        }
        let failed = queue.dispatch().err();
        // Only one that refuses lets the others be read; where nobody answers, each would find that out anew.
        let refused = failed.as_ref().map(|cause| match cause.failure {
            Failure::Refused { job, .. } => Some(job),
            _ => None,
        });
        let mut left = Vec::new();
        for (place, (address, word)) in missing.into_iter().zip(words).enumerate() {
            let is_read = |cause: &DispatchError| cause.outcomes.get(place) == Some(&Outcome::Done);
            match (&failed, refused.flatten()) {
                (Some(cause), Some(job)) if job != place && !is_read(cause) => left.push(address),
                (Some(cause), _) if !is_read(cause) => _ = all.insert(address, Err(cause.clone())),
                _ => _ = all.insert(address, Ok(word)),
            }
        }
        missing = left;
    }
    all
}
