//! The configuration of the servers: defaults of the command, then the file, then the flags.

use std::{fs, path::Path};

use anyhow::{Context, bail};
use broker::config::{BrokerConfig, Printed};
use namesrv::NamesrvOptions;
use protocol::properties_text;

use crate::args::{BrokerArgs, FolderArgs, NamesrvServerArgs, StandaloneArgs};

/// What `standalone` sets before the file. The features are those that a first try wants.
const STANDALONE: &[(&str, &str)] = &[
    ("brokerClusterName", "DefaultCluster"),
    ("brokerName", "broker-a"),
    ("enableDLegerCommitLog", "true"),
    ("dLegerGroup", "broker-a"),
    ("dLegerSelfId", "n0"),
    ("brokerIP1", "127.0.0.1"),
    ("bindAddress", "127.0.0.1"),
    ("storePathRootDir", "./ledgermq-data"),
    ("enablePropertyFilter", "true"),
    ("traceTopicEnable", "true"),
    ("recallMessageEnable", "true"),
    ("enableLmq", "true"),
    ("enableMultiDispatch", "true"),
];

/// The configuration of a standalone.
pub(crate) fn standalone(args: &StandaloneArgs) -> anyhow::Result<BrokerConfig> {
    let mut config = BrokerConfig::default();
    for (key, value) in STANDALONE {
        // What has no effect yet is of no interest to a user who did not ask for it.
        drop(config.set(key, value)?);
    }
    let mut sets = args.set.clone();
    if let Some(data) = &args.data {
        let data = data.to_str().context("--data must be a path in UTF-8")?;
        sets.push(("storePathRootDir".to_owned(), data.to_owned()));
    }
    if let Some(address) = args.broker_listen {
        sets.push(("bindAddress".to_owned(), address.ip().to_string()));
        sets.push(("listenPort".to_owned(), address.port().to_string()));
    }
    apply(&mut config, args.config.as_deref(), &sets)?;
    Ok(config)
}

/// The configuration of a broker.
pub(crate) fn broker(args: &BrokerArgs) -> anyhow::Result<BrokerConfig> {
    let mut config = BrokerConfig::default();
    let mut sets = args.set.clone();
    if let Some(namesrv) = &args.namesrv {
        sets.push(("namesrvAddr".to_owned(), namesrv.clone()));
    }
    apply(&mut config, args.config.as_deref(), &sets)?;
    if config.namesrv_addr.is_empty() {
        // As `MixAll.java` has it.
        config.namesrv_addr = std::env::var("NAMESRV_ADDR").unwrap_or_default();
    }
    Ok(config)
}

/// The configuration with which a data folder is looked through.
pub(crate) fn store(args: &FolderArgs) -> anyhow::Result<BrokerConfig> {
    let mut config = BrokerConfig::default();
    let mut sets = args.set.clone();
    let folder = args.folder.to_str().context("the data folder must be a path in UTF-8")?;
    sets.push(("storePathRootDir".to_owned(), folder.to_owned()));
    apply(&mut config, args.config.as_deref(), &sets)?;
    Ok(config)
}

/// The configuration of a broker that is stopped.
pub(crate) fn broker_of(file: &Path, sets: &[(String, String)]) -> anyhow::Result<BrokerConfig> {
    let mut config = BrokerConfig::default();
    apply(&mut config, Some(file), sets)?;
    Ok(config)
}

/// Name and members of the group that a broker.conf names.
pub(crate) fn group(file: &Path) -> anyhow::Result<(String, String)> {
    let mut config = BrokerConfig::default();
    apply(&mut config, Some(file), &[])?;
    config.complete();
    if config.dleger_peers.trim().is_empty() {
        bail!("{}: dLegerPeers is not set: this broker is in a group of its own", file.display());
    }
    Ok((config.dleger_group, config.dleger_peers))
}

/// The values that a broker.conf gives some keys, as brokers tell them.
pub(crate) fn shared(
    file: &Path,
    keys: &[&'static str],
) -> anyhow::Result<Vec<(&'static str, String)>> {
    let mut config = BrokerConfig::default();
    apply(&mut config, Some(file), &[])?;
    config.complete();
    let all = properties_text::parse(&config.print(Printed::All)).context("its own text")?;
    let value = |key: &&'static str| {
        let found = all.iter().find(|(name, _)| name == key);
        (*key, found.map(|(_, value)| value.clone()).unwrap_or_default())
    };
    Ok(keys.iter().map(value).collect())
}

