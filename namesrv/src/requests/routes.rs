//! Topics and where they are: codes 105, 206, 216, 217, 224, 304, 311, 312, 313.

use protocol::body::{TopicList, TopicRouteData};
use protocol::code::response;
use protocol::header::{
    DeleteTopicFromNamesrvRequest, GetRouteInfoRequest, GetTopicsByClusterRequest,
    RegisterTopicRequest,
};

use super::{Answer, Rejection, success};
use crate::core::{Call, Core};
use crate::kv::ORDER_TOPIC_CONFIG;
use crate::zone;

/// Java appends it to the remarks that users meet most often (`FAQUrl.java`).
const FAQ: &str = "\nSee https://rocketmq.apache.org/docs/bestPractice/06FAQ for further details.";

pub(super) fn route(core: &Core, call: &Call<'_>) -> Answer {
    let header: GetRouteInfoRequest = call.request.header()?;
    let settings = core.settings();
    if settings.need_wait_for_service && call.now < settings.wait_for_service {
        return Err(Rejection::error("name server not ready"));
    }
    let Some(mut route) = core.table().route(&header.topic, core.rules()) else {
        let remark =
            format!("No topic route info in name server for the topic: {}{FAQ}", header.topic);
        return Err(Rejection::new(response::TOPIC_NOT_EXIST, remark));
    };
    if settings.order_message_enable {
        route.order_topic_conf =
            core.kv().get(ORDER_TOPIC_CONFIG, &header.topic).map(str::to_owned);
    }
    let body = match zone::wanted(call.request) {
        // Routes within a zone are written with bare keys whoever asks, as in Java.
        Some(zone) => {
            zone::keep(&mut route, zone);
            route.encode()
        }
        None => route
            .encode_for(call.request.version, header.accept_standard_json_only.unwrap_or(false)),
    };
    Ok(success(call).with_body(body))
}

pub(super) fn all_topics(core: &Core, call: &Call<'_>) -> Answer {
    if core.settings().enable_all_topic_list {
        list(call, &core.table().topic_list())
    } else {
        Err(Rejection::error("disable"))
    }
}

pub(super) fn delete_topic(core: &Core, call: &Call<'_>) -> Answer {
    let header: DeleteTopicFromNamesrvRequest = call.request.header()?;
    let cluster = header.cluster_name.as_deref().filter(|name| !name.is_empty());
    core.table_mut().delete_topic(&header.topic, cluster);
    tracing::info!(topic = header.topic, cluster, "a topic was deleted by a request");
    Ok(success(call))
}

pub(super) fn register_topic(core: &Core, call: &Call<'_>) -> Answer {
    let header: RegisterTopicRequest = call.request.header()?;
    let route = TopicRouteData::decode(&call.request.body)?;
    let mut table = core.table_mut();
    table.check_room_for_topic(&header.topic)?;
    if let Err(broker) = table.register_topic(&header.topic, route.queue_datas) {
        tracing::warn!(topic = header.topic, broker, "a topic of an unknown broker is passed over");
    }
    Ok(success(call))
}

pub(super) fn topics_of_cluster(core: &Core, call: &Call<'_>) -> Answer {
    let header: GetTopicsByClusterRequest = call.request.header()?;
    list(call, &core.table().topics_of_cluster(&header.cluster))
}

pub(super) fn system_topics(core: &Core, call: &Call<'_>) -> Answer {
    list(call, &core.table().system_topics())
}

pub(super) fn unit_topics(core: &Core, call: &Call<'_>) -> Answer {
    list(call, &core.table().unit_topics())
}

pub(super) fn unit_sub_topics(core: &Core, call: &Call<'_>) -> Answer {
    list(call, &core.table().unit_sub_topics())
}

pub(super) fn unit_sub_ununit_topics(core: &Core, call: &Call<'_>) -> Answer {
    list(call, &core.table().unit_sub_ununit_topics())
}

fn list(call: &Call<'_>, topics: &TopicList) -> Answer {
    Ok(success(call).with_body(topics.encode()))
}
