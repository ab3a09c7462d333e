//! Which connections a listener takes, and those that it has.

use std::collections::HashMap;
use std::fmt;
use std::net::{IpAddr, Ipv6Addr};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use crate::connection::Connection;
use crate::server::ServerOptions;

/// The open connections of a listener, and its bounds on them.
#[derive(Debug)]
pub(crate) struct Admission {
    most: usize,
    most_of_address: usize,
    reserved: usize,
    reserved_for: Vec<IpAddr>,
    table: Mutex<Table>,
}

#[derive(Debug, Default)]
struct Table {
    connections: HashMap<u64, Arc<Connection>>,
    by_address: HashMap<IpAddr, usize>,
}

/// Why a connection is not taken.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Refused {
    Full(usize),
    FullOfAddress(usize),
}

impl Admission {
    pub(crate) fn new(options: &ServerOptions) -> Self {
        Self {
            most: options.max_connections,
            most_of_address: options.max_connections_of_address,
            reserved: options.reserved_connections,
            reserved_for: options.reserved_for.iter().map(IpAddr::to_canonical).collect(),
            table: Mutex::default(),
        }
    }

    /// Takes a connection into the table.
    pub(crate) fn admit(&self, connection: &Arc<Connection>) -> Result<(), Refused> {
        let peer = connection.remote_addr().ip().to_canonical();
        let reserved = if self.reserved_for.contains(&peer) { self.reserved } else { 0 };
        let key = network(peer);
        let mut table = self.lock();
        if table.connections.len() >= self.most.saturating_add(reserved) {
            return Err(Refused::Full(self.most));
        }
        let of_address = table.by_address.entry(key).or_default();
        if *of_address >= self.most_of_address.saturating_add(reserved) {
            return Err(Refused::FullOfAddress(self.most_of_address));
        }
        *of_address += 1;
        table.connections.insert(connection.id(), Arc::clone(connection));
        Ok(())
    }

    /// A connection has ended.
    pub(crate) fn forget(&self, id: u64) {
        let mut table = self.lock();
        let Some(connection) = table.connections.remove(&id) else { return };
        let key = network(connection.remote_addr().ip().to_canonical());
        if let Some(count) = table.by_address.get_mut(&key) {
            *count -= 1;
            if *count == 0 {
                table.by_address.remove(&key);
            }
        }
    }

    pub(crate) fn connections(&self) -> Vec<Arc<Connection>> {
        self.lock().connections.values().cloned().collect()
    }

    fn lock(&self) -> MutexGuard<'_, Table> {
        self.table.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl fmt::Display for Refused {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Full(most) => write!(formatter, "the limit of {most} connections is reached"),
            Self::FullOfAddress(most) => {
                write!(formatter, "the limit of {most} connections of one address is reached")
            }
        }
    }
}

/// Whom a bound per address counts as one: of IPv6 the network, whose addresses cost nothing.
fn network(address: IpAddr) -> IpAddr {
    match address {
        IpAddr::V4(_) => address,
        IpAddr::V6(v6) => {
            let [a, b, c, d, ..] = v6.segments();
            IpAddr::V6(Ipv6Addr::new(a, b, c, d, 0, 0, 0, 0))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Limits;

    fn connection(peer: &str) -> Arc<Connection> {
        let local = "127.0.0.1:1".parse().expect("an address");
        Connection::new(peer.parse().expect("an address"), local, Limits::default())
    }

    fn admission() -> Admission {
        Admission::new(&ServerOptions {
            max_connections: 4,
            max_connections_of_address: 2,
            reserved_connections: 1,
            reserved_for: vec!["127.0.0.1".parse().expect("an address")],
            ..ServerOptions::default()
        })
    }

    #[test]
    fn s_16_one_address_gets_its_part_and_gives_it_back() {
        let admission = admission();
        let first = connection("192.0.2.1:1");
        admission.admit(&first).expect("room");
        admission.admit(&connection("192.0.2.1:2")).expect("room");
        let third = connection("192.0.2.1:3");
        assert_eq!(admission.admit(&third), Err(Refused::FullOfAddress(2)));
        admission.admit(&connection("192.0.2.2:3")).expect("room for others");
        admission.forget(first.id());
        admission.admit(&third).expect("room again");
    }

    #[test]
    fn addresses_of_one_network_count_as_one() {
        let admission = admission();
        admission.admit(&connection("[2001:db8:0:1::1]:1")).expect("room");
        admission.admit(&connection("[2001:db8:0:1:ffff::2]:1")).expect("room");
        let third = connection("[2001:db8:0:1:1:2:3:4]:1");
        assert_eq!(admission.admit(&third), Err(Refused::FullOfAddress(2)));
        admission.admit(&connection("[::ffff:192.0.2.1]:1")).expect("room");
    }

    #[test]
    fn s_16_reserved_places_are_left_when_the_others_are_taken() {
        let admission = admission();
        for peer in 1..=4 {
            admission.admit(&connection(&format!("192.0.2.{peer}:1"))).expect("room");
        }
        assert_eq!(admission.admit(&connection("192.0.2.9:1")), Err(Refused::Full(4)));
        admission.admit(&connection("127.0.0.1:1")).expect("the reserved place");
        assert_eq!(admission.admit(&connection("127.0.0.1:2")), Err(Refused::Full(4)));
    }
}
