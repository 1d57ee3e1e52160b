//! `[notify]`: who is notified of alarms.
//!
//! ```text
//!  Change ─► log
//!     └─► queue of 64 ─► thread ─┬► webhook: POST, a few times
//!                                └► command: the text on its standard input
//! ```
//! Sending never waits: when the queue is full, the change is in the log and on the page, and the message is counted as dropped.

use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, RecvTimeoutError, SyncSender, sync_channel};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use thalweg_transport::http::{HttpClient, HttpSettings, parse_url};

use super::rule::{AlarmError, Level};
use super::watch::Change;

/// Changes that may wait to be reported.
const QUEUE: usize = 64;
/// How often the thread looks whether it is to end.
const CHECK_EVERY: Duration = Duration::from_millis(50);
/// What is still in the queue at the end is reported for no longer than this.
const AT_END: Duration = Duration::from_secs(5);
/// The pause between two attempts doubles from the second on, from this …
const LEAST_PAUSE: Duration = Duration::from_millis(10);
/// … up to this, …
const LONGEST_PAUSE: Duration = Duration::from_secs(60);
/// … and while the program ends, up to this.
const LONGEST_PAUSE_AT_END: Duration = Duration::from_millis(500);

/// Who is notified.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct NotifySettings {
    /// An address, http:// or https://, that each change is posted to, as JSON.
    pub webhook: Option<String>,
    /// PEM file of the authority that signed the certificate of an https webhook, relative to the configuration; without it, the
    /// authorities that this host trusts.
    pub tls_ca: Option<PathBuf>,
    /// A program and its arguments; it gets the text on its standard input, as `["mail", "-s", "thalweg", "shift@lab.example"]`.
    pub command: Option<Vec<String>>,
    /// Changes of a lower level are not reported.
    pub level: Level,
    /// One attempt takes at most so long, seconds.
    #[schemars(range(min = 0.1, max = 60.0))]
    pub timeout_s: f64,
    /// After so many attempts to post or to run the command it is an error in the log; attempts go on until one succeeds.
    #[schemars(range(min = 1, max = 10))]
    pub attempts: u32,
    /// The pause before the second attempt, seconds; it doubles from one to the next, up to a minute.
    #[schemars(range(min = 0.0, max = 60.0))]
    pub pause_s: f64,
}

impl Default for NotifySettings {
    fn default() -> NotifySettings {
        let (level, timeout_s) = (Level::Warning, 5.0);
        NotifySettings {
            webhook: None,
            tls_ca: None,
            command: None,
            level,
            timeout_s,
            attempts: 3,
            pause_s: 1.0,
        }
    }
}

impl NotifySettings {
    /// Whether these can be meant.
    ///
    /// # Errors
    /// What was found, and what to write.
    pub fn check(&self) -> Result<(), AlarmError> {
        let refuse = |message: &str| Err(AlarmError::Notify(message.to_owned()));
        if self.command.as_ref().is_some_and(|command| command.first().is_none_or(String::is_empty)) {
            return refuse("command begins with the name of a program; without it, take the key out");
        }
        if !(0.1..=60.0).contains(&self.timeout_s) || !(0.0..=60.0).contains(&self.pause_s) {
            return refuse("timeout_s is 0.1 to 60 and pause_s 0 to 60");
        }
        if !(1..=10).contains(&self.attempts) {
            return refuse("attempts is 1 to 10");
        }
        self.webhook.as_deref().map(|url| self.client(url)).transpose().map(drop)
    }

    /// Takes paths as they are meant in a configuration file: relative to its folder.
    pub fn relative_to(&mut self, folder: &Path) {
        self.tls_ca = self.tls_ca.take().map(|path| folder.join(path));
    }

