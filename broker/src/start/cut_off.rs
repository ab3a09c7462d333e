//! A master that lost the lead and knows no other leader: most likely it is cut off from its group.

use std::{sync::Arc, time::Duration};

use remoting::Server;

use crate::{broker::Broker, role::Role};

/// How long its clients keep their connections: in an ordinary election the new leader is known by
/// then, and what clients send here is passed on to it.
const GRACE: Duration = Duration::from_secs(2);

/// Closes the connections of clients where this node was the master and has known no leader for a
/// while: they ask for routes then and find the new master, in place of asking here again and again.
pub(super) async fn close_clients_when_cut_off(broker: Arc<Broker>, servers: Vec<Arc<Server>>) {
    let mut changes = broker.switch.changes();
    let mut was_master = false;
    loop {
        changes.borrow_and_update();
        match broker.role() {
            Role::Master { .. } => was_master = true,
            Role::Slave { .. } => was_master = false,
            Role::Candidate | Role::TakingOver { .. } => {}
        }
        let cut_off = was_master && !broker.with_role(Role::is_master);
        let patience = if cut_off { GRACE } else { Duration::MAX };
        match tokio::time::timeout(patience, changes.changed()).await {
            Ok(Ok(())) => {}
            Ok(Err(_broker_is_gone)) => return,
            Err(_elapsed) => {
                was_master = false;
                close(&servers);
            }
        }
    }
}

fn close(servers: &[Arc<Server>]) {
    let connections: Vec<_> = servers.iter().flat_map(|server| server.connections()).collect();
    tracing::warn!(
        clients = connections.len(),
        "this broker was the master and knows no leader: it is cut off from its group, and the connections of its clients are closed"
    );
    for connection in connections {
        connection.close();
    }
}
