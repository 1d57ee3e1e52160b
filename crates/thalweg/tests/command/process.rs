//! Starts the binary, waits with a limit for what it does and for its end, and hands back what it said.

use std::io::{BufRead, BufReader, Read};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use serde_json::Value;
pub use thalweg_prerequisite::free_port;

/// No command of these tests may take longer, on a busy machine either.
const LIMIT: Duration = Duration::from_secs(120);

/// Between two looks at what is waited for.
const CHECK_EVERY: Duration = Duration::from_millis(5);

/// Waits until something holds, however slow the machine is.
#[track_caller]
pub fn wait_until(what: &str, mut holds: impl FnMut() -> bool) {
    let until = Instant::now() + LIMIT;
    while !holds() {
        assert!(Instant::now() < until, "not within {LIMIT:?}: {what}");
        std::thread::sleep(CHECK_EVERY);
    }
}

/// So many of them.
pub fn free_ports<const N: usize>() -> [u16; N] {
    [(); N].map(|()| free_port())
}

/// A folder of one test, removed when the test has passed.
pub struct Folder(PathBuf);

impl Folder {
    pub fn new() -> Folder {
        static COUNT: AtomicU32 = AtomicU32::new(0);
        let number = COUNT.fetch_add(1, Ordering::Relaxed);
        let name = format!("command-{}-{number}", std::process::id());
        let path = Path::new(env!("CARGO_TARGET_TMPDIR")).join(name);
        // A test that failed has left its folder, and the system may give the number of its process again.
        let _none_there = std::fs::remove_dir_all(&path);
        std::fs::create_dir_all(&path).expect("the target directory can be written");
        Folder(path)
    }

    pub fn path(&self) -> &Path {
        &self.0
    }

    /// Writes a file and returns its path as text.
    pub fn file(&self, name: &str, content: &str) -> String {
        let path = self.0.join(name);
        std::fs::write(&path, content).expect("written");
        text(&path)
    }

    /// The path of something in this folder as text.
    pub fn at(&self, name: &str) -> String {
        text(&self.0.join(name))
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        if !std::thread::panicking() {
            let _ = std::fs::remove_dir_all(&self.0);
        }
    }
}

pub fn text(path: &Path) -> String {
    path.to_str().expect("test paths are plain").to_owned()
}

/// How a command ended.
#[derive(Debug)]
pub struct Ended {
    pub code: Option<i32>,
    pub out: String,
    pub error: String,
}

impl Ended {
    /// The one JSON object on standard output.
    pub fn json(&self) -> Value {
        serde_json::from_str(&self.out)
            .unwrap_or_else(|error| panic!("not one JSON object: {error}: {self:?}"))
    }

    /// Asserts the exit code of a run that was closed in order and to which no data came.
    #[track_caller]
    pub fn without_data(self) -> Ended {
        assert_eq!(self.code, Some(1), "{self:#?}");
        assert!(self.out.contains("NO DATA") || self.out.contains("\"no_data\":"), "{self:#?}");
        self
    }

    /// Asserts exit code 0.
    pub fn done(self) -> Ended {
        assert_eq!(self.code, Some(0), "{self:#?}");
        self
    }
}

/// How a line of `--states` begins.
const STATE: &str = "{\"sequence\":";

/// What a command has said so far on one stream.
#[derive(Default)]
struct Said {
    text: String,
    /// The latest line of `--states`: they are no part of the text.
    state: Option<String>,
}

/// A stream, read on a thread of its own: a full pipe holds nobody up.
struct Output {
    said: Arc<Mutex<Said>>,
    reader: JoinHandle<()>,
}

impl Output {
    fn new(from: impl Read + Send + 'static) -> Output {
        let said = Arc::new(Mutex::new(Said::default()));
        let written = said.clone();
        let reader = std::thread::spawn(move || {
            let (mut lines, mut line) = (BufReader::new(from), Vec::new());
            while lines.read_until(b'\n', &mut line).is_ok_and(|length| length > 0) {
                let text = String::from_utf8_lossy(&line);
                let mut said = written.lock().unwrap_or_else(PoisonError::into_inner);
                match text.starts_with(STATE) {
                    true => said.state = Some(text.into_owned()),
                    false => said.text.push_str(&text),
                }
                line.clear();
            }
        });
        Output { said, reader }
    }

