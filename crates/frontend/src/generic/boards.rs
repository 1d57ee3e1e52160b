//! The boards of a source whose packets become fragments, checked.
//!
//! ```text
//!  [source.fragments] + trigger, timestamp, sequence ─► Boards: numbering · trigger number · time · packets of a fragment
//! ```

use super::layout::Layout;
use super::number::Number;
use super::numbering::Numbering;
use super::settings::{NamedBy, PacketFragments, Settings, SettingsError};
use super::time::Counter;
use crate::framing::Assembly;
use crate::time_origin::TimeOrigin;

/// Shortest period in picoseconds after which a board's time may wrap so that it can still be extended over its wraps:
/// packets are delayed by less on their way.
const SHORTEST_LASTING_WRAP_PS: i128 = 1_000_000_000_000;

/// How packets become fragments of boards.
#[derive(Clone, Debug)]
pub(super) struct Boards {
    pub(super) count: u16,
    pub(super) numbering: Numbering,
    pub(super) trigger: Number,
    /// The time field, and the counter that extends it over its wraps; no counter if it wraps too soon.
    pub(super) time: Option<(Number, Option<Counter>)>,
    /// The field with a packet's position in its fragment, and the number of packets of a fragment; only if it has
    /// several.
    pub(super) parts: Option<(Number, u16)>,
    pub(super) keeps_header: bool,
    pub(super) open_fragments: u8,
    pub(super) reassembly_ms: u32,
}

fn bad<T>(key: &'static str, message: impl Into<String>) -> Result<T, SettingsError> {
    Err(SettingsError::Value { key, message: message.into() })
}

impl Boards {
    /// Reads the boards of a description.
    ///
    /// # Errors
    /// The key that cannot be used, and what to write instead.
    pub fn of(settings: &Settings) -> Result<Boards, SettingsError> {
        let Some(fragments) = &settings.fragments else {
            return bad("fragments", "is missing: a table [source.fragments] lists the boards");
        };
        let layout = Layout::of(settings)?;
        let Some(trigger) = layout.trigger else {
            return bad("trigger", "is missing: fragments are built into events by their trigger number");
        };
        check(fragments, settings)?;
        let time = layout.timestamp.map(|(number, tick)| {
            let counter = Counter::new(number.bits(), tick);
            (number, (counter.wrap_ps() >= SHORTEST_LASTING_WRAP_PS).then_some(counter))
        });
        let packets = settings.sequence.as_ref().and_then(|sequence| sequence.packets_per_frame);
        if settings.stream && packets.is_some_and(|count| count > 1) {
            return bad(
                "sequence.packets_per_frame",
                "is for datagrams only: in a stream, give the length of whole fragments in `length`",
            );
        }
        let parts = match (packets, layout.sequence.and_then(|sequence| sequence.index)) {
            (Some(count @ 2..), Some(number)) if count as usize <= Assembly::MOST_PARTS => {
                Some((number, count as u16))
            }
            (Some(count @ 2..), _) => {
                let most = Assembly::MOST_PARTS;
                return bad(
                    "sequence.packets_per_frame",
                    format!("is {count}; a fragment has at most {most} packets"),
                );
            }
            _ => None,
        };
        Ok(Boards {
            count: fragments.boards,
            numbering: numbering(fragments, settings),
            trigger,
            time,
            parts,
            keeps_header: fragments.keep_header,
            open_fragments: fragments.open_fragments,
            reassembly_ms: fragments.reassembly_ms,
        })
    }
}

/// Checks [source.fragments] by itself, and against the keys that it excludes.
fn check(fragments: &PacketFragments, settings: &Settings) -> Result<(), SettingsError> {
    let PacketFragments { boards, open_fragments, reassembly_ms, .. } = *fragments;
    if settings.hits.is_some() {
        return bad("fragments", "and `hits` exclude each other: remove one of the tables");
    }
    if settings.time_origin == TimeOrigin::FirstHit {
        return bad(
            "time_origin",
            "is for hits only; boards whose events are built share one origin: remove it",
        );
    }
    if !(1..=Layout::MOST_PARTS).contains(&usize::from(boards)) {
        return bad("fragments.boards", format!("is {boards}; write 1 to {}", Layout::MOST_PARTS));
    }
    match (fragments.named_by, &settings.part) {
        (NamedBy::Header, None) => {
            return bad(
                "part",
                "is missing: `named_by = \"header\"` reads the board's number from its fields",
            );
        }
        (NamedBy::Connection, _) if boards > 1 => {
            return bad(
                "fragments.boards",
                format!(
                    "is {boards}, and nothing distinguishes their packets: write `named_by = \"header\"`, or \"sender\""
                ),
            );
        }
        _ => {}
    }
    if !(1..=64).contains(&open_fragments) {
        return bad("fragments.open_fragments", format!("is {open_fragments}; write 1 to 64"));
    }
    if reassembly_ms == 0 {
        return bad("fragments.reassembly_ms", "is 0; write 1 or more");
    }
    Ok(())
}

fn numbering(fragments: &PacketFragments, settings: &Settings) -> Numbering {
    let PacketFragments { boards, first_board, named_by, .. } = *fragments;
    match named_by {
        NamedBy::Header if settings.part.is_some() => {
            Numbering::Header { first_board, boards: u64::from(boards) }
        }
        NamedBy::Sender => Numbering::Sender { boards: u32::from(boards) },
        _ => Numbering::Connection,
    }
}
