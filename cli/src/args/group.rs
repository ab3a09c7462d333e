//! Arguments of `ledgermq admin group`.

use std::{path::PathBuf, time::Duration};

use clap::{Args, Subcommand};

use super::{message::duration, server::key_and_value};

/// A command on a group of brokers that share one log.
#[derive(Debug, Clone, Subcommand)]
#[command(after_help = "\
Examples:
  ledgermq admin group status -c conf/dledger/broker-n0.conf
  ledgermq admin group transfer -c conf/dledger/broker-n0.conf --to n2
  ledgermq admin group recorder --group RaftNode00 \\
      --peers 'n0-127.0.0.1:40911;n1-127.0.0.1:40912;n2-127.0.0.1:40913'

Members are asked on their peer ports. They tell their status to whoever asks, and hand the lead
over at the word of a member's own host.")]
pub(crate) enum GroupCommand {
    /// Show role, marks and health of each member
    Status(GroupOf),
    /// Hand the lead to a follower; clients do not notice
    Transfer {
        #[command(flatten)]
        of: GroupOf,
        /// The member that is to lead; without it the one that has most
        #[arg(long, value_name = "ID")]
        to: Option<String>,
    },
    /// Tell the next step of a take-over of a Java group, node by node, and whether it may be made now
    Takeover(TakeOver),
    /// Show the last turns of each member's life: elections, hand-overs, what its disk did
    Recorder {
        #[command(flatten)]
        of: GroupOf,
        /// Only of this member
        #[arg(long, value_name = "ID")]
        member: Option<String>,
    },
    /// Let the vote of a stopped member that is in doubt count: what it lacks is given up
    #[command(after_help = "\
Examples:
  ledgermq admin group force-start -c broker.conf                  tell what it has and may lack
  ledgermq admin group force-start -c broker.conf --accept-loss

For a group that elects nobody because members are gone for good and those that are left may lack
what they have acknowledged: their logs were rolled back, or their machines went down under
ASYNC_FLUSH. Run it on as many of them as make a majority, then start them. A member with an empty
log is none of them: use force-new on the one that has most. It is refused while the group has a
leader. docs/group.md says more.")]
    ForceStart(ForceArgs),
    /// Make a stopped member a group of its own, where a majority is lost for good
    #[command(after_help = "\
Examples:
  ledgermq admin group force-new -c broker.conf --lost n1 --lost n2
  ledgermq admin group force-new -c broker.conf --lost n1 --lost n2 --accept-loss

It goes on with all entries of its own log, committed or not, in much later terms. Every other member
is to be named, and must not answer. Use the member whose log goes furthest. Afterwards take
dLegerPeers out of broker.conf, start the broker, and never start the lost ones on their folders
again. docs/group.md tells how to add members.")]
    ForceNew(ForceNewArgs),
}

/// Which stopped node.
#[derive(Debug, Clone, Args)]
pub(crate) struct ForceArgs {
    /// broker.conf of the node, as it was in the group
    #[arg(short, long, value_name = "FILE")]
    pub(crate) config: PathBuf,

    /// One configuration key, before those of the file; may be repeated
    #[arg(long, value_name = "KEY=VALUE", value_parser = key_and_value)]
    pub(crate) set: Vec<(String, String)>,

    /// Do it; without this it is only told what would be
    #[arg(long)]
    pub(crate) accept_loss: bool,

    /// Time that a member has to answer
    #[arg(long, value_name = "TIME", default_value = "5s", value_parser = duration)]
    pub(crate) timeout: Duration,
}

/// Arguments of `ledgermq admin group force-new`.
#[derive(Debug, Clone, Args)]
pub(crate) struct ForceNewArgs {
    #[command(flatten)]
    pub(crate) force: ForceArgs,

    /// A member that is lost for good; to be given for each of the others
    #[arg(long, value_name = "ID")]
    pub(crate) lost: Vec<String>,

    /// Take this node though it may lack entries that it has acknowledged
    #[arg(long)]
    pub(crate) accept_doubt: bool,
}

/// Arguments of the take-over.
#[derive(Debug, Clone, Args)]
#[command(after_help = "\
It changes nothing: it asks every member on its peer port and at its client port, compares what they run
with, and tells one step. It fails while no step may be made. On the way back it also waits, up to 14
seconds, until every Java member has copied the tables that the leader had when it was asked.
See docs/migrate.md.")]
pub(crate) struct TakeOver {
    /// broker.conf of any member, which names the group and its members
    #[arg(short, long, value_name = "FILE")]
    pub(crate) config: PathBuf,

    /// Give the group back: from LedgerMQ to Java
    #[arg(long)]
    pub(crate) back: bool,

    /// Time that one call may take
    #[arg(long, value_name = "TIME", default_value = "5s", value_parser = duration)]
    pub(crate) timeout: Duration,
}

/// Which group.
#[derive(Debug, Clone, Args)]
pub(crate) struct GroupOf {
    /// broker.conf of any member, which names the group and its members
    #[arg(
        short,
        long,
        value_name = "FILE",
        required_unless_present = "peers",
        conflicts_with_all = ["peers", "group"]
    )]
    pub(crate) config: Option<PathBuf>,

    /// Name of the group (dLegerGroup)
    #[arg(short, long, value_name = "NAME", requires = "peers")]
    pub(crate) group: Option<String>,

    /// All members, `n0-host:port;n1-host:port;...` (dLegerPeers)
    #[arg(short, long, value_name = "MEMBERS", requires = "group")]
    pub(crate) peers: Option<String>,

    /// Time that one call may take
    #[arg(long, value_name = "TIME", default_value = "5s", value_parser = duration)]
    pub(crate) timeout: Duration,
}
