//! `ledgermq admin`.

use std::sync::Arc;

use client::{Admin, Client};
use serde_json::json;

use crate::{
    args::{AdminArgs, AdminCommand, OffsetsCommand, TopicCommand},
    output,
};

mod cluster;
mod force;
mod group;
mod message;
mod offsets;
mod takeover;
mod topic;

/// Looks at or changes what the arguments say.
pub(crate) async fn run(args: AdminArgs) -> anyhow::Result<()> {
    let client = Client::new(args.namesrv.options()?)?;
    let admin = Admin::new(Arc::clone(&client));
    let result = command(&admin, args.command, args.json).await;
    client.close();
    result
}

async fn command(admin: &Admin, command: AdminCommand, as_json: bool) -> anyhow::Result<()> {
    match command {
        AdminCommand::Cluster => cluster::show(admin).await?.print(as_json)?,
        AdminCommand::Group(command) => group::run(admin, command, as_json).await?,
        AdminCommand::Topic(TopicCommand::List) => topic::list(admin).await?.print(as_json)?,
        AdminCommand::Topic(TopicCommand::Route { name }) => {
            topic::route(admin, &name).await?.print(as_json)?;
        }
        AdminCommand::Topic(TopicCommand::Status { name }) => {
            topic::status(admin, &name).await?.print(as_json)?;
        }
        AdminCommand::Topic(TopicCommand::Create { name, queues, perm, place }) => {
            let settings = client::TopicSettings { name, queues, perm };
            let brokers = topic::create(admin, &settings, &place).await?;
            done(as_json, &format!("topic {} is on {}", settings.name, brokers.join(", ")))?;
        }
        AdminCommand::Topic(TopicCommand::Delete { name, place }) => {
            let brokers = topic::delete(admin, &name, &place).await?;
            done(as_json, &format!("topic {name} is deleted from {}", brokers.join(", ")))?;
        }
        AdminCommand::Offsets(OffsetsCommand::Show { group, topic }) => {
            offsets::show(admin, &group, topic.as_deref()).await?.print(as_json)?;
        }
        AdminCommand::Offsets(OffsetsCommand::Reset { group, topic, to, queue }) => {
            offsets::reset(admin, &offsets::Target { group, topic, to, queue })
                .await?
                .print(as_json)?;
        }
        AdminCommand::Message { id, topic } => {
            message::show(admin, &id, topic.as_deref(), as_json).await?;
        }
    }
    Ok(())
}

/// Tells that something was done.
fn done(as_json: bool, what: &str) -> std::io::Result<()> {
    if as_json { output::line(&json!({ "done": what }).to_string()) } else { output::line(what) }
}
