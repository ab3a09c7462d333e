//! The planned switch: the lead goes to a follower that has caught up, and no client notices.
//!
//! What only the master serves waits here from the moment that the hand-over begins, and is passed
//! on to the new leader as soon as that is known; what the log has taken before is committed first.

use std::{
    sync::Arc,
    time::{Duration, Instant},
};

use dledger::{AskError, PeerKind, TransferCode, transport::Known};

use crate::{broker::Broker, dledger_log::DledgerLog, pending::Pending, role::Role};

/// How long sends that the log has taken may take to be committed before the lead is handed over
/// all the same: the log itself waits for its tail.
const TAIL: Duration = Duration::from_secs(1);
/// How long a request takes from its connection to the log.
const PASSAGE: Duration = Duration::from_millis(20);
/// How long a hand-over is tried again where no follower is fit at first: clients wait meanwhile.
const TRIES: Duration = Duration::from_secs(2);
/// Time between two tries.
const PAUSE: Duration = Duration::from_millis(50);
/// How long the new master is given to take id 0 at the name servers, before this node registers as a
/// slave: a route without a master would leave producers without a queue.
const TAKES_ID_0: Duration = Duration::from_millis(500);
/// How long this node waits to hear of the new leader.
const NEWS: Duration = Duration::from_secs(2);
/// Nothing was passed on for so long: clients know the new master, or there are none.
const QUIET: Duration = Duration::from_millis(1500);
/// A stop waits no longer than this for clients that do not ask for routes.
const MOMENT: Duration = Duration::from_secs(10);

/// Why the lead was not handed over.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub(crate) enum HandOverError {
    /// There is nothing to hand over.
    #[error("this node does not lead: ask the leader")]
    NotLeading,
    /// The log did not do it.
    #[error("{}", text_of(*.0))]
    Refused(TransferCode),
    /// The log did not answer.
    #[error(transparent)]
    NoAnswer(#[from] AskError),
}

fn text_of(code: TransferCode) -> String {
    match code {
        TransferCode::FallBehindTooMuch => {
            "no such follower has caught up: wait until one has, or look at its status".to_owned()
        }
        TransferCode::UnknownMember => "it is no member of the group".to_owned(),
        TransferCode::DiskError => "its disk does not take appends".to_owned(),
        TransferCode::TakeLeadershipFailed => {
            "it was not elected in time, and this node goes on leading: try again".to_owned()
        }
        other => format!("the log answered {} ({other:?})", other.code()),
    }
}

impl Broker {
    /// Hands the lead to member `to`, or to the follower that has most; gives the new leader's id.
    /// Where it fails this node goes on as the master, and serves what has waited.
    ///
    /// # Errors
    /// See [`HandOverError`].
    pub(crate) async fn hand_over(
        self: &Arc<Self>,
        log: &DledgerLog<Pending>,
        to: Option<String>,
    ) -> Result<String, HandOverError> {
        self.hand_over_within(log, to, TRIES).await
    }

    /// Hands the lead to the member that the log names, time and again: one that is preferred, or one
    /// with room where this node has none. Clients wait meanwhile, as in any hand-over.
    pub(crate) async fn follow_advice(self: Arc<Self>, log: Arc<DledgerLog<Pending>>) {
        let (mut status, mut changes) = (log.status(), self.switch.changes());
        loop {
            changes.borrow_and_update();
            let advised = status.borrow_and_update().advised.clone();
            let free = self.with_role(Role::is_master) && !self.switch.is_handing();
            if let Some(to) = advised.filter(|_| free) {
                tracing::info!(to, "this node hands the lead to a member that is to have it");
                // Why it failed is in the log; the next advice comes ever later.
                if self.hand_over_within(&log, Some(to), Duration::ZERO).await.is_err() {
                    tokio::time::sleep(PAUSE).await;
                }
                continue;
            }
            tokio::select! {
                changed = status.changed() => if changed.is_err() { return },
                changed = changes.changed() => if changed.is_err() { return },
            }
        }
    }

