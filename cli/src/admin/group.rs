//! `ledgermq admin group`.

use anyhow::{Context, bail, ensure};
use dledger::{GroupClient, GroupError, Peers};
use serde_json::{Value, json};

use crate::{
    admin::force,
    args::{GroupCommand, GroupOf},
    config, output,
};

/// What a member says of itself.
struct Told {
    id: String,
    address: String,
    /// With the key `error` where it did not answer.
    status: Value,
}

/// Does what the arguments say.
pub(super) async fn run(
    admin: &client::Admin,
    command: GroupCommand,
    as_json: bool,
) -> anyhow::Result<()> {
    match command {
        GroupCommand::Status(of) => status(&connect(&of)?, as_json).await,
        GroupCommand::Transfer { of, to } => {
            let client = connect(&of)?;
            let to = match to {
                Some(to) => to,
                None => fittest(&ask_all(&client).await)?,
            };
            client.transfer(&to).await.with_context(|| format!("{to} does not lead"))?;
            super::done(as_json, &format!("{to} leads"))?;
            Ok(())
        }
        GroupCommand::Recorder { of, member } => {
            recorder(&connect(&of)?, member.as_deref(), as_json).await
        }
        GroupCommand::Takeover(args) => super::takeover::run(admin, &args, as_json).await,
        GroupCommand::ForceStart(args) => force::start(&args, as_json).await,
        GroupCommand::ForceNew(args) => force::new(&args, as_json).await,
    }
}

fn connect(of: &GroupOf) -> anyhow::Result<GroupClient> {
    let (group, peers) = match (&of.config, &of.group, &of.peers) {
        (Some(file), _, _) => config::group(file)?,
        (None, Some(group), Some(peers)) => (group.clone(), peers.clone()),
        _ => bail!("name the group: -c broker.conf, or --group NAME and --peers MEMBERS"),
    };
    Ok(GroupClient::new(group, Peers::parse(&peers)?, of.timeout))
}

/// Asks every member.
async fn ask_all(client: &GroupClient) -> Vec<Told> {
    let mut all = Vec::new();
    for peer in client.peers().iter() {
        let status = ask(client, &peer.id).await;
        all.push(Told { id: peer.id.clone(), address: peer.address.clone(), status });
    }
    all
}

/// A Java member knows METADATA only.
async fn ask(client: &GroupClient, id: &str) -> Value {
    let failed = |error: &dyn std::fmt::Display| json!({ "error": error.to_string() });
    match client.status(id).await {
        Ok(text) => serde_json::from_slice(&text).unwrap_or_else(|error| failed(&error)),
        Err(GroupError::Unserved { .. }) => match client.metadata(id).await {
            Ok(known) => json!({ "role": "(Java)", "leader": known.leader_id, "term": known.term }),
            Err(error) => failed(&error),
        },
        Err(error) => failed(&error),
    }
}

const COLUMNS: [(&str, &str); 14] = [
    ("role", "role"),
    ("term", "term"),
    ("leader", "leader"),
    ("end", "end"),
    ("committed", "committed"),
    ("committed-bytes", "committedBytes"),
    ("flushed-bytes", "flushedBytes"),
    ("healthy", "healthy"),
    ("room", "room"),
    ("doubt", "doubt"),
    ("rotten", "rotten"),
    ("failure", "failure"),
    ("version", "version"),
    ("client", "client"),
];

async fn status(client: &GroupClient, as_json: bool) -> anyhow::Result<()> {
    let members = ask_all(client).await;
    let head: Vec<&str> =
        ["id", "address"].into_iter().chain(COLUMNS.map(|(title, _)| title)).collect();
    let mut table = output::table(&head);
    for Told { id, address, status } in &members {
        let cells = COLUMNS.map(|(title, name)| match (title, status.get("error")) {
            ("role", Some(error)) => shown(Some(error)),
            _ => shown(status.get(name)),
        });
        table.add_row([id.clone(), address.clone()].into_iter().chain(cells));
    }
    let json = members.iter().map(|told| as_object(told, &["events"])).collect();
    output::Shown { table, json: Value::Array(json) }.print(as_json)?;
    let answered = members.iter().filter(|told| told.status.get("error").is_none()).count();
    ensure!(answered > 0, "no member answered");
    Ok(())
}

