//! A broker in memory that is its own name server. Pulls do not wait; tags are not looked at.

use std::{
    collections::{BTreeMap, HashMap, VecDeque},
    net::SocketAddr,
    sync::{Arc, Mutex, MutexGuard},
    time::Duration,
};

use bytes::{Bytes, BytesMut};
use protocol::{
    Command,
    body::{
        BrokerData, GetConsumerListByGroupResponseBody, HeartbeatData, QueueData, TopicRouteData,
    },
    code::{request, response},
    header::{
        GetConsumerListByGroupRequest, GetMaxOffsetRequest, GetMaxOffsetResponse,
        GetMinOffsetResponse, GetRouteInfoRequest, NotifyConsumerIdsChangedRequest,
        PullMessageRequest, PullMessageResponse, QueryConsumerOffsetRequest,
        QueryConsumerOffsetResponse, SendMessageRequest, SendMessageResponse,
        UnregisterClientRequest, UpdateConsumerOffsetRequest,
    },
    message::{batch, properties, record},
};
use remoting::{Connection, Handler, Responder, Server, ServerOptions};

type Place = (String, i32);

pub(super) struct Fake {
    server: Server,
    state: Arc<State>,
}

#[derive(Default)]
struct State(Mutex<Tables>);

#[derive(Default)]
struct Tables {
    topics: Vec<String>,
    queue_count: i32,
    broker_id: i64,
    address: String,
    queues: HashMap<Place, Vec<Bytes>>,
    offsets: HashMap<String, BTreeMap<Place, i64>>,
    /// Members of each group with their connections.
    members: HashMap<String, BTreeMap<String, Arc<Connection>>>,
    refusals: VecDeque<i32>,
    attempts: Vec<(i32, String)>,
    unregistered: Vec<String>,
    /// Questions for routes that are never answered; `None` where they are.
    unanswered: Option<Vec<Responder>>,
}

impl Fake {
    /// With these topics of so many queues.
    pub(super) fn start(topics: &[&str], queue_count: i32) -> Self {
        let state = Arc::new(State::default());
        let any: SocketAddr = "127.0.0.1:0".parse().unwrap();
        let handler = Arc::clone(&state) as Arc<dyn Handler>;
        let server = Server::bind(any, ServerOptions::default(), handler).unwrap();
        let mut tables = state.lock();
        tables.topics = topics.iter().map(|topic| (*topic).to_owned()).collect();
        tables.queue_count = queue_count;
        tables.address = server.local_addr().to_string();
        drop(tables);
        Self { server, state }
    }

    pub(super) fn address(&self) -> String {
        self.server.local_addr().to_string()
    }

    /// Whether name servers list it as master, or as a slave.
    pub(super) fn leads(&self, leads: bool) {
        self.state.lock().broker_id = if leads { 0 } else { 1 };
    }

    /// As name server, it takes questions for routes and answers none from now on.
    pub(super) fn knows_no_routes(&self) {
        self.state.lock().unanswered = Some(Vec::new());
    }

    /// The next sends are refused with these codes.
    pub(super) fn refuse_sends(&self, codes: &[i32]) {
        self.state.lock().refusals.extend(codes);
    }

    /// Queue and client's id of every send that came, refused ones included.
    pub(super) fn send_attempts(&self) -> Vec<(i32, String)> {
        self.state.lock().attempts.clone()
    }

    pub(super) fn committed(&self, group: &str) -> BTreeMap<Place, i64> {
        let mut offsets = self.state.lock().offsets.get(group).cloned().unwrap_or_default();
        offsets.retain(|(topic, _), _| !topic.starts_with("%RETRY%"));
        offsets
    }

    /// Groups that were left.
    pub(super) fn unregistered(&self) -> Vec<String> {
        self.state.lock().unregistered.clone()
    }
}

impl State {
    fn lock(&self) -> MutexGuard<'_, Tables> {
        self.0.lock().unwrap()
    }
}