    fn text(&self) -> String {
        self.said.lock().unwrap_or_else(PoisonError::into_inner).text.clone()
    }

    fn state(&self) -> Value {
        let said = self.said.lock().unwrap_or_else(PoisonError::into_inner);
        said.state.as_ref().map_or(Value::Null, |line| serde_json::from_str(line).expect("a state is JSON"))
    }

    fn into_text(self) -> String {
        self.reader.join().expect("reading does not panic");
        std::mem::take(&mut self.said.lock().unwrap_or_else(PoisonError::into_inner).text)
    }
}

/// A command that goes on while the test does.
pub struct Running {
    child: Option<Child>,
    out: Option<Output>,
    error: Option<Output>,
}

impl Running {
    pub fn start(arguments: &[&str]) -> Running {
        Running::start_as(&[], arguments)
    }

    /// Starts it through other commands, each of which becomes the next: `ip netns exec NAME`.
    pub fn start_as(through: &[&str], arguments: &[&str]) -> Running {
        Running::start_to(through, arguments, Stdio::piped(), Stdio::piped())
    }

    /// Starts it with these in place of standard output and standard error.
    pub fn start_to(through: &[&str], arguments: &[&str], out: Stdio, error: Stdio) -> Running {
        // Beside the tests of a busy machine, a shipper that yields hardly comes to work.
        let equal: &[&str] = if arguments.first() == Some(&"ship") { &["--no-yield"] } else { &[] };
        let words = [through, &[env!("CARGO_BIN_EXE_thalweg")], arguments, equal].concat();
        let mut child = Command::new(words[0])
            .args(&words[1..])
            .stdin(Stdio::null())
            .stdout(out)
            .stderr(error)
            .spawn()
            .expect("the binary starts");
        let (out, error) = (child.stdout.take().map(Output::new), child.stderr.take().map(Output::new));
        Running { child: Some(child), out, error }
    }

    pub fn id(&self) -> u32 {
        self.child.as_ref().expect("not waited for yet").id()
    }

    /// Sends a signal by its name, as `kill -NAME` does.
    pub fn signal(&self, name: &str) {
        let status = Command::new("kill").args([format!("-{name}"), self.id().to_string()]).status();
        assert!(status.is_ok_and(|status| status.success()), "the process is there");
    }

    /// Stops a run that was started with `--states` once snapshots of its ledger was taken while it went on, and no sooner than after so many seconds of it.
    pub fn stop_behind_a_snapshot(self, seconds: f64) -> Ended {
        self.stop_when("snapshots of the ledger that were taken while it ran", |state| {
            let elapsed = state["elapsed_seconds"].as_f64();
            state["snapshots"].as_u64() > Some(0) && elapsed.is_some_and(|elapsed| elapsed >= seconds)
        })
    }

    /// Stops a run that was started with `--states` at the first live state of which `wanted` holds.
    #[track_caller]
    pub fn stop_when(self, what: &str, wanted: impl Fn(&Value) -> bool) -> Ended {
        self.wait_for_state(what, wanted);
        self.signal("INT");
        self.wait()
    }

    /// Waits for a live state of which `wanted` holds, of a run that was started with `--states`.
    #[track_caller]
    pub fn wait_for_state(&self, what: &str, wanted: impl Fn(&Value) -> bool) -> Value {
        let (out, until) = (self.out.as_ref().expect("its output is read"), Instant::now() + LIMIT);
        loop {
            let (has_ended, state) = (out.reader.is_finished(), out.state());
            if !state.is_null() && wanted(&state) {
                return state;
            }
            let errors = self.error.as_ref().map(Output::text).unwrap_or_default();
            assert!(!has_ended, "it ended before {what}: {}{errors}{state:#}", out.text());
            assert!(Instant::now() < until, "not within {LIMIT:?}: {what}: {errors}{state:#}");
            std::thread::sleep(CHECK_EVERY);
        }
    }

