//! An emulated device, which behaves like firmware. No socket and no clock.
//!
//! ```text
//!  datagram ─► Device ─► unnumbered, or the next expected id? ─► transactions on the Bus ─► reply, kept for a resend
//!                 │ status ─► buffers and next expected packet id
//!                 └ resend ─► the kept reply, if it is still there
//!  registers ─► Registers: memory, and addresses with behaviour: counter, FIFO, self-clearing, read-only, refusing
//! ```
//! Invalid packets, and numbered packets other than the expected one, are not answered, so a repeated request is never done twice.

#[cfg(any(test, feature = "harness"))]
mod check;
mod registers;
mod server;
#[cfg(test)]
mod tests;

use std::collections::VecDeque;

#[cfg(any(test, feature = "harness"))]
pub use check::check;
pub use registers::{Behaviour, Registers};
pub use server::{DeviceServer, ServeError};

use crate::wire::{
    Control, Header, Info, MOST_WORDS, Operation, Packet, ReplyPacket, Request, Requests, Status, WORD_BYTES,
    WireError,
};

/// Why a bus access failed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BusFault {
    /// A bus error.
    Error,
    /// A bus timeout: nothing answered.
    Timeout,
}

/// The bus that a device does its transactions on.
pub trait Bus {
    /// Reads a word.
    ///
    /// # Errors
    /// When the read fails.
    fn read(&mut self, address: u32) -> Result<u32, BusFault>;

    /// Writes a word.
    ///
    /// # Errors
    /// When the write fails.
    fn write(&mut self, address: u32, word: u32) -> Result<(), BusFault>;

    /// Reads words from consecutive addresses, as [`Bus::read`] would one by one.
    ///
    /// # Errors
    /// When the read of a word fails; the number is that of the words before it.
    fn read_block(&mut self, address: u32, words: &mut [u32]) -> Result<(), (usize, BusFault)> {
        each(words, |index, word| {
            *word = self.read(address.wrapping_add(index))?;
            Ok(())
        })
    }

    /// Writes words to consecutive addresses, as [`Bus::write`] would one by one.
    ///
    /// # Errors
    /// When the write of a word fails; the number is that of the words before it.
    fn write_block(&mut self, address: u32, words: &[u32]) -> Result<(), (usize, BusFault)> {
        each(words, |index, word| self.write(address.wrapping_add(index), *word))
    }

    /// Reads a word of the configuration address space. The default is a device without one.
    ///
    /// # Errors
    /// When the address does not exist.
    fn read_configuration(&mut self, address: u32) -> Result<u32, BusFault> {
        let _ = address;
        Err(BusFault::Error)
    }

    /// Writes a word of the configuration address space. The default is a device without one.
    ///
    /// # Errors
    /// When the address does not exist.
    fn write_configuration(&mut self, address: u32, word: u32) -> Result<(), BusFault> {
        let _ = (address, word);
        Err(BusFault::Error)
    }
}

/// Does one word after another. On a fault, returns how many were done before it.
fn each<T>(
    words: impl IntoIterator<Item = T>,
    mut one: impl FnMut(u32, T) -> Result<(), BusFault>,
) -> Result<(), (usize, BusFault)> {
    for (index, word) in words.into_iter().enumerate() {
        one(index as u32, word).map_err(|fault| (index, fault))?;
    }
    Ok(())
}

/// The packet buffers of a device.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Buffers {
    /// Number of replies that it keeps, and so of packets that may be in flight.
    pub count: u32,
    /// Size of each buffer in bytes: the longest request and the longest reply.
    pub bytes: u32,
}

impl Default for Buffers {
    /// The buffers of the reference firmware.
    fn default() -> Buffers {
        Buffers { count: 4, bytes: 2040 }
    }
}

/// Packet counters of a device.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct DeviceCounts {
    /// Control packets that were done.
    pub done: u64,
    /// Control packets out of sequence, which were not answered.
    pub out_of_turn: u64,
    /// Status requests that were answered.
    pub statuses: u64,
    /// Replies that were resent.
    pub resent: u64,
    /// Resend requests for replies that were not kept.
    pub forgotten: u64,
    /// Datagrams that are invalid or too long.
    pub refused: u64,
}

