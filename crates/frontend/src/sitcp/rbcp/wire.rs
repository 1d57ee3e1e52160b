//! The datagrams of RBCP as checked views.
//!
//! ```text
//!  0     1                  2    3        4 … 7     8 …
//!  0xFF  command and flags  id   length   address   data (of a write, its answer, and the answer to a read)
//! ```
//! A request and its answer differ only in the acknowledge bit and the data. The client chooses the id; the answer
//! repeats it.

/// Bytes of the header.
pub const HEADER_BYTES: usize = 8;
/// Default UDP port of a board.
pub const PORT: u16 = 4660;
/// Most bytes of one request.
pub const LONGEST_DATA: usize = u8::MAX as usize;
/// Longest datagram.
pub const LONGEST_DATAGRAM: usize = HEADER_BYTES + LONGEST_DATA;

const VERSION_AND_TYPE: u8 = 0xFF;
const ACCESS: u8 = 0x80;
const READ: u8 = 0x40;
const ACKNOWLEDGE: u8 = 0x08;
const BUS_ERROR: u8 = 0x01;

/// The kind of a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Command {
    /// Reads registers.
    Read,
    /// Writes registers.
    Write,
}

/// Why a datagram is not of RBCP.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum WireError {
    /// Shorter than a header.
    #[error("{found} bytes are no RBCP datagram, whose header alone has {HEADER_BYTES}")]
    Short {
        /// Its length.
        found: usize,
    },
    /// The first bytes are not those of RBCP, or are those of the other direction.
    #[error("a datagram that begins with {first:#04x} {second:#04x} is not the RBCP datagram expected here")]
    Foreign {
        /// Its first byte.
        first: u8,
        /// Its second.
        second: u8,
    },
    /// The length field contradicts the datagram.
    #[error("an RBCP header promises {promised} bytes, {found} follow it")]
    Length {
        /// The length in the header.
        promised: usize,
        /// The length of the data.
        found: usize,
    },
}

/// The common fields of both directions.
struct Fields<'a> {
    second: u8,
    command: Command,
    id: u8,
    length: u8,
    address: u32,
    data: &'a [u8],
}

fn fields(datagram: &[u8]) -> Result<Fields<'_>, WireError> {
    let Some((header, data)) = datagram.split_first_chunk::<HEADER_BYTES>() else {
        return Err(WireError::Short { found: datagram.len() });
    };
    let [first, second, id, length, a, b, c, d] = *header;
    let known = ACCESS | READ | ACKNOWLEDGE | BUS_ERROR;
    if first != VERSION_AND_TYPE || second & ACCESS == 0 || second & !known != 0 {
        return Err(WireError::Foreign { first, second });
    }
    let command = if second & READ == 0 { Command::Write } else { Command::Read };
    Ok(Fields { second, command, id, length, address: u32::from_be_bytes([a, b, c, d]), data })
}

fn emit(flags: u8, command: Command, id: u8, length: u8, address: u32, data: &[u8]) -> Vec<u8> {
    let read = if command == Command::Read { READ } else { 0 };
    let mut datagram = vec![VERSION_AND_TYPE, ACCESS | read | flags, id, length];
    datagram.extend(address.to_be_bytes());
    datagram.extend(data);
    datagram
}

/// A client's request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Request<'a> {
    /// Read or write.
    pub command: Command,
    /// The id, chosen by the client.
    pub id: u8,
    /// Bytes to read or write, 1 to 255.
    pub length: u8,
    /// Address of the first byte.
    pub address: u32,
    /// The bytes of a write.
    pub data: &'a [u8],
}

impl<'a> Request<'a> {
    /// Reads a request from a datagram.
    ///
    /// # Errors
    /// Why the datagram is not a request.
    pub fn check(datagram: &'a [u8]) -> Result<Request<'a>, WireError> {
        let Fields { second, command, id, length, address, data } = fields(datagram)?;
        if second & (ACKNOWLEDGE | BUS_ERROR) != 0 {
            return Err(WireError::Foreign { first: VERSION_AND_TYPE, second });
        }
        let promised = if command == Command::Write { usize::from(length) } else { 0 };
        if length == 0 || data.len() != promised {
            return Err(WireError::Length { promised, found: data.len() });
        }
        Ok(Request { command, id, length, address, data })
    }

    /// The bytes of the request.
    pub fn datagram(&self) -> Vec<u8> {
        emit(0, self.command, self.id, self.length, self.address, self.data)
    }
}

/// A board's answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Reply<'a> {
    /// The command of the request.
    pub command: Command,
    /// The id of the request.
    pub id: u8,
    /// No logic in the board acknowledged the address.
    pub bus_error: bool,
    /// Number of bytes requested.
    pub length: u8,
    /// Address of the first byte.
    pub address: u32,
    /// The bytes read, or an echo of those written (not a read-back); undefined after a bus error.
    pub data: &'a [u8],
}

impl<'a> Reply<'a> {
    /// Reads an answer from a datagram.
    ///
    /// # Errors
    /// Why the datagram is not an answer.
    pub fn check(datagram: &'a [u8]) -> Result<Reply<'a>, WireError> {
        let Fields { second, command, id, length, address, data } = fields(datagram)?;
        if second & ACKNOWLEDGE == 0 {
            return Err(WireError::Foreign { first: VERSION_AND_TYPE, second });
        }
        let bus_error = second & BUS_ERROR != 0;
        let promised = usize::from(length);
        if !bus_error && data.len() != promised {
            return Err(WireError::Length { promised, found: data.len() });
        }
        Ok(Reply { command, id, bus_error, length, address, data })
    }

    /// The bytes of the answer.
    pub fn datagram(&self) -> Vec<u8> {
        let flags = ACKNOWLEDGE | if self.bus_error { BUS_ERROR } else { 0 };
        emit(flags, self.command, self.id, self.length, self.address, self.data)
    }
}
