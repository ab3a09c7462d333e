//! The topics of a run.

use std::{
    sync::Arc,
    time::{Duration, Instant},
};

use anyhow::{Context, bail, ensure};
use client::{Admin, Client, MessageQueue, PullConsumer, RouteError, TopicSettings};
use futures_util::{StreamExt, TryStreamExt, stream};

use crate::args::TopicsArgs;

/// Names of the topics.
pub(crate) fn names(args: &TopicsArgs) -> Vec<String> {
    match args.topics {
        1 => vec![args.topic.clone()],
        count => (0..count).map(|n| format!("{}-{n}", args.topic)).collect(),
    }
}

/// Makes the topics that do not exist on all masters. Those that exist stay as they are; where a
/// number of queues is asked for, they must have it.
pub(crate) async fn ensure_exist(
    client: &Arc<Client>,
    names: &[String],
    queues: Option<i32>,
) -> anyhow::Result<()> {
    let admin = Admin::new(Arc::clone(client));
    let masters = admin.masters(None).await?;
    let making = names.iter().map(|name| ensure_exists(&admin, &masters, name, queues));
    stream::iter(making).buffer_unordered(AT_ONCE).try_collect::<()>().await
}

async fn ensure_exists(
    admin: &Admin,
    masters: &[String],
    name: &str,
    queues: Option<i32>,
) -> anyhow::Result<()> {
    match admin.route(name).await {
        Ok(route) => {
            let found = route.data.queue_datas.iter().map(|data| data.write_queue_nums);
            if let (Some(wanted), Some(other)) =
                (queues, found.into_iter().find(|found| Some(*found) != queues))
            {
                bail!(
                    "topic {name} exists with {other} queues on a broker, not {wanted}: leave \
                     --queues out or name another --topic"
                );
            }
            return Ok(());
        }
        Err(RouteError::Unknown { .. }) => {}
        Err(error) => return Err(error.into()),
    }
    let settings =
        TopicSettings { name: name.to_owned(), queues: queues.unwrap_or(QUEUES), perm: READ_WRITE };
    for master in masters {
        admin.create_topic(master, &settings).await?;
    }
    let begun = Instant::now();
    while !admin.route(name).await.is_ok_and(|route| route.masters().count() >= masters.len()) {
        ensure!(
            begun.elapsed() < APPEARS,
            "topic {name} was made, but the name server does not list it on all brokers after {} s",
            APPEARS.as_secs()
        );
        tokio::time::sleep(PAUSE).await;
    }
    Ok(())
}

/// A queue and the offsets of its first message and behind its last one.
#[derive(Debug, Clone)]
pub(crate) struct Extent {
    /// The queue.
    pub(crate) queue: MessageQueue,
    /// Offset of the oldest message.
    pub(crate) first: i64,
    /// Offset behind the newest message.
    pub(crate) end: i64,
}

/// All readable queues of the topics.
pub(crate) async fn extents(
    puller: &PullConsumer,
    names: &[String],
) -> anyhow::Result<Vec<Extent>> {
    let mut queues = Vec::new();
    for name in names {
        queues.extend(puller.queues(name).await?);
    }
    let asking = queues.into_iter().map(|queue| async move {
        let first = puller.min_offset(&queue).await?;
        let end = puller.max_offset(&queue).await?;
        Ok::<_, client::OffsetError>(Extent { queue, first, end })
    });
    let extents = stream::iter(asking).buffer_unordered(AT_ONCE).try_collect().await;
    extents.context("offsets of the queues")
}

/// Messages that were ever put into the queues.
pub(crate) fn ends(extents: &[Extent]) -> i64 {
    extents.iter().map(|extent| extent.end).sum()
}

/// Queues on each broker of a topic that is made.
const QUEUES: i32 = 8;
/// Bits of a topic that is read and written (`PermName.java`).
const READ_WRITE: i32 = 6;
/// Topics or queues that are asked about at the same time.
const AT_ONCE: usize = 16;
/// Time in which a new topic must be listed by the name server.
const APPEARS: Duration = Duration::from_secs(30);
const PAUSE: Duration = Duration::from_millis(20);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn several_topics_are_numbered() {
        let args = |topics| TopicsArgs { topic: "T".to_owned(), topics };
        assert_eq!(names(&args(1)), ["T"]);
        assert_eq!(names(&args(3)), ["T-0", "T-1", "T-2"]);
    }
}
