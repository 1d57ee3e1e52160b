//! BSD loopback captures: the address family in four bytes, in the order of whoever captured.
//!
//! ```text
//!  family 4 | IP
//! ```

use super::bytes::{Unreadable, network_u32};

const FAMILY_BYTES: usize = 4;
const IPV4: u32 = 2;
/// AF_INET6 of Linux, the BSDs, FreeBSD, and macOS.
const IPV6: [u32; 4] = [10, 24, 28, 30];

/// Where the IP header starts.
pub(super) fn ip_offset(frame: &[u8]) -> Result<usize, Unreadable> {
    let family = network_u32(frame, 0)?;
    // Families are small numbers: whichever order makes it one is the right one.
    let family = family.min(family.swap_bytes());
    if family == IPV4 || IPV6.contains(&family) { Ok(FAMILY_BYTES) } else { Err(Unreadable::Other) }
}
