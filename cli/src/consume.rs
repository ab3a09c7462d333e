//! `ledgermq consume`.

use std::{sync::Arc, time::Duration};

use anyhow::Context;
use client::{
    Beginning, Client, GroupConsumer, GroupOptions, MessageQueue, PullConsumer, PullRequest,
    Received,
};
use tokio::{sync::mpsc, task::JoinSet};

use crate::{
    args::{self, ConsumeArgs},
    output,
    stop::StopSignals,
};

/// Receives what the arguments say.
pub(crate) async fn run(args: ConsumeArgs) -> anyhow::Result<()> {
    let signals = StopSignals::catch().context("signals cannot be caught")?;
    let client = Client::new(args.namesrv.options()?)?;
    let result = match &args.group {
        Some(group) => join(&client, group, &args, signals).await,
        None => browse(&client, &args, signals).await,
    };
    client.close();
    result
}

/// As a member of a group.
async fn join(
    client: &Arc<Client>,
    group: &str,
    args: &ConsumeArgs,
    mut signals: StopSignals,
) -> anyhow::Result<()> {
    let options = GroupOptions {
        beginning: beginning(args),
        ..GroupOptions::new(group, &args.topic, &args.tag)
    };
    let mut consumer = GroupConsumer::start(Arc::clone(client), options).await?;
    let mut printer = Printer::new(args);
    let mut outcome = Ok(());
    while outcome.is_ok() && !printer.is_full() {
        tokio::select! {
            delivery = consumer.next() => {
                let Some(delivery) = delivery else { break };
                outcome = printer.print(&delivery.message);
                if outcome.is_ok() {
                    delivery.done();
                }
            }
            _ = signals.received() => break,
            () = tokio::time::sleep(LOOK), if !args.follow => {
                if consumer.is_at_end() {
                    break;
                }
            }
        }
    }
    consumer.stop().await.context("progress was not committed")?;
    outcome
}

/// Without a group: every queue is looked through.
async fn browse(
    client: &Arc<Client>,
    args: &ConsumeArgs,
    mut signals: StopSignals,
) -> anyhow::Result<()> {
    // Brokers always know this group (`MixAll.TOOLS_CONSUMER_GROUP`), so that none is made.
    let puller = PullConsumer::new(Arc::clone(client), "TOOLS_CONSUMER");
    let mut printer = Printer::new(args);
    let mut pulling = JoinSet::new();
    let (sender, mut messages) = mpsc::channel(BUFFER);
    for queue in puller.queues(&args.topic).await? {
        let look = Look {
            puller: puller.clone(),
            offset: puller.offset_of(&queue, beginning(args)).await?,
            // Without --follow the end is where it is now, so that the command ends also when
            // messages come faster than they are printed.
            end: if args.follow { None } else { Some(puller.max_offset(&queue).await?) },
            queue,
            tags: args.tag.clone(),
            messages: sender.clone(),
        };
        pulling.spawn(look.run());
    }
    drop(sender);
    while !printer.is_full() {
        tokio::select! {
            message = messages.recv() => match message {
                Some(message) => printer.print(&message)?,
                None => break,
            },
            Some(finished) = pulling.join_next() => finished.context("a queue was cut off")??,
            _ = signals.received() => return Ok(()),
        }
    }
    // What is still pulling ends with the set.
    Ok(())
}

/// One queue that is looked through.
struct Look {
    puller: PullConsumer,
    queue: MessageQueue,
    offset: i64,
    /// Where to stop, unless it goes on for ever.
    end: Option<i64>,
    tags: String,
    messages: mpsc::Sender<Received>,
}

impl Look {
    async fn run(mut self) -> Result<(), client::PullError> {
        while self.end.is_none_or(|end| self.offset < end) {
            let wanted = PullRequest {
                tags: self.tags.clone(),
                wait: self.end.is_none().then_some(WAIT),
                ..PullRequest::at(self.offset)
            };
            let pulled = match self.puller.pull(&self.queue, &wanted).await {
                Ok(pulled) => pulled,
                Err(error) if self.end.is_none() => {
                    tracing::warn!(%error, "pull failed; it is tried again");
                    tokio::time::sleep(PAUSE).await;
                    continue;
                }
                Err(error) => return Err(error),
            };
            for message in pulled.messages {
                if self.end.is_some_and(|end| message.queue_offset >= end) {
                    return Ok(());
                }
                if self.messages.send(message).await.is_err() {
                    return Ok(());
                }
            }
            // A broker that does not move on has no more, whatever it said before.
            if self.end.is_some() && pulled.next <= self.offset && !pulled.moved {
                return Ok(());
            }
            self.offset = pulled.next;
        }
        Ok(())
    }
}

/// Prints messages until there are enough.
struct Printer {
    json: bool,
    body: bool,
    left: Option<u64>,
}

impl Printer {
    fn new(args: &ConsumeArgs) -> Self {
        Self { json: args.json, body: args.body, left: args.count }
    }

    fn is_full(&self) -> bool {
        self.left == Some(0)
    }

    fn print(&mut self, message: &Received) -> anyhow::Result<()> {
        if self.json {
            output::line(&output::message_json(message).to_string())?;
        } else if self.body {
            output::bytes_line(&message.body)?;
        } else {
            output::line(&output::message_line(message))?;
        }
        self.left = self.left.map(|left| left.saturating_sub(1));
        Ok(())
    }
}

fn beginning(args: &ConsumeArgs) -> Beginning {
    match args.from {
        args::Beginning::First => Beginning::First,
        args::Beginning::Last => Beginning::Last,
        args::Beginning::Time(millis) => Beginning::Time(millis),
    }
}

/// How often a group member looks whether it has reached the end.
const LOOK: Duration = Duration::from_millis(100);
/// How long a broker may hold a pull.
const WAIT: Duration = Duration::from_secs(15);
/// Time after a failed pull.
const PAUSE: Duration = Duration::from_secs(1);
/// Messages that wait to be printed.
const BUFFER: usize = 256;
