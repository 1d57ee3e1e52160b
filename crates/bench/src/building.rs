//! Reads many links and builds their events, as a run does, and lets the events go at once, or passes them on.
//!
//! ```text
//!  Group ─ turn ─► fragments ─ insert ─► Builder ─ pull ─► Events ─► cleared, or whatever is done with them
//!    ▲  └ what is not taken waits, its link is not read ┘
//! ```

use std::time::Duration;

use thalweg_build::{Builder, Full, Incomplete, Settings};
use thalweg_data::{Events, Fragments, Frames, LinkId, SourceError};
use thalweg_readout::group::{Group, Inputs, Take};

/// A turn of the group ends within this.
const WAIT: Duration = Duration::from_millis(1);
/// As many events as a run passes on at a time.
const EVENTS_PER_BATCH: usize = 256;

/// Fragments that the builder has not taken yet.
#[derive(Default)]
struct Waiting {
    batch: Fragments,
    taken: usize,
}

/// A builder at the end of many links of one board each.
pub(super) struct Building {
    pub(super) builder: Builder,
    waiting: Vec<Waiting>,
    /// Links that are not read: something of them waits, or the builder does not want more.
    held: Vec<LinkId>,
    newly_held: Vec<LinkId>,
    /// The fragments found on the link that is being taken.
    framed: Fragments,
    events: Events,
    /// Events that leave at a time.
    pub(super) events_per_batch: usize,
    /// Events that have left.
    pub(super) built: u64,
    /// Most blocks that fragments which wait have ever kept.
    pub(super) most_blocks: usize,
}

impl Building {
    /// Makes a builder of `boards` boards, whose triggers begin at 0.
    pub(super) fn new(boards: u16) -> Result<Building, SourceError> {
        // Nothing is late, and everything has to come: an event that is not whole would be a defect, and the bench would not end.
        let settings = Settings {
            first_trigger: Some(0),
            incomplete: Incomplete::Wait,
            full: Full::Hold,
            ..Settings::default()
        };
        let mut builder = Builder::new(&settings, 0..boards)
            .map_err(|error| SourceError { place: "build".to_owned(), message: error.to_string() })?;
        builder.start_run(1);
        Ok(Building {
            builder,
            waiting: (0..boards).map(|_| Waiting::default()).collect(),
            held: Vec::new(),
            newly_held: Vec::new(),
            framed: Fragments::default(),
            events: Events::default(),
            events_per_batch: EVENTS_PER_BATCH,
            built: 0,
            most_blocks: 0,
        })
    }

    /// One turn of the group; returns how many fragments left in whole events.
    pub(super) fn turn(&mut self, group: &mut Group<Fragments>) -> Result<u64, SourceError> {
        self.turn_with(group, &mut Events::clear)
    }

    /// The same; `leave` is given each batch of events, and leaves it empty.
    pub(super) fn turn_with(
        &mut self,
        group: &mut Group<Fragments>,
        leave: &mut dyn FnMut(&mut Events),
    ) -> Result<u64, SourceError> {
        let turn = group.turn(WAIT, self)?;
        self.builder.advance(turn.mark);
        self.most_blocks = self.most_blocks.max(self.builder.standing().blocks);
        let mut fragments = 0;
        while self.builder.pull(&mut self.events, self.events_per_batch) {
            self.built += self.events.events.len() as u64;
            fragments += self.events.fragments.len() as u64;
            leave(&mut self.events);
        }
        self.hold_and_resume(group);
        Ok(fragments)
    }

    fn hold_and_resume(&mut self, group: &mut Group<Fragments>) {
        let Building { builder, waiting, held, newly_held, .. } = self;
        for link in newly_held.drain(..) {
            group.pause(link);
            held.push(link);
        }
        held.retain(|link| {
            let own = &mut waiting[link.index()];
            own.taken += builder.insert_from(&own.batch, own.taken);
            let goes_on = own.taken == own.batch.fragments.len() && builder.wants(group.source(*link));
            if goes_on {
                own.batch.clear();
                own.taken = 0;
                group.resume(*link);
            }
            !goes_on
        });
    }
}

impl Take<Fragments> for Building {
    fn batch(&mut self, _link: LinkId) -> &mut Fragments {
        &mut self.framed
    }

    fn take(&mut self, link: LinkId, _received: &Frames) {
        let Some(source) = self.framed.fragments.first().map(|fragment| fragment.source) else { return };
        let waiting = &mut self.waiting[link.index()];
        let taken = self.builder.insert(&self.framed);
        let all = taken == self.framed.fragments.len();
        if !all {
            waiting.taken = taken;
            std::mem::swap(&mut waiting.batch, &mut self.framed);
        }
        self.framed.clear();
        if !all || !self.builder.wants(source) {
            self.newly_held.push(link);
        }
    }
}
