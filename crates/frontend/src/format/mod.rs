//! The interface of a family of front ends to the rest of the system: one entry, and the settings of a source that it
//! reads.
//!
//! ```text
//!  FORMATS ─ word ─► Format ─ read ─► FormatSettings ┬ Hits(dyn HitFormat) ──────────► framing, decoders
//!                      │                             └ Triggered(dyn FragmentFormat) ─► framing
//!                      ├ control ─► ControlEntry ─ open(channel) ─► BoardControl
//!                      └ read_emulated ─► EmulateSettings ┬ SelfTriggered(dyn SelfTriggeredSettings) ─► an emulated board
//!                                                         └ Triggered(dyn EmulatedBoards) ───────────► emulated boards
//! ```
//! The rest of the system uses settings through these traits, regardless of their family, and only before a run starts;
//! the objects that they create are called once per batch.

mod control;
mod emulated;
mod facts;
mod fragments;
mod hits;
mod self_triggered;

use std::fmt;

use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::de::{DeserializeOwned, EnumAccess, Error as _, VariantAccess, Visitor};
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use serde_json::Value;
use toml::de::ValueDeserializer;

use crate::FORMATS;

pub use control::{
    BoardControl, ControlChannel, ControlEntry, ControlTransport, DataPlace, ImportSettings,
    ImportedSettings, NotImported, register_number,
};
pub(crate) use emulated::{BoardsByLink, own_emulated};
pub use emulated::{DueDatagram, EmulatedBoards, EmulatedLinks, EmulatedRegisters, EmulatedShape, OtherEnd};
pub use facts::BoardFacts;
pub(crate) use fragments::first_board_of_link;
pub use fragments::{BoardClock, FragmentFormat};
pub(crate) use hits::several;
pub use hits::{FramingInput, HitFormat, HitFraming};
pub use self_triggered::{HitCounter, SelfTriggeredSettings};

/// One family of front ends, as the configuration, the tests and the fuzzers know it.
pub struct Format {
    /// The name in the configuration.
    pub word: &'static str,
    /// What the family is, in one sentence, for the schema.
    pub about: &'static str,
    /// The page that describes its bytes, from the root of the repository, if the format is our own.
    pub document: Option<&'static str>,
    /// The extension of its files in lower case, if that identifies the family.
    pub file_extension: Option<&'static str>,
    /// How its boards are controlled, if they have a protocol for that.
    pub control: Option<&'static ControlEntry>,
    /// The fuzz targets of its parsers.
    #[cfg(any(test, feature = "harness"))]
    pub fuzz: &'static [FuzzTarget],
    pub(crate) schema: fn(&mut SchemaGenerator) -> Schema,
    pub(crate) read: fn(ValueDeserializer<'_>) -> Result<FormatSettings, toml::de::Error>,
    pub(crate) emulated: Option<EmulatedEntry>,
}

/// A parser that is called with arbitrary bytes.
#[cfg(any(test, feature = "harness"))]
pub struct FuzzTarget {
    /// Its name, which is also that of the file in `fuzz/fuzz_targets`.
    pub name: &'static str,
    /// The inputs from which fuzzing starts.
    pub seeds: fn() -> Vec<Vec<u8>>,
    /// Reads bytes as a host does, and panics if the ledger does not balance.
    pub check: fn(&[u8]),
}

#[cfg(any(test, feature = "harness"))]
impl FuzzTarget {
    /// The targets of all families.
    pub fn all() -> impl Iterator<Item = &'static FuzzTarget> {
        FORMATS.iter().flat_map(|format| format.fuzz)
    }

    /// Calls the parser of this name.
    ///
    /// # Panics
    /// When there is none, or the ledger does not balance.
    pub fn try_bytes(name: &str, bytes: &[u8]) {
        let target = FuzzTarget::all().find(|target| target.name == name).expect("a family has this target");
        (target.check)(bytes);
    }
}

