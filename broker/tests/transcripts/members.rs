//! Who is in a group, as a broker tells that was started a moment ago.

use protocol::{
    Command,
    body::{GetConsumerListByGroupResponseBody, QueryAssignmentRequestBody},
    code::{request, response},
};
use remoting::{Client, ClientOptions};

use crate::{
    assignment::query,
    fixture::{Fixture, LIMIT, pull_header, pull_request},
    journal::commit,
    transaction::refused,
};

const NOT_YET: &str = "does not know all consumers of group G yet";

fn list() -> Command {
    Command::request(request::GET_CONSUMER_LIST_BY_GROUP).with_field("consumerGroup", "G")
}

fn ids(answer: &Command) -> Vec<String> {
    assert_eq!(answer.code, response::SUCCESS, "{:?}", answer.remark);
    let body = GetConsumerListByGroupResponseBody::decode(&answer.body).expect("a list");
    body.consumer_id_list
}

fn assignment() -> Command {
    query(&QueryAssignmentRequestBody {
        client_id: "127.0.0.1@1".into(),
        consumer_group: "G".into(),
        message_model: Some("CLUSTERING".into()),
        strategy_name: Some("AVG".into()),
        topic: "%LMQ%x".into(),
    })
}

/// Case 101: a broker that was restarted hears of some members before others. Until all had the time
/// to say that they are there, it tells nobody a list that may lack some.
#[tokio::test(flavor = "multi_thread")]
async fn case_101_a_list_that_may_lack_members_is_refused() {
    let fixture = Fixture::new().await;
    fixture.sent("T", "m", "").await;
    let nobody = fixture.ask(list()).await;
    refused(&nobody, response::SYSTEM_ERROR, "no consumer for this group, G");
    fixture.heartbeat("G", "T", "*").await;
    assert_eq!(fixture.ask(commit(1)).await.code, 0);

    let fixture = fixture.restarted("").await;
    for request in [list(), assignment()] {
        refused(&fixture.ask(request).await, response::SERVICE_NOT_AVAILABLE, NOT_YET);
    }
    fixture.heartbeat("G", "T", "*").await;
    assert_eq!(ids(&fixture.ask(list()).await), ["127.0.0.1@1"]);
    assert_eq!(fixture.ask(assignment()).await.code, 0);

    // Another member pulls, and has not said yet that it is one.
    let other = Client::new(ClientOptions::default());
    let address = fixture.broker.address().to_string();
    let pull = protocol::header::PullMessageRequest {
        consumer_group: "G".into(),
        ..pull_header("T", 0, 0)
    };
    let pulled = other.call(&address, pull_request(&pull), LIMIT).await.expect("an answer");
    assert_eq!(pulled.code, 0, "{:?}", pulled.remark);
    for request in [list(), assignment()] {
        refused(&fixture.ask(request).await, response::SERVICE_NOT_AVAILABLE, NOT_YET);
    }
    other.close();
    let deadline = tokio::time::Instant::now() + LIMIT;
    while fixture.ask(list()).await.code != 0 {
        assert!(tokio::time::Instant::now() < deadline, "it is gone");
        tokio::time::sleep(std::time::Duration::from_millis(20)).await;
    }
}
