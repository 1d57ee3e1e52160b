//! Lists of channels as people write them: numbers and ranges.
//!
//! ```text
//!  [0, 3, "8-15"] ──► 0, 3, 8, 9, … 15
//! ```

use std::fmt;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// One entry of a list: a channel of the experiment, or the first and the last of several.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(untagged, expecting = "expected a channel (3), or the first and the last of several (\"8-15\")")]
pub enum Entry {
    /// One channel.
    One(u16),
    /// `"first-last"`, both of them included.
    Range(String),
}

/// A list of channels.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(transparent)]
pub struct ChannelList(pub Vec<Entry>);

/// An entry of a list that is no range of channels.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("\"{0}\" is no range of channels; write the first and the last, as in \"8-15\"")]
pub struct RangeError(pub String);

impl ChannelList {
    /// Whether nothing is listed.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Every channel listed, in the order of the list.
    ///
    /// # Errors
    /// When a range is not `"first-last"` with the first no larger than the last.
    pub fn channels(&self) -> Result<Vec<u16>, RangeError> {
        let mut channels = Vec::new();
        for entry in &self.0 {
            match entry {
                Entry::One(channel) => channels.push(*channel),
                Entry::Range(text) => channels.extend(range(text).ok_or_else(|| RangeError(text.clone()))?),
            }
        }
        Ok(channels)
    }
}

impl From<std::ops::RangeInclusive<u16>> for ChannelList {
    fn from(range: std::ops::RangeInclusive<u16>) -> ChannelList {
        ChannelList(vec![Entry::Range(format!("{}-{}", range.start(), range.end()))])
    }
}

impl fmt::Display for Entry {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Entry::One(channel) => channel.fmt(f),
            Entry::Range(text) => f.write_str(text),
        }
    }
}

fn range(text: &str) -> Option<std::ops::RangeInclusive<u16>> {
    let (first, last) = text.split_once('-')?;
    let (first, last) = (first.trim().parse().ok()?, last.trim().parse().ok()?);
    (first <= last).then_some(first..=last)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_and_ranges_are_listed_in_their_order() {
        let list: ChannelList = serde_json::from_str(r#"[9, "0-2", 5]"#).expect("valid");
        assert_eq!(list.channels().expect("valid"), [9, 0, 1, 2, 5]);
    }

    #[test]
    fn what_is_no_channel_is_refused_with_what_to_write() {
        let message = serde_json::from_str::<ChannelList>("[1.5]").expect_err("no channel").to_string();
        assert!(
            message.contains("expected a channel (3), or the first and the last of several"),
            "{message}"
        );
    }

    #[test]
    fn what_is_no_range_is_shown() {
        for wrong in ["7", "3-1", "a-b", "-4", "0-70000"] {
            let list = ChannelList(vec![Entry::Range(wrong.to_owned())]);
            let message = list.channels().expect_err("no range").to_string();
            assert!(message.contains(wrong) && message.contains("8-15"), "{message}");
        }
    }
}
