//! A timer message on its way into the timer topic and out of it
//! (`HookUtils.transformTimerMessage`, `TimerMessageStore.convert`).

use std::net::SocketAddr;

use protocol::{
    code::response,
    message::{
        properties::{self, MAX_LENGTH, Properties, key},
        record::{self, MessageRecord, RecordError},
    },
    name,
};
use store::timer::PRECISION_MILLIS;

use crate::{
    call::Rejection, config::BrokerConfig, drafts, pop::names::is_revive_topic, topics, waiting,
};

/// Bytes of properties that a timer adds at most; where there is no room for them it leaves them out.
const ADDED: usize = 80;

/// The properties by which a producer asks for a time, in the order in which they are looked at.
const REQUESTS: [&str; 3] = [key::TIMER_DELAY_SEC, key::TIMER_DELAY_MS, key::TIMER_DELIVER_MS];

/// Puts a message that asks for a time to come into the timer topic. One that was delivered by a
/// timer before asks for none; callers see to it that one with a delay level does not come here, as
/// DELAY wins.
///
/// # Errors
/// The time is no number or too far ahead, or timers are switched off.
pub(crate) fn hold_back(
    record: &mut MessageRecord,
    properties: &mut Properties,
    config: &BrokerConfig,
    now: i64,
) -> Result<(), Rejection> {
    if !asks_for_a_time(properties) {
        return Ok(());
    }
    let Some(asked) = REQUESTS.into_iter().find(|name| properties.contains(name)) else {
        return Ok(());
    };
    if !config.timer_wheel_enable {
        let remark = "accurate timer message is not enabled, timerWheelEnable is false";
        return Err(Rejection::new(response::SYSTEM_ERROR, remark));
    }
    let most = i64::from(config.timer_max_delay_sec).saturating_mul(1_000);
    let text = properties.get(asked).unwrap_or_default();
    let number: i64 = text.parse().map_err(|_no_number| illegal(most))?;
    let deliver = match asked {
        key::TIMER_DELAY_SEC => now.saturating_add(number.saturating_mul(1_000)),
        key::TIMER_DELAY_MS => now.saturating_add(number),
        _ => number,
    };
    if deliver <= now {
        let takes_back = properties.contains(key::TIMER_DEL_UNIQKEY);
        return if takes_back { Err(illegal(most)) } else { Ok(()) };
    }
    if deliver - now > most {
        return Err(illegal(most));
    }
    properties.insert(key::TIMER_OUT_MS, out(deliver).to_string());
    properties.insert(key::REAL_TOPIC, std::mem::take(&mut record.topic));
    properties.insert(key::REAL_QID, record.queue_id.to_string());
    name::TIMER_TOPIC.clone_into(&mut record.topic);
    record.queue_id = 0;
    Ok(())
}

/// Whether a message asks for a time: one that was delivered by a timer before does not.
pub(crate) fn asks_for_a_time(properties: &Properties) -> bool {
    let asks = REQUESTS.into_iter().any(|name| properties.contains(name));
    asks && !properties.contains(key::TIMER_OUT_MS)
}

/// Forgets the times that a message asks for: a delay level wins, and what goes back into a topic
/// must not be held again.
pub(crate) fn forget_requests(properties: &mut Properties) {
    for name in REQUESTS {
        properties.remove(name);
    }
}

/// TIMER_OUT_MS: the time in whole seconds, and a whole second before where it is one.
fn out(deliver: i64) -> i64 {
    (deliver - 1).div_euclid(PRECISION_MILLIS) * PRECISION_MILLIS
}

/// Java's text.
fn illegal(most: i64) -> Rejection {
    let remark = format!(
        "timer message illegal, the delay time should not be bigger than the max delay {most}ms; or if set del msg, the delay time should be bigger than the current time"
    );
    Rejection::new(response::MESSAGE_ILLEGAL, remark)
}

/// Why a message of the timer topic cannot be delivered.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
pub(super) enum HeldError {
    /// It is no message.
    #[error("{0}")]
    Record(#[from] RecordError),
    /// It does not say where it belongs.
    #[error("property {0} is missing or wrong")]
    Property(&'static str),
    /// It belongs where no client may send to.
    #[error("it would go into topic {0}, which is the broker's own")]
    Topic(String),
}

/// A message of the timer topic.
#[derive(Debug)]
pub(super) struct Held {
    record: MessageRecord,
    properties: Properties,
}

impl Held {
    pub(super) fn read(bytes: &[u8]) -> Result<Self, HeldError> {
        let record = record::decode(bytes)?;
        let properties = properties::decode(properties::without_crc(&record.properties));
        Ok(Self { record, properties })
    }

    /// When it is due, in milliseconds since 1970.
    pub(super) fn due(&self) -> Option<u64> {
        let due = store::timer::due(&self.record.properties)?;
        store::timer::due_of_unit(due)
    }

    /// When it was stored, in milliseconds since 1970.
    pub(super) fn stored(&self) -> i64 {
        self.record.store_timestamp
    }

    /// The message that it takes back.
    pub(super) fn takes_back(&self) -> Option<&str> {
        self.properties.get(key::TIMER_DEL_UNIQKEY)
    }

    /// The topic that it belongs to, and its unique key.
    pub(super) fn names(&self) -> (&str, &str) {
        let of = |name| self.properties.get(name).unwrap_or_default();
        (of(key::REAL_TOPIC), of(key::UNIQ_KEY))
    }

    /// The record for the topic and queue that it was sent to.
    pub(super) fn restored(
        self,
        store_host: SocketAddr,
        now: i64,
    ) -> Result<MessageRecord, HeldError> {
        let Self { record, mut properties } = self;
        let (topic, queue_id) =
            waiting::take_real_place(&mut properties).map_err(HeldError::Property)?;
        // A Java broker lets check points of pops come by timers.
        if topics::refuses_sends(&topic) && !is_revive_topic(&topic) {
            return Err(HeldError::Topic(topic));
        }
        if properties.encoded_len() + ADDED <= MAX_LENGTH {
            properties.insert(key::TIMER_ENQUEUE_MS, record.store_timestamp.to_string());
            properties.insert(key::TIMER_DEQUEUE_MS, now.to_string());
        }
        let text = drafts::text(&topic, &properties);
        Ok(MessageRecord { topic, queue_id, ..waiting::renewed(record, text, store_host) })
    }

    /// The record for the timer topic again, so that it outlives the file that it lies in.
    pub(super) fn rolled(self, store_host: SocketAddr) -> MessageRecord {
        let Self { record, mut properties } = self;
        let times = properties.get(key::TIMER_ROLL_TIMES).and_then(|text| text.parse().ok());
        let times = times.unwrap_or(0_u32).saturating_add(1);
        if properties.encoded_len() + ADDED <= MAX_LENGTH {
            properties.insert(key::TIMER_ROLL_TIMES, times.to_string());
        }
        waiting::renewed(record, properties::encode(&properties), store_host)
    }
}
