//! The client of a group, as the original library's `DLedgerClient`: it works with Java members,
//! too.

use std::{
    sync::{Mutex, PoisonError},
    time::Duration,
};

use bytes::Bytes;
use protocol::Command;
use remoting::{CallError, Client, ClientOptions, Limits};

use crate::{
    Peers,
    wire::{
        ResponseCode, WireError,
        body::{
            AppendBody, AppendReplyBody, Base, GetBody, GetReplyBody, MetadataReplyBody,
            TransferBody,
        },
        entry::JsonEntry,
        json::{self, Base64},
        request,
    },
};

/// Why a group did not do what was asked.
#[derive(Debug, thiserror::Error)]
pub enum GroupError {
    /// No member knows one.
    #[error("no member of group {group} knows a leader; the last answer: {last}")]
    NoLeader {
        /// The group.
        group: String,
        /// What the member that was asked last said.
        last: String,
    },
    /// No such member.
    #[error("{id} is no member of the group: use an id of --peers")]
    NoMember {
        /// The id.
        id: String,
    },
    /// The member answered with an error.
    #[error("{member} answered {code}{}", leader.as_ref().map(|id| format!("; leader is {id}")).unwrap_or_default())]
    Refused {
        /// Who answered.
        member: String,
        /// What it said.
        code: ResponseCode,
        /// Whom it takes for the leader.
        leader: Option<String>,
    },
    /// The member could not serve the frame.
    #[error("{member} could not serve request code {code}: {remark}")]
    Unserved {
        /// Who answered.
        member: String,
        /// The request code.
        code: i32,
        /// What it said.
        remark: String,
    },
    /// It could not be reached, or did not answer.
    #[error(transparent)]
    Call(#[from] CallError),
    /// Its answer cannot be read.
    #[error("the answer cannot be read: {0}")]
    Answer(#[from] WireError),
}

impl GroupError {
    /// Whether what was to be appended may be in the log after all.
    #[must_use]
    pub fn may_be_stored(&self) -> bool {
        match self {
            Self::NoLeader { .. } | Self::NoMember { .. } => false,
            Self::Call(error) => error.may_have_been_sent(),
            Self::Unserved { .. } | Self::Answer(_) => true,
            Self::Refused { code, .. } => !matches!(
                *code,
                ResponseCode::UNKNOWN_GROUP
                    | ResponseCode::UNKNOWN_MEMBER
                    | ResponseCode::NOT_LEADER
                    | ResponseCode::LEADER_PENDING_FULL
                    | ResponseCode::LEADER_TRANSFERRING
                    | ResponseCode::REQUEST_WITH_EMPTY_BODYS
                    | ResponseCode::UNEXPECTED_ARGUMENT
                    | ResponseCode::DISK_FULL
            ),
        }
    }

    /// A short name for counting, such as `NOT_LEADER`.
    #[must_use]
    pub fn kind(&self) -> &'static str {
        match self {
            Self::NoLeader { .. } => "NO_LEADER",
            Self::NoMember { .. } => "NO_MEMBER",
            Self::Refused { code, .. } => code.name().unwrap_or("UNKNOWN"),
            Self::Unserved { .. } => "UNSERVED",
            Self::Call(CallError::Connect { .. }) => "CONNECT",
            Self::Call(CallError::Timeout { .. }) => "TIMEOUT",
            Self::Call(CallError::Closed { .. } | CallError::NotOpen { .. }) => "CLOSED",
            Self::Call(CallError::Overloaded { .. }) => "OVERLOADED",
            Self::Answer(_) => "ANSWER",
        }
    }
}

/// Calls the members of one group. Calls are sent once; who repeats an append may store it twice.
#[derive(Debug)]
pub struct GroupClient {
    group: String,
    peers: Peers,
    remoting: Client,
    timeout: Duration,
    leader: Mutex<Option<String>>,
}

impl GroupClient {
    /// A client that has no connection yet; `timeout` bounds each call.
    #[must_use]
    pub fn new(group: impl Into<String>, peers: Peers, timeout: Duration) -> Self {
        let limits = Limits { max_frame_bytes: MAX_FRAME_BYTES, ..Limits::default() };
        let options = ClientOptions { limits, ..ClientOptions::default() };
        let leader = Mutex::new(None);
        Self { group: group.into(), peers, remoting: Client::new(options), timeout, leader }
    }

