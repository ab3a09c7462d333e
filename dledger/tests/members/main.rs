//! Goal: logs with their threads form a group and keep the promises of the library.
//!
//! Method: three logs in one process on real files, joined by a transport in memory.

#![expect(clippy::unwrap_used, clippy::panic, reason = "a test fails by a panic")]

mod stalling;

use std::{
    collections::HashMap,
    path::Path,
    sync::{
        Arc, Mutex,
        atomic::{AtomicU64, Ordering},
    },
    time::{Duration, Instant},
};

use dledger::{
    CallId, Inbox, Incoming, Log, LogError, Options, Outgoing, RefusalCause, Role, StartError,
    TransferCode, Transport,
};
use segment::Vfs;

use crate::stalling::{Gate, StallingVfs};

const PATIENCE: Duration = Duration::from_secs(60);
const PEERS: &str = "n0-localhost:1;n1-localhost:2;n2-localhost:3";

/// Members that run, by id.
#[derive(Default)]
struct Mesh {
    inboxes: Mutex<HashMap<String, Arc<dyn Inbox>>>,
    calls: AtomicU64,
}

/// One member's way to the others.
struct Way {
    mesh: Arc<Mesh>,
    id: String,
}

impl Transport for Way {
    fn start(&self, inbox: Arc<dyn Inbox>) {
        self.mesh.inboxes.lock().unwrap().insert(self.id.clone(), inbox);
    }

    fn send(&self, outgoing: Outgoing) {
        let Outgoing { to, call, message, entries } = outgoing;
        let Some(inbox) = self.mesh.inboxes.lock().unwrap().get(&to).cloned() else { return };
        let fresh = || CallId(self.mesh.calls.fetch_add(1, Ordering::Relaxed));
        let call = call.unwrap_or_else(fresh);
        let entries = (!entries.is_empty()).then(|| entries.concat().into());
        inbox.deliver(Incoming::Message { from: self.id.clone(), call, message, entries });
    }

    fn stop(&self) {
        self.mesh.inboxes.lock().unwrap().remove(&self.id);
    }
}

fn open(folder: &Path, mesh: &Arc<Mesh>, id: &str) -> Log {
    open_on(&(Arc::new(segment::RealVfs) as Arc<dyn Vfs>), folder, mesh, id)
}

fn open_on(vfs: &Arc<dyn Vfs>, folder: &Path, mesh: &Arc<Mesh>, id: &str) -> Log {
    let options = Options {
        self_id: id.to_owned(),
        peers: PEERS.to_owned(),
        file_size: 64 * 1024,
        append_timeout: PATIENCE,
        ..Options::one_node(folder.join(format!("dledger-{id}")))
    };
    let log = Log::open_on(vfs, options).unwrap();
    let refused = log.start().unwrap_err();
    assert!(matches!(refused, StartError::NoTransport { members: 3 }), "{refused}");
    log.start_with(Arc::new(Way { mesh: Arc::clone(mesh), id: id.to_owned() })).unwrap();
    log
}

