//! A client that asks one member after another until one answers, a bounded number of times.
//!
//! It needs the standard library alone.

use std::{
    fmt,
    hash::{BuildHasher, Hasher, RandomState},
    io::{ErrorKind, Read, Write},
    net::{TcpStream, ToSocketAddrs},
    thread,
    time::{Duration, Instant},
};

/// Longest answer that is read.
const LONGEST_ANSWER: u64 = 4 * 1024 * 1024;

/// How long a client goes on.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Patience {
    /// Tries at most.
    pub(crate) tries: u32,
    /// For all tries together.
    pub(crate) whole: Duration,
    /// For one try.
    pub(crate) each: Duration,
    /// Between two tries that could not be served.
    pub(crate) pause: Duration,
}

impl Default for Patience {
    fn default() -> Self {
        Self {
            tries: 100,
            whole: Duration::from_secs(20),
            each: Duration::from_secs(6),
            pause: Duration::from_millis(50),
        }
    }
}

/// One request, the same in every try.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Request<'a> {
    /// GET, PUT, POST or DELETE.
    pub(crate) method: &'a str,
    /// With the leading slash.
    pub(crate) path: &'a str,
    /// By which members recognize a repeat.
    pub(crate) id: &'a str,
    pub(crate) body: &'a str,
}

/// What a member answered.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Answer {
    /// HTTP status.
    pub(crate) status: u16,
    /// Value of the header `location`: where the leader is.
    pub(crate) location: Option<String>,
    pub(crate) body: String,
}

/// Why there is no answer.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Failure {
    /// No member has taken the request: nothing was done.
    Refused(String),
    /// A member may have taken it: it may have been done, or may be done later.
    Unknown(String),
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Refused(reason) => write!(f, "nothing was done: {reason}"),
            Self::Unknown(reason) => write!(f, "it may have been done: {reason}"),
        }
    }
}

impl std::error::Error for Failure {}

/// Knows where the members are, and which of them answered last.
#[derive(Debug, Clone)]
pub(crate) struct Client {
    /// `host:port` of each.
    members: Vec<String>,
    at: usize,
    patience: Patience,
}

impl Client {
    pub(crate) fn new(members: Vec<String>, patience: Patience) -> Self {
        Self { members, at: 0, patience }
    }

    /// The member that was asked last, `host:port`.
    pub(crate) fn member(&self) -> &str {
        self.members.get(self.at).map_or("", String::as_str)
    }

    /// Asks the next member first.
    pub(crate) fn next_member(&mut self) {
        self.at = (self.at + 1) % self.members.len().max(1);
    }

    /// Asks until a member serves the request or refuses it for good.
    pub(crate) fn ask(&mut self, request: Request<'_>) -> Result<Answer, Failure> {
        let end = Instant::now() + self.patience.whole;
        let mut taken = false;
        let mut reason = "there is no member to ask".to_owned();
        for _ in 0..self.patience.tries {
            let left = end.saturating_duration_since(Instant::now());
            let Some(member) = self.members.get(self.at).filter(|_| !left.is_zero()) else { break };
            match once(member, request, self.patience.each.min(left)) {
                Ok(answer) if answer.status == 307 => {
                    reason = format!("{member}: {}", answer.body);
                    self.follow(answer.location.as_deref());
                    continue;
                }
                Ok(answer) if answer.status < 500 => return Ok(answer),
                Ok(answer) => {
                    // 503 is the one answer that says that nothing was done.
                    taken |= answer.status != 503;
                    reason = format!("{member}: {}", answer.body);
                }
                Err(Broken { sent, error }) => {
                    taken |= sent;
                    reason = format!("{member}: {error}");
                }
            }
            self.next_member();
            thread::sleep(self.patience.pause);
        }
        Err(if taken { Failure::Unknown(reason) } else { Failure::Refused(reason) })
    }

    /// Goes where a member says that the leader is.
    fn follow(&mut self, location: Option<&str>) {
        let leads = |member: &String| {
            let rest = location.and_then(|to| to.strip_prefix("http://"));
            rest.and_then(|rest| rest.strip_prefix(member.as_str()))
                .is_some_and(|rest| rest.starts_with('/'))
        };
        match self.members.iter().position(leads) {
            Some(leader) if leader != self.at => self.at = leader,
            // It names itself, or somebody unknown.
            _ => self.next_member(),
        }
        thread::sleep(self.patience.pause / 10);
    }
}

/// An id that no other request has.
pub(crate) fn fresh_id() -> String {
    // Each state of the hasher has random keys of its own.
    format!("{:016x}", RandomState::new().build_hasher().finish())
}

/// A try without an answer.
#[derive(Debug)]
pub(crate) struct Broken {
    /// The member may have read the request.
    sent: bool,
    error: std::io::Error,
}