    /// The client of the webhook at `url`.
    fn client(&self, url: &str) -> Result<HttpClient, AlarmError> {
        let timeout = Duration::from_secs_f64(self.timeout_s);
        let tls_ca = self.tls_ca.clone();
        let settings = HttpSettings { connect_timeout: timeout, timeout, tls_ca, look_up_once: false };
        let client = parse_url(url).and_then(|url| HttpClient::new(url, settings));
        client.map_err(|cause| AlarmError::Notify(format!("webhook = \"{url}\": {cause}")))
    }
}

/// How sending went.
#[derive(Debug, Default)]
struct Counts {
    sent: AtomicU64,
    failed: AtomicU64,
    dropped: AtomicU64,
}

/// One way out, with a thread and a queue of its own: a mail program that hangs holds no webhook up.
#[derive(Debug)]
struct Route {
    queue: Option<SyncSender<Change>>,
    thread: Option<JoinHandle<()>>,
}

/// Sends alarms, on threads of its own.
#[derive(Debug)]
pub struct Notifier {
    level: Level,
    routes: Vec<Route>,
    counts: Arc<Counts>,
    stop: Arc<AtomicBool>,
}

impl Notifier {
    /// A notifier; without webhook and command it only writes the log.
    ///
    /// # Errors
    /// When the settings are invalid, or a thread cannot be started.
    pub fn start(settings: &NotifySettings) -> Result<Notifier, AlarmError> {
        settings.check()?;
        let (counts, stop) = (Arc::new(Counts::default()), Arc::new(AtomicBool::new(false)));
        let mut notifier = Notifier { level: settings.level, routes: Vec::new(), counts, stop };
        if let Some(url) = &settings.webhook {
            notifier.add(Destination::Webhook(settings.client(url)?), settings)?;
        }
        if let Some(command) = settings.command.clone() {
            notifier.add(Destination::Command(command), settings)?;
        }
        Ok(notifier)
    }

    fn add(&mut self, to: Destination, settings: &NotifySettings) -> Result<(), AlarmError> {
        let (queue, changes) = sync_channel(QUEUE);
        let sender = Sender {
            to,
            settings: settings.clone(),
            counts: self.counts.clone(),
            stop: self.stop.clone(),
            ends_at: None,
        };
        let spawned =
            std::thread::Builder::new().name("alarms".to_owned()).spawn(move || sender.run(&changes));
        let failed =
            |cause| AlarmError::Notify(format!("the thread that sends alarms could not be started: {cause}"));
        self.routes.push(Route { queue: Some(queue), thread: Some(spawned.map_err(failed)?) });
        Ok(())
    }

    /// Sends a change. Never waits.
    pub fn send(&self, change: &Change) {
        match (change.raised, change.alarm.level) {
            (true, Level::Error) => tracing::error!("{change}"),
            (true, Level::Warning) => tracing::warn!("{change}"),
            _ => tracing::info!("{change}"),
        }
        if change.alarm.level < self.level {
            return;
        }
        for queue in self.routes.iter().filter_map(|route| route.queue.as_ref()) {
            if queue.try_send(change.clone()).is_err() {
                self.counts.dropped.fetch_add(1, Ordering::Relaxed);
                tracing::warn!("{QUEUE} changes of alarms wait to be reported; this one is not: {change}");
            }
        }
    }

    /// Of each webhook and command together: changes that were reported, that were not within their attempts (and are tried again), and
    /// that will not be reported because too many waited or the program ended.
    pub fn counts(&self) -> [u64; 3] {
        let Counts { sent, failed, dropped } = &*self.counts;
        [sent, failed, dropped].map(|count| count.load(Ordering::Relaxed))
    }
}

impl Drop for Notifier {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Release);
        for route in &mut self.routes {
            drop(route.queue.take());
        }
        for route in &mut self.routes {
            if route.thread.take().is_some_and(|thread| thread.join().is_err()) {
                tracing::error!("the thread that sends alarms had failed");
            }
        }
    }
}

/// Where a change is reported.
enum Destination {
    Webhook(HttpClient),
    Command(Vec<String>),
}

