//! Who may depend on whom, from `cargo metadata`.

use std::collections::{BTreeMap, BTreeSet};

use anyhow::{Context, Result};
use serde_json::Value;

use super::Finding;

/// Each crate with the members that it may name (ARCHITECTURE.md). Tests and xtask may name any.
const ALLOWED: &[(&str, &[&str])] = &[
    (
        "ledgermq",
        &[
            "broker",
            "namesrv",
            "client",
            "namesrv-client",
            "dledger",
            "store",
            "remoting",
            "protocol",
            "segment",
        ],
    ),
    ("broker", &["store", "dledger", "namesrv-client", "remoting", "protocol", "segment"]),
    ("client", &["namesrv-client", "remoting", "protocol"]),
    ("namesrv", &["remoting", "protocol"]),
    ("namesrv-client", &["remoting", "protocol"]),
    ("dledger", &["dledger-core", "segment", "remoting", "protocol"]),
    ("store", &["segment", "protocol"]),
    ("remoting", &["protocol"]),
    ("protocol", &[]),
    ("segment", &[]),
    ("dledger-core", &[]),
];

/// Crates without a runtime, a socket or a clock.
const LEAVES: &[&str] = &["protocol", "segment", "dledger-core"];

/// What no leaf may bring in, by whatever way.
const IMPURE: &[&str] = &["tokio", "async-std", "smol", "mio", "socket2", "rand", "getrandom"];

/// Members that may name any other.
const FREE: &[&str] = &["xtask", "golden", "crash", "interop", "sim", "fuzz-targets", "failover"];

/// Members that depend on a member above or beside them.
pub(super) fn edges(metadata: &Value) -> Result<Vec<Finding>> {
    let members = members(metadata)?;
    let mut findings = Vec::new();
    for (name, package) in &members {
        if FREE.contains(name) {
            continue;
        }
        let Some((_, allowed)) = ALLOWED.iter().find(|(member, _)| member == name) else {
            let text = "is not in the table of allowed dependencies: add it there".to_owned();
            findings.push(Finding { place: (*name).to_owned(), text });
            continue;
        };
        for dependency in list(package, "dependencies")? {
            let target = text(dependency, "name")?;
            let development = dependency.get("kind").and_then(Value::as_str) == Some("dev");
            if members.contains_key(target) && !development && !allowed.contains(&target) {
                let text = format!("depends on {target}, which its layer does not know");
                findings.push(Finding { place: (*name).to_owned(), text });
            }
        }
    }
    Ok(findings)
}

/// Leaf crates whose dependencies, or theirs, bring in a runtime, a socket or an RNG.
pub(super) fn pure_leaves(metadata: &Value) -> Result<Vec<Finding>> {
    let names = names(metadata)?;
    let resolve = metadata.get("resolve").context("cargo metadata has no `resolve`")?;
    let mut graph: BTreeMap<&str, Vec<&str>> = BTreeMap::new();
    for node in list(resolve, "nodes")? {
        let mut below = Vec::new();
        for dependency in list(node, "deps")? {
            if list(dependency, "dep_kinds")?.iter().any(|kind| kind["kind"].is_null()) {
                below.push(text(dependency, "pkg")?);
            }
        }
        graph.insert(text(node, "id")?, below);
    }
    let mut findings = Vec::new();
    for (id, leaf) in names.iter().filter(|(_, name)| LEAVES.contains(name)) {
        for reached in reach(&graph, id) {
            let name = names.get(reached).copied().unwrap_or(reached);
            if IMPURE.contains(&name) {
                let text = format!("brings in {name}; it has neither runtime, socket nor RNG");
                findings.push(Finding { place: (*leaf).to_owned(), text });
            }
        }
    }
    Ok(findings)
}

/// Crates that are built with faults planted in them: no build of all members together may have
/// them, for then the binary has them, too. `tree` is what `cargo tree --edges features` prints.
pub(super) fn planted(tree: &str) -> Vec<Finding> {
    let lines: BTreeSet<&str> =
        tree.lines().filter(|line| line.contains("feature \"planted\"")).collect();
    let finding = |line: &str| Finding {
        place: line.split_whitespace().next().unwrap_or_default().to_owned(),
        text: "is built with feature `planted`, and so is ledgermq: only tests/sim may name it, \
               and not among its default features"
            .to_owned(),
    };
    lines.into_iter().map(finding).collect()
}

