//! The filters of the ring and of the socket that holds its port: the kernel puts only incoming UDP packets to our port into the ring, and
//! nothing into the socket.
//!
//! ```text
//!  port, IPv4 or IPv6 ─► a program of classic BPF ─► accept whole │ reject
//! ```
//! The program accepts the first fragment of a datagram, so that it is counted; later fragments have no port and are rejected.

use libc::{
    BPF_ABS, BPF_B, BPF_H, BPF_IND, BPF_JEQ, BPF_JMP, BPF_JSET, BPF_K, BPF_LD, BPF_LDX, BPF_MSH, BPF_RET,
    SKF_AD_OFF, SKF_AD_PKTTYPE, SKF_NET_OFF, sock_filter,
};

const UDP: u32 = 17;
const FRAGMENT: u32 = 44;
/// Type of a packet to another host, which an interface in promiscuous mode receives (`PACKET_OTHERHOST`).
const OTHERS: u32 = 3;
/// Type of an outgoing packet (`PACKET_OUTGOING`).
const OUTGOING: u32 = 4;

/// One instruction; jumps are relative to the next one.
fn instruction(code: u32, constant: u32, yes: u8, no: u8) -> sock_filter {
    sock_filter { code: code as u16, jt: yes, jf: no, k: constant }
}

/// The address of byte `at` of the IP header, for a load.
fn network(at: i32) -> u32 {
    (SKF_NET_OFF + at) as u32
}

/// The program that rejects everything.
pub(super) fn nothing() -> [sock_filter; 1] {
    [instruction(BPF_RET | BPF_K, 0, 0, 0)]
}

/// The program that accepts datagrams to `port`.
pub(super) fn program(is_ipv6: bool, port: u16) -> Vec<sock_filter> {
    let port = u32::from(port);
    let load_byte = |at| instruction(BPF_LD | BPF_B | BPF_ABS, network(at), 0, 0);
    let load_half = |at| instruction(BPF_LD | BPF_H | BPF_ABS, network(at), 0, 0);
    let equal = |constant, yes, no| instruction(BPF_JMP | BPF_JEQ | BPF_K, constant, yes, no);
    let any_bit = |constant, yes, no| instruction(BPF_JMP | BPF_JSET | BPF_K, constant, yes, no);
    let mut program = vec![
        instruction(BPF_LD | BPF_B | BPF_ABS, (SKF_AD_OFF + SKF_AD_PKTTYPE) as u32, 0, 0),
        // Both jump to the last instruction, which rejects; the offsets are set below.
        equal(OUTGOING, 0, 0),
        equal(OTHERS, 0, 0),
    ];
    if is_ipv6 {
        program.extend([
            load_byte(6),
            equal(UDP, 0, 2),
            load_half(42),
            equal(port, 5, 6),
            equal(FRAGMENT, 0, 5),
            load_half(42),
            any_bit(0xFFF8, 3, 0),
            load_half(50),
            equal(port, 0, 1),
        ]);
    } else {
        program.extend([
            load_byte(9),
            equal(UDP, 0, 6),
            load_half(6),
            any_bit(0x1FFF, 4, 0),
            instruction(BPF_LDX | BPF_B | BPF_MSH, network(0), 0, 0),
            instruction(BPF_LD | BPF_H | BPF_IND, network(2), 0, 0),
            equal(port, 0, 1),
        ]);
    }
    program.push(instruction(BPF_RET | BPF_K, u32::MAX, 0, 0));
    program.extend(nothing());
    let end = program.len() - 1;
    for index in [1, 2] {
        program[index].jt = (end - index - 1) as u8;
    }
    program
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Runs a program on a packet from its IP header on, as the kernel does.
    fn passes(program: &[sock_filter], kind: u8, bytes: &[u8]) -> bool {
        let (mut accumulator, mut index_register, mut at) = (0u32, 0u32, 0);
        let byte = |offset: u32| bytes.get(offset as usize).copied().map(u32::from);
        loop {
            let sock_filter { code, jt, jf, k } = program[at];
            at += 1;
            let code = u32::from(code);
            let offset = k.wrapping_sub(SKF_NET_OFF as u32);
            let load = |from: u32| Some(byte(from)? << 8 | byte(from + 1)?);
            let loaded = match code {
                _ if k == (SKF_AD_OFF + SKF_AD_PKTTYPE) as u32 => Some(u32::from(kind)),
                _ if code == BPF_LD | BPF_B | BPF_ABS => byte(offset),
                _ if code == BPF_LD | BPF_H | BPF_ABS => load(offset),
                _ if code == BPF_LD | BPF_H | BPF_IND => load(offset + index_register),
                _ if code == BPF_LDX | BPF_B | BPF_MSH => {
                    index_register = (byte(offset).unwrap_or(0) & 15) * 4;
                    Some(accumulator)
                }
                _ if code == BPF_RET | BPF_K => return k > 0,
                _ => {
                    let yes = if code & 0xF0 == BPF_JSET { accumulator & k != 0 } else { accumulator == k };
                    at += usize::from(if yes { jt } else { jf });
                    Some(accumulator)
                }
            };
            match loaded {
                Some(value) => accumulator = value,
                None => return false,
            }
        }
    }

    fn ipv4(protocol: u8, fragment: u16, port: u16) -> Vec<u8> {
        let mut bytes = vec![0; 36];
        bytes[0] = 0x46;
        bytes[6..8].copy_from_slice(&fragment.to_be_bytes());
        bytes[9] = protocol;
        bytes[26..28].copy_from_slice(&port.to_be_bytes());
        bytes
    }

    fn ipv6(next: u8, fragment: u16, port: u16) -> Vec<u8> {
        let mut bytes = vec![0; 60];
        bytes[6] = next;
        bytes[42..44].copy_from_slice(&if next == 44 { fragment } else { port }.to_be_bytes());
        bytes[50..52].copy_from_slice(&port.to_be_bytes());
        bytes
    }

    #[test]
    fn only_incoming_udp_to_the_port_passes() {
        assert!(!passes(&super::nothing(), 0, &ipv4(17, 0, 5000)));
        let program = super::program(false, 5000);
        assert!(passes(&program, 0, &ipv4(17, 0, 5000)));
        assert!(passes(&program, 0, &ipv4(17, 0x2000, 5000)), "the first fragment is counted");
        assert!(!passes(&program, 0, &ipv4(17, 0x2001, 5000)), "later fragments have no port");
        assert!(!passes(&program, 0, &ipv4(17, 0, 5001)));
        assert!(!passes(&program, 0, &ipv4(6, 0, 5000)));
        assert!(!passes(&program, 4, &ipv4(17, 0, 5000)), "outgoing");
        assert!(!passes(&program, 3, &ipv4(17, 0, 5000)), "to another host");
        assert!(!passes(&program, 0, &[0x45]));
        let program = super::program(true, 5000);
        assert!(passes(&program, 0, &ipv6(17, 0, 5000)));
        assert!(passes(&program, 0, &ipv6(44, 1, 5000)));
        assert!(!passes(&program, 0, &ipv6(44, 8, 5000)));
        assert!(!passes(&program, 0, &ipv6(17, 0, 5001)));
        assert!(!passes(&program, 0, &ipv6(44, 1, 5001)));
        assert!(!passes(&program, 0, &ipv6(6, 0, 5000)));
        assert!(!passes(&program, 4, &ipv6(17, 0, 5000)));
    }
}