impl Destination {
    fn send(&self, change: &Change, timeout: Duration) -> Result<(), String> {
        match self {
            Destination::Webhook(client) => {
                let body = serde_json::to_vec(change).map_err(|cause| cause.to_string())?;
                client.post_json(&body).map_err(|cause| format!("{}: {cause}", client.url()))
            }
            Destination::Command(command) => run(command, &format!("{change}\n"), change, timeout),
        }
    }
}

struct Sender {
    to: Destination,
    settings: NotifySettings,
    counts: Arc<Counts>,
    stop: Arc<AtomicBool>,
    /// Once it has been asked to stop.
    ends_at: Option<Instant>,
}

impl Sender {
    fn run(mut self, changes: &Receiver<Change>) {
        loop {
            let change = match changes.recv_timeout(CHECK_EVERY) {
                Ok(change) => change,
                Err(RecvTimeoutError::Timeout) => continue,
                Err(RecvTimeoutError::Disconnected) => return,
            };
            let counter = if self.send(&change) { &self.counts.sent } else { &self.counts.dropped };
            counter.fetch_add(1, Ordering::Relaxed);
        }
    }

    /// Whether the end has come for a change that was tried so often: at the end, what waits is reported for a while, and what has failed
    /// often enough before does not hold it up.
    fn is_over(&mut self, attempts: u32) -> bool {
        if self.ends_at.is_none() && self.stop.load(Ordering::Acquire) {
            self.ends_at = Some(Instant::now() + AT_END);
        }
        self.ends_at.is_some_and(|end| Instant::now() > end || attempts >= self.settings.attempts)
    }

    /// Reports a change until it is taken, or the program has ended: an alarm that nobody knows of is not over.
    fn send(&mut self, change: &Change) -> bool {
        let timeout = Duration::from_secs_f64(self.settings.timeout_s);
        let mut pause = Duration::from_secs_f64(self.settings.pause_s);
        let mut attempts = 0_u32;
        while !self.is_over(attempts) {
            let Err(failure) = self.to.send(change, timeout) else {
                if attempts >= self.settings.attempts {
                    tracing::info!("an alarm was reported after {} attempts: {change}", attempts + 1);
                }
                return true;
            };
            attempts = attempts.saturating_add(1);
            if attempts == self.settings.attempts {
                self.counts.failed.fetch_add(1, Ordering::Relaxed);
                tracing::error!(
                    "an alarm could not be reported in {attempts} attempt(s): {failure}; it is tried again until it goes, see [notify]"
                );
            }
            self.wait(pause);
            pause = (pause * 2).clamp(LEAST_PAUSE, LONGEST_PAUSE);
        }
        if attempts < self.settings.attempts {
            self.counts.failed.fetch_add(1, Ordering::Relaxed);
        }
        tracing::error!("the program ends, and an alarm was not reported: {change}; see [notify]");
        false
    }

    /// Waits between two attempts; while the program ends, not for long.
    fn wait(&self, pause: Duration) {
        let start = Instant::now();
        let is_stopping = || self.stop.load(Ordering::Acquire);
        while start.elapsed() < if is_stopping() { pause.min(LONGEST_PAUSE_AT_END) } else { pause } {
            std::thread::sleep(CHECK_EVERY.min(pause));
        }
    }
}

