//! Which link layer a capture has, and where behind it the IP packet starts.
//!
//! ```text
//!  LinkType, captured bytes ─► offset of the IP header
//! ```
//! Numbers: the registry of link-layer header types of the tcpdump group.

use super::bytes::Unreadable;
use super::{cooked, ethernet, loopback};

/// The link layers that can be read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum LinkType {
    /// A family number of four bytes, in the order of the machine that captured (NULL) or of the network (LOOP).
    Loopback,
    /// Ethernet, with or without VLAN tags.
    Ethernet,
    /// The IP packet alone.
    RawIp,
    /// Linux "any" device, first version.
    Cooked,
    /// Linux "any" device, second version.
    Cooked2,
}

/// What `LinkType::from_number` knows, for messages.
pub(super) const KNOWN: &str = "Ethernet (1), loopback (0, 108), raw IP (101), Linux cooked (113, 276)";

impl LinkType {
    /// The one with this number in a file; 12 and 14 are what some systems wrote for 101.
    pub fn from_number(number: u32) -> Option<LinkType> {
        // The upper bits of pcap's field say how long the frame check sequence is.
        match number & 0xFFFF {
            0 | 108 => Some(LinkType::Loopback),
            1 => Some(LinkType::Ethernet),
            12 | 14 | 101 | 228 | 229 => Some(LinkType::RawIp),
            113 => Some(LinkType::Cooked),
            276 => Some(LinkType::Cooked2),
            _ => None,
        }
    }

    /// Where the IP header starts.
    pub fn ip_offset(self, frame: &[u8]) -> Result<usize, Unreadable> {
        match self {
            LinkType::Loopback => loopback::ip_offset(frame),
            LinkType::Ethernet => ethernet::ip_offset(frame),
            LinkType::RawIp => Ok(0),
            LinkType::Cooked => cooked::ip_offset(frame),
            LinkType::Cooked2 => cooked::ip_offset_2(frame),
        }
    }
}
