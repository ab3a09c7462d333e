//! The broker: the only composition root of store, log, name-server client and request handlers.

// call.rs joins once `protocol` and `remoting` have their types.
