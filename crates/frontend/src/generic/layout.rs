//! A description, checked and compiled so that headers are read without lookups by name and without allocation.
//!
//! ```text
//!  Settings ─► Layout        header bytes ─► Layout::head ─► Head { total, payload, part } or the reason for a loss
//! ```

use thalweg_data::{LossReason, Mark, Tick};

use super::number::Number;
use super::settings::{Length, PacketHits, Scope, Sequence, Settings, SettingsError};
use super::time::{ClockCounters, Counter, Starts};
use crate::gaps::Counting;
use crate::time_origin::TimeOrigin;

/// A valid description.
#[derive(Clone, Debug)]
pub struct Layout {
    pub(super) stream: bool,
    pub(super) header_bytes: usize,
    accept: Option<(Number, Vec<u64>, Vec<u64>)>,
    constants: Vec<(Number, u64)>,
    parts: Vec<Number>,
    pub(super) part_limit: usize,
    pub(super) sequence: Option<SequenceLayout>,
    pub(super) trigger: Option<Number>,
    pub(super) timestamp: Option<(Number, Tick)>,
    pub(super) time_origin: TimeOrigin,
    length: LengthLayout,
    length_limit: usize,
    pub(super) padding: bool,
    payload: Option<(Number, usize)>,
    pub(super) run: Option<Number>,
    pub(super) status: Option<Number>,
    pub(super) hits: Option<HitLayout>,
}

#[derive(Clone, Copy, Debug)]
pub(super) struct SequenceLayout {
    /// The number of the group: the counter itself, or the trigger.
    pub group: Number,
    /// The index inside a group.
    pub index: Option<Number>,
    pub counting: Counting,
}

#[derive(Clone, Copy, Debug)]
enum LengthLayout {
    Datagram,
    Field { number: Number, unit_bytes: usize, includes_header: bool },
    Payload(usize),
}

#[derive(Clone, Copy, Debug)]
pub(super) struct HitLayout {
    pub channel: Option<Number>,
    pub channels: u16,
    pub first_channel: u16,
    pub time_offset_ps: i64,
}

/// The content of a packet's header.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Head {
    /// Bytes of the packet with its header.
    pub total: usize,
    /// Where the payload starts.
    pub payload_at: usize,
    /// The part of the source.
    pub part: u64,
    /// The packet is to be left out, by `accept.ignore`.
    pub ignored: bool,
}

/// Looks up fields by name, once.
struct Names<'a>(&'a Settings);

impl Names<'_> {
    fn number(&self, role: &'static str, name: &str) -> Result<Number, SettingsError> {
        let field = self.0.field.get(name).ok_or_else(|| SettingsError::NoSuchField {
            role,
            name: name.to_owned(),
            known: self.0.field.keys().map(|key| format!("`{key}`")).collect::<Vec<_>>().join(", "),
        })?;
        Number::of(field, self.0.byte_order)
            .map_err(|message| SettingsError::Field { name: name.to_owned(), message })
    }

    fn optional(&self, role: &'static str, name: Option<&str>) -> Result<Option<Number>, SettingsError> {
        name.map(|name| self.number(role, name)).transpose()
    }
}

fn bad<T>(key: &'static str, message: impl Into<String>) -> Result<T, SettingsError> {
    Err(SettingsError::Value { key, message: message.into() })
}

/// Refuses values that the field never has.
fn possible(key: &'static str, number: Number, values: &[u64]) -> Result<(), SettingsError> {
    match values.iter().find(|value| **value & !number.all_bits() != 0) {
        None => Ok(()),
        Some(value) => bad(
            key,
            format!(
                "{value:#x} is no value of its field, which has the bits {:#x}: check the value, and `width`, `mask` \
                 and `shift` of the field",
                number.all_bits()
            ),
        ),
    }
}

impl Layout {
    /// Most parts that a source can have.
    pub const MOST_PARTS: usize = 1024;
    /// Most memory for the windows of all parts, in bytes.
    const MOST_WINDOW_BYTES: usize = 64 << 20;
    /// Most packets that one jump of a counter may add to the loss.
    const LARGEST_LOSS: u64 = 1 << 32;
    const LONGEST_PACKET: usize = 16 << 20;

