//! `page`: the cost of a page's viewer to the data path.
//!
//! ```text
//!  emulated board, 64 channels ─ UDP ─► receive ─► decode ─► time order, spectra, record      processor time of this thread
//!                                                     ▲ read ten times a second
//!                                    browser ─ HTTP ─► page
//! ```
//! The same run without and with a page that a browser looks at: the events of the state, and 64 energy spectra and a plane, ten times a
//! second. The figure is the processor time per second that the thread where the spectra are filled needs more with the page than without;
//! the baseline is what it needs without. The threads of the page stand beside.

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use thalweg_data::measure::{Clock, Measurement, median};

use super::{BenchError, Conditions};
use thalweg_run::config::Configuration;
use thalweg_run::serve::{MessageLog, Served, Subject};
use thalweg_run::supervise::{EndWhen, LiveState, RunHandle, Watch};
use thalweg_transport::{ThreadTimes, thread_times};

const CHANNELS: u16 = 64;
const RATE_HZ: f64 = 5e6;
/// The thread that orders, fills the spectra and records.
const FILLING: &str = "process";
/// The interval at which the page asks, as it does in a browser.
const EVERY: Duration = Duration::from_millis(100);
/// The first part of a run is not looked at: memory is touched for the first time.
const WARM_UP: Duration = Duration::from_millis(500);

/// Processor time of one run's threads, per second.
#[derive(Clone, Copy, Default)]
struct Cost {
    filling: f64,
    page: f64,
}

pub(super) fn page(conditions: &Conditions) -> Result<Measurement, BenchError> {
    let fail = |message: String| BenchError::Room { bench: "page", message };
    let folder = conditions.folder().join(format!("thalweg-page-{}", std::process::id()));
    let (mut without, mut with, mut more, mut beside) = (Vec::new(), Vec::new(), Vec::new(), Vec::new());
    let mut answers = 0;
    for _ in 0..conditions.repeats.max(1) {
        let alone = once(&folder, conditions.seconds, None).map_err(fail)?;
        let browser = Arc::new(Browser::default());
        let looked_at = once(&folder, conditions.seconds, Some(&browser)).map_err(fail)?;
        answers += browser.answers.load(Ordering::Relaxed);
        without.push(alone.filling);
        with.push(looked_at.filling);
        more.push(looked_at.filling - alone.filling);
        beside.push(looked_at.page);
    }
    if answers == 0 {
        return Err(fail("the page has not answered".to_owned()));
    }
    let (value, baseline_value) = (median(&mut more), median(&mut without));
    Ok(Measurement {
        bench: "page".to_owned(),
        value,
        unit: "of one core".to_owned(),
        baseline: "the same thread without a page".to_owned(),
        baseline_value,
        ratio: value / baseline_value,
        clock: Clock::Processor,
        cores: 2,
        repeats: conditions.repeats.max(1),
        ..Measurement::default()
    }
    .with("rate_hz", RATE_HZ)
    .with("channels", CHANNELS)
    .with("seconds", conditions.seconds)
    .with("answers", answers)
    .with("with_page", median(&mut with))
    .with("threads_of_the_page", median(&mut beside)))
}

/// Runs once, with or without a browser.
fn once(folder: &Path, seconds: f64, browser: Option<&Arc<Browser>>) -> Result<Cost, String> {
    let result = run(folder, seconds, browser);
    let cleaned = std::fs::remove_dir_all(folder).map_err(|error| format!("{}: {error}", folder.display()));
    result.and_then(|cost| cleaned.map(|()| cost))
}

fn run(folder: &Path, seconds: f64, browser: Option<&Arc<Browser>>) -> Result<Cost, String> {
    let text = format!(
        "[run]\ntitle = \"page\"\n[[source]]\nname = \"board\"\nformat = \"digitizer2\"\nurl = \"emulate://\"\n\
         [source.emulate]\nprepared = true\ntotal_rate_hz = {RATE_HZ:?}\n\
         [record]\ndirectory = {folder:?}\ntables = []\n[monitor]\nlisten = \"127.0.0.1:0\"\n"
    );
    let configuration = Configuration::parse(Path::new("(page)"), text).map_err(|error| error.to_string())?;
    let handle = RunHandle::new();
    let monitor = match browser {
        Some(_) => {
            let served =
                Served::new(Subject::Run(handle.clone()), configuration.clone(), MessageLog::default());
            Arc::new(served).start().map_err(|error| error.to_string())?
        }
        None => None,
    };
    let looking = browser.zip(monitor.as_ref()).map(|(browser, monitor)| browser.look(monitor.address()));
    let never = AtomicBool::new(false);
    let mut samples = Samples::default();
    let summary = {
        let mut show = |_: &Arc<LiveState>| samples.take();
        let mut watch = Watch { show: &mut show, stop: &never, handle };
        let end = EndWhen { seconds: Some(seconds), ..EndWhen::default() };
        thalweg_run::run(&configuration, end, &mut watch)
    };
    if let Some(browser) = browser {
        browser.is_gone.store(true, Ordering::Relaxed);
    }
    for looking in looking.into_iter().flatten() {
        looking.join().map_err(|_| "the browser failed".to_owned())?;
    }
    let summary = summary.map_err(|error| error.to_string())?;
    match summary.is_good() && summary.hits_lost == Some(0) {
        true => samples.cost(),
        false => Err(format!("the run lost hits: {}: {:?}", summary.loss.text(), summary.failures)),
    }
}

