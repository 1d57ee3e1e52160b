//! An expression that answers yes or no to a hit.

use thalweg_data::Hit;

use super::error::CutError;
use super::evaluate::Evaluator;
use super::field::{EventFacts, Field, Members};
use super::hit_language::{HitCondition, HitLanguage, HitRows};
use super::kev_ranges::{KevComparison, KevRanges};
use super::parse::parse;
use super::polygon::Polygon;
use super::program::{Program, Step};
use super::settings::Scope;
use crate::channels::ChannelMap;
use thalweg_data::HitEvents;

type HitStep = Step<Field, HitCondition>;

/// A yes or no, asked of many hits at a time.
///
/// ```
/// use thalweg_analysis::channels::ChannelMap;
/// use thalweg_analysis::cut::{Expression, Scope};
/// use thalweg_data::Hit;
///
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// let mut cut = Expression::parse("energy > 200 && channel < 8", Scope::Hit, &[])?;
/// let hit = |channel, energy| Hit { channel, energy, ..Hit::default() };
/// let mut pass = [0; 3];
/// cut.evaluate_hits(&[hit(0, 500), hit(0, 100), hit(9, 500)], &ChannelMap::new(&[], &[], &[])?, &mut pass);
/// assert_eq!(pass, [1, 0, 0]);
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Debug)]
pub struct Expression {
    text: String,
    polygons: Vec<Polygon>,
    kev: Vec<KevRanges>,
    evaluator: Evaluator<Field, HitCondition>,
}

impl Expression {
    /// Reads an expression; `polygons` are those that it may name.
    ///
    /// # Errors
    /// When it is invalid: with a mark under the place, and what to write.
    pub fn parse(text: &str, scope: Scope, polygons: &[Polygon]) -> Result<Expression, CutError> {
        let language = HitLanguage { scope, polygons };
        let (steps, kev) = with_kev_ranges(parse(text, &language)?.steps);
        let evaluator = Evaluator::new(Program::of(&language, steps));
        Ok(Expression { text: text.to_owned(), polygons: polygons.to_vec(), kev, evaluator })
    }

    /// As it was written.
    pub fn text(&self) -> &str {
        &self.text
    }

    pub(super) fn steps(&self) -> &[HitStep] {
        &self.evaluator.program().steps
    }

    /// Whether an answer depends on calibrated energies.
    pub fn asks_for_kev(&self) -> bool {
        let asks = |step: &HitStep| match step {
            Step::Field(field) => field.is_calibrated(),
            Step::Condition(HitCondition::Kev(_)) => true,
            Step::Condition(HitCondition::Inside(polygon)) => {
                let Polygon { x, y, .. } = &self.polygons[*polygon];
                x.is_calibrated() || y.is_calibrated()
            }
            _ => false,
        };
        self.steps().iter().any(asks)
    }

    /// Answers for each hit, 1 or 0.
    ///
    /// # Panics
    /// When `pass` is not as long as the hits.
    pub fn evaluate_hits(&mut self, hits: &[Hit], map: &ChannelMap, pass: &mut [u8]) {
        self.evaluate(Members { hits, events: None }, map, pass);
    }

    /// Answers for each member of some events, 1 or 0; `facts` has one entry per member.
    ///
    /// # Panics
    /// When `pass` or `facts` are not as long as the members.
    pub fn evaluate_members(
        &mut self,
        events: &HitEvents,
        facts: &[EventFacts],
        map: &ChannelMap,
        pass: &mut [u8],
    ) {
        self.evaluate(Members { hits: &events.members, events: Some(facts) }, map, pass);
    }

    fn evaluate(&mut self, members: Members<'_>, map: &ChannelMap, pass: &mut [u8]) {
        assert_eq!(members.hits.len(), pass.len(), "an answer for each hit");
        let is_long = self.evaluator.program().is_long;
        self.kev.iter_mut().for_each(|ranges| ranges.follow(map, is_long));
        self.evaluator.evaluate(HitRows { members, polygons: &self.polygons, kev: &self.kev, map }, pass);
    }
}

/// The same steps with each comparison of `keV` with numbers as one condition.
fn with_kev_ranges(steps: Vec<HitStep>) -> (Vec<HitStep>, Vec<KevRanges>) {
    let (mut found, mut kev): (Vec<HitStep>, Vec<KevRanges>) = (Vec::new(), Vec::new());
    for step in steps {
        let comparison = match step {
            Step::CompareConstant(relation, number) => KevComparison::of_neighbours(relation, number.value),
            Step::Within(low, high) => Some(KevComparison::Within(low.value, high.value)),
            _ => None,
        };
        match (found.last_mut(), comparison) {
            (Some(last @ Step::Field(Field::Kev)), Some(comparison)) => {
                *last = Step::Condition(HitCondition::Kev(kev.len()));
                kev.push(KevRanges::new(comparison));
            }
            _ => found.push(step),
        }
    }
    (found, kev)
}

/// What each member's event says of it, into `facts`.
pub fn gather_facts(events: &HitEvents, map: &ChannelMap, facts: &mut Vec<EventFacts>) {
    facts.clear();
    for (event, members) in events.iter() {
        let of_event = EventFacts::of(event, members, map);
        facts.extend(std::iter::repeat_n(of_event, members.len()));
    }
}
