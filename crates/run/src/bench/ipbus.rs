//! `ipbus`: blocks of registers read from an emulated board, directly and through a hub, against a bare request and reply of the same sizes.

use std::io;
use std::net::{SocketAddr, UdpSocket};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use thalweg_data::measure::{Clock, Measurement, compare, median};
use thalweg_ipbus::client::Client;
use thalweg_ipbus::device::{Buffers, Device, DeviceServer, Registers};
use thalweg_ipbus::hub::{HubOptions, HubServer};

use super::sweep::Sweep;
use super::{BenchError, Conditions, Measured};

/// Words of a block: one, those of a packet of single words, those of a packet, a kilobyte, a megabyte.
const WORDS: [usize; 6] = [1, 10, 100, 347, 10_000, 262_144];
/// Words that a turn reads at least, and how often it reads at least.
const WORDS_PER_TURN: usize = 1 << 20;
const READS_PER_TURN: usize = 2000;
/// A read packet, and what a reply has beside its words: the packet's header and a transaction's for every 255 words.
const REQUEST_BYTES: usize = 12;
const PAYLOAD_BYTES: usize = 1400;
const ADDRESS: u32 = 0x1000;
/// Single words whose times are looked at one by one.
const SINGLES: usize = 5000;

fn failed(cause: impl std::fmt::Display) -> BenchError {
    BenchError::Room { bench: "ipbus", message: cause.to_string() }
}

fn loopback() -> SocketAddr {
    SocketAddr::from(([127, 0, 0, 1], 0))
}

/// Answers each datagram with one of as many bytes as its first word says: what any device has to do at least.
struct Bare {
    address: SocketAddr,
    ending: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
}

impl Bare {
    fn start() -> io::Result<Bare> {
        let socket = UdpSocket::bind(loopback())?;
        let (address, ending) = (socket.local_addr()?, Arc::new(AtomicBool::new(false)));
        socket.set_read_timeout(Some(Duration::from_millis(50)))?;
        let ends = ending.clone();
        let answer = move || {
            let (mut request, reply) = ([0; 64], [0; PAYLOAD_BYTES]);
            while !ends.load(Ordering::Acquire) {
                let Ok((_, from)) = socket.recv_from(&mut request) else { continue };
                let bytes = u32::from_ne_bytes([request[0], request[1], request[2], request[3]]) as usize;
                // Lost, as any datagram may be: it is asked for again.
                let _ = socket.send_to(&reply[..bytes.min(PAYLOAD_BYTES)], from);
            }
        };
        let thread = std::thread::Builder::new().name("bare device".to_owned()).spawn(answer)?;
        Ok(Bare { address, ending, thread: Some(thread) })
    }
}

impl Drop for Bare {
    fn drop(&mut self) {
        self.ending.store(true, Ordering::Release);
        drop(self.thread.take().map(JoinHandle::join));
    }
}

/// Asks for so many bytes in packets, with as many on their way as the device has buffers.
fn ask_bare(socket: &UdpSocket, mut bytes: usize, window: usize) -> io::Result<()> {
    let (mut request, mut reply, mut in_flight) = ([0; REQUEST_BYTES], [0; PAYLOAD_BYTES], 0);
    while bytes > 0 || in_flight > 0 {
        while bytes > 0 && in_flight < window {
            let asked = bytes.min(PAYLOAD_BYTES);
            request[..4].copy_from_slice(&(asked as u32).to_ne_bytes());
            socket.send(&request)?;
            (bytes, in_flight) = (bytes - asked, in_flight + 1);
        }
        socket.recv(&mut reply)?;
        in_flight -= 1;
    }
    Ok(())
}

/// Bytes of the replies that bring so many words, headers included.
fn reply_bytes(words: usize) -> usize {
    let most = PAYLOAD_BYTES / 4 - 3;
    let packets = words.div_ceil(most);
    4 * (words + packets + words.div_ceil(255).max(packets))
}

struct Bench {
    device: DeviceServer<Registers>,
    hub: HubServer,
    bare: Bare,
}

