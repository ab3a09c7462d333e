//! How many files and connections a server may have open.

use rustix::process::{Resource, getrlimit, setrlimit};

/// Raises the bound that this process has to the one that it may have, as a JVM does: a shell's
/// usual 1024 are too few for the connections and queues of a broker.
pub(crate) fn raise_limit() {
    let mut limit = getrlimit(Resource::Nofile);
    let before = limit.current;
    limit.current = limit.maximum;
    match setrlimit(Resource::Nofile, limit) {
        Ok(()) => tracing::debug!(?before, now = ?limit.current, "open files"),
        Err(error) => tracing::warn!(?before, %error, "the bound of open files cannot be raised"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_server_may_open_as_many_files_as_the_system_lets_it() {
        raise_limit();
        let limit = getrlimit(Resource::Nofile);
        assert_eq!(limit.current, limit.maximum);
    }
}
