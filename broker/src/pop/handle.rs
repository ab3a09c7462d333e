//! Receipt handles, and what an answer says of the messages that it gives
//! (`ExtraInfoUtil.java`): clients build handles from that.

use std::fmt::{self, Display, Write};

use super::names;

/// What a client gives back to say which delivery of a message it means.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Handle {
    /// Offset at which the pop began.
    pub(crate) start: i64,
    /// When the message was taken.
    pub(crate) pop_time: i64,
    /// How long it is with the client, in milliseconds.
    pub(crate) invisible_time: i64,
    /// Queue of the revive topic; [`names::ORDERED`] where there is none.
    pub(crate) revive_queue: i32,
    /// See [`names::flag`].
    pub(crate) flag: String,
    /// Broker that gave the message.
    pub(crate) broker: String,
    /// Its queue.
    pub(crate) queue: i32,
    /// Its offset, which handles of old clients lack.
    pub(crate) offset: Option<i64>,
}

/// Why a text is no handle.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub(crate) enum HandleError {
    /// It has too few words.
    #[error(
        "extraInfo has {0} words where a receipt handle has 7 or 8; give back what came with the message"
    )]
    Short(usize),
    /// A word is no number.
    #[error(
        "the {name} of extraInfo is {word:?}, which is no number; give back what came with the message"
    )]
    Word {
        /// What the word should be.
        name: &'static str,
        /// The word, cut after 40 characters.
        word: String,
    },
}

impl Handle {
    /// Reads a handle.
    pub(crate) fn parse(text: &str) -> Result<Self, HandleError> {
        let words: Vec<&str> = text.split(' ').collect();
        let [start, pop_time, invisible_time, revive_queue, flag, broker, queue, rest @ ..] =
            words.as_slice()
        else {
            return Err(HandleError::Short(words.len()));
        };
        Ok(Self {
            start: number("offset of the check point", start)?,
            pop_time: number("time of the pop", pop_time)?,
            invisible_time: number("invisible time", invisible_time)?,
            revive_queue: number("revive queue", revive_queue)?,
            flag: (*flag).to_owned(),
            broker: (*broker).to_owned(),
            queue: number("queue", queue)?,
            offset: rest.first().map(|word| number("offset of the message", word)).transpose()?,
        })
    }

    /// Whether the message was popped in order.
    pub(crate) fn is_ordered(&self) -> bool {
        self.revive_queue == names::ORDERED
    }
}

fn number<T: std::str::FromStr>(name: &'static str, word: &str) -> Result<T, HandleError> {
    let wrong = |_| HandleError::Word { name, word: word.chars().take(40).collect() };
    word.parse().map_err(wrong)
}

impl Display for Handle {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { start, pop_time, invisible_time, revive_queue, flag, broker, queue, offset } =
            self;
        write!(out, "{start} {pop_time} {invisible_time} {revive_queue} {flag} {broker} {queue}")?;
        offset.map_or(Ok(()), |offset| write!(out, " {offset}"))
    }
}

/// The texts of an answer that name the messages in its body.
#[derive(Debug, Default, Clone, PartialEq, Eq)]
pub(crate) struct Infos {
    /// Where the pop of each queue began.
    pub(crate) starts: String,
    /// The offsets of the messages of each queue.
    pub(crate) offsets: String,
    /// How often messages were taken before; of ordered pops only.
    pub(crate) counts: String,
}

impl Infos {
    /// Adds the messages of one queue.
    pub(crate) fn add(&mut self, topic: &str, queue: u32, start: u64, offsets: &[u64]) {
        let flag = names::flag(topic);
        append(&mut self.starts, format_args!("{flag} {queue} {start}"));
        append(&mut self.offsets, format_args!("{flag} {queue} "));
        for (nth, offset) in offsets.iter().enumerate() {
            let comma = if nth > 0 { "," } else { "" };
            put(&mut self.offsets, format_args!("{comma}{offset}"));
        }
    }

    /// Adds how often a message was taken before.
    pub(crate) fn add_count(&mut self, topic: &str, queue: u32, offset: i64, count: i32) {
        let flag = names::flag(topic);
        append(&mut self.counts, format_args!("{flag} qo{queue}%{offset} {count}"));
    }

    /// Adds how often every message of a queue was taken before, at least: what old clients read.
    pub(crate) fn add_least_count(&mut self, topic: &str, queue: u32, count: i32) {
        append(&mut self.counts, format_args!("{} {queue} {count}", names::flag(topic)));
    }
}

/// Appends one entry of a list.
fn append(list: &mut String, entry: fmt::Arguments<'_>) {
    if !list.is_empty() {
        list.push(';');
    }
    put(list, entry);
}

fn put(text: &mut String, more: fmt::Arguments<'_>) {
    if text.write_fmt(more).is_err() {
        debug_assert!(false, "a String takes every text");
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_handle_goes_there_and_back() {
        for text in ["5 1700000000000 60000 3 1 broker-a 2 7", "5 1 2 999 0 b 2"] {
            assert_eq!(Handle::parse(text).expect(text).to_string(), text);
        }
        assert_eq!(Handle::parse("5 1 2 999 0 b 2").map(|handle| handle.is_ordered()), Ok(true));
        assert_eq!(Handle::parse("bad"), Err(HandleError::Short(1)));
        let text = Handle::parse("5 1 x 999 0 b 2").expect_err("no number").to_string();
        assert!(text.starts_with("the invisible time of extraInfo is \"x\""), "{text}");
    }

    #[test]
    fn an_answer_names_its_messages_as_java_does() {
        let mut infos = Infos::default();
        infos.add("T", 2, 5, &[5, 7]);
        infos.add("%RETRY%g_T", 0, 0, &[0]);
        infos.add_count("T", 2, 5, 1);
        infos.add_least_count("T", 2, 0);
        assert_eq!(infos.starts, "0 2 5;1 0 0");
        assert_eq!(infos.offsets, "0 2 5,7;1 0 0");
        assert_eq!(infos.counts, "0 qo2%5 1;0 2 0");
    }
}
