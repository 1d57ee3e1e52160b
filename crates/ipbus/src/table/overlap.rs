//! Finds pairs of nodes that share words or bits.
//!
//! ```text
//!  nodes by address ─► sweep: nodes that begin before another ends ─► blocks and ports always, words when masks overlap
//! ```

use super::{Mode, Node};

/// Most pairs that are reported.
const MOST_PAIRS: usize = 10_000;

/// Two nodes that share a word or bits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Overlap<'t> {
    /// The node with the lower address; of equal addresses, the longer one.
    pub first: &'t Node,
    /// The other node.
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
    for (index, first) in own.iter().enumerate() {
        let end = u64::from(first.address) + u64::from(first.span());
        let candidates = own[index + 1..].iter().take_while(|second| u64::from(second.address) < end);
        for second in candidates.filter(|second| overlap(first, second)) {
            found.push(Overlap { first, second });
            if found.len() == MOST_PAIRS {
                return found;
            }
        }
    }
    found
}

/// Whether two nodes that share an address overlap.
fn overlap(first: &Node, second: &Node) -> bool {
    let is_part = |part: &Node, whole: &Node| {
        // A masked node is meant to share its parent's word.
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
