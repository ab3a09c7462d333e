//! Every typed header keeps all that was in the recorded fields.

use std::collections::BTreeSet;

use protocol::{
    Command, ExtFields,
    code::{request, response},
    header::*,
};

use crate::data::{Recorded, recorded};

/// Fields that hooks and brokers add to any header.
const RIDERS: [&str; 4] = ["bname", "ReqT", "MSG_REGION", "TRACE_ON"];

type Again = fn(&Command) -> Result<ExtFields, HeaderError>;

/// Reads a typed header and writes it again.
fn again<H: Header>(command: &Command) -> Result<ExtFields, HeaderError> {
    let header: H = command.header()?;
    let mut fields = ExtFields::new();
    header.encode(&mut fields);
    Ok(fields)
}

fn send(command: &Command) -> Result<ExtFields, HeaderError> {
    let none = ExtFields::new();
    let given = command.ext_fields.as_ref().unwrap_or(&none);
    let header = SendMessageRequest::decode_for(command.code, given)?;
    let mut fields = ExtFields::new();
    header.encode_for(command.code, &mut fields);
    Ok(fields)
}

/// Code, request header, response header.
fn table() -> Vec<(i32, Again, Again)> {
    use request::*;
    let mut table = client_codes();
    table.extend(admin_codes());
    table.extend([
        (PUT_KV_CONFIG, again::<PutKvConfigRequest> as Again, again::<Empty> as Again),
        (GET_KV_CONFIG, again::<GetKvConfigRequest>, again::<GetKvConfigResponse>),
        (DELETE_KV_CONFIG, again::<DeleteKvConfigRequest>, again::<Empty>),
        (REGISTER_BROKER, again::<RegisterBrokerRequest>, again::<RegisterBrokerResponse>),
        (UNREGISTER_BROKER, again::<UnRegisterBrokerRequest>, again::<Empty>),
        (GET_ROUTEINFO_BY_TOPIC, again::<GetRouteInfoRequest>, again::<Empty>),
        (
            WIPE_WRITE_PERM_OF_BROKER,
            again::<WipeWritePermOfBrokerRequest>,
            again::<WipeWritePermOfBrokerResponse>,
        ),
        (
            ADD_WRITE_PERM_OF_BROKER,
            again::<AddWritePermOfBrokerRequest>,
            again::<AddWritePermOfBrokerResponse>,
        ),
        (DELETE_TOPIC_IN_NAMESRV, again::<DeleteTopicFromNamesrvRequest>, again::<Empty>),
        (GET_KVLIST_BY_NAMESPACE, again::<GetKvListByNamespaceRequest>, again::<Empty>),
        (QUERY_DATA_VERSION, again::<QueryDataVersionRequest>, again::<QueryDataVersionResponse>),
        (GET_BROKER_MEMBER_GROUP, again::<GetBrokerMemberGroupRequest>, again::<Empty>),
        (EXCHANGE_BROKER_HA_INFO, again::<ExchangeHaInfoRequest>, again::<ExchangeHaInfoResponse>),
        (SWITCH_TIMER_ENGINE, again::<SwitchTimerEngineRequest>, again::<Empty>),
        (POP_MESSAGE, again::<PopMessageRequest>, again::<PopMessageResponse>),
        (PEEK_MESSAGE, again::<PeekMessageRequest>, again::<PopMessageResponse>),
        (ACK_MESSAGE, again::<AckMessageRequest>, again::<Empty>),
        (
            CHANGE_MESSAGE_INVISIBLETIME,
            again::<ChangeInvisibleTimeRequest>,
            again::<ChangeInvisibleTimeResponse>,
        ),
        (NOTIFICATION, again::<NotificationRequest>, again::<NotificationResponse>),
        (POLLING_INFO, again::<PollingInfoRequest>, again::<PollingInfoResponse>),
        (3447, again::<PollingInfoRequest>, again::<Empty>),
    ]);
    table
}

