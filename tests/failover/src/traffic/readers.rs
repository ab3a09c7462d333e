//! Readers of our client.

use std::{sync::Arc, time::Duration};

use anyhow::{Context, Result, ensure};
use client::{MessageQueue, PullConsumer, PullRequest};

use super::{Book, GROUP};
use crate::{
    held,
    queues::{Commit, Extent, Progress, Queue, Seen, Sight},
};

/// One that reads a queue and commits how far it is.
pub(super) struct Reader {
    pub(super) queue: Queue,
    pub(super) consumer: PullConsumer,
    /// Where it goes on.
    pub(super) next: i64,
    pub(super) book: Arc<Book>,
}

impl Reader {
    /// Reads until the clients are to end.
    pub(super) async fn run(mut self) -> Result<()> {
        let name = format!("reader{}", self.queue.id);
        while self.book.goes_on() {
            self.book.rested().await;
            // What fails is tried again: no broker may be there just now.
            self.progress(&name).await;
            self.ends(&name).await;
            if self.pull(&name).await? {
                self.commit().await;
            }
            tokio::time::sleep(READING).await;
        }
        Ok(())
    }

    async fn at(&self) -> Result<MessageQueue> {
        let queues = self.consumer.queues(&self.queue.topic).await?;
        let mut wanted = queues.into_iter().filter(|queue| queue.queue_id == self.queue.id);
        wanted.next().with_context(|| format!("{} is in no route", self.queue))
    }

    /// The ends of the queue as a master tells them. What a pull tells besides may be the word of a
    /// slave, which gives what it has and may be behind.
    async fn ends(&self, by: &str) {
        let Ok(queue) = self.at().await else { return };
        let from = self.book.now();
        let Ok(min) = self.consumer.min_offset(&queue).await else { return };
        let Ok(max) = self.consumer.max_offset(&queue).await else { return };
        let span = self.book.span(from);
        let (by, queue) = (by.to_owned(), self.queue.clone());
        self.book.history().extents.push(Extent { by, queue, span, min, max });
    }

    async fn pull(&mut self, by: &str) -> Result<bool> {
        let from = self.book.now();
        let Ok(queue) = self.at().await else { return Ok(false) };
        let wanted = PullRequest { count: 256, ..PullRequest::at(self.next) };
        let Ok(pulled) = self.consumer.pull(&queue, &wanted).await else { return Ok(false) };
        let given = pulled.messages.iter().map(|message| message.queue_offset);
        let within = given.clone().all(|offset| (pulled.min..pulled.max).contains(&offset));
        ensure!(
            within,
            "{by} was given {:?} of {}, which ends at {} and {}",
            given.collect::<Vec<_>>(),
            self.queue,
            pulled.min,
            pulled.max
        );
        let span = self.book.span(from);
        let mut history = self.book.history();
        for message in &pulled.messages {
            let tag = message.tag().unwrap_or_default();
            let sight = Sight {
                offset: message.queue_offset,
                key: message.keys().collect::<Vec<_>>().join(" "),
                body: held::hash(&message.body, tag),
                position: u64::try_from(message.physical_offset).ok(),
            };
            let queue = self.queue.clone();
            history.seen.push(Seen { by: by.to_owned(), queue, span, sight });
        }
        self.next = self.next.max(pulled.next);
        Ok(true)
    }

    async fn commit(&self) {
        let Ok(queue) = self.at().await else { return };
        let from = self.book.now();
        let acknowledged = self.consumer.commit(&queue, self.next).await.is_ok();
        let span = self.book.span(from);
        let queue = self.queue.clone();
        self.book.history().commits.push(Commit {
            group: GROUP.to_owned(),
            queue,
            span,
            value: self.next,
            reset: false,
            acknowledged,
        });
    }

    async fn progress(&self, by: &str) {
        let Ok(queue) = self.at().await else { return };
        let from = self.book.now();
        let Ok(value) = self.consumer.committed(&queue).await else { return };
        let span = self.book.span(from);
        let (by, group, queue) = (by.to_owned(), GROUP.to_owned(), self.queue.clone());
        self.book.history().progress.push(Progress { by, group, queue, span, value });
    }
}

/// Pause of a reader between two pulls.
const READING: Duration = Duration::from_millis(100);
