//! What brokers, clients and tools ask of name servers: registration, routes, keep-alive.
//!
//! Name servers do not know each other. A broker registers at each of them, in parallel; a
//! question goes to one, and to the next when that one does not answer. Host names are resolved
//! at each connect.

mod admin;
mod error;
mod register;

pub use admin::Outcomes;
pub use error::NameServerError;
pub use register::{RegisterAnswer, RegisterBroker, RegisterOutcome};

use std::fmt;
use std::future::Future;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use protocol::Command;
use protocol::body::{ClusterInfo, TopicList, TopicRouteData};
use protocol::code::{request, response};
use protocol::header::{GetRouteInfoRequest, Header};
use remoting::Client;
use tokio::task::JoinSet;

/// Time for one question to one name server.
pub const DEFAULT_TIMEOUT: Duration = Duration::from_secs(3);

/// The name servers that one broker or client knows.
#[derive(Clone)]
pub struct NameServers {
    addresses: Arc<[String]>,
    client: Arc<Client>,
    /// The one that answered last.
    current: Arc<AtomicUsize>,
    timeout: Duration,
}

impl NameServers {
    /// Name servers by their addresses `host:port`.
    pub fn new(addresses: Vec<String>, client: Arc<Client>) -> Self {
        Self {
            addresses: addresses.into(),
            client,
            current: Arc::default(),
            timeout: DEFAULT_TIMEOUT,
        }
    }

    /// The same with another time for one question.
    #[must_use]
    pub fn with_timeout(mut self, timeout: Duration) -> Self {
        self.timeout = timeout;
        self
    }

    /// Splits a list as users write it: `host:port;host:port`, commas and blanks allowed.
    pub fn split(list: &str) -> Vec<String> {
        let parts = list.split([';', ',']).map(str::trim);
        parts.filter(|part| !part.is_empty()).map(str::to_owned).collect()
    }

    /// The addresses.
    pub fn addresses(&self) -> &[String] {
        &self.addresses
    }

    /// Where a topic is; `None` when no broker has it.
    ///
    /// # Errors
    /// No name server answered, or one answered with what is not understood.
    pub async fn route(&self, topic: &str) -> Result<Option<TopicRouteData>, NameServerError> {
        let header =
            GetRouteInfoRequest { topic: topic.to_owned(), accept_standard_json_only: Some(true) };
        let (address, answer) =
            self.ask_raw(Command::request_with(request::GET_ROUTEINFO_BY_TOPIC, &header)).await?;
        if answer.code == response::TOPIC_NOT_EXIST {
            return Ok(None);
        }
        let answer = accepted(&address, answer)?;
        let route = TopicRouteData::decode(&answer.body)
            .map_err(|error| NameServerError::answer(&address, error))?;
        Ok(Some(route))
    }

    /// All groups of brokers and all clusters.
    ///
    /// # Errors
    /// As for [`Self::route`].
    pub async fn cluster_info(&self) -> Result<ClusterInfo, NameServerError> {
        let (address, answer) =
            self.ask(Command::request(request::GET_BROKER_CLUSTER_INFO)).await?;
        ClusterInfo::decode(&answer.body).map_err(|error| NameServerError::answer(&address, error))
    }

    /// All topics.
    ///
    /// # Errors
    /// As for [`Self::route`].
    pub async fn topic_list(&self) -> Result<TopicList, NameServerError> {
        let (address, answer) =
            self.ask(Command::request(request::GET_ALL_TOPIC_LIST_FROM_NAMESERVER)).await?;
        TopicList::decode(&answer.body).map_err(|error| NameServerError::answer(&address, error))
    }

    /// Asks one name server, the next ones where it does not answer, and tells which answered.
    async fn ask(&self, request: Command) -> Result<(String, Command), NameServerError> {
        let (address, answer) = self.ask_raw(request).await?;
        let answer = accepted(&address, answer)?;
        Ok((address, answer))
    }

    async fn ask_raw(&self, request: Command) -> Result<(String, Command), NameServerError> {
        let start = self.current.load(Ordering::Relaxed);
        let count = self.addresses.len();
        let mut failure = NameServerError::NoneConfigured;
        for step in 0..count {
            let index = (start + step) % count;
            let Some(address) = self.addresses.get(index) else { break };
            match self.client.call(address, request.clone(), self.timeout).await {
                Ok(answer) => {
                    self.current.store(index, Ordering::Relaxed);
                    return Ok((address.clone(), answer));
                }
                Err(error) => {
                    tracing::debug!(address, %error, "the name server did not answer");
                    failure = NameServerError::call(address, error);
                }
            }
        }
        Err(failure)
    }

    /// Sends one request to every name server at once.
    async fn ask_all<T, F>(
        &self,
        request: &Command,
        timeout: Duration,
        read: F,
    ) -> Vec<(String, Result<T, NameServerError>)>
    where
        T: Send + 'static,
        F: Fn(&str, Command) -> Result<T, NameServerError> + Send + Clone + 'static,
    {
        let mut calls = JoinSet::new();
        for (index, address) in self.addresses.iter().enumerate() {
            let call = self.ask_one(address.clone(), request.clone(), timeout);
            let read = read.clone();
            calls.spawn(async move {
                let (address, answer) = call.await;
                let result = answer.and_then(|answer| read(&address, answer));
                (index, address, result)
            });
        }
        let mut outcomes = Vec::with_capacity(self.addresses.len());
        while let Some(joined) = calls.join_next().await {
            match joined {
                Ok(outcome) => outcomes.push(outcome),
                Err(error) => tracing::error!(%error, "a call to a name server failed"),
            }
        }
        outcomes.sort_by_key(|outcome| outcome.0);
        outcomes.into_iter().map(|(_, address, result)| (address, result)).collect()
    }

    fn ask_one(
        &self,
        address: String,
        request: Command,
        timeout: Duration,
    ) -> impl Future<Output = (String, Result<Command, NameServerError>)> + Send + use<> {
        let client = Arc::clone(&self.client);
        async move {
            let answer = client.call(&address, request, timeout).await;
            let answer = answer
                .map_err(|error| NameServerError::call(&address, error))
                .and_then(|answer| accepted(&address, answer));
            (address, answer)
        }
    }
}

impl fmt::Debug for NameServers {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter
            .debug_struct("NameServers")
            .field("addresses", &self.addresses)
            .finish_non_exhaustive()
    }
}

/// An answer that is no error.
fn accepted(address: &str, answer: Command) -> Result<Command, NameServerError> {
    if answer.code == response::SUCCESS {
        return Ok(answer);
    }
    Err(NameServerError::Rejected {
        address: address.to_owned(),
        code: answer.code,
        remark: answer.remark.unwrap_or_default(),
    })
}

fn header_of<H: Header>(address: &str, answer: &Command) -> Result<H, NameServerError> {
    answer.header().map_err(|error| NameServerError::answer(address, error))
}

#[cfg(test)]
mod tests;
