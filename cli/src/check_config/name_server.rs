//! The checks of a name server's file.

use std::net::{IpAddr, Ipv4Addr, TcpListener};

use namesrv::{KeyKind, NamesrvOptions};
use protocol::properties_text::Entry;
use rustix::fs::{Access, access};

use super::{
    finding::Finding,
    keys::{self, Told},
    report::Report,
    thresholds,
};

/// Checks a namesrv.conf.
pub(super) fn check(entries: &[Entry], report: &mut Report) {
    let mut options = NamesrvOptions::default();
    let mut taken: Vec<(String, String)> = Vec::new();
    let lines = keys::check(entries, tell, |name, value| {
        let pair = (name.to_owned(), value.to_owned());
        let pairs = taken.iter().chain([&pair]).map(|(name, value)| (&**name, &**value));
        let read = NamesrvOptions::from_pairs(pairs).map_err(|error| error.to_string())?;
        options = read.0;
        taken.push(pair);
        Ok(())
    });
    report.findings.extend(lines);
    listens(&options, &mut report.findings);
    values_file(&options, &mut report.findings);
    report.place(entries);
    report.thresholds = thresholds::of_name_server(&options, entries);
}

fn tell(name: &str, _value: &str) -> Told {
    match NamesrvOptions::key_kind(name) {
        KeyKind::Effective => Told::Known,
        KeyKind::Idle => Told::Idle("it sizes what this name server does not have".to_owned()),
        KeyKind::Unknown { nearest } => Told::Unknown(nearest),
    }
}

fn listens(options: &NamesrvOptions, findings: &mut Vec<Finding>) {
    let address = options.listen;
    if !address.ip().is_loopback() {
        let text = format!(
            "the name server listens on {} without access control: whoever reaches the port can \
             register brokers and change values; bind a private address",
            address.ip()
        );
        findings.push(Finding::warning("open-listener", "bindAddress", text));
    }
    if address.port() == 0 {
        let text = "a free port is chosen at each start: no client knows it";
        findings.push(Finding::warning("any-port", "listenPort", text));
    } else if let Err(error) = TcpListener::bind(address) {
        let text = format!("{address} cannot be listened on now: {error}");
        findings.push(Finding::warning("port-taken", "listenPort", text));
    }
    if address.ip() == IpAddr::V4(Ipv4Addr::BROADCAST) {
        let text = "the broadcast address is no address of a host";
        findings.push(Finding::error("useless-address", "bindAddress", text));
    }
}

fn values_file(options: &NamesrvOptions, findings: &mut Vec<Finding>) {
    let key = "kvConfigPath";
    let Some(path) = &options.kv_path else {
        let text = "without a file the values of administrators do not outlive the process";
        findings.push(Finding::warning("no-file", key, text));
        return;
    };
    let there = path.ancestors().skip(1).find(|above| above.exists());
    if let Some(there) = there
        && let Err(error) = access(there, Access::WRITE_OK | Access::EXEC_OK)
    {
        let text = format!("{} cannot be written by this user: {error}", there.display());
        findings.push(Finding::error("bad-path", key, text));
    }
}
