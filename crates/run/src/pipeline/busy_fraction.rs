//! One thread's part in BUSY.
//!
//! ```text
//!  raise, lower ─► Busy, shared by all ─► the trigger
//!        └─► BusyTime, in the gauges ─► fraction of the run, also while this thread waits with BUSY raised
//! ```

use std::sync::Arc;

use thalweg_data::{Busy, Mark};

use crate::gauges::{BuildGauges, BusyTime};

/// This thread's part in BUSY, and how long it was raised.
pub(crate) struct BusyFraction {
    busy: Arc<Busy>,
    time: BusyTime,
    gauges: Arc<BuildGauges>,
}

impl BusyFraction {
    /// Not raised. How long it is raised is seen in `gauges`.
    pub(crate) fn new(busy: Arc<Busy>, gauges: Arc<BuildGauges>) -> BusyFraction {
        let time = BusyTime::default();
        gauges.set_busy(time);
        BusyFraction { busy, time, gauges }
    }

    pub(crate) fn set(&mut self, raised: bool, mark: Mark) {
        if raised == self.is_raised() {
            return;
        }
        match raised {
            true => self.busy.raise(),
            false => self.busy.lower(),
        }
        self.time.set(raised, mark);
        self.gauges.set_busy(self.time);
    }

    pub(super) fn is_raised(&self) -> bool {
        self.time.is_raised()
    }

    /// Lowers for good; how long it was raised is not counted on.
    pub(crate) fn lower(&mut self) {
        if self.is_raised() {
            self.busy.lower();
            self.time.forget();
            self.gauges.set_busy(self.time);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The thread that raises BUSY may wait for the recorder behind it and publish nothing meanwhile.
    #[test]
    fn the_gauges_show_busy_while_the_thread_that_raised_it_waits() {
        let (busy, gauges) = (Arc::new(Busy::default()), Arc::new(BuildGauges::default()));
        let shown = |now| {
            let sample = gauges.latest(now);
            (sample.busy, sample.busy_share)
        };
        assert_eq!(shown(Some(Mark(10))), (false, None), "nobody here holds the trigger back");
        let mut own = BusyFraction::new(busy.clone(), gauges.clone());
        assert_eq!(shown(Some(Mark(10))), (false, Some(0.0)));
        own.set(true, Mark(100));
        assert!(busy.is_raised());
        assert_eq!(shown(Some(Mark(200))), (true, Some(0.5)));
        assert_eq!(shown(Some(Mark(400))), (true, Some(0.75)), "time goes on");
        own.set(false, Mark(400));
        assert_eq!(shown(Some(Mark(600))), (false, Some(0.5)));
        own.set(true, Mark(600));
        own.lower();
        assert_eq!((busy.is_raised(), shown(Some(Mark(3000)))), (false, (false, Some(0.1))));
    }
}
