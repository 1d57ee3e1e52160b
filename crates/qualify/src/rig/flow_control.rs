//! Flow control: whether a switch made somebody wait instead of losing. Then bursts say nothing of its buffer.
//!
//! ```text
//!  card of the receiver, cards of the sending hosts ─► PauseReading … before ─┐
//!                                                   ─► PauseReading … after  ─┴─► FlowControl: still | moved | unknown
//! ```
//! Cards are read once before a measurement and once behind it, so that trials stay as fast as they are.

use schemars::JsonSchema;
use serde::Serialize;

use crate::host::PauseReading;

/// The effect of PAUSE during a measurement.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum PauseState {
    /// There is no card: the device is one of this host's kernel, which has no PAUSE.
    NoCard,
    /// The counts of all cards stood still.
    Still,
    /// Some count moved: a sender was delayed, and the measurement is not that of the buffer.
    Moved,
    /// No count is known to have moved, and the counts of at least one card cannot be read.
    Unknown,
}

/// The same, and which cards say it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, JsonSchema)]
pub struct FlowControl {
    /// The effect.
    pub state: PauseState,
    /// A description of which counts moved, or why they are not known.
    pub words: String,
}

impl FlowControl {
    /// Before anything is known.
    pub fn not_read() -> FlowControl {
        let words = "PAUSE counts are compared at the end".to_owned();
        FlowControl { state: PauseState::Unknown, words }
    }

    /// Compares the cards of two readings, each with where it is.
    pub fn between(before: &[(String, PauseReading)], after: &[(String, PauseReading)]) -> FlowControl {
        let (mut moved, mut unknown) = (Vec::new(), Vec::new());
        for ((place, start), (_, end)) in before.iter().zip(after) {
            let card = format!("{} of {place}", end.card);
            match end.moved_since(start) {
                Ok(counts) => {
                    moved.extend(counts.iter().map(|count| format!("{card}: {} {}", count.name, count.total)))
                }
                Err(why) => unknown.push(format!("{card}: {why}")),
            }
        }
        let (state, words) = match (moved.is_empty(), unknown.is_empty()) {
            (false, _) => (PauseState::Moved, moved.join(", ")),
            (true, false) => {
                let words = format!(
                    "whether PAUSE made somebody wait is unknown ({}); look at the counters of the switch, or turn flow control off",
                    unknown.join("; ")
                );
                (PauseState::Unknown, words)
            }
            (true, true) if after.is_empty() => {
                (PauseState::NoCard, "the device is one of this host's kernel, which has no PAUSE".to_owned())
            }
            (true, true) => (PauseState::Still, format!("no PAUSE frame at {} cards", after.len())),
        };
        FlowControl { state, words }
    }

    /// Returns why the measurement does not count; `None` where no card reports that a sender was delayed.
    pub fn fault(&self) -> Option<String> {
        (self.state == PauseState::Moved).then(|| {
            format!(
                "flow control was at work, so that senders waited instead of losing ({}); turn PAUSE off at the switch and at all cards (ethtool -A CARD rx off tx off), and measure again",
                self.words
            )
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::host::{Counter, PauseCounts};

    fn card(place: &str, counts: PauseCounts) -> (String, PauseReading) {
        (place.to_owned(), PauseReading { card: "eth1".to_owned(), counts })
    }

    fn known(place: &str, received: u64) -> (String, PauseReading) {
        let counter = Counter { name: "PAUSE frames received".to_owned(), total: received };
        card(place, PauseCounts::Known(vec![counter]))
    }

    fn unknown(place: &str) -> (String, PauseReading) {
        card(place, PauseCounts::Unknown("the driver counts no PAUSE frames".to_owned()))
    }

    #[test]
    fn one_pause_frame_at_one_card_is_a_fault_that_names_card_and_count() {
        let (before, after) =
            ([known("10.0.0.1", 3), known("10.0.0.2", 3)], [known("10.0.0.1", 3), known("10.0.0.2", 4)]);
        let found = FlowControl::between(&before, &after);
        let fault = found.fault().expect("it moved");
        assert!(fault.contains("eth1 of 10.0.0.2: PAUSE frames received 1"), "{fault}");
        let found = FlowControl::between(
            &[unknown("10.0.0.1"), before[1].clone()],
            &[unknown("10.0.0.1"), after[1].clone()],
        );
        assert_eq!(
            found.state,
            PauseState::Moved,
            "what is known to have moved has moved, whatever is not known"
        );
    }

    #[test]
    fn counts_that_stand_still_are_good_and_those_that_cannot_be_read_are_unknown_by_name() {
        let still = [known("10.0.0.1", 3), known("10.0.0.2", 0)];
        let found = FlowControl::between(&still, &still);
        assert_eq!((found.state, found.fault()), (PauseState::Still, None));
        let some = [known("10.0.0.1", 3), unknown("10.0.0.2")];
        let found = FlowControl::between(&some, &some);
        assert_eq!((found.state, found.fault()), (PauseState::Unknown, None));
        assert!(
            found.words.contains("eth1 of 10.0.0.2: the driver counts no PAUSE frames"),
            "{}",
            found.words
        );
        assert_eq!(FlowControl::between(&[], &[]).state, PauseState::NoCard);
    }
}
