//! The book's pages on the configuration are what the schema gives.
//!
//! ```text
//!  json_schema ─► sections, their keys: type, unit, default, meaning ─► docs/configuration/sources.md, sections.md
//! ```

use std::fmt::Write;

use serde_json::{Map, Value};
use thalweg_run::config::json_schema;

const MARK: &str = "<!-- Generated from the schema by `make generated`; a test compares. -->";
const COLUMNS: &str = "| key | type | unit | default | meaning |\n|---|---|---|---|---|\n";
/// Behind the heading of the keys that all sources have.
const EVERY_FORMAT: &str = ", keys of every format";
/// Every section but `[[source]]`, in the order of the data.
const SECTIONS: [&str; 27] = [
    "run",
    "order",
    "channels",
    "channel",
    "clocks",
    "stage",
    "cut",
    "polygon",
    "coincidence",
    "spectra",
    "spectrum",
    "pulses",
    "trigger",
    "busy",
    "build",
    "slices",
    "filter",
    "unit",
    "threads",
    "record",
    "ship",
    "control",
    "series",
    "monitor",
    "alarm",
    "notify",
    "unattended",
];
/// Units by the end of a key, the longer end first.
const UNITS: [(&str, &str); 25] = [
    ("bytes_per_s", "B/s"),
    ("per_second", "1/s"),
    ("gain_per_kev", "1/keV"),
    ("percent", "%"),
    ("seconds", "s"),
    ("_bytes", "B"),
    ("_kib", "KiB"),
    ("_mib", "MiB"),
    ("_mhz", "MHz"),
    ("_hz", "Hz"),
    ("_kev", "keV"),
    ("_ppb", "10⁻⁹"),
    ("_ppm", "10⁻⁶"),
    ("_hits", "hits"),
    ("_events", "events"),
    ("_triggers", "triggers"),
    ("_samples", "samples"),
    ("_bits", "bits"),
    ("_bins", "bins"),
    ("_ps", "ps"),
    ("_ns", "ns"),
    ("_us", "µs"),
    ("_ms", "ms"),
    ("_s", "s"),
    ("_m", "m"),
];

/// A table of the configuration, and what stands in the heading behind it.
struct Section<'a> {
    path: String,
    is_list: bool,
    remark: String,
    keys: Vec<(&'a String, &'a Value)>,
    schema: &'a Value,
}

struct Pages<'a> {
    root: &'a Value,
}

