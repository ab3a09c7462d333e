//! What Java's brokers tell each other of master and slaves: codes 905, 906, 908
//! (`AdminBrokerProcessor.java`).
//!
//! A Java broker with a DLedger log answers them, and nothing follows: it has no HA service whose
//! master they could change.

use std::sync::Arc;

use protocol::header::{
    ExchangeHaInfoRequest, ExchangeHaInfoResponse, NotifyMinBrokerIdChangeRequest,
    ResetMasterFlushOffsetRequest,
};

use crate::{
    broker::Broker,
    call::{Call, Rejection, Reply},
};

/// 905: a name server has another smallest broker id. Only an acting master takes anything from it,
/// and in a DLedger group the leader is the master.
pub(crate) fn least_id(_broker: &Arc<Broker>, call: &mut Call) -> Result<Reply, Rejection> {
    let request: NotifyMinBrokerIdChangeRequest = call.header()?;
    tracing::debug!(?request, peer = %call.client, "another smallest broker id; the leader stays");
    Reply::done(call)
}

/// 906: a slave asks for the master, or is told of it. The master tells what it registers, and how
/// far its log is committed.
pub(crate) fn exchange(broker: &Arc<Broker>, call: &mut Call) -> Result<Reply, Rejection> {
    let told: ExchangeHaInfoRequest = call.header()?;
    if told.master_ha_address.is_some() || !broker.role().is_master() {
        tracing::debug!(?told, peer = %call.client, "the master follows from the election");
        return Reply::header(call, &ExchangeHaInfoResponse::default());
    }
    let answer = ExchangeHaInfoResponse {
        master_ha_address: Some(broker.config().ha_server_address()),
        master_flush_offset: Some(broker.store.max_physical().cast_signed()),
        master_address: Some(broker.client_address()),
    };
    Reply::header(call, &answer)
}

/// 908: how far the master has flushed, for a slave of Java's replication. Here the log's own
/// agreement says that.
pub(crate) fn reset_flush_offset(
    broker: &Arc<Broker>,
    call: &mut Call,
) -> Result<Reply, Rejection> {
    // The master passes the request over unread.
    if !broker.role().is_master() {
        let request: ResetMasterFlushOffsetRequest = call.header()?;
        tracing::info!(
            offset = request.master_flush_offset,
            peer = %call.client,
            "an offset of the master was told; the log itself knows what is committed"
        );
    }
    Reply::done(call)
}
