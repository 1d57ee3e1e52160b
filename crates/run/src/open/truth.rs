//! The truth of emulated boards: every hit that they emitted, in a file.

use std::path::Path;
use std::sync::{Arc, Mutex};

use thalweg_data::Hit;
use thalweg_readout::host::TruthSink;
use thalweg_record::{Compression, HitsFile, RecordError};

/// One file for the truth of several boards.
pub(crate) struct TruthFile(Arc<Mutex<HitsFile>>);

impl TruthFile {
    pub(crate) fn create(path: &Path) -> Result<TruthFile, RecordError> {
        Ok(TruthFile(Arc::new(Mutex::new(HitsFile::create(path, Compression::None, &[])?))))
    }

    /// Returns the sink for one board's hits; its channels are counted from `first_channel` on.
    pub(crate) fn sink(&self, first_channel: u16) -> TruthSink {
        let file = self.0.clone();
        let mut moved: Vec<Hit> = Vec::new();
        Box::new(move |hits| {
            moved.clear();
            moved.extend(
                hits.iter().map(|hit| Hit { channel: hit.channel.saturating_add(first_channel), ..*hit }),
            );
            let mut file = file.lock().unwrap_or_else(|poisoned| poisoned.into_inner());
            file.write(&moved).map_err(|error| error.to_string())
        })
    }

    /// Closes the file. The boards that wrote to it have ended.
    pub(crate) fn finish(self) -> Result<(), RecordError> {
        match Arc::into_inner(self.0) {
            Some(file) => {
                file.into_inner().unwrap_or_else(|poisoned| poisoned.into_inner()).finish().map(drop)
            }
            None => Ok(()),
        }
    }
}
