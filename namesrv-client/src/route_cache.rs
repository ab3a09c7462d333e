//! Routes that are kept for a while.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use protocol::body::TopicRouteData;
use tokio::time::Instant;

use crate::{NameServerError, NameServers};

/// Time that a route is kept (`pollNameServerInterval`).
pub const DEFAULT_REFRESH: Duration = Duration::from_secs(30);

/// Topics that are remembered; beyond it those not asked for longest are forgotten.
const TOPICS_KEPT: usize = 10_000;

/// Where topics are, asked again when the answer is older than the refresh time.
#[derive(Debug)]
pub struct RouteCache {
    servers: NameServers,
    refresh: Duration,
    entries: Mutex<HashMap<String, Arc<Entry>>>,
}

#[derive(Debug)]
struct Entry {
    /// Held while asking, so that callers share one question.
    known: tokio::sync::Mutex<Option<Known>>,
    used: Mutex<Instant>,
}

#[derive(Debug, Clone)]
struct Known {
    at: Instant,
    route: Arc<TopicRouteData>,
}

impl RouteCache {
    /// An empty cache over some name servers.
    pub fn new(servers: NameServers, refresh: Duration) -> Self {
        Self { servers, refresh, entries: Mutex::default() }
    }

    /// The name servers behind it.
    pub fn servers(&self) -> &NameServers {
        &self.servers
    }

    /// Where a topic is; `None` when no broker has it. Where no name server answers, the last
    /// known route is better than none.
    ///
    /// # Errors
    /// No name server answered and no route is known.
    pub async fn route(&self, topic: &str) -> Result<Option<Arc<TopicRouteData>>, NameServerError> {
        self.ask(topic, self.refresh).await
    }

    /// The same, asked now, as after a broker did not answer or does not know the topic.
    ///
    /// # Errors
    /// As for [`Self::route`].
    pub async fn refreshed(
        &self,
        topic: &str,
    ) -> Result<Option<Arc<TopicRouteData>>, NameServerError> {
        self.ask(topic, Duration::ZERO).await
    }

    async fn ask(
        &self,
        topic: &str,
        age: Duration,
    ) -> Result<Option<Arc<TopicRouteData>>, NameServerError> {
        let begun = Instant::now();
        let entry = self.entry(topic, begun);
        let mut known = entry.known.lock().await;
        // An answer that came while this caller waited is new enough for it.
        if let Some(known) = known.as_ref()
            && (known.at >= begun || known.at.elapsed() < age)
        {
            return Ok(Some(Arc::clone(&known.route)));
        }
        match self.servers.route(topic).await {
            Ok(route) => {
                let route = route.map(Arc::new);
                // What does not exist may be created at any moment: it is asked for each time.
                *known = route.clone().map(|route| Known { at: Instant::now(), route });
                Ok(route)
            }
            Err(error) => match known.as_ref().map(|known| Arc::clone(&known.route)) {
                Some(route) => {
                    tracing::warn!(topic, %error, "the last known route is used");
                    Ok(Some(route))
                }
                None => Err(error),
            },
        }
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
        let entry = Arc::new(Entry { known: tokio::sync::Mutex::default(), used: Mutex::new(now) });
        entries.insert(topic.to_owned(), Arc::clone(&entry));
        entry
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<String, Arc<Entry>>> {
        self.entries.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Entry {
    fn used(&self) -> MutexGuard<'_, Instant> {
        self.used.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn oldest(entries: &HashMap<String, Arc<Entry>>) -> Option<String> {
    let oldest = entries.iter().min_by_key(|(_, entry)| *entry.used())?;
    Some(oldest.0.clone())
}
