//! Words of an expression.
//!
//! ```text
//!  "psd > 0.12 && keV < 2 MeV" ──► psd │ > │ 0.12 │ && │ keV │ < │ 2000 │ end       each with its place
//! ```

use super::error::CutError;
use super::program::Constant;

/// A word.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Token {
    /// With its unit multiplied in, and what it is in then: times in ps, energies in keV, others in "".
    Number(Constant, &'static str),
    Name(String),
    /// What stands in quotation marks, `"` or `'`.
    Quoted(String),
    Symbol(&'static str),
    End,
}

/// Two characters before one, so that `<=` is not read as `<`.
const SYMBOLS: [&str; 18] =
    ["&&", "||", "<=", ">=", "==", "!=", "<", ">", "!", "+", "-", "*", "/", "(", ")", "[", "]", ","];

const UNITS: [(&str, f64, &str); 9] = [
    ("ps", 1.0, "ps"),
    ("ns", 1e3, "ps"),
    ("us", 1e6, "ps"),
    ("µs", 1e6, "ps"),
    ("ms", 1e9, "ps"),
    ("s", 1e12, "ps"),
    ("eV", 1e-3, "keV"),
    ("keV", 1.0, "keV"),
    ("MeV", 1e3, "keV"),
];

pub(crate) fn refuse(text: &str, place: usize, message: impl Into<String>) -> CutError {
    let place = text[..place.min(text.len())].chars().count();
    CutError::Expression { text: text.replace(['\n', '\t'], " "), place, message: message.into() }
}

/// All words with the byte where each begins; the last is [`Token::End`].
pub(crate) fn tokens(text: &str) -> Result<Vec<(Token, usize)>, CutError> {
    let (mut found, mut place) = (Vec::new(), 0);
    while let Some(first) = text[place..].chars().next() {
        let rest = &text[place..];
        if first.is_whitespace() {
            place += first.len_utf8();
        } else if first.is_ascii_digit() || first == '.' {
            let (value, length) = number(text, place)?;
            found.push((value, place));
            place += length;
        } else if matches!(first, '"' | '\'') {
            let Some(length) = rest[1..].find(first) else {
                return Err(refuse(text, place, format!("the {first} that ends this name is missing")));
            };
            found.push((Token::Quoted(rest[1..=length].to_owned()), place));
            place += length + 2;
        } else if is_of_name(first) {
            let name: String = rest.chars().take_while(|each| is_of_name(*each)).collect();
            let length = name.len();
            found.push((Token::Name(name), place));
            place += length;
        } else if let Some(symbol) = SYMBOLS.iter().find(|symbol| rest.starts_with(**symbol)) {
            found.push((Token::Symbol(symbol), place));
            place += symbol.len();
        } else {
            return Err(refuse(text, place, format!("'{first}' has no meaning here")));
        }
    }
    found.push((Token::End, text.len()));
    Ok(found)
}

fn is_of_name(character: char) -> bool {
    character.is_alphanumeric() || character == '_' || character == 'µ'
}

/// A number with an optional unit, and how many bytes it takes.
fn number(text: &str, place: usize) -> Result<(Token, usize), CutError> {
    let rest = &text[place..];
    let digits = rest.find(|each: char| !(each.is_ascii_digit() || each == '.')).unwrap_or(rest.len());
    let mut length = digits;
    let exponent = &rest[digits..];
    if let Some(power) = exponent.strip_prefix(['e', 'E']) {
        let sign = usize::from(power.starts_with(['+', '-']));
        let figures = power[sign..].find(|each: char| !each.is_ascii_digit()).unwrap_or(power.len() - sign);
        if figures > 0 {
            length += 1 + sign + figures;
        }
    }
    let value: f64 = rest[..length]
        .parse()
        .map_err(|_| refuse(text, place, format!("\"{}\" is no number", &rest[..length])))?;
    if value.is_infinite() {
        let message = format!("{} is more than any number here; write one of at most 1e308", &rest[..length]);
        return Err(refuse(text, place, message));
    }
    let spaces = rest[length..].len() - rest[length..].trim_start().len();
    let unit: String = rest[length + spaces..].chars().take_while(|each| is_of_name(*each)).collect();
    if !unit.starts_with(char::is_alphabetic) || unit == "in" {
        return Ok((Token::Number(Constant::of_digits(&rest[..length], value, 1.0), ""), length));
    }
    match UNITS.iter().find(|(name, ..)| *name == unit) {
        Some((_, factor, base)) => {
            let number = Constant::of_digits(&rest[..length], value, *factor);
            Ok((Token::Number(number, base), length + spaces + unit.len()))
        }
        None => {
            let message = format!("\"{unit}\" is no unit; there are ps, ns, us, ms, s, eV, keV, MeV");
            Err(refuse(text, place + length + spaces, message))
        }
    }
}
