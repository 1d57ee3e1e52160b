//! Address tables and connection files in the format of the original software.
//!
//! ```text
//!  connections.xml ─► Connection { id, URI, table files }
//!  board.xml ─ modules, each in its own file ─► Table: Nodes by full name, with absolute addresses
//!                                                   └─► overlaps · warnings
//! ```
//! File names may contain `$VAR`, `${VAR}`, `~` and `*`, which are expanded without a shell: `$(…)` is refused, where the original runs the
//! command. Tables at `http://` are refused.

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

/// An error in a file, with its location.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{}: {message}", location(.file, .line))]
pub struct TableError {
    /// The file.
    pub file: PathBuf,
    /// The line, from 1 on; 0 for the file as a whole.
    pub line: u32,
    /// What is wrong, and what is allowed.
    pub message: String,
}

fn location(file: &std::path::Path, line: &u32) -> String {
    match line {
        0 => file.display().to_string(),
        line => format!("{}:{line}", file.display()),
    }
}

/// How the words of a node are addressed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mode {
    /// A group of nodes without a word of its own.
    Hierarchical,
    /// One word.
    Single,
    /// A block: words at consecutive addresses.
    Incremental {
        /// Number of words.
        size: u32,
    },
    /// A port: words at one address, such as a FIFO.
    NonIncremental {
        /// Most words in one access, if limited.
        size: Option<u32>,
    },
}

/// Which accesses a node allows.
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

/// The `fwinfo` of a node, for firmware tools: a type, and keys with values.
pub type Firmware = (String, BTreeMap<String, String>);

/// A named register, block, port or group of them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Node {
    /// The full name: the names of its ancestors and its own, joined by dots; empty for the root.
    pub name: String,
    /// The absolute address: its own offset plus those of its ancestors.
    pub address: u32,
    /// Its bits in the word.
    pub mask: u32,
    /// How its words are addressed.
    pub mode: Mode,
    /// Which accesses it allows.
    pub permission: Permission,
    /// Free text; `inside[outside]` when a module and the node that includes it both have tags.
    pub tags: String,
    /// Free text, combined as the tags are.
    pub description: String,
    /// The class of the node in the original software.
    pub class: String,
    /// Keys and values.
    pub parameters: BTreeMap<String, String>,
    /// Data for firmware tools.
    pub firmware: Option<Firmware>,
    /// The file that defines it.
    pub file: Arc<PathBuf>,
    /// Its line in that file, from 1 on.
    pub line: u32,
}

impl Node {
    /// Whether it is only part of a word.
    pub const fn is_masked(&self) -> bool {
        self.mask != u32::MAX
    }

    /// Number of consecutive addresses that it takes.
    pub const fn span(&self) -> u32 {
        match self.mode {
            Mode::Hierarchical => 0,
            Mode::Single | Mode::NonIncremental { .. } => 1,
            Mode::Incremental { size } => size,
        }
    }

    /// Its value in a word.
    pub const fn value_of(&self, word: u32) -> u32 {
        value_in(self.mask, word)
    }

    /// A value shifted to its bits in the word; `None` when the value does not fit.
    pub const fn bits_of(&self, value: u32) -> Option<u32> {
        bits_in(self.mask, value)
    }
}

/// The value of the masked bits of a word.
pub(crate) const fn value_in(mask: u32, word: u32) -> u32 {
    (word & mask) >> mask.trailing_zeros()
}

/// A value shifted to the bits of a mask; `None` when the value does not fit.
pub(crate) const fn bits_in(mask: u32, value: u32) -> Option<u32> {
    let bits = (value as u64) << mask.trailing_zeros();
    if bits & !(mask as u64) != 0 { None } else { Some(bits as u32) }
}

/// An address table.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Table {
    /// Parents before their children, and siblings in the order of their addresses.
    nodes: Vec<Node>,
    names: BTreeMap<String, usize>,
    /// See [`Table::warnings`].
    warnings: Vec<TableError>,
}

impl Table {
    /// All nodes except the root.
    pub fn nodes(&self) -> &[Node] {
        &self.nodes
    }

    /// The node with this full name.
    pub fn node(&self, name: &str) -> Option<&Node> {
        self.names.get(name).map(|index| &self.nodes[*index])
    }

    /// Findings that are not errors: a `size` without effect.
    pub fn warnings(&self) -> &[TableError] {
        &self.warnings
    }

    /// Pairs of nodes that share words or bits.
    pub fn overlaps(&self) -> Vec<Overlap<'_>> {
        overlap::find(&self.nodes)
    }

    /// The nodes whose full names match a pattern with `*`, `?` and `[…]`, in the order of the table.
    ///
    /// # Errors
    /// When the pattern is invalid; the message says why.
    pub fn matching(&self, pattern: &str) -> Result<Vec<&Node>, String> {
        let pattern = glob::Pattern::new(pattern).map_err(|error| format!("`{pattern}`: {error}"))?;
        Ok(self.nodes.iter().filter(|node| pattern.matches(&node.name)).collect())
    }

    /// The nodes whose full names match a regular expression, in the order of the table.
    ///
    /// # Errors
    /// When the expression is invalid; the message says why.
    pub fn searched(&self, expression: &str) -> Result<Vec<&Node>, String> {
        let found = regex_lite::Regex::new(expression).map_err(|error| format!("`{expression}`: {error}"))?;
        Ok(self.nodes.iter().filter(|node| found.is_match(&node.name)).collect())
    }

    /// The message for an unknown name, with up to five similar names.
    pub fn no_such(&self, name: &str) -> String {
        let last = name.rsplit('.').next().unwrap_or(name).to_lowercase();
        let near = self.nodes.iter().filter(|node| node.name.to_lowercase().contains(&last));
        let near: Vec<&str> = near.take(5).map(|node| node.name.as_str()).collect();
        match near.is_empty() {
            true => format!("there is no node `{name}`; this table has {} others", self.nodes.len()),
            false => format!("there is no node `{name}`; similar names are {}", near.join(", ")),
        }
    }
}
