//! Values that administrators keep here: codes 100, 101, 102, 219.

use protocol::body::KvTable;
use protocol::code::response;
use protocol::header::{
    DeleteKvConfigRequest, GetKvConfigRequest, GetKvConfigResponse, GetKvListByNamespaceRequest,
    PutKvConfigRequest,
};

use super::{Answer, Rejection, success};
use crate::core::{Call, Core};
use crate::kv::KvError;

impl From<KvError> for Rejection {
    fn from(error: KvError) -> Self {
        tracing::error!(%error, "a value was not changed");
        Self::error(error.to_string())
    }
}

pub(super) fn put(core: &Core, call: &Call<'_>) -> Answer {
    let header: PutKvConfigRequest = call.request.header()?;
    let (Some(namespace), Some(key)) = (header.namespace, header.key) else {
        return Err(Rejection::error("namespace or key is null"));
    };
    // Java keeps an absent value as null, which reads as if it was not there.
    match header.value {
        Some(value) => core.kv_mut().put(&namespace, &key, &value)?,
        None => core.kv_mut().delete(&namespace, &key)?,
    }
    Ok(success(call))
}

pub(super) fn get(core: &Core, call: &Call<'_>) -> Answer {
    let header: GetKvConfigRequest = call.request.header()?;
    let value = core.kv().get(&header.namespace, &header.key).map(str::to_owned);
    if value.is_some() {
        return Ok(success(call).with_header(&GetKvConfigResponse { value }));
    }
    let remark = format!("No config item, Namespace: {} Key: {}", header.namespace, header.key);
    Ok(call
        .request
        .response(response::QUERY_NOT_FOUND)
        .with_header(&GetKvConfigResponse::default())
        .with_remark(remark))
}

pub(super) fn delete(core: &Core, call: &Call<'_>) -> Answer {
    let header: DeleteKvConfigRequest = call.request.header()?;
    core.kv_mut().delete(&header.namespace, &header.key)?;
    Ok(success(call))
}

pub(super) fn list(core: &Core, call: &Call<'_>) -> Answer {
    let header: GetKvListByNamespaceRequest = call.request.header()?;
    match core.kv().namespace(&header.namespace) {
        Some(values) => {
            let table = KvTable { table: values.clone().into_iter().collect() };
            Ok(success(call).with_body(table.encode()))
        }
        None => Err(Rejection::new(
            response::QUERY_NOT_FOUND,
            format!("No config item, Namespace: {}", header.namespace),
        )),
    }
}
