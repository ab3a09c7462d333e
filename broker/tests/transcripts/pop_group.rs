//! Pop consumption in a group of several: what is with clients goes on under the next master.

use std::{collections::BTreeMap, time::Duration};

use protocol::{code::response, header::PopMessageRequest};
use tokio::time::Instant;

use crate::{
    fixture::{Fixture, LIMIT},
    group::{OldNames, end, hand_on, members, wait_master},
    pop::{Popped, ack, header, pop, popped},
};

async fn group_of_three() -> (Vec<Fixture>, remoting::Server) {
    let (_names, server) = OldNames::start();
    let mut fixtures = Vec::new();
    for text in members(&server) {
        fixtures.push(Fixture::with(&text).await);
    }
    (fixtures, server)
}

fn number(one: &Popped) -> u32 {
    std::str::from_utf8(&one.message.body).expect("text").parse().expect("a number")
}

/// B-12: what is acknowledged comes no more, what is not comes again, once for each time, whoever
/// leads when its time is over.
#[tokio::test(flavor = "multi_thread")]
async fn b_12_checkpoints_and_acknowledgements_outlive_changes_of_the_master() {
    let (fixtures, _server) = group_of_three().await;
    let mut master = wait_master(&fixtures, |_| true).await;
    for body in ["0", "1", "2", "3", "4", "5", "6", "7", "8", "9"] {
        fixtures[master].sent("T", body, "").await;
    }
    fixtures[master].messages("T", 4, 10).await;
    let asked = PopMessageRequest { max_msg_nums: 3, invisible_time: 3_000, ..header() };
    let mut times: BTreeMap<u32, u32> = BTreeMap::new();
    let deadline = Instant::now() + LIMIT * 2;
    let mut done = 0;
    // Of what comes for the first time, odd ones are left alone; each pop is another master's.
    while done < 10 {
        assert!(Instant::now() < deadline, "{times:?}");
        let answer = pop(&fixtures[master], &asked).await;
        if answer.code != 0 {
            assert_eq!(answer.code, response::POLLING_TIMEOUT, "{:?}", answer.remark);
            tokio::time::sleep(Duration::from_millis(50)).await;
            continue;
        }
        let before = master;
        let taken = popped(&answer);
        for one in &taken {
            let times = times.entry(number(one)).or_default();
            *times += 1;
            if number(one).is_multiple_of(2) || *times == 2 {
                // A client that has not heard of the new master asks the one before it.
                let answer = ack(&fixtures[before], one).await;
                assert_eq!(answer.code, 0, "{:?}", answer.remark);
                done += 1;
            }
        }
        master = hand_on(&fixtures, master).await;
    }
    let expected: BTreeMap<u32, u32> = (0..10).map(|number| (number, 1 + number % 2)).collect();
    assert_eq!(times, expected);
    for _switch in 0..2 {
        master = hand_on(&fixtures, master).await;
        tokio::time::sleep(Duration::from_millis(2_500)).await;
        // A follower passes the pop on.
        for fixture in &fixtures {
            assert_eq!(pop(fixture, &asked).await.code, response::POLLING_TIMEOUT);
        }
    }
    end(fixtures).await;
}

/// A queue that is one client's stays so under the next master, and goes on where it was.
#[tokio::test(flavor = "multi_thread")]
async fn order_outlives_changes_of_the_master() {
    let (fixtures, _server) = group_of_three().await;
    let mut master = wait_master(&fixtures, |_| true).await;
    for body in ["0", "1", "2", "3"] {
        fixtures[master].sent("T", body, "").await;
    }
    fixtures[master].messages("T", 4, 4).await;
    let asked = |attempt: u32| PopMessageRequest {
        max_msg_nums: 1,
        invisible_time: 600_000,
        order: Some(true),
        attempt_id: Some(attempt.to_string()),
        ..header()
    };
    for expected in 0..4 {
        let taken = popped(&pop(&fixtures[master], &asked(expected)).await);
        assert_eq!(taken.iter().map(number).collect::<Vec<_>>(), [expected]);
        master = hand_on(&fixtures, master).await;
        let answer = pop(&fixtures[master], &asked(99)).await;
        assert_eq!(answer.code, response::POLLING_TIMEOUT, "the queue is another client's");
        assert_eq!(ack(&fixtures[master], &taken[0]).await.code, 0);
        master = hand_on(&fixtures, master).await;
    }
    end(fixtures).await;
}
