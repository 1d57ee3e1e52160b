//! Replies: what became of each transaction.
//!
//! ```text
//!  ReplyPacket: done, data … ─► bytes of one packet
//!  Control ─► Replies ─► Reply { operation, words, info, data }, until the end or the first that failed
//! ```
//! A target stops at the first transaction that fails: its header tells how many words were done, their data follow, and those behind it
//! are neither done nor answered. What an error's header says of itself beside the info code is not always true.

use super::WireError;
use super::packet::{Control, Header};
use super::transaction::{Info, TransactionHeader};
use super::words::{ByteOrder, WORD_BYTES, Words};

/// What became of one transaction.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Reply<'a> {
    /// Its header: number, operation, words that were done, how it ended.
    pub header: TransactionHeader,
    /// What was read; of those that change a word, that word as it was.
    pub data: Words<'a>,
}

/// The replies of a packet, one behind the other.
#[derive(Clone, Debug)]
pub struct Replies<'a> {
    rest: Words<'a>,
}

impl<'a> Replies<'a> {
    /// Those of a control packet.
    pub const fn of(control: Control<'a>) -> Replies<'a> {
        Replies { rest: control.body }
    }

    fn reply(&mut self, first: u32) -> Result<Reply<'a>, WireError> {
        let header = TransactionHeader::of_word(first)?;
        if header.info == Info::Request {
            return Err(WireError::Transaction {
                header: first,
                reason: "it is a request, where a reply should be",
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

/// A packet of replies as it is made.
#[derive(Debug)]
pub struct ReplyPacket<'v> {
    bytes: &'v mut Vec<u8>,
    order: ByteOrder,
    /// Where the packet begins.
    start: usize,
}

impl<'v> ReplyPacket<'v> {
    /// Begins the reply to a packet of this number, in its byte order, behind what is in `bytes`.
    pub fn begin(id: u16, order: ByteOrder, bytes: &'v mut Vec<u8>) -> ReplyPacket<'v> {
        let start = bytes.len();
        order.append(&[Header::control(id).word()], bytes);
        ReplyPacket { bytes, order, start }
    }

    /// Begins the reply to a transaction, of which nothing is known yet; [`end`](ReplyPacket::end) takes its place.
    pub fn open(&mut self) -> usize {
        let place = self.bytes.len();
        self.order.append(&[0], self.bytes);
        place
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

    /// Says how the transaction that was opened at `place` ended.
    pub fn end(&mut self, place: usize, header: TransactionHeader) {
        self.end_as(place, header.word());
    }

    /// Says it of one whose header is none, by the word that takes its place.
    pub fn end_as(&mut self, place: usize, header: u32) {
        self.bytes[place..place + WORD_BYTES].copy_from_slice(&self.order.bytes(header));
    }

    /// Bytes of the packet until now.
    pub fn byte_count(&self) -> usize {
        self.bytes.len() - self.start
    }
}
