//! What operators of the group ask a member on its peer port: its status, and the hand-over of the
//! lead (`ledgermq admin group`).
//!
//! The port knows no passwords. Status is told to whoever reaches it, as Java tells its METADATA;
//! the lead is handed over at the word of this host or of a member's.

use std::{
    net::{IpAddr, ToSocketAddrs},
    sync::{Arc, Weak},
};

use bytes::Bytes;
use dledger::{
    TransferCode,
    transport::{AppendAnswer, ClientService, StatusAnswer, TransferAnswer},
    wire::{ResponseCode, entry::JsonEntry},
};

use crate::{broker::Broker, dledger_log::DledgerLog, hand_over::HandOverError, pending::Pending};

/// Serves operators.
pub(crate) struct Operator {
    /// The broker.
    pub(crate) broker: Weak<Broker>,
    /// Its log.
    pub(crate) log: Arc<DledgerLog<Pending>>,
    /// Id of this member.
    pub(crate) self_id: String,
    /// Addresses of all members' peer ports.
    pub(crate) members: Vec<String>,
}

impl ClientService for Operator {
    fn leader(&self) -> (u64, Option<String>) {
        let status = self.log.status();
        let status = status.borrow();
        (status.term, status.leader.clone())
    }

    fn append(&self, _bodies: Vec<Bytes>, answer: AppendAnswer) {
        drop(answer.refused(ResponseCode::UNSUPPORTED, None));
    }

    fn get(&self, _index: u64) -> Result<JsonEntry, ResponseCode> {
        Err(ResponseCode::UNSUPPORTED)
    }

    fn transfer(&self, to: String, answer: TransferAnswer) {
        let (term, _) = self.leader();
        let Some(broker) = self.broker.upgrade() else {
            return answer.done(ResponseCode::TAKE_LEADERSHIP_FAILED, term);
        };
        let (log, members) = (Arc::clone(&self.log), self.members.clone());
        broker.runtime.clone().spawn(async move {
            // Names of members are looked up, which may wait.
            let from = answer.asked_by();
            let known = tokio::task::spawn_blocking(move || {
                from.is_some_and(|from| may_ask(from, &members))
            });
            if !known.await.unwrap_or(false) {
                tracing::warn!(
                    ?from,
                    to,
                    "a stranger asked to hand the lead over: refused; ask on a member's host"
                );
                return answer.done(ResponseCode::UNEXPECTED_MEMBER, term);
            }
            let outcome = broker.hand_over(&log, Some(to)).await;
            answer.done(ResponseCode(code_of(outcome.as_ref().err())), log.status().borrow().term);
        });
    }

    fn status(&self, answer: StatusAnswer) {
        let Some(broker) = self.broker.upgrade() else { return };
        let (log, id) = (Arc::clone(&self.log), self.self_id.clone());
        broker.runtime.clone().spawn(async move {
            let mut told = log.told(&id).await;
            let own = [
                ("broker", broker.config().broker_name.clone()),
                ("brokerRole", broker.role().name().to_owned()),
                ("client", broker.client_address()),
                ("version", env!("CARGO_PKG_VERSION").to_owned()),
            ];
            for (name, value) in own {
                told[name] = value.into();
            }
            told["tables"] = broker.has_group_tables().into();
            answer.done(told.to_string());
        });
    }
}

/// Whether an address is one of this host's own or a member's.
fn may_ask(from: IpAddr, members: &[String]) -> bool {
    let from = from.to_canonical();
    let is_member = |address: &str| {
        let found = address.to_socket_addrs();
        found.is_ok_and(|mut found| found.any(|found| found.ip().to_canonical() == from))
    };
    from.is_loopback() || members.iter().any(|address| is_member(address))
}

fn code_of(error: Option<&HandOverError>) -> i32 {
    match error {
        None => TransferCode::Success.code(),
        Some(HandOverError::Refused(code)) => code.code(),
        Some(HandOverError::NotLeading) => TransferCode::NotLeader.code(),
        Some(HandOverError::NoAnswer(_)) => TransferCode::TakeLeadershipFailed.code(),
    }
}

impl std::fmt::Debug for Operator {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Operator").field("self_id", &self.self_id).finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_hosts_of_the_group_may_hand_the_lead_over() {
        let members = ["192.0.2.1:40911".to_owned(), "[2001:db8::1]:40911".to_owned()];
        let may = |address: &str| may_ask(address.parse().unwrap(), &members);
        assert!(may("127.0.0.1") && may("::1") && may("192.0.2.1") && may("2001:db8::1"));
        assert!(may("::ffff:192.0.2.1"), "the same address as IPv6 has it");
        assert!(!may("192.0.2.2") && !may("2001:db8::2"));
    }
}
