//! The known path between the sources and the disk.
//!
//! ```text
//!  [link] rate, mtu ─► [switch] output_rate, depth, outputs ─► [host] receive_rate, receive_buffer
//!                         ─► [build] rate, buffer, kept ─► [disk] rate, buffer
//! ```
//! Every key can be left out. What is left out is unknown, and no value is taken in its place.

use serde::Deserialize;

use crate::predict::quantity::written;

/// The most outputs of a switch.
pub(super) const MOST_OUTPUTS: u32 = 4096;

/// The link of each source.
#[derive(Clone, Copy, Debug, Default, PartialEq, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Link {
    /// Its rate, bits per second.
    #[serde(rename = "rate", deserialize_with = "written::bit_rate")]
    pub rate_bits_per_s: Option<f64>,
    /// The longest IP packet, bytes. Without it a datagram is one frame of up to 9216 bytes, and a stream has packets of 1500 bytes.
    #[serde(rename = "mtu")]
    pub mtu_bytes: Option<u32>,
}

/// The switch.
#[derive(Clone, Copy, Debug, Default, PartialEq, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Switch {
    /// Rate of each output, bits per second.
    #[serde(rename = "output_rate", deserialize_with = "written::bit_rate")]
    pub output_rate_bits_per_s: Option<f64>,
    /// Depth of the buffer before each output, wire bytes.
    #[serde(rename = "depth", deserialize_with = "written::size")]
    pub depth_bytes: Option<f64>,
    /// Outputs to the host, over which the links are spread evenly; 1 without it.
    pub outputs: Option<u32>,
}

/// The host that receives.
#[derive(Clone, Copy, Debug, Default, PartialEq, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Host {
    /// The rate at which its reading threads empty the sockets, payload bytes per second.
    #[serde(rename = "receive_rate", deserialize_with = "written::byte_rate")]
    pub receive_bytes_per_s: Option<f64>,
    /// The capacity of all its sockets together, payload bytes.
    #[serde(rename = "receive_buffer", deserialize_with = "written::size")]
    pub receive_buffer_bytes: Option<f64>,
}

/// The event building.
#[derive(Clone, Copy, Debug, Default, PartialEq, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Build {
    /// The rate of each builder, payload bytes per second.
    #[serde(rename = "rate", deserialize_with = "written::byte_rate")]
    pub bytes_per_s: Option<f64>,
    /// Memory of each builder for what waits, payload bytes.
    #[serde(rename = "buffer", deserialize_with = "written::size")]
    pub buffer_bytes: Option<f64>,
    /// Bytes that leave the builder, divided by bytes that come, above 0 to 1.
    pub kept: Option<f64>,
}

/// The disk of each builder.
#[derive(Clone, Copy, Debug, Default, PartialEq, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Disk {
    /// The write rate, bytes per second.
    #[serde(rename = "rate", deserialize_with = "written::byte_rate")]
    pub bytes_per_s: Option<f64>,
    /// Memory for what waits for it, bytes.
    #[serde(rename = "buffer", deserialize_with = "written::size")]
    pub buffer_bytes: Option<f64>,
}

/// The data of a source's boards, where the configuration does not state them.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct StatedSource {
    /// The name of the `[[source]]` in the configuration.
    pub name: String,
    /// Payload bytes that each board sends at a trigger, or, with `rate_hz`, at a time.
    pub payload_bytes: u32,
    /// The rate at which each board sends at random, per second, where the boards are not triggered together.
    pub rate_hz: Option<f64>,
}

/// All of it.
#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Network {
    /// `[link]`.
    pub link: Link,
    /// `[switch]`.
    pub switch: Switch,
    /// `[host]`.
    pub host: Host,
    /// `[build]`.
    pub build: Build,
    /// `[disk]`.
    pub disk: Disk,
    /// `[[source]]`.
    #[serde(rename = "source")]
    pub sources: Vec<StatedSource>,
    /// `[trigger]`: that of the experiment, where the configuration has none or another.
    pub trigger: Option<thalweg_frontend::trigger::Settings>,
}

/// A value that no network has.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
#[error("[{section}] `{key} = {found}`: write {allowed}")]
pub struct NetworkError {
    section: &'static str,
    key: &'static str,
    found: f64,
    allowed: &'static str,
}

impl Network {
    /// Says whether there can be such a network.
    ///
    /// # Errors
    /// The first key that cannot be used, with what to write.
    pub fn check(&self) -> Result<(), NetworkError> {
        let whole = |number: Option<u32>| number.map(f64::from);
        let within = |low: f64, high: f64| move |value: f64| (low..=high).contains(&value);
        let values = [
            ("link", "mtu", whole(self.link.mtu_bytes), 576.0, 9216.0, "576 to 9216"),
            ("switch", "outputs", whole(self.switch.outputs), 1.0, MOST_OUTPUTS.into(), "1 to 4096"),
            ("build", "kept", self.build.kept, 1e-9, 1.0, "a fraction above 0, at most 1"),
        ];
        for (section, key, value, low, high, allowed) in values {
            if let Some(found) = value.filter(|value| !within(low, high)(*value)) {
                return Err(NetworkError { section, key, found, allowed });
            }
        }
        for source in &self.sources {
            let rate_hz = source.rate_hz.unwrap_or(1.0);
            let error = |key, found, allowed| NetworkError { section: "[source]", key, found, allowed };
            if !within(1e-6, 1e9)(rate_hz) {
                return Err(error("rate_hz", rate_hz, "0.000001 to 1000000000 per second"));
            }
            if !(1..=1 << 30).contains(&source.payload_bytes) {
                return Err(error("payload_bytes", source.payload_bytes.into(), "1 to 1073741824"));
            }
        }
        Ok(())
    }
}
