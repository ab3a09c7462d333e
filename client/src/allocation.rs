//! Which queues of a topic belong to which member of a group.

use protocol::body::MessageQueue;

/// The share of `me` of `queues` among `members`, as `AllocateMessageQueueAveragely.java` deals
/// them: sorted queues in consecutive runs, one more to each of the first members where they do
/// not come out even.
///
/// Java's members of the group compute the same, so that every queue has exactly one member. A
/// member that is not in the list gets nothing.
pub(crate) fn average(
    mut queues: Vec<MessageQueue>,
    mut members: Vec<String>,
    me: &str,
) -> Vec<MessageQueue> {
    queues.sort_by(|a, b| {
        (&a.topic, &a.broker_name, a.queue_id).cmp(&(&b.topic, &b.broker_name, b.queue_id))
    });
    members.sort();
    members.dedup();
    let Some(index) = members.iter().position(|member| member == me) else {
        return Vec::new();
    };
    let (share, rest) = (queues.len() / members.len(), queues.len() % members.len());
    let begin = index * share + index.min(rest);
    let length = share + usize::from(index < rest);
    queues.into_iter().skip(begin).take(length).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn queues(count: i32) -> Vec<MessageQueue> {
        // Given in the wrong order: the members see them in different orders.
        (0..count)
            .rev()
            .map(|queue_id| MessageQueue {
                topic: "T".to_owned(),
                broker_name: "b".to_owned(),
                queue_id,
            })
            .collect()
    }

    fn members(count: usize) -> Vec<String> {
        (0..count).map(|n| format!("m{n}")).rev().collect()
    }

    fn share(queue_count: i32, member_count: usize, me: usize) -> Vec<i32> {
        average(queues(queue_count), members(member_count), &format!("m{me}"))
            .iter()
            .map(|queue| queue.queue_id)
            .collect()
    }

    #[test]
    fn queues_are_dealt_in_runs() {
        assert_eq!(share(8, 3, 0), [0, 1, 2]);
        assert_eq!(share(8, 3, 1), [3, 4, 5]);
        assert_eq!(share(8, 3, 2), [6, 7]);
        assert_eq!(share(4, 1, 0), [0, 1, 2, 3]);
        assert_eq!(share(1, 2, 0), [0]);
        assert_eq!(share(1, 2, 1), [] as [i32; 0]);
    }

    #[test]
    fn every_queue_has_exactly_one_member() {
        for queue_count in 0..20 {
            for member_count in 1..10 {
                let all: Vec<i32> =
                    (0..member_count).flat_map(|me| share(queue_count, member_count, me)).collect();
                assert_eq!(all, (0..queue_count).collect::<Vec<_>>());
            }
        }
    }

    #[test]
    fn a_stranger_gets_nothing() {
        assert_eq!(share(4, 2, 7), [] as [i32; 0]);
        assert!(average(queues(4), Vec::new(), "m0").is_empty());
    }
}
