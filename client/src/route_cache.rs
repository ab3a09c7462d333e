//! Routes that are kept for a while.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use namesrv_client::{NameServerError, NameServers};
use protocol::body::TopicRouteData;
use tokio::{sync::Notify, time::Instant};

/// Topics that are remembered; beyond it those not asked for longest are forgotten.
const TOPICS_KEPT: usize = 10_000;

/// How long a new answer is waited for by who knows a route.
const PATIENCE: Duration = Duration::from_millis(300);

/// Where topics are, asked again when the answer is older than the refresh time.
#[derive(Debug)]
pub(crate) struct RouteCache {
    servers: NameServers,
    refresh: Duration,
    entries: Mutex<HashMap<String, Arc<Entry>>>,
}

#[derive(Debug)]
struct Entry {
    known: Mutex<Option<Known>>,
    /// Held while asking, so that callers share one question.
    asking: tokio::sync::Mutex<()>,
    /// Since when a question is asked on behalf of those that have a route already.
    asked: Mutex<Option<Instant>>,
    /// Tells them that it is over.
    over: Notify,
    used: Mutex<Instant>,
}

/// What is known of a topic for a caller.
enum Look {
    /// A route that is young enough for it.
    Young(Arc<TopicRouteData>),
    /// One that is old, or doubted.
    Old(Arc<TopicRouteData>),
    /// None.
    Nothing,
}

#[derive(Debug, Clone)]
struct Known {
    at: Instant,
    doubted: bool,
    route: Arc<TopicRouteData>,
}

impl RouteCache {
    /// An empty cache over some name servers.
    pub(crate) fn new(servers: NameServers, refresh: Duration) -> Self {
        Self { servers, refresh, entries: Mutex::default() }
    }

    /// The name servers behind it.
    pub(crate) fn servers(&self) -> &NameServers {
        &self.servers
    }

    /// Where a topic is; `None` when no broker has it. Where no name server answers, the last
    /// known route is better than none, and none is waited for longer than [`PATIENCE`]: who sends
    /// must not depend on a name server that is silent.
    ///
    /// # Errors
    /// No name server answered and no route is known.
    pub(crate) async fn route(
        &self,
        topic: &str,
    ) -> Result<Option<Arc<TopicRouteData>>, NameServerError> {
        let begun = Instant::now();
        let entry = self.entry(topic, begun);
        match entry.look(begun, self.refresh) {
            Look::Young(route) => Ok(Some(route)),
            Look::Old(route) => Ok(self.renewed(topic, &entry, route).await),
            Look::Nothing => entry.ask(&self.servers, topic, self.refresh).await,
        }
    }

    /// Has the route of a topic asked again at its next use, as after a broker did not answer. It
    /// is still used if no name server answers then.
    pub(crate) fn doubt(&self, topic: &str) {
        let entry = self.lock().get(topic).cloned();
        if let Some(entry) = entry
            && let Some(known) = lock(&entry.known).as_mut()
        {
            known.doubted = true;
        }
    }

    /// The routes of all topics that were asked for.
    pub(crate) fn known(&self) -> Vec<Arc<TopicRouteData>> {
        let entries: Vec<_> = self.lock().values().cloned().collect();
        let mut routes = Vec::with_capacity(entries.len());
        for entry in entries {
            routes.extend(lock(&entry.known).as_ref().map(|known| Arc::clone(&known.route)));
        }
        routes
    }

    /// The new route, or `old` where it does not come in time.
    async fn renewed(
        &self,
        topic: &str,
        entry: &Arc<Entry>,
        old: Arc<TopicRouteData>,
    ) -> Option<Arc<TopicRouteData>> {
        let over = entry.over.notified();
        tokio::pin!(over);
        // From here on no end of a question is missed.
        over.as_mut().enable();
        let now = Instant::now();
        let since = *lock(&entry.asked).get_or_insert_with(|| {
            let (entry, servers) = (Arc::clone(entry), self.servers.clone());
            let (topic, refresh) = (topic.to_owned(), self.refresh);
            tokio::spawn(async move {
                if let Err(error) = entry.ask(&servers, &topic, refresh).await {
                    tracing::warn!(topic, %error, "the last known route is used");
                }
                *lock(&entry.asked) = None;
                entry.over.notify_waiters();
            });
            now
        });
        let in_time = tokio::time::timeout_at(since + PATIENCE, over).await.is_ok();
        let known = lock(&entry.known).as_ref().map(|known| Arc::clone(&known.route));
        if in_time { known } else { known.or(Some(old)) }
    }

    fn entry(&self, topic: &str, now: Instant) -> Arc<Entry> {
        let mut entries = self.lock();
        if let Some(entry) = entries.get(topic) {
            *entry.used() = now;
            return Arc::clone(entry);
        }
        if entries.len() >= TOPICS_KEPT
            && let Some(oldest) = oldest(&entries)
        {
            entries.remove(&oldest);
        }
        let entry = Arc::new(Entry::new(now));
        entries.insert(topic.to_owned(), Arc::clone(&entry));
        entry
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<String, Arc<Entry>>> {
        lock(&self.entries)
    }
}

impl Entry {
    fn new(now: Instant) -> Self {
        Self {
            known: Mutex::default(),
            asking: tokio::sync::Mutex::default(),
            asked: Mutex::default(),
            over: Notify::new(),
            used: Mutex::new(now),
        }
    }

    fn used(&self) -> MutexGuard<'_, Instant> {
        lock(&self.used)
    }

    /// What is known for a caller that began to look at `begun`.
    fn look(&self, begun: Instant, refresh: Duration) -> Look {
        match lock(&self.known).as_ref() {
            Some(known)
                if known.at >= begun || (known.at.elapsed() < refresh && !known.doubted) =>
            {
                Look::Young(Arc::clone(&known.route))
            }
            Some(known) => Look::Old(Arc::clone(&known.route)),
            None => Look::Nothing,
        }
    }

    /// Asks, and keeps the answer. An answer that came while this caller waited is new enough.
    async fn ask(
        &self,
        servers: &NameServers,
        topic: &str,
        refresh: Duration,
    ) -> Result<Option<Arc<TopicRouteData>>, NameServerError> {
        let begun = Instant::now();
        let _one_at_a_time = self.asking.lock().await;
        if let Look::Young(route) = self.look(begun, refresh) {
            return Ok(Some(route));
        }
        let route = servers.route(topic).await?.map(Arc::new);
        // What does not exist may be created at any moment: it is asked for each time.
        *lock(&self.known) =
            route.clone().map(|route| Known { at: Instant::now(), doubted: false, route });
        Ok(route)
    }
}

/// A panic of another holder leaves what is locked usable: each change is whole.
fn lock<T>(locked: &Mutex<T>) -> MutexGuard<'_, T> {
    locked.lock().unwrap_or_else(PoisonError::into_inner)
}

fn oldest(entries: &HashMap<String, Arc<Entry>>) -> Option<String> {
    let oldest = entries.iter().min_by_key(|(_, entry)| *entry.used())?;
    Some(oldest.0.clone())
}
