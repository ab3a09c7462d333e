//! The lenient parser.

use std::borrow::Cow;

use super::{JsonError, Value};

/// Arrays and objects within each other; deeper texts are refused. Java's bodies have less than ten
/// levels (a registration with static topics has seven), and each one here is a call within a call.
const MAX_DEPTH: usize = 16;

/// More values are refused, since one takes far more memory than the two bytes it may have come
/// from. A registration of 100,000 topics has a million.
const MAX_VALUES: usize = 4_000_000;

/// Reads one value. What is not UTF-8 is replaced, as in Java. References are left as they are.
///
/// # Errors
/// Not even fastjson would read it, or it is too deep or too large.
pub fn parse(text: &[u8]) -> Result<Value, JsonError> {
    let text = String::from_utf8_lossy(text);
    let start = if text.starts_with('\u{feff}') { 3 } else { 0 };
    let mut parser = Parser { text: &text, at: start, values: 0 };
    let value = parser.value(0)?;
    parser.blanks();
    if parser.at < text.len() {
        return Err(parser.expected("the end"));
    }
    Ok(value)
}

struct Parser<'a> {
    text: &'a str,
    /// Always at a character boundary.
    at: usize,
    values: usize,
}

impl<'a> Parser<'a> {
    fn expected(&self, expected: &'static str) -> JsonError {
        JsonError::Syntax { at: self.at, expected }
    }