impl From<Broken> for std::io::Error {
    fn from(broken: Broken) -> Self {
        broken.error
    }
}

/// Sends `request` to `member` on a connection of its own and waits for the answer.
pub(crate) fn once(member: &str, request: Request<'_>, limit: Duration) -> Result<Answer, Broken> {
    let unsent = |error| Broken { sent: false, error };
    let limit = limit.max(Duration::from_millis(1));
    let address = member.to_socket_addrs().map_err(unsent)?.next();
    let nowhere = || unsent(std::io::Error::new(ErrorKind::NotFound, "the name has no address"));
    let address = address.ok_or_else(nowhere)?;
    let stream = TcpStream::connect_timeout(&address, limit).map_err(unsent)?;
    exchange(stream, member, request, limit).map_err(|error| Broken { sent: true, error })
}

fn exchange(
    mut stream: TcpStream,
    member: &str,
    request: Request<'_>,
    limit: Duration,
) -> std::io::Result<Answer> {
    stream.set_nodelay(true)?;
    stream.set_read_timeout(Some(limit))?;
    stream.set_write_timeout(Some(limit))?;
    let Request { method, path, id, body } = request;
    let head = format!(
        "{method} {path} HTTP/1.1\r\nhost: {member}\r\nconnection: close\r\nrequest-id: {id}\r\ncontent-length: {}\r\n\r\n",
        body.len()
    );
    stream.write_all(&[head.as_bytes(), body.as_bytes()].concat())?;
    let mut bytes = Vec::new();
    stream.take(LONGEST_ANSWER).read_to_end(&mut bytes)?;
    let odd = || std::io::Error::new(ErrorKind::InvalidData, "the answer is no whole HTTP answer");
    std::str::from_utf8(&bytes).ok().and_then(parse).ok_or_else(odd)
}

/// Reads a whole answer. One that was cut off is none.
fn parse(text: &str) -> Option<Answer> {
    let (head, body) = text.split_once("\r\n\r\n")?;
    let mut lines = head.split("\r\n");
    let status = lines.next()?.strip_prefix("HTTP/1.1 ")?.get(..3)?.parse().ok()?;
    let (mut location, mut length) = (None, 0);
    for (name, value) in lines.filter_map(|line| line.split_once(':')) {
        if name.eq_ignore_ascii_case("location") {
            location = Some(value.trim().to_owned());
        } else if name.eq_ignore_ascii_case("content-length") {
            length = value.trim().parse().ok()?;
        }
    }
    (body.len() == length).then(|| Answer { status, location, body: body.to_owned() })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn answers_are_read_whole_or_not_at_all() {
        let text = "HTTP/1.1 307 Temporary Redirect\r\nLocation: http://127.0.0.1:1/kv/a\r\ncontent-length: 2\r\n\r\nhi";
        let answer = parse(text).unwrap();
        assert_eq!((answer.status, answer.body.as_str()), (307, "hi"));
        assert_eq!(answer.location.as_deref(), Some("http://127.0.0.1:1/kv/a"));
        assert_eq!(parse(&text[..text.len() - 1]), None);
        assert_eq!(parse("HTTP/1.1 200 OK\r\n"), None);
        assert_eq!(parse(""), None);
    }

    #[test]
    fn members_that_are_not_there_leave_the_request_undone() {
        let free = || std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
        let members = vec![free().to_string(), free().to_string()];
        let patience = Patience { tries: 4, pause: Duration::ZERO, ..Patience::default() };
        let mut client = Client::new(members, patience);
        let request = Request { method: "PUT", path: "/kv/a", id: "1", body: "1" };
        assert!(matches!(client.ask(request), Err(Failure::Refused(_))));
    }

    #[test]
    fn a_member_that_hangs_up_leaves_the_request_in_doubt() {
        let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        let members = vec![listener.local_addr().unwrap().to_string()];
        let served =
            thread::spawn(move || listener.incoming().take(2).filter(Result::is_ok).count());
        let patience = Patience { tries: 2, pause: Duration::ZERO, ..Patience::default() };
        let request = Request { method: "PUT", path: "/kv/a", id: "1", body: "1" };
        let asked = Client::new(members, patience).ask(request);
        assert!(matches!(asked, Err(Failure::Unknown(_))), "{asked:?}");
        assert_eq!(served.join().unwrap(), 2);
    }

    #[test]
    fn the_leader_that_a_member_names_is_asked_next() {
        let members = ["a:1", "b:2", "c:3"].map(str::to_owned).to_vec();
        let mut client = Client::new(members, Patience::default());
        client.follow(Some("http://c:3/kv/x"));
        assert_eq!(client.at, 2);
        client.follow(Some("http://c:3/kv/x"));
        assert_eq!(client.at, 0, "a member that names itself is not asked again at once");
        client.follow(None);
        assert_eq!(client.at, 1);
    }
}