    /// Waits until data can come.
    #[track_caller]
    pub fn wait_until_running(&self) {
        self.wait_for_state("it takes data", |state| state["state"] == "running");
    }

    /// Waits for words on standard error.
    #[track_caller]
    pub fn wait_for_text(&self, words: &str) {
        let error = self.error.as_ref().expect("its errors are read");
        wait_until(words, || error.text().contains(words));
    }

    /// Waits until something holds that never will once the command has ended.
    #[track_caller]
    pub fn wait_until(&self, what: &str, mut holds: impl FnMut() -> bool) {
        wait_until(what, || {
            let has_ended = self.out.as_ref().is_some_and(|out| out.reader.is_finished());
            let does = holds();
            let errors = || self.error.as_ref().map(Output::text).unwrap_or_default();
            assert!(does || !has_ended, "it ended before {what}: {}", errors());
            does
        });
    }

    /// Waits until somebody on the host of this process listens at these TCP and UDP ports, those of boards for example.
    #[track_caller]
    pub fn wait_for_ports(&self, tcp: &[u16], udp: &[u16]) {
        let listens = |table: &str, port: u16, state: &str| {
            let sockets = std::fs::read_to_string(format!("/proc/{}/net/{table}", self.id()));
            // Local port, nobody at the other end, state (proc(5)).
            sockets.unwrap_or_default().contains(&format!(":{port:04X} 00000000:0000 {state}"))
        };
        self.wait_until(&format!("listening at {tcp:?} and {udp:?}"), || {
            tcp.iter().all(|port| listens("tcp", *port, "0A"))
                && udp.iter().all(|port| listens("udp", *port, "07"))
        });
    }

    /// Waits for the end; a command that hangs is killed, and the test fails.
    #[track_caller]
    pub fn wait(mut self) -> Ended {
        let mut child = self.child.take().expect("not waited for yet");
        let until = Instant::now() + LIMIT;
        let status = loop {
            if let Some(status) = child.try_wait().expect("a child can be waited for") {
                break status;
            }
            if Instant::now() > until {
                let _ = child.kill();
                panic!("thalweg did not end within {LIMIT:?}");
            }
            std::thread::sleep(CHECK_EVERY);
        };
        let [out, error] = [self.out.take(), self.error.take()]
            .map(|output| output.map_or_else(String::new, Output::into_text));
        Ended { code: status.code(), out, error }
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        if let Some(mut child) = self.child.take() {
            let _ = child.kill();
            let _ = child.wait();
        }
    }
}

/// Runs the binary to its end.
pub fn thalweg(arguments: &[&str]) -> Ended {
    Running::start(arguments).wait()
}

/// A number in a JSON object.
#[track_caller]
pub fn number(value: &Value, key: &str) -> u64 {
    value[key].as_u64().unwrap_or_else(|| panic!("`{key}` is a number in {value:#}"))
}

/// Triggers that the emulated boards of a run answered. They refuse those that wait too long for an answer on a busy machine.
#[track_caller]
pub fn accepted_triggers(summary: &Value) -> u64 {
    let events = &summary["events"];
    number(events, "triggers_offered") - number(events, "triggers_refused")
}

/// The run directory that a summary names.
#[track_caller]
pub fn run_directory(summary: &Value) -> String {
    summary["run_directory"].as_str().unwrap_or_else(|| panic!("a run directory in {summary:#}")).to_owned()
}

/// What must hold of every run whose senders report their totals.
#[track_caller]
pub fn assert_ledger_balances(summary: &Value) {
    assert_eq!(summary["ledger_closed"], true, "{summary:#}");
    if let Some(sent) = summary["hits_sent"].as_u64() {
        let (recorded, lost) = (number(summary, "hits_recorded"), number(summary, "hits_lost"));
        let left_out = number(summary, "hits_left_out");
        assert_eq!(sent + number(summary, "hits_continued"), recorded + left_out + lost, "{summary:#}");
    }
}
