//! Fuzzing of the family: invariants of every description and every input.
//!
//! ```text
//!  any bytes ─► a description chosen by the first byte ─► stream or joined datagrams ─► unpack ─► decode ─► the ledger balances
//!  any text ──► a description, if it is one ─► the same
//! ```

use std::collections::BTreeMap;

use thalweg_data::SourceId;

use super::{
    Accept, ByteOrder, Field, GenericDecode, GenericSplitter, GenericUnpack, HitsPer, Length, NamedBy,
    PacketFragments, PacketHits, Parts, Role, Scope, Sequence, Settings, Timestamp, seeds,
};
use crate::check::{Host, fragments_of_stream, hits_of_datagrams, hits_of_stream, split};
use crate::format::FuzzTarget;
use crate::time_origin::TimeOrigin;

/// Fuzz targets of the family.
pub(super) static FUZZ: &[FuzzTarget] = &[
    FuzzTarget { name: "generic", seeds: seeds::packets, check },
    FuzzTarget {
        name: "description",
        seeds: seeds::descriptions,
        check: |bytes| check_description(bytes, |text| toml::from_str(text).ok()),
    },
];

/// Reads arbitrary bytes as a host does, as a stream or as joined datagrams; panics if the ledger does not balance. The
/// first byte chooses the description.
pub fn check(input: &[u8]) {
    let Some((choice, bytes)) = input.split_first() else { return };
    let settings = checked_description(*choice);
    check_fragments(&settings, bytes);
    let unpack = GenericUnpack::new(SourceId(0), &settings).expect("the description is valid");
    let decode = GenericDecode::new(SourceId(0), &settings).expect("the description is valid");
    let outcome = if settings.stream {
        let chunk_sizes = if choice & 2 == 0 { [4096, 17] } else { [3, 1] };
        hits_of_stream(unpack, decode, bytes, &chunk_sizes)
    } else {
        hits_of_datagrams(unpack, decode, split(bytes))
    };
    outcome.assert_closed();
}

/// Reads the same bytes as those of triggered boards: of several that are named by header or sender, and of one.
fn check_fragments(settings: &Settings, bytes: &[u8]) {
    for (boards, named_by) in [(3, NamedBy::Header), (2, NamedBy::Sender), (1, NamedBy::Connection)] {
        let fragments = PacketFragments {
            boards,
            named_by,
            first_board: 1,
            keep_header: boards != 2,
            open_fragments: 2,
            reassembly_ms: 3,
        };
        let triggered = Settings {
            hits: None,
            time_origin: TimeOrigin::Board,
            fragments: Some(fragments),
            ..settings.clone()
        };
        // A fragment in several packets is not supported in a stream.
        let Ok(splitter) = GenericSplitter::new(SourceId(0), &triggered) else { continue };
        if triggered.stream {
            fragments_of_stream(splitter, bytes, &[4096, 17]).assert_closed();
            continue;
        }
        let mut host = Host::of_fragments(SourceId(0), splitter);
        for (sender, datagram) in (0..3).cycle().zip(split(bytes)) {
            host.datagram_from(sender, datagram);
        }
        host.finish().assert_closed();
    }
}

/// For fuzzing: compiles any description that `parse` reads from arbitrary text.
pub fn check_description(input: &[u8], parse: impl Fn(&str) -> Option<Settings>) {
    if let Some(settings) = std::str::from_utf8(input).ok().and_then(parse)
        && let Ok(unpack) = GenericUnpack::new(SourceId(0), &settings)
        && let Ok(decode) = GenericDecode::new(SourceId(0), &settings)
    {
        // Read some input with it, too: the text itself.
        let outcome = match settings.stream {
            true => hits_of_stream(unpack, decode, input, &[100]),
            false => hits_of_datagrams(unpack, decode, input.chunks(100)),
        };
        outcome.assert_closed();
    }
}

/// A description with every role; the bits of `choice` switch stream, scope, constants and hits.
pub(crate) fn checked_description(choice: u8) -> Settings {
    let bit = |index: u8| choice >> index & 1 == 1;
    let field =
        |offset, width| Field { offset, width, byte_order: None, word_order: None, mask: None, shift: 0 };
    let role = |name: &str| Some(Role { field: name.to_owned() });
    let fields =
        [("type", field(0, 1)), ("part", field(1, 1)), ("count", field(2, 2)), ("length", field(4, 2))];
    let more = [("trigger", field(6, 8)), ("time", Field { mask: Some(0x7FFF), ..field(14, 2) })];
    let scope = if bit(2) { Scope::Frame } else { Scope::Source };
    Settings {
        byte_order: if bit(3) { ByteOrder::Big } else { ByteOrder::Little },
        stream: bit(0),
        header_bytes: Some(16),
        field: fields
            .into_iter()
            .chain(more)
            .map(|(name, field)| (name.to_owned(), field))
            .collect::<BTreeMap<_, _>>(),
        accept: bit(4).then(|| Accept { field: "type".to_owned(), values: vec![1, 2], ignore: vec![3] }),
        check: Vec::new(),
        part: Some(Parts { fields: vec!["part".to_owned()], limit: 4 }),
        sequence: Some(Sequence {
            field: "count".to_owned(),
            scope,
            packets_per_frame: bit(2).then_some(70),
            every_trigger: bit(5),
            window: 4,
            largest_gap: None,
        }),
        trigger: role("trigger"),
        time_origin: if bit(3) { TimeOrigin::FirstHit } else { TimeOrigin::Board },
        timestamp: Some(Timestamp { field: "time".to_owned(), tick_ps: 1000.0 }),
        length: Some(Length {
            field: Some("length".to_owned()),
            unit_bytes: 1,
            includes_header: bit(6),
            payload_bytes: None,
            limit_bytes: Some(1000),
            padding: bit(5),
        }),
        payload: None,
        run: role("part"),
        status: role("type"),
        fragments: None,
        hits: bit(7).then_some(PacketHits {
            per: HitsPer::Packet,
            channel: None,
            channels: 100,
            first_channel: 8,
            time_offset_ps: -5,
        }),
    }
}
