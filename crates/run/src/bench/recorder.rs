//! The thread that records what a bench builds, as in a run: batches of events go round between builder and files.
//!
//! ```text
//!  Building ─ Events ══► EventWriter ─► events.arrows, fragments.arrows      begin ··· finish: everything is on file
//!      ▲═════ cleared ════╝
//! ```

use std::path::{Path, PathBuf};
use std::thread::JoinHandle;
use std::time::Duration;

use thalweg_data::ring::{Downstream, Upstream, circuit};
use thalweg_data::{EventSink, Events, SourceError};
use thalweg_record::{EventFiles, EventWriter, Settings};

use crate::pipeline::EVENT_BATCHES;

const WAIT: Duration = Duration::from_millis(20);

/// One recording, of one turn of a bench.
pub(super) struct Recorder {
    outlet: Upstream<Events>,
    thread: JoinHandle<Result<u64, SourceError>>,
    folder: PathBuf,
}

fn failed(place: &Path, message: impl ToString) -> SourceError {
    SourceError { place: place.display().to_string(), message: message.to_string() }
}

impl Recorder {
    /// Begins a recording of so many boards in a new folder below `parent`.
    pub(super) fn begin(parent: &Path, settings: &Settings, boards: u16) -> Result<Recorder, SourceError> {
        let folder = parent.join(format!("thalweg-bench-record-{}", std::process::id()));
        std::fs::create_dir_all(&folder).map_err(|cause| failed(&folder, cause))?;
        let names: Vec<String> = (0..boards).map(|board| format!("board {board}")).collect();
        let writer = EventWriter::create(&EventFiles::in_directory(&folder, None), settings, &names, true)
            .map_err(|error| failed(&folder, error))?;
        let (outlet, inlet) = circuit(EVENT_BATCHES, Events::default);
        let place = folder.clone();
        let work = move || record(inlet, writer, &place);
        let thread = std::thread::Builder::new().name("record".to_owned()).spawn(work);
        let thread = thread.map_err(|cause| failed(&folder, cause))?;
        Ok(Recorder { outlet, thread, folder })
    }

    /// Passes a batch on, waiting for an empty one.
    pub(super) fn take(&mut self, events: &mut Events) {
        while !self.outlet.is_closed() {
            if let Some(mut batch) = self.outlet.empty_wait(WAIT) {
                std::mem::swap(&mut batch, events);
                self.outlet.send(batch);
                return;
            }
        }
        // The recording has failed, which its end tells.
        events.clear();
    }

    /// Waits until everything is on file; returns the events there. The folder stays until [`Recorder::remove`].
    pub(super) fn finish(self) -> Result<(u64, PathBuf), SourceError> {
        let Recorder { outlet, thread, folder } = self;
        drop(outlet);
        let result = thread.join().unwrap_or_else(|_| Err(failed(&folder, "the recording thread panicked")));
        Ok((result?, folder))
    }

    /// Removes the files of a recording.
    pub(super) fn remove(folder: &Path) -> Result<(), SourceError> {
        std::fs::remove_dir_all(folder).map_err(|cause| failed(folder, cause))
    }
}

fn record(mut inlet: Downstream<Events>, mut writer: EventWriter, place: &Path) -> Result<u64, SourceError> {
    while !inlet.is_finished() {
        let Some(mut events) = inlet.receive_wait(WAIT) else { continue };
        writer.write(&events).map_err(|error| failed(place, error))?;
        events.clear();
        inlet.give_back(events);
    }
    writer.finish().map_err(|error| failed(place, error))?;
    Ok(writer.events_on_file())
}
