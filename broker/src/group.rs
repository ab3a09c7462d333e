//! The group of several brokers that this one is a member of.

use std::{
    collections::BTreeMap,
    fmt,
    net::IpAddr,
    path::PathBuf,
    sync::{Arc, Mutex, OnceLock, PoisonError},
    time::SystemTime,
};

use dledger::{
    AskError, Peer, PeerKind, Peers, Policy, Status, TransferCode, Transport,
    transport::{Known, RemotingTransport, TransportError, TransportOptions},
};
use segment::{RealVfs, Vfs};
use tokio::sync::watch;

use crate::{dledger_log::DledgerLog, pending::Pending};

/// The group: who is in it, who leads it, and the log that they share.
pub struct Group {
    self_id: String,
    peers: Peers,
    options: dledger::Options,
    cluster: String,
    log: Arc<DledgerLog<Pending>>,
    /// There once this member takes part.
    transport: OnceLock<Arc<RemotingTransport>>,
    /// Where this member serves clients.
    own_address: OnceLock<String>,
    /// Where the master serves clients, as name servers told it.
    told_master: Mutex<Option<String>>,
    /// What each member said last of when an entry counts as kept.
    policies: Mutex<BTreeMap<String, Policy>>,
}

impl Group {
    pub(crate) fn new(
        options: dledger::Options,
        peers: Peers,
        cluster: String,
        log: Arc<DledgerLog<Pending>>,
    ) -> Self {
        Self {
            self_id: options.self_id.clone(),
            peers,
            options,
            cluster,
            log,
            transport: OnceLock::new(),
            own_address: OnceLock::new(),
            told_master: Mutex::default(),
            policies: Mutex::default(),
        }
    }

    /// Listens on the peer port, at `bind` where that is given. `client_address` is where this
    /// member serves clients, which the others are told.
    pub(crate) fn listen(
        &self,
        bind: Option<IpAddr>,
        client_address: String,
    ) -> Result<Arc<RemotingTransport>, TransportError> {
        let mut introduction = self.options.introduction(Some(self.cluster.clone()));
        introduction.client = Some(client_address.clone());
        let memory: PathBuf = self.options.directory.join("peers");
        let transport = Arc::new(RemotingTransport::new(TransportOptions {
            group: self.options.group.clone(),
            self_id: self.self_id.clone(),
            peers: self.peers.clone(),
            bind,
            introduction,
            memory: Some((Arc::new(RealVfs) as Arc<dyn Vfs>, memory)),
            runtime: tokio::runtime::Handle::current(),
        })?);
        if self.transport.set(Arc::clone(&transport)).is_err()
            || self.own_address.set(client_address).is_err()
        {
            tracing::error!("the peer port was opened twice");
        }
        Ok(transport)
    }

    /// Closes the peer port and the connections to the members.
    pub(crate) fn stop(&self) {
        if let Some(transport) = self.transport.get() {
            transport.stop();
        }
    }

    /// Notes where a name server says that the master serves clients.
    pub(crate) fn note_master(&self, address: String) {
        *self.told_master.lock().unwrap_or_else(PoisonError::into_inner) = Some(address);
    }

    /// This member's id.
    #[must_use]
    pub fn self_id(&self) -> &str {
        &self.self_id
    }

    /// All members with the addresses of their peer ports, this one among them.
    pub fn peers(&self) -> impl Iterator<Item = &Peer> {
        self.peers.iter()
    }

    /// How many members there are.
    #[must_use]
    pub fn size(&self) -> usize {
        self.peers.iter().count()
    }

    /// What is known of the other members: what they run, and where they serve clients.
    #[must_use]
    pub fn known(&self) -> Vec<Known> {
        self.transport.get().map(|transport| transport.known()).unwrap_or_default()
    }

    /// Whether a member is known to be a Java broker.
    #[must_use]
    pub fn is_java(&self, id: &str) -> bool {
        self.known().iter().any(|member| member.id == id && member.is_java)
    }

    /// Whether no member is known to be a Java broker.
    #[must_use]
    pub fn is_all_ours(&self) -> bool {
        self.known().iter().all(|member| !member.is_java)
    }

    /// The way to the other members; there once this one takes part.
    #[must_use]
    pub fn transport(&self) -> Option<&Arc<RemotingTransport>> {
        self.transport.get()
    }

    /// Role, term, leader and failure of the log, now and on every change.
    #[must_use]
    pub fn status(&self) -> watch::Receiver<Status> {
        self.log.status()
    }

