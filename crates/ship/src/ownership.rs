//! Which program ships a run, over all hosts that mount its directory: one token, which passes by renaming it.
//!
//! ```text
//!  RUN/.ship/owner/  one file always: free.00000003 ─ rename ─► daq-1f3c9a02-….00000004 ─ rename ─► free.00000004
//!                                      └ not renewed for `takeover` ─ rename by another host ─► store-….00000005
//! ```
//! A file system renames a file once: of several programs that want a token, one gets it, and its name is never used again. The directory
//! appears with the token in it. An owner renews its token while it lives, and stops by itself when it could not renew it for half of the time
//! after which others take it over. Locks of files do this at one host, and not over every network file system.

use std::fs::{self, File};
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use serde::Serialize;

use crate::error::ShipError;

/// Where the token lies, in the folder of the states.
const FOLDER: &str = "owner";
/// The owner of a token that nobody has.
const NOBODY: &str = "free";
/// Times that a directory is listed, while its token is being renamed.
const MOST_LISTINGS: usize = 20;
/// Longest part of the host's name in the name of a token.
const MOST_HOST_LETTERS: usize = 60;

/// Who wants tokens.
#[derive(Clone, Debug)]
pub struct Claimant {
    host: String,
    name: String,
    takeover: Duration,
}

/// What was seen of a token of somebody else.
#[derive(Clone, Debug)]
pub struct Sighting {
    token: String,
    content: Vec<u8>,
    since: Instant,
}

/// The token of a run, held by this program.
#[derive(Debug)]
pub struct Token {
    folder: PathBuf,
    name: String,
    beat: u64,
    /// When it was renewed last.
    renewed: Instant,
    takeover: Duration,
}

/// What stands in a token, for people. Others see by it whether it is renewed.
#[derive(Serialize)]
struct Content<'t> {
    owner: &'t str,
    process: u32,
    renewed: u64,
}

impl Claimant {
    /// This program at this host, which may take over what was not renewed for `takeover`.
    pub fn here(shipper: u64, takeover: Duration) -> Claimant {
        let read = |file: &str| fs::read_to_string(file).unwrap_or_default().trim().to_owned();
        let boot = read("/proc/sys/kernel/random/boot_id");
        let host = format!("{}-{}", read("/proc/sys/kernel/hostname"), boot.get(..8).unwrap_or("unknown"));
        Claimant::new(&host, shipper, takeover)
    }

    /// A program with this number at a host, whose name is to be another one after each start of its kernel.
    pub fn new(host: &str, shipper: u64, takeover: Duration) -> Claimant {
        let plain = |letter: char| if letter.is_ascii_alphanumeric() { letter } else { '-' };
        let host: String = host.chars().map(plain).take(MOST_HOST_LETTERS).collect();
        Claimant { name: format!("{host}-{shipper:016x}"), host, takeover }
    }

    /// Takes the token of the run whose states are in `states`, if nobody has it, or its owner has not renewed it for long enough:
    /// `sighting` keeps what was seen of it. With `is_alone` no other program of this host can be at the run, and its token is taken at once.
    ///
    /// # Errors
    /// Who has it; when the directory cannot be written.
    pub fn take(
        &self,
        states: &Path,
        is_alone: bool,
        sighting: &mut Option<Sighting>,
        now: Instant,
    ) -> Result<Token, ShipError> {
        let folder = states.join(FOLDER);
        let failed = |cause| ShipError::local(&folder, "taking the token of the run")(cause);
        if let Some(name) = self.begin(states, &folder).map_err(failed)? {
            return self.held(folder, name, now);
        }
        let found = token_in(&folder).map_err(failed)?;
        let Some((owner, epoch)) = found.as_deref().and_then(parts) else {
            return Err(self.busy(states, "another program"));
        };
        let of_here = owner.strip_prefix(&self.host).is_some_and(|rest| rest.starts_with('-'));
        let token = format!("{owner}.{epoch:08}");
        if owner != NOBODY && owner != self.name && !(is_alone && of_here) {
            let content = fs::read(folder.join(&token)).unwrap_or_default();
            let seen = sighting.take().filter(|seen| seen.token == token && seen.content == content);
            let seen = seen.unwrap_or_else(|| Sighting { token: token.clone(), content, since: now });
            let lasts = now.duration_since(seen.since);
            *sighting = Some(seen);
            if lasts < self.takeover {
                return Err(self.busy(states, owner));
            }
        }
        let name = format!("{}.{:08}", self.name, epoch + 1);
        match fs::rename(folder.join(&token), folder.join(&name)) {
            // Over a network, the answer to a rename may have been lost, and the second one has found nothing.
            Err(cause) if cause.kind() == io::ErrorKind::NotFound && folder.join(&name).exists() => {}
            Err(cause) if cause.kind() == io::ErrorKind::NotFound => {
                return Err(self.busy(states, "another program"));
            }
            renamed => renamed.map_err(failed)?,
        }
        *sighting = None;
        self.held(folder, name, now)
    }

