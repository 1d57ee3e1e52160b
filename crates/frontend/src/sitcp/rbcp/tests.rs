//! Golden datagrams, and the client with an emulated board that loses, delays and duplicates answers.

use super::wire::{Command, Reply, Request, WireError};
use super::{Client, Done, Faults, Operation, RbcpError, Registers, Settings, map};
use crate::format::DueDatagram;
use crate::sitcp::wire::recbe::Mode;

const TIMEOUT_NS: u64 = 1000;

/// Drives a client and a board over a lossless link until the operation ends.
struct Desk {
    client: Client,
    registers: Registers,
    cable: Vec<DueDatagram>,
    now_ns: u64,
}

impl Desk {
    fn new(faults: Faults) -> Desk {
        Desk::with(faults, Settings { timeout_ns: TIMEOUT_NS, ..Settings::default() })
    }

    fn with(faults: Faults, settings: Settings) -> Desk {
        let registers = Registers::recbe(7, faults);
        Desk { client: Client::new(settings), registers, cable: Vec::new(), now_ns: 0 }
    }

    fn run(&mut self, operation: Operation) -> Result<Done, RbcpError> {
        self.client.begin(operation, self.now_ns)?;
        loop {
            if let Some(datagram) = self.client.transmit(self.now_ns) {
                self.registers.answer(&datagram, self.now_ns, &mut self.cable);
            }
            let now_ns = self.now_ns;
            let due = |outgoing: &mut DueDatagram| outgoing.at_ns <= now_ns;
            for outgoing in self.cable.extract_if(.., due) {
                self.client.receive(&outgoing.datagram);
            }
            if let Some(outcome) = self.client.outcome() {
                return outcome;
            }
            self.now_ns += 100;
        }
    }

    fn read(&mut self, address: u32, length: u8) -> Result<Done, RbcpError> {
        self.run(Operation::Read { address, length })
    }

    fn write(&mut self, address: u32, data: &[u8], idempotent: bool) -> Result<Done, RbcpError> {
        self.run(Operation::Write { address, data: data.to_vec(), idempotent })
    }
}

#[test]
fn golden_datagrams() {
    let request = |command, id, length, address, data| Request { command, id, length, address, data };
    let read = request(Command::Read, 1, 1, 5, &[]);
    assert_eq!(read.datagram(), [0xff, 0xc0, 1, 1, 0, 0, 0, 5]);
    let write = request(Command::Write, 2, 1, 5, &[1]);
    assert_eq!(write.datagram(), [0xff, 0x80, 2, 1, 0, 0, 0, 5, 1]);
    let threshold = request(Command::Write, 3, 2, 0x1c, &[0x0e, 0xa6]);
    assert_eq!(threshold.datagram(), [0xff, 0x80, 3, 2, 0, 0, 0, 0x1c, 0x0e, 0xa6]);
    let address = request(Command::Read, 4, 6, map::sitcp::HARDWARE_ADDRESS, &[]);
    assert_eq!(address.datagram(), [0xff, 0xc0, 4, 6, 0xff, 0xff, 0xff, 0x12]);

    let mut registers = Registers::recbe(7, Faults::default());
    let mut answer = |request: Request<'_>| {
        let mut answers = Vec::new();
        registers.answer(&request.datagram(), 0, &mut answers);
        assert_eq!(answers.len(), 1);
        answers.remove(0).datagram
    };
    assert_eq!(answer(read), [0xff, 0xc8, 1, 1, 0, 0, 0, 5, 2]);
    assert_eq!(answer(write), [0xff, 0x88, 2, 1, 0, 0, 0, 5, 1]);
    assert_eq!(answer(read), [0xff, 0xc8, 1, 1, 0, 0, 0, 5, 1]);
    let nowhere = request(Command::Read, 5, 1, 0x1000, &[]);
    assert_eq!(nowhere.datagram(), [0xff, 0xc0, 5, 1, 0, 0, 0x10, 0]);
    assert_eq!(answer(nowhere), [0xff, 0xc9, 5, 1, 0, 0, 0x10, 0, 0]);
}

