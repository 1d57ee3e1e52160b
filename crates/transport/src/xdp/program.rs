//! The XDP program that selects our frames.
//!
//! ```text
//!  frame ─ Ethernet: to this card, IP ─ IP: no fragment, no options, UDP, our address ─ UDP: our port, not too long ─► our socket
//!        └─ anything else ─► the kernel, as without the program
//! ```
//! The program compares the header fields with constants one after the other, and has one exit for frames that differ. It compares
//! them in network byte order.

use std::net::{IpAddr, SocketAddr};

use crate::system::bpf::Instruction;

const ETHERNET_BYTES: u8 = 14;
const IPV4_BYTES: u8 = 20;
const IPV6_BYTES: u8 = 40;
const UDP_BYTES: u8 = 8;
const UDP: i32 = 17;

/// Return values of a program (`enum xdp_action`).
#[cfg(test)]
const DROP: i32 = 1;
const PASS: i32 = 2;

/// Offsets of the fields of `struct xdp_md`.
const DATA: i16 = 0;
const DATA_END: i16 = 4;
const QUEUE: i16 = 16;
/// Number of the helper `bpf_redirect_map`.
const REDIRECT_MAP: i32 = 51;

/// Registers: the return value of helpers, their three arguments, the value that is compared, the context.
const RESULT: u8 = 0;
const FIRST: u8 = 1;
const SECOND: u8 = 2;
const THIRD: u8 = 3;
const VALUE: u8 = 4;
const CONTEXT: u8 = 6;

/// Opcodes.
const LOAD_BYTE: u8 = 0x71;
const LOAD_HALF: u8 = 0x69;
const LOAD_WORD: u8 = 0x61;
const LOAD_MAP: u8 = 0x18;
const MOVE: u8 = 0xBF;
const SET: u8 = 0xB7;
const ADD: u8 = 0x07;
const BIG_ENDIAN: u8 = 0xDC;
const IF_GREATER: u8 = 0x2D;
const IF_NOT_EQUAL: u8 = 0x56;
const IF_ANY_BIT: u8 = 0x46;
const IF_GREATER_THAN: u8 = 0x26;
const CALL: u8 = 0x85;
const EXIT: u8 = 0x95;

/// The datagrams that the program takes.
#[derive(Clone, Copy, Debug)]
pub(super) struct Ours {
    /// The card's Ethernet address.
    pub(super) hardware: [u8; 6],
    /// Our address and port.
    pub(super) local: SocketAddr,
    /// Longest payload, bytes.
    pub(super) datagram_bytes: usize,
}

/// A program that is being built.
#[derive(Default)]
struct Program {
    instructions: Vec<Instruction>,
    /// Indices of the instructions that jump to the exit for other frames.
    jumps: Vec<usize>,
}

impl Program {
    fn push(&mut self, code: u8, to: u8, from: u8, offset: i16, immediate: i32) {
        self.instructions.push(Instruction { code, registers: from << 4 | to, offset, immediate });
    }

    /// Leaves the frame to the kernel if the comparison is true.
    fn leave_if(&mut self, code: u8, left: u8, right: u8, immediate: i32) {
        self.jumps.push(self.instructions.len());
        self.push(code, left, right, 0, immediate);
    }

    /// Leaves frames to the kernel whose bytes at offset `at` differ.
    fn want(&mut self, at: u8, bytes: &[u8]) {
        let (words, rest) = bytes.as_chunks::<4>();
        let mut at = i16::from(at);
        for word in words {
            self.push(LOAD_WORD, VALUE, SECOND, at, 0);
            self.leave_if(IF_NOT_EQUAL, VALUE, 0, i32::from_ne_bytes(*word));
            at += 4;
        }
        let (halves, rest) = rest.as_chunks::<2>();
        for half in halves {
            self.push(LOAD_HALF, VALUE, SECOND, at, 0);
            self.leave_if(IF_NOT_EQUAL, VALUE, 0, i32::from(u16::from_ne_bytes(*half)));
            at += 2;
        }
        for byte in rest {
            self.push(LOAD_BYTE, VALUE, SECOND, at, 0);
            self.leave_if(IF_NOT_EQUAL, VALUE, 0, i32::from(*byte));
            at += 1;
        }
    }

