//! Arguments of `ledgermq admin`.

use std::str::FromStr;

use clap::{Args, Subcommand};

use super::{
    group::GroupCommand,
    message::{NamesrvArgs, time},
};

/// Arguments of `ledgermq admin`.
#[derive(Debug, Clone, Args)]
#[command(after_help = "\
Examples:
  ledgermq admin cluster
  ledgermq admin group status -c conf/dledger/broker-n0.conf
  ledgermq admin topic create TopicTest --queues 8
  ledgermq admin topic status TopicTest
  ledgermq admin offsets show my_group
  ledgermq admin offsets reset my_group TopicTest --to 1h
  ledgermq admin message 7F00000100002A9F0000000000000000 --json")]
pub(crate) struct AdminArgs {
    #[command(flatten)]
    pub(crate) namesrv: NamesrvArgs,

    /// Print JSON instead of tables
    #[arg(long, global = true)]
    pub(crate) json: bool,

    #[command(subcommand)]
    pub(crate) command: AdminCommand,
}

/// What to look at or to change.
#[derive(Debug, Clone, Subcommand)]
pub(crate) enum AdminCommand {
    /// Brokers by cluster, with their roles and traffic
    Cluster,
    /// The members of a group that share one log, and who of them leads
    #[command(subcommand)]
    Group(GroupCommand),
    /// Topics
    #[command(subcommand)]
    Topic(TopicCommand),
    /// How far consumer groups are
    #[command(subcommand)]
    Offsets(OffsetsCommand),
    /// One message by its id (of the broker, or with --topic also of the client)
    Message {
        /// The id: 32 hexadecimal digits, 56 with an IPv6 address
        id: String,
        /// Topic of the message, needed for ids that a client gave
        #[arg(short, long)]
        topic: Option<String>,
    },
}

/// A command on topics.
#[derive(Debug, Clone, Subcommand)]
pub(crate) enum TopicCommand {
    /// Names of all topics
    List,
    /// Make a topic, or change the queues and permission of one
    Create {
        /// Name of the topic
        name: String,
        /// Queues on each broker
        #[arg(short, long, value_name = "N", default_value_t = 8, value_parser = clap::value_parser!(i32).range(1..=65_536))]
        queues: i32,
        /// Permission: r, w or rw
        #[arg(short, long, value_name = "PERM", default_value = "rw", value_parser = permission)]
        perm: i32,
        #[command(flatten)]
        place: Place,
    },
    /// Delete a topic with its messages
    Delete {
        /// Name of the topic
        name: String,
        #[command(flatten)]
        place: Place,
    },
    /// Offsets of each queue
    Status {
        /// Name of the topic
        name: String,
    },
    /// Brokers and queues that the name server gives for a topic
    Route {
        /// Name of the topic
        name: String,
    },
}

/// On which brokers.
#[derive(Debug, Clone, Default, Args)]
pub(crate) struct Place {
    /// Only on the masters of this cluster; without it and --broker, on those of all clusters
    #[arg(long, value_name = "NAME", conflicts_with = "broker")]
    pub(crate) cluster: Option<String>,
    /// Only on the broker at this address
    #[arg(long, value_name = "ADDR")]
    pub(crate) broker: Option<String>,
}

/// A command on the progress of a group.
#[derive(Debug, Clone, Subcommand)]
pub(crate) enum OffsetsCommand {
    /// Progress of a group in each queue
    Show {
        /// The consumer group
        group: String,
        /// Only of this topic
        #[arg(short, long)]
        topic: Option<String>,
    },
    /// Set the progress of a group in a topic, also while it consumes
    Reset {
        /// The consumer group
        group: String,
        /// The topic
        topic: String,
        /// New place: first, last, a time (2026-11-29T16:00:00Z or milliseconds), an age (10m) or
        /// with --queue `offset:N`
        #[arg(long, value_name = "WHERE")]
        to: ResetTo,
        /// Only this queue
        #[arg(long, value_name = "ID", value_parser = clap::value_parser!(i32).range(0..))]
        queue: Option<i32>,
    },
}

/// Where a group is set to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum ResetTo {
    /// The oldest message.
    First,
    /// Behind the newest one.
    Last,
    /// The first message stored at this time or later, in milliseconds since 1970.
    Time(i64),
    /// This queue offset.
    Offset(i64),
}

impl FromStr for ResetTo {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        match text {
            "first" => return Ok(Self::First),
            "last" => return Ok(Self::Last),
            _ => {}
        }
        if let Some(offset) = text.strip_prefix("offset:") {
            return match offset.parse() {
                Ok(offset) if offset >= 0 => Ok(Self::Offset(offset)),
                _ => Err(format!("{offset:?} is not an offset; give a number from 0 on")),
            };
        }
        time(text).map(Self::Time).ok_or_else(|| {
            "give first, last, offset:N, a time such as 2026-11-29T16:00:00Z or 1795968000000, or \
             an age such as 10m"
                .to_owned()
        })
    }
}

/// Java's bits of a permission (`PermName.java`: read 4, write 2).
fn permission(text: &str) -> Result<i32, String> {
    match text {
        "r" => Ok(4),
        "w" => Ok(2),
        "rw" | "wr" => Ok(6),
        _ => Err("give r, w or rw".to_owned()),
    }
}
