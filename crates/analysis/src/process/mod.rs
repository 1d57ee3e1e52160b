//! What is done with ordered hits: cuts, coincidence, spectra.
//!
//! ```text
//!  ordered batch ─► Selector: cuts ─► coincidence ─► Selected: hits, pass, events ─► Processor: cuts on events ─► HitEvents
//!                                                                │                                     │
//!                                                                └─────────► spectra ◄─────────────────┘
//! ```
//! [`stages`] reads the configuration into the two halves: what the recording needs to know of a hit, and what needs the order, is found first; the
//! rest can be done on another thread. The batch itself flows on unchanged; what was found of its hits stands beside it.

mod selected;
mod selector;
mod settings;
#[cfg(test)]
mod tests;

use std::sync::Arc;

use thalweg_data::{Counters, HitEvents, Mark, SourceId, Unit};

pub use selected::Selected;
pub use selector::{MOST_MEMBERS, Selector};
pub use settings::{ProcessError, Settings};

use crate::channels::ChannelMap;
use crate::clocks::{ClockMonitor, ClockState};
use crate::coincide::Coincidence;
use crate::cut::{self, EventCuts, Passed};
use crate::hit_stage::{self, MadeStage};
use crate::pulse::{PulseStore, PulseTap};
use crate::spectrum::{Filler, SpectrumSet};
use crate::view::{Shown, View};

/// Hits that are looked at and filled in together: they stay in the second-level cache.
const CHUNK: usize = 2048;

/// The stages behind time order, and the spectra that they fill.
#[derive(Debug)]
pub struct Stages {
    /// What was added in front of all others.
    pub added: Vec<MadeStage>,
    /// What decides which hits are kept, and which belong together.
    pub selector: Selector,
    /// What is shown and kept of that.
    pub processor: Processor,
    /// The spectra, for readers.
    pub spectra: SpectrumSet,
    /// What is valid, and hardly meant.
    pub warnings: Vec<String>,
}

/// Spectra of one ordered stream, and the cuts on its events.
#[derive(Debug)]
pub struct Processor {
    map: Arc<ChannelMap>,
    cuts: EventCuts,
    filler: Filler,
    /// What of it is shown: changed while the run goes on.
    shown: Shown,
    view: View,
    /// The configuration has cuts on hits.
    cuts_hits: bool,
    clocks: Option<ClockMonitor>,
    pulses: PulseTap,
    pulse_store: PulseStore,
    /// Events through the cuts on events.
    kept_counters: Counters,
}

/// The stages that are configured. `sources` are the names of the sources of hits, by number.
///
/// # Errors
/// When a setting is invalid: what was found, and what to write.
pub fn stages(
    settings: &Settings,
    map: &Arc<ChannelMap>,
    sources: &[String],
) -> Result<Stages, ProcessError> {
    settings.clocks.check(sources)?;
    let added = hit_stage::make(&settings.stages)?;
    let makes_events = settings.coincidence.is_some();
    let coincidence =
        settings.coincidence.as_ref().map(|each| Coincidence::new(each, map, sources.len())).transpose()?;
    let (cuts, event_cuts) = cut::read(&settings.cuts, &settings.polygons, makes_events, map, sources.len())?;
    let path = settings.path(&cuts);
    let cuts_hits = path.cuts_hits;
    let (spectra, mut fillers) =
        SpectrumSet::new(&settings.spectra, &settings.own_spectra, &settings.polygons, map, path, 1)?;
    let view = View::new(map, &settings.cuts, &settings.polygons, spectra.shows())?;
    let (pulses, pulse_store) = PulseTap::new(&settings.pulses, &settings.polygons, map)?;
    let processor = Processor {
        map: map.clone(),
        cuts: event_cuts,
        filler: fillers.remove(0),
        shown: Shown::new(&view, sources.len()),
        view,
        cuts_hits,
        clocks: ClockMonitor::new(&settings.clocks, sources),
        pulses,
        pulse_store,
        kept_counters: Counters::default(),
    };
    let selector = Selector::new(map.clone(), cuts, processor.filler.word_maker(), coincidence);
    Ok(Stages { added, selector, processor, spectra, warnings: settings.warnings(map) })
}

impl Stages {
    /// Takes an ordered batch through both halves, on one thread. Returns the first failure of `each`, which is given the events that are kept.
    ///
    /// # Errors
    /// What `each` says.
    pub fn take<E>(
        &mut self,
        batch: &mut Selected,
        mut each: impl FnMut(&HitEvents) -> Result<(), E>,
    ) -> Result<(), E> {
        let Stages { selector, processor, .. } = self;
        let mut result = Ok(());
        selector.select(batch, |events| {
            let processed = processor.process_events(events, &mut each);
            result = std::mem::replace(&mut result, Ok(())).and(processed);
        });
        result.and(processor.process(batch, each))
    }

    /// Nothing follows: closes what is open, and brings everything up to what has happened.
    ///
    /// # Errors
    /// What `each` says.
    pub fn finish<E>(&mut self, each: impl FnOnce(&HitEvents) -> Result<(), E>) -> Result<(), E> {
        let mut events = HitEvents::default();
        self.selector.finish(&mut events);
        let result = self.processor.process_events(&mut events, each);
        self.processor.finish();
        self.settle();
        result
    }

