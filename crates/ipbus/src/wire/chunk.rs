//! Packets in a TCP stream: behind a length, or in chunks for a hub.
//!
//! ```text
//!  direct           bytes │ packet                                                        both ways
//!  client to hub    bytes │ address, port, words, packet │ … of the same target
//!  hub to client    bytes │ bytes, address, port, error, packet │ … in the order of the requests
//! ```
//! Lengths, addresses and ports are big-endian. A reply whose error is not 0 has no packet.

use std::net::{Ipv4Addr, SocketAddrV4};

use super::WireError;
use super::words::WORD_BYTES;

/// Bytes of a length in a stream.
pub const LENGTH_BYTES: usize = 4;
/// Bytes before the packet of an item, on the way to the hub.
const REQUEST_HEADER: usize = 8;
/// Bytes before the packet of an item, on the way back, without its length.
const REPLY_HEADER: usize = 8;

/// A target as the hub knows it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Target {
    /// Its address.
    pub address: Ipv4Addr,
    /// Its UDP port.
    pub port: u16,
}

impl std::fmt::Display for Target {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        SocketAddrV4::new(self.address, self.port).fmt(f)
    }
}

impl Target {
    fn bytes(self) -> [u8; 6] {
        let [a, b, c, d] = self.address.octets();
        let [high, low] = self.port.to_be_bytes();
        [a, b, c, d, high, low]
    }

    fn of_bytes([a, b, c, d, high, low]: [u8; 6]) -> Target {
        Target { address: Ipv4Addr::new(a, b, c, d), port: u16::from_be_bytes([high, low]) }
    }
}

/// How many bytes follow a length in a stream: a whole number of words, and one at least.
///
/// # Errors
/// When it is beyond `most`, or cannot be.
pub fn frame_bytes(length: [u8; LENGTH_BYTES], most: usize) -> Result<usize, WireError> {
    let found = u32::from_be_bytes(length) as usize;
    match found.is_multiple_of(WORD_BYTES) && (WORD_BYTES..=most).contains(&found) {
        true => Ok(found),
        false => Err(WireError::Length { found, least: WORD_BYTES, most }),
    }
}

/// How a hub says that it has no reply.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum HubCode {
    /// There is one.
    Fine,
    /// The target answered no control packet.
    NoReply,
    /// The hub itself was too slow.
    HubTimeout,
    /// The target answered no status request: most likely it is not there.
    NoStatus,
    /// The target gave no lost reply once more.
    NoResend,
    /// The target's status was none.
    BadStatus,
    /// The packet was of another version than the target's.
    WrongVersion,
    /// The hub serves no such target.
    NotAllowed,
    /// One that has no meaning.
    Unassigned(u16),
}

impl HubCode {
    /// Its number.
    pub const fn code(self) -> u16 {
        match self {
            HubCode::Fine => 0,
            HubCode::NoReply => 1,
            HubCode::HubTimeout => 2,
            HubCode::NoStatus => 3,
            HubCode::NoResend => 4,
            HubCode::BadStatus => 5,
            HubCode::WrongVersion => 6,
            HubCode::NotAllowed => 7,
            HubCode::Unassigned(code) => code,
        }
    }

    /// What a number means.
    pub const fn of_code(code: u16) -> HubCode {
        match code {
            0 => HubCode::Fine,
            1 => HubCode::NoReply,
            2 => HubCode::HubTimeout,
            3 => HubCode::NoStatus,
            4 => HubCode::NoResend,
            5 => HubCode::BadStatus,
            6 => HubCode::WrongVersion,
            7 => HubCode::NotAllowed,
            other => HubCode::Unassigned(other),
        }
    }
}

impl std::fmt::Display for HubCode {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            HubCode::Fine => "no error",
            HubCode::NoReply => "the target answers no control packet",
            HubCode::HubTimeout => "the hub had no answer in time",
            HubCode::NoStatus => "the target answers no status request: is it there, and has it power?",
            HubCode::NoResend => "the target gives no lost reply once more",
            HubCode::BadStatus => "the target's status packet is none",
            HubCode::WrongVersion => "the target speaks another version of IPbus",
            HubCode::NotAllowed => "the hub does not serve this target, or its rules forbid what was asked",
            HubCode::Unassigned(code) => return write!(f, "hub error {code}, which has no meaning"),
        })
    }
}

/// A chunk on the way to a hub: packets for one target.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct HubRequest<'a> {
    /// Where they go.
    pub target: Target,
    items: &'a [u8],
}

fn request_item(bytes: &[u8]) -> Option<(Target, &[u8], &[u8])> {
    let (header, rest) = bytes.split_first_chunk::<REQUEST_HEADER>()?;
    let [a, b, c, d, e, f, high, low] = *header;
    let words = usize::from(u16::from_be_bytes([high, low]));
    let (packet, rest) = rest.split_at_checked(words * WORD_BYTES)?;
    (words > 0).then_some((Target::of_bytes([a, b, c, d, e, f]), packet, rest))
}

