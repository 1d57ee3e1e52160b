//! The one way to standard output and standard error: a reader that is gone, or does not read, costs lines and never the run.
//!
//! ```text
//!  notices, log lines, progress ─► queue ─► thread ─► standard error
//!  live states                  ─► queue ─► thread ─► standard output
//!  the result of a command      ─► behind what is queued ─► standard output
//! ```
//! Threads that take data write log lines. So nobody waits here: what finds the queue full is dropped, and the count of what was
//! dropped is written when there is space again. Only the result of a command, when its work is over, waits for its reader.

use std::io::{self, ErrorKind, Write};
use std::sync::OnceLock;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::mpsc::{Receiver, SyncSender, TrySendError, sync_channel};
use std::time::Duration;

use tracing_subscriber::fmt::MakeWriter;

/// Texts that may wait to be written.
const QUEUE: usize = 1024;
/// Bytes of them together; one text alone may be larger.
const MOST_BYTES: usize = 4 << 20;
/// The time for which queued output is waited for before the result of a command is written, and before the process ends.
const FLUSHED_WITHIN: Duration = Duration::from_secs(1);

/// A standard stream and the texts that wait for it.
struct Outlet {
    name: &'static str,
    open: fn() -> Box<dyn Write>,
    queue: OnceLock<Option<SyncSender<Job>>>,
    waiting_bytes: AtomicUsize,
    dropped: AtomicU64,
}

enum Job {
    Text(Vec<u8>),
    /// Something that writes by itself, as lines that stay in place do.
    Draw(Box<dyn FnOnce() + Send>),
    Flushed(SyncSender<()>),
}

static STANDARD_ERROR: Outlet = Outlet::new("standard error", || Box::new(io::stderr()));
static STANDARD_OUTPUT: Outlet = Outlet::new("standard output", || Box::new(io::stdout()));

impl Outlet {
    const fn new(name: &'static str, open: fn() -> Box<dyn Write>) -> Outlet {
        Outlet {
            name,
            open,
            queue: OnceLock::new(),
            waiting_bytes: AtomicUsize::new(0),
            dropped: AtomicU64::new(0),
        }
    }

    fn queue(&'static self) -> Option<&'static SyncSender<Job>> {
        let start = || {
            let (queue, jobs) = sync_channel(QUEUE);
            let thread = std::thread::Builder::new().name("terminal".to_owned());
            // Without a thread nothing is written, and the run goes on.
            thread.spawn(move || self.write_all(&jobs)).ok().map(|_| queue)
        };
        self.queue.get_or_init(start).as_ref()
    }

    /// Queues a job of `bytes` bytes, or counts it as dropped. Never waits.
    fn send(&'static self, job: Job, bytes: usize) {
        let Some(queue) = self.queue() else { return };
        let waiting = self.waiting_bytes.fetch_add(bytes, Ordering::AcqRel);
        let is_full = waiting > 0 && waiting + bytes > MOST_BYTES;
        if is_full || queue.try_send(job).is_err() {
            self.waiting_bytes.fetch_sub(bytes, Ordering::AcqRel);
            self.dropped.fetch_add(1, Ordering::Relaxed);
        }
    }

    fn send_text(&'static self, text: Vec<u8>) {
        let bytes = text.len();
        self.send(Job::Text(text), bytes);
    }

    /// The thread: writes what comes. A stream that cannot be written has lost its reader, and what was said to it is over.
    fn write_all(&'static self, jobs: &Receiver<Job>) {
        let mut stream = (self.open)();
        for job in jobs {
            match job {
                Job::Text(text) => {
                    let _reader_gone = stream.write_all(&text).and_then(|()| stream.flush());
                    self.waiting_bytes.fetch_sub(text.len(), Ordering::AcqRel);
                }
                Job::Draw(draw) => draw(),
                // A waiting thread may have given up.
                Job::Flushed(done) => _ = done.try_send(()),
            }
            let dropped = self.dropped.swap(0, Ordering::Relaxed);
            if dropped > 0 {
                notice(&format!("thalweg: {dropped} texts for {} were dropped; nobody read them", self.name));
            }
        }
    }

    /// Waits until everything that was queued is written, for as long as makes sense.
    fn flush(&'static self) {
        if let Some(Some(queue)) = self.queue.get() {
            let (done, flushed) = sync_channel(1);
            match queue.try_send(Job::Flushed(done)) {
                Ok(()) => _ = flushed.recv_timeout(FLUSHED_WITHIN),
                Err(TrySendError::Full(_) | TrySendError::Disconnected(_)) => {}
            }
        }
    }
}

/// Writes a line to standard error. Never waits, never fails.
pub(crate) fn notice(line: &str) {
    STANDARD_ERROR.send_text(format!("{}\n", line.trim_end()).into_bytes());
}

/// Writes a line to standard output while a run goes on. Never waits, never fails.
pub(crate) fn passing_line(line: &str) {
    STANDARD_OUTPUT.send_text(format!("{line}\n").into_bytes());
}

/// Draws on standard error, in its turn. Never waits, never fails.
pub(crate) fn draw(draw: impl FnOnce() + Send + 'static) {
    STANDARD_ERROR.send(Job::Draw(Box::new(draw)), 0);
}

/// Writes the result of a command to standard output, and waits until it is taken.
///
/// # Errors
/// When it cannot be written. A reader that has seen enough and gone (`thalweg … | head`) is no error.
pub(crate) fn result(text: &str) -> io::Result<()> {
    flush();
    let mut out = io::stdout().lock();
    match out.write_all(text.as_bytes()).and_then(|()| out.write_all(b"\n")).and_then(|()| out.flush()) {
        Err(error) if error.kind() == ErrorKind::BrokenPipe => Ok(()),
        Err(error) => Err(io::Error::new(error.kind(), format!("standard output: {error}"))),
        Ok(()) => Ok(()),
    }
}

/// Waits until queued output is written, as before the process ends; not for long if there is no reader.
pub(crate) fn flush() {
    STANDARD_OUTPUT.flush();
    STANDARD_ERROR.flush();
}

/// The writer of log lines.
pub(crate) struct Log;

/// One log line on its way: the formatter writes it whole.
pub(crate) struct LogLine;

impl MakeWriter<'_> for Log {
    type Writer = LogLine;

    fn make_writer(&self) -> LogLine {
        LogLine
    }
}

impl Write for LogLine {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        STANDARD_ERROR.send_text(bytes.to_vec());
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}
