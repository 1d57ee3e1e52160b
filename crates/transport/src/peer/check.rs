//! Arbitrary bytes as the stream of a peer: for fuzzing.
//!
//! ```text
//!  input: |choice|stream… ─ checksums made right, if chosen ─► Assembly, in pieces ─► messages, hellos ─► as many bytes as came
//! ```

use std::sync::OnceLock;

use thalweg_data::checksum;
use thalweg_data::{Message, Pool};

use super::assembly::{Assembly, Found};
use super::frame::{HEADER_BYTES, Header, Kind, MAGIC};
use super::hello::Hello;

/// Receives `input` as a peer does, and looks at whatever comes out. With its first byte odd, the letters, numbers and checksums of
/// headers are put right first: no fuzzer guesses a checksum.
///
/// # Panics
/// When the assembly does, or a message has more bytes than came.
pub fn check(input: &[u8]) {
    static POOL: OnceLock<Pool> = OnceLock::new();
    let Some((choice, stream)) = input.split_first() else { return };
    let mut stream = stream.to_vec();
    if choice & 1 != 0 {
        put_right(&mut stream);
    }
    let piece = [1, 7, 100, 4096][usize::from(choice >> 1 & 3)];
    let pool = POOL.get_or_init(|| Pool::new(32, 2048).expect("memory for a few blocks"));
    let mut assembly = Assembly::new(pool.clone(), 16 << 10);
    if choice & 8 != 0 {
        assembly.agree(1);
    }
    let (mut rest, mut found_bytes) = (stream.as_slice(), 0);
    while !rest.is_empty() {
        let Some(room) = assembly.room() else { break };
        let length = rest.len().min(room.len()).min(piece);
        room[..length].copy_from_slice(&rest[..length]);
        assembly.publish(length);
        rest = &rest[length..];
        match look(&mut assembly) {
            Some(bytes) => found_bytes += bytes,
            None => break,
        }
    }
    assert!(found_bytes <= stream.len() as u64, "{found_bytes} of {}", stream.len());
    assembly.give_up();
    assert_eq!(pool.free_count(), pool.block_count(), "blocks are held by nobody");
}

/// Everything that is there; `None` when the stream is of no further use.
fn look(assembly: &mut Assembly) -> Option<u64> {
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

/// Makes a stream of frames out of noise, where the lengths allow.
fn put_right(stream: &mut [u8]) {
    let (mut at, mut sequence) = (0, 0u32);
    while let Some(header) = stream.get_mut(at..).and_then(|rest| rest.first_chunk_mut::<HEADER_BYTES>()) {
        header[..4].copy_from_slice(&MAGIC);
        // Lengths near the limits are kept, others brought near enough for a second frame.
        if header[11] != 0xFF {
            (header[10], header[11]) = (0, 0);
        }
        if header[23] != 0xFF {
            header[18..24].fill(0);
        }
        header[24..28].copy_from_slice(&sequence.to_le_bytes());
        let checksum = checksum::of(&header[..28]);
        header[28..].copy_from_slice(&checksum.to_le_bytes());
        let Ok(read) = Header::decode(header) else { return };
        let Ok(payload) = usize::try_from(read.payload_bytes) else { return };
        at = at.saturating_add(HEADER_BYTES + read.head_bytes as usize).saturating_add(payload);
        sequence = sequence.wrapping_add(1);
    }
}

/// Inputs to start from: a hello, then messages; whole, and as one frame each.
pub fn seeds() -> Vec<Vec<u8>> {
    let frame = |kind, sequence, head: &[u8], payload: &[u8]| {
        let (head_bytes, payload_bytes) = (head.len() as u32, payload.len() as u64);
        let header = Header { version: 1, kind, head_bytes, payload_bytes, sequence };
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
    fn seeds_are_understood_and_their_damage_is_harmless() {
        let mut assembly = Assembly::new(Pool::new(8, 4096).expect("small"), 16 << 10);
        let stream = &seeds()[0][1..];
        let room = assembly.room().expect("a block");
        room[..stream.len()].copy_from_slice(stream);
        assembly.publish(stream.len());
        assert_eq!(look(&mut assembly), Some(3104));
        for input in seeds() {
            check(&input);
            for place in (0..input.len()).step_by(17) {
                let mut other = input.clone();
                other[place] ^= 1 << (place % 8);
                check(&other);
            }
        }
    }
}
