//! Linux "cooked" captures, from the device "any": what stands in place of the link layer.
//!
//! ```text
//!  v1 (LINKTYPE_LINUX_SLL):  direction 2 | device type 2 | address 10 | protocol 2 | IP
//!  v2 (LINKTYPE_LINUX_SLL2): protocol 2 | reserved 2 | interface 4 | device type 2 | direction 1 | address 9 | IP
//! ```

use super::bytes::{Unreadable, network_u16};
use super::ethernet;

const PROTOCOL_OFFSET: usize = 14;
const HEADER_2_BYTES: usize = 20;

/// Where the IP header starts, first version. A VLAN tag may stand behind the protocol, as in Ethernet.
pub(super) fn ip_offset(frame: &[u8]) -> Result<usize, Unreadable> {
    ethernet::behind_type(frame, PROTOCOL_OFFSET)
}

/// Where the IP header starts, second version: the protocol stands first, a VLAN tag behind the whole header.
pub(super) fn ip_offset_2(frame: &[u8]) -> Result<usize, Unreadable> {
    if ethernet::is_tag(network_u16(frame, 0)?) {
        return ethernet::behind_type(frame, HEADER_2_BYTES + 2);
    }
    ethernet::behind_type(frame, 0).map(|_| HEADER_2_BYTES)
}
