//! Replies: the result of each transaction.
//!
//! ```text
//!  ReplyPacket: done, data … ─► bytes of one packet
//!  Control ─► Replies ─► Reply { operation, words, info, data }, until the end or the first that failed
//! ```
//! A target stops at the first transaction that fails. The reply header of that transaction states how many words were done, and their data
//! follow; later transactions are neither done nor answered. In an error header, only the info code is reliable.

use super::WireError;
use super::packet::{Control, Header};
use super::transaction::{Info, TransactionHeader};
use super::words::{ByteOrder, WORD_BYTES, Words};

/// The result of one transaction.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Reply<'a> {
    /// Transaction id, operation, words done, result.
    pub header: TransactionHeader,
    /// The words that were read; for `ChangeBits` and `Add`, the word before the change.
    pub data: Words<'a>,
}

/// The replies of a packet, in their order.
#[derive(Clone, Debug)]
pub struct Replies<'a> {
    rest: Words<'a>,
}

impl<'a> Replies<'a> {
    /// The replies of a control packet.
    pub const fn of(control: Control<'a>) -> Replies<'a> {
        Replies { rest: control.body }
    }

    fn reply(&mut self, first: u32) -> Result<Reply<'a>, WireError> {
        let header = TransactionHeader::of_word(first)?;
        if header.info == Info::Request {
            return Err(WireError::Transaction {
                header: first,
                reason: "it is a request where a reply was expected",
            });
        }
        let promised = header.operation.reply_words(header.words.into());
        let there = self.rest.len() - 1;
        let failed = header.info != Info::Success;
        let words = if failed { promised.min(there) } else { promised };
        let cut = WireError::Cut { header: first, promised, found: there };
        let (own, rest) = self.rest.split_at(1 + words).ok_or(cut)?;
        self.rest = if failed { Words::none() } else { rest };
        Ok(Reply { header, data: own.split_at(1).map_or(Words::none(), |(_, data)| data) })
    }
}

impl<'a> Iterator for Replies<'a> {
    type Item = Result<Reply<'a>, WireError>;

    fn next(&mut self) -> Option<Self::Item> {
        let first = self.rest.get(0)?;
        let reply = self.reply(first);
        if reply.is_err() {
            self.rest = Words::none();
        }
        Some(reply)
    }
}

/// Builds a packet of replies.
#[derive(Debug)]
pub struct ReplyPacket<'v> {
    bytes: &'v mut Vec<u8>,
    order: ByteOrder,
    /// Index of the packet's first byte.
    start: usize,
}

impl<'v> ReplyPacket<'v> {
    /// Appends the header of a reply to `bytes`, with the packet id and byte order of the request.
    pub fn begin(id: u16, order: ByteOrder, bytes: &'v mut Vec<u8>) -> ReplyPacket<'v> {
        let start = bytes.len();
        order.append(&[Header::control(id).word()], bytes);
        ReplyPacket { bytes, order, start }
    }

    /// Begins the reply to a transaction whose result is not known yet. Returns the position that [`end`](ReplyPacket::end) needs.
    pub fn open(&mut self) -> usize {
        let position = self.bytes.len();
        self.order.append(&[0], self.bytes);
        position
    }

    /// Appends a word that was read.
    #[inline]
    pub fn word(&mut self, word: u32) {
        self.bytes.extend(self.order.bytes(word));
    }

    /// Appends words that were read.
    pub fn words(&mut self, words: &[u32]) {
        self.order.append(words, self.bytes);
    }

    /// Sets the header of the transaction that was opened at this position.
    pub fn end(&mut self, position: usize, header: TransactionHeader) {
        self.end_as(position, header.word());
    }

    /// Sets that header as a raw word: for a transaction whose own header is invalid.
    pub fn end_as(&mut self, position: usize, header: u32) {
        self.bytes[position..position + WORD_BYTES].copy_from_slice(&self.order.bytes(header));
    }

    /// Bytes of the packet so far.
    pub fn byte_count(&self) -> usize {
        self.bytes.len() - self.start
    }
}
