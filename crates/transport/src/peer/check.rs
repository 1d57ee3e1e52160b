//! Feeds arbitrary bytes to a peer's receiving half, for fuzzing.
//!
//! ```text
//!  input: |choice|stream… ─ headers repaired, if chosen ─► Assembly, in chunks ─► messages, hellos ─► no more bytes than came
//! ```

use std::sync::OnceLock;

use thalweg_data::checksum;
use thalweg_data::{Message, Pool};

use super::assembly::{Assembly, Found};
use super::frame::{HEADER_BYTES, Header, Kind, MAGIC};
use super::hello::Hello;

/// Receives `input` as a peer does, and reads all messages. If its first byte is odd, the letters, numbers and checksums of
/// headers are repaired first, because a fuzzer does not guess a checksum.
///
/// # Panics
/// When the assembly panics, or messages have more bytes than the input.
pub fn check(input: &[u8]) {
    static POOL: OnceLock<Pool> = OnceLock::new();
    let Some((choice, stream)) = input.split_first() else { return };
    let mut stream = stream.to_vec();
    if choice & 1 != 0 {
        repair(&mut stream);
    }
    let chunk = [1, 7, 100, 4096][usize::from(choice >> 1 & 3)];
    let pool = POOL.get_or_init(|| Pool::new(32, 2048).expect("memory for a few blocks"));
    let mut assembly = Assembly::new(pool.clone(), 16 << 10, None);
    if choice & 8 != 0 {
        assembly.agree(1);
    }
    let (mut rest, mut found_bytes) = (stream.as_slice(), 0);
    while !rest.is_empty() {
        let Some(space) = assembly.space() else { break };
        let length = rest.len().min(space.len()).min(chunk);
        space[..length].copy_from_slice(&rest[..length]);
        assembly.publish(length);
        rest = &rest[length..];
        match drain(&mut assembly) {
            Some(bytes) => found_bytes += bytes,
            None => break,
        }
    }
    assert!(found_bytes <= stream.len() as u64, "{found_bytes} of {}", stream.len());
    assembly.give_up();
    assert_eq!(pool.free_count(), pool.block_count(), "blocks are held by nobody");
}

/// Takes all complete frames; returns the bytes of the messages, or `None` when the stream is invalid.
fn drain(assembly: &mut Assembly) -> Option<u64> {
    let mut bytes = 0;
    loop {
        match assembly.find().ok()? {
            Found::Nothing => return Some(bytes),
            Found::Message => {
                let mut message = Message::default();
                assembly.take(&mut message);
                let payload: u64 =
                    message.slices.iter().map(|slice| message.leases.bytes(*slice).len() as u64).sum();
                bytes += payload + message.head.len() as u64;
            }
            Found::Control(kind) => {
                if let (Kind::Hello, Some(hello)) = (kind, Hello::decode(assembly.head()))
                    && let Some(version) = Hello::of("checker", 1).agree(&hello)
                {
                    assembly.agree(version);
                }
                assembly.clear();
            }
        }
    }
}

/// Makes a stream of frames out of arbitrary bytes, as far as the lengths allow.
fn repair(stream: &mut [u8]) {
    let (mut at, mut sequence) = (0, 0u32);
    while let Some(header) = stream.get_mut(at..).and_then(|rest| rest.first_chunk_mut::<HEADER_BYTES>()) {
        header[..4].copy_from_slice(&MAGIC);
        // Keeps lengths near the limits; shortens others, so that a second frame follows.
        if header[11] != 0xFF {
            (header[10], header[11]) = (0, 0);
        }
        if header[23] != 0xFF {
            header[18..24].fill(0);
        }
        // This end has been lent nothing.
        header[12..16].fill(0);
        header[24..28].copy_from_slice(&sequence.to_le_bytes());
        let checksum = checksum::of(&header[..28]);
        header[28..].copy_from_slice(&checksum.to_le_bytes());
        let Ok(read) = Header::decode(header) else { return };
        let Ok(payload) = usize::try_from(read.payload_bytes) else { return };
        at = at.saturating_add(HEADER_BYTES + read.head_bytes as usize).saturating_add(payload);
        sequence = sequence.wrapping_add(1);
    }
}

/// Inputs to start from: a stream of a hello and messages, with each choice of chunks and repair.
pub fn seeds() -> Vec<Vec<u8>> {
    let frame = |kind, sequence, head: &[u8], payload: &[u8]| {
        let (head_bytes, payload_bytes) = (head.len() as u32, payload.len() as u64);
        let header = Header { version: 1, kind, head_bytes, table_entries: 0, payload_bytes, sequence };
        [&header.encode()[..], head, payload].concat()
    };
    let mut hello = Vec::new();
    Hello::of("a unit", 1 << 20).encode(&mut hello);
    let stream = [
        frame(Kind::Hello, 0, &hello, &[]),
        frame(Kind::Message, 1, b"head", &[7; 3000]),
        frame(Kind::Heartbeat, 2, &[], &[]),
        frame(Kind::Message, 3, &[1; 100], &[]),
        frame(Kind::Refusal, 4, b"another version", &[]),
        frame(Kind::Bye, 5, &[], &[]),
    ]
    .concat();
    (0..16u8).map(|choice| [&[choice][..], &stream].concat()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn seeds_are_read_and_damaged_ones_do_not_panic() {
        let mut assembly = Assembly::new(Pool::new(8, 4096).expect("small"), 16 << 10, None);
        let stream = &seeds()[0][1..];
        let space = assembly.space().expect("a block");
        space[..stream.len()].copy_from_slice(stream);
        assembly.publish(stream.len());
        assert_eq!(drain(&mut assembly), Some(3104));
        for input in seeds() {
            check(&input);
            for index in (0..input.len()).step_by(17) {
                let mut other = input.clone();
                other[index] ^= 1 << (index % 8);
                check(&other);
            }
        }
    }
}
