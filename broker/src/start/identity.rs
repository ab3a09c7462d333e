//! Whose data a folder holds: one of another cluster or node is refused before anything is touched.

use std::{path::Path, sync::Arc};

use segment::{Backup, SmallFile, Vfs};

use crate::config::BrokerConfig;

/// The file under `storePathRootDir`; Java passes over it.
const FILE: &str = "identity";

/// Checks that the folder is this broker's, and writes down whose it is where nothing says so yet.
/// The name of the broker is not part of it: by default it is the host's, which may change.
///
/// # Errors
/// A text with both names and the way out.
pub(super) fn check(vfs: &Arc<dyn Vfs>, config: &BrokerConfig) -> Result<(), String> {
    let root = Path::new(&config.store_path_root_dir);
    let failed = |error| format!("{}: {error}", root.join(FILE).display());
    vfs.create_directory(root).map_err(failed)?;
    refuse_other_logs(&**vfs, root, &config.dleger_self_id)?;
    let file = SmallFile::new(Arc::clone(vfs), root.join(FILE), Backup::None);
    let ours = [
        ("brokerClusterName", config.broker_cluster_name.as_str()),
        ("dLegerSelfId", config.dleger_self_id.as_str()),
    ];
    let found = file.load().map_err(failed)?.unwrap_or_default();
    let found = String::from_utf8_lossy(&found);
    for (key, own) in ours {
        if let Some(theirs) = value(&found, key).filter(|theirs| *theirs != own) {
            return Err(format!(
                "{} holds the data of {key}={theirs}, and this broker has {key}={own}: use another storePathRootDir or set that value; if the data shall belong to this broker from now on, remove the file {FILE} in that folder",
                root.display()
            ));
        }
    }
    let members = member_ids(config);
    check_group(config, &members, (value(&found, MEMBERS), value(&found, LEFT)))?;
    let mut text: String = ours.iter().map(|(key, value)| format!("{key}={value}\n")).collect();
    if members.contains(BETWEEN) {
        text.push_str(&format!("{MEMBERS}={members}\n"));
    }
    if let Some(left) = value(&found, LEFT) {
        text.push_str(&format!("{LEFT}={left}\n"));
    }
    if text != found { file.store(text.as_bytes()).map_err(failed) } else { Ok(()) }
}

/// A node of several does not become a group of one by a key that is missing: the others would go on
/// without it, and what both write could never be brought together. One that was made a group of its
/// own does not go back among those that it left.
fn check_group(
    config: &BrokerConfig,
    members: &str,
    (before, left): (Option<&str>, Option<&str>),
) -> Result<(), String> {
    let several = members.contains(BETWEEN);
    if let Some(before) = before.filter(|before| !several && before.contains(BETWEEN)) {
        return Err(format!(
            "{} holds the log of a member of {before}, and dLegerPeers={} names this node alone: name all members; if the others are lost for good, `ledgermq admin group force-new` makes it a group of its own",
            config.store_path_root_dir, config.dleger_peers
        ));
    }
    if several && left == Some(config.dleger_group.as_str()) {
        return Err(format!(
            "{} was made a group of its own and has left dLegerGroup={}: leave dLegerPeers out; to have other members again, give the group a new name and start them with empty folders",
            config.store_path_root_dir, config.dleger_group
        ));
    }
    Ok(())
}

/// Writes down that this node is a group of its own from now on, by an operator's word.
///
/// # Errors
/// A text with the file and what the disk answers.
pub(crate) fn leave_group(vfs: &Arc<dyn Vfs>, config: &BrokerConfig) -> Result<(), String> {
    let root = Path::new(&config.store_path_root_dir);
    let file = SmallFile::new(Arc::clone(vfs), root.join(FILE), Backup::None);
    let text = format!(
        "brokerClusterName={}\ndLegerSelfId={}\n{LEFT}={}\n",
        config.broker_cluster_name, config.dleger_self_id, config.dleger_group
    );
    file.store(text.as_bytes()).map_err(|error| format!("{}: {error}", root.join(FILE).display()))
}

/// The ids of all members.
fn member_ids(config: &BrokerConfig) -> String {
    let peers = dledger::Peers::parse(&super::members::listed(config));
    let ids = peers.iter().flat_map(dledger::Peers::iter).map(|peer| peer.id.as_str());
    ids.collect::<Vec<_>>().join(BETWEEN)
}

