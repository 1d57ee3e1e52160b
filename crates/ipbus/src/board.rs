//! A target with its address table: registers by name, under the table's own rules.
//!
//! ```text
//!  name ─► Node: may it be read, written? does the value fit, the block? ─► Client ─► value, shifted to its mask
//! ```
//! What the rules forbid is refused before anything is sent.

use std::collections::{BTreeMap, BTreeSet};

use crate::client::{Client, DispatchError, Failure, Outcome};
use crate::table::{Mode, Node, Table};

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

fn denied<T>(node: &Node, why: impl Into<String>) -> Result<T, BoardError> {
    Err(BoardError::Denied { node: node.name.clone(), why: why.into() })
}

fn check_reads(node: &Node) -> Result<(), BoardError> {
    if node.permission.reads() { Ok(()) } else { denied(node, "is write-only") }
}

fn check_writes(node: &Node) -> Result<(), BoardError> {
    if node.permission.writes() { Ok(()) } else { denied(node, "is read-only") }
}

fn check_word(node: &Node) -> Result<(), BoardError> {
    match node.mode {
        Mode::Hierarchical => denied(node, "is a group of nodes and no word; name one of them"),
        Mode::Single | Mode::Incremental { .. } | Mode::NonIncremental { .. } => Ok(()),
    }
}

/// Whether a block of so many words from `offset` on is one of this node's.
fn check_block(node: &Node, offset: usize, words: usize) -> Result<(), BoardError> {
    check_word(node)?;
    let most = match node.mode {
        Mode::Incremental { size } => Some(size as usize),
        Mode::NonIncremental { size } => size.map(|size| size as usize),
        Mode::Single | Mode::Hierarchical => Some(1),
    };
    if node.is_masked() {
        return denied(node, "is a part of a word and no block");
    }
    if offset > 0 && !matches!(node.mode, Mode::Incremental { .. }) {
        return denied(node, "is no block; there is nothing behind its first word");
    }
    match most.filter(|most| offset + words > *most) {
        Some(most) => denied(node, format!("has {most} word(s); {words} from {offset} on were asked for")),
        None => Ok(()),
    }
}