    /// Appends the end: our frames go to the socket of their queue (without one, the program returns `without_socket`), all
    /// others to the kernel.
    fn finish(mut self, map: i32, without_socket: i32) -> Vec<Instruction> {
        /// As source register of a load (`BPF_PSEUDO_MAP_FD`): the constant is a map's descriptor.
        const IS_MAP: u8 = 1;
        self.push(LOAD_WORD, SECOND, CONTEXT, QUEUE, 0);
        self.push(LOAD_MAP, FIRST, IS_MAP, 0, map);
        self.push(0, 0, 0, 0, 0);
        self.push(SET, THIRD, 0, 0, without_socket);
        self.push(CALL, 0, 0, 0, REDIRECT_MAP);
        self.push(EXIT, 0, 0, 0, 0);
        let end = self.instructions.len();
        self.push(SET, RESULT, 0, 0, PASS);
        self.push(EXIT, 0, 0, 0, 0);
        for jump in self.jumps {
            self.instructions[jump].offset = (end - jump - 1) as i16;
        }
        self.instructions
    }
}

/// The program; `map` is the descriptor of the map from queue to socket.
pub(super) fn program(ours: &Ours, map: i32) -> Vec<Instruction> {
    program_with(ours, map, PASS)
}

fn program_with(ours: &Ours, map: i32, without_socket: i32) -> Vec<Instruction> {
    let mut program = Program::default();
    let ip_bytes = if ours.local.is_ipv6() { IPV6_BYTES } else { IPV4_BYTES };
    let udp = ETHERNET_BYTES + ip_bytes;
    program.push(MOVE, CONTEXT, FIRST, 0, 0);
    program.push(LOAD_WORD, SECOND, FIRST, DATA, 0);
    program.push(LOAD_WORD, THIRD, FIRST, DATA_END, 0);
    program.push(MOVE, VALUE, SECOND, 0, 0);
    program.push(ADD, VALUE, 0, 0, i32::from(udp + UDP_BYTES));
    program.leave_if(IF_GREATER, VALUE, THIRD, 0);
    program.want(0, &ours.hardware);
    match ours.local.ip() {
        IpAddr::V4(address) => {
            program.want(12, &[0x08, 0x00]);
            // Without options.
            program.want(ETHERNET_BYTES, &[0x45]);
            program.push(LOAD_HALF, VALUE, SECOND, i16::from(ETHERNET_BYTES + 6), 0);
            program.leave_if(IF_ANY_BIT, VALUE, 0, i32::from(0x3FFF_u16.to_be()));
            program.want(ETHERNET_BYTES + 9, &[UDP as u8]);
            program.want(ETHERNET_BYTES + 16, &address.octets());
        }
        IpAddr::V6(address) => {
            program.want(12, &[0x86, 0xDD]);
            program.want(ETHERNET_BYTES + 6, &[UDP as u8]);
            program.want(ETHERNET_BYTES + 24, &address.octets());
        }
    }
    program.want(udp + 2, &ours.local.port().to_be_bytes());
    program.push(LOAD_HALF, VALUE, SECOND, i16::from(udp + 4), 0);
    program.push(BIG_ENDIAN, VALUE, 0, 0, 16);
    program.leave_if(IF_GREATER_THAN, VALUE, 0, ours.datagram_bytes as i32 + i32::from(UDP_BYTES));
    program.finish(map, without_socket)
}

#[cfg(test)]
mod tests {
    use std::os::fd::AsRawFd;

    use super::*;
    use crate::system::bpf;

    const HARDWARE: [u8; 6] = [2, 0, 0, 0, 0, 7];

    /// A frame to `local` with a payload of 100 bytes.
    fn frame(local: &str) -> Vec<u8> {
        let local: SocketAddr = local.parse().expect("an address");
        let mut frame = HARDWARE.to_vec();
        frame.extend([2, 0, 0, 0, 0, 9]);
        match local.ip() {
            IpAddr::V4(address) => {
                frame.extend([8, 0, 0x45, 0, 0, 128, 0, 0, 0x40, 0, 64, 17, 0, 0, 10, 0, 0, 1]);
                frame.extend(address.octets());
            }
            IpAddr::V6(address) => {
                frame.extend([0x86, 0xDD, 0x60, 0, 0, 0, 0, 108, 17, 64]);
                frame.extend([0xFD; 16]);
                frame.extend(address.octets());
            }
        }
        frame.extend([0, 9]);
        frame.extend(local.port().to_be_bytes());
        frame.extend([0, 108, 0, 0]);
        frame.resize(frame.len() + 100, 0xAA);
        frame
    }

