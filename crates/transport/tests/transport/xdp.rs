//! Datagrams from an interface's queue, between two network namespaces; skipped without root.

use std::fs::File;
use std::io::{Read, Write};
use std::net::{SocketAddr, UdpSocket};
use std::os::fd::AsRawFd;
use std::os::unix::process::CommandExt;
use std::process::Command;
use std::time::{Duration, Instant};

use nix::sched::{CloneFlags, setns, unshare};
use thalweg_data::batch::Frames;
use thalweg_data::{LossReason, Pool, Received, Unit};
use thalweg_transport::{
    Backend, FullPolicy, ReadySet, TransportError, UdpReceiver, UdpReceiverSettings, UdpSender,
};

const WAIT: Duration = Duration::from_millis(20);
/// Time limit for an expected event on a busy machine.
const LONG: Duration = Duration::from_secs(60);

/// A virtual cable between the test's network namespace and another one.
struct Cable {
    far: File,
}

/// Runs `ip`; returns its output, or its error text.
fn ip(command: &str) -> Result<String, String> {
    let done = Command::new("ip").args(command.split_whitespace()).output();
    let done = done.map_err(|cause| format!("ip: {cause}"))?;
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    if done.status.success() {
        Ok(text(&done.stdout))
    } else {
        Err(format!("ip {command}: {}", text(&done.stderr)))
    }
}

impl Cable {
    /// Moves the calling thread into a namespace with the end `near` (10.9.0.1, fd09::1); the other end is 10.9.0.2, fd09::2. `None`
    /// and a skip message if that is not allowed.
    fn lay(mtu: u32) -> Option<Cable> {
        let laid = Cable::try_lay(mtu);
        if let Err(why) = &laid {
            thalweg_prerequisite::skip(&format!("network namespaces need root, `ip` and veth: {why}"));
        }
        laid.ok()
    }

    fn try_lay(mtu: u32) -> Result<Cable, String> {
        let new_namespace = || {
            unshare(CloneFlags::CLONE_NEWNET).map_err(|error| format!("unshare: {error}"))?;
            ip("link set lo up")
        };
        let far = std::thread::spawn(move || {
            new_namespace()?;
            File::open("/proc/thread-self/ns/net").map_err(|cause| cause.to_string())
        });
        let far = far.join().expect("a thread")?;
        new_namespace()?;
        ip("link add near type veth peer name far")?;
        ip(&format!("link set far netns /proc/{}/fd/{}", std::process::id(), far.as_raw_fd()))?;
        let cable = Cable { far };
        let both = |end: &'static str, number: u32| {
            ip(&format!("link set {end} mtu {mtu} up"))?;
            ip(&format!("addr add 10.9.0.{number}/24 dev {end}"))?;
            ip(&format!("addr add fd09::{number}/64 dev {end} nodad"))
        };
        both("near", 1)?;
        cable.at_far_end(move || both("far", 2))?;
        Ok(cable)
    }

    /// Runs `action` in the namespace of the other end.
    fn at_far_end<T: Send>(&self, action: impl FnOnce() -> T + Send) -> T {
        std::thread::scope(|scope| {
            let inside = scope.spawn(|| {
                setns(&self.far, CloneFlags::CLONE_NEWNET).expect("root");
                action()
            });
            inside.join().expect("a thread")
        })
    }

    fn sender_to(&self, to: SocketAddr) -> UdpSender {
        let local = if to.is_ipv4() { "0.0.0.0:0" } else { "[::]:0" };
        let sender = self.at_far_end(|| UdpSender::open(local.parse().expect("an address"), to));
        sender.expect("the other end")
    }
}

fn settings(bind: &str, datagram_bytes: usize) -> UdpReceiverSettings {
    let bind: SocketAddr = bind.parse().expect("an address");
    UdpReceiverSettings {
        backend: Backend::Xdp,
        receive_buffer_bytes: 16 << 20,
        ..UdpReceiverSettings::new(bind, datagram_bytes)
    }
}

fn try_open(settings: UdpReceiverSettings, blocks: usize) -> Result<UdpReceiver, TransportError> {
    UdpReceiver::open(settings, Pool::new(blocks, 256 << 10).expect("memory"))
}

/// A receiver; `None` and a skip message without the privilege.
fn open(settings: UdpReceiverSettings, blocks: usize) -> Option<UdpReceiver> {
    match try_open(settings, blocks) {
        Ok(receiver) => Some(receiver),
        Err(error @ TransportError::Privilege { .. }) => {
            thalweg_prerequisite::skip(&error.to_string());
            None
        }
        Err(error) => panic!("{error}"),
    }
}

fn datagram(index: usize, length: usize) -> Vec<u8> {
    (0..length).map(|byte| (index * 31 + byte * 7) as u8).collect()
}

