//! Transactions: codes 37, 39, 323.

use super::headers;

headers! {
    /// 37: commit (8), rollback (12) or unknown (0).
    EndTransactionRequest {
        topic: Option<String> => "topic",
        producer_group: String => "producerGroup",
        tran_state_table_offset: i64 => "tranStateTableOffset",
        commit_log_offset: i64 => "commitLogOffset",
        commit_or_rollback: i32 => "commitOrRollback",
        from_transaction_check: bool = false => "fromTransactionCheck",
        msg_id: String => "msgId",
        transaction_id: Option<String> => "transactionId",
    }

    /// Answer to 37.
    EndTransactionResponse {}

    /// 39: the broker asks a producer how its transaction ended.
    CheckTransactionStateRequest {
        topic: Option<String> => "topic",
        tran_state_table_offset: i64 => "tranStateTableOffset",
        commit_log_offset: i64 => "commitLogOffset",
        msg_id: Option<String> => "msgId",
        transaction_id: Option<String> => "transactionId",
        offset_msg_id: Option<String> => "offsetMsgId",
    }

    /// 323: takes up the checks of a half message again.
    ResumeCheckHalfMessageRequest {
        topic: Option<String> => "topic",
        msg_id: Option<String> => "msgId",
    }
}
