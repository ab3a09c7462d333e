//! Replication state of a broker (code 907).

use super::plain_bodies;

plain_bodies! {
    /// A slave's connection to its master.
    #[derive(Eq)]
    HaConnectionRuntimeInfo {
        /// Address of the slave.
        addr: String,
        /// Bytes that it is behind.
        diff: i64,
        /// Whether it counts as in sync.
        in_sync: bool,
        /// Offset that it acknowledged.
        slave_ack_offset: i64,
        /// Offset from which it is sent.
        transfer_from_where: i64,
        /// Rate.
        transferred_byte_in_second: i64,
    }

    /// A slave's side of its connection.
    #[derive(Eq)]
    HaClientRuntimeInfo {
        /// Whether it is connected.
        activated: Option<bool>,
        /// Milliseconds.
        last_read_timestamp: i64,
        /// Milliseconds.
        last_write_timestamp: i64,
        /// Address of the master.
        master_addr: Option<String>,
        /// Offset that the master has flushed.
        master_flush_offset: i64,
        /// Offset that it has.
        max_offset: i64,
        /// Rate.
        transferred_byte_in_second: i64,
    }

    /// Answer to code 907.
    #[derive(Eq)]
    HaRuntimeInfo {
        /// Its side as a slave.
        ha_client_runtime_info: Option<HaClientRuntimeInfo>,
        /// Its slaves.
        ha_connection_info: Vec<HaConnectionRuntimeInfo>,
        /// Number of slaves in sync.
        in_sync_slave_nums: i32,
        /// Whether it is a master.
        master: bool,
        /// Offset of the master's log.
        master_commit_log_max_offset: i64,
    }
}
