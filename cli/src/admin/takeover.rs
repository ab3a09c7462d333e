//! `ledgermq admin group takeover`: which step of a take-over of a Java group comes next, and whether it
//! may be made now. It changes nothing.

mod plan;
mod tables;

use std::path::Path;

use anyhow::{Context, bail};
use client::Admin;
use dledger::{GroupClient, GroupError, Peers};
use protocol::properties_text;
use serde_json::{Value, json};

use self::plan::{Member, Product, Step};
use crate::{args::TakeOver, config, output};

/// What is the same for all members, or they could not be one group or would not be found as one.
const SHARED_KEYS: [&str; 5] =
    ["brokerName", "brokerClusterName", "dLegerGroup", "dLegerPeers", "mappedFileSizeCommitLog"];

/// A member as it is shown.
struct Seen {
    member: Member,
    /// Where its clients are served, as the routes say.
    client: Option<String>,
    version: Option<String>,
    /// Why it did not answer.
    error: Option<String>,
}

/// Looks at all members and tells the next step.
pub(super) async fn run(admin: &Admin, args: &TakeOver, as_json: bool) -> anyhow::Result<()> {
    let wanted = if args.back { Product::Java } else { Product::Ours };
    let file = config::shared(&args.config, &SHARED_KEYS)?;
    let (group, peers) = config::group(&args.config)?;
    let client = GroupClient::new(group, Peers::parse(&peers)?, args.timeout);
    let name = file.iter().find(|(key, _)| *key == "brokerName").map(|(_, value)| value.as_str());
    let name = name.filter(|name| !name.is_empty()).context("brokerName is not set in the file")?;
    let addresses = admin.cluster().await?.broker_addr_table.remove(name);
    let addresses = addresses.map(|group| group.broker_addrs).unwrap_or_default();
    let mut all = Vec::new();
    for peer in client.peers().iter() {
        let mut seen = ask(&client, &peer.id).await;
        let leads = seen.member.leads();
        let number = peer.id.get(1..).and_then(|number| number.parse::<i64>().ok());
        let broker_id = if leads { 0 } else { number.map_or(1, |number| number + 1) };
        if let Some(address) = addresses.get(&broker_id) {
            seen.member.listed = true;
            seen.client = Some(address.clone());
            look_at_client_port(admin, address, &file, &mut seen).await;
        }
        all.push(seen);
    }
    client.close();
    if wanted == Product::Java {
        tables::compare(admin, &mut all).await;
    }
    let members: Vec<Member> = all.iter().map(|seen| seen.member.clone()).collect();
    let step = plan::next(&members, wanted);
    show(&all, &step, &text_of(&step, wanted, &args.config), as_json)?;
    if let Step::Wait(reasons) = step {
        bail!("not yet: {}", reasons.join("; "));
    }
    Ok(())
}

/// A Java member knows METADATA only.
async fn ask(client: &GroupClient, id: &str) -> Seen {
    let mut member = Member {
        id: id.to_owned(),
        product: None,
        leader: None,
        unfit: None,
        listed: false,
        end: None,
        differs: Vec::new(),
        lacks: None,
    };
    let mut failure = None;
    match client.status(id).await {
        Ok(text) => {
            let told: Value = serde_json::from_slice(&text).unwrap_or_default();
            member.product = Some(Product::Ours);
            member.leader = told["leader"].as_str().map(str::to_owned);
            member.unfit = told["doubt"].as_str().map(str::to_owned);
            if told["tables"] == false {
                member.unfit = Some("it has not taken the master's tables".to_owned());
            }
            if told["healthy"] == false {
                member.unfit = Some("its disk does not take appends".to_owned());
            }
        }
        Err(GroupError::Unserved { .. }) => match client.metadata(id).await {
            Ok(known) => {
                member.product = Some(Product::Java);
                member.leader = known.leader_id;
            }
            Err(error) => failure = Some(error.to_string()),
        },
        Err(error) => failure = Some(error.to_string()),
    }
    Seen { member, client: None, version: None, error: failure }
}

/// Version, end of the log and configuration, as the broker tells them.
async fn look_at_client_port(
    admin: &Admin,
    address: &str,
    file: &[(&'static str, String)],
    seen: &mut Seen,
) {
    match admin.runtime_info(address).await {
        Ok(info) => {
            seen.version = info.table.get("brokerVersionDesc").cloned();
            seen.member.end =
                info.table.get("commitLogMaxOffset").and_then(|text| text.parse().ok());
        }
        Err(error) => seen.error = Some(error.to_string()),
    }
    match admin.broker_config(address).await {
        Ok(text) => {
            let has = properties_text::parse(&text).unwrap_or_default();
            for (key, wanted) in file {
                // The last of several counts.
                let value = has.iter().rev().find(|(name, _)| name == key).map(|(_, value)| value);
                if let Some(value) = value.filter(|value| *value != wanted) {
                    seen.member.differs.push(format!("{key}={value} where the file has {wanted}"));
                }
            }
        }
        Err(error) => seen.error = Some(error.to_string()),
    }
}

fn text_of(step: &Step, wanted: Product, file: &Path) -> String {
    let (name, file) = (wanted.name(), file.display());
    let start = match wanted {
        Product::Ours => "`ledgermq broker -c` with its broker.conf".to_owned(),
        Product::Java => "Java's broker with its broker.conf".to_owned(),
    };
    match step {
        Step::Done => format!("all members run {name}: nothing is left to do"),
        Step::Replace { id } => format!(
            "stop {id} in order (SIGTERM), start {start} on the same folder, and run this command again"
        ),
        Step::HandOver { from, to } => format!(
            "{from} leads and is the last: `ledgermq admin group transfer -c {file} --to {to} --timeout 60s`, and run this command again"
        ),
        Step::Wait(_) => "nothing yet".to_owned(),
    }
}

/// The step for programs: what is to be done, with which member, and to whom the lead goes.
fn row_of(step: &Step) -> Value {
    match step {
        Step::Done => json!({ "do": "nothing" }),
        Step::Replace { id } => json!({ "do": "replace", "member": id }),
        Step::HandOver { from, to } => json!({ "do": "transfer", "member": from, "to": to }),
        Step::Wait(reasons) => json!({ "do": "wait", "reasons": reasons }),
    }
}

fn show(all: &[Seen], step: &Step, next: &str, as_json: bool) -> std::io::Result<()> {
    let mut table =
        output::table(&["id", "runs", "version", "leader", "client", "log end", "remarks"]);
    let mut rows = Vec::new();
    for Seen { member, client, version, error } in all {
        let runs = member.product.map_or("-", Product::name);
        let cell = |text: &Option<String>| {
            text.clone().map_or("-".to_owned(), |text| output::printable(&text))
        };
        let remarks = member.differs.iter().chain(&member.unfit).chain(&member.lacks).chain(error);
        let remarks: Vec<String> = remarks.cloned().collect();
        table.add_row([
            member.id.clone(),
            runs.to_owned(),
            cell(version),
            cell(&member.leader),
            cell(client),
            member.end.map_or("-".to_owned(), |end| end.to_string()),
            cell(&Some(remarks.join("; ")).filter(|text| !text.is_empty())),
        ]);
        rows.push(json!({
            "id": member.id,
            "runs": member.product.map(Product::name),
            "version": version,
            "leader": member.leader,
            "client": client,
            "listed": member.listed,
            "logEnd": member.end,
            "remarks": remarks,
        }));
    }
    let json = json!({ "members": rows, "step": row_of(step), "next": next });
    output::Shown { table, json }.print(as_json)?;
    if as_json { Ok(()) } else { output::line(&format!("next: {next}")) }
}
