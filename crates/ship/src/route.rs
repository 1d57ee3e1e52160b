//! The way to one destination: what is to be shipped there, what is known of it, and the threads that do it.
//!
//! ```text
//!  Shipper ─ jobs ─► Route: queue, states ◄─ workers ─► Destination (each its own connection)
//!                                             └ held: back-off, tried again
//! ```

use std::collections::{BTreeMap, HashMap, HashSet, VecDeque};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use rustls::ClientConfig;
use thalweg_transport::Pacer;
use thalweg_transport::peer::{BackOff, SharedKey};

use crate::address::Address;
use crate::amount::RowCounts;
use crate::connection::Connection;
use crate::destination::Destination;
use crate::digests::Digests;
use crate::disk::HostDisk;
use crate::error::{Refusal, ShipError};
use crate::far_files::FarFiles;
use crate::known_digests::KnownDigests;
use crate::local_file::LocalFile;
use crate::message::{FileKind, Identity};
use crate::run_files::FoundFile;
use crate::run_locks::RunLocks;
use crate::run_state::RunState;
use crate::settings::Settings;
use crate::shipment::{Shipment, Step};
use crate::windows::{Window, is_open};

/// States of growing files are written no more often; what is complete is written at once.
const SAVE_EVERY: Duration = Duration::from_secs(1);
/// Between two looks whether there is something to do.
const CHECK_EVERY: Duration = Duration::from_millis(100);
/// Between two looks whether the program is to end.
const STOP_CHECK_EVERY: Duration = Duration::from_millis(20);
/// A file that cannot be shipped is tried again after this time.
pub(crate) const PROBLEM_AGAIN: Duration = Duration::from_secs(10);

/// What all routes share.
#[derive(Debug)]
pub(crate) struct Shared {
    /// Set by the caller, who may set it at any time: nothing here writes it.
    pub(crate) stop: Arc<AtomicBool>,
    /// The order is done: the workers end.
    pub(crate) is_over: AtomicBool,
    /// How stores are spoken to.
    pub(crate) settings: Settings,
    pub(crate) key: Option<SharedKey>,
    /// Where an address asks for TLS.
    pub(crate) tls: Option<Arc<ClientConfig>>,
    pub(crate) shipper: u64,
    pub(crate) windows: Vec<Window>,
    pub(crate) pacer: Option<Mutex<Pacer>>,
    pub(crate) start: Instant,
    /// How long a destination may be held before it is given up.
    pub(crate) give_up_after: Option<Duration>,
    /// What one destination has computed, the others need not.
    pub(crate) digests: Arc<KnownDigests>,
    /// Until when each run may be shipped from here, unless its token is renewed.
    pub(crate) held_until: Mutex<HashMap<PathBuf, Instant>>,
    /// Rung when the last file of a route is complete.
    pub(crate) finished: FinishedBell,
}

/// Wakes the shipper before its next look at the runs is due.
#[derive(Debug, Default)]
pub(crate) struct FinishedBell(Mutex<bool>, Condvar);

impl FinishedBell {
    fn ring(&self) {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) = true;
        self.1.notify_one();
    }

    /// Waits until it is rung, or `time` has passed, in short steps while the program goes on.
    pub(crate) fn wait(&self, time: Duration, stop: &AtomicBool) {
        let until = Instant::now() + time;
        let mut is_rung = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        while !*is_rung && Instant::now() < until && !stop.load(Ordering::Acquire) {
            let waited = self.1.wait_timeout(is_rung, STOP_CHECK_EVERY.min(time));
            is_rung = waited.unwrap_or_else(PoisonError::into_inner).0;
        }
        *is_rung = false;
    }
}

impl Shared {
    pub(crate) fn is_stopping(&self) -> bool {
        self.stop.load(Ordering::Acquire) || self.is_over.load(Ordering::Acquire)
    }

    /// Whether files may go now.
    pub(crate) fn is_open(&self) -> bool {
        let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        is_open(&self.windows, now.as_secs())
    }

    /// Whether a run may be shipped from here now.
    ///
    /// # Errors
    /// When another program may have taken it over.
    pub(crate) fn check_held(&self, run: &Path) -> Result<(), ShipError> {
        let held = self.held_until.lock().unwrap_or_else(PoisonError::into_inner);
        match held.get(run).is_some_and(|until| Instant::now() < *until) {
            true => Ok(()),
            false => Err(ShipError::Locked { path: run.to_owned() }),
        }
    }

