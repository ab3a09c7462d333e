//! The command line: one definition of every command, flag and help text.

mod admin;
mod bench;
mod java;
mod message;
mod server;

use clap::{Args, Parser, Subcommand, ValueEnum};

pub(crate) use admin::{AdminArgs, AdminCommand, OffsetsCommand, Place, ResetTo, TopicCommand};
pub(crate) use bench::{
    BenchArgs, BenchCommand, BenchConsumeArgs, EndToEndArgs, MeasureArgs, ProduceArgs, Style,
    TopicsArgs,
};
pub(crate) use java::{JavaBrokerArgs, JavaNamesrvArgs};
pub(crate) use message::{Beginning, ConsumeArgs, SendArgs};
pub(crate) use server::{
    BrokerArgs, HttpListen, NamesrvServerArgs, PageArgs, PrintConfig, StandaloneArgs,
};

/// A RocketMQ-compatible message broker whose commit log is a DLedger (Raft) log.
#[derive(Debug, Parser)]
#[command(name = "ledgermq", version, max_term_width = 100, after_help = EXAMPLES)]
pub(crate) struct Cli {
    #[command(flatten)]
    pub(crate) log: LogArgs,

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
