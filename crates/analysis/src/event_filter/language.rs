//! What expressions over built events can name: the event, each board's fragment, and the bytes in it.
//!
//! ```text
//!  trigger · missing · …   complete · age · …   ticks("camera/3") · u16_le("camera/3", 12) · sum(u16_le, 12)
//! ```

use thalweg_data::{Closing, SourceId};

use super::Boards;
use super::whole::WholeComparison;
use crate::cut::CutError;
use crate::cut::parse::{Kind, Names, Parser};
use crate::cut::program::Language;
use crate::cut::token::Token;

/// The language of the event filter.
pub(super) struct EventLanguage<'n> {
    pub boards: Boards<'n>,
}

/// A quantity of a built event.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum EventField {
    Trigger,
    /// When its first fragment arrived, picoseconds.
    Time,
    /// From the arrival of its first fragment until it was closed, picoseconds.
    Latency,
    Fragments,
    Missing,
    Bytes,
    Attempt,
    /// Of one fragment.
    Of(SourceId, FragmentField),
    /// Of all fragments that have it.
    OfAll(Sum, FragmentField),
}

/// A quantity of a fragment.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum FragmentField {
    Bytes,
    Ticks,
    /// A number in its bytes, counted from its first one.
    Number(Number, u32),
}

/// What is made of the numbers of several fragments.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum Sum {
    Least,
    Most,
    Total,
}

/// A number as it is written in bytes.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Number {
    pub kind: NumberKind,
    pub bytes: usize,
    pub is_big_endian: bool,
}

#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum NumberKind {
    Unsigned,
    Signed,
    Real,
}

/// What is true of a built event or not.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum EventCondition {
    Closed(Closing),
    Present(SourceId),
    /// A bit of a fragment: the byte, and the bit in it, from the least significant.
    Bit(SourceId, u32, u32),
    /// A comparison of whole numbers.
    Whole(WholeComparison),
}

impl EventField {
    /// Whether it is a whole number.
    pub fn is_whole(self) -> bool {
        !matches!(self.number(), Some(Number { kind: NumberKind::Real, .. }))
    }

    /// Whether it is a whole number that double precision may not hold: one beyond 2⁵³. The other numbers of an event are counts, and sums of
    /// numbers of 32 bits remain below, because there are fewer than 2¹⁶ boards.
    pub fn is_wide(self) -> bool {
        match self {
            EventField::Trigger | EventField::Time | EventField::Latency => true,
            EventField::Of(_, field) | EventField::OfAll(_, field) => match field {
                FragmentField::Ticks => true,
                FragmentField::Bytes => false,
                FragmentField::Number(number, _) => number.kind != NumberKind::Real && number.bytes == 8,
            },
            EventField::Fragments | EventField::Missing | EventField::Bytes | EventField::Attempt => false,
        }
    }

    /// What it is in the bytes of fragments.
    fn number(self) -> Option<Number> {
        match self {
            EventField::Of(_, FragmentField::Number(number, _))
            | EventField::OfAll(_, FragmentField::Number(number, _)) => Some(number),
            _ => None,
        }
    }

    /// Whether it is read from the bytes of fragments.
    pub fn asks_for_bytes(self) -> bool {
        self.number().is_some()
    }
}

/// Fields of the event itself.
const FIELDS: [(EventField, &str); 7] = [
    (EventField::Trigger, "trigger"),
    (EventField::Time, "time"),
    (EventField::Latency, "latency"),
    (EventField::Fragments, "fragments"),
    (EventField::Missing, "missing"),
    (EventField::Bytes, "bytes"),
    (EventField::Attempt, "attempt"),
];

const SUMS: [(Sum, &str); 3] = [(Sum::Least, "min"), (Sum::Most, "max"), (Sum::Total, "sum")];

/// Numbers of one byte have no order of their bytes.
const NUMBERS: [(&str, NumberKind, usize); 9] = [
    ("u8", NumberKind::Unsigned, 1),
    ("i8", NumberKind::Signed, 1),
    ("u16", NumberKind::Unsigned, 2),
    ("i16", NumberKind::Signed, 2),
    ("u32", NumberKind::Unsigned, 4),
    ("i32", NumberKind::Signed, 4),
    ("u64", NumberKind::Unsigned, 8),
    ("f32", NumberKind::Real, 4),
    ("f64", NumberKind::Real, 8),
];

impl Number {
    fn from_name(name: &str) -> Option<Number> {
        let (width, order) = name.split_once('_').map_or((name, None), |(width, order)| (width, Some(order)));
        let (_, kind, bytes) = *NUMBERS.iter().find(|(known, ..)| *known == width)?;
        match (bytes, order) {
            (1, None) => Some(Number { kind, bytes, is_big_endian: false }),
            (2.., Some("le")) => Some(Number { kind, bytes, is_big_endian: false }),
            (2.., Some("be")) => Some(Number { kind, bytes, is_big_endian: true }),
            _ => None,
        }
    }
}

