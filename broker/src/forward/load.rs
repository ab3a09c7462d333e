//! How much may be on its way to the master at a time.

use std::sync::{
    Arc,
    atomic::{AtomicUsize, Ordering},
};

/// Requests.
pub(super) const REQUESTS: usize = 8192;
/// Bytes of their bodies. One is always let in.
pub(super) const BYTES: usize = 32 << 20;

/// What is on its way.
#[derive(Debug, Default)]
pub(super) struct Load(Arc<Sum>);

#[derive(Debug, Default)]
struct Sum {
    requests: AtomicUsize,
    bytes: AtomicUsize,
}

/// The part of one request, given back when it is dropped.
#[derive(Debug)]
pub(super) struct Share {
    of: Arc<Sum>,
    bytes: usize,
}

impl Load {
    /// A part for a request with a body of `bytes`; `None` where too much is on its way.
    pub(super) fn share(&self, bytes: usize) -> Option<Share> {
        let requests = self.0.requests.fetch_add(1, Ordering::AcqRel);
        let before = self.0.bytes.fetch_add(bytes, Ordering::AcqRel);
        let share = Share { of: Arc::clone(&self.0), bytes };
        let room = requests < REQUESTS && (before == 0 || before + bytes <= BYTES);
        room.then_some(share)
    }

    /// Requests that are on their way.
    pub(super) fn requests(&self) -> usize {
        self.0.requests.load(Ordering::Acquire)
    }
}

impl Drop for Share {
    fn drop(&mut self) {
        self.of.requests.fetch_sub(1, Ordering::AcqRel);
        self.of.bytes.fetch_sub(self.bytes, Ordering::AcqRel);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn number_and_bytes_are_bounded_and_one_is_always_let_in() {
        let load = Load::default();
        let large = load.share(BYTES + 1).expect("the first one");
        assert!(load.share(1).is_none(), "beyond the bytes");
        assert!(load.share(0).is_none(), "beyond the bytes as well");
        drop(large);
        let all: Vec<Share> = (0..REQUESTS).map(|_| load.share(1).expect("room")).collect();
        assert!(load.share(0).is_none(), "beyond the number");
        drop(all);
        assert!(load.share(BYTES).is_some());
    }
}
