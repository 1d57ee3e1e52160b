//! Access rules: which clients may do what, on which targets, at which addresses.
//!
//! ```text
//!  request ─► the first rule that matches client, target and address decides; without one, the request is allowed
//! ```

use std::net::{IpAddr, Ipv4Addr};
use std::ops::RangeInclusive;
use std::str::FromStr;

use crate::wire::{Operation, Request, Target};

/// An invalid address, network or target.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("`{text}` is {found}; write {wanted}")]
pub struct PatternError {
    text: String,
    found: &'static str,
    wanted: &'static str,
}

/// An IPv4 network: `192.168.0.0/24`, `127.0.0.1`, `*`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Network {
    first: Ipv4Addr,
    bits: u8,
}

impl Network {
    /// All addresses.
    pub const ALL: Network = Network { first: Ipv4Addr::UNSPECIFIED, bits: 0 };

    /// Number of its addresses.
    pub fn count(self) -> usize {
        1 << (32 - self.bits)
    }

    /// Its addresses, the lowest first.
    pub fn addresses(self) -> impl Iterator<Item = Ipv4Addr> {
        let first = u32::from(self.first) & self.mask();
        (first..=first | !self.mask()).map(Ipv4Addr::from)
    }

    fn mask(self) -> u32 {
        u32::MAX.checked_shl(u32::from(32 - self.bits)).unwrap_or(0)
    }

    fn has(self, address: Ipv4Addr) -> bool {
        (u32::from(address) ^ u32::from(self.first)) & self.mask() == 0
    }
}

impl FromStr for Network {
    type Err = PatternError;

    fn from_str(text: &str) -> Result<Network, PatternError> {
        let wrong = || PatternError {
            text: text.to_owned(),
            found: "neither an address nor a network",
            wanted: "192.168.0.2, 192.168.0.0/24 or *",
        };
        if text == "*" {
            return Ok(Network::ALL);
        }
        let (first, bits) = text.split_once('/').unwrap_or((text, "32"));
        let bits = bits.parse().ok().filter(|bits| *bits <= 32).ok_or_else(wrong)?;
        Ok(Network { first: first.parse().map_err(|_| wrong())?, bits })
    }
}

/// A set of targets: a network, and one port or all ports.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TargetPattern {
    network: Network,
    port: Option<u16>,
}

impl TargetPattern {
    /// All targets.
    pub const ALL: TargetPattern = TargetPattern { network: Network::ALL, port: None };

    /// The network, and the port if there is one.
    pub fn parts(self) -> (Network, Option<u16>) {
        (self.network, self.port)
    }

    /// Whether it includes a target.
    pub fn has(self, target: Target) -> bool {
        self.network.has(target.address) && self.port.is_none_or(|port| port == target.port)
    }
}

impl FromStr for TargetPattern {
    type Err = PatternError;

    /// `NETWORK` or `NETWORK:PORT`.
    fn from_str(text: &str) -> Result<TargetPattern, PatternError> {
        let (network, port) = match text.split_once(':') {
            None => (text, None),
            Some((network, port)) => {
                let wrong = |_| PatternError {
                    text: text.to_owned(),
                    found: "a target without a port after its colon",
                    wanted: "192.168.0.2:50001, 192.168.0.0/24 or *",
                };
                (network, Some(port.parse().map_err(wrong)?))
            }
        };
        Ok(TargetPattern { network: network.parse()?, port })
    }
}

/// What a rule grants.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Access {
    /// No access.
    None,
    /// Operations that change nothing.
    Read,
    /// All operations.
    Write,
}

/// A rule.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Rule {
    /// The clients that it applies to.
    pub clients: Network,
    /// The targets that it applies to.
    pub targets: TargetPattern,
    /// The bus addresses that it applies to.
    pub addresses: RangeInclusive<u32>,
    /// The access that it grants.
    pub access: Access,
}

/// All rules of a hub.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Rules {
    /// Targets that the hub serves; all if empty.
    pub targets: Vec<TargetPattern>,
    /// For each address the first matching rule decides.
    pub rules: Vec<Rule>,
}

impl Rules {
    /// Whether the hub serves a target.
    pub fn serves(&self, target: Target) -> bool {
        self.targets.is_empty() || self.targets.iter().any(|pattern| pattern.has(target))
    }

    /// Whether a client may make a request, at all addresses of the request.
    pub fn allows(&self, client: IpAddr, target: Target, request: &Request<'_>) -> bool {
        let wanted = if request.operation.changes() { Access::Write } else { Access::Read };
        let moves = matches!(request.operation, Operation::Read | Operation::Write);
        let more = if moves { u32::from(request.words.saturating_sub(1)) } else { 0 };
        let client = match client.to_canonical() {
            IpAddr::V4(address) => address,
            // Only rules for all clients apply to IPv6.
            IpAddr::V6(_) => Ipv4Addr::UNSPECIFIED,
        };
        let rules: Vec<&Rule> =
            (self.rules.iter()).filter(|rule| rule.clients.has(client) && rule.targets.has(target)).collect();
        match request.address.checked_add(more) {
            Some(last) => allows(&rules, request.address..=last, wanted),
            // The addresses wrap around to 0.
            None => {
                let last = request.address.wrapping_add(more);
                allows(&rules, request.address..=u32::MAX, wanted) && allows(&rules, 0..=last, wanted)
            }
        }
    }
}

