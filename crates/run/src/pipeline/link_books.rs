//! The accounts of one link of triggered boards, and where each one's tally is.
//!
//! ```text
//!  link: receive, unpack · board: (unpack), wire, (time slices), build ◄─ tallies of socket, splitter, cutter, builder
//! ```

use thalweg_build::Builder;
use thalweg_build::slices::FragmentCutter;
use thalweg_data::{LossReason, SourceId, Tally, Unit};
use thalweg_readout::group::LinkId;

use super::{Ledgered, Links};

/// One link's accounts.
pub(crate) struct LinkBooks {
    /// Whose account its bytes are in.
    pub(crate) source: SourceId,
    /// What the socket received.
    pub(crate) receive: Ledgered,
    /// What was found in it.
    pub(crate) unpack: Ledgered,
    /// The boards behind it, the link itself if it is one board.
    pub(crate) boards: Vec<BoardBooks>,
    /// What does not fit is refused instead of held.
    pub(crate) drops: bool,
}

/// One board's accounts.
pub(crate) struct BoardBooks {
    pub(crate) source: SourceId,
    /// Of one board among several on a link: its fragments.
    pub(crate) unpack: Option<Ledgered>,
    pub(crate) wire: Ledgered,
    /// Of a run with time slices: the fragments that are cut.
    pub(crate) slices: Option<Ledgered>,
    pub(crate) build: Ledgered,
}

impl LinkBooks {
    /// Every account of the link with its tally of now.
    pub(super) fn each(
        &self,
        link: LinkId,
        (inputs, cutter, builder): (&Links, Option<&FragmentCutter>, &Builder),
        mut tell: impl FnMut(&Ledgered, &Tally),
    ) {
        let split = inputs.split(link);
        tell(&self.receive, &inputs.receive_tally(link));
        tell(&self.unpack, split.tally());
        for (index, board) in self.boards.iter().enumerate() {
            if let (Some(account), Some(tally)) = (&board.unpack, split.board_tallies().get(index)) {
                tell(account, tally);
            }
            let timeline = cutter.and_then(|cutter| cutter.timelines().get(index));
            if let (Some(account), Some(timeline)) = (&board.slices, timeline) {
                tell(account, timeline.tally());
            }
            let mut wire = builder.wire_tally(board.source).clone();
            // A board's own tally; of one board alone it is the link's.
            let found = split.board_tallies().get(index).unwrap_or(split.tally());
            let unreadable = inputs.lost_by_recording(link, board.source);
            if unreadable > 0 {
                let (from, to) = (LossReason::MissingFragment, LossReason::RecordingDamaged);
                wire.explain(from, to, Unit::Fragments, unreadable);
            }
            explain_missing(&mut wire, found, builder.tally(board.source));
            if let Some(sent) = split.wire_tallies().get(index) {
                wire.add_all(sent);
            }
            tell(&board.wire, &wire);
            tell(&board.build, builder.tally(board.source));
        }
    }
}

/// What is missing on the wire because it was refused here is put under the reason for that: as much as was refused, and no
/// more than is missing.
fn explain_missing(wire: &mut Tally, unpack: &Tally, build: &Tally) {
    use LossReason::{BadHash, BadLength, LateFragment, MissingFragment, OverBudget, TooLarge, Unfinished};
    let unit = Unit::Fragments;
    let refused =
        [BadHash, BadLength, Unfinished, TooLarge].map(|reason| (reason, unpack.total_lost(reason, unit)));
    let unused = [LateFragment, OverBudget].map(|reason| (reason, build.total_lost(reason, unit)));
    for (reason, count) in refused.into_iter().chain(unused).filter(|(_, count)| *count > 0) {
        wire.explain(MissingFragment, reason, unit, count);
    }
}

/// What is received over a link: a stream has no datagrams to count.
pub(crate) const fn link_units(stream: bool) -> &'static [Unit] {
    if stream { &[Unit::Bytes] } else { &[Unit::Datagrams, Unit::Bytes] }
}
