//! A device under test that we know: a bridge whose output is shaped, between network namespaces of its own.
//!
//! ```text
//!  namespace "sources"          namespace "device"               namespace "receiver"
//!  10.78.1.1 … 10.78.1.K ─ link0 ══ in0 ─ bridge ─ out0 ══ link0 ─ 10.78.0.2
//!                                            │
//!              shared:    tbf: rate, burst, limit in bytes
//!              per input: htb: rate, burst ─┬ class of source 1: bfifo, limit in bytes
//!                                           └ class of source K: …, all served in turn
//! ```
//! Made with `ip` and `tc` and removed when dropped, in a panic, too. It needs root, which [`become_root_of_own_namespace`] gives to
//! anybody where the kernel allows it. Nothing leaves the namespaces. What a queue holds is its limit and the burst of the shaper: the
//! tokens that were saved up pass at once.

mod namespace;
mod settings;

use std::net::{IpAddr, Ipv4Addr};
use std::sync::atomic::{AtomicU32, Ordering};

use namespace::Namespace;
pub use namespace::become_root_of_own_namespace;
pub use settings::{SettingsError, TestbedSettings};

use crate::host::{Counter, Counters};
use crate::switch::fit::Buffering;

/// The receiver's address.
pub const RECEIVER: Ipv4Addr = Ipv4Addr::new(10, 78, 0, 2);
/// Links take frames as long as switches do.
const MTU: &str = "9216";
/// What a class of a source may send in its turn: the longest frame.
const QUANTUM_BYTES: u32 = 9230;

/// Why there is no such device.
#[derive(Debug, thiserror::Error)]
pub enum TestbedError {
    /// A program could not be started.
    #[error("{command}: {cause}; install iproute2")]
    Start {
        /// The whole line.
        command: String,
        /// What the system said.
        cause: std::io::Error,
    },
    /// A program has failed.
    #[error(
        "{command}: {said}; a testbed needs root or user namespaces, and a kernel with bridge, veth, tbf and htb"
    )]
    Failed {
        /// The whole line.
        command: String,
        /// What it said.
        said: String,
    },
    /// A namespace cannot be entered.
    #[error("network namespace {name}: {cause}; a testbed needs root or user namespaces")]
    Enter {
        /// Its name.
        name: String,
        /// What the system said.
        cause: std::io::Error,
    },
}

/// The device and both its sides.
#[derive(Debug)]
pub struct Testbed {
    settings: TestbedSettings,
    sources: Namespace,
    device: Namespace,
    receiver: Namespace,
}

impl Testbed {
    /// Makes it.
    ///
    /// # Errors
    /// Without privilege, without `ip` and `tc`, or where the kernel has no bridge or shaper.
    pub fn new(settings: TestbedSettings) -> Result<Testbed, TestbedError> {
        static COUNT: AtomicU32 = AtomicU32::new(0);
        let number = COUNT.fetch_add(1, Ordering::Relaxed);
        let name = |what: &str| format!("thalweg-{}-{number}-{what}", std::process::id());
        let testbed = Testbed {
            settings,
            sources: Namespace::new(name("sources"))?,
            device: Namespace::new(name("device"))?,
            receiver: Namespace::new(name("receiver"))?,
        };
        testbed.wire()?;
        testbed.shape()?;
        Ok(testbed)
    }

    /// Links, addresses, and who has which, so that nobody has to ask through the device.
    fn wire(&self) -> Result<(), TestbedError> {
        const OF_SOURCES: &str = "02:00:00:00:78:01";
        const OF_RECEIVER: &str = "02:00:00:00:78:02";
        let Testbed { sources, device, receiver, settings } = self;
        for (end, own, host) in [("in0", OF_SOURCES, sources), ("out0", OF_RECEIVER, receiver)] {
            device.ip(&format!("link add {end} type veth peer name link0 netns {}", host.name()))?;
            host.ip(&format!("link set link0 address {own} mtu {MTU}"))?;
            device.ip(&format!("link set {end} mtu {MTU}"))?;
        }
        device.ip("link add br0 type bridge")?;
        for end in ["in0", "out0"] {
            device.ip(&format!("link set {end} master br0 up"))?;
        }
        device.ip(&format!("link set br0 mtu {MTU} up"))?;
        receiver.ip(&format!("addr add {RECEIVER}/16 dev link0"))?;
        receiver.ip("link set link0 up")?;
        sources.ip("link set link0 up")?;
        for source in 0..settings.sources {
            let address = self.source(source);
            sources.ip(&format!("addr add {address}/16 dev link0"))?;
            receiver.ip(&format!("neigh add {address} lladdr {OF_SOURCES} dev link0 nud permanent"))?;
        }
        sources.ip(&format!("neigh add {RECEIVER} lladdr {OF_RECEIVER} dev link0 nud permanent"))
    }

