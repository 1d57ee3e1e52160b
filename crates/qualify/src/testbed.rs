//! A device under test that we know: a bridge whose output is shaped, between network namespaces of its own.
//!
//! ```text
//!  namespace "sources"          namespace "device"               namespace "receiver"
//!  10.78.1.1 … 10.78.1.K ─ link0 ══ in0 ─ bridge ─ out0 ══ link0 ─ 10.78.0.2
//!                                            tbf: rate, burst, limit in bytes
//! ```
//! Made with `ip` and `tc`, as root, and removed when dropped, in a panic, too. Nothing leaves the namespaces. What it holds is the limit of
//! the shaper and its burst: the tokens that were saved up pass at once.

use std::fs::File;
use std::net::{IpAddr, Ipv4Addr};
use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicU32, Ordering};

use nix::sched::{CloneFlags, setns};

/// The receiver's address.
pub const RECEIVER: Ipv4Addr = Ipv4Addr::new(10, 78, 0, 2);
/// Links take frames as long as switches do.
const MTU: &str = "9216";

/// What is made.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct TestbedSettings {
    /// Rate of the output, bits per second.
    pub rate_bits_per_s: f64,
    /// What waits before it at most, bytes as the kernel counts them: headers of Ethernet, IP and UDP with the payload.
    pub depth_bytes: u64,
    /// What it may send at once after a rest, bytes.
    pub burst_bytes: u64,
    /// Sources, each with an address of its own.
    pub sources: u16,
}

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
        "{command}: {said}; a testbed needs root (`sudo`, or `unshare -rnm` in a container) and a kernel with bridge, veth and tbf"
    )]
    Failed {
        /// The whole line.
        command: String,
        /// What it said.
        said: String,
    },
    /// A namespace cannot be entered.
    #[error("network namespace {name}: {cause}; a testbed needs root")]
    Enter {
        /// Its name.
        name: String,
        /// What the system said.
        cause: std::io::Error,
    },
}

/// A network namespace; gone when dropped, with the ends of links in it.
#[derive(Debug)]
struct Namespace(String);

impl Namespace {
    fn new(name: String) -> Result<Namespace, TestbedError> {
        run(&["ip", "netns", "add", &name])?;
        let namespace = Namespace(name);
        namespace.ip("link set lo up")?;
        Ok(namespace)
    }

    fn ip(&self, line: &str) -> Result<(), TestbedError> {
        let words: Vec<&str> = line.split(' ').collect();
        run(&[&["ip", "-n", &self.0], &words[..]].concat()).map(drop)
    }

    fn tc(&self, line: &str) -> Result<String, TestbedError> {
        let words: Vec<&str> = line.split(' ').collect();
        run(&[&["tc", "-n", &self.0], &words[..]].concat())
    }

    /// Runs `make` on a thread that is in this namespace; sockets that it opens stay there.
    fn within<R: Send>(&self, make: impl FnOnce() -> R + Send) -> Result<R, TestbedError> {
        let failed = |cause: std::io::Error| TestbedError::Enter { name: self.0.clone(), cause };
        let entered = || {
            let place = File::open(format!("/run/netns/{}", self.0))?;
            setns(place, CloneFlags::CLONE_NEWNET)?;
            Ok(make())
        };
        let joined = std::thread::scope(|scope| scope.spawn(entered).join());
        joined.unwrap_or_else(|_| Err(std::io::Error::other("its thread has panicked"))).map_err(failed)
    }
}

impl Drop for Namespace {
    fn drop(&mut self) {
        let _gone = run(&["ip", "netns", "del", &self.0]);
    }
}

fn run(words: &[&str]) -> Result<String, TestbedError> {
    let command = words.join(" ");
    let ended = Command::new(words[0]).args(&words[1..]).stdin(Stdio::null()).output();
    let ended = ended.map_err(|cause| TestbedError::Start { command: command.clone(), cause })?;
    match ended.status.success() {
        true => Ok(String::from_utf8_lossy(&ended.stdout).into_owned()),
        false => {
            let said = String::from_utf8_lossy(&ended.stderr).trim().to_owned();
            Err(TestbedError::Failed { command, said })
        }
    }
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
            device.ip(&format!("link add {end} type veth peer name link0 netns {}", host.0))?;
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
        let TestbedSettings { rate_bits_per_s, depth_bytes, burst_bytes, .. } = self.settings;
        let line = format!(
            "qdisc add dev out0 root tbf rate {rate_bits_per_s:.0}bit burst {burst_bytes} limit {depth_bytes}"
        );
        self.device.tc(&line).map(drop)
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

    /// What fits into it: the queue and the saved-up tokens.
    pub fn true_depth_bytes(&self) -> u64 {
        self.settings.depth_bytes + self.settings.burst_bytes
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

    /// Frames that the shaper has thrown away so far.
    ///
    /// # Errors
    /// When `tc` does not say it.
    pub fn dropped_frames(&self) -> Result<u64, TestbedError> {
        let said = self.device.tc("-s qdisc show dev out0")?;
        let dropped = said.split("(dropped ").nth(1).and_then(|rest| rest.split(',').next());
        dropped.and_then(|count| count.trim().parse().ok()).ok_or(TestbedError::Failed {
            command: "tc -s qdisc show dev out0".to_owned(),
            said: format!("no count of dropped frames in \"{}\"", said.trim()),
        })
    }
}
