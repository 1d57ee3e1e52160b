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

    /// The same of both sides in turn: `a < b` is `b > a`.
    pub fn flipped(self) -> Relation {
        match self {
            Relation::Less => Relation::Greater,
            Relation::LessOrEqual => Relation::GreaterOrEqual,
            Relation::Greater => Relation::Less,
            Relation::GreaterOrEqual => Relation::LessOrEqual,
            Relation::Equal | Relation::NotEqual => self,
        }
    }

    /// Its answer for two numbers.
    pub fn holds<N: PartialOrd>(self, left: N, right: N) -> bool {
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

/// A number of an expression.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Constant {
    /// In double precision.
    pub value: f64,
    /// Exactly, where it is a whole number.
    pub whole: Option<i128>,
}

impl Constant {
    /// A number as double precision has it.
    pub fn of(value: f64) -> Constant {
        let is_whole = value.fract() == 0.0 && value.abs() < i128::MAX as f64;
        Constant { value, whole: is_whole.then_some(value as i128) }
    }

    /// A whole number that is written so, times a factor.
    pub fn of_digits(digits: &str, value: f64, factor: f64) -> Constant {
        let product = Constant::of(value * factor);
        let digits = match digits.split_once('.') {
            Some((whole, fraction)) if fraction.bytes().all(|digit| digit == b'0') => whole,
            _ => digits,
        };
        let exact = digits.parse().ok().zip(Constant::of(factor).whole);
        let exact = exact.and_then(|(whole, factor): (i128, i128)| whole.checked_mul(factor));
        Constant { whole: exact.or(product.whole), ..product }
    }

    /// The same number below zero.
    pub fn negated(self) -> Constant {
        Constant { value: -self.value, whole: self.whole.and_then(i128::checked_neg) }
    }

    /// Whether it is greater than another one.
    pub fn exceeds(self, other: Constant) -> bool {
        match self.whole.zip(other.whole) {
            Some((own, other)) => own > other,
            None => self.value > other.value,
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

    /// The same of two numbers of an expression: exact where both and the result are whole, but for a quotient.
    pub fn of_constants(self, left: Constant, right: Constant) -> Constant {
        let rounded = Constant::of(self.of(left.value, right.value));
        let exact = left.whole.zip(right.whole).and_then(|(left, right)| match self {
            Operation::Add => left.checked_add(right),
            Operation::Subtract => left.checked_sub(right),
            Operation::Multiply => left.checked_mul(right),
            Operation::Divide => None,
        });
        Constant { whole: exact.or(rounded.whole), ..rounded }
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
    Number(Constant),
    Negate,
    Arithmetic(Operation),
    ArithmeticConstant(Operation, f64),
    Compare(Relation),
    CompareConstant(Relation, Constant),
    /// Both ends are within.
    Within(Constant, Constant),
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
