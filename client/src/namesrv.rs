//! Requests to the name servers: one of them answers, the next one is asked when it does not.

use std::sync::atomic::{AtomicUsize, Ordering};

use crate::{
    error::{RequestError, RouteError},
    request::{Answer, Request},
};

/// The name servers of a client.
#[derive(Debug)]
pub(crate) struct NameServers {
    addresses: Vec<String>,
    /// Which one answered last.
    current: AtomicUsize,
}

impl NameServers {
    /// Reads `host:port;host:port`; commas and blanks separate as well.
    pub(crate) fn parse(text: &str) -> Result<Self, RouteError> {
        let addresses: Vec<String> = text
            .split([';', ',', ' '])
            .map(str::trim)
            .filter(|address| !address.is_empty())
            .map(ToOwned::to_owned)
            .collect();
        if addresses.is_empty() {
            return Err(RouteError::NoNamesrv);
        }
        Ok(Self { addresses, current: AtomicUsize::new(0) })
    }

    /// All of them.
    pub(crate) fn addresses(&self) -> &[String] {
        &self.addresses
    }

    /// Sends a request that `build` makes for an address, and takes an answer with one of `codes`.
    ///
    /// A name server that does not answer, or not with such a code, is passed over; the error is
    /// that of the last one. An answer that says no (code 17 or 22) is final.
    pub(crate) async fn ask<'a>(
        &'a self,
        build: impl Fn(&'a str) -> Request<'a>,
    ) -> Result<Answer, RequestError> {
        let first = self.current.load(Ordering::Relaxed);
        let mut last = None;
        for step in 0..self.addresses.len() {
            let index = (first + step) % self.addresses.len();
            match build(&self.addresses[index]).send().await {
                Ok(answer) => {
                    self.current.store(index, Ordering::Relaxed);
                    return Ok(answer);
                }
                Err(error) if is_final(&error) => return Err(error),
                Err(error) => {
                    tracing::debug!(%error, "name server did not answer");
                    last = Some(error);
                }
            }
        }
        // The list is not empty, so the loop ran.
        match last {
            Some(error) => Err(error),
            None => Err(RequestError::Answer {
                operation: "asking a name server",
                address: String::new(),
                reason: "there is none".to_owned(),
            }),
        }
    }
}

fn is_final(error: &RequestError) -> bool {
    use protocol::code::response::{QUERY_NOT_FOUND, TOPIC_NOT_EXIST};
    matches!(error.code(), Some(TOPIC_NOT_EXIST | QUERY_NOT_FOUND))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_are_separated_as_java_does() {
        let servers = NameServers::parse(" a:9876; b:9876;;").unwrap();
        assert_eq!(servers.addresses(), ["a:9876", "b:9876"]);
        assert!(matches!(NameServers::parse(" ; "), Err(RouteError::NoNamesrv)));
    }
}
