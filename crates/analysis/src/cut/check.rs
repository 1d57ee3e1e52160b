//! Reads any text as an expression and holds its answers to the balance equations: for fuzzing and for tests.
//!
//! ```text
//!  bytes ─► text, hits ─► answers at once = answers one by one, each 0 or 1
//! ```

use thalweg_data::{Flags, Hit, SourceId};

use super::{Expression, Polygon, Scope, polygon};
use crate::channels::{ChannelMap, ChannelSettings, SourceChannels};

/// Hits made of the bytes, at most: more than one chunk of columns.
const MOST_HITS: usize = 300;

/// The text before the first zero byte is an expression, what is behind it makes hits.
///
/// # Panics
/// When a balance equation is broken.
pub fn check(bytes: &[u8]) {
    let text_end = bytes.iter().position(|byte| *byte == 0).unwrap_or(bytes.len());
    let (text, rest) = bytes.split_at(text_end);
    let Ok(text) = std::str::from_utf8(text) else { return };
    let region = polygon::Settings {
        name: "region".into(),
        x: "energy".into(),
        y: "psd".into(),
        points: vec![[100.0, 0.1], [1000.0, 0.6]],
    };
    let region = Polygon::new(&region).expect("a rectangle");
    if let Err(refused) = Expression::parse(text, Scope::Event, std::slice::from_ref(&region)) {
        assert!(!refused.to_string().is_empty(), "who refuses says why");
        return;
    }
    let Ok(mut expression) = Expression::parse(text, Scope::Hit, &[region]) else { return };
    let board = SourceChannels { source: SourceId(0), name: "board".into(), channels: 0..=255 };
    // Half of them are calibrated, by straight lines, some of which fall.
    let calibrated = |number: u16| ChannelSettings {
        number,
        energy_kev: Some(vec![f64::from(number), 0.1 - f64::from(number % 4) * 0.05]),
        ..ChannelSettings::default()
    };
    let calibrated: Vec<ChannelSettings> = (0..128).map(calibrated).collect();
    let map = ChannelMap::new(&[board], &calibrated, &[]).expect("one source");
    let hits: Vec<Hit> = rest.as_chunks::<16>().0.iter().take(MOST_HITS).map(hit).collect();
    let mut pass = vec![7; hits.len()];
    expression.evaluate_hits(&hits, &map, &mut pass);
    for (hit, pass) in hits.iter().zip(pass) {
        let mut alone = [7];
        expression.evaluate_hits(&[*hit], &map, &mut alone);
        assert!(pass <= 1 && alone[0] == pass, "{text} of {hit:?}");
    }
}

fn hit(bytes: &[u8; 16]) -> Hit {
    let word = |at: usize| u16::from_le_bytes([bytes[at], bytes[at + 1]]);
    let time = bytes.first_chunk().expect("sixteen bytes");
    Hit {
        time_ps: i64::from_le_bytes(*time),
        channel: word(8),
        energy: word(10),
        energy_short: word(12),
        flags: Flags(word(14)),
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const WORDS: [&str; 22] = [
        "energy",
        "psd",
        "keV",
        "time",
        "flags",
        "pile_up",
        "(",
        ")",
        "!",
        "&&",
        "||",
        "<",
        ">=",
        "==",
        "+",
        "-",
        "*",
        "/",
        "in [1, 2]",
        "inside(region)",
        "100 ns",
        "0.5",
    ];

    proptest! {
        #[test]
        fn no_bytes_and_no_words_break_it(
            bytes in proptest::collection::vec(any::<u8>(), 0..200),
            words in proptest::collection::vec(0..WORDS.len(), 0..16),
        ) {
            check(&bytes);
            let text = words.into_iter().map(|word| WORDS[word]).collect::<Vec<_>>().join(" ");
            check(&[text.as_bytes(), &[0], &bytes].concat());
        }
    }

    #[test]
    fn expressions_of_the_documentation_hold() {
        let hits: Vec<u8> = (0..4800u32).map(|index| (index * 37 % 251) as u8).collect();
        for text in
            ["psd > 0.12 && energy in [200, 3000]", "inside(region) || !pile_up", "100 < energy < 2000"]
        {
            check(&[text.as_bytes(), &[0], &hits].concat());
        }
    }
}
