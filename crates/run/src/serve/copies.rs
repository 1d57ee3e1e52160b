//! Copies of the runs elsewhere, as the page, the metrics and the alarms see them: sampled from what `thalweg ship` leaves in the runs.
//!
//! ```text
//!  runs, RUN/.ship/*.json ─ every 2 s ─► Survey ─► CopyState of each destination ─► live state
//! ```
//! The shipper may have ended, or run at another host: what is behind, and for how long, is seen from here.

use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use thalweg_monitor::alarm::{Level, Quantity, Rule};
use thalweg_monitor::state::{CopyCounts, CopyState};
use thalweg_ship::amount::Amount;
use thalweg_ship::survey::{Survey, Surveyed};
use thalweg_ship::{Settings, windows};

use super::Served;

/// Between two looks at the runs.
const LOOK_EVERY: Duration = Duration::from_secs(2);
/// Between two looks at whether to stop.
const NAP: Duration = Duration::from_millis(50);

/// Looks at the copies on a thread of its own, as long as it lives: with thousands of runs, nobody waits for it.
pub(super) struct CopyWatch {
    stop: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
}

impl CopyWatch {
    /// Begins, where the configuration has destinations.
    pub(super) fn start(served: &Arc<Served>) -> Option<CopyWatch> {
        let settings = served.in_use().configuration.ship.clone()?;
        let (served, stop) = (served.clone(), Arc::new(AtomicBool::new(false)));
        let asked = stop.clone();
        let watch = move || {
            let mut silence = Silence::new(&settings);
            let mut survey = Survey::new(&settings);
            while !asked.load(Ordering::Acquire) {
                let present = PathBuf::from(&served.handle().state().run_directory);
                let surveyed = survey.look(&served.directory(), Some(&present));
                let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
                served.set_copies(silence.copies(surveyed, Instant::now(), now.as_secs()));
                let until = Instant::now() + LOOK_EVERY;
                while Instant::now() < until && !asked.load(Ordering::Acquire) {
                    std::thread::sleep(NAP);
                }
            }
        };
        let thread = std::thread::Builder::new().name("copies".to_owned()).spawn(watch);
        if let Err(cause) = &thread {
            tracing::error!(
                "no thread to look at copies: {cause}; the page does not show what [ship] has to do"
            );
        }
        Some(CopyWatch { stop, thread: thread.ok() })
    }
}

impl Drop for CopyWatch {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Release);
        if let Some(thread) = self.thread.take() {
            // The thread itself has reported a panic.
            let _ = thread.join();
        }
    }
}

/// How long each destination has proved nothing although something waits, while files may be shipped.
struct Silence {
    windows: Vec<windows::Window>,
    before: Option<Instant>,
    /// By destination.
    lasts: Vec<Duration>,
}

impl Silence {
    fn new(settings: &Settings) -> Silence {
        let windows = settings.windows.iter().filter_map(|text| windows::Window::parse(text).ok()).collect();
        Silence { windows, before: None, lasts: vec![Duration::ZERO; settings.to.len()] }
    }

    fn copies(&mut self, surveyed: Vec<Surveyed>, now: Instant, utc_s: u64) -> Vec<CopyState> {
        let passed = self.before.replace(now).map_or(Duration::ZERO, |before| now.duration_since(before));
        let is_open = windows::is_open(&self.windows, utc_s);
        let copy = |(of, lasts): (Surveyed, &mut Duration)| {
            match of.has_proved || of.backlog_bytes == 0 {
                true => *lasts = Duration::ZERO,
                false if is_open => *lasts += passed,
                false => {}
            }
            copy_state(of, *lasts)
        };
        surveyed.into_iter().zip(&mut self.lasts).map(copy).collect()
    }
}

fn copy_state(of: Surveyed, silent: Duration) -> CopyState {
    let ledger = of.ledger.unwrap_or_default();
    CopyState {
        to: of.to,
        recorded: counts(ledger.recorded),
        proved: counts(ledger.proved),
        waiting: counts(ledger.waiting),
        refused: counts(ledger.refused_total()),
        balances: ledger.balances(),
        backlog_bytes: of.backlog_bytes,
        runs_behind: of.runs_behind,
        silent_seconds: silent.as_secs_f64(),
    }
}

