//! Why an operation of the client failed: one enum an operation.

use namesrv_client::NameServerError;
use protocol::{body::BodyError, header::HeaderError};
use remoting::CallError;

/// One request to one address that did not succeed.
#[derive(Debug, thiserror::Error)]
pub enum RequestError {
    /// No answer came.
    #[error("{operation}: {cause}")]
    Call {
        /// What was asked for.
        operation: &'static str,
        /// What happened on the way.
        cause: CallError,
    },
    /// The peer answered that it did not do it.
    #[error("{operation} was refused by {address} with code {code} {name}: {remark}")]
    Refused {
        /// What was asked for.
        operation: &'static str,
        /// Who answered.
        address: String,
        /// Response code.
        code: i32,
        /// Java's name of the code, empty where it has none.
        name: &'static str,
        /// Text of the peer.
        remark: String,
    },
    /// The peer answered something that is no answer to the request.
    #[error("answer of {address} to {operation} cannot be read: {reason}")]
    Answer {
        /// What was asked for.
        operation: &'static str,
        /// Who answered.
        address: String,
        /// What is wrong with it.
        reason: String,
    },
}

impl RequestError {
    /// The response code, where the peer gave one.
    pub fn code(&self) -> Option<i32> {
        match self {
            Self::Refused { code, .. } => Some(*code),
            Self::Call { .. } | Self::Answer { .. } => None,
        }
    }

    /// A short name by which errors of one kind are counted: Java's name of the response code, or
    /// what happened on the way, as `TIMEOUT`.
    pub fn kind(&self) -> String {
        match self {
            Self::Refused { code, name: "", .. } => format!("CODE_{code}"),
            Self::Refused { name, .. } => (*name).to_owned(),
            Self::Answer { .. } => "MALFORMED_ANSWER".to_owned(),
            Self::Call { cause, .. } => match cause {
                CallError::Connect { .. } => "NOT_CONNECTED",
                CallError::Timeout { .. } => "TIMEOUT",
                CallError::Closed { .. } | CallError::NotOpen { .. } => "CONNECTION_CLOSED",
                CallError::Overloaded { .. } => "TOO_MANY_CALLS",
            }
            .to_owned(),
        }
    }
}

