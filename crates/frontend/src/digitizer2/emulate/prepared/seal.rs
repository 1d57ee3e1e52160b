//! Footers of prepared datagrams, whose hashes are computed in parallel.
//!
//! ```text
//!  out │ data, 8 bytes │ data, 8 bytes │ … ─ hash, four in parallel ─► footers in the 8 bytes
//! ```

use super::PreparedDatagram;
use crate::digitizer2::emit;
use crate::digitizer2::emulate::packer::{DatagramIds, Packer};
use crate::digitizer2::wire::Footer;
use crate::self_triggered::Outgoing;

/// Number of datagrams written and hashed in parallel: the hash is a chain of dependent steps, and four chains keep the
/// processor busy.
pub(super) const LANES: usize = 4;

/// Writes the footers of the datagrams in `out` from `start` on. The network buffer ends with the last datagram of a unit if
/// `ends_with_unit`, otherwise after the board's number of datagrams.
pub(super) fn seal(
    mut start: usize,
    datagrams: &[PreparedDatagram],
    ends_with_unit: bool,
    packer: &mut Packer,
    out: &mut Outgoing,
) {
    let lengths = datagrams.iter().map(|datagram| datagram.data_bytes() + Footer::BYTES);
    let equal =
        datagrams.len() == LANES && lengths.clone().all(|length| Some(length) == lengths.clone().next());
    out.lengths.extend(lengths.clone().map(|length| length as u32));
    let mut ids = |datagram: &PreparedDatagram| match ends_with_unit {
        true => packer.next_of_buffer(datagram.ends_unit),
        false => packer.next_datagram(false),
    };
    if !equal {
        for (length, datagram) in lengths.zip(datagrams) {
            let DatagramIds { buffer, datagram: id, last } = ids(datagram);
            emit::rehash(&mut out.bytes[start..start + length], buffer, id, datagram.is_aligned, last);
            start += length;
        }
        return;
    }
    let length = (out.bytes.len() - start) / LANES;
    let ids: [DatagramIds; LANES] = std::array::from_fn(|lane| ids(&datagrams[lane]));
    let hashes = hash_lanes(&out.bytes[start..], length, ids.map(|ids| ids.datagram));
    for (lane, ids) in ids.into_iter().enumerate() {
        let words = (length / 8 - 1) as u16;
        let footer = Footer::new(ids.buffer, hashes[lane], datagrams[lane].is_aligned, words, ids.last).0;
        let end = start + (lane + 1) * length;
        out.bytes[end - Footer::BYTES..end].copy_from_slice(&footer.to_be_bytes());
    }
}

/// The hash of four datagrams of equal length, in parallel; the same as [`crate::digitizer2::wire::hash`] of each.
fn hash_lanes(bytes: &[u8], length: usize, datagram_ids: [u32; LANES]) -> [u32; LANES] {
    const SEED: u32 = 5381;
    const FACTOR: u32 = 33;
    let lanes: [&[[u8; 8]]; LANES] = std::array::from_fn(|lane| {
        bytes[lane * length..(lane + 1) * length - Footer::BYTES].as_chunks::<8>().0
    });
    let words = length / 8 - 1;
    let [first, second, third, fourth] = lanes.map(|lane| &lane[..words]);
    let step = |hash: u32, word: &[u8; 8]| hash.wrapping_mul(FACTOR) ^ u64::from_be_bytes(*word) as u32;
    let mut hashes = datagram_ids.map(|id| SEED.wrapping_mul(FACTOR) ^ (id & 0xFF_FFFF));
    for index in 0..words {
        hashes = [
            step(hashes[0], &first[index]),
            step(hashes[1], &second[index]),
            step(hashes[2], &third[index]),
            step(hashes[3], &fourth[index]),
        ];
    }
    hashes
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::digitizer2::wire::hash;

    #[test]
    fn parallel_hashes_are_those_of_each_datagram() {
        let length = 8 * 50;
        let bytes: Vec<u8> = (0..LANES * length).map(|index| (index * 31 % 251) as u8).collect();
        let hashes = hash_lanes(&bytes, length, [0, 1, 2, 0xFF_FFFF]);
        for (lane, id) in [0, 1, 2, 0xFF_FFFF].into_iter().enumerate() {
            let data = &bytes[lane * length..(lane + 1) * length - 8];
            assert_eq!(hashes[lane], hash(id, data.as_chunks::<8>().0));
        }
    }
}
