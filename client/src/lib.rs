//! The native client: producer, pull consumer, group consumer and the calls of `ledgermq admin`.
//!
//! Everything starts from one [`Client`], which knows the name servers, keeps the connections and
//! routes, and sends the heartbeats of the producers and consumers that are made from it. Every
//! queue in here has a bound: sends that wait for an answer, messages that wait for the
//! application, routes that are remembered.

mod admin;
mod allocation;
mod body;
mod client;
mod error;
mod group;
mod members;
mod message;
mod pop;
mod producer;
mod progress;
mod pull;
mod request;
mod route_cache;
mod routes;
mod unique_id;

pub use admin::{Admin, GroupProgress, QueueProgress, Reset, TopicSettings};
pub use body::UnpackError;
pub use client::{Client, ClientOptions};
pub use error::{
    AdminError, GroupError, OffsetError, PullError, RequestError, RouteError, SendError,
};
pub use group::{Delivery, GroupConsumer, GroupOptions};
pub use message::{Message, Received};
pub use pop::{PopConsumer, PopRequest, Popped, Pops};
pub use producer::{Producer, ProducerOptions, SendStatus, Sent};
pub use protocol::body::MessageQueue;
pub use pull::{Beginning, PullConsumer, PullRequest, Pulled};
pub use remoting::{
    Secret, TlsClient, TlsClientSettings, TlsError, TlsKeyError, TlsMode, TlsSettings,
};
pub use routes::Route;

#[cfg(test)]
mod tests;