/// Reads the table `[source.emulate]` of a family.
pub(crate) struct EmulatedEntry {
    schema: fn(&mut SchemaGenerator) -> Schema,
    read: fn(ValueDeserializer<'_>) -> Result<EmulateSettings, toml::de::Error>,
    default: fn() -> EmulateSettings,
}

/// The settings of one source; the kind of its data determines its path.
#[derive(Clone, Debug)]
pub enum FormatSettings {
    /// Self-triggered: its hits are decoded and ordered.
    Hits(Box<dyn HitFormat>),
    /// Triggered: its fragments are built into events.
    Triggered(Box<dyn FragmentFormat>),
}

/// The boards behind an `emulate://` URL.
#[derive(Clone, Debug)]
pub enum EmulateSettings {
    /// A self-triggered board.
    SelfTriggered(Box<dyn SelfTriggeredSettings>),
    /// Triggered boards.
    Triggered(Box<dyn EmulatedBoards>),
}

impl Format {
    const fn of(
        word: &'static str,
        about: &'static str,
        schema: fn(&mut SchemaGenerator) -> Schema,
        read: fn(ValueDeserializer<'_>) -> Result<FormatSettings, toml::de::Error>,
    ) -> Format {
        Format {
            word,
            about,
            document: None,
            file_extension: None,
            control: None,
            #[cfg(any(test, feature = "harness"))]
            fuzz: &[],
            schema,
            read,
            emulated: None,
        }
    }

    /// A family whose sources give hits.
    pub(crate) const fn of_hits<S>(word: &'static str, about: &'static str) -> Format
    where
        S: HitFormat + DeserializeOwned + JsonSchema + 'static,
    {
        let read = |value: ValueDeserializer<'_>| Ok(FormatSettings::Hits(Box::new(S::deserialize(value)?)));
        Format::of(word, about, S::json_schema, read)
    }

    /// A family whose sources give fragments.
    pub(crate) const fn of_fragments<S>(word: &'static str, about: &'static str) -> Format
    where
        S: FragmentFormat + DeserializeOwned + JsonSchema + 'static,
    {
        let read =
            |value: ValueDeserializer<'_>| Ok(FormatSettings::Triggered(Box::new(S::deserialize(value)?)));
        Format::of(word, about, S::json_schema, read)
    }

    /// A family whose sources give hits or fragments, depending on their settings.
    pub(crate) const fn of_either<S: JsonSchema>(
        word: &'static str,
        about: &'static str,
        read: fn(ValueDeserializer<'_>) -> Result<FormatSettings, toml::de::Error>,
    ) -> Format {
        Format::of(word, about, S::json_schema, read)
    }

    /// Adds emulated triggered boards with these settings.
    pub(crate) const fn with_emulated<S>(self) -> Format
    where
        S: EmulatedBoards + DeserializeOwned + JsonSchema + Default + 'static,
    {
        let read =
            |value: ValueDeserializer<'_>| Ok(EmulateSettings::Triggered(Box::new(S::deserialize(value)?)));
        let default = || EmulateSettings::Triggered(Box::new(S::default()));
        Format {
            emulated: Some(EmulatedEntry { schema: |all| all.subschema_for::<S>(), read, default }),
            ..self
        }
    }

    /// Adds an emulated self-triggered board with these settings.
    pub(crate) const fn with_self_triggered<S>(self) -> Format
    where
        S: SelfTriggeredSettings + DeserializeOwned + JsonSchema + Default + 'static,
    {
        let read = |value: ValueDeserializer<'_>| {
            Ok(EmulateSettings::SelfTriggered(Box::new(S::deserialize(value)?)))
        };
        let default = || EmulateSettings::SelfTriggered(Box::new(S::default()));
        Format {
            emulated: Some(EmulatedEntry { schema: |all| all.subschema_for::<S>(), read, default }),
            ..self
        }
    }

    /// Adds the control of its boards.
    pub(crate) const fn with_control(self, control: &'static ControlEntry) -> Format {
        Format { control: Some(control), ..self }
    }

    /// The control of the boards that a URL of this scheme names.
    pub fn control_of(scheme: &str) -> Option<&'static ControlEntry> {
        Format::controls().find(|control| control.scheme == scheme)
    }

    /// The controls of all families.
    pub fn controls() -> impl Iterator<Item = &'static ControlEntry> {
        FORMATS.iter().filter_map(|format| format.control)
    }

    /// The family with this name in the configuration.
    pub fn named(word: &str) -> Option<&'static Format> {
        FORMATS.iter().copied().find(|format| format.word == word)
    }

    /// The keys of a source that belong to this family.
    pub fn keys(&self) -> Vec<String> {
        properties(&(self.schema)(&mut SchemaGenerator::default()))
    }

    /// The schema of these keys.
    pub fn schema(&self, generator: &mut SchemaGenerator) -> Schema {
        (self.schema)(generator)
    }

    /// The schema of `[source.emulate]`, if there are emulated boards.
    pub fn emulate_schema(&self, generator: &mut SchemaGenerator) -> Option<Schema> {
        self.emulated.as_ref().map(|emulated| (emulated.schema)(generator))
    }

    /// Reads the settings of one source from the keys of the family.
    ///
    /// # Errors
    /// When a key is unknown, missing, or of another type: with its position in the text.
    pub fn read(&self, value: ValueDeserializer<'_>) -> Result<FormatSettings, toml::de::Error> {
        (self.read)(value)
    }

    /// Reads the boards behind a source from its table `[source.emulate]`; `None` if the family has no emulated boards.
    ///
    /// # Errors
    /// As for [`Format::read`].
    pub fn read_emulated(
        &self,
        value: ValueDeserializer<'_>,
    ) -> Option<Result<EmulateSettings, toml::de::Error>> {
        self.emulated.as_ref().map(|emulated| (emulated.read)(value))
    }

    /// The emulated boards of a source without this table; `None` if the family has no emulated boards.
    pub fn default_emulated(&self) -> Option<EmulateSettings> {
        self.emulated.as_ref().map(|emulated| (emulated.default)())
    }
}

