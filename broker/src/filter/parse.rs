//! From words to an expression, by recursive descent: each function is a rule of the grammar.
//!
//! As in Java, OR binds weakest, then AND, then `=`, `<>` and IS, then the other comparisons, then
//! signs and NOT: `NOT a = 1` is `(NOT a) = 1`.

use std::collections::HashSet;

use super::{
    FilterError, MAX_DEPTH, MAX_LENGTH, MAX_PARTS, coerce,
    evaluate::{How, Node, Relation},
    tokens::{Token, Tokens},
};

/// Words that are no names, in any case.
const KEYWORDS: [&str; 12] = [
    "NOT",
    "AND",
    "OR",
    "BETWEEN",
    "IN",
    "TRUE",
    "FALSE",
    "NULL",
    "IS",
    "CONTAINS",
    "STARTSWITH",
    "ENDSWITH",
];
/// Words that begin a test, beside NOT.
const TESTS: [&str; 5] = ["BETWEEN", "IN", "CONTAINS", "STARTSWITH", "ENDSWITH"];

/// Reads an expression; gives it with the names of its properties.
pub(super) fn parse(text: &str) -> Result<(Node, Vec<String>), FilterError> {
    if text.len() > MAX_LENGTH {
        return Err(FilterError::TooLong { length: text.len() });
    }
    let tokens = Tokens::new(text);
    let mut parser =
        Parser { tokens, next: Token::End, at: 0, depth: 0, parts: 0, names: Vec::new() };
    parser.advance()?;
    let node = parser.or()?;
    let node = parser.boolean(node)?;
    match parser.next {
        Token::End => Ok((node, parser.names)),
        _ => Err(parser.unexpected("AND, OR or the end")),
    }
}

struct Parser<'a> {
    tokens: Tokens<'a>,
    /// The word that is looked at.
    next: Token<'a>,
    /// Where it begins, in bytes.
    at: usize,
    depth: usize,
    parts: usize,
    names: Vec<String>,
}