/// Copies of the datagrams that arrive until there are `wanted` and three receives in a row find none.
fn receive_all(receiver: &mut UdpReceiver, wanted: usize) -> Vec<Vec<u8>> {
    let (mut all, mut frames, mut idle, until) = (Vec::new(), Frames::default(), 0, Instant::now() + LONG);
    while idle < 3 || (all.len() < wanted && Instant::now() < until) {
        frames.clear();
        let received = receiver.receive(&mut frames, WAIT).expect("queues");
        all.extend(frames.slices.iter().map(|slice| frames.bytes(*slice).to_vec()));
        idle = if received == Received::Data { 0 } else { idle + 1 };
    }
    all
}

fn kernel_count(receiver: &UdpReceiver, name: &str) -> u64 {
    receiver.drop_counters().iter().find(|(each, _)| *each == name).map_or(0, |(_, count)| *count)
}

fn assert_balance(receiver: &UdpReceiver) {
    let counters = receiver.counters();
    for unit in [Unit::Datagrams, Unit::Bytes] {
        assert_eq!(
            counters.total_input(unit),
            counters.total_output(unit) + counters.total_lost_any(unit),
            "{unit}"
        );
    }
}

#[test]
fn xdp_receives_datagrams_of_one_and_of_several_chunks_once_and_whole() {
    let Some(cable) = Cable::lay(9000) else { return };
    for (bind, longest) in [("10.9.0.1:0", 8972), ("[fd09::1]:0", 8952), ("10.9.0.1:0", 1472)] {
        let Some(mut receiver) = open(settings(bind, longest), 200) else { return };
        assert!(receiver.description().contains("native program"), "{}", receiver.description());
        let mut sender = cable.sender_to(receiver.local_address().expect("bound"));
        let lengths =
            [0, 1, 18, 700, 1472, longest, 3798, 3799, 64, longest - 1].map(|each| each.min(longest));
        let sent: Vec<_> = (0..2000).map(|index| datagram(index, lengths[index % lengths.len()])).collect();
        let slices: Vec<&[u8]> = sent.iter().map(Vec::as_slice).collect();
        let mut received = Vec::new();
        for part in slices.chunks(100) {
            assert_eq!(sender.send(part, WAIT).expect("the cable"), part.len());
            received.extend(receive_all(&mut receiver, part.len()));
        }
        assert!(received == sent, "{bind}: {} of {}, bytes and order", received.len(), sent.len());
        assert_eq!((receiver.socket_drops(), receiver.waiting_bytes()), (0, 0), "{bind}");
        assert_eq!(kernel_count(&receiver, "xdp_by_socket"), 0, "{bind}");
        assert_eq!(receiver.moved_bytes(), sent.iter().map(Vec::len).sum::<usize>() as u64);
        assert_balance(&receiver);
    }
}

#[test]
fn xdp_receives_datagrams_that_the_program_leaves_to_the_kernel_through_the_socket() {
    let Some(cable) = Cable::lay(1500) else { return };
    let Some(mut receiver) = open(settings("10.9.0.1:0", 5000), 20) else { return };
    let to = receiver.local_address().expect("bound");
    let mut sender = cable.sender_to(to).without_segmentation();
    // Fragmented; in one frame; fragmented and too long.
    let sent = [datagram(1, 5000), datagram(2, 1000), datagram(3, 5001)];
    let slices: Vec<&[u8]> = sent.iter().map(Vec::as_slice).collect();
    assert_eq!(sender.send(&slices, WAIT).expect("the cable"), 3);
    let mut beside = UdpSender::open("10.9.0.1:0".parse().expect("an address"), to).expect("loopback");
    assert_eq!(beside.send(&[b"from this host"], WAIT).expect("loopback"), 1);
    let mut received = receive_all(&mut receiver, 3);
    received.sort_by_key(Vec::len);
    assert_eq!(received, [b"from this host".to_vec(), sent[1].clone(), sent[0].clone()]);
    assert_eq!(kernel_count(&receiver, "xdp_by_socket"), 3);
    assert_eq!(receiver.counters().total_lost(LossReason::DatagramTooLong, Unit::Bytes), 5001);
    assert_balance(&receiver);
}

