//! Requests: the transactions that a client asks for.
//!
//! ```text
//!  RequestPacket: read, write, change … ─► bytes of one packet
//!  Control ─► Requests ─► Request { operation, address, words, data }, until the end or the first invalid one
//! ```

use super::WireError;
use super::packet::{Control, Header};
use super::transaction::{Info, MOST_WORDS, Operation, TransactionHeader};
use super::words::{ByteOrder, Words};

/// One requested transaction.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Request<'a> {
    /// The transaction id, which the client chose.
    pub id: u16,
    /// What to do.
    pub operation: Operation,
    /// The first address on the bus.
    pub address: u32,
    /// Words to read or write on the bus.
    pub words: u8,
    /// The words to write; for `ChangeBits` the bits to keep and the bits to set, for `Add` the addend.
    pub data: Words<'a>,
}

impl Request<'_> {
    /// The header of its reply.
    pub const fn replied(&self, words: u8, info: Info) -> TransactionHeader {
        TransactionHeader { id: self.id, words, operation: self.operation, info }
    }
}

/// The requests of a packet, in their order.
#[derive(Clone, Debug)]
pub struct Requests<'a> {
    rest: Words<'a>,
}

impl<'a> Requests<'a> {
    /// The requests of a control packet.
    pub const fn of(control: Control<'a>) -> Requests<'a> {
        Requests { rest: control.body }
    }

    fn request(&mut self, first: u32) -> Result<Request<'a>, WireError> {
        let header = TransactionHeader::of_word(first)?;
        if header.info != Info::Request {
            return Err(WireError::Transaction {
                header: first,
                reason: "it is not a request: its last four bits are not all set",
            });
        }
        let one = matches!(header.operation, Operation::ChangeBits | Operation::Add);
        if one && header.words != 1 {
            return Err(WireError::Transaction {
                header: first,
                reason: "the operation changes one word, but the word count is not 1",
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

    /// Iteration ends at an invalid request, because the start of the next one is unknown.
    fn next(&mut self) -> Option<Self::Item> {
        let first = self.rest.get(0)?;
        let request = self.request(first);
        if request.is_err() {
            self.rest = Words::none();
        }
        Some(request)
    }
}

/// Builds a packet of requests, in either byte order.
#[derive(Debug)]
pub struct RequestPacket<'v> {
    bytes: &'v mut Vec<u8>,
    order: ByteOrder,
}

impl<'v> RequestPacket<'v> {
    /// Appends the header of a packet with this id to `bytes`.
    pub fn begin(id: u16, order: ByteOrder, bytes: &'v mut Vec<u8>) -> RequestPacket<'v> {
        order.append(&[Header::control(id).word()], bytes);
        RequestPacket { bytes, order }
    }

    fn transaction(&mut self, id: u16, operation: Operation, words: usize, address: u32) {
        debug_assert!(words <= MOST_WORDS, "{words} words in one transaction");
        let header = TransactionHeader::request(id, operation, words as u8);
        self.order.append(&[header.word(), address], self.bytes);
    }

    /// Adds a transaction that reads `words` words, at most [`MOST_WORDS`]; `operation` is one that reads.
    pub fn read(&mut self, id: u16, operation: Operation, address: u32, words: usize) {
        self.transaction(id, operation, words, address);
    }

    /// Adds a transaction that writes words, at most [`MOST_WORDS`]; `operation` is one that writes.
    pub fn write(&mut self, id: u16, operation: Operation, address: u32, data: &[u32]) {
        self.transaction(id, operation, data.len(), address);
        self.order.append(data, self.bytes);
    }

    /// Adds a transaction that sets a word to `(old & keep) | set`.
    pub fn change_bits(&mut self, id: u16, address: u32, keep: u32, set: u32) {
        self.transaction(id, Operation::ChangeBits, 1, address);
        self.order.append(&[keep, set], self.bytes);
    }

    /// Adds a transaction that sets a word to `old + addend`, modulo 2³².
    pub fn add(&mut self, id: u16, address: u32, addend: u32) {
        self.transaction(id, Operation::Add, 1, address);
        self.order.append(&[addend], self.bytes);
    }
}
