//! Values, and how Java compares those of different kinds (`ComparisonExpression.__compare`).

use std::cmp::Ordering;

/// A value that is known. Java's kinds of numbers stay apart, for texts are read as the kind of the
/// number they are compared with.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) enum Value<'a> {
    /// Of a property, or a string.
    Text(&'a str),
    /// `Integer`.
    Int(i32),
    /// `Long`.
    Long(i64),
    /// `Double`.
    Double(f64),
    /// `Boolean`.
    Bool(bool),
}

/// Java throws here: the message does not pass.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Fault;

/// How two values compare for `=`, and for the others where not both are texts. What has no order
/// counts as less.
pub(super) fn compare(left: Value<'_>, right: Value<'_>) -> Result<Ordering, Fault> {
    use Value::{Bool, Double, Int, Long, Text};
    Ok(match (left, right) {
        (Text(left), Text(right)) => left.encode_utf16().cmp(right.encode_utf16()),
        (Bool(left), Bool(right)) => left.cmp(&right),
        (Int(left), Int(right)) => left.cmp(&right),
        (Long(left), Long(right)) => left.cmp(&right),
        (Int(left), Long(right)) => i64::from(left).cmp(&right),
        (Long(left), Int(right)) => left.cmp(&i64::from(right)),
        (Double(left), Double(right)) => doubles(left, right),
        (Int(left), Double(right)) => doubles(f64::from(left), right),
        (Double(left), Int(right)) => doubles(left, f64::from(right)),
        (Long(left), Double(right)) => doubles(of_long(left), right),
        (Double(left), Long(right)) => doubles(left, of_long(right)),
        (Text(left), Int(right)) => int(left)?.cmp(&right),
        (Int(left), Text(right)) => left.cmp(&int(right)?),
        (Text(left), Long(right)) => long(left)?.cmp(&right),
        (Long(left), Text(right)) => left.cmp(&long(right)?),
        (Text(left), Double(right)) => doubles(double(left)?, right),
        (Double(left), Text(right)) => doubles(left, double(right)?),
        (Text(left), Bool(right)) => left.eq_ignore_ascii_case("true").cmp(&right),
        // Java casts the truth value itself to a text.
        (Bool(_), Text(_)) => return Err(Fault),
        (Bool(_), Int(_) | Long(_) | Double(_)) | (Int(_) | Long(_) | Double(_), Bool(_)) => {
            Ordering::Less
        }
    })
}

/// How two values compare for `<`, `<=`, `>` and `>=`: two texts must both be numbers.
pub(super) fn order(left: Value<'_>, right: Value<'_>) -> Result<Ordering, Fault> {
    match (left, right) {
        (Value::Text(left), Value::Text(right)) => Ok(doubles(double(left)?, double(right)?)),
        _ => compare(left, right),
    }
}

/// `Double.compareTo`: it is a total order, unlike `<` of numbers.
fn doubles(left: f64, right: f64) -> Ordering {
    match (left.is_nan(), right.is_nan()) {
        (true, true) => Ordering::Equal,
        (true, false) => Ordering::Greater,
        (false, true) => Ordering::Less,
        (false, false) => left.total_cmp(&right),
    }
}

#[expect(clippy::cast_precision_loss, reason = "Java's Long.doubleValue rounds alike")]
fn of_long(value: i64) -> f64 {
    value as f64
}

/// `Integer.valueOf`.
fn int(text: &str) -> Result<i32, Fault> {
    text.parse().map_err(|_no_number| Fault)
}

/// `Long.valueOf`.
fn long(text: &str) -> Result<i64, Fault> {
    text.parse().map_err(|_no_number| Fault)
}

/// `Double.valueOf`, but for hexadecimal numbers.
fn double(text: &str) -> Result<f64, Fault> {
    let text = text.trim_matches(|c: char| c <= ' ');
    let unsigned = text.strip_prefix(['+', '-']).unwrap_or(text);
    if matches!(unsigned, "NaN" | "Infinity") {
        return text.parse().map_err(|_no_number| Fault);
    }
    let digits = text.strip_suffix(['f', 'F', 'd', 'D']).unwrap_or(text);
    let of_number = |c: char| c.is_ascii_digit() || matches!(c, '.' | '+' | '-' | 'e' | 'E');
    // Rust reads "inf" and "nan" too, which Java does not.
    if !digits.chars().all(of_number) {
        return Err(Fault);
    }
    digits.parse().map_err(|_no_number| Fault)
}
