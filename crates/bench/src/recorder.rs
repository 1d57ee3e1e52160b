//! The thread that records what a bench builds, as in a run: batches of events go round between builder and files.
//!
//! ```text
//!  Building ─ Events ══► EventWriter ─► events.arrows, fragments.arrows      begin ··· finish: everything is on file
//!      ▲═════ cleared ════╝
//!                  or ══► as many bytes, all out of one buffer ─► bytes        what any recording costs at least
//! ```

use std::fs::File;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::thread::JoinHandle;
use std::time::Duration;

use thalweg_data::ring::{Downstream, Upstream, circuit};
use thalweg_data::{EventSink, Events, SourceError};
use thalweg_record::{EventFiles, EventWriter, Settings};

use thalweg_run::bench::EVENT_BATCHES;

const WAIT: Duration = Duration::from_millis(20);
/// Bytes per raw write: well inside a second-level cache.
const RAW_WRITE_BYTES: usize = 256 << 10;

/// The way in which the thread keeps events.
#[derive(Clone, Debug)]
pub(super) enum Keeping {
    /// In the tables of a run.
    Tables(Box<Settings>),
    /// As many bytes as their payload has, from one buffer: no table, no checksum, nothing but the system's writing.
    RawWrite,
}

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
    /// Begins a recording of `boards` boards in a new folder below `parent`.
    pub(super) fn begin(parent: &Path, keeping: &Keeping, boards: u16) -> Result<Recorder, SourceError> {
        let folder = parent.join(format!("thalweg-bench-record-{}", std::process::id()));
        std::fs::create_dir_all(&folder).map_err(|cause| failed(&folder, cause))?;
        let mut keeper = Keeper::create(&folder, keeping, boards)?;
        let (outlet, mut inlet) = circuit(EVENT_BATCHES, Events::default);
        let place = folder.clone();
        let work = move || keeper.keep(&mut inlet).map_err(|message| failed(&place, message));
        let thread = std::thread::Builder::new().name("record".to_owned()).spawn(work);
        let thread = thread.map_err(|cause| failed(&folder, cause))?;
        Ok(Recorder { outlet, thread, folder })
    }

    /// Passes a batch on, waiting for an empty one.
    pub(super) fn take(&mut self, events: &mut Events) {
        if !self.outlet.exchange(events) {
            // The recording has failed, which its end reports.
            events.clear();
        }
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

/// The destination of events.
enum Keeper {
    Tables(Box<EventWriter>),
    RawWrite { file: File, buffer: Vec<u8>, events: u64 },
}

impl Keeper {
    fn create(folder: &Path, keeping: &Keeping, boards: u16) -> Result<Keeper, SourceError> {
        let names: Vec<String> = (0..boards).map(|board| format!("board {board}")).collect();
        match keeping {
            Keeping::Tables(settings) => {
                EventWriter::create(&EventFiles::in_directory(folder, None), settings, &names, true)
                    .map(|writer| Keeper::Tables(Box::new(writer)))
                    .map_err(|error| failed(folder, error))
            }
            Keeping::RawWrite => {
                let file = File::create(folder.join("bytes")).map_err(|cause| failed(folder, cause))?;
                Ok(Keeper::RawWrite { file, buffer: vec![0x5a; RAW_WRITE_BYTES], events: 0 })
            }
        }
    }

    /// Keeps all that comes; returns the events on file.
    fn keep(&mut self, inlet: &mut Downstream<Events>) -> Result<u64, String> {
        while !inlet.is_finished() {
            let Some(mut events) = inlet.receive_wait(WAIT) else { continue };
            self.take(&events)?;
            events.clear();
            inlet.give_back(events);
        }
        match self {
            Keeper::Tables(writer) => {
                writer.finish().map_err(|error| error.to_string())?;
                Ok(writer.events_on_file())
            }
            Keeper::RawWrite { file, events, .. } => {
                file.sync_data().map_err(|cause| cause.to_string())?;
                Ok(*events)
            }
        }
    }

    fn take(&mut self, batch: &Events) -> Result<(), String> {
        match self {
            Keeper::Tables(writer) => writer.write(batch).map_err(|error| error.to_string()),
            Keeper::RawWrite { file, buffer, events } => {
                *events += batch.events.len() as u64;
                let mut left = batch.events.iter().map(|event| event.bytes as usize).sum::<usize>();
                while left > 0 {
                    let bytes = &buffer[..left.min(buffer.len())];
                    file.write_all(bytes).map_err(|cause| cause.to_string())?;
                    left -= bytes.len();
                }
                Ok(())
            }
        }
    }
}
