//! What an expression says of one message.

use std::{cmp::Ordering, collections::HashSet};

use super::{
    MAX_STEPS, STEP_BYTES,
    coerce::{self, Fault, Value},
};

/// A part of an expression.
#[derive(Debug, Clone, PartialEq)]
pub(super) enum Node {
    /// NULL.
    Null,
    /// TRUE and FALSE.
    Bool(bool),
    /// A number that an `int` holds.
    Int(i32),
    /// A larger one.
    Long(i64),
    /// One with a point.
    Double(f64),
    /// A string.
    Text(String),
    /// A property, by its place among the names.
    Property(usize),
    /// A property that stands for a truth value, which no text is.
    Cast(usize),
    /// `-`.
    Negate(Box<Self>),
    /// NOT.
    Not(Box<Self>),
    /// AND of two or more.
    And(Vec<Self>),
    /// OR of two or more.
    Or(Vec<Self>),
    /// `=` and IS NULL.
    Equal(Box<[Self; 2]>),
    /// `<`, `<=`, `>` and `>=`.
    Order(Relation, Box<[Self; 2]>),
    /// IN and NOT IN.
    In {
        /// The property.
        property: usize,
        /// The strings.
        list: HashSet<String>,
        /// Whether it must not be among them.
        not: bool,
    },
    /// CONTAINS, STARTSWITH, ENDSWITH and their opposites.
    Search {
        /// How.
        how: How,
        /// Where.
        of: Box<Self>,
        /// What.
        text: String,
        /// Whether it must not be there.
        not: bool,
    },
}

impl Node {
    /// The number that it is, where it is one.
    pub(super) fn number(&self) -> Option<Value<'_>> {
        match self {
            Self::Int(number) => Some(Value::Int(*number)),
            Self::Long(number) => Some(Value::Long(*number)),
            Self::Double(number) => Some(Value::Double(*number)),
            _ => None,
        }
    }
}

/// An order of two values.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Relation {
    /// `<`
    Less,
    /// `<=`
    AtMost,
    /// `>`
    Greater,
    /// `>=`
    AtLeast,
}

impl Relation {
    fn holds(self, order: Ordering) -> bool {
        match self {
            Self::Less => order.is_lt(),
            Self::AtMost => order.is_le(),
            Self::Greater => order.is_gt(),
            Self::AtLeast => order.is_ge(),
        }
    }
}

/// Where a text is searched in another.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum How {
    /// Anywhere.
    Contains,
    /// At its start.
    StartsWith,
    /// At its end.
    EndsWith,
}

/// A truth value, where it is known.
type Truth = Option<bool>;

/// The properties of one message, and what may still be spent on it.
#[derive(Debug)]
pub(super) struct Message<'a> {
    values: &'a [Option<&'a str>],
    steps: usize,
}