/// Processor time of all threads of this process, at two times.
#[derive(Default)]
struct Samples {
    begun: Option<Instant>,
    first: Option<(Instant, Vec<ThreadTimes>)>,
    last: Option<(Instant, Vec<ThreadTimes>)>,
}

impl Samples {
    fn take(&mut self) {
        let now = Instant::now();
        if now - *self.begun.get_or_insert(now) < WARM_UP {
            return;
        }
        let sample = Some((now, thread_times()));
        match self.first {
            None => self.first = sample,
            Some(_) => self.last = sample,
        }
    }

    fn cost(self) -> Result<Cost, String> {
        let (Some((start, before)), Some((end, after))) = (self.first, self.last) else {
            return Err("the run is too short to be looked at; give it more --seconds".to_owned());
        };
        let elapsed_s = (end - start).as_secs_f64();
        let of = |is_one: fn(&str) -> bool| {
            let sum = |sample: &[ThreadTimes]| -> f64 {
                sample.iter().filter(|thread| is_one(&thread.name)).map(|thread| thread.ran_s).sum()
            };
            (sum(&after) - sum(&before)) / elapsed_s
        };
        Ok(Cost { filling: of(|name| name == FILLING), page: of(|name| name.starts_with("monitor")) })
    }
}

/// A viewer of the page.
#[derive(Default)]
struct Browser {
    is_gone: AtomicBool,
    answers: std::sync::atomic::AtomicU64,
}

impl Browser {
    /// Begins to look, as the page does: its events, and the counts of what is drawn.
    fn look(self: &Arc<Browser>, address: SocketAddr) -> Vec<std::thread::JoinHandle<()>> {
        let (events, counts) = (self.clone(), self.clone());
        vec![
            std::thread::spawn(move || _ = events.follow_events(address)),
            std::thread::spawn(move || {
                while !counts.is_gone.load(Ordering::Relaxed) {
                    let asked = Instant::now();
                    _ = counts.ask_counts(address);
                    std::thread::sleep(EVERY.saturating_sub(asked.elapsed()));
                }
            }),
        ]
    }

    fn follow_events(&self, address: SocketAddr) -> std::io::Result<()> {
        let mut stream = request(address, "/api/events")?;
        let mut room = vec![0; 64 << 10];
        while !self.is_gone.load(Ordering::Relaxed) {
            match stream.read(&mut room) {
                Ok(0) => break,
                Ok(_) => {}
                Err(error) if error.kind() == std::io::ErrorKind::WouldBlock => {}
                Err(error) => return Err(error),
            }
        }
        Ok(())
    }

    fn ask_counts(&self, address: SocketAddr) -> std::io::Result<()> {
        // Energies are the first spectra, planes follow; there are no calibrated ones.
        let ids: Vec<String> = (0..=CHANNELS).map(|id| id.to_string()).collect();
        let mut stream = request(address, &format!("/api/spectra/counts?ids={}", ids.join(",")))?;
        let mut answer = Vec::new();
        stream.read_to_end(&mut answer)?;
        let is_answer = answer.starts_with(b"HTTP/1.1 200");
        self.answers.fetch_add(u64::from(is_answer), Ordering::Relaxed);
        Ok(())
    }
}

fn request(address: SocketAddr, path: &str) -> std::io::Result<TcpStream> {
    let mut stream = TcpStream::connect(address)?;
    stream.set_read_timeout(Some(Duration::from_millis(500)))?;
    write!(stream, "GET {path} HTTP/1.1\r\nHost: {address}\r\nConnection: close\r\n\r\n")?;
    Ok(stream)
}