    /// The turns of this member's life in words, oldest first, with the time of each.
    #[must_use]
    pub fn records(&self) -> Vec<(SystemTime, String)> {
        self.log.records()
    }

    /// Hands the lead to member `to`, or to the one that is furthest where that is `None`. The future
    /// borrows nothing.
    pub fn transfer(
        &self,
        to: Option<String>,
    ) -> impl Future<Output = Result<TransferCode, AskError>> + Send + 'static {
        self.log.transfer(to)
    }

    /// The leader's id, where one is known.
    #[must_use]
    pub fn leader(&self) -> Option<String> {
        self.log.status().borrow().leader.clone()
    }

    /// Where the leader serves clients, `host:port`: as it says itself, or as name servers told it of
    /// a Java broker, which says nothing of it to other members.
    #[must_use]
    pub fn leader_client_address(&self) -> Option<String> {
        let leader = self.leader()?;
        if leader == self.self_id {
            return self.own_address.get().cloned();
        }
        let member = self.known().into_iter().find(|member| member.id == leader)?;
        if let Some(client) = member.client {
            return Some(client);
        }
        self.told_master.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Why this member knows no leader, for people: who cannot be reached, and how many are needed.
    #[must_use]
    pub fn why_no_leader(&self) -> String {
        let (size, needed) = (self.size(), self.size() / 2 + 1);
        let away: Vec<String> = self
            .known()
            .into_iter()
            .filter(|member| matches!(member.kind, PeerKind::Unknown | PeerKind::Gone))
            .filter_map(|member| self.peers.get(&member.id))
            .map(|peer| format!("{} at {}", peer.id, peer.address))
            .collect();
        let reached = size - away.len();
        if reached < needed {
            return format!(
                "it reaches {reached} of {size} members, itself among them, and {needed} are needed: start or connect {}",
                away.join(" or ")
            );
        }
        if let Some(doubt) = self.log.status().borrow().doubt {
            return format!(
                "an election is under way, in which this member may lack what it once acknowledged ({doubt:?})"
            );
        }
        "an election is under way".to_owned()
    }

    /// What an acknowledged message has met, for people: as the leader of now has it, where one is
    /// known, else as this member would.
    #[must_use]
    pub fn durability(&self) -> String {
        let (policies, java) = self.policies();
        let leader = self.leader();
        let policy = leader.as_ref().and_then(|leader| policies.get(leader)).copied();
        let policy = policy.unwrap_or_else(|| own_policy(&self.options));
        let members = self.size();
        let majority = members / 2 + 1;
        let mut text = match policy {
            Policy::Flushed => {
                format!("an acknowledged message is fsynced on {majority} of {members} members")
            }
            Policy::Written => format!(
                "an acknowledged message is in the page cache of {majority} of {members} members: a power failure of all loses what was not written back"
            ),
        };
        let leads = leader.as_ref().is_some_and(|leader| java.contains(leader));
        if leads {
            return format!(
                "an acknowledged message is in the page cache of {majority} of {members} members, for the leader is a Java broker"
            );
        }
        if policy == Policy::Flushed && !java.is_empty() && self.options.count_java_acks {
            text.push_str(
                ", where a Java member counts that has it in its page cache (countJavaAcks)",
            );
        }
        let others: Vec<&str> = policies
            .iter()
            .filter(|(_, other)| **other != policy)
            .map(|(id, _)| id.as_str())
            .collect();
        if !others.is_empty() {
            text.push_str(&format!(
                "; members {} have another flushDiskType, which will count when they lead: set the same everywhere",
                others.join(", ")
            ));
        }
        text
    }

    /// The policy of each member of ours, as it said last, and the ids of Java members.
    fn policies(&self) -> (BTreeMap<String, Policy>, Vec<String>) {
        let mut policies = self.policies.lock().unwrap_or_else(PoisonError::into_inner);
        policies.insert(self.self_id.clone(), own_policy(&self.options));
        let mut java = Vec::new();
        for Known { id, kind, is_java, .. } in self.known() {
            if is_java {
                policies.remove(&id);
                java.push(id);
            } else if let PeerKind::Own(capability) = kind {
                policies.insert(id, capability.policy);
            }
        }
        (policies.clone(), java)
    }
}

fn own_policy(options: &dledger::Options) -> Policy {
    options.introduction(None).capability.policy
}

impl fmt::Debug for Group {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Group")
            .field("self_id", &self.self_id)
            .field("peers", &self.peers)
            .field("status", &*self.log.status().borrow())
            .finish_non_exhaustive()
    }
}