#[test]
fn xdp_receives_at_loopback_and_at_a_bridge_with_the_generic_program() {
    let Some(cable) = Cable::lay(1500) else { return };
    let bridge = ip("link add bridge type bridge")
        .and_then(|_| ip("link set near master bridge"))
        .and_then(|_| ip("addr add 10.9.5.1/24 dev bridge"))
        .and_then(|_| ip("link set bridge up"))
        .and_then(|_| cable.at_far_end(|| ip("addr add 10.9.5.2/24 dev far")));
    if let Err(why) = bridge {
        return thalweg_prerequisite::skip(&format!("bridges between namespaces: {why}"));
    }
    for (bind, interface) in [("127.0.0.1:0", "lo"), ("10.9.5.1:0", "bridge")] {
        let Some(mut receiver) = open(settings(bind, 1000), 20) else { return };
        let wanted = format!("AF_XDP at {interface}, generic program, 1 queue, copied");
        assert!(receiver.description().contains(&wanted), "{}", receiver.description());
        let to = receiver.local_address().expect("bound");
        let local = SocketAddr::new(to.ip(), 0);
        let mut sender = match interface {
            "lo" => UdpSender::open(local, to).expect("loopback").without_segmentation(),
            _ => cable.sender_to(to).without_segmentation(),
        };
        let sent: Vec<_> = (0..200).map(|index| datagram(index, 900)).collect();
        let slices: Vec<&[u8]> = sent.iter().map(Vec::as_slice).collect();
        assert_eq!(sender.send(&slices, WAIT).expect("a route"), 200);
        assert_eq!(receive_all(&mut receiver, 200), sent, "{interface}");
        assert_eq!(kernel_count(&receiver, "xdp_by_socket"), 0, "{interface}");
        assert_balance(&receiver);
    }
}

#[test]
fn xdp_counts_frames_that_the_queue_drops_while_nobody_reads() {
    let Some(cable) = Cable::lay(9000) else { return };
    for length in [1000, 8000] {
        let small = UdpReceiverSettings { receive_buffer_bytes: 1 << 20, ..settings("10.9.0.1:0", length) };
        let Some(mut receiver) = open(small, 40) else { return };
        let mut sender = cable.sender_to(receiver.local_address().expect("bound")).without_segmentation();
        let bytes = datagram(1, length);
        for _ in 0..100 {
            assert_eq!(sender.send(&[&bytes[..]; 20], WAIT).expect("the cable"), 20);
        }
        // The kernel's thread for the cable may not have delivered all frames yet.
        let (mut received, until) = (0, Instant::now() + LONG);
        while received + receiver.socket_drops() < 2000 && Instant::now() < until {
            received += receive_all(&mut receiver, 0).len() as u64;
        }
        let drops = receiver.socket_drops();
        assert!(drops > 0 && received + drops == 2000, "{length} B: {received} received, {drops} dropped");
        assert_eq!(kernel_count(&receiver, "xdp_drops"), drops);
        assert_balance(&receiver);
        assert_eq!(sender.send(&[&bytes[..]], WAIT).expect("the cable"), 1);
        assert_eq!(receive_all(&mut receiver, 1), std::slice::from_ref(&bytes), "the receiver goes on");
    }
}

#[test]
fn a_second_xdp_receiver_at_an_interface_is_refused_and_the_first_goes_on() {
    let Some(cable) = Cable::lay(1500) else { return };
    let Some(mut receiver) = open(settings("10.9.0.1:0", 1000), 20) else { return };
    let Err(refused) = try_open(settings("10.9.0.1:0", 1000), 2) else { panic!("one program per interface") };
    assert!(matches!(refused, TransportError::InterfaceTaken { .. }), "{refused}");
    assert!(refused.to_string().contains("near has an XDP program or"), "{refused}");
    let mut sender = cable.sender_to(receiver.local_address().expect("bound"));
    let mut set = ReadySet::new().expect("a descriptor");
    set.add(&receiver, 5).expect("fresh");
    assert_eq!(sender.send(&[b"still here"], WAIT).expect("the cable"), 1);
    assert_eq!(set.wait(LONG).expect("a set"), [5]);
    assert_eq!(receive_all(&mut receiver, 1), [b"still here"]);
}

#[test]
fn the_xdp_program_is_removed_from_the_interface_after_a_drop_and_after_a_panic() {
    let Some(cable) = Cable::lay(1500) else { return };
    let has_program = || ip("link show near").expect("an interface").contains("xdp");
    let Some(receiver) = open(settings("10.9.0.1:0", 1000), 4) else { return };
    let address = receiver.local_address().expect("bound");
    assert!(has_program());
    drop(receiver);
    assert!(!has_program(), "after a drop");
    let receiver = open(settings("10.9.0.1:0", 1000), 4).expect("as before");
    // The panic is in this thread, because only this one is in the namespace.
    let ended = std::panic::catch_unwind(std::panic::AssertUnwindSafe(move || {
        let _held = receiver;
        std::panic::resume_unwind(Box::new("on purpose"));
    }));
    assert!(ended.is_err() && !has_program(), "after a panic");
    let socket = bound_when_free(address);
    let mut sender = cable.sender_to(address);
    assert_eq!(sender.send(&[b"as ever"], WAIT).expect("the cable"), 1);
    socket.set_read_timeout(Some(LONG)).expect("a socket");
    let mut bytes = [0; 20];
    assert_eq!(socket.recv(&mut bytes).expect("it comes"), 7);
}

