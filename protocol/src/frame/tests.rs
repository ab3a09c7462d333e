use super::*;
use crate::{ExtFields, Language};

fn hex(text: &str) -> BytesMut {
    let digits: Vec<u8> = text.bytes().filter(u8::is_ascii_hexdigit).collect();
    digits
        .chunks(2)
        .map(|pair| u8::from_str_radix(std::str::from_utf8(pair).unwrap(), 16).unwrap())
        .collect()
}

fn route_request(encoding: HeaderEncoding) -> Command {
    let mut command = Command::request(code::request::GET_ROUTEINFO_BY_TOPIC);
    command.version = 479;
    command.encoding = encoding;
    command.ext_fields = Some([("topic", "TopicTest")].into_iter().collect());
    command
}

#[test]
fn json_route_request_has_javas_bytes() {
    let header = r#"{"code":105,"extFields":{"topic":"TopicTest"},"flag":0,"language":"JAVA","opaque":0,"serializeTypeCurrentRPC":"JSON","version":479}"#;
    let mut expected = hex("00000087 00000083");
    expected.extend_from_slice(header.as_bytes());
    let command = route_request(HeaderEncoding::Json);
    let mut out = BytesMut::new();
    encode(&command, &mut out);
    assert_eq!(out, expected);
    assert_eq!(decode(&mut out, DEFAULT_LIMIT).unwrap().unwrap(), command);
    assert!(out.is_empty());
}

#[test]
fn binary_route_request_has_javas_bytes() {
    let expected = hex(
        "0000002d 01000029 0069 00 01df 00000000 00000000 00000000 00000014 0005 746f706963 00000009 546f70696354657374",
    );
    let command = route_request(HeaderEncoding::RocketMq);
    let mut out = BytesMut::new();
    encode(&command, &mut out);
    assert_eq!(out, expected);
    assert_eq!(decode(&mut out, DEFAULT_LIMIT).unwrap().unwrap(), command);
}

#[test]
fn a_frame_comes_out_only_when_complete() {
    let command = route_request(HeaderEncoding::Json).with_body("body");
    let mut whole = BytesMut::new();
    encode(&command, &mut whole);
    let mut buffer = BytesMut::new();
    for &byte in &whole[..whole.len() - 1] {
        buffer.put_u8(byte);
        assert_eq!(decode(&mut buffer, DEFAULT_LIMIT), Ok(None));
    }
    buffer.put_u8(b'y');
    assert_eq!(decode(&mut buffer, DEFAULT_LIMIT), Ok(Some(command)));
}

#[test]
fn lengths_are_checked_before_the_frame_arrives() {
    let limit = 1024;
    assert_eq!(decode(&mut hex("ffffffff"), limit), Err(FrameError::Length(-1)));
    assert_eq!(decode(&mut hex("00000003"), limit), Err(FrameError::Length(3)));
    let large = Err(FrameError::TooLarge { length: 1025, limit });
    assert_eq!(decode(&mut hex("000003fd"), limit), large);
    assert_eq!(decode(&mut hex("000003fc"), limit), Ok(None));
    assert_eq!(decode(&mut hex("00000010 02000001"), limit), Err(FrameError::HeaderType(2)));
    let header = Err(FrameError::HeaderLength { header: 13, frame: 12 });
    assert_eq!(decode(&mut hex("00000010 0000000d"), limit), header);
}

fn json_frame(header: &str) -> BytesMut {
    let mut frame = BytesMut::new();
    frame.put_u32(4 + u32::try_from(header.len()).unwrap());
    frame.put_u32(u32::try_from(header.len()).unwrap());
    frame.put_slice(header.as_bytes());
    frame
}

#[test]
fn loosely_typed_json_headers_are_read() {
    let header = r#"{ "language" : "CPP", "code":"11", "opaque":-5, "version":63, "flag":0, "remark":null,
        "extFields":{"queueId":3,"suspend":true,"gone":null,"topic":"t","topic":"u","list":[1]}, "other":{"a":[]} }"#;
    let command = decode(&mut json_frame(header), 4096).unwrap().unwrap();
    assert_eq!((command.code, command.opaque, command.version), (11, -5, 63));
    assert_eq!(command.language, Language::Cpp);
    assert_eq!(command.remark, None);
    assert_eq!(command.field("queueId"), Some("3"));
    assert_eq!(command.field("suspend"), Some("true"));
    assert_eq!(command.field("gone"), None);
    assert_eq!(command.field("topic"), Some("u"));
    assert_eq!(command.field("list"), Some("[1]"));
}

#[test]
fn headers_that_only_fastjson_reads_are_read() {
    let header = "{code:11,'opaque':7,\"extFields\":{topic:'t','raw':\"a\nb\",},}";
    let command = decode(&mut json_frame(header), 4096).unwrap().unwrap();
    assert_eq!((command.code, command.opaque), (11, 7));
    assert_eq!(command.field("topic"), Some("t"));
    assert_eq!(command.field("raw"), Some("a\nb"));
    let mut frame = json_frame("{\"remark\":\"?\"}");
    let at = frame.iter().position(|&byte| byte == b'?').unwrap();
    frame[at] = 0xFF;
    let command = decode(&mut frame, 4096).unwrap().unwrap();
    assert_eq!(command.remark.as_deref(), Some("\u{fffd}"));
}