impl Bench {
    fn start() -> Result<Bench, BenchError> {
        let device = Device::new(Registers::new(), Buffers::default());
        Ok(Bench {
            device: DeviceServer::new(device, Some(loopback()), None).map_err(failed)?,
            hub: HubServer::start(HubOptions::at(loopback())).map_err(failed)?,
            bare: Bare::start().map_err(failed)?,
        })
    }

    fn client(&self, way: &str) -> Result<Client, BenchError> {
        let target = self.device.udp_address().ok_or_else(|| failed("the device has no address"))?;
        let uri = match way {
            "hub" => format!("chtcp-2.0://{}?target={target}", self.hub.address()),
            _ => format!("ipbusudp-2.0://{target}"),
        };
        Client::open(&uri).map_err(failed)
    }

    fn point(&self, way: &'static str, words: usize, repeats: usize) -> Result<Measurement, BenchError> {
        let mut client = self.client(way)?;
        let socket = UdpSocket::bind(loopback()).map_err(failed)?;
        socket.connect(self.bare.address).map_err(failed)?;
        // What the kernel drops is asked for no more: the bench ends with a word.
        socket.set_read_timeout(Some(Duration::from_secs(5))).map_err(failed)?;
        let reads = (WORDS_PER_TURN / words).clamp(4, READS_PER_TURN);
        let (mut block, window) = (vec![0; words], Buffers::default().count as usize);
        let (mut wrong, mut wrong_bare) = (None, None);
        let comparison = compare(
            Clock::Wall,
            repeats,
            || {
                let start = Instant::now();
                for _ in 0..reads {
                    let mut queue = client.queue();
                    queue.read_block(ADDRESS, &mut block);
                    wrong = wrong.take().or(queue.dispatch().err());
                }
                start.elapsed()
            },
            || {
                let start = Instant::now();
                for _ in 0..reads {
                    wrong_bare = wrong_bare.take().or(ask_bare(&socket, reply_bytes(words), window).err());
                }
                start.elapsed()
            },
        );
        match (wrong, wrong_bare) {
            (Some(error), _) => return Err(failed(error)),
            (_, Some(error)) => return Err(failed(format!("the bare request and reply: {error}"))),
            (None, None) => {}
        }
        let counts = client.counts();
        let again = counts.requests_repeated + counts.replies_repeated;
        let yardstick = "a bare request and reply of the same sizes over UDP, as many on their way";
        let measured =
            Measurement::of_rate("ipbus", "words/s", (reads * words) as f64, yardstick, comparison)
                .repeated(repeats)
                .with("way", way)
                .with("words", words)
                .with("gigabits_per_s", 32e-9 * (reads * words) as f64 / comparison.subject_s)
                .with("packets_again", again);
        if words > 1 {
            return Ok(measured);
        }
        let mut times = Vec::with_capacity(SINGLES);
        for _ in 0..SINGLES {
            let start = Instant::now();
            client.read(ADDRESS).map_err(failed)?;
            times.push(start.elapsed().as_secs_f64() * 1e6);
        }
        let middle = median(&mut times);
        Ok(measured
            .with("round_trip_us_half_within", middle)
            .with("round_trip_us_99_percent_within", times[SINGLES * 99 / 100])
            .with("round_trip_us_most", times[SINGLES - 1]))
    }
}

/// Measures both ways at all sizes.
pub(super) fn ipbus(conditions: &Conditions) -> Result<Measured, BenchError> {
    let bench = Bench::start()?;
    let mut points = Vec::new();
    for way in ["direct", "hub"] {
        for words in WORDS {
            points.push(bench.point(way, words, conditions.repeats)?);
        }
    }
    let sweep = Sweep {
        bench: "ipbus",
        title: "Registers of an emulated IPbus board, read in blocks over loopback".to_owned(),
        along: "words",
        x_words: "words of a block",
        lines: Some("way"),
        points,
        shows_ratio: true,
        logarithmic_x: true,
        logarithmic_y: false,
        guide: None,
    };
    Ok(sweep.measured())
}
