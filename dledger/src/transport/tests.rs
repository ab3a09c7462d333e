//! Two or three transports on this machine, read as conversations.

use std::{
    collections::VecDeque,
    net::{IpAddr, Ipv4Addr, TcpListener},
    sync::{Condvar, Mutex},
    time::{Duration, Instant},
};

use dledger_core::{
    Capability, Heartbeat, HeartbeatCode, HeartbeatReply, Life, LogIndex, Policy, Push, PushCode,
    PushKind, PushName, PushReply, Range, Term, Timings, VoteAnswer, VoteReply, VoteRequest,
};
use protocol::Command;
use remoting::{Client, ClientOptions};
use tokio::runtime::Handle;

use super::*;
use crate::{
    Peers,
    wire::{
        ResponseCode,
        body::{Base, VoteBody, VoteReplyBody},
        capability::{Introduction, Own},
        json, request,
    },
};

const PATIENCE: Duration = Duration::from_secs(30);

/// What came in, in order.
#[derive(Default)]
struct Mail {
    queue: Mutex<VecDeque<Incoming>>,
    news: Condvar,
}

impl Inbox for Mail {
    fn deliver(&self, incoming: Incoming) -> bool {
        self.queue.lock().unwrap().push_back(incoming);
        self.news.notify_all();
        true
    }
}

impl Mail {
    /// The first that `wanted` picks; what comes before it is dropped.
    fn next<T>(&self, mut wanted: impl FnMut(Incoming) -> Option<T>) -> T {
        let until = Instant::now() + PATIENCE;
        let mut queue = self.queue.lock().unwrap();
        loop {
            while let Some(incoming) = queue.pop_front() {
                if let Some(found) = wanted(incoming) {
                    return found;
                }
            }
            let left = until.saturating_duration_since(Instant::now());
            assert!(!left.is_zero(), "it did not come");
            queue = self.news.wait_timeout(queue, left).unwrap().0;
        }
    }

    fn message(&self) -> (String, CallId, Message, Option<Bytes>) {
        self.next(|incoming| match incoming {
            Incoming::Message { from, call, message, entries } => {
                Some((from, call, message, entries))
            }
            Incoming::Peer { .. } => None,
        })
    }

    fn kind(&self) -> (String, PeerKind) {
        self.next(|incoming| match incoming {
            Incoming::Peer { id, kind } => Some((id, kind)),
            Incoming::Message { .. } => None,
        })
    }
}

struct Member {
    transport: RemotingTransport,
    mail: Arc<Mail>,
}

fn introduction() -> Introduction {
    let capability = Capability { policy: Policy::Flushed, timings: Timings::default() };
    Introduction { client: None, cluster: None, file_size: 1 << 20, capability }
}

fn peers(count: usize) -> Peers {
    let held: Vec<_> = (0..count).map(|_| TcpListener::bind("127.0.0.1:0").unwrap()).collect();
    let text: Vec<_> = held
        .iter()
        .enumerate()
        .map(|(id, port)| format!("n{id}-127.0.0.1:{}", port.local_addr().unwrap().port()))
        .collect();
    Peers::parse(&text.join(";")).unwrap()
}

fn options(peers: &Peers, id: &str) -> TransportOptions {
    TransportOptions {
        group: "g".to_owned(),
        self_id: id.to_owned(),
        peers: peers.clone(),
        bind: Some(IpAddr::V4(Ipv4Addr::LOCALHOST)),
        introduction: introduction(),
        memory: None,
        runtime: Handle::current(),
    }
}

fn member(options: TransportOptions) -> Member {
    let transport = RemotingTransport::new(options).unwrap();
    let mail = Arc::new(Mail::default());
    transport.start(Arc::clone(&mail) as Arc<dyn Inbox>);
    Member { transport, mail }
}

impl Member {
    fn ask(&self, to: &str, message: Message) {
        self.ask_with(to, message, Vec::new());
    }

