//! Sending: codes 10, 310, 320, 324, 325, 326, 36, 370.

use super::{Field, Header, HeaderError, headers};
use crate::{ExtFields, code::request};

/// Which of the two spellings of the send header is meant.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Names {
    Long,
    Short,
}

/// Defines the send header once with both spellings of each field.
macro_rules! send_header {
    ($($(#[$meta:meta])* $field:ident: $type:ty $(= $default:expr)? => $long:literal $short:literal,)*) => {
        /// The header of every send (`SendMessageRequestHeader`, `SendMessageRequestHeaderV2`).
        ///
        /// Codes 10 and 324 spell the names out, 310, 320 and 325 use one letter each. The
        /// [`Header`] trait uses the long names.
        #[derive(Debug, Clone, Default, PartialEq, Eq)]
        pub struct SendMessageRequest {
            $(
                #[doc = concat!("Java's `", $long, "`, short `", $short, "`.")]
                $(#[$meta])*
                pub $field: $type,
            )*
        }

        impl SendMessageRequest {
            fn read(fields: &ExtFields, names: Names) -> Result<Self, HeaderError> {
                Ok(Self {
                    $($field: send_header!(@read fields, names.pick($long, $short), $type $(, $default)?),)*
                })
            }

            fn write(&self, fields: &mut ExtFields, names: Names) {
                $(Field::write(&self.$field, fields, names.pick($long, $short));)*
            }
        }
    };
    (@read $fields:ident, $name:expr, $type:ty) => {
        <$type as Field>::read($fields, $name)?
    };
    (@read $fields:ident, $name:expr, $type:ty, $default:expr) => {
        <Option<$type> as Field>::read($fields, $name)?.unwrap_or($default)
    };
}

send_header! {
    /// Empty when absent: Java accepts that.
    producer_group: String = String::new() => "producerGroup" "a",
    topic: String => "topic" "b",
    default_topic: String = String::new() => "defaultTopic" "c",
    default_topic_queue_nums: i32 = 4 => "defaultTopicQueueNums" "d",
    /// Negative: the broker picks one.
    queue_id: i32 => "queueId" "e",
    sys_flag: i32 = 0 => "sysFlag" "f",
    born_timestamp: i64 = 0 => "bornTimestamp" "g",
    flag: i32 = 0 => "flag" "h",
    properties: Option<String> => "properties" "i",
    reconsume_times: Option<i32> => "reconsumeTimes" "j",
    unit_mode: Option<bool> => "unitMode" "k",
    max_reconsume_times: Option<i32> => "maxReconsumeTimes" "l",
    /// Decides whether the body is a batch, whatever the code.
    batch: Option<bool> => "batch" "m",
    /// The broker that the client thinks it addresses.
    bname: Option<String> => "bname" "n",
}

impl Names {
    fn of(code: i32) -> Self {
        match code {
            request::SEND_MESSAGE_V2
            | request::SEND_BATCH_MESSAGE
            | request::SEND_REPLY_MESSAGE_V2 => Self::Short,
            _ => Self::Long,
        }
    }

    fn pick(self, long: &'static str, short: &'static str) -> &'static str {
        match self {
            Self::Long => long,
            Self::Short => short,
        }
    }
}

impl SendMessageRequest {
    /// Reads the header in the spelling that belongs to the request code.
    ///
    /// # Errors
    /// A required field is missing, or a value does not have the field's type.
    pub fn decode_for(code: i32, fields: &ExtFields) -> Result<Self, HeaderError> {
        Self::read(fields, Names::of(code))
    }

    /// Writes the header in the spelling that belongs to the request code.
    pub fn encode_for(&self, code: i32, fields: &mut ExtFields) {
        self.write(fields, Names::of(code));
    }

    /// Writes the header with one-letter names.
    pub fn encode_v2(&self, fields: &mut ExtFields) {
        self.write(fields, Names::Short);
    }
}

impl Header for SendMessageRequest {
    fn decode(fields: &ExtFields) -> Result<Self, HeaderError> {
        Self::read(fields, Names::Long)
    }

    fn encode(&self, fields: &mut ExtFields) {
        self.write(fields, Names::Long);
    }
}

headers! {
    /// Answer to a send.
    SendMessageResponse {
        msg_id: String => "msgId",
        queue_id: i32 => "queueId",
        queue_offset: i64 => "queueOffset",
        transaction_id: Option<String> => "transactionId",
        batch_uniq_id: Option<String> => "batchUniqId",
        recall_handle: Option<String> => "recallHandle",
    }

    /// 36: a consumer gives a message back.
    ConsumerSendMsgBackRequest {
        offset: i64 => "offset",
        group: String => "group",
        delay_level: i32 => "delayLevel",
        origin_msg_id: Option<String> => "originMsgId",
        origin_topic: Option<String> => "originTopic",
        unit_mode: bool = false => "unitMode",
        max_reconsume_times: Option<i32> => "maxReconsumeTimes",
    }

    /// 326: the broker brings a reply to the requester (`ReplyMessageRequestHeader`).
    ReplyMessageRequest {
        producer_group: String => "producerGroup",
        topic: String => "topic",
        default_topic: String => "defaultTopic",
        default_topic_queue_nums: i32 => "defaultTopicQueueNums",
        queue_id: i32 => "queueId",
        sys_flag: i32 => "sysFlag",
        born_timestamp: i64 => "bornTimestamp",
        flag: i32 => "flag",
        properties: Option<String> => "properties",
        reconsume_times: Option<i32> => "reconsumeTimes",
        unit_mode: bool = false => "unitMode",
        born_host: String => "bornHost",
        store_host: String => "storeHost",
        store_timestamp: i64 = 0 => "storeTimestamp",
    }

    /// 370: takes back a timer message.
    RecallMessageRequest {
        producer_group: Option<String> => "producerGroup",
        topic: String => "topic",
        recall_handle: String => "recallHandle",
    }

    /// Answer to 370.
    RecallMessageResponse {
        msg_id: String => "msgId",
    }
}
