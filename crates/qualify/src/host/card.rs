//! Network cards: link, ring, interrupts, offloads, place on the board.
//!
//! ```text
//!  addresses of the run ─► route ─► card ─► /sys/class/net/CARD, ethtool ─► Check …
//! ```

use std::net::{IpAddr, SocketAddr, UdpSocket};

use super::check::{Check, Severity};
use super::ethtool::DriverSettings;
use super::fix::Fix;
use super::needs::Needs;
use super::reading::{HostFiles, bytes};
use super::statistics::{self, UdpSpread};

const CARDS: &str = "/sys/class/net";
/// The packets that a receive ring should hold where it can.
const RING_PACKETS: u32 = 4096;
/// The longest time that a card may wait before it interrupts, µs.
const MOST_WAIT_US: u32 = 60;

/// The cards that a run receives through; without addresses, all that are up.
pub(super) fn names(files: &HostFiles, needs: &Needs) -> Vec<String> {
    let mut names: Vec<String> = match needs.addresses.is_empty() {
        true => {
            let is_up = |name: &String| {
                name != "lo"
                    && files.text(&format!("{CARDS}/{name}/operstate")).is_ok_and(|state| state == "up")
            };
            files.names(CARDS).into_iter().filter(is_up).collect()
        }
        false => needs.addresses.iter().filter_map(|address| card_to(*address)).collect(),
    };
    names.sort();
    names.dedup();
    names
}

/// The card through which this host reaches an address, or that has it.
pub(super) fn card_to(address: IpAddr) -> Option<String> {
    let any: SocketAddr = match address {
        IpAddr::V4(_) => (std::net::Ipv4Addr::UNSPECIFIED, 0).into(),
        IpAddr::V6(_) => (std::net::Ipv6Addr::UNSPECIFIED, 0).into(),
    };
    let socket = UdpSocket::bind(any).ok()?;
    // Nothing is sent: the kernel only looks up the route.
    socket.connect((address, 9)).ok()?;
    card_of(socket.local_addr().ok()?.ip())
}

/// The card that has an address of this host.
fn card_of(own: IpAddr) -> Option<String> {
    let has_it = |card: &nix::ifaddrs::InterfaceAddress| {
        let of_card = card.address.as_ref();
        let v4 = of_card.and_then(|address| address.as_sockaddr_in()).map(|address| IpAddr::V4(address.ip()));
        let v6 =
            of_card.and_then(|address| address.as_sockaddr_in6()).map(|address| IpAddr::V6(address.ip()));
        v4.or(v6) == Some(own)
    };
    let found = nix::ifaddrs::getifaddrs().ok()?.find(has_it).map(|card| card.interface_name);
    // All of 127.0.0.0/8 is the loopback's, which has one of them.
    found.or_else(|| own.is_loopback().then(|| "lo".to_owned()))
}

/// All checks of one card.
pub(super) fn checks(files: &HostFiles, needs: &Needs, card: &str) -> Vec<Check> {
    let mut checks = vec![mtu(files, needs, card)];
    if card == "lo" {
        return checks;
    }
    let driver = DriverSettings::of(card);
    checks.extend([link(files, card), ring(&driver, card), coalescing(&driver, card), queues(&driver, card)]);
    checks.extend([offloads(&driver, card), pause(&driver, card), spreading(files, card)]);
    checks.extend([
        hashing(&driver, card, statistics::udp_spread(card)),
        steering(&driver, card),
        stamping(card, statistics::stamped(card)),
    ]);
    checks.extend([
        place(files, card),
        memory_node(files, card),
        interrupts(files, card),
        route_filter(files, card),
    ]);
    checks.push(damaged(files, card));
    checks
}

/// Checks what decides about the queue of a datagram.
fn hashing(driver: &DriverSettings, card: &str, spread: Result<UdpSpread, String>) -> Check {
    let why = "many drivers choose the queue of a datagram by its addresses alone: all boards behind one address then come to one queue, and to one core. Fragments have no ports: never with IP fragments";
    let check = of("hash of UDP", card, Severity::Warning, why)
        .wanting("addresses and ports, where flows differ in ports only");
    if matches!(driver.queues, Ok((1, _))) {
        return check.noted("one queue takes all");
    }
    match spread {
        Ok(UdpSpread::ByPorts) => check.found("addresses and ports", true),
        Ok(UdpSpread::ByAddresses) => check
            .found("addresses alone", false)
            .fixed_by(Fix::program(&format!("ethtool -N {card} rx-flow-hash udp4 sdfn"))),
        Err(why) => check.unknown(why),
    }
}

