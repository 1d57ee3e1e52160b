//! Small packets and descriptions from which fuzzing starts.
//!
//! ```text
//!  Encoder ─► seeds ─► a fuzzer's mutations ─► check
//! ```
//! The first byte of an input chooses settings; see [`check`](super::check).

use super::check::checked_description;
use super::emit;
use crate::check::joined;

/// Streams and datagrams for choices of scope, byte order, marks and hits.
pub fn packets() -> Vec<Vec<u8>> {
    let input = |choice: u8| {
        let encoder =
            emit::Encoder::new(&checked_description(choice)).expect("the checked description is valid");
        let mut packets = Vec::new();
        for index in (0..20u64).filter(|index| index % 7 != 5) {
            let values =
                [("part", index % 2), ("count", index / 2), ("trigger", index / 8), ("time", index * 900)];
            let mut packet = Vec::new();
            encoder
                .packet(&values, &[0xA5; 30][..index as usize], &mut packet)
                .expect("the fields are described");
            packets.push(packet);
        }
        let is_stream = choice & 1 == 1;
        let bytes = if is_stream { packets.concat() } else { joined(packets.iter().map(Vec::as_slice)) };
        [vec![choice], bytes].concat()
    };
    [0x00, 0x01, 0x14, 0x15, 0x98, 0x99, 0xFC, 0xFD, 0xD3, 0xB1].map(input).to_vec()
}

/// The format's own keys of an example's `[[source]]`, as the front end reads them.
pub fn description(example: &str) -> String {
    let of_the_run = ["[[source]]", "name ", "format ", "url "];
    let lines = example.lines().filter(|line| !of_the_run.iter().any(|key| line.starts_with(key)));
    lines.map(|line| line.replace("[source.", "[") + "\n").collect()
}

/// The shipped descriptions.
pub fn descriptions() -> Vec<Vec<u8>> {
    [
        include_str!("../../descriptions/slsdetector.toml"),
        include_str!("../../descriptions/mcpd.toml"),
        include_str!("../../descriptions/recbe.toml"),
    ]
    .map(|example| description(example).into_bytes())
    .to_vec()
}

#[cfg(test)]
mod tests {
    use thalweg_data::SourceId;

    use super::super::{GenericDecode, GenericUnpack, Settings};

    #[test]
    fn seeds_of_descriptions_are_descriptions_that_can_be_read_with() {
        for seed in super::descriptions() {
            let text = String::from_utf8(seed).expect("text");
            let settings: Settings = toml::from_str(&text).unwrap_or_else(|error| panic!("{error}: {text}"));
            assert!(GenericUnpack::new(SourceId(0), &settings).is_ok(), "{text}");
            assert!(GenericDecode::new(SourceId(0), &settings).is_ok(), "{text}");
        }
    }
}
