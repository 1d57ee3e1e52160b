//! Which numbers the trigger has given so far, for whoever reports at the end what no board answered.
//!
//! ```text
//!  engine: accepted 7 ‥ 93 ──► AcceptedNumbers ──► builder: first answer 9, last 90: 5 are missing outside of them
//! ```

use std::ops::RangeInclusive;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

const NONE: u64 = u64::MAX;

/// The first and the last number that the trigger has accepted. One writer; anybody may look.
#[derive(Debug)]
pub struct AcceptedNumbers {
    /// What boards add to the trigger's number where they send it.
    offset: u64,
    first: AtomicU64,
    last: AtomicU64,
    is_final: AtomicBool,
}

impl AcceptedNumbers {
    /// None yet, of boards that add `offset` to the number of each trigger.
    pub fn new(offset: u64) -> AcceptedNumbers {
        AcceptedNumbers {
            offset,
            first: AtomicU64::new(NONE),
            last: AtomicU64::new(NONE),
            is_final: AtomicBool::new(false),
        }
    }

    /// The trigger has accepted one, behind those before.
    pub(super) fn accept(&self, number: u64) {
        let number = number.wrapping_add(self.offset);
        if self.first.load(Ordering::Relaxed) == NONE {
            self.first.store(number, Ordering::Relaxed);
        }
        self.last.store(number, Ordering::Release);
    }

    /// The trigger gives no more.
    pub(super) fn end(&self) {
        self.is_final.store(true, Ordering::Release);
    }

    /// Whether the trigger has given its last number.
    pub fn is_final(&self) -> bool {
        self.is_final.load(Ordering::Acquire)
    }

    /// As boards send them.
    pub fn get(&self) -> Option<RangeInclusive<u64>> {
        let last = self.last.load(Ordering::Acquire);
        (last != NONE).then(|| self.first.load(Ordering::Relaxed)..=last)
    }
}

#[cfg(test)]
mod tests {
    use super::AcceptedNumbers;

    #[test]
    fn the_first_and_the_last_number_are_known() {
        let numbers = AcceptedNumbers::new(10);
        assert_eq!(numbers.get(), None);
        (3..6).for_each(|number| numbers.accept(number));
        assert_eq!((numbers.get(), numbers.is_final()), (Some(13..=15), false));
        numbers.end();
        assert!(numbers.is_final());
    }
}
