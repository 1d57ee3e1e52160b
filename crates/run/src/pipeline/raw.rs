//! The thread that records received bytes as they came.

use std::sync::Arc;
use std::time::Duration;

use thalweg_data::ring::Downstream;
use thalweg_data::{Frames, SourceId};
use thalweg_record::RawWriter;

use super::{Ledgered, Signals};

const WAIT: Duration = Duration::from_millis(2);

/// Frames of every source, on loan, into one file.
pub(crate) struct RawRecorder {
    /// One per thread that receives.
    inlets: Vec<Downstream<Frames>>,
    /// By the source's number.
    accounts: Vec<Option<Ledgered>>,
    pub(crate) writer: RawWriter,
    failed: bool,
}

impl RawRecorder {
    pub(crate) fn new(
        inlets: Vec<Downstream<Frames>>,
        sources: Vec<(SourceId, Ledgered)>,
        writer: RawWriter,
    ) -> RawRecorder {
        let mut accounts = Vec::new();
        for (source, account) in sources {
            accounts.resize_with(accounts.len().max(source.index() + 1), || None);
            accounts[source.index()] = Some(account);
        }
        RawRecorder { inlets, accounts, writer, failed: false }
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
        if let Err(error) = self.writer.finish()
            && !self.failed
        {
            signals.fail(error.to_string());
        }
        for (index, account) in self.accounts.iter().enumerate() {
            if let Some(account) = account {
                account.publish(self.writer.tally(SourceId(index as u16)));
            }
        }
        self
    }

    fn take(&mut self, frames: &Frames, signals: &Signals) {
        let source = frames.header.source;
        let account =
            self.accounts[source.index()].as_mut().expect("only sources with an account are linked");
        if let Some(number) = frames.header.snapshot {
            account.snapshot(number, self.writer.tally(source));
            return;
        }
        if let Err(error) = self.writer.write(frames)
            && !std::mem::replace(&mut self.failed, true)
        {
            signals.fail(error.to_string());
        }
        account.publish_at(frames.header.mark.0, self.writer.tally(source));
    }
}
