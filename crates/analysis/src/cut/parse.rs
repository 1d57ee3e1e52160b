//! Reads an expression.
//!
//! ```text
//!  either     both ("||" both)*
//!  both       denial ("&&" denial)*
//!  denial     "!" denial | comparison
//!  comparison sum [relation sum [relation sum]] | sum "in" "[" number "," number "]" | flag | "inside" "(" name ")"
//!  sum        product (("+" | "-") product)*
//!  product    factor (("*" | "/") factor)*
//!  factor     "-" factor | number | field | "(" either ")"
//! ```
//! What is a number and what is an answer is known while reading, so that `energy && 3` is refused where it stands.

use thalweg_data::Flags;

use super::Scope;
use super::error::CutError;
use super::field::Field;
use super::polygon::{Polygon, known};
use super::program::{Operation, Program, Relation, Step};
use super::token::{Token, refuse, tokens};

/// Brackets within brackets, at most.
const DEEPEST: usize = 64;

#[derive(Clone, Copy, PartialEq, Eq)]
enum Kind {
    Number,
    Answer,
}

struct Parser<'t> {
    text: &'t str,
    tokens: Vec<(Token, usize)>,
    at: usize,
    depth: usize,
    scope: Scope,
    polygons: &'t [Polygon],
    steps: Vec<Step>,
}

/// The steps of an expression.
pub(super) fn parse(text: &str, scope: Scope, polygons: &[Polygon]) -> Result<Program, CutError> {
    let mut parser =
        Parser { text, tokens: tokens(text)?, at: 0, depth: 0, scope, polygons, steps: Vec::new() };
    if parser.peek() == &Token::End {
        return Err(parser.refuse("the expression is empty; write what is to be kept, as in \"psd > 0.12\""));
    }
    let kind = parser.either()?;
    if parser.peek() != &Token::End {
        return Err(parser.refuse("the expression should have ended, or gone on with && or ||, here"));
    }
    if kind == Kind::Number {
        parser.at = 0;
        return Err(parser.refuse("this is a number, not a yes or no; compare it, as in \"energy > 200\""));
    }
    let mut program = Program { steps: parser.steps, ..Program::default() };
    program.measure(polygons);
    Ok(program)
}

impl Parser<'_> {
    fn peek(&self) -> &Token {
        &self.tokens[self.at].0
    }

    fn place(&self) -> usize {
        self.tokens[self.at].1
    }

    fn refuse(&self, message: impl Into<String>) -> CutError {
        refuse(self.text, self.place(), message)
    }

    fn take(&mut self, symbol: &str) -> bool {
        let found = matches!(self.peek(), Token::Symbol(each) if *each == symbol);
        self.at += usize::from(found);
        found
    }

    fn expect(&mut self, symbol: &str) -> Result<(), CutError> {
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
        step: Step,
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
        let (place, first_step) = (self.place(), self.steps.len());
        let kind = self.sum()?;
        if matches!(self.peek(), Token::Name(name) if name == "in") {
            self.need(kind, Kind::Number, place)?;
            return self.within();
        }
        let Some(relation) = self.relation() else { return Ok(kind) };
        self.need(kind, Kind::Number, place)?;
        let middle_step = self.steps.len();
        self.number_side()?;
        let middle: Vec<Step> = self.steps[middle_step..].to_vec();
        self.compare(relation);
        if let Some(second) = self.relation() {
            // 100 < energy < 200: both, and the middle is looked at twice.
            self.steps.extend(middle);
            self.number_side()?;
            self.compare(second);
            self.steps.push(Step::And);
        }
        debug_assert!(self.steps.len() > first_step);
        Ok(Kind::Answer)
    }

    fn number_side(&mut self) -> Result<(), CutError> {
        let place = self.place();
        let kind = self.sum()?;
        self.need(kind, Kind::Number, place)
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

    fn within(&mut self) -> Result<Kind, CutError> {
        self.at += 1;
        self.expect("[")?;
        let low = self.constant()?;
        self.expect(",")?;
        let place = self.place();
        let high = self.constant()?;
        if low > high {
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

    fn constant(&mut self) -> Result<f64, CutError> {
        let negative = self.take("-");
        match *self.peek() {
            Token::Number(value) => {
                self.at += 1;
                Ok(if negative { -value } else { value })
            }
            _ => Err(self.refuse("a number is missing here, as in \"energy in [100, 200]\"")),
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
                self.steps.push(Step::Number(operation.of(left, right)));
            }
            [.., Step::Number(right)] => {
                self.steps.pop();
                self.steps.push(Step::ArithmeticConstant(operation, right));
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
                Some(Step::Number(value)) => *value = -*value,
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
            Token::Number(value) => {
                self.at += 1;
                self.steps.push(Step::Number(value));
                Ok(Kind::Number)
            }
            Token::Name(name) => self.name(&name),
            _ => Err(self.refuse("a field, a flag or a number is missing here")),
        }
    }

    fn name(&mut self, name: &str) -> Result<Kind, CutError> {
        if name == "inside" {
            return self.inside();
        }
        if let Some(field) = Field::from_name(name) {
            if field.is_of_event() && self.scope == Scope::Hit {
                let message =
                    format!("only hits in an event have `{name}`; write on = \"event\" to cut events");
                return Err(self.refuse(message));
            }
            self.at += 1;
            self.steps.push(Step::Field(field));
            return Ok(Kind::Number);
        }
        if let Some((flag, _)) = Flags::NAMES.iter().find(|(_, known)| *known == name) {
            self.at += 1;
            self.steps.push(Step::Flag(*flag));
            return Ok(Kind::Answer);
        }
        let flags: Vec<&str> = Flags::NAMES.iter().map(|(_, name)| *name).collect();
        Err(self.refuse(format!(
            "there is no field or flag \"{name}\"; {}, and the flags {}",
            known(),
            flags.join(", ")
        )))
    }

    fn inside(&mut self) -> Result<Kind, CutError> {
        self.at += 1;
        self.expect("(")?;
        let Token::Name(name) = self.peek().clone() else {
            return Err(self.refuse("the name of a [[polygon]] is missing here"));
        };
        let Some(polygon) = self.polygons.iter().position(|polygon| polygon.name == name) else {
            let names: Vec<&str> = self.polygons.iter().map(|polygon| polygon.name.as_str()).collect();
            let there = if names.is_empty() {
                "there is none".to_owned()
            } else {
                format!("there are {}", names.join(", "))
            };
            return Err(self.refuse(format!("no [[polygon]] is called \"{name}\"; {there}")));
        };
        let of_event = self.polygons[polygon].x.is_of_event() || self.polygons[polygon].y.is_of_event();
        if of_event && self.scope == Scope::Hit {
            return Err(
                self.refuse("this region is of fields that only hits in an event have; write on = \"event\"")
            );
        }
        self.at += 1;
        self.expect(")")?;
        self.steps.push(Step::Inside(polygon));
        Ok(Kind::Answer)
    }
}
