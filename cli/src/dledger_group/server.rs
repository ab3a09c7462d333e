//! `ledgermq dledger server`.

use anyhow::{Context, bail};
use dledger::{AnyBodies, Durability, LogServer, Options, ServerOptions};

use crate::{
    args::{DledgerServerArgs, FlushArg},
    output,
    stop::StopSignals,
};

/// Runs a member until a signal comes or its log fails.
pub(super) async fn run(args: DledgerServerArgs) -> anyhow::Result<()> {
    let mut signals = StopSignals::catch().context("signals cannot be caught")?;
    let log = Options {
        group: args.group.clone(),
        self_id: args.id.clone(),
        peers: args.peers,
        file_size: args.file_size,
        durability: match args.flush {
            FlushArg::Sync => Durability::Sync,
            FlushArg::Async => Durability::Async,
        },
        ..Options::one_node(args.dir)
    };
    let options = ServerOptions { bind: args.bind, ..ServerOptions::new(log) };
    let server = LogServer::start(options, AnyBodies)?;
    let address = server.address();
    output::line(&format!("Member {} of group {} listens on {address}", args.id, args.group))?;
    let failure = tokio::select! {
        signal = signals.received() => {
            tracing::info!(signal, "stopping");
            None
        }
        failure = server.failed() => Some(failure),
    };
    let stopped = server.shutdown().await;
    if let Some(failure) = failure {
        bail!("the log failed: {failure}");
    }
    stopped.map_err(anyhow::Error::msg)
}