    /// Checks a description and compiles it.
    ///
    /// # Errors
    /// The key that cannot be used, and what to write instead.
    pub fn of(settings: &Settings) -> Result<Layout, SettingsError> {
        let names = Names(settings);
        let header_bytes = header_bytes(settings, &names)?;
        let (parts, part_limit) = parts(settings, &names)?;
        let boards = settings.fragments.as_ref().map(|fragments| usize::from(fragments.boards));
        let part_limit = boards.unwrap_or(part_limit);
        let sequence =
            settings.sequence.as_ref().map(|it| sequence(it, settings, &names, part_limit)).transpose()?;
        let timestamp = settings.timestamp.as_ref().map(|timestamp| {
            let tick = Tick::from_ps_f64(timestamp.tick_ps).map_err(|error| SettingsError::Value {
                key: "timestamp.tick_ps",
                message: error.to_string(),
            })?;
            Ok((names.number("timestamp", &timestamp.field)?, tick))
        });
        let accept = settings.accept.as_ref().map(|accept| {
            let number = names.number("accept", &accept.field)?;
            possible("accept.values", number, &accept.values)?;
            possible("accept.ignore", number, &accept.ignore)?;
            Ok((number, accept.values.clone(), accept.ignore.clone()))
        });
        let constants = settings.check.iter().map(|check| {
            let number = names.number("check", &check.field)?;
            possible("check.equals", number, &[check.equals])?;
            Ok((number, check.equals))
        });
        let payload = settings.payload.as_ref().map(|payload| {
            if payload.unit_bytes == 0 {
                return bad("payload.unit_bytes", "is 0: write the number of bytes of one count");
            }
            Ok((names.number("payload.offset_field", &payload.offset_field)?, payload.unit_bytes))
        });
        let layout = Layout {
            stream: settings.stream,
            header_bytes,
            accept: accept.transpose()?,
            constants: constants.collect::<Result<_, _>>()?,
            part_limit,
            sequence,
            trigger: names.optional("trigger", settings.trigger.as_ref().map(|role| role.field.as_str()))?,
            timestamp: timestamp.transpose()?,
            time_origin: settings.time_origin,
            length: length(settings, &names, header_bytes)?,
            length_limit: settings.length.as_ref().map_or(Self::LONGEST_PACKET, Length::limit),
            padding: settings.length.as_ref().is_some_and(|length| length.padding),
            payload: payload.transpose()?,
            run: names.optional("run", settings.run.as_ref().map(|role| role.field.as_str()))?,
            status: names.optional("status", settings.status.as_ref().map(|role| role.field.as_str()))?,
            hits: settings.hits.as_ref().map(|it| hits(it, settings, &names, &parts)).transpose()?,
            parts,
        };
        Ok(layout)
    }

    /// Reads the header at the start of `bytes`, which must contain at least `header_bytes`. `datagram` is the length
    /// of the datagram, if there is one.
    ///
    /// # Errors
    /// The reason why this is no packet of the source.
    #[inline]
    pub fn head(&self, bytes: &[u8], datagram: Option<usize>) -> Result<Head, LossReason> {
        let Some(header) = bytes.get(..self.header_bytes) else { return Err(LossReason::BadLength) };
        if self.constants.iter().any(|(number, value)| number.read(header) != *value) {
            return Err(LossReason::WrongConstant);
        }
        let mut ignored = false;
        if let Some((number, values, ignore)) = &self.accept {
            let value = number.read(header);
            ignored = ignore.contains(&value);
            if !ignored && !values.contains(&value) {
                return Err(LossReason::WrongConstant);
            }
        }
        let payload_at = match self.payload {
            None => self.header_bytes,
            Some((number, unit_bytes)) => times(number.read(header), unit_bytes)?,
        };
        let total = match self.length {
            LengthLayout::Datagram => datagram.unwrap_or(payload_at),
            LengthLayout::Payload(bytes) => payload_at.saturating_add(bytes),
            LengthLayout::Field { number, unit_bytes, includes_header } => {
                let counted = times(number.read(header), unit_bytes)?;
                if includes_header { counted } else { counted.saturating_add(payload_at) }
            }
        };
        if payload_at < self.header_bytes || total < payload_at || total > self.length_limit {
            return Err(LossReason::BadLength);
        }
        let part = self
            .parts
            .iter()
            .fold(0u64, |part, number| part.checked_shl(number.bits()).unwrap_or(0) | number.read(header));
        Ok(Head { total, payload_at, part, ignored })
    }

    /// Describes the expected length of a packet, for messages.
    #[cold]
    pub(super) fn expected_length(&self) -> String {
        let (header, most) = (self.header_bytes, self.length_limit);
        match self.length {
            LengthLayout::Datagram => format!("a header of {header} bytes and a packet of at most {most}"),
            LengthLayout::Payload(bytes) => format!("a header of {header} bytes and a payload of {bytes}"),
            LengthLayout::Field { .. } => {
                format!(
                    "a header of {header} bytes, then as many as its length field says, at most {most} in all"
                )
            }
        }
    }

