//! Reads an expression.
//!
//! ```text
//!  either     both ("||" both)*
//!  both       denial ("&&" denial)*
//!  denial     "!" denial | comparison
//!  comparison sum [relation sum [relation sum]] | sum "in" "[" number "," number "]" | condition
//!  sum        product (("+" | "-") product)*
//!  product    factor (("*" | "/") factor)*
//!  factor     "-" factor | number | field | "(" either ")"
//! ```
//! Which fields and conditions there are, and how they are written, says the language: of hits, or of built events.
//! What is a number and what is an answer is known while reading, so that `energy && 3` is refused where it stands. So is `keV > 3 ns`: a field
//! and a number that are compared directly are of one kind. What is computed may be in any unit.

use super::error::CutError;
use super::program::{Constant, Language, Operation, Program, Relation, Step, Steps};
use super::token::{Token, refuse, tokens};

/// Brackets within brackets, at most.
const DEEPEST: usize = 64;

/// What a part of an expression gives.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Kind {
    Number,
    Answer,
}

/// How the fields and conditions of a language are written.
pub(crate) trait Names: Language + Sized {
    /// A comparison, for messages.
    const EXAMPLE: &'static str;

    /// Reads the field or condition that begins with this name, the next word.
    fn read(parser: &mut Parser<'_, Self>, name: &str) -> Result<Kind, CutError>;

    /// What a field is in: "ps", "keV", or "" for a pure number; `None` where only the user knows.
    fn unit(field: Self::Field) -> Option<&'static str>;
}

/// One side of a comparison.
enum Side {
    /// A field: its name, and what it is in.
    Field(String, &'static str),
    /// A number: what it is in, and where it stands.
    Number(&'static str, usize),
    /// Anything that is computed.
    Other,
}

/// An expression that is being read.
pub(crate) struct Parser<'t, L: Names> {
    text: &'t str,
    tokens: Vec<(Token, usize)>,
    at: usize,
    depth: usize,
    pub(crate) language: &'t L,
    steps: Steps<L>,
}

/// The steps of an expression.
pub(crate) fn parse<L: Names>(text: &str, language: &L) -> Result<Program<L::Field, L::Condition>, CutError> {
    let mut parser = Parser { text, tokens: tokens(text)?, at: 0, depth: 0, language, steps: Vec::new() };
    if parser.peek() == &Token::End {
        let message = format!("the expression is empty; write what is to be kept, as in \"{}\"", L::EXAMPLE);
        return Err(parser.refuse(message));
    }
    let kind = parser.either()?;
    if parser.peek() != &Token::End {
        return Err(parser.refuse("the expression should have ended, or gone on with && or ||, here"));
    }
    if kind == Kind::Number {
        parser.at = 0;
        let message = format!("this is a number, not a yes or no; compare it, as in \"{}\"", L::EXAMPLE);
        return Err(parser.refuse(message));
    }
    Ok(Program::of(language, parser.steps))
}

impl<L: Names> Parser<'_, L> {
    /// The next word.
    pub(crate) fn peek(&self) -> &Token {
        &self.tokens[self.at].0
    }

    fn place(&self) -> usize {
        self.tokens[self.at].1
    }

    /// The error that the next word cannot stand there.
    pub(crate) fn refuse(&self, message: impl Into<String>) -> CutError {
        refuse(self.text, self.place(), message)
    }

    /// Goes beyond the next word.
    pub(crate) fn skip(&mut self) {
        self.at += 1;
    }

    /// A field stands here.
    pub(crate) fn field(&mut self, field: L::Field) -> Result<Kind, CutError> {
        self.steps.push(Step::Field(field));
        Ok(Kind::Number)
    }

    /// A condition stands here.
    pub(crate) fn condition(&mut self, condition: L::Condition) -> Result<Kind, CutError> {
        self.steps.push(Step::Condition(condition));
        Ok(Kind::Answer)
    }

    /// Goes beyond the next word if it is this symbol.
    pub(crate) fn take(&mut self, symbol: &str) -> bool {
        let found = matches!(self.peek(), Token::Symbol(each) if *each == symbol);
        self.at += usize::from(found);
        found
    }

    /// Goes beyond the next word, which has to be this symbol.
    pub(crate) fn expect(&mut self, symbol: &str) -> Result<(), CutError> {
        match self.take(symbol) {
            true => Ok(()),
            false => Err(self.refuse(format!("\"{symbol}\" is missing here"))),
        }
    }