fn client_codes() -> Vec<(i32, Again, Again)> {
    use request::*;
    vec![
        (SEND_MESSAGE, send as Again, again::<SendMessageResponse> as Again),
        (SEND_MESSAGE_V2, send, again::<SendMessageResponse>),
        (SEND_BATCH_MESSAGE, send, again::<SendMessageResponse>),
        (SEND_REPLY_MESSAGE, send, again::<SendMessageResponse>),
        (SEND_REPLY_MESSAGE_V2, send, again::<SendMessageResponse>),
        (PULL_MESSAGE, again::<PullMessageRequest>, again::<PullMessageResponse>),
        (LITE_PULL_MESSAGE, again::<PullMessageRequest>, again::<PullMessageResponse>),
        (QUERY_MESSAGE, again::<QueryMessageRequest>, again::<QueryMessageResponse>),
        (
            QUERY_CONSUMER_OFFSET,
            again::<QueryConsumerOffsetRequest>,
            again::<QueryConsumerOffsetResponse>,
        ),
        (
            UPDATE_CONSUMER_OFFSET,
            again::<UpdateConsumerOffsetRequest>,
            again::<UpdateConsumerOffsetResponse>,
        ),
        (SEARCH_OFFSET_BY_TIMESTAMP, again::<SearchOffsetRequest>, again::<SearchOffsetResponse>),
        (GET_MAX_OFFSET, again::<GetMaxOffsetRequest>, again::<GetMaxOffsetResponse>),
        (GET_MIN_OFFSET, again::<GetMinOffsetRequest>, again::<GetMinOffsetResponse>),
        (
            GET_EARLIEST_MSG_STORETIME,
            again::<GetEarliestMsgStoretimeRequest>,
            again::<GetEarliestMsgStoretimeResponse>,
        ),
        (VIEW_MESSAGE_BY_ID, again::<ViewMessageRequest>, again::<Empty>),
        (HEART_BEAT, again::<HeartbeatRequest>, again::<HeartbeatResponse>),
        (UNREGISTER_CLIENT, again::<UnregisterClientRequest>, again::<UnregisterClientResponse>),
        (CONSUMER_SEND_MSG_BACK, again::<ConsumerSendMsgBackRequest>, again::<Empty>),
        (END_TRANSACTION, again::<EndTransactionRequest>, again::<EndTransactionResponse>),
        (
            GET_CONSUMER_LIST_BY_GROUP,
            again::<GetConsumerListByGroupRequest>,
            again::<GetConsumerListByGroupResponse>,
        ),
        (CHECK_TRANSACTION_STATE, again::<CheckTransactionStateRequest>, again::<Empty>),
        (NOTIFY_CONSUMER_IDS_CHANGED, again::<NotifyConsumerIdsChangedRequest>, again::<Empty>),
        (RECALL_MESSAGE, again::<RecallMessageRequest>, again::<RecallMessageResponse>),
        (PUSH_REPLY_MESSAGE_TO_CLIENT, again::<ReplyMessageRequest>, again::<Empty>),
    ]
}