/// Event codes: the low nibbles of the history bytes in a status packet.
mod event {
    pub const RESET: u8 = 1;
    pub const CONTROL: u8 = 2;
    pub const STATUS: u8 = 3;
    pub const RESEND: u8 = 4;
    pub const BAD: u8 = 5;
}

/// An emulated device.
#[derive(Clone, Debug)]
pub struct Device<B> {
    bus: B,
    buffers: Buffers,
    next_id: u16,
    /// The latest replies to numbered packets, the oldest first.
    kept: VecDeque<(u16, Vec<u8>)>,
    history: [u8; 16],
    received: [u32; 4],
    sent: [u32; 4],
    counts: DeviceCounts,
}

/// Appends an entry and drops the oldest.
fn shift<T: Copy, const N: usize>(entries: &mut [T; N], latest: T) {
    entries.rotate_left(1);
    entries[N - 1] = latest;
}

impl<B: Bus> Device<B> {
    /// A device that was just powered on.
    pub fn new(bus: B, buffers: Buffers) -> Device<B> {
        let mut device = Device {
            bus,
            buffers,
            next_id: 1,
            kept: VecDeque::new(),
            history: [0; 16],
            received: [0; 4],
            sent: [0; 4],
            counts: DeviceCounts::default(),
        };
        device.reboot();
        device
    }

    /// Clears kept replies, sequence and history, as a reset does. The bus keeps its state.
    pub fn reboot(&mut self) {
        self.next_id = 1;
        self.kept.clear();
        (self.history, self.received, self.sent) = ([0; 16], [0; 4], [0; 4]);
        shift(&mut self.history, event::RESET);
    }

    /// Its bus.
    pub fn bus_mut(&mut self) -> &mut B {
        &mut self.bus
    }

    /// Its packet counters.
    pub fn counts(&self) -> DeviceCounts {
        self.counts
    }

    /// Handles a packet, and replaces the content of `reply` with the answer. Returns whether there is one.
    pub fn answer(&mut self, bytes: &[u8], reply: &mut Vec<u8>) -> bool {
        reply.clear();
        let packet = match bytes.len() <= self.buffers.bytes as usize {
            true => Packet::check(bytes),
            false => Err(WireError::Length {
                found: bytes.len(),
                least: WORD_BYTES,
                most: self.buffers.bytes as usize,
            }),
        };
        match packet {
            Ok(Packet::Control(control)) => self.control(control, reply),
            Ok(Packet::Status(_)) => {
                shift(&mut self.history, event::STATUS);
                self.counts.statuses += 1;
                reply.extend(self.status().bytes());
            }
            Ok(Packet::Resend(id)) => {
                shift(&mut self.history, event::RESEND);
                self.resend(id, reply);
            }
            Err(_) => {
                shift(&mut self.history, event::BAD);
                self.counts.refused += 1;
            }
        }
        !reply.is_empty()
    }

    /// The status that it reports.
    pub fn status(&self) -> Status {
        Status {
            buffer_bytes: self.buffers.bytes,
            buffers: self.buffers.count,
            next_id: self.next_id,
            history: self.history,
            received: self.received,
            sent: self.sent,
        }
    }

    fn resend(&mut self, id: u16, reply: &mut Vec<u8>) {
        match self.kept.iter().find(|(kept, _)| *kept == id) {
            Some((_, kept)) => {
                reply.extend(kept);
                self.counts.resent += 1;
            }
            None => self.counts.forgotten += 1,
        }
    }

    fn control(&mut self, control: Control<'_>, reply: &mut Vec<u8>) {
        shift(&mut self.history, event::CONTROL);
        let header = Header::control(control.id).word();
        shift(&mut self.received, header);
        if control.id != 0 && control.id != self.next_id {
            self.counts.out_of_turn += 1;
            return;
        }
        self.counts.done += 1;
        let most = self.buffers.bytes as usize;
        let mut packet = ReplyPacket::begin(control.id, control.body.order(), reply);
        for request in Requests::of(control) {
            if !transact(&mut self.bus, request, most, &mut packet) {
                break;
            }
        }
        shift(&mut self.sent, header);
        if control.id != 0 {
            self.next_id = Header::id_behind(control.id);
            // When all buffers are in use, the buffer of the oldest reply is used again.
            let is_full = self.kept.len() == self.buffers.count.max(1) as usize;
            let oldest = if is_full { self.kept.pop_front() } else { None };
            let mut kept = oldest.map(|(_, kept)| kept).unwrap_or_default();
            kept.clone_from(reply);
            self.kept.push_back((control.id, kept));
        }
    }
}