#[test]
fn invalid_datagrams_are_refused() {
    let short = Request::check(&[0xff, 0xc0, 1]);
    assert_eq!(short, Err(WireError::Short { found: 3 }));
    assert!(matches!(Request::check(&[0xff, 0xc8, 1, 1, 0, 0, 0, 5]), Err(WireError::Foreign { .. })));
    assert!(matches!(Request::check(&[0xff, 0xc0, 1, 0, 0, 0, 0, 5]), Err(WireError::Length { .. })));
    assert!(matches!(Request::check(&[0xff, 0x80, 1, 2, 0, 0, 0, 5, 1]), Err(WireError::Length { .. })));
    assert!(matches!(Reply::check(&[0xff, 0xc0, 1, 1, 0, 0, 0, 5]), Err(WireError::Foreign { .. })));
    assert!(matches!(Reply::check(&[0xfe, 0xc8, 1, 1, 0, 0, 0, 5, 0]), Err(WireError::Foreign { .. })));
    assert!(matches!(Reply::check(&[0xff, 0xc8, 1, 2, 0, 0, 0, 5, 0]), Err(WireError::Length { .. })));
    let mut answers = Vec::new();
    Registers::recbe(7, Faults::default()).answer(&[1, 2, 3], 0, &mut answers);
    assert_eq!(answers, []);
}

#[test]
fn registers_have_the_mode_and_window_of_the_board() {
    let mut desk = Desk::new(Faults::default());
    assert_eq!((desk.registers.mode(), desk.registers.window()), (Mode::Suppressed, 32));
    desk.write(map::recbe::MODE, &[map::recbe::MODE_RAW, 64], true).expect("written");
    assert_eq!((desk.registers.mode(), desk.registers.window()), (Mode::Raw, 64));
    let pedestals = desk.read(map::recbe::PEDESTALS, 96).expect("read").data;
    assert!(pedestals.chunks(2).all(|word| word == [0, 200]));
    let error = desk.read(0x12, 2).expect_err("there is no register 0x13");
    assert_eq!(error, RbcpError::BusError { address: 0x12, length: 2 });
    desk.write(map::sitcp::CONTROL, &[map::sitcp::CONTROL_RESET], true).expect("written");
    assert_eq!(desk.registers.resets(), 1);
}

#[test]
fn lost_requests_and_answers_are_repeated() {
    for faults in [
        Faults { lose_answer_every: 2, ..Faults::default() },
        Faults { lose_request_every: 2, ..Faults::default() },
    ] {
        let mut desk = Desk::new(faults);
        for value in 0..20 {
            desk.write(map::recbe::DELAY, &[value], true).expect("written");
            let read = desk.read(map::recbe::DELAY, 1).expect("read");
            assert_eq!(read.data, [value]);
        }
        let counts = desk.client.counts();
        assert_eq!((counts.operations, counts.strays), (40, 0));
        assert!(counts.repeated >= 19);
    }
}

#[test]
fn late_and_duplicate_answers_are_ignored() {
    // Later than the time-out, but before the client gives up: the answer to the first datagram is taken after the
    // second.
    let faults = Faults {
        late_answer_every: 3,
        late_ns: TIMEOUT_NS + 200,
        double_answer_every: 5,
        ..Faults::default()
    };
    let mut desk = Desk::new(faults);
    for value in 0..100 {
        desk.write(map::recbe::DELAY, &[value], true).expect("written");
        desk.write(map::recbe::WINDOW, &[value ^ 0xFF], true).expect("written");
        let read = |desk: &mut Desk, address| desk.read(address, 1).expect("read").data;
        assert_eq!(
            (read(&mut desk, map::recbe::DELAY), read(&mut desk, map::recbe::WINDOW)),
            (vec![value], vec![value ^ 0xFF])
        );
    }
    assert!(desk.client.counts().strays > 50);
    // So late that the request has been given up: it answers none of the next requests.
    let mut desk = Desk::new(Faults { late_answer_every: 1, late_ns: 100 * TIMEOUT_NS, ..Faults::default() });
    let gone = desk.read(map::recbe::WINDOW, 1).expect_err("no answer in time");
    assert_eq!(gone, RbcpError::NoAnswer { address: map::recbe::WINDOW, attempts: 4 });
    desk.now_ns += 200 * TIMEOUT_NS;
    let strays = |desk: &mut Desk| desk.client.counts().strays;
    assert!(desk.read(map::recbe::WINDOW, 1).is_err());
    assert_eq!(strays(&mut desk), 4);
}

