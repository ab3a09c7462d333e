//! Bits of `sysFlag` in messages, pulls, topics and groups (`MessageSysFlag.java`,
//! `CompressionType.java`, `PullSysFlag.java`, `TopicSysFlag.java`).

/// The body is compressed.
pub const COMPRESSED: i32 = 0x1;
/// The topic filters by several tags.
pub const MULTI_TAGS: i32 = 0x2;
/// Mask of the transaction bits.
pub const TRANSACTION_TYPE: i32 = 0xC;
/// No transaction.
pub const TRANSACTION_NOT: i32 = 0x0;
/// A half message.
pub const TRANSACTION_PREPARED: i32 = 0x4;
/// A committed message.
pub const TRANSACTION_COMMIT: i32 = 0x8;
/// A rolled back message.
pub const TRANSACTION_ROLLBACK: i32 = 0xC;
/// The born host is an IPv6 address.
pub const BORN_HOST_V6: i32 = 0x10;
/// The store host is an IPv6 address.
pub const STORE_HOST_V6: i32 = 0x20;
/// The consumer has to unwrap an inner batch.
pub const NEED_UNWRAP: i32 = 0x40;
/// The record carries many messages.
pub const INNER_BATCH: i32 = 0x80;
/// Mask of the compression bits.
pub const COMPRESSION: i32 = 0x700;

/// How a body is compressed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Compression {
    /// A zlib stream; also what messages without compression bits have.
    Zlib,
    /// An LZ4 frame.
    Lz4,
    /// A zstd frame.
    Zstd,
}

/// How the body of a message with this flag is compressed; `None` if it is not, or in a way that
/// Java does not know.
pub fn compression(sys_flag: i32) -> Option<Compression> {
    if sys_flag & COMPRESSED == 0 {
        return None;
    }
    match sys_flag & COMPRESSION {
        0x000 | 0x300 => Some(Compression::Zlib),
        0x100 => Some(Compression::Lz4),
        0x200 => Some(Compression::Zstd),
        _ => None,
    }
}

/// The transaction bits, one of the `TRANSACTION_` values.
pub fn transaction_type(sys_flag: i32) -> i32 {
    sys_flag & TRANSACTION_TYPE
}

/// The flag with other transaction bits.
pub fn with_transaction_type(sys_flag: i32, kind: i32) -> i32 {
    (sys_flag & !TRANSACTION_TYPE) | (kind & TRANSACTION_TYPE)
}

/// Bits of a pull request's `sysFlag`.
pub mod pull {
    /// `commitOffset` is to be committed.
    pub const COMMIT_OFFSET: i32 = 0x1;
    /// The request may wait for messages.
    pub const SUSPEND: i32 = 0x2;
    /// The subscription is in the request.
    pub const SUBSCRIPTION: i32 = 0x4;
    /// A filter class was uploaded; no longer supported.
    pub const CLASS_FILTER: i32 = 0x8;
    /// Lite pull.
    pub const LITE_PULL: i32 = 0x10;
}

/// Bits of a topic's `topicSysFlag`.
pub mod topic {
    /// Unit topic.
    pub const UNIT: i32 = 0x1;
    /// Has subscribers of units.
    pub const UNIT_SUB: i32 = 0x2;
}

/// Bits of a topic's `perm` (`PermName.java`).
pub mod perm {
    /// Read before others.
    pub const PRIORITY: i32 = 0x8;
    /// Readable.
    pub const READ: i32 = 0x4;
    /// Writable.
    pub const WRITE: i32 = 0x2;
    /// May be a template for new topics.
    pub const INHERIT: i32 = 0x1;
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bits_are_read() {
        assert_eq!(compression(0x300), None);
        assert_eq!(compression(0x1), Some(Compression::Zlib));
        assert_eq!(compression(0x301), Some(Compression::Zlib));
        assert_eq!(compression(0x101), Some(Compression::Lz4));
        assert_eq!(compression(0x201), Some(Compression::Zstd));
        assert_eq!(compression(0x401), None);
        assert_eq!(transaction_type(0x35), TRANSACTION_PREPARED);
        assert_eq!(with_transaction_type(0x35, TRANSACTION_COMMIT), 0x39);
    }
}
