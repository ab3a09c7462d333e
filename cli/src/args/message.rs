//! Arguments of `send` and `consume`.

use std::{str::FromStr, time::Duration};

use clap::Args;
use client::ClientOptions;

use super::{server::key_and_value, tls::TlsArgs};

/// Where the name servers are.
#[derive(Debug, Clone, Args)]
pub(crate) struct NamesrvArgs {
    /// Name servers, `host:port;host:port` [default: the environment variable NAMESRV_ADDR, or
    /// 127.0.0.1:9876]
    #[arg(short = 'n', long = "namesrv", global = true, value_name = "ADDRS")]
    pub(crate) namesrv: Option<String>,

    #[command(flatten)]
    pub(crate) tls: TlsArgs,
}

impl NamesrvArgs {
    /// A client's options by these flags.
    pub(crate) fn options(&self) -> anyhow::Result<ClientOptions> {
        Ok(ClientOptions { tls: self.tls.client()?, ..ClientOptions::new(self.addresses()) })
    }

    /// The addresses to use: the flag, else the environment, else the standalone's.
    pub(super) fn addresses(&self) -> String {
        self.namesrv
            .clone()
            .or_else(|| std::env::var("NAMESRV_ADDR").ok().filter(|text| !text.trim().is_empty()))
            .unwrap_or_else(|| "127.0.0.1:9876".to_owned())
    }
}

/// Arguments of `ledgermq send`.
#[derive(Debug, Clone, Args)]
#[command(after_help = "\
Examples:
  ledgermq send TopicTest 'Hello'
  ledgermq send TopicTest --tag TagA --key order-1 --property colour=blue 'Hello'
  ledgermq send TopicTest --count 1000 'Hello'       a thousand of them, several at a time
  cat lines.txt | ledgermq send TopicTest            each line is a message")]
pub(crate) struct SendArgs {
    /// The topic; a broker that allows it makes a new one
    pub(crate) topic: String,

    /// The body; without it each line of standard input is a message
    pub(crate) body: Option<String>,

    /// The tag
    #[arg(short, long, value_name = "TAG")]
    pub(crate) tag: Option<String>,

    /// A key by which the message is found again; may be repeated
    #[arg(short, long = "key", value_name = "KEY")]
    pub(crate) keys: Vec<String>,

    /// A property of the message; may be repeated
    #[arg(short, long = "property", value_name = "NAME=VALUE", value_parser = key_and_value)]
    pub(crate) properties: Vec<(String, String)>,

    /// How often each message is sent
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = clap::value_parser!(u64).range(1..))]
    pub(crate) count: u64,

    /// Delay level, 1 (1s) to 18 (2h) with the broker's default levels
    #[arg(long, value_name = "LEVEL", value_parser = clap::value_parser!(u32).range(1..))]
    pub(crate) delay_level: Option<u32>,

    /// Id of the queue; without it the queues take turns
    #[arg(long, value_name = "ID", value_parser = clap::value_parser!(i32).range(0..))]
    pub(crate) queue: Option<i32>,

    /// Producer group
    #[arg(long, value_name = "GROUP", default_value = "ledgermq_cli_producer")]
    pub(crate) group: String,

    /// Do not wait for an answer: faster, and nobody knows whether it arrived
    #[arg(long)]
    pub(crate) oneway: bool,

    /// How many sends may wait for their answer at a time
    #[arg(long, value_name = "N", default_value_t = 64, value_parser = clap::value_parser!(u16).range(1..=4096))]
    pub(crate) window: u16,

    /// Time that one message may take, repeats on other brokers included
    #[arg(long, value_name = "TIME", default_value = "3s", value_parser = duration)]
    pub(crate) timeout: Duration,

    /// Print one JSON object for each message
    #[arg(long)]
    pub(crate) json: bool,

    #[command(flatten)]
    pub(crate) namesrv: NamesrvArgs,
}

/// Arguments of `ledgermq consume`.
#[derive(Debug, Clone, Args)]
#[command(after_help = "\
Examples:
  ledgermq consume TopicTest                         everything that is there, then leave
  ledgermq consume TopicTest --follow                and wait for more
  ledgermq consume TopicTest --from 10m              of the last ten minutes
  ledgermq consume TopicTest --group my_group        as a member of a group, which remembers
                                                     how far it is
  ledgermq consume TopicTest --tag 'TagA || TagB' --count 5 --json")]
pub(crate) struct ConsumeArgs {
    /// The topic
    pub(crate) topic: String,

    /// Consumer group to join: its members share the queues and their progress is kept
    ///
    /// Without a group the messages are only looked at, and no progress is kept.
    #[arg(short, long, value_name = "GROUP")]
    pub(crate) group: Option<String>,

    /// Where to begin: first, last, a time (2026-11-29T16:00:00Z or milliseconds) or an age (10m)
    ///
    /// A group begins here only in queues of which it has no progress yet.
    #[arg(long, value_name = "WHERE", default_value = "first")]
    pub(crate) from: Beginning,

    /// Tags to take, `TagA || TagB`
    #[arg(short, long, value_name = "TAGS", default_value = "*")]
    pub(crate) tag: String,

    /// Leave after this many messages
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..))]
    pub(crate) count: Option<u64>,

    /// Wait for more instead of leaving at the end
    #[arg(short, long)]
    pub(crate) follow: bool,

    /// Print one JSON object for each message
    #[arg(long, conflicts_with = "body")]
    pub(crate) json: bool,

    /// Print only the bodies, one a line
    #[arg(long)]
    pub(crate) body: bool,

    #[command(flatten)]
    pub(crate) namesrv: NamesrvArgs,
}

/// Where a consumer begins.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Beginning {
    /// At the oldest message.
    First,
    /// Behind the newest one.
    Last,
    /// At the first message stored at this time or later, in milliseconds since 1970.
    Time(i64),
}

impl FromStr for Beginning {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        match text {
            "first" => Ok(Self::First),
            "last" => Ok(Self::Last),
            _ => time(text).map(Self::Time).ok_or_else(|| {
                "give first, last, a time such as 2026-11-29T16:00:00Z or 1795968000000, or an \
                 age such as 10m"
                    .to_owned()
            }),
        }
    }
}

/// Milliseconds since 1970 of a time or an age.
pub(super) fn time(text: &str) -> Option<i64> {
    if let Ok(millis) = text.parse::<i64>() {
        // Fewer digits are a slip (seconds, a year); such a time would silently mean "first".
        return (millis >= 100_000_000_000).then_some(millis);
    }
    if let Ok(at) = text.parse::<jiff::Timestamp>() {
        return Some(at.as_millisecond());
    }
    let age =
        jiff::SignedDuration::from_str(text).ok().filter(jiff::SignedDuration::is_positive)?;
    Some(jiff::Timestamp::now().checked_sub(age).ok()?.as_millisecond())
}

/// A span such as `3s` or `500ms`.
pub(super) fn duration(text: &str) -> Result<Duration, String> {
    let refuse = || format!("{text:?} is no span of time above zero; give one such as 3s or 500ms");
    let span =
        jiff::SignedDuration::from_str(text).map_err(|error| format!("{}: {error}", refuse()))?;
    match Duration::try_from(span) {
        Ok(span) if !span.is_zero() => Ok(span),
        _ => Err(refuse()),
    }
}