    /// The members.
    #[must_use]
    pub fn peers(&self) -> &Peers {
        &self.peers
    }

    /// Who a member takes for the leader, and whom it knows.
    ///
    /// # Errors
    /// See [`GroupError`].
    pub async fn metadata(&self, member: &str) -> Result<MetadataReplyBody, GroupError> {
        let body = json::write(&self.base(member));
        let reply: MetadataReplyBody = self.call(member, request::METADATA, body).await?;
        self.accepted(member, reply.code, reply.leader_id.as_deref())?;
        Ok(reply)
    }

    /// The leader: as last seen, else as the members say.
    ///
    /// # Errors
    /// [`GroupError::NoLeader`] where no member names one.
    pub async fn leader(&self) -> Result<String, GroupError> {
        if let Some(leader) = self.known_leader() {
            return Ok(leader);
        }
        let mut last = "none was asked".to_owned();
        for peer in self.peers.iter() {
            match self.metadata(&peer.id).await {
                Ok(MetadataReplyBody { leader_id: Some(leader), .. })
                    if self.peers.get(&leader).is_some() =>
                {
                    self.remember(Some(leader.clone()));
                    return Ok(leader);
                }
                Ok(_) => last = format!("{} knows none", peer.id),
                Err(error) => last = error.to_string(),
            }
        }
        Err(GroupError::NoLeader { group: self.group.clone(), last })
    }

    /// Appends a body to the log and waits until it is committed.
    ///
    /// # Errors
    /// See [`GroupError`].
    pub async fn append(&self, body: Bytes) -> Result<AppendReplyBody, GroupError> {
        self.append_body(AppendBody { body: Some(Base64(body)), ..AppendBody::default() }).await
    }

    /// Appends several bodies, one behind another. A Java member does not serve it.
    ///
    /// # Errors
    /// See [`GroupError`].
    pub async fn append_batch(&self, bodies: Vec<Bytes>) -> Result<AppendReplyBody, GroupError> {
        let bodies = bodies.into_iter().map(Base64).collect();
        self.append_body(AppendBody { batch_msgs: Some(bodies), ..AppendBody::default() }).await
    }

    /// Reads an entry from the leader; from a Java leader perhaps one that is not committed.
    ///
    /// # Errors
    /// See [`GroupError`].
    pub async fn get(&self, index: u64) -> Result<JsonEntry, GroupError> {
        let leader = self.leader().await?;
        let body = json::write(&GetBody {
            begin_index: i64::try_from(index).ok(),
            code: 200,
            group: Some(self.group.clone()),
            leader_id: None,
            local_id: None,
            max_size: 0,
            remote_id: Some(leader.clone()),
            term: -1,
        });
        let reply: GetReplyBody = self.call(&leader, request::GET, body).await?;
        self.accepted(&leader, reply.code, reply.leader_id.as_deref())?;
        let found = reply.entries.into_iter().next();
        found.ok_or_else(|| self.refused(&leader, ResponseCode::INDEX_OUT_OF_RANGE, None))
    }

    /// The term of a leader. A Java leader does not tell it, but a member of ours that follows it does.
    async fn term_of(&self, leader: &str) -> Result<i64, GroupError> {
        let told = self.metadata(leader).await?.term;
        if told >= 0 {
            return Ok(told);
        }
        for peer in self.peers.iter() {
            let Ok(status) = self.status(&peer.id).await else { continue };
            let status: serde_json::Value = serde_json::from_slice(&status).unwrap_or_default();
            if status["leader"] == leader
                && let Some(term) = status["term"].as_i64()
            {
                return Ok(term);
            }
        }
        Ok(told)
    }

