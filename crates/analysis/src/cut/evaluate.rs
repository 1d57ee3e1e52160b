//! Evaluates an expression for many rows at a time.
//!
//! ```text
//!  256 hits or events ─► columns of numbers ─► columns of answers ─► pass
//! ```
//! Step by step over chunks that stay in the first-level cache: each step is a plain loop over a column, which is what the compiler
//! turns into wide instructions. Memory is made once.

use std::ops::{Add, Div, Mul, Neg, Range, Sub};

use thalweg_data::simd::{Wide, widest};

use super::field::Real;
use super::program::{Program, Relation, Step};

/// Rows at a time: a column of them is 1 or 2 KiB.
pub(crate) const CHUNK: usize = 256;

/// Rows that an expression is asked about: hits, or built events.
pub(crate) trait Rows: Copy {
    type Field: Copy;
    type Condition: Copy;
    /// Some of them.
    fn range(self, range: Range<usize>) -> Self;
    /// Fills `column`, which is as long as the rows, with a field of each.
    fn fill<T: Real>(self, field: Self::Field, column: &mut [T]);
    /// Answers whether a condition is true of each row, 1 or 0. `columns` are as many as it needs.
    fn ask<T: Real + Into<f64>>(
        self,
        condition: Self::Condition,
        columns: &mut [[T; CHUNK]],
        answers: &mut [u8],
    );
}

/// What columns can do.
trait Computes:
    Real
    + Add<Output = Self>
    + Sub<Output = Self>
    + Mul<Output = Self>
    + Div<Output = Self>
    + Neg<Output = Self>
    + Into<f64>
{
}
impl Computes for f32 {}
impl Computes for f64 {}

/// The stacks of one precision.
#[derive(Clone, Debug, Default)]
struct Stacks<T> {
    numbers: Vec<[T; CHUNK]>,
    number_count: usize,
    answers: Vec<[u8; CHUNK]>,
    answer_count: usize,
}

/// A program with the memory that it works in.
#[derive(Clone, Debug)]
pub(crate) struct Evaluator<F, C> {
    program: Program<F, C>,
    short: Stacks<f32>,
    long: Stacks<f64>,
}

impl<F: Copy, C: Copy> Evaluator<F, C> {
    pub fn new(program: Program<F, C>) -> Evaluator<F, C> {
        let (numbers, answers) = (program.deepest_numbers, program.deepest_answers);
        let mut evaluator = Evaluator { program, short: Stacks::default(), long: Stacks::default() };
        match evaluator.program.is_long {
            true => evaluator.long.make(numbers, answers),
            false => evaluator.short.make(numbers, answers),
        }
        evaluator
    }

    /// What it computes.
    pub fn program(&self) -> &Program<F, C> {
        &self.program
    }

    /// Answers for each row, 1 or 0, into `pass`, which is as long as the rows.
    pub fn evaluate(&mut self, rows: impl Rows<Field = F, Condition = C>, pass: &mut [u8]) {
        for (index, pass) in pass.chunks_mut(CHUNK).enumerate() {
            let range = index * CHUNK..index * CHUNK + pass.len();
            widest(Chunk { evaluator: self, rows: rows.range(range), pass });
        }
    }
}

/// A program, what it is asked of, and where the answers go.
struct Chunk<'p, R: Rows> {
    evaluator: &'p mut Evaluator<R::Field, R::Condition>,
    rows: R,
    pass: &'p mut [u8],
}

impl<R: Rows> Wide for Chunk<'_, R> {
    type Output = ();

    #[inline(always)]
    fn run(self) {
        let Chunk { evaluator: Evaluator { program, short, long }, rows, pass } = self;
        match program.is_long {
            true => long.run(program, rows, pass),
            false => short.run(program, rows, pass),
        }
    }
}

impl<T: Computes> Stacks<T> {
    fn make(&mut self, numbers: usize, answers: usize) {
        self.numbers.resize(numbers, [T::default(); CHUNK]);
        self.answers.resize(answers, [0; CHUNK]);
    }

