//! Requests: what a client asks of the bus.
//!
//! ```text
//!  RequestPacket: read, write, change … ─► bytes of one packet
//!  Control ─► Requests ─► Request { operation, address, words, data }, until the end or the first that cannot be
//! ```

use super::WireError;
use super::packet::{Control, Header};
use super::transaction::{Info, MOST_WORDS, Operation, TransactionHeader};
use super::words::{ByteOrder, Words};

/// One transaction that is asked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Request<'a> {
    /// The client's number of it.
    pub id: u16,
    /// What is to be done.
    pub operation: Operation,
    /// Where.
    pub address: u32,
    /// Words on the bus.
    pub words: u8,
    /// What is written; of `ChangeBits` what to keep and what to set, of `Add` what to add.
    pub data: Words<'a>,
}

impl Request<'_> {
    /// The header of the reply to it.
    pub const fn replied(&self, words: u8, info: Info) -> TransactionHeader {
        TransactionHeader { id: self.id, words, operation: self.operation, info }
    }
}

/// The requests of a packet, one behind the other.
#[derive(Clone, Debug)]
pub struct Requests<'a> {
    rest: Words<'a>,
}

impl<'a> Requests<'a> {
    /// Those of a control packet.
    pub const fn of(control: Control<'a>) -> Requests<'a> {
        Requests { rest: control.body }
    }

    fn request(&mut self, first: u32) -> Result<Request<'a>, WireError> {
        let header = TransactionHeader::of_word(first)?;
        if header.info != Info::Request {
            return Err(WireError::Transaction {
                header: first,
                reason: "it is no request, whose last four bits are set",
            });
        }
        let one = matches!(header.operation, Operation::ChangeBits | Operation::Add);
        if one && header.words != 1 {
            return Err(WireError::Transaction {
                header: first,
                reason: "it changes one word, and says otherwise",
            });
        }
        let promised = header.operation.request_words(header.words.into());
        let cut = WireError::Cut { header: first, promised, found: self.rest.len() - 1 };
        let (own, rest) = self.rest.split_at(1 + promised).ok_or(cut)?;
        self.rest = rest;
        let data = own.split_at(2).map_or(Words::none(), |(_, data)| data);
        let address = own.get(1).unwrap_or_default();
        Ok(Request { id: header.id, operation: header.operation, address, words: header.words, data })
    }
}

impl<'a> Iterator for Requests<'a> {
    type Item = Result<Request<'a>, WireError>;

    /// Behind one that cannot be, nothing can be distinguished from anything else.
    fn next(&mut self) -> Option<Self::Item> {
        let first = self.rest.get(0)?;
        let request = self.request(first);
        if request.is_err() {
            self.rest = Words::none();
        }
        Some(request)
    }
}

/// A packet of requests as it is made, in this machine's byte order or another.
#[derive(Debug)]
pub struct RequestPacket<'v> {
    bytes: &'v mut Vec<u8>,
    order: ByteOrder,
}

impl<'v> RequestPacket<'v> {
    /// Begins a packet of this number behind what is in `bytes`.
    pub fn begin(id: u16, order: ByteOrder, bytes: &'v mut Vec<u8>) -> RequestPacket<'v> {
        order.append(&[Header::control(id).word()], bytes);
        RequestPacket { bytes, order }
    }

    fn transaction(&mut self, id: u16, operation: Operation, words: usize, address: u32) {
        debug_assert!(words <= MOST_WORDS, "{words} words in one transaction");
        let header = TransactionHeader::request(id, operation, words as u8);
        self.order.append(&[header.word(), address], self.bytes);
    }

    /// Reads `words` words, at most [`MOST_WORDS`], by an operation that reads.
    pub fn read(&mut self, id: u16, operation: Operation, address: u32, words: usize) {
        self.transaction(id, operation, words, address);
    }

    /// Writes words, at most [`MOST_WORDS`], by an operation that writes.
    pub fn write(&mut self, id: u16, operation: Operation, address: u32, data: &[u32]) {
        self.transaction(id, operation, data.len(), address);
        self.order.append(data, self.bytes);
    }

    /// A word becomes `(old & keep) | set`.
    pub fn change_bits(&mut self, id: u16, address: u32, keep: u32, set: u32) {
        self.transaction(id, Operation::ChangeBits, 1, address);
        self.order.append(&[keep, set], self.bytes);
    }

    /// A word becomes `old + addend`, modulo 2³².
    pub fn add(&mut self, id: u16, address: u32, addend: u32) {
        self.transaction(id, Operation::Add, 1, address);
        self.order.append(&[addend], self.bytes);
    }
}
