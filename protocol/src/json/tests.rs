use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use super::*;

fn read(text: &str) -> Value {
    parse(text.as_bytes()).unwrap_or_else(|error| panic!("{text}: {error}"))
}

#[derive(Debug, PartialEq, Serialize, Deserialize, Default)]
#[serde(default)]
struct Sample {
    id: i32,
    name: Option<String>,
    on: bool,
    table: BTreeMap<i64, String>,
    tags: Vec<String>,
    tps: f64,
}

#[derive(Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
struct Queue {
    broker: String,
    id: i32,
}

#[test]
fn javas_dialect_is_read() {
    let value = read("{0:\"a\", {\"broker\":\"b\",\"id\":1}:{ x : 'y' },\"l\":[1,,2,],}");
    let entries = value.entries().unwrap();
    assert_eq!(entries[0], (Value::Int(0), Value::Text("a".into())));
    assert_eq!(entries[1].0.get("id"), Some(&Value::Int(1)));
    assert_eq!(entries[1].1.get("x"), Some(&Value::Text("y".into())));
    assert_eq!(value.get("l"), Some(&Value::Array(vec![Value::Int(1), Value::Int(2)])));
    let bare = "\u{feff}{%RETRY%g:1L,\n\t-5:2.5,t:true,n:null}";
    assert_eq!(read(bare).entries().unwrap().len(), 4);
}

#[test]
fn texts_are_unescaped() {
    let text = r#"["a\u0001b\n\t\"\/\'\\","\uD83D\uDE00","\uD83Dx","\x41\v\0","raw
line"]"#;
    let expected = ["a\u{1}b\n\t\"/'\\", "\u{1F600}", "\u{fffd}x", "A\u{b}\0", "raw\nline"];
    let value = read(text);
    let texts: Vec<_> = value.elements().unwrap().iter().map(|v| v.to_text().unwrap()).collect();
    assert_eq!(texts, expected);
}

#[test]
fn what_fastjson_refuses_is_refused_with_the_place() {
    for text in ["", "{", "[1", "{\"a\" 1}", "{\"a\":1 \"b\":2}", "\"x", "\"\\u12\"", "nul", "1 2"]
    {
        assert!(matches!(parse(text.as_bytes()), Err(JsonError::Syntax { .. })), "{text}");
    }
    let error = parse(b"not json").unwrap_err();
    assert_eq!(error.to_string(), "at byte 0: expected a value");
    assert_eq!(parse("[".repeat(1000).as_bytes()), Err(JsonError::Depth(16)));
}

/// Sixteen levels, of whatever kinds, with values in the innermost.
#[test]
fn s_14_sixteen_levels_are_read_and_the_seventeenth_is_refused() {
    let array = |levels: usize| format!("{}1{}", "[".repeat(levels), "]".repeat(levels));
    let object = |levels: usize| format!("{}1{}", "{\"a\":".repeat(levels), "}".repeat(levels));
    let key = |levels: usize| format!("{}1{}", "{".repeat(levels), ":2}".repeat(levels));
    for text in [&array as &dyn Fn(usize) -> String, &object, &key] {
        assert!(parse(text(16).as_bytes()).is_ok(), "{}", text(16));
        assert_eq!(parse(text(17).as_bytes()), Err(JsonError::Depth(16)), "{}", text(17));
    }
    assert_eq!(
        parse(format!("{}{}", "[".repeat(17), "]".repeat(17)).as_bytes()),
        Err(JsonError::Depth(16))
    );
}

#[test]
fn loosely_typed_fields_are_coerced() {
    let text = r#"{"id":"7","name":12,"on":"TRUE","table":{"1":"a",2:3},"tags":["x",1,null],"tps":"1.5","more":{}}"#;
    let sample: Sample = from_slice(text.as_bytes()).unwrap();
    let expected = Sample {
        id: 7,
        name: Some("12".into()),
        on: true,
        table: BTreeMap::from([(1, "a".into()), (2, "3".into())]),
        tags: vec!["x".into(), "1".into()],
        tps: 1.5,
    };
    assert_eq!(sample, expected);
    let text = br#"{"id":null,"name":null,"on":null,"table":null,"tags":null,"tps":null}"#;
    assert_eq!(from_slice::<Sample>(text), Ok(Sample::default()));
}

#[test]
fn what_cannot_be_coerced_is_said() {
    let error = from_slice::<Sample>(br#"{"id":"x"}"#).unwrap_err();
    assert_eq!(error.to_string(), "\"x\" is not a whole number");
    assert!(from_slice::<Sample>(br#"{"id":99999999999}"#).is_err());
    assert!(from_slice::<Sample>(br#"{"tags":{}}"#).is_err());
}

#[test]
fn written_as_java_does() {
    let sample = Sample { table: BTreeMap::from([(0, "\u{fc}".into())]), ..Sample::default() };
    let bare = to_vec(&sample, Style::Bare);
    let expected = "{\"id\":0,\"on\":false,\"table\":{0:\"\u{fc}\"},\"tags\":[],\"tps\":0.0}";
    assert_eq!(String::from_utf8(bare).unwrap(), expected);
    let standard = to_vec(&sample, Style::Standard);
    let expected = r#"{"id":0,"on":false,"table":{"0":"\u00FC"},"tags":[],"tps":0.0}"#;
    assert_eq!(String::from_utf8(standard).unwrap(), expected);
}

#[test]
fn objects_are_keys() {
    let map = BTreeMap::from([(Queue { broker: "b".into(), id: 0 }, Some(5)), {
        (Queue { broker: "c".into(), id: 1 }, None)
    }]);
    let text = to_vec(&map, Style::Bare);
    assert_eq!(String::from_utf8_lossy(&text), r#"{{"broker":"b","id":0}:5}"#);
    let map: BTreeMap<Queue, i64> = from_slice(&text).unwrap();
    let strict = br#"{"{\"broker\":\"b\",\"id\":0}":5}"#;
    assert_eq!(from_slice::<BTreeMap<Queue, i64>>(strict), Ok(map));
}

#[test]
fn references_are_followed() {
    let text = br#"{"a":{"k":{"x":"1"}},"l":[{"y":"2"}],"b":{"$ref":"$.a.k"},"c":{"$ref":"$.l[0]"},"d":{"$ref":"$.gone"},"e":{"$ref":".."}}"#;
    let maps: BTreeMap<String, Value> = from_slice(text).unwrap();
    assert_eq!(maps["b"].get("x"), Some(&Value::Text("1".into())));
    assert_eq!(maps["c"].get("y"), Some(&Value::Text("2".into())));
    assert!(!maps.contains_key("d") && !maps.contains_key("e"));
}

#[test]
fn references_cannot_fill_the_memory() {
    let large = format!("[{}0]", "0,".repeat(2_000));
    let many = r#"{"$ref":"$[0]"},"#.repeat(1_000);
    let value: Vec<Value> = from_slice(format!("[{large},{many}1]").as_bytes()).unwrap();
    assert_eq!(value.len(), 2);
    let nested = br#"[{"$ref":"$"},{"$ref":"$[0]"}]"#;
    let value: Vec<Value> = from_slice(nested).unwrap();
    assert_eq!(value, [Value::Array(vec![])]);
}

/// A body of a few MiB must not become values of hundreds.
#[test]
fn a_text_of_too_many_values_is_refused() {
    let array = |values: usize| format!("[{}]", "0,".repeat(values));
    assert!(parse(array(100_000).as_bytes()).is_ok());
    let error = parse(array(4_000_000).as_bytes()).unwrap_err();
    assert!(error.to_string().contains("4000000"), "{error}");
}
