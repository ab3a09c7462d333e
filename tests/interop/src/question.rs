//! One request over the remoting protocol with a JSON header: just enough to see that a server is
//! ready. It is written here anew, so that a fault in our own codec cannot hide itself.

use std::{
    io::{Read, Write},
    net::{SocketAddr, TcpStream},
    time::Duration,
};

use anyhow::{Context, Result, ensure};
use serde_json::{Value, json};

/// Bound on an answer, in bytes.
const LIMIT: usize = 16 << 20;

const TIMEOUT: Duration = Duration::from_secs(5);

/// An answer.
#[derive(Debug)]
pub struct Answer {
    /// The response code, 0 for success.
    pub code: i64,
    /// Text that goes with the code.
    pub remark: String,
    /// The body as text; fastjson may have left keys unquoted.
    pub body: String,
}

/// Asks the server at `port` of this machine.
///
/// # Errors
/// Where it does not answer, or not in this protocol.
pub fn ask(port: u16, code: i32, fields: &Value) -> Result<Answer> {
    ask_with(port, code, fields, &[])
}

/// As [`ask`], with a body.
///
/// # Errors
/// See there.
pub fn ask_with(port: u16, code: i32, fields: &Value, body: &[u8]) -> Result<Answer> {
    let address = SocketAddr::from(([127, 0, 0, 1], port));
    let socket = TcpStream::connect_timeout(&address, TIMEOUT).context("connecting")?;
    socket.set_read_timeout(Some(TIMEOUT)).context("setting a time-out")?;
    let mut writing = &socket;
    writing.write_all(&framed((code, 1), fields, body)?).context("sending")?;
    read(&socket)
}

/// Writes a request.
///
/// # Errors
/// Where the connection is gone.
pub fn write(mut socket: &TcpStream, code: i32, opaque: i64, fields: &Value) -> Result<()> {
    socket.write_all(&frame(code, opaque, fields)?).context("sending")
}

/// Reads an answer.
///
/// # Errors
/// Where none comes in time, or none of this protocol.
pub fn read(mut socket: &TcpStream) -> Result<Answer> {
    let mut length = [0; 4];
    socket.read_exact(&mut length).context("reading the length of the answer")?;
    let length = u32::from_be_bytes(length) as usize;
    ensure!((4..=LIMIT).contains(&length), "an answer of {length} bytes");
    let mut answer = vec![0; length];
    socket.read_exact(&mut answer).context("reading the answer")?;
    parse(&answer)
}

/// The bytes of a request without a body.
///
/// # Errors
/// Where the header is too long.
pub fn frame(code: i32, opaque: i64, fields: &Value) -> Result<Vec<u8>> {
    framed((code, opaque), fields, &[])
}

fn framed((code, opaque): (i32, i64), fields: &Value, body: &[u8]) -> Result<Vec<u8>> {
    let head = json!({
        "code": code, "language": "JAVA", "version": 513, "opaque": opaque, "flag": 0,
        "extFields": fields, "serializeTypeCurrentRPC": "JSON",
    });
    let head = head.to_string().into_bytes();
    let length = u32::try_from(head.len()).context("header is too long")?;
    let whole = u32::try_from(head.len() + body.len() + 4).context("request is too long")?;
    let mut frame = Vec::from(whole.to_be_bytes());
    frame.extend(length.to_be_bytes());
    frame.extend(head);
    frame.extend(body);
    Ok(frame)
}

fn parse(answer: &[u8]) -> Result<Answer> {
    let (marked, rest) = answer.split_first_chunk::<4>().context("an answer without a header")?;
    ensure!(marked[0] == 0, "the header of the answer is not JSON");
    let length = u32::from_be_bytes(*marked) as usize;
    let (head, body) = rest.split_at_checked(length).context("the header is cut off")?;
    let head: Value = serde_json::from_slice(head).context("the header is not JSON")?;
    Ok(Answer {
        code: head["code"].as_i64().context("the answer has no code")?,
        remark: head["remark"].as_str().unwrap_or_default().to_owned(),
        body: String::from_utf8_lossy(body).into_owned(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_answer_is_taken_apart() {
        let head = br#"{"code":17,"remark":"no route"}"#;
        let mut bytes = Vec::from(u32::try_from(head.len()).unwrap().to_be_bytes());
        bytes.extend(head);
        bytes.extend(b"{}");
        let answer = parse(&bytes).unwrap();
        assert_eq!(
            (answer.code, answer.remark.as_str(), answer.body.as_str()),
            (17, "no route", "{}")
        );
        assert!(parse(&bytes[..10]).is_err());
        assert!(parse(&[1, 0, 0, 0]).is_err());
    }
}
