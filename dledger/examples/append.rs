//! Appends three entries to a log of one node, reads them back and watches role and commit.
//!
//! `cargo run -p dledger --example append -- /path/to/folder`

use std::{path::PathBuf, sync::Arc, sync::mpsc, time::Duration};

use bytes::{BufMut, BytesMut};
use dledger::{AnyBodies, Completed, Dledger, ENTRY_HEADER, Entries, Options, Sink};

/// Passes outcomes on to the main thread.
struct Outcomes(mpsc::Sender<Completed<&'static str>>);

impl Sink<&'static str> for Outcomes {
    fn completed(&self, group: Vec<Completed<&'static str>>) {
        for completed in group {
            // The receiver is gone when the program ends.
            self.0.send(completed).ok();
        }
    }
}

#[expect(clippy::print_stdout, reason = "an example tells what it does")]
#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let folder = std::env::args().nth(1).map_or_else(std::env::temp_dir, PathBuf::from);
    let options = Options::one_node(folder.join("dledger-n0"));
    let (sender, outcomes) = mpsc::channel();
    let log = Dledger::open(&options, Arc::new(Outcomes(sender)))?;
    log.start(AnyBodies)?;
    let status = log.status().wait_for(|status| status.opened).await?.clone();
    println!("{} in term {}, log [{:?}]", status.role, status.term, log.bounds());

    for text in ["one", "two", "three"] {
        let mut buffer = BytesMut::zeroed(ENTRY_HEADER);
        buffer.put_slice(text.as_bytes());
        let lengths = vec![u32::try_from(text.len())?];
        log.submit(Entries { buffer, lengths, token: text }).map_err(|refused| refused.cause)?;
    }
    for _ in 0..3 {
        let completed = outcomes.recv_timeout(Duration::from_secs(30))?;
        for (position, body) in completed.result?.entries() {
            let read = log.read(position, u32::try_from(body.len())?)?;
            println!("{}: committed at {position}, reads {read:?}", completed.token);
        }
    }
    println!("everything: {:?}", log.read_forward(log.bounds().min, 1024 * 1024)?.entries);
    log.shutdown()?;
    Ok(())
}
