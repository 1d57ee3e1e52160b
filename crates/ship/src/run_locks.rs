//! One shipper for a run at a time, over all connections of one receiver and all programs that write to one directory.
//!
//! ```text
//!  (run, shipper) ─► same shipper: one more of its connections · another one: refused
//! ```

use std::collections::HashMap;
use std::fs::{File, TryLockError};
use std::path::Path;
use std::sync::{Arc, Mutex, PoisonError};

use crate::error::Refusal;
use crate::file_turns::FileTurns;
use crate::message::Refused;

/// Which runs are being shipped to, and by whom.
#[derive(Debug, Default)]
pub struct RunLocks {
    held: Mutex<HashMap<String, Held>>,
    /// Whose turn each file is, among the connections of one shipper.
    pub(crate) turns: FileTurns,
}

#[derive(Debug)]
struct Held {
    shipper: u64,
    connections: usize,
    /// Locked for as long as it is open; `None` where the file system has no locks.
    _directory: Option<File>,
}

/// A run that is locked for as long as this lives.
#[derive(Debug)]
pub struct RunGuard {
    locks: Arc<RunLocks>,
    run: String,
}

impl RunGuard {
    /// The run.
    pub fn run(&self) -> &str {
        &self.run
    }
}

impl RunLocks {
    /// Locks a run, whose hidden directory is there.
    ///
    /// # Errors
    /// When another shipper is at it.
    pub fn take(locks: &Arc<RunLocks>, run: &str, hidden: &Path, shipper: u64) -> Result<RunGuard, Refused> {
        let mut held = locks.held.lock().unwrap_or_else(PoisonError::into_inner);
        let busy = || {
            let text = format!("another `thalweg ship` ships the run {run} to here; end one of the two");
            Refused::new(Refusal::Locked, text)
        };
        match held.get_mut(run) {
            Some(known) if known.shipper != shipper => return Err(busy()),
            Some(known) => known.connections += 1,
            None => {
                let directory = File::open(hidden).ok();
                let directory = match directory.map(|file| (file.try_lock(), file)) {
                    Some((Ok(()), file)) => Some(file),
                    Some((Err(TryLockError::WouldBlock), _)) => return Err(busy()),
                    _ => None,
                };
                held.insert(run.to_owned(), Held { shipper, connections: 1, _directory: directory });
            }
        }
        Ok(RunGuard { locks: locks.clone(), run: run.to_owned() })
    }
}

impl Drop for RunGuard {
    fn drop(&mut self) {
        let mut held = self.locks.held.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(known) = held.get_mut(&self.run) {
            known.connections -= 1;
            if known.connections == 0 {
                held.remove(&self.run);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn two_shippers_are_not_at_one_run_and_one_has_many_connections() {
        let folder = tempfile::tempdir().expect("temporary folder");
        let (locks, other_program) = (Arc::default(), Arc::default());
        let take = |locks, shipper| RunLocks::take(locks, "000001", folder.path(), shipper);
        let one = take(&locks, 1).expect("free");
        let two = take(&locks, 1).expect("the same shipper");
        assert_eq!(take(&locks, 2).expect_err("another").refusal, Refusal::Locked);
        drop(one);
        assert_eq!(take(&locks, 2).expect_err("another").refusal, Refusal::Locked);
        assert_eq!(take(&other_program, 2).expect_err("another").refusal, Refusal::Locked);
        drop(two);
        assert!(take(&locks, 2).is_ok());
    }
}
