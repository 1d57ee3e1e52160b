//! Transactions: what is done to the bus, and how it ended.
//!
//! ```text
//!   31 … 28   27 … 16          15 … 8   7 … 4       3 … 0
//!   version   transaction id   words    operation   0xF of a request, else how it ended
//! ```

use super::WireError;

/// Most words of one transaction.
pub const MOST_WORDS: usize = u8::MAX as usize;
const VERSION: u32 = 2;
/// Of the transaction's number.
const ID: u32 = 0xFFF;

/// What is done to the bus.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Operation {
    /// Words from an address on.
    Read,
    /// Words to an address and those behind it.
    Write,
    /// Words from one address, as of a FIFO.
    ReadFifo,
    /// Words to one address.
    WriteFifo,
    /// A word becomes `(old & and) | or`, and the old one is returned.
    ChangeBits,
    /// A word becomes `old + addend`, modulo 2³², and the old one is returned.
    Add,
    /// Words of the target's own small address space.
    ReadConfiguration,
    /// Words to that.
    WriteConfiguration,
}

impl Operation {
    /// All there are, by their number.
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

    /// Words that follow a request's header, for `words` words on the bus.
    pub const fn request_words(self, words: usize) -> usize {
        match self {
            Operation::Read | Operation::ReadFifo | Operation::ReadConfiguration => 1,
            Operation::Write | Operation::WriteFifo | Operation::WriteConfiguration => 1 + words,
            Operation::ChangeBits => 3,
            Operation::Add => 2,
        }
    }

    /// Words that follow a reply's header, for `words` words on the bus.
    pub const fn reply_words(self, words: usize) -> usize {
        match self {
            Operation::Write | Operation::WriteFifo | Operation::WriteConfiguration => 0,
            _ => words,
        }
    }

    /// Whether to do it twice is another thing than to do it once: of a FIFO already reading it is.
    pub const fn is_idempotent(self) -> bool {
        matches!(
            self,
            Operation::Read | Operation::Write | Operation::ReadConfiguration | Operation::WriteConfiguration
        )
    }

    /// Whether it may change the target.
    pub const fn changes(self) -> bool {
        !matches!(self, Operation::Read | Operation::ReadConfiguration)
    }
}

/// How a transaction ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Info {
    /// As it should.
    Success,
    /// The target does not know the version or the operation.
    BadHeader,
    /// The bus refused to read.
    ErrorOnRead,
    /// The bus refused to write.
    ErrorOnWrite,
    /// Nothing on the bus answered to a read.
    TimeoutOnRead,
    /// Nothing on the bus answered to a write.
    TimeoutOnWrite,
    /// Not at all yet: it is a request.
    Request,
    /// One of those that have no meaning.
    Unassigned(u8),
}

impl Info {
    /// Its number.
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
            Info::BadHeader => f.write_str("the target does not know such a transaction"),
            Info::ErrorOnRead => f.write_str("bus error on a read"),
            Info::ErrorOnWrite => f.write_str("bus error on a write"),
            Info::TimeoutOnRead => f.write_str("nothing on the bus answered to a read"),
            Info::TimeoutOnWrite => f.write_str("nothing on the bus answered to a write"),
            Info::Request => f.write_str("a request"),
            Info::Unassigned(code) => write!(f, "info code {code}, which has no meaning"),
        }
    }
}

/// The first word of a transaction.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TransactionHeader {
    /// The client's number of it, 12 bits; the reply repeats it.
    pub id: u16,
    /// Words on the bus; of a reply, so many were done.
    pub words: u8,
    /// What is done.
    pub operation: Operation,
    /// How it ended.
    pub info: Info,
}

impl TransactionHeader {
    /// The header of a request.
    pub const fn request(id: u16, operation: Operation, words: u8) -> TransactionHeader {
        TransactionHeader { id, words, operation, info: Info::Request }
    }

    /// The word.
    pub const fn word(self) -> u32 {
        VERSION << 28
            | (self.id as u32 & ID) << 16
            | (self.words as u32) << 8
            | (self.operation as u32) << 4
            | self.info.code() as u32
    }

    /// The header that a word is.
    ///
    /// # Errors
    /// When it is of another version, or of an operation that there is not.
    pub const fn of_word(word: u32) -> Result<TransactionHeader, WireError> {
        if word >> 28 != VERSION {
            return Err(WireError::Transaction { header: word, reason: "its version is not 2" });
        }
        let number = (word >> 4 & 0xF) as usize;
        if number >= Operation::ALL.len() {
            return Err(WireError::Transaction { header: word, reason: "there is no such operation" });
        }
        Ok(TransactionHeader {
            id: (word >> 16 & ID) as u16,
            words: (word >> 8) as u8,
            operation: Operation::ALL[number],
            info: Info::of_code(word as u8),
        })
    }
}
