use proptest::prelude::*;

use super::*;

/// Bytes of a hex string; blanks between words are ignored.
pub(crate) fn hex(text: &str) -> Vec<u8> {
    let digits: String = text.chars().filter(char::is_ascii_hexdigit).collect();
    let byte = |at: usize| u8::from_str_radix(&digits[at..at + 2], 16).expect("two digits");
    (0..digits.len()).step_by(2).map(byte).collect()
}

fn requests(bytes: &[u8]) -> Vec<Result<Request<'_>, WireError>> {
    Requests::of(Packet::check(bytes).and_then(Packet::control).expect("a control packet")).collect()
}

fn replies(bytes: &[u8]) -> Vec<Result<Reply<'_>, WireError>> {
    Replies::of(Packet::check(bytes).and_then(Packet::control).expect("a control packet")).collect()
}

/// Captured request and reply; operation, address, words written, words read.
type Captured = (&'static str, &'static str, Operation, u32, &'static [u32], &'static [u32]);

/// What the reference client sends for each operation, and the reference device's reply.
const CAPTURED: [Captured; 8] = [
    (
        "f0000020 1f010020 00100000 bebafeca",
        "f0000020 10010020",
        Operation::Write,
        0x1000,
        &[0xCAFE_BABE],
        &[],
    ),
    (
        "f0000020 0f010120 00100000",
        "f0000020 00010120 bebafeca",
        Operation::Read,
        0x1000,
        &[],
        &[0xCAFE_BABE],
    ),
    (
        "f0000020 1f030220 01100000 11111111 22222222 33333333",
        "f0000020 10030220",
        Operation::Write,
        0x1001,
        &[0x1111_1111, 0x2222_2222, 0x3333_3333],
        &[],
    ),
    (
        "f0000020 0f030320 00100000",
        "f0000020 00030320 bebafeca 11111111 22222222",
        Operation::Read,
        0x1000,
        &[],
        &[0xCAFE_BABE, 0x1111_1111, 0x2222_2222],
    ),
    (
        "f0000020 2f020420 00100000",
        "f0000020 20020420 bebafeca bebafeca",
        Operation::ReadFifo,
        0x1000,
        &[],
        &[0xCAFE_BABE; 2],
    ),
    (
        "f0000020 4f010520 00100000 0000ffff 34120000",
        "f0000020 40010520 bebafeca",
        Operation::ChangeBits,
        0x1000,
        &[0xFFFF_0000, 0x1234],
        &[0xCAFE_BABE],
    ),
    (
        "f0000020 5f010620 00100000 01000000",
        "f0000020 50010620 3412feca",
        Operation::Add,
        0x1000,
        &[1],
        &[0xCAFE_1234],
    ),
    (
        "f0000020 6f010720 02000000",
        "f0000020 60010720 0200c410",
        Operation::ReadConfiguration,
        2,
        &[],
        &[0x10C4_0002],
    ),
];

#[test]
fn captured_packets_are_parsed_and_built() {
    for (number, (asked, answered, operation, address, sent, read)) in CAPTURED.into_iter().enumerate() {
        let (asked, answered) = (hex(asked), hex(answered));
        let found = requests(&asked);
        let [Ok(request)] = &found[..] else { panic!("{found:?}") };
        assert_eq!(
            (request.operation, request.address, usize::from(request.id)),
            (operation, address, number)
        );
        assert_eq!(request.data.iter().collect::<Vec<_>>(), sent);

        let mut bytes = Vec::new();
        let mut packet = RequestPacket::begin(0, ByteOrder::Little, &mut bytes);
        let id = number as u16;
        match operation {
            Operation::ChangeBits => packet.change_bits(id, address, sent[0], sent[1]),
            Operation::Add => packet.add(id, address, sent[0]),
            Operation::Write => packet.write(id, operation, address, sent),
            _ => packet.read(id, operation, address, request.words.into()),
        }
        assert_eq!(bytes, asked);

        let found = replies(&answered);
        let [Ok(reply)] = &found[..] else { panic!("{found:?}") };
        assert_eq!((reply.header.operation, reply.header.info), (operation, Info::Success));
        assert_eq!(reply.data.iter().collect::<Vec<_>>(), read);
        let mut bytes = Vec::new();
        let mut packet = ReplyPacket::begin(0, ByteOrder::Little, &mut bytes);
        let position = packet.open();
        read.iter().for_each(|word| packet.word(*word));
        packet.end(position, request.replied(reply.header.words, Info::Success));
        assert_eq!(bytes, answered);
    }
}

