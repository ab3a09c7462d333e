//! A log as a library: appends a body and a batch, reads them by index and as a range, watches role
//! and commit, and tells what is known of the group. One node here; with more members in
//! `Options::peers` and `Log::start_with` all else stays as it is.
//!
//! `cargo run -p dledger --example append -- /path/to/folder`

use std::{error::Error, path::Path, path::PathBuf, time::Duration};

use dledger::{Entry, Log, Options};

/// Bytes of bodies that one read of a range gives, more or less.
const RANGE: usize = 1 << 20;
/// How long a majority is waited for.
const PATIENCE: Duration = Duration::from_secs(30);

/// Does it all in `folder`, and tells each step.
async fn run(folder: &Path, mut tell: impl FnMut(String)) -> Result<(), Box<dyn Error>> {
    let options = Options { file_size: 1 << 20, ..Options::one_node(folder.join("dledger-n0")) };
    let log = Log::open(options)?;
    // Watches have the present value and wake on every change; any number of tasks may have one.
    let (mut status, mut committed) = (log.status(), log.committed());
    log.start()?;
    let known = status.wait_for(|status| status.opened).await?.clone();
    tell(format!("{} in term {}", known.role, known.term));

    // An append is answered once a majority keeps it, a batch as a whole and without gaps.
    let one = log.append(b"one").await?;
    let batch = log.append_batch(&[b"two", b"three"]).await?;
    tell(format!("appended {}", shown(std::iter::once(&one).chain(&batch))));
    let last = batch.last().ok_or("a batch without entries")?.index;
    let count = *committed.wait_for(|count| *count > last).await?;
    tell(format!("{count} entries are committed"));

    // Reads give what is committed and nothing else. They may wait for the disk.
    let read = log.get(one.index)?;
    tell(format!("get {}", shown([&read])));
    // How far to read to see all that is committed now, confirmed by a majority.
    let upto = log.read_index(PATIENCE).await?;
    let mut next = log.metadata().first.unwrap_or(0);
    while next < upto {
        let entries = log.entries(next, RANGE)?;
        // The first entry of each term is the leader's own.
        tell(format!("range {}", shown(entries.iter().filter(|entry| !Log::is_opening(entry)))));
        next = entries.last().ok_or("retention took them meanwhile")?.index + 1;
    }
    let known = log.metadata();
    let leader = known.leader.as_deref().unwrap_or("nobody");
    tell(format!("{} of {} is {}, {leader} leads", known.self_id, known.group, known.role));
    Ok(log.shutdown()?)
}

fn shown<'a>(entries: impl IntoIterator<Item = &'a Entry>) -> String {
    let shown = |entry: &Entry| {
        let body = String::from_utf8_lossy(&entry.body);
        format!("{}/{} {body}", entry.term, entry.index)
    };
    entries.into_iter().map(shown).collect::<Vec<_>>().join(", ")
}

#[expect(clippy::print_stdout, reason = "an example tells what it does")]
#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), Box<dyn Error>> {
    let folder = std::env::args().nth(1).map_or_else(std::env::temp_dir, PathBuf::from);
    run(&folder, |line| println!("{line}")).await
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn it_does_what_it_says_and_goes_on_where_it_was() {
        let folder = tempfile::tempdir().unwrap();
        let mut runs = Vec::new();
        for _ in 0..2 {
            let mut lines = Vec::new();
            run(folder.path(), |line| lines.push(line)).await.unwrap();
            runs.push(lines);
        }
        let first = [
            "LEADER in term 1",
            "appended 1/1 one, 1/2 two, 1/3 three",
            "4 entries are committed",
            "get 1/1 one",
            "range 1/1 one, 1/2 two, 1/3 three",
            "n0 of broker-a is LEADER, n0 leads",
        ];
        assert_eq!(runs[0], first);
        assert_eq!(runs[1][1], "appended 2/5 one, 2/6 two, 2/7 three");
        assert_eq!(runs[1][4], format!("{}, 2/5 one, 2/6 two, 2/7 three", first[4]));
    }
}
