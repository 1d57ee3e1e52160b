//! Comparisons with a channel, group or source that no hit of a run has.
//!
//! ```text
//!  channel == 99 && energy > 5   ──►   channel == 99   asked of each channel of the run: true of none
//! ```
//! Such an expression is valid, and keeps nothing: that is a warning.

use super::expression::Expression;
use super::field::Field;
use super::program::Step;
use crate::channels::{Channel, ChannelMap};

impl Expression {
    /// A message on each comparison of `channel`, `group` or `source` with a number that is true of no channel of the run.
    pub fn foreign_numbers(&self, map: &ChannelMap) -> Vec<String> {
        let steps = self.steps();
        let mut messages = Vec::new();
        for (place, step) in steps.iter().enumerate() {
            let before = |steps_before: usize| place.checked_sub(steps_before).map(|place| steps[place]);
            let (field, text, holds): (_, _, Box<dyn Fn(f64) -> bool>) = match (before(2), before(1), *step) {
                (_, Some(Step::Field(field)), Step::CompareConstant(relation, number)) => {
                    let number = number.value;
                    let text = format!("{} {} {number}", field.name(), relation.symbol());
                    (field, text, Box::new(move |value| relation.holds(value, number)))
                }
                (_, Some(Step::Field(field)), Step::Within(low, high)) => {
                    let (low, high) = (low.value, high.value);
                    let text = format!("{} in [{low}, {high}]", field.name());
                    (field, text, Box::new(move |value| low <= value && value <= high))
                }
                (Some(Step::Number(number)), Some(Step::Field(field)), Step::Compare(relation)) => {
                    let number = number.value;
                    let text = format!("{number} {} {}", relation.symbol(), field.name());
                    (field, text, Box::new(move |value| relation.holds(number, value)))
                }
                _ => continue,
            };
            let Some(number_of) = number_of(field) else { continue };
            let mut numbers: Vec<u16> = map.channels().iter().map(number_of).collect();
            if !numbers.iter().any(|number| holds(f64::from(*number))) {
                numbers.sort_unstable();
                numbers.dedup();
                messages.push(format!(
                    "`{text}` is true of no hit: in this run, `{}` is {}; correct the number, or see `first_channel`, `channels` and \
                     [[channel]]",
                    field.name(),
                    ranges(&numbers)
                ));
            }
        }
        messages
    }
}

/// The number of a channel that this field is; `None` of fields that are not known before a hit comes.
fn number_of(field: Field) -> Option<fn(&Channel) -> u16> {
    match field {
        Field::Channel => Some(|channel| channel.number),
        Field::Group => Some(|channel| channel.group),
        Field::Source => Some(|channel| channel.source.0),
        _ => None,
    }
}

/// Rising numbers as ranges, such as `0 to 63, 70`.
fn ranges(numbers: &[u16]) -> String {
    let range = |run: &[u16]| match run {
        [first, .., last] => format!("{first} to {last}"),
        _ => run[0].to_string(),
    };
    let ranges: Vec<String> = numbers.chunk_by(|one, next| next - one == 1).map(range).collect();
    ranges.join(", ")
}

#[cfg(test)]
mod tests {
    use thalweg_data::SourceId;

    use super::*;
    use crate::channels::SourceChannels;
    use crate::cut::Scope;

    #[test]
    fn comparisons_with_numbers_that_no_channel_has_are_found_and_others_are_not() {
        let sender = |source, channels| SourceChannels {
            source: SourceId(source),
            name: source.to_string(),
            channels,
        };
        let map =
            ChannelMap::new(&[sender(0, 0..=7), sender(1, 64..=64)], &[], &[]).expect("no channel is shared");
        let found =
            |text: &str| Expression::parse(text, Scope::Hit, &[]).expect("valid").foreign_numbers(&map);
        for (text, comparison) in [
            ("channel == 99", "`channel == 99`"),
            ("energy > 5 && channel in [8, 63]", "`channel in [8, 63]`"),
            ("99 == channel", "`99 == channel`"),
            ("group == 1 || pile_up", "`group == 1`"),
            ("source >= 2", "`source >= 2`"),
            ("channel == 3 || channel == 65", "`channel == 65`"),
        ] {
            let [message] = &found(text)[..] else { panic!("{text}: {:?}", found(text)) };
            assert!(message.starts_with(comparison), "{message}");
        }
        assert!(found("channel == 99")[0].contains("`channel` is 0 to 7, 64;"));
        for text in [
            "channel == 64",
            "channel != 99",
            "channel in [8, 64]",
            "energy == 99",
            "channel * 2 == 99",
            "1 <= source",
        ] {
            assert_eq!(found(text), [""; 0], "{text}");
        }
    }
}
