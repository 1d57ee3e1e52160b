//! What is done with ordered hits: cuts, coincidence, spectra.
//!
//! ```text
//!  ordered batch ─► HitCuts ─► pass │ Processor: coincidence ─► events ─► cuts on events ─► HitEvents
//!        │                       ├──┼──────┘                                                  │
//!        └───────────────────────┴──┼────────────── spectra ◄─────────────────────────────────┘
//! ```
//! [`stages`] reads the configuration into the two halves: what the recording needs to know of a hit is decided first, and the
//! rest can be done on another thread. The batch itself flows on unchanged; what was decided of its hits stands beside it.

mod settings;
#[cfg(test)]
mod tests;

use std::sync::Arc;

use thalweg_data::{Counters, Hits, Mark, SourceId, Unit};

pub use settings::{ProcessError, Settings};

use crate::channels::ChannelMap;
use crate::clocks::{ClockMonitor, ClockState};
use thalweg_data::HitEvents;

use crate::coincide::Coincidence;
use crate::cut::{self, EventCuts, HitCuts, Kept, Passed};
use crate::hit_stage::{self, MadeStage};
use crate::pulse::{PulseStore, PulseTap};
use crate::spectrum::{Filler, SpectrumSet};
use crate::view::{Shown, View};

/// Hits that go through all stages together: they stay in the first-level cache, and what a pathological window can make of them stays small.
const CHUNK: usize = 512;

/// The stages behind time order, and the spectra that they fill.
#[derive(Debug)]
pub struct Stages {
    /// What was added in front of all others.
    pub added: Vec<MadeStage>,
    /// The cuts that decide which hits are kept.
    pub cuts: HitCuts,
    /// What is made of them.
    pub processor: Processor,
    /// The spectra, for readers.
    pub spectra: SpectrumSet,
    /// What is valid, and hardly meant.
    pub warnings: Vec<String>,
}

