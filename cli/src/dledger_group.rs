//! `ledgermq dledger`: the log itself, as a server and by hand.

use dledger::{GroupClient, Peers};

use crate::args::{DledgerArgs, DledgerCommand, GroupArgs};

mod append;
mod bench;
mod get;
mod server;
mod status;

/// Does what the arguments say.
pub(crate) async fn run(args: DledgerArgs) -> anyhow::Result<()> {
    match args.command {
        DledgerCommand::Server(args) => server::run(args).await,
        DledgerCommand::Append(args) => append::run(args).await,
        DledgerCommand::Get(args) => get::run(args).await,
        DledgerCommand::Status(args) => status::run(args).await,
        DledgerCommand::Transfer(args) => {
            connect(&args.group)?.transfer(&args.to).await?;
            crate::output::line(&format!("{} leads", args.to))?;
            Ok(())
        }
        DledgerCommand::Bench(args) => bench::run(args).await,
    }
}

/// A client of the group that the arguments name.
fn connect(args: &GroupArgs) -> anyhow::Result<GroupClient> {
    Ok(GroupClient::new(&args.group, Peers::parse(&args.peers)?, args.timeout))
}
