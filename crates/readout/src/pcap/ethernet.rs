//! Ethernet frames: two addresses, any VLAN tags, the type of what follows. IEEE 802.3, 802.1Q, 802.1ad.
//!
//! ```text
//!  destination 6 | source 6 | { 8100 or 88A8 or 9100 | tag 2 }* | type 2 | IP
//! ```

use super::bytes::{Unreadable, network_u16};

const TYPE_IPV4: u16 = 0x0800;
const TYPE_IPV6: u16 = 0x86DD;
/// VLAN, provider's VLAN, and what was used for the latter before 802.1ad.
const TAGS: [u16; 3] = [0x8100, 0x88A8, 0x9100];
/// More tags than any network stacks.
const MOST_TAGS: usize = 4;
const TYPE_OFFSET: usize = 12;

/// Where the IP header starts.
pub(super) fn ip_offset(frame: &[u8]) -> Result<usize, Unreadable> {
    behind_type(frame, TYPE_OFFSET)
}

/// Where the IP header starts in a frame with its type at `offset`.
pub(super) fn behind_type(frame: &[u8], offset: usize) -> Result<usize, Unreadable> {
    for tags in 0..=MOST_TAGS {
        let place = offset + 4 * tags;
        match network_u16(frame, place)? {
            TYPE_IPV4 | TYPE_IPV6 => return Ok(place + 2),
            other if is_tag(other) => {}
            _ => return Err(Unreadable::Other),
        }
    }
    Err(Unreadable::Other)
}

/// Whether a type announces a VLAN tag.
pub(super) fn is_tag(ether_type: u16) -> bool {
    TAGS.contains(&ether_type)
}
