//! Arguments of `store`.

use std::path::PathBuf;

use clap::{Args, Subcommand};

use super::server::key_and_value;

/// Arguments of `ledgermq store`.
#[derive(Debug, Clone, Args)]
#[command(arg_required_else_help = true)]
pub(crate) struct StoreArgs {
    #[command(subcommand)]
    pub(crate) command: StoreCommand,
}

/// What to do with a data folder.
#[derive(Debug, Clone, Subcommand)]
pub(crate) enum StoreCommand {
    /// Read everything in a data folder and tell what is damaged; changes nothing
    #[command(after_help = "\
Examples:
  ledgermq store verify ./ledgermq-data
  ledgermq store verify /data/store -c conf/broker.conf --json

It reads every entry of the log with its checksums and its chain, the entry index, the consume
queues, the key index and the tables in config/. The exit code is 0 where all is sound, or is what
the next start mends as after any crash; else 1. Best with the broker stopped: else what is not
written yet is told as missing.")]
    Verify(FolderArgs),

    /// Mend what can be mended in a data folder of a broker that is stopped
    #[command(after_help = "\
Examples:
  ledgermq store repair ./ledgermq-data --dry-run    tell what it would do
  ledgermq store repair ./ledgermq-data

A torn tail is cut off as at a start, derived files that are damaged are made again from the log,
and foreign files are moved aside to a folder `repaired-<time>` in the data folder. Entries of the
log that are damaged stay as they are: bring them back from a copy, or let another member of the
group give them. Only with --accept-loss the log is cut off before the first damaged entry; what
lies behind is then lost to clients, and kept beside.")]
    Repair(RepairArgs),

    /// Copy a data folder so that a Java broker without DLedger starts on the copy
    #[command(after_help = "\
Examples:
  ledgermq store export /data/store --to /data/plain
  ledgermq store export /data/store --to /data/plain -c conf/broker.conf --json

The copy holds every message that a queue shows at the same queue offset, consume queues, key index,
and the tables of config/. Physical offsets change, and message ids with them: what clients hold in
flight is delivered anew. The log must be stopped in order and sound. The source is only read, and
the copy appears under its name when it is whole. Of a group, take the member that is furthest.
docs/migrate.md tells what the Java broker has to be configured with.")]
    Export(ConvertArgs),

    /// Copy the data folder of a Java broker without DLedger so that ledgermq starts on the copy
    #[command(after_help = "\
Examples:
  ledgermq store import /home/mq/store --to /data/store
  ledgermq store import /home/mq/store --to /data/store --commitlog /disk2/commitlog
  ledgermq store import /home/mq/store --to /data/store --set dLegerSelfId=n1

The copy is that of a DLedger node with the id dLegerSelfId (n0): messages are entries of term 1 at
the same queue offsets, consume queues and key index are made anew, the tables of config/ are
copied. Physical offsets change, and message ids with them. The Java broker must be stopped in
order. For a group of several, give each member the same copy before any of them starts.")]
    Import(ImportArgs),
}

/// Arguments of `ledgermq store export`.
#[derive(Debug, Clone, Args)]
pub(crate) struct ConvertArgs {
    #[command(flatten)]
    pub(crate) folder: FolderArgs,

    /// The folder that is made; it must not exist
    #[arg(long, value_name = "DIR")]
    pub(crate) to: PathBuf,
}

/// Arguments of `ledgermq store import`.
#[derive(Debug, Clone, Args)]
pub(crate) struct ImportArgs {
    #[command(flatten)]
    pub(crate) convert: ConvertArgs,

    /// The commit log, where it is not `commitlog` in the data folder (storePathCommitLog)
    #[arg(long, value_name = "DIR")]
    pub(crate) commitlog: Option<PathBuf>,
}

/// Which data folder.
#[derive(Debug, Clone, Args)]
pub(crate) struct FolderArgs {
    /// The data folder (storePathRootDir)
    pub(crate) folder: PathBuf,

    /// The broker.conf of its broker: needed where maxHashSlotNum or maxIndexNum are not Java's
    #[arg(short = 'c', long = "config", value_name = "FILE")]
    pub(crate) config: Option<PathBuf>,

    /// One configuration key, before those of the file; may be repeated
    #[arg(long, value_name = "KEY=VALUE", value_parser = key_and_value)]
    pub(crate) set: Vec<(String, String)>,

    /// Print one JSON object
    #[arg(long)]
    pub(crate) json: bool,
}

/// Arguments of `ledgermq store repair`.
#[derive(Debug, Clone, Args)]
pub(crate) struct RepairArgs {
    #[command(flatten)]
    pub(crate) folder: FolderArgs,

    /// Tell what would be done and do nothing
    #[arg(long)]
    pub(crate) dry_run: bool,

    /// Give up what is damaged and in no copy: entries of the log from the first damaged one on, and
    /// tables of which neither the file nor its .bak can be read
    #[arg(long)]
    pub(crate) accept_loss: bool,
}
