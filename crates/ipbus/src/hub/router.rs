//! The hub without its sockets and clock.
//!
//! ```text
//!  bytes of clients ─► ClientSide ─ chunks, rules ─► TargetSide ─► datagrams
//!  datagrams ─► TargetSide ─ replies ─► ClientSide, in the order of the requests ─► bytes
//! ```

use std::collections::{BTreeMap, HashMap};
use std::net::{IpAddr, SocketAddr};
use std::time::{Duration, Instant};

use super::client::{ClientKey, ClientSide, MOST_UNSENT_BYTES, Ticket};
use super::counts::{ClientCounts, ClientState, HubState, MOST_ADDRESSES};
use super::rules::Rules;
use super::target::{Demand, TargetSide};
use crate::wire::{HubCode, HubRequest, Packet, Requests, Target, WORD_BYTES, WireError};

/// Most targets served at the same time.
const MOST_TARGETS: usize = 1024;
/// How long a target may be idle before it is closed.
const IDLE: Duration = Duration::from_secs(60);

/// All clients and all targets.
#[derive(Debug)]
pub(super) struct Router {
    rules: Rules,
    timeout: Duration,
    /// By slot: the generation, and the client if there is one.
    clients: Vec<(u32, Option<ClientSide>)>,
    targets: Vec<Option<TargetSide>>,
    by_target: HashMap<Target, usize>,
    /// Counters of clients that disconnected, by address.
    gone: BTreeMap<Option<IpAddr>, ClientCounts>,
    pub(super) broken: u64,
    pub(super) turned_away: u64,
}

impl Router {
    pub(super) fn new(rules: Rules, timeout: Duration) -> Router {
        Router {
            rules,
            timeout,
            clients: Vec::new(),
            targets: Vec::new(),
            by_target: HashMap::new(),
            gone: BTreeMap::new(),
            broken: 0,
            turned_away: 0,
        }
    }

    /// Adds a client. Returns its slot.
    pub(super) fn open(&mut self, peer: SocketAddr) -> usize {
        let free = self.clients.iter().position(|(_, side)| side.is_none());
        let slot = free.unwrap_or_else(|| {
            self.clients.push((0, None));
            self.clients.len() - 1
        });
        self.clients[slot].1 = Some(ClientSide::new(peer));
        slot
    }

    pub(super) fn client(&mut self, slot: usize) -> Option<&mut ClientSide> {
        self.clients.get_mut(slot)?.1.as_mut()
    }

    pub(super) fn clients(&self) -> impl Iterator<Item = &ClientSide> {
        self.clients.iter().filter_map(|(_, side)| side.as_ref())
    }

    pub(super) fn target(&mut self, slot: usize) -> Option<&mut TargetSide> {
        self.targets.get_mut(slot)?.as_mut()
    }

    /// Removes a client that disconnected.
    pub(super) fn close(&mut self, slot: usize) {
        let Some((generation, side)) = self.clients.get_mut(slot) else { return };
        let key = ClientKey { slot: slot as u32, generation: *generation };
        *generation = generation.wrapping_add(1);
        let Some(side) = side.take() else { return };
        self.targets.iter_mut().flatten().for_each(|target| target.forget(key));
        let mut counts = side.replies.counts;
        counts.abandoned += side.replies.owed() as u64;
        let address = Some(side.peer.ip());
        let is_known = self.gone.len() < MOST_ADDRESSES || self.gone.contains_key(&address);
        self.gone.entry(address.filter(|_| is_known)).or_default().add(&counts);
    }

    /// Takes the next chunk that a client sent. Returns whether there was one; adds its target to `touched`.
    ///
    /// # Errors
    /// When the client sent invalid data: its connection is to be closed.
    pub(super) fn take_chunk(
        &mut self,
        slot: usize,
        now: Instant,
        touched: &mut Vec<usize>,
    ) -> Result<bool, WireError> {
        let Some((generation, Some(side))) = self.clients.get_mut(slot) else { return Ok(false) };
        if !side.replies.accepts_more() {
            return Ok(false);
        }
        let key = ClientKey { slot: slot as u32, generation: *generation };
        let Some(chunk) = side.chunks.take()? else { return Ok(false) };
        let request = HubRequest::check(chunk)?;
        let target = request.target;
        let mut ticket = side.replies.owe(key, target, request.items().count());
        let found = match self.rules.serves(target) {
            false => Err(HubCode::NotAllowed),
            true => slot_of(&mut self.targets, &mut self.by_target, target, self.timeout, now),
        };
        let mut served = found.and_then(|at| self.targets[at].as_mut().ok_or(HubCode::HubTimeout));
        // The replies to a chunk are kept until all are there. Behind a packet that asks for too many bytes, all others are refused, too.
        let mut reply_bytes = 0;
        let mut fits = |demand: Demand| {
            reply_bytes += demand.reply_bytes;
            if reply_bytes <= MOST_UNSENT_BYTES { Ok(demand) } else { Err(HubCode::NotAllowed) }
        };
        for packet in request.items() {
            let refused = match &mut served {
                Err(code) => Some(*code),
                Ok(served) => match judge(&self.rules, side.peer.ip(), target, packet).and_then(&mut fits) {
                    Ok(demand) => {
                        served.push(ticket, packet, demand, now);
                        None
                    }
                    Err(code) => {
                        served.refuse(code);
                        Some(code)
                    }
                },
            };
            if let Some(code) = refused {
                side.replies.reply(ticket, code, &[]);
            }
            ticket = ticket.next();
        }
        touched.extend(found.ok());
        Ok(true)
    }

