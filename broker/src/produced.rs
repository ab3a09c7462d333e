//! How many messages users have put into their topics, as tools tell it of today and yesterday.
//!
//! The ends of the queues tell it, which a restart, the deletion of a topic and a change of the master
//! leave as they are: every member of a group tells the same, and what a new master tells goes on
//! where the old one was. Java counts what a broker itself has taken since its start.

use std::sync::{Mutex, PoisonError};

use protocol::name;
use store::Boundary;

use crate::{broker::Broker, stats::Mornings, topics};

const DAY_MILLIS: u64 = 86_400_000;

/// What was looked up for a day: it does not change while the day lasts.
#[derive(Debug, Default)]
pub(crate) struct Produced {
    looked_up: Mutex<Option<(u64, Mornings)>>,
}

impl Broker {
    /// Messages in topics of users, in all.
    pub(crate) fn produced(&self) -> u64 {
        self.sum_of_queues(|topic, queue| self.store.max_offset(topic, queue))
    }

    /// The same as it was at the last two midnights (UTC) before `now`. Messages that are deleted count
    /// as older. The first call of a day reads the disk.
    pub(crate) fn produced_by_morning(&self, now: u64) -> Mornings {
        let day = now / DAY_MILLIS;
        let mut looked_up =
            self.stats.produced.looked_up.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some((of, mornings)) = &*looked_up
            && *of == day
        {
            return *mornings;
        }
        let midnight = day * DAY_MILLIS;
        let mornings = Mornings {
            yesterday: self.produced_before(midnight.saturating_sub(DAY_MILLIS)),
            today: self.produced_before(midnight),
        };
        *looked_up = Some((day, mornings));
        mornings
    }

    fn produced_before(&self, time: u64) -> u64 {
        self.sum_of_queues(|topic, queue| {
            let store = &self.store;
            let end = store.max_offset(topic, queue);
            let last = end.checked_sub(1).and_then(|at| store.store_time(topic, queue, at));
            // Most queues are old or new as a whole.
            match last {
                Some(stored) if stored >= time => {
                    store.offset_by_time(topic, queue, time, Boundary::Lower)
                }
                _ => end,
            }
        })
    }

    fn sum_of_queues(&self, of_queue: impl Fn(&str, u32) -> u64) -> u64 {
        // Java keeps system topics out of the counts of days (`BrokerStats.java`). What lies in a light
        // queue lies in another one, too.
        let is_users = |topic: &str| {
            !self.topics.is_system(topic)
                && !topics::is_journal(topic)
                && !topic.starts_with(name::LMQ_PREFIX)
        };
        let of_users = self.store.queues().into_iter().filter(|(topic, _)| is_users(topic));
        of_users
            .map(|(topic, queues)| {
                queues.into_iter().map(|queue| of_queue(&topic, queue)).sum::<u64>()
            })
            .sum()
    }
}
