//! An expression that decides which built events are kept.

use thalweg_data::{Answers, EventFilter, Events};

use super::Boards;
use super::language::{EventCondition, EventField, EventLanguage};
use super::rows::{EventRows, find_first_slices};
use super::whole::with_whole_comparisons;
use crate::cut::CutError;
use crate::cut::evaluate::Evaluator;
use crate::cut::parse::parse;
use crate::cut::program::{Program, Step};

/// A yes or no, asked of the events of a batch.
///
/// ```
/// use thalweg_analysis::event_filter::{Boards, EventExpression};
/// use thalweg_data::{AnswerSheet, Event, EventFilter, Events, SourceId};
///
/// let names = ["camera/0".to_owned(), "camera/1".to_owned()];
/// let boards = Boards { first: SourceId(0), names: &names };
/// let mut filter = EventExpression::parse("missing == 0 && trigger > 6", boards)?;
/// let event = |trigger, missing| Event { trigger, missing, ..Event::default() };
/// let batch = Events { events: vec![event(6, 0), event(7, 0), event(8, 1)], ..Events::default() };
/// let sheet = AnswerSheet::of(0..3);
/// filter.decide(&batch, &mut sheet.answers());
/// assert_eq!([0, 1, 2].map(|event| sheet.get(event)), [Some(false), Some(true), Some(false)]);
/// # Ok::<(), thalweg_analysis::cut::CutError>(())
/// ```
#[derive(Clone, Debug)]
pub struct EventExpression {
    evaluator: Evaluator<EventField, EventCondition>,
    asks_for_bytes: bool,
    first_slices: Vec<u32>,
    pass: Vec<u8>,
}

impl EventExpression {
    /// Reads an expression over the events of these boards.
    ///
    /// # Errors
    /// When it is invalid: with a mark under the place, and what to write.
    pub fn parse(text: &str, boards: Boards<'_>) -> Result<EventExpression, CutError> {
        let language = EventLanguage { boards };
        let steps = with_whole_comparisons(parse(text, &language)?.steps);
        let program = Program::of(&language, steps);
        let asks_for_bytes = asks_for_bytes(&program);
        Ok(EventExpression {
            evaluator: Evaluator::new(program),
            asks_for_bytes,
            first_slices: Vec::new(),
            pass: Vec::new(),
        })
    }
}

/// Whether an answer depends on the bytes of fragments.
fn asks_for_bytes(program: &Program<EventField, EventCondition>) -> bool {
    let asks = |step: &Step<EventField, EventCondition>| match step {
        Step::Field(field) => field.asks_for_bytes(),
        Step::Condition(EventCondition::Bit(..)) => true,
        Step::Condition(EventCondition::Whole(comparison)) => {
            comparison.fields().any(EventField::asks_for_bytes)
        }
        _ => false,
    };
    program.steps.iter().any(asks)
}

impl EventFilter for EventExpression {
    fn decide(&mut self, events: &Events, answers: &mut Answers<'_>) {
        self.first_slices.clear();
        if self.asks_for_bytes {
            find_first_slices(events, &mut self.first_slices);
        }
        let due = answers.due();
        self.pass.resize(due.len().max(self.pass.len()), 0);
        let pass = &mut self.pass[..due.len()];
        let rows = EventRows { events, range: (due.start, due.end), first_slices: &self.first_slices };
        self.evaluator.evaluate(rows, pass);
        answers.give_each(pass.iter().map(|pass| *pass == 1));
    }
}
