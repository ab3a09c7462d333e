//! The thread that runs the engine.

use std::{
    sync::{Arc, PoisonError, atomic::Ordering},
    time::{Duration, Instant},
};

use crate::{
    Completed, Event, Sink, Transport,
    disk_log::lock,
    engine::Engine,
    flusher::since,
    mailbox::{Counted, Mail, Shared},
};

/// How long a stop waits for what is in flight.
const STOP_PATIENCE: Duration = Duration::from_secs(10);

/// The engine on its thread.
pub(crate) struct Driver<T> {
    pub(crate) engine: Engine<Counted<T>>,
    pub(crate) shared: Arc<Shared<T>>,
    pub(crate) sink: Arc<dyn Sink<T>>,
    pub(crate) transport: Arc<dyn Transport>,
    pub(crate) started: Instant,
}

impl<T: Send + 'static> Driver<T> {
    /// Runs until a stop is asked for and everything in flight has ended.
    pub(crate) fn run(mut self) -> Result<(), String> {
        let mut stop_at = None;
        self.step(Event::Tick);
        loop {
            let mail = self.wait();
            for event in mail.events {
                self.step(event);
            }
            if mail.submitted.is_empty() {
                self.step(Event::Tick);
            } else {
                self.step(Event::Submitted(mail.submitted));
            }
            if mail.stopping {
                let stop_at = *stop_at.get_or_insert_with(|| Instant::now() + STOP_PATIENCE);
                let failed = self.engine.status().failure.is_some();
                if self.engine.is_idle() || failed || Instant::now() >= stop_at {
                    return self.finish();
                }
            }
        }
    }

    fn wait(&self) -> Mail<T> {
        let mut mailbox = lock(&self.shared.mailbox);
        if mailbox.is_empty() {
            let now = since(self.started);
            let until = self.engine.timeout().map(|at| at.since(now));
            let longest = if mailbox.stopping { 10 } else { 1000 };
            let nap = Duration::from_millis(until.unwrap_or(longest).min(longest));
            if !nap.is_zero() {
                mailbox = self
                    .shared
                    .wake
                    .wait_timeout(mailbox, nap)
                    .unwrap_or_else(PoisonError::into_inner)
                    .0;
            }
        }
        mailbox.take()
    }

    fn step(&mut self, event: Event<Counted<T>>) {
        self.engine.handle(since(self.started), event);
        while let Some(job) = self.engine.poll_job() {
            self.shared.hand_out(job);
        }
        while let Some(outgoing) = self.engine.poll_send() {
            self.transport.send(outgoing);
        }
        while let Some(answer) = self.engine.poll_answer() {
            self.shared.answer(answer);
        }
        self.publish();
    }

    fn publish(&mut self) {
        let completed = self.engine.take_completed();
        if !completed.is_empty() {
            self.complete(completed);
        }
        let status = self.engine.status();
        self.shared.status.send_if_modified(|known| {
            let changed = known != status;
            if changed {
                known.clone_from(status);
            }
            changed
        });
        let committed = self.engine.log().committed_entries();
        if *self.shared.committed.borrow() != committed {
            self.shared.committed.send_replace(committed);
        }
    }

    fn complete(&self, completed: Vec<Completed<Counted<T>>>) {
        let mut bytes = 0;
        let group = completed
            .into_iter()
            .map(|Completed { token: Counted { token, bytes: own }, result }| {
                bytes += own;
                Completed { token, result }
            })
            .collect();
        self.shared.pending_bytes.fetch_sub(bytes, Ordering::Relaxed);
        self.sink.completed(group);
    }

    fn finish(mut self) -> Result<(), String> {
        lock(&self.shared.mailbox).closed = true;
        self.transport.stop();
        self.shared.stop_threads();
        let closed = self.engine.close();
        self.publish();
        self.shared.forget_asked();
        self.shared.log.wake_readers();
        match (&self.engine.status().failure, closed) {
            (Some(failure), _) => Err(failure.clone()),
            (None, Err(error)) => Err(format!("log could not be closed: {error}")),
            (None, Ok(())) => Ok(()),
        }
    }
}