impl<'a> Parser<'a> {
    /// Goes on to the next word; gives the one that was looked at.
    fn advance(&mut self) -> Result<Token<'a>, FilterError> {
        let next = self.tokens.next()?;
        self.at = self.tokens.start();
        Ok(std::mem::replace(&mut self.next, next))
    }

    fn is_keyword(&self, keyword: &str) -> bool {
        matches!(self.next, Token::Word(word) if word.eq_ignore_ascii_case(keyword))
    }

    /// Passes over a keyword, where it is there.
    fn keyword(&mut self, keyword: &str) -> Result<bool, FilterError> {
        let there = self.is_keyword(keyword);
        if there {
            self.advance()?;
        }
        Ok(there)
    }

    /// Passes over a sign, where it is there.
    fn sign(&mut self, sign: &str) -> Result<bool, FilterError> {
        let there = matches!(self.next, Token::Sign(found) if found == sign);
        if there {
            self.advance()?;
        }
        Ok(there)
    }

    fn want_sign(&mut self, sign: &'static str) -> Result<(), FilterError> {
        if self.sign(sign)? { Ok(()) } else { Err(self.unexpected(sign)) }
    }

    fn unexpected(&self, wanted: &'static str) -> FilterError {
        FilterError::Unexpected { found: self.next.to_string(), at: self.character(), wanted }
    }

    fn character(&self) -> usize {
        self.tokens.character(self.at)
    }

    fn meaning(&self, reason: &'static str) -> FilterError {
        FilterError::Meaning { reason, at: self.character() }
    }

    /// One more part.
    fn part(&mut self, node: Node) -> Result<Node, FilterError> {
        self.parts += 1;
        if self.parts > MAX_PARTS {
            return Err(FilterError::TooManyParts);
        }
        Ok(node)
    }

    /// Goes down a level, for as long as `rule` reads.
    fn deeper(
        &mut self,
        rule: impl FnOnce(&mut Self) -> Result<Node, FilterError>,
    ) -> Result<Node, FilterError> {
        self.deepen()?;
        let node = rule(self)?;
        self.depth -= 1;
        Ok(node)
    }

    fn deepen(&mut self) -> Result<(), FilterError> {
        self.depth += 1;
        if self.depth > MAX_DEPTH {
            return Err(FilterError::TooDeep { at: self.character() });
        }
        Ok(())
    }

    fn or(&mut self) -> Result<Node, FilterError> {
        let first = self.and()?;
        self.list("OR", first, Self::and, Node::Or)
    }

    fn and(&mut self) -> Result<Node, FilterError> {
        let first = self.equality()?;
        self.list("AND", first, Self::equality, Node::And)
    }

    /// `first` and what follows it after each `keyword`. One level however long: what is
    /// evaluated in order needs no nesting.
    fn list(
        &mut self,
        keyword: &str,
        first: Node,
        rule: impl Fn(&mut Self) -> Result<Node, FilterError>,
        make: impl FnOnce(Vec<Node>) -> Node,
    ) -> Result<Node, FilterError> {
        if !self.is_keyword(keyword) {
            return Ok(first);
        }
        let mut parts = vec![self.boolean(first)?];
        while self.keyword(keyword)? {
            let next = rule(self)?;
            parts.push(self.boolean(next)?);
        }
        self.part(make(parts))
    }

    /// `=`, `<>` and IS, from left to right. Each lies in the next.
    fn equality(&mut self) -> Result<Node, FilterError> {
        let mut left = self.comparison()?;
        let before = self.depth;
        loop {
            if self.sign("=")? {
                let right = self.comparison()?;
                left = self.equal(left, right)?;
            } else if self.sign("<>")? {
                let right = self.comparison()?;
                let equal = self.equal(left, right)?;
                left = self.part(Node::Not(Box::new(equal)))?;
            } else if self.keyword("IS")? {
                left = self.is_null(left)?;
            } else {
                self.depth = before;
                return Ok(left);
            }
            self.deepen()?;
        }
    }

    fn is_null(&mut self, left: Node) -> Result<Node, FilterError> {
        let not = self.keyword("NOT")?;
        if !self.keyword("NULL")? {
            return Err(self.unexpected("NULL"));
        }
        let null = self.part(Node::Equal(Box::new([left, Node::Null])))?;
        if not { self.part(Node::Not(Box::new(null))) } else { Ok(null) }
    }

    fn equal(&mut self, left: Node, right: Node) -> Result<Node, FilterError> {
        if matches!(left, Node::Null) || matches!(right, Node::Null) {
            return Err(self.meaning("NULL cannot be compared; write IS NULL"));
        }
        let fixed = is_constant(&left) && is_constant(&right);
        if fixed && is_boolean(&left) && !is_boolean(&right) {
            return Err(self.meaning("a truth value cannot be compared with a string or a number"));
        }
        self.part(Node::Equal(Box::new([left, right])))
    }

    /// The comparisons that bind more tightly, from left to right.
    fn comparison(&mut self) -> Result<Node, FilterError> {
        let mut left = self.unary()?;
        let before = self.depth;
        loop {
            if let Some(relation) = self.relation() {
                self.advance()?;
                let right = self.unary()?;
                left = self.ordered(left, relation, right)?;
            } else if self.is_keyword("NOT") || TESTS.iter().any(|test| self.is_keyword(test)) {
                let not = self.keyword("NOT")?;
                left = self.test(left, not)?;
            } else {
                self.depth = before;
                return Ok(left);
            }
            self.deepen()?;
        }
    }

    fn relation(&self) -> Option<Relation> {
        match self.next {
            Token::Sign("<") => Some(Relation::Less),
            Token::Sign("<=") => Some(Relation::AtMost),
            Token::Sign(">") => Some(Relation::Greater),
            Token::Sign(">=") => Some(Relation::AtLeast),
            _ => None,
        }
    }

    fn ordered(
        &mut self,
        left: Node,
        relation: Relation,
        right: Node,
    ) -> Result<Node, FilterError> {
        for side in [&left, &right] {
            if is_boolean(side) || matches!(side, Node::Text(_)) {
                return Err(
                    self.meaning("only numbers and properties are compared by <, <=, > and >=")
                );
            }
        }
        self.part(Node::Order(relation, Box::new([left, right])))
    }

    fn test(&mut self, left: Node, not: bool) -> Result<Node, FilterError> {
        if self.keyword("BETWEEN")? {
            return self.between(left, not);
        }
        if self.keyword("IN")? {
            return self.within(&left, not);
        }
        let searches = [
            ("CONTAINS", How::Contains),
            ("STARTSWITH", How::StartsWith),
            ("ENDSWITH", How::EndsWith),
        ];
        for (word, how) in searches {
            if self.keyword(word)? {
                let text = self.string()?;
                return self.part(Node::Search { how, of: Box::new(left), text, not });
            }
        }
        Err(self.unexpected("BETWEEN, IN, CONTAINS, STARTSWITH or ENDSWITH"))
    }

    /// Two comparisons, as Java makes them.
    fn between(&mut self, value: Node, not: bool) -> Result<Node, FilterError> {
        let low = self.unary()?;
        if !self.keyword("AND")? {
            return Err(self.unexpected("AND"));
        }
        let high = self.unary()?;
        if let (Some(low), Some(high)) = (low.number(), high.number())
            && coerce::compare(high, low).is_ok_and(std::cmp::Ordering::is_lt)
        {
            return Err(self.meaning("the first number of BETWEEN is larger than the second"));
        }
        let (below, above) = if not {
            (Relation::Less, Relation::Greater)
        } else {
            (Relation::AtLeast, Relation::AtMost)
        };
        let first = self.ordered(value.clone(), below, low)?;
        let second = self.ordered(value, above, high)?;
        let both = vec![first, second];
        self.part(if not { Node::Or(both) } else { Node::And(both) })
    }

    fn within(&mut self, left: &Node, not: bool) -> Result<Node, FilterError> {
        let Node::Property(property) = *left else {
            return Err(self.meaning("only a property can be IN a list"));
        };
        self.want_sign("(")?;
        let mut list = HashSet::from([self.string()?]);
        while self.sign(",")? {
            list.insert(self.string()?);
        }
        self.want_sign(")")?;
        self.part(Node::In { property, list, not })
    }

    fn string(&mut self) -> Result<String, FilterError> {
        match self.next {
            Token::Text(_) => {}
            _ => return Err(self.unexpected("a string in single quotes")),
        }
        match self.advance()? {
            Token::Text(text) => Ok(text),
            _ => Err(self.unexpected("a string in single quotes")),
        }
    }

    fn unary(&mut self) -> Result<Node, FilterError> {
        if self.sign("+")? {
            return self.deeper(Self::unary);
        }
        if self.sign("-")? {
            let of = self.deeper(Self::unary)?;
            return self.part(Node::Negate(Box::new(of)));
        }
        if self.keyword("NOT")? {
            let of = self.deeper(Self::unary)?;
            let of = self.boolean(of)?;
            return self.part(Node::Not(Box::new(of)));
        }
        if self.sign("(")? {
            let within = self.deeper(Self::or)?;
            self.want_sign(")")?;
            return Ok(within);
        }
        self.value()
    }

    fn value(&mut self) -> Result<Node, FilterError> {
        let node = match &self.next {
            Token::Decimal(digits) => decimal(digits)?,
            Token::Float(digits) => float(digits)?,
            Token::Text(text) => Node::Text(text.clone()),
            Token::Word(word) => match keyword(word) {
                Some("NULL") => Node::Null,
                Some("TRUE") => Node::Bool(true),
                Some("FALSE") => Node::Bool(false),
                Some(_) => return Err(self.unexpected("a value")),
                None => {
                    let word = *word;
                    self.name(word)
                }
            },
            Token::Sign(_) | Token::End => return Err(self.unexpected("a value")),
        };
        self.advance()?;
        self.part(node)
    }

    /// The property of that name.
    fn name(&mut self, name: &str) -> Node {
        let known = self.names.iter().position(|known| known == name);
        Node::Property(known.unwrap_or_else(|| {
            self.names.push(name.to_owned());
            self.names.len() - 1
        }))
    }

    /// A part that stands for a truth value. A property is a text, which is none.
    fn boolean(&mut self, node: Node) -> Result<Node, FilterError> {
        match node {
            Node::Property(place) => self.part(Node::Cast(place)),
            node if is_boolean(&node) => Ok(node),
            _ => Err(self.meaning("a string or a number is no truth value")),
        }
    }
}

