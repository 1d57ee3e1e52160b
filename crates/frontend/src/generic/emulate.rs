//! Emulated boards that answer each trigger with the packets of a description.
//!
//! ```text
//!  Trigger { number, time_ns } ─► header: trigger, time, board, sequence, constants, lengths + Content::payload ─► packets
//! ```
//! The packets depend on board, trigger and seed alone, so that a test can compare what a receiver gets with them.

use std::sync::Arc;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use thalweg_data::{BoardId, Tick};

use super::boards::Boards;
use super::layout::Layout;
use super::number::Number;
use super::numbering::Numbering;
use super::settings::{Settings as Description, SettingsError as DescriptionError};
use crate::emulated_settings::{SettingsError, check};
use crate::fragment::emulate::{Content, Settings as ContentSettings};
use crate::trigger::{Answer, Hosted, Trigger};

/// Longest payload of a packet in bytes: with its header, it fits a datagram over IPv4.
const MOST_PAYLOAD_BYTES: u32 = 61_000;

/// Settings of emulated boards of a description.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct Settings {
    /// Payload bytes of a packet, or the maximum if `shortest_payload_bytes` is given.
    pub payload_bytes: u32,
    /// Makes sizes random, uniformly between this and `payload_bytes`.
    pub shortest_payload_bytes: Option<u32>,
    /// The same seed gives the same content.
    pub seed: u64,
}

impl Default for Settings {
    fn default() -> Settings {
        Settings { payload_bytes: 1024, shortest_payload_bytes: None, seed: 1 }
    }
}

impl Settings {
    /// Checks the settings.
    ///
    /// # Errors
    /// The first key whose value cannot be used.
    pub fn check(&self) -> Result<(), SettingsError> {
        let (most, least) = (self.payload_bytes, self.shortest_payload_bytes.unwrap_or(1));
        let allowed = format!("1 to {MOST_PAYLOAD_BYTES}");
        check((1..=MOST_PAYLOAD_BYTES).contains(&most), "payload_bytes", most, allowed)?;
        check((1..=most).contains(&least), "shortest_payload_bytes", least, "1 to `payload_bytes`")
    }

    fn content(&self) -> Result<Content, SettingsError> {
        self.check()?;
        let Settings { payload_bytes, shortest_payload_bytes, seed } = *self;
        Content::new(&ContentSettings {
            payload_bytes,
            shortest_payload_bytes,
            seed,
            ..ContentSettings::default()
        })
    }
}

/// An emulated board.
#[derive(Clone, Debug)]
pub struct Board {
    form: Arc<Form>,
    /// Counted from the first board of its source.
    board: u16,
    packets_sent: u64,
}

/// Common properties of the boards of one source.
#[derive(Debug)]
struct Form {
    layout: Layout,
    boards: Boards,
    tick: Option<Tick>,
    content: Content,
}

/// Creates `count` boards of a description.
///
/// # Errors
/// When the description or the settings of the boards cannot be used.
pub(super) fn boards(
    count: usize,
    description: &Description,
    settings: &Settings,
) -> Result<Vec<Board>, String> {
    let described = |error: DescriptionError| error.to_string();
    let form = Arc::new(Form {
        layout: Layout::of(description).map_err(described)?,
        boards: Boards::of(description).map_err(described)?,
        tick: description.timestamp.as_ref().and_then(|time| Tick::from_ps_f64(time.tick_ps).ok()),
        content: settings.content().map_err(|error| error.to_string())?,
    });
    Ok((0..count).map(|board| Board { form: form.clone(), board: board as u16, packets_sent: 0 }).collect())
}

impl Answer for Board {
    fn answer(&mut self, trigger: Trigger, bytes: &mut Vec<u8>, ends: &mut Vec<usize>) {
        let Form { layout, boards, tick, content } = &*self.form;
        let count = boards.parts.map_or(1, |(_, count)| count);
        for part in 0..count {
            let start = bytes.len();
            bytes.resize(start + layout.header_bytes, 0);
            bytes.extend_from_slice(
                content.payload(BoardId(self.board), trigger.number ^ u64::from(part) << 56),
            );
            let packet = &mut bytes[start..];
            layout.write_marks(packet);
            layout.write_lengths(packet);
            layout.write_part(self.part(), packet);
            boards.trigger.write(trigger.number, packet);
            if let (Some((number, _)), Some(tick)) = (boards.time, tick) {
                let time_ps = i64::try_from(u128::from(trigger.time_ns) * 1000).unwrap_or(i64::MAX);
                number.write(tick.from_time(time_ps) as u64, packet);
            }
            match (boards.parts, layout.sequence) {
                (Some((number, _)), _) => number.write(u64::from(part), packet),
                (None, Some(sequence)) if sequence.index.is_none() => {
                    sequence.group.write(self.packets_sent, packet);
                }
                _ => {}
            }
            self.packets_sent += 1;
            if !layout.stream {
                ends.push(bytes.len());
            }
        }
    }

    fn answer_number(&self, trigger: Trigger) -> u64 {
        trigger.number & low_bits(self.form.boards.trigger)
    }
}

impl Hosted for Board {}

impl Board {
    /// The value of the fields of `part`.
    fn part(&self) -> u64 {
        match self.form.boards.numbering {
            Numbering::Header { first_board, .. } => first_board.wrapping_add(u64::from(self.board)),
            _ => u64::from(self.board),
        }
    }
}

/// The bits that a field can represent.
fn low_bits(number: Number) -> u64 {
    u64::MAX >> (64 - number.bits())
}