/// Does one transaction. Returns whether the next one is to be done.
fn transact(
    bus: &mut impl Bus,
    request: Result<Request<'_>, WireError>,
    most_bytes: usize,
    packet: &mut ReplyPacket<'_>,
) -> bool {
    let capacity = (most_bytes / WORD_BYTES).saturating_sub(packet.byte_count() / WORD_BYTES);
    let request = match request {
        Ok(request) => request,
        Err(WireError::Transaction { header, .. } | WireError::Cut { header, .. }) if capacity > 0 => {
            // The reply repeats the invalid header, with an error code in place of the request code.
            let position = packet.open();
            packet.end_as(position, header & !0xF | u32::from(Info::BadHeader.code()));
            return false;
        }
        Err(_) => return false,
    };
    if capacity < 1 + request.operation.reply_words(request.words.into()) {
        return false;
    }
    let position = packet.open();
    let (done, info) = execute(bus, &request, packet);
    packet.end(position, request.replied(done, info));
    info == Info::Success
}

/// Does one request. Returns how many of its words were done, and the result.
fn execute(bus: &mut impl Bus, request: &Request<'_>, packet: &mut ReplyPacket<'_>) -> (u8, Info) {
    let (address, mut block) = (request.address, [0; MOST_WORDS]);
    let words = &mut block[..usize::from(request.words)];
    let result = match request.operation {
        Operation::Read => {
            let result = bus.read_block(address, words);
            let read = result.map_or_else(|(read, _)| read, |()| words.len());
            packet.words(&words[..read]);
            result
        }
        Operation::Write => {
            request.data.copy_to(words);
            bus.write_block(address, words)
        }
        _ => execute_each(bus, request, packet),
    };
    match result {
        Ok(()) => (request.words, Info::Success),
        Err((done, fault)) => (done as u8, info_of(fault, request.operation)),
    }
}

/// Does one request word by word, at one address.
fn execute_each(
    bus: &mut impl Bus,
    request: &Request<'_>,
    packet: &mut ReplyPacket<'_>,
) -> Result<(), (usize, BusFault)> {
    let address = request.address;
    let data = |index: usize| request.data.get(index).unwrap_or_default();
    for index in 0..usize::from(request.words) {
        let done = match request.operation {
            Operation::Read | Operation::ReadFifo => bus.read(address).map(|word| packet.word(word)),
            Operation::ReadConfiguration => bus.read_configuration(address).map(|word| packet.word(word)),
            Operation::Write | Operation::WriteFifo => bus.write(address, data(index)),
            Operation::WriteConfiguration => bus.write_configuration(address, data(index)),
            Operation::ChangeBits => change(bus, address, packet, |old| old & data(0) | data(1)),
            Operation::Add => change(bus, address, packet, |old| old.wrapping_add(data(0))),
        };
        done.map_err(|fault| (index, fault))?;
    }
    Ok(())
}

fn change(
    bus: &mut impl Bus,
    address: u32,
    packet: &mut ReplyPacket<'_>,
    new: impl Fn(u32) -> u32,
) -> Result<(), BusFault> {
    let old = bus.read(address)?;
    bus.write(address, new(old))?;
    packet.word(old);
    Ok(())
}

fn info_of(fault: BusFault, operation: Operation) -> Info {
    let reads = operation.reply_words(1) > 0;
    match (fault, reads) {
        (BusFault::Error, true) => Info::ErrorOnRead,
        (BusFault::Error, false) => Info::ErrorOnWrite,
        (BusFault::Timeout, true) => Info::TimeoutOnRead,
        (BusFault::Timeout, false) => Info::TimeoutOnWrite,
    }
}
