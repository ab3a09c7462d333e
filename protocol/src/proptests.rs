//! What holds for all values: whatever is written is read back, and no bytes make a decoder panic.

use std::net::{IpAddr, SocketAddr};

use bytes::{Bytes, BytesMut};
use proptest::{collection::vec, option, prelude::*};

use crate::{
    Command, ExtFields, HeaderEncoding, Language,
    body::{
        ConsumerRunningInfo, HeartbeatData, RegisterBrokerBody, TopicRouteData, TopicStatsTable,
    },
    code::request,
    frame,
    header::{Header, PullMessageRequest, SendMessageRequest},
    json::{self, Style, Value},
    message::{
        batch::{self, BatchMessage},
        id,
        properties::{self, Properties},
        record::{self, MessageRecord, RecordView},
        sys_flag,
    },
    name, properties_text,
};

/// Texts with all that has to be escaped, and others.
fn text() -> impl Strategy<Value = String> {
    prop_oneof!["[a-zA-Z0-9%_-]{0,12}", "[\\x00-\\x7f]{0,8}", "\\PC{0,6}"]
}

fn filled() -> impl Strategy<Value = String> {
    text().prop_map(|text| format!("x{text}"))
}

fn encoding() -> impl Strategy<Value = HeaderEncoding> {
    prop_oneof![Just(HeaderEncoding::Json), Just(HeaderEncoding::RocketMq)]
}

prop_compose! {
    /// Commands that both encodings can carry: the binary one has no empty texts.
    fn command()(
        (code, version, opaque, flag) in (any::<i16>(), any::<i16>(), any::<i32>(), any::<i32>()),
        language in 0u8..14,
        remark in option::of(filled()),
        fields in option::of(vec((filled(), filled()), 1..6)),
        encoding in encoding(),
        body in vec(any::<u8>(), 0..64),
    ) -> Command {
        Command {
            code: code.into(),
            language: Language::from_code(language),
            version: version.into(),
            opaque,
            flag,
            remark,
            ext_fields: fields.map(ExtFields::from_iter),
            encoding,
            body: body.into(),
        }
    }
}

fn host() -> impl Strategy<Value = SocketAddr> {
    (any::<IpAddr>(), any::<u16>()).prop_map(|(ip, port)| SocketAddr::new(ip, port))
}

prop_compose! {
    fn message_record()(
        (queue_id, flag, reconsume_times) in any::<(i32, i32, i32)>(),
        (queue_offset, physical_offset, prepared_transaction_offset) in any::<(i64, i64, i64)>(),
        (born_timestamp, store_timestamp) in any::<(i64, i64)>(),
        (born_host, store_host) in (host(), host()),
        body in vec(any::<u8>(), 0..100),
        topic in "[a-zA-Z]{0,200}",
        properties in text(),
    ) -> MessageRecord {
        let born = if born_host.is_ipv6() { sys_flag::BORN_HOST_V6 } else { 0 };
        let store = if store_host.is_ipv6() { sys_flag::STORE_HOST_V6 } else { 0 };
        MessageRecord {
            queue_id,
            flag,
            queue_offset,
            physical_offset,
            sys_flag: (flag & !0x30) | born | store,
            born_timestamp,
            born_host,
            store_timestamp,
            store_host,
            reconsume_times,
            prepared_transaction_offset,
            body: body.into(),
            topic,
            properties,
        }
    }
}

fn value() -> impl Strategy<Value = Value> {
    let leaf = prop_oneof![
        any::<bool>().prop_map(Value::Bool),
        any::<i64>().prop_map(Value::Int),
        text().prop_map(Value::Text),
        (-1e9..1e9f64).prop_map(|number| Value::Float(number + 0.5)),
    ];
    leaf.prop_recursive(4, 32, 4, |inner| {
        let key = prop_oneof![any::<i64>().prop_map(Value::Int), text().prop_map(Value::Text)];
        prop_oneof![
            vec(inner.clone(), 0..4).prop_map(Value::Array),
            vec((key, inner.clone()), 0..4).prop_map(Value::Object),
            vec((inner.clone(), inner), 0..2).prop_map(|entries| {
                let entries = entries.into_iter().map(|(key, value)| {
                    (Value::Object(vec![(Value::Text("k".into()), key)]), value)
                });
                Value::Object(entries.collect())
            }),
        ]
    })
}

