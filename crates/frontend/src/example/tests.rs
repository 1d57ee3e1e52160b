//! Tests of bytes, losses, and the emulated board.

use thalweg_data::{BoardId, LossReason, Unit};

use super::{emulate, settings::Settings, wire};
use crate::check::{received, sent};
use crate::unit_decode::BoardHit;

fn datagram(board: u16, number: u32, channel: u16) -> Vec<u8> {
    let mut bytes = Vec::new();
    wire::emit(
        BoardId(board),
        number,
        &[BoardHit { ticks: 0x0102, channel, energy: 7, ..Default::default() }],
        &mut bytes,
    );
    bytes
}

#[test]
fn a_datagram_has_the_documented_bytes() {
    let bytes = b"THEX\x00\x03\x00\x01\x00\x00\x00\x05\x00\x00\x00\x00\x00\x00\x01\x02\x00\x09\x00\x07";
    assert_eq!(datagram(3, 5, 9), bytes);
    let outcome = received(&Settings { board: 3, first_channel: 100, ..Settings::default() }, [&bytes[..]]);
    let hit = outcome.hits[0];
    assert_eq!((hit.time_ps, hit.channel, hit.energy), (0x0102 * 1000, 109, 7));
}

#[test]
fn every_loss_is_counted_by_its_reason() {
    let damaged = [b"FHEX", &datagram(0, 12, 0)[4..]].concat();
    let sent =
        [datagram(0, 10, 0), datagram(0, 13, 0), datagram(0, 13, 0), datagram(1, 14, 0), datagram(0, 14, 99)];
    let cut = &sent[0][..20];
    let outcome = received(&Settings::default(), sent.iter().map(Vec::as_slice).chain([&damaged[..], cut]));
    outcome.assert_closed();
    for (reason, unit, count) in [
        (LossReason::DatagramGap, Unit::Datagrams, 2),
        (LossReason::DuplicateDatagram, Unit::Datagrams, 1),
        (LossReason::UnexpectedSender, Unit::Datagrams, 1),
        (LossReason::WrongConstant, Unit::Datagrams, 1),
        (LossReason::BadLength, Unit::Datagrams, 1),
        (LossReason::BadChannel, Unit::Hits, 1),
    ] {
        assert_eq!(outcome.lost(reason, unit), count, "{reason:?}");
    }
}

#[test]
fn the_hits_of_an_emulated_board_are_decoded() {
    let (datagrams, hits) = sent(&emulate::Settings::default(), 50);
    let outcome = received(&Settings::default(), datagrams.iter().map(Vec::as_slice));
    outcome.assert_closed();
    assert!(hits.len() > 300 && outcome.hits == hits, "{} hits", hits.len());
}
