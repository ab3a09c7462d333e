//! Messages on their way between the members.

use dledger_core::Message;

use super::{Asked, Happening, Postmark, World};
use crate::{
    network::MEMBERS_MAX,
    process::{Incoming, Parcel, Process},
};

/// The numbers of messages, and of each link that of the last one that was heard.
#[derive(Debug, Default)]
pub(super) struct InOrder {
    sent: u64,
    heard: [[u64; MEMBERS_MAX]; MEMBERS_MAX],
}

impl InOrder {
    /// The number of the next message.
    pub(super) fn number(&mut self) -> u64 {
        self.sent += 1;
        self.sent
    }

    /// Whether a later one of the same link was heard before.
    fn hears(&mut self, from: usize, to: usize, number: u64) -> bool {
        let last = self.heard.get_mut(from).and_then(|row| row.get_mut(to));
        last.is_none_or(|last| {
            let in_order = number >= *last;
            *last = number.max(*last);
            in_order
        })
    }
}

impl<P: Process> World<P> {
    pub(super) fn arrive(&mut self, from: usize, parcel: Parcel, mark: Postmark) {
        let to = parcel.to;
        let Some(slot) = self.slots.get(to) else { return };
        if slot.process.is_none() || mark.to.is_some_and(|life| life != slot.life) {
            return;
        }
        if slot.frozen_until > self.now {
            let (at, parcel) = (slot.frozen_until, Box::new(parcel));
            self.schedule.plan(at, Happening::Arrive { from, parcel, mark });
            return;
        }
        if self.was_overtaken(from, to, mark.number) {
            return;
        }
        self.note(3, from * 8 + to);
        self.trace.line(
            self.now,
            format_args!("n{from} -> n{to} {:?} {} bytes", parcel.message, parcel.entries.len()),
        );
        let call = parcel.call.unwrap_or_else(|| {
            let known = match &parcel.message {
                Message::Push(push) => push.known,
                _ => None,
            };
            self.calls.push(Asked { life: mark.by, known });
            self.calls.len() as u64
        });
        let Parcel { message, entries, .. } = parcel;
        self.step(to, Incoming::Message { from, call, message, entries });
    }

    pub(super) fn send_all(&mut self, member: usize) {
        loop {
            let Some(slot) = self.slots.get_mut(member) else { return };
            let Some(mut parcel) = slot.process.as_mut().and_then(Process::poll_send) else {
                return;
            };
            self.look_at_message(member, &parcel);
            let asked = parcel.call.map(|call| self.asked(call));
            if let Message::PushReply(reply) = &mut parcel.message {
                reply.known = asked.and_then(|asked| asked.known);
            }
            let by = self.slots.get(member).map_or(0, |slot| slot.life);
            let to = asked.map(|asked| asked.life);
            let arrivals = self.network.send(self.now, member, parcel.to);
            let mark = Postmark { by, to, number: self.in_order.number() };
            for at in [arrivals.second, arrivals.first].into_iter().flatten() {
                let parcel = Box::new(parcel.clone());
                self.schedule.plan(at, Happening::Arrive { from: member, parcel, mark });
            }
        }
    }

    fn asked(&self, call: u64) -> Asked {
        let place = call.checked_sub(1).and_then(|call| usize::try_from(call).ok());
        let asked = place.and_then(|place| self.calls.get(place));
        asked.copied().unwrap_or(Asked { life: 0, known: None })
    }

    /// Beside the model of Java's nothing overtakes what was sent before it: what is late, as it waited
    /// for a member that was frozen twice or came by a connection that is closed, is lost.
    fn was_overtaken(&mut self, from: usize, to: usize, number: u64) -> bool {
        self.plan.java.has_models() && !self.in_order.hears(from, to, number)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_overtaken_is_told() {
        let mut order = InOrder::default();
        let (first, second, third) = (order.number(), order.number(), order.number());
        assert!(order.hears(0, 1, second));
        assert!(order.hears(0, 1, second), "it came twice");
        assert!(!order.hears(0, 1, first));
        assert!(order.hears(1, 0, first), "another link");
        assert!(order.hears(0, 1, third));
    }
}
