//! `ledgermq dledger status`.

use anyhow::ensure;
use dledger::{GroupClient, GroupError};
use serde_json::{Value, json};

use super::connect;
use crate::{args::StatusArgs, output};

/// Columns of the table of members: heads and fields.
const MEMBERS: [(&str, &str); 12] = [
    ("address", "address"),
    ("kind", "kind"),
    ("role", "role"),
    ("term", "term"),
    ("leader", "leader"),
    ("end", "end"),
    ("written", "written"),
    ("flushed", "flushed"),
    ("committed", "committed"),
    ("healthy", "healthy"),
    ("doubt", "doubt"),
    ("rotten", "rotten"),
];

/// Columns of the table of what the leader knows of the others.
const FOLLOWERS: [(&str, &str); 7] = [
    ("kind", "kind"),
    ("match", "match"),
    ("flushed", "flushed"),
    ("bytes in flight", "inFlightBytes"),
    ("silent ms", "silentMs"),
    ("healthy", "healthy"),
    ("provisional", "provisional"),
];

/// Asks every member; fails where none answers.
pub(super) async fn run(args: StatusArgs) -> anyhow::Result<()> {
    let client = connect(&args.group)?;
    let mut members = Vec::new();
    for peer in client.peers().iter() {
        let mut member = json!({ "id": peer.id, "address": peer.address });
        for (name, value) in of(&client, &peer.id).await.as_object().into_iter().flatten() {
            member[name] = value.clone();
        }
        members.push(member);
    }
    if args.json {
        members.iter().try_for_each(|member| output::line(&member.to_string()))?;
    } else {
        show(&members, args.events)?;
    }
    let answered = members.iter().any(|member| member.get("error").is_none());
    ensure!(answered, "no member of group {} answered", args.group.group);
    Ok(())
}

fn show(members: &[Value], events: bool) -> std::io::Result<()> {
    output::line(&table("id", &MEMBERS, members))?;
    let leader = members.iter().find(|member| member["role"] == "LEADER");
    if let Some(leader) = leader
        && let Some(others) = leader["others"].as_array().filter(|others| !others.is_empty())
    {
        output::line("")?;
        output::line(&table("follower", &FOLLOWERS, others))?;
    }
    for member in members.iter().filter(|_| events) {
        for event in member["events"].as_array().into_iter().flatten() {
            let event = event.as_str().unwrap_or_default();
            output::line(&output::printable(&format!("{}  {event}", field(member, "id"))))?;
        }
    }
    Ok(())
}

/// A row for each of `rows`, which begins with its id.
fn table(first: &str, columns: &[(&str, &str)], rows: &[Value]) -> String {
    let heads: Vec<&str> =
        std::iter::once(first).chain(columns.iter().map(|(head, _)| *head)).collect();
    let mut table = output::table(&heads);
    for row in rows {
        let cell = |name: &str| match row.get("error") {
            // In the place of the role there is why it does not tell it.
            Some(_) if name == "role" => field(row, "error"),
            _ => field(row, name),
        };
        let cells = columns.iter().map(|(_, name)| cell(name));
        table.add_row(std::iter::once(field(row, "id")).chain(cells));
    }
    table.trim_fmt()
}

fn field(value: &Value, name: &str) -> String {
    match value.get(name) {
        None | Some(Value::Null) => "-".to_owned(),
        Some(Value::String(text)) => output::printable(text),
        Some(Value::Bool(yes)) => (if *yes { "yes" } else { "no" }).to_owned(),
        Some(other) => other.to_string(),
    }
}

/// What a member says of itself. A Java member knows METADATA only.
async fn of(client: &GroupClient, id: &str) -> Value {
    match client.status(id).await {
        Ok(text) => serde_json::from_slice(&text)
            .unwrap_or_else(|error| json!({ "error": format!("unreadable: {error}") })),
        Err(GroupError::Unserved { .. }) => match client.metadata(id).await {
            Ok(known) => {
                let leads = known.leader_id.as_deref() == Some(id);
                let role = if leads { "LEADER" } else { "-" };
                let term = known.term;
                json!({ "kind": "Java", "role": role, "term": term, "leader": known.leader_id })
            }
            Err(error) => json!({ "error": error.to_string() }),
        },
        Err(error) => json!({ "error": error.to_string() }),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn members_and_what_the_leader_knows_of_them_are_tables() {
        let members = [
            json!({ "id": "n0", "address": "h:1", "kind": "LedgerMQ", "role": "LEADER", "term": 3,
                    "end": 9, "committed": 8, "healthy": true, "doubt": null, "rotten": 0 }),
            json!({ "id": "n1", "address": "h:2", "error": "it cannot be reached" }),
        ];
        let text = table("id", &MEMBERS, &members);
        let rows: Vec<Vec<&str>> =
            text.lines().map(|line| line.split_whitespace().collect()).collect();
        assert!(rows.iter().any(|row| row.starts_with(&["n0", "h:1", "LedgerMQ", "LEADER", "3"])));
        assert!(text.contains("it cannot be reached"), "{text}");
        let others = [json!({ "id": "n1", "kind": "Java", "match": 7, "healthy": false })];
        let text = table("follower", &FOLLOWERS, &others);
        let last: Vec<&str> = text.lines().last().unwrap().split_whitespace().collect();
        assert_eq!(last, ["n1", "Java", "7", "-", "-", "-", "no", "-"]);
    }
}
