//! Finds the line of an error about values in the text again, from the words of the message.
//!
//! ```text
//!  "[[cut]] "fast": …"  ─► section `cut`, the table named "fast" ─┐
//!  "`depth = 0` …"      ─► the key that the message names first ──┴─► line
//! ```
//! The modules check their settings without knowing of files. Their messages name sections as `[x]`, tables by their names in quotes, and
//! keys as `key`, `key = value` or plainly. A value that is not in the file, such as a default, has the line of its section.

use toml::Spanned;
use toml::de::{DeTable, DeValue};

type Value<'t> = Spanned<DeValue<'t>>;

/// The line of `text` that `message` is about, counted from 1; `None` where it names nothing that is there.
pub(super) fn line_of(text: &str, message: &str) -> Option<usize> {
    line_among(text, message, keys_of_table)
}

/// The same where the message names a section that is in the text.
pub(super) fn line_in_section(text: &str, message: &str) -> Option<usize> {
    line_among(text, message, |_| Vec::new())
}

/// The line among the keys of the section that the message names; of one that is not there, among those that `others` gives.
fn line_among(
    text: &str,
    message: &str,
    others: impl for<'t> Fn(&'t DeTable<'_>) -> Vec<Key<'t>>,
) -> Option<usize> {
    let top = DeTable::parse(text).ok()?.into_inner();
    let tables = section(&top, message);
    let everything: Vec<Key<'_>> = match tables.is_empty() {
        true => others(&top),
        false => tables.iter().flat_map(|table| keys_of(table)).collect(),
    };
    let named = everything.iter().filter_map(|key| Some((mention(message, key.name)?, key.byte)));
    // The message shows an expression that cannot be read on a line of its own.
    let is_shown =
        |key: &&Key<'_>| key.value.is_some_and(|value| message.contains(&format!("\n    {value}\n")));
    let shown = || everything.iter().find(is_shown).map(|key| key.byte);
    let byte = match shown().or_else(|| named.min().map(|(_, byte)| byte)) {
        Some(byte) => byte,
        None => tables.first()?.span().start,
    };
    Some(text.get(..byte)?.matches('\n').count() + 1)
}

struct Key<'t> {
    name: &'t str,
    byte: usize,
    /// Its value, if that is a text.
    value: Option<&'t str>,
}

fn keys_of_table<'t>(table: &'t DeTable<'_>) -> Vec<Key<'t>> {
    let mut keys = Vec::new();
    for (key, inner) in table {
        let value = match inner.get_ref() {
            DeValue::String(text) => Some(&**text),
            _ => None,
        };
        keys.push(Key { name: key.get_ref(), byte: key.span().start, value });
        keys.extend(keys_of(inner));
    }
    keys
}

/// The keys of a table, or of all tables of an array, and of those inside them.
fn keys_of<'t>(value: &'t Value<'_>) -> Vec<Key<'t>> {
    match value.get_ref() {
        DeValue::Table(table) => keys_of_table(table),
        DeValue::Array(tables) => tables.iter().flat_map(keys_of).collect(),
        _ => Vec::new(),
    }
}

/// The tables of the section that a message names first: as `[x]`, `[[x]]`, `[x.y]`, as source "x", or as a channel by its number.
fn section<'t, 'v>(top: &'t DeTable<'v>, message: &str) -> Vec<&'t Value<'v>> {
    let in_brackets =
        message.split('[').skip(1).filter_map(|rest| rest.split_once(']')).map(|(path, _)| path);
    let of_source = message.contains("source \"").then_some("source");
    let found: Vec<_> =
        of_source.into_iter().chain(in_brackets).map(|path| tables_at(top, path, message)).collect();
    let is_meant = |tables: &&Vec<&Value<'_>>| tables.iter().any(|table| named_at(table, message).is_some());
    let meant = found.iter().find(is_meant).or_else(|| found.iter().find(|tables| !tables.is_empty()));
    let of_channel = || Some(tables_at(top, "channel", message)).filter(|tables| is_meant(&tables));
    meant.cloned().or_else(of_channel).unwrap_or_default()
}

