//! One thread's part in BUSY.
//!
//! ```text
//!  builder, gate ─ set ─► Busy, shared by all ─► the trigger
//!                           └─► its time, in the gauges: also while this thread waits with BUSY raised
//! ```

use std::sync::Arc;

use thalweg_data::{Busy, Mark};

use crate::gauges::BuildGauges;

/// Whether this thread holds the trigger back.
pub(crate) struct BusyStage {
    busy: Arc<Busy>,
    raised: bool,
}

impl BusyStage {
    /// Not raised. For how long anybody raises BUSY is seen in `gauges`.
    pub(crate) fn new(busy: Arc<Busy>, gauges: &BuildGauges) -> BusyStage {
        gauges.set_busy(&busy);
        BusyStage { busy, raised: false }
    }

    pub(crate) fn set(&mut self, raised: bool, mark: Mark) {
        if std::mem::replace(&mut self.raised, raised) != raised {
            match raised {
                true => self.busy.raise(mark),
                false => self.busy.lower(mark),
            }
        }
    }

    pub(super) fn is_raised(&self) -> bool {
        self.raised
    }
}

#[cfg(test)]
mod tests {
    use thalweg_data::BusyTime;

    use super::*;

    /// The thread that raises BUSY may wait for the recorder behind it and publish nothing meanwhile.
    #[test]
    fn the_gauges_show_busy_while_the_thread_that_raised_it_waits() {
        let (busy, gauges) = (Arc::new(Busy::default()), BuildGauges::default());
        let shown = |now| (gauges.latest().busy, gauges.busy_time(Mark(now)));
        let of = |raised_ns, of_ns| Some(BusyTime { raised_ns, of_ns });
        busy.begin(Mark(0));
        assert_eq!(shown(10), (false, None), "nobody here holds the trigger back");
        let mut own = BusyStage::new(busy.clone(), &gauges);
        assert_eq!(shown(10), (false, of(0, 10)));
        own.set(true, Mark(100));
        assert!(busy.is_raised());
        assert_eq!(shown(200), (true, of(100, 200)));
        own.set(true, Mark(300));
        assert_eq!(shown(400), (true, of(300, 400)), "time goes on");
        own.set(false, Mark(400));
        assert_eq!(shown(600), (false, of(300, 600)));
    }

    /// Boards elsewhere, whose trigger reports nothing: what a pause takes is dead time, too.
    #[test]
    fn busy_of_the_supervisor_is_in_the_time_that_the_gauges_show() {
        let (busy, gauges) = (Arc::new(Busy::default()), BuildGauges::default());
        busy.begin(Mark(0));
        let mut own = BusyStage::new(busy.clone(), &gauges);
        own.set(true, Mark(100));
        busy.raise(Mark(200));
        own.set(false, Mark(300));
        assert!(gauges.latest().busy);
        busy.lower(Mark(600));
        assert!(!gauges.latest().busy);
        assert_eq!(gauges.busy_time(Mark(1000)), Some(BusyTime { raised_ns: 500, of_ns: 1000 }));
    }
}