    /// The counter of the timestamp.
    fn counter(&self) -> Option<Counter> {
        self.timestamp.map(|(number, tick)| Counter::new(number.bits(), tick))
    }

    /// Storage for the counter starts of the parts; empty if packets make no hits.
    pub(super) fn starts(&self) -> Starts {
        let parts = if self.hits.is_some() { self.part_limit } else { 0 };
        Starts::new(parts, self.time_origin)
    }

    /// The counters of the parts with these starts; `None` if packets make no hits.
    pub(super) fn counters(&self, starts: Starts) -> Option<ClockCounters> {
        let (counter, hits) = (self.counter()?, self.hits?);
        Some(ClockCounters::new(counter, self.part_limit, starts, hits.time_offset_ps))
    }

    /// Called for each packet: the first one of a part sets the start of its counter.
    pub(super) fn see_time(&self, starts: &Starts, part: u32, bytes: &[u8], mark: Mark) {
        if let (Some((number, _)), Some(counter), Some(_)) = (self.timestamp, self.counter(), self.hits) {
            starts.see(part, number.read(bytes), counter, mark);
        }
    }

    pub(super) fn has_marks(&self) -> bool {
        self.accept.is_some() || !self.constants.is_empty()
    }

    /// Writes the constants into a header, for the encoder.
    pub(super) fn write_marks(&self, header: &mut [u8]) {
        if let Some((number, values, _)) = &self.accept
            && let Some(first) = values.first()
        {
            number.write(*first, header);
        }
        self.constants.iter().for_each(|(number, value)| number.write(*value, header));
    }

    /// Writes the number of a part into the fields of `part`; the last field has the lowest bits.
    pub(super) fn write_part(&self, mut part: u64, packet: &mut [u8]) {
        for number in self.parts.iter().rev() {
            number.write(part, packet);
            part = part.checked_shr(number.bits()).unwrap_or(0);
        }
    }

    pub(super) fn write_lengths(&self, packet: &mut [u8]) {
        let (total, payload_at) = (packet.len(), self.header_bytes);
        if let Some((number, unit_bytes)) = self.payload {
            number.write((payload_at / unit_bytes) as u64, packet);
        }
        if let LengthLayout::Field { number, unit_bytes, includes_header } = self.length {
            let counted = if includes_header { total } else { total - payload_at };
            number.write((counted / unit_bytes) as u64, packet);
        }
    }
}

/// Converts a length on the wire to bytes; refuses what exceeds memory.
fn times(count: u64, unit_bytes: usize) -> Result<usize, LossReason> {
    let bytes = count.checked_mul(unit_bytes as u64).ok_or(LossReason::BadLength)?;
    usize::try_from(bytes).map_err(|_| LossReason::BadLength)
}

/// Bytes of every header: as configured, or up to the end of the last field.
fn header_bytes(settings: &Settings, names: &Names) -> Result<usize, SettingsError> {
    let mut furthest = 0;
    for name in settings.field.keys() {
        furthest = furthest.max(names.number("field", name)?.end());
    }
    match (settings.header_bytes, &settings.payload) {
        (None, None) => bad("header_bytes", "is missing: give it, or `payload` with an `offset_field`"),
        (None, Some(_)) => Ok(furthest),
        (Some(bytes), _) if (furthest..=Number::FURTHEST).contains(&bytes) => Ok(bytes),
        (Some(bytes), _) => {
            bad("header_bytes", format!("is {bytes}; the fields need {furthest} to {}", Number::FURTHEST))
        }
    }
}

fn parts(settings: &Settings, names: &Names) -> Result<(Vec<Number>, usize), SettingsError> {
    let Some(parts) = &settings.part else { return Ok((Vec::new(), 1)) };
    if !(1..=Layout::MOST_PARTS).contains(&parts.limit) {
        return bad("part.limit", format!("is {}; write 1 to {}", parts.limit, Layout::MOST_PARTS));
    }
    let numbers: Vec<Number> =
        parts.fields.iter().map(|name| names.number("part.fields", name)).collect::<Result<_, _>>()?;
    let bits: u32 = numbers.iter().map(Number::bits).sum();
    if numbers.is_empty() || bits > 64 {
        return bad("part.fields", format!("have {bits} bits together; name fields of 1 to 64"));
    }
    Ok((numbers, parts.limit))
}

