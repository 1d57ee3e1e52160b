//! The threads of hosted boards, and what went wrong in them.
//!
//! ```text
//!  spawn(name, work) ─► Threads ─ join ─► a panic is a failure like others ─► Failures, the first few
//! ```

use std::sync::Mutex;
use std::thread::JoinHandle;

use super::{HostError, lock};

/// Most messages that are kept: the first say what happened.
const MOST: usize = 8;

/// What went wrong, in words.
#[derive(Debug, Default)]
pub(crate) struct Failures(Mutex<Vec<String>>);

impl Failures {
    /// Logs a failure, and keeps it if it is one of the first.
    pub(crate) fn add(&self, message: String) {
        tracing::error!("{message}");
        let mut messages = lock(&self.0);
        if messages.len() < MOST {
            messages.push(message);
        }
    }

    /// Those that were kept.
    pub(crate) fn list(&self) -> Vec<String> {
        lock(&self.0).clone()
    }
}

/// Threads that are joined together.
#[derive(Default)]
pub(crate) struct Threads(Vec<JoinHandle<()>>);

impl Threads {
    /// Starts one more.
    ///
    /// # Errors
    /// When the system gives none.
    pub(crate) fn spawn(
        &mut self,
        name: &str,
        work: impl FnOnce() + Send + 'static,
    ) -> Result<(), HostError> {
        let thread = std::thread::Builder::new().name(name.to_owned()).spawn(work);
        self.0.push(thread.map_err(HostError::Thread)?);
        Ok(())
    }

    /// Forgets those that have ended.
    pub(crate) fn forget_ended(&mut self) {
        self.0.retain(|thread| !thread.is_finished());
    }

    /// Waits for all of them.
    pub(crate) fn join(&mut self, failures: &Failures) {
        for thread in self.0.drain(..) {
            let name = thread.thread().name().unwrap_or_default().to_owned();
            if thread.join().is_err() {
                failures.add(format!(
                    "thread \"{name}\" of emulated boards panicked: a defect, please report it"
                ));
            }
        }
    }
}
