//! Several processes at one directory, as if at different hosts, killed at any moment: one owner at any time, and always another one.

use std::fs::{self, File};
use std::io::Write;
use std::path::Path;
use std::process::{Child, Command};
use std::time::{Duration, Instant};

use thalweg_ship::ownership::Claimant;

use crate::faults::Choices;

const DIRECTORY: &str = "THALWEG_OWNERS_DIRECTORY";
const NUMBER: &str = "THALWEG_OWNERS_NUMBER";
const TEST: &str = "owners::a_run_has_one_owner_at_any_time_whoever_is_killed";
const TAKEOVER: Duration = Duration::from_millis(400);
/// How long processes come and go, at least; on a busy machine until each has been the owner.
const LASTS: Duration = Duration::from_secs(6);
/// Nobody waits longer than this.
const PATIENCE: Duration = Duration::from_secs(120);
const PROCESSES: u64 = 3;

/// Whether a process lives, and is none that was killed and waits to be noticed.
fn lives(process: &str) -> bool {
    let status = fs::read_to_string(format!("/proc/{process}/stat")).unwrap_or_default();
    status.rsplit(") ").next().and_then(|fields| fields.chars().next()).is_some_and(|state| state != 'Z')
}

/// Takes the token again and again. While it has it, a file says so, which nobody else may find there.
fn own(directory: &Path, number: u64) {
    let claimant = Claimant::new(&format!("host{number}"), u64::from(std::process::id()), TAKEOVER);
    let (inside, mut choices) = (directory.join("inside"), Choices(number));
    let mut sighting = None;
    loop {
        let Ok(mut token) = claimant.take(directory, false, &mut sighting, Instant::now()) else {
            std::thread::sleep(Duration::from_millis(10));
            continue;
        };
        let before = fs::read_to_string(&inside).unwrap_or_default();
        let is_right = before.is_empty() || !lives(&before);
        fs::write(&inside, std::process::id().to_string()).expect("written");
        for _ in 0..choices.below(30) {
            std::thread::sleep(Duration::from_millis(10));
            // On a busy machine it may have slept too long, and others have it rightly.
            if !token.renew(Instant::now()) {
                break;
            }
        }
        let is_held = Instant::now() < token.valid_until();
        let mine = fs::read_to_string(&inside).unwrap_or_default() == std::process::id().to_string();
        let mut log = File::options().create(true).append(true).open(directory.join("log")).expect("opens");
        let word = if is_right && (mine || !is_held) { "owned" } else { "TWO" };
        writeln!(log, "{word} {number} {before}").expect("written");
        if is_held {
            fs::remove_file(&inside).expect("its own");
            token.release();
        }
    }
}

fn start(directory: &Path, number: u64) -> Child {
    let program = std::env::current_exe().expect("this program");
    let mut command = Command::new(program);
    command.args(["--exact", TEST, "--nocapture"]).env(DIRECTORY, directory).env(NUMBER, number.to_string());
    command.stdout(std::process::Stdio::null()).spawn().expect("started")
}

#[test]
fn a_run_has_one_owner_at_any_time_whoever_is_killed() {
    if let (Some(directory), Ok(number)) = (std::env::var_os(DIRECTORY), std::env::var(NUMBER)) {
        return own(Path::new(&directory), number.parse().expect("a number"));
    }
    let folder = tempfile::tempdir().expect("temporary folder");
    let mut choices = Choices(3);
    let mut processes: Vec<Child> = (0..PROCESSES).map(|number| start(folder.path(), number)).collect();
    let began = Instant::now();
    let mut kills = 0;
    let lines = || fs::read_to_string(folder.path().join("log")).unwrap_or_default();
    let have_all_owned = || (0..PROCESSES).all(|number| lines().contains(&format!("owned {number} ")));
    while began.elapsed() < LASTS || !have_all_owned() && began.elapsed() < PATIENCE {
        std::thread::sleep(Duration::from_millis(200 + choices.below(500)));
        let number = choices.below(PROCESSES);
        let process = &mut processes[number as usize];
        process.kill().and_then(|()| process.wait()).expect("killed");
        *process = start(folder.path(), number);
        kills += 1;
    }
    // Whoever was killed with the token: the run goes on.
    let after_kills = lines().lines().count();
    let until = Instant::now() + PATIENCE;
    while lines().lines().count() < after_kills + 5 && Instant::now() < until {
        std::thread::sleep(Duration::from_millis(20));
    }
    for process in &mut processes {
        process.kill().and_then(|()| process.wait()).expect("killed");
    }
    let log = lines();
    assert!(log.lines().count() >= after_kills + 5, "nobody owns it any more: {log}");
    assert!(!log.contains("TWO"), "{log}");
    assert!(have_all_owned() && kills > 5, "{kills} kills: {log}");
}
