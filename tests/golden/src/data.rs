//! The recorded pairs and files.

use std::path::PathBuf;

use bytes::BytesMut;
use protocol::{Command, frame};
use serde_json::Value;

/// The bytes of a file of `data/`.
pub(crate) fn file(name: &str) -> Vec<u8> {
    let path = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("data").join(name);
    std::fs::read(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
}

/// One recorded frame with what the recorder said of it.
pub(crate) struct Recorded {
    /// Code of the request, also for a response.
    pub(crate) code: i32,
    /// Which client.
    pub(crate) client: String,
    /// The response's code.
    pub(crate) response_code: Option<i32>,
    /// Whether this is the response.
    pub(crate) is_response: bool,
    /// The whole frame.
    pub(crate) bytes: Vec<u8>,
    /// The header as the recorder decoded it: `extFields`, `remark`, perhaps `flag`.
    pub(crate) header: Value,
    /// Line in the file, from 1.
    pub(crate) line: usize,
}

impl Recorded {
    pub(crate) fn command(&self) -> Command {
        let mut buffer = BytesMut::from(self.bytes.as_slice());
        let command = frame::decode(&mut buffer, frame::DEFAULT_LIMIT)
            .unwrap_or_else(|error| panic!("{self}: {error}"))
            .unwrap_or_else(|| panic!("{self}: incomplete"));
        assert!(buffer.is_empty(), "{self}: {} bytes are left", buffer.len());
        command
    }
}

impl std::fmt::Display for Recorded {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let side = if self.is_response { "response" } else { "request" };
        write!(f, "line {}: {side} of {} with {}", self.line, self.code, self.client)
    }
}

/// All recorded frames in order.
pub(crate) fn recorded() -> Vec<Recorded> {
    let text = String::from_utf8(file("remoting-frames.jsonl")).unwrap();
    let mut frames = Vec::new();
    for (index, line) in text.lines().enumerate() {
        let pair: Value = serde_json::from_str(line).unwrap();
        let number = |name: &str| pair[name].as_i64().map(|number| i32::try_from(number).unwrap());
        for (is_response, side) in [(false, "request"), (true, "response")] {
            let Some(hex) = pair[format!("{side}_hex")].as_str() else {
                continue;
            };
            frames.push(Recorded {
                code: number("code").unwrap(),
                client: pair["client"].as_str().unwrap().to_owned(),
                response_code: number("response_code"),
                is_response,
                bytes: unhex(hex),
                header: pair[format!("{side}_header")].clone(),
                line: index + 1,
            });
        }
    }
    frames
}

fn unhex(hex: &str) -> Vec<u8> {
    (0..hex.len()).step_by(2).map(|at| u8::from_str_radix(&hex[at..at + 2], 16).unwrap()).collect()
}
