//! What several files say together: those of all members of a group.

use std::{
    collections::BTreeMap,
    path::{Path, PathBuf},
};

use broker::config::{BrokerConfig, FlushDiskType, KEYS};
use dledger::Peers;
use serde_json::{Value, json};

use super::{
    finding::{Finding, Severity},
    peers, report,
};
use crate::output;

/// One member, by its file.
#[derive(Debug)]
pub(super) struct Member<'a> {
    pub(super) file: &'a Path,
    pub(super) config: BrokerConfig,
}

/// All that is to be said about a group.
#[derive(Debug)]
pub(super) struct Group {
    /// Number of its files.
    files: usize,
    /// What was found.
    pub(super) findings: Vec<Finding>,
    /// What an acknowledged message has met at least.
    durability: String,
}

/// Checks files against each other.
pub(super) fn check(members: &[Member<'_>]) -> Group {
    let mut findings = Vec::new();
    same_peers(members, &mut findings);
    own_ids(members, &mut findings);
    for key in IDENTITY {
        equal(members, key, Finding::error, &mut findings);
    }
    addresses(members, &mut findings);
    folders(members, &mut findings);
    let durability = durability(members, &mut findings);
    let alone = |name: &str| IDENTITY.contains(&name) || OWN.contains(&name) || name == FLUSH;
    for key in KEYS.iter().map(|key| key.name).filter(|name| !alone(name)) {
        equal(members, key, Finding::warning, &mut findings);
    }
    findings.sort_by_key(|one| one.severity);
    Group { files: members.len(), findings, durability }
}

impl Group {
    /// Prints it.
    pub(super) fn print(&self) -> anyhow::Result<()> {
        let count = |severity| self.findings.iter().filter(|one| one.severity == severity).count();
        let (errors, warnings) = (count(Severity::Error), count(Severity::Warning));
        let files = self.files;
        output::line(&format!("Group of {files} files: {errors} errors, {warnings} warnings"))?;
        report::print_table(&self.findings)?;
        Ok(output::line(&format!("\nDurability: {}", self.durability))?)
    }

    /// For programs.
    pub(super) fn json(&self) -> Value {
        json!({
            "members": self.files,
            "findings": self.findings.iter().map(Finding::json).collect::<Vec<_>>(),
            "durability": self.durability,
        })
    }
}

impl Member<'_> {
    fn name(&self) -> String {
        self.file.display().to_string()
    }

    fn peers(&self) -> Option<Peers> {
        Peers::parse(&self.config.dleger_peers).ok()
    }

    /// The host that this member runs on, as the others know it.
    fn host(&self) -> String {
        let peers = self.peers();
        let own = peers.as_ref().and_then(|peers| peers.get(&self.config.dleger_self_id));
        let address = own.map(|peer| peers::host(&peer.address).to_owned());
        address.unwrap_or_else(|| self.config.broker_ip1.0.clone())
    }
}

/// All files name the same members at the same addresses.
fn same_peers(members: &[Member<'_>], findings: &mut Vec<Finding>) {
    let named = |member: &Member<'_>| -> BTreeMap<String, String> {
        let peers = member.peers();
        let all = peers.iter().flat_map(Peers::iter);
        all.map(|peer| (peer.id.clone(), peer.address.clone())).collect()
    };
    let [first, others @ ..] = members else { return };
    let expected = named(first);
    for other in others {
        let found = named(other);
        let ids: std::collections::BTreeSet<&String> =
            expected.keys().chain(found.keys()).collect();
        for id in ids.into_iter().filter(|id| expected.get(*id) != found.get(*id)) {
            let at = |peers: &BTreeMap<String, String>| {
                peers
                    .get(id)
                    .map_or_else(|| "nowhere".to_owned(), |address| format!("at {address}"))
            };
            let text = format!(
                "member {id} is {} by {} and {} by {}: write the same text into all files",
                at(&expected),
                first.name(),
                at(&found),
                other.name()
            );
            findings.push(Finding::error("unequal-peers", PEERS, text));
        }
    }
}