impl Handler for State {
    fn handle(&self, connection: &Arc<Connection>, request: Command, responder: Responder) {
        let mut tables = self.lock();
        if request.code == request::GET_ROUTEINFO_BY_TOPIC
            && let Some(unanswered) = tables.unanswered.as_mut()
        {
            unanswered.push(responder);
            return;
        }
        let answer = match request.code {
            request::GET_ROUTEINFO_BY_TOPIC => tables.route(&request),
            request::SEND_MESSAGE_V2 | request::SEND_BATCH_MESSAGE => tables.send(&request),
            request::PULL_MESSAGE => tables.pull(&request),
            request::HEART_BEAT => tables.heartbeat(connection, &request),
            request::UNREGISTER_CLIENT => tables.unregister(&request),
            request::GET_CONSUMER_LIST_BY_GROUP => tables.members(&request),
            request::QUERY_CONSUMER_OFFSET => tables.query_offset(&request),
            request::UPDATE_CONSUMER_OFFSET => tables.commit(&request),
            request::GET_MIN_OFFSET => {
                request.response(0).with_header(&GetMinOffsetResponse { offset: 0 })
            }
            request::GET_MAX_OFFSET => {
                let header: GetMaxOffsetRequest = request.header().unwrap();
                let offset = tables.max(&header.topic, header.queue_id);
                request.response(0).with_header(&GetMaxOffsetResponse { offset })
            }
            _ => request.response(response::REQUEST_CODE_NOT_SUPPORTED),
        };
        drop(tables);
        if request.code == request::PULL_MESSAGE && answer.code == response::PULL_NOT_FOUND {
            // A waiting pull is held for a moment, so that consumers at the end do not spin.
            tokio::spawn(async move {
                tokio::time::sleep(Duration::from_millis(20)).await;
                responder.send(answer);
            });
            return;
        }
        responder.send(answer);
    }
}

impl Tables {
    fn max(&self, topic: &str, queue_id: i32) -> i64 {
        self.queues.get(&(topic.to_owned(), queue_id)).map_or(0, |queue| queue.len() as i64)
    }

    fn route(&self, request: &Command) -> Command {
        let topic = request.header::<GetRouteInfoRequest>().unwrap().topic;
        if !self.topics.contains(&topic) {
            return request.response(response::TOPIC_NOT_EXIST).with_remark("no route");
        }
        let data = TopicRouteData {
            queue_datas: vec![QueueData {
                broker_name: "b".to_owned(),
                read_queue_nums: self.queue_count,
                write_queue_nums: self.queue_count,
                perm: 6,
                ..QueueData::default()
            }],
            broker_datas: vec![BrokerData {
                cluster: "c".to_owned(),
                broker_name: "b".to_owned(),
                broker_addrs: [(self.broker_id, self.address.clone())].into_iter().collect(),
                ..BrokerData::default()
            }],
            ..TopicRouteData::default()
        };
        request.response(0).with_body(data.encode())
    }

    fn send(&mut self, request: &Command) -> Command {
        let fields = request.ext_fields.as_ref().unwrap();
        let header = SendMessageRequest::decode_for(request.code, fields).unwrap();
        let properties = header.properties.clone().unwrap_or_default();
        let id = properties::find(&properties, "UNIQ_KEY").unwrap_or_default().to_owned();
        self.attempts.push((header.queue_id, id));
        if let Some(code) = self.refusals.pop_front() {
            return request.response(code).with_remark("refused on purpose");
        }
        let first = self.max(&header.topic, header.queue_id);
        let parts = if header.batch == Some(true) {
            batch::decode(&request.body).unwrap()
        } else {
            vec![batch::BatchMessage { flag: header.flag, body: request.body.clone(), properties }]
        };
        let place = (header.topic.clone(), header.queue_id);
        let queue = self.queues.entry(place).or_default();
        for part in parts {
            let record = record::MessageRecord {
                queue_id: header.queue_id,
                flag: part.flag,
                queue_offset: queue.len() as i64,
                physical_offset: 0,
                sys_flag: header.sys_flag,
                born_timestamp: header.born_timestamp,
                born_host: "127.0.0.1:1".parse().unwrap(),
                store_timestamp: header.born_timestamp,
                store_host: self.address.parse().unwrap(),
                reconsume_times: 0,
                prepared_transaction_offset: 0,
                body: part.body,
                topic: header.topic.clone(),
                properties: part.properties,
            };
            let mut bytes = BytesMut::new();
            record::encode(&record, &mut bytes).unwrap();
            queue.push(bytes.freeze());
        }
        request.response(0).with_header(&SendMessageResponse {
            msg_id: "0".repeat(32),
            queue_id: header.queue_id,
            queue_offset: first,
            transaction_id: None,
            batch_uniq_id: None,
            recall_handle: None,
        })
    }

