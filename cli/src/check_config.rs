//! `ledgermq check-config`: what a configuration file means, before a server starts with it.

mod broker;
mod finding;
mod group;
mod keys;
mod name_server;
mod network;
mod peers;
mod report;
mod storage;
mod thresholds;

use std::path::Path;

use ::broker::config::BrokerConfig;
use anyhow::bail;
use namesrv::NamesrvOptions;
use protocol::properties_text::{self, Entry};
use serde_json::json;

use crate::{
    args::{CheckConfigArgs, ServerKind},
    config, output,
};
use finding::{Finding, Severity};
use group::{Group, Member};
use report::Report;

/// Checks files and prints what was found; fails where something is an error. Several files of
/// brokers are members of one group.
pub(crate) fn run(args: &CheckConfigArgs) -> anyhow::Result<()> {
    let mut reports = Vec::new();
    let mut members = Vec::new();
    for file in &args.files {
        let text = config::read(file)?;
        match properties_text::parse_entries(&text) {
            Ok(entries) => {
                let (report, config) = checked(file, &entries, args.kind);
                reports.push(report);
                members.extend(config.map(|config| Member { file, config }));
            }
            Err(error) => {
                let kind = args.kind.unwrap_or(ServerKind::Broker);
                let finding = Finding::error("syntax", "", error.to_string());
                reports.push(Report::of(file, kind, vec![finding]));
            }
        }
    }
    let group = (members.len() > 1).then(|| group::check(&members));
    print(args, &reports, group.as_ref())?;
    let all = || reports.iter().flat_map(|report| &report.findings);
    let of_group = || group.iter().flat_map(|group| &group.findings);
    let count = |severity| all().chain(of_group()).filter(|one| one.severity == severity).count();
    let (errors, warnings) = (count(Severity::Error), count(Severity::Warning));
    let files = match &*args.files {
        [file] => file.display().to_string(),
        files => format!("{} files", files.len()),
    };
    if errors > 0 {
        bail!("{files}: {errors} errors, {warnings} warnings");
    }
    if args.strict && warnings > 0 {
        bail!("{files}: {warnings} warnings, which --strict takes for errors");
    }
    Ok(())
}

/// Prints one report as ever; of several, the findings and durability of each, then of the group.
fn print(args: &CheckConfigArgs, reports: &[Report], group: Option<&Group>) -> anyhow::Result<()> {
    if let [report] = reports {
        return report.print(args.json);
    }
    if args.json {
        let files: Vec<_> = reports.iter().map(Report::json).collect();
        let group = group.map(Group::json);
        return Ok(output::line(&json!({ "files": files, "group": group }).to_string())?);
    }
    for report in reports {
        report.print_findings()?;
        output::line("")?;
    }
    group.map_or(Ok(()), Group::print)
}

/// What is to be said about a file, and its configuration where it is that of a broker.
fn checked(
    file: &Path,
    entries: &[Entry],
    kind: Option<ServerKind>,
) -> (Report, Option<BrokerConfig>) {
    let kind = kind.unwrap_or_else(|| guessed(entries));
    let mut report = Report::of(file, kind, Vec::new());
    report.keys = entries.len();
    let config = match kind {
        ServerKind::Broker => Some(broker::check(entries, &mut report)),
        ServerKind::Namesrv => {
            name_server::check(entries, &mut report);
            None
        }
    };
    (report, config)
}

/// Whose file it is: that server's which knows more of its keys.
fn guessed(entries: &[Entry]) -> ServerKind {
    let (mut of_broker, mut of_name_server) = (0, 0);
    for Entry { name, .. } in entries {
        let unknown = ::broker::config::kind_of(name);
        of_broker += u32::from(!matches!(unknown, ::broker::config::KeyKind::Unknown { .. }));
        let unknown = NamesrvOptions::key_kind(name);
        of_name_server += u32::from(!matches!(unknown, namesrv::KeyKind::Unknown { .. }));
    }
    if of_name_server > of_broker { ServerKind::Namesrv } else { ServerKind::Broker }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn guess(text: &str) -> ServerKind {
        guessed(&properties_text::parse_entries(text).unwrap())
    }

    #[test]
    fn a_file_belongs_to_the_server_that_knows_its_keys() {
        assert_eq!(guess("listenPort=1\nbrokerName=a"), ServerKind::Broker);
        assert_eq!(guess("listenPort=1\norderMessageEnable=true"), ServerKind::Namesrv);
        assert_eq!(guess(""), ServerKind::Broker);
    }
}