    #[inline(always)]
    fn run<R: Rows>(&mut self, program: &Program<R::Field, R::Condition>, rows: R, pass: &mut [u8]) {
        (self.number_count, self.answer_count) = (0, 0);
        for step in &program.steps {
            match step {
                Step::Field(_)
                | Step::Number(_)
                | Step::Negate
                | Step::Arithmetic(_)
                | Step::ArithmeticConstant(..) => self.compute(step, rows, pass.len()),
                Step::Compare(_) | Step::CompareConstant(..) | Step::Within(..) => self.compare(step),
                Step::Condition(condition) => {
                    let columns = &mut self.numbers[self.number_count..];
                    rows.ask(*condition, columns, &mut self.answers[self.answer_count][..pass.len()]);
                    self.answer_count += 1;
                }
                Step::And | Step::Or | Step::Not => self.decide(step),
            }
        }
        pass.copy_from_slice(&self.answers[0][..pass.len()]);
    }

    #[inline(always)]
    fn compute<R: Rows>(&mut self, step: &Step<R::Field, R::Condition>, rows: R, count: usize) {
        let top = self.number_count;
        match *step {
            Step::Field(field) => {
                rows.fill(field, &mut self.numbers[top][..count]);
                self.number_count += 1;
            }
            Step::Number(value) => {
                self.numbers[top].fill(T::of(value.value));
                self.number_count += 1;
            }
            Step::Negate => self.numbers[top - 1].iter_mut().for_each(|each| *each = -*each),
            Step::ArithmeticConstant(operation, value) => {
                let value = T::of(value);
                self.numbers[top - 1].iter_mut().for_each(|each| *each = operation.of(*each, value));
            }
            Step::Arithmetic(operation) => {
                let (left, right) = self.numbers.split_at_mut(top - 1);
                let rows = left[top - 2].iter_mut().zip(&right[0]);
                rows.for_each(|(left, right)| *left = operation.of(*left, *right));
                self.number_count -= 1;
            }
            _ => debug_assert!(false, "a step of numbers"),
        }
    }

    #[inline(always)]
    fn compare<F: Copy, C: Copy>(&mut self, step: &Step<F, C>) {
        let (top, answers) = (self.number_count, &mut self.answers[self.answer_count]);
        let left = &self.numbers[top - 1];
        match *step {
            Step::Compare(relation) => {
                let (left, right) = (&self.numbers[top - 2], left);
                relate(relation, left, |row| right[row], answers);
                self.number_count -= 1;
            }
            Step::CompareConstant(relation, value) => relate(relation, left, |_| T::of(value.value), answers),
            Step::Within(low, high) => {
                let (low, high) = (T::of(low.value), T::of(high.value));
                let rows = answers.iter_mut().zip(left);
                rows.for_each(|(answer, each)| *answer = u8::from((*each >= low) & (*each <= high)));
            }
            _ => debug_assert!(false, "a step that compares"),
        }
        (self.number_count, self.answer_count) = (self.number_count - 1, self.answer_count + 1);
    }

    #[inline(always)]
    fn decide<F: Copy, C: Copy>(&mut self, step: &Step<F, C>) {
        let top = self.answer_count;
        match *step {
            Step::Not => self.answers[top - 1].iter_mut().for_each(|answer| *answer ^= 1),
            _ => {
                let (left, right) = self.answers.split_at_mut(top - 1);
                let rows = left[top - 2].iter_mut().zip(&right[0]);
                match step {
                    Step::And => rows.for_each(|(left, right)| *left &= right),
                    _ => rows.for_each(|(left, right)| *left |= right),
                }
                self.answer_count -= 1;
            }
        }
    }
}

/// One loop per relation, so that none is decided inside it. With what is not a number nothing compares.
#[inline(always)]
fn relate<T: Computes>(
    relation: Relation,
    left: &[T; CHUNK],
    right: impl Fn(usize) -> T,
    answers: &mut [u8; CHUNK],
) {
    match relation {
        Relation::Less => each(left, right, answers, |left, right| left < right),
        Relation::LessOrEqual => each(left, right, answers, |left, right| left <= right),
        Relation::Greater => each(left, right, answers, |left, right| left > right),
        Relation::GreaterOrEqual => each(left, right, answers, |left, right| left >= right),
        Relation::Equal => each(left, right, answers, |left, right| left == right),
        Relation::NotEqual => each(left, right, answers, |left, right| (left < right) | (left > right)),
    }
}

#[inline(always)]
fn each<T: Computes>(
    left: &[T; CHUNK],
    right: impl Fn(usize) -> T,
    answers: &mut [u8; CHUNK],
    answer: impl Fn(T, T) -> bool,
) {
    for row in 0..CHUNK {
        answers[row] = u8::from(answer(left[row], right(row)));
    }
}