    fn held(&self, folder: PathBuf, name: String, now: Instant) -> Result<Token, ShipError> {
        let mut token = Token { folder, name, beat: 0, renewed: now, takeover: self.takeover };
        token.write().map_err(ShipError::local(&token.path(), "writing the token of the run"))?;
        Ok(token)
    }

    /// Makes the directory with a token of ours in it, unless there is one: its name, if that was made.
    fn begin(&self, states: &Path, folder: &Path) -> io::Result<Option<String>> {
        if folder.is_dir() {
            return Ok(None);
        }
        let beside = states.join(format!("{FOLDER}.{}", self.name));
        let name = format!("{}.{:08}", self.name, 1);
        fs::create_dir_all(&beside)?;
        File::create(beside.join(&name))?;
        match fs::rename(&beside, folder) {
            Ok(()) => Ok(Some(name)),
            // Another program was faster: a directory that is not empty is not replaced.
            Err(_) if folder.is_dir() => fs::remove_dir_all(&beside).map(|()| None),
            Err(cause) => Err(cause),
        }
    }

    fn busy(&self, states: &Path, by: &str) -> ShipError {
        let path = states.parent().unwrap_or(states).to_owned();
        ShipError::Owned { path, owner: by.to_owned(), takeover_s: self.takeover.as_secs() }
    }
}

impl Token {
    fn path(&self) -> PathBuf {
        self.folder.join(&self.name)
    }

    fn write(&mut self) -> io::Result<()> {
        self.beat += 1;
        let content = Content { owner: &self.name, process: std::process::id(), renewed: self.beat };
        // Not made anew: where it is gone, somebody else has it.
        let mut file = File::options().write(true).open(self.path())?;
        let text = serde_json::to_vec(&content).expect("plain data");
        file.write_all(&text)?;
        file.set_len(text.len() as u64)?;
        file.sync_data()
    }

    /// Renews it where that is due. Whether it is still held; of a file system that fails for a while, until [`Token::valid_until`].
    pub fn renew(&mut self, now: Instant) -> bool {
        if now.duration_since(self.renewed) < self.takeover / 10 {
            return true;
        }
        match self.write() {
            Ok(()) => self.renewed = now,
            Err(cause) if cause.kind() == io::ErrorKind::NotFound => return false,
            Err(_) => {}
        }
        now < self.valid_until()
    }

    /// Until when it is held if it is not renewed: long before others take it over.
    pub fn valid_until(&self) -> Instant {
        self.renewed + self.takeover / 2
    }

    /// Gives it back.
    pub fn release(self) {
        let epoch = parts(&self.name).map_or(0, |(_, epoch)| epoch);
        // One that was taken over is not there; one that cannot be renamed is taken over later.
        let _ = fs::rename(self.path(), self.folder.join(format!("{NOBODY}.{epoch:08}")));
    }
}

/// Owner and number of a token; of no other file.
fn parts(token: &str) -> Option<(&str, u64)> {
    let (owner, epoch) = token.rsplit_once('.')?;
    let is_owner = owner.bytes().all(|letter| letter.is_ascii_alphanumeric() || letter == b'-');
    Some((owner, epoch.parse().ok()?)).filter(|_| is_owner && !owner.is_empty())
}

/// The one token in its directory, beside what file systems and browsers of files may leave there. While it is renamed, both names may be
/// listed, or none.
fn token_in(folder: &Path) -> io::Result<Option<String>> {
    for _ in 0..MOST_LISTINGS {
        let names = fs::read_dir(folder)?.flatten();
        let names = names.filter_map(|entry| entry.file_name().into_string().ok());
        let names: Vec<String> = names.filter(|name| parts(name).is_some()).collect();
        if let [name] = &names[..] {
            return Ok(Some(name.clone()));
        }
        std::thread::sleep(Duration::from_millis(1));
    }
    Ok(None)
}