    /// Hands the leadership over to a member.
    ///
    /// # Errors
    /// See [`GroupError`].
    pub async fn transfer(&self, to: &str) -> Result<(), GroupError> {
        if self.peers.get(to).is_none() {
            return Err(GroupError::NoMember { id: to.to_owned() });
        }
        let leader = self.leader().await?;
        // The leader checks the term that it is asked in (`DLedgerServer.handleLeadershipTransfer`).
        let term = self.term_of(&leader).await?;
        let body = json::write(&TransferBody {
            code: 200,
            group: Some(self.group.clone()),
            leader_id: None,
            local_id: None,
            remote_id: Some(leader.clone()),
            take_leadership_ledger_index: -1,
            term,
            transfer_id: Some(leader.clone()),
            transferee_id: Some(to.to_owned()),
        });
        let reply: Base = self.call(&leader, request::LEADERSHIP_TRANSFER, body).await?;
        self.remember(None);
        self.accepted(&leader, reply.code, None)
    }

    /// Role, marks and last events of a member of ours, as JSON text.
    ///
    /// # Errors
    /// See [`GroupError`]; [`GroupError::Unserved`] from a Java member.
    pub async fn status(&self, member: &str) -> Result<Bytes, GroupError> {
        let body = json::write(&self.base(member));
        self.exchange(member, request::STATUS, body).await
    }

    /// Closes the connections.
    pub fn close(&self) {
        self.remoting.close();
    }

    async fn append_body(&self, body: AppendBody) -> Result<AppendReplyBody, GroupError> {
        let leader = self.leader().await?;
        let body = AppendBody {
            code: 200,
            group: Some(self.group.clone()),
            remote_id: Some(leader.clone()),
            term: -1,
            ..body
        };
        let reply = self.call(&leader, request::APPEND, json::write(&body)).await;
        let reply: AppendReplyBody = reply.inspect_err(|_| self.remember(None))?;
        self.accepted(&leader, reply.code, reply.leader_id.as_deref())?;
        Ok(reply)
    }

    async fn call<T: serde::de::DeserializeOwned>(
        &self,
        member: &str,
        code: i32,
        body: Vec<u8>,
    ) -> Result<T, GroupError> {
        Ok(json::read(&self.exchange(member, code, body).await?)?)
    }

    async fn exchange(&self, member: &str, code: i32, body: Vec<u8>) -> Result<Bytes, GroupError> {
        let no_member = || GroupError::NoMember { id: member.to_owned() };
        let address = &self.peers.get(member).ok_or_else(no_member)?.address;
        let request = Command::request(code).with_body(body);
        let answer = self.remoting.call(address, request, self.timeout).await?;
        if answer.code != ResponseCode::SUCCESS.0 {
            let (member, remark) = (member.to_owned(), answer.remark.unwrap_or_default());
            return Err(GroupError::Unserved { member, code, remark });
        }
        Ok(answer.body)
    }

    fn accepted(&self, member: &str, code: i32, leader: Option<&str>) -> Result<(), GroupError> {
        let code = ResponseCode(code);
        if code == ResponseCode::SUCCESS {
            return Ok(());
        }
        if code == ResponseCode::NOT_LEADER {
            self.remember(leader.filter(|leader| *leader != member).map(str::to_owned));
        }
        Err(self.refused(member, code, leader))
    }

    fn refused(&self, member: &str, code: ResponseCode, leader: Option<&str>) -> GroupError {
        let (member, leader) = (member.to_owned(), leader.map(str::to_owned));
        GroupError::Refused { member, code, leader }
    }

    fn base(&self, member: &str) -> Base {
        Base {
            group: Some(self.group.clone()),
            remote_id: Some(member.to_owned()),
            ..Base::default()
        }
    }

    fn known_leader(&self) -> Option<String> {
        self.leader.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    fn remember(&self, leader: Option<String>) {
        let leader = leader.filter(|leader| self.peers.get(leader).is_some());
        *self.leader.lock().unwrap_or_else(PoisonError::into_inner) = leader;
    }
}

/// An entry of 4 MiB as base64 with room for what stands around it.
const MAX_FRAME_BYTES: usize = 16 << 20;
