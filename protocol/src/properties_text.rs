//! The text form of `java.util.Properties`: configuration files, the bodies of codes 25, 26, 318
//! and 319, and DLedger's small state files.

/// Why a text is no properties text.
#[derive(Debug, thiserror::Error, Clone, PartialEq, Eq)]
pub enum PropertiesError {
    /// A `\u` without four hexadecimal digits behind it.
    #[error("line {0}: `\\u` needs four hexadecimal digits; write a backslash as `\\\\`")]
    Unicode(usize),
}

/// A pair with the place where it stands.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Entry {
    /// Number of its first line, from 1 on.
    pub line: usize,
    /// The name, without escapes.
    pub name: String,
    /// The value, without escapes but with the blanks at its end, as Java reads it.
    pub value: String,
}

/// Reads names and values in order; a repeated name is given each time it occurs, and the last one
/// counts. A byte order mark and line ends of any kind are passed over; blanks before a name,
/// around its separator and before a continued line are not part of anything.
///
/// # Errors
/// An escape is broken.
pub fn parse(text: &str) -> Result<Vec<(String, String)>, PropertiesError> {
    let entries = parse_entries(text)?;
    Ok(entries.into_iter().map(|entry| (entry.name, entry.value)).collect())
}

/// As [`parse`], with the line of each pair.
///
/// # Errors
/// An escape is broken.
pub fn parse_entries(text: &str) -> Result<Vec<Entry>, PropertiesError> {
    let mut entries = Vec::new();
    let mut lines = Lines { rest: text.strip_prefix('\u{feff}').unwrap_or(text), number: 0 };
    while let Some((line, whole)) = lines.next_logical() {
        let (name, value) = split(&whole);
        let unescape = |text| unescape(text).ok_or(PropertiesError::Unicode(line));
        entries.push(Entry { line, name: unescape(name)?, value: unescape(value)? });
    }
    Ok(entries)
}

/// Writes `name=value` lines that [`parse`] and Java read back to the same pairs.
pub fn write<N: AsRef<str>, V: AsRef<str>>(pairs: impl IntoIterator<Item = (N, V)>) -> String {
    let mut text = String::new();
    for (name, value) in pairs {
        escape(name.as_ref(), true, &mut text);
        text.push('=');
        escape(value.as_ref(), false, &mut text);
        text.push('\n');
    }
    text
}

/// Writes `name=value` lines without escapes, as Java answers codes 26 and 319
/// (`MixAll.properties2String`). A line end in a value would forge a line; it becomes a blank.
pub fn write_plain<N: AsRef<str>, V: AsRef<str>>(
    pairs: impl IntoIterator<Item = (N, V)>,
) -> String {
    let mut text = String::new();
    for (name, value) in pairs {
        text.push_str(name.as_ref());
        text.push('=');
        text.push_str(&value.as_ref().replace(['\r', '\n'], " "));
        text.push('\n');
    }
    text
}

/// Natural lines of a text, joined where one ends in an odd number of backslashes.
struct Lines<'a> {
    rest: &'a str,
    number: usize,
}

impl<'a> Lines<'a> {
    fn next_natural(&mut self) -> Option<&'a str> {
        if self.rest.is_empty() {
            return None;
        }
        self.number += 1;
        let end = self.rest.find(['\r', '\n']).unwrap_or(self.rest.len());
        let (line, tail) = self.rest.split_at_checked(end)?;
        self.rest = tail
            .strip_prefix("\r\n")
            .or_else(|| tail.strip_prefix(['\r', '\n']))
            .unwrap_or_default();
        Some(line.trim_start_matches(is_blank))
    }

    /// The next line that says something, with the number of its first natural line.
    fn next_logical(&mut self) -> Option<(usize, String)> {
        let line = loop {
            let line = self.next_natural()?;
            if !line.is_empty() && !line.starts_with(['#', '!']) {
                break line;
            }
        };
        let number = self.number;
        let mut whole = line.to_owned();
        while is_continued(&whole) {
            whole.pop();
            match self.next_natural() {
                Some(more) => whole.push_str(more),
                None => break,
            }
        }
        Some((number, whole))
    }
}

fn is_blank(letter: char) -> bool {
    matches!(letter, ' ' | '\t' | '\u{c}')
}

fn is_continued(line: &str) -> bool {
    line.bytes().rev().take_while(|&byte| byte == b'\\').count() % 2 == 1
}