/// Applies the first rule to its part of the range, and the other rules to the rest.
fn allows(rules: &[&Rule], range: RangeInclusive<u32>, wanted: Access) -> bool {
    let Some((rule, rest)) = rules.split_first() else { return true };
    let (first, last) = (*range.start().max(rule.addresses.start()), *range.end().min(rule.addresses.end()));
    if first > last {
        return allows(rest, range, wanted);
    }
    let before = first.checked_sub(1).filter(|end| end >= range.start());
    let behind = last.checked_add(1).filter(|start| start <= range.end());
    rule.access >= wanted
        && before.is_none_or(|end| allows(rest, *range.start()..=end, wanted))
        && behind.is_none_or(|start| allows(rest, start..=*range.end(), wanted))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::wire::{ByteOrder, Packet, RequestPacket, Requests};

    const TARGET: Target = Target { address: Ipv4Addr::new(192, 168, 0, 2), port: 50_001 };

    fn may(rules: &Rules, client: [u8; 4], operation: Operation, address: u32, words: usize) -> bool {
        let mut bytes = Vec::new();
        let mut packet = RequestPacket::begin(0, ByteOrder::Big, &mut bytes);
        match operation {
            Operation::Read => packet.read(0, operation, address, words),
            _ => packet.write(0, operation, address, &vec![0; words]),
        }
        let control = Packet::check(&bytes).and_then(Packet::control).expect("a packet");
        let request = Requests::of(control).next().expect("one").expect("whole");
        rules.allows(IpAddr::from(client), TARGET, &request)
    }

    fn rule(clients: &str, addresses: RangeInclusive<u32>, access: Access) -> Rule {
        Rule { clients: clients.parse().expect("a network"), targets: TargetPattern::ALL, addresses, access }
    }

    #[test]
    fn the_first_rule_that_matches_an_address_decides() {
        let rules = Rules {
            targets: vec!["192.168.0.0/24:50001".parse().expect("a pattern")],
            rules: vec![
                rule("10.0.0.0/8", 0..=u32::MAX, Access::Read),
                rule("*", 0x100..=0x1FF, Access::None),
                rule("*", 0x180..=0x2FF, Access::Read),
            ],
        };
        let other = Target { port: 50_002, ..TARGET };
        assert!(rules.serves(TARGET) && !rules.serves(other));
        assert!(may(&rules, [10, 1, 2, 3], Operation::Read, 0x100, 5), "reads everything");
        assert!(!may(&rules, [10, 1, 2, 3], Operation::Write, 0x400, 1), "writes nothing");
        let here = [127, 0, 0, 1];
        assert!(may(&rules, here, Operation::Write, 0x400, 200));
        assert!(!may(&rules, here, Operation::Read, 0xFF, 2), "the second word is not allowed");
        assert!(may(&rules, here, Operation::Read, 0x200, 255));
        assert!(!may(&rules, here, Operation::Write, 0x2FF, 2));
        assert!(may(&rules, here, Operation::Write, 0x300, 2));
        assert!(!may(&rules, here, Operation::Read, 0x1FF, 2), "an earlier rule denies 0x1FF");
        assert!(may(&rules, here, Operation::WriteFifo, 0xFF, 100), "one address, however many words");
        assert!(
            may(&rules, here, Operation::Write, u32::MAX, 0xFF),
            "the range wraps to 0 and ends before the first rule"
        );
        assert!(!may(
            &Rules { rules: vec![rule("*", 5..=5, Access::Read)], ..Rules::default() },
            here,
            Operation::Write,
            u32::MAX,
            7
        ));
    }

    #[test]
    fn an_invalid_pattern_is_refused_with_what_to_write() {
        for text in ["", "1.2.3", "1.2.3.4/33", "1.2.3.4:", "1.2.3.4:70000", "board"] {
            let error = text.parse::<TargetPattern>().expect_err(text);
            assert!(error.to_string().contains("192.168.0.2"), "{error}");
        }
        let network: Network = "192.168.0.7/30".parse().expect("a network");
        let addresses: Vec<u8> = network.addresses().map(|address| address.octets()[3]).collect();
        assert_eq!((network.count(), addresses), (4, vec![4, 5, 6, 7]));
        assert_eq!(
            (Network::ALL.count(), Network::ALL.addresses().next()),
            (1 << 32, Some(Ipv4Addr::UNSPECIFIED))
        );
        assert!("*".parse::<TargetPattern>().expect("everything").has(TARGET));
        assert!("192.168.0.2:50001".parse::<TargetPattern>().expect("one").has(TARGET));
    }
}
