//! The first half: what the recording needs to know of a hit, what spectra will count of it, and which hits belong together.
//!
//! ```text
//!  ordered hits ─► HitCuts ─► pass ─┬─► WordMaker ─► words         all of it in Selected
//!                                   └─► Coincidence ─► events
//! ```

use std::sync::Arc;

use thalweg_data::{Counters, HitEvents, SourceId, Unit};

use super::Selected;
use crate::channels::ChannelMap;
use crate::coincide::Coincidence;
use crate::cut::{HitCuts, Passed};
use crate::spectrum::WordMaker;

/// Hits that are looked at together: they stay in the first-level cache, and what a pathological window can make of them stays small.
const CHUNK: usize = 512;
/// Events with more hits together than this are passed on before the batch has been looked through.
pub const MOST_MEMBERS: usize = 1 << 15;

/// Cuts on hits, and coincidences, of one ordered stream.
#[derive(Debug)]
pub struct Selector {
    map: Arc<ChannelMap>,
    cuts: HitCuts,
    /// Where spectra count hits.
    word_maker: Option<WordMaker>,
    coincidence: Option<Coincidence>,
    /// Events that coincidence made.
    made_counters: Counters,
}

impl Selector {
    pub(super) fn new(
        map: Arc<ChannelMap>,
        cuts: HitCuts,
        word_maker: Option<WordMaker>,
        coincidence: Option<Coincidence>,
    ) -> Selector {
        Selector { map, cuts, word_maker, coincidence, made_counters: Counters::default() }
    }

    /// Whether every hit passes.
    pub fn keeps_all(&self) -> bool {
        self.cuts.keep_all()
    }

    /// Whether it makes events.
    pub fn makes_events(&self) -> bool {
        self.coincidence.is_some()
    }

    /// Finds which hits of a batch are kept, and the events that they close. `early` takes events of which there are too many for one batch,
    /// before the rest of the batch is looked at.
    pub fn select(&mut self, batch: &mut Selected, mut early: impl FnMut(&mut HitEvents)) {
        let Selector { map, cuts, word_maker, coincidence, made_counters } = self;
        let Selected { hits, verdicts, words, events } = batch;
        let kept = cuts.cut(&hits.hits, map, verdicts);
        if let Some(coincidence) = coincidence {
            for share in kept.map_or(&hits.shares[..], |kept| kept.shares) {
                coincidence.count_in(share.source, u64::from(share.hits));
            }
        }
        for (index, hits) in hits.hits.chunks(CHUNK).enumerate() {
            let pass = kept.map(|kept| &kept.pass[index * CHUNK..][..hits.len()]);
            if let Some(word_maker) = word_maker {
                word_maker.append(hits, pass, words);
            }
            let Some(coincidence) = coincidence else { continue };
            coincidence.push(hits, pass);
            if coincidence.waiting_members() >= MOST_MEMBERS {
                pull(coincidence, made_counters, events);
                early(events);
                events.clear();
            }
        }
        if let Some(coincidence) = coincidence {
            pull(coincidence, made_counters, events);
        }
    }

    /// Nothing follows: gives the events that were still open.
    pub fn finish(&mut self, events: &mut HitEvents) {
        if let Some(coincidence) = &mut self.coincidence {
            coincidence.finish();
            pull(coincidence, &mut self.made_counters, events);
        }
    }

    /// Brings the counters up to what has happened.
    pub fn settle(&mut self) {
        self.cuts.settle();
        if let Some(coincidence) = &mut self.coincidence {
            coincidence.settle();
        }
    }

    /// Hits of one source through the cuts; as of the last [`Selector::settle`].
    pub fn cut_counters(&self, source: SourceId) -> &Counters {
        self.cuts.counters(source)
    }

    /// Hits of one source through coincidence, if there is one; as of the last [`Selector::settle`].
    pub fn coincidence_counters(&self, source: SourceId) -> Option<&Counters> {
        self.coincidence.as_ref().map(|coincidence| coincidence.counters(source))
    }

    /// Events as coincidence has made them.
    pub fn made_counters(&self) -> &Counters {
        &self.made_counters
    }

    /// Events that were closed because they had grown too long.
    pub fn cut_short(&self) -> u64 {
        self.coincidence.as_ref().map_or(0, Coincidence::cut_short)
    }

    /// Each cut on hits with how much passed it.
    pub fn passed(&self) -> impl Iterator<Item = (&str, Passed)> {
        self.cuts.passed()
    }
}

/// Takes the events that were closed, and counts them.
fn pull(coincidence: &mut Coincidence, made: &mut Counters, events: &mut HitEvents) {
    coincidence.pull(events);
    made.input(Unit::Events, coincidence.closed() - made.total_input(Unit::Events));
    made.output(Unit::Events, events.events.len() as u64);
}
