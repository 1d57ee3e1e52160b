//! The reports of a driver that netlink lacks: its own counts (`ethtool -S`), the spread of UDP (`-n … rx-flow-hash udp4`), stamped
//! packets.
//!
//! ```text
//!  card ─► SIOCETHTOOL: how many ─► names, 32 bytes each ─► counts, 8 bytes each ─► [Counter]
//!                       fields of a UDP packet that its queue depends on ─► UdpSpread
//!          SIOCGHWTSTAMP: packets that the card stamps ─► stamped
//! ```

use std::net::UdpSocket;
use std::os::fd::AsRawFd;

use super::counters::Counter;

/// A constant of linux/ethtool.h.
const GET_SET_INFO: u32 = 0x37;
const GET_STRINGS: u32 = 0x1b;
const GET_STATISTICS: u32 = 0x1d;
const GET_HASH_FIELDS: u32 = 0x29;
const UDP_OVER_IPV4: u32 = 0x02;
/// Fields that a hash takes: both bytes of each port.
const PORTS: u64 = 0xc0;
const SET_OF_STATISTICS: u32 = 1;
const NAME_BYTES: usize = 32;
/// A driver that counts more is not asked.
const MOST_COUNTERS: usize = 1 << 16;

/// Asks a driver: the words of a request are those of the kernel's struct, and hold its answer afterwards.
struct Driver<'c> {
    socket: UdpSocket,
    card: &'c str,
}

impl Driver<'_> {
    fn ask(&self, words: &mut [u64]) -> Result<(), String> {
        self.ask_by(libc::SIOCETHTOOL, words)
    }

    fn ask_by(&self, command: u64, words: &mut [u64]) -> Result<(), String> {
        // SAFETY: all bytes of this struct may be 0.
        let mut request: libc::ifreq = unsafe { std::mem::zeroed() };
        // The last byte stays 0: it ends the name.
        if self.card.len() >= request.ifr_name.len() {
            return Err(format!("no card has a name as long as {}", self.card));
        }
        for (to, from) in request.ifr_name.iter_mut().zip(self.card.bytes()) {
            *to = from.cast_signed();
        }
        request.ifr_ifru.ifru_data = words.as_mut_ptr().cast();
        // SAFETY: the request outlives the call and points to a struct of its command, behind which there is space for everything that the
        // kernel answers to it (`read` sees to that); the descriptor is open.
        let answer = unsafe { libc::ioctl(self.socket.as_raw_fd(), command as _, &raw mut request) };
        match answer {
            0 => Ok(()),
            _ => Err(std::io::Error::last_os_error().to_string()),
        }
    }
}

/// Joins two numbers as they lie one after the other in a struct of the kernel.
fn pair(first: u32, second: u32) -> u64 {
    let ([a, b, c, d], [e, f, g, h]) = (first.to_ne_bytes(), second.to_ne_bytes());
    u64::from_ne_bytes([a, b, c, d, e, f, g, h])
}

/// The first of two numbers.
fn first(word: u64) -> usize {
    let [a, b, c, d, ..] = word.to_ne_bytes();
    u32::from_ne_bytes([a, b, c, d]) as usize
}

/// The fields that decide about the queue of a UDP packet over IPv4.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum UdpSpread {
    /// Addresses and ports.
    ByPorts,
    /// Addresses alone, or nothing.
    ByAddresses,
}

/// Returns how a card spreads UDP over its queues.
///
/// # Errors
/// Why its driver does not say it, in words.
pub(super) fn udp_spread(card: &str) -> Result<UdpSpread, String> {
    // struct ethtool_rxnfc: cmd, flow type, fields, and room for the rules that it could hold.
    let mut words = [0; 64];
    words[0] = pair(GET_HASH_FIELDS, UDP_OVER_IPV4);
    asked(card)?.ask(&mut words)?;
    Ok(if words[1] & PORTS == PORTS { UdpSpread::ByPorts } else { UdpSpread::ByAddresses })
}