/// All names, for messages.
fn known() -> String {
    let fields = FIELDS.map(|(_, name)| name).join(", ");
    let closings = Closing::ALL.map(Closing::word).join(", ");
    let numbers = NUMBERS.map(|(name, _, bytes)| match bytes {
        1 => name.to_owned(),
        _ => format!("{name}_le, {name}_be"),
    });
    format!(
        "there are the fields {fields}; the closings {closings}; present(\"BOARD\"), fragment_bytes(\"BOARD\"), ticks(\"BOARD\"), \
         bit(\"BOARD\", OFFSET, BIT); the numbers NUMBER(\"BOARD\", OFFSET) of {}; and min, max, sum of all boards, as in \
         max(u16_le, OFFSET)",
        numbers.join(", ")
    )
}

impl Language for EventLanguage<'_> {
    type Field = EventField;
    type Condition = EventCondition;

    /// Trigger numbers and times have more digits than single precision.
    fn is_long(&self, _field: EventField) -> bool {
        true
    }

    fn needs(&self, _condition: EventCondition) -> (usize, bool) {
        (0, true)
    }
}

impl Names for EventLanguage<'_> {
    const EXAMPLE: &'static str = "missing == 0";

    fn read(parser: &mut Parser<'_, Self>, name: &str) -> Result<Kind, CutError> {
        if let Some((field, _)) = FIELDS.iter().find(|(_, known)| *known == name) {
            parser.skip();
            return parser.field(*field);
        }
        if let Some(closing) = Closing::ALL.into_iter().find(|closing| closing.word() == name) {
            parser.skip();
            return parser.condition(EventCondition::Closed(closing));
        }
        if let Some((sum, _)) = SUMS.iter().find(|(_, known)| *known == name) {
            parser.skip();
            parser.expect("(")?;
            let field = fragment_field(parser)?;
            parser.expect(")")?;
            return parser.field(EventField::OfAll(*sum, field));
        }
        match name {
            "present" => {
                let board = open(parser)?;
                parser.expect(")")?;
                parser.condition(EventCondition::Present(board))
            }
            "bit" => {
                let board = open(parser)?;
                let offset = whole_argument(parser)?;
                let bit = whole_argument(parser)?;
                parser.expect(")")?;
                parser.condition(EventCondition::Bit(board, offset.saturating_add(bit / 8), bit % 8))
            }
            _ => {
                let Some(field) = named_fragment_field(name) else {
                    return Err(parser.refuse(format!("there is no \"{name}\"; {}", known())));
                };
                let board = open(parser)?;
                let field = with_offset(parser, field)?;
                parser.expect(")")?;
                parser.field(EventField::Of(board, field))
            }
        }
    }

    fn unit(field: EventField) -> Option<&'static str> {
        match field {
            EventField::Time | EventField::Latency => Some("ps"),
            // What the boards write may be a time or an energy.
            _ if field.asks_for_bytes() => None,
            _ => Some(""),
        }
    }
}

/// A field of fragments of this name; of a number in their bytes the offset follows.
fn named_fragment_field(name: &str) -> Option<FragmentField> {
    match name {
        "fragment_bytes" => Some(FragmentField::Bytes),
        "ticks" => Some(FragmentField::Ticks),
        _ => Number::from_name(name).map(|number| FragmentField::Number(number, 0)),
    }
}

/// The offset of a number in the bytes of a fragment.
fn with_offset(
    parser: &mut Parser<'_, EventLanguage<'_>>,
    field: FragmentField,
) -> Result<FragmentField, CutError> {
    match field {
        FragmentField::Number(number, _) => Ok(FragmentField::Number(number, whole_argument(parser)?)),
        other => Ok(other),
    }
}

/// A field of all fragments, in the brackets of `min`, `max` or `sum`.
fn fragment_field(parser: &mut Parser<'_, EventLanguage<'_>>) -> Result<FragmentField, CutError> {
    let named = match parser.peek() {
        Token::Name(name) => named_fragment_field(name),
        _ => None,
    };
    let Some(field) = named else {
        let message =
            "a number of fragments is missing here: fragment_bytes, ticks, or as in max(u16_le, 12)";
        return Err(parser.refuse(message));
    };
    parser.skip();
    with_offset(parser, field)
}

/// Reads the word before a bracket, the bracket and the name of a board.
fn open(parser: &mut Parser<'_, EventLanguage<'_>>) -> Result<SourceId, CutError> {
    const SHOWN: usize = 8;
    parser.skip();
    parser.expect("(")?;
    let Token::Quoted(name) = parser.peek().clone() else {
        return Err(parser.refuse("the name of a board is missing here, in quotation marks"));
    };
    let boards = parser.language.boards;
    let Some(board) = boards.find(&name) else {
        let names: Vec<&str> = boards.names.iter().take(SHOWN).map(String::as_str).collect();
        let more = match boards.names.len().saturating_sub(SHOWN) {
            0 => String::new(),
            more => format!(" and {more} more"),
        };
        return Err(
            parser.refuse(format!("no board is called \"{name}\"; there are {}{more}", names.join(", ")))
        );
    };
    parser.skip();
    Ok(board)
}

/// Reads a comma and a whole number.
fn whole_argument(parser: &mut Parser<'_, EventLanguage<'_>>) -> Result<u32, CutError> {
    parser.expect(",")?;
    let is_whole = |value: f64| value.fract() == 0.0 && (0.0..=f64::from(u32::MAX)).contains(&value);
    match *parser.peek() {
        Token::Number(number, "") if is_whole(number.value) => {
            parser.skip();
            Ok(number.value as u32)
        }
        _ => Err(parser.refuse("a whole number is missing here, from 0")),
    }
}
