//! The keeper thread of one device: checks that the device is there, and reads its registers.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use thalweg_readout::RunClock;
use thalweg_record::Reading;

use super::{Shared, Values, lock};
use crate::config::SeriesSettings;
use crate::error::RunError;
use crate::pipeline::{Signals, joined};
use crate::plan::Placement;
use crate::plan::thread_names;

/// The interval at which it checks that its device is there.
const SERVICE_EVERY: Duration = Duration::from_secs(1);

/// A thread that keeps a device; dropping it ends the thread.
pub(crate) struct Keeper {
    ends: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
}

/// A register to read, and the time of its next reading.
struct Due {
    settings: SeriesSettings,
    at: Instant,
    /// It could not be read the last time, which was said.
    is_missed: bool,
}

impl Keeper {
    /// Keeps a device, reading those of `series` that are `of` it.
    ///
    /// # Errors
    /// When the system gives no thread.
    pub(crate) fn start(
        (of, control): (&str, Shared),
        series: &[SeriesSettings],
        values: &Arc<Values>,
        clock: RunClock,
        placement: &Placement,
    ) -> Result<Keeper, RunError> {
        let (ends, values) = (Arc::new(AtomicBool::new(false)), values.clone());
        let ending = ends.clone();
        let now = Instant::now();
        let (own, of) = (series.iter().filter(|each| each.of == of), of.to_owned());
        let due: Vec<Due> =
            own.map(|each| Due { settings: each.clone(), at: now, is_missed: false }).collect();
        let work = move || keep((&of, &control), due, &values, clock, &ending);
        let thread = std::thread::Builder::new().name(thread_names::KEEPER.to_owned());
        let started = placement.at(thread_names::KEEPER, || thread.spawn(work))?;
        let thread =
            started.map_err(|cause| RunError::Thread { name: thread_names::KEEPER.to_owned(), cause })?;
        Ok(Keeper { ends, thread: Some(thread) })
    }
}

impl Keeper {
    /// Ends the thread; that it panicked is a failure of the run.
    pub(crate) fn finish(mut self, signals: &Signals) {
        if let Some(thread) = self.end() {
            joined(thread, signals);
        }
    }

    fn end(&mut self) -> Option<JoinHandle<()>> {
        self.ends.store(true, Ordering::Release);
        self.thread.take().inspect(|thread| thread.thread().unpark())
    }
}

impl Drop for Keeper {
    fn drop(&mut self) {
        if let Some(thread) = self.end() {
            // The run did not come to its end: there is a reason already, whatever the thread reports.
            let _panicked = thread.join();
        }
    }
}

fn keep(
    (of, control): (&str, &Shared),
    mut due: Vec<Due>,
    values: &Values,
    clock: RunClock,
    ending: &AtomicBool,
) {
    let mut service_at = Instant::now() + SERVICE_EVERY;
    while !ending.load(Ordering::Acquire) {
        let now = Instant::now();
        if now >= service_at {
            service_at = now + SERVICE_EVERY;
            if let Some(news) = lock(control).service() {
                tracing::warn!("\"{of}\", {news}");
                values.note_news(of, clock.mark().0, &news);
            }
        }
        for each in &mut due {
            if now >= each.at && !ending.load(Ordering::Acquire) {
                values.add(each.read(control, clock));
                // Readings that were missed are not made up for.
                let every = Duration::from_secs_f64(each.settings.every_s);
                each.at = (each.at + every).max(Instant::now());
            }
        }
        let next = due.iter().map(|each| each.at).fold(service_at, Instant::min);
        std::thread::park_timeout(next.saturating_duration_since(Instant::now()));
    }
}

impl Due {
    fn read(&mut self, control: &Shared, clock: RunClock) -> Reading {
        let SeriesSettings { name, path, .. } = &self.settings;
        let text = lock(control).get(path).map_err(|error| error.to_string());
        let value = text.and_then(|text| {
            let number = self.settings.value_of(&text);
            number.ok_or_else(|| format!("`{path}` reads \"{text}\", which is no number"))
        });
        match &value {
            Err(words) if !self.is_missed => {
                tracing::warn!("series \"{name}\" is unknown: {words}; it is tried again");
            }
            Ok(value) if self.is_missed => tracing::info!("series \"{name}\" is read again: {value}"),
            _ => {}
        }
        self.is_missed = value.is_err();
        Reading { time_ns: clock.mark().0, series: name.clone(), value: value.ok() }
    }
}
