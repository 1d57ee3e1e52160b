//! The thread that keeps the range lists of the units that this process hosts. It is separate from the units, which a disk must not hold
//! up.
//!
//! ```text
//!  RangeInbox of each unit ── every 250 ms ──► RangeList ──► ranges-UNIT.arrows
//! ```

use std::sync::Arc;
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::thread::JoinHandle;
use std::time::Duration;

use thalweg_data::RangeRecord;
use thalweg_readout::RunClock;
use thalweg_record::ipc::file::TableSummary;
use thalweg_record::{RangeBounds, RangeList, RecordError, UnitNames};

use super::{Signals, Site, joined};
use crate::error::RunError;
use crate::plan::thread_names;
use crate::units::RangeInbox;

/// The interval at which the thread looks for records.
const WAKE_EVERY: Duration = Duration::from_millis(250);

/// The list of one unit, and where its records come from.
struct Kept {
    list: RangeList,
    inbox: Arc<RangeInbox>,
    /// The last message about the list.
    said: String,
}

/// The lists while the run goes on; none where no unit notes ranges.
#[derive(Default)]
pub(super) struct RangeKeeper {
    lists: Vec<Kept>,
    clock: Option<RunClock>,
    running: Option<(Sender<()>, JoinHandle<Vec<Kept>>)>,
}

impl RangeKeeper {
    /// Makes the table of a unit.
    ///
    /// # Errors
    /// When the file cannot be made.
    pub(super) fn open(
        &mut self,
        site: &Site<'_>,
        unit: &str,
        names: &UnitNames,
    ) -> Result<Arc<RangeInbox>, RunError> {
        let sync = site.configuration.record.sync;
        let list = RangeList::create(site.directory, unit, names, sync, RangeBounds::default())?;
        let inbox = Arc::<RangeInbox>::default();
        self.lists.push(Kept { list, inbox: inbox.clone(), said: String::new() });
        Ok(inbox)
    }

    /// Starts the thread, where there is a list.
    ///
    /// # Errors
    /// When it cannot be started.
    pub(super) fn start(&mut self, site: &Site<'_>) -> Result<(), RunError> {
        if self.lists.is_empty() {
            return Ok(());
        }
        let (going_on, ended) = channel();
        let (clock, lists) = (site.clock, std::mem::take(&mut self.lists));
        self.clock = Some(clock);
        site.claims.threads(thread_names::RANGES, 1);
        let thread = std::thread::Builder::new().name(thread_names::RANGES.to_owned());
        let work = move || keep(lists, clock, &ended);
        let thread = site.placement.at(thread_names::RANGES, || thread.spawn(work))?;
        let thread =
            thread.map_err(|cause| RunError::Thread { name: thread_names::RANGES.to_owned(), cause })?;
        self.running = Some((going_on, thread));
        Ok(())
    }

    /// Ends the thread when the units have ended, and writes the rest; what the tables hold.
    pub(super) fn finish(&mut self, signals: &Signals) -> Vec<TableSummary> {
        let Some((going_on, thread)) = self.running.take() else { return Vec::new() };
        drop(going_on);
        let now_ns = self.clock.map_or(0, |clock| clock.mark().0);
        let mut lists = joined(thread, signals).unwrap_or_default();
        for kept in &mut lists {
            kept.take(now_ns);
            if let Err(error) = kept.list.finish() {
                signals.fail(error.to_string());
            }
        }
        lists.iter().map(|kept| kept.list.summary()).collect()
    }
}

impl Kept {
    fn take(&mut self, now_ns: u64) {
        let (mut records, mut joined): (Vec<RangeRecord>, Vec<RangeRecord>) = Default::default();
        self.inbox.take(&mut records, &mut joined);
        let taken = self.list.take(&mut records, now_ns);
        self.say(taken);
        if !joined.is_empty() {
            let taken = self.list.take_joined(&mut joined);
            self.say(taken);
        }
    }

    fn say(&mut self, result: Result<(), RecordError>) {
        let Err(error) = result else { return };
        let text = error.to_string();
        if self.said != text {
            tracing::warn!("the list of ranges is not written: {text}; what is not listed is added up");
            self.said = text;
        }
    }
}

fn keep(mut lists: Vec<Kept>, clock: RunClock, ended: &Receiver<()>) -> Vec<Kept> {
    while let Err(RecvTimeoutError::Timeout) = ended.recv_timeout(WAKE_EVERY) {
        lists.iter_mut().for_each(|kept| kept.take(clock.mark().0));
    }
    lists
}
