//! Where the sections of a configuration stand in its text.
//!
//! ```text
//!  text ─► chunks: a header with what follows it, or a key in front of the first header ─► section, lines
//! ```

use std::collections::BTreeMap;
use std::ops::Range;

use toml::Spanned;
use toml::de::{DeTable, DeValue};

/// A part of a text that belongs to one section, in whole lines and with the comment directly above it.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Chunk {
    /// Its name: `cut` of `[[cut]]`, `source` of `[source.emulate]`.
    pub(super) section: String,
    /// Where it stands.
    pub(super) bytes: Range<usize>,
    /// It is a key in front of the first header, such as `cut = []`.
    pub(super) is_headless: bool,
}

/// The chunks of a text, in order; none of one that is no TOML.
pub(super) fn chunks(text: &str) -> Vec<Chunk> {
    let Ok(top) = DeTable::parse(text) else { return Vec::new() };
    let mut places = Places { text, begins: BTreeMap::new(), ends: Vec::new() };
    for (key, value) in top.get_ref() {
        places.enter(key.get_ref(), key.span().start, value, false);
    }
    places.ends.sort_unstable();
    let begins: Vec<(usize, usize)> =
        places.begins.keys().map(|at| (*at, places.with_comment(*at))).collect();
    let end_of = |index: usize| begins.get(index + 1).map_or(text.len(), |(_, begin)| *begin);
    let chunk = |(index, (at, begin)): (usize, &(usize, usize))| Chunk {
        section: places.begins[at].0.clone(),
        bytes: *begin..end_of(index),
        is_headless: places.begins[at].1,
    };
    begins.iter().enumerate().map(chunk).collect()
}

struct Places<'t> {
    text: &'t str,
    /// By the beginning of its line: the section of each header and of each key in front of the first, and whether it is such a key.
    begins: BTreeMap<usize, (String, bool)>,
    /// Where headers and values end.
    ends: Vec<usize>,
}

impl Places<'_> {
    /// Enters a value of a section, whose key stands at `key`.
    fn enter(&mut self, section: &str, key: usize, value: &Spanned<DeValue<'_>>, is_under_header: bool) {
        let span = value.span();
        let is_header = self.text[span.start..].starts_with('[');
        match value.get_ref() {
            DeValue::Table(table) if is_header => {
                self.begins.insert(self.line_of(span.start), (section.to_owned(), false));
                self.ends.push(span.end);
                self.enter_all(section, table, true);
            }
            // It has no place of its own: `a` of `[a.b]`, or of `a.b = 1`.
            DeValue::Table(table) if !self.text[span.start..].starts_with('{') => {
                self.enter_all(section, table, is_under_header);
            }
            DeValue::Array(tables) if is_array_of_tables(self.text, tables) => {
                tables.iter().for_each(|table| self.enter(section, key, table, is_under_header));
            }
            _ => {
                self.ends.push(span.end);
                if !is_under_header {
                    self.begins.insert(self.line_of(key), (section.to_owned(), true));
                }
            }
        }
    }

    fn enter_all(&mut self, section: &str, table: &DeTable<'_>, is_under_header: bool) {
        for (key, value) in table {
            self.enter(section, key.span().start, value, is_under_header);
        }
    }

    /// The beginning of the line of a byte. An expression begins a line: TOML has no two of them on one.
    fn line_of(&self, byte: usize) -> usize {
        self.text[..byte].rfind('\n').map_or_else(|| self.first_line(), |end| end + 1)
    }

    /// The beginning of the first line: some editors put a mark of the byte order in front of it.
    fn first_line(&self) -> usize {
        self.text.len() - self.text.trim_start_matches('\u{feff}').len()
    }

    /// The beginning of the comment that stands directly above a line, or of the line.
    fn with_comment(&self, line: usize) -> usize {
        // What begins with `#` before that is the end of a text of several lines.
        let before = self.ends.partition_point(|end| *end <= line);
        let least = before.checked_sub(1).map_or(self.first_line(), |last| self.ends[last]);
        let mut begin = line;
        while begin > least {
            let above = self.line_of(begin - 1);
            if above < least || !self.text[above..begin].trim_start().starts_with('#') {
                break;
            }
            begin = above;
        }
        begin
    }
}