    /// Waits until so many bytes may go.
    fn wait_for(&self, bytes: usize) -> Result<(), ShipError> {
        loop {
            if self.is_stopping() {
                return Err(ShipError::Stopped);
            }
            let Some(pacer) = &self.pacer else { return Ok(()) };
            let wait = {
                let mut pacer = pacer.lock().unwrap_or_else(PoisonError::into_inner);
                if pacer.due(self.start.elapsed()) > 0 || bytes == 0 {
                    pacer.sent(bytes as u64);
                    return Ok(());
                }
                pacer.until(1)
            };
            std::thread::sleep(wait.clamp(Duration::from_millis(1), CHECK_EVERY));
        }
    }
}

/// Which file: run and name.
pub(crate) type FileKey = (PathBuf, String);

/// A file that is to be shipped.
#[derive(Clone, Debug)]
pub(crate) struct Job {
    pub(crate) run: PathBuf,
    pub(crate) run_name: String,
    pub(crate) file: FoundFile,
}

impl Job {
    pub(crate) fn key(&self) -> FileKey {
        (self.run.clone(), self.file.name.clone())
    }
}

/// What is done and known.
#[derive(Debug, Default)]
pub(crate) struct RouteState {
    pub(crate) waiting: VecDeque<Job>,
    pub(crate) busy: HashSet<FileKey>,
    pub(crate) runs: HashMap<PathBuf, RunState>,
    pub(crate) problems: BTreeMap<FileKey, Problem>,
    pub(crate) held: Option<(String, Instant)>,
    pub(crate) is_given_up: bool,
    /// Files of runs that are being taken, everything of which was shipped once.
    pub(crate) caught_up: HashSet<FileKey>,
    shipments: HashMap<FileKey, Shipment>,
    saved: HashMap<PathBuf, Instant>,
}

/// What keeps a file from being shipped.
#[derive(Clone, Debug)]
pub(crate) struct Problem {
    pub(crate) text: String,
    since: Instant,
    /// Which file had it.
    of: Option<(FileKind, Identity)>,
}

impl Problem {
    pub(crate) fn new(text: String) -> Problem {
        Problem { text, since: Instant::now(), of: None }
    }

    /// Whether a file has it still, for so long after it was seen. A document that was replaced meanwhile is another one.
    pub(crate) fn is_of(&self, file: &FoundFile, lasts: Duration) -> bool {
        let is_replaced = self.of.is_some_and(|(kind, of)| kind == FileKind::Whole && of != file.identity);
        !is_replaced && self.since.elapsed() < lasts
    }
}

impl RouteState {
    /// Notes that a file cannot be shipped as it is.
    fn refuse(&mut self, job: &Job, error: &ShipError) {
        let mut problem = error.to_string();
        if let Some(run) = self.runs.get_mut(&job.run) {
            let file = run.files.entry(job.file.name.clone()).or_default();
            let reason = Some(error.reason().to_owned());
            if std::mem::replace(&mut file.refused, reason.clone()) != reason
                && let Err(error) = run.save(&job.run)
            {
                problem = format!("{problem}; {error}");
            }
        }
        let of = Some((job.file.kind, job.file.identity));
        self.problems.insert(job.key(), Problem { of, ..Problem::new(problem) });
    }
}

/// The way to one destination.
#[derive(Debug)]
pub(crate) struct Route {
    pub(crate) address: Address,
    pub(crate) name: String,
    pub(crate) shared: Arc<Shared>,
    locks: Arc<RunLocks>,
    state: Mutex<RouteState>,
    wake: Condvar,
    pub(crate) proved_bytes: AtomicU64,
}

impl Route {
    pub(crate) fn new(address: Address, shared: Arc<Shared>) -> Route {
        let name = shared.settings.name_of(&address);
        let (state, wake) = (Mutex::default(), Condvar::new());
        Route { address, name, shared, locks: Arc::default(), state, wake, proved_bytes: AtomicU64::new(0) }
    }

    pub(crate) fn state(&self) -> MutexGuard<'_, RouteState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Adds a job, unless that file is on its way.
    pub(crate) fn add(&self, job: Job) {
        let mut state = self.state();
        let key = job.key();
        if let Some(known) = state.waiting.iter_mut().find(|known| known.key() == key) {
            *known = job;
        } else if !state.busy.contains(&key) && !state.is_given_up {
            state.waiting.push_back(job);
            self.wake.notify_one();
        }
    }

