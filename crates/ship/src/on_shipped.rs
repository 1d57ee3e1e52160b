//! The command that is run when a run is complete at a destination.
//!
//! ```text
//!  run, destination, manifest ─► program with THALWEG_RUN, THALWEG_DESTINATION, THALWEG_MANIFEST ─► ended with 0?
//! ```

use std::path::Path;
use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

/// Between two looks whether it has ended.
const CHECK_EVERY: Duration = Duration::from_millis(20);

/// Runs it and waits for its end; when shipping is to stop, it is ended. `meanwhile` is called again and again.
///
/// # Errors
/// In words, when it cannot be started or does not end with 0.
pub fn run(
    command: &[String],
    (run, destination, manifest): (&Path, &str, &Path),
    stop: &AtomicBool,
    meanwhile: &mut dyn FnMut(),
) -> Result<(), String> {
    let Some((program, arguments)) = command.split_first() else { return Ok(()) };
    let mut child = Command::new(program)
        .args(arguments)
        .env("THALWEG_RUN", run)
        .env("THALWEG_DESTINATION", destination)
        .env("THALWEG_MANIFEST", manifest)
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .spawn()
        .map_err(|cause| format!("on_shipped: {program}: {cause}"))?;
    loop {
        match child.try_wait() {
            Ok(Some(status)) if status.success() => return Ok(()),
            Ok(Some(status)) => return Err(format!("on_shipped: {program}: {status}")),
            Ok(None) if stop.load(Ordering::Acquire) => {
                let _ended = child.kill().and_then(|()| child.wait());
                return Err(format!("on_shipped: {program}: ended, because shipping was stopped"));
            }
            Ok(None) => {
                meanwhile();
                std::thread::sleep(CHECK_EVERY);
            }
            Err(cause) => return Err(format!("on_shipped: {program}: {cause}")),
        }
    }
}