/// Each file is another member, and each member has a file.
fn own_ids(members: &[Member<'_>], findings: &mut Vec<Finding>) {
    let mut owners: BTreeMap<&str, &Member<'_>> = BTreeMap::new();
    for member in members {
        let id = member.config.dleger_self_id.as_str();
        if let Some(other) = owners.insert(id, member) {
            let text = format!(
                "{id} is the id of {} and of {}: each member has its own",
                other.name(),
                member.name()
            );
            findings.push(Finding::error("duplicate-id", "dLegerSelfId", text));
        }
    }
    let peers = members.first().and_then(Member::peers);
    for peer in peers.iter().flat_map(Peers::iter).filter(|it| !owners.contains_key(it.id.as_str()))
    {
        let text = format!("member {} has no file here: it was not checked", peer.id);
        findings.push(Finding::warning("missing-member", PEERS, text));
    }
}

/// A key has the same value in all files.
fn equal(
    members: &[Member<'_>],
    key: &str,
    severity: impl Fn(&'static str, &str, String) -> Finding,
    findings: &mut Vec<Finding>,
) {
    let Some(write) = KEYS.iter().find(|known| known.name == key).map(|known| known.write) else {
        return;
    };
    let mut values: BTreeMap<String, Vec<String>> = BTreeMap::new();
    for member in members {
        values.entry(write(&member.config)).or_default().push(member.name());
    }
    if values.len() > 1 {
        let each: Vec<String> = values
            .iter()
            .map(|(value, files)| {
                let value = if value.is_empty() { "empty" } else { value };
                format!("{value} in {}", files.join(", "))
            })
            .collect();
        let why = match key {
            "mappedFileSizeCommitLog" => {
                "the log is cut into files at the same places on all nodes"
            }
            _ if IDENTITY.contains(&key) => "members of a group have the same",
            _ => "what holds would change with the leader",
        };
        let text = format!("{}: {why}", each.join("; "));
        findings.push(severity("unequal-key", key, text));
    }
}

/// No two members listen at the same place, and clients are told two different ones.
fn addresses(members: &[Member<'_>], findings: &mut Vec<Finding>) {
    let mut clients: BTreeMap<(String, u16), String> = BTreeMap::new();
    let mut ports: BTreeMap<(String, u16), (usize, String)> = BTreeMap::new();
    for (number, member) in members.iter().enumerate() {
        let config = &member.config;
        let (main, name) = (config.listen_port, member.name());
        let told = config.broker_ip1.0.clone();
        if let Some(other) = clients.insert((told.clone(), main), name.clone()) {
            let text = format!(
                "clients are told {told}:{main} by {other} and by {name}: each member has its own"
            );
            findings.push(Finding::error("duplicate-address", "listenPort", text));
            continue;
        }
        let wanted = [
            ("clients", Some(main)),
            ("the fast port", main.checked_sub(2)),
            ("the HTTP page", main.checked_add(5)),
            ("members", peers::own_port(config)),
        ];
        for (what, port) in wanted.into_iter().filter_map(|(what, port)| Some((what, port?))) {
            let use_of = format!("{what} by {name}");
            let before = ports.insert((member.host(), port), (number, use_of.clone()));
            if let Some((other, before)) = before.filter(|(other, _)| *other != number) {
                let host = member.host();
                let text = format!("port {port} of {host} is for {before} and for {use_of}");
                findings.push(Finding::error("port-twice", "listenPort", text));
                ports.insert((host, port), (other, before));
            }
        }
    }
}

/// Members on one host have folders of their own.
fn folders(members: &[Member<'_>], findings: &mut Vec<Finding>) {
    let mut owners: BTreeMap<(String, PathBuf), String> = BTreeMap::new();
    for member in members {
        let root = Path::new(&member.config.store_path_root_dir);
        // One that does not exist yet is compared as it is written.
        let root = root.canonicalize().unwrap_or_else(|_absent| root.components().collect());
        let (host, name) = (member.host(), member.name());
        let shared = owners.iter().find(|((at, other), _)| {
            *at == host && (root.starts_with(other) || other.starts_with(&root))
        });
        if let Some(((_, folder), other)) = shared {
            let text = if *folder == root {
                format!("{} is the folder of {other} and of {name} on {host}", root.display())
            } else {
                format!(
                    "{} of {name} and {} of {other} on {host} lie one in the other",
                    root.display(),
                    folder.display()
                )
            };
            let text = format!("{text}: each member has its own");
            findings.push(Finding::error("shared-folder", "storePathRootDir", text));
        } else {
            owners.insert((host, root), name);
        }
    }
}

/// What holds for a message that a majority has acknowledged, whichever members that are.
fn durability(members: &[Member<'_>], findings: &mut Vec<Finding>) -> String {
    let named = members.first().and_then(Member::peers);
    let size = named.map_or(members.len(), |peers| peers.iter().count()).max(members.len());
    let majority = size / 2 + 1;
    let late = |member: &&Member<'_>| member.config.flush_disk_type == FlushDiskType::Async;
    let lazy: Vec<String> = members.iter().filter(late).map(Member::name).collect();
    let synced = majority.saturating_sub(lazy.len());
    if lazy.is_empty() {
        return format!("an acknowledged message is fsynced on {majority} of {size} nodes");
    }
    let what = format!(
        "an acknowledged message is in the page cache of {majority} of {size} nodes, and fsynced on \
         {synced} of them at least"
    );
    let all = lazy.len() == members.len();
    if !all {
        let text = format!(
            "{what}: {} flush later (ASYNC_FLUSH), the others at once; give all members the same",
            lazy.join(", ")
        );
        findings.push(Finding::warning("mixed-durability", FLUSH, text));
    }
    what
}

const PEERS: &str = "dLegerPeers";
const FLUSH: &str = "flushDiskType";

/// Keys that make a group one.
const IDENTITY: &[&str] = &[
    "brokerClusterName",
    "brokerName",
    "dLegerGroup",
    "enableDLegerCommitLog",
    "mappedFileSizeCommitLog",
];

/// Keys that each member may have for itself.
const OWN: &[&str] = &[
    "dLegerSelfId",
    "dLegerPeers",
    "preferredLeaderId",
    "brokerIP1",
    "brokerIP2",
    "listenPort",
    "haListenPort",
    "bindAddress",
    "namesrvAddr",
    "storePathRootDir",
    "storePathDLedgerCommitLog",
];