    fn rest(&self) -> &'a str {
        self.text.get(self.at..).unwrap_or_default()
    }

    fn peek(&self) -> Option<u8> {
        self.text.as_bytes().get(self.at).copied()
    }

    fn blanks(&mut self) {
        while self.peek().is_some_and(|byte| byte.is_ascii_whitespace() || byte == 0x0B) {
            self.at += 1;
        }
    }

    /// Blanks and commas: fastjson takes commas wherever one may stand.
    fn separators(&mut self) {
        self.blanks();
        while self.peek() == Some(b',') {
            self.at += 1;
            self.blanks();
        }
    }

    fn take(&mut self, byte: u8) -> bool {
        let found = self.peek() == Some(byte);
        self.at += usize::from(found);
        found
    }

    /// The value within `depth` arrays and objects.
    fn value(&mut self, depth: usize) -> Result<Value, JsonError> {
        self.values += 1;
        if self.values > MAX_VALUES {
            return Err(JsonError::Size(MAX_VALUES));
        }
        self.blanks();
        match self.peek() {
            Some(b'{' | b'[') if depth >= MAX_DEPTH => Err(JsonError::Depth(MAX_DEPTH)),
            Some(b'{') => self.object(depth),
            Some(b'[') => self.array(depth),
            Some(quote @ (b'"' | b'\'')) => Ok(Value::Text(self.quoted(quote)?)),
            Some(b'-' | b'+' | b'.' | b'0'..=b'9') => self.number(),
            _ => self.word(),
        }
    }

    fn object(&mut self, depth: usize) -> Result<Value, JsonError> {
        self.at += 1;
        let mut entries = Vec::new();
        loop {
            self.separators();
            if self.take(b'}') {
                return Ok(Value::Object(entries));
            }
            let key = self.key(depth)?;
            self.blanks();
            if !self.take(b':') {
                return Err(self.expected("`:` after a key"));
            }
            let value = self.value(depth + 1)?;
            entries.push((key, value));
            self.end_of_element(b'}')?;
        }
    }

    fn array(&mut self, depth: usize) -> Result<Value, JsonError> {
        self.at += 1;
        let mut elements = Vec::new();
        loop {
            self.separators();
            if self.take(b']') {
                return Ok(Value::Array(elements));
            }
            elements.push(self.value(depth + 1)?);
            self.end_of_element(b']')?;
        }
    }

    /// Behind an element stands a comma or the end of its container.
    fn end_of_element(&mut self, end: u8) -> Result<(), JsonError> {
        self.blanks();
        match self.peek() {
            Some(byte) if byte == b',' || byte == end => Ok(()),
            _ => Err(self.expected("`,` or the closing bracket")),
        }
    }

    /// A key: any value, or a bare name up to the colon.
    fn key(&mut self, depth: usize) -> Result<Value, JsonError> {
        match self.peek() {
            Some(b'{' | b'[' | b'"' | b'\'') => self.value(depth + 1),
            _ => {
                let length = self
                    .rest()
                    .find([':', ',', '}', ']', '{', '[', '"', '\''])
                    .ok_or_else(|| self.expected("a key"))?;
                let name = self.rest().get(..length).unwrap_or_default().trim_end();
                if name.is_empty() {
                    return Err(self.expected("a key"));
                }
                self.at += length;
                Ok(name
                    .parse()
                    .map_or_else(|_not_a_number| Value::Text(name.to_owned()), Value::Int))
            }
        }
    }

    fn number(&mut self) -> Result<Value, JsonError> {
        let rest = self.rest();
        let length = rest
            .find(|c: char| !matches!(c, '0'..='9' | '+' | '-' | '.' | 'e' | 'E'))
            .unwrap_or(rest.len());
        let digits = rest.get(..length).unwrap_or_default();
        let number = match digits.parse::<i64>() {
            Ok(number) => Value::Int(number),
            Err(_not_a_long) => digits
                .parse::<f64>()
                .ok()
                .filter(|number| number.is_finite())
                .map(Value::Float)
                .ok_or_else(|| self.expected("a number"))?,
        };
        self.at += length;
        // Java's type suffixes, as in `1L`.
        if matches!(self.peek(), Some(b'L' | b'S' | b'B' | b'F' | b'D')) {
            self.at += 1;
        }
        Ok(number)
    }

    fn word(&mut self) -> Result<Value, JsonError> {
        let words =
            [("null", Value::Null), ("true", Value::Bool(true)), ("false", Value::Bool(false))];
        for (word, value) in words {
            if self.rest().starts_with(word) {
                self.at += word.len();
                return Ok(value);
            }
        }
        if self.rest().starts_with("NaN") {
            self.at += 3;
            return Ok(Value::Null);
        }
        Err(self.expected("a value"))
    }

    fn quoted(&mut self, quote: u8) -> Result<String, JsonError> {
        self.at += 1;
        let mut text = Cow::Borrowed("");
        loop {
            let rest = self.rest();
            let plain = rest
                .find(|c| c == char::from(quote) || c == '\\')
                .ok_or_else(|| self.expected("the closing quote"))?;
            text += rest.get(..plain).unwrap_or_default();
            self.at += plain + 1;
            if rest.as_bytes().get(plain) == Some(&quote) {
                return Ok(text.into_owned());
            }
            text.to_mut().push(self.escape()?);
        }
    }

    /// The character of an escape, behind its backslash.
    fn escape(&mut self) -> Result<char, JsonError> {
        let Some(letter) = self.rest().chars().next() else {
            return Err(self.expected("an escaped character"));
        };
        self.at += letter.len_utf8();
        Ok(match letter {
            'b' => '\u{8}',
            'f' => '\u{c}',
            'n' => '\n',
            'r' => '\r',
            't' => '\t',
            'v' => '\u{b}',
            '0'..='7' => char::from_u32(letter.to_digit(8).unwrap_or(0)).unwrap_or('\u{fffd}'),
            'x' => char::from_u32(self.hex(2)?).unwrap_or('\u{fffd}'),
            'u' => self.unicode()?,
            other => other,
        })
    }

    /// `\uXXXX`, or two of them that are a pair of surrogates. A lone surrogate is replaced.
    fn unicode(&mut self) -> Result<char, JsonError> {
        let first = self.hex(4)?;
        if !(0xD800..0xDC00).contains(&first) || !self.rest().starts_with("\\u") {
            return Ok(char::from_u32(first).unwrap_or('\u{fffd}'));
        }
        let before = self.at;
        self.at += 2;
        let second = self.hex(4)?;
        if !(0xDC00..0xE000).contains(&second) {
            self.at = before;
            return Ok('\u{fffd}');
        }
        let both = 0x1_0000 + ((first - 0xD800) << 10) + (second - 0xDC00);
        Ok(char::from_u32(both).unwrap_or('\u{fffd}'))
    }

    fn hex(&mut self, digits: usize) -> Result<u32, JsonError> {
        let number = self
            .rest()
            .get(..digits)
            .filter(|text| text.bytes().all(|digit| digit.is_ascii_hexdigit()))
            .and_then(|text| u32::from_str_radix(text, 16).ok())
            .ok_or_else(|| self.expected("hexadecimal digits"))?;
        self.at += digits;
        Ok(number)
    }
}