/// Runs the command with the text on its standard input, and waits for it.
fn run(command: &[String], text: &str, change: &Change, timeout: Duration) -> Result<(), String> {
    let program = &command[0];
    let mut child = Command::new(program)
        .args(&command[1..])
        .env("THALWEG_ALARM", &change.alarm.name)
        .env("THALWEG_ALARM_RAISED", if change.raised { "1" } else { "0" })
        .stdin(Stdio::piped())
        .stdout(Stdio::null())
        .spawn()
        .map_err(|cause| format!("{program}: {cause}"))?;
    if let Some(mut input) = child.stdin.take() {
        // A rule's texts are far shorter than what a pipe takes (64 KiB), so this does not wait; a program may close it unread.
        let _ = input.write_all(&text.as_bytes()[..text.floor_char_boundary(16 << 10)]);
    }
    let deadline = Instant::now() + timeout;
    loop {
        match child.try_wait() {
            Ok(Some(status)) if status.success() => return Ok(()),
            Ok(Some(status)) => return Err(format!("{program}: {status}")),
            Ok(None) if Instant::now() < deadline => std::thread::sleep(Duration::from_millis(10)),
            Ok(None) => return Err(format!("{program}: not done in time, and ended{}", end(&mut child))),
            Err(cause) => return Err(format!("{program}: {cause}")),
        }
    }
}

fn end(child: &mut Child) -> String {
    match child.kill().and_then(|()| child.wait()) {
        Ok(_) => String::new(),
        Err(cause) => format!("; it could not be ended: {cause}"),
    }
}

#[cfg(test)]
mod tests {
    use std::io::{BufRead, BufReader, Read};
    use std::net::TcpListener;

    use serde_json::{Value, json};

    use super::*;
    use crate::alarm::{Alarms, Rule};
    use crate::state::{LiveState, SourceState};

    fn change() -> Change {
        let rule = json!({ "name": "loss", "quantity": "lost", "above": 0, "level": "error" });
        let rule: Rule = serde_json::from_value(rule).expect("a rule");
        let source = SourceState { name: "a".to_owned(), lost: 5, ..SourceState::default() };
        let state = LiveState { sources: vec![source], ..LiveState::default() };
        Alarms::new(&[rule]).expect("meant").sample(0.0, "2026-11-21T02:18:04Z", &state).remove(0)
    }

    fn settings(change: impl FnOnce(&mut NotifySettings)) -> NotifySettings {
        let mut settings = NotifySettings { pause_s: 0.01, timeout_s: 0.5, ..NotifySettings::default() };
        change(&mut settings);
        settings
    }

    fn wait(notifier: &Notifier, wanted: [u64; 3]) {
        let deadline = Instant::now() + Duration::from_secs(10);
        while notifier.counts() != wanted {
            assert!(Instant::now() < deadline, "{:?} is not {wanted:?}", notifier.counts());
            std::thread::sleep(Duration::from_millis(5));
        }
    }

    #[test]
    fn a_webhook_is_posted_to_until_it_accepts() {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
        let url = format!("http://{}/hook?a=b", listener.local_addr().expect("bound"));
        let server = std::thread::spawn(move || {
            let mut bodies = Vec::new();
            let no = "HTTP/1.1 500 No\r\n\r\n";
            for answer in [no, no, no, no, "HTTP/1.1 204 Yes\r\n\r\n"] {
                let (stream, _) = listener.accept().expect("a caller");
                let mut reader = BufReader::new(stream);
                let mut length = 0;
                for line in reader.by_ref().lines().map_while(Result::ok).take_while(|line| !line.is_empty())
                {
                    assert!(!line.starts_with("POST ") || line == "POST /hook?a=b HTTP/1.1", "{line}");
                    length = line
                        .to_lowercase()
                        .strip_prefix("content-length: ")
                        .map_or(length, |text| text.parse().expect("a number"));
                }
                let mut body = vec![0; length];
                reader.read_exact(&mut body).expect("a body");
                reader.get_mut().write_all(answer.as_bytes()).expect("taken");
                bodies.push(body);
            }
            bodies
        });
        let notifier = Notifier::start(&settings(|settings| settings.webhook = Some(url))).expect("started");
        notifier.send(&change());
        // It failed more often than `attempts`, which was said, and was said in the end.
        wait(&notifier, [1, 1, 0]);
        let bodies = server.join().expect("served");
        let said: Value = serde_json::from_slice(&bodies[4]).expect("JSON");
        assert_eq!(
            (&said["name"], &said["raised"], &said["value"]),
            (&json!("loss"), &json!(true), &json!(5.0))
        );
    }