/// The options of a name server.
pub(crate) fn namesrv(args: &NamesrvServerArgs) -> anyhow::Result<NamesrvOptions> {
    let text = args.config.as_deref().map(read).transpose()?.unwrap_or_default();
    let (mut options, warnings) = NamesrvOptions::parse(&text)?;
    for warning in warnings {
        tracing::warn!("{warning}");
    }
    if let Some(listen) = args.listen {
        options.listen = listen;
    }
    Ok(options)
}

fn apply(
    config: &mut BrokerConfig,
    file: Option<&Path>,
    sets: &[(String, String)],
) -> anyhow::Result<()> {
    if let Some(path) = file {
        let about = || format!("configuration file {}", path.display());
        for (key, value) in properties_text::parse(&read(path)?).with_context(about)? {
            warn(config.set(&key, &value).with_context(about)?);
        }
    }
    for (key, value) in sets {
        warn(config.set(key, value).context("on the command line")?);
    }
    config.complete();
    Ok(())
}

fn warn(warning: Option<String>) {
    if let Some(warning) = warning {
        tracing::warn!("{warning}");
    }
}

/// Text of a configuration file.
pub(crate) fn read(path: &Path) -> anyhow::Result<String> {
    let bytes = fs::read(path)
        .with_context(|| format!("configuration file {} cannot be read", path.display()))?;
    match String::from_utf8(bytes) {
        Ok(text) => Ok(text),
        Err(error) => bail!(
            "configuration file {} is not UTF-8 from byte {} on",
            path.display(),
            error.utf8_error().valid_up_to()
        ),
    }
}

#[cfg(test)]
mod tests {
    use std::io::Write;

    use clap::Parser;

    use super::*;
    use crate::args::{Cli, Command};

    fn standalone_with(words: &[&str]) -> anyhow::Result<BrokerConfig> {
        let words = [&["ledgermq", "standalone"], words].concat();
        let Command::Standalone(args) = Cli::try_parse_from(words).unwrap().command else {
            panic!()
        };
        standalone(&args)
    }

    fn file(text: &[u8]) -> tempfile::NamedTempFile {
        let mut file = tempfile::NamedTempFile::new().unwrap();
        file.write_all(text).unwrap();
        file
    }

    #[test]
    fn flags_come_before_the_file_and_the_file_before_the_defaults() {
        let config = standalone_with(&[]).unwrap();
        assert_eq!(config.broker_name, "broker-a");
        assert_eq!(config.store_path_root_dir, "./ledgermq-data");
        assert!(config.enable_property_filter);

        let conf = file("\u{feff}brokerName = b1 \r\nlistenPort=20911\r\n".as_bytes());
        let path = conf.path().to_str().unwrap();
        let config = standalone_with(&["-c", path]).unwrap();
        assert_eq!((config.broker_name.as_str(), config.listen_port), ("b1", 20911));
        let config =
            standalone_with(&["-c", path, "--set", "brokerName=b2", "--data", "/d"]).unwrap();
        assert_eq!((config.broker_name.as_str(), config.listen_port), ("b2", 20911));
        assert_eq!(config.store_path_root_dir, "/d");
        let config = standalone_with(&["-c", path, "--broker-listen", "127.0.0.2:1"]).unwrap();
        assert_eq!((config.bind_address.0.as_str(), config.listen_port), ("127.0.0.2", 1));
    }

    #[test]
    fn an_error_names_the_file_the_key_and_the_value() {
        let conf = file(b"listenPort=many\n");
        let path = conf.path().to_str().unwrap();
        let error = format!("{:#}", standalone_with(&["-c", path]).unwrap_err());
        assert!(error.contains(path) && error.contains("listenPort=many"), "{error}");
        let error = format!("{:#}", standalone_with(&["-c", "/no/such"]).unwrap_err());
        assert!(error.contains("/no/such"), "{error}");
        let conf = file(b"brokerName=\xff\n");
        let path = conf.path().to_str().unwrap();
        let error = format!("{:#}", standalone_with(&["-c", path]).unwrap_err());
        assert!(error.contains("not UTF-8 from byte 11"), "{error}");
    }
}
