//! The recording of received bytes: one thread and one file, whichever path the bytes take.

use thalweg_data::ring::{Downstream, Upstream, circuit};
use thalweg_data::{Frames, SourceId, Unit};
use thalweg_record::{RawSource, RawWriter, Table};

use super::Site;
use crate::error::RunError;
use crate::pipeline::{Ledgered, RawRecorder, Recorded, RecordingState};
use crate::plan::thread_names;

/// The readers' ends of the raw recording, while sources are being opened.
pub(super) struct RawLinks {
    keeps: bool,
    inlets: Vec<Downstream<Frames>>,
    slots: Vec<(SourceId, Ledgered)>,
    described: Vec<RawSource>,
}

impl RawLinks {
    /// Links that lead somewhere if the configuration keeps raw bytes.
    pub(super) fn new(keeps: bool) -> RawLinks {
        RawLinks { keeps, inlets: Vec::new(), slots: Vec::new(), described: Vec::new() }
    }

    /// The end for one receiving thread, by its name, and its sources, or `None` when raw bytes are not kept.
    pub(super) fn link(
        &mut self,
        site: &Site<'_>,
        reader: &str,
        sources: &[RawSource],
    ) -> Option<Upstream<Frames>> {
        if !self.keeps {
            return None;
        }
        let (up, down) = circuit(site.claims.ring(reader, thread_names::RAW), Frames::default);
        for source in sources {
            let units = if source.stream { &[Unit::Bytes][..] } else { &[Unit::Datagrams, Unit::Bytes] };
            let id = SourceId(source.source);
            let node = format!("raw {}", site.source_table.entry_of(id));
            self.slots.push((id, site.slot_of(&node, id, units)));
        }
        self.described.extend_from_slice(sources);
        self.inlets.push(down);
        Some(up)
    }

    /// The thread's work, if there is any.
    ///
    /// # Errors
    /// When the file cannot be made.
    pub(super) fn recorder(self, site: &Site<'_>) -> Result<Option<RawRecorder>, RunError> {
        if self.inlets.is_empty() {
            return Ok(None);
        }
        let path = site.directory.table(Table::Raw);
        let create = || RawWriter::create(&path, &site.configuration.record, &self.described);
        let writer = site.writer(create)?;
        let recording = RecordingState::new(Recorded::Raw, &site.configuration.record);
        Ok(Some(RawRecorder::new(self.inlets, self.slots, (writer, recording))))
    }
}
