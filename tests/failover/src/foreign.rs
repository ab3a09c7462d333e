//! Official clients as load: programs of `tests/interop` that send and note every attempt in a file,
//! which is read while they run.

use std::{
    fs::{self, File},
    path::PathBuf,
    process::Command,
    sync::Arc,
    time::Duration,
};

use anyhow::{Context, Result, ensure};
use interop::{APACHE, libraries, process::Process, suite};

use crate::{
    held,
    queues::{Attempt, Outcome, Queue, Span},
    tail::Tail,
    traffic::{Book, DEFINITE, Habits, content},
};

/// Pause between two looks at the file of attempts.
const LOOKS: Duration = Duration::from_millis(10);

/// How long a program may take to end: an attempt takes 3 s, and its client repeats it twice.
const ENDS: Duration = Duration::from_secs(60);

/// Whose client sends.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Language {
    /// Apache's for Java.
    Java,
    /// Apache's for Go.
    Go,
}

impl Language {
    /// Fetches and builds its program.
    ///
    /// # Errors
    /// Where Maven, the compiler or Go fails.
    pub fn build(self) -> Result<Command> {
        match self {
            Self::Java => {
                let class_path = libraries::class_path("rocketmq-client", APACHE)?;
                let class_path = libraries::compile("failover", &["Failover.java"], &class_path)?;
                Ok(suite::java(&class_path, "Failover"))
            }
            Self::Go => {
                let mut command = Command::new(libraries::go_program()?);
                command.arg("failover");
                Ok(command)
            }
        }
    }
}

/// A program that sends.
#[derive(Debug)]
pub(crate) struct Foreign {
    process: Process,
    folder: PathBuf,
    topic: String,
    attempts: Tail,
}

impl Foreign {
    /// Starts it. Its times are those of the book's clock.
    pub(crate) fn start(
        language: Language,
        namesrv: &str,
        habits: &Habits,
        book: &Book,
    ) -> Result<Self> {
        let folder = book.folder().to_path_buf();
        let topic = habits.topic.clone();
        let mut command = language.build()?;
        let codes: Vec<String> = DEFINITE.iter().map(ToString::to_string).collect();
        command.args([&topic, &habits.senders.to_string()]);
        command.args([&habits.pause.as_millis().to_string(), &book.epoch().to_string()]);
        command.arg(codes.join(","));
        command.env("NAMESRV_ADDR", namesrv).env("HOME", &folder);
        let process = Process::start("official client", &mut command, &folder)?;
        let attempts = Tail::new(folder.join("attempts"));
        Ok(Self { process, folder, topic, attempts })
    }

    /// Notes in the book what it does, until the clients are to end.
    pub(crate) async fn run(mut self, book: Arc<Book>) -> Result<()> {
        let (pause, stop) = (self.folder.join("pause"), self.folder.join("stop"));
        while book.goes_on() {
            self.process.lives()?;
            self.note(&book)?;
            if book.rests() != pause.exists() {
                let changed = if book.rests() {
                    File::create(&pause).map(drop)
                } else {
                    fs::remove_file(&pause)
                };
                changed.with_context(|| pause.display().to_string())?;
            }
            tokio::time::sleep(LOOKS).await;
        }
        File::create(&stop).with_context(|| stop.display().to_string())?;
        let status = self.process.wait(ENDS)?;
        ensure!(status.success(), "the official client: {status}\n{}", self.process.output()?);
        self.note(&book)
    }

    /// Notes the attempts that it has written since the last time.
    fn note(&mut self, book: &Book) -> Result<()> {
        let text = self.attempts.lines()?;
        let attempts = text.lines().map(|line| {
            attempt(line, &self.topic).with_context(|| format!("`{line}` is no attempt"))
        });
        let attempts = attempts.collect::<Result<Vec<_>>>()?;
        book.history().attempts.extend(attempts);
        Ok(())
    }
}

/// Reads a line of the file of attempts.
fn attempt(line: &str, topic: &str) -> Option<Attempt> {
    let words: Vec<&str> = line.split_whitespace().collect();
    let [sender, key, queue, span, outcome @ ..] = words.as_slice() else { return None };
    let outcome = match *outcome {
        ["at", offset] => Outcome::At(offset.parse().ok()?),
        ["refused"] => Outcome::Refused,
        ["unknown"] => Outcome::Unknown,
        _ => return None,
    };
    let (from, to) = span.split_once("..")?;
    let number = key.rsplit_once('.')?.1.parse().ok()?;
    let (tag, body) = content(key, number);
    Some(Attempt {
        sender: (*sender).to_owned(),
        key: (*key).to_owned(),
        body: held::hash(body.as_bytes(), &tag),
        queue: Queue { topic: topic.to_owned(), id: queue.parse().ok()? },
        span: Span { from: from.parse().ok()?, to: to.parse().ok()? },
        outcome,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_is_an_attempt() {
        let one = attempt("j0 j0.7 2 100..250 at 41", "T").unwrap();
        assert_eq!((one.sender.as_str(), one.key.as_str()), ("j0", "j0.7"));
        assert_eq!((one.queue.to_string().as_str(), one.outcome), ("T/2", Outcome::At(41)));
        assert_eq!(one.span, Span { from: 100, to: 250 });
        let body = format!("j0.7 {}", "x".repeat(259));
        assert_eq!(one.body, held::hash(body.as_bytes(), "tag1"));
        assert_eq!(attempt("j0 j0.7 2 1..2 refused", "T").unwrap().outcome, Outcome::Refused);
        assert_eq!(attempt("j0 j0.7 2 1..2 unknown", "T").unwrap().outcome, Outcome::Unknown);
    }

    #[test]
    fn a_line_that_is_cut_off_is_none() {
        for line in
            ["j0 j0.7 2 1..2", "j0 j0.7 2 1.. at 4", "j0 j0.7 2 1..2 at", "j0 j 2 1..2 at 4"]
        {
            assert_eq!(attempt(line, "T"), None, "{line}");
        }
    }
}