#[test]
fn broken_json_headers_are_refused() {
    for header in ["", "[]", "{", r#"{"code":99999999999}"#, r#"{"code":"x"}"#, "{} x"] {
        let error = decode(&mut json_frame(header), 4096).unwrap_err();
        assert!(matches!(error, FrameError::Json(_)), "{header}: {error}");
    }
}

#[test]
fn control_characters_are_escaped() {
    let mut command = Command::request(310).with_remark("a\"\\\n\u{1}\u{1f}\u{fc}");
    command.ext_fields = Some(ExtFields::new());
    let mut out = BytesMut::new();
    encode(&command, &mut out);
    let text = String::from_utf8(out[8..].to_vec()).unwrap();
    assert!(text.contains("\"remark\":\"a\\\"\\\\\\n\\u0001\\u001F\u{fc}\""), "{text}");
    assert!(text.contains("\"extFields\":{}"), "{text}");
    assert_eq!(decode(&mut out, DEFAULT_LIMIT), Ok(Some(command)));
}

#[test]
fn empty_values_of_the_binary_form_are_absent() {
    let mut command = route_request(HeaderEncoding::RocketMq).with_remark("");
    command.ext_fields = Some([("topic", ""), ("key", "k")].into_iter().collect());
    let mut out = BytesMut::new();
    encode(&command, &mut out);
    let back = decode(&mut out, DEFAULT_LIMIT).unwrap().unwrap();
    assert_eq!(back.remark, None);
    assert_eq!(back.ext_fields, Some([("key", "k")].into_iter().collect()));
}

#[test]
fn what_the_binary_form_cannot_carry_goes_as_json() {
    let mut command = Command::request(code::request::POP_MESSAGE);
    command.encoding = HeaderEncoding::RocketMq;
    let mut out = BytesMut::new();
    encode(&command, &mut out);
    let back = decode(&mut out, DEFAULT_LIMIT).unwrap().unwrap();
    assert_eq!((back.code, back.encoding), (200_050, HeaderEncoding::Json));
}

#[test]
fn a_header_beyond_24_bits_is_replaced() {
    let mut request = Command::request(14);
    request.opaque = 7;
    let response = request.response(0).with_field("x", "y".repeat(HEADER_LIMIT)).with_body("b");
    let mut out = BytesMut::new();
    encode(&response, &mut out);
    let back = decode(&mut out, DEFAULT_LIMIT).unwrap().unwrap();
    assert_eq!((back.code, back.opaque, back.is_response()), (1, 7, true));
    assert_eq!(back.body, "b");
}

fn with_fields(count: usize) -> String {
    let fields: Vec<String> = (0..count).map(|n| format!(r#""k{n}":"v""#)).collect();
    format!(r#"{{"code":10,"opaque":1,"extFields":{{{}}}}}"#, fields.join(","))
}

#[test]
fn s_14_fields_have_a_bound_in_both_forms() {
    let whole = decode(&mut json_frame(&with_fields(FIELD_LIMIT)), DEFAULT_LIMIT);
    let mut command = whole.unwrap().unwrap();
    assert_eq!(command.ext_fields.as_ref().unwrap().iter().count(), FIELD_LIMIT);
    let error = decode(&mut json_frame(&with_fields(FIELD_LIMIT + 1)), DEFAULT_LIMIT).unwrap_err();
    assert!(error.to_string().contains("more than 512 fields"), "{error}");

    command.encoding = HeaderEncoding::RocketMq;
    let mut out = BytesMut::new();
    encode(&command, &mut out);
    assert!(decode(&mut out, DEFAULT_LIMIT).is_ok());
    let mut out = BytesMut::new();
    encode(&command.with_field("one more", "x"), &mut out);
    assert_eq!(decode(&mut out, DEFAULT_LIMIT), Err(FrameError::TooManyFields));
}

#[test]
fn s_14_a_million_fields_cost_no_more_than_a_look_at_the_length() {
    let mut frame = json_frame(&with_fields(1_000_000));
    let begun = std::time::Instant::now();
    assert!(matches!(decode(&mut frame, DEFAULT_LIMIT), Err(FrameError::HeaderTooLarge(_))));
    assert!(begun.elapsed() < std::time::Duration::from_millis(500), "{:?}", begun.elapsed());
}

#[test]
fn s_14_deep_and_repeated_keys_are_refused_or_taken_without_recursion() {
    let deep = format!(r#"{{"code":10,"x":{}"#, "[".repeat(500_000));
    assert!(decode(&mut json_frame(&deep), DEFAULT_LIMIT).is_err());
    let deep = format!(r#"{{"extFields":{{"x":{}"#, r#"{"a":"#.repeat(100_000));
    assert!(decode(&mut json_frame(&deep), DEFAULT_LIMIT).is_err());
    let twice = r#"{"code":10,"code":11,"extFields":{"a":"1","a":"2"}}"#;
    let command = decode(&mut json_frame(twice), DEFAULT_LIMIT).unwrap().unwrap();
    assert_eq!((command.code, command.field("a")), (11, Some("2")));
}