    /// The work of one stream, until it is to stop.
    pub(crate) fn work(&self, seed: u64) {
        if self.shared.settings.yields
            && let Err(cause) = thalweg_transport::placement::yield_to_others()
        {
            tracing::warn!("shipping cannot yield to data taking: {cause}; start `thalweg ship` with nice");
        }
        let mut back_off = BackOff::new(Duration::from_millis(200), Duration::from_secs(30), seed);
        let mut destination: Option<Box<dyn Destination>> = None;
        while let Some(job) = self.next_job() {
            let key = job.key();
            let shipped = self.ship(&job, &mut destination);
            let mut state = self.state();
            state.busy.remove(&key);
            match shipped {
                Ok(()) => {
                    state.problems.remove(&key);
                    state.held = None;
                    back_off.reset();
                    // A file that grows is looked at in its time: else each of its batches would be forced to the far disk alone.
                    if job.file.is_closed && state.waiting.is_empty() && state.busy.is_empty() {
                        self.shared.finished.ring();
                    }
                }
                Err(ShipError::Stopped) => break,
                // Cut off by the end of this program, and not held by the far side.
                Err(error) if error.is_of_connection() && self.shared.is_stopping() => break,
                // Its new owner writes the state: nothing is noted here.
                Err(ShipError::Locked { .. }) => _ = state.shipments.remove(&key),
                Err(error) if error.is_of_file() => {
                    state.shipments.remove(&key);
                    state.refuse(&job, &error);
                }
                Err(error) => {
                    if error.is_of_connection() {
                        destination = None;
                    }
                    // Behind the others: what holds this file may be its own.
                    state.waiting.push_back(job);
                    self.hold(&mut state, &error);
                    drop(state);
                    self.pause(back_off.after_failure());
                }
            }
        }
    }

    fn hold(&self, state: &mut RouteState, error: &ShipError) {
        let since = state.held.as_ref().map_or_else(Instant::now, |(_, since)| *since);
        let is_final = matches!(
            error,
            ShipError::Settings(_)
                | ShipError::Untrusted { .. }
                | ShipError::Tls { .. }
                | ShipError::Refused { refusal: Refusal::Version | Refusal::Token, .. }
        );
        if let Some(most) = self.shared.give_up_after
            && (since.elapsed() >= most || is_final)
        {
            state.is_given_up = true;
            state.waiting.clear();
        }
        state.held = Some((error.to_string(), since));
    }

    fn pause(&self, time: Duration) {
        let until = Instant::now() + time;
        while Instant::now() < until && !self.shared.is_stopping() && !self.state().is_given_up {
            std::thread::sleep(CHECK_EVERY.min(time));
        }
    }

    /// The next file; `None` when the work is over.
    fn next_job(&self) -> Option<Job> {
        let mut state = self.state();
        loop {
            if self.shared.is_stopping() || state.is_given_up {
                return None;
            }
            if self.shared.is_open()
                && let Some(job) = state.waiting.pop_front()
            {
                state.busy.insert(job.key());
                return Some(job);
            }
            let waited = self.wake.wait_timeout(state, CHECK_EVERY);
            state = waited.unwrap_or_else(PoisonError::into_inner).0;
        }
    }

    fn open(&self) -> Result<Box<dyn Destination>, ShipError> {
        let Shared { key, shipper, stop, .. } = &*self.shared;
        match &self.address {
            Address::Receiver { host, port, with_tls, .. } => {
                let tls = self.shared.tls.as_ref().filter(|_| *with_tls);
                let connection =
                    Connection::open((host, *port), &self.name, key.clone(), *shipper, stop, tls)?;
                Ok(Box::new(connection))
            }
            Address::Folder(path) => {
                // A disk that is not mounted must not be taken for the directory that it would be mounted at.
                if !path.is_dir() {
                    let cause = std::io::ErrorKind::NotFound.into();
                    return Err(ShipError::Connection { destination: self.name.clone(), cause });
                }
                let locks = self.locks.clone();
                Ok(Box::new(FarFiles::new(HostDisk, path, &self.name, locks, Some(*shipper))))
            }
            #[cfg(feature = "object-store")]
            Address::Bucket(bucket, _) => {
                let settings = &self.shared.settings;
                Ok(Box::new(crate::s3::Bucket::open(bucket, &self.name, settings, stop)?))
            }
            #[cfg(feature = "object-store")]
            Address::Collection(url) => {
                let settings = &self.shared.settings;
                Ok(Box::new(crate::webdav::Collection::open(url, &self.name, settings, stop)?))
            }
            #[cfg(not(feature = "object-store"))]
            Address::Bucket(..) | Address::Collection(_) => Err(ShipError::Settings(format!(
                "{}: this program is built without stores; build it with the feature `object-store`",
                self.name
            ))),
        }
    }

