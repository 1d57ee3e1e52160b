use super::*;
use crate::wire::tests::hex;
use crate::wire::{ByteOrder, RequestPacket, resend, status_request};

fn device() -> Device<Registers> {
    let mut registers = Registers::new();
    registers.behave(0x10, 0x10, Behaviour::Counter(7));
    registers.behave(0x20, 0x20, Behaviour::Fifo { words: VecDeque::new(), depth: 3 });
    registers.behave(0x30, 0x30, Behaviour::SelfClearing);
    registers.behave(0x40, 0x4F, Behaviour::ReadOnly(0x1234_5678));
    registers.behave(0x103, 0x103, Behaviour::Refusing(BusFault::Timeout));
    registers.set_configuration(vec![1, 2, 3, 4]);
    Device::new(registers, Buffers { count: 4, bytes: 1400 })
}

/// The answer; empty when there is none.
fn answer(device: &mut Device<Registers>, asked: &[u8]) -> Vec<u8> {
    let mut reply = vec![0xFF; 7];
    device.answer(asked, &mut reply);
    reply
}

fn asks(device: &mut Device<Registers>, asked: &str, answered: &str) {
    assert_eq!(answer(device, &hex(asked)), hex(answered), "{asked}");
}

#[test]
fn answers_are_those_of_the_reference_device() {
    let mut device = device();
    for (asked, answered) in [
        ("f0000020 1f010020 00100000 bebafeca", "f0000020 10010020"),
        ("f0000020 0f010120 00100000", "f0000020 00010120 bebafeca"),
        ("f0000020 1f030220 01100000 11111111 22222222 33333333", "f0000020 10030220"),
        ("f0000020 0f030320 00100000", "f0000020 00030320 bebafeca 11111111 22222222"),
        ("f0000020 2f020420 00100000", "f0000020 20020420 bebafeca bebafeca"),
        ("f0000020 4f010520 00100000 0000ffff 34120000", "f0000020 40010520 bebafeca"),
        ("f0000020 5f010620 00100000 01000000", "f0000020 50010620 3412feca"),
        (
            "f0000020 0f010820 00100000 0f010920 01100000 1f010a20 02100000 5a5a5a5a",
            "f0000020 00010820 3512feca 00010920 11111111 10010a20",
        ),
        ("200000f0 2000010f 00001000", "200000f0 20000100 cafe1235"),
        ("f0000020 00010020 00100000", "f0000020 01010020"),
        ("f0000020 0f000020 00100000", "f0000020 00000020"),
        ("f0000020 0f010020 00100000 8f010020", "f0000020 00010020 3512feca 81010020"),
    ] {
        asks(&mut device, asked, answered);
    }
}

#[test]
fn a_numbered_packet_is_done_once_and_its_reply_kept() {
    let mut device = device();
    asks(&mut device, "f0010020 5f010020 00100000 01000000", "f0010020 50010020 00000000");
    asks(&mut device, "f0010020 5f010020 00100000 01000000", "");
    asks(&mut device, "f0030020 5f010020 00100000 01000000", "");
    asks(&mut device, "f0020020 0f010120 00100000", "f0020020 00010120 01000000");
    assert_eq!(answer(&mut device, &resend(1)), hex("f0010020 50010020 00000000"));
    assert_eq!(answer(&mut device, &resend(9)), [0; 0]);
    assert_eq!(device.status().next_id, 3);
    for id in 3..=6u16 {
        let mut bytes = Vec::new();
        RequestPacket::begin(id, ByteOrder::Big, &mut bytes).read(0, Operation::Read, 0, 1);
        assert_eq!(answer(&mut device, &bytes).len(), 12);
    }
    assert_eq!(answer(&mut device, &resend(2)), [0; 0], "four replies are kept, and this was the fifth last");
    let counts = DeviceCounts { done: 6, out_of_turn: 2, resent: 1, forgotten: 2, ..DeviceCounts::default() };
    assert_eq!(device.counts(), counts);
    device.reboot();
    assert_eq!(answer(&mut device, &resend(6)), [0; 0]);
    assert_eq!((device.status().next_id, device.status().history[15]), (1, event::RESEND));
}

#[test]
fn the_status_has_the_next_expected_packet_id_and_does_not_change_it() {
    let mut device = device();
    asks(&mut device, "f0010020 0f010020 00100000", "f0010020 00010020 00000000");
    let status = answer(&mut device, &status_request());
    let status = Packet::check(&status).and_then(Packet::status).expect("a status");
    assert_eq!((status.next_id, status.buffers, status.buffer_bytes), (2, 4, 1400));
    assert_eq!(status.history[13..], [event::RESET, event::CONTROL, event::STATUS]);
    assert_eq!((status.received[3], status.sent[3]), (0x2000_01F0, 0x2000_01F0));
    asks(&mut device, "f0020020 0f010020 00100000", "f0020020 00010020 00000000");
    asks(&mut device, "00000000", "");
    asks(&mut device, "f00000", "");
    assert_eq!(answer(&mut device, &vec![0; 1404]), [0; 0], "longer than its buffers");
    assert_eq!(device.counts().refused, 3);
}

