//! A device under test that we know: a bridge whose output is shaped, between network namespaces of its own.
//!
//! ```text
//!  namespace "sources"          namespace "device"               namespace "receiver"
//!  10.78.1.1 … 10.78.1.K ─ link0 ══ in0 ─ bridge ─ out0 ══ link0 ─ 10.78.0.2
//!                                            └ out1 ══ link1 ─ 10.78.0.3, of outputs=2: sources 2, 4, 6 … send there
//!              each output, shared: tbf: rate, burst, limit in bytes
//!              or per input:        htb: rate, burst ─┬ class of its first input: bfifo, limit in bytes
//!                                                     └ class of its last: …, all served in turn
//! ```
//! An input is an address: of stacking=2, two sources have each. Everything is made with `ip`, `tc` and, of two outputs, `bridge`, and
//! removed when dropped, in a panic, too. It needs root, which [`become_root_of_own_namespace`] gives to anybody where the kernel allows it.
//! Nothing leaves the namespaces. What a queue holds is its limit and the burst of the shaper: the tokens that were saved up pass at once.

mod namespace;
mod settings;

use std::net::{IpAddr, Ipv4Addr};
use std::sync::atomic::{AtomicU32, Ordering};

pub use namespace::become_root_of_own_namespace;
use namespace::{Namespace, name_of, remove_abandoned};
pub use settings::{SettingsError, TestbedSettings};

use crate::host::{Counter, LossCounters};
use crate::switch::fit::Buffering;

/// The receiver's address on the first output.
pub const RECEIVER: Ipv4Addr = Ipv4Addr::new(10, 78, 0, 2);
/// The receiver's addresses, by output.
pub const RECEIVERS: [Ipv4Addr; 2] = [RECEIVER, Ipv4Addr::new(10, 78, 0, 3)];
/// Links take frames as long as switches do.
const MTU: &str = "9216";
/// The bytes that a class of an input may send in its turn: the longest frame.
const QUANTUM_BYTES: u32 = 9230;

/// Why there is no such device.
#[derive(Debug, thiserror::Error)]
pub enum TestbedError {
    /// A program could not be started.
    #[error("{command}: {cause}; install iproute2")]
    Start {
        /// The whole line.
        command: String,
        /// The error of the system.
        cause: std::io::Error,
    },
    /// A program has failed.
    #[error(
        "{command}: {said}; a testbed needs root or user namespaces, and a kernel with bridge, veth, tbf and htb"
    )]
    Failed {
        /// The whole line.
        command: String,
        /// The output of the command.
        said: String,
    },
    /// A namespace cannot be entered.
    #[error("network namespace {name}: {cause}; a testbed needs root or user namespaces")]
    Enter {
        /// Its name.
        name: String,
        /// The error of the system.
        cause: std::io::Error,
    },
}

/// An output of the bridge, and the receiver on it.
#[derive(Clone, Copy, Debug)]
struct Output {
    number: u16,
    /// The bridge's end.
    port: &'static str,
    /// The receiver's end.
    link: &'static str,
    hardware: &'static str,
    address: Ipv4Addr,
}

