//! Counts triggers of which no board sent a fragment.
//!
//! ```text
//!  answered 7 · · · answered 11: 3 unseen          · · · before the first and behind the last: not known, so not counted
//! ```

/// Counts them as numbers are passed.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Unseen {
    /// A board has answered a trigger.
    has_begun: bool,
    /// Passed behind the last answered one.
    skipped: u64,
    /// Since the count was last taken.
    unseen: u64,
}

impl Unseen {
    /// A board has answered a trigger behind those that were skipped.
    pub fn add(&mut self) {
        self.has_begun = true;
        self.unseen += std::mem::take(&mut self.skipped);
    }

    /// Triggers are passed that no board has answered; whether others follow is not known yet.
    pub fn skip(&mut self, triggers: u64) {
        if self.has_begun {
            self.skipped += triggers;
        }
    }

    /// Triggers are passed between two that boards have answered.
    pub fn pass(&mut self, triggers: u64) {
        self.unseen += triggers;
    }

    /// Those that were found since this was asked last.
    pub fn take(&mut self) -> u64 {
        std::mem::take(&mut self.unseen)
    }
}

#[cfg(test)]
mod tests {
    use super::Unseen;

    #[test]
    fn what_lies_between_two_answered_is_unseen() {
        let mut unseen = Unseen::default();
        unseen.skip(6);
        unseen.add();
        unseen.skip(3);
        assert_eq!(unseen.take(), 0, "nobody knows yet whether there was a trigger behind");
        unseen.add();
        unseen.pass(2);
        unseen.skip(9);
        assert_eq!((unseen.take(), unseen.take()), (5, 0));
    }
}
