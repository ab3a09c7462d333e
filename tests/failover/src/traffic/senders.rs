//! Senders of our client.

use std::{sync::Arc, time::Duration};

use anyhow::Result;
use client::{Client, Message, Producer, ProducerOptions, RequestError, SendError, SendStatus};

use super::{AFTER_FAILURE, Book, DELAYED, Habits};
use crate::{
    held,
    queues::{Attempt, Outcome, Queue},
};

/// The senders of our client.
pub(super) fn senders(
    client: &Arc<Client>,
    habits: &Habits,
    book: &Arc<Book>,
) -> Result<Vec<Sender>> {
    let producers = [habits.patience, habits.impatience].map(|timeout| producer(client, timeout));
    let sender = |number: usize| -> Result<Sender> {
        let id = i32::try_from(number % habits.queues)?;
        Ok(Sender {
            name: format!("c{number}"),
            queue: Queue { topic: habits.topic.clone(), id },
            // Each queue has patient senders and others.
            producer: Arc::clone(&producers[number / habits.queues % 2]),
            pause: habits.pause,
            delay: 0,
            book: Arc::clone(book),
        })
    };
    (0..habits.senders).map(sender).collect()
}

/// The sender of delayed messages.
pub(super) fn delayed(client: &Arc<Client>, habits: &Habits, book: &Arc<Book>) -> Sender {
    Sender {
        name: "later".to_owned(),
        queue: Queue { topic: format!("{}{DELAYED}", habits.topic), id: 0 },
        producer: producer(client, habits.patience),
        pause: BETWEEN_DELAYED,
        delay: 1,
        book: Arc::clone(book),
    }
}

fn producer(client: &Arc<Client>, timeout: Duration) -> Arc<Producer> {
    let group = format!("failover_senders_{}", timeout.as_millis());
    let options = ProducerOptions { timeout, retries: 0, ..ProducerOptions::new(group) };
    Arc::new(Producer::start(Arc::clone(client), options))
}

/// One that sends a message after the other.
pub(super) struct Sender {
    name: String,
    queue: Queue,
    producer: Arc<Producer>,
    pause: Duration,
    /// The level of the delay of its messages; 0 is none.
    delay: u32,
    book: Arc<Book>,
}

impl Sender {
    /// Sends until the clients are to end.
    pub(super) async fn run(self) -> Result<()> {
        let mut number = 0_u64;
        while self.book.goes_on() {
            number += 1;
            self.book.rested().await;
            let key = format!("{}.{number}", self.name);
            let (tag, body) = content(&key, number);
            let hash = held::hash(body.as_bytes(), &tag);
            let message = Message::new(&self.queue.topic, body).tag(&tag).keys(&[&key]);
            let message = if self.delay > 0 { message.delay_level(self.delay) } else { message };
            while !self.attempt(&key, hash, message.clone()).await && self.book.goes_on() {
                tokio::time::sleep(AFTER_FAILURE).await;
                self.book.rested().await;
            }
            tokio::time::sleep(self.pause).await;
        }
        Ok(())
    }

    /// Sends once; whether it was acknowledged.
    async fn attempt(&self, key: &str, body: u64, message: Message) -> bool {
        let from = self.book.now();
        let sent = self.producer.send_to(message, self.queue.id).await;
        let span = self.book.span(from);
        let outcome = match &sent {
            Ok(sent) if sent.status == SendStatus::Stored && self.delay > 0 => Outcome::Later,
            Ok(sent) if sent.status == SendStatus::Stored => Outcome::At(sent.queue_offset),
            Ok(_not_in_time) => Outcome::Unknown,
            Err(error) if is_definite(error) => Outcome::Refused,
            Err(_unknown) => Outcome::Unknown,
        };
        if let Err(error) = &sent {
            tracing::info!(%error, key, ?outcome, "send failed");
        }
        self.book.history().attempts.push(Attempt {
            sender: self.name.clone(),
            key: key.to_owned(),
            body,
            queue: self.queue.clone(),
            span,
            outcome,
        });
        matches!(outcome, Outcome::At(_) | Outcome::Later)
    }
}

/// Tag and body of a message. Bodies have many lengths, so that one that is cut or moved shows. The
/// programs of other languages make them alike.
pub(crate) fn content(key: &str, number: u64) -> (String, String) {
    let length = usize::try_from(number * 37 % 900).unwrap_or(0);
    (format!("tag{}", number % 3), format!("{key} {}", "x".repeat(length)))
}

/// Whether the message is certainly not stored: nothing was sent, or the broker says so.
fn is_definite(error: &SendError) -> bool {
    match error {
        SendError::Malformed { .. }
        | SendError::Route(_)
        | SendError::NoQueue { .. }
        | SendError::OutOfTime { .. }
        | SendError::Stopped(_) => true,
        SendError::Failed { cause, .. } => match cause {
            RequestError::Call { .. } => {
                matches!(cause.kind().as_str(), "NOT_CONNECTED" | "TOO_MANY_CALLS")
            }
            RequestError::Refused { code, .. } => DEFINITE.contains(code),
            RequestError::Answer { .. } => false,
        },
    }
}

/// Response codes that say that a message is not stored: SYSTEM_BUSY, MESSAGE_ILLEGAL,
/// SERVICE_NOT_AVAILABLE, NO_PERMISSION, TOPIC_NOT_EXIST.
pub(crate) const DEFINITE: [i32; 5] = [2, 13, 14, 16, 17];

/// Pause of the sender of delayed messages between two.
const BETWEEN_DELAYED: Duration = Duration::from_millis(50);
