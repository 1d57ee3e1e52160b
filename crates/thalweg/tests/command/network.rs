//! Two hosts in one machine: network namespaces, a link between them, and what happens to links.
//!
//! ```text
//!  namespace "boards" 10.77.0.1 ══ veth, shaped by tc ══ 10.77.0.2 namespace "run"
//!                                └ or link.py: packets delayed, reordered, doubled, lost by seed
//! ```
//! Making them needs root, `ip` and `tc`; without, a test says so and is skipped. All are removed with the value, in a panic, too.

use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, Instant};

use serde_json::Value;

use crate::process::Running;
use thalweg_prerequisite::skip;

/// A namespace. Dropping it removes it and the link's end in it.
pub struct Host {
    name: String,
}

impl Host {
    fn new(name: String) -> Result<Host, String> {
        command(&["ip", "netns", "add", &name])?;
        let host = Host { name };
        host.ip(&["link", "set", "lo", "up"])?;
        Ok(host)
    }

    fn ip(&self, arguments: &[&str]) -> Result<(), String> {
        command(&[&["ip", "-n", &self.name], arguments].concat())
    }

    /// Runs the binary here; it logs what it does.
    pub fn start(&self, arguments: &[&str]) -> Running {
        let through = ["ip", "netns", "exec", &self.name, "env", "THALWEG_LOG=thalweg_run=info"];
        Running::start_as(&through, arguments)
    }

    /// As `ip netns` has it.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Shapes what leaves this end of the link, as `tc qdisc` says it; nothing is shaped by `None`.
    pub fn shape(&self, discipline: Option<&str>) {
        let words = |text: &'static str| text.split(' ').collect::<Vec<_>>();
        let head = ["tc", "-n", &self.name];
        let done = match discipline {
            Some(discipline) => {
                let own: Vec<&str> = discipline.split(' ').collect();
                command(&[&head[..], &words("qdisc replace dev link0 root"), &own].concat())
            }
            None => command(&[&head[..], &words("qdisc del dev link0 root")].concat()),
        };
        done.expect("tc knows tbf where there is tc");
    }

    /// Sets what this end of the link takes at most, bytes.
    pub fn set_mtu(&self, bytes: u32) {
        self.ip(&["link", "set", "link0", "mtu", &bytes.to_string()]).expect("the link is there");
    }

    /// Takes this end of the link down, or up again.
    pub fn set_link(&self, up: bool) {
        self.ip(&["link", "set", "link0", if up { "up" } else { "down" }]).expect("the link is there");
    }

    fn join(&self, address: &str) -> Result<(), String> {
        self.ip(&["addr", "add", address, "dev", "link0"])?;
        self.ip(&["link", "set", "link0", "up"])
    }
}

impl Drop for Host {
    fn drop(&mut self) {
        let _gone = command(&["ip", "netns", "del", &self.name]);
    }
}

fn command(words: &[&str]) -> Result<(), String> {
    let output = Command::new(words[0]).args(&words[1..]).stdin(Stdio::null()).output();
    let output = output.map_err(|cause| format!("{}: {cause}", words[0]))?;
    match output.status.success() {
        true => Ok(()),
        false => Err(format!("{}: {}", words.join(" "), String::from_utf8_lossy(&output.stderr).trim())),
    }
}

/// Two hosts and their link.
pub struct Network {
    relay: Option<Child>,
    pub boards: Host,
    pub run: Host,
}

impl Network {
    /// A pair of virtual Ethernet interfaces.
    pub fn wired() -> Option<Network> {
        skipped(Network::hosts().and_then(|network| {
            let (boards, run) = (&network.boards.name, &network.run.name);
            command(&[
                "ip", "link", "add", "link0", "netns", boards, "type", "veth", "peer", "name", "link0",
                "netns", run,
            ])?;
            network.boards.join("10.77.0.1/24")?;
            network.run.join("10.77.0.2/24")?;
            network.boards.shape_once("tbf rate 1gbit burst 64kb limit 64kb")?;
            Ok(network)
        }))
    }

    /// A link whose packets are delayed, reordered, doubled and lost, by a seed: `options` are those of `link.py`.
    pub fn relayed(options: &[&str]) -> Option<Network> {
        skipped(Network::hosts().and_then(|mut network| {
            let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/command/link.py");
            let relay = Command::new("python3")
                .arg(script)
                .args([&network.boards.name, &network.run.name])
                .args(options)
                .stdin(Stdio::piped())
                .stdout(Stdio::piped())
                .stderr(Stdio::piped())
                .spawn();
            network.relay = Some(relay.map_err(|cause| format!("python3: {cause}"))?);
            network.when_relayed(&network.boards, "10.77.0.1/24")?;
            network.when_relayed(&network.run, "10.77.0.2/24")?;
            Ok(network)
        }))
    }

    fn hosts() -> Result<Network, String> {
        static COUNT: AtomicU32 = AtomicU32::new(0);
        let number = COUNT.fetch_add(1, Ordering::Relaxed);
        let name = |end: &str| format!("thalweg-{}-{number}-{end}", std::process::id());
        Ok(Network { relay: None, boards: Host::new(name("boards"))?, run: Host::new(name("run"))? })
    }

    /// Waits until the relay has put its device there.
    fn when_relayed(&self, host: &Host, address: &str) -> Result<(), String> {
        let until = Instant::now() + Duration::from_secs(60);
        loop {
            match host.join(address) {
                Err(error) if Instant::now() >= until => return Err(error),
                // Asked again until it is there.
                Err(_) => std::thread::sleep(Duration::from_millis(50)),
                Ok(()) => return Ok(()),
            }
        }
    }

    /// A second link, 10.76.0.1 at the boards and 10.76.0.2 at the run, for what is not measured.
    pub fn manage(&self) {
        let (boards, run) = (&self.boards.name, &self.run.name);
        let made = command(&[
            "ip", "link", "add", "manage0", "netns", boards, "type", "veth", "peer", "name", "manage0",
            "netns", run,
        ]);
        made.expect("there was a link before");
        for (host, address) in [(&self.boards, "10.76.0.1/24"), (&self.run, "10.76.0.2/24")] {
            host.ip(&["addr", "add", address, "dev", "manage0"]).expect("the link is there");
            host.ip(&["link", "set", "manage0", "up"]).expect("the link is there");
        }
    }

    /// Ends the relay and returns what it did to the packets that the boards sent.
    pub fn relayed_packets(&mut self) -> Value {
        let mut relay = self.relay.take().expect("a relayed link");
        drop(relay.stdin.take());
        let output = relay.wait_with_output().expect("it ends with its input");
        serde_json::from_slice(&output.stdout)
            .unwrap_or_else(|_| panic!("the relay said: {}", String::from_utf8_lossy(&output.stderr)))
    }
}

impl Drop for Network {
    fn drop(&mut self) {
        if let Some(mut relay) = self.relay.take() {
            let _ = relay.kill();
            let _ = relay.wait();
        }
    }
}

impl Host {
    /// Whether this kernel shapes; undone at once.
    fn shape_once(&self, discipline: &str) -> Result<(), String> {
        let words: Vec<&str> = discipline.split(' ').collect();
        command(&[&["tc", "-n", &self.name, "qdisc", "add", "dev", "link0", "root"], &words[..]].concat())?;
        self.shape(None);
        Ok(())
    }
}

/// Prints why there is no network, if so.
fn skipped(network: Result<Network, String>) -> Option<Network> {
    network.inspect_err(|why| skip(&format!("network namespaces need root, `ip` and `tc`: {why}"))).ok()
}
