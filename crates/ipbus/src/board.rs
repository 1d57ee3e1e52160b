//! A target with its address table: registers by name, under the table's own rules.
//!
//! ```text
//!  name ─► Node: may it be read, written? does the value fit, the block? ─► Client ─► value, shifted to its mask
//! ```
//! What the rules forbid is refused before anything is sent.

use crate::client::{Client, DispatchError};
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
        let node = self.node(name)?;
        check_reads(&node)?;
        check_word(&node)?;
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
        let Some(bits) = node.bits_of(value) else {
            let (mask, most) = (node.mask, node.value_of(u32::MAX));
            return denied(
                &node,
                format!("has the bits {mask:#010x}: {value:#x} is more than {most:#x}, the most"),
            );
        };
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
