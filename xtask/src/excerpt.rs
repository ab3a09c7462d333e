//! What a stage prints, passed on line by line, and the few lines of it that say why it failed.
//!
//! A long log may be cut in its middle where it is kept. So the causes stand at its very end too.

use std::{
    collections::VecDeque,
    io::{BufRead, BufReader, Read, Write},
    sync::{Arc, Mutex, PoisonError},
    thread::JoinHandle,
};

/// Lines of a stage that are kept.
const KEPT: usize = 4_000;
/// Lines shown behind one that tells a cause: the text of a panic, a difference.
const BEHIND: usize = 5;
/// Lines and bytes that are shown of one stage.
const SHOWN: (usize, usize) = (40, 6_000);
/// How a line begins, or what it holds, that tells a cause.
const CAUSES: [&str; 6] = ["panicked at", "error: ", "error[", "FAILED", "FAIL:", "Error: "];

/// The last lines of a stage.
#[derive(Debug, Clone, Default)]
pub(crate) struct Excerpt(Arc<Mutex<VecDeque<String>>>);

impl Excerpt {
    /// Reads `from` to its end on a thread of its own, writes each line to `to` and keeps the last.
    pub(crate) fn pass_on(
        &self,
        from: impl Read + Send + 'static,
        mut to: impl Write + Send + 'static,
    ) -> JoinHandle<std::io::Result<()>> {
        let excerpt = self.clone();
        std::thread::spawn(move || {
            let mut reader = BufReader::new(from);
            let mut line = Vec::new();
            while reader.read_until(b'\n', &mut line)? > 0 {
                to.write_all(&line)?;
                excerpt.keep(String::from_utf8_lossy(&line).trim_end().to_owned());
                line.clear();
            }
            to.flush()
        })
    }

    fn keep(&self, line: String) {
        let mut lines = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if lines.len() == KEPT {
            lines.pop_front();
        }
        lines.push_back(line);
    }

    /// The lines that tell why the stage failed; its last ones where none does.
    pub(crate) fn causes(&self) -> Vec<String> {
        let lines = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let mut wanted = 0;
        let mut told: Vec<&String> = Vec::new();
        for line in lines.iter() {
            if CAUSES.iter().any(|cause| line.contains(cause)) {
                wanted = BEHIND + 1;
            }
            if wanted > 0 && !line.is_empty() {
                told.push(line);
                wanted -= 1;
            }
        }
        if told.is_empty() {
            told = lines.iter().collect();
        }
        let mut bytes = 0;
        let last = told.iter().rev().take(SHOWN.0).take_while(|line| {
            bytes += line.len();
            bytes <= SHOWN.1
        });
        let mut last: Vec<String> = last.map(|line| (*line).clone()).collect();
        last.reverse();
        last
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn excerpt(text: &'static str) -> Excerpt {
        let excerpt = Excerpt::default();
        let passing = excerpt.pass_on(text.as_bytes(), std::io::sink());
        passing.join().unwrap().unwrap();
        excerpt
    }

    #[test]
    fn a_panic_is_told_with_its_text_and_without_what_went_before() {
        let output = "test a ... ok\nthread 'b' panicked at tests/b.rs:7:5:\nleft: 1\nright: 2\n";
        let told = excerpt(output).causes();
        assert_eq!(told, ["thread 'b' panicked at tests/b.rs:7:5:", "left: 1", "right: 2"]);
    }

    #[test]
    fn the_last_lines_stand_for_a_cause_that_is_not_known() {
        assert_eq!(excerpt("one\ntwo").causes(), ["one", "two"]);
    }

    #[test]
    fn a_flood_is_cut() {
        let excerpt = Excerpt::default();
        for number in 0..3 * KEPT {
            excerpt.keep(format!("error: {number}"));
        }
        let told = excerpt.causes();
        assert_eq!(told.len(), SHOWN.0);
        assert_eq!(told.last().map(String::as_str), Some("error: 11999"));
    }
}
