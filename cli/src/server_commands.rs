//! `ledgermq broker` and `ledgermq namesrv`.

use std::path::Path;

use anyhow::Context;
use broker::config::{BrokerConfig, Printed};
use namesrv::Namesrv;

use crate::{
    args::{BrokerArgs, NamesrvServerArgs, PrintConfig},
    config,
    data_lock::DataLock,
    listen,
    logging::LogLevel,
    output,
    serve::{PageListener, Server},
    stop::StopSignals,
};

/// Runs a broker until a signal comes or it fails.
pub(crate) async fn broker(args: BrokerArgs, level: LogLevel) -> anyhow::Result<()> {
    let config = config::broker(&args)?;
    if let Some(text) = printed(&config, args.print) {
        output::line(text.trim_end())?;
        return Ok(());
    }
    let signals = StopSignals::catch().context("signals cannot be caught")?;
    let lock = DataLock::take(Path::new(&config.store_path_root_dir), "storePathRootDir")?;
    let page = PageListener::bind(&args.page, config.listen_port).await?;
    let server = Server::start(config, lock, (page, level), "listenPort or bindAddress").await?;
    tracing::info!(
        durability = server.broker().durability(),
        data = %server.broker().directory().display(),
        page = ?server.page_address(),
        "started"
    );
    server
        .run(signals, |server| {
            let config = server.broker().config();
            // Start scripts wait for "boot success" (`BrokerStartup.java`).
            output::line(&format!(
                "The broker[{}, {}:{}] boot success. serializeType=JSON and name server is {}",
                config.broker_name,
                config.broker_ip1.0,
                server.broker().address().port(),
                config.namesrv_addr,
            ))?;
            server.write_ready_file(&args.page, None)
        })
        .await
}

fn printed(config: &BrokerConfig, print: PrintConfig) -> Option<String> {
    match print {
        PrintConfig { all: true, .. } => Some(config.print(Printed::All)),
        PrintConfig { important: true, .. } => Some(config.print(Printed::Important)),
        PrintConfig { .. } => None,
    }
}

/// Runs a name server until a signal comes.
pub(crate) async fn namesrv(args: NamesrvServerArgs) -> anyhow::Result<()> {
    let options = config::namesrv(&args)?;
    if args.print {
        output::line(options.print().trim_end())?;
        return Ok(());
    }
    let mut signals = StopSignals::catch().context("signals cannot be caught")?;
    let address = options.listen;
    let server = Namesrv::start(options)
        .map_err(|error| listen::refused(address, "--listen ADDR (or listenPort)", error))?;
    let address = server.local_addr();
    // Start scripts wait for "boot success" (`NamesrvStartup.java`).
    output::line(&format!("The Name Server boot success. serializeType=JSON, address {address}"))?;
    if let Some(path) = &args.ready_file {
        listen::write_ready_file(path, &[("namesrv", address.to_string())])?;
    }
    let signal = signals.received().await;
    tracing::info!(signal, "stopping");
    server.shutdown().await;
    Ok(())
}
