//! Packets in a TCP stream: each after its length, or in chunks to and from a hub.
//!
//! ```text
//!  direct           bytes │ packet                                                        both ways
//!  client to hub    bytes │ address, port, words, packet │ … of the same target
//!  hub to client    bytes │ bytes, address, port, error, packet │ … in the order of the requests
//! ```
//! Lengths, addresses and ports are big-endian. A reply with an error other than 0 has no packet.

use std::net::{Ipv4Addr, SocketAddrV4};

use super::WireError;
use super::words::WORD_BYTES;

/// Size of the length field in a stream, in bytes.
pub const LENGTH_BYTES: usize = 4;
/// Bytes before the packet of an item to the hub.
const REQUEST_HEADER: usize = 8;
/// Bytes before the packet of an item from the hub, without its length field.
const REPLY_HEADER: usize = 8;

/// The address of a target in requests to a hub.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Target {
    /// Its IPv4 address.
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

/// How many bytes follow a length field in a stream: a whole number of words, at least one.
///
/// # Errors
/// When it is 0, not a whole number of words, or more than `most`.
pub fn frame_bytes(length: [u8; LENGTH_BYTES], most: usize) -> Result<usize, WireError> {
    let found = u32::from_be_bytes(length) as usize;
    match found.is_multiple_of(WORD_BYTES) && (WORD_BYTES..=most).contains(&found) {
        true => Ok(found),
        false => Err(WireError::Length { found, least: WORD_BYTES, most }),
    }
}

/// The error code that a hub sends with each reply.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum HubCode {
    /// No error: the reply follows.
    Fine,
    /// The target did not answer the control packet.
    NoReply,
    /// The hub itself timed out.
    HubTimeout,
    /// The target did not answer a status request: most likely it is not reachable.
    NoStatus,
    /// The target did not resend a lost reply.
    NoResend,
    /// The target's status packet was invalid.
    BadStatus,
    /// The packet has another protocol version than the target.
    WrongVersion,
    /// The hub did not send the packet: it does not serve this target, its rules forbid the access, or the packet or its reply is too long.
    NotAllowed,
    /// A code without a meaning.
    Unassigned(u16),
}

impl HubCode {
    /// Its number on the wire.
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
            HubCode::NoReply => "the target did not answer the control packet",
            HubCode::HubTimeout => "the hub timed out",
            HubCode::NoStatus => "the target did not answer a status request; is it connected and powered?",
            HubCode::NoResend => "the target did not resend a lost reply",
            HubCode::BadStatus => "the target sent an invalid status packet",
            HubCode::WrongVersion => "the target speaks another version of IPbus",
            HubCode::NotAllowed => {
                "the packet or its reply is longer than the target's buffers (see `max_payload_size`), the hub does not serve this target, or its rules forbid the access"
            }
            HubCode::Unassigned(code) => return write!(f, "unassigned hub error {code}"),
        })
    }
}

/// A chunk from a client to a hub: packets for one target.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct HubRequest<'a> {
    /// The target of all its packets.
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
    /// Checks a chunk, given without its length field.
    ///
    /// # Errors
    /// When it has no items, an item is incomplete, or the items are for several targets.
    pub fn check(bytes: &'a [u8]) -> Result<HubRequest<'a>, WireError> {
        let refused = |reason| WireError::Chunk { bytes: bytes.len(), reason };
        let (mut rest, mut first) = (bytes, None);
        while !rest.is_empty() {
            let item = request_item(rest);
            let (target, _, behind) = item.ok_or(refused("one of its items is incomplete"))?;
            if *first.get_or_insert(target) != target {
                return Err(refused("its items are for several targets; a chunk is for one"));
            }
            rest = behind;
        }
        let target = first.ok_or(refused("it has no items"))?;
        Ok(HubRequest { target, items: bytes })
    }

    /// Its packets.
    pub fn items(self) -> HubItems<'a> {
        HubItems { rest: self.items }
    }

    /// Appends a chunk of these packets to `bytes`, its length field first.
    ///
    /// # Errors
    /// When a packet is not a whole number of words, from 1 to 65535.
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

/// One reply from a hub to a client.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct HubReply<'a> {
    /// The target that the request was for.
    pub target: Target,
    /// Whether there is a reply, or why not.
    pub code: HubCode,
    /// The reply packet; empty when there is none.
    pub packet: &'a [u8],
}

impl HubReply<'_> {
    /// Its size in a chunk, in bytes.
    const fn byte_count(self) -> usize {
        LENGTH_BYTES + REPLY_HEADER + self.packet.len()
    }

    /// Appends a chunk of these replies to `bytes`, its length field first.
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
    /// Reads a chunk, given without its length field.
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

    /// Iteration ends at an incomplete reply, because the start of the next one is unknown.
    fn next(&mut self) -> Option<Self::Item> {
        if self.rest.is_empty() {
            return None;
        }
        let found = self.reply();
        self.rest = found.map_or(&[], |(_, rest)| rest);
        let cut = WireError::Chunk { bytes: self.bytes, reason: "one of its replies is incomplete" };
        Some(found.map(|(reply, _)| reply).ok_or(cut))
    }
}
