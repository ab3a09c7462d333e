//! F4: properties of a message, and the text of Java's properties files.

use std::collections::BTreeMap;

use protocol::{
    message::{
        id,
        properties::{self, NAME_VALUE_SEPARATOR, PROPERTY_SEPARATOR},
    },
    name, properties_text,
};

/// The bytes are the properties of a message, a properties file, an id and a name.
pub(crate) fn run(data: &[u8]) {
    let text = String::from_utf8_lossy(data);
    let read = properties::decode(&text);
    let written = properties::encode(&read);
    assert_eq!(written.len(), read.encoded_len());
    assert_eq!(properties::encode(&properties::decode(&written)), written);
    for (name, _) in read.iter() {
        assert_eq!(properties::find(&text, name), read.get(name), "{name:?}");
    }
    let found: BTreeMap<&str, &str> = properties::pairs(&text).collect();
    for (name, value) in &found {
        assert_eq!(read.get(name), Some(*value), "the last value of a name counts");
        let separators = [NAME_VALUE_SEPARATOR, PROPERTY_SEPARATOR];
        assert!(!value.contains(PROPERTY_SEPARATOR) && !name.contains(separators));
    }
    let without = properties::without_crc(&text);
    assert!(text.starts_with(without));
    file(&text);
    if let Ok((host, offset)) = id::parse_offset_message_id(&text) {
        let again = id::offset_message_id(host, offset);
        assert_eq!(id::parse_offset_message_id(&again), Ok((host, offset)));
    }
    if name::validate_topic(&text).is_ok() {
        assert!(!text.contains(['/', '\0']) && text != ".." && text != ".", "{text:?} is a topic");
    }
}

/// What is read of a properties file is written so that it is read back.
fn file(text: &str) {
    let Ok(pairs) = properties_text::parse(text) else { return };
    let written = properties_text::write(pairs.iter().map(|(name, value)| (name, value)));
    assert_eq!(properties_text::parse(&written).unwrap(), pairs);
    let entries = properties_text::parse_entries(text).unwrap();
    assert_eq!(entries.len(), pairs.len());
    assert!(entries.windows(2).all(|pair| pair[0].line < pair[1].line));
}
