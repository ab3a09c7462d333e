//! `ledgermq admin cluster`.

use client::Admin;
use serde_json::{Value, json};

use crate::output::{Shown, table};

/// Every broker with what it tells about itself.
pub(super) async fn show(admin: &Admin) -> anyhow::Result<Shown> {
    let info = admin.cluster().await?;
    let mut table =
        table(&["cluster", "broker", "id", "address", "version", "in tps", "out tps", "log bytes"]);
    let mut rows = Vec::new();
    for (cluster, brokers) in &info.cluster_addr_table {
        for name in brokers {
            let Some(broker) = info.broker_addr_table.get(name) else { continue };
            for (id, address) in &broker.broker_addrs {
                let facts = facts(admin, address).await;
                let cell =
                    |key: &str| facts.get(key).and_then(Value::as_str).unwrap_or("-").to_owned();
                table.add_row([
                    cluster.clone(),
                    name.clone(),
                    id.to_string(),
                    address.clone(),
                    cell("version"),
                    cell("putTps"),
                    cell("getTps"),
                    cell("logBytes"),
                ]);
                rows.push(json!({
                    "cluster": cluster,
                    "broker": name,
                    "id": id,
                    "address": address,
                    "state": facts,
                }));
            }
        }
    }
    Ok(Shown { table, json: rows.into() })
}

/// What a broker tells, or why it tells nothing: one that is away must not hide the others.
async fn facts(admin: &Admin, address: &str) -> Value {
    let info = match admin.runtime_info(address).await {
        Ok(info) => info.table,
        Err(error) => {
            tracing::warn!(%error, "a broker did not tell its state");
            return json!({ "error": error.to_string() });
        }
    };
    let text = |key: &str| info.get(key).cloned().unwrap_or_default();
    // Three rates over growing spans; an idle broker has none of them.
    let rate = |key: &str| {
        let rate = text(key).split_whitespace().next().and_then(|first| first.parse::<f64>().ok());
        format!("{:.1}", rate.unwrap_or(0.0))
    };
    let number = |key: &str| text(key).parse::<i64>().unwrap_or(0);
    let bytes = number("commitLogMaxOffset") - number("commitLogMinOffset").max(0);
    json!({
        "version": text("brokerVersionDesc"),
        "putTps": rate("putTps"),
        "getTps": rate("getTransferredTps"),
        "logBytes": bytes.to_string(),
        "all": info,
    })
}