/// Whether an array was written as tables under headers of their own.
fn is_array_of_tables(text: &str, array: &[Spanned<DeValue<'_>>]) -> bool {
    let is_header = |table: &Spanned<DeValue<'_>>| {
        matches!(table.get_ref(), DeValue::Table(_)) && text[table.span().start..].starts_with('[')
    };
    array.first().is_some_and(is_header)
}

#[cfg(test)]
mod tests {
    use super::*;

    const TEXT: &str = "# a file\nchannels.file = \"x.csv\"\nclocks = { range_ps = 1 }\n\n# of the run\n[run]\ntitle = \"\"\"\n[[cut]]\n# no comment\"\"\"\n\
                        # first\n  # of two\n  [[cut]]\nkeep = \"a\"\n[record.files] # an inner one\nrows = 1\n[[source]]\nx = [\n  [1, 2],\n]\n[[cut]]\nkeep = '''\n[run]\n'''\n";

    /// The parts of a text, as sections with their lines.
    fn parts(text: &str) -> Vec<(String, &str)> {
        chunks(text).into_iter().map(|chunk| (chunk.section, &text[chunk.bytes])).collect()
    }

    #[test]
    fn a_text_is_split_at_its_headers_and_the_keys_before_them() {
        let found = parts(TEXT);
        let expected = [
            ("channels", "# a file\nchannels.file = \"x.csv\"\n"),
            ("clocks", "clocks = { range_ps = 1 }\n\n"),
            ("run", "# of the run\n[run]\ntitle = \"\"\"\n[[cut]]\n# no comment\"\"\"\n"),
            ("cut", "# first\n  # of two\n  [[cut]]\nkeep = \"a\"\n"),
            ("record", "[record.files] # an inner one\nrows = 1\n"),
            ("source", "[[source]]\nx = [\n  [1, 2],\n]\n"),
            ("cut", "[[cut]]\nkeep = '''\n[run]\n'''\n"),
        ];
        assert_eq!(found.iter().map(|(section, part)| (&section[..], *part)).collect::<Vec<_>>(), expected);
        let headless: Vec<bool> = chunks(TEXT).iter().map(|chunk| chunk.is_headless).collect();
        assert_eq!(headless, [true, true, false, false, false, false, false]);
    }

    #[test]
    fn the_end_of_a_text_of_several_lines_is_no_comment() {
        let text = "[run]\ntitle = '''\n# it ends here'''\n[[cut]]\nkeep = \"a\"\n";
        assert_eq!(parts(text)[1], ("cut".to_owned(), "[[cut]]\nkeep = \"a\"\n"));
    }

    #[test]
    fn a_byte_order_mark_is_no_part_of_a_line() {
        let text = "\u{feff}[[cut]]\nkeep = \"a\"\n";
        assert_eq!(parts(text), [("cut".to_owned(), "[[cut]]\nkeep = \"a\"\n")]);
        assert_eq!(parts("\u{feff}# all\ncut = []")[0].1, "# all\ncut = []");
    }

    #[test]
    fn arrays_and_inline_tables_are_keys() {
        let text = "cut = []\npolygon = [{ name = \"a\" }]\n[coincidence]\nveto = { groups = [\"a\"] }\n";
        let sections: Vec<_> = parts(text).into_iter().map(|(section, _)| section).collect();
        assert_eq!(sections, ["cut", "polygon", "coincidence"]);
    }

    #[test]
    fn damaged_texts_have_no_chunks_and_never_crash() {
        for cut in 0..TEXT.len() {
            for damage in ["", "\"", "[", "=", "\n", "\0"] {
                let text = format!("{}{damage}{}", &TEXT[..cut], &TEXT[cut + 1..]);
                let mut end = 0;
                for chunk in chunks(&text) {
                    assert!(chunk.bytes.start >= end && chunk.bytes.start < chunk.bytes.end, "{text}");
                    end = chunk.bytes.end;
                }
            }
        }
    }
}
