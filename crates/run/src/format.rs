//! Which front end a `format` in the configuration means.

use std::fmt;

use schemars::{JsonSchema, Schema, SchemaGenerator};
use serde::{Deserialize, Serialize};
use serde_json::Value;
use thalweg_data::{Decode, Pool, SourceId, Unit, Unpack};
use thalweg_frontend::digitizer2::unpack::{TcpUnpack, UdpUnpack};
use thalweg_frontend::{abcd, compass, digitizer2, generic};

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
}

impl Format {
    /// All of them.
    pub const ALL: [Format; 4] = [Format::Digitizer2, Format::Generic, Format::Compass, Format::Abcd];

    /// The word in the configuration.
    pub fn word(self) -> &'static str {
        match self {
            Format::Digitizer2 => "digitizer2",
            Format::Generic => "generic",
            Format::Compass => "compass",
            Format::Abcd => "abcd",
        }
    }

    /// The keys that a source of this format has beside the endpoint's.
    pub(crate) fn keys(self) -> Vec<String> {
        match self {
            Format::Digitizer2 => keys_of::<digitizer2::Settings>(),
            Format::Generic => keys_of::<generic::Settings>(),
            Format::Compass => keys_of::<compass::Settings>(),
            Format::Abcd => keys_of::<abcd::Settings>(),
        }
    }

    /// The schema of `[source.emulate]`, where there are emulated boards.
    pub(crate) fn emulate_schema(self, generator: &mut SchemaGenerator) -> Option<Schema> {
        match self {
            Format::Digitizer2 => Some(generator.subschema_for::<digitizer2::emulate::Settings>()),
            Format::Generic | Format::Compass | Format::Abcd => None,
        }
    }

    pub(crate) fn schema(self, generator: &mut SchemaGenerator) -> Schema {
        match self {
            Format::Digitizer2 => digitizer2::Settings::json_schema(generator),
            Format::Generic => generic::Settings::json_schema(generator),
            Format::Compass => compass::Settings::json_schema(generator),
            Format::Abcd => abcd::Settings::json_schema(generator),
        }
    }
}

impl fmt::Display for Format {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.word())
    }
}

/// The boards behind an `emulate://` URL, by format.
#[derive(Clone, Debug, Serialize)]
pub enum EmulateSettings {
    /// CAEN Digitizer 2.0.
    Digitizer2(Box<digitizer2::emulate::Settings>),
}

/// A format with its settings.
#[derive(Clone, Debug, Serialize)]
pub enum FormatSettings {
    /// CAEN Digitizer 2.0.
    Digitizer2(digitizer2::Settings),
    /// Described in the configuration.
    Generic(Box<generic::Settings>),
    /// CoMPASS.
    Compass(compass::Settings),
    /// ABCD.
    Abcd(abcd::Settings),
}

impl FormatSettings {
    /// The framing of one source of this format.
    ///
    /// # Errors
    /// What the front end says of settings that do not fit together.
    pub(crate) fn unpack(
        &self,
        source: SourceId,
        is_stream: bool,
        is_file: bool,
        pool: &Pool,
    ) -> Result<Box<dyn Unpack>, String> {
        // A unit in the making holds its blocks: it may take a quarter of them.
        let largest_unit_bytes = (pool.block_size() * pool.block_count() / 4) as u64;
        Ok(match self {
            // Raw blobs in a file have no packet headers.
            FormatSettings::Digitizer2(_) if is_file => {
                Box::new(TcpUnpack::of_blob(source, pool.block_size()))
            }
            FormatSettings::Digitizer2(_) if is_stream => Box::new(TcpUnpack::new(source, pool.block_size())),
            FormatSettings::Digitizer2(_) => Box::new(UdpUnpack::new(source, largest_unit_bytes)),
            FormatSettings::Generic(settings) if settings.stream != is_stream => {
                let (found, write) = if is_stream { ("a stream", true) } else { ("datagrams", false) };
                return Err(format!("the URL gives {found}; write `stream = {write}`, or change the URL"));
            }
            FormatSettings::Generic(settings) => {
                Box::new(generic::GenericUnpack::new(source, settings).map_err(text)?)
            }
            FormatSettings::Compass(settings) => {
                Box::new(compass::CompassUnpack::new(source, settings).map_err(text)?)
            }
            FormatSettings::Abcd(settings) => {
                Box::new(abcd::AbcdUnpack::new(source, settings).map_err(text)?)
            }
        })
    }

    /// A decoder of one source of this format.
    ///
    /// # Errors
    /// What the front end says of settings that do not fit together.
    pub(crate) fn decode(&self, source: SourceId) -> Result<Box<dyn Decode>, String> {
        Ok(match self {
            FormatSettings::Digitizer2(settings) => {
                Box::new(digitizer2::Decoder::new(source, settings).map_err(text)?)
            }
            FormatSettings::Generic(settings) => {
                Box::new(generic::GenericDecode::new(source, settings).map_err(text)?)
            }
            FormatSettings::Compass(settings) => {
                Box::new(compass::CompassDecode::new(source, settings).map_err(text)?)
            }
            FormatSettings::Abcd(settings) => {
                Box::new(abcd::AbcdDecode::new(source, settings).map_err(text)?)
            }
        })
    }

    /// What the format's sequence numbers count; empty when it has none.
    pub(crate) fn wire_units(&self, is_stream: bool) -> &'static [Unit] {
        match (self, is_stream) {
            (FormatSettings::Digitizer2(_) | FormatSettings::Generic(_), false) => {
                &[Unit::Datagrams, Unit::Frames]
            }
            (FormatSettings::Digitizer2(_) | FormatSettings::Generic(_), true) => &[Unit::Frames],
            (FormatSettings::Compass(_) | FormatSettings::Abcd(_), _) => &[],
        }
    }

    /// The first channel of the experiment that this source has, and how many; for pictures and pages.
    pub(crate) fn channels(&self) -> (u16, u16) {
        match self {
            FormatSettings::Digitizer2(settings) => (settings.first_channel, settings.channels),
            FormatSettings::Generic(settings) => {
                (settings.first_channel(), clamped(settings.channel_count()))
            }
            FormatSettings::Compass(settings) => (settings.first_channel, clamped(settings.channel_count())),
            FormatSettings::Abcd(settings) => (settings.first_channel, clamped(settings.channel_count())),
        }
    }
}

fn clamped(channels: usize) -> u16 {
    u16::try_from(channels).unwrap_or(u16::MAX)
}

fn text(error: impl fmt::Display) -> String {
    error.to_string()
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
