//! Shows the first units that were refused, while the run goes on.
//!
//! ```text
//!  splitters, builder ─ first refused ─► RefusedOutlet ─► live state, summary
//! ```

use std::sync::Arc;

use thalweg_build::Builder;
use thalweg_data::Fragments;
use thalweg_monitor::state::RefusedUnit;
use thalweg_readout::Inputs;

use super::{Ledgered, LinkSlots};
use crate::gauges::RefusedGauges;

/// The outlet of the first refused units, with the number of this thread's units that were shown already.
pub(crate) struct RefusedOutlet {
    gauges: Arc<RefusedGauges>,
    thread: String,
    shown: usize,
}

impl RefusedOutlet {
    pub(crate) fn new(gauges: &Arc<RefusedGauges>, thread: &str) -> RefusedOutlet {
        RefusedOutlet { gauges: gauges.clone(), thread: thread.to_owned(), shown: 0 }
    }

    /// Shows what was kept, if there is more of it than the last time.
    pub(super) fn collect(
        &mut self,
        (inputs, links): (&dyn Inputs<Fragments>, &[LinkSlots]),
        (builder, events_ledger): (&Builder, &Ledgered),
        names: &[String],
    ) {
        let kept_by_links: usize =
            inputs.links().map(|link| inputs.framing(link).first_refused().len()).sum();
        let kept = kept_by_links + builder.dumps().len();
        if kept == self.shown {
            return;
        }
        self.shown = kept;
        let mut units = Vec::with_capacity(kept);
        for link in inputs.links() {
            let LinkSlots { source, unpack, .. } = &links[link.index()];
            let name = &names[source.index()];
            let refused = inputs.framing(link).first_refused().iter();
            units.extend(refused.map(|refused| RefusedUnit::new(unpack.stage(), refused, names, name)));
        }
        let dumps = builder.dumps().iter();
        units.extend(
            dumps.map(|dump| RefusedUnit::new(events_ledger.stage(), &dump.to_refused(), names, "?")),
        );
        self.gauges.set(&self.thread, units);
    }
}
