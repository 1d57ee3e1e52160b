//! The thread that records received bytes as they came.

use std::sync::Arc;
use std::time::Duration;

use thalweg_data::ring::Downstream;
use thalweg_data::{Frames, SourceId};
use thalweg_record::RawWriter;

use super::{Ledgered, Signals};

const WAIT: Duration = Duration::from_millis(2);

/// Every source's frames, on loan, into one file.
pub(crate) struct RawRecorder {
    pub(crate) inlets: Vec<(Downstream<Frames>, Ledgered)>,
    pub(crate) writer: RawWriter,
}

impl RawRecorder {
    /// Writes until every reader has ended.
    pub(crate) fn run(mut self, signals: &Arc<Signals>) -> RawRecorder {
        let mut failed = false;
        loop {
            let mut wrote = false;
            for index in 0..self.inlets.len() {
                while let Some(mut frames) = self.inlets[index].0.receive() {
                    wrote = true;
                    self.take(index, &frames, &mut failed, signals);
                    frames.clear();
                    self.inlets[index].0.give_back(frames);
                }
            }
            if !wrote {
                if self.inlets.iter().all(|(inlet, _)| inlet.is_finished()) {
                    break;
                }
                std::thread::sleep(WAIT);
            }
        }
        if let Err(error) = self.writer.finish()
            && !failed
        {
            signals.fail(error.to_string());
        }
        for (index, (_, account)) in self.inlets.iter().enumerate() {
            account.publish(self.writer.tally(SourceId(index as u16)));
        }
        self
    }

    fn take(&mut self, index: usize, frames: &Frames, failed: &mut bool, signals: &Signals) {
        let source = SourceId(index as u16);
        let account = &mut self.inlets[index].1;
        if let Some(number) = frames.header.snapshot {
            account.snapshot(number, self.writer.tally(source));
            return;
        }
        if let Err(error) = self.writer.write(frames)
            && !std::mem::replace(failed, true)
        {
            signals.fail(error.to_string());
        }
        account.publish_at(frames.header.mark.0, self.writer.tally(source));
    }
}