impl<'a> Pages<'a> {
    /// What a property is: references followed, and "or nothing" left out.
    fn resolved(&self, value: &'a Value) -> &'a Value {
        if let Some(place) = value["$ref"].as_str() {
            let place = place.strip_prefix('#').expect("references stay in the schema");
            return self.resolved(self.root.pointer(place).expect("a reference leads somewhere"));
        }
        let choices = value["anyOf"].as_array().into_iter().flatten();
        let mut choices = choices.filter(|choice| choice["type"] != "null");
        match (choices.next(), choices.next()) {
            (Some(only), None) => self.resolved(only),
            _ => value,
        }
    }

    /// The type in words; a word of an enumeration stands in the column of meanings.
    fn kind(&self, value: &'a Value) -> String {
        let value = self.resolved(value);
        if let Some(choices) = value["anyOf"].as_array().or(value["oneOf"].as_array()) {
            let mut kinds: Vec<String> = choices.iter().map(|choice| self.kind(choice)).collect();
            kinds.dedup();
            return kinds.join(" or ");
        }
        if value.get("const").is_some() {
            return "word".to_owned();
        }
        let kind = value["type"].as_str().or_else(|| value["type"][0].as_str()).unwrap_or_default();
        match kind {
            "string" => "text".to_owned(),
            "boolean" => "`true` or `false`".to_owned(),
            "integer" => format!("integer{}", bounds(value)),
            "number" => format!("number{}", bounds(value)),
            "array" if value.get("prefixItems").is_some() => "pair of texts".to_owned(),
            "array" => {
                let items = self.kind(&value["items"]);
                format!("list of {items}{}", if items.contains(' ') { "" } else { "s" })
            }
            "object" if value["additionalProperties"].is_object() => {
                format!("table, name = {}", self.kind(&value["additionalProperties"]))
            }
            "object" => "table".to_owned(),
            other => panic!("no word for the type {other:?} of {value}"),
        }
    }

    /// What a key means, with the meaning of each word that it takes.
    fn meaning(&self, key: &str, value: &'a Value) -> String {
        let resolved = self.resolved(value);
        let own = value["description"].as_str().or(resolved["description"].as_str());
        let own = own.unwrap_or_else(|| panic!("`{key}` has no description: {value}"));
        let mut meaning = one_line(own);
        let choices = |value: &'a Value| value["oneOf"].as_array().or(value["anyOf"].as_array());
        let of_items = choices(self.resolved(&resolved["items"]));
        for choice in choices(resolved).or(of_items).into_iter().flatten() {
            if let (Some(word), Some(what)) = (choice["const"].as_str(), choice["description"].as_str()) {
                write!(meaning, "<br>`\"{word}\"`: {}", one_line(what)).expect("text");
            }
        }
        meaning
    }

    fn row(&self, section: &Section<'a>, key: &str, value: &'a Value) -> String {
        let is_required =
            section.schema["required"].as_array().is_some_and(|keys| keys.iter().any(|one| one == key));
        let default = match value.get("default") {
            _ if is_required => "**required**".to_owned(),
            None | Some(Value::Null) => "none".to_owned(),
            Some(default) if default.is_object() => "as its keys say".to_owned(),
            Some(default) => format!("`{default}`"),
        };
        let unit = UNITS.iter().find(|(end, _)| key.ends_with(end)).map_or("", |(_, unit)| unit);
        let (kind, meaning) = match value["const"].as_str() {
            Some(word) => (format!("`\"{word}\"`"), "Chooses this kind of source.".to_owned()),
            None => (self.kind(value), self.meaning(key, value)),
        };
        format!("| `{key}` | {kind} | {unit} | {default} | {meaning} |\n")
    }

    /// The table that a key opens, if it opens one.
    fn nested(&self, section: &Section<'a>, key: &str, value: &'a Value) -> Option<Section<'a>> {
        let value = self.resolved(value);
        let (is_list, inner) = match (value.get("items"), value.get("additionalProperties")) {
            (Some(items), _) => (true, self.resolved(items)),
            (None, Some(named)) if named.is_object() => (false, self.resolved(named)),
            _ => (false, value),
        };
        let name = if std::ptr::eq(inner, value) || is_list { "" } else { ".NAME" };
        // What a table is for, it says itself: `[source.faults]` is only of sources of hits.
        let remark = Some(section.remark.clone()).filter(|remark| remark != EVERY_FORMAT).unwrap_or_default();
        Some(Section {
            path: format!("{}.{key}{name}", section.path),
            is_list,
            remark,
            keys: keys(inner["properties"].as_object()?),
            schema: inner,
        })
    }

    /// A section with those inside it.
    fn section(&self, level: &str, section: &Section<'a>) -> String {
        let (open, close) = if section.is_list { ("[[", "]]") } else { ("[", "]") };
        let mut text = format!("{level} `{open}{}{close}`{}\n\n", section.path, section.remark);
        if let Some(what) = section.schema["description"].as_str() {
            writeln!(text, "{}\n", what.replace('\n', " ")).expect("text");
        }
        if !section.keys.is_empty() {
            text.push_str(COLUMNS);
        }
        for (key, value) in &section.keys {
            text.push_str(&self.row(section, key, value));
        }
        match section.schema.get("additionalProperties") {
            Some(Value::Bool(true)) => text.push_str("\nMore keys are those of the `kind`.\n"),
            Some(any @ Value::Object(_)) => {
                writeln!(text, "Each key is a name, and its value: {}.", self.kind(any)).expect("text");
                for choice in self.resolved(any)["anyOf"].as_array().into_iter().flatten() {
                    let what = choice["description"].as_str().unwrap_or_default();
                    writeln!(text, "\n- {}: {what}", self.kind(choice)).expect("text");
                    if let Some(inner) = self.resolved(choice)["properties"].as_object() {
                        let inner =
                            Section { keys: keys(inner), schema: self.resolved(choice), ..section.inner() };
                        text.push_str(&format!("\n{COLUMNS}"));
                        inner
                            .keys
                            .iter()
                            .for_each(|(key, value)| text.push_str(&self.row(&inner, key, value)));
                    }
                }
            }
            _ => {}
        }
        text.push('\n');
        for nested in section.keys.iter().filter_map(|(key, value)| self.nested(section, key, value)) {
            text.push_str(&self.section("###", &nested));
        }
        text
    }