    async fn hand_over_within(
        self: &Arc<Self>,
        log: &DledgerLog<Pending>,
        to: Option<String>,
        tries: Duration,
    ) -> Result<String, HandOverError> {
        if !self.with_role(Role::is_master) {
            return Err(HandOverError::NotLeading);
        }
        if let Some(own) = to.as_ref().filter(|to| self.is_called(to)) {
            return Ok(own.clone());
        }
        let preferred = to.or_else(|| self.follower_of_ours());
        let java_is_ready = if self.may_go_to_java(preferred.as_deref()) {
            Some(self.let_java_take_tables().await)
        } else {
            None
        };
        self.switch.set_handing(true);
        let outcome = self.try_to_hand_over(log, preferred, tries).await;
        self.switch.set_handing(false);
        drop(java_is_ready);
        let broker = Arc::clone(self);
        self.runtime.spawn(async move {
            tokio::time::sleep(TAKES_ID_0).await;
            broker.registration.publish(&broker.role());
        });
        match &outcome {
            Ok(leader) => tracing::info!(leader, "the lead was handed over"),
            Err(error) => tracing::warn!(%error, "the lead was not handed over"),
        }
        outcome
    }

    /// In a group with Java members a node of ours, which has all tables, while one is connected.
    fn follower_of_ours(&self) -> Option<String> {
        let group = self.group.as_ref().filter(|group| !group.is_all_ours())?;
        let own = |member: &Known| matches!(member.kind, PeerKind::Own(_));
        group.known().into_iter().find(own).map(|member| member.id)
    }

    fn may_go_to_java(&self, to: Option<&str>) -> bool {
        self.group.as_ref().is_some_and(|group| match to {
            Some(to) => group.is_java(to),
            None => !group.is_all_ours(),
        })
    }

    /// Whether this is the id of this node.
    fn is_called(&self, id: &str) -> bool {
        self.group.as_ref().is_some_and(|group| group.self_id() == id)
    }

    async fn try_to_hand_over(
        &self,
        log: &DledgerLog<Pending>,
        to: Option<String>,
        tries: Duration,
    ) -> Result<String, HandOverError> {
        // A request that found the way open a moment ago is on its way to the log.
        tokio::time::sleep(PASSAGE).await;
        if !self.in_flight.drained(TAIL).await {
            tracing::debug!("appends are still under way; the log commits them first");
        }
        let begun = Instant::now();
        loop {
            match log.transfer(to.clone()).await? {
                TransferCode::Success => break,
                // An earlier try went through after all.
                TransferCode::NotLeader => break,
                TransferCode::FallBehindTooMuch
                | TransferCode::TakeLeadershipFailed
                | TransferCode::LeaderTransferring
                    if begun.elapsed() < tries =>
                {
                    tokio::time::sleep(PAUSE).await;
                }
                code => return Err(HandOverError::Refused(code)),
            }
        }
        self.new_leader().await
    }

    /// Waits until the role says who leads now.
    async fn new_leader(&self) -> Result<String, HandOverError> {
        let mut changes = self.switch.changes();
        let deadline = tokio::time::Instant::now() + NEWS;
        loop {
            changes.borrow_and_update();
            if let Role::Slave { leader, .. } = self.role() {
                return Ok(leader);
            }
            if tokio::time::timeout_at(deadline, changes.changed()).await.is_err() {
                return Err(HandOverError::Refused(TransferCode::TakeLeadershipFailed));
            }
        }
    }

    /// Goes on passing requests on to the leader until no client sends any here, for a bounded time.
    pub(crate) async fn forward_for_a_moment(&self, has_clients: impl Fn() -> bool) {
        let begun = Instant::now();
        let (mut passed_on, mut last) = (self.forwarder.passed_on(), begun);
        while begun.elapsed() < MOMENT && last.elapsed() < QUIET && has_clients() {
            if !self.with_role(|role| matches!(role, Role::Slave { .. })) {
                return;
            }
            tokio::time::sleep(PAUSE).await;
            let now = self.forwarder.passed_on();
            if now != passed_on {
                (passed_on, last) = (now, Instant::now());
            }
        }
    }
}