fn tables_at<'t, 'v>(top: &'t DeTable<'v>, path: &str, message: &str) -> Vec<&'t Value<'v>> {
    let (first, rest) = path.split_once('.').unwrap_or((path, ""));
    let Some((_, value)) = top.iter().find(|(key, _)| key.get_ref() == first) else { return Vec::new() };
    let tables = match value.get_ref() {
        DeValue::Array(tables) => {
            // What a message names first it is about; others are what that does not fit to.
            let first = tables.iter().filter_map(|table| named_at(table, message)).min();
            tables.iter().filter(|table| named_at(table, message) == first).collect()
        }
        _ => vec![value],
    };
    if rest.is_empty() {
        return tables;
    }
    let inside = tables.iter().filter_map(|table| match table.get_ref() {
        DeValue::Table(table) => Some(tables_at(table, rest, message)),
        _ => None,
    });
    let inside: Vec<_> = inside.flatten().collect();
    // A part that is not there has the line of what it would be in.
    if inside.is_empty() { tables } else { inside }
}

/// Where a message first names this table, by its name in quotes or as a channel by its number.
fn named_at(table: &Value<'_>, message: &str) -> Option<usize> {
    let DeValue::Table(table) = table.get_ref() else { return None };
    let places = table.iter().filter_map(|(key, value)| match (&**key.get_ref(), value.get_ref()) {
        ("name" | "kind", DeValue::String(name)) => message.find(&format!("\"{name}\"")),
        ("number", DeValue::Integer(number)) => message.find(&format!("channel {number}")),
        _ => None,
    });
    places.min()
}

/// Returns how clearly and where a message names a key; smaller is clearer.
fn mention(message: &str, key: &str) -> Option<(u8, usize)> {
    let is_part =
        |letter: Option<char>| letter.is_some_and(|letter| letter.is_alphanumeric() || letter == '_');
    let whole = |at: &usize| {
        !is_part(message[..*at].chars().next_back()) && !is_part(message[at + key.len()..].chars().next())
    };
    let clearness = |at: usize| {
        let behind = &message[at + key.len()..];
        match message[..at].ends_with('`') || behind.starts_with(" =") || behind.starts_with("` =") {
            true => Some((0, at)),
            // Words such as `name` are also words.
            false if key.contains('_') => Some((1, at)),
            false if message[..at].ends_with("] ") || behind.starts_with(':') => Some((2, at)),
            false => None,
        }
    };
    message.match_indices(key).map(|(at, _)| at).filter(whole).filter_map(clearness).min()
}

#[cfg(test)]
mod tests {
    use super::*;

    const TEXT: &str = "[build]\ndepth = 7\n\n[[source]]\nname = \"left\"\nblock_bytes = 5\n[source.fields]\ntime = { offset = 1, width = 99 }\n\n\
                        [[source]]\nname = \"right\"\nblock_bytes = 6\n\n[[cut]]\nname = \"fast\"\nkeep = \"x\"\n[[cut]]\nname = \"slow\"\n[[channel]]\nnumber = 7\n";

    #[test]
    fn errors_have_the_line_of_the_key_that_they_name() {
        for (message, line) in [
            ("`[build] depth = 7` is not possible", Some(2)),
            ("[build]: no room", Some(1)),
            ("source \"right\": `block_bytes` = 6; allowed is", Some(12)),
            ("source \"left\": block_bytes and so on", Some(6)),
            ("source \"left\": `width` is 99", Some(8)),
            ("source \"right\": too old", Some(10)),
            ("source \"right\": its channels 0 to 63 overlap 0 to 63 of \"left\"", Some(10)),
            ("source \"left\": its channels 0 to 63 overlap 0 to 63 of \"right\"", Some(4)),
            ("[[cut]] \"slow\": unknown word", Some(17)),
            ("[[cut]] \"fast\": `keep` is wrong", Some(16)),
            ("[[cut]] \"fast\": what is this\n    x\n    ^", Some(16)),
            ("[slices]: `depth = 7`", Some(2)),
            ("[[cut]] or [[source]] \"right\" `block_bytes`", Some(12)),
            ("channel 7 is not sent", Some(19)),
            ("channel 8 is not sent", None),
            ("[threads]: nothing of this is there", None),
        ] {
            assert_eq!(line_of(TEXT, message), line, "{message}");
        }
        assert_eq!(line_of("= broken", "[build] x"), None);
    }
}
