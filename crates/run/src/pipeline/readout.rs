//! A readout thread: reads its links, one or many, until they have ended, or until a stop is asked for and everything on its way has come.
//!
//! ```text
//!  Inputs (links that are there, or their recording) ─ turn ─► (link, frames, units) ─► ReadoutWork: Decoding │ Building
//!    ▲                                                                                      │
//!    └── pause, resume: who is not wanted is not read ──────────────────────────────────────┘
//! ```
//! The loop, the drain, the news of links, and the end stand here once, whatever the units are and whatever is made of them.

use std::sync::Arc;
use std::time::Duration;

use thalweg_data::{Framed, Frames, LinkId, LossReason, Mark, Unit};
use thalweg_readout::group::{Inputs, News, Take, Turn};

use super::Signals;
use super::drain::{Drain, Drained, Draining};

/// Idle or not, a turn ends within this.
pub(super) const TURN_WAIT: Duration = Duration::from_micros(500);

/// The work that a readout thread does with what its links give.
pub(crate) trait ReadoutWork: Sized {
    /// The units found in received bytes.
    type Output: Framed;

    /// The least time for which boards that go on sending are still read after a stop.
    const DRAIN: Duration;

    /// The batch that what is found on a link is appended to.
    fn batch(&mut self, link: LinkId) -> &mut Self::Output;

    /// Takes what a link has received; its units are in its batch.
    fn take(&mut self, link: LinkId, received: &Frames, signals: &Signals);

    /// Returns true if a mark alone is of use.
    fn wants_mark(&self, link: LinkId, mark: Mark) -> bool {
        let _ = (link, mark);
        true
    }

    /// Returns the name of a link for people.
    fn name(&self, link: LinkId) -> &str;

    /// A link has ended because its source is of no further use.
    fn link_failed(&self, message: String, signals: &Signals);

    /// Describes what it waits for when it takes nothing, and where to look.
    fn held_up_by(&self) -> String;

    /// Before each turn.
    fn before_turn(readout: &mut Readout<Self>, signals: &Signals) {
        let _ = (readout, signals);
    }

    /// Runs after each turn: `took_nothing` where nothing came. Returns `false` when the work cannot go on.
    fn after_turn(
        readout: &mut Readout<Self>,
        turn: Turn,
        took_nothing: bool,
        drain: &mut Drain,
        signals: &Signals,
    ) -> bool;

    /// Deals with what was taken and still waits, before the links end: nothing is read any more.
    fn settle(readout: &mut Readout<Self>, signals: &Signals) {
        let _ = (readout, signals);
    }

    /// Every link has ended, and what it had left is taken.
    fn end(readout: &mut Readout<Self>, signals: &Signals);
}

/// Everything that a readout thread owns.
pub(crate) struct Readout<W: ReadoutWork> {
    pub(super) inputs: Box<dyn Inputs<W::Output>>,
    pub(super) work: W,
}

/// The receiver of a turn: takes for the work, and notes which link has given something.
struct Taking<'t, W> {
    work: &'t mut W,
    drain: &'t mut Drain,
    signals: &'t Signals,
    is_idle: bool,
}

impl<W: ReadoutWork> Take<W::Output> for Taking<'_, W> {
    #[inline]
    fn batch(&mut self, link: LinkId) -> &mut W::Output {
        self.work.batch(link)
    }

    #[inline]
    fn take(&mut self, link: LinkId, received: &Frames) {
        if !received.slices.is_empty() {
            self.is_idle = false;
            self.drain.received(link, || received.byte_count());
        }
        self.work.take(link, received, self.signals);
    }

    #[inline]
    fn wants_mark(&self, link: LinkId, mark: Mark) -> bool {
        self.work.wants_mark(link, mark)
    }
}

impl<W: ReadoutWork> Readout<W> {
    pub(crate) fn new(inputs: Box<dyn Inputs<W::Output>>, work: W) -> Readout<W> {
        Readout { inputs, work }
    }

    /// Reads until the links have ended, or a stop is asked for and everything on its way has come.
    pub(crate) fn run(mut self, signals: &Arc<Signals>) {
        let mut drain = Drain::new(W::DRAIN, self.inputs.count());
        let (mut goes_on, mut drained) = (true, Drained::No);
        while goes_on && self.inputs.open_links() > 0 && drained == Drained::No {
            goes_on = self.turn(&mut drain, signals);
            drained = drain.state(&self, signals);
        }
        if drained == Drained::GivenUp {
            self.abandon(&drain, signals);
        }
        W::settle(&mut self, signals);
        let Readout { inputs, work } = &mut self;
        inputs.finish(&mut Taking { work, drain: &mut drain, signals, is_idle: true });
        for message in self.inputs.links().filter_map(|link| self.inputs.unreadable(link)) {
            signals.note_failure(message);
        }
        W::end(&mut self, signals);
    }

    fn turn(&mut self, drain: &mut Drain, signals: &Signals) -> bool {
        W::before_turn(self, signals);
        drain.listen(TURN_WAIT);
        let Readout { inputs, work } = self;
        let mut taking = Taking { work, drain, signals, is_idle: true };
        let turn = inputs.turn(TURN_WAIT, &mut taking);
        let is_idle = taking.is_idle;
        let turn = match turn {
            Ok(turn) => turn,
            Err(error) => {
                signals.fail(error.to_string());
                return false;
            }
        };
        if is_idle {
            drain.idle();
        }
        if signals.stop_requested() {
            self.inputs.close();
        }
        self.report_news(signals);
        W::after_turn(self, turn, is_idle && turn.links == 0, drain, signals)
    }

    /// Ends the run for one link before the others.
    pub(super) fn finish_link(&mut self, link: LinkId, signals: &Signals) {
        let mut drain = Drain::new(W::DRAIN, self.inputs.count());
        let Readout { inputs, work } = self;
        inputs.finish_link(link, &mut Taking { work, drain: &mut drain, signals, is_idle: true });
    }

    /// Throws away and counts what waits in the links: no thread takes it any more.
    fn abandon(&mut self, drain: &Drain, signals: &Signals) {
        if let Err(error) = self.inputs.abandon() {
            signals.note_failure(error.to_string());
        }
        let lost = |link| self.inputs.receive_counters(link).total_lost(LossReason::Abandoned, Unit::Bytes);
        signals.note_failure(drain.text(self.inputs.links().map(lost).sum(), self, signals));
    }

    fn report_news(&self, signals: &Signals) {
        let name = |link: &LinkId| self.work.name(*link);
        for news in self.inputs.news() {
            match news {
                News::Gone { link, message } => {
                    tracing::warn!("{}: {message}; it is being opened again", name(link));
                }
                News::Back { link, epoch } => tracing::info!("{}: connected again ({epoch})", name(link)),
                News::Ended { link, failure: None } => tracing::info!("{}: ended", name(link)),
                News::Ended { failure: Some(message), .. } => {
                    self.work.link_failed(message.clone(), signals);
                }
                News::Silent { link } => tracing::warn!(
                    "{}: {}: open, and not one byte has come; does the board take data, and does its trigger run?",
                    name(link),
                    self.inputs.description(*link)
                ),
            }
        }
    }
}

impl<W: ReadoutWork> Draining for Readout<W> {
    fn waiting_bytes(&self, link: LinkId) -> u64 {
        self.inputs.waiting_bytes(link)
    }

    fn held_up_by(&self) -> String {
        self.work.held_up_by()
    }
}
