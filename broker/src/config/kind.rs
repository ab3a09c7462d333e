//! What the tables say about the name of a key.

use super::{KEYS, KNOWN, Key, Known, REFUSALS, Refusal, nearest};

/// What a key is to this broker.
#[derive(Debug, Clone, Copy)]
pub enum KeyKind {
    /// It has an effect.
    Effective(&'static Key),
    /// Java knows it; it has no effect here.
    Idle(&'static Known),
    /// Some of its values stop the start; the others have no effect.
    Refused(&'static Refusal),
    /// No table has it.
    Unknown {
        /// The known key that is spelt most like it, where one is near.
        nearest: Option<&'static str>,
    },
}

/// Finds a key by its exact name: Java's names are case sensitive.
#[must_use]
pub fn kind_of(name: &str) -> KeyKind {
    if let Some(refusal) = REFUSALS.iter().find(|refusal| refusal.name == name) {
        return KeyKind::Refused(refusal);
    }
    if let Some(key) = KEYS.iter().find(|key| key.name == name) {
        return KeyKind::Effective(key);
    }
    match KNOWN.iter().find(|known| known.name == name) {
        Some(known) => KeyKind::Idle(known),
        None => KeyKind::Unknown { nearest: nearest::known_key(name) },
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_table_gives_its_kind() {
        assert!(matches!(kind_of("brokerIP1"), KeyKind::Effective(_)));
        assert!(matches!(kind_of("warmMapedFileEnable"), KeyKind::Idle(_)));
        assert!(matches!(kind_of("haMasterAddress"), KeyKind::Refused(_)));
        assert!(matches!(kind_of("brokerIp1"), KeyKind::Unknown { nearest: Some("brokerIP1") }));
        assert!(matches!(kind_of("foo"), KeyKind::Unknown { nearest: None }));
    }
}