/// Checks whether rules may lead flows to queues.
fn steering(driver: &DriverSettings, card: &str) -> Check {
    let why = "a rule leads the port of some boards to a queue, and so to a core (`ethtool -N CARD flow-type udp4 dst-port PORT action QUEUE`); `backend = \"xdp\"` reads all queues and needs none";
    let check = of("flow steering", card, Severity::Information, why);
    match &driver.offloads {
        Ok(on) if on.iter().any(|name| name == "rx-ntuple-filter") => check.noted("on"),
        Ok(_) => check.noted("off, or this card has none"),
        Err(why) => check.unknown(why),
    }
}

/// Checks where packets are stamped.
fn stamping(card: &str, stamped: Result<&'static str, String>) -> Check {
    let why = "stamps of the card are those of its arrival; stamps of the kernel have the delay of the core that took it";
    let check = of("stamps of received packets", card, Severity::Information, why);
    match stamped {
        Ok(which) => check.noted(which),
        Err(why) => check.unknown(why),
    }
}

fn of(what: &str, card: &str, severity: Severity, why: &str) -> Check {
    Check::of(format!("{what} ({card})"), severity, why)
}

fn link(files: &HostFiles, card: &str) -> Check {
    let why = "a link that has come up slower than it should is the commonest loss of all";
    let check =
        of("link", card, Severity::Error, why).wanting("up, at the speed of the card and of the switch");
    let state = files.text(&format!("{CARDS}/{card}/operstate"));
    let speed = files.number::<i64>(&format!("{CARDS}/{card}/speed"));
    let duplex = files.text(&format!("{CARDS}/{card}/duplex")).unwrap_or_default();
    match (state, speed) {
        (Ok(state), _) if state != "up" && state != "unknown" => check.found(state, false),
        (Ok(_), Ok(speed)) if speed > 0 => {
            let found = format!("{speed} Mb/s, {duplex} duplex");
            if duplex == "half" { check.found(found, false) } else { check.noted(found) }
        }
        (Ok(state), _) => {
            check.unknown(format_args!("{state}; the driver reports no speed, as virtual cards do"))
        }
        (Err(why), _) => check.unknown(why),
    }
}

fn mtu(files: &HostFiles, needs: &Needs, card: &str) -> Check {
    let why = "a datagram that does not fit is cut into fragments by who sends it, which takes three times the processor time and is lost with each of them, or it is thrown away without a word by a switch";
    let wanted = needs.datagram_bytes + 28;
    let check = of("MTU", card, Severity::Warning, why)
        .wanting(format!("{wanted} at least: datagrams of up to {} bytes", needs.datagram_bytes));
    match files.number::<u64>(&format!("{CARDS}/{card}/mtu")) {
        Ok(mtu) if !needs.has_datagrams() => check.noted(mtu.to_string()),
        Ok(mtu) => {
            let wanted = wanted.max(9000);
            check
                .found(mtu.to_string(), mtu >= needs.datagram_bytes + 28)
                .fixed_by(Fix::program(&format!("ip link set dev {card} mtu {wanted}")))
        }
        Err(why) => check.unknown(why),
    }
}

fn ring(driver: &DriverSettings, card: &str) -> Check {
    let why = "packets that the card keeps while no core takes them: 512 of 1024 bytes last 0.45 ms at 10 Gb/s. 4096 is published of digitizers at 10 Gb/s";
    let check = of("receive ring", card, Severity::Error, why);
    match &driver.ring {
        Ok(ring) => {
            let wanted = ring.most.min(RING_PACKETS);
            check
                .wanting(format!("{wanted} at least, of {} that the card can have", ring.most))
                .found(format!("{} packets", ring.packets), ring.packets >= wanted)
                .fixed_by(Fix::program(&format!("ethtool -G {card} rx {wanted}")))
        }
        Err(why) => check.wanting(format!("{RING_PACKETS}, or as many as it can have")).unknown(why),
    }
}

