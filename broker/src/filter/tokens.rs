//! The words of an expression.

use super::FilterError;

/// One word.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Token<'a> {
    /// A name or a keyword.
    Word(&'a str),
    /// A string, without its quotes.
    Text(String),
    /// Digits.
    Decimal(&'a str),
    /// Digits with a point or an exponent.
    Float(&'a str),
    /// An operator, a parenthesis or a comma.
    Sign(&'static str),
    /// There is no more.
    End,
}

/// Operators, the longer before those that begin like them.
const SIGNS: [&str; 11] = ["<>", "<=", ">=", "<", ">", "=", "(", ")", ",", "+", "-"];

/// Cuts an expression into words.
#[derive(Debug, Clone, Copy)]
pub(super) struct Tokens<'a> {
    text: &'a str,
    at: usize,
    /// Where the word begins that was given last.
    start: usize,
}

impl<'a> Tokens<'a> {
    pub(super) fn new(text: &'a str) -> Self {
        Self { text, at: 0, start: 0 }
    }

    /// Where the word begins that was given last.
    pub(super) fn start(&self) -> usize {
        self.start
    }

    /// The number of the character that begins at `byte`, from 1 on.
    pub(super) fn character(&self, byte: usize) -> usize {
        self.text.get(..byte).map_or(0, |before| before.chars().count()) + 1
    }

    fn rest(&self) -> &'a str {
        self.text.get(self.at..).unwrap_or_default()
    }

    fn take(&mut self, bytes: usize) -> &'a str {
        let taken = self.rest().get(..bytes).unwrap_or_default();
        self.at += taken.len();
        taken
    }

    fn take_while(&mut self, wanted: impl Fn(char) -> bool) -> &'a str {
        let rest = self.rest();
        self.take(rest.find(|c: char| !wanted(c)).unwrap_or(rest.len()))
    }

    /// The next word.
    pub(super) fn next(&mut self) -> Result<Token<'a>, FilterError> {
        self.skip()?;
        self.start = self.at;
        let rest = self.rest();
        let Some(first) = rest.chars().next() else { return Ok(Token::End) };
        if first.is_ascii_alphabetic() || matches!(first, '_' | '$') {
            let of_name = |c: char| c.is_ascii_alphanumeric() || matches!(c, '_' | '$');
            return Ok(Token::Word(self.take_while(of_name)));
        }
        let second_is_digit = rest.as_bytes().get(1).is_some_and(u8::is_ascii_digit);
        if first.is_ascii_digit() || (first == '.' && second_is_digit) {
            return Ok(self.number());
        }
        if first == '\'' {
            return self.string();
        }
        for sign in SIGNS {
            if rest.starts_with(sign) {
                self.take(sign.len());
                return Ok(Token::Sign(sign));
            }
        }
        Err(FilterError::Character { found: first, at: self.character(self.at) })
    }

    /// Passes over blanks and comments.
    fn skip(&mut self) -> Result<(), FilterError> {
        loop {
            self.take_while(|c| matches!(c, ' ' | '\t' | '\n' | '\r' | '\u{c}'));
            let rest = self.rest();
            if rest.starts_with("--") {
                self.take_while(|c| c != '\n' && c != '\r');
            } else if rest.starts_with("/*") {
                let end = rest.get(2..).and_then(|inner| inner.find("*/"));
                let unended =
                    || FilterError::Unended { what: "comment", at: self.character(self.at) };
                let end = end.ok_or_else(unended)?;
                self.take(end + 4);
            } else {
                return Ok(());
            }
        }
    }

    fn number(&mut self) -> Token<'a> {
        let start = self.at;
        self.take_while(|c| c.is_ascii_digit());
        let mut is_float = false;
        if self.rest().starts_with('.') {
            is_float = true;
            self.take(1);
            self.take_while(|c| c.is_ascii_digit());
        }
        is_float |= self.exponent();
        let text = self.text.get(start..self.at).unwrap_or_default();
        if is_float {
            return Token::Float(text);
        }
        if self.rest().starts_with(['l', 'L']) {
            self.take(1);
        }
        Token::Decimal(text)
    }

    /// Takes an exponent, where there is one.
    fn exponent(&mut self) -> bool {
        let rest = self.rest();
        if !rest.starts_with(['e', 'E']) {
            return false;
        }
        let sign = usize::from(rest.get(1..).is_some_and(|rest| rest.starts_with(['+', '-'])));
        let has_digits = rest.as_bytes().get(1 + sign).is_some_and(u8::is_ascii_digit);
        if has_digits {
            self.take(1 + sign);
            self.take_while(|c| c.is_ascii_digit());
        }
        has_digits
    }

    /// A string in single quotes; two of them stand for one.
    fn string(&mut self) -> Result<Token<'a>, FilterError> {
        let at = self.character(self.at);
        self.take(1);
        let mut text = String::new();
        loop {
            text.push_str(self.take_while(|c| c != '\''));
            if self.rest().is_empty() {
                return Err(FilterError::Unended { what: "string", at });
            }
            self.take(1);
            if !self.rest().starts_with('\'') {
                return Ok(Token::Text(text));
            }
            text.push('\'');
            self.take(1);
        }
    }
}

impl std::fmt::Display for Token<'_> {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Word(text) | Self::Decimal(text) | Self::Float(text) => {
                write!(formatter, "{:?}", shortened(text))
            }
            Self::Text(text) => write!(formatter, "the string {:?}", shortened(text)),
            Self::Sign(sign) => write!(formatter, "{sign:?}"),
            Self::End => formatter.write_str("its end"),
        }
    }
}

/// The beginning of a text, for people.
fn shortened(text: &str) -> String {
    text.chars().take(40).collect()
}
