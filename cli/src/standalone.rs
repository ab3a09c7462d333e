//! `ledgermq standalone`: a name server and a broker in one process.

use std::{
    net::SocketAddr,
    path::{Path, PathBuf},
};

use anyhow::Context;
use broker::config::{BrokerConfig, FlushDiskType};
use client::{TlsMode, TlsSettings};
use namesrv::{Namesrv, NamesrvOptions};

use crate::{
    args::StandaloneArgs,
    config,
    data_lock::DataLock,
    listen,
    logging::LogLevel,
    output,
    serve::{PageListener, Server, reachable},
    stop::StopSignals,
};

/// Runs until a signal comes or the broker fails.
pub(crate) async fn run(args: StandaloneArgs, level: LogLevel) -> anyhow::Result<()> {
    let signals = StopSignals::catch().context("signals cannot be caught")?;
    let mut config = config::standalone(&args)?;
    let data = Path::new(&config.store_path_root_dir).to_owned();
    let lock = DataLock::take(&data, "--data DIR")?;
    let page = PageListener::bind(&args.page, config.listen_port).await?;
    let namesrv = start_namesrv(args.namesrv_listen, &data, tls(&config)?)?;
    let namesrv_address = namesrv.local_addr();
    config.namesrv_addr = reachable(namesrv_address).to_string();
    let server = Server::start(config, lock, (page, level), "--broker-listen ADDR").await?;
    let result = server
        .run(signals, |server| {
            output::line(&banner(server, namesrv_address, &program()))?;
            server.write_ready_file(&args.page, Some(namesrv_address))
        })
        .await;
    namesrv.shutdown().await;
    result
}

/// Both servers of the process offer the same TLS.
fn tls(config: &BrokerConfig) -> anyhow::Result<TlsSettings> {
    let tls = config.tls()?;
    anyhow::ensure!(
        tls.server.mode != TlsMode::Enforcing || tls.client.enabled,
        "tls.server.mode=enforcing: the broker has to speak TLS to the name server beside it, so set tls.enable=true and tls.client.trustCertPath"
    );
    Ok(tls)
}

fn start_namesrv(address: SocketAddr, data: &Path, tls: TlsSettings) -> anyhow::Result<Namesrv> {
    let options = NamesrvOptions {
        listen: address,
        tls,
        // What it says has come into the settings already.
        tls_file: PathBuf::new(),
        kv_path: Some(data.join("namesrv").join("kvConfig.json")),
        ..NamesrvOptions::default()
    };
    Namesrv::start(options)
        .map_err(|error| listen::refused(address, "--namesrv-listen ADDR", error))
}

/// What a first user needs to know and to type.
fn banner(server: &Server, namesrv: SocketAddr, program: &str) -> String {
    let broker = server.broker();
    let config = broker.config();
    let data = std::path::absolute(broker.directory())
        .unwrap_or_else(|_error| broker.directory().to_owned());
    let page = match server.page_address() {
        Some(address) => format!("http://{address}/  (livez, readyz, metrics, log)"),
        None => "off".to_owned(),
    };
    let flag = match reachable(namesrv) {
        address if address.to_string() == DEFAULT_NAMESRV => String::new(),
        address => format!(" -n {address}"),
    };
    format!(
        "LedgerMQ {version} is ready.\n\
         \x20 name server   {namesrv}\n\
         \x20 broker        {broker}  ({name} in {cluster})\n\
         \x20 page          {page}\n\
         \x20 data          {data}\n\
         \x20 durability    {flush}: {durability}\n\
         \n\
         Send and receive a first message, in another terminal:\n\
         \x20 {program} send{flag} TopicTest 'Hello'\n\
         \x20 {program} consume{flag} TopicTest\n\
         Ctrl-C stops it; the data stays.",
        version = env!("CARGO_PKG_VERSION"),
        broker = broker.address(),
        name = config.broker_name,
        cluster = config.broker_cluster_name,
        data = data.display(),
        flush = match config.flush_disk_type {
            FlushDiskType::Sync => "SYNC_FLUSH",
            FlushDiskType::Async => "ASYNC_FLUSH",
        },
        durability = broker.durability(),
    )
}

/// How this program was called, so that the lines can be copied.
fn program() -> String {
    let called = std::env::args().next().unwrap_or_else(|| "ledgermq".to_owned());
    if called.contains(|c: char| !(c.is_alphanumeric() || "/._-".contains(c))) {
        format!("'{}'", called.replace('\'', r"'\''"))
    } else {
        called
    }
}

/// Where the clients of this program look without a flag.
const DEFAULT_NAMESRV: &str = "127.0.0.1:9876";
