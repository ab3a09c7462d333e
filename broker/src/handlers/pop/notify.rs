//! Whether there is anything to pop, and how many wait: codes 200054 and 200055
//! (`NotificationProcessor.java`, `PollingInfoProcessor.java`).

use std::{sync::Arc, time::Instant};

use protocol::{
    code::response,
    header::{NotificationRequest, NotificationResponse, PollingInfoRequest, PollingInfoResponse},
};
use remoting::Responder;

use super::{bounds, check, ends_of, retries, until};
use crate::{
    broker::Broker,
    call::{Call, Rejection, Reply},
    clock::now_millis,
    handlers::pull::signed,
    pop::{
        order::Queue,
        polls::{ANY, Place, Polls},
    },
    reply,
};

/// A question that passed all checks.
#[derive(Debug)]
pub(crate) struct Watch {
    request: NotificationRequest,
    until: Option<Instant>,
    responder: Responder,
}

/// 200054: whether there is a message; waits for one where the client asks for that.
pub(crate) fn notify(broker: &Arc<Broker>, call: &mut Call) -> Result<Reply, Rejection> {
    let request: NotificationRequest = call.header()?;
    check::check_broker(broker, "peeking")?;
    let asked = check::Asked {
        group: &request.consumer_group,
        topic: &request.topic,
        queue: request.queue_id,
    };
    check::check(broker, call, asked)?;
    let now = now_millis();
    let born = if request.born_time == 0 { now } else { request.born_time };
    let over = born.saturating_add(request.poll_time);
    let watch = Watch {
        until: until(request.poll_time, (now, over), call.received),
        request,
        responder: call.take_responder()?,
    };
    watch.evaluate(broker);
    Ok(Reply::Later)
}

/// 200055: how many pops wait.
pub(crate) fn polling_info(broker: &Arc<Broker>, call: &mut Call) -> Result<Reply, Rejection> {
    let request: PollingInfoRequest = call.header()?;
    check::check_broker(broker, "peeking")?;
    let PollingInfoRequest { consumer_group: group, topic, queue_id: queue } = &request;
    check::check(broker, call, check::Asked { group, topic, queue: *queue })?;
    let number = broker.pop.polls.count(topic, group, (*queue).max(ANY));
    let polling_num = i32::try_from(number).unwrap_or(i32::MAX);
    Reply::header(call, &PollingInfoResponse { polling_num })
}

/// Looks again for those that were taken out of what waits.
pub(crate) fn resume(broker: &Arc<Broker>, watches: Vec<Watch>) {
    watches.into_iter().for_each(|watch| watch.evaluate(broker));
}

/// As [`resume`], in a task of its own: what waits again must not call itself.
fn resume_later(broker: &Arc<Broker>, watch: Option<Watch>) {
    if let Some(watch) = watch {
        let runtime = broker.runtime.clone();
        let broker = Arc::clone(broker);
        runtime.spawn(async move { watch.evaluate(&broker) });
    }
}

/// Answers those that waited: there will be no message for them here.
pub(crate) fn let_go(watches: Vec<Watch>) {
    watches.into_iter().for_each(|watch| watch.answer(false, false));
}

impl Watch {
    fn evaluate(self, broker: &Arc<Broker>) {
        let retries = retries(&self.request.topic, &self.request.consumer_group);
        let ends = ends_of(broker, &self.request.topic, &retries);
        if self.has_message(broker, &retries) {
            return self.answer(true, false);
        }
        let Some(until) = self.until.filter(|until| Instant::now() < *until) else {
            return self.answer(false, false);
        };
        let place = Place {
            topic: self.request.topic.clone(),
            retries: retries.to_vec(),
            group: self.request.consumer_group.clone(),
            queue: self.request.queue_id.max(ANY),
        };
        let topic = place.topic.clone();
        match broker.pop.watches.hold(place, until, bounds(broker), self) {
            Err(watch) => watch.answer(false, true),
            // A message may have come between the look and the hold; its arrival found nobody.
            Ok(id) if ends_of(broker, &topic, &retries) != ends => {
                resume_later(broker, broker.pop.watches.take(id));
            }
            Ok(_) => {}
        }
    }

    fn has_message(&self, broker: &Broker, retries: &[String; 2]) -> bool {
        let topic = &self.request.topic;
        let own = match u32::try_from(self.request.queue_id) {
            Ok(queue) => self.is_behind(broker, topic, queue),
            Err(_) => self.is_behind_in_any(broker, topic),
        };
        own || retries.iter().any(|retry| self.is_behind_in_any(broker, retry))
    }

    fn is_behind_in_any(&self, broker: &Broker, topic: &str) -> bool {
        let found = broker.topics.get(topic);
        let queues = found.map_or(0, |topic| u32::try_from(topic.read_queue_nums).unwrap_or(0));
        (0..queues).any(|queue| self.is_behind(broker, topic, queue))
    }

    fn is_behind(&self, broker: &Broker, topic: &str, queue: u32) -> bool {
        let number = i32::try_from(queue).unwrap_or(i32::MAX);
        if self.request.order == Some(true) {
            let (topic, group) = (topic.to_owned(), self.request.consumer_group.clone());
            let attempt = self.request.attempt_id.as_deref();
            let of = Queue { topic, group, queue: number };
            if broker.pop.orders.is_blocked(&of, attempt, now_millis()) {
                return false;
            }
        }
        let known = broker.offsets.query(&self.request.consumer_group, topic, number);
        let next = known.unwrap_or_else(|| signed(broker.store.min_offset(topic, queue)));
        signed(broker.store.max_offset(topic, queue)) > next
    }

    fn answer(self, has_msg: bool, full: bool) {
        let header = NotificationResponse { has_msg, polling_full: Some(full) };
        self.responder.send(reply::answer(response::SUCCESS).with_header(&header));
    }
}

impl Polls for Watch {
    fn connection_id(&self) -> u64 {
        self.responder.connection().id()
    }

    fn wants(&self, _tags_code: i64) -> bool {
        true
    }
}
