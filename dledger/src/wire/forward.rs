//! A request that a member passes on to the leader for one of its own clients.

use std::{net::SocketAddr, time::Duration};

use bytes::BytesMut;
use protocol::{Command, frame};

use super::{WireError, message::Ids, request};

/// Names of header fields.
const GROUP: &str = "group";
const FROM: &str = "localId";
const TO: &str = "remoteId";
const CLIENT: &str = "client";
const PATIENCE: &str = "patienceMillis";

/// The frame of the client as it came, with what the leader has to know of its way. The body of the
/// request is that frame; the answer is the leader's answer to the client, its opaque apart. A
/// oneway request is passed on as one.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Forwarded {
    /// Who passes it on to whom.
    pub ids: Ids,
    /// The client's address as that member sees it.
    pub client: SocketAddr,
    /// How long the client is taken to wait for the answer.
    pub patience: Duration,
    /// The client's request.
    pub command: Command,
}

impl Forwarded {
    /// The request on the peer port.
    #[must_use]
    pub fn encode(&self) -> Command {
        let mut body = BytesMut::with_capacity(self.command.body.len() + 512);
        frame::encode(&self.command, &mut body);
        let mut request = Command::request(request::FORWARD)
            .with_field(GROUP, self.ids.group.as_str())
            .with_field(FROM, self.ids.from.as_str())
            .with_field(TO, self.ids.to.as_str())
            .with_field(CLIENT, self.client.to_string())
            .with_field(PATIENCE, self.patience.as_millis().to_string())
            .with_body(body.freeze());
        if self.command.is_oneway() {
            request.mark_oneway();
        }
        request
    }

    /// Reads such a request.
    ///
    /// # Errors
    /// A field is missing or has another form, or the body is not one whole request frame.
    pub fn decode(request: &Command) -> Result<Self, WireError> {
        let text = |name: &'static str| request.field(name).ok_or(WireError::Missing(name));
        let odd = |name: &'static str, value: &str| WireError::Text {
            name,
            value: value.chars().take(64).collect(),
        };
        let (client, patience) = (text(CLIENT)?, text(PATIENCE)?);
        let millis = patience.parse().map_err(|_not_a_number| odd(PATIENCE, patience))?;
        let mut body = BytesMut::from(&request.body[..]);
        let limit = body.len();
        let decoded = frame::decode(&mut body, limit)
            .map_err(|error| odd("the client's frame", &error.to_string()))?;
        let command = decoded.ok_or(WireError::Missing("the end of the client's frame"))?;
        if !body.is_empty() || command.is_response() {
            return Err(WireError::Missing("a single request of a client"));
        }
        Ok(Self {
            ids: Ids {
                group: text(GROUP)?.to_owned(),
                from: text(FROM)?.to_owned(),
                to: text(TO)?.to_owned(),
            },
            client: client.parse().map_err(|_no_address| odd(CLIENT, client))?,
            patience: Duration::from_millis(millis),
            command,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn forwarded() -> Forwarded {
        let mut command = Command::request(310).with_field("b", "TopicTest").with_body("Hello");
        command.opaque = 17;
        Forwarded {
            ids: Ids { group: "g".into(), from: "n1".into(), to: "n0".into() },
            client: SocketAddr::from(([192, 0, 2, 1], 4000)),
            patience: Duration::from_millis(2500),
            command,
        }
    }

    #[test]
    fn the_frame_of_the_client_comes_out_as_it_went_in() {
        let mut sent = forwarded();
        for encoding in [protocol::HeaderEncoding::Json, protocol::HeaderEncoding::RocketMq] {
            sent.command.encoding = encoding;
            let request = sent.encode();
            assert!(!request.is_oneway());
            assert_eq!(Forwarded::decode(&request), Ok(sent.clone()));
        }
        sent.command.mark_oneway();
        let request = sent.encode();
        assert!(request.is_oneway(), "it stays oneway");
        assert_eq!(Forwarded::decode(&request), Ok(sent));
    }

    #[test]
    fn anything_else_is_refused() {
        let sound = forwarded().encode();
        for name in [GROUP, FROM, TO, CLIENT, PATIENCE] {
            let mut fields = protocol::ExtFields::new();
            for (field, value) in sound.ext_fields.as_ref().unwrap().iter() {
                if field != name {
                    fields.insert(field, value);
                }
            }
            let without = Command { ext_fields: Some(fields), ..sound.clone() };
            assert_eq!(Forwarded::decode(&without), Err(WireError::Missing(name)));
        }
        let body = sound.body.slice(..sound.body.len() - 1);
        let cut = Command { body, ..sound };
        let text = Forwarded::decode(&cut).unwrap_err().to_string();
        assert!(text.contains("the client's frame"), "{text}");
        let mut answer = forwarded();
        answer.command = answer.command.response(0);
        assert!(Forwarded::decode(&answer.encode()).is_err(), "an answer is no request");
    }
}