#[cfg(test)]
mod tests {
    use super::*;

    const TAKEOVER: Duration = Duration::from_secs(60);

    fn folder() -> (tempfile::TempDir, PathBuf) {
        let folder = tempfile::tempdir().expect("temporary folder");
        let states = folder.path().join("000001/.ship");
        fs::create_dir_all(&states).expect("made");
        (folder, states)
    }

    #[test]
    fn a_token_passes_by_its_name_and_a_dead_owner_is_followed_after_a_while() {
        let (_folder, states) = folder();
        let [one, other, third] = ["a", "b", "c"].map(|host| Claimant::new(host, 1, TAKEOVER));
        let (start, mut seen) = (Instant::now(), None);
        let held = one.take(&states, false, &mut seen, start).expect("free");
        let error = other.take(&states, true, &mut seen, start).expect_err("held").to_string();
        assert!(error.contains("a-0000000000000001") && error.contains("60 s"), "{error}");
        held.release();
        let mut held = other.take(&states, false, &mut seen, start).expect("given back");
        // It is renewed, and so stays.
        let mut of_third = None;
        for second in 0..200 {
            let now = start + Duration::from_secs(second);
            assert!(held.renew(now) && now < held.valid_until());
            assert!(third.take(&states, false, &mut of_third, now).is_err(), "{second}");
        }
        // It is not any more.
        let stopped = start + Duration::from_secs(199);
        // The last sight of a new renewal is up to a tenth older.
        for second in 1..54 {
            assert!(
                third.take(&states, false, &mut of_third, stopped + Duration::from_secs(second)).is_err()
            );
        }
        assert!(held.valid_until() < stopped + TAKEOVER / 2 + Duration::from_secs(1));
        let now = stopped + TAKEOVER + Duration::from_secs(2);
        let next = third.take(&states, false, &mut of_third, now).expect("taken over");
        assert!(!held.renew(now), "it has lost it, and sees that");
        held.release();
        assert!(
            one.take(&states, false, &mut seen, now).is_err(),
            "and gives nothing back that is not its own"
        );
        next.release();
        assert!(one.take(&states, false, &mut seen, now).is_ok());
    }

    #[test]
    fn the_token_of_a_program_of_this_host_that_was_killed_is_taken_at_once() {
        let (_folder, states) = folder();
        let of = |host, shipper| Claimant::new(host, shipper, TAKEOVER);
        let (now, mut seen) = (Instant::now(), None);
        let _killed = of("a", 1).take(&states, true, &mut seen, now).expect("free");
        assert!(of("ab", 2).take(&states, true, &mut seen, now).is_err(), "of a host with a longer name");
        assert!(of("a", 2).take(&states, false, &mut seen, now).is_err(), "it may live");
        assert!(of("a", 2).take(&states, true, &mut seen, now).is_ok());
    }

    #[test]
    fn what_is_no_token_hides_none() {
        let (_folder, states) = folder();
        let [one, other] = ["a", "b"].map(|host| Claimant::new(host, 1, TAKEOVER));
        let (now, mut seen) = (Instant::now(), None);
        let held = one.take(&states, false, &mut seen, now).expect("free");
        for stray in [".nfs000000000012ab34", ".DS_Store", "._a-0000000000000001.00000001", "note.txt"] {
            fs::write(states.join(FOLDER).join(stray), "").expect("written");
        }
        let error = other.take(&states, false, &mut seen, now).expect_err("held").to_string();
        assert!(error.contains("a-0000000000000001"), "{error}");
        held.release();
        other.take(&states, false, &mut seen, now).expect("given back");
    }

    #[test]
    fn of_many_that_come_at_once_one_gets_the_token() {
        for _ in 0..50 {
            let (_folder, states) = folder();
            let take = |number: u64| {
                let states = states.clone();
                move || {
                    let claimant = Claimant::new(&format!("host{number}"), number, TAKEOVER);
                    claimant.take(&states, true, &mut None, Instant::now()).is_ok()
                }
            };
            let threads: Vec<_> = (0..4).map(|number| std::thread::spawn(take(number))).collect();
            let owners = threads.into_iter().map(|thread| thread.join().expect("no panic"));
            assert_eq!(owners.filter(|is_owner| *is_owner).count(), 1);
        }
    }
}