    fn need(&self, found: Kind, wanted: Kind, place: usize) -> Result<(), CutError> {
        match (found == wanted, wanted) {
            (true, _) => Ok(()),
            (false, Kind::Number) => Err(refuse(
                self.text,
                place,
                "this is a yes or no, where a number is compared or computed with",
            )),
            (false, Kind::Answer) => Err(refuse(
                self.text,
                place,
                "this is a number, where a yes or no is asked for; compare it first",
            )),
        }
    }

    fn joined(
        &mut self,
        symbol: &str,
        step: Step<L::Field, L::Condition>,
        part: fn(&mut Self) -> Result<Kind, CutError>,
    ) -> Result<Kind, CutError> {
        let place = self.place();
        let first = part(self)?;
        let mut is_first = true;
        while self.take(symbol) {
            if is_first {
                self.need(first, Kind::Answer, place)?;
            }
            is_first = false;
            let place = self.place();
            let next = part(self)?;
            self.need(next, Kind::Answer, place)?;
            self.steps.push(step);
        }
        Ok(if is_first { first } else { Kind::Answer })
    }

    fn either(&mut self) -> Result<Kind, CutError> {
        self.joined("||", Step::Or, Self::both)
    }

    fn both(&mut self) -> Result<Kind, CutError> {
        self.joined("&&", Step::And, Self::denial)
    }

    fn denial(&mut self) -> Result<Kind, CutError> {
        if !self.take("!") {
            return self.comparison();
        }
        let place = self.place();
        self.deeper()?;
        let kind = self.denial()?;
        self.depth -= 1;
        self.need(kind, Kind::Answer, place)?;
        self.steps.push(Step::Not);
        Ok(Kind::Answer)
    }

    fn comparison(&mut self) -> Result<Kind, CutError> {
        let (place, first_step, first_word) = (self.place(), self.steps.len(), self.at);
        let kind = self.sum()?;
        let first = self.side(first_word, first_step);
        if matches!(self.peek(), Token::Name(name) if name == "in") {
            self.need(kind, Kind::Number, place)?;
            return self.within(&first);
        }
        let Some(relation) = self.relation() else { return Ok(kind) };
        self.need(kind, Kind::Number, place)?;
        let middle_step = self.steps.len();
        let middle_side = self.number_side()?;
        self.check_units(&first, &middle_side)?;
        let middle = self.steps[middle_step..].to_vec();
        self.compare(relation);
        if let Some(second) = self.relation() {
            // 100 < energy < 200: both, and the middle is looked at twice.
            self.steps.extend(middle);
            let last = self.number_side()?;
            self.check_units(&middle_side, &last)?;
            self.compare(second);
            self.steps.push(Step::And);
        }
        debug_assert!(self.steps.len() > first_step);
        Ok(Kind::Answer)
    }

    fn number_side(&mut self) -> Result<Side, CutError> {
        let (place, first_word, first_step) = (self.place(), self.at, self.steps.len());
        let kind = self.sum()?;
        self.need(kind, Kind::Number, place)?;
        Ok(self.side(first_word, first_step))
    }

    /// What was read from a word on, and the steps that were made of it.
    fn side(&self, first_word: usize, first_step: usize) -> Side {
        match (&self.tokens[first_word..self.at], &self.steps[first_step..]) {
            ([(Token::Number(_, unit), place)], _)
            | ([(Token::Symbol("-"), _), (Token::Number(_, unit), place)], _) => Side::Number(unit, *place),
            ([(Token::Name(name), _), ..], [Step::Field(field)]) => {
                L::unit(*field).map_or(Side::Other, |unit| Side::Field(name.clone(), unit))
            }
            _ => Side::Other,
        }
    }

    /// A field and a number with a unit that are compared are both times, or both energies.
    fn check_units(&self, one: &Side, other: &Side) -> Result<(), CutError> {
        let ((Side::Field(name, own), Side::Number(unit, place))
        | (Side::Number(unit, place), Side::Field(name, own))) = (one, other)
        else {
            return Ok(());
        };
        if unit.is_empty() || unit == own {
            return Ok(());
        }
        let found = if *unit == "ps" { "a time" } else { "an energy" };
        let message = match *own {
            "" => format!("`{name}` has no unit, and this number is {found}; write it without a unit"),
            "ps" => format!(
                "`{name}` is in ps, and this number is {found}; write it without a unit, or with one of time"
            ),
            _ => format!(
                "`{name}` is in {own}, and this number is {found}; write it without a unit, or with one of energy"
            ),
        };
        Err(refuse(self.text, *place, message))
    }

