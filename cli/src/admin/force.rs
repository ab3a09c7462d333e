//! `ledgermq admin group force-start` and `force-new`: when members are lost for good.
//!
//! Both work on the data folder of a node that is stopped. They look first, and change nothing
//! without `--accept-loss`.

use std::collections::BTreeSet;

use anyhow::{Context, bail, ensure};
use broker::{Offline, config::BrokerConfig};
use dledger::{GroupClient, GroupError, Peers, Standing};
use serde_json::{Value, json};

use crate::{
    args::{ForceArgs, ForceNewArgs},
    config,
    data_lock::DataLock,
    output,
};

/// A node that is stopped, and its group.
struct Node {
    config: BrokerConfig,
    peers: Peers,
    client: GroupClient,
}

impl Node {
    fn of(args: &ForceArgs) -> anyhow::Result<Self> {
        let config = config::broker_of(&args.config, &args.set)?;
        let peers = Peers::parse(&config.dleger_peers).context("dLegerPeers")?;
        ensure!(
            peers.iter().count() > 1,
            "dLegerPeers={} names no other member: give the configuration as the group had it",
            config.dleger_peers
        );
        let id = &config.dleger_self_id;
        ensure!(peers.get(id).is_some(), "dLegerSelfId={id} is not among the members");
        let client = GroupClient::new(config.dleger_group.clone(), peers.clone(), args.timeout);
        Ok(Self { config, peers, client })
    }

    fn id(&self) -> &str {
        &self.config.dleger_self_id
    }

    fn others(&self) -> impl Iterator<Item = &str> {
        self.peers.iter().map(|peer| peer.id.as_str()).filter(|id| *id != self.id())
    }

    /// What each other member says that answers; a Java member tells its leader only.
    async fn answering(&self) -> Vec<(String, Value)> {
        let mut all = Vec::new();
        for id in self.others() {
            let told = match self.client.status(id).await {
                Ok(text) => serde_json::from_slice(&text).unwrap_or(Value::Null),
                // An open port is a process that may go on.
                Err(GroupError::Call(error)) if !error.may_have_been_sent() => continue,
                Err(_) => match self.client.metadata(id).await {
                    Ok(known) => json!({ "leader": known.leader_id }),
                    Err(_) => Value::Null,
                },
            };
            all.push((id.to_owned(), told));
        }
        all
    }
}

/// Makes a stopped node a group of its own.
pub(super) async fn new(args: &ForceNewArgs, as_json: bool) -> anyhow::Result<()> {
    let node = Node::of(&args.force)?;
    let others: BTreeSet<&str> = node.others().collect();
    let named: BTreeSet<&str> = args.lost.iter().map(String::as_str).collect();
    let all: Vec<&str> = others.iter().copied().collect();
    ensure!(
        named == others,
        "the other members of {} are {}: name each of them by --lost",
        node.config.dleger_group,
        all.join(", ")
    );
    let alive: Vec<String> = node.answering().await.into_iter().map(|(id, _)| id).collect();
    ensure!(
        alive.is_empty(),
        "{} answers, and is not lost: bring the group back with it, or stop it for good first",
        alive.join(", ")
    );
    let _lock = lock(&node)?;
    let offline = Offline::find(node.config.clone())?;
    let log = offline.stopped_log()?;
    let standing = log.standing();
    let what = format!(
        "entries behind the last one here, and changes in them, are lost where {} had them; entries that no majority had become messages",
        all.join(", ")
    );
    show(&node, &standing, &what, as_json)?;
    if let Some(doubt) = standing.doubt.filter(|_| !args.accept_doubt) {
        log.leave()?;
        bail!(
            "{} may lack entries that it has acknowledged ({doubt:?}): use the member that is not in doubt, or say --accept-doubt; nothing was changed",
            node.id()
        );
    }
    if !args.force.accept_loss {
        log.leave()?;
        bail!("nothing was changed: say --accept-loss to make {} a group of its own", node.id());
    }
    let term = log.force()?;
    offline.leave_group()?;
    let next = format!(
        "{} is a group of its own, in terms beyond {term}. Take dLegerPeers out of {} and start it. The other members must not start again on their folders; docs/group.md tells how to add members",
        node.id(),
        args.force.config.display()
    );
    Ok(super::done(as_json, &next)?)
}

/// Settles the doubt of a stopped node.
pub(super) async fn start(args: &ForceArgs, as_json: bool) -> anyhow::Result<()> {
    let node = Node::of(args)?;
    let answering = node.answering().await;
    for (id, told) in &answering {
        if let Some(leader) = told.get("leader").and_then(Value::as_str) {
            bail!(
                "{leader} leads, as {id} says: start {}, and it gets what it lacks from there; nothing was changed",
                node.id()
            );
        }
    }
    let _lock = lock(&node)?;
    let log = Offline::find(node.config.clone())?.stopped_log()?;
    let standing = log.standing();
    let what =
        "what a majority acknowledged and neither this member nor the one that leads next has";
    show(&node, &standing, what, as_json)?;
    for (id, told) in &answering {
        let end = told.get("end").and_then(Value::as_u64);
        tracing::info!(member = id, end, doubt = ?told.get("doubt"), "a member that answers");
    }
    if standing.doubt.is_none() {
        log.leave()?;
        bail!("{} is not in doubt: its vote counts as it is; nothing was changed", node.id());
    }
    if !args.accept_loss {
        log.leave()?;
        bail!("nothing was changed: say --accept-loss to let the vote of {} count", node.id());
    }
    let term = log.force()?;
    let next = format!(
        "{} is in doubt no more, in terms from {term} on: start it. It takes as many such members as make a majority of {}",
        node.id(),
        node.peers.iter().count()
    );
    Ok(super::done(as_json, &next)?)
}

/// No broker works on the folder meanwhile, nor makes one: it must be there.
fn lock(node: &Node) -> anyhow::Result<DataLock> {
    let root = std::path::Path::new(&node.config.store_path_root_dir);
    let log = root.join(format!("dledger-{}", node.id()));
    ensure!(
        log.is_dir(),
        "{} is not there: look at storePathRootDir and dLegerSelfId",
        log.display()
    );
    Ok(DataLock::take(root, "storePathRootDir")?)
}

fn show(node: &Node, standing: &Standing, lost: &str, as_json: bool) -> anyhow::Result<()> {
    let Standing { term, last, committed, doubt, rotten } = standing;
    let (end, end_term) = last.unzip();
    let doubt = doubt.map(|doubt| format!("{doubt:?}"));
    let mut table = output::table(&["what", "value"]);
    let number = |number: Option<u64>| number.map_or("-".to_owned(), |number| number.to_string());
    for (what, value) in [
        ("member", node.id().to_owned()),
        ("folder", output::printable(&node.config.store_path_root_dir)),
        ("term", term.to_string()),
        ("last entry", number(end)),
        ("its term", number(end_term)),
        ("known to be committed", number(*committed)),
        ("doubt", doubt.clone().unwrap_or_else(|| "-".to_owned())),
        ("ranges that cannot be read", rotten.to_string()),
        ("may be lost", lost.to_owned()),
    ] {
        table.add_row([what.to_owned(), value]);
    }
    let json = json!({
        "id": node.id(), "term": term, "end": end, "endTerm": end_term, "committed": committed,
        "doubt": doubt, "rotten": rotten, "mayBeLost": lost,
    });
    Ok(output::Shown { table, json }.print(as_json)?)
}