impl FormatSettings {
    /// The first of the experiment's channels that this source has, and their number, for display. A triggered board
    /// has none.
    pub fn channels(&self) -> (u16, u16) {
        match self {
            FormatSettings::Hits(format) => format.channels(),
            FormatSettings::Triggered(_) => (0, 0),
        }
    }
}

/// The keys of a settings struct.
pub fn keys_of<T: JsonSchema>() -> Vec<String> {
    properties(&SchemaGenerator::default().into_root_schema_for::<T>())
}

fn properties(schema: &Schema) -> Vec<String> {
    let properties = schema.get("properties").and_then(Value::as_object);
    properties.map(|map| map.keys().cloned().collect()).unwrap_or_default()
}

impl fmt::Debug for Format {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.word)
    }
}

impl fmt::Display for Format {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.word)
    }
}

impl PartialEq for Format {
    fn eq(&self, other: &Format) -> bool {
        self.word == other.word
    }
}

impl Serialize for Format {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(self.word)
    }
}

impl<'de> Deserialize<'de> for &'static Format {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<&'static Format, D::Error> {
        deserializer.deserialize_enum("Format", &[], WordVisitor)
    }
}

/// Reads a name as serde reads an enumeration, with the same error.
struct WordVisitor;

impl<'de> Visitor<'de> for WordVisitor {
    type Value = &'static Format;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("enum Format")
    }

    fn visit_enum<A: EnumAccess<'de>>(self, data: A) -> Result<&'static Format, A::Error> {
        let (word, variant) = data.variant::<String>()?;
        variant.unit_variant()?;
        Format::named(&word).ok_or_else(|| {
            let words: Vec<String> = FORMATS.iter().map(|format| format!("`{format}`")).collect();
            A::Error::custom(format_args!("unknown variant `{word}`, expected one of {}", words.join(", ")))
        })
    }
}

impl JsonSchema for Format {
    fn schema_name() -> std::borrow::Cow<'static, str> {
        "Format".into()
    }

    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        let words = FORMATS.iter().map(|format| {
            serde_json::json!({ "description": format.about, "type": "string", "const": format.word })
        });
        json_schema!({ "description": "The format of a board or file.", "oneOf": words.collect::<Vec<Value>>() })
    }
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::*;

    #[test]
    fn every_format_has_a_unique_name() {
        for format in FORMATS {
            assert!(Format::named(format.word).is_some_and(|named| std::ptr::eq(named, *format)), "{format}");
            assert!(!format.about.is_empty() && !format.keys().is_empty(), "{format}");
        }
    }

    #[test]
    fn every_control_has_a_scheme_of_its_own() {
        for control in Format::controls() {
            assert!(Format::control_of(control.scheme).is_some_and(|found| std::ptr::eq(found, control)));
            assert!(control.port > 0 && !["udp", "tcp", "emulate", "file", "pcap"].contains(&control.scheme));
        }
    }

    #[test]
    fn every_format_page_exists() {
        let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
        for page in FORMATS.iter().filter_map(|format| format.document) {
            assert!(root.join(page).is_file(), "{page}");
        }
    }

    #[test]
    fn every_format_is_fuzzed_and_each_target_has_seeds_and_a_program() {
        let fuzz = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fuzz");
        let manifest = std::fs::read_to_string(fuzz.join("Cargo.toml")).expect("the fuzzers have a manifest");
        FORMATS.iter().for_each(|format| assert!(!format.fuzz.is_empty(), "{format} is not fuzzed"));
        for FuzzTarget { name, seeds, .. } in FuzzTarget::all() {
            assert!(!seeds().is_empty(), "{name}");
            let path = format!("fuzz_targets/{name}.rs");
            let text = std::fs::read_to_string(fuzz.join(&path)).expect(&path);
            assert!(text.contains(&format!("(\"{name}\", bytes)")), "{path} calls another target");
            assert!(
                manifest.contains(&format!("path = \"{path}\"")),
                "fuzz/Cargo.toml has no [[bin]] of {name}"
            );
        }
    }
}
