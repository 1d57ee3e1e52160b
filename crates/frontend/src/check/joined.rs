//! Joins datagrams into the inputs of fuzz targets that read datagrams.
//!
//! ```text
//!  | length, 2 bytes | datagram | length | datagram | …      lengths are big-endian
//! ```

/// Joins datagrams, each after its length.
pub fn joined<'a>(datagrams: impl IntoIterator<Item = &'a [u8]>) -> Vec<u8> {
    let with_length = |datagram: &[u8]| [&(datagram.len() as u16).to_be_bytes()[..], datagram].concat();
    datagrams.into_iter().flat_map(with_length).collect()
}

/// Splits joined datagrams. All bytes are valid: a datagram that is shorter than its length is the last.
pub fn split(mut joined: &[u8]) -> impl Iterator<Item = &[u8]> {
    std::iter::from_fn(move || {
        let (length, rest) = joined.split_first_chunk()?;
        let (datagram, rest) = rest.split_at(usize::from(u16::from_be_bytes(*length)).min(rest.len()));
        joined = rest;
        Some(datagram)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn joined_datagrams_are_split_into_the_same() {
        let datagrams = [&b"one"[..], b"", &[7; 300]];
        let bytes = joined(datagrams);
        assert_eq!(split(&bytes).collect::<Vec<_>>(), datagrams);
        assert_eq!(split(&bytes[..bytes.len() - 1]).last().map(<[u8]>::len), Some(299));
        assert_eq!(split(&[0]).count(), 0, "half a length");
    }
}
