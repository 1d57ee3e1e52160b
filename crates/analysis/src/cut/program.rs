//! An expression as it is evaluated: a short list of steps on two stacks, one of numbers and one of answers.
//!
//! ```text
//!  psd > 0.12 && !pile_up   ──►   field psd · compare > 0.12 · flag pile_up · not · and
//! ```

use thalweg_data::Flags;

use super::field::Field;

/// A comparison.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Relation {
    Less,
    LessOrEqual,
    Greater,
    GreaterOrEqual,
    Equal,
    NotEqual,
}

/// Arithmetic.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Operation {
    Add,
    Subtract,
    Multiply,
    Divide,
}

impl Operation {
    #[inline(always)]
    pub fn of<T>(self, left: T, right: T) -> T
    where
        T: std::ops::Add<Output = T>
            + std::ops::Sub<Output = T>
            + std::ops::Mul<Output = T>
            + std::ops::Div<Output = T>,
    {
        match self {
            Operation::Add => left + right,
            Operation::Subtract => left - right,
            Operation::Multiply => left * right,
            Operation::Divide => left / right,
        }
    }
}

/// One step. `Constant` forms have their right side built in, which is what most expressions need.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum Step {
    Field(Field),
    Number(f64),
    Negate,
    Arithmetic(Operation),
    ArithmeticConstant(Operation, f64),
    Compare(Relation),
    CompareConstant(Relation, f64),
    /// Both ends are within.
    Within(f64, f64),
    Flag(Flags),
    /// Number of the polygon.
    Inside(usize),
    And,
    Or,
    Not,
}

/// The steps, and how much room they need.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct Program {
    pub steps: Vec<Step>,
    pub deepest_numbers: usize,
    pub deepest_answers: usize,
    /// Asks for something that single precision would blur.
    pub is_long: bool,
}

impl Program {
    /// Adds up how deep the stacks become.
    pub fn measure(&mut self, polygons: &[super::polygon::Polygon]) {
        let (mut numbers, mut answers) = (0usize, 0usize);
        for step in &self.steps {
            let mut reach = (0, 0);
            match step {
                Step::Field(field) => {
                    self.is_long |= field.is_long();
                    numbers += 1;
                }
                Step::Number(_) => numbers += 1,
                Step::Negate | Step::ArithmeticConstant(..) | Step::Not => {}
                Step::Arithmetic(_) => numbers -= 1,
                Step::Compare(_) => (numbers, answers) = (numbers - 2, answers + 1),
                Step::CompareConstant(..) | Step::Within(..) => {
                    (numbers, answers) = (numbers - 1, answers + 1)
                }
                Step::Flag(_) => answers += 1,
                Step::Inside(polygon) => {
                    self.is_long |= polygons[*polygon].x.is_long() || polygons[*polygon].y.is_long();
                    // Its two fields, while it is looked at.
                    reach = (2, 0);
                    answers += 1;
                }
                Step::And | Step::Or => answers -= 1,
            }
            self.deepest_numbers = self.deepest_numbers.max(numbers + reach.0);
            self.deepest_answers = self.deepest_answers.max(answers);
        }
    }
}
