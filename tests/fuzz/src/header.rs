//! F2: a header that was read is written so that it is read back, in both encodings, and typed
//! headers read what they wrote.

use bytes::{BufMut, BytesMut};
use protocol::{
    Command, ExtFields, HeaderEncoding,
    code::request,
    frame,
    header::{
        ConsumerSendMsgBackRequest, EndTransactionRequest, GetMaxOffsetRequest, Header,
        PopMessageRequest, PullMessageRequest, PullMessageResponse, QueryMessageRequest,
        RegisterBrokerRequest, SearchOffsetRequest, SendMessageRequest, SendMessageResponse,
        UpdateConsumerOffsetRequest,
    },
};

/// The first byte is the encoding, the others are the header.
pub(crate) fn run(data: &[u8]) {
    let Some((kind, header)) = data.split_first() else { return };
    let Some(command) = read(kind & 1, header) else { return };
    for encoding in [HeaderEncoding::Json, HeaderEncoding::RocketMq] {
        let mut written = command.clone();
        written.encoding = encoding;
        let mut bytes = BytesMut::new();
        frame::encode_head(&written, &mut bytes);
        let again = frame::decode(&mut bytes, frame::DEFAULT_LIMIT).unwrap().unwrap();
        let (left, right) = (comparable(&command), comparable(&again));
        assert_eq!(left, right, "{encoding:?} is read back otherwise");
    }
    let Some(fields) = &command.ext_fields else { return };
    send(fields);
    typed::<SendMessageResponse>(fields);
    typed::<PullMessageRequest>(fields);
    typed::<PullMessageResponse>(fields);
    typed::<PopMessageRequest>(fields);
    typed::<QueryMessageRequest>(fields);
    typed::<RegisterBrokerRequest>(fields);
    typed::<SearchOffsetRequest>(fields);
    typed::<GetMaxOffsetRequest>(fields);
    typed::<UpdateConsumerOffsetRequest>(fields);
    typed::<ConsumerSendMsgBackRequest>(fields);
    typed::<EndTransactionRequest>(fields);
}

fn read(kind: u8, header: &[u8]) -> Option<Command> {
    let length = u32::try_from(header.len()).ok()?;
    let mut bytes = BytesMut::new();
    bytes.put_u32(length + 4);
    bytes.put_u8(kind);
    bytes.put_slice(&length.to_be_bytes()[1..]);
    bytes.put_slice(header);
    frame::decode(&mut bytes, frame::DEFAULT_LIMIT).ok()?
}

/// What both encodings can carry: the binary one has no empty texts, and names of languages that
/// nobody knows become one.
fn comparable(command: &Command) -> Comparable {
    let fields = command.ext_fields.iter().flat_map(ExtFields::iter);
    let mut fields: Vec<_> = fields
        .filter(|(name, value)| !name.is_empty() && !value.is_empty())
        .map(|(name, value)| (name.to_owned(), value.to_owned()))
        .collect();
    // Of a repeated name the last value counts.
    fields.reverse();
    fields.sort_by(|left, right| left.0.cmp(&right.0));
    fields.dedup_by(|next, kept| next.0 == kept.0);
    let remark = command.remark.clone().filter(|remark| !remark.is_empty());
    let numbers = [command.code, command.version, command.opaque, command.flag];
    Comparable { numbers, remark, fields }
}

#[derive(Debug, PartialEq)]
struct Comparable {
    numbers: [i32; 4],
    remark: Option<String>,
    fields: Vec<(String, String)>,
}

fn send(fields: &ExtFields) {
    for code in [request::SEND_MESSAGE, request::SEND_MESSAGE_V2] {
        let Ok(header) = SendMessageRequest::decode_for(code, fields) else { continue };
        let mut written = ExtFields::new();
        header.encode_for(code, &mut written);
        assert_eq!(SendMessageRequest::decode_for(code, &written), Ok(header));
    }
}

fn typed<H: Header + PartialEq + std::fmt::Debug>(fields: &ExtFields) {
    let Ok(header) = H::decode(fields) else { return };
    let mut written = ExtFields::new();
    header.encode(&mut written);
    assert_eq!(H::decode(&written), Ok(header));
}