fn admin_codes() -> Vec<(i32, Again, Again)> {
    use request::*;
    vec![
        (UPDATE_AND_CREATE_TOPIC, again::<CreateTopicRequest> as Again, again::<Empty> as Again),
        (
            GET_ALL_TOPIC_CONFIG,
            again::<GetAllTopicConfigRequest>,
            again::<GetAllTopicConfigResponse>,
        ),
        (
            GET_ALL_SUBSCRIPTIONGROUP_CONFIG,
            again::<GetAllSubscriptionGroupRequest>,
            again::<GetAllSubscriptionGroupResponse>,
        ),
        (GET_TOPIC_STATS_INFO, again::<GetTopicStatsInfoRequest>, again::<Empty>),
        (GET_CONSUMER_CONNECTION_LIST, again::<GetConsumerConnectionListRequest>, again::<Empty>),
        (GET_PRODUCER_CONNECTION_LIST, again::<GetProducerConnectionListRequest>, again::<Empty>),
        (DELETE_SUBSCRIPTIONGROUP, again::<DeleteSubscriptionGroupRequest>, again::<Empty>),
        (GET_CONSUME_STATS, again::<GetConsumeStatsRequest>, again::<Empty>),
        (DELETE_TOPIC_IN_BROKER, again::<DeleteTopicRequest>, again::<Empty>),
        (RESET_CONSUMER_CLIENT_OFFSET, again::<ResetOffsetRequest>, again::<Empty>),
        (INVOKE_BROKER_TO_RESET_OFFSET, again::<ResetOffsetRequest>, again::<Empty>),
        (GET_CONSUMER_STATUS_FROM_CLIENT, again::<GetConsumerStatusRequest>, again::<Empty>),
        (INVOKE_BROKER_TO_GET_CONSUMER_STATUS, again::<GetConsumerStatusRequest>, again::<Empty>),
        (QUERY_TOPIC_CONSUME_BY_WHO, again::<QueryTopicConsumeByWhoRequest>, again::<Empty>),
        (QUERY_CONSUME_TIME_SPAN, again::<QueryConsumeTimeSpanRequest>, again::<Empty>),
        (GET_CONSUMER_RUNNING_INFO, again::<GetConsumerRunningInfoRequest>, again::<Empty>),
        (QUERY_CORRECTION_OFFSET, again::<QueryCorrectionOffsetRequest>, again::<Empty>),
        (CONSUME_MESSAGE_DIRECTLY, again::<ConsumeMessageDirectlyResultRequest>, again::<Empty>),
        (CLONE_GROUP_OFFSET, again::<CloneGroupOffsetRequest>, again::<Empty>),
        (VIEW_BROKER_STATS_DATA, again::<ViewBrokerStatsDataRequest>, again::<Empty>),
        (GET_BROKER_CONSUME_STATS, again::<GetBrokerConsumeStatsRequest>, again::<Empty>),
        (RESUME_CHECK_HALF_MESSAGE, again::<ResumeCheckHalfMessageRequest>, again::<Empty>),
        (QUERY_TOPICS_BY_CONSUMER, again::<QueryTopicsByConsumerRequest>, again::<Empty>),
        (
            QUERY_SUBSCRIPTION_BY_CONSUMER,
            again::<QuerySubscriptionByConsumerRequest>,
            again::<Empty>,
        ),
        (GET_TOPIC_CONFIG, again::<GetTopicConfigRequest>, again::<Empty>),
        (GET_SUBSCRIPTIONGROUP_CONFIG, again::<GetSubscriptionGroupConfigRequest>, again::<Empty>),
        (UPDATE_AND_GET_GROUP_FORBIDDEN, again::<UpdateGroupForbiddenRequest>, again::<Empty>),
        (
            CHECK_ROCKSDB_CQ_WRITE_PROGRESS,
            again::<CheckRocksdbCqWriteProgressRequest>,
            again::<Empty>,
        ),
    ]
}

/// What was received and does not come back is a rider.
fn compare(recorded: &Recorded, given: &ExtFields, written: &ExtFields) {
    for (name, value) in given.iter() {
        match written.get(name) {
            Some(back) => {
                assert!(back.eq_ignore_ascii_case(value), "{recorded}: {name} {value:?} {back:?}");
            }
            None => assert!(RIDERS.contains(&name), "{recorded}: {name} is lost"),
        }
    }
}

#[test]
fn request_headers_keep_every_field() {
    let table = table();
    let mut missing = BTreeSet::new();
    let mut refused = Vec::new();
    for recorded in recorded().iter().filter(|recorded| !recorded.is_response) {
        let command = recorded.command();
        let given = command.ext_fields.clone().unwrap_or_default();
        match table.iter().find(|row| row.0 == recorded.code) {
            Some((_, read, _)) => match read(&command) {
                Ok(written) => compare(recorded, &given, &written),
                Err(error) => refused.push((recorded.code, error.to_string())),
            },
            None if given.is_empty() => {}
            None => {
                missing.insert(recorded.code);
            }
        }
    }
    // Codes of features that we do not have.
    assert_eq!(missing, BTreeSet::from([3009, 200_075]));
    let not_a_number = "header field `e` is \"notanumber\", which is not a 32-bit decimal number";
    let expected = [(request::SEND_MESSAGE_V2, not_a_number.to_owned())];
    assert_eq!(refused, expected);
}

#[test]
fn response_headers_keep_every_field() {
    let table = table();
    for recorded in recorded().iter().filter(|recorded| recorded.is_response) {
        let command = recorded.command();
        let Some((_, _, read)) = table.iter().find(|row| row.0 == recorded.code) else {
            let fields = command.ext_fields.unwrap_or_default();
            assert!(fields.is_empty(), "{recorded}: {fields:?}");
            continue;
        };
        let given = command.ext_fields.clone().unwrap_or_default();
        let riders = given.iter().all(|(name, _)| RIDERS.contains(&name));
        if command.code != response::SUCCESS && riders {
            continue;
        }
        let written = read(&command).unwrap_or_else(|error| panic!("{recorded}: {error}"));
        compare(recorded, &given, &written);
    }
}