fn reach<'a>(graph: &BTreeMap<&'a str, Vec<&'a str>>, from: &'a str) -> BTreeSet<&'a str> {
    let mut seen = BTreeSet::new();
    let mut open = vec![from];
    while let Some(id) = open.pop() {
        for below in graph.get(id).into_iter().flatten() {
            if seen.insert(*below) {
                open.push(below);
            }
        }
    }
    seen
}

fn members(metadata: &Value) -> Result<BTreeMap<&str, &Value>> {
    let ids: BTreeSet<&str> =
        list(metadata, "workspace_members")?.iter().filter_map(Value::as_str).collect();
    let mut members = BTreeMap::new();
    for package in list(metadata, "packages")? {
        if ids.contains(text(package, "id")?) {
            members.insert(text(package, "name")?, package);
        }
    }
    Ok(members)
}

fn names(metadata: &Value) -> Result<BTreeMap<&str, &str>> {
    let packages = list(metadata, "packages")?;
    packages.iter().map(|package| Ok((text(package, "id")?, text(package, "name")?))).collect()
}

fn list<'a>(value: &'a Value, key: &str) -> Result<&'a Vec<Value>> {
    value.get(key).and_then(Value::as_array).with_context(|| format!("no list `{key}`"))
}

fn text<'a>(value: &'a Value, key: &str) -> Result<&'a str> {
    value.get(key).and_then(Value::as_str).with_context(|| format!("no text `{key}`"))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn workspace(kind: Option<&str>) -> Value {
        let package = |name: &str, dependencies: Value| json!({ "id": name, "name": name, "dependencies": dependencies });
        json!({
            "workspace_members": ["store", "dledger", "dledger-core"],
            "packages": [
                package("store", json!([{ "name": "dledger", "kind": kind }])),
                package("dledger", json!([{ "name": "dledger-core", "kind": null }])),
                package("dledger-core", json!([{ "name": "innocent", "kind": null }])),
                package("innocent", json!([])),
                package("tokio", json!([])),
            ],
            "resolve": { "nodes": [
                { "id": "dledger-core", "deps": [{ "pkg": "innocent", "dep_kinds": [{ "kind": null }] }] },
                { "id": "innocent", "deps": [{ "pkg": "tokio", "dep_kinds": [{ "kind": kind }] }] },
            ] },
        })
    }

    #[test]
    fn a_build_with_planted_faults_is_found() {
        let tree = "ledgermq v0.1.0\ndledger-core feature \"default\"\n";
        assert_eq!(planted(tree), vec![]);
        let found = planted(&format!("{tree}dledger-core feature \"planted\"\n"));
        assert_eq!(found.len(), 1);
        assert_eq!(found[0].place, "dledger-core");
    }

    #[test]
    fn an_edge_that_points_up_is_found() {
        let found = edges(&workspace(None)).unwrap();
        assert_eq!(found.len(), 1);
        assert_eq!(found[0].place, "store");
        assert!(found[0].text.contains("dledger"), "{}", found[0]);
        assert_eq!(edges(&workspace(Some("dev"))).unwrap(), vec![]);
    }

    #[test]
    fn a_runtime_below_a_leaf_is_found_however_deep() {
        let found = pure_leaves(&workspace(None)).unwrap();
        assert_eq!(found.len(), 1);
        assert_eq!(found[0].place, "dledger-core");
        assert!(found[0].text.contains("tokio"), "{}", found[0]);
        assert_eq!(pure_leaves(&workspace(Some("dev"))).unwrap(), vec![]);
    }

    #[test]
    fn a_new_member_must_be_placed_in_the_table() {
        let stranger = json!({
            "workspace_members": ["proxy"],
            "packages": [{ "id": "proxy", "name": "proxy", "dependencies": [] }],
        });
        assert_eq!(edges(&stranger).unwrap().len(), 1);
    }
}
