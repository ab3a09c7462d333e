//! What tells messages of one run from all others, and from each other.

use anyhow::Context;
use bytes::{BufMut, Bytes, BytesMut};

/// Marks bodies of one run.
#[derive(Debug, Clone, Copy)]
pub(super) struct Stamp {
    run: u64,
}

impl Stamp {
    /// Bytes that it takes of a body.
    pub(super) const BYTES: usize = 16;

    /// A stamp that no earlier run has.
    pub(super) fn now() -> anyhow::Result<Self> {
        let since = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH);
        let since = since.context("the clock is before 1970")?;
        Ok(Self { run: u64::try_from(since.as_nanos()).unwrap_or(u64::MAX) })
    }

    /// A body that carries `number` in place of the first bytes of `filler`.
    pub(super) fn on(self, number: u64, filler: &[u8]) -> Bytes {
        let rest = filler.get(Self::BYTES..).unwrap_or_default();
        let mut body = BytesMut::with_capacity(Self::BYTES + rest.len());
        body.put_u64(self.run);
        body.put_u64(number);
        body.put_slice(rest);
        body.freeze()
    }

    /// The number of a body of this run.
    pub(super) fn read(self, body: &[u8]) -> Option<u64> {
        let (run, rest) = body.split_first_chunk()?;
        let (number, _) = rest.split_first_chunk()?;
        (u64::from_be_bytes(*run) == self.run).then(|| u64::from_be_bytes(*number))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_stamp_is_read_back_and_others_are_none() {
        let (one, other) = (Stamp { run: 7 }, Stamp { run: 8 });
        let body = one.on(1_234_567_891, &[1; 20]);
        assert_eq!((body.len(), one.read(&body)), (20, Some(1_234_567_891)));
        assert_eq!(other.read(&body), None);
        assert_eq!(one.read(&body[..15]), None);
    }
}
