//! Many links in one URL: numbers in braces.
//!
//! ```text
//!  tcp://192.168.10.{16..19}:24        ─►  tcp://192.168.10.16:24 … tcp://192.168.10.19:24
//!  tcp://127.0.0.1:{5000..5003,5010}   ─►  five ports
//!  tcp://10.0.{1..2}.{1..3}:24         ─►  six: the last range runs fastest
//!  tcp://board{01..16}.lab:24          ─►  tcp://board01.lab:24 … tcp://board16.lab:24
//! ```
//! A range whose first or last number has leading zeros has numbers of as many digits. The order of the links is that of
//! the text, and so is the order of their sources.

/// Most links that one URL may stand for.
pub const MOST_LINKS: usize = 4096;

/// Why a text with braces cannot be expanded: what stands there, and what should.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct BadRange {
    pub(crate) found: String,
    pub(crate) expected: &'static str,
}

const SHAPE: &str =
    "a range of numbers such as {16..120}, or several such as {1..3,7}, each from 0 to 65535 and not falling";
const BOUND: &str = "a range of at most 4096 links; write several sources";

/// Every text that `text` stands for: itself, if it has no braces.
pub(crate) fn expand(text: &str) -> Result<Vec<String>, BadRange> {
    let mut heads = vec![String::new()];
    let mut rest = text;
    while let Some((before, behind)) = rest.split_once('{') {
        let wrong = |found: &str| BadRange { found: found.to_owned(), expected: SHAPE };
        let (inside, after) = behind.split_once('}').ok_or_else(|| wrong(&rest[before.len()..]))?;
        let numbers =
            numbers(inside).map_err(|expected| BadRange { found: format!("{{{inside}}}"), expected })?;
        if before.contains('}') {
            return Err(wrong(before));
        }
        if heads.len() * numbers.len() > MOST_LINKS {
            return Err(BadRange { found: format!("{{{inside}}}"), expected: BOUND });
        }
        heads = heads
            .iter()
            .flat_map(|head| numbers.iter().map(move |number| format!("{head}{before}{number}")))
            .collect();
        rest = after;
    }
    if rest.contains('}') {
        return Err(BadRange { found: rest.to_owned(), expected: SHAPE });
    }
    heads.iter_mut().for_each(|head| head.push_str(rest));
    Ok(heads)
}

/// The numbers of `1..3,7`, as they are written.
fn numbers(inside: &str) -> Result<Vec<String>, &'static str> {
    let number = |text: &str| text.parse::<u16>().map_err(|_| SHAPE);
    let mut all = Vec::new();
    for part in inside.split(',') {
        let (first, last) = part.split_once("..").unwrap_or((part, part));
        let ends = [first.trim(), last.trim()];
        let is_padded = ends.iter().any(|end| end.len() > 1 && end.starts_with('0'));
        let width = if is_padded { ends[0].len().max(ends[1].len()) } else { 0 };
        let (first, last) = (number(ends[0])?, number(ends[1])?);
        if first > last {
            return Err(SHAPE);
        }
        if all.len() + usize::from(last - first) >= MOST_LINKS {
            return Err(BOUND);
        }
        all.extend((first..=last).map(|number| format!("{number:0width$}")));
    }
    Ok(all)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn expanded(text: &str) -> Vec<String> {
        expand(text).expect(text)
    }

    #[test]
    fn a_text_without_braces_is_itself() {
        assert_eq!(expanded("tcp://host:24"), ["tcp://host:24"]);
    }

    #[test]
    fn ranges_lists_and_single_numbers() {
        assert_eq!(expanded("h.{9..11}:24"), ["h.9:24", "h.10:24", "h.11:24"]);
        assert_eq!(expanded("h:{5000}"), ["h:5000"]);
        assert_eq!(expanded("h:{1..2, 7}"), ["h:1", "h:2", "h:7"]);
        assert_eq!(expanded("{1..2}.{3..4}:5"), ["1.3:5", "1.4:5", "2.3:5", "2.4:5"]);
        assert_eq!(expanded("192.168.10.{16..120}:24").len(), 105);
    }

    #[test]
    fn leading_zeros_stay() {
        assert_eq!(expanded("board{09..11}:24"), ["board09:24", "board10:24", "board11:24"]);
        assert_eq!(expanded("b{007}"), ["b007"]);
        assert_eq!(expanded("b{00..2, 5,08}"), ["b00", "b01", "b02", "b5", "b08"]);
        assert_eq!(expanded("b{0..1}{9..010}"), ["b0009", "b0010", "b1009", "b1010"]);
    }

    #[test]
    fn what_is_no_range_is_named() {
        for bad in
            ["{", "}", "a{1", "a1}", "{}", "{a..b}", "{3..1}", "{1..}", "{..}", "{1..70000}", "{-1}", "a}{1}"]
        {
            assert_eq!(expand(bad).expect_err(bad).expected, SHAPE, "{bad}");
        }
    }

    #[test]
    fn the_number_of_links_is_bounded() {
        assert_eq!(expanded("{1..4096}").len(), MOST_LINKS);
        for bad in
            ["{1..4097}", "{0..65535}", "{1..64}.{1..65}", "{1..4096,1}", "{1..4000}{1..4000}{1..4000}"]
        {
            assert_eq!(expand(bad).expect_err(bad).expected, BOUND, "{bad}");
        }
    }

    proptest::proptest! {
        #[test]
        fn any_text_expands_or_is_refused(text in "[a-z{}0-9.,:]{0,40}") {
            if let Ok(all) = expand(&text) {
                proptest::prop_assert!((1..=MOST_LINKS).contains(&all.len()));
            }
        }
    }
}
