//! Clients that send to queues and read from them, and write down what they were told.
//!
//! They are our own client with routes that are at most a second old. A sender sends one message
//! after the other to its queue, each again until it is acknowledged, and notes every attempt. The
//! reader pulls what comes, commits how far it is, and asks for that again. One more sender sends
//! delayed messages to a topic of their own. In place of the senders, a program with an official
//! client may send: see [`crate::foreign`].

mod readers;
mod senders;

use std::{
    collections::BTreeMap,
    path::{Path, PathBuf},
    sync::{
        Arc, Mutex, MutexGuard, PoisonError,
        atomic::{AtomicBool, Ordering},
    },
    thread::JoinHandle,
    time::{Duration, Instant, SystemTime},
};

use anyhow::{Context, Result, anyhow, ensure};
use client::{Admin, Client, ClientOptions, PullConsumer, TopicSettings};

use self::readers::Reader;
pub(crate) use self::senders::{DEFINITE, content};
use crate::{
    brokers::SERVES,
    foreign::{Foreign, Language},
    queues::{Attempt, History, Outcome, Queue, Span},
};

/// Begin of the names of all topics of these tests.
pub const PREFIX: &str = "FailoverTest";

/// End of the name of the topic of delayed messages.
pub const DELAYED: &str = "Delayed";

/// Group of the reader.
pub const GROUP: &str = "failover_reader";

/// How the clients behave.
#[derive(Debug, Clone)]
pub struct Habits {
    /// The topic; its name begins with [`PREFIX`].
    pub topic: String,
    /// The official client that sends in place of ours.
    pub client: Option<Language>,
    /// Whether delayed messages are sent too.
    pub delayed: bool,
    /// Senders at work at the same time.
    pub senders: usize,
    /// Queues of the topic; senders share them.
    pub queues: usize,
    /// Pause of a sender between two messages.
    pub pause: Duration,
    /// How long a sender waits for one answer.
    pub patience: Duration,
    /// How long every other sender does.
    pub impatience: Duration,
}

impl Default for Habits {
    /// Six senders to three queues: every other one waits as long as Java's clients do.
    fn default() -> Self {
        Self {
            topic: PREFIX.to_owned(),
            client: None,
            delayed: true,
            senders: 6,
            queues: 3,
            pause: Duration::from_millis(2),
            patience: Duration::from_secs(3),
            impatience: Duration::from_millis(700),
        }
    }
}

/// Where a group is.
#[derive(Debug, Clone)]
pub struct At {
    /// The name servers.
    pub namesrv: String,
    /// The name of the brokers.
    pub broker: String,
}

/// Clients at work. Their threads end when this is stopped.
#[derive(Debug)]
pub struct Traffic {
    book: Arc<Book>,
    thread: Option<JoinHandle<Result<()>>>,
}

/// What was written down.
#[derive(Debug)]
pub struct Book {
    started: Instant,
    /// The same moment, in microseconds since 1970.
    epoch: u128,
    history: Mutex<History>,
    stop: AtomicBool,
    pause: AtomicBool,
    /// Where a program of another language has its files.
    folder: PathBuf,
}

impl Traffic {
    /// Makes the topic and starts the clients. It returns when the first message is acknowledged.
    ///
    /// # Errors
    /// Where none is in time.
    pub fn start(at: &At, habits: &Habits, folder: &Path) -> Result<Self> {
        let since = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH);
        let book = Arc::new(Book {
            started: Instant::now(),
            epoch: since.context("a clock behind 1970")?.as_micros(),
            history: Mutex::default(),
            stop: AtomicBool::new(false),
            pause: AtomicBool::new(false),
            folder: folder.join("clients"),
        });
        let (noted, at, habits) = (Arc::clone(&book), at.clone(), habits.clone());
        // The thread is in the network namespace of the one that starts it.
        let thread = std::thread::spawn(move || {
            let runtime = tokio::runtime::Builder::new_multi_thread()
                .worker_threads(2)
                .enable_all()
                .build()
                .context("a runtime for the clients")?;
            runtime.block_on(all(&at, &habits, &noted))
        });
        let mut traffic = Self { book, thread: Some(thread) };
        if let Err(error) = traffic.acknowledged_after(0) {
            // Why there were no clients says more.
            traffic.end().and(Err(error))?;
        }
        Ok(traffic)
    }

    /// Now, on the clock of the history.
    #[must_use]
    pub fn now(&self) -> u64 {
        self.book.now()
    }

    /// What was written down so far.
    #[must_use]
    pub fn book(&self) -> &Book {
        &self.book
    }

    /// Waits for the first acknowledgement of an attempt that began after `from`, and returns when
    /// it came.
    ///
    /// # Errors
    /// Where there is none in time, or the clients have ended.
    pub fn acknowledged_after(&mut self, from: u64) -> Result<u64> {
        let begun = Instant::now();
        loop {
            if let Some(at) = self.book.first_after(from) {
                return Ok(at);
            }
            let ended = self.thread.as_ref().is_none_or(JoinHandle::is_finished);
            ensure!(!ended, "the clients have ended");
            ensure!(
                begun.elapsed() < SERVES,
                "nothing is acknowledged within {} s; last answers:\n{}",
                SERVES.as_secs(),
                self.book.last_answers()
            );
            std::thread::sleep(Duration::from_millis(5));
        }
    }

    /// Lets the clients rest, or go on. What begins after that is not stopped; it returns the
    /// offsets of the group that were acknowledged.
    pub fn pause(&self, pause: bool) -> BTreeMap<Queue, i64> {
        self.book.pause.store(pause, Ordering::Relaxed);
        committed(&self.book.history())
    }

    /// Lets the clients end what they began, and returns what was written down.
    ///
    /// # Errors
    /// What a client met that it should not.
    pub fn stop(mut self) -> Result<History> {
        self.end()?;
        Ok(std::mem::take(&mut *self.book.history()))
    }

    fn end(&mut self) -> Result<()> {
        self.book.stop.store(true, Ordering::Relaxed);
        let Some(thread) = self.thread.take() else { return Ok(()) };
        thread.join().map_err(|_panic| anyhow!("the clients panicked"))?
    }
}