    /// Whether the program, run by the kernel, takes each frame; `None` if the process may not load it.
    fn taken(local: &str, frames: &[Vec<u8>]) -> Option<Vec<bool>> {
        let ours =
            Ours { hardware: HARDWARE, local: local.parse().expect("an address"), datagram_bytes: 100 };
        let loaded = bpf::socket_map(1).and_then(|map| {
            // The map has no socket, so the program returns DROP for frames that it takes.
            let program = bpf::load_xdp(&program_with(&ours, map.as_raw_fd(), DROP))?;
            Ok((map, program))
        });
        let (_map, program) = match loaded {
            Ok(loaded) => loaded,
            Err(cause) if cause.kind() == std::io::ErrorKind::PermissionDenied => {
                thalweg_prerequisite::skip(
                    "loading XDP programs needs CAP_BPF and CAP_NET_ADMIN: run as root",
                );
                return None;
            }
            Err(cause) => panic!("{cause}"),
        };
        let answer = |frame: &Vec<u8>| match bpf::run_xdp(&program, frame).expect("a test run") as i32 {
            DROP => true,
            PASS => false,
            other => panic!("{other}"),
        };
        Some(frames.iter().map(answer).collect())
    }

    /// A frame to `local` with changed bytes.
    fn with(local: &str, changes: &[(usize, u8)]) -> Vec<u8> {
        let mut frame = frame(local);
        changes.iter().for_each(|(at, byte)| frame[*at] = *byte);
        frame
    }

    #[test]
    fn the_program_takes_plain_ipv4_datagrams_to_address_and_port_and_leaves_the_rest() {
        let local = "10.0.0.2:5000";
        let cases: [(&str, Vec<u8>, bool); 14] = [
            ("ours", frame(local), true),
            ("shorter", with(local, &[(39, 20)]), true),
            ("do not fragment, and time to live", with(local, &[(20, 0x40), (22, 1)]), true),
            ("to another card", with(local, &[(5, 8)]), false),
            ("to all", with(local, &[(0, 255), (1, 255), (2, 255), (3, 255), (4, 255), (5, 255)]), false),
            ("ARP", with(local, &[(13, 6)]), false),
            ("a VLAN tag", with(local, &[(12, 0x81)]), false),
            ("options", with(local, &[(14, 0x46)]), false),
            ("the first fragment", with(local, &[(20, 0x20)]), false),
            ("the last fragment", with(local, &[(21, 1)]), false),
            ("TCP", with(local, &[(23, 6)]), false),
            ("to another address", with(local, &[(33, 3)]), false),
            ("to another port", with(local, &[(37, 0x89)]), false),
            ("too long", with(local, &[(39, 109)]), false),
        ];
        let frames: Vec<_> = cases.iter().map(|case| case.1.clone()).collect();
        let Some(taken) = taken(local, &frames) else { return };
        for ((what, _, wanted), taken) in cases.iter().zip(taken) {
            assert_eq!(taken, *wanted, "{what}");
        }
    }

    #[test]
    fn the_program_takes_plain_ipv6_datagrams_to_address_and_port_and_leaves_the_rest() {
        let local = "[fd00::1:2]:5000";
        let cases: [(&str, Vec<u8>, bool); 7] = [
            ("ours", frame(local), true),
            ("a fragment", with(local, &[(20, 44)]), false),
            ("TCP", with(local, &[(20, 6)]), false),
            ("to another address, first word", with(local, &[(38, 0xFC)]), false),
            ("to another address, last word", with(local, &[(53, 3)]), false),
            ("to another port", with(local, &[(57, 0x89)]), false),
            ("too long", with(local, &[(59, 109)]), false),
        ];
        let mut frames: Vec<_> = cases.iter().map(|case| case.1.clone()).collect();
        frames.push(frame("10.0.0.2:5000"));
        let Some(taken) = taken(local, &frames) else { return };
        for ((what, _, wanted), taken) in cases.iter().zip(&taken) {
            assert_eq!(taken, wanted, "{what}");
        }
        assert_eq!(taken.last(), Some(&false), "IPv4");
    }

    #[test]
    fn the_program_leaves_frames_that_end_before_the_udp_header_does() {
        let local = "10.0.0.2:5000";
        let frames: Vec<_> = [41, 42].map(|bytes| frame(local)[..bytes].to_vec()).into();
        let Some(taken) = taken(local, &frames) else { return };
        assert_eq!(taken, [false, true]);
    }
}