    fn relation(&mut self) -> Option<Relation> {
        let Token::Symbol(symbol) = self.peek() else { return None };
        let relation = match *symbol {
            "<" => Relation::Less,
            "<=" => Relation::LessOrEqual,
            ">" => Relation::Greater,
            ">=" => Relation::GreaterOrEqual,
            "==" => Relation::Equal,
            "!=" => Relation::NotEqual,
            _ => return None,
        };
        self.at += 1;
        Some(relation)
    }

    fn compare(&mut self, relation: Relation) {
        match self.steps.last() {
            Some(Step::Number(value)) => {
                let value = *value;
                self.steps.pop();
                self.steps.push(Step::CompareConstant(relation, value));
            }
            _ => self.steps.push(Step::Compare(relation)),
        }
    }

    fn within(&mut self, side: &Side) -> Result<Kind, CutError> {
        self.at += 1;
        self.expect("[")?;
        let low = self.constant(side)?;
        self.expect(",")?;
        let place = self.place();
        let high = self.constant(side)?;
        if low.exceeds(high) {
            return Err(refuse(
                self.text,
                place,
                "the second number of a range is no smaller than the first",
            ));
        }
        self.expect("]")?;
        self.steps.push(Step::Within(low, high));
        Ok(Kind::Answer)
    }

    /// A number that a field is compared with.
    fn constant(&mut self, field: &Side) -> Result<Constant, CutError> {
        let negative = self.take("-");
        match *self.peek() {
            Token::Number(value, unit) => {
                self.check_units(field, &Side::Number(unit, self.place()))?;
                self.at += 1;
                Ok(if negative { value.negated() } else { value })
            }
            _ => Err(self.refuse("a number is missing here, as in \"in [100, 200]\"")),
        }
    }

    fn arithmetic(
        &mut self,
        operations: [(&str, Operation); 2],
        part: fn(&mut Self) -> Result<Kind, CutError>,
    ) -> Result<Kind, CutError> {
        let place = self.place();
        let kind = part(self)?;
        while let Some((_, operation)) = operations.into_iter().find(|(symbol, _)| self.take(symbol)) {
            self.need(kind, Kind::Number, place)?;
            let place = self.place();
            let next = part(self)?;
            self.need(next, Kind::Number, place)?;
            self.compute(operation);
        }
        Ok(kind)
    }

    /// Computes at once what is already known.
    fn compute(&mut self, operation: Operation) {
        let count = self.steps.len();
        match self.steps[..] {
            [.., Step::Number(left), Step::Number(right)] => {
                self.steps.truncate(count - 2);
                self.steps.push(Step::Number(operation.of_constants(left, right)));
            }
            [.., Step::Number(right)] => {
                self.steps.pop();
                self.steps.push(Step::ArithmeticConstant(operation, right.value));
            }
            _ => self.steps.push(Step::Arithmetic(operation)),
        }
    }

    fn sum(&mut self) -> Result<Kind, CutError> {
        self.arithmetic([("+", Operation::Add), ("-", Operation::Subtract)], Self::product)
    }

    fn product(&mut self) -> Result<Kind, CutError> {
        self.arithmetic([("*", Operation::Multiply), ("/", Operation::Divide)], Self::factor)
    }

    fn deeper(&mut self) -> Result<(), CutError> {
        self.depth += 1;
        match self.depth > DEEPEST {
            true => Err(self.refuse(format!("more than {DEEPEST} brackets within each other"))),
            false => Ok(()),
        }
    }

    fn factor(&mut self) -> Result<Kind, CutError> {
        if self.take("-") {
            let place = self.place();
            self.deeper()?;
            let kind = self.factor()?;
            self.depth -= 1;
            self.need(kind, Kind::Number, place)?;
            match self.steps.last_mut() {
                Some(Step::Number(value)) => *value = value.negated(),
                _ => self.steps.push(Step::Negate),
            }
            return Ok(Kind::Number);
        }
        if self.take("(") {
            self.deeper()?;
            let kind = self.either()?;
            self.depth -= 1;
            self.expect(")")?;
            return Ok(kind);
        }
        match self.peek().clone() {
            Token::Number(value, _) => {
                self.at += 1;
                self.steps.push(Step::Number(value));
                Ok(Kind::Number)
            }
            Token::Name(name) => L::read(self, &name),
            _ => Err(self.refuse("a field, a flag or a number is missing here")),
        }
    }
}