impl Drop for Traffic {
    fn drop(&mut self) {
        self.book.stop.store(true, Ordering::Relaxed);
    }
}

/// The last acknowledged offset of the group in each queue.
#[must_use]
pub fn committed(history: &History) -> BTreeMap<Queue, i64> {
    let mut last = BTreeMap::new();
    for commit in history.commits.iter().filter(|commit| commit.acknowledged) {
        let value = last.entry(commit.queue.clone()).or_insert(commit.value);
        *value = commit.value.max(*value);
    }
    last
}

impl Book {
    /// What was written down so far. Clients wait meanwhile.
    pub fn history(&self) -> MutexGuard<'_, History> {
        self.history.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn now(&self) -> u64 {
        u64::try_from(self.started.elapsed().as_micros()).unwrap_or(u64::MAX)
    }

    fn span(&self, from: u64) -> Span {
        Span { from, to: self.now() }
    }

    /// Whether clients go on.
    pub(crate) fn goes_on(&self) -> bool {
        !self.stop.load(Ordering::Relaxed)
    }

    /// Whether clients rest meanwhile.
    pub(crate) fn rests(&self) -> bool {
        self.pause.load(Ordering::Relaxed)
    }

    /// Microseconds since 1970 at which the clock of the history began.
    pub(crate) fn epoch(&self) -> u128 {
        self.epoch
    }

    /// Where a program of another language has its files.
    pub(crate) fn folder(&self) -> &Path {
        &self.folder
    }

    /// When the first attempt was acknowledged that began after `from`.
    fn first_after(&self, from: u64) -> Option<u64> {
        let history = self.history();
        let attempts = &history.attempts;
        // They are noted when they end, nearly in order.
        let about = attempts.partition_point(|attempt| attempt.span.to < from);
        let rest = attempts[about.saturating_sub(OUT_OF_ORDER)..].iter();
        let counts = |attempt: &&Attempt| {
            attempt.span.from > from && matches!(attempt.outcome, Outcome::At(_))
        };
        rest.filter(counts).map(|attempt| attempt.span.to).min()
    }

    /// Returns when clients do not rest.
    async fn rested(&self) {
        while self.rests() && self.goes_on() {
            tokio::time::sleep(AFTER_FAILURE).await;
        }
    }

    /// For a run in which nothing goes on: what senders were told last.
    fn last_answers(&self) -> String {
        let history = self.history();
        let last = history.attempts.iter().rev().take(5);
        last.map(|one| format!("{} {}: {:?}", one.sender, one.span, one.outcome))
            .collect::<Vec<_>>()
            .join("\n")
    }
}

/// All clients until they are told to stop.
async fn all(at: &At, habits: &Habits, book: &Arc<Book>) -> Result<()> {
    let options =
        ClientOptions { route_age: Duration::from_secs(1), ..ClientOptions::new(&at.namesrv) };
    let client = Client::new(options)?;
    let queues = i32::try_from(habits.queues)?;
    create(&client, &at.broker, &habits.topic, queues).await?;
    create(&client, &at.broker, &format!("{}{DELAYED}", habits.topic), 1).await?;
    let mut tasks = tokio::task::JoinSet::new();
    match habits.client {
        Some(language) => {
            let foreign = Foreign::start(language, &at.namesrv, habits, book)?;
            tasks.spawn(foreign.run(Arc::clone(book)));
        }
        None => {
            for sender in senders::senders(&client, habits, book)? {
                tasks.spawn(sender.run());
            }
        }
    }
    if habits.delayed {
        tasks.spawn(senders::delayed(&client, habits, book).run());
    }
    for id in 0..habits.queues {
        let reader = Reader {
            queue: Queue { topic: habits.topic.clone(), id: i32::try_from(id)? },
            consumer: PullConsumer::new(Arc::clone(&client), GROUP),
            next: 0,
            book: Arc::clone(book),
        };
        tasks.spawn(reader.run());
    }
    while let Some(ended) = tasks.join_next().await {
        ended.context("a client panicked")??;
    }
    client.close();
    Ok(())
}

/// Makes a topic at the master of these brokers, once there is one.
async fn create(client: &Arc<Client>, broker: &str, topic: &str, queues: i32) -> Result<()> {
    let settings = TopicSettings { name: topic.to_owned(), queues, perm: 6 };
    let admin = Admin::new(Arc::clone(client));
    let begun = Instant::now();
    loop {
        let made = create_once(&admin, broker, &settings).await;
        let Err(error) = made else { return Ok(()) };
        ensure!(begun.elapsed() < SERVES, "topic {topic} is not made: {error:#}");
        tokio::time::sleep(AFTER_FAILURE).await;
    }
}

async fn create_once(admin: &Admin, broker: &str, settings: &TopicSettings) -> Result<()> {
    let cluster = admin.cluster().await?;
    let brokers = cluster.broker_addr_table.get(broker);
    let master = brokers.and_then(|brokers| brokers.broker_addrs.get(&0));
    let master = master.with_context(|| format!("no {broker} is listed as master"))?;
    Ok(admin.create_topic(master, settings).await?)
}

/// Attempts that may be noted before one that ended earlier.
const OUT_OF_ORDER: usize = 256;

/// Pause of a client after a failure.
const AFTER_FAILURE: Duration = Duration::from_millis(50);
