//! Address tables and connection files of the original, read unchanged.
//!
//! ```text
//!  connections.xml ─► Connection { id, URI, table files }
//!  board.xml ─ modules, each a file of its own ─► Table: Nodes by their full names, addresses added up
//!                                                   └─► overlaps · what is odd
//! ```
//! File names may hold `$VAR`, `${VAR}`, `~` and `*`; these are put in here. No shell ever sees them: `$(…)` is refused, where the original runs it.
//! Tables behind `http://` are refused by name.

mod connections;
mod files;
mod overlap;
mod read;
#[cfg(test)]
mod tests;

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::Arc;

pub use connections::{Connection, Connections};
pub use overlap::Overlap;
pub use read::number;

/// What is wrong in a file, where, and what to write.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{}: {message}", place(.file, .line))]
pub struct TableError {
    /// The file.
    pub file: PathBuf,
    /// The line, from 1 on; 0 of the file as a whole.
    pub line: u32,
    /// What was found, and what is allowed.
    pub message: String,
}

fn place(file: &std::path::Path, line: &u32) -> String {
    match line {
        0 => file.display().to_string(),
        line => format!("{}:{line}", file.display()),
    }
}

/// How the words of a node are reached.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mode {
    /// It has none of its own: it stands for those below it.
    Hierarchical,
    /// One word.
    Single,
    /// Words at addresses that follow each other: so many.
    Incremental {
        /// Words.
        size: u32,
    },
    /// Words at one address, as of a FIFO: at most so many at a time, where that is said.
    NonIncremental {
        /// Words.
        size: Option<u32>,
    },
}

/// What may be done to a node.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Permission {
    /// It can be read.
    Read,
    /// It can be written.
    Write,
    /// Both.
    ReadWrite,
}

impl Permission {
    /// Whether it can be read.
    pub const fn reads(self) -> bool {
        matches!(self, Permission::Read | Permission::ReadWrite)
    }

    /// Whether it can be written.
    pub const fn writes(self) -> bool {
        matches!(self, Permission::Write | Permission::ReadWrite)
    }
}

/// What is meant for firmware tools: a type, keys and values.
pub type Firmware = (String, BTreeMap<String, String>);

/// A named register, block, port or group of them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Node {
    /// The names of all above it and its own, joined by dots; empty of the root.
    pub name: String,
    /// Its address: the sum of its own and of those above it.
    pub address: u32,
    /// The bits that are its own.
    pub mask: u32,
    /// How its words are reached.
    pub mode: Mode,
    /// What may be done.
    pub permission: Permission,
    /// Free text; of a module `inside[outside]`.
    pub tags: String,
    /// Free text.
    pub description: String,
    /// The class that the original would make of it.
    pub class: String,
    /// Keys and values.
    pub parameters: BTreeMap<String, String>,
    /// What firmware tools make of it: a type, keys and values.
    pub firmware: Option<Firmware>,
    /// The file that it stands in, and the line.
    pub file: Arc<PathBuf>,
    /// The line.
    pub line: u32,
}

impl Node {
    /// Whether it is a part of a word.
    pub const fn is_masked(&self) -> bool {
        self.mask != u32::MAX
    }

    /// Words at addresses that follow each other.
    pub const fn span(&self) -> u32 {
        match self.mode {
            Mode::Hierarchical => 0,
            Mode::Single | Mode::NonIncremental { .. } => 1,
            Mode::Incremental { size } => size,
        }
    }

    /// Its value out of the word that it is a part of.
    pub const fn value_of(&self, word: u32) -> u32 {
        value_in(self.mask, word)
    }

    /// Its bits of a word that has this value there; `None` of a value that does not fit.
    pub const fn bits_of(&self, value: u32) -> Option<u32> {
        bits_in(self.mask, value)
    }
}

/// The value of those bits of a word that are in a mask.
pub(crate) const fn value_in(mask: u32, word: u32) -> u32 {
    (word & mask) >> mask.trailing_zeros()
}

/// The bits of a word that has this value in a mask; `None` of a value that does not fit.
pub(crate) const fn bits_in(mask: u32, value: u32) -> Option<u32> {
    let bits = (value as u64) << mask.trailing_zeros();
    if bits & !(mask as u64) != 0 { None } else { Some(bits as u32) }
}

/// An address table.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Table {
    /// In the order of their addresses within each level, those above before those below.
    nodes: Vec<Node>,
    names: BTreeMap<String, usize>,
    /// What is odd and no error.
    warnings: Vec<TableError>,
}

impl Table {
    /// All nodes but the root.
    pub fn nodes(&self) -> &[Node] {
        &self.nodes
    }

    /// The node of this full name.
    pub fn node(&self, name: &str) -> Option<&Node> {
        self.names.get(name).map(|index| &self.nodes[*index])
    }

    /// What is odd and no error: a `size` without a meaning.
    pub fn warnings(&self) -> &[TableError] {
        &self.warnings
    }

    /// Nodes whose words or bits are those of another node, too.
    pub fn overlaps(&self) -> Vec<Overlap<'_>> {
        overlap::find(&self.nodes)
    }

    /// Full names that a pattern with `*`, `?` and `[…]` fits, in their order.
    ///
    /// # Errors
    /// When it is none, in words.
    pub fn matching(&self, pattern: &str) -> Result<Vec<&Node>, String> {
        let pattern = glob::Pattern::new(pattern).map_err(|error| format!("`{pattern}`: {error}"))?;
        Ok(self.nodes.iter().filter(|node| pattern.matches(&node.name)).collect())
    }

    /// Full names in which a regular expression finds something, in their order.
    ///
    /// # Errors
    /// When it is none, in words.
    pub fn searched(&self, expression: &str) -> Result<Vec<&Node>, String> {
        let found = regex_lite::Regex::new(expression).map_err(|error| format!("`{expression}`: {error}"))?;
        Ok(self.nodes.iter().filter(|node| found.is_match(&node.name)).collect())
    }

    /// Why there is no node of this name, with those that are near it.
    pub fn no_such(&self, name: &str) -> String {
        let last = name.rsplit('.').next().unwrap_or(name).to_lowercase();
        let near = self.nodes.iter().filter(|node| node.name.to_lowercase().contains(&last));
        let near: Vec<&str> = near.take(5).map(|node| node.name.as_str()).collect();
        match near.is_empty() {
            true => format!("there is no node `{name}`; this table has {} others", self.nodes.len()),
            false => format!("there is no node `{name}`; near it are {}", near.join(", ")),
        }
    }
}