    fn ask_with(&self, to: &str, message: Message, entries: Vec<Bytes>) {
        self.transport.send(Outgoing { to: to.to_owned(), call: None, message, entries });
    }

    fn answer(&self, to: &str, call: CallId, message: Message) {
        let outgoing = Outgoing { to: to.to_owned(), call: Some(call), message, entries: vec![] };
        self.transport.send(outgoing);
    }
}

fn vote(term: u64, pre_vote: bool) -> Message {
    let last = Some(dledger_core::EntryId { term: Term(2), index: LogIndex(9) });
    Message::Vote(VoteRequest { term: Term(term), last, pre_vote, transfer: false })
}

fn heartbeat(round: u64) -> Message {
    Message::Heartbeat(Heartbeat { term: Term(3), round })
}

fn entry(index: u64, body: &[u8]) -> Bytes {
    let header = crate::entry::Header {
        size: 48 + u32::try_from(body.len()).unwrap(),
        index,
        term: 3,
        position: 1000 * index,
        chain_crc: 0,
        body_crc: crate::entry::body_crc(body),
    };
    Bytes::from([header.encode().as_slice(), body].concat())
}

fn append(first: u64, entries: &[Bytes]) -> Message {
    let range = Range {
        before: None,
        first: LogIndex(first),
        count: entries.len() as u64,
        terms: vec![(Term(3), LogIndex(first))],
        bytes: entries.iter().map(|entry| entry.len() as u64).sum(),
    };
    let commit = Some(LogIndex(4));
    Message::Push(Push {
        term: Term(3),
        commit,
        whole: None,
        known: None,
        kind: PushKind::Append(range),
    })
}

