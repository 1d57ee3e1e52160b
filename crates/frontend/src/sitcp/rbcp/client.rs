//! The client of RBCP: one request at a time, repeated without an answer, but never executed twice by mistake.
//!
//! ```text
//!  begin ─► transmit ─► … ─► receive ─► Done
//!              ▲  └ time-out: reads and idempotent writes are sent again, with the next id
//!              │             other writes are read back, since only the acknowledgement may be lost
//!              └ now
//! ```
//! A board serves one request and one program at a time: two programs that send requests at once get each other's
//! answers. The client accepts an answer to any repetition of the current request, so a late one is not wasted; all
//! others are counted and ignored.

use super::map::sitcp;
use super::wire::{Command, LONGEST_DATA, Reply, Request};

/// Time-outs and repetitions of a client.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Settings {
    /// Time-out of an answer in nanoseconds.
    pub timeout_ns: u64,
    /// Most times that a request is sent.
    pub attempts: u8,
    /// Allows writing the EEPROM, which can make a board useless.
    pub force_eeprom: bool,
}

impl Default for Settings {
    fn default() -> Settings {
        Settings { timeout_ns: 500_000_000, attempts: 4, force_eeprom: false }
    }
}

/// An operation on the registers of a board.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Operation {
    /// Reads `length` bytes, 1 to 255.
    Read {
        /// Address of the first byte.
        address: u32,
        /// Number of bytes.
        length: u8,
    },
    /// Writes bytes, 1 to 255.
    Write {
        /// Address of the first byte.
        address: u32,
        /// The bytes.
        data: Vec<u8>,
        /// Whether writing twice has the same effect as writing once, which does not hold for bits that start
        /// something.
        idempotent: bool,
    },
}

/// The result of an operation that succeeded.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Done {
    /// The bytes read or written.
    pub data: Vec<u8>,
    /// The write was not acknowledged, but reading it back gave the written bytes.
    pub read_back: bool,
    /// Number of datagrams sent for it.
    pub attempts: u8,
}

/// The reason why an operation failed.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum RbcpError {
    /// Another operation is active.
    #[error("a request at {address:#010x} is still under way: take its outcome first")]
    UnderWay {
        /// Its address.
        address: u32,
    },
    /// An invalid length of a request.
    #[error("{length} bytes at {address:#010x}: one request takes 1 to {LONGEST_DATA} bytes below 2^32")]
    Length {
        /// Address of the first byte.
        address: u32,
        /// The length in bytes.
        length: usize,
    },
    /// A write to the EEPROM.
    #[error(
        "a write to {address:#010x} would change the board's EEPROM and can make the board useless; it needs `force`"
    )]
    Eeprom {
        /// Address of the first byte.
        address: u32,
    },
    /// The board has no such register.
    #[error(
        "bus error: the board has no register in the {length} bytes at {address:#010x}; try single bytes, and compare the firmware's address table"
    )]
    BusError {
        /// Address of the first byte.
        address: u32,
        /// How many.
        length: u8,
    },
    /// No answer arrived.
    #[error(
        "no answer to {attempts} requests at {address:#010x}: check power, network and address of the board, and that no other program controls it"
    )]
    NoAnswer {
        /// Address of the first byte.
        address: u32,
        /// How often the request was sent.
        attempts: u8,
    },
    /// A write that may have failed.
    #[error(
        "a write at {address:#010x} was not acknowledged, and reading back gives {found:02x?} instead of {wanted:02x?}: check the state of the board before writing again"
    )]
    Unconfirmed {
        /// Address of the first byte.
        address: u32,
        /// The written bytes.
        wanted: Vec<u8>,
        /// The bytes read back.
        found: Vec<u8>,
    },
}

/// Counters of a client.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    /// Operations that were begun.
    pub operations: u64,
    /// Datagrams that were sent.
    pub sent: u64,
    /// Datagrams that were sent again after a time-out.
    pub repeated: u64,
    /// Answers that belong to no active request: late, duplicate, or another program's.
    pub strays: u64,
    /// Datagrams that are not answers.
    pub malformed: u64,
}

/// The active request.
#[derive(Debug)]
struct UnderWay {
    operation: Operation,
    first_id: u8,
    /// Number of datagrams sent in all phases; they have consecutive ids.
    sent: u8,
    /// Number of datagrams sent in this phase.
    phase_sent: u8,
    /// The write was not acknowledged, and is being read back.
    reading_back: bool,
    /// Time at which the next datagram is due.
    due_ns: u64,
}

/// The client of one board.
#[derive(Debug)]
pub struct Client {
    settings: Settings,
    next_id: u8,
    under_way: Option<UnderWay>,
    outcome: Option<Result<Done, RbcpError>>,
    counts: Counts,
}

impl Operation {
    fn address(&self) -> u32 {
        match self {
            Operation::Read { address, .. } | Operation::Write { address, .. } => *address,
        }
    }

    fn length(&self) -> usize {
        match self {
            Operation::Read { length, .. } => usize::from(*length),
            Operation::Write { data, .. } => data.len(),
        }
    }

    fn check(&self, force_eeprom: bool) -> Result<(), RbcpError> {
        let (address, length) = (self.address(), self.length());
        let last = (length as u32).checked_sub(1).and_then(|further| address.checked_add(further));
        let Some(last) = last.filter(|_| length <= LONGEST_DATA) else {
            return Err(RbcpError::Length { address, length });
        };
        let touches = address <= *sitcp::EEPROM.end() && last >= *sitcp::EEPROM.start();
        if matches!(self, Operation::Write { .. }) && touches && !force_eeprom {
            return Err(RbcpError::Eeprom { address });
        }
        Ok(())
    }
}

