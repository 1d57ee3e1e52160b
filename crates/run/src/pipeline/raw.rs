//! The thread that records received bytes as they came.

use std::sync::Arc;
use std::time::Duration;

use thalweg_data::ring::Downstream;
use thalweg_data::{Frames, SourceId};
use thalweg_record::RawWriter;

use super::recording_state::RecordingState;
use super::{Ledgered, Signals};

const WAIT: Duration = Duration::from_millis(2);

/// Frames of every source, on loan, into one file.
pub(crate) struct RawRecorder {
    /// One per thread that receives.
    inlets: Vec<Downstream<Frames>>,
    /// The slots by the source's number.
    slots: Vec<Option<Ledgered>>,
    pub(crate) writer: RawWriter,
    recording: RecordingState,
}

impl RawRecorder {
    pub(crate) fn new(
        inlets: Vec<Downstream<Frames>>,
        sources: Vec<(SourceId, Ledgered)>,
        (writer, recording): (RawWriter, RecordingState),
    ) -> RawRecorder {
        let mut slots = Vec::new();
        for (source, slot) in sources {
            slots.resize_with(slots.len().max(source.index() + 1), || None);
            slots[source.index()] = Some(slot);
        }
        RawRecorder { inlets, slots, writer, recording }
    }

    /// Writes until every reader has ended.
    pub(crate) fn run(mut self, signals: &Arc<Signals>) -> RawRecorder {
        loop {
            let mut wrote = false;
            for index in 0..self.inlets.len() {
                while let Some(mut frames) = self.inlets[index].receive() {
                    wrote = true;
                    self.take(&frames, signals);
                    frames.clear();
                    self.inlets[index].give_back(frames);
                }
            }
            if !wrote {
                if self.inlets.iter().all(Downstream::is_finished) {
                    break;
                }
                std::thread::sleep(WAIT);
            }
        }
        self.recording.close(&mut self.writer, RawWriter::complete, RawWriter::finish, signals);
        for (index, slot) in self.slots.iter().enumerate() {
            if let Some(slot) = slot {
                slot.publish(self.writer.counters(SourceId(index as u16)));
            }
        }
        self
    }

    fn take(&mut self, frames: &Frames, signals: &Signals) {
        let source = frames.header.source;
        let slot = self.slots[source.index()].as_mut().expect("only sources with a counter slot are linked");
        if let Some(number) = frames.header.snapshot {
            slot.snapshot(number, self.writer.counters(source));
            return;
        }
        self.recording.on_result(self.writer.write(frames), signals);
        slot.publish_at(frames.header.mark.0, self.writer.counters(source));
    }
}