    fn pull(&self, request: &Command) -> Command {
        let header: PullMessageRequest = request.header().unwrap();
        let max = self.max(&header.topic, header.queue_id);
        let queue = self.queues.get(&(header.topic, header.queue_id));
        let begin = usize::try_from(header.queue_offset).unwrap();
        let count = usize::try_from(header.max_msg_nums).unwrap();
        let found: Vec<Bytes> = queue
            .map(|queue| queue.iter().skip(begin).take(count).cloned().collect())
            .unwrap_or_default();
        let code = if found.is_empty() { response::PULL_NOT_FOUND } else { response::SUCCESS };
        let next = header.queue_offset + found.len() as i64;
        request
            .response(code)
            .with_header(&PullMessageResponse {
                suggest_which_broker_id: 0,
                next_begin_offset: next,
                min_offset: 0,
                max_offset: max,
                offset_delta: None,
                topic_sys_flag: None,
                group_sys_flag: None,
                forbidden_type: None,
            })
            .with_body(found.concat())
    }

    fn heartbeat(&mut self, connection: &Arc<Connection>, request: &Command) -> Command {
        let data = HeartbeatData::decode(&request.body).unwrap();
        for consumer in data.consumer_data_set {
            let members = self.members.entry(consumer.group_name.clone()).or_default();
            if members.insert(data.client_id.clone(), Arc::clone(connection)).is_none() {
                notify(&consumer.group_name, members);
            }
        }
        request.response(0)
    }

    fn unregister(&mut self, request: &Command) -> Command {
        let header: UnregisterClientRequest = request.header().unwrap();
        self.unregistered.extend(header.producer_group.clone());
        self.unregistered.extend(header.consumer_group.clone());
        if let Some(group) = header.consumer_group
            && let Some(members) = self.members.get_mut(&group)
        {
            members.remove(&header.client_id);
            notify(&group, members);
        }
        request.response(0)
    }

    fn members(&self, request: &Command) -> Command {
        let header: GetConsumerListByGroupRequest = request.header().unwrap();
        match self.members.get(&header.consumer_group) {
            Some(members) if !members.is_empty() => {
                let body = GetConsumerListByGroupResponseBody {
                    consumer_id_list: members.keys().cloned().collect(),
                };
                request.response(0).with_body(body.encode())
            }
            _ => request.response(response::SYSTEM_ERROR).with_remark("no consumer"),
        }
    }

    fn query_offset(&self, request: &Command) -> Command {
        let header: QueryConsumerOffsetRequest = request.header().unwrap();
        let offsets = self.offsets.get(&header.consumer_group);
        match offsets.and_then(|offsets| offsets.get(&(header.topic, header.queue_id))) {
            Some(offset) => {
                request.response(0).with_header(&QueryConsumerOffsetResponse { offset: *offset })
            }
            None => request.response(response::QUERY_NOT_FOUND),
        }
    }

    fn commit(&mut self, request: &Command) -> Command {
        let header: UpdateConsumerOffsetRequest = request.header().unwrap();
        self.offsets
            .entry(header.consumer_group)
            .or_default()
            .insert((header.topic, header.queue_id.unwrap()), header.commit_offset.unwrap());
        request.response(0)
    }
}

fn notify(group: &str, members: &BTreeMap<String, Arc<Connection>>) {
    let header = NotifyConsumerIdsChangedRequest { consumer_group: group.to_owned() };
    for connection in members.values() {
        connection.oneway(Command::request_with(request::NOTIFY_CONSUMER_IDS_CHANGED, &header));
    }
}
