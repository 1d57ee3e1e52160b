//! What is not copied yet, of all runs of a directory, from what lies there: for programs that do not ship themselves.
//!
//! ```text
//!  runs, RUN/.ship/*.json ─► Survey ─► by destination: backlog, runs behind, ledger of one run, has anything been proved since?
//! ```
//! Whether `thalweg ship` runs at all, here or at another host that mounts the directory, makes no difference.

use std::collections::{HashMap, HashSet};
use std::fs;
use std::path::{Path, PathBuf};

use crate::address::Address;
use crate::contents::Contents;
use crate::ledger::{ShipLedger, backlog};
use crate::message::Identity;
use crate::run_files::{FoundRun, Stamp, files_of, runs_at};
use crate::run_state::RunState;
use crate::settings::Settings;

/// One destination as it stands.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Surveyed {
    /// The destination.
    pub to: String,
    /// Bytes of all runs that could be proved there and are not; those that cannot be shipped as they are among them.
    pub backlog_bytes: u64,
    /// Runs that have such.
    pub runs_behind: u64,
    /// Whether something more was proved there since the last look.
    pub has_proved: bool,
    /// The ledger of the run that was asked for.
    pub ledger: Option<ShipLedger>,
}

/// Looks at the copies of the runs in a directory, again and again.
#[derive(Debug)]
pub struct Survey {
    /// Destinations, and their names.
    to: Vec<(Address, String)>,
    stay_behind: u64,
    runs: HashMap<PathBuf, Seen>,
    contents: Contents,
}

/// A run at the last look.
#[derive(Debug)]
struct Seen {
    /// `None` of one that may change without that being seen by a stamp.
    stamp: Option<(Stamp, Vec<Option<Identity>>)>,
    copies: Vec<RunCopy>,
}

/// A run at one destination.
#[derive(Clone, Debug, Default)]
struct RunCopy {
    backlog_bytes: u64,
    /// Grows with all that is proved.
    proved_mark: u64,
    ledger: ShipLedger,
}

impl Survey {
    /// Of the destinations of `[ship]`.
    pub fn new(settings: &Settings) -> Survey {
        let addresses = settings.to.iter().filter_map(|text| Address::parse(text).ok());
        let to = addresses.map(|address| (address.clone(), settings.name_of(&address))).collect();
        let (runs, contents) = (HashMap::new(), Contents::default());
        Survey { to, stay_behind: settings.stay_behind, runs, contents }
    }

    /// Looks at all runs in a directory; of `present`, the ledger is given. What cannot be read counts as nothing.
    pub fn look(&mut self, directory: &Path, present: Option<&Path>) -> Vec<Surveyed> {
        let named = |(_, name): &(_, String)| Surveyed { to: name.clone(), ..Surveyed::default() };
        let mut surveyed: Vec<Surveyed> = self.to.iter().map(named).collect();
        let paths = runs_at(directory, 0).unwrap_or_default();
        let shipped = paths.len().saturating_sub(usize::try_from(self.stay_behind).unwrap_or(usize::MAX));
        for (index, path) in paths.iter().enumerate() {
            let before = self.runs.remove(path);
            let Some(seen) = self.see(path, before.as_ref()) else { continue };
            for (at, (of, copy)) in surveyed.iter_mut().zip(&seen.copies).enumerate() {
                let known = before.as_ref().map(|before| before.copies[at].proved_mark);
                of.has_proved |= known.is_some_and(|known| copy.proved_mark > known);
                if index < shipped && copy.backlog_bytes > 0 {
                    of.runs_behind += 1;
                    of.backlog_bytes += copy.backlog_bytes;
                }
                if present == Some(path) {
                    of.ledger = Some(copy.ledger.clone());
                }
            }
            self.runs.insert(path.clone(), seen);
        }
        let here: HashSet<&PathBuf> = paths.iter().collect();
        self.runs.retain(|path, _| here.contains(path));
        surveyed
    }

