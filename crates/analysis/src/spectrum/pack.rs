//! Counts as few bytes, for a page that wants them ten times a second.
//!
//! ```text
//!  [7, 0, 0, 0, 300] ──► 07 │ 00 03 │ ac 02        small numbers are one byte, a run of zeros two or three
//! ```
//! Numbers are LEB128; a zero is followed by the length of the run of zeros that it begins.

/// Appends packed counts to `bytes`.
pub fn pack(counts: &[u64], bytes: &mut Vec<u8>) {
    let mut rest = counts;
    while let Some(first) = rest.first() {
        number(*first, bytes);
        let taken = match first {
            0 => {
                let zeros = rest.iter().take_while(|count| **count == 0).count();
                number(zeros as u64, bytes);
                zeros
            }
            _ => 1,
        };
        rest = &rest[taken..];
    }
}

fn number(mut value: u64, bytes: &mut Vec<u8>) {
    while value >= 0x80 {
        bytes.push(value as u8 | 0x80);
        value >>= 7;
    }
    bytes.push(value as u8);
}

/// Reads packed counts; `None` of bytes that are none, or more than `most` counts.
pub fn unpack(bytes: &[u8], most: usize) -> Option<Vec<u64>> {
    let (mut counts, mut bytes) = (Vec::new(), bytes.iter());
    while bytes.len() > 0 {
        match take(&mut bytes)? {
            0 => {
                let zeros = usize::try_from(take(&mut bytes)?).ok().filter(|zeros| *zeros > 0)?;
                if zeros > most - counts.len() {
                    return None;
                }
                counts.resize(counts.len() + zeros, 0);
            }
            _ if counts.len() == most => return None,
            count => counts.push(count),
        }
    }
    Some(counts)
}

fn take(bytes: &mut std::slice::Iter<'_, u8>) -> Option<u64> {
    let mut value = 0u64;
    for shift in (0..64).step_by(7) {
        let byte = *bytes.next()?;
        value |= u64::from(byte & 0x7f) << shift;
        if byte & 0x80 == 0 {
            return Some(value);
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn an_empty_spectrum_takes_three_bytes() {
        let mut bytes = Vec::new();
        pack(&[0; 4096], &mut bytes);
        assert_eq!(bytes, [0, 0x80, 0x20]);
    }

    proptest! {
        #[test]
        fn what_is_packed_is_unpacked(counts in proptest::collection::vec(prop_oneof![Just(0u64), 1..300u64, any::<u64>()], 0..200)) {
            let mut bytes = Vec::new();
            pack(&counts, &mut bytes);
            prop_assert_eq!(unpack(&bytes, counts.len()), Some(counts));
        }

        #[test]
        fn no_bytes_make_the_reader_fall(bytes in proptest::collection::vec(any::<u8>(), 0..100)) {
            let _ = unpack(&bytes, 1000);
        }
    }
}
