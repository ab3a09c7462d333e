//! What a change of the log's role means for the broker: a pure function.

/// The broker's role. It follows from the election and is never configured.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Role {
    /// Not elected and knows no leader: it serves nothing that depends on tables.
    Candidate,
    /// Another node leads.
    Slave {
        /// Id of the leader.
        leader: String,
    },
    /// Elected; its opening entry is not committed or not yet applied.
    TakingOver {
        /// The term it leads.
        term: u64,
    },
    /// Leads and has applied all that earlier terms left.
    Master {
        /// The term it leads.
        term: u64,
    },
}

impl Role {
    /// The name that Java gives it (`BrokerRole`).
    pub(crate) fn name(&self) -> &'static str {
        match self {
            Self::Master { .. } => "ASYNC_MASTER",
            Self::Candidate | Self::Slave { .. } | Self::TakingOver { .. } => "SLAVE",
        }
    }

    /// Whether it serves what only a master may serve.
    pub(crate) fn is_master(&self) -> bool {
        matches!(self, Self::Master { .. })
    }
}

/// What the log says about its node.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum RoleEvent {
    /// The node won the election of a term.
    Elected {
        /// That term.
        term: u64,
    },
    /// The opening entry of a term is committed and everything before it applied.
    Opened {
        /// That term.
        term: u64,
    },
    /// The node follows.
    Following {
        /// Id of the leader, where one is known.
        leader: Option<String>,
    },
}

/// What is to be done about it, in this order.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum RoleEffect {
    /// Stop delivering delayed messages.
    StopDelivery,
    /// Give back leases and answers that only a master may give.
    DropLeases,
    /// Register as id 0 at every name server.
    RegisterAsMaster,
    /// Unregister from every name server.
    Unregister,
    /// Start delivering delayed messages from the recorded progress.
    StartDelivery,
}

/// The role after an event, and what the change asks for. An event of an older term, or one that
/// changes nothing, asks for nothing, so that a repeated event is harmless.
pub(crate) fn change(present: &Role, event: &RoleEvent) -> (Role, Vec<RoleEffect>) {
    match (present, event) {
        (Role::Master { term } | Role::TakingOver { term }, RoleEvent::Elected { term: new })
            if new <= term =>
        {
            (present.clone(), Vec::new())
        }
        (Role::Master { .. }, RoleEvent::Elected { term }) => {
            (Role::TakingOver { term: *term }, vec![RoleEffect::StopDelivery])
        }
        (_, RoleEvent::Elected { term }) => (Role::TakingOver { term: *term }, Vec::new()),
        (Role::TakingOver { term }, RoleEvent::Opened { term: opened }) if term == opened => (
            Role::Master { term: *term },
            vec![RoleEffect::StartDelivery, RoleEffect::RegisterAsMaster],
        ),
        (_, RoleEvent::Opened { .. }) => (present.clone(), Vec::new()),
        (_, RoleEvent::Following { leader }) => {
            let next = match leader {
                Some(leader) => Role::Slave { leader: leader.clone() },
                None => Role::Candidate,
            };
            let effects = if present.is_master() {
                vec![RoleEffect::StopDelivery, RoleEffect::DropLeases, RoleEffect::Unregister]
            } else {
                Vec::new()
            };
            (next, effects)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_election_makes_a_master_once_its_opening_entry_is_committed() {
        let (role, effects) = change(&Role::Candidate, &RoleEvent::Elected { term: 3 });
        assert_eq!((role.clone(), effects), (Role::TakingOver { term: 3 }, vec![]));
        assert!(!role.is_master());
        let (role, effects) = change(&role, &RoleEvent::Opened { term: 3 });
        assert_eq!(role, Role::Master { term: 3 });
        assert_eq!(effects, [RoleEffect::StartDelivery, RoleEffect::RegisterAsMaster]);
    }

    #[test]
    fn repeated_and_late_events_change_nothing() {
        let master = Role::Master { term: 3 };
        for event in [
            RoleEvent::Elected { term: 3 },
            RoleEvent::Elected { term: 2 },
            RoleEvent::Opened { term: 2 },
            RoleEvent::Opened { term: 3 },
        ] {
            assert_eq!(change(&master, &event), (master.clone(), vec![]), "{event:?}");
        }
        let late = RoleEvent::Opened { term: 2 };
        let taking = Role::TakingOver { term: 3 };
        assert_eq!(change(&taking, &late), (taking.clone(), vec![]));
    }

    #[test]
    fn a_deposed_master_stops_what_only_a_master_does() {
        let event = RoleEvent::Following { leader: Some("n1".into()) };
        let (role, effects) = change(&Role::Master { term: 3 }, &event);
        assert_eq!(role, Role::Slave { leader: "n1".into() });
        assert_eq!(
            effects,
            [RoleEffect::StopDelivery, RoleEffect::DropLeases, RoleEffect::Unregister]
        );
        assert_eq!(change(&role, &event), (role.clone(), vec![]));
    }
}
