//! Comparisons of whole numbers, exactly: double precision would round those beyond 2⁵³.
//!
//! ```text
//!  field u64_le("left", 0) · compare == 9007199254740993   ──►   one condition, over integers of 128 bits
//! ```
//! Only fields that can be so large are compared this way, each by itself, with whole numbers or with another field. What is computed of
//! fields, and compared with a fraction, stays a column of double precision.

use super::language::{EventCondition, EventField};
use crate::cut::program::{Constant, Relation, Step};

pub(super) type EventStep = Step<EventField, EventCondition>;

/// A comparison of whole numbers.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum WholeComparison {
    /// Whether a field is within both bounds, or, with `false`, beyond one.
    Bounds(EventField, i128, i128, bool),
    /// Two fields.
    Fields(EventField, Relation, EventField),
}

impl WholeComparison {
    fn with_number(field: EventField, relation: Relation, number: i128) -> WholeComparison {
        let (low, high, is_inside) = match relation {
            Relation::Less => (i128::MIN, number.saturating_sub(1), true),
            Relation::LessOrEqual => (i128::MIN, number, true),
            Relation::Greater => (number.saturating_add(1), i128::MAX, true),
            Relation::GreaterOrEqual => (number, i128::MAX, true),
            Relation::Equal => (number, number, true),
            Relation::NotEqual => (number, number, false),
        };
        WholeComparison::Bounds(field, low, high, is_inside)
    }

    /// The comparison that ends these steps, and how many of them it takes the place of; `None` if double precision is as good.
    fn ending(steps: &[EventStep], last: EventStep) -> Option<(WholeComparison, usize)> {
        let exact = |constant: Constant| constant.whole;
        Some(match (steps, last) {
            ([.., Step::Field(field)], Step::CompareConstant(relation, number)) if field.is_wide() => {
                (WholeComparison::with_number(*field, relation, exact(number)?), 1)
            }
            ([.., Step::Field(field)], Step::Within(low, high)) if field.is_wide() => {
                (WholeComparison::Bounds(*field, exact(low)?, exact(high)?, true), 1)
            }
            ([.., Step::Number(number), Step::Field(field)], Step::Compare(relation)) if field.is_wide() => {
                (WholeComparison::with_number(*field, relation.flipped(), exact(*number)?), 2)
            }
            ([.., Step::Field(left), Step::Field(right)], Step::Compare(relation))
                if left.is_whole() && right.is_whole() && (left.is_wide() || right.is_wide()) =>
            {
                (WholeComparison::Fields(*left, relation, *right), 2)
            }
            _ => return None,
        })
    }

    /// The fields that it compares.
    pub fn fields(self) -> impl Iterator<Item = EventField> {
        let (one, other) = match self {
            WholeComparison::Bounds(field, ..) => (field, None),
            WholeComparison::Fields(left, _, right) => (left, Some(right)),
        };
        std::iter::once(one).chain(other)
    }
}

/// The same steps with each comparison of whole numbers that double precision could round as one condition.
pub(super) fn with_whole_comparisons(steps: Vec<EventStep>) -> Vec<EventStep> {
    let mut found: Vec<EventStep> = Vec::new();
    for step in steps {
        match WholeComparison::ending(&found, step) {
            Some((comparison, replaced)) => {
                found.truncate(found.len() - replaced);
                found.push(Step::Condition(EventCondition::Whole(comparison)));
            }
            None => found.push(step),
        }
    }
    found
}