impl<'a> Message<'a> {
    /// `values` are those of the expression's names, in their order.
    pub(super) fn new(values: &'a [Option<&'a str>]) -> Self {
        Self { values, steps: MAX_STEPS }
    }

    /// Whether a message passes.
    pub(super) fn passes(mut self, node: &'a Node) -> bool {
        self.truth(node) == Ok(Some(true))
    }

    fn step(&mut self, bytes: usize) -> Result<(), Fault> {
        self.steps = self.steps.checked_sub(1 + bytes / STEP_BYTES).ok_or(Fault)?;
        Ok(())
    }

    fn property(&self, place: usize) -> Option<&'a str> {
        self.values.get(place).copied().flatten()
    }

    fn truth(&mut self, node: &'a Node) -> Result<Truth, Fault> {
        Ok(match self.value(node)? {
            None => None,
            Some(Value::Bool(truth)) => Some(truth),
            Some(_) => return Err(Fault),
        })
    }

    fn value(&mut self, node: &'a Node) -> Result<Option<Value<'a>>, Fault> {
        self.step(0)?;
        Ok(match node {
            Node::Null => None,
            Node::Bool(truth) => Some(Value::Bool(*truth)),
            Node::Int(number) => Some(Value::Int(*number)),
            Node::Long(number) => Some(Value::Long(*number)),
            Node::Double(number) => Some(Value::Double(*number)),
            Node::Text(text) => Some(Value::Text(text)),
            Node::Property(place) => self.property(*place).map(Value::Text),
            Node::Cast(place) => self.property(*place).map(|_text| Value::Bool(false)),
            Node::Negate(of) => self.value(of)?.and_then(negated),
            Node::Not(of) => self.truth(of)?.map(|truth| Value::Bool(!truth)),
            Node::And(parts) => self.decided_by(parts, false)?.map(Value::Bool),
            Node::Or(parts) => self.decided_by(parts, true)?.map(Value::Bool),
            Node::Equal(sides) => self.equal(sides)?.map(Value::Bool),
            Node::Order(relation, sides) => self.ordered(*relation, sides)?.map(Value::Bool),
            Node::In { property, list, not } => {
                self.property(*property).map(|text| Value::Bool(list.contains(text) != *not))
            }
            Node::Search { how, of, text, not } => {
                Some(Value::Bool(self.search(*how, of, text, *not)?))
            }
        })
    }

    /// The first part with this truth decides; else it is the opposite, where all are known.
    fn decided_by(&mut self, parts: &'a [Node], deciding: bool) -> Result<Truth, Fault> {
        let mut all_known = true;
        for part in parts {
            match self.truth(part)? {
                Some(truth) if truth == deciding => return Ok(Some(deciding)),
                Some(_) => {}
                None => all_known = false,
            }
        }
        Ok(all_known.then_some(!deciding))
    }

    fn equal(&mut self, [left, right]: &'a [Node; 2]) -> Result<Truth, Fault> {
        let (left, right) = (self.value(left)?, self.value(right)?);
        Ok(match (left, right) {
            (None, None) => Some(true),
            (None, Some(_)) => None,
            (Some(_), None) => Some(false),
            (Some(left), Some(right)) => {
                self.step(text_bytes(left).min(text_bytes(right)))?;
                Some(match (left, right) {
                    (Value::Text(left), Value::Text(right)) => left == right,
                    (left, right) => coerce::compare(left, right)?.is_eq(),
                })
            }
        })
    }

    fn ordered(
        &mut self,
        relation: Relation,
        [left, right]: &'a [Node; 2],
    ) -> Result<Truth, Fault> {
        let Some(left) = self.value(left)? else { return Ok(None) };
        let Some(right) = self.value(right)? else { return Ok(None) };
        self.step(text_bytes(left) + text_bytes(right))?;
        Ok(Some(relation.holds(coerce::order(left, right)?)))
    }

    /// An empty text is nowhere, and a property that is missing holds nothing and lacks nothing.
    fn search(&mut self, how: How, of: &'a Node, text: &str, not: bool) -> Result<bool, Fault> {
        let Some(Value::Text(within)) = self.value(of)? else { return Ok(false) };
        if text.is_empty() {
            return Ok(false);
        }
        let found = match how {
            How::Contains => {
                self.step(within.len())?;
                within.contains(text)
            }
            How::StartsWith => within.starts_with(text),
            How::EndsWith => within.ends_with(text),
        };
        Ok(found != not)
    }
}

fn text_bytes(value: Value<'_>) -> usize {
    if let Value::Text(text) = value { text.len() } else { 0 }
}

fn negated(value: Value<'_>) -> Option<Value<'_>> {
    match value {
        Value::Int(number) => Some(Value::Int(number.wrapping_neg())),
        Value::Long(number) => Some(Value::Long(number.wrapping_neg())),
        Value::Double(number) => Some(Value::Double(-number)),
        Value::Text(_) | Value::Bool(_) => None,
    }
}
