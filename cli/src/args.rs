//! The command line: one definition of every command, flag and help text.

mod admin;
mod bench;
mod dledger;
mod group;
mod java;
mod message;
mod server;
mod store;
mod tls;

use clap::{Args, Parser, Subcommand, ValueEnum};

pub(crate) use self::dledger::{
    AppendArgs, DledgerArgs, DledgerBenchArgs, DledgerCommand, DledgerServerArgs, FlushArg,
    GetArgs, GroupArgs, StatusArgs,
};
pub(crate) use admin::{AdminArgs, AdminCommand, OffsetsCommand, Place, ResetTo, TopicCommand};
pub(crate) use bench::{
    BenchArgs, BenchCommand, BenchConsumeArgs, EndToEndArgs, FailoverArgs, LightArgs, MeasureArgs,
    PopArgs, ProduceArgs, Style, TimersArgs, TopicsArgs,
};
pub(crate) use group::{ForceArgs, ForceNewArgs, GroupCommand, GroupOf, TakeOver};
pub(crate) use java::{JavaBrokerArgs, JavaNamesrvArgs};
pub(crate) use message::{Beginning, ConsumeArgs, SendArgs};
pub(crate) use server::{
    BrokerArgs, CheckConfigArgs, HttpListen, NamesrvServerArgs, PageArgs, PrintConfig, ServerKind,
    StandaloneArgs,
};
pub(crate) use store::{ConvertArgs, FolderArgs, ImportArgs, RepairArgs, StoreArgs, StoreCommand};

/// A RocketMQ-compatible message broker whose commit log is a DLedger (Raft) log.
#[derive(Debug, Parser)]
#[command(name = "ledgermq", version, max_term_width = 100, after_help = EXAMPLES)]
pub(crate) struct Cli {
    #[command(flatten)]
    pub(crate) log: LogArgs,

    #[command(flatten)]
    pub(crate) bounds: BoundsArgs,

    #[command(subcommand)]
    pub(crate) command: Command,
}

const EXAMPLES: &str = "\
Examples:
  ledgermq standalone                         a name server and a broker on this machine
  ledgermq send TopicTest 'Hello'             a first message
  ledgermq consume TopicTest                  read it back
  ledgermq admin topic list                   what is there

Called by the name mqbroker or mqnamesrv (a symbolic link), it takes those programs' flags.";

/// What to do.
#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    /// Run a name server and a broker in one process, ready for a first try
    Standalone(StandaloneArgs),
    /// Run a broker with the configuration file of a Java broker
    Broker(BrokerArgs),
    /// Run a name server
    Namesrv(NamesrvServerArgs),
    /// Send messages
    Send(SendArgs),
    /// Receive messages
    Consume(ConsumeArgs),
    /// Look at a cluster and change it
    Admin(AdminArgs),
    /// Put a load on a cluster and measure it
    Bench(BenchArgs),
    /// Run a member of a DLedger group, append to its log, read it, measure it
    Dledger(DledgerArgs),
    /// Look through a data folder and mend it
    Store(StoreArgs),
    /// Tell what a configuration file means, what is wrong with it and what is risky
    CheckConfig(CheckConfigArgs),
    /// Print a completion script for a shell
    #[command(
        after_help = "Example:\n  ledgermq completions bash > ~/.local/share/bash-completion/completions/ledgermq"
    )]
    Completions {
        /// The shell
        shell: clap_complete::Shell,
    },
}

/// How the program logs; all logs go to standard error.
#[derive(Debug, Clone, Default, Args)]
#[command(next_help_heading = "Logs")]
pub(crate) struct LogArgs {
    /// Least level that is logged, or rules by module such as `info,store=debug`
    ///
    /// Without it the environment variable RUST_LOG decides, and without that servers log from
    /// `info` on and other commands from `warn` on. A running server takes a new level by
    /// `curl -X PUT 'http://127.0.0.1:10916/log?level=debug'`.
    #[arg(long, global = true, value_name = "LEVEL")]
    pub(crate) log_level: Option<String>,

    /// Form of a log line
    #[arg(long, global = true, value_name = "FORM", default_value = "text")]
    pub(crate) log_format: LogFormat,
}

/// What the process may do.
#[derive(Debug, Clone, Copy, Default, Args)]
#[command(next_help_heading = "Bounds of the process")]
pub(crate) struct BoundsArgs {
    /// Have the kernel refuse any program that this process would start
    ///
    /// A server starts none by itself: this is for code that an attacker brought into it. It is a
    /// seccomp filter, which cannot be taken back; Linux before 5.16 also guards such a process
    /// against speculation, which costs some speed.
    #[arg(long, global = true)]
    pub(crate) forbid_exec: bool,
}

/// Form of a log line.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, ValueEnum)]
pub(crate) enum LogFormat {
    /// For people
    #[default]
    Text,
    /// One JSON object a line
    Json,
}

#[cfg(test)]
mod tests;