impl<'a> HubRequest<'a> {
    /// What follows the length of a chunk.
    ///
    /// # Errors
    /// When it has no item, its items are not whole, or they are for several targets.
    pub fn check(bytes: &'a [u8]) -> Result<HubRequest<'a>, WireError> {
        let refused = |reason| WireError::Chunk { bytes: bytes.len(), reason };
        let (mut rest, mut first) = (bytes, None);
        while !rest.is_empty() {
            let item = request_item(rest);
            let (target, _, behind) = item.ok_or(refused("an item of it is not whole"))?;
            if *first.get_or_insert(target) != target {
                return Err(refused("its items are for several targets; a chunk is for one"));
            }
            rest = behind;
        }
        let target = first.ok_or(refused("it has no item"))?;
        Ok(HubRequest { target, items: bytes })
    }

    /// The packets in it.
    pub fn items(self) -> HubItems<'a> {
        HubItems { rest: self.items }
    }

    /// Appends a whole chunk, its length first, of packets of whole words.
    ///
    /// # Errors
    /// When a packet has more words than its length can say, or there is none.
    pub fn append(target: Target, packets: &[&[u8]], bytes: &mut Vec<u8>) -> Result<(), WireError> {
        let length: usize = packets.iter().map(|packet| REQUEST_HEADER + packet.len()).sum();
        for packet in packets {
            let words = packet.len() / WORD_BYTES;
            if !packet.len().is_multiple_of(WORD_BYTES) || !(1..=usize::from(u16::MAX)).contains(&words) {
                let most = usize::from(u16::MAX) * WORD_BYTES;
                return Err(WireError::Length { found: packet.len(), least: WORD_BYTES, most });
            }
        }
        bytes.extend((length as u32).to_be_bytes());
        for packet in packets {
            bytes.extend(target.bytes());
            bytes.extend(((packet.len() / WORD_BYTES) as u16).to_be_bytes());
            bytes.extend(*packet);
        }
        Ok(())
    }
}

/// The packets of a chunk.
#[derive(Clone, Debug)]
pub struct HubItems<'a> {
    rest: &'a [u8],
}

impl<'a> Iterator for HubItems<'a> {
    type Item = &'a [u8];

    fn next(&mut self) -> Option<&'a [u8]> {
        let (_, packet, rest) = request_item(self.rest)?;
        self.rest = rest;
        Some(packet)
    }
}

/// One reply on the way from a hub.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct HubReply<'a> {
    /// Whose.
    pub target: Target,
    /// Whether there is one.
    pub code: HubCode,
    /// The packet; empty where there is none.
    pub packet: &'a [u8],
}

impl HubReply<'_> {
    /// Bytes that it takes in a chunk.
    const fn byte_count(self) -> usize {
        LENGTH_BYTES + REPLY_HEADER + self.packet.len()
    }

    /// Appends a whole chunk, its length first.
    pub fn append<'a>(replies: impl Iterator<Item = HubReply<'a>> + Clone, bytes: &mut Vec<u8>) {
        let length: usize = replies.clone().map(|reply| reply.byte_count()).sum();
        bytes.extend((length as u32).to_be_bytes());
        for reply in replies {
            bytes.extend(((REPLY_HEADER + reply.packet.len()) as u32).to_be_bytes());
            bytes.extend(reply.target.bytes());
            bytes.extend(reply.code.code().to_be_bytes());
            bytes.extend(reply.packet);
        }
    }
}

/// The replies of a chunk.
#[derive(Clone, Debug)]
pub struct HubReplies<'a> {
    rest: &'a [u8],
    bytes: usize,
}

impl<'a> HubReplies<'a> {
    /// What follows the length of a chunk.
    pub const fn of(bytes: &'a [u8]) -> HubReplies<'a> {
        HubReplies { rest: bytes, bytes: bytes.len() }
    }

    fn reply(&self) -> Option<(HubReply<'a>, &'a [u8])> {
        let (length, rest) = self.rest.split_first_chunk::<LENGTH_BYTES>()?;
        let (own, rest) = rest.split_at_checked(u32::from_be_bytes(*length) as usize)?;
        let (header, packet) = own.split_first_chunk::<REPLY_HEADER>()?;
        let [a, b, c, d, e, f, high, low] = *header;
        let code = HubCode::of_code(u16::from_be_bytes([high, low]));
        Some((HubReply { target: Target::of_bytes([a, b, c, d, e, f]), code, packet }, rest))
    }
}

impl<'a> Iterator for HubReplies<'a> {
    type Item = Result<HubReply<'a>, WireError>;

    /// Behind one that is not whole, nothing can be distinguished from anything else.
    fn next(&mut self) -> Option<Self::Item> {
        if self.rest.is_empty() {
            return None;
        }
        let found = self.reply();
        self.rest = found.map_or(&[], |(_, rest)| rest);
        let cut = WireError::Chunk { bytes: self.bytes, reason: "a reply in it is not whole" };
        Some(found.map(|(reply, _)| reply).ok_or(cut))
    }
}
