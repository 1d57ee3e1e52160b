//! Which front end a `format` in the configuration means.

mod channel_range;
mod hits;

use std::fmt;

use schemars::{JsonSchema, Schema, SchemaGenerator};
use serde::{Deserialize, Serialize};
use serde_json::Value;
use thalweg_frontend::{abcd, compass, digitizer2, fragment, generic, sitcp};
use thalweg_readout::links::{Boards, EmulatedBoards};

pub(crate) use channel_range::ChannelRange;
pub use hits::HitFormat;

/// What a board or file speaks.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum Format {
    /// CAEN Digitizer 2.0 boards (x27xx).
    Digitizer2,
    /// Any stream whose headers the configuration describes.
    Generic,
    /// CoMPASS list-mode `.BIN` files.
    Compass,
    /// ABCD `.ade` event files.
    Abcd,
    /// Triggered boards that send one fragment per trigger, in datagrams or a stream.
    Fragment,
    /// Triggered SiTCP boards: RECBE and others.
    Sitcp,
}

impl Format {
    /// All of them.
    pub const ALL: [Format; 6] =
        [Format::Digitizer2, Format::Generic, Format::Compass, Format::Abcd, Format::Fragment, Format::Sitcp];

    /// The word in the configuration.
    pub fn word(self) -> &'static str {
        match self {
            Format::Digitizer2 => "digitizer2",
            Format::Generic => "generic",
            Format::Compass => "compass",
            Format::Abcd => "abcd",
            Format::Fragment => "fragment",
            Format::Sitcp => "sitcp",
        }
    }

    /// The keys that a source of this format has beside the endpoint's.
    pub(crate) fn keys(self) -> Vec<String> {
        match self {
            Format::Digitizer2 => keys_of::<digitizer2::Settings>(),
            Format::Generic => keys_of::<generic::Settings>(),
            Format::Compass => keys_of::<compass::Settings>(),
            Format::Abcd => keys_of::<abcd::Settings>(),
            Format::Fragment => keys_of::<fragment::Settings>(),
            Format::Sitcp => keys_of::<sitcp::Settings>(),
        }
    }

    /// The schema of `[source.emulate]`, where there are emulated boards.
    pub(crate) fn emulate_schema(self, generator: &mut SchemaGenerator) -> Option<Schema> {
        match self {
            Format::Digitizer2 => Some(generator.subschema_for::<digitizer2::emulate::Settings>()),
            Format::Fragment => Some(generator.subschema_for::<fragment::emulate::Settings>()),
            Format::Sitcp => Some(generator.subschema_for::<sitcp::emulate::Settings>()),
            Format::Generic | Format::Compass | Format::Abcd => None,
        }
    }

    pub(crate) fn schema(self, generator: &mut SchemaGenerator) -> Schema {
        match self {
            Format::Digitizer2 => digitizer2::Settings::json_schema(generator),
            Format::Generic => generic::Settings::json_schema(generator),
            Format::Compass => compass::Settings::json_schema(generator),
            Format::Abcd => abcd::Settings::json_schema(generator),
            Format::Fragment => fragment::Settings::json_schema(generator),
            Format::Sitcp => sitcp::Settings::json_schema(generator),
        }
    }
}

impl fmt::Display for Format {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.word())
    }
}

/// The boards behind an `emulate://` URL, by format.
#[derive(Clone, Debug)]
pub enum EmulateSettings {
    /// CAEN Digitizer 2.0.
    Digitizer2(Box<digitizer2::emulate::Settings>),
    /// Triggered boards.
    Triggered(Box<EmulatedBoards>),
}

/// A format with its settings: what the board gives decides which path it takes.
#[derive(Clone, Debug)]
pub enum FormatSettings {
    /// Self-triggered: decoded, ordered.
    Hits(HitFormat),
    /// Triggered: built.
    Triggered(Boards),
}

impl FormatSettings {
    /// The first channel of the experiment that this source has, and how many; for pictures and pages. A triggered board
    /// has none.
    pub(crate) fn channels(&self) -> (u16, u16) {
        match self {
            FormatSettings::Hits(format) => format.channels(),
            FormatSettings::Triggered(_) => (0, 0),
        }
    }
}

/// The keys that a settings struct reads.
pub(crate) fn keys_of<T: JsonSchema>() -> Vec<String> {
    let schema = SchemaGenerator::default().into_root_schema_for::<T>();
    schema
        .get("properties")
        .and_then(Value::as_object)
        .map(|map| map.keys().cloned().collect())
        .unwrap_or_default()
}
