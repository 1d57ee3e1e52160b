//! `thalweg ship`: looks at the runs again and again, and has everything shipped that is not at every destination yet.
//!
//! ```text
//!  runs ─ every second ─► files that have changed ─► Route, Route, … ─► states ─► manifest ─► on_shipped
//!                                                       └► Progress
//! ```

use std::collections::{HashMap, HashSet};
use std::fs::{File, TryLockError};
use std::io;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, PoisonError};
use std::time::{Duration, Instant};

use thalweg_record::read::MARKER_BYTES;
use thalweg_transport::Pacer;
use thalweg_transport::peer::{SharedKey, fresh_nonce};
use thalweg_transport::tls::client_config;

use crate::address::Address;
use crate::contents::Contents;
use crate::disk::{Disk, HostDisk};
use crate::error::{DIFFERS, ShipError};
use crate::ledger::{ShipLedger, proved_of};
use crate::manifest;
use crate::message::FileKind;
use crate::on_shipped;
use crate::ownership::{Claimant, Sighting, Token};
use crate::progress::{FreeBytes, Progress, RouteProgress, RouteStage};
use crate::route::{FinishedBell, Job, PROBLEM_AGAIN, Problem, Route, Shared};
use crate::run_files::{FoundFile, FoundRun, Stamp, files_of, runs_at};
use crate::run_state::{FOLDER, RunState, name_of};
use crate::settings::Settings;
use crate::windows::Window;

/// Between two looks at the runs, when nothing is to be done …
const LOOK_EVERY: Duration = Duration::from_secs(1);
/// … and while something is.
const BUSY_LOOK_EVERY: Duration = Duration::from_millis(100);
/// Most bytes that a limit of bandwidth lets go at once, as a time.
const BURST_S: f64 = 0.1;
/// The record of a run, which makes a directory a run.
const RECORD: &str = "run.json";
/// A command that has failed is run again after this time.
const COMMAND_AGAIN: Duration = Duration::from_secs(30);

/// What is to be shipped.
#[derive(Clone, Debug)]
pub struct Order {
    /// Runs, or directories of runs.
    pub runs: Vec<PathBuf>,
    /// Where to and how.
    pub settings: Settings,
    /// The token.
    pub key: Option<SharedKey>,
    /// Whether to go on with what comes, and never to give a destination up.
    pub follow: bool,
    /// Without that, how long a destination may be held.
    pub give_up_after: Duration,
}

/// What makes this program the only one that ships a run.
#[derive(Debug)]
struct RunLock {
    /// Of those of this host.
    _directory: File,
    /// Of all hosts that mount the directory.
    token: Token,
}

/// A run that is complete everywhere.
#[derive(Debug)]
struct Done {
    stamp: Stamp,
    run: FoundRun,
    /// By destination.
    ledgers: Vec<ShipLedger>,
}

/// Ships.
#[derive(Debug)]
struct Shipper<'o> {
    order: &'o Order,
    shared: Arc<Shared>,
    routes: Vec<Arc<Route>>,
    locks: HashMap<PathBuf, RunLock>,
    claimant: Claimant,
    /// What was seen of the tokens of others.
    sightings: HashMap<PathBuf, Option<Sighting>>,
    /// Runs that are complete everywhere, as they were then.
    done: HashMap<PathBuf, Done>,
    contents: Contents,
    /// The runs at the last look.
    found: Vec<FoundRun>,
    refused: HashMap<PathBuf, String>,
    /// Runs that have gone from here before they were complete.
    gone: HashSet<PathBuf>,
    commands: HashMap<(PathBuf, String), Instant>,
    free: FreeBytes,
    rates: HashMap<String, (Instant, u64)>,
}

