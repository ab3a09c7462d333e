//! What a change of the log's role means for the broker: pure functions.

/// The broker's role. It follows from the election and is never configured.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Role {
    /// Not elected and knows no leader: it serves nothing that depends on tables.
    Candidate,
    /// Another node leads.
    Slave {
        /// Id of the leader.
        leader: String,
        /// The term that it leads.
        term: u64,
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

    /// The term in which it is the master.
    pub(crate) fn master_term(&self) -> Option<u64> {
        match self {
            Self::Master { term } => Some(*term),
            Self::Candidate | Self::Slave { .. } | Self::TakingOver { .. } => None,
        }
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
    /// The node does not lead.
    Following {
        /// Its term.
        term: u64,
        /// Id of the leader, where one is known: it leads with a majority.
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
    /// Tell every name server where this node stands now; see [`place`].
    Publish,
    /// Start delivering delayed messages from the recorded progress.
    StartDelivery,
}

/// The role after an event, and what the change asks for. An event of an older term, or one that
/// changes nothing, asks for nothing, so that a repeated event is harmless.
pub(crate) fn change(present: &Role, event: &RoleEvent) -> (Role, Vec<RoleEffect>) {
    let next = next(present, event);
    let mut effects = Vec::new();
    if next == *present {
        return (next, effects);
    }
    if present.is_master() {
        effects.extend([RoleEffect::StopDelivery, RoleEffect::DropLeases]);
    }
    if next.is_master() {
        effects.push(RoleEffect::StartDelivery);
    }
    effects.push(RoleEffect::Publish);
    (next, effects)
}

fn next(present: &Role, event: &RoleEvent) -> Role {
    match (present, event) {
        (Role::Master { term } | Role::TakingOver { term }, RoleEvent::Elected { term: new })
            if new <= term =>
        {
            present.clone()
        }
        (_, RoleEvent::Elected { term }) => Role::TakingOver { term: *term },
        (Role::TakingOver { term }, RoleEvent::Opened { term: opened }) if term == opened => {
            Role::Master { term: *term }
        }
        (_, RoleEvent::Opened { .. }) => present.clone(),
        (_, RoleEvent::Following { leader: Some(leader), term }) => {
            Role::Slave { leader: leader.clone(), term: *term }
        }
        (_, RoleEvent::Following { leader: None, .. }) => Role::Candidate,
    }
}

/// The id of a master in routes (`MixAll.MASTER_ID`).
pub(crate) const MASTER_ID: i64 = 0;

/// Where a node stands in the routes of its group.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Place {
    /// Its broker id.
    pub(crate) id: i64,
    /// Term of the leader of its group: name servers of 5.x pass a master over whose term is older
    /// than that of the one they know (`DataVersion.stateVersion`).
    pub(crate) term: u64,
}

/// Where a node with this role is to stand, as `before` was where it stood; `slave` is its id while
/// it does not lead.
///
/// A node that starts stands nowhere until it leads or knows who does. One that led and does not
/// know who does now leaves id 0 at once, but stays in the routes: with it the group's topics would
/// go, and clients would take them for deleted.
pub(crate) fn place(role: &Role, slave: i64, before: Option<Place>) -> Option<Place> {
    match role {
        Role::Master { term } => Some(Place { id: MASTER_ID, term: *term }),
        Role::Slave { term, .. } => Some(Place { id: slave, term: *term }),
        Role::Candidate | Role::TakingOver { .. } => {
            before.map(|before| Place { id: slave, ..before })
        }
    }
}

/// The broker id of a member while it does not lead: the number in its id plus one, as Java has it
/// (`DLedgerRoleChangeHandler`).
pub(crate) fn slave_id(self_id: &str) -> i64 {
    let mut characters = self_id.chars();
    characters.next();
    // The form was checked when the members were read.
    characters.as_str().parse::<u32>().map_or(1, |number| i64::from(number) + 1)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn following(leader: &str, term: u64) -> RoleEvent {
        RoleEvent::Following { leader: Some(leader.to_owned()), term }
    }

    fn slave(leader: &str, term: u64) -> Role {
        Role::Slave { leader: leader.to_owned(), term }
    }

    #[test]
    fn an_election_makes_a_master_once_its_opening_entry_is_applied() {
        let (role, effects) = change(&Role::Candidate, &RoleEvent::Elected { term: 3 });
        assert_eq!(
            (role.clone(), effects),
            (Role::TakingOver { term: 3 }, vec![RoleEffect::Publish])
        );
        assert!(!role.is_master());
        let (role, effects) = change(&role, &RoleEvent::Opened { term: 3 });
        assert_eq!(role, Role::Master { term: 3 });
        assert_eq!(effects, [RoleEffect::StartDelivery, RoleEffect::Publish]);
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
        let again = following("n1", 4);
        assert_eq!(change(&slave("n1", 4), &again), (slave("n1", 4), vec![]));
    }

    #[test]
    fn a_deposed_master_stops_what_only_a_master_does() {
        let event = following("n1", 4);
        let (role, effects) = change(&Role::Master { term: 3 }, &event);
        assert_eq!(role, slave("n1", 4));
        assert_eq!(
            effects,
            [RoleEffect::StopDelivery, RoleEffect::DropLeases, RoleEffect::Publish]
        );
        assert_eq!(change(&role, &event), (role.clone(), vec![]));
    }

    #[test]
    fn one_that_leads_again_in_a_later_term_takes_over_anew() {
        let (role, effects) = change(&Role::Master { term: 3 }, &RoleEvent::Elected { term: 5 });
        assert_eq!(role, Role::TakingOver { term: 5 });
        assert_eq!(
            effects,
            [RoleEffect::StopDelivery, RoleEffect::DropLeases, RoleEffect::Publish]
        );
    }

    #[test]
    fn only_a_master_stands_at_id_0_and_one_that_starts_stands_nowhere() {
        let at = |id, term| Some(Place { id, term });
        assert_eq!(place(&Role::Candidate, 2, None), None);
        assert_eq!(place(&Role::TakingOver { term: 3 }, 2, None), None);
        assert_eq!(place(&slave("n0", 3), 2, None), at(2, 3));
        assert_eq!(place(&Role::TakingOver { term: 4 }, 2, at(2, 3)), at(2, 3));
        assert_eq!(place(&Role::Master { term: 4 }, 2, at(2, 3)), at(0, 4));
        assert_eq!(place(&Role::Candidate, 2, at(0, 4)), at(2, 4));
        assert_eq!(place(&slave("n2", 5), 2, at(0, 4)), at(2, 5));
    }

    #[test]
    fn slaves_have_the_ids_that_java_gives_them() {
        assert_eq!([slave_id("n0"), slave_id("n1"), slave_id("n12")], [1, 2, 13]);
    }

    /// What a broker does about effects, reduced to what can be wrong in the end.
    #[derive(Debug, Default)]
    struct Doer {
        delivers: bool,
        leases: bool,
        stands: Option<Place>,
    }

    impl Doer {
        fn take(&mut self, role: &Role, effects: &[RoleEffect]) {
            for effect in effects {
                match effect {
                    RoleEffect::StopDelivery => self.delivers = false,
                    RoleEffect::StartDelivery => (self.delivers, self.leases) = (true, true),
                    RoleEffect::DropLeases => self.leases = false,
                    RoleEffect::Publish => self.stands = place(role, 1, self.stands),
                }
            }
        }
    }

    /// Case 56 of the known faults: a hundred changes of role, with each event told twice and some
    /// of them passed over, as a watch does.
    #[test]
    fn a_hundred_rapid_changes_leave_what_the_last_role_asks_for() {
        for skipped in 1..7_u64 {
            let (mut role, mut doer) = (Role::Candidate, Doer::default());
            for round in 1..=100_u64 {
                let term = round;
                let events = [
                    RoleEvent::Following { leader: None, term },
                    RoleEvent::Elected { term },
                    RoleEvent::Opened { term },
                    following("n2", term),
                ];
                for (nth, event) in (0..).zip(&events) {
                    if (round * 4 + nth) % 7 == skipped {
                        continue;
                    }
                    for _ in 0..2 {
                        let (next, effects) = change(&role, event);
                        doer.take(&next, &effects);
                        role = next;
                    }
                    let master = role.is_master();
                    assert_eq!((doer.delivers, doer.leases), (master, master), "{role:?}");
                    assert_eq!(doer.stands.is_some_and(|at| at.id == MASTER_ID), master);
                }
            }
        }
    }
}
