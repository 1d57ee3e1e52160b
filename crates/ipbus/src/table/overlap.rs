//! Words and bits that two nodes have in common.
//!
//! ```text
//!  nodes by address ─► a sweep: those that begin before the others end ─► blocks and ports always, words where bits are shared
//! ```

use super::{Mode, Node};

/// Most pairs that are reported.
const MOST_PAIRS: usize = 10_000;

/// Two nodes that have a word or a bit in common.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Overlap<'t> {
    /// The one that begins first.
    pub first: &'t Node,
    /// The other.
    pub second: &'t Node,
}

impl std::fmt::Display for Overlap<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let Overlap { first, second } = self;
        let (file, line) = (second.file.display(), second.line);
        write!(f, "{file}:{line}: `{}` at {:#010x} overlaps `{}`", second.name, second.address, first.name)?;
        write!(f, " at {:#010x} ({}:{})", first.address, first.file.display(), first.line)
    }
}

pub(super) fn find(nodes: &[Node]) -> Vec<Overlap<'_>> {
    let mut own: Vec<&Node> = nodes.iter().filter(|node| node.span() > 0).collect();
    own.sort_by_key(|node| (node.address, std::cmp::Reverse(node.span())));
    let mut found = Vec::new();
    for (place, first) in own.iter().enumerate() {
        let end = u64::from(first.address) + u64::from(first.span());
        let behind = own[place + 1..].iter().take_while(|second| u64::from(second.address) < end);
        for second in behind.filter(|second| overlap(first, second)) {
            found.push(Overlap { first, second });
            if found.len() == MOST_PAIRS {
                return found;
            }
        }
    }
    found
}

/// Of two that have an address in common.
fn overlap(first: &Node, second: &Node) -> bool {
    let is_part = |part: &Node, whole: &Node| {
        // A part of a word below the word itself.
        part.is_masked()
            && !whole.is_masked()
            && part.name.strip_prefix(&whole.name).is_some_and(|rest| rest.starts_with('.'))
    };
    if is_part(first, second) || is_part(second, first) {
        return false;
    }
    let is_word = |node: &Node| node.mode == Mode::Single;
    !(is_word(first) && is_word(second)) || first.mask & second.mask != 0
}
