//! A fair queue for the packets to a target: clients with few packets go first, the others take turns.
//!
//! ```text
//!  client ─► its own queue ─┬─ was empty ──► fresh ──┐
//!                           └─ was not ────► steady ─┴─► the next: fresh first, one packet, then to the end of steady
//! ```
//! A single word never waits for another client's whole block. Source: FQ-CoDel (RFC 8290, section 4.2), counting packets instead of
//! bytes.

use std::collections::{HashMap, VecDeque};

use super::client::ClientKey;

/// Packets that wait for a target, by client.
#[derive(Debug)]
pub(super) struct FairQueue<T> {
    waiting: HashMap<ClientKey, VecDeque<T>>,
    fresh: VecDeque<ClientKey>,
    steady: VecDeque<ClientKey>,
    count: usize,
}

impl<T> Default for FairQueue<T> {
    fn default() -> FairQueue<T> {
        FairQueue { waiting: HashMap::new(), fresh: VecDeque::new(), steady: VecDeque::new(), count: 0 }
    }
}

impl<T> FairQueue<T> {
    pub(super) fn push(&mut self, client: ClientKey, one: T) {
        let queue = self.waiting.entry(client).or_insert_with(|| {
            self.fresh.push_back(client);
            VecDeque::new()
        });
        queue.push_back(one);
        self.count += 1;
    }

    /// Puts a packet that was in flight before all others.
    pub(super) fn push_front(&mut self, client: ClientKey, one: T) {
        let queue = self.waiting.entry(client).or_insert_with(|| {
            self.steady.push_front(client);
            VecDeque::new()
        });
        queue.push_front(one);
        self.count += 1;
    }

    pub(super) fn len(&self) -> usize {
        self.count
    }

    pub(super) fn is_empty(&self) -> bool {
        self.count == 0
    }

    pub(super) fn pop(&mut self) -> Option<T> {
        while let Some(client) = self.fresh.pop_front().or_else(|| self.steady.pop_front()) {
            let Some(queue) = self.waiting.get_mut(&client) else { continue };
            let one = queue.pop_front();
            match one.is_some() {
                // The client stays in the rotation although its queue may be empty: if it asks again at once, it is not fresh.
                true => self.steady.push_back(client),
                false => drop(self.waiting.remove(&client)),
            }
            if one.is_some() {
                self.count -= 1;
                return one;
            }
        }
        None
    }

    /// Removes all packets.
    pub(super) fn drain(&mut self) -> impl Iterator<Item = T> {
        self.fresh.clear();
        self.steady.clear();
        self.count = 0;
        std::mem::take(&mut self.waiting).into_values().flatten()
    }

    /// Removes the packets of a client that disconnected.
    pub(super) fn forget(&mut self, client: ClientKey) -> impl Iterator<Item = T> {
        let gone = self.waiting.remove(&client).unwrap_or_default();
        self.count -= gone.len();
        gone.into_iter()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn clients_with_few_packets_go_first_and_the_others_take_turns() {
        let keys: Vec<ClientKey> = (0..3).map(ClientKey::of_slot).collect();
        let mut queue = FairQueue::default();
        for packet in 0..4 {
            queue.push(keys[0], (0, packet));
            queue.push(keys[1], (1, packet));
        }
        assert_eq!((queue.pop(), queue.pop(), queue.pop()), (Some((0, 0)), Some((1, 0)), Some((0, 1))));
        queue.push(keys[2], (2, 0));
        assert_eq!((queue.pop(), queue.pop()), (Some((2, 0)), Some((1, 1))), "its queue was empty");
        queue.push(keys[2], (2, 1));
        assert_eq!(
            (queue.pop(), queue.pop(), queue.pop()),
            (Some((0, 2)), Some((2, 1)), Some((1, 2))),
            "now it takes turns"
        );
        assert_eq!(queue.forget(keys[0]).collect::<Vec<_>>(), [(0, 3)]);
        queue.push_front(keys[1], (1, 9));
        assert_eq!((queue.pop(), queue.pop(), queue.pop()), (Some((1, 9)), Some((1, 3)), None));
        assert!(queue.is_empty());
        queue.push(keys[0], (0, 5));
        assert_eq!(queue.drain().collect::<Vec<_>>(), [(0, 5)]);
        assert!(queue.is_empty());
    }
}