#[test]
fn registers_have_their_behaviour() {
    let mut device = device();
    let read = |device: &mut Device<Registers>, address: u32, words: usize| -> Vec<u32> {
        let mut bytes = Vec::new();
        RequestPacket::begin(0, ByteOrder::Big, &mut bytes).read(0, Operation::ReadFifo, address, words);
        answer(device, &bytes)[4..]
            .chunks(4)
            .map(|word| u32::from_be_bytes(word.try_into().expect("four")))
            .collect()
    };
    let write = |device: &mut Device<Registers>, address: u32, data: &[u32]| -> u32 {
        let mut bytes = Vec::new();
        RequestPacket::begin(0, ByteOrder::Big, &mut bytes).write(0, Operation::WriteFifo, address, data);
        u32::from_be_bytes(answer(device, &bytes)[4..].try_into().expect("a header alone"))
    };
    assert_eq!(read(&mut device, 0x10, 3), [0x2000_0320, 7, 8, 9]);
    assert_eq!(write(&mut device, 0x20, &[1, 2, 3, 4]), 0x2000_0335, "the FIFO holds three words");
    assert_eq!(read(&mut device, 0x20, 5), [0x2000_0324, 1, 2, 3], "three words are read");
    assert_eq!(write(&mut device, 0x30, &[9]), 0x2000_0130);
    assert_eq!(read(&mut device, 0x30, 1), [0x2000_0120, 0]);
    assert_eq!(read(&mut device, 0x4F, 1), [0x2000_0120, 0x1234_5678]);
    assert_eq!(write(&mut device, 0x4F, &[1]), 0x2000_0035);
}

#[test]
fn a_block_ends_at_a_bus_fault_and_later_transactions_are_not_done() {
    let mut device = device();
    let mut bytes = Vec::new();
    let mut packet = RequestPacket::begin(0, ByteOrder::Little, &mut bytes);
    packet.write(0, Operation::Write, 0x101, &[5, 6, 7, 8]);
    packet.write(1, Operation::Write, 0x200, &[9]);
    asks_bytes(&mut device, &bytes, "f0000020 17020020");
    assert_eq!((device.bus_mut().memory(0x102), device.bus_mut().memory(0x200)), (6, 0));
    let mut bytes = Vec::new();
    RequestPacket::begin(0, ByteOrder::Little, &mut bytes).read(0, Operation::Read, 0x101, 4);
    asks_bytes(&mut device, &bytes, "f0000020 06020020 05000000 06000000");
    let mut bytes = Vec::new();
    let mut packet = RequestPacket::begin(0, ByteOrder::Little, &mut bytes);
    (0..2).for_each(|id| packet.read(id, Operation::Read, 0x1000, 255));
    let answered = answer(&mut device, &bytes);
    assert_eq!(answered.len(), 4 + 4 + 4 * 255, "the second does not fit into the buffer");
    let mut bytes = Vec::new();
    let mut packet = RequestPacket::begin(0, ByteOrder::Little, &mut bytes);
    packet.read(0, Operation::ReadConfiguration, 2, 1);
    packet.write(1, Operation::WriteConfiguration, 9, &[1]);
    asks_bytes(&mut device, &bytes, "f0000020 60010020 03000000 75000120");
}

fn asks_bytes(device: &mut Device<Registers>, asked: &[u8], answered: &str) {
    assert_eq!(answer(device, asked), hex(answered));
}

#[test]
fn an_error_that_does_not_fit_into_the_buffer_is_not_answered() {
    // Reads that fill the answer of 512 bytes completely, and then an invalid transaction.
    check(&hex("f0000020 2f2e002f 2e200000 2f202020 f0000020 2f2e0020 2f2e0020 2f002020"));
    let mut bytes = Vec::new();
    let mut packet = RequestPacket::begin(0, ByteOrder::Big, &mut bytes);
    packet.read(0, Operation::Read, 0, 126);
    ByteOrder::Big.append(&[0x3000_010F], &mut bytes);
    check(&bytes);
}

proptest::proptest! {
    #[test]
    fn arbitrary_requests_are_answered_within_the_buffers(words in proptest::collection::vec(proptest::prelude::any::<u32>(), 0..100), id in 0..3u16) {
        let mut bytes = Header::control(id).word().to_be_bytes().to_vec();
        ByteOrder::Big.append(&words, &mut bytes);
        check(&bytes);
    }
}

/// Blocks of plain memory are copied; registers with a behaviour and page boundaries must not change the result.
#[test]
fn block_accesses_give_the_same_as_single_words() {
    struct Each(Registers);
    impl Bus for Each {
        fn read(&mut self, address: u32) -> Result<u32, BusFault> {
            self.0.read(address)
        }
        fn write(&mut self, address: u32, word: u32) -> Result<(), BusFault> {
            self.0.write(address, word)
        }
    }
    let (mut whole, mut each) = (device(), device().bus_mut().clone());
    let each = &mut Each(std::mem::take(&mut each));
    let whole = whole.bus_mut();
    for (turn, address) in
        [0x1000, 0xFE0, 0x0F, 0x3E, 0x50, 0x100, 0x104, 0xFF0, 0xFFFF_FFF0, 0x1FFF].into_iter().enumerate()
    {
        for words in [0, 1, 5, 0x20, 255] {
            let written: Vec<u32> = (0..words).map(|word| word + 1000 * turn as u32).collect();
            assert_eq!(
                whole.write_block(address, &written),
                each.write_block(address, &written),
                "{address:#x}"
            );
            let (mut one, mut other) = (written.clone(), written);
            let results = (whole.read_block(address, &mut one), each.read_block(address, &mut other));
            assert_eq!(results.0, results.1, "{address:#x}, {words}");
            let read = results.0.map_or_else(|(read, _)| read, |()| one.len());
            assert_eq!(one[..read], other[..read], "{address:#x}, {words}");
        }
    }
}