/// A value in its place of the word.
fn bits_of(node: &Node, value: u32) -> Result<u32, BoardError> {
    let (mask, most) = (node.mask, node.value_of(u32::MAX));
    let wide = || format!("has the bits {mask:#010x}: {value:#x} is more than {most:#x}, the most");
    node.bits_of(value).map_or_else(|| denied(node, wide()), Ok)
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

    fn node(&self, name: &str) -> Result<Node, BoardError> {
        self.table.node(name).cloned().ok_or_else(|| BoardError::NoNode(self.table.no_such(name)))
    }

    /// The value of a register: of a part of a word, its bits alone.
    ///
    /// # Errors
    /// When it may not be read, or does not come.
    pub fn read(&mut self, name: &str) -> Result<u32, BoardError> {
        let node = self.readable(name)?;
        let word = self.client.read(node.address);
        word.map(|word| node.value_of(word)).map_err(|cause| BoardError::Dispatch { node: node.name, cause })
    }

    /// Writes a register. Of a part of a word the other bits stay.
    ///
    /// # Errors
    /// When it may not be written, the value does not fit, or it is not done.
    pub fn write(&mut self, name: &str, value: u32) -> Result<(), BoardError> {
        let node = self.node(name)?;
        check_writes(&node)?;
        check_word(&node)?;
        let bits = bits_of(&node, value)?;
        let mut queue = self.client.queue();
        match node.is_masked() {
            // The others are read with it.
            true => {
                check_reads(&node)?;
                queue.change_bits(node.address, !node.mask, bits);
            }
            false => {
                queue.write(node.address, bits);
            }
        }
        queue.dispatch().map(drop).map_err(|cause| BoardError::Dispatch { node: node.name, cause })
    }

    /// The values of registers, each as [`Board::read`] gives it, in one dispatch: registers of one word are parts of one reading. Behind
    /// one that is refused the others are read in another dispatch, and none twice.
    pub fn read_all(&mut self, names: &[&str]) -> Vec<Result<u32, BoardError>> {
        let nodes: Vec<Result<Node, BoardError>> = names.iter().map(|name| self.readable(name)).collect();
        let words = self.words_at(nodes.iter().flatten().map(|node| node.address).collect());
        let value = |node: Node| match &words[&node.address] {
            Ok(word) => Ok(node.value_of(*word)),
            Err(cause) => Err(BoardError::Dispatch { node: node.name, cause: cause.clone() }),
        };
        nodes.into_iter().map(|node| node.and_then(value)).collect()
    }

    fn words_at(&mut self, addresses: BTreeSet<u32>) -> BTreeMap<u32, Result<u32, DispatchError>> {
        let mut all = BTreeMap::new();
        let mut missing: Vec<u32> = addresses.into_iter().collect();
        while !missing.is_empty() {
            let mut words = vec![0; missing.len()];
            let mut queue = self.client.queue();
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

    fn readable(&self, name: &str) -> Result<Node, BoardError> {
        let node = self.node(name)?;
        check_reads(&node)?;
        check_word(&node)?;
        Ok(node)
    }

    fn changeable(&self, name: &str) -> Result<Node, BoardError> {
        let node = self.readable(name)?;
        check_writes(&node)?;
        Ok(node)
    }

    /// A register becomes `(old & keep) | set` in one step of the target; gives the old value. Of a part of a word the other bits stay.
    ///
    /// # Errors
    /// When it may not be read and written, `set` does not fit, or it is not done.
    pub fn change_bits(&mut self, name: &str, keep: u32, set: u32) -> Result<u32, BoardError> {
        let node = self.changeable(name)?;
        let bits = bits_of(&node, set)?;
        let kept = (keep << node.mask.trailing_zeros()) | !node.mask;
        let mut queue = self.client.queue();
        let before = queue.change_bits(node.address, kept, bits);
        let done = queue.dispatch();
        done.map(|done| node.value_of(done.word(before)))
            .map_err(|cause| BoardError::Dispatch { node: node.name, cause })
    }

    /// A register becomes `old + addend`, modulo 2³², in one step of the target; gives the old value.
    ///
    /// # Errors
    /// When it is a part of a word, may not be read and written, or it is not done.
    pub fn add(&mut self, name: &str, addend: u32) -> Result<u32, BoardError> {
        let node = self.changeable(name)?;
        if node.is_masked() {
            return denied(&node, "is a part of a word: a sum would run over into the bits above it");
        }
        let mut queue = self.client.queue();
        let before = queue.add_to(node.address, addend);
        let done = queue.dispatch();
        done.map(|done| done.word(before)).map_err(|cause| BoardError::Dispatch { node: node.name, cause })
    }

    /// Reads words of a block from `offset` on, or of a port.
    ///
    /// # Errors
    /// When they are not all of this node, may not be read, or do not come.
    pub fn read_block(&mut self, name: &str, offset: usize, block: &mut [u32]) -> Result<(), BoardError> {
        let node = self.node(name)?;
        check_reads(&node)?;
        check_block(&node, offset, block.len())?;
        let mut queue = self.client.queue();
        match node.mode {
            Mode::NonIncremental { .. } => queue.read_fifo(node.address, block),
            _ => queue.read_block(node.address.wrapping_add(offset as u32), block),
        };
        queue.dispatch().map(drop).map_err(|cause| BoardError::Dispatch { node: node.name, cause })
    }

    /// Writes words of a block from `offset` on, or of a port.
    ///
    /// # Errors
    /// When they are not all of this node, may not be written, or it is not done.
    pub fn write_block(&mut self, name: &str, offset: usize, block: &[u32]) -> Result<(), BoardError> {
        let node = self.node(name)?;
        check_writes(&node)?;
        check_block(&node, offset, block.len())?;
        let mut queue = self.client.queue();
        match node.mode {
            Mode::NonIncremental { .. } => queue.write_fifo(node.address, block),
            _ => queue.write_block(node.address.wrapping_add(offset as u32), block),
        };
        queue.dispatch().map(drop).map_err(|cause| BoardError::Dispatch { node: node.name, cause })
    }
}