proptest! {
    #[test]
    fn frames_survive_any_split(commands in vec(command(), 1..4), sizes in vec(1usize..40, 1..20)) {
        let mut stream = BytesMut::new();
        commands.iter().for_each(|command| frame::encode(command, &mut stream));
        let mut rest = stream.freeze();
        let mut buffer = BytesMut::new();
        let mut decoded = Vec::new();
        let mut sizes = sizes.into_iter().cycle();
        while !rest.is_empty() {
            let size = sizes.next().unwrap_or(1).min(rest.len());
            buffer.extend_from_slice(&rest.split_to(size));
            while let Some(command) = frame::decode(&mut buffer, frame::DEFAULT_LIMIT).unwrap() {
                decoded.push(command);
            }
        }
        prop_assert_eq!(decoded, commands);
    }

    #[test]
    fn json_frames_keep_codes_and_empty_texts(
        mut command in command(),
        code in any::<i32>(),
        fields in vec((text(), text()), 0..4),
    ) {
        command.encoding = HeaderEncoding::Json;
        (command.code, command.remark) = (code, Some(String::new()));
        command.ext_fields = Some(ExtFields::from_iter(fields));
        let mut out = BytesMut::new();
        frame::encode(&command, &mut out);
        prop_assert_eq!(frame::decode(&mut out, frame::DEFAULT_LIMIT), Ok(Some(command)));
    }

    #[test]
    fn headers_round_trip_over_both_encodings(
        encoding in encoding(),
        texts in (filled(), filled(), option::of(filled())),
        numbers in any::<(i32, i64, i32, i64, i64)>(),
        batch in option::of(any::<bool>()),
        code in prop_oneof![Just(request::SEND_MESSAGE), Just(request::SEND_MESSAGE_V2)],
    ) {
        let over_the_wire = |mut command: Command| {
            command.encoding = encoding;
            let mut out = BytesMut::new();
            frame::encode(&command, &mut out);
            frame::decode(&mut out, frame::DEFAULT_LIMIT).unwrap().unwrap()
        };
        let pull = PullMessageRequest {
            consumer_group: texts.0.clone(),
            topic: texts.1.clone(),
            queue_id: numbers.0,
            queue_offset: numbers.1,
            max_msg_nums: numbers.2,
            commit_offset: numbers.3,
            sub_version: numbers.4,
            subscription: texts.2.clone(),
            ..PullMessageRequest::default()
        };
        let command = over_the_wire(Command::request_with(request::PULL_MESSAGE, &pull));
        prop_assert_eq!(command.header(), Ok(pull));
        let send = SendMessageRequest {
            producer_group: texts.0,
            topic: texts.1,
            default_topic: "TBW102".to_owned(),
            queue_id: numbers.0,
            born_timestamp: numbers.1,
            properties: texts.2,
            batch,
            ..SendMessageRequest::default()
        };
        let mut command = Command::request(code);
        send.encode_for(code, command.ext_fields.get_or_insert_default());
        let fields = over_the_wire(command).ext_fields.unwrap();
        prop_assert_eq!(SendMessageRequest::decode_for(code, &fields), Ok(send));
    }

    #[test]
    fn records_round_trip_and_follow_each_other(records in vec(message_record(), 1..4)) {
        let mut out = BytesMut::from(&b"head"[..]);
        for record in &records {
            record::encode(record, &mut out).unwrap();
        }
        let read: Vec<_> =
            record::records(&out[4..]).map(|view| view.unwrap().to_record()).collect();
        prop_assert_eq!(read, records);
    }

    #[test]
    fn a_stamped_record_is_the_record_with_these_fields(
        mut record in message_record(),
        fields in any::<(i64, i64, i64)>(),
    ) {
        let mut stamped = BytesMut::new();
        record::encode(&record, &mut stamped).unwrap();
        record::stamp(&mut stamped, fields.0, fields.1, fields.2);
        (record.queue_offset, record.physical_offset, record.store_timestamp) = fields;
        let mut encoded = BytesMut::new();
        record::encode(&record, &mut encoded).unwrap();
        prop_assert_eq!(stamped, encoded);
    }

    #[test]
    fn batches_round_trip(
        messages in vec((any::<i32>(), vec(any::<u8>(), 0..50), text()), 0..5),
    ) {
        let messages: Vec<_> = messages
            .into_iter()
            .map(|(flag, body, properties)| BatchMessage { flag, body: body.into(), properties })
            .collect();
        let mut out = BytesMut::new();
        batch::encode(&messages, &mut out).unwrap();
        prop_assert_eq!(batch::decode(&out.freeze()), Ok(messages));
    }

    #[test]
    fn a_property_is_found_as_it_is_read(text in "[ab\x01\x02]{0,12}", name in "[ab]{0,2}") {
        let pairs = text.split('\u{2}').filter_map(|pair| pair.split_once('\u{1}'));
        let pairs: Vec<_> = pairs.filter(|(name, value)| !name.is_empty() && !value.is_empty()).collect();
        prop_assert_eq!(properties::pairs(&text).collect::<Vec<_>>(), pairs.clone());
        let last = pairs.iter().rfind(|pair| pair.0 == name).map(|pair| pair.1);
        prop_assert_eq!(properties::find(&text, &name), last);
        let read = properties::decode(&text);
        prop_assert_eq!(read.get(&name), last);
    }

    #[test]
    fn properties_round_trip(pairs in vec(("[^\\x01\\x02]{1,8}", "[^\\x01\\x02]{1,8}"), 0..6)) {
        let properties: Properties = pairs.into_iter().collect();
        let text = properties::encode(&properties);
        prop_assert_eq!(text.len(), properties.encoded_len());
        for (name, _) in properties.iter() {
            prop_assert_eq!(properties::find(&text, name), properties.get(name));
        }
        prop_assert_eq!(properties::decode(&text), properties);
    }

    #[test]
    fn properties_texts_round_trip(pairs in vec((text(), text()), 0..6)) {
        let written = properties_text::write(pairs.iter().map(|(name, value)| (name, value)));
        prop_assert_eq!(properties_text::parse(&written), Ok(pairs));
    }

    #[test]
    fn json_values_round_trip(value in value()) {
        let written = json::to_vec(&value, Style::Bare);
        prop_assert_eq!(json::parse(&written), Ok(value));
    }

    #[test]
    fn standard_json_is_json(value in value()) {
        // Objects as keys have no standard form; the name server never writes them.
        prop_assume!(!format!("{value:?}").contains("(Object"));
        let written = json::to_vec(&value, Style::Standard);
        prop_assert!(written.is_ascii());
        let strict: Result<serde_json::Value, _> = serde_json::from_slice(&written);
        prop_assert!(strict.is_ok(), "{}", String::from_utf8_lossy(&written));
    }

    #[test]
    fn message_ids_round_trip(host in host(), offset in any::<i64>()) {
        let text = id::offset_message_id(host, offset);
        prop_assert_eq!(id::parse_offset_message_id(&text), Ok((host, offset)));
    }

    #[test]
    fn any_bytes_are_survived(bytes in vec(any::<u8>(), 0..300)) {
        survive(&bytes);
    }

    #[test]
    fn damaged_frames_are_survived(command in command(), damage in vec((any::<u16>(), any::<u8>()), 1..6)) {
        let mut out = BytesMut::new();
        frame::encode(&command, &mut out);
        survive(&damaged(&out, &damage));
    }

    #[test]
    fn damaged_records_are_survived(
        record in message_record(),
        damage in vec((any::<u16>(), any::<u8>()), 1..6),
    ) {
        let mut out = BytesMut::new();
        record::encode(&record, &mut out).unwrap();
        let bytes = damaged(&out, &damage);
        if let Ok(view) = RecordView::parse(&bytes) {
            prop_assert!(view.total_size() <= bytes.len());
            answered(view.to_record());
        }
        survive(&bytes);
    }

    #[test]
    fn damaged_json_is_survived(text in "[\\[\\]{}:,\"'\\\\a-f0-9.$-]{0,60}") {
        survive(text.as_bytes());
    }

    /// Requirement S-3: what passes for a name can be that of a folder, and of no other folder.
    #[test]
    fn s_03_what_passes_for_a_name_is_one(
        name in "([%|a-zA-Z0-9_-]{0,300}|[%|a-z./\\\\\\x00-\\x20_-]{1,8}|\\PC{0,8})",
    ) {
        let bounds = [
            (name::validate_topic(&name), 255),
            (name::validate_group(&name), name::MAX_GROUP),
        ];
        for (checked, bound) in bounds {
            if checked.is_ok() {
                prop_assert!(!name.trim().is_empty() && name.len() <= bound);
                prop_assert!(name.bytes().all(|byte| byte.is_ascii_graphic()));
                prop_assert!(!name.contains(['/', '\\', '.']));
            }
        }
        if !name.is_empty() && name.bytes().all(|byte| byte.is_ascii_alphanumeric()) {
            let fits = name.len() <= name::MAX_GROUP;
            prop_assert_eq!(fits, name::validate_group(&name).is_ok());
        }
    }

    #[test]
    fn any_text_is_survived(text in "\\PC{0,40}") {
        answered(id::parse_offset_message_id(&text));
        answered(properties_text::parse(&text));
        answered(name::validate_topic(&text));
        answered(properties::without_crc(&text));
        answered(properties::decode(&text));
        let fields: ExtFields = [("queueId", text)].into_iter().collect();
        prop_assert!(PullMessageRequest::decode(&fields).is_err());
    }
}

