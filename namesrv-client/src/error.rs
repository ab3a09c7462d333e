//! Why a name server could not be asked.

use remoting::CallError;

/// A question to name servers without an answer that helps.
#[derive(Debug, Clone, thiserror::Error)]
pub enum NameServerError {
    /// There is no name server to ask.
    #[error("no name server is configured; set namesrvAddr or NAMESRV_ADDR")]
    NoneConfigured,
    /// The name server (the last one that was tried) did not answer.
    #[error("name server {address}: {error}")]
    Call {
        /// Its address.
        address: String,
        /// What happened.
        error: CallError,
    },
    /// It answered with an error.
    #[error("name server {address} answers {code}: {remark}")]
    Rejected {
        /// Its address.
        address: String,
        /// The response code.
        code: i32,
        /// The text.
        remark: String,
    },
    /// It answered with what is not understood.
    #[error("name server {address} answers what is not understood: {cause}")]
    Answer {
        /// Its address.
        address: String,
        /// What is wrong.
        cause: String,
    },
}

impl NameServerError {
    pub(crate) fn call(address: &str, error: CallError) -> Self {
        Self::Call { address: address.to_owned(), error }
    }

    pub(crate) fn answer(address: &str, cause: impl ToString) -> Self {
        Self::Answer { address: address.to_owned(), cause: cause.to_string() }
    }
}
