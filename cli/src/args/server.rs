//! Arguments of the commands that run a server.

use std::{net::SocketAddr, path::PathBuf, str::FromStr};

use clap::{Args, ValueEnum};

/// Arguments of `ledgermq standalone`.
#[derive(Debug, Clone, Args)]
#[command(after_help = "\
Examples:
  ledgermq standalone
  ledgermq standalone --data /var/lib/ledgermq --set flushDiskType=SYNC_FLUSH
  ledgermq standalone --broker-listen 127.0.0.1:0 --namesrv-listen 127.0.0.1:0 \\
      --http-listen 127.0.0.1:0 --ready-file ready.txt      free ports, written to ready.txt

The cluster is DefaultCluster, the broker and its group are broker-a, and clients reach it at
127.0.0.1. Stop it with Ctrl-C or SIGTERM.")]
pub(crate) struct StandaloneArgs {
    /// A broker.conf whose keys come before the defaults of this command
    #[arg(short, long, value_name = "FILE")]
    pub(crate) config: Option<PathBuf>,

    /// One configuration key, before those of the file; may be repeated
    #[arg(long, value_name = "KEY=VALUE", value_parser = key_and_value)]
    pub(crate) set: Vec<(String, String)>,

    /// Folder of everything that is kept; it is made where it does not exist
    ///
    /// Before it comes storePathRootDir of the file or of --set; without all of them it is
    /// ./ledgermq-data.
    #[arg(long, value_name = "DIR")]
    pub(crate) data: Option<PathBuf>,

    /// Address of the broker; port 0 takes a free one [default: 127.0.0.1:10911]
    ///
    /// Without it the port is listenPort of the file or of --set.
    #[arg(long, value_name = "ADDR")]
    pub(crate) broker_listen: Option<SocketAddr>,

    /// Address of the name server; port 0 takes a free one
    #[arg(long, value_name = "ADDR", default_value = "127.0.0.1:9876")]
    pub(crate) namesrv_listen: SocketAddr,

    #[command(flatten)]
    pub(crate) page: PageArgs,
}

/// The page of a server for probes and metrics, and the file for scripts that wait for it.
#[derive(Debug, Clone, Args)]
pub(crate) struct PageArgs {
    /// Address of /livez, /readyz, /metrics and /log, or `off` [default: 127.0.0.1, port of the
    /// broker plus 5]
    #[arg(long, value_name = "ADDR")]
    pub(crate) http_listen: Option<HttpListen>,

    /// Write the addresses to this file once the server is ready, one `name=address` a line
    #[arg(long, value_name = "FILE")]
    pub(crate) ready_file: Option<PathBuf>,
}

/// Where the HTTP page listens.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum HttpListen {
    /// Nowhere.
    Off,
    /// At this address.
    At(SocketAddr),
}

impl FromStr for HttpListen {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        if text.eq_ignore_ascii_case("off") {
            return Ok(Self::Off);
        }
        text.parse().map(Self::At).map_err(|error| {
            format!("{error}; give an address and a port such as 127.0.0.1:10916, or `off`")
        })
    }
}

/// Arguments of `ledgermq broker`, which are those of mqbroker and a few more.
#[derive(Debug, Clone, Args)]
#[command(after_help = "\
Examples:
  ledgermq broker -c conf/broker.conf -n 127.0.0.1:9876
  ledgermq broker -c conf/broker.conf -p          print the configuration and leave
  mqbroker -c conf/broker.conf                    the same by the name of the Java script

Every key of the file has Java's spelling and Java's default.")]
pub(crate) struct BrokerArgs {
    /// The broker.conf
    #[arg(short = 'c', long = "config", alias = "configFile", value_name = "FILE")]
    pub(crate) config: Option<PathBuf>,

    /// Name servers, `host:port;host:port`; comes before namesrvAddr of the file
    #[arg(short = 'n', long = "namesrv", alias = "namesrvAddr", value_name = "ADDRS")]
    pub(crate) namesrv: Option<String>,

    /// One configuration key, before those of the file; may be repeated
    #[arg(long, value_name = "KEY=VALUE", value_parser = key_and_value)]
    pub(crate) set: Vec<(String, String)>,

    #[command(flatten)]
    pub(crate) print: PrintConfig,

    #[command(flatten)]
    pub(crate) page: PageArgs,
}

/// Print the configuration instead of running.
#[derive(Debug, Clone, Copy, Default, Args)]
pub(crate) struct PrintConfig {
    /// Print every configuration key with its value and leave
    #[arg(short = 'p', long = "print-config", alias = "printConfigItem")]
    pub(crate) all: bool,

    /// Print the important configuration keys with their values and leave
    #[arg(short = 'm', long = "print-important-config", alias = "printImportantConfig")]
    pub(crate) important: bool,
}

/// Arguments of `ledgermq namesrv`.
#[derive(Debug, Clone, Args)]
#[command(after_help = "\
Examples:
  ledgermq namesrv
  ledgermq namesrv --listen 127.0.0.1:9876")]
pub(crate) struct NamesrvServerArgs {
    /// Address to listen on; port 0 takes a free one [default: 0.0.0.0:9876]
    ///
    /// Without it the port is listenPort of the file.
    #[arg(long, value_name = "ADDR")]
    pub(crate) listen: Option<SocketAddr>,

    /// A namesrv.conf with Java's spelling of its keys
    #[arg(short = 'c', long = "config", alias = "configFile", value_name = "FILE")]
    pub(crate) config: Option<PathBuf>,

    /// Print every configuration key with its value and leave
    #[arg(short = 'p', long = "print-config", alias = "printConfigItem")]
    pub(crate) print: bool,

    /// Write the address to this file once the server is ready: `namesrv=address`
    #[arg(long, value_name = "FILE")]
    pub(crate) ready_file: Option<PathBuf>,
}

/// Arguments of `ledgermq check-config`.
#[derive(Debug, Clone, Args)]
#[command(after_help = "\
Examples:
  ledgermq check-config conf/broker.conf
  ledgermq check-config conf/namesrv.conf --json
  ledgermq check-config conf/broker.conf --strict && ledgermq broker -c conf/broker.conf
  ledgermq check-config n0.conf n1.conf n2.conf

Files of several brokers are those of one group: then it also tells what does not fit together.
It starts nothing and writes nothing. It fails where something is an error.")]
pub(crate) struct CheckConfigArgs {
    /// A broker.conf or namesrv.conf; of a group, those of all members
    #[arg(value_name = "FILE", required = true)]
    pub(crate) files: Vec<PathBuf>,

    /// Whose file it is; without it the keys tell
    #[arg(long, value_name = "SERVER")]
    pub(crate) kind: Option<ServerKind>,

    /// Fail on warnings as well
    #[arg(long)]
    pub(crate) strict: bool,

    /// Print one JSON object
    #[arg(long)]
    pub(crate) json: bool,
}

/// A server that reads a configuration file.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum ServerKind {
    /// A broker
    Broker,
    /// A name server
    Namesrv,
}

/// Splits `key=value`; the value may be empty and may have more `=`.
pub(super) fn key_and_value(text: &str) -> Result<(String, String), String> {
    match text.split_once('=') {
        Some((key, value)) if !key.trim().is_empty() => {
            Ok((key.trim().to_owned(), value.trim().to_owned()))
        }
        _ => Err("give KEY=VALUE, for example flushDiskType=SYNC_FLUSH".to_owned()),
    }
}