fn keyword(word: &str) -> Option<&'static str> {
    KEYWORDS.into_iter().find(|keyword| word.eq_ignore_ascii_case(keyword))
}

/// `ConstantExpression.createFromDecimal`: a `long`, or an `int` where that holds it.
fn decimal(digits: &str) -> Result<Node, FilterError> {
    let number: i64 =
        digits.parse().map_err(|_too_large| FilterError::Number(digits.to_owned()))?;
    Ok(i32::try_from(number).map_or(Node::Long(number), Node::Int))
}

/// `ConstantExpression.createFloat`.
fn float(digits: &str) -> Result<Node, FilterError> {
    let number: Option<f64> = digits.parse().ok().filter(|number: &f64| number.is_finite());
    number.map(Node::Double).ok_or_else(|| FilterError::Number(digits.to_owned()))
}

fn is_constant(node: &Node) -> bool {
    is_number(node) || matches!(node, Node::Null | Node::Bool(_) | Node::Text(_))
}

fn is_number(node: &Node) -> bool {
    matches!(node, Node::Int(_) | Node::Long(_) | Node::Double(_))
}

fn is_boolean(node: &Node) -> bool {
    let is_value = matches!(node, Node::Text(_) | Node::Property(_) | Node::Negate(_));
    !is_number(node) && !is_value
}
