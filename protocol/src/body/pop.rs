//! Pop consumption: records of the revive topic (`PopCheckPoint.java`, `AckMsg.java`,
//! `BatchAckMsg.java`) and the body of code 200151.

use std::collections::BTreeMap;

use super::plain_bodies;

plain_bodies! {
    /// What one pop took of one queue, until when.
    #[derive(Eq)]
    PopCheckPoint {
        /// Bit n is set where the n-th message is done.
        #[serde(rename = "bm")]
        bit_map: i32,
        /// Broker that gave the messages.
        #[serde(rename = "bn")]
        broker_name: Option<String>,
        /// Group; Java 5.x writes it as `CId` and reads both.
        #[serde(rename = "c", alias = "CId", alias = "cId")]
        consumer_group: Option<String>,
        /// Distance of each message from `start_offset`; none where they lie side by side.
        #[serde(rename = "d")]
        diffs: Option<Vec<i32>>,
        /// How long the messages are with the client, in milliseconds.
        #[serde(rename = "it")]
        invisible_time: i64,
        /// Number of messages.
        #[serde(rename = "n")]
        number: i32,
        /// When they were taken.
        #[serde(rename = "pt")]
        pop_time: i64,
        /// Queue of the messages.
        #[serde(rename = "q")]
        queue_id: i32,
        /// Offset of the record in the revive topic, as its reader notes it.
        #[serde(rename = "ro")]
        revive_offset: i64,
        /// How often the record was put again, as text; none for what a pop wrote.
        #[serde(rename = "rp")]
        put_again: Option<String>,
        /// Offset at which the pop began.
        #[serde(rename = "so")]
        start_offset: i64,
        /// Topic of the messages.
        #[serde(rename = "t")]
        topic: Option<String>,
    }

    /// Messages of a check point are done. `ack_offset` is the message; where there is a list, it
    /// names the messages instead.
    #[derive(Eq)]
    AckMsg {
        /// Offset of the message.
        #[serde(rename = "ao", alias = "ackOffset")]
        ack_offset: i64,
        /// Offsets of the messages.
        #[serde(rename = "aol", alias = "ackOffsetList")]
        ack_offset_list: Option<Vec<i64>>,
        /// Broker that gave the messages.
        #[serde(rename = "bn", alias = "brokerName")]
        broker_name: Option<String>,
        /// Group.
        #[serde(rename = "c", alias = "consumerGroup")]
        consumer_group: String,
        /// When they were taken.
        #[serde(rename = "pt", alias = "popTime")]
        pop_time: i64,
        /// Queue of the messages.
        #[serde(rename = "q", alias = "queueId")]
        queue_id: i32,
        /// Offset at which the pop began.
        #[serde(rename = "so", alias = "startOffset")]
        start_offset: i64,
        /// Topic of the messages.
        #[serde(rename = "t", alias = "topic")]
        topic: String,
    }

    /// What an ordered pop took of one queue: nothing else is given of it until all of it is done,
    /// or its time is over (`ConsumerOrderInfoManager.OrderInfo`).
    #[derive(Eq)]
    OrderInfo {
        /// Attempt that took the messages: a repeat of it gets them again.
        #[serde(rename = "a")]
        attempt_id: Option<String>,
        /// Bit n is set where the n-th message is done.
        #[serde(rename = "cm")]
        commit_offset_bit: i64,
        /// How long the messages are with the client, in milliseconds.
        #[serde(rename = "i")]
        invisible_time: Option<i64>,
        /// When they were taken.
        #[serde(rename = "l")]
        last_consume_timestamp: i64,
        /// Offset of the first message, and the distance of each other one from it.
        #[serde(rename = "o")]
        offset_list: Option<Vec<i64>>,
        /// How often messages were taken before, by offset.
        #[serde(rename = "oc")]
        offset_consumed_count: Option<BTreeMap<i64, i32>>,
        /// Until when messages stay with the client, by offset, where that was changed.
        #[serde(rename = "ot")]
        offset_next_visible_time: Option<BTreeMap<i64, i64>>,
        /// When they were taken.
        pop_time: i64,
    }

    /// consumerOrderInfo.json.
    #[derive(Eq)]
    ConsumerOrderInfoWrapper {
        /// By `topic@group` and queue.
        table: BTreeMap<String, BTreeMap<i32, OrderInfo>>,
    }

    /// Body of code 200151.
    #[derive(Eq)]
    BatchAckMessageRequestBody {
        /// What is done, by check point.
        acks: Option<Vec<BatchAck>>,
        /// Broker that gave the messages.
        broker_name: Option<String>,
    }

    /// Messages of one check point that are done.
    #[derive(Eq)]
    BatchAck {
        /// Bit n means the message at `start_offset` + n: base64 of the bytes of a Java `BitSet`.
        #[serde(rename = "b", alias = "bitSet")]
        bit_set: Option<String>,
        /// Group.
        #[serde(rename = "c", alias = "consumerGroup")]
        consumer_group: String,
        /// How long the messages are with the client, in milliseconds.
        #[serde(rename = "it", alias = "invisibleTime")]
        invisible_time: i64,
        /// When they were taken.
        #[serde(rename = "pt", alias = "popTime")]
        pop_time: i64,
        /// Queue of the messages.
        #[serde(rename = "q", alias = "queueId")]
        queue_id: i32,
        /// 0 for the topic itself, 1 and 2 for its retry topics.
        #[serde(rename = "r", alias = "retry")]
        retry: String,
        /// Queue of the revive topic.
        #[serde(rename = "rq", alias = "reviveQueueId")]
        revive_queue_id: i32,
        /// Offset at which the pop began.
        #[serde(rename = "so", alias = "startOffset")]
        start_offset: i64,
        /// Topic.
        #[serde(rename = "t", alias = "topic")]
        topic: String,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_check_point_is_written_with_javas_names_and_read_again() {
        let point = PopCheckPoint {
            broker_name: Some("b".into()),
            consumer_group: Some("g".into()),
            diffs: Some(vec![0, 2]),
            invisible_time: 60_000,
            number: 2,
            pop_time: 1_700_000_000_000,
            queue_id: 3,
            start_offset: 7,
            topic: Some("T".into()),
            ..PopCheckPoint::default()
        };
        let text = point.encode();
        let expected = r#"{"bm":0,"bn":"b","c":"g","d":[0,2],"it":60000,"n":2,"pt":1700000000000,"q":3,"ro":0,"so":7,"t":"T"}"#;
        assert_eq!(text, expected.as_bytes());
        assert_eq!(PopCheckPoint::decode(&text), Ok(point.clone()));
        let java = r#"{"CId":"g","bm":0,"bn":"b","d":[0,2],"it":60000,"n":2,"pt":1700000000000,"q":3,"reviveTime":1700000060000,"ro":0,"so":7,"t":"T"}"#;
        assert_eq!(PopCheckPoint::decode(java.as_bytes()), Ok(point), "by a 5.3.3 broker");
    }

    #[test]
    fn long_names_of_javas_are_read_as_well() {
        let body = br#"{"brokerName":"b","acks":[{"consumerGroup":"g","topic":"T","retry":"1","startOffset":5,"queueId":2,"reviveQueueId":3,"popTime":9,"invisibleTime":8,"bitSet":"BQ=="}]}"#;
        let read = BatchAckMessageRequestBody::decode(body).expect("a body");
        let ack = &read.acks.expect("a list")[0];
        assert_eq!((ack.topic.as_str(), ack.retry.as_str(), ack.revive_queue_id), ("T", "1", 3));
        assert_eq!(ack.bit_set.as_deref(), Some("BQ=="));
        let ack = AckMsg::decode(br#"{"ackOffset":4,"topic":"T","c":"g"}"#).expect("a body");
        assert_eq!((ack.ack_offset, ack.topic.as_str(), ack.ack_offset_list), (4, "T", None));
    }
}
