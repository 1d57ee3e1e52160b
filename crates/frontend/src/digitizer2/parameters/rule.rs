//! The values that a parameter takes, and the form in which a board keeps them.
//!
//! ```text
//!  "405" ─ Rule::Number 0 to 32000 in steps of 8 ─► "400"         "70000" ─► what is allowed
//!  "swtrg|testpulse" ─ Rule::AnyOf ─► "SwTrg | TestPulse"
//! ```

use std::fmt;

/// The limits of a number.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Range {
    /// The smallest value.
    pub low: f64,
    /// The largest value.
    pub high: f64,
    /// The board rounds down to a multiple of this, if it is known.
    pub step: Option<f64>,
}

impl Range {
    pub(crate) const fn stepped(low: f64, high: f64, step: f64) -> Range {
        Range { low, high, step: Some(step) }
    }

    /// A range whose step no public source has.
    pub(super) const fn within(low: f64, high: f64) -> Range {
        Range { low, high, step: None }
    }

    /// The range of a value that is so many times as large.
    pub(crate) fn times(self, factor: f64) -> Range {
        let step = self.step.map(|step| step * factor);
        Range { low: self.low * factor, high: self.high * factor, step }
    }

    fn kept(self, number: f64) -> String {
        let Some(step) = self.step else { return plain(number) };
        // A number that is a multiple, except for the last bits of a binary fraction, is not changed.
        plain((number / step + 1e-9).floor() * step)
    }
}

impl fmt::Display for Range {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} to {}", plain(self.low), plain(self.high))?;
        self.step.map_or(Ok(()), |step| write!(f, " in steps of {}", plain(step)))
    }
}

/// A number with at most three digits behind the point.
pub(crate) fn plain(number: f64) -> String {
    format!("{}", (number * 1000.0).round() / 1000.0)
}

/// Words that a parameter takes, in any case.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Words {
    /// All of them.
    Known(&'static [&'static str]),
    /// Those that a public source has; there may be others.
    Incomplete(&'static [&'static str]),
    /// All of them, as a board lists them.
    Listed(Vec<String>),
}

impl Words {
    /// The words.
    pub fn all(&self) -> Box<dyn Iterator<Item = &str> + '_> {
        match self {
            Words::Known(words) | Words::Incomplete(words) => Box::new(words.iter().copied()),
            Words::Listed(words) => Box::new(words.iter().map(String::as_str)),
        }
    }

    fn find(&self, word: &str) -> Option<&str> {
        self.all().find(|known| known.eq_ignore_ascii_case(word.trim()))
    }

    fn list(&self) -> String {
        self.all().collect::<Vec<_>>().join(", ")
    }
}

/// The values that a parameter takes.
#[derive(Clone, Debug, PartialEq)]
pub enum Rule {
    /// It can be read only.
    ReadOnly,
    /// Any text.
    Anything,
    /// True or False.
    Boolean,
    /// A number; without limits if they are unknown.
    Number(Option<Range>),
    /// One word.
    OneOf(Words),
    /// Words, joined by `|`.
    AnyOf(Words),
}

/// Why a value is refused.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Refusal {
    /// The parameter can be read only.
    ReadOnly,
    /// These values are allowed.
    Allowed(String),
}

impl Rule {
    /// Returns the value in the form in which a board keeps it.
    ///
    /// # Errors
    /// When it is none of those that the parameter takes.
    pub fn kept(&self, value: &str) -> Result<String, Refusal> {
        let allowed = |text: String| Err(Refusal::Allowed(text));
        match self {
            Rule::ReadOnly => Err(Refusal::ReadOnly),
            Rule::Anything => Ok(value.to_owned()),
            Rule::Boolean => match value.trim() {
                yes if yes.eq_ignore_ascii_case("true") || yes == "1" => Ok("True".to_owned()),
                no if no.eq_ignore_ascii_case("false") || no == "0" => Ok("False".to_owned()),
                _ => allowed("True or False".to_owned()),
            },
            Rule::Number(range) => match (value.trim().parse::<f64>(), range) {
                (Ok(number), Some(range)) if (range.low..=range.high).contains(&number) => {
                    Ok(range.kept(number))
                }
                (Ok(number), None) if number.is_finite() => Ok(plain(number)),
                (_, Some(range)) => allowed(format!("a number from {range}")),
                (_, None) => allowed("a number".to_owned()),
            },
            Rule::OneOf(words) => match words.find(value) {
                Some(word) => Ok(word.to_owned()),
                None => allowed(words.list()),
            },
            Rule::AnyOf(words) => {
                let found: Option<Vec<&str>> = value.split('|').map(|word| words.find(word)).collect();
                found.map_or_else(
                    || allowed(format!("{}, several of them joined by `|`", words.list())),
                    |found| Ok(found.join(" | ")),
                )
            }
        }
    }

    /// Whether a value may be sent to a board: other words are accepted where not all are known.
    ///
    /// # Errors
    /// As of [`Rule::kept`].
    pub fn check(&self, value: &str) -> Result<(), Refusal> {
        match self {
            Rule::OneOf(Words::Incomplete(_)) => Ok(()),
            rule => rule.kept(value).map(drop),
        }
    }
}