    fn ship(&self, job: &Job, destination: &mut Option<Box<dyn Destination>>) -> Result<(), ShipError> {
        let destination = match destination {
            Some(destination) => destination,
            None => destination.insert(self.open()?),
        };
        // A table that nobody writes any more is a file as others are.
        let kind = if destination.takes_growing() { job.file.kind } else { FileKind::Whole };
        let job = &Job { file: FoundFile { kind, ..job.file.clone() }, ..job.clone() };
        destination.at_run(&job.run);
        let known = self.state().shipments.remove(&job.key());
        let same = |shipment: &Shipment| {
            let (was, is) = (shipment.local().identity(), job.file.identity);
            was.inode == is.inode && (job.file.kind == FileKind::Growing || was == is)
        };
        let mut shipment = match known.filter(same) {
            Some(shipment) => shipment,
            None => {
                let local = LocalFile::open(&job.file.path, job.file.kind)?;
                Shipment::new(local, &self.address.run_name(&job.run_name), &job.file.name)
                    .with_known(self.shared.digests.clone())
            }
        };
        // Another worker may have had it, over another connection.
        shipment.interrupt();
        let mut gate = |bytes: usize| {
            self.shared.check_held(&job.run)?;
            self.shared.wait_for(bytes)
        };
        let result = loop {
            if !self.shared.is_open() {
                break Ok(());
            }
            match shipment.step(
                destination.as_mut(),
                job.file.is_closed,
                job.file.recorded.as_deref(),
                &mut gate,
            ) {
                Ok(Step::CaughtUp) => {
                    self.state().caught_up.insert(job.key());
                    break Ok(());
                }
                Ok(Step::Finished(digests)) => {
                    self.proved(job, digests.bytes, shipment.counted(), Some(digests))?;
                    return Ok(());
                }
                Ok(Step::Proved(to)) => self.proved(job, to, shipment.counted(), None)?,
                Err(error) => break Err(error),
            }
        };
        // Its digests so far are kept, so that nothing is read twice.
        self.state().shipments.insert(job.key(), shipment);
        result
    }

    /// Notes what is proved; what is complete is on the disk when this returns.
    fn proved(
        &self,
        job: &Job,
        to: u64,
        counted: Option<RowCounts>,
        finished: Option<Digests>,
    ) -> Result<(), ShipError> {
        self.shared.check_held(&job.run)?;
        let mut state = self.state();
        let Some(run) = state.runs.get_mut(&job.run) else { return Ok(()) };
        let file = run.files.entry(job.file.name.clone()).or_default();
        if file.identity != job.file.identity && job.file.kind == FileKind::Whole {
            file.proved = 0;
        }
        // Of an upload, nothing counts before the object is read back.
        let counted = counted.filter(|_| finished.is_some() || job.file.kind == FileKind::Growing);
        self.proved_bytes.fetch_add(to.saturating_sub(file.proved), Ordering::Relaxed);
        let is_finished = finished.is_some();
        (file.identity, file.proved, file.counted) = (job.file.identity, to, counted);
        file.refused = None;
        if is_finished || job.file.kind == FileKind::Whole {
            file.finished = finished;
            run.is_announced &= !is_finished;
        }
        let run = run.clone();
        let is_due = state.saved.get(&job.run).is_none_or(|saved| saved.elapsed() >= SAVE_EVERY);
        if is_finished || is_due {
            state.saved.insert(job.run.clone(), Instant::now());
            // Under the lock: an older state must not be written behind a newer one.
            run.save(&job.run)?;
        }
        Ok(())
    }

    /// Forgets a run that somebody else ships now.
    pub(crate) fn lose(&self, run: &Path) {
        self.forget(run);
        let mut state = self.state();
        state.runs.remove(run);
        state.waiting.retain(|job| job.run != run);
        state.caught_up.retain(|(of, _)| of != run);
        drop(state);
        self.lose_problems(run);
    }

    /// Forgets what was wrong with a run.
    pub(crate) fn lose_problems(&self, run: &Path) {
        self.state().problems.retain(|(of, _), _| of != run);
    }

    /// Forgets a run that needs nothing more.
    pub(crate) fn forget(&self, run: &Path) {
        let mut state = self.state();
        state.shipments.retain(|(of, _), _| of != run);
        state.saved.remove(run);
    }
}
