//! Arguments of `dledger`.

use std::{net::IpAddr, path::PathBuf, time::Duration};

use clap::{Args, Subcommand, ValueEnum};

use super::{MeasureArgs, message::duration};

/// Arguments of `ledgermq dledger`.
#[derive(Debug, Clone, Args)]
#[command(after_help = "\
Examples:
  P='n0-127.0.0.1:20911;n1-127.0.0.1:20912;n2-127.0.0.1:20913'
  ledgermq dledger server --id n0 --group g --peers \"$P\" --dir data/n0     (and n1, n2)
  ledgermq dledger append --group g --peers \"$P\" 'Hello'
  ledgermq dledger get    --group g --peers \"$P\" 1
  ledgermq dledger status --group g --peers \"$P\"
  ledgermq dledger bench  --group g --peers \"$P\" --json

All but server and status work with a group of Java's DLedger 0.3, too.")]
pub(crate) struct DledgerArgs {
    #[command(subcommand)]
    pub(crate) command: DledgerCommand,
}

impl DledgerArgs {
    /// Whether it runs until it is stopped.
    pub(crate) fn serves(&self) -> bool {
        matches!(self.command, DledgerCommand::Server(_))
    }
}

/// What to do.
#[derive(Debug, Clone, Subcommand)]
pub(crate) enum DledgerCommand {
    /// Run a member of a group whose bodies are any bytes
    Server(DledgerServerArgs),
    /// Append bodies and wait until each is committed
    Append(AppendArgs),
    /// Print entries
    Get(GetArgs),
    /// Show role, term, marks and last events of each member
    Status(StatusArgs),
    /// Hand the leadership over
    Transfer(TransferArgs),
    /// Append as fast as the answers come, and measure
    Bench(DledgerBenchArgs),
}

/// Which group.
#[derive(Debug, Clone, Args)]
pub(crate) struct GroupArgs {
    /// Name of the group (dLegerGroup)
    #[arg(short, long, value_name = "NAME")]
    pub(crate) group: String,

    /// All members, `n0-host:port;n1-host:port;...` (dLegerPeers)
    #[arg(short, long, value_name = "MEMBERS")]
    pub(crate) peers: String,

    /// Time that one call may take
    #[arg(long, value_name = "TIME", default_value = "3s", value_parser = duration)]
    pub(crate) timeout: Duration,
}

/// When an entry counts as kept.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum FlushArg {
    /// Fsynced on a majority
    Sync,
    /// In the page cache of a majority
    Async,
}

/// Arguments of `ledgermq dledger server`.
#[derive(Debug, Clone, Args)]
pub(crate) struct DledgerServerArgs {
    /// This member's id, one character and a number (dLegerSelfId)
    #[arg(long, value_name = "ID")]
    pub(crate) id: String,

    /// Name of the group (dLegerGroup)
    #[arg(short, long, value_name = "NAME")]
    pub(crate) group: String,

    /// All members, `n0-host:port;n1-host:port;...` (dLegerPeers)
    #[arg(short, long, value_name = "MEMBERS")]
    pub(crate) peers: String,

    /// Folder of the log
    #[arg(short, long, value_name = "DIR")]
    pub(crate) dir: PathBuf,

    /// Local address to listen on, at the port that --peers names [default: all]
    #[arg(long, value_name = "IP")]
    pub(crate) bind: Option<IpAddr>,

    /// Bytes of one data file; the same for all members (mappedFileSizeCommitLog)
    #[arg(long, value_name = "BYTES", default_value_t = 1 << 30, value_parser = clap::value_parser!(u64).range(4096..=1 << 40))]
    pub(crate) file_size: u64,

    /// When an entry counts as kept
    #[arg(long, value_name = "POLICY", default_value = "sync")]
    pub(crate) flush: FlushArg,
}

/// Arguments of `ledgermq dledger append`.
#[derive(Debug, Clone, Args)]
pub(crate) struct AppendArgs {
    #[command(flatten)]
    pub(crate) group: GroupArgs,

    /// The bodies; without one each line of standard input is a body
    pub(crate) bodies: Vec<String>,

    /// How often each body is appended
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = clap::value_parser!(u64).range(1..))]
    pub(crate) count: u64,

    /// Append all bodies together, as one batch (members of ours only)
    #[arg(long)]
    pub(crate) batch: bool,

    /// Print one JSON object for each body
    #[arg(long)]
    pub(crate) json: bool,
}

/// Arguments of `ledgermq dledger get`.
#[derive(Debug, Clone, Args)]
pub(crate) struct GetArgs {
    #[command(flatten)]
    pub(crate) group: GroupArgs,

    /// Index of the first entry
    pub(crate) index: u64,

    /// How many entries; fewer are printed where the log ends
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = clap::value_parser!(u64).range(1..))]
    pub(crate) count: u64,

    /// Print only the bodies, one a line
    #[arg(long, conflicts_with = "json")]
    pub(crate) body: bool,

    /// Print one JSON object for each entry
    #[arg(long)]
    pub(crate) json: bool,
}

/// Arguments of `ledgermq dledger status`.
#[derive(Debug, Clone, Args)]
pub(crate) struct StatusArgs {
    #[command(flatten)]
    pub(crate) group: GroupArgs,

    /// Show the last elections, refused votes, truncations and transfers, too
    #[arg(long)]
    pub(crate) events: bool,

    /// Print one JSON object for each member
    #[arg(long)]
    pub(crate) json: bool,
}

/// Arguments of `ledgermq dledger transfer`.
#[derive(Debug, Clone, Args)]
pub(crate) struct TransferArgs {
    #[command(flatten)]
    pub(crate) group: GroupArgs,

    /// Who shall lead
    #[arg(long, value_name = "ID")]
    pub(crate) to: String,
}

/// Arguments of `ledgermq dledger bench`.
#[derive(Debug, Clone, Args)]
pub(crate) struct DledgerBenchArgs {
    #[command(flatten)]
    pub(crate) group: GroupArgs,

    #[command(flatten)]
    pub(crate) measure: MeasureArgs,

    /// Senders that work at the same time
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = clap::value_parser!(u32).range(1..=4096))]
    pub(crate) senders: u32,

    /// Connections, among which the senders are shared out
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = clap::value_parser!(u32).range(1..=256))]
    pub(crate) connections: u32,

    /// Appends in flight of each sender
    #[arg(long, value_name = "N", default_value_t = 1000, value_parser = clap::value_parser!(u32).range(1..=32_768))]
    pub(crate) window: u32,

    /// Bytes of a body; bodies are random
    #[arg(long, value_name = "BYTES", default_value_t = 1024, value_parser = clap::value_parser!(u32).range(1..=4_194_304))]
    pub(crate) body: u32,

    /// End after this many appends, those of the warm-up included
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..))]
    pub(crate) messages: Option<u64>,

    /// Print one JSON object for each measured window
    #[arg(long)]
    pub(crate) json: bool,
}
