//! The flags of the Java programs mqbroker and mqnamesrv (`BrokerStartup.java`,
//! `NamesrvStartup.java`, `ServerUtil.java`), for existing start scripts.

use std::path::PathBuf;

use clap::Parser;

use super::{BoundsArgs, BrokerArgs, LogArgs, NamesrvServerArgs, PrintConfig, server::PageArgs};

/// A broker, with the flags of Apache RocketMQ's mqbroker.
#[derive(Debug, Parser)]
#[command(name = "mqbroker", version, max_term_width = 100)]
pub(crate) struct JavaBrokerArgs {
    /// The broker.conf
    #[arg(short = 'c', long = "configFile", value_name = "FILE")]
    config: Option<PathBuf>,

    /// Name servers, `host:port;host:port`
    #[arg(short = 'n', long = "namesrvAddr", value_name = "ADDRS")]
    namesrv: Option<String>,

    /// Print every configuration key with its value and leave
    #[arg(short = 'p', long = "printConfigItem")]
    print_all: bool,

    /// Print the important configuration keys with their values and leave
    #[arg(short = 'm', long = "printImportantConfig")]
    print_important: bool,

    #[command(flatten)]
    pub(crate) log: LogArgs,

    #[command(flatten)]
    pub(crate) bounds: BoundsArgs,

    #[command(flatten)]
    page: PageArgs,

    /// Ignored as the Java program does; `ledgermq broker --set KEY=VALUE` sets a key
    #[arg(value_name = "REST", hide = true)]
    pub(crate) rest: Vec<String>,
}

impl JavaBrokerArgs {
    /// The arguments of `ledgermq broker` that say the same.
    pub(crate) fn into_broker(self) -> BrokerArgs {
        BrokerArgs {
            config: self.config,
            namesrv: self.namesrv,
            set: Vec::new(),
            print: PrintConfig { all: self.print_all, important: self.print_important },
            page: self.page,
        }
    }
}

/// A name server, with the flags of Apache RocketMQ's mqnamesrv.
#[derive(Debug, Parser)]
#[command(name = "mqnamesrv", version, max_term_width = 100)]
pub(crate) struct JavaNamesrvArgs {
    /// A namesrv.conf
    #[arg(short = 'c', long = "configFile", value_name = "FILE")]
    config: Option<PathBuf>,

    /// Name servers; taken and not used, as in Java
    #[arg(short = 'n', long = "namesrvAddr", value_name = "ADDRS")]
    namesrv: Option<String>,

    /// Print every configuration key with its value and leave
    #[arg(short = 'p', long = "printConfigItem")]
    print: bool,

    #[command(flatten)]
    pub(crate) log: LogArgs,

    #[command(flatten)]
    pub(crate) bounds: BoundsArgs,

    /// Ignored as the Java program does
    #[arg(value_name = "REST", hide = true)]
    pub(crate) rest: Vec<String>,
}

impl JavaNamesrvArgs {
    /// The arguments of `ledgermq namesrv` that say the same.
    pub(crate) fn into_namesrv(self) -> NamesrvServerArgs {
        if let Some(addresses) = &self.namesrv {
            tracing::debug!(addresses, "-n of a name server has no effect, as in Java");
        }
        NamesrvServerArgs { listen: None, config: self.config, print: self.print, ready_file: None }
    }
}