#[test]
fn a_write_that_must_not_be_repeated_is_read_back() {
    let mut desk = Desk::new(Faults { lose_answer_every: 1, ..Faults::default() });
    let lost = desk.write(map::recbe::DELAY, &[9], false).expect_err("the read-back is lost, too");
    assert_eq!(lost, RbcpError::NoAnswer { address: map::recbe::DELAY, attempts: 5 });

    let mut desk = Desk::new(Faults { lose_answer_every: 3, ..Faults::default() });
    desk.read(0, 1).expect("read");
    desk.read(0, 1).expect("read");
    let done = desk.write(map::recbe::DELAY, &[9], false).expect("read back");
    assert_eq!(done, Done { data: vec![9], read_back: true, attempts: 2 });

    let mut desk = Desk::new(Faults { lose_request_every: 3, ..Faults::default() });
    desk.read(0, 1).expect("read");
    desk.read(0, 1).expect("read");
    let unconfirmed = desk.write(map::recbe::DELAY, &[9], false).expect_err("the board still has 20");
    assert_eq!(unconfirmed, RbcpError::Unconfirmed { address: 7, wanted: vec![9], found: vec![20] });
}

#[test]
fn a_late_acknowledgement_ends_a_read_back() {
    let mut client = Client::new(Settings { timeout_ns: TIMEOUT_NS, ..Settings::default() });
    let write = Operation::Write { address: 7, data: vec![9], idempotent: false };
    client.begin(write, 0).expect("no operation is active");
    let first = client.transmit(0).expect("due at once");
    assert_eq!(client.transmit(TIMEOUT_NS - 1), None);
    assert_eq!(client.due_ns(), Some(TIMEOUT_NS));
    let second = client.transmit(TIMEOUT_NS).expect("due");
    assert_eq!((first[1], second[1], first[2].wrapping_add(1)), (0x80, 0xC0, second[2]));
    let mut answers = Vec::new();
    Registers::recbe(7, Faults::default()).answer(&first, 0, &mut answers);
    client.receive(&answers[0].datagram);
    let done = client.outcome().expect("ended").expect("well");
    assert!(!done.read_back);
}

#[test]
fn ids_wrap_and_unexpected_senders_are_ignored() {
    let mut desk = Desk::new(Faults::default());
    for _ in 0..600 {
        desk.read(0, 4).expect("read");
    }
    desk.client.begin(Operation::Read { address: 0, length: 1 }, desk.now_ns).expect("free");
    let busy = desk.client.begin(Operation::Read { address: 1, length: 1 }, 0).expect_err("one at a time");
    assert_eq!(busy, RbcpError::UnderWay { address: 0 });
    let datagram = desk.client.transmit(desk.now_ns).expect("due");
    let reply = Request::check(&datagram).expect("a request");
    let reply =
        Reply { command: Command::Read, id: reply.id, bus_error: false, length: 1, address: 1, data: &[0] };
    desk.client.receive(&reply.datagram());
    desk.client.receive(b"noise");
    assert_eq!(
        (desk.client.outcome(), desk.client.counts().strays, desk.client.counts().malformed),
        (None, 1, 1)
    );
}

#[test]
fn the_eeprom_is_refused_unless_forced() {
    let mut desk = Desk::new(Faults::default());
    for (address, length) in [(0xFFFF_FC00, 1), (0xFFFF_FBFF, 2), (0xFFFF_FCFF, 1), (0xFFFF_FC12, 6)] {
        let refused = desk.write(address, &vec![0; length], true).expect_err("refused");
        assert_eq!(refused, RbcpError::Eeprom { address });
    }
    assert_eq!(desk.client.counts().sent, 0);
    assert_eq!(desk.read(0xFFFF_FC12, 1).expect("reading is allowed").data, [0xFF]);
    for (address, length) in [(0, 0), (0, 256), (u32::MAX, 2)] {
        let refused = desk.write(address, &vec![0; length], true).expect_err("refused");
        assert_eq!(refused, RbcpError::Length { address, length });
    }
    let settings = Settings { timeout_ns: TIMEOUT_NS, force_eeprom: true, ..Settings::default() };
    let mut desk = Desk::with(Faults::default(), settings);
    desk.write(0xFFFF_FC12, &[2], true).expect("acknowledged");
    assert_eq!(desk.read(0xFFFF_FC12, 1).expect("read").data, [0xFF], "the guard was closed");
    desk.write(map::sitcp::EEPROM_GUARD, &[0], true).expect("opened");
    desk.write(0xFFFF_FC12, &[2], true).expect("written");
    assert_eq!(desk.read(0xFFFF_FC12, 1).expect("read").data, [2]);
}