    #[test]
    fn a_webhook_that_says_nothing_holds_nobody_up() {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
        let webhook = Some(format!("http://{}/", listener.local_addr().expect("bound")));
        let quick = settings(|settings| {
            (settings.webhook, settings.attempts, settings.timeout_s) = (webhook, 1, 0.2)
        });
        let notifier = Notifier::start(&quick).expect("started");
        let start = Instant::now();
        (0..200).for_each(|_| notifier.send(&change()));
        assert!(start.elapsed() < Duration::from_millis(500));
        assert!(notifier.counts()[2] > 100);
        wait(&notifier, [0, 1, notifier.counts()[2]]);
        drop(notifier);
        assert!(start.elapsed() < AT_END + Duration::from_secs(5));
    }

    #[test]
    fn a_command_gets_the_text() {
        let folder = tempfile::tempdir().expect("a directory");
        let file = folder.path().join("mail");
        let script = format!("cat > {0}.new; echo $THALWEG_ALARM >> {0}.new; mv {0}.new {0}", file.display());
        let command = vec!["sh".to_owned(), "-c".to_owned(), script];
        let notifier =
            Notifier::start(&settings(|settings| settings.command = Some(command))).expect("started");
        notifier.send(&change());
        drop(notifier);
        let text = std::fs::read_to_string(file).expect("written");
        assert!(text.starts_with("raised alarm \"loss\": lost is 5") && text.ends_with("loss\n"), "{text}");
    }

    #[test]
    fn a_webhook_that_is_down_does_not_hold_the_command_up() {
        let folder = tempfile::tempdir().expect("a directory");
        let file = folder.path().join("mail");
        let down = TcpListener::bind("127.0.0.1:0").expect("a port").local_addr().expect("bound");
        let settings = settings(|settings| {
            settings.webhook = Some(format!("http://{down}/"));
            settings.command =
                Some(vec!["sh".to_owned(), "-c".to_owned(), format!("cat > {}", file.display())]);
        });
        let notifier = Notifier::start(&settings).expect("started");
        notifier.send(&change());
        wait(&notifier, [1, 1, 0]);
        assert!(std::fs::read_to_string(&file).is_ok_and(|text| text.contains("loss")));
    }

    #[test]
    fn a_command_that_hangs_or_is_not_there_is_a_failure() {
        let with = |command: &[&str]| {
            let command = command.iter().map(|word| (*word).to_owned()).collect();
            let settings = settings(|settings| (settings.command, settings.attempts) = (Some(command), 2));
            let notifier = Notifier::start(&settings).expect("started");
            notifier.send(&change());
            wait(&notifier, [0, 1, 0]);
        };
        with(&["sleep", "100"]);
        with(&["/nonexistent/program"]);
        with(&["false"]);
    }

    #[test]
    fn invalid_settings_are_refused() {
        let message =
            |change: fn(&mut NotifySettings)| settings(change).check().expect_err("refused").to_string();
        let without = message(|settings| {
            (settings.webhook, settings.tls_ca) = (Some("https://x/".into()), Some("lab-ca.pem".into()));
            settings.relative_to(Path::new("/nonexistent"));
        });
        assert!(without.contains("`tls_ca = \"/nonexistent/lab-ca.pem\"`: No such file"), "{without}");
        assert!(message(|settings| settings.webhook = Some("x".into())).contains("http://"));
        assert!(message(|settings| settings.command = Some(Vec::new())).contains("name of a program"));
        assert!(message(|settings| settings.attempts = 0).contains("attempts"));
        assert!(message(|settings| settings.timeout_s = f64::NAN).contains("timeout_s"));
        assert!(NotifySettings::default().check().is_ok());
    }
}
