//! What a unit wants sent, by destination, until its host's transport has taken it.
//!
//! ```text
//!  unit ─ poll ─► Outbox { destination ─► messages in order } ─ host ─► transport
//!     ◄───────────────── emptied messages go round ◄──────────────────┘
//! ```
//! A destination that takes nothing keeps its own queue and holds up no other. Units look at the length of a queue before
//! they add to it, so none grows beyond a stated number of messages.

use std::collections::VecDeque;

use thalweg_data::Message;

use super::Address;

/// Messages on their way out of one unit.
#[derive(Debug, Default)]
pub struct Outbox {
    queues: Vec<(Address, VecDeque<Message>)>,
    spare: Vec<Message>,
}

impl Outbox {
    /// A new empty message at the end of the queue to `to`, to be filled.
    pub fn message(&mut self, to: Address) -> &mut Message {
        let message = self.spare.pop().unwrap_or_default();
        let position = match self.queues.iter().position(|(address, _)| *address == to) {
            Some(position) => position,
            None => {
                self.queues.push((to, VecDeque::new()));
                self.queues.len() - 1
            }
        };
        self.queues[position].1.push_back(message);
        self.queues[position].1.back_mut().expect("one was just put there")
    }

    /// How many messages wait for `to`.
    pub fn waiting(&self, to: Address) -> usize {
        self.queues.iter().find(|(address, _)| *address == to).map_or(0, |(_, queue)| queue.len())
    }

    /// Whether nothing waits.
    pub fn is_empty(&self) -> bool {
        self.queues.iter().all(|(_, queue)| queue.is_empty())
    }

    /// Everyone for whom something waits.
    pub fn destinations(&self) -> impl Iterator<Item = Address> + '_ {
        self.queues.iter().filter(|(_, queue)| !queue.is_empty()).map(|(address, _)| *address)
    }

    /// The oldest message for `to`, for a transport to send; call [`Outbox::sent`] when it was taken whole.
    pub fn front(&mut self, to: Address) -> Option<&mut Message> {
        self.queue(to)?.front_mut()
    }

    /// The oldest message for `to` is gone: its memory is used again.
    pub fn sent(&mut self, to: Address) {
        if let Some(message) = self.take(to) {
            self.give_back(message);
        }
    }

    /// Takes the oldest message for `to` out.
    pub fn take(&mut self, to: Address) -> Option<Message> {
        self.queue(to)?.pop_front()
    }

    /// Gives a message back to be used again.
    pub fn give_back(&mut self, mut message: Message) {
        const MOST_SPARE: usize = 64;
        message.clear();
        if self.spare.len() < MOST_SPARE {
            self.spare.push(message);
        }
    }

    /// The connection to `to` is gone, and with it what waited.
    pub fn forget(&mut self, to: Address) {
        while let Some(message) = self.take(to) {
            self.give_back(message);
        }
    }

    fn queue(&mut self, to: Address) -> Option<&mut VecDeque<Message>> {
        self.queues.iter_mut().find(|(address, _)| *address == to).map(|(_, queue)| queue)
    }
}

#[cfg(test)]
mod tests {
    use thalweg_data::UnitId;

    use super::*;

    #[test]
    fn each_destination_has_its_own_order() {
        let mut outbox = Outbox::default();
        outbox.message(Address::Builder(UnitId(0))).head.push(1);
        outbox.message(Address::Builder(UnitId(1))).head.push(2);
        outbox.message(Address::Builder(UnitId(0))).head.push(3);
        assert_eq!(outbox.waiting(Address::Builder(UnitId(0))), 2);
        outbox.sent(Address::Builder(UnitId(0)));
        assert_eq!(
            outbox.front(Address::Builder(UnitId(0))).map(|message| message.head.clone()),
            Some(vec![3])
        );
        outbox.forget(Address::Builder(UnitId(0)));
        assert_eq!(outbox.destinations().collect::<Vec<_>>(), [Address::Builder(UnitId(1))]);
        assert!(outbox.message(Address::Manager).head.is_empty());
    }
}
