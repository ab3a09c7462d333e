//! `ledgermq dledger append`.

use anyhow::Context;
use bytes::Bytes;
use serde_json::json;
use tokio::io::{AsyncBufReadExt, BufReader};

use super::connect;
use crate::{args::AppendArgs, output};

/// Appends the bodies one after the other, or all at once.
pub(super) async fn run(args: AppendArgs) -> anyhow::Result<()> {
    let client = connect(&args.group)?;
    let bodies = bodies(&args).await?;
    if args.batch {
        let count = bodies.len();
        let reply = client.append_batch(bodies).await?;
        return told(&args, reply.index, reply.pos, count);
    }
    for body in bodies {
        for _ in 0..args.count {
            let reply = client.append(body.clone()).await?;
            told(&args, reply.index, reply.pos, 1)?;
        }
    }
    Ok(())
}

async fn bodies(args: &AppendArgs) -> anyhow::Result<Vec<Bytes>> {
    if !args.bodies.is_empty() {
        let times = if args.batch { args.count } else { 1 };
        let all = args.bodies.iter().flat_map(|body| (0..times).map(move |_| body));
        return Ok(all.map(|body| Bytes::from(body.clone())).collect());
    }
    let mut lines = BufReader::new(tokio::io::stdin()).lines();
    let mut bodies = Vec::new();
    while let Some(line) = lines.next_line().await.context("standard input")? {
        bodies.push(Bytes::from(line));
    }
    Ok(bodies)
}

fn told(args: &AppendArgs, index: i64, position: i64, count: usize) -> anyhow::Result<()> {
    let line = if args.json {
        json!({ "index": index, "pos": position, "count": count }).to_string()
    } else {
        format!("index {index}, position {position}")
    };
    Ok(output::line(&line)?)
}