fn length(settings: &Settings, names: &Names, header_bytes: usize) -> Result<LengthLayout, SettingsError> {
    let Some(length) = &settings.length else {
        if settings.stream {
            return bad("length", "is missing: packets of a stream need a length field or `payload_bytes`");
        }
        return Ok(LengthLayout::Datagram);
    };
    let Length { unit_bytes, includes_header, .. } = *length;
    let limit_bytes = length.limit();
    if unit_bytes == 0 {
        return bad("length.unit_bytes", "is 0: write the number of bytes of one count");
    }
    if !(1..=Layout::LONGEST_PACKET).contains(&limit_bytes) {
        return bad("length.limit_bytes", format!("is {limit_bytes}; write 1 to {}", Layout::LONGEST_PACKET));
    }
    match (&length.field, length.payload_bytes) {
        (Some(name), None) => {
            let number = names.number("length", name)?;
            Ok(LengthLayout::Field { number, unit_bytes, includes_header })
        }
        // Such packets would fill any number of bytes of the stream, and none.
        (None, Some(0)) if settings.stream && header_bytes == 0 => {
            bad("length.payload_bytes", "is 0, as `header_bytes`: packets of a stream have a byte or more")
        }
        (None, Some(bytes)) if bytes < limit_bytes => Ok(LengthLayout::Payload(bytes)),
        (None, Some(_)) => bad("length.payload_bytes", "is beyond `limit_bytes`: raise `limit_bytes`"),
        _ => bad("length", "needs either `field` or `payload_bytes`"),
    }
}

fn sequence(
    sequence: &Sequence,
    settings: &Settings,
    names: &Names,
    part_limit: usize,
) -> Result<SequenceLayout, SettingsError> {
    let number = names.number("sequence", &sequence.field)?;
    let (group, index, group_packets) = match (sequence.scope, sequence.packets_per_frame, &settings.trigger)
    {
        (Scope::Source, None, _) => (number, None, 1),
        (Scope::Source, Some(_), _) => {
            return bad("sequence.packets_per_frame", "goes with `scope = \"frame\"` only");
        }
        (Scope::Frame, Some(packets @ 1..=65_536), Some(trigger)) => {
            (names.number("trigger", &trigger.field)?, Some(number), packets)
        }
        (Scope::Frame, _, None) => {
            return bad("trigger", "is missing: `scope = \"frame\"` distinguishes frames by it");
        }
        (Scope::Frame, _, _) => {
            return bad("sequence.packets_per_frame", "is needed with `scope = \"frame\"`: 1 to 65536");
        }
    };
    let bits = group.bits();
    if bits < 2 {
        return bad("sequence", "has a counter of one bit, which cannot show gaps: check `mask`");
    }
    let half = 1u64 << (bits - 1);
    let largest_gap = sequence.largest_gap.unwrap_or(65_536.min(half - 1));
    let most = (half - 1).min(Layout::LARGEST_LOSS / u64::from(group_packets));
    if !(1..=most).contains(&largest_gap) {
        return bad("sequence.largest_gap", format!("is {largest_gap}; this counter allows 1 to {most}"));
    }
    let most = half.min(4096);
    if !(1..=most).contains(&(sequence.window as u64)) {
        return bad("sequence.window", format!("is {}; this counter allows 1 to {most}", sequence.window));
    }
    let counting = Counting {
        bits,
        group_packets,
        window: sequence.window as i64,
        largest_gap: largest_gap as i64,
        every_group: sequence.every_trigger,
    };
    let bytes = counting.words() * 8 * part_limit;
    if bytes > Layout::MOST_WINDOW_BYTES {
        let most = Layout::MOST_WINDOW_BYTES >> 20;
        return bad(
            "sequence.window",
            format!(
                "with `part.limit = {part_limit}` takes {bytes} bytes, and at most {most} MiB are allowed"
            ),
        );
    }
    Ok(SequenceLayout { group, index, counting })
}

fn hits(
    hits: &PacketHits,
    settings: &Settings,
    names: &Names,
    parts: &[Number],
) -> Result<HitLayout, SettingsError> {
    if settings.timestamp.is_none() {
        return bad("timestamp", "is missing: a hit needs a time");
    }
    let PacketHits { channels, first_channel, time_offset_ps, .. } = *hits;
    if channels == 0 || u32::from(channels) + u32::from(first_channel) > 1 << 16 {
        return bad(
            "hits.channels",
            format!("is {channels} from {first_channel}: write 1 or more, to end at or below channel 65535"),
        );
    }
    let named = names.optional("hits.channel", hits.channel.as_deref())?;
    Ok(HitLayout { channel: named.or(parts.first().copied()), channels, first_channel, time_offset_ps })
}