#[test]
fn several_transactions_of_a_packet_are_parsed() {
    let asked = hex("f0000020 0f010820 00100000 0f010920 01100000 1f010a20 02100000 5a5a5a5a");
    let found: Vec<_> =
        requests(&asked).into_iter().map(|one| one.map(|one| (one.id, one.address))).collect();
    assert_eq!(found, [Ok((8, 0x1000)), Ok((9, 0x1001)), Ok((10, 0x1002))]);
    let answered = hex("f0000020 00010820 3512feca 00010920 11111111 10010a20");
    let found = replies(&answered);
    let words = |one: &Result<Reply<'_>, WireError>| one.clone().map(|one| one.data.get(0));
    assert_eq!(
        found.iter().map(words).collect::<Vec<_>>(),
        [Ok(Some(0xCAFE_1235)), Ok(Some(0x1111_1111)), Ok(None)]
    );
}

#[test]
fn the_header_shows_the_byte_order() {
    let asked = hex("200000f0 2000010f 00001000");
    let found = requests(&asked);
    assert!(matches!(found[..], [Ok(Request { address: 0x1000, operation: Operation::Read, words: 1, .. })]));
    let control = Packet::check(&asked).and_then(Packet::control).expect("control");
    assert_eq!((control.id, control.body.order()), (0, ByteOrder::Big));
    let mut numbered = asked.clone();
    renumber(&mut numbered, 0x1234);
    assert_eq!(numbered, hex("201234f0 2000010f 00001000"));
    let mut numbered = hex("f0000020 0f010120 00100000");
    renumber(&mut numbered, 1);
    assert_eq!(numbered, hex("f0010020 0f010120 00100000"));
    assert_eq!(Header::id_behind(0xFFFF), 1, "0 is skipped");
}

#[test]
fn an_error_ends_a_reply_packet_whatever_else_its_header_has() {
    // Replies of the reference device to an unknown operation, to an info code of 0, and to a read and an unknown operation.
    for (answered, infos) in [
        ("f0000020 01000120", &[Info::BadHeader][..]),
        ("f0000020 01010020", &[Info::BadHeader]),
        ("f0000020 00010020 bebafeca 01000020", &[Info::Success, Info::BadHeader]),
        ("f0000020 00000020", &[Info::Success]),
    ] {
        let answered = hex(answered);
        let found: Vec<Info> =
            replies(&answered).into_iter().map(|one| one.expect("a reply").header.info).collect();
        assert_eq!(found, infos);
    }
    // Two of five words were read before the bus error; an invalid reply follows.
    let answered = hex("f0000020 04020720 01000000 02000000 ffffffff");
    let found = replies(&answered);
    let [Ok(reply)] = &found[..] else { panic!("{found:?}") };
    assert_eq!((reply.header.info, reply.header.words), (Info::ErrorOnRead, 2));
    assert_eq!(reply.data.iter().collect::<Vec<_>>(), [1, 2]);
}

#[test]
fn invalid_packets_and_requests_are_refused_with_a_reason() {
    let refused = |text: &str| Packet::check(&hex(text)).expect_err("refused").to_string();
    assert_eq!(
        refused("f00000"),
        "3 bytes are not an IPbus packet, which is one or more words of four bytes"
    );
    assert!(refused("100000f0").starts_with("a packet that begins with 0x100000f0 is not IPbus 2.0"));
    assert!(refused("f1000020").contains("0xf1000020"), "a status packet is big-endian");
    let status =
        Packet::check(&hex("200000f1")).expect("status").control().expect_err("no control").to_string();
    assert_eq!(status, "a status packet where a control packet was expected");
    for (asked, word) in [
        ("f0000020 8f010020 00100000", "its operation is unknown"),
        ("f0000020 0f010010 00100000", "its version is not 2"),
        ("f0000020 00010020 00100000", "it is not a request"),
        ("f0000020 4f020520 00100000 0000ffff 34120000", "the word count is not 1"),
        ("f0000020 1f030220 01100000 11111111", "announces 4 more words, the packet has 2"),
        ("f0000020 0f010020", "announces 1 more words, the packet has 0"),
    ] {
        let asked = hex(asked);
        let found = requests(&asked);
        let [Err(error)] = &found[..] else { panic!("{found:?}") };
        assert!(error.to_string().contains(word), "{error}");
    }
    let answered = hex("f0000020 00030320 bebafeca");
    let found = replies(&answered);
    assert!(matches!(found[..], [Err(WireError::Cut { promised: 3, found: 1, .. })]), "{found:?}");
}

