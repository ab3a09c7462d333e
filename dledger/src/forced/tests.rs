use std::{path::Path, time::Duration};

use segment::SimVfs;

use super::*;
use crate::{Alone, AnyBodies, Dledger, Entries, Sink};

const GROUP: &str = "n0-127.0.0.1:1;n1-127.0.0.1:2;n2-127.0.0.1:3";

struct Nobody;

impl Sink<()> for Nobody {
    fn completed(&self, _group: Vec<crate::Completed<()>>) {}
}

fn options(peers: &str) -> Options {
    Options {
        peers: peers.to_owned(),
        file_size: 16_384,
        ..Options::one_node("d/dledger-n0".into())
    }
}

fn disk() -> (SimVfs, Arc<dyn Vfs>) {
    let sim = SimVfs::new();
    let vfs: Arc<dyn Vfs> = Arc::new(sim.clone());
    (sim, vfs)
}

/// Runs a group of one that appends `count` entries and stops in order; gives its last term.
fn run(vfs: &Arc<dyn Vfs>, count: usize) -> u64 {
    let log = Dledger::open_on(vfs, &options("n0-127.0.0.1:1"), Arc::new(Nobody)).unwrap();
    log.start_with(AnyBodies, Arc::new(Alone)).unwrap();
    let mut status = log.status();
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let opened = status.wait_for(|status| status.opened);
    let term = runtime
        .block_on(async { tokio::time::timeout(Duration::from_secs(60), opened).await })
        .unwrap()
        .unwrap()
        .term;
    for _ in 0..count {
        let mut buffer = bytes::BytesMut::zeroed(crate::ENTRY_HEADER);
        buffer.extend_from_slice(b"body");
        log.submit(Entries { buffer, lengths: vec![4], token: () }).unwrap();
    }
    log.shutdown().unwrap();
    term
}

#[test]
fn a_forced_node_goes_on_in_a_much_later_term_with_all_it_has() {
    let (_, vfs) = disk();
    let term = run(&vfs, 3);
    let stopped = StoppedLog::open(&vfs, &options(GROUP)).unwrap();
    let before = stopped.standing();
    assert_eq!((before.term, before.last, before.doubt), (term, Some((3, term)), None));
    assert_eq!(stopped.force().unwrap(), term + FORCED_TERMS);
    let stopped = StoppedLog::open(&vfs, &options(GROUP)).unwrap();
    let after = stopped.standing();
    assert_eq!((after.term, after.last), (term + FORCED_TERMS, Some((3, term))));
    stopped.leave().unwrap();
    assert_eq!(run(&vfs, 0), term + FORCED_TERMS + 1);
}

#[test]
fn a_doubt_is_settled_for_good() {
    for file in ["provisional", "currterm"] {
        let (_, vfs) = disk();
        run(&vfs, 3);
        let path = Path::new("d/dledger-n0").join(file);
        match file {
            "currterm" => vfs.remove(&path).unwrap(),
            _ => DoubtFile::new(Arc::clone(&vfs), Path::new("d/dledger-n0"))
                .store(Some(Doubt::UncleanBoot))
                .unwrap(),
        }
        let stopped = StoppedLog::open(&vfs, &options(GROUP)).unwrap();
        assert!(stopped.standing().doubt.is_some(), "{file}");
        stopped.leave().unwrap();
        let stopped = StoppedLog::open(&vfs, &options(GROUP)).unwrap();
        assert!(stopped.standing().doubt.is_some(), "{file}: a look settles nothing");
        stopped.force().unwrap();
        for _ in 0..2 {
            let stopped = StoppedLog::open(&vfs, &options(GROUP)).unwrap();
            assert_eq!(stopped.standing().doubt, None, "{file}");
            stopped.leave().unwrap();
        }
    }
}

#[test]
fn an_empty_log_is_not_forced_and_one_in_use_is_not_opened() {
    let (_, vfs) = disk();
    vfs.create_directory(Path::new("d/dledger-n0")).unwrap();
    let stopped = StoppedLog::open(&vfs, &options(GROUP)).unwrap();
    assert_eq!(stopped.standing().last, None);
    let second = StoppedLog::open(&vfs, &options(GROUP));
    assert!(matches!(second, Err(OpenError::Lock(_))), "{second:?}");
    assert!(matches!(stopped.force(), Err(ForceError::Empty)));
}