fn coalescing(driver: &DriverSettings, card: &str) -> Check {
    let why = "how long the card waits before it interrupts (rx-usecs): each packet is that much later at most, and at 0 each interrupts, which about doubles the throughput of small blocks of slow control. Adaptive waiting hunts after bursts of triggers";
    let check = of("interrupt coalescing", card, Severity::Warning, why)
        .wanting(format!("not adaptive, rx-usecs 20 to {MOST_WAIT_US} for throughput, 0 to 5 for latency"));
    match &driver.coalescing {
        Ok(now) => check
            .found(
                format!(
                    "rx-usecs {}, rx-frames {}{}",
                    now.rx_usecs,
                    now.rx_frames,
                    if now.is_adaptive { ", adaptive" } else { "" }
                ),
                !now.is_adaptive && now.rx_usecs <= MOST_WAIT_US,
            )
            .fixed_by(Fix::program(&format!("ethtool -C {card} adaptive-rx off rx-usecs 40"))),
        Err(why) => check.unknown(why),
    }
}

fn queues(driver: &DriverSettings, card: &str) -> Check {
    let why = "packets are spread over queues, each with an interrupt of its own: as many as cores that read; one queue is one core's work";
    let check = of("receive queues", card, Severity::Information, why);
    match &driver.queues {
        Ok((there, most)) => check.noted(format!("{there} of {most}")),
        Err(why) => check.unknown(why),
    }
}

fn offloads(driver: &DriverSettings, card: &str) -> Check {
    let why = "the card checks sums (rx-checksum), the kernel joins datagrams for one read (rx-gro); joined segments of large receive offload are not what came";
    let check = of("offloads", card, Severity::Warning, why).wanting("rx-checksum and rx-gro on, rx-lro off");
    match &driver.offloads {
        Ok(on) => {
            let has = |name: &str| on.iter().any(|offload| offload == name);
            let said = ["rx-checksum", "rx-gro", "rx-lro", "rx-gro-hw"];
            let found: Vec<String> =
                said.iter().map(|name| format!("{name} {}", if has(name) { "on" } else { "off" })).collect();
            check
                .found(found.join(", "), has("rx-checksum") && has("rx-gro") && !has("rx-lro"))
                .fixed_by(Fix::program(&format!("ethtool -K {card} rx on gro on lro off")))
        }
        Err(why) => check.unknown(why),
    }
}

fn pause(driver: &DriverSettings, card: &str) -> Check {
    let why = "PAUSE frames stop the switch instead of losing packets: the loss moves to the boards, where nobody here sees it";
    let check = of("flow control", card, Severity::Warning, why)
        .wanting("off, unless the switch and every board were chosen for it");
    match &driver.pause {
        Ok((obeyed, sent)) => {
            let word = |on: &bool| if *on { "on" } else { "off" };
            check
                .found(format!("received {}, sent {}", word(obeyed), word(sent)), !*sent)
                .fixed_by(Fix::program(&format!("ethtool -A {card} autoneg off rx off tx off")))
        }
        Err(why) => check.unknown(why),
    }
}

fn spreading(files: &HostFiles, card: &str) -> Check {
    let why = "the kernel spreads packets over cores itself where the card cannot: each packet then waits in a backlog of its core";
    let check = of("receive packet steering", card, Severity::Information, why);
    let folder = format!("{CARDS}/{card}/queues");
    let queues = files.names(&folder).into_iter().filter(|queue| queue.starts_with("rx-"));
    let masks: Vec<String> =
        queues.filter_map(|queue| files.text(&format!("{folder}/{queue}/rps_cpus")).ok()).collect();
    let is_off = masks.iter().all(|mask| mask.chars().all(|digit| matches!(digit, '0' | ',')));
    match masks.is_empty() {
        true => check.unknown("its queues have no mask"),
        false => {
            check.noted(if is_off { "off".to_owned() } else { format!("to the cores {}", masks.join(" ")) })
        }
    }
}

fn place(files: &HostFiles, card: &str) -> Check {
    let why = "a card in a slot with fewer lanes than it has takes a fraction of its rate";
    let check = of("PCI Express", card, Severity::Warning, why).wanting("width and speed of the card");
    let word = |file: &str| files.text(&format!("{CARDS}/{card}/device/{file}"));
    match (
        word("current_link_width"),
        word("max_link_width"),
        word("current_link_speed"),
        word("max_link_speed"),
    ) {
        (Ok(width), Ok(most), Ok(speed), Ok(fastest)) => check
            .found(format!("x{width} of x{most}, {speed} of {fastest}"), width == most && speed == fastest),
        (Err(why), ..) | (_, Err(why), ..) | (_, _, Err(why), _) | (_, _, _, Err(why)) => check.unknown(why),
    }
}

