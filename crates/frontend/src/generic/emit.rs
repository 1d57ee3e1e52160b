//! Writes packets of a description: the inverse of the reader, for tests and prepared data.
//!
//! ```text
//!  Settings ─► Encoder     [(name, value)] + payload ─► packet
//! ```

use super::layout::Layout;
use super::number::Number;
use super::settings::{Settings, SettingsError};

/// Writes packets of a description, which gives constants, type and lengths.
#[derive(Clone, Debug)]
pub struct Encoder {
    settings: Settings,
    layout: Layout,
}

impl Encoder {
    /// Creates an encoder of a description.
    ///
    /// # Errors
    /// When the description cannot be used.
    pub fn new(settings: &Settings) -> Result<Encoder, SettingsError> {
        Ok(Encoder { settings: settings.clone(), layout: Layout::of(settings)? })
    }

    /// Appends a packet whose fields have `values`, followed by `payload`.
    ///
    /// # Errors
    /// When a field is not described.
    pub fn packet(
        &self,
        values: &[(&str, u64)],
        payload: &[u8],
        to: &mut Vec<u8>,
    ) -> Result<(), SettingsError> {
        let start = to.len();
        to.resize(start + self.layout.header_bytes, 0);
        to.extend(payload);
        let packet = &mut to[start..];
        self.layout.write_marks(packet);
        self.layout.write_lengths(packet);
        for (name, value) in values {
            let field = self.settings.field.get(*name).ok_or_else(|| SettingsError::NoSuchField {
                role: "packet",
                name: (*name).to_owned(),
                known: self.settings.field.keys().cloned().collect::<Vec<_>>().join(", "),
            })?;
            let number = Number::of(field, self.settings.byte_order)
                .map_err(|message| SettingsError::Field { name: (*name).to_owned(), message })?;
            number.write(*value, packet);
        }
        Ok(())
    }
}