#[test]
fn the_captured_status_is_parsed_and_built() {
    let bytes = hex("200000f1 00061a80 00000005 200001f0 00000000 00000002 02020202 02020202
         200000f0 200000f0 200000f0 200000f0 20070160 20080100 20090100 200a0110");
    let status = Packet::check(&bytes).and_then(Packet::status).expect("a status");
    assert_eq!((status.buffer_bytes, status.buffers, status.next_id), (400_000, 5, 1));
    assert_eq!(status.history, *b"\0\0\0\0\0\0\0\x02\x02\x02\x02\x02\x02\x02\x02\x02");
    assert_eq!(status.sent[3], 0x200A_0110);
    assert_eq!(status.bytes().to_vec(), bytes);
    assert_eq!(status_request()[..4], hex("200000f1"));
    assert_eq!(resend(2).to_vec(), hex("200002f2"));
    for buffers in [0, u32::MAX] {
        let wrong = Status { buffers, ..status };
        assert!((1..=256).contains(&wrong.packets_in_flight()), "a target reports {buffers} buffers");
    }
    let mut invalid = bytes.clone();
    invalid[12..16].copy_from_slice(&hex("200000f0"));
    assert!(Status::check(&invalid).is_err(), "a numbered packet never has the id 0");
    assert!(Status::check(&bytes[..60]).is_err());
}

#[test]
fn captured_chunks_of_a_hub_are_parsed_and_built() {
    let target = Target { address: [127, 0, 0, 1].into(), port: 60191 };
    let packet = hex("f0000020 1f010020 00100000 bebafeca");
    let chunk = hex("00000018 7f000001 eb1f0004 f0000020 1f010020 00100000 bebafeca");
    let mut bytes = Vec::new();
    HubRequest::append(target, &[&packet], &mut bytes).expect("it is short");
    assert_eq!(bytes, chunk);
    assert_eq!(frame_bytes([0, 0, 0, 0x18], 1000), Ok(24));
    let request = HubRequest::check(&chunk[LENGTH_BYTES..]).expect("a chunk");
    assert_eq!((request.target, request.items().collect::<Vec<_>>()), (target, vec![&packet[..]]));

    let chunk = hex("00000014 00000010 7f000001 eb1f0000 f0000020 10010020");
    let reply = HubReply { target, code: HubCode::Fine, packet: &hex("f0000020 10010020") };
    let mut bytes = Vec::new();
    HubReply::append([reply].into_iter(), &mut bytes);
    assert_eq!(bytes, chunk);
    assert_eq!(HubReplies::of(&chunk[LENGTH_BYTES..]).collect::<Vec<_>>(), [Ok(reply)]);

    let chunk = hex("00000030 00000014 7f000001 eb200000 f0000020 00010020 bebafeca
         00000014 7f000001 eb200000 f0000020 00010120 00000000");
    assert_eq!(HubReplies::of(&chunk[LENGTH_BYTES..]).filter(Result::is_ok).count(), 2);
    let absent = hex("00000008 7f000001 ea600003");
    let found: Vec<_> = HubReplies::of(&absent).collect();
    assert!(matches!(found[..], [Ok(HubReply { code: HubCode::NoStatus, packet: [], .. })]), "{found:?}");
}

#[test]
fn invalid_chunks_are_refused_with_a_reason() {
    let item = "7f000001 eb200003 f0000020 0f010020 00100000";
    let other = "7f000002 eb200003 f0000020 0f010020 00100000";
    for (chunk, word) in [
        (String::new(), "it has no items"),
        ("7f000001 eb200004 f0000020".to_owned(), "is incomplete"),
        ("7f000001 eb200000".to_owned(), "is incomplete"),
        (item.to_owned() + other, "several targets"),
    ] {
        let refused = HubRequest::check(&hex(&chunk)).expect_err("refused").to_string();
        assert!(refused.contains(word), "{refused}");
    }
    for length in [0, 3, 5, 0x4000_0000_u32] {
        assert!(frame_bytes(length.to_be_bytes(), 1 << 20).is_err(), "{length}");
    }
    let huge = vec![0; 4 * 65_536];
    let target = Target { address: [127, 0, 0, 1].into(), port: 1 };
    assert!(HubRequest::append(target, &[&huge], &mut Vec::new()).is_err());
    let cut = hex("00000014 7f000001 eb200000 f0000020");
    assert!(HubReplies::of(&cut).all(|reply| reply.is_err()));
}

fn operations() -> impl Strategy<Value = (Operation, u16, u32, Vec<u32>)> {
    let data = prop::collection::vec(any::<u32>(), 0..=MOST_WORDS);
    (prop::sample::select(&Operation::ALL[..]), 0..0x1000u16, any::<u32>(), data)
}

proptest! {
    #[test]
    fn headers_are_parsed_as_they_were_built(id: u16, kind in 0..3u8, transaction in 0..0x1000u16, words: u8, operation in 0..8usize, info in 0..16u8) {
        let kind = [Kind::Control, Kind::Status, Kind::Resend][usize::from(kind)];
        let header = Header { id, kind };
        prop_assert_eq!(Header::of_word(header.word()), Some(header));
        let operation = Operation::ALL[operation];
        let header = TransactionHeader { id: transaction, words, operation, info: Info::of_code(info) };
        prop_assert_eq!(header.info.code(), info);
        prop_assert_eq!(TransactionHeader::of_word(header.word()), Ok(header));
    }

    /// The client packs by `request_words`, so the sizes must match, too.
    #[test]
    fn requests_are_parsed_as_they_were_built(id: u16, big: bool, asked in prop::collection::vec(operations(), 0..20)) {
        let order = if big { ByteOrder::Big } else { ByteOrder::Little };
        let mut bytes = Vec::new();
        let mut packet = RequestPacket::begin(id, order, &mut bytes);
        let mut expected = WORD_BYTES;
        for (operation, own, address, data) in &asked {
            let words = match operation {
                Operation::ChangeBits => {
                    packet.change_bits(*own, *address, 1, 2);
                    1
                }
                Operation::Add => {
                    packet.add(*own, *address, 3);
                    1
                }
                write if write.reply_words(1) == 0 => {
                    packet.write(*own, *write, *address, data);
                    data.len()
                }
                read => {
                    packet.read(*own, *read, *address, data.len());
                    data.len()
                }
            };
            expected += WORD_BYTES * (1 + operation.request_words(words));
        }
        prop_assert_eq!(bytes.len(), expected);
        let control = Packet::check(&bytes).and_then(Packet::control).expect("a control packet");
        prop_assert_eq!((control.id, control.body.order()), (id, order));
        let found: Vec<_> = Requests::of(control).map(|one| one.expect("whole")).collect();
        prop_assert_eq!(found.len(), asked.len());
        for (found, (operation, own, address, data)) in found.iter().zip(&asked) {
            prop_assert_eq!((found.operation, found.id, found.address), (*operation, *own, *address));
            if operation.request_words(2) == 3 && operation.reply_words(1) == 0 {
                prop_assert_eq!(&found.data.iter().collect::<Vec<_>>(), data);
            }
        }
    }

    #[test]
    fn arbitrary_bytes_break_no_view(bytes in prop::collection::vec(any::<u8>(), 0..300)) {
        super::check(&bytes);
    }

    #[test]
    fn arbitrary_words_after_a_valid_header_break_no_view(words in prop::collection::vec(any::<u32>(), 0..80), big: bool) {
        let order = if big { ByteOrder::Big } else { ByteOrder::Little };
        let mut bytes = order.bytes(Header::control(7).word()).to_vec();
        order.append(&words, &mut bytes);
        super::check(&bytes);
    }
}

#[test]
fn fuzzing_seeds_are_valid_and_a_damaged_seed_breaks_no_view() {
    let seeds = seeds();
    assert_eq!(seeds.len(), 9);
    assert!(seeds[..7].iter().all(|seed| Packet::check(seed).is_ok()));
    assert_eq!(HubRequest::check(&seeds[7]).expect("a chunk").items().count(), 2);
    assert_eq!(HubReplies::of(&seeds[8]).filter(Result::is_ok).count(), 2);
    for seed in seeds {
        check(&seed);
        for at in 0..seed.len() {
            let mut damaged = seed.clone();
            damaged[at] ^= 1 << (at % 8);
            check(&damaged);
            check(&seed[..at]);
        }
    }
}
