//! Transaction headers: an operation on the bus, and its result.
//!
//! ```text
//!   31 … 28   27 … 16          15 … 8   7 … 4       3 … 0
//!   version   transaction id   words    operation   info: 0xF in a request, else the result
//! ```

use super::WireError;

/// Most words of one transaction.
pub const MOST_WORDS: usize = u8::MAX as usize;
const VERSION: u32 = 2;
/// The bits of a transaction id.
const ID: u32 = 0xFFF;

/// An operation on the bus.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Operation {
    /// Reads words from consecutive addresses.
    Read,
    /// Writes words to consecutive addresses.
    Write,
    /// Reads words from one address, such as a FIFO.
    ReadFifo,
    /// Writes words to one address.
    WriteFifo,
    /// Sets a word to `(old & and) | or` and returns the old one.
    ChangeBits,
    /// Sets a word to `old + addend`, modulo 2³², and returns the old one.
    Add,
    /// Reads words from the target's configuration address space.
    ReadConfiguration,
    /// Writes words to the target's configuration address space.
    WriteConfiguration,
}

impl Operation {
    /// All operations; the index is the number on the wire.
    pub const ALL: [Operation; 8] = [
        Operation::Read,
        Operation::Write,
        Operation::ReadFifo,
        Operation::WriteFifo,
        Operation::ChangeBits,
        Operation::Add,
        Operation::ReadConfiguration,
        Operation::WriteConfiguration,
    ];

    /// Words after the header of a request, for `words` words on the bus.
    pub const fn request_words(self, words: usize) -> usize {
        match self {
            Operation::Read | Operation::ReadFifo | Operation::ReadConfiguration => 1,
            Operation::Write | Operation::WriteFifo | Operation::WriteConfiguration => 1 + words,
            Operation::ChangeBits => 3,
            Operation::Add => 2,
        }
    }

    /// Words after the header of a reply, for `words` words on the bus.
    pub const fn reply_words(self, words: usize) -> usize {
        match self {
            Operation::Write | Operation::WriteFifo | Operation::WriteConfiguration => 0,
            _ => words,
        }
    }

    /// Whether doing it twice has the same effect as doing it once. Reading a FIFO does not: it removes words.
    pub const fn is_idempotent(self) -> bool {
        matches!(
            self,
            Operation::Read | Operation::Write | Operation::ReadConfiguration | Operation::WriteConfiguration
        )
    }

    /// Whether it may change the target's state.
    pub const fn changes(self) -> bool {
        !matches!(self, Operation::Read | Operation::ReadConfiguration)
    }
}

/// The info code of a transaction: its result.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Info {
    /// Everything was done.
    Success,
    /// The target does not know the version or the operation.
    BadHeader,
    /// A read ended with a bus error.
    ErrorOnRead,
    /// A write ended with a bus error.
    ErrorOnWrite,
    /// A read ended with a bus timeout.
    TimeoutOnRead,
    /// A write ended with a bus timeout.
    TimeoutOnWrite,
    /// The header is that of a request.
    Request,
    /// A code without a meaning.
    Unassigned(u8),
}

impl Info {
    /// Its number on the wire.
    pub const fn code(self) -> u8 {
        match self {
            Info::Success => 0,
            Info::BadHeader => 1,
            Info::ErrorOnRead => 4,
            Info::ErrorOnWrite => 5,
            Info::TimeoutOnRead => 6,
            Info::TimeoutOnWrite => 7,
            Info::Request => 0xF,
            Info::Unassigned(code) => code & 0xF,
        }
    }

    /// What a number means.
    pub const fn of_code(code: u8) -> Info {
        match code & 0xF {
            0 => Info::Success,
            1 => Info::BadHeader,
            4 => Info::ErrorOnRead,
            5 => Info::ErrorOnWrite,
            6 => Info::TimeoutOnRead,
            7 => Info::TimeoutOnWrite,
            0xF => Info::Request,
            other => Info::Unassigned(other),
        }
    }
}

impl std::fmt::Display for Info {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Info::Success => f.write_str("success"),
            Info::BadHeader => f.write_str("the target does not support this transaction"),
            Info::ErrorOnRead => f.write_str("bus error on a read"),
            Info::ErrorOnWrite => f.write_str("bus error on a write"),
            Info::TimeoutOnRead => f.write_str("bus timeout on a read"),
            Info::TimeoutOnWrite => f.write_str("bus timeout on a write"),
            Info::Request => f.write_str("a request"),
            Info::Unassigned(code) => write!(f, "unassigned info code {code}"),
        }
    }
}

/// The first word of a transaction.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TransactionHeader {
    /// The transaction id, 12 bits, which the client chooses and the reply repeats.
    pub id: u16,
    /// Words on the bus: requested in a request, done in a reply.
    pub words: u8,
    /// The operation.
    pub operation: Operation,
    /// The result; [`Info::Request`] in a request.
    pub info: Info,
}

impl TransactionHeader {
    /// The header of a request.
    pub const fn request(id: u16, operation: Operation, words: u8) -> TransactionHeader {
        TransactionHeader { id, words, operation, info: Info::Request }
    }

    /// The header as a word.
    pub const fn word(self) -> u32 {
        VERSION << 28
            | (self.id as u32 & ID) << 16
            | (self.words as u32) << 8
            | (self.operation as u32) << 4
            | self.info.code() as u32
    }

    /// Reads a header.
    ///
    /// # Errors
    /// When the version is not 2, or the operation is unknown.
    pub const fn of_word(word: u32) -> Result<TransactionHeader, WireError> {
        if word >> 28 != VERSION {
            return Err(WireError::Transaction { header: word, reason: "its version is not 2" });
        }
        let number = (word >> 4 & 0xF) as usize;
        if number >= Operation::ALL.len() {
            return Err(WireError::Transaction { header: word, reason: "its operation is unknown" });
        }
        Ok(TransactionHeader {
            id: (word >> 16 & ID) as u16,
            words: (word >> 8) as u8,
            operation: Operation::ALL[number],
            info: Info::of_code(word as u8),
        })
    }
}