/// An answer to the push of entries 5 and 6.
fn pushed() -> PushReply {
    PushReply {
        term: Term(3),
        code: PushCode::Success,
        kind: PushName::Append,
        request_term: Term(3),
        first: Some(LogIndex(5)),
        count: 2,
        known: None,
        begin: Some(LogIndex(0)),
        end: Some(LogIndex(6)),
        written: Some(LogIndex(6)),
        flushed: Some(LogIndex(4)),
        life: Life(9),
        provisional: false,
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_vote_a_heartbeat_and_a_push_are_answered() {
    let peers = peers(2);
    let (n0, n1) = (member(options(&peers, "n0")), member(options(&peers, "n1")));
    assert_eq!(n0.mail.kind(), ("n1".to_owned(), PeerKind::Unknown), "from the last run");

    n0.ask("n1", vote(3, true));
    let (from, call, asked, _) = n1.mail.message();
    assert_eq!((from.as_str(), &asked), ("n0", &vote(3, true)));
    let reply = VoteReply {
        term: Term(2),
        answer: VoteAnswer::Accept,
        request_term: Term(3),
        pre_vote: true,
        provisional: true,
    };
    n1.answer("n0", call, Message::VoteReply(reply.clone()));
    let own = PeerKind::Own(introduction().capability);
    assert_eq!(n0.mail.kind(), ("n1".to_owned(), own), "told by the answer");
    let (from, _, told, _) = n0.mail.message();
    assert_eq!((from.as_str(), told), ("n1", Message::VoteReply(reply)));

    // The round is not on the wire: it comes back from the request that was kept.
    n0.ask("n1", heartbeat(7));
    let (_, call, asked, _) = n1.mail.message();
    assert_eq!(asked, heartbeat(0));
    let reply = HeartbeatReply {
        term: Some(Term(3)),
        code: HeartbeatCode::Success,
        request_term: Term(3),
        round: 0,
        healthy: false,
        roomy: false,
    };
    n1.answer("n0", call, Message::HeartbeatReply(reply));
    let expected = HeartbeatReply { round: 7, ..reply };
    assert_eq!(n0.mail.message().2, Message::HeartbeatReply(expected));

    let entries = vec![entry(5, b"five"), entry(6, b"six")];
    n0.ask_with("n1", append(5, &entries), entries.clone());
    let (_, call, asked, carried) = n1.mail.message();
    assert_eq!(asked, append(5, &entries));
    assert_eq!(carried.unwrap(), entries.concat());
    let reply = pushed();
    n1.answer("n0", call, Message::PushReply(reply.clone()));
    assert_eq!(n0.mail.message().2, Message::PushReply(reply));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_member_that_comes_late_and_comes_back_is_found() {
    let peers = peers(2);
    let n0 = member(options(&peers, "n0"));
    n0.ask("n1", heartbeat(1));
    for run in 0..2 {
        let n1 = member(options(&peers, "n1"));
        let until = Instant::now() + PATIENCE;
        // Nothing is kept for a member that is away: the core asks again and again.
        while n1.mail.queue.lock().unwrap().len() < 2 {
            assert!(Instant::now() < until, "run {run}");
            n0.ask("n1", heartbeat(2));
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
        let (_, call, asked, _) = n1.mail.message();
        assert_eq!(asked, heartbeat(0));
        let reply = HeartbeatReply {
            term: None,
            code: HeartbeatCode::Success,
            request_term: Term(3),
            round: 0,
            healthy: true,
            roomy: true,
        };
        n1.answer("n0", call, Message::HeartbeatReply(reply));
        assert!(matches!(n0.mail.message().2, Message::HeartbeatReply(_)));
        n1.transport.stop();
        let gone = n0.mail.next(|incoming| match incoming {
            Incoming::Peer { id, kind: PeerKind::Gone } => Some(id),
            _ => None,
        });
        assert_eq!(gone, "n1");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn members_are_reached_by_ipv6_and_by_name() {
    let Ok(held) = TcpListener::bind("[::1]:0") else {
        // A machine without IPv6.
        return;
    };
    let by_v6 = held.local_addr().unwrap().port();
    let by_name = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
    drop(held);
    let peers = Peers::parse(&format!("n0-[::1]:{by_v6};n1-localhost:{by_name}")).unwrap();
    let n0 = member(TransportOptions { bind: None, ..options(&peers, "n0") });
    let n1 = member(options(&peers, "n1"));
    assert!(n0.transport.address().is_ipv6());
    n0.ask("n1", heartbeat(1));
    assert_eq!(n1.mail.message().2, heartbeat(0));
    n1.ask("n0", heartbeat(1));
    assert_eq!(n0.mail.message().2, heartbeat(0));
}

/// A peer that is made by hand.
struct Stranger {
    client: Client,
    address: String,
}

impl Stranger {
    fn of(member: &Member) -> Self {
        let address = member.transport.address().to_string();
        Self { client: Client::new(ClientOptions::default()), address }
    }

    async fn call(&self, code: i32, body: Vec<u8>) -> Command {
        let request = Command::request(code).with_body(body);
        self.client.call(&self.address, request, PATIENCE).await.unwrap()
    }

    async fn heartbeat(&self, group: &str, from: &str, to: &str) -> ResponseCode {
        let text = |text: &str| Some(text.to_owned());
        let body = Base {
            group: text(group),
            leader_id: text(from),
            local_id: text(from),
            remote_id: text(to),
            term: 3,
            ..Base::default()
        };
        let answer = self.call(request::HEART_BEAT, json::write(&body)).await;
        assert_eq!(answer.code, 200, "{answer:?}");
        ResponseCode(json::read::<Base>(&answer.body).unwrap().code)
    }

    async fn vote(&self, from: &str) -> String {
        let body = format!(
            r#"{{"code":200,"group":"g","leaderId":"{from}","ledgerEndIndex":-1,"ledgerEndTerm":-1,"localId":"{from}","remoteId":"n0","term":1}}"#
        );
        let answer = self.call(request::VOTE, body.into_bytes()).await;
        json::read::<VoteReplyBody>(&answer.body).unwrap().vote_result.unwrap()
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn who_is_not_meant_or_no_member_is_refused() {
    let n0 = member(options(&peers(3), "n0"));
    let stranger = Stranger::of(&n0);
    for (group, from, to, code) in [
        ("g", "n1", "n2", ResponseCode::UNKNOWN_MEMBER),
        ("h", "n1", "n0", ResponseCode::UNKNOWN_GROUP),
        ("g", "n7", "n0", ResponseCode::UNKNOWN_MEMBER),
        ("g", "n0", "n0", ResponseCode::UNEXPECTED_MEMBER),
    ] {
        assert_eq!(stranger.heartbeat(group, from, to).await, code, "{group} {from} {to}");
    }
    assert_eq!(stranger.vote("n7").await, "REJECT_UNKNOWN_LEADER");
    assert_eq!(stranger.vote("n0").await, "REJECT_UNEXPECTED_LEADER");
    let queue = n0.mail.queue.lock().unwrap();
    assert!(!queue.iter().any(|incoming| matches!(incoming, Incoming::Message { .. })));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_id_cannot_be_had_twice_at_a_time() {
    let n0 = Arc::new(member(options(&peers(3), "n0")));
    let (first, second) = (Stranger::of(&n0), Stranger::of(&n0));
    let answering = Arc::clone(&n0);
    let task = tokio::task::spawn_blocking(move || {
        let (from, call, _, _) = answering.mail.message();
        let reply = HeartbeatReply {
            term: None,
            code: HeartbeatCode::Success,
            request_term: Term(3),
            round: 0,
            healthy: true,
            roomy: true,
        };
        answering.answer(&from, call, Message::HeartbeatReply(reply));
    });
    assert_eq!(first.heartbeat("g", "n1", "n0").await, ResponseCode::SUCCESS);
    task.await.unwrap();
    assert_eq!(second.heartbeat("g", "n1", "n0").await, ResponseCode::UNKNOWN_MEMBER);
    // A heartbeat without our field is Java's.
    let kind = n0.mail.queue.lock().unwrap().iter().rev().find_map(|incoming| match incoming {
        Incoming::Peer { id, kind } => Some((id.clone(), *kind)),
        Incoming::Message { .. } => None,
    });
    // It may have been taken with the message before.
    assert!(kind.is_none() || kind == Some(("n1".to_owned(), PeerKind::Java)), "{kind:?}");
    assert!(n0.transport.shared_is_java("n1"));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_member_with_other_files_is_refused_with_both_sizes() {
    let n0 = member(options(&peers(3), "n0"));
    let other = Introduction { file_size: 1 << 30, ..introduction() };
    let text = |text: &str| Some(text.to_owned());
    let vote = VoteBody {
        code: 200,
        group: text("g"),
        leader_id: text("n1"),
        ledger_end_index: -1,
        ledger_end_term: -1,
        ledgermq: Some(Own { ..other.to_own() }),
        local_id: text("n1"),
        remote_id: text("n0"),
        term: 1,
    };
    let answer = Stranger::of(&n0).call(request::VOTE, json::write(&vote)).await;
    let remark = answer.remark.unwrap();
    assert!(remark.contains("1048576") && remark.contains("1073741824"), "{remark}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_member_of_another_cluster_is_refused_with_both_names() {
    let cluster = |name: &str| Introduction { cluster: Some(name.to_owned()), ..introduction() };
    let n0 = member(TransportOptions { introduction: cluster("a"), ..options(&peers(3), "n0") });
    let text = |text: &str| Some(text.to_owned());
    let heartbeat = Base {
        group: text("g"),
        leader_id: text("n1"),
        ledgermq: Some(cluster("b").to_own()),
        local_id: text("n1"),
        remote_id: text("n0"),
        term: 3,
        ..Base::default()
    };
    let answer = Stranger::of(&n0).call(request::HEART_BEAT, json::write(&heartbeat)).await;
    let remark = answer.remark.unwrap();
    assert!(remark.contains("cluster a here and b there"), "{remark}");
    let queue = n0.mail.queue.lock().unwrap();
    assert!(!queue.iter().any(|incoming| matches!(incoming, Incoming::Message { .. })));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_address_that_leads_to_another_member_or_group_is_no_member() {
    let told = peers(4);
    let port = |id: &str| told.get(id).unwrap().port();
    let n2 = member(options(&told, "n2"));
    let n1 = member(TransportOptions { group: "h".to_owned(), ..options(&told, "n1") });
    // Where n0 looks for n1 there is one of another group; where it looks for n3 there is n2.
    let list = format!("n1-127.0.0.1:{};n3-127.0.0.1:{}", port("n1"), port("n2"));
    let peers = Peers::parse(&format!("n0-127.0.0.1:{};{list}", port("n0"))).unwrap();
    let n0 = member(options(&peers, "n0"));
    for to in ["n1", "n3"] {
        n0.ask(to, heartbeat(1));
        let (from, _, told, _) = n0.mail.message();
        let Message::HeartbeatReply(reply) = told else { panic!("{told:?}") };
        assert_eq!(from, to);
        assert_ne!(reply.code, HeartbeatCode::Success, "{to}");
    }
    for other in [&n1, &n2] {
        let queue = other.mail.queue.lock().unwrap();
        assert!(!queue.iter().any(|incoming| matches!(incoming, Incoming::Message { .. })));
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_member_of_dledger_0_4_is_told_why_it_is_refused() {
    let n0 = member(options(&peers(3), "n0"));
    let stranger = Stranger::of(&n0);
    let push = r#"{"code":200,"group":"g","localId":"n1","remoteId":"n0","term":1,"type":"APPEND","preLogIndex":3,"preLogTerm":1,"entries":[]}"#;
    for (code, body) in [(request::PUSH, push), (request::INSTALL_SNAPSHOT, "{}")] {
        let answer = stranger.call(code, body.into()).await;
        assert_eq!(answer.code, 1);
        assert!(answer.remark.unwrap().contains("0.4"));
    }
}

/// Answers as a Java member does: no field of ours, and our own codes are not known to it.
struct JavaLike;

impl remoting::Handler for JavaLike {
    fn handle(
        &self,
        _connection: &Arc<remoting::Connection>,
        command: Command,
        responder: remoting::Responder,
    ) {
        let body = match command.code {
            request::HEART_BEAT => r#"{"code":200,"term":-1}"#,
            request::PUSH => {
                r#"{"beginIndex":0,"code":200,"count":2,"endIndex":6,"group":"g","index":5,"term":3}"#
            }
            _ => {
                let remark = " request type 52001 not supported";
                return responder.send(Command::request(3).with_remark(remark));
            }
        };
        responder.send(Command::request(200).with_body(body));
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_java_member_is_known_by_its_answer_and_gets_json() {
    let peers = peers(2);
    let address = peers.get("n1").unwrap().address.parse().unwrap();
    let java = remoting::Server::bind(address, Default::default(), Arc::new(JavaLike)).unwrap();
    let n0 = member(options(&peers, "n0"));
    assert_eq!(n0.mail.kind().1, PeerKind::Unknown);
    n0.ask("n1", vote(3, true));
    assert_eq!(n0.mail.kind().1, PeerKind::Java, "a pre-vote is not known to it");

    let entries = vec![entry(5, b"five"), entry(6, b"six")];
    n0.ask_with("n1", append(5, &entries), entries);
    let (_, _, told, _) = n0.mail.message();
    // Java tells neither what is flushed nor its life.
    let expected = PushReply { flushed: None, life: Life(0), ..pushed() };
    assert_eq!(told, Message::PushReply(expected));
    java.shutdown().await;
}
