//! Two hosts in one machine, and a link between them: a thread in a network namespace each.
//!
//! ```text
//!  thread "near" 10.78.0.2 ══ veth, 1 Gb/s each way or as fast as it goes ══ 10.78.0.1 thread "far"
//! ```
//! Making them needs root, `ip` and `tc`; they are removed at the end. Threads that are started by either stay on its side.

use std::fs::File;
use std::net::Ipv4Addr;
use std::os::fd::AsFd;
use std::process::{Command, Stdio};
use std::sync::mpsc::channel;
use std::thread::ScopedJoinHandle;

use rustix::thread::{LinkNameSpaceType, move_into_link_name_space};

/// The far side's address.
pub(crate) const FAR: Ipv4Addr = Ipv4Addr::new(10, 78, 0, 1);
const NEAR: Ipv4Addr = Ipv4Addr::new(10, 78, 0, 2);
/// Bits per second that the link lets pass, headers of Ethernet among them.
pub(crate) const LINK_RATE: f64 = 1e9;
/// The queue of the link holds more than a window of packets.
const QUEUE: &str = "burst 64kb limit 256kb";

/// What the link is like, each way.
#[derive(Clone, Copy, Debug)]
pub(crate) struct LinkShape {
    /// Largest packet, bytes; without it that of Ethernet.
    pub(crate) mtu: Option<u32>,
    /// What it passes, in bits per second; without it what the processor can.
    pub(crate) rate_bits_per_s: Option<f64>,
}

impl LinkShape {
    /// 1 Gb/s.
    pub(crate) const GIGABIT: LinkShape = LinkShape { mtu: None, rate_bits_per_s: Some(LINK_RATE) };
}

/// A namespace, for as long as this lives.
struct Host(String);

/// Says what is missing to have a link.
fn needs(cause: &str) -> String {
    format!("a link between network namespaces needs root, `ip` and `tc` with tbf: {cause}")
}

fn command(words: &str) -> Result<(), String> {
    let mut words = words.split(' ');
    let program = words.next().unwrap_or_default();
    let output = Command::new(program).args(words).stdin(Stdio::null()).output();
    let output = output.map_err(|cause| needs(&format!("{program}: {cause}")))?;
    let said = String::from_utf8_lossy(&output.stderr);
    output.status.success().then_some(()).ok_or_else(|| needs(said.trim()))
}

impl Host {
    fn new(side: &str) -> Result<Host, String> {
        let name = format!("thalweg-bench-{}-{side}", std::process::id());
        command(&format!("ip netns add {name}"))?;
        Ok(Host(name))
    }

    /// Sets up its end of the link with this address.
    fn join(&self, address: Ipv4Addr, shape: LinkShape) -> Result<(), String> {
        let Host(name) = self;
        command(&format!("ip -n {name} addr add {address}/24 dev link0"))?;
        if let Some(mtu) = shape.mtu {
            command(&format!("ip -n {name} link set link0 mtu {mtu}"))?;
        }
        command(&format!("ip -n {name} link set link0 up"))?;
        if let Some(rate) = shape.rate_bits_per_s {
            command(&format!("tc -n {name} qdisc add dev link0 root tbf rate {rate:.0}bit {QUEUE}"))?;
        }
        Ok(())
    }

    /// This thread, and those that it starts from now on, are there.
    fn enter(&self) -> Result<(), String> {
        let place = format!("/run/netns/{}", self.0);
        let namespace = File::open(&place).map_err(|cause| needs(&format!("{place}: {cause}")))?;
        move_into_link_name_space(namespace.as_fd(), Some(LinkNameSpaceType::Network))
            .map_err(|cause| needs(&format!("{place}: {cause}")))
    }
}

impl Drop for Host {
    fn drop(&mut self) {
        // It cannot be helped where it does not go; `ip netns` lists it.
        let _ = command(&format!("ip netns del {}", self.0));
    }
}

/// `far` serves on the far side, and says where; `near` is what is measured, on the near side. What serves ends with it.
pub(crate) fn between<S, P: Send, T: Send>(
    shape: LinkShape,
    far: impl FnOnce() -> Result<(S, P), String> + Send,
    near: impl FnOnce(P) -> T + Send,
) -> Result<T, String> {
    let hosts = [Host::new("far")?, Host::new("near")?];
    command(&format!(
        "ip link add link0 netns {} type veth peer name link0 netns {}",
        hosts[0].0, hosts[1].0
    ))?;
    hosts[0].join(FAR, shape)?;
    hosts[1].join(NEAR, shape)?;
    let (serves, places) = channel();
    let (measures, until) = channel::<()>();
    let [far_host, near_host] = &hosts;
    let serve = move || {
        far_host.enter()?;
        let (served, place) = far()?;
        let _ = serves.send(place);
        // It never says anything, and ends with what is measured.
        let _ = until.recv();
        drop((served, serves));
        Ok(())
    };
    let measure = move || {
        near_host.enter()?;
        let measured = places.recv().ok().map(near);
        drop(measures);
        Ok(measured)
    };
    std::thread::scope(|scope| {
        let (far, near) = (scope.spawn(serve), scope.spawn(measure));
        match (ended(near), ended(far)) {
            (Ok(Some(measured)), Ok(())) => Ok(measured),
            (Err(why), _) | (_, Err(why)) => Err(why),
            (Ok(None), Ok(())) => Err(needs("the far side has ended")),
        }
    })
}

fn ended<T>(thread: ScopedJoinHandle<'_, Result<T, String>>) -> Result<T, String> {
    thread.join().unwrap_or_else(|_| Err("a side of the link has panicked".to_owned()))
}
