//! A target with its address table: registers by name, checked against the table.
//!
//! ```text
//!  Access, Access, … ─ name ─► Node: check permission, value and block size ─┐
//!                    └ 0x1000 ─► whole words, unchecked ─────────────────────┴─► one dispatch ─► values
//! ```
//! An access that the table does not allow is refused before anything is sent.

use std::collections::{BTreeMap, BTreeSet};

use crate::client::{Client, DispatchError, Failure, Outcome, Queue, Value};
use crate::table::{Mode, Node, Permission, Table, bits_in, number, value_in};

/// Why a register was not read or written.
#[derive(Debug, thiserror::Error)]
pub enum BoardError {
    /// The table has no node of this name.
    #[error("{0}")]
    NoNode(String),
    /// The table does not allow the access.
    #[error("`{node}` {why}")]
    Denied {
        /// The node's name.
        node: String,
        /// Why, and what can be done instead.
        why: String,
    },
    /// The dispatch failed.
    #[error("`{node}`: {cause}")]
    Dispatch {
        /// The name of the first node whose access was not done.
        node: String,
        /// The cause.
        cause: DispatchError,
    },
}

/// A target and its registers by name.
pub struct Board {
    client: Client,
    table: Table,
}

/// One access to a register: by its name in the table, or by its address, which gives whole words without checks.
#[derive(Debug)]
pub enum Access<'a> {
    /// Gives the register's value: for a masked register, its bits only.
    Read(&'a str),
    /// Writes a value; the other bits of a masked register's word stay.
    Write(&'a str, u32),
    /// Atomically sets the value to `(old & keep) | set` and gives the old value; the other bits of a masked register's word stay.
    ChangeBits {
        /// The register.
        register: &'a str,
        /// Bits that stay as they are.
        keep: u32,
        /// Bits that are set.
        set: u32,
    },
    /// Atomically sets the value to `old + addend`, modulo 2³², and gives the old value. A masked register refuses this.
    Add {
        /// The register.
        register: &'a str,
        /// The addend.
        addend: u32,
    },
    /// Reads words of a block from `offset` on, or of a port.
    ReadBlock {
        /// The block.
        register: &'a str,
        /// Offset of the first word in the block, in words.
        offset: usize,
        /// Receives the words.
        block: &'a mut [u32],
    },
    /// Writes words of a block from `offset` on, or of a port.
    WriteBlock {
        /// The block.
        register: &'a str,
        /// Offset of the first word in the block, in words.
        offset: usize,
        /// The words to write.
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

/// A register's address, and the accesses that it allows.
#[derive(Clone, Copy)]
struct Register<'t> {
    name: &'t str,
    address: u32,
    mask: u32,
    mode: Mode,
    permission: Permission,
}

impl<'t> Register<'t> {
    /// The register that a name or an address stands for.
    fn of(table: &'t Table, register: &'t str) -> Result<Register<'t>, BoardError> {
        if let Some(Node { name, address, mask, mode, permission, .. }) = table.node(register) {
            return Ok(Register {
                name,
                address: *address,
                mask: *mask,
                mode: *mode,
                permission: *permission,
            });
        }
        let address = number(register).ok_or_else(|| BoardError::NoNode(table.no_such(register)))?;
        let mode = Mode::Incremental { size: u32::MAX };
        Ok(Register { name: register, address, mask: u32::MAX, mode, permission: Permission::ReadWrite })
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
            Mode::Hierarchical => self.denied("is a group of nodes, not a register; name one of its nodes"),
            Mode::Single | Mode::Incremental { .. } | Mode::NonIncremental { .. } => Ok(()),
        }
    }

    /// Checks that this node has `words` words from `offset` on.
    fn check_block(self, offset: usize, words: usize) -> Result<(), BoardError> {
        self.check_word()?;
        let most = match self.mode {
            Mode::Incremental { size } => Some(size as usize),
            Mode::NonIncremental { size } => size.map(|size| size as usize),
            Mode::Single | Mode::Hierarchical => Some(1),
        };
        if self.is_masked() {
            return self.denied("is part of a word, not a block");
        }
        if offset > 0 && !matches!(self.mode, Mode::Incremental { .. }) {
            return self.denied("is not a block; only offset 0 is allowed");
        }
        match most.filter(|most| offset + words > *most) {
            Some(most) => {
                self.denied(format!("has {most} word(s); {words} from offset {offset} on were requested"))
            }
            None => Ok(()),
        }
    }

    /// A value shifted to the bits of this register.
    fn bits_of(self, value: u32) -> Result<u32, BoardError> {
        let (mask, most) = (self.mask, self.value_of(u32::MAX));
        let wide = || format!("has the bits {mask:#010x}: {value:#x} exceeds its maximum {most:#x}");
        bits_in(mask, value).map_or_else(|| self.denied(wide()), Ok)
    }

    /// Queues an access if the table allows it. Returns the value that it will give, if it gives one.
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
                    // The target reads the word to keep its other bits.
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
                    return self.denied("is part of a word: a sum could carry into the bits above it");
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

    /// Does all accesses, in their order, in one dispatch. Returns one value for each: 0 for an access that gives none. When one of them is
    /// not allowed, nothing is sent.
    ///
    /// # Errors
    /// When an access is not allowed, or was not done.
    pub fn perform(&mut self, accesses: Vec<Access<'_>>) -> Result<Vec<u32>, BoardError> {
        let Board { client, table } = self;
        let mut queue = client.queue();
        let mut asked = Vec::with_capacity(accesses.len());
        let names: Vec<String> = accesses.iter().map(|access| access.register().to_owned()).collect();
        for (access, name) in accesses.into_iter().zip(&names) {
            let register = Register::of(table, name)?;
            asked.push((register, register.queue(access, &mut queue)?));
        }
        match queue.dispatch() {
            Ok(done) => {
                let value = |(register, value): (Register<'_>, Option<Value>)| {
                    value.map_or(0, |value| register.value_of(done.word(value)))
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

    /// Reads the value of a register.
    ///
    /// # Errors
    /// When the table does not allow it, or it was not read.
    pub fn read(&mut self, register: &str) -> Result<u32, BoardError> {
        self.one(Access::Read(register))
    }

    /// Writes a register. The other bits of a masked register's word stay.
    ///
    /// # Errors
    /// When the table does not allow it, the value does not fit, or it was not done.
    pub fn write(&mut self, register: &str, value: u32) -> Result<(), BoardError> {
        self.one(Access::Write(register, value)).map(drop)
    }

    /// Reads registers in one dispatch, each as [`Board::read`] does. Masked registers of the same word share one read. When the target
    /// refuses one, the registers after it are read in another dispatch; no word is read twice.
    pub fn read_all(&mut self, names: &[&str]) -> Vec<Result<u32, BoardError>> {
        let Board { client, table } = self;
        let readable = |register: Register<'_>| register.check_reads().and(register.check_word());
        let registers: Vec<Result<Register<'_>, BoardError>> = names
            .iter()
            .map(|name| Register::of(table, name))
            .map(|found| found.and_then(|register| readable(register).map(|()| register)))
            .collect();
        let words = words_at(client, registers.iter().flatten().map(|register| register.address).collect());
        let value = |register: Register<'_>| match &words[&register.address] {
            Ok(word) => Ok(register.value_of(*word)),
            Err(cause) => Err(BoardError::Dispatch { node: register.name.to_owned(), cause: cause.clone() }),
        };
        registers.into_iter().map(|register| register.and_then(value)).collect()
    }

    /// Atomically sets a register to `(old & keep) | set`. Returns the old value.
    ///
    /// # Errors
    /// When the table does not allow it, `set` does not fit, or it was not done.
    pub fn change_bits(&mut self, register: &str, keep: u32, set: u32) -> Result<u32, BoardError> {
        self.one(Access::ChangeBits { register, keep, set })
    }

    /// Atomically sets a register to `old + addend`, modulo 2³². Returns the old value.
    ///
    /// # Errors
    /// When the register is part of a word, the table does not allow it, or it was not done.
    pub fn add(&mut self, register: &str, addend: u32) -> Result<u32, BoardError> {
        self.one(Access::Add { register, addend })
    }

    /// Reads words of a block from `offset` on, or of a port.
    ///
    /// # Errors
    /// When the node has fewer words, the table does not allow it, or they were not read.
    pub fn read_block(&mut self, register: &str, offset: usize, block: &mut [u32]) -> Result<(), BoardError> {
        self.one(Access::ReadBlock { register, offset, block }).map(drop)
    }

    /// Writes words of a block from `offset` on, or of a port.
    ///
    /// # Errors
    /// When the node has fewer words, the table does not allow it, or it was not done.
    pub fn write_block(&mut self, register: &str, offset: usize, block: &[u32]) -> Result<(), BoardError> {
        self.one(Access::WriteBlock { register, offset, block }).map(drop)
    }
}

/// Reads the words at some addresses, each once.
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
        // After a refused word the others are still readable. Without an answer, another dispatch would only wait for the timeout again.
        let refused = failed.as_ref().map(|cause| match cause.failure {
            Failure::Refused { job, .. } => Some(job),
            _ => None,
        });
        let mut left = Vec::new();
        for (index, (address, word)) in missing.into_iter().zip(words).enumerate() {
            let is_read = |cause: &DispatchError| cause.outcomes.get(index) == Some(&Outcome::Done);
            match (&failed, refused.flatten()) {
                (Some(cause), Some(job)) if job != index && !is_read(cause) => left.push(address),
                (Some(cause), _) if !is_read(cause) => _ = all.insert(address, Err(cause.clone())),
                _ => _ = all.insert(address, Ok(word)),
            }
        }
        missing = left;
    }
    all
}