async fn leader(logs: &HashMap<String, Log>) -> &Log {
    let deadline = Instant::now() + PATIENCE;
    loop {
        if let Some(log) = logs.values().find(|log| log.status().borrow().opened) {
            return log;
        }
        assert!(Instant::now() < deadline, "no leader");
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
}

/// Appends, at whoever leads, until it is committed once.
async fn append(logs: &HashMap<String, Log>, body: &[u8]) -> u64 {
    let deadline = Instant::now() + PATIENCE;
    loop {
        match leader(logs).await.append(body).await {
            Ok(entry) => return entry.index,
            // Nothing of it is in the log.
            Err(LogError::Refused(_)) => {}
            Err(other) => panic!("{other}"),
        }
        assert!(Instant::now() < deadline, "not appended");
    }
}

/// Until they hold what was committed when they started, the votes of new members count only with those
/// of all.
async fn all_whole(logs: &HashMap<String, Log>) {
    for log in logs.values() {
        let mut status = log.status();
        let whole = status.wait_for(|status| status.doubt.is_none());
        tokio::time::timeout(PATIENCE, whole).await.unwrap().unwrap();
    }
}

async fn bodies(log: &Log, count: u64) -> Vec<Vec<u8>> {
    log.committed().wait_for(|committed| *committed >= count).await.unwrap();
    let mut all = Vec::new();
    while (all.len() as u64) < count {
        all.extend(log.entries(all.len() as u64, 1000).unwrap());
    }
    let appended = all.iter().filter(|entry| !Log::is_opening(entry));
    appended.map(|entry| entry.body.to_vec()).collect()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn three_logs_keep_one_log_through_the_end_of_their_leader() {
    let folder = tempfile::tempdir().unwrap();
    let mesh = Arc::new(Mesh::default());
    let mut logs: HashMap<String, Log> = ["n0", "n1", "n2"]
        .map(|id| (id.to_owned(), open(folder.path(), &mesh, id)))
        .into_iter()
        .collect();
    for nth in 0..20_u32 {
        append(&logs, format!("one {nth}").as_bytes()).await;
    }
    let first = leader(&logs).await;
    let batch = first.append_batch(&[b"a", b"b", b"c"]).await.unwrap();
    assert_eq!(batch[2].index, batch[0].index + 2);
    assert_eq!(first.get(batch[1].index).unwrap(), batch[1]);
    let upto = first.read_index(PATIENCE).await.unwrap();
    assert!(upto > batch[2].index);
    let name = first.metadata().self_id;
    assert_eq!(first.metadata().role, Role::Leader);

    // A follower takes nothing and says who does.
    let follower = logs.values().find(|log| log.metadata().self_id != name).unwrap();
    let refused = follower.append(b"x").await.unwrap_err();
    assert!(matches!(refused, LogError::Refused(RefusalCause::NotLeader { .. })), "{refused}");
    let reached = bodies(follower, upto).await;
    assert_eq!(reached.len(), 23);

    all_whole(&logs).await;
    logs.remove(&name).unwrap().shutdown().unwrap();
    let index = append(&logs, b"two").await;
    logs.insert(name.clone(), open(folder.path(), &mesh, &name));
    for log in logs.values() {
        let all = bodies(log, index + 1).await;
        assert_eq!((all.len(), all.last().unwrap().as_slice()), (24, &b"two"[..]));
        assert!(!log.inner().records().is_empty(), "nothing was recorded");
    }

    let deadline = Instant::now() + PATIENCE;
    while logs[&name].metadata().role != Role::Leader {
        assert!(Instant::now() < deadline, "the lead did not go to {name}");
        let code = leader(&logs).await.transfer(Some(name.clone())).await;
        if code.is_ok_and(|code| code == TransferCode::Success) {
            break;
        }
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    let index = append(&logs, b"three").await;
    assert_eq!(bodies(&logs[&name], index + 1).await.len(), 25);
    for log in logs.values() {
        log.shutdown().unwrap();
    }
}

/// Known fault: votes waited for data, so that a slow disk kept a group without a leader.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_member_whose_flush_hangs_gives_its_vote() {
    let folder = tempfile::tempdir().unwrap();
    let mesh = Arc::new(Mesh::default());
    let (mut logs, mut gates) = (HashMap::new(), HashMap::<&str, Arc<Gate>>::new());
    for id in ["n0", "n1", "n2"] {
        let vfs = StallingVfs::default();
        gates.insert(id, Arc::clone(&vfs.gate));
        let vfs: Arc<dyn Vfs> = Arc::new(vfs);
        logs.insert(id.to_owned(), open_on(&vfs, folder.path(), &mesh, id));
    }
    append(&logs, b"one").await;
    all_whole(&logs).await;
    let first = leader(&logs).await.metadata().self_id;
    let others: Vec<&str> = ["n0", "n1", "n2"].into_iter().filter(|id| *id != first).collect();
    let (well, stalled) = (others[0], others[1]);

    gates[stalled].shut();
    append(&logs, b"two").await;
    assert!(gates[stalled].holds_one(PATIENCE), "no flush hangs");
    logs.remove(&first).unwrap().shutdown().unwrap();
    let mut status = logs[well].status();
    let leads = status.wait_for(|status| status.role == Role::Leader);
    let leads = tokio::time::timeout(PATIENCE, leads).await.is_ok();
    assert!(gates[stalled].holds_one(Duration::ZERO), "its flush has ended");
    gates[stalled].open();
    assert!(leads, "no leader by the vote of the member whose flush hangs");

    let index = append(&logs, b"three").await;
    for log in logs.values() {
        assert_eq!(bodies(log, index + 1).await, [&b"one"[..], b"two", b"three"]);
        log.shutdown().unwrap();
    }
}