    fn see(&mut self, path: &Path, before: Option<&Seen>) -> Option<Seen> {
        // The stamps first: what changes while the files are read is seen at the next look.
        let identity = |(_, name): &(_, String)| {
            let state = RunState::path(path, name);
            fs::symlink_metadata(state).ok().map(|data| Identity::of(&data))
        };
        let stamp = Some((Stamp::of(path), self.to.iter().map(identity).collect()));
        if let Some(before) = before.filter(|before| before.stamp == stamp) {
            return Some(Seen { stamp, copies: before.copies.clone() });
        }
        let run = files_of(path).ok()?;
        let copies: Vec<RunCopy> = self.to.iter().map(|to| copy(&run, to, &mut self.contents)).collect();
        let is_settled = run.has_ended && copies.iter().all(|copy| copy.ledger.balances().is_some());
        if is_settled && copies.iter().all(|copy| copy.backlog_bytes == 0) {
            self.contents.forget(&run.files);
        }
        Some(Seen { stamp: stamp.filter(|_| is_settled), copies })
    }
}

fn copy(run: &FoundRun, (to, name): &(Address, String), contents: &mut Contents) -> RunCopy {
    let state = RunState::load(&run.path, name).unwrap_or_default();
    RunCopy {
        backlog_bytes: backlog(run, &state, to.takes_growing(), contents),
        proved_mark: state.files.values().map(|file| file.proved + u64::from(file.finished.is_some())).sum(),
        ledger: ShipLedger::of(run, &state, contents),
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;
    use std::time::Duration;

    use thalweg_data::Hit;
    use thalweg_record::{Compression, HitsFile, RunRecord, RunRecordState};

    use super::*;
    use crate::shipper::{Order, ship};

    #[test]
    fn the_backlog_of_each_destination_is_seen_without_a_shipper() {
        let folder = tempfile::tempdir().expect("temporary folder");
        let runs = folder.path().join("runs");
        let (near, far) = (folder.path().join("near"), folder.path().join("far"));
        let run = |number: u64| {
            let path = runs.join(format!("{number:06}"));
            fs::create_dir_all(&path).expect("made");
            let mut table =
                HitsFile::create(&path.join("hits.arrows"), Compression::None, &[]).expect("made");
            table.write(&[Hit::default(); 1000]).expect("written");
            let tables = vec![table.finish().expect("written")];
            let record = RunRecord { state: RunRecordState::Stopped, number, tables, ..RunRecord::default() };
            fs::write(path.join("run.json"), serde_json::to_vec(&record).expect("plain data"))
                .expect("written");
            path
        };
        let first = run(1);
        fs::create_dir(&near).expect("made");
        let to = [&near, &far].map(|path| format!("file://{}", path.display()));
        let settings = Settings { to: to.to_vec(), ..Settings::default() };
        let ship = || {
            let order = Order {
                runs: vec![runs.clone()],
                settings: settings.clone(),
                key: None,
                follow: false,
                give_up_after: Duration::ZERO,
            };
            ship(&order, &Arc::default(), &mut |_| {}).expect("an order")
        };
        let mut survey = Survey::new(&settings);
        let [one, other] = &survey.look(&runs, Some(&first))[..] else { panic!("two destinations") };
        assert_eq!((one.runs_behind, one.backlog_bytes), (other.runs_behind, other.backlog_bytes));
        assert!(one.runs_behind == 1 && one.backlog_bytes > 16_000 && !one.has_proved, "{one:?}");
        let ledger = one.ledger.clone().expect("of the run that was asked for");
        assert_eq!((ledger.recorded, ledger.balances()), (ledger.waiting, Some(true)));
        // One of the two disks is not mounted.
        ship();
        let [one, other] = &survey.look(&runs, Some(&first))[..] else { panic!("two destinations") };
        assert_eq!((one.runs_behind, one.backlog_bytes, one.has_proved), (0, 0, true));
        assert_eq!((other.runs_behind, other.has_proved), (1, false));
        let ledger = one.ledger.clone().expect("of the run that was asked for");
        assert_eq!((ledger.proved, ledger.proved.rows), (ledger.recorded, Some(1000)));
        run(2);
        fs::create_dir(&far).expect("made");
        let [one, other] = &survey.look(&runs, None)[..] else { panic!("two destinations") };
        assert_eq!((one.runs_behind, other.runs_behind, one.has_proved), (1, 2, false));
        let progress = ship();
        assert!(
            progress.destinations.iter().all(|route| route.ledger_balances == Some(true)),
            "{progress:?}"
        );
        let surveyed = survey.look(&runs, None);
        assert!(surveyed.iter().all(|of| of.backlog_bytes == 0 && of.has_proved), "{surveyed:?}");
    }
}
