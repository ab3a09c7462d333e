//! SQL92 filters: an expression over the properties of a message (`SelectorParser.jj` and the classes
//! of `org.apache.rocketmq.filter.expression`).
//!
//! Logic has three values: what is not known is neither true nor false, and only what is true passes.
//! Values are compared as Java compares them, with its odd corners: a text against a number is read
//! as that kind of number, and where it is none the message does not pass, whatever else the
//! expression says. Two things differ on purpose: text behind the end of an expression is refused,
//! which Java passes over, and `0.0` is a number.
//!
//! An expression comes from a stranger. Its length, depth and number of parts are bounded when it is
//! read, its steps for each message when it is asked.

mod coerce;
mod compiled;
mod evaluate;
mod parse;
mod tokens;

#[cfg(test)]
mod tests;

pub(crate) use compiled::{Compiled, Filters, Found, is_tags};

/// The longest expression, in bytes.
pub(crate) const MAX_LENGTH: usize = 16 << 10;
/// The most levels of parentheses and operators within each other.
pub(crate) const MAX_DEPTH: usize = 64;
/// The most operators, constants and properties of one expression; what stands in lists of IN is
/// bounded by the length.
pub(crate) const MAX_PARTS: usize = 2_048;
/// The most steps for one message: one for each part that is looked at, and one for each
/// [`STEP_BYTES`] of text that is searched.
const MAX_STEPS: usize = 32_768;
/// Bytes of text that are searched in one step.
const STEP_BYTES: usize = 32;

/// Why an expression is no filter.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub(crate) enum FilterError {
    /// It is too long.
    #[error("filter expression of {length} bytes, at most {MAX_LENGTH} are taken; shorten it")]
    TooLong {
        /// Its length in bytes.
        length: usize,
    },
    /// Its parts lie too deep within each other.
    #[error(
        "filter expression is nested deeper than {MAX_DEPTH} levels at character {at}; use fewer \
         parentheses"
    )]
    TooDeep {
        /// Where, from 1 on.
        at: usize,
    },
    /// It has too many parts.
    #[error(
        "filter expression has more than {MAX_PARTS} parts; use IN instead of many comparisons"
    )]
    TooManyParts,
    /// A character begins no word of the language.
    #[error("filter expression has {found:?} at character {at}, which begins no word")]
    Character {
        /// The character.
        found: char,
        /// Where, from 1 on.
        at: usize,
    },
    /// A string or a comment has no end.
    #[error("filter expression has a {what} at character {at} that does not end")]
    Unended {
        /// `string` or `comment`.
        what: &'static str,
        /// Where it begins, from 1 on.
        at: usize,
    },
    /// Something else was expected.
    #[error("filter expression has {found} at character {at} where {wanted} is expected")]
    Unexpected {
        /// The word that is there.
        found: String,
        /// Where, from 1 on.
        at: usize,
        /// What may stand there.
        wanted: &'static str,
    },
    /// A number is too large.
    #[error("filter expression has number {0}, which is out of range")]
    Number(String),
    /// The parts do not fit together.
    #[error("filter expression before character {at}: {reason}")]
    Meaning {
        /// What is wrong.
        reason: &'static str,
        /// Where it was noticed, from 1 on.
        at: usize,
    },
    /// There is no such language.
    #[error("filter type {0:?} is unknown; TAG and SQL92 are served")]
    Type(String),
}