/// Ships until everything is at every destination, or, of an order to follow, until it is to stop. `report` gets the progress once a
/// second, and whenever nothing is left to do.
///
/// # Errors
/// When the order cannot be followed at all. What cannot be shipped is in the progress.
pub fn ship(
    order: &Order,
    stop: &Arc<AtomicBool>,
    report: &mut dyn FnMut(&Progress),
) -> Result<Progress, ShipError> {
    order.settings.check().map_err(ShipError::Settings)?;
    let mut shipper = Shipper::new(order, stop)?;
    for path in &order.runs {
        match runs_at(path, 0) {
            Err(error) if order.follow && !path.exists() => {
                tracing::warn!("{error}; looked for again every second, until it is there");
            }
            found => _ = found?,
        }
    }
    let workers: Vec<_> =
        shipper.routes.iter().flat_map(|route| start(route, order.settings.streams)).collect();
    let mut reported: Option<Instant> = None;
    loop {
        let is_idle = shipper.look();
        let is_stopping = stop.load(Ordering::Acquire);
        // The files of every open run are walked for it.
        if is_idle || reported.is_none_or(|at| at.elapsed() >= LOOK_EVERY) {
            let progress = shipper.progress(is_idle);
            report(&progress);
            reported = Some(Instant::now());
            if is_idle && shipper.is_over(&progress) {
                break;
            }
        }
        if is_stopping {
            break;
        }
        shipper.shared.finished.wait(if is_idle { LOOK_EVERY } else { BUSY_LOOK_EVERY }, stop);
    }
    shipper.shared.is_over.store(true, Ordering::Release);
    for worker in workers {
        let _ = worker.join();
    }
    // The workers may have completed files since the last look.
    let is_idle = shipper.look();
    let progress = shipper.progress(is_idle);
    // What was proved since the last state was written.
    let saved = shipper.routes.iter().flat_map(|route| route.state().runs.clone());
    let held = |path: &PathBuf| shipper.shared.check_held(path).is_ok();
    for (path, state) in saved.filter(|(path, _)| held(path)).collect::<Vec<_>>() {
        state.save(&path)?;
    }
    shipper.locks.keys().cloned().collect::<Vec<_>>().iter().for_each(|run| shipper.release(run));
    Ok(progress)
}

fn start(route: &Arc<Route>, streams: usize) -> Vec<std::thread::JoinHandle<()>> {
    let thread = |seed: usize| {
        let route = route.clone();
        let work = move || route.work(seed as u64 ^ route.shared.shipper);
        std::thread::Builder::new().name("ship".to_owned()).spawn(work).ok()
    };
    (0..streams).filter_map(thread).collect()
}