fn counts(Amount { bytes, batches, rows }: Amount) -> CopyCounts {
    CopyCounts { bytes, batches, rows }
}

/// The alarms that `[ship]` asks for, unless `[[alarm]]` has some of these names.
pub(super) fn alarms(settings: Option<&Settings>, own: &[Rule]) -> Vec<Rule> {
    let Some(Settings { alarm_silent_s, alarm_disk_left_s, .. }) = settings else { return Vec::new() };
    let rule = |name: &str, quantity, level, text: &str| Rule {
        name: name.to_owned(),
        quantity,
        source: Some("*".to_owned()),
        series: None,
        above: None,
        below: None,
        hysteresis: 0.0,
        for_s: 0.0,
        clear_for_s: 0.0,
        level,
        text: text.to_owned(),
    };
    let silent = Rule {
        above: Some(*alarm_silent_s),
        ..rule(
            "copies stand still",
            Quantity::ShipSilentS,
            Level::Warning,
            "nothing was proved there for long, and files wait: look whether `thalweg ship` runs, and whether the far host and the way \
             to it are up",
        )
    };
    let disk = Rule {
        below: Some(*alarm_disk_left_s),
        hysteresis: alarm_disk_left_s * 0.05,
        for_s: 10.0,
        ..rule(
            "disk full before copies are made",
            Quantity::ShipDiskLeftS,
            Level::Error,
            "the disk here will be full, and nothing may be removed that has no copy: bring the far host back, ship to another \
             destination, or free space",
        )
    };
    let is_wanted = |rule: &Rule| rule.threshold().0 > 0.0 && own.iter().all(|known| known.name != rule.name);
    [silent, disk].into_iter().filter(is_wanted).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn surveyed(backlog_bytes: u64, has_proved: bool) -> Vec<Surveyed> {
        vec![Surveyed { backlog_bytes, has_proved, ..Surveyed::default() }]
    }

    #[test]
    fn a_destination_is_silent_while_something_waits_and_files_may_go() {
        let settings = Settings { to: vec!["file:///a".to_owned()], ..Settings::default() };
        let settings = Settings { windows: vec!["20:00-06:00".to_owned()], ..settings };
        let (mut silence, start) = (Silence::new(&settings), Instant::now());
        let mut look = |seconds: u64, hour: u64, surveyed: Vec<Surveyed>| {
            let now = start + Duration::from_secs(seconds);
            silence.copies(surveyed, now, hour * 3600)[0].silent_seconds
        };
        assert_eq!(look(0, 20, surveyed(5, false)), 0.0);
        assert_eq!(look(10, 21, surveyed(5, false)), 10.0);
        assert_eq!(look(30, 12, surveyed(5, false)), 10.0, "outside the window");
        assert_eq!(look(40, 22, surveyed(5, false)), 20.0);
        assert_eq!(look(50, 22, surveyed(5, true)), 0.0);
        assert_eq!(look(60, 22, surveyed(5, false)), 10.0);
        assert_eq!(look(70, 22, surveyed(0, false)), 0.0, "nothing waits");
    }

    #[test]
    fn ship_brings_its_alarms_unless_they_are_off_or_others_have_their_names() {
        let settings = Settings::default();
        let names = |settings: &Settings, own: &[Rule]| {
            alarms(Some(settings), own).into_iter().map(|rule| rule.name).collect::<Vec<_>>()
        };
        assert_eq!(alarms(None, &[]), []);
        let both = alarms(Some(&settings), &[]);
        assert!(both.len() == 2 && thalweg_monitor::alarm::Alarms::new(&both).is_ok());
        assert_eq!(names(&settings, &both[..1]), ["disk full before copies are made"]);
        let off = Settings { alarm_disk_left_s: 0.0, ..settings };
        assert_eq!(names(&off, &[]), ["copies stand still"]);
    }
}