/// What is wrong with an answer's header or body.
#[derive(Debug, thiserror::Error)]
pub(crate) enum Unreadable {
    #[error(transparent)]
    Header(#[from] HeaderError),
    #[error(transparent)]
    Body(#[from] BodyError),
}

/// Why the route of a topic is not known.
#[derive(Debug, thiserror::Error)]
pub enum RouteError {
    /// No name server address was given.
    #[error("no name server address was given; give host:port, several separated by `;`")]
    NoNamesrv,
    /// Name servers answered that no broker has the topic.
    #[error("topic {topic} has no route: no broker has registered it at {namesrv}")]
    Unknown {
        /// The topic.
        topic: String,
        /// The name servers that were asked.
        namesrv: String,
    },
    /// No name server answered.
    #[error("route of topic {topic} could not be asked for: {cause}")]
    NameServer {
        /// The topic.
        topic: String,
        /// What the last of them said.
        cause: NameServerError,
    },
}

/// Why a message was not sent, as far as is known.
#[derive(Debug, thiserror::Error)]
pub enum SendError {
    /// The message itself cannot be sent.
    #[error("message to topic {topic} is malformed: {reason}")]
    Malformed {
        /// Its topic.
        topic: String,
        /// What is wrong with it.
        reason: String,
    },
    /// Where to send it is not known.
    #[error(transparent)]
    Route(#[from] RouteError),
    /// No broker takes messages of the topic now.
    #[error(
        "topic {topic} has no writable queue{}: no master of it is registered, or it forbids \
         writing",
        queue.map(|id| format!(" {id}")).unwrap_or_default()
    )]
    NoQueue {
        /// The topic.
        topic: String,
        /// The queue that was asked for.
        queue: Option<i32>,
    },
    /// Every attempt failed. The message may have been stored if an attempt got no answer.
    #[error("message to topic {topic} was not confirmed in {attempts} attempt(s): {cause}")]
    Failed {
        /// The topic.
        topic: String,
        /// How often it was sent.
        attempts: u32,
        /// Why the last of them failed.
        cause: RequestError,
    },
    /// The time was over before an attempt could be made.
    #[error("message to topic {topic} was not sent within {} ms", timeout.as_millis())]
    OutOfTime {
        /// The topic.
        topic: String,
        /// The time it had.
        timeout: std::time::Duration,
    },
    /// The producer was stopped.
    #[error("producer of group {0} is stopped")]
    Stopped(String),
}

impl SendError {
    /// A short name by which errors of one kind are counted; see [`RequestError::kind`].
    pub fn kind(&self) -> String {
        match self {
            Self::Failed { cause, .. } => cause.kind(),
            Self::Malformed { .. } => "MALFORMED_MESSAGE".to_owned(),
            Self::Route(_) => "NO_ROUTE".to_owned(),
            Self::NoQueue { .. } => "NO_QUEUE".to_owned(),
            Self::OutOfTime { .. } => "TIMEOUT".to_owned(),
            Self::Stopped(_) => "STOPPED".to_owned(),
        }
    }
}

/// Why nothing was pulled.
#[derive(Debug, thiserror::Error)]
pub enum PullError {
    /// Where the queue lies is not known.
    #[error(transparent)]
    Route(#[from] RouteError),
    /// No broker of that name is in the route.
    #[error("broker {broker} of topic {topic} is not registered")]
    NoBroker {
        /// The topic.
        topic: String,
        /// Name of the broker.
        broker: String,
    },
    /// The broker did not give messages.
    #[error(transparent)]
    Request(#[from] RequestError),
}

impl PullError {
    /// A short name by which errors of one kind are counted; see [`RequestError::kind`].
    pub fn kind(&self) -> String {
        match self {
            Self::Request(cause) => cause.kind(),
            Self::Route(_) => "NO_ROUTE".to_owned(),
            Self::NoBroker { .. } => "NO_BROKER".to_owned(),
        }
    }
}

/// Why an offset could not be read or written.
#[derive(Debug, thiserror::Error)]
pub enum OffsetError {
    /// Where the queue lies is not known.
    #[error(transparent)]
    Route(#[from] RouteError),
    /// No broker of that name is in the route.
    #[error("broker {broker} of topic {topic} is not registered")]
    NoBroker {
        /// The topic.
        topic: String,
        /// Name of the broker.
        broker: String,
    },
    /// The broker did not answer with it.
    #[error(transparent)]
    Request(#[from] RequestError),
}

/// Why a group consumer could not start.
#[derive(Debug, thiserror::Error)]
pub enum GroupError {
    /// A subscribed topic has no route.
    #[error(transparent)]
    Route(#[from] RouteError),
    /// Another consumer of this client has the group.
    #[error("group {0} already has a consumer in this client; use another client")]
    Taken(String),
    /// No broker of the topic took the heartbeat.
    #[error("group {group} could not be announced: {cause}")]
    Heartbeat {
        /// The group.
        group: String,
        /// What the last broker said.
        cause: RequestError,
    },
}

/// Why an admin call failed.
#[derive(Debug, thiserror::Error)]
pub enum AdminError {
    /// A name server or broker did not do it.
    #[error(transparent)]
    Request(#[from] RequestError),
    /// No name server did it.
    #[error(transparent)]
    NameServer(#[from] NameServerError),
    /// Where a topic lies is not known.
    #[error(transparent)]
    Route(#[from] RouteError),
    /// There is no master to ask.
    #[error("{0}")]
    NoBroker(String),
    /// An id is not one.
    #[error("{id:?} is not a message id: {reason}")]
    MessageId {
        /// What was given.
        id: String,
        /// What is wrong with it.
        reason: String,
    },
}
