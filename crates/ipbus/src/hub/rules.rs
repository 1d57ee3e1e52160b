//! Who may do what, on which target, at which addresses.
//!
//! ```text
//!  request ─► the first rule of its client, target and address decides; where none is, it is allowed
//! ```

use std::net::{IpAddr, Ipv4Addr};
use std::ops::RangeInclusive;
use std::str::FromStr;

use crate::wire::{Operation, Request, Target};

/// What is no address, network or target.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("`{text}` is {found}; write {wanted}")]
pub struct PatternError {
    text: String,
    found: &'static str,
    wanted: &'static str,
}

/// Addresses whose first bits are the same: `192.168.0.0/24`, `127.0.0.1`, `*`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Network {
    first: Ipv4Addr,
    bits: u8,
}

impl Network {
    /// Everybody.
    pub const ALL: Network = Network { first: Ipv4Addr::UNSPECIFIED, bits: 0 };

    /// How many addresses it has.
    pub fn count(self) -> usize {
        1 << (32 - self.bits)
    }

    /// All of them, the lowest first.
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
            found: "no address and no network",
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

/// Targets: a network, and one port or all.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TargetPattern {
    network: Network,
    port: Option<u16>,
}

impl TargetPattern {
    /// Every target.
    pub const ALL: TargetPattern = TargetPattern { network: Network::ALL, port: None };

    /// The network, and the port where there is one.
    pub fn parts(self) -> (Network, Option<u16>) {
        (self.network, self.port)
    }

    /// Whether a target is one of these.
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
                    found: "a target without a port behind its colon",
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
    /// Nothing.
    None,
    /// What changes nothing.
    Read,
    /// Everything.
    Write,
}

/// A rule.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Rule {
    /// For whom.
    pub clients: Network,
    /// On which targets.
    pub targets: TargetPattern,
    /// At which addresses of the bus.
    pub addresses: RangeInclusive<u32>,
    /// What they may.
    pub access: Access,
}

/// All rules of a hub.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Rules {
    /// Targets that are served; all of them where this is empty.
    pub targets: Vec<TargetPattern>,
    /// Decide in their order.
    pub rules: Vec<Rule>,
}

impl Rules {
    /// Whether a target is served.
    pub fn serves(&self, target: Target) -> bool {
        self.targets.is_empty() || self.targets.iter().any(|pattern| pattern.has(target))
    }

    /// Whether a client may have this done, at all of its addresses.
    pub fn allows(&self, client: IpAddr, target: Target, request: &Request<'_>) -> bool {
        let wanted = if request.operation.changes() { Access::Write } else { Access::Read };
        let moves = matches!(request.operation, Operation::Read | Operation::Write);
        let more = if moves { u32::from(request.words.saturating_sub(1)) } else { 0 };
        let client = match client.to_canonical() {
            IpAddr::V4(address) => address,
            // Only a rule for everybody is for these.
            IpAddr::V6(_) => Ipv4Addr::UNSPECIFIED,
        };
        let rules: Vec<&Rule> =
            (self.rules.iter()).filter(|rule| rule.clients.has(client) && rule.targets.has(target)).collect();
        match request.address.checked_add(more) {
            Some(last) => allows(&rules, request.address..=last, wanted),
            // It goes on at the other end of the bus.
            None => {
                let last = request.address.wrapping_add(more);
                allows(&rules, request.address..=u32::MAX, wanted) && allows(&rules, 0..=last, wanted)
            }
        }
    }
}

/// What the first rule leaves of a range is for those behind it.
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
    fn the_first_rule_of_an_address_decides() {
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
        assert!(!may(&rules, here, Operation::Read, 0x1FF, 2), "hidden by the rule before");
        assert!(may(&rules, here, Operation::WriteFifo, 0xFF, 100), "one address, however many words");
        assert!(
            may(&rules, here, Operation::Write, u32::MAX, 0xFF),
            "it goes on at 0, and ends before the first"
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
    fn what_is_no_pattern_is_refused_with_what_to_write() {
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
