//! A history as text, one event a line.
//!
//! ```text
//! send c1 k1=b1 T/0 10..20 at 0            also: refused, unknown, later
//! seen c9 T/0 30..35 0:k1=b1@4096          the place in the log may be left out
//! range c9 T/0 30..35 0..1                 the oldest offset, and that behind the newest
//! holds n0 T/0 0..1 0:k1=b1@4096
//! commit g T/0 10..20 1 ok                 also: unknown; and `reset` as an operator does it
//! progress c9 g T/0 30..35 1               `-` where there is none
//! ```
//!
//! Hashes of bodies are hexadecimal.

use std::fmt;

use super::{
    Attempt, Commit, Extent, History, Holding, Outcome, Progress, Queue, Seen, Sight, Span,
};

/// Why a line is no event.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NotAnEvent(pub String);

impl fmt::Display for NotAnEvent {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "'{}' is no event of a history of queues", self.0)
    }
}

impl std::error::Error for NotAnEvent {}

/// Reads a history.
///
/// # Errors
/// The first line that is no event.
pub fn parse(text: &str) -> Result<History, NotAnEvent> {
    let mut history = History::default();
    for line in text.lines().map(str::trim).filter(|line| !line.is_empty()) {
        event(line, &mut history).ok_or_else(|| NotAnEvent(line.to_owned()))?;
    }
    Ok(history)
}

fn event(line: &str, history: &mut History) -> Option<()> {
    let words: Vec<&str> = line.split_whitespace().collect();
    match *words.as_slice() {
        ["send", sender, message, at, when, ref outcome @ ..] => {
            let (key, body) = message_of(message)?;
            let outcome = match *outcome {
                ["at", offset] => Outcome::At(offset.parse().ok()?),
                ["refused"] => Outcome::Refused,
                ["unknown"] => Outcome::Unknown,
                ["later"] => Outcome::Later,
                _ => return None,
            };
            let (queue, span) = (queue(at)?, span(when)?);
            let sender = sender.to_owned();
            history.attempts.push(Attempt { sender, key, body, queue, span, outcome });
        }
        ["seen", by, at, when, what] => {
            let (by, queue, span) = (by.to_owned(), queue(at)?, span(when)?);
            history.seen.push(Seen { by, queue, span, sight: sight(what)? });
        }
        ["range", by, at, when, range] => {
            let (by, queue, span) = (by.to_owned(), queue(at)?, span(when)?);
            let (min, max) = pair(range)?;
            history.extents.push(Extent { by, queue, span, min, max });
        }
        ["holds", node, at, range, ref messages @ ..] => {
            let (min, max) = pair(range)?;
            let messages = messages.iter().map(|one| sight(one)).collect::<Option<Vec<_>>>()?;
            let (node, queue) = (node.to_owned(), queue(at)?);
            history.holdings.push(Holding { node, queue, min, max, messages });
        }
        [what @ ("commit" | "reset"), group, at, when, value, answer @ ("ok" | "unknown")] => {
            history.commits.push(Commit {
                group: group.to_owned(),
                queue: queue(at)?,
                span: span(when)?,
                value: value.parse().ok()?,
                reset: what == "reset",
                acknowledged: answer == "ok",
            });
        }
        ["progress", by, group, at, when, value] => {
            let value = if value == "-" { None } else { Some(value.parse().ok()?) };
            let (by, group) = (by.to_owned(), group.to_owned());
            let (queue, span) = (queue(at)?, span(when)?);
            history.progress.push(Progress { by, group, queue, span, value });
        }
        _ => return None,
    }
    Some(())
}

fn queue(text: &str) -> Option<Queue> {
    let (topic, id) = text.rsplit_once('/')?;
    Some(Queue { topic: topic.to_owned(), id: id.parse().ok()? })
}

fn pair<T: std::str::FromStr>(text: &str) -> Option<(T, T)> {
    let (from, to) = text.split_once("..")?;
    Some((from.parse().ok()?, to.parse().ok()?))
}