fn damaged(bytes: &[u8], damage: &[(u16, u8)]) -> Vec<u8> {
    let mut bytes = bytes.to_vec();
    for (at, byte) in damage {
        let at = usize::from(*at) % bytes.len();
        bytes[at] = *byte;
    }
    bytes
}

/// What a decoder answers to nonsense is its own affair.
fn answered<T>(_answer: T) {}

/// Gives the bytes to every decoder: what they answer does not matter, that they answer does.
fn survive(bytes: &[u8]) {
    answered(frame::decode(&mut BytesMut::from(bytes), 1 << 20));
    answered(record::records(bytes).count());
    answered(batch::decode(&Bytes::copy_from_slice(bytes)));
    answered(json::parse(bytes));
    answered(HeartbeatData::decode(bytes));
    answered(TopicRouteData::decode(bytes));
    answered(TopicStatsTable::decode(bytes));
    answered(ConsumerRunningInfo::decode(bytes));
    for compressed in [false, true] {
        answered(RegisterBrokerBody::decode_for(bytes, compressed, 513, 1 << 16));
    }
    let text = String::from_utf8_lossy(bytes);
    answered(properties_text::parse(&text));
    let mut stamped = bytes.to_vec();
    if stamped.len() >= 40 {
        record::stamp(&mut stamped, 1, 2, 3);
    }
}
