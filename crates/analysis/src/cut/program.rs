//! An expression as it is evaluated: a short list of steps on two stacks, one of numbers and one of answers.
//!
//! ```text
//!  psd > 0.12 && !pile_up   ──►   field psd · compare > 0.12 · flag pile_up · not · and
//! ```

/// A comparison.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Relation {
    Less,
    LessOrEqual,
    Greater,
    GreaterOrEqual,
    Equal,
    NotEqual,
}

impl Relation {
    /// How it is written.
    pub fn symbol(self) -> &'static str {
        match self {
            Relation::Less => "<",
            Relation::LessOrEqual => "<=",
            Relation::Greater => ">",
            Relation::GreaterOrEqual => ">=",
            Relation::Equal => "==",
            Relation::NotEqual => "!=",
        }
    }

    /// Its answer for two numbers.
    pub fn holds(self, left: f64, right: f64) -> bool {
        match self {
            Relation::Less => left < right,
            Relation::LessOrEqual => left <= right,
            Relation::Greater => left > right,
            Relation::GreaterOrEqual => left >= right,
            Relation::Equal => left == right,
            Relation::NotEqual => left != right,
        }
    }
}

/// Arithmetic.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Operation {
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

/// The fields and conditions that expressions over one kind of rows can name: of hits, or of built events.
pub(crate) trait Language {
    /// A quantity of a row.
    type Field: Copy;
    /// What is true of a row or not.
    type Condition: Copy;
    /// Whether single precision would blur a field.
    fn is_long(&self, field: Self::Field) -> bool;
    /// How many columns of numbers a condition needs while it is asked, and whether single precision would blur them.
    fn needs(&self, condition: Self::Condition) -> (usize, bool);
}

/// One step. `Constant` forms have their right side built in, which is what most expressions need.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Step<F, C> {
    Field(F),
    Number(f64),
    Negate,
    Arithmetic(Operation),
    ArithmeticConstant(Operation, f64),
    Compare(Relation),
    CompareConstant(Relation, f64),
    /// Both ends are within.
    Within(f64, f64),
    Condition(C),
    And,
    Or,
    Not,
}

/// The steps of an expression of a language.
pub(crate) type Steps<L> = Vec<Step<<L as Language>::Field, <L as Language>::Condition>>;

/// The steps, and how much room they need.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Program<F, C> {
    pub steps: Vec<Step<F, C>>,
    pub deepest_numbers: usize,
    pub deepest_answers: usize,
    /// Asks for something that single precision would blur.
    pub is_long: bool,
}

impl<F: Copy, C: Copy> Program<F, C> {
    /// These steps, and how deep the stacks become.
    pub fn of(language: &impl Language<Field = F, Condition = C>, steps: Vec<Step<F, C>>) -> Program<F, C> {
        let mut program = Program { steps, deepest_numbers: 0, deepest_answers: 0, is_long: false };
        let (mut numbers, mut answers) = (0usize, 0usize);
        for step in &program.steps {
            let mut reach = 0;
            match step {
                Step::Field(field) => {
                    program.is_long |= language.is_long(*field);
                    numbers += 1;
                }
                Step::Number(_) => numbers += 1,
                Step::Negate | Step::ArithmeticConstant(..) | Step::Not => {}
                Step::Arithmetic(_) => numbers -= 1,
                Step::Compare(_) => (numbers, answers) = (numbers - 2, answers + 1),
                Step::CompareConstant(..) | Step::Within(..) => {
                    (numbers, answers) = (numbers - 1, answers + 1)
                }
                Step::Condition(condition) => {
                    let (columns, is_long) = language.needs(*condition);
                    program.is_long |= is_long;
                    reach = columns;
                    answers += 1;
                }
                Step::And | Step::Or => answers -= 1,
            }
            program.deepest_numbers = program.deepest_numbers.max(numbers + reach);
            program.deepest_answers = program.deepest_answers.max(answers);
        }
        program
    }
}