fn span(text: &str) -> Option<Span> {
    pair(text).map(|(from, to)| Span { from, to })
}

fn message_of(text: &str) -> Option<(String, u64)> {
    let (key, body) = text.rsplit_once('=')?;
    Some((key.to_owned(), u64::from_str_radix(body, 16).ok()?))
}

fn sight(text: &str) -> Option<Sight> {
    let (offset, rest) = text.split_once(':')?;
    let (message, position) = match rest.rsplit_once('@') {
        Some((message, position)) => (message, Some(position.parse().ok()?)),
        None => (rest, None),
    };
    let (key, body) = message_of(message)?;
    Some(Sight { offset: offset.parse().ok()?, key, body, position })
}

impl fmt::Display for Span {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}..{}", self.from, self.to)
    }
}

impl fmt::Display for Sight {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}={:x}", self.offset, self.key, self.body)?;
        self.position.map_or(Ok(()), |position| write!(f, "@{position}"))
    }
}

impl fmt::Display for History {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for Attempt { sender, key, body, queue, span, outcome } in &self.attempts {
            write!(f, "send {sender} {key}={body:x} {queue} {span} ")?;
            match outcome {
                Outcome::At(offset) => writeln!(f, "at {offset}")?,
                Outcome::Refused => writeln!(f, "refused")?,
                Outcome::Unknown => writeln!(f, "unknown")?,
                Outcome::Later => writeln!(f, "later")?,
            }
        }
        for Seen { by, queue, span, sight } in &self.seen {
            writeln!(f, "seen {by} {queue} {span} {sight}")?;
        }
        for Extent { by, queue, span, min, max } in &self.extents {
            writeln!(f, "range {by} {queue} {span} {min}..{max}")?;
        }
        for Holding { node, queue, min, max, messages } in &self.holdings {
            write!(f, "holds {node} {queue} {min}..{max}")?;
            for message in messages {
                write!(f, " {message}")?;
            }
            writeln!(f)?;
        }
        for Commit { group, queue, span, value, reset, acknowledged } in &self.commits {
            let what = if *reset { "reset" } else { "commit" };
            let answer = if *acknowledged { "ok" } else { "unknown" };
            writeln!(f, "{what} {group} {queue} {span} {value} {answer}")?;
        }
        for Progress { by, group, queue, span, value } in &self.progress {
            let value = value.map_or_else(|| "-".to_owned(), |value| value.to_string());
            writeln!(f, "progress {by} {group} {queue} {span} {value}")?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_history_is_printed_as_it_is_read() {
        let text = "send c1 k1=b1 T/0 10..20 at 0\n\
                    send c1 k2=b2 T/0 21..25 refused\n\
                    send c2 k3=b3 %RETRY%g/1 21..25 unknown\n\
                    send c2 k4=b4 T/0 26..27 later\n\
                    seen c9 T/0 30..35 0:k1=b1@4096\n\
                    seen c9 T/0 30..35 0:k1=b1\n\
                    range c9 T/0 30..35 0..1\n\
                    holds n0 T/0 0..1 0:k1=b1@4096\n\
                    holds n0 T/1 0..0\n\
                    commit g T/0 10..20 1 ok\n\
                    reset g T/0 21..22 0 unknown\n\
                    progress c9 g T/0 30..35 1\n\
                    progress n0 g T/1 30..35 -\n";
        assert_eq!(parse(text).unwrap().to_string(), text);
        let wrong = [
            "send c1 k1 T/0 10..20 at 0",
            "send c1 k1=b1 T 10..20 at 0",
            "send c1 k1=b1 T/0 10..20 maybe",
            "seen c9 T/0 30..35 k1=b1",
            "commit g T/0 10..20 1 no",
            "range c9 T/0 30..35 0",
            "finds c9",
        ];
        for line in wrong {
            assert_eq!(parse(line), Err(NotAnEvent(line.to_owned())));
        }
    }
}