    fn shape(&self) -> Result<(), TestbedError> {
        let TestbedSettings { rate_bits_per_s, depth_bytes, burst_bytes, sources, queues, .. } =
            self.settings;
        if queues == Buffering::Shared {
            let line = format!(
                "qdisc add dev out0 root tbf rate {rate_bits_per_s:.0}bit burst {burst_bytes} limit {depth_bytes}"
            );
            return self.device.tc(&line).map(drop);
        }
        let rate = format!("ceil {rate_bits_per_s:.0}bit cburst {burst_bytes}");
        self.device.tc("qdisc add dev out0 root handle 1: htb")?;
        let output = format!("rate {rate_bits_per_s:.0}bit burst {burst_bytes} {rate}");
        self.device.tc(&format!("class add dev out0 parent 1: classid 1:1 htb {output}"))?;
        for source in 0..sources {
            // Next to nothing of its own: everything is borrowed from the output, in turn.
            let (class, own) = (0x10 + source, format!("rate 8kbit burst {QUANTUM_BYTES} {rate}"));
            let add = format!("parent 1:1 classid 1:{class:x} htb {own} quantum {QUANTUM_BYTES}");
            self.device.tc(&format!("class add dev out0 {add}"))?;
            self.device.tc(&format!("qdisc add dev out0 parent 1:{class:x} bfifo limit {depth_bytes}"))?;
            let from = format!("u32 match ip src {}/32 flowid 1:{class:x}", self.source(source));
            self.device.tc(&format!("filter add dev out0 parent 1: protocol ip prio 1 {from}"))?;
        }
        Ok(())
    }

    /// The address of a source, the first of which is 0.
    pub fn source(&self, source: u16) -> IpAddr {
        let [high, low] = (source + 1).to_be_bytes();
        Ipv4Addr::new(10, 78, 1 + high, low).into()
    }

    /// What it was made as.
    pub fn settings(&self) -> TestbedSettings {
        self.settings
    }

    /// The network namespaces of the sources, the device and the receiver, as `ip netns` has them.
    pub fn namespaces(&self) -> [&str; 3] {
        [self.sources.name(), self.device.name(), self.receiver.name()]
    }

    /// Opens something where the sources are.
    ///
    /// # Errors
    /// When the namespace cannot be entered.
    pub fn at_sources<R: Send>(&self, make: impl FnOnce() -> R + Send) -> Result<R, TestbedError> {
        self.sources.within(make)
    }

    /// Opens something where the receiver is.
    ///
    /// # Errors
    /// As at the sources.
    pub fn at_receiver<R: Send>(&self, make: impl FnOnce() -> R + Send) -> Result<R, TestbedError> {
        self.receiver.within(make)
    }

    /// Frames that the queues have thrown away so far. The root's count, which comes first, has those of its classes.
    ///
    /// # Errors
    /// When `tc` does not say it.
    pub fn counters(&self) -> Result<Counters, TestbedError> {
        let said = self.device.tc("-s qdisc show dev out0")?;
        let dropped = said.split("(dropped ").nth(1).and_then(|rest| rest.split(',').next());
        let total = dropped.and_then(|count| count.trim().parse().ok());
        match total {
            Some(total) => Ok(Counters::of_device(vec![Counter { name: "out0 dropped".to_owned(), total }])),
            None => Err(TestbedError::Failed {
                command: "tc -s qdisc show dev out0".to_owned(),
                said: format!("no count of dropped frames in \"{}\"", said.trim()),
            }),
        }
    }
}