    /// The next datagram for a target; adds clients with packets that the target has no buffer for to `touched`.
    pub(super) fn transmit(&mut self, slot: usize, now: Instant, touched: &mut Vec<usize>) -> Option<&[u8]> {
        let Router { clients, targets, .. } = self;
        targets
            .get_mut(slot)?
            .as_mut()?
            .transmit(now, &mut |ticket, code, packet| deliver(clients, ticket, code, packet, touched))
    }

    /// Handles a datagram from a target; adds the clients that it has replies for to `touched`.
    pub(super) fn receive(&mut self, slot: usize, bytes: &mut [u8], now: Instant, touched: &mut Vec<usize>) {
        let Router { clients, targets, .. } = self;
        if let Some(Some(target)) = targets.get_mut(slot) {
            target.receive(bytes, now, &mut |ticket, code, packet| {
                deliver(clients, ticket, code, packet, touched)
            });
        }
    }

    /// When [`Router::expire`] has to be called.
    pub(super) fn deadline(&self) -> Option<Instant> {
        self.targets.iter().flatten().filter_map(TargetSide::deadline).min()
    }

    /// Handles timeouts; adds targets that have packets to send to `due`, and clients that have replies to `touched`.
    pub(super) fn expire(&mut self, now: Instant, due: &mut Vec<usize>, touched: &mut Vec<usize>) {
        let Router { clients, targets, .. } = self;
        for (slot, target) in targets.iter_mut().enumerate() {
            let Some(target) = target else { continue };
            if target.deadline().is_some_and(|deadline| deadline <= now) {
                target
                    .expire(now, &mut |ticket, code, packet| deliver(clients, ticket, code, packet, touched));
                due.push(slot);
            }
        }
    }

    /// Closes idle targets. Returns their slots.
    pub(super) fn sweep(&mut self, now: Instant) -> Vec<usize> {
        let idle =
            |target: &Option<TargetSide>| target.as_ref().is_some_and(|target| target.is_idle(now, IDLE));
        let slots: Vec<usize> = (0..self.targets.len()).filter(|slot| idle(&self.targets[*slot])).collect();
        for slot in &slots {
            if let Some(target) = self.targets[*slot].take() {
                self.by_target.remove(&target.target);
            }
        }
        slots
    }

    /// Whether all requests are answered.
    pub(super) fn is_served(&self) -> bool {
        self.clients().all(|side| side.replies.is_empty())
    }

    pub(super) fn state(&self, is_ending: bool) -> HubState {
        let mut clients: BTreeMap<Option<IpAddr>, (usize, ClientCounts)> =
            self.gone.iter().map(|(address, counts)| (*address, (0, *counts))).collect();
        for side in self.clients() {
            let address = Some(side.peer.ip());
            let is_known = clients.len() < MOST_ADDRESSES || clients.contains_key(&address);
            let (connections, counts) = clients.entry(address.filter(|_| is_known)).or_default();
            *connections += 1;
            counts.add(&side.replies.counts);
        }
        let mut targets: Vec<_> = self.targets.iter().flatten().map(TargetSide::state).collect();
        targets.sort_by_key(|state| state.target);
        let clients = clients.into_iter().map(|(address, (connections, counts))| ClientState {
            address,
            connections,
            counts,
        });
        HubState {
            clients: clients.collect(),
            targets,
            broken: self.broken,
            turned_away: self.turned_away,
            is_ending,
        }
    }
}

/// Gives a reply or an error code to its client, if that is still connected.
fn deliver(
    clients: &mut [(u32, Option<ClientSide>)],
    ticket: Ticket,
    code: HubCode,
    packet: &[u8],
    touched: &mut Vec<usize>,
) {
    let slot = ticket.client.slot as usize;
    if let Some((generation, Some(side))) = clients.get_mut(slot)
        && *generation == ticket.client.generation
    {
        side.replies.reply(ticket, code, packet);
        touched.push(slot);
    }
}

/// The slot of a target; opens the target if necessary.
fn slot_of(
    targets: &mut Vec<Option<TargetSide>>,
    by_target: &mut HashMap<Target, usize>,
    target: Target,
    timeout: Duration,
    now: Instant,
) -> Result<usize, HubCode> {
    if let Some(slot) = by_target.get(&target) {
        return Ok(*slot);
    }
    let free = targets.iter().position(Option::is_none);
    let slot = match free {
        Some(slot) => slot,
        None if targets.len() < MOST_TARGETS => {
            targets.push(None);
            targets.len() - 1
        }
        None => return Err(HubCode::HubTimeout),
    };
    targets[slot] = Some(TargetSide::new(target, timeout, now));
    by_target.insert(target, slot);
    Ok(slot)
}

/// Checks whether a packet may be sent to its target. Returns what it asks of it.
fn judge(rules: &Rules, client: IpAddr, target: Target, packet: &[u8]) -> Result<Demand, HubCode> {
    let control = Packet::check(packet).and_then(Packet::control).map_err(|_| HubCode::WrongVersion)?;
    let mut demand = Demand { is_safe: true, reply_bytes: WORD_BYTES };
    for request in Requests::of(control) {
        // The target reports an invalid transaction itself, and does none after it.
        let Ok(request) = request else { break };
        demand.is_safe &= !request.operation.changes();
        demand.reply_bytes += WORD_BYTES * (1 + request.operation.reply_words(request.words.into()));
        if !rules.rules.is_empty() && !rules.allows(client, target, &request) {
            return Err(HubCode::NotAllowed);
        }
    }
    Ok(demand)
}
