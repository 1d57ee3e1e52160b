//! Whose turn a file is: of several connections, the one that has begun with it last.
//!
//! ```text
//!  begin ─► Turn, which ends that of every other connection      write, prove, cut ─► is it still mine? ─► done, under the lock
//! ```
//! A connection that was lost may still force bytes to the disk while its shipper begins anew over another one; and one that has shipped a
//! file earlier must not cut it where it stopped.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use crate::names::FarName;

/// Above this, files that nobody has begun are forgotten.
const MOST_KNOWN: usize = 1024;

/// Whose turn each file is.
#[derive(Debug, Default)]
pub struct FileTurns {
    files: Mutex<HashMap<(String, String), Latest>>,
}

/// The number of the latest turn at a file; locked while something is done with the file.
type Latest = Arc<Mutex<u64>>;

/// The turn of one connection at one file.
#[derive(Clone, Debug)]
pub struct Turn {
    latest: Latest,
    own: u64,
}

impl FileTurns {
    /// Takes the turn, once nobody else is in the middle of something.
    pub fn take(&self, name: &FarName) -> Turn {
        let key = (name.run().to_owned(), name.file().to_owned());
        let mut files = self.files.lock().unwrap_or_else(PoisonError::into_inner);
        if files.len() >= MOST_KNOWN {
            files.retain(|_, latest| Arc::strong_count(latest) > 1);
        }
        let latest = files.entry(key).or_default().clone();
        drop(files);
        let own = {
            let mut number = latest.lock().unwrap_or_else(PoisonError::into_inner);
            *number += 1;
            *number
        };
        Turn { latest, own }
    }
}

impl Turn {
    /// Keeps the file to oneself for as long as the guard lives; `None` when the turn is over.
    pub fn hold(&self) -> Option<MutexGuard<'_, u64>> {
        let latest = self.latest.lock().unwrap_or_else(PoisonError::into_inner);
        (*latest == self.own).then_some(latest)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_connection_that_begins_last_has_the_turn() {
        let turns = FileTurns::default();
        let name = |file| FarName::new("000001", file).expect("plain");
        let (one, other) = (turns.take(&name("a")), turns.take(&name("b")));
        assert!(one.hold().is_some() && other.hold().is_some());
        let later = turns.take(&name("a"));
        assert!(one.hold().is_none() && later.hold().is_some() && other.hold().is_some());
    }
}
