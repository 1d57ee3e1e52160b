//! The last log messages, kept for pages that are opened later.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::SystemTime;

use thalweg_monitor::OperatorMessage;

/// Messages that are kept.
const KEPT: usize = 100;

#[derive(Debug, Default)]
struct Kept {
    messages: VecDeque<OperatorMessage>,
    last: u64,
}

/// The last hundred messages. Clones are the same log.
#[derive(Clone, Debug, Default)]
pub struct MessageLog(Arc<Mutex<Kept>>);

impl MessageLog {
    /// Adds a message; `level` is `info`, `warning` or `error`. What follows the last semicolon is taken as advice.
    pub fn push(&self, level: &str, text: &str) {
        let (text, advice) = text.rsplit_once("; ").unwrap_or((text, ""));
        self.add(level, text, advice);
    }

    /// Adds what the operator has written down.
    pub fn note(&self, text: &str) {
        self.add("note", text, "");
    }

    fn add(&self, level: &str, text: &str, advice: &str) {
        let mut kept = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        kept.last += 1;
        let message = OperatorMessage {
            number: kept.last,
            time: thalweg_record::utc_text(SystemTime::now()),
            level: level.to_owned(),
            text: text.to_owned(),
            advice: advice.to_owned(),
        };
        if kept.messages.len() == KEPT {
            kept.messages.pop_front();
        }
        kept.messages.push_back(message);
    }

    /// Messages of a higher number, oldest first.
    pub fn after(&self, number: u64) -> Vec<OperatorMessage> {
        let kept = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        kept.messages.iter().filter(|message| message.number > number).cloned().collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_last_hundred_are_kept_with_their_advice() {
        let log = MessageLog::default();
        (0..150).for_each(|number| log.push("warning", &format!("{number} were lost; look at the cable")));
        let messages = log.after(148);
        assert_eq!((log.after(0).len(), messages.len()), (100, 2));
        assert_eq!(
            (messages[1].text.as_str(), messages[1].advice.as_str()),
            ("149 were lost", "look at the cable")
        );
    }
}
