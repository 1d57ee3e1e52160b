//! The counter slots of one link of triggered boards, and of each board on it.
//!
//! ```text
//!  link: receive, unpack · board: (unpack), wire, (time slices), build ◄─ counters of socket, splitter, cutter, builder
//! ```

use thalweg_build::Builder;
use thalweg_build::slices::FragmentCutter;
use thalweg_data::{Counters, Fragments, LinkId, LossReason, SourceId, Unit};
use thalweg_readout::group::Inputs;

use super::Ledgered;

/// Why fragments are refused by their framing.
const DAMAGED: [LossReason; 4] =
    [LossReason::BadHash, LossReason::BadLength, LossReason::Unfinished, LossReason::TooLarge];

/// One link's counters.
pub(crate) struct LinkSlots {
    /// The source whose counters count its bytes.
    pub(crate) source: SourceId,
    /// The slot of what the socket received.
    pub(crate) receive: Ledgered,
    /// The slot of what was found in it.
    pub(crate) unpack: Ledgered,
    /// The boards on the link; the link itself if it is one board.
    pub(crate) boards: Vec<BoardSlots>,
    /// True if what does not fit is refused instead of held.
    pub(crate) drops: bool,
}

/// One board's counters.
pub(crate) struct BoardSlots {
    pub(crate) source: SourceId,
    /// The fragments of one board among several on a link.
    pub(crate) unpack: Option<Ledgered>,
    pub(crate) wire: Ledgered,
    /// The fragments that are cut, in a run with time slices.
    pub(crate) slices: Option<Ledgered>,
    pub(crate) build: Ledgered,
    /// What was reported of it to the builder.
    pub(crate) reported: Reported,
}

/// The number of fragments that were reported to the builder as refused before it, and of those reported as lying in unreadable parts of a
/// recording.
#[derive(Clone, Copy, Default)]
pub(crate) struct Reported {
    refused: u64,
    unreadable: u64,
}

impl LinkSlots {
    /// Reports to the builder what has come of each board and was refused, and what a recording could not give, since the last report.
    pub(super) fn report_to_builder(
        &mut self,
        link: LinkId,
        inputs: &dyn Inputs<Fragments>,
        builder: &mut Builder,
    ) {
        let framing = inputs.framing(link);
        for (index, board) in self.boards.iter_mut().enumerate() {
            // A board's own set of counters; of one board alone it is the link's.
            let found = framing.board_counters().get(index).unwrap_or(framing.counters());
            let refused = DAMAGED.iter().map(|reason| found.total_lost(*reason, Unit::Fragments)).sum();
            let unreadable = inputs.lost_by_recording(link, board.source);
            let before = std::mem::replace(&mut board.reported, Reported { refused, unreadable });
            if refused > before.refused {
                builder.note_refused(board.source, refused - before.refused);
            }
            if unreadable > before.unreadable {
                builder.note_unreadable(board.source, unreadable - before.unreadable);
            }
        }
    }

    /// Every counter slot of the link with its counters of now.
    pub(super) fn each(
        &self,
        link: LinkId,
        (inputs, cutter, builder): (&dyn Inputs<Fragments>, Option<&FragmentCutter>, &mut Builder),
        mut publish: impl FnMut(&Ledgered, &Counters),
    ) {
        let framing = inputs.framing(link);
        publish(&self.receive, &inputs.receive_counters(link));
        publish(&self.unpack, framing.counters());
        for (index, board) in self.boards.iter().enumerate() {
            if let (Some(slot), Some(counters)) = (&board.unpack, framing.board_counters().get(index)) {
                publish(slot, counters);
            }
            let timeline = cutter.and_then(|cutter| cutter.timelines().get(index));
            if let (Some(slot), Some(timeline)) = (&board.slices, timeline) {
                publish(slot, timeline.counters());
            }
            let mut wire = builder.wire_counters(board.source).clone();
            if let Some(sent) = framing.wire_counters().get(index) {
                wire.add_all(sent);
            }
            publish(&board.wire, &wire);
            publish(&board.build, builder.counters(board.source));
        }
    }
}

/// Returns the units received over a link: a stream has no datagrams to count.
pub(crate) const fn link_units(stream: bool) -> &'static [Unit] {
    if stream { &[Unit::Bytes] } else { &[Unit::Datagrams, Unit::Bytes] }
}