async fn recorder(client: &GroupClient, member: Option<&str>, as_json: bool) -> anyhow::Result<()> {
    let mut members = ask_all(client).await;
    members.retain(|told| member.is_none_or(|id| id == told.id));
    ensure!(!members.is_empty(), "no such member: use an id of dLegerPeers");
    let mut events: Vec<(i64, &str, &str)> = Vec::new();
    for Told { id, status, .. } in &members {
        let lines = status.get("events").and_then(Value::as_array).into_iter().flatten();
        for line in lines.filter_map(Value::as_str) {
            let (at, text) = line.split_once(' ').unwrap_or(("0", line));
            events.push((at.parse().unwrap_or(0), id, text));
        }
    }
    events.sort_unstable();
    let mut table = output::table(&["time", "id", "event"]);
    for (at, id, text) in &events {
        table.add_row([output::time(*at), (*id).to_owned(), output::printable(text)]);
    }
    let json = events.iter().map(|(at, id, text)| json!({ "at": at, "id": id, "event": text }));
    output::Shown { table, json: json.collect() }.print(as_json)?;
    for Told { id, status, .. } in &members {
        if let Some(error) = status.get("error") {
            tracing::warn!(member = id, error = shown(Some(error)), "no answer");
        }
    }
    Ok(())
}

/// The follower with the longest log, among those that could lead: with room, where one has some.
fn fittest(members: &[Told]) -> anyhow::Result<String> {
    let able = members.iter().filter(|told| {
        let status = &told.status;
        status
            .get("role")
            .and_then(Value::as_str)
            .is_some_and(|role| role.eq_ignore_ascii_case("follower"))
            && status.get("healthy").and_then(Value::as_bool) == Some(true)
            && status.get("doubt").is_none_or(Value::is_null)
    });
    let has_room = |status: &Value| status.get("room").and_then(Value::as_bool) != Some(false);
    let best = able.max_by_key(|told| {
        (has_room(&told.status), told.status.get("end").and_then(Value::as_u64))
    });
    let best = best.context("no follower could lead: look at `ledgermq admin group status`")?;
    Ok(best.id.clone())
}

/// Id, address and what the member told, but for some keys.
fn as_object(told: &Told, without: &[&str]) -> Value {
    let mut object = json!({ "id": told.id, "address": told.address });
    for (name, value) in told.status.as_object().into_iter().flatten() {
        if !without.contains(&name.as_str()) {
            object[name] = value.clone();
        }
    }
    object
}

fn shown(value: Option<&Value>) -> String {
    match value {
        None | Some(Value::Null) => "-".to_owned(),
        Some(Value::String(text)) => output::printable(text),
        Some(other) => other.to_string(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn told(id: &str, status: Value) -> Told {
        Told { id: id.to_owned(), address: String::new(), status }
    }

    #[test]
    fn the_lead_goes_to_the_follower_that_has_most_and_is_well() {
        let follower = |end: u64, healthy: bool, doubt: Option<&str>| json!({ "role": "FOLLOWER", "end": end, "healthy": healthy, "doubt": doubt });
        let mut members = vec![
            told("n0", json!({ "role": "LEADER", "end": 20, "healthy": true, "doubt": null })),
            told("n1", follower(10, true, None)),
            told("n2", follower(12, true, None)),
            told("n3", follower(14, false, None)),
            told("n4", follower(14, true, Some("Empty"))),
            told("n5", json!({ "error": "no answer" })),
        ];
        assert_eq!(fittest(&members).expect("one"), "n2");
        members.retain(|told| told.id != "n1" && told.id != "n2");
        assert!(fittest(&members).is_err());
    }
}
