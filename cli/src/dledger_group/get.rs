//! `ledgermq dledger get`.

use dledger::{
    AnyBodies, GroupError,
    wire::{ResponseCode, entry::JsonEntry},
};
use serde_json::json;

use super::connect;
use crate::{args::GetArgs, output};

/// Prints entries from an index on.
pub(super) async fn run(args: GetArgs) -> anyhow::Result<()> {
    let client = connect(&args.group)?;
    for index in args.index..args.index.saturating_add(args.count) {
        match client.get(index).await {
            Ok(entry) => print(&args, &entry)?,
            // More were asked for than there are.
            Err(GroupError::Refused { code: ResponseCode::INDEX_OUT_OF_RANGE, .. })
                if index > args.index =>
            {
                return Ok(());
            }
            Err(error) => return Err(error.into()),
        }
    }
    Ok(())
}

fn print(args: &GetArgs, entry: &JsonEntry) -> anyhow::Result<()> {
    if args.body {
        return Ok(output::bytes_line(&entry.body)?);
    }
    let body = match AnyBodies::opens(&entry.body) {
        true => "(opens the term)".into(),
        false => String::from_utf8_lossy(&entry.body),
    };
    let line = if args.json {
        let mut line = json!({
            "index": entry.index, "term": entry.term, "pos": entry.pos, "size": entry.size,
        });
        match std::str::from_utf8(&entry.body) {
            Ok(text) => line["body"] = text.into(),
            Err(_no_text) => {
                let hex: String = entry.body.iter().map(|byte| format!("{byte:02x}")).collect();
                line["bodyHex"] = hex.into();
            }
        }
        line.to_string()
    } else {
        let JsonEntry { index, term, pos, .. } = entry;
        format!("{index}  term {term}  position {pos}  {}", output::printable(&body))
    };
    Ok(output::line(&line)?)
}