impl<'o> Shipper<'o> {
    fn new(order: &'o Order, stop: &Arc<AtomicBool>) -> Result<Shipper<'o>, ShipError> {
        let Settings { to, limit_bytes_per_s, windows, .. } = &order.settings;
        let nonce = fresh_nonce().map_err(|error| ShipError::Settings(error.to_string()))?;
        let windows = windows.iter().map(|text| Window::parse(text)).collect::<Result<_, _>>();
        let pacer = |limit: u64| std::sync::Mutex::new(Pacer::new(limit as f64, limit as f64 * BURST_S));
        let addresses = to.iter().map(|text| Address::parse(text)).collect::<Result<Vec<_>, _>>()?;
        let with_tls =
            addresses.iter().any(|address| matches!(address, Address::Receiver { with_tls: true, .. }));
        let tls = with_tls.then(|| client_config(order.settings.tls_ca.as_deref())).transpose();
        let tls = tls.map_err(|error| ShipError::Settings(error.to_string()))?;
        let shared = Arc::new(Shared {
            stop: stop.clone(),
            is_over: AtomicBool::new(false),
            settings: order.settings.clone(),
            key: order.key.clone(),
            tls,
            shipper: u64::from_le_bytes(nonce[..8].try_into().expect("eight bytes")),
            windows: windows.map_err(ShipError::Settings)?,
            pacer: limit_bytes_per_s.map(pacer),
            start: Instant::now(),
            give_up_after: (!order.follow).then_some(order.give_up_after),
            digests: Arc::default(),
            held_until: std::sync::Mutex::default(),
            finished: FinishedBell::default(),
        });
        let route = |address| Arc::new(Route::new(address, shared.clone()));
        Ok(Shipper {
            order,
            routes: addresses.into_iter().map(route).collect(),
            shared: shared.clone(),
            locks: HashMap::new(),
            claimant: Claimant::here(shared.shipper, Duration::from_secs(order.settings.takeover_s)),
            sightings: HashMap::new(),
            done: HashMap::new(),
            contents: Contents::default(),
            found: Vec::new(),
            refused: HashMap::new(),
            gone: HashSet::new(),
            commands: HashMap::new(),
            free: FreeBytes::default(),
            rates: HashMap::new(),
        })
    }

    fn runs(&self) -> Vec<(Stamp, FoundRun)> {
        let at = |path: &PathBuf| runs_at(path, self.order.settings.stay_behind).unwrap_or_default();
        let mut known = HashSet::new();
        let paths = self.order.runs.iter().flat_map(at).filter(|path| known.insert(path.clone()));
        // With thousands of runs, only those are read that may have changed.
        let run = |path: PathBuf| {
            // The stamp first: what changes while the files are listed is seen at the next look.
            let stamp = Stamp::of(&path);
            let same = self.done.get(&path).filter(|done| done.stamp == stamp).map(|done| done.run.clone());
            Some((stamp, same.or_else(|| files_of(&path).ok())?))
        };
        paths.filter_map(run).collect()
    }

    /// Looks at every run, and adds what is to be shipped. Whether nothing is on its way, and nothing was added.
    fn look(&mut self) -> bool {
        let mut is_idle = true;
        self.note_gone();
        self.renew();
        let runs = self.runs();
        self.found = runs.iter().map(|(_, run)| run.clone()).collect();
        for (stamp, run) in runs {
            let identities = |files: &[FoundFile]| {
                files.iter().map(|file| (file.name.clone(), file.identity)).collect::<Vec<_>>()
            };
            let done = self.done.get_mut(&run.path);
            if let Some(done) = done.filter(|done| identities(&done.run.files) == identities(&run.files)) {
                done.stamp = stamp;
                continue;
            }
            self.done.remove(&run.path);
            if let Err(error) = self.lock(&run) {
                self.refused.insert(run.path.clone(), error.to_string());
                continue;
            }
            self.refused.remove(&run.path);
            if self.gone.remove(&run.path) {
                self.routes.iter().for_each(|route| route.lose_problems(&run.path));
            }
            let mut is_everywhere = run.has_ended;
            for route in self.routes.clone() {
                let (added, is_complete) = self.add_jobs(&route, &run);
                is_idle &= !added;
                is_everywhere &= is_complete;
            }
            if is_everywhere {
                self.routes.iter().for_each(|route| route.forget(&run.path));
                self.release(&run.path);
                let ledgers = self.routes.clone().iter().map(|route| self.ledger(route, &run)).collect();
                self.contents.forget(&run.files);
                run.files.iter().for_each(|file| self.shared.digests.forget(&file.path));
                self.done.insert(run.path.clone(), Done { stamp, run, ledgers });
            }
        }
        is_idle
            && self.routes.iter().all(|route| {
                let state = route.state();
                state.waiting.is_empty() && state.busy.is_empty()
            })
    }

    /// Of two programs that ship one run, one would write states over those of the other.
    fn lock(&mut self, run: &FoundRun) -> Result<(), ShipError> {
        if self.locks.contains_key(&run.path) {
            return Ok(());
        }
        let folder = run.path.join(FOLDER);
        HostDisk.make_directory(&folder).map_err(ShipError::local(&folder, "making the directory"))?;
        let directory = File::open(&folder).map_err(ShipError::local(&folder, "opening"))?;
        let is_alone = match directory.try_lock() {
            Err(TryLockError::WouldBlock) => return Err(ShipError::Locked { path: run.path.clone() }),
            // A file system without locks says nothing.
            locked => locked.is_ok(),
        };
        let sighting = self.sightings.entry(run.path.clone()).or_default();
        let token = self.claimant.take(&folder, is_alone, sighting, Instant::now())?;
        self.sightings.remove(&run.path);
        self.hold(&run.path, &token);
        for route in &self.routes {
            let state = RunState::load(&run.path, &route.name)?;
            for file in &run.files {
                let known = state.files.get(&file.name).filter(|known| known.identity == file.identity);
                if let Some(digests) = known.and_then(|known| known.finished.as_ref()) {
                    self.shared.digests.note(&file.path, &file.identity, digests);
                }
            }
            route.state().runs.insert(run.path.clone(), state);
        }
        self.locks.insert(run.path.clone(), RunLock { _directory: directory, token });
        Ok(())
    }

    fn hold(&self, run: &Path, token: &Token) {
        let mut held = self.shared.held_until.lock().unwrap_or_else(PoisonError::into_inner);
        held.insert(run.to_owned(), token.valid_until());
    }

    /// Renews the tokens; a run whose token somebody else has is no longer shipped from here.
    fn renew(&mut self) {
        let now = Instant::now();
        let lost: Vec<PathBuf> = {
            let lost = self.locks.iter_mut().filter_map(|(run, lock)| {
                let is_held = lock.token.renew(now);
                (!is_held).then(|| run.clone())
            });
            lost.collect()
        };
        // Of a run that is gone, the next look says so.
        for run in lost.iter().filter(|run| !is_gone(run)) {
            tracing::warn!("{}: another program has taken this run over", run.display());
            self.lose(run);
        }
        for (run, lock) in &self.locks {
            self.hold(run, &lock.token);
        }
    }

    /// Leaves a run that is shipped from here no longer.
    fn lose(&mut self, run: &Path) {
        self.locks.remove(run);
        self.shared.held_until.lock().unwrap_or_else(PoisonError::into_inner).remove(run);
        self.routes.iter().for_each(|route| route.lose(run));
    }

    /// Notes the runs that were begun and are not here any more: nobody else would name what is at the destinations of them.
    fn note_gone(&mut self) {
        let gone: Vec<PathBuf> = self.locks.keys().filter(|run| is_gone(run)).cloned().collect();
        for run in gone {
            let files = self.found.iter().find(|found| found.path == run).map(|found| found.files.as_slice());
            let files = files.unwrap_or_default();
            let proved = |route: &Route| {
                let state = route.state();
                let known = state.runs.get(&run).map(|known| &known.files);
                files
                    .iter()
                    .map(|file| proved_of(file, known.and_then(|known| known.get(&file.name))).bytes)
                    .sum()
            };
            let proved: Vec<u64> = self.routes.iter().map(|route| proved(route)).collect();
            let bytes: u64 = files.iter().map(|file| file.identity.bytes).sum();
            self.lose(&run);
            for (route, proved) in self.routes.iter().zip(proved) {
                let text = format!(
                    "{}: this run was removed, renamed or moved while it was shipped; {proved} of {bytes} bytes of it are proved: the copy \
                     there is not complete",
                    run.display()
                );
                tracing::warn!("{}: {text}", route.name);
                route.state().problems.insert((run.clone(), RECORD.to_owned()), Problem::new(text));
            }
            self.gone.insert(run);
        }
    }

    /// Gives a run back that needs nothing more.
    fn release(&mut self, run: &Path) {
        self.shared.held_until.lock().unwrap_or_else(PoisonError::into_inner).remove(run);
        if let Some(lock) = self.locks.remove(run) {
            lock.token.release();
        }
    }

    /// Adds the files that are not there yet. Whether there were any, and whether the run is complete there.
    fn add_jobs(&mut self, route: &Arc<Route>, run: &FoundRun) -> (bool, bool) {
        let mut added = false;
        let mut is_complete = true;
        let is_stuck = |file: &FoundFile| {
            let state = route.state();
            let key = (run.path.clone(), file.name.clone());
            let again = if self.order.follow { PROBLEM_AGAIN } else { Duration::MAX };
            // Without following, what comes after that is for another time.
            let is_enough = !self.order.follow && !file.is_closed && state.caught_up.contains(&key);
            is_enough
                || state.is_given_up
                || state.problems.get(&key).is_some_and(|problem| problem.is_of(file, again))
        };
        // A store gets what nobody writes any more: closed files of tables, and documents at the end.
        let is_for_later = |file: &FoundFile| {
            let is_open = !run.has_ended && (!file.is_closed || file.kind == FileKind::Whole);
            is_open && !route.address.takes_growing()
        };
        let mut add = |file: &FoundFile| {
            if !is_for_later(file) && needs_work(route, run, file) {
                is_complete &= !file.is_closed;
                if !is_stuck(file) {
                    let (path, run_name) = (run.path.clone(), run.name.clone());
                    route.add(Job { run: path, run_name, file: file.clone() });
                    added = true;
                }
            }
        };
        let (record, others): (Vec<_>, Vec<_>) = run.files.iter().partition(|file| file.name == RECORD);
        others.iter().for_each(|file| add(file));
        // The record goes when all is there that it names, so that a copy is a run, or none yet. Of a run that is taken, documents may
        // change at any time: they are there once they have been there. What cannot be shipped holds nothing up.
        let is_there = |file: &FoundFile| match run.has_ended {
            true => !needs_work(route, run, file),
            false => file.kind != FileKind::Whole || has_been_there(route, run, file),
        };
        // But for a table of which another one is there: the copy is the run as it was, and the record of this one would contradict it.
        let is_contradicted = others.iter().any(|file| is_another(route, run, file));
        let is_kept = is_contradicted && record.iter().any(|file| has_been_there(route, run, file));
        if !is_kept && others.iter().all(|file| is_there(file) || is_stuck(file)) {
            record.iter().for_each(|file| add(file));
        }
        is_complete &= !record.iter().any(|file| needs_work(route, run, file));
        if !run.has_ended || !is_complete {
            return (added, false);
        }
        match self.manifest(route, run) {
            Ok(manifest) if needs_work(route, run, &manifest) => {
                let (path, run_name) = (run.path.clone(), run.name.clone());
                let is_tried = !route.state().is_given_up;
                route.add(Job { run: path, run_name, file: manifest });
                (is_tried, false)
            }
            Ok(manifest) => (false, self.announce(route, run, &manifest)),
            Err(error) => {
                route
                    .state()
                    .problems
                    .insert((run.path.clone(), manifest::FILE.to_owned()), Problem::new(error.to_string()));
                (false, false)
            }
        }
    }

    /// Writes the list of files, where it has changed.
    fn manifest(&mut self, route: &Route, run: &FoundRun) -> Result<FoundFile, ShipError> {
        let state = route.state().runs.get(&run.path).cloned().unwrap_or_default();
        let ledger = ShipLedger::of(run, &state, &mut self.contents);
        let text = manifest::text(&run.name, &state, &ledger);
        let name = format!("{}.manifest", name_of(&route.name));
        let path = run.path.join(FOLDER).join(&name);
        if std::fs::read(&path).ok().as_ref() != Some(&text) {
            HostDisk
                .replace(&run.path.join(FOLDER), &name, &text)
                .map_err(ShipError::local(&path, "writing"))?;
        }
        let file = FoundFile::document(&path, None);
        let missing = || ShipError::local(&path, "reading")(std::io::ErrorKind::NotFound.into());
        Ok(FoundFile { name: manifest::FILE.to_owned(), ..file.ok_or_else(missing)? })
    }

    /// Runs the command of a run that is complete. Whether that is done.
    fn announce(&mut self, route: &Route, run: &FoundRun, manifest: &FoundFile) -> bool {
        let order = self.order;
        let command = &order.settings.on_shipped;
        let is_announced = route.state().runs.get(&run.path).is_some_and(|state| state.is_announced);
        if command.is_empty() || is_announced {
            return true;
        }
        let key = (run.path.clone(), route.name.clone());
        if self.commands.get(&key).is_some_and(|at| at.elapsed() < COMMAND_AGAIN) {
            return false;
        }
        let place = (run.path.as_path(), route.name.as_str(), manifest.path.as_path());
        let problem = (run.path.clone(), "on_shipped".to_owned());
        let stop = self.shared.stop.clone();
        // A command may take longer than a token lasts.
        match on_shipped::run(command, place, &stop, &mut || self.renew()) {
            Ok(()) => {
                let mut state = route.state();
                state.problems.remove(&problem);
                let Some(known) = state.runs.get_mut(&run.path) else { return true };
                known.is_announced = true;
                let known = known.clone();
                if let Err(error) = known.save(&run.path) {
                    state.problems.insert(problem, Problem::new(error.to_string()));
                }
                true
            }
            Err(text) => {
                tracing::warn!("{text}");
                self.commands.insert(key, Instant::now());
                route.state().problems.insert(problem, Problem::new(text));
                false
            }
        }
    }

    /// Whether an order has nothing more to do.
    fn is_over(&self, progress: &Progress) -> bool {
        if !self.order.follow {
            return true;
        }
        let is_directory = |path: &PathBuf| !path.exists() || path.is_dir() && !path.join(RECORD).exists();
        progress.is_complete && !self.order.runs.iter().any(is_directory)
    }

    fn ledger(&mut self, route: &Route, run: &FoundRun) -> ShipLedger {
        // A copy of what is known: the workers do not wait while files are walked.
        let known = route.state().runs.get(&run.path).cloned().unwrap_or_default();
        ShipLedger::of(run, &known, &mut self.contents)
    }

    fn progress(&mut self, is_idle: bool) -> Progress {
        let (runs, now) = (self.found.clone(), Instant::now());
        let first = self.order.runs.first().map(PathBuf::as_path).unwrap_or(Path::new("."));
        let disk_free_bytes = self.free.sample(first, now);
        let destinations: Vec<RouteProgress> =
            (0..self.routes.len()).map(|index| self.route_progress(index, &runs, now, is_idle)).collect();
        let is_done = |run: &FoundRun| self.done.contains_key(&run.path);
        Progress {
            is_complete: self.refused.is_empty()
                && self.gone.is_empty()
                && runs.iter().all(is_done)
                && is_idle,
            runs: runs.len() as u64,
            runs_open: runs.iter().filter(|run| !run.has_ended).count() as u64,
            destinations,
            disk_free_bytes,
            disk_full_in_s: self.free.full_in_s(),
        }
    }

    fn route_progress(
        &mut self,
        index: usize,
        runs: &[FoundRun],
        now: Instant,
        is_idle: bool,
    ) -> RouteProgress {
        let route = &self.routes[index].clone();
        let mut ledger = ShipLedger::default();
        for run in runs {
            match self.done.get(&run.path) {
                Some(done) => ledger.add(&done.ledgers[index]),
                None => ledger.add(&self.ledger(route, run)),
            }
        }
        let proved = route.proved_bytes.load(Ordering::Relaxed);
        let (at, before) = self.rates.insert(route.name.clone(), (now, proved)).unwrap_or((now, proved));
        let passed = now.duration_since(at).as_secs_f64();
        let state = route.state();
        let mut progress = RouteProgress { to: route.name.clone(), ..RouteProgress::default() };
        progress.rate_bytes_per_s = if passed > 0.0 { (proved - before) as f64 / passed } else { 0.0 };
        for run in runs {
            let known = state.runs.get(&run.path);
            let mut is_finished = run.has_ended;
            for file in &run.files {
                let known = known.and_then(|known| known.files.get(&file.name));
                let is_proved =
                    known.is_some_and(|known| known.is_proved(&file.identity, file.recorded.as_deref()));
                let bytes = file.identity.bytes;
                let proved = proved_of(file, known).bytes.min(bytes);
                progress.files += 1;
                progress.files_finished += u64::from(is_proved);
                progress.bytes += bytes;
                progress.bytes_proved += proved;
                progress.backlog_bytes += bytes - proved;
                // The ledger is no file to ship before the end of the run, and not among these.
                let is_open = !file.is_closed || file.kind == FileKind::Whole && !run.has_ended;
                progress.open_bytes += if is_open { bytes - proved } else { 0 };
                is_finished &= is_proved;
            }
            progress.runs_finished += u64::from(is_finished);
        }
        progress.ledger_balances = ledger.balances();
        progress.ledger = ledger;
        progress.problems = state.problems.values().map(|problem| problem.text.clone()).collect();
        progress.problems.extend(self.refused.values().cloned());
        progress.held = state.held.as_ref().map(|(text, _)| text.clone());
        progress.stage = match progress.held {
            _ if state.is_given_up => RouteStage::GivenUp,
            Some(_) => RouteStage::Held,
            None if is_idle && !progress.problems.is_empty() => RouteStage::Incomplete,
            None if is_idle && progress.open_bytes > 0 && !route.address.takes_growing() => {
                RouteStage::WaitingForFiles
            }
            None if is_idle => RouteStage::UpToDate,
            None if !self.shared.is_open() => RouteStage::Waiting,
            None => RouteStage::Shipping,
        };
        progress
    }
}

/// Whether a run is not in its place any more. Where the file system fails for a while, nobody knows.
fn is_gone(run: &Path) -> bool {
    run.join(RECORD).symlink_metadata().is_err_and(|cause| cause.kind() == io::ErrorKind::NotFound)
}

/// Whether a table at the destination is not the beginning of the one that is here.
fn is_another(route: &Route, run: &FoundRun, file: &FoundFile) -> bool {
    let state = route.state();
    let known = state.runs.get(&run.path).and_then(|known| known.files.get(&file.name));
    let refused = known.and_then(|known| known.refused.as_deref());
    file.kind == FileKind::Growing && refused == Some(DIFFERS)
}

/// Whether a file has been there as a whole, as it is now or as it was.
fn has_been_there(route: &Route, run: &FoundRun, file: &FoundFile) -> bool {
    let state = route.state();
    let known = state.runs.get(&run.path).and_then(|known| known.files.get(&file.name));
    known.is_some_and(|known| known.finished.is_some())
}

/// Whether a file is not there as it is here.
fn needs_work(route: &Route, run: &FoundRun, file: &FoundFile) -> bool {
    let state = route.state();
    let known = state.runs.get(&run.path).and_then(|known| known.files.get(&file.name));
    let Some(known) = known else { return true };
    match file.kind {
        _ if known.is_proved(&file.identity, file.recorded.as_deref()) => false,
        // Without a batch more, nothing can be shipped of it.
        FileKind::Growing if !file.is_closed => file.identity.bytes > known.proved + MARKER_BYTES,
        _ => true,
    }
}