const OUTPUTS: [Output; 2] = [
    Output { number: 0, port: "out0", link: "link0", hardware: "02:00:00:00:78:02", address: RECEIVERS[0] },
    Output { number: 1, port: "out1", link: "link1", hardware: "02:00:00:00:78:03", address: RECEIVERS[1] },
];

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
        let name = |what: &str| name_of(number, what);
        remove_abandoned();
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

    fn outputs(&self) -> &'static [Output] {
        &OUTPUTS[..usize::from(self.settings.outputs).min(OUTPUTS.len())]
    }

    /// The first source of each input that leads to an output.
    fn inputs_of(&self, output: Output) -> impl Iterator<Item = u16> {
        let step = self.settings.outputs.max(self.settings.stacking);
        (output.number..self.settings.sources).step_by(usize::from(step))
    }

    /// Sets up links, addresses and their neighbours, so that no address is looked up through the device.
    fn wire(&self) -> Result<(), TestbedError> {
        const OF_SOURCES: &str = "02:00:00:00:78:01";
        let Testbed { sources, device, receiver, settings } = self;
        let outputs = self.outputs();
        device.ip("link add br0 type bridge")?;
        let join = |port: &str, host: &Namespace, link: &str, own: &str| {
            device.ip(&format!("link add {port} type veth peer name {link} netns {}", host.name()))?;
            host.ip(&format!("link set {link} address {own} mtu {MTU}"))?;
            device.ip(&format!("link set {port} mtu {MTU}"))?;
            device.ip(&format!("link set {port} master br0 up"))
        };
        join("in0", sources, "link0", OF_SOURCES)?;
        for Output { port, link, hardware, .. } in outputs {
            join(port, receiver, link, hardware)?;
        }
        device.ip(&format!("link set br0 mtu {MTU} up"))?;
        sources.ip("link set link0 up")?;
        for source in (0..settings.sources).step_by(usize::from(settings.stacking)) {
            sources.ip(&format!("addr add {}/16 dev link0", self.source(source)))?;
        }
        for output in outputs {
            self.wire_receiver(*output, OF_SOURCES)?;
        }
        Ok(())
    }

    /// The receiver's side of an output, and the way there. The receiver has a way back to each source by the output that it comes from:
    /// a kernel that checks this (`rp_filter`) throws away what comes by another one.
    fn wire_receiver(&self, output: Output, of_sources: &str) -> Result<(), TestbedError> {
        let Output { number, port, link, hardware, address } = output;
        let length = if number == 0 { 16 } else { 32 };
        self.receiver.ip(&format!("addr add {address}/{length} dev {link}"))?;
        self.receiver.ip(&format!("link set {link} up"))?;
        for source in self.inputs_of(output).map(|source| self.source(source)) {
            if number > 0 {
                self.receiver.ip(&format!("route add {source}/32 dev {link}"))?;
            }
            self.receiver.ip(&format!("neigh add {source} lladdr {of_sources} dev {link} nud permanent"))?;
        }
        if self.settings.outputs > 1 {
            // A bridge that has not learned where an address is sends to all outputs. It may have learned it by chance, for a while.
            self.device.bridge(&format!("fdb replace {hardware} dev {port} master static"))?;
        }
        self.sources.ip(&format!("neigh add {address} lladdr {hardware} dev link0 nud permanent"))
    }

    fn shape(&self) -> Result<(), TestbedError> {
        self.outputs().iter().try_for_each(|output| self.shape_output(*output))
    }

    fn shape_output(&self, output: Output) -> Result<(), TestbedError> {
        let TestbedSettings { rate_bits_per_s, depth_bytes, burst_bytes, queues, .. } = self.settings;
        let (tc, port) = (|line: String| self.device.tc(&line).map(drop), output.port);
        if queues == Buffering::Shared {
            return tc(format!(
                "qdisc add dev {port} root tbf rate {rate_bits_per_s:.0}bit burst {burst_bytes} limit {depth_bytes}"
            ));
        }
        let rate = format!("ceil {rate_bits_per_s:.0}bit cburst {burst_bytes}");
        tc(format!("qdisc add dev {port} root handle 1: htb"))?;
        let whole = format!("rate {rate_bits_per_s:.0}bit burst {burst_bytes} {rate}");
        tc(format!("class add dev {port} parent 1: classid 1:1 htb {whole}"))?;
        for source in self.inputs_of(output) {
            // Next to nothing of its own: everything is borrowed from the output, in turn.
            let (class, own) = (0x10 + source, format!("rate 8kbit burst {QUANTUM_BYTES} {rate}"));
            tc(format!(
                "class add dev {port} parent 1:1 classid 1:{class:x} htb {own} quantum {QUANTUM_BYTES}"
            ))?;
            tc(format!("qdisc add dev {port} parent 1:{class:x} bfifo limit {depth_bytes}"))?;
            let from = format!("u32 match ip src {}/32 flowid 1:{class:x}", self.source(source));
            tc(format!("filter add dev {port} parent 1: protocol ip prio 1 {from}"))?;
        }
        Ok(())
    }

    /// Returns the address of a source, the first of which is 0: that of its input.
    pub fn source(&self, source: u16) -> IpAddr {
        let [high, low] = (source / self.settings.stacking + 1).to_be_bytes();
        Ipv4Addr::new(10, 78, 1 + high, low).into()
    }

    /// Returns the settings that it was made with.
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

    /// Returns the receiver's address on each output.
    pub fn receivers(&self) -> Vec<Ipv4Addr> {
        self.outputs().iter().map(|output| output.address).collect()
    }

    /// Returns the address that a source sends to: sources send to all outputs in turn.
    pub fn receiver_of(&self, source: u16) -> Ipv4Addr {
        RECEIVERS[usize::from(source % self.settings.outputs).min(RECEIVERS.len() - 1)]
    }

    /// Frames that the queues have thrown away so far, by output. The root's count, which comes first, has those of its classes.
    ///
    /// # Errors
    /// When `tc` does not say it.
    pub fn counters(&self) -> Result<LossCounters, TestbedError> {
        let counters = self.outputs().iter().map(|output| self.dropped(output.port));
        Ok(LossCounters::of_device(counters.collect::<Result<_, _>>()?))
    }

    fn dropped(&self, port: &str) -> Result<Counter, TestbedError> {
        let line = format!("-s qdisc show dev {port}");
        let said = self.device.tc(&line)?;
        let dropped = said.split("(dropped ").nth(1).and_then(|rest| rest.split(',').next());
        let total = dropped.and_then(|count| count.trim().parse().ok());
        match total {
            Some(total) => Ok(Counter { name: format!("{port} dropped"), total }),
            None => Err(TestbedError::Failed {
                command: format!("tc {line}"),
                said: format!("no count of dropped frames in \"{}\"", said.trim()),
            }),
        }
    }
}
