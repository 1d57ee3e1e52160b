//! What expressions over hits can name: fields, flags and regions.
//!
//! ```text
//!  energy · psd · …   pile_up · …   inside(neutrons)
//! ```

use thalweg_data::Flags;

use super::error::CutError;
use super::evaluate::{CHUNK, Rows};
use super::field::{Field, Members, Real, fill};
use super::kev_ranges::KevRanges;
use super::parse::{Kind, Names, Parser};
use super::polygon::{Polygon, known};
use super::program::Language;
use super::settings::Scope;
use super::token::Token;
use crate::channels::ChannelMap;

/// The language of cuts on hits and on the members of events.
pub(super) struct HitLanguage<'p> {
    pub scope: Scope,
    pub polygons: &'p [Polygon],
}

/// What is true of a hit or not.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum HitCondition {
    Flag(Flags),
    /// Number of the polygon.
    Inside(usize),
    /// Number of the comparison of calibrated energies.
    Kev(usize),
}

impl Language for HitLanguage<'_> {
    type Field = Field;
    type Condition = HitCondition;

    fn is_long(&self, field: Field) -> bool {
        field.is_long()
    }

    fn needs(&self, condition: HitCondition) -> (usize, bool) {
        match condition {
            HitCondition::Flag(_) => (0, false),
            HitCondition::Kev(_) => (1, false),
            HitCondition::Inside(polygon) => {
                let Polygon { x, y, .. } = &self.polygons[polygon];
                (2, x.is_long() || y.is_long())
            }
        }
    }
}

impl Names for HitLanguage<'_> {
    const EXAMPLE: &'static str = "energy > 200";

    fn read(parser: &mut Parser<'_, Self>, name: &str) -> Result<Kind, CutError> {
        if name == "inside" {
            return inside(parser);
        }
        if let Some(field) = Field::from_name(name) {
            if field.is_of_event() && parser.language.scope == Scope::Hit {
                let message =
                    format!("only hits in an event have `{name}`; write on = \"event\" to cut events");
                return Err(parser.refuse(message));
            }
            parser.skip();
            return parser.field(field);
        }
        if let Some((flag, _)) = Flags::NAMES.iter().find(|(_, known)| *known == name) {
            parser.skip();
            return parser.condition(HitCondition::Flag(*flag));
        }
        let flags: Vec<&str> = Flags::NAMES.iter().map(|(_, name)| *name).collect();
        Err(parser.refuse(format!(
            "there is no field or flag \"{name}\"; {}, and the flags {}",
            known(),
            flags.join(", ")
        )))
    }

    fn unit(field: Field) -> Option<&'static str> {
        Some(field.unit())
    }
}

fn inside(parser: &mut Parser<'_, HitLanguage<'_>>) -> Result<Kind, CutError> {
    let HitLanguage { scope, polygons } = *parser.language;
    parser.skip();
    parser.expect("(")?;
    let Token::Name(name) = parser.peek().clone() else {
        return Err(parser.refuse("the name of a [[polygon]] is missing here"));
    };
    let Some(polygon) = polygons.iter().position(|polygon| polygon.name == name) else {
        let names: Vec<&str> = polygons.iter().map(|polygon| polygon.name.as_str()).collect();
        let there = if names.is_empty() {
            "there is none".to_owned()
        } else {
            format!("there are {}", names.join(", "))
        };
        return Err(parser.refuse(format!("no [[polygon]] is called \"{name}\"; {there}")));
    };
    let of_event = polygons[polygon].x.is_of_event() || polygons[polygon].y.is_of_event();
    if of_event && scope == Scope::Hit {
        return Err(
            parser.refuse("this region is of fields that only hits in an event have; write on = \"event\"")
        );
    }
    parser.skip();
    parser.expect(")")?;
    parser.condition(HitCondition::Inside(polygon))
}

/// Hits, and what their fields and regions depend on.
#[derive(Clone, Copy)]
pub(super) struct HitRows<'h> {
    pub members: Members<'h>,
    pub polygons: &'h [Polygon],
    pub kev: &'h [KevRanges],
    pub map: &'h ChannelMap,
}

impl Rows for HitRows<'_> {
    type Field = Field;
    type Condition = HitCondition;

    fn range(self, range: std::ops::Range<usize>) -> Self {
        let members = Members {
            hits: &self.members.hits[range.clone()],
            events: self.members.events.map(|events| &events[range]),
        };
        HitRows { members, ..self }
    }

    #[inline(always)]
    fn fill<T: Real>(self, field: Field, column: &mut [T]) {
        fill(field, self.members, self.map, column);
    }

    #[inline(always)]
    fn ask<T: Real + Into<f64>>(
        self,
        condition: HitCondition,
        columns: &mut [[T; CHUNK]],
        answers: &mut [u8],
    ) {
        match condition {
            HitCondition::Flag(flag) => {
                let rows = answers.iter_mut().zip(self.members.hits);
                rows.for_each(|(answer, hit)| *answer = u8::from(hit.flags.has(flag)));
            }
            HitCondition::Kev(number) => self.ask_kev(&self.kev[number], columns, answers),
            HitCondition::Inside(polygon) => {
                let (polygon, count) = (&self.polygons[polygon], answers.len());
                let (x, y) = columns.split_at_mut(1);
                let (x, y) = (&mut x[0][..count], &mut y[0][..count]);
                fill(polygon.x, self.members, self.map, x);
                fill(polygon.y, self.members, self.map, y);
                polygon.fill(x, y, answers);
            }
        }
    }
}

impl HitRows<'_> {
    #[inline(always)]
    fn ask_kev<T: Real + Into<f64>>(self, asked: &KevRanges, columns: &mut [[T; CHUNK]], answers: &mut [u8]) {
        if asked.answer(self.members.hits, answers) {
            return;
        }
        let column = &mut columns[0][..answers.len()];
        self.fill(Field::Kev, column);
        let rows = answers.iter_mut().zip(column);
        rows.for_each(|(answer, kev)| *answer = u8::from(asked.comparison.holds((*kev).into(), T::IS_LONG)));
    }
}