    /// Brings all counters and the spectra up to what has happened.
    pub fn settle(&mut self) {
        self.selector.settle();
        self.processor.settle();
    }
}

impl Processor {
    /// Where the pulses are found that it takes out of the stream.
    pub fn pulse_store(&self) -> PulseStore {
        self.pulse_store.clone()
    }

    /// A source says how far its samples lie apart, nanoseconds.
    pub fn set_ns_per_sample(&mut self, source: SourceId, ns_per_sample: Option<f64>) {
        self.pulses.set_ns_per_sample(source, ns_per_sample);
    }

    /// Takes the next batch that was selected; `each` is given the events of it that the cuts on events keep. Returns its failure: whatever that
    /// is, every hit and every event goes through every stage.
    ///
    /// # Errors
    /// What `each` says.
    ///
    /// # Panics
    /// When the batch has not been through the [`Selector`].
    pub fn process<E>(
        &mut self,
        batch: &mut Selected,
        each: impl FnOnce(&HitEvents) -> Result<(), E>,
    ) -> Result<(), E> {
        let Selected { hits: batch, verdicts, words, events } = batch;
        let pass = verdicts.kept().map(|kept| kept.pass);
        if let Some(clocks) = &mut self.clocks {
            clocks.look(&batch.hits, &self.map);
        }
        self.follow_view(batch.header.mark);
        self.pulses.look(batch, self.shown.map());
        self.filler.begin(batch, &self.map);
        let (shows_hits, is_view_cut) = (self.shows_hits(), self.shown.has_cuts());
        let mut words = &mut words[..];
        for (index, hits) in batch.hits.chunks(CHUNK).enumerate() {
            let pass = pass.map(|pass| &pass[index * CHUNK..][..hits.len()]);
            let of_chunk;
            (of_chunk, words) = words.split_at_mut(if shows_hits { hits.len() } else { 0 });
            let (shown, map) = self.shown.look(hits, pass);
            if let Some(shown) = shown.filter(|_| is_view_cut) {
                of_chunk.iter_mut().zip(shown).for_each(|(word, shown)| word.set_kept(*shown != 0));
            }
            self.filler.fill(hits, of_chunk, shown, map);
        }
        self.process_events(events, each)
    }

    /// Takes events, and leaves those that the cuts on events keep.
    ///
    /// # Errors
    /// What `each` says.
    pub fn process_events<E>(
        &mut self,
        events: &mut HitEvents,
        each: impl FnOnce(&HitEvents) -> Result<(), E>,
    ) -> Result<(), E> {
        if events.events.is_empty() {
            return Ok(());
        }
        let made = events.events.len() as u64;
        self.cuts.cut(events, &self.map);
        let kept = events.events.len() as u64;
        self.kept_counters.input(Unit::Events, made);
        self.kept_counters.output(Unit::Events, kept);
        self.kept_counters.filtered(Unit::Events, made - kept);
        let (shown, map) = self.shown.look_at_members(&events.members);
        self.filler.fill_events(events, shown, map);
        each(events)
    }

    /// Nothing follows.
    pub fn finish(&mut self) {
        self.filler.finish();
        self.shown.finish();
    }

    /// Lets the moment of a mark pass without hits: what was asked of the spectra is done.
    pub fn rest(&mut self, mark: Mark) {
        self.follow_view(mark);
        self.filler.rest();
        self.filler.settle_due(mark);
    }

    fn follow_view(&mut self, mark: Mark) {
        if let Some(change) = self.shown.follow(mark.0) {
            self.filler.follow(&change, self.shown.map(), self.cuts_hits || self.shown.has_cuts());
        }
    }

    /// What is shown of it can be changed there.
    pub fn view(&self) -> View {
        self.view.clone()
    }

    /// Whether hits are counted in spectra, with counts by source.
    pub fn shows_hits(&self) -> bool {
        self.filler.has_standard()
    }

    /// Hits of one source that the configuration keeps: shown, and filtered by cuts that were applied; as of the last
    /// [`Processor::settle`] or [`Processor::count_shown`].
    pub fn shown_counters(&self, source: SourceId) -> &Counters {
        self.shown.counters(source)
    }

    /// Brings the spectra and the counters up to what has happened: every bin that is counted in comes from memory once.
    pub fn settle(&mut self) {
        self.filler.settle();
        self.count_shown();
    }

    /// Brings the counters up to what the spectra show.
    pub fn count_shown(&mut self) {
        self.shown.settle(self.filler.shown());
    }

    /// Events through the cuts on events.
    pub fn events_counters(&self) -> &Counters {
        &self.kept_counters
    }

    /// Each cut on events with how much passed it.
    pub fn passed(&self) -> impl Iterator<Item = (&str, Passed)> {
        self.cuts.passed()
    }

    /// Returns the state of the boards' clocks.
    pub fn clocks(&self) -> Vec<ClockState> {
        self.clocks.as_ref().map(ClockMonitor::state).unwrap_or_default()
    }
}