    fn sections(&self) -> String {
        let all = self.root["properties"].as_object().expect("sections");
        assert_eq!(all.len(), SECTIONS.len() + 1, "every section is in a page: {:?}", all.keys());
        let mut text =
            format!("# All other sections\n\n{MARK}\n\n{}", introduction("sources.md", "`[[source]]`"));
        for name in SECTIONS {
            let value = &all[name];
            let is_list = value.get("items").is_some();
            let schema = self.resolved(if is_list { &value["items"] } else { value });
            let keys = schema["properties"].as_object().map(keys).unwrap_or_default();
            let section = Section { path: name.to_owned(), is_list, remark: String::new(), keys, schema };
            text.push_str(&self.section("##", &section));
        }
        text
    }

    fn sources(&self) -> String {
        let kinds = self.root["properties"]["source"]["items"]["oneOf"].as_array().expect("kinds of sources");
        let every =
            |key: &String, value: &Value| kinds.iter().all(|kind| kind["properties"].get(key) == Some(value));
        let properties = |kind: &'a Value| keys(kind["properties"].as_object().expect("keys"));
        let mut text =
            format!("# Sources\n\n{MARK}\n\n{}", introduction("sections.md", "all other sections"));
        let (common, _): (Vec<_>, Vec<_>) =
            properties(&kinds[0]).into_iter().partition(|(key, value)| every(key, value));
        let path = || "source".to_owned();
        let remark = EVERY_FORMAT.to_owned();
        let first = Section { path: path(), is_list: true, remark, keys: common, schema: &kinds[0] };
        text.push_str(&self.section("##", &first));
        for kind in kinds {
            let format = kind["properties"]["format"]["const"].as_str().expect("a format has its word");
            let mut keys = properties(kind);
            keys.retain(|(key, value)| !every(key, value));
            let remark = format!(" of format `{format}`");
            let section = Section { path: path(), is_list: true, remark, keys, schema: kind };
            text.push_str(&self.section("##", &section));
        }
        text
    }
}

impl Section<'_> {
    /// A table that has no heading of its own.
    fn inner(&self) -> Self {
        Self {
            path: self.path.clone(),
            is_list: false,
            remark: String::new(),
            keys: Vec::new(),
            schema: self.schema,
        }
    }
}

/// Required and optional keys alike, in the schema's order.
fn keys(properties: &Map<String, Value>) -> Vec<(&String, &Value)> {
    properties.iter().collect()
}

/// What is said of a key, as a cell of a table; links that only the documentation of the sources can follow are left out.
fn one_line(text: &str) -> String {
    let mut line = String::new();
    for (position, part) in text.replace('\n', " ").replace('|', "\\|").split("`](").enumerate() {
        let behind = if position == 0 { Some(part) } else { part.split_once(')').map(|(_, behind)| behind) };
        let behind = behind.expect("a link is closed");
        line.push_str(if position == 0 { "" } else { "`" });
        match behind.rsplit_once("[`") {
            Some((before, name)) if !name.contains('`') => write!(line, "{before}`{name}").expect("text"),
            _ => line.push_str(behind),
        }
    }
    line
}

/// Bounds that are narrower than those of the integer that holds the number.
fn bounds(value: &Value) -> String {
    let number = |name: &str| value[name].as_i64().filter(|bound| ![0, 255, 65535].contains(bound));
    match (number("minimum"), number("maximum")) {
        (Some(low), Some(high)) => format!(", {low} to {high}"),
        (Some(low), None) => format!(", at least {low}"),
        (None, Some(high)) => format!(", at most {high}"),
        (None, None) => String::new(),
    }
}

fn introduction(page: &str, rest: &str) -> String {
    format!(
        "This page lists every key with its type, unit, default and meaning; [another page]({page}) has {rest}. \
         [The configuration file](file.md) says how a file is made of them. `thalweg schema` prints the same as JSON Schema. \
         \"none\" means that the key has no value unless you give one.\n\n"
    )
}

/// With `THALWEG_GENERATE=1`, as `make generated` sets it, the pages are written anew instead.
#[test]
fn the_configuration_reference_is_what_the_schema_gives() {
    let schema = json_schema();
    let pages = Pages { root: &schema };
    for (name, text) in [("sources", pages.sources()), ("sections", pages.sections())] {
        let text = format!("{}\n", text.trim_end());
        let file = format!("{}/../../docs/configuration/{name}.md", env!("CARGO_MANIFEST_DIR"));
        if std::env::var_os("THALWEG_GENERATE").is_some() {
            std::fs::write(&file, text).expect("written");
            continue;
        }
        let there = std::fs::read_to_string(&file).expect("the page is there");
        assert!(
            there == text,
            "docs/configuration/{name}.md is not what the schema gives: run `make generated`"
        );
    }
}