fn value<'a>(text: &'a str, key: &str) -> Option<&'a str> {
    text.lines().find_map(|line| line.strip_prefix(key)?.strip_prefix('='))
}

/// The line with the members, where there are several.
const MEMBERS: &str = "members";
/// The line with the group that was left.
const LEFT: &str = "left";
/// Between two ids.
const BETWEEN: &str = ";";

/// The folder of the log carries the node's id. Where another node's is and ours is not, an empty
/// log would be begun beside the queues of that node.
fn refuse_other_logs(vfs: &dyn Vfs, root: &Path, self_id: &str) -> Result<(), String> {
    let folders =
        vfs.list_directories(root).map_err(|error| format!("{}: {error}", root.display()))?;
    let own = format!("dledger-{self_id}");
    if folders.contains(&own) {
        return Ok(());
    }
    match folders.iter().find_map(|name| name.strip_prefix("dledger-")) {
        None => Ok(()),
        Some(other) => Err(format!(
            "{} holds the log of node {other} (dledger-{other}) and none of this node (dLegerSelfId={self_id}): set dLegerSelfId={other}, or use another storePathRootDir",
            root.display()
        )),
    }
}

#[cfg(test)]
mod tests {
    use segment::SimVfs;

    use super::*;

    fn config(cluster: &str, id: &str) -> BrokerConfig {
        BrokerConfig {
            store_path_root_dir: "store".to_owned(),
            broker_cluster_name: cluster.to_owned(),
            dleger_self_id: id.to_owned(),
            ..BrokerConfig::default()
        }
    }

    #[test]
    fn s_25_the_data_of_another_cluster_or_node_is_refused() {
        let disk = SimVfs::new();
        let vfs: Arc<dyn Vfs> = Arc::new(disk.clone());
        check(&vfs, &config("one", "n0")).unwrap();
        check(&vfs, &config("one", "n0")).unwrap();
        let error = check(&vfs, &config("two", "n0")).unwrap_err();
        assert!(error.contains("brokerClusterName=one") && error.contains("=two"), "{error}");
        let error = check(&vfs, &config("one", "n1")).unwrap_err();
        assert!(error.contains("dLegerSelfId=n0"), "{error}");
        disk.remove(Path::new("store/identity")).unwrap();
        check(&vfs, &config("two", "n0")).unwrap();
    }

    fn of_group(group: &str, peers: &str) -> BrokerConfig {
        BrokerConfig {
            dleger_group: group.to_owned(),
            dleger_peers: peers.to_owned(),
            ..config("one", "n0")
        }
    }

    #[test]
    fn a_member_of_several_becomes_no_group_of_one_by_a_missing_key() {
        let vfs: Arc<dyn Vfs> = Arc::new(SimVfs::new());
        let three = of_group("g", "n0-a:1;n1-b:1;n2-c:1");
        let alone = of_group("g", "");
        check(&vfs, &alone).unwrap();
        check(&vfs, &three).unwrap();
        let error = check(&vfs, &alone).unwrap_err();
        assert!(error.contains("n0;n1;n2") && error.contains("force-new"), "{error}");
        check(&vfs, &of_group("g", "n0-a:1;n1-b:1;n3-c:1")).unwrap();
        leave_group(&vfs, &three).unwrap();
        for _ in 0..2 {
            check(&vfs, &alone).unwrap();
            let error = check(&vfs, &three).unwrap_err();
            assert!(error.contains("has left dLegerGroup=g"), "{error}");
        }
        check(&vfs, &of_group("h", "n0-a:1;n1-b:1;n2-c:1")).unwrap();
        check(&vfs, &three).unwrap_err();
    }

    #[test]
    fn s_25_the_log_of_another_node_is_refused_also_where_java_wrote_it() {
        let disk = SimVfs::new();
        let vfs: Arc<dyn Vfs> = Arc::new(disk.clone());
        disk.create_directory(Path::new("store/dledger-n1/data")).unwrap();
        let error = check(&vfs, &config("one", "n0")).unwrap_err();
        assert!(error.contains("holds the log of node n1"), "{error}");
        check(&vfs, &config("one", "n1")).unwrap();
    }
}