impl Client {
    /// Creates a client without an active operation.
    pub fn new(settings: Settings) -> Client {
        Client { settings, next_id: 0, under_way: None, outcome: None, counts: Counts::default() }
    }

    /// Begins an operation; its first datagram is due at once.
    ///
    /// # Errors
    /// When another operation is active, or this one is invalid or forbidden.
    pub fn begin(&mut self, operation: Operation, now_ns: u64) -> Result<(), RbcpError> {
        if let Some(under_way) = &self.under_way {
            return Err(RbcpError::UnderWay { address: under_way.operation.address() });
        }
        operation.check(self.settings.force_eeprom)?;
        self.outcome = None;
        self.counts.operations += 1;
        self.under_way = Some(UnderWay {
            operation,
            first_id: self.next_id,
            sent: 0,
            phase_sent: 0,
            reading_back: false,
            due_ns: now_ns,
        });
        Ok(())
    }

    /// The datagram that is due now, if any. Call it again at [`Client::due_ns`].
    pub fn transmit(&mut self, now_ns: u64) -> Option<Vec<u8>> {
        let under_way = self.under_way.as_mut().filter(|under_way| under_way.due_ns <= now_ns)?;
        if under_way.phase_sent > 0 && under_way.is_once_only() {
            (under_way.reading_back, under_way.phase_sent) = (true, 0);
        }
        if under_way.phase_sent == self.settings.attempts.max(1) || under_way.sent == u8::MAX {
            let (address, attempts) = (under_way.operation.address(), under_way.sent);
            self.end(Err(RbcpError::NoAnswer { address, attempts }));
            return None;
        }
        self.counts.sent += 1;
        self.counts.repeated += u64::from(under_way.sent > 0);
        let datagram = under_way.datagram(self.next_id);
        self.next_id = self.next_id.wrapping_add(1);
        under_way.sent += 1;
        under_way.phase_sent += 1;
        under_way.due_ns = now_ns.saturating_add(self.settings.timeout_ns);
        Some(datagram)
    }

    /// Time of the next call of [`Client::transmit`]; `None` without an active operation.
    pub fn due_ns(&self) -> Option<u64> {
        self.under_way.as_ref().map(|under_way| under_way.due_ns)
    }

    /// Takes a datagram from the board.
    pub fn receive(&mut self, datagram: &[u8]) {
        let Ok(reply) = Reply::check(datagram) else {
            self.counts.malformed += 1;
            return;
        };
        let Some(under_way) = self.under_way.as_mut().filter(|under_way| under_way.owns(&reply)) else {
            self.counts.strays += 1;
            return;
        };
        let (address, attempts) = (reply.address, under_way.sent);
        if reply.bus_error {
            self.end(Err(RbcpError::BusError { address, length: reply.length }));
            return;
        }
        let data = reply.data.to_vec();
        let outcome = match (&under_way.operation, reply.command) {
            (Operation::Write { data: wanted, .. }, Command::Read) if *wanted != data => {
                Err(RbcpError::Unconfirmed { address, wanted: wanted.clone(), found: data })
            }
            (Operation::Write { .. }, Command::Read) => Ok(Done { data, read_back: true, attempts }),
            _ => Ok(Done { data, read_back: false, attempts }),
        };
        self.end(outcome);
    }

    /// Gives up the active operation, if any: nobody can be asked any more. The board may have done it. A late answer is ignored.
    pub fn abandon(&mut self) {
        self.under_way = None;
    }

    /// The outcome of the last operation; it can be taken once.
    pub fn outcome(&mut self) -> Option<Result<Done, RbcpError>> {
        self.outcome.take()
    }

    /// The counters.
    pub fn counts(&self) -> Counts {
        self.counts
    }

    fn end(&mut self, outcome: Result<Done, RbcpError>) {
        self.under_way = None;
        self.outcome = Some(outcome);
    }
}

impl UnderWay {
    /// Whether this is a write that must not be repeated.
    fn is_once_only(&self) -> bool {
        !self.reading_back && matches!(self.operation, Operation::Write { idempotent: false, .. })
    }

    fn datagram(&self, id: u8) -> Vec<u8> {
        let (address, length) = (self.operation.address(), self.operation.length() as u8);
        let (command, data) = match &self.operation {
            Operation::Write { data, .. } if !self.reading_back => (Command::Write, data.as_slice()),
            _ => (Command::Read, &[][..]),
        };
        Request { command, id, length, address, data }.datagram()
    }

    /// Whether `reply` answers a datagram of this request.
    fn owns(&self, reply: &Reply<'_>) -> bool {
        let ours = reply.id.wrapping_sub(self.first_id) < self.sent;
        let same =
            reply.address == self.operation.address() && usize::from(reply.length) == self.operation.length();
        let expected = match (&self.operation, reply.command) {
            (Operation::Read { .. }, command) => command == Command::Read,
            // While a write is read back, both answers are useful.
            (Operation::Write { .. }, Command::Read) => self.reading_back,
            // An echo of other bytes answers another program.
            (Operation::Write { data, .. }, Command::Write) => reply.bus_error || reply.data == data,
        };
        ours && same && expected
    }
}