/// A line's name and value, both still escaped. The name ends at the first `=`, `:` or blank that
/// is not escaped.
fn split(line: &str) -> (&str, &str) {
    let mut escaped = false;
    let end = line
        .find(|letter: char| {
            let ends = !escaped && (matches!(letter, '=' | ':') || is_blank(letter));
            escaped = !escaped && letter == '\\';
            ends
        })
        .unwrap_or(line.len());
    let (name, rest) = line.split_at_checked(end).unwrap_or((line, ""));
    let rest = rest.trim_start_matches(is_blank);
    let value = rest.strip_prefix(['=', ':']).unwrap_or(rest);
    (name, value.trim_start_matches(is_blank))
}

fn unescape(text: &str) -> Option<String> {
    if !text.contains('\\') {
        return Some(text.to_owned());
    }
    let mut units = Vec::with_capacity(text.len());
    let mut letters = text.chars();
    while let Some(letter) = letters.next() {
        let plain = match letter {
            '\\' => match letters.next() {
                Some('t') => '\t',
                Some('n') => '\n',
                Some('r') => '\r',
                Some('f') => '\u{c}',
                Some('u') => {
                    let digits = letters.as_str().get(..4)?;
                    units.push(u16::from_str_radix(digits, 16).ok()?);
                    letters = letters.as_str().get(4..)?.chars();
                    continue;
                }
                Some(other) => other,
                None => break,
            },
            other => other,
        };
        units.extend_from_slice(plain.encode_utf16(&mut [0; 2]));
    }
    Some(String::from_utf16_lossy(&units))
}

fn escape(text: &str, is_name: bool, out: &mut String) {
    for (index, letter) in text.chars().enumerate() {
        match letter {
            '\\' => out.push_str("\\\\"),
            '\t' => out.push_str("\\t"),
            '\n' => out.push_str("\\n"),
            '\r' => out.push_str("\\r"),
            '\u{c}' => out.push_str("\\f"),
            ' ' if is_name || index == 0 => out.push_str("\\ "),
            '=' | ':' | '#' | '!' => {
                out.push('\\');
                out.push(letter);
            }
            ' '..='~' => out.push(letter),
            other => {
                for unit in other.encode_utf16(&mut [0; 2]) {
                    out.push_str(&format!("\\u{unit:04X}"));
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pairs(text: &str) -> Vec<(String, String)> {
        parse(text).unwrap_or_else(|error| panic!("{text}: {error}"))
    }

    fn own(pairs: &[(&str, &str)]) -> Vec<(String, String)> {
        pairs.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect()
    }

    #[test]
    fn javas_forms_are_read() {
        let text = "\u{feff}# comment\r\n! too\n\n  brokerName = broker-a \r\nport:10911\nflag\nurl=http\\://x\\=y\nlong=a,\\\n   b\nblank value\ncurrTerm=5\rvoteLeader=n2";
        let expected = own(&[
            ("brokerName", "broker-a "),
            ("port", "10911"),
            ("flag", ""),
            ("url", "http://x=y"),
            ("long", "a,b"),
            ("blank", "value"),
            ("currTerm", "5"),
            ("voteLeader", "n2"),
        ]);
        assert_eq!(pairs(text), expected);
    }

    #[test]
    fn a_pair_is_found_at_its_first_line() {
        let entries = parse_entries("\u{feff}# x\r\na=1\n\nb=2,\\\n  3 \nc=4").unwrap();
        let seen: Vec<_> =
            entries.iter().map(|entry| (entry.line, &*entry.name, &*entry.value)).collect();
        assert_eq!(seen, [(2, "a", "1"), (4, "b", "2,3 "), (6, "c", "4")]);
    }

    #[test]
    fn escapes_are_undone() {
        assert_eq!(pairs("a\\ b=\\u00fc\\t\\\\"), own(&[("a b", "\u{fc}\t\\")]));
        assert_eq!(pairs("a=\\uD83D\\uDE00"), own(&[("a", "\u{1F600}")]));
        assert_eq!(pairs("a=x\\"), own(&[("a", "x")]));
        assert_eq!(parse("\na=\\u12"), Err(PropertiesError::Unicode(2)));
    }

    #[test]
    fn what_is_written_is_read_back() {
        let given = own(&[("a b", " x=y:z "), ("#n", "\u{fc}\u{1F600}\n\\"), ("", "v"), ("k", "")]);
        let text = write(given.iter().map(|(name, value)| (name, value)));
        assert!(text.is_ascii());
        assert_eq!(pairs(&text), given);
    }

    #[test]
    fn plain_lines_cannot_be_forged() {
        assert_eq!(write_plain([("a", "1"), ("b", "x\nc=2")]), "a=1\nb=x c=2\n");
    }
}