fn memory_node(files: &HostFiles, card: &str) -> Check {
    let why = "a reader on another memory node than its card pays 20 to 40 % (rule of thumb)";
    let check = of("memory node", card, Severity::Information, why)
        .wanting("that of the cores that read it (`cores`)");
    match files.number::<i64>(&format!("{CARDS}/{card}/device/numa_node")) {
        Ok(-1) => check.noted("the host has one, or does not say which"),
        Ok(node) => check.noted(node.to_string()),
        Err(why) => check.unknown(why),
    }
}

/// Interrupts of a card have its name, or that of its device, in the last column.
fn interrupts(files: &HostFiles, card: &str) -> Check {
    let why = "the core that takes a card's interrupts does a part of the work for every packet: it should be near the card, and not that of a reader unless you decide so";
    let check = of("interrupts", card, Severity::Information, why);
    let text = match files.text("/proc/interrupts") {
        Ok(text) => text,
        Err(why) => return check.unknown(why),
    };
    let device = std::fs::read_link(files.at(&format!("{CARDS}/{card}/device")))
        .ok()
        .and_then(|path| path.file_name().map(|name| name.to_string_lossy().into_owned()));
    let is_own = |line: &&str| {
        let last = line.split_whitespace().last().unwrap_or_default();
        let starts = |name: &str| last == name || last.starts_with(&format!("{name}-"));
        starts(card) || device.as_deref().is_some_and(starts)
    };
    let numbers = text.lines().filter(is_own).filter_map(|line| line.trim_start().split(':').next());
    let cores: Vec<String> = numbers
        .filter_map(|number| files.text(&format!("/proc/irq/{number}/effective_affinity_list")).ok())
        .collect();
    match cores.is_empty() {
        true => check.unknown("none has its name, or they do not say their cores"),
        false => check.noted(format!("on the cores {}", cores.join(" "))),
    }
}

fn route_filter(files: &HostFiles, card: &str) -> Check {
    let why = "the kernel throws away what comes in by another card than the answer would go out by: what boards off the route send is lost";
    let check = of("rp_filter", card, Severity::Error, why).wanting("0 or 2 on a host with several networks");
    let of_card = |name: &str| files.number::<u8>(&format!("/proc/sys/net/ipv4/conf/{name}/rp_filter"));
    match (of_card("all"), of_card(card)) {
        (Ok(all), Ok(own)) => {
            let key: &'static str = "net.ipv4.conf.all.rp_filter";
            // The stricter of both holds.
            check
                .found(all.max(own).to_string(), all.max(own) != 1)
                .fixed_by(Fix::Sysctl(key, "2".to_owned()))
        }
        (Err(why), _) | (_, Err(why)) => check.unknown(why),
    }
}

fn damaged(files: &HostFiles, card: &str) -> Check {
    let why = "frames that were damaged on the cable, or found no space in the card, since the host started: before anything that we could count";
    let check = of("frames lost", card, Severity::Warning, why).wanting("none");
    let number = |name: &str| files.number::<u64>(&format!("{CARDS}/{card}/statistics/{name}"));
    match (number("rx_crc_errors"), number("rx_missed_errors"), number("rx_fifo_errors")) {
        (Ok(damaged), Ok(missed), Ok(full)) => {
            let received = number("rx_bytes").unwrap_or(0);
            let found =
                format!("{damaged} damaged, {missed} missed, {full} in full queues, of {}", bytes(received));
            check.found(found, damaged + missed + full == 0)
        }
        (Err(why), ..) | (_, Err(why), _) | (_, _, Err(why)) => check.unknown(why),
    }
}

#[cfg(test)]
mod tests {
    use super::super::check::CheckVerdict;
    use super::super::ethtool::{Coalescing, Ring};
    use super::super::tests::host;
    use super::*;

