//! `ledgermq send`.

use std::{
    io::IsTerminal,
    sync::Arc,
    time::{Duration, Instant},
};

use anyhow::Context;
use client::{Client, Message, Producer, ProducerOptions, Sent};
use indicatif::ProgressBar;
use serde_json::json;
use tokio::{
    io::{AsyncBufReadExt, BufReader, Lines, Stdin, stdin},
    task::JoinSet,
};

use crate::{args::SendArgs, output};

/// Sends what the arguments say.
pub(crate) async fn run(args: SendArgs) -> anyhow::Result<()> {
    let client = Client::new(args.namesrv.options()?)?;
    let producer = Arc::new(Producer::start(
        Arc::clone(&client),
        ProducerOptions {
            timeout: args.timeout,
            window: usize::from(args.window),
            ..ProducerOptions::new(&args.group)
        },
    ));
    let mut bodies = Bodies::new(&args);
    let mut sending = Sending::new(&args);
    let begun = Instant::now();
    let mut outcome = Ok(());
    while outcome.is_ok() {
        let Some(body) = bodies.next().await? else { break };
        let (message, queue) = (message(&args, &body), args.queue);
        let producer = Arc::clone(&producer);
        let oneway = args.oneway;
        sending.tasks.spawn(async move {
            match (oneway, queue) {
                (true, _) => producer.send_oneway(message).await.map(|()| None),
                (false, Some(queue)) => producer.send_to(message, queue).await.map(Some),
                (false, None) => producer.send(message).await.map(Some),
            }
        });
        while outcome.is_ok() && sending.tasks.len() >= usize::from(args.window) {
            outcome = sending.one().await;
        }
    }
    while outcome.is_ok() && !sending.tasks.is_empty() {
        outcome = sending.one().await;
    }
    sending.progress.finish_and_clear();
    sending.tasks.shutdown().await;
    if let Some(producer) = Arc::into_inner(producer) {
        producer.stop().await;
    }
    client.close();
    sending.sum_up(begun.elapsed())?;
    outcome
}

/// Sends that wait for their answer.
struct Sending {
    tasks: JoinSet<Result<Option<Sent>, client::SendError>>,
    progress: ProgressBar,
    done: u64,
    json: bool,
    oneway: bool,
    /// Whether each message gets a line.
    each: bool,
}

impl Sending {
    fn new(args: &SendArgs) -> Self {
        let many = args.count > EACH_MAX;
        let progress = if many && args.body.is_some() && !args.json {
            ProgressBar::new(args.count)
        } else {
            ProgressBar::hidden()
        };
        Self {
            tasks: JoinSet::new(),
            progress,
            done: 0,
            json: args.json,
            oneway: args.oneway,
            each: args.json || !many,
        }
    }

    /// Waits for one and tells it.
    async fn one(&mut self) -> anyhow::Result<()> {
        let Some(finished) = self.tasks.join_next().await else { return Ok(()) };
        let sent = finished.context("a send was cut off")??;
        self.done += 1;
        self.progress.inc(1);
        match sent {
            Some(sent) if self.each => self.tell(&sent),
            _ => Ok(()),
        }
    }

    fn tell(&self, sent: &Sent) -> anyhow::Result<()> {
        let id = sent.ids.first().map(String::as_str).unwrap_or_default();
        if self.json {
            output::line(
                &json!({
                    "status": sent.status.name(),
                    "msgId": id,
                    "offsetMsgId": sent.offset_message_id,
                    "broker": sent.queue.broker_name,
                    "queueId": sent.queue.queue_id,
                    "queueOffset": sent.queue_offset,
                })
                .to_string(),
            )?;
        } else {
            output::line(&format!(
                "{}  {}/{} @{}  {id}",
                sent.status.name(),
                sent.queue.broker_name,
                sent.queue.queue_id,
                sent.queue_offset,
            ))?;
        }
        Ok(())
    }

    fn sum_up(&self, took: Duration) -> anyhow::Result<()> {
        if self.json || (self.done <= 1 && !self.oneway) {
            return Ok(());
        }
        let what = if self.oneway { "sent without an answer" } else { "sent and confirmed" };
        let seconds = took.as_secs_f64();
        output::line(&format!("{} messages {what} in {seconds:.3} s", self.done))?;
        Ok(())
    }
}

/// The bodies to send: the one of the command line or the lines of standard input, each repeated.
struct Bodies {
    given: Option<String>,
    lines: Option<Lines<BufReader<Stdin>>>,
    current: String,
    count: u64,
    left: u64,
}

impl Bodies {
    fn new(args: &SendArgs) -> Self {
        let given = args.body.clone();
        if given.is_none() && std::io::stdin().is_terminal() {
            tracing::warn!("reading messages from the terminal, one a line; Ctrl-D ends");
        }
        let lines = given.is_none().then(|| BufReader::new(stdin()).lines());
        Self { given, lines, current: String::new(), count: args.count, left: 0 }
    }

    async fn next(&mut self) -> anyhow::Result<Option<String>> {
        while self.left == 0 {
            let next = match (self.given.take(), &mut self.lines) {
                (Some(given), _) => Some(given),
                (None, Some(lines)) => {
                    lines.next_line().await.context("standard input cannot be read as text")?
                }
                (None, None) => None,
            };
            let Some(next) = next else { return Ok(None) };
            // An empty line is no message: brokers refuse an empty body.
            if !next.is_empty() || self.lines.is_none() {
                self.current = next;
                self.left = self.count;
            }
        }
        self.left -= 1;
        Ok(Some(self.current.clone()))
    }
}

fn message(args: &SendArgs, body: &str) -> Message {
    let mut message = Message::new(&args.topic, body.to_owned());
    for (name, value) in &args.properties {
        message = message.property(name, value);
    }
    if let Some(tag) = &args.tag {
        message = message.tag(tag);
    }
    if !args.keys.is_empty() {
        message = message.keys(&args.keys);
    }
    match args.delay_level {
        Some(level) => message.delay_level(level),
        None => message,
    }
}

/// Messages that each get a line for people; of more only the sum is told.
const EACH_MAX: u64 = 10;
