//! The one place where a refusal becomes a code and a remark.

use protocol::{Command, code::response, header::HeaderError};

use crate::call::{Call, Rejection, Reply};

/// Java ends some remarks in this line (`FAQUrl.suggestTodo`).
pub(crate) const SEE_FAQ: &str =
    "See https://rocketmq.apache.org/docs/bestPractice/06FAQ for further details.";

/// An answer whose opaque, encoding and flag its responder sets.
pub(crate) fn answer(code: i32) -> Command {
    Command::request(0).response(code)
}

/// The answer that refuses.
pub(crate) fn refusal(rejection: &Rejection) -> Command {
    let mut answer = answer(rejection.code).with_refusal(&rejection.remark);
    for (name, value) in &rejection.fields {
        answer = answer.with_field(name, value.as_str());
    }
    answer
}

/// Gives a handler's result to whoever waits for it.
pub(crate) fn give(call: &mut Call, result: Result<Reply, Rejection>) {
    let Some(responder) = call.responder.take() else {
        debug_assert!(matches!(result, Ok(Reply::Later)), "answered twice: {result:?}");
        return;
    };
    match result {
        Ok(Reply::Now(answer)) => responder.send(answer),
        // The handler kept no responder, so that nobody else will answer: dropping it does.
        Ok(Reply::Later) => drop(responder),
        Err(rejection) => responder.send(refusal(&rejection)),
    }
}

/// A header that lacks what is needed, or has text where a number belongs: Java answers with the
/// text of an exception under the same code.
impl From<HeaderError> for Rejection {
    fn from(error: HeaderError) -> Self {
        Self::new(response::SYSTEM_ERROR, error.to_string())
    }
}

impl From<protocol::body::BodyError> for Rejection {
    fn from(error: protocol::body::BodyError) -> Self {
        Self::new(response::SYSTEM_ERROR, error.to_string())
    }
}
