//! Counts triggers of which no board sent a fragment.
//!
//! ```text
//!  heard 7 · · · heard 11: 3 unseen          · · · before the first and behind the last: not known, so not counted
//! ```

/// Counts them as numbers are passed.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Unseen {
    /// Somebody was heard of a trigger.
    has_begun: bool,
    /// Passed behind the last one that somebody was heard of.
    skipped: u64,
    /// Since it was asked.
    unseen: u64,
}

impl Unseen {
    /// Somebody was heard of a trigger behind those that were skipped.
    pub fn hear(&mut self) {
        self.has_begun = true;
        self.unseen += std::mem::take(&mut self.skipped);
    }

    /// Triggers are passed that nobody was heard of; whether others follow is not known yet.
    pub fn skip(&mut self, triggers: u64) {
        if self.has_begun {
            self.skipped += triggers;
        }
    }

    /// Triggers are passed between two of which somebody was heard.
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
    fn what_lies_between_two_that_were_heard_is_unseen() {
        let mut unseen = Unseen::default();
        unseen.skip(6);
        unseen.hear();
        unseen.skip(3);
        assert_eq!(unseen.take(), 0, "nobody knows yet whether there was a trigger behind");
        unseen.hear();
        unseen.pass(2);
        unseen.skip(9);
        assert_eq!((unseen.take(), unseen.take()), (5, 0));
    }
}