#[test]
fn the_xdp_program_is_removed_while_a_process_that_is_being_started_has_copies_of_all_descriptors() {
    let Some(_cable) = Cable::lay(1500) else { return };
    let Some(receiver) = open(settings("10.9.0.1:0", 1000), 4) else { return };
    let (mut has_started, starts) = std::io::pipe().expect("a pipe");
    let (waits, go_on) = std::io::pipe().expect("a pipe");
    let mut command = Command::new("true");
    // SAFETY: between `fork` and `exec` it makes two system calls with descriptors that both processes have, and memory of its own.
    unsafe {
        command.pre_exec(move || {
            (&starts).write_all(&[1])?;
            (&waits).read_exact(&mut [0])
        })
    };
    let started = std::thread::spawn(move || command.status());
    has_started.read_exact(&mut [0]).expect("it starts");
    drop(receiver);
    let link = ip("link show near").expect("an interface");
    (&go_on).write_all(&[1]).expect("it waits");
    assert!(started.join().expect("a thread").expect("it starts").success());
    assert!(!link.contains("xdp"), "{link}");
    open(settings("10.9.0.1:0", 1000), 4).expect("as before");
}

/// A socket at a port whose last one has been closed: a process that another test is just starting may still have a copy of that.
fn bound_when_free(address: SocketAddr) -> UdpSocket {
    let until = Instant::now() + LONG;
    loop {
        match UdpSocket::bind(address) {
            Err(_) if Instant::now() < until => std::thread::yield_now(),
            bound => return bound.expect("the port is free"),
        }
    }
}

#[test]
fn xdp_counts_datagrams_without_a_block_and_abandoned_ones() {
    let Some(cable) = Cable::lay(9000) else { return };
    let drop = UdpReceiverSettings { policy: FullPolicy::Drop, ..settings("10.9.0.1:0", 8000) };
    let Some(mut receiver) = open(drop, 1) else { return };
    let mut sender = cable.sender_to(receiver.local_address().expect("bound")).without_segmentation();
    let (bytes, mut held, until) = (datagram(1, 8000), Vec::new(), Instant::now() + LONG);
    let lost = |receiver: &UdpReceiver, reason| receiver.counters().total_lost(reason, Unit::Datagrams);
    while lost(&receiver, LossReason::NoBlock) == 0 && Instant::now() < until {
        sender.send(&[&bytes[..]; 4], WAIT).expect("the cable");
        let mut frames = Frames::default();
        if receiver.receive(&mut frames, WAIT).expect("queues") == Received::Data {
            held.push(frames);
        }
    }
    assert!(lost(&receiver, LossReason::NoBlock) > 0, "{} batches are held", held.len());
    while receiver.waiting_bytes() > 0 {
        receiver.abandon().expect("queues");
    }
    sender.send(&[&bytes[..]; 10], WAIT).expect("the cable");
    let before = lost(&receiver, LossReason::Abandoned);
    while lost(&receiver, LossReason::Abandoned) - before < 10 && Instant::now() < until {
        receiver.abandon().expect("queues");
    }
    assert_eq!(lost(&receiver, LossReason::Abandoned) - before, 10);
    assert_balance(&receiver);
}

#[test]
fn xdp_without_privilege_names_the_capabilities_that_it_needs() {
    let opened = std::thread::spawn(|| {
        // SAFETY: a call without pointers. Unlike the C library's function it changes only this thread, which ends with the test.
        let _refused_without_root = unsafe { libc::syscall(libc::SYS_setresuid, 65_534, 65_534, 65_534) };
        try_open(settings("127.0.0.1:0", 1000), 2).map(|receiver| receiver.description())
    });
    match opened.join().expect("a thread") {
        Err(error @ TransportError::Privilege { .. }) => {
            let text = error.to_string();
            assert!(text.contains("`backend = \"xdp\"` needs CAP_NET_ADMIN, CAP_NET_RAW, CAP_BPF"), "{text}");
            assert!(text.contains("setcap cap_net_admin,cap_net_raw,cap_bpf+ep"), "{text}");
        }
        other => panic!("{other:?}"),
    }
}

#[test]
fn xdp_refuses_the_unspecified_address() {
    let Err(refused) = try_open(settings("0.0.0.0:0", 1000), 2) else { panic!("any interface") };
    assert!(refused.to_string().contains("write the address of that interface"), "{refused}");
}
