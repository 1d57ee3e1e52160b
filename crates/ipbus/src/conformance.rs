//! Conformance check: whether a target follows IPbus 2.0. For firmware developers.
//!
//! ```text
//!  RULES, in their order ─ datagrams ─► target
//!  answers, or none ─► holds | fails, with the observation | open, with the reason
//! ```
//! No other client may use the target during the check. Registers are read; only the one given for that purpose is written. Source: IPbus
//! 2.0 protocol, Frazier et al. 2013, and the behaviour of the reference firmware and hub.

use std::io;
use std::net::{SocketAddr, UdpSocket};
use std::time::Duration;

use crate::scan::receive_within;
use crate::wire::{
    ByteOrder, Control, Header, Info, Operation, Packet, Replies, RequestPacket, Status, WORD_BYTES, resend,
    status_request,
};

/// The longest packet requested: the UDP payload of an Ethernet frame.
const MOST_BYTES: usize = 1472;
/// Status requests before the target counts as silent.
const STATUS_TRIES: usize = 5;
/// Most words of one transaction.
const MOST_WORDS: usize = 255;

/// The result of checking one rule.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// The target follows the rule.
    Holds,
    /// The target breaks the rule; what was observed.
    Fails(String),
    /// The rule could not be checked; why.
    Open(String),
}

/// One rule for firmware, and the result.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Check {
    /// The rule as a sentence.
    pub rule: &'static str,
    /// Whether it holds.
    pub verdict: Verdict,
}

/// `Ok` when a rule holds, else the verdict.
type Found = Result<(), Verdict>;

fn fails<T>(seen: impl Into<String>) -> Result<T, Verdict> {
    Err(Verdict::Fails(seen.into()))
}

