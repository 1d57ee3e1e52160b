//! The effect of signals on a command that takes data.
//!
//! ```text
//!  SIGINT, SIGTERM ─► end in good order; a second one ends the process at once
//!  SIGHUP ──────────► a message: the terminal is gone, data taking goes on
//!  SIGXFSZ ─────────► nothing: the write that went beyond the limit fails, as on a full disk
//!  SIGPIPE ─────────► nothing: Rust ignores it, the write fails
//! ```

use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM, SIGXFSZ};
use signal_hook::flag;

/// The signals that came since these were installed.
pub(crate) struct Signals {
    stop: Arc<AtomicBool>,
    hung_up: Arc<AtomicBool>,
}

impl Signals {
    /// Takes the signals over from the system, whose default is to end the process.
    ///
    /// # Errors
    /// When the system refuses.
    pub(crate) fn install() -> io::Result<Signals> {
        let (stop, hung_up) = (Arc::new(AtomicBool::new(false)), Arc::new(AtomicBool::new(false)));
        for signal in [SIGINT, SIGTERM] {
            flag::register_conditional_shutdown(signal, 130, stop.clone())?;
            flag::register(signal, stop.clone())?;
        }
        flag::register(SIGHUP, hung_up.clone())?;
        flag::register(SIGXFSZ, Arc::default())?;
        Ok(Signals { stop, hung_up })
    }

    /// Set when the command is to end in good order.
    pub(crate) fn stop(&self) -> &AtomicBool {
        &self.stop
    }

    /// The same, for who outlives these.
    pub(crate) fn stop_flag(&self) -> &Arc<AtomicBool> {
        &self.stop
    }

    /// Returns true if the command is to end in good order.
    pub(crate) fn stop_requested(&self) -> bool {
        self.stop.load(Ordering::Acquire)
    }

    /// Says once for each SIGHUP that data taking goes on.
    pub(crate) fn report_hangup(&self) {
        if self.hung_up.swap(false, Ordering::AcqRel) {
            let process = std::process::id();
            tracing::info!(
                "the terminal is gone (SIGHUP), data taking goes on; end it with kill -INT {process}"
            );
        }
    }
}