    fn driver() -> DriverSettings {
        let why = || "this driver has no such thing".to_owned();
        DriverSettings {
            ring: Ok(Ring { packets: 512, most: 8192 }),
            coalescing: Ok(Coalescing { rx_usecs: 3, rx_frames: 0, is_adaptive: true }),
            queues: Ok((4, 8)),
            offloads: Ok(vec!["rx-checksum".into(), "rx-gro".into(), "rx-lro".into()]),
            pause: Err(why()),
        }
    }

    #[test]
    fn what_a_driver_reports_is_held_against_what_bursts_need() {
        let driver = driver();
        let said = ring(&driver, "eth1");
        assert!(said.is_error() && said.value == "512 packets", "{said:?}");
        assert_eq!(said.command, "ethtool -G eth1 rx 4096");
        let small = DriverSettings { ring: Ok(Ring { packets: 256, most: 256 }), ..driver.clone() };
        assert_eq!(ring(&small, "eth1").verdict, CheckVerdict::Good, "it cannot have more");
        let said = coalescing(&driver, "eth1");
        assert_eq!(
            (said.verdict, said.value.as_str()),
            (CheckVerdict::Bad, "rx-usecs 3, rx-frames 0, adaptive")
        );
        assert_eq!(offloads(&driver, "eth1").verdict, CheckVerdict::Bad, "segments are joined by the card");
        let unknown = pause(&driver, "eth1");
        assert_eq!(
            (unknown.verdict, unknown.value.as_str()),
            (CheckVerdict::Unknown, "unknown: this driver has no such thing")
        );
    }

    #[test]
    fn a_card_is_read_from_its_files() {
        let root = host(&[
            ("/sys/class/net/eth1/operstate", "up"),
            ("/sys/class/net/eth1/speed", "1000"),
            ("/sys/class/net/eth1/duplex", "full"),
            ("/sys/class/net/eth1/mtu", "1500"),
            ("/sys/class/net/eth1/device/current_link_width", "4"),
            ("/sys/class/net/eth1/device/max_link_width", "8"),
            ("/sys/class/net/eth1/device/current_link_speed", "8.0 GT/s PCIe"),
            ("/sys/class/net/eth1/device/max_link_speed", "8.0 GT/s PCIe"),
            ("/sys/class/net/eth2/operstate", "down"),
            ("/sys/class/net/lo/operstate", "unknown"),
            ("/proc/interrupts", "      CPU0 CPU1\n 40: 1 2 PCI-MSI eth1-rx-0\n 41: 1 2 PCI-MSI eth10"),
            ("/proc/irq/40/effective_affinity_list", "3"),
            ("/proc/irq/41/effective_affinity_list", "5"),
        ]);
        let files = HostFiles::below(root.path());
        assert_eq!(names(&files, &Needs::default()), ["eth1"]);
        let said = mtu(&files, &Needs::default(), "eth1");
        assert_eq!(
            (said.verdict, said.command.as_str()),
            (CheckVerdict::Bad, "ip link set dev eth1 mtu 9000")
        );
        assert_eq!(place(&files, "eth1").value, "x4 of x8, 8.0 GT/s PCIe of 8.0 GT/s PCIe");
        assert_eq!(link(&files, "eth1").value, "1000 Mb/s, full duplex");
        assert!(link(&files, "eth2").is_error());
        assert_eq!(interrupts(&files, "eth1").value, "on the cores 3");
    }

    #[test]
    fn the_card_to_an_address_of_the_host_itself_is_its_loopback() {
        assert_eq!(card_to("127.0.0.7".parse().expect("an address")).as_deref(), Some("lo"));
    }

    #[test]
    fn a_hash_of_addresses_alone_is_bad_only_where_there_are_several_queues() {
        let driver =
            |queues: u32| DriverSettings { queues: Ok((queues, 8)), ..DriverSettings::of("nosuchcard0") };
        let found = |queues, spread| hashing(&driver(queues), "eth0", Ok(spread));
        let bad = found(4, UdpSpread::ByAddresses);
        assert_eq!(
            (bad.verdict, bad.command.as_str()),
            (CheckVerdict::Bad, "ethtool -N eth0 rx-flow-hash udp4 sdfn")
        );
        assert_eq!(found(4, UdpSpread::ByPorts).verdict, CheckVerdict::Good);
        assert_eq!(found(1, UdpSpread::ByAddresses).value, "one queue takes all");
        assert_eq!(hashing(&driver(4), "eth0", Err("no".to_owned())).verdict, CheckVerdict::Unknown);
    }
}