/// A rule as a sentence, and the function that checks it.
type Rule = (&'static str, fn(&mut Probe) -> Found);

const RULES: [Rule; 13] = [
    ("a status request is answered with 64 bytes that name buffers and the next packet", status),
    ("an unnumbered packet is answered, and does not change the next expected packet id", unnumbered),
    ("a numbered packet is answered, and advances the next expected packet id by one", numbered),
    (
        "a packet out of sequence is not answered, and does not change the next expected packet id",
        out_of_turn,
    ),
    ("a repeated packet is not done again", again),
    ("a resend request is answered with the same reply, byte for byte", reply_again),
    ("as many replies are kept as there are buffers", kept_replies),
    ("a resend request for a packet that was never sent is not answered", no_reply),
    ("packets of either byte order are answered in their own", byte_orders),
    ("a packet as long as a buffer is answered in full", long_packet),
    ("a transaction of no words is answered with its header", no_words),
    (
        "an unknown operation ends the packet with info code 1, after the replies to the transactions before it",
        bad_header,
    ),
    ("changes of bits, and sums modulo 2^32, return the old word", changes),
];

/// Checks a target against every rule. `register` is a word that may be overwritten; without it nothing is written. `wait` is how long an
/// answer may take, and how long the check waits before it concludes that there is none.
///
/// # Errors
/// When there is no socket.
pub fn conformance(target: SocketAddr, register: Option<u32>, wait: Duration) -> io::Result<Vec<Check>> {
    let any: SocketAddr = if target.is_ipv4() { ([0, 0, 0, 0], 0).into() } else { ([0u16; 8], 0).into() };
    let socket = UdpSocket::bind(any)?;
    socket.connect(target)?;
    let mut probe = Probe { socket, wait, register };
    let check =
        |(rule, check): Rule| Check { rule, verdict: check(&mut probe).err().unwrap_or(Verdict::Holds) };
    Ok(RULES.map(check).into())
}

/// Raw access to a target, without the recovery that a client has.
struct Probe {
    socket: UdpSocket,
    wait: Duration,
    register: Option<u32>,
}

impl Probe {
    /// Sends a packet and returns the first answer within the time. Late answers to earlier packets are discarded.
    fn ask(&mut self, packet: &[u8]) -> Result<Option<Vec<u8>>, Verdict> {
        while self.receive(Duration::ZERO)?.is_some() {}
        // An ICMP error from the host is reported by a later call; it counts as silence.
        let _ = self.socket.send(packet);
        self.receive(self.wait)
    }

    fn receive(&self, wait: Duration) -> Result<Option<Vec<u8>>, Verdict> {
        let mut bytes = vec![0; 1 << 16];
        match receive_within(&self.socket, &mut bytes, wait) {
            Ok(received) => Ok(received.map(|(count, _)| {
                bytes.truncate(count);
                bytes
            })),
            Err(error) => Err(Verdict::Open(format!("the socket failed: {error}"))),
        }
    }

    fn status(&mut self) -> Result<Status, Verdict> {
        for _ in 0..STATUS_TRIES {
            if let Some(bytes) = self.ask(&status_request())? {
                return Status::check(&bytes).or_else(|error| fails(format!("an invalid status: {error}")));
            }
        }
        Err(Verdict::Open(format!("the target answered none of {STATUS_TRIES} status requests")))
    }

    /// A packet that reads one word.
    fn reading(&self, id: u16, order: ByteOrder) -> Vec<u8> {
        let mut bytes = Vec::new();
        RequestPacket::begin(id, order, &mut bytes).read(1, Operation::Read, self.address(), 1);
        bytes
    }

    /// The address to read from.
    fn address(&self) -> u32 {
        self.register.unwrap_or(0)
    }

    fn writable(&self) -> Result<u32, Verdict> {
        let missing = || Verdict::Open("it needs a register that may be overwritten".to_owned());
        self.register.ok_or_else(missing)
    }

    /// Sends a packet and expects a control packet with the same id.
    fn answered(&mut self, id: u16, packet: &[u8]) -> Result<Vec<u8>, Verdict> {
        let Some(reply) = self.ask(packet)? else { return fails(format!("no answer to packet {id}")) };
        match Packet::check(&reply).and_then(Packet::control) {
            Ok(control) if control.id == id => Ok(reply),
            Ok(control) => fails(format!("packet {id} is answered as packet {}", control.id)),
            Err(error) => fails(format!("the answer to packet {id} is invalid: {error}")),
        }
    }

    /// Sends a packet with the next expected id. Returns the id and the reply.
    fn in_turn(&mut self, write: impl FnOnce(&mut RequestPacket<'_>)) -> Result<(u16, Vec<u8>), Verdict> {
        let id = self.status()?.next_id;
        let mut bytes = Vec::new();
        write(&mut RequestPacket::begin(id, ByteOrder::Big, &mut bytes));
        Ok((id, self.answered(id, &bytes)?))
    }

    fn expect_next(&mut self, expected: u16, after: &str) -> Found {
        let next = self.status()?.next_id;
        match next == expected {
            true => Ok(()),
            false => fails(format!("after {after} it expects packet {next}, not {expected}")),
        }
    }
}

fn control(bytes: &[u8]) -> Result<Control<'_>, Verdict> {
    Packet::check(bytes).and_then(Packet::control).or_else(|error| fails(error.to_string()))
}

/// The words of the first transaction of a reply, which has to have succeeded.
fn first_words(bytes: &[u8]) -> Result<Vec<u32>, Verdict> {
    match Replies::of(control(bytes)?).next() {
        Some(Ok(reply)) if reply.header.info == Info::Success => {
            Ok((0..reply.data.len()).filter_map(|index| reply.data.get(index)).collect())
        }
        Some(Ok(reply)) => fails(format!("the register answers: {}", reply.header.info)),
        Some(Err(error)) => fails(error.to_string()),
        None => fails("a reply without a transaction"),
    }
}

fn status(probe: &mut Probe) -> Found {
    let status = probe.status()?;
    match (status.buffers, status.buffer_bytes) {
        (0, _) => fails("it reports that it has no buffers"),
        (_, bytes) if (bytes as usize) < 2 * WORD_BYTES => fails(format!("its buffers have {bytes} bytes")),
        _ => Ok(()),
    }
}

fn unnumbered(probe: &mut Probe) -> Found {
    let next = probe.status()?.next_id;
    let packet = probe.reading(0, ByteOrder::Big);
    probe.answered(0, &packet)?;
    probe.expect_next(next, "an unnumbered packet")
}

fn numbered(probe: &mut Probe) -> Found {
    let address = probe.address();
    let (id, _) = probe.in_turn(|packet| packet.read(1, Operation::Read, address, 1))?;
    probe.expect_next(Header::id_behind(id), &format!("packet {id}"))
}

fn out_of_turn(probe: &mut Probe) -> Found {
    let next = probe.status()?.next_id;
    let ahead = (0..5).fold(next, |id, _| Header::id_behind(id));
    let packet = probe.reading(ahead, ByteOrder::Big);
    if probe.ask(&packet)?.is_some() {
        return fails(format!("packet {ahead} is answered while {next} is expected"));
    }
    probe.expect_next(next, "a packet out of sequence")
}

fn again(probe: &mut Probe) -> Found {
    let register = probe.writable()?;
    let mut packet = Vec::new();
    let id = probe.status()?.next_id;
    RequestPacket::begin(id, ByteOrder::Big, &mut packet).add(1, register, 1);
    let before = first_words(&probe.answered(id, &packet)?)?;
    // Other rules check the answer.
    let _ = probe.ask(&packet)?;
    let (_, reply) = probe.in_turn(|packet| packet.read(1, Operation::Read, register, 1))?;
    let (before, now) = (before.first().copied(), first_words(&reply)?.first().copied());
    match now == before.map(|word| word.wrapping_add(1)) {
        true => Ok(()),
        false => fails(format!(
            "1 was added to {before:x?} in a packet that was sent twice, and the result is {now:x?}"
        )),
    }
}

fn reply_again(probe: &mut Probe) -> Found {
    let address = probe.address();
    let (id, first) = probe.in_turn(|packet| packet.read(1, Operation::Read, address, 1))?;
    match probe.ask(&resend(id))? {
        None => fails(format!("no answer to the resend request for packet {id}")),
        Some(other) if other != first => fails(format!(
            "the reply to packet {id} had {} bytes, and the resent one has {} different bytes",
            first.len(),
            other.len()
        )),
        Some(_) => Ok(()),
    }
}

fn kept_replies(probe: &mut Probe) -> Found {
    let buffers = probe.status()?.packets_in_flight();
    let address = probe.address();
    let mut kept = Vec::with_capacity(buffers);
    for transaction in 0..buffers {
        kept.push(
            probe.in_turn(|packet| packet.read(transaction as u16 & 0xFFF, Operation::Read, address, 1))?,
        );
    }
    for (back, (id, first)) in kept.iter().rev().enumerate() {
        if probe.ask(&resend(*id))?.as_ref() != Some(first) {
            return fails(format!("of {buffers} buffers, reply {} from the latest is not resent", back + 1));
        }
    }
    Ok(())
}

fn no_reply(probe: &mut Probe) -> Found {
    let next = probe.status()?.next_id;
    match probe.ask(&resend(next))? {
        None => Ok(()),
        Some(bytes) => {
            fails(format!("{} bytes are sent for packet {next}, which was never received", bytes.len()))
        }
    }
}

fn byte_orders(probe: &mut Probe) -> Found {
    for order in [ByteOrder::Big, ByteOrder::Little] {
        let packet = probe.reading(0, order);
        let reply = probe.answered(0, &packet)?;
        let found = control(&reply)?.body.order();
        if found != order {
            return fails(format!("a {order:?}-endian packet is answered in {found:?}-endian"));
        }
    }
    Ok(())
}

fn long_packet(probe: &mut Probe) -> Found {
    let address = probe.writable()?;
    let bytes = (probe.status()?.buffer_bytes as usize).min(MOST_BYTES);
    let mut left = bytes / WORD_BYTES - 1;
    let (mut request, mut words) = (Vec::new(), 0);
    let mut packet = RequestPacket::begin(0, ByteOrder::Big, &mut request);
    // Each transaction takes one word of the reply for its header.
    while left > 1 {
        let count = (left - 1).min(MOST_WORDS);
        packet.read(words as u16 & 0xFFF, Operation::ReadFifo, address, count);
        (left, words) = (left - 1 - count, words + count);
    }
    let reply = probe.answered(0, &request)?;
    let read: usize = Replies::of(control(&reply)?).flatten().map(|reply| reply.data.len()).sum();
    match read == words {
        true => Ok(()),
        false => fails(format!("a packet of {bytes} bytes holds {words} words, but the reply has {read}")),
    }
}

fn no_words(probe: &mut Probe) -> Found {
    let address = probe.address();
    let mut packet = Vec::new();
    RequestPacket::begin(0, ByteOrder::Big, &mut packet).read(0x123, Operation::Read, address, 0);
    let reply = probe.answered(0, &packet)?;
    match Replies::of(control(&reply)?).next() {
        Some(Ok(reply)) if (reply.header.id, reply.data.len()) == (0x123, 0) => Ok(()),
        other => fails(format!("{other:?}")),
    }
}

fn bad_header(probe: &mut Probe) -> Found {
    let address = probe.address();
    let mut packet = Vec::new();
    RequestPacket::begin(0, ByteOrder::Big, &mut packet).read(1, Operation::Read, address, 0);
    // Version 2, transaction 2, one word, operation 0xE; then an address, and a transaction that must not be done.
    packet.extend([0x20, 0x02, 0x01, 0xEF, 0, 0, 0, 0]);
    let mut rest = Vec::new();
    RequestPacket::begin(0, ByteOrder::Big, &mut rest).read(3, Operation::Read, address, 0);
    packet.extend(&rest[WORD_BYTES..]);
    let reply = probe.answered(0, &packet)?;
    let body = control(&reply)?.body;
    let codes: Vec<u32> =
        (0..body.len()).filter_map(|index| body.get(index)).map(|word| word & 0xF).collect();
    match codes[..] {
        [0, 1] => Ok(()),
        _ => fails(format!("the transactions are answered with the info codes {codes:x?}, not 0 and 1")),
    }
}

fn changes(probe: &mut Probe) -> Found {
    let register = probe.writable()?;
    let (_, reply) = probe.in_turn(|packet| {
        packet.write(1, Operation::Write, register, &[0xFFFF_FFF0]);
        packet.change_bits(2, register, 0xFFFF_0000, 0x0000_00AA);
        packet.add(3, register, 0x0001_0000);
        packet.read(4, Operation::Read, register, 1);
    })?;
    let words: Vec<u32> =
        Replies::of(control(&reply)?).flatten().filter_map(|reply| reply.data.get(0)).collect();
    match words == [0xFFFF_FFF0, 0xFFFF_00AA, 0x0000_00AA] {
        true => Ok(()),
        false => fails(format!("{words:08x?} instead of fffffff0, ffff00aa, 000000aa")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::device::{Buffers, Device, DeviceServer, Registers};
    use crate::wire::renumber;

    const WAIT: Duration = Duration::from_secs(1);

    fn failing(checks: &[Check]) -> Vec<&'static str> {
        checks.iter().filter(|check| check.verdict != Verdict::Holds).map(|check| check.rule).collect()
    }

    #[test]
    fn the_emulated_device_conforms_to_every_rule() {
        for buffers in [Buffers::default(), Buffers { count: 1, bytes: 64 }] {
            let device = Device::new(Registers::new(), buffers);
            let server = DeviceServer::new(device, Some(([127, 0, 0, 1], 0).into()), None).expect("a device");
            let target = server.udp_address().expect("it has one");
            let checks = conformance(target, Some(0x10), WAIT).expect("a socket");
            assert_eq!((failing(&checks), checks.len()), (vec![], RULES.len()), "{checks:#?}");
            let unwritten = conformance(target, None, WAIT).expect("a socket");
            assert_eq!(failing(&unwritten), [RULES[4].0, RULES[9].0, RULES[12].0]);
            assert!(unwritten.iter().all(|check| !matches!(check.verdict, Verdict::Fails(_))));
        }
    }

    /// Firmware that treats every packet as unnumbered, and answers a resend request with an empty datagram.
    #[test]
    fn firmware_without_a_packet_sequence_fails_its_rules() {
        let socket = UdpSocket::bind("127.0.0.1:0").expect("a socket");
        let target = socket.local_addr().expect("bound");
        let mut device = Device::new(Registers::new(), Buffers::default());
        std::thread::spawn(move || {
            let (mut bytes, mut reply) = ([0; 2048], Vec::new());
            while let Ok((count, from)) = socket.recv_from(&mut bytes) {
                let request = &mut bytes[..count];
                reply.clear();
                let id = match Packet::check(request) {
                    Ok(Packet::Control(control)) => Some(control.id),
                    Ok(Packet::Resend(_)) => {
                        socket.send_to(&[], from).expect("sent");
                        continue;
                    }
                    _ => None,
                };
                if id.is_some() {
                    renumber(request, 0);
                }
                if device.answer(request, &mut reply) {
                    id.into_iter().for_each(|id| renumber(&mut reply, id));
                    socket.send_to(&reply, from).expect("sent");
                }
            }
        });
        let checks = conformance(target, Some(0x10), WAIT).expect("a socket");
        let expected = [2, 3, 4, 5, 6, 7].map(|rule: usize| RULES[rule].0);
        assert_eq!(failing(&checks), expected, "{checks:#?}");
    }

    #[test]
    fn a_silent_target_leaves_rules_open() {
        let closed =
            UdpSocket::bind("127.0.0.1:0").and_then(|socket| socket.local_addr()).expect("an address");
        let checks = conformance(closed, Some(0), Duration::from_millis(1)).expect("a socket");
        assert!(matches!(checks[0].verdict, Verdict::Open(_)), "{:?}", checks[0]);
    }
}
