//! A run from its start to its closed books: the state machine around the threads.
//!
//! ```text
//!  Plan ─► assemble ─► Ready ─► Running ⇄ Paused ─► Stopping ─► Stopped
//!                                  │ progress, snapshots        └─► Summary, run.json
//! ```

mod build;
mod progress;
mod summary;

use std::sync::Arc;
use std::time::{Duration, Instant};

use thalweg_data::{Books, Ledger, RunState, Stage, Unit};

pub(crate) use build::BuildGauges;
pub use build::BuildLook;
pub use progress::{Completeness, EventProgress, Gauges, Progress, SourceProgress};
pub(crate) use summary::unplaced_loss;
pub use summary::{EventSummary, SourceSummary, Summary};

use crate::pipeline::Signals;
use crate::roster::Roster;
use progress::{LookedAt, Rates};

/// How often the state is looked at.
const TICK: Duration = Duration::from_millis(20);
/// How often it is shown.
const SHOW_EVERY: Duration = Duration::from_millis(200);
/// How often the books are taken under a number.
const SNAPSHOT_EVERY: Duration = Duration::from_secs(1);
/// How long a snapshot is waited for.
const SNAPSHOT_GIVEN_UP: Duration = Duration::from_secs(5);

/// When a run ends by itself.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct EndWhen {
    /// After this time.
    pub seconds: Option<f64>,
    /// After this many recorded hits.
    pub hits: Option<u64>,
    /// After this many recorded events.
    pub events: Option<u64>,
}

/// Who watches a run, and may end it.
pub struct Watch<'w> {
    /// Called a few times a second.
    pub show: &'w mut dyn FnMut(&Progress),
    /// Set, as by a signal handler, to end the run in good order.
    pub stop: &'w std::sync::atomic::AtomicBool,
}

/// What the supervisor looks at while the threads work.
pub(crate) struct Watched {
    pub(crate) signals: Arc<Signals>,
    pub(crate) ledger: Ledger,
    pub(crate) roster: Arc<Roster>,
    pub(crate) gauges: Vec<Arc<Gauges>>,
    pub(crate) build: Option<Arc<BuildGauges>>,
    pub(crate) directory: thalweg_record::RunDirectory,
    pub(crate) started: Instant,
}

/// Books of one number that did not close while the run went on.
#[derive(Clone, Debug, Default)]
pub(crate) struct SnapshotAudit {
    pub(crate) taken: u64,
    pub(crate) open: Vec<String>,
}

impl SnapshotAudit {
    fn look(&mut self, ledger: &Ledger, number: u32) -> bool {
        let Some(books) = ledger.snapshot_books(number) else { return false };
        self.taken += 1;
        let wrong = books.discrepancies().into_iter().map(|each| format!("snapshot {number}: {each}"));
        self.open.extend(wrong.take(8usize.saturating_sub(self.open.len())));
        true
    }
}

impl Watched {
    /// Watches until the run ends by itself, by its limits, or because it was asked to.
    /// `silent` says that nothing more will come although nobody has ended.
    pub(crate) fn until_end(
        &self,
        end: EndWhen,
        silent: &dyn Fn() -> bool,
        watch: &mut Watch<'_>,
    ) -> SnapshotAudit {
        let mut rates = Rates::default();
        let mut audit = SnapshotAudit::default();
        let (mut shown, mut asked, mut number) = (Instant::now(), Instant::now(), 0);
        while self.signals.threads_left() > 0 {
            std::thread::sleep(TICK);
            let over = end.seconds.is_some_and(|seconds| self.started.elapsed().as_secs_f64() >= seconds)
                || end.hits.is_some_and(|hits| recorded(&self.ledger.books()) >= hits)
                || end.events.is_some_and(|events| {
                    self.ledger.books().total_output(Stage::Record, Unit::Events) >= events
                })
                || watch.stop.load(std::sync::atomic::Ordering::Acquire);
            if over || silent() || self.signals.stop_requested() {
                break;
            }
            // A source that has ended passes no more markers: books of that number stay incomplete.
            if number > 0 && (audit.look(&self.ledger, number) || asked.elapsed() >= SNAPSHOT_GIVEN_UP) {
                number = 0;
            }
            if number == 0 && asked.elapsed() >= SNAPSHOT_EVERY {
                asked = Instant::now();
                number = self.signals.request_snapshot();
            }
            if shown.elapsed() >= SHOW_EVERY {
                shown = Instant::now();
                (watch.show)(&self.progress(&mut rates, self.state()));
            }
        }
        audit
    }

    fn state(&self) -> RunState {
        if self.signals.is_paused() { RunState::Paused } else { RunState::Running }
    }

    fn progress(&self, rates: &mut Rates, state: RunState) -> Progress {
        let books = self.ledger.books();
        rates.progress(LookedAt {
            books: &books,
            roster: &self.roster,
            gauges: &self.gauges,
            build: self.build.as_ref().map(|gauges| gauges.latest()),
            state,
            elapsed_seconds: self.started.elapsed().as_secs_f64(),
            recorded: recorded(&books),
            disk_free_bytes: self.directory.bytes_left().unwrap_or(0),
        })
    }
}

fn recorded(books: &Books) -> u64 {
    books.total_output(Stage::Record, Unit::Hits)
}