/// Describes which received packets a card stamps.
///
/// # Errors
/// Why its driver does not say it, in words.
pub(super) fn stamped(card: &str) -> Result<&'static str, String> {
    // Of linux/sockios.h. struct hwtstamp_config: flags, which are sent with a stamp, which are received with one; a number each.
    const GET_STAMPING: u64 = 0x89b1;
    let mut words = [0; 2];
    asked(card)?.ask_by(GET_STAMPING, &mut words)?;
    Ok(match first(words[1]) {
        0 => "none",
        1 => "all that come",
        _ => "those of PTP",
    })
}

fn asked(card: &str) -> Result<Driver<'_>, String> {
    let socket = UdpSocket::bind("0.0.0.0:0").map_err(|error| format!("no socket to ask with: {error}"))?;
    Ok(Driver { socket, card })
}

/// Returns all counts of a card, by the names of its driver.
///
/// # Errors
/// Why its driver does not say them, in words.
pub(super) fn of_card(card: &str) -> Result<Vec<Counter>, String> {
    let driver = asked(card)?;
    // struct ethtool_sset_info: cmd, reserved, mask of sets, count of each.
    let mut info = [pair(GET_SET_INFO, 0), 1 << SET_OF_STATISTICS, 0];
    driver.ask(&mut info)?;
    let count = first(info[2]);
    if info[1] == 0 || count == 0 {
        return Err("the driver has no counts of its own".to_owned());
    }
    if count > MOST_COUNTERS {
        return Err(format!("the driver has {count} counts, and {MOST_COUNTERS} are read at most"));
    }
    // The kernel writes as many as there are when it is asked, whatever was asked for: there is space for twice as many.
    let room = 2 * count + 64;
    // struct ethtool_gstrings: cmd, set, length, names.
    let mut names = vec![0; 2 + room * NAME_BYTES / 8];
    (names[0], names[1]) = (pair(GET_STRINGS, SET_OF_STATISTICS), pair(count as u32, 0));
    driver.ask(&mut names)?;
    // struct ethtool_stats: cmd, count, counts.
    let mut counts = vec![0; 1 + room];
    counts[0] = pair(GET_STATISTICS, count as u32);
    driver.ask(&mut counts)?;
    Ok(named(&bytes_behind_head(&names, count), &counts[1..=count]))
}

/// Names begin 12 bytes behind the start of their struct.
fn bytes_behind_head(words: &[u64], count: usize) -> Vec<u8> {
    let bytes = words.iter().flat_map(|word| word.to_ne_bytes());
    bytes.skip(12).take(count * NAME_BYTES).collect()
}

/// Names end with a 0, or fill their bytes.
fn named(names: &[u8], counts: &[u64]) -> Vec<Counter> {
    let name = |bytes: &[u8]| {
        let text = bytes.split(|byte| *byte == 0).next().unwrap_or_default();
        String::from_utf8_lossy(text).trim().to_owned()
    };
    let each = names.chunks(NAME_BYTES).zip(counts);
    each.map(|(bytes, total)| Counter { name: name(bytes), total: *total }).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_and_counts_of_a_driver_lie_where_the_kernel_writes_them() {
        let mut words = vec![pair(GET_STRINGS, SET_OF_STATISTICS), pair(2, 0)];
        words.extend([0_u64; 8]);
        let mut bytes: Vec<u8> = words.iter().flat_map(|word| word.to_ne_bytes()).collect();
        bytes[12..20].copy_from_slice(b"rx_pause");
        bytes[44..76].copy_from_slice(b"tx_pause_of_a_name_of_32_bytes_x");
        let words: Vec<u64> =
            bytes.chunks(8).map(|word| u64::from_ne_bytes(word.try_into().expect("eight bytes"))).collect();
        let found = named(&bytes_behind_head(&words, 2), &[7, 9]);
        let found: Vec<_> = found.iter().map(|counter| (counter.name.as_str(), counter.total)).collect();
        assert_eq!(found, [("rx_pause", 7), ("tx_pause_of_a_name_of_32_bytes_x", 9)]);
    }

    #[test]
    fn a_card_without_counts_and_one_that_is_not_there_say_why() {
        for card in ["lo", "nosuchcard0", "a_name_that_is_too_long_for_a_card"] {
            assert!(!of_card(card).expect_err(card).is_empty(), "{card}");
            assert!(udp_spread(card).is_err() && stamped(card).is_err(), "{card}");
        }
    }
}
