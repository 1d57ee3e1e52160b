//! The thread that records events.

use std::ops::Range;
use std::sync::Arc;
use std::time::Duration;

use thalweg_data::ring::Downstream;
use thalweg_data::{EventSink, Events, SourceId};
use thalweg_record::OnFull;

use super::outcome::Outcome;
use super::{Ledgered, Recorded, Signals};

const WAIT: Duration = Duration::from_millis(20);

/// Built events, on loan, into their files.
pub(crate) struct EventRecorder<S> {
    inlet: Downstream<Events>,
    pub(crate) sink: S,
    outcome: Outcome,
    /// The account of the events themselves.
    events: Ledgered,
    /// Those of the sources' fragments, by source.
    sources: Vec<(SourceId, Ledgered)>,
}

impl<S: EventSink> EventRecorder<S> {
    pub(crate) fn new(
        inlet: Downstream<Events>,
        sink: S,
        on_full: OnFull,
        events: Ledgered,
        sources: (Range<u16>, Vec<Ledgered>),
    ) -> EventRecorder<S> {
        let sources = sources.0.map(SourceId).zip(sources.1).collect();
        let outcome = Outcome::new(Recorded::Events, on_full);
        EventRecorder { inlet, sink, outcome, events, sources }
    }

    /// Records until the builder has ended and its last batch is written.
    pub(crate) fn run(mut self, signals: &Arc<Signals>) -> EventRecorder<S> {
        while !self.inlet.is_finished() {
            let Some(mut events) = self.inlet.receive_wait(WAIT) else { continue };
            self.take(&events, signals);
            events.clear();
            self.inlet.give_back(events);
        }
        self.outcome.close(&mut self.sink, S::complete, S::finish, signals);
        self.events.publish(self.sink.tally());
        for (source, account) in &self.sources {
            account.publish(self.sink.source_tally(*source));
        }
        self
    }

    fn take(&mut self, events: &Events, signals: &Signals) {
        let header = events.header;
        let sink = &mut self.sink;
        let result = match events.events.is_empty() {
            true => sink.advance(header.mark),
            false => sink.write(events),
        };
        let result = if events.write_all { result.and_then(|()| sink.complete()) } else { result };
        self.outcome.on_result(result, signals);
        match header.snapshot {
            Some(number) => self.events.snapshot(number, self.sink.tally()),
            None => self.events.publish_at(header.mark.0, self.sink.tally()),
        }
        for (source, account) in &mut self.sources {
            let tally = self.sink.source_tally(*source);
            match header.snapshot {
                Some(number) => account.snapshot(number, tally),
                None => account.publish_at(header.mark.0, tally),
            }
        }
    }
}
