//! Starts the binary, waits for it with a limit, and hands back what it said.

use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, Instant};

use serde_json::Value;

/// No command of these tests may take longer, on a busy machine either.
const LIMIT: Duration = Duration::from_secs(120);

/// A folder of one test, removed when the test has passed.
pub struct Folder(PathBuf);

impl Folder {
    pub fn new() -> Folder {
        static COUNT: AtomicU32 = AtomicU32::new(0);
        let number = COUNT.fetch_add(1, Ordering::Relaxed);
        let name = format!("command-{}-{number}", std::process::id());
        let path = Path::new(env!("CARGO_TARGET_TMPDIR")).join(name);
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

/// A command that goes on while the test does.
pub struct Running(Option<Child>);

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
        let words = [through, &[env!("CARGO_BIN_EXE_thalweg")], arguments].concat();
        let child = Command::new(words[0])
            .args(&words[1..])
            .stdin(Stdio::null())
            .stdout(out)
            .stderr(error)
            .spawn()
            .expect("the binary starts");
        Running(Some(child))
    }

    pub fn id(&self) -> u32 {
        self.0.as_ref().expect("not waited for yet").id()
    }

    /// Sends a signal by its name, as `kill -NAME` does.
    pub fn signal(&self, name: &str) {
        let status = Command::new("kill").args([format!("-{name}"), self.id().to_string()]).status();
        assert!(status.is_ok_and(|status| status.success()), "the process is there");
    }

    /// Waits for the end; a command that hangs is killed, and the test fails.
    pub fn wait(mut self) -> Ended {
        let mut child = self.0.take().expect("not waited for yet");
        // Read on threads of their own, so that a full pipe holds nobody up.
        let readers = (child.stdout.take().map(read_all), child.stderr.take().map(read_all));
        let until = Instant::now() + LIMIT;
        let status = loop {
            if let Some(status) = child.try_wait().expect("a child can be waited for") {
                break status;
            }
            if Instant::now() > until {
                let _ = child.kill();
                panic!("thalweg did not end within {LIMIT:?}");
            }
            std::thread::sleep(Duration::from_millis(10));
        };
        let [out, error] = [readers.0, readers.1].map(|reader| {
            reader.map_or_else(String::new, |reader| reader.join().expect("reading does not panic"))
        });
        Ended { code: status.code(), out, error }
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        if let Some(mut child) = self.0.take() {
            let _ = child.kill();
            let _ = child.wait();
        }
    }
}

fn read_all(mut from: impl std::io::Read + Send + 'static) -> std::thread::JoinHandle<String> {
    std::thread::spawn(move || {
        let mut bytes = Vec::new();
        let _ = from.read_to_end(&mut bytes);
        String::from_utf8_lossy(&bytes).into_owned()
    })
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

/// The run directory that a summary names.
#[track_caller]
pub fn run_directory(summary: &Value) -> String {
    summary["run_directory"].as_str().unwrap_or_else(|| panic!("a run directory in {summary:#}")).to_owned()
}

/// What must hold of every run whose senders tell their totals.
#[track_caller]
pub fn assert_books_close(summary: &Value) {
    assert_eq!(summary["ledger_closed"], true, "{summary:#}");
    if let Some(sent) = summary["hits_sent"].as_u64() {
        let (recorded, lost) = (number(summary, "hits_recorded"), number(summary, "hits_lost"));
        assert_eq!(sent, recorded + lost, "{summary:#}");
    }
}