/// Coincidence and spectra of one ordered stream.
#[derive(Debug)]
pub struct Processor {
    map: Arc<ChannelMap>,
    cuts: EventCuts,
    coincidence: Option<Coincidence>,
    filler: Filler,
    /// What of it is shown: changed while the run goes on.
    shown: Shown,
    view: View,
    /// The configuration has cuts on hits.
    cuts_hits: bool,
    clocks: Option<ClockMonitor>,
    pulses: PulseTap,
    pulse_store: PulseStore,
    events: HitEvents,
    /// Events that coincidence made, and what the cuts on events kept of them.
    made_counters: Counters,
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
        coincidence,
        filler: fillers.remove(0),
        shown: Shown::new(&view, sources.len()),
        view,
        cuts_hits,
        clocks: ClockMonitor::new(&settings.clocks, sources),
        pulses,
        pulse_store,
        events: HitEvents::default(),
        made_counters: Counters::default(),
        kept_counters: Counters::default(),
    };
    Ok(Stages { added, cuts, processor, spectra, warnings: settings.warnings(map) })
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

    /// Whether it makes events.
    pub fn makes_events(&self) -> bool {
        self.coincidence.is_some()
    }

    /// Takes the next ordered batch, with what the cuts have kept of it, if there are any; `each` is given the events that are closed by it.
    /// Returns the first failure of `each`: whatever that is, every hit goes through every stage.
    ///
    /// # Errors
    /// What `each` says.
    ///
    /// # Panics
    /// When there are not as many verdicts as hits.
    pub fn process<E>(
        &mut self,
        batch: &Hits,
        kept: Option<Kept<'_>>,
        mut each: impl FnMut(&HitEvents) -> Result<(), E>,
    ) -> Result<(), E> {
        let pass = kept.map(|kept| kept.pass);
        assert!(pass.is_none_or(|pass| pass.len() == batch.hits.len()), "one verdict for each hit");
        if let Some(clocks) = &mut self.clocks {
            clocks.look(&batch.hits, &self.map);
        }
        self.follow_view(batch.header.mark);
        self.pulses.look(batch, self.shown.map());
        self.filler.begin(batch, &self.map);
        if let Some(coincidence) = &mut self.coincidence {
            for share in kept.map_or(&batch.shares[..], |kept| kept.shares) {
                coincidence.count_in(share.source, u64::from(share.hits));
            }
        }
        let mut result = Ok(());
        for (index, hits) in batch.hits.chunks(CHUNK).enumerate() {
            let pass = pass.map(|pass| &pass[index * CHUNK..][..hits.len()]);
            let (shown, map) = self.shown.look(hits, pass);
            self.filler.fill(hits, shown, map);
            if let Some(coincidence) = &mut self.coincidence {
                coincidence.push(hits, pass);
                let passed_on = self.pass_on(&mut each);
                result = result.and(passed_on);
            }
        }
        result
    }

    /// Nothing follows: closes what is open.
    ///
    /// # Errors
    /// What `each` says.
    pub fn finish<E>(&mut self, mut each: impl FnMut(&HitEvents) -> Result<(), E>) -> Result<(), E> {
        if let Some(coincidence) = &mut self.coincidence {
            coincidence.finish();
        }
        let passed_on = self.pass_on(&mut each);
        // Behind the last events, whose time differences wait, too.
        self.filler.finish();
        self.shown.finish();
        passed_on
    }

    fn pass_on<E>(&mut self, each: &mut impl FnMut(&HitEvents) -> Result<(), E>) -> Result<(), E> {
        let Some(coincidence) = &mut self.coincidence else { return Ok(()) };
        if !coincidence.pull(&mut self.events) {
            return Ok(());
        }
        self.made_counters
            .input(Unit::Events, coincidence.closed() - self.made_counters.total_input(Unit::Events));
        let made = self.events.events.len() as u64;
        self.cuts.cut(&mut self.events, &self.map);
        let kept = self.events.events.len() as u64;
        self.made_counters.output(Unit::Events, made);
        self.kept_counters.input(Unit::Events, made);
        self.kept_counters.output(Unit::Events, kept);
        self.kept_counters.filtered(Unit::Events, made - kept);
        let (shown, map) = self.shown.look_at_members(&self.events.members);
        self.filler.fill_events(&self.events, shown, map);
        each(&self.events)
    }

    /// Lets the moment of a mark pass without hits: what was asked of the spectra is done.
    pub fn rest(&mut self, mark: Mark) {
        self.follow_view(mark);
        self.filler.rest();
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
    /// [`Processor::settle_spectra`].
    pub fn shown_counters(&self, source: SourceId) -> &Counters {
        self.shown.counters(source)
    }

    /// Brings the counters and the spectra up to what has happened.
    pub fn settle(&mut self) {
        self.settle_spectra();
        self.settle_events();
    }

    /// Brings the spectra and the counters of what they show up to what has happened: every bin that is counted in comes from memory once.
    pub fn settle_spectra(&mut self) {
        self.filler.settle();
        self.shown.settle(self.filler.shown());
    }

    /// Brings the counters of coincidence up to what has happened.
    pub fn settle_events(&mut self) {
        if let Some(coincidence) = &mut self.coincidence {
            coincidence.settle();
        }
    }

    /// Hits of one source through coincidence, if there is one; as of the last [`Processor::settle_events`].
    pub fn coincidence_counters(&self, source: SourceId) -> Option<&Counters> {
        self.coincidence.as_ref().map(|coincidence| coincidence.counters(source))
    }

    /// Events: as coincidence makes them, and as the cuts on events keep them.
    pub fn events_counters(&self) -> (&Counters, &Counters) {
        (&self.made_counters, &self.kept_counters)
    }

    /// Events that were closed because they had grown too long.
    pub fn cut_short(&self) -> u64 {
        self.coincidence.as_ref().map_or(0, Coincidence::cut_short)
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
