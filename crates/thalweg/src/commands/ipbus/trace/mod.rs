//! Traces IPbus packets on the network: out of a capture, or of tcpdump while it captures.
//!
//! ```text
//!  FILE, - ─┬► datagrams ─────────────────────┬► Packet: requests, replies beside the requests that they answer,
//!           └► segments ─► streams: of targets │           statuses, resends ─► lines, or JSON
//!                                   and hubs ──┘
//! ```

mod streams;

use std::collections::{HashMap, VecDeque};
use std::io::Read;
use std::net::SocketAddr;

use anyhow::Context;
use serde::Serialize;
use thalweg_ipbus::table::Table;
use thalweg_ipbus::wire::{Control, HubCode, Info, Operation, Packet, Replies, Requests, Target, Words};
use thalweg_run::each_payload;

use crate::arguments::IpbusTrace;
use crate::commands::Ended;
use crate::report::{CommandOutcome, print};
use crate::terminal;

use streams::Streams;

/// Words of a block that a line shows.
const WORDS_SHOWED: usize = 8;
/// Packets whose replies may still come; with more, the memory of all is let go.
const MOST_OPEN: usize = 65_536;

/// A packet that was seen.
#[derive(Serialize)]
struct Seen {
    /// Nanoseconds since 1970.
    time_ns: Option<u64>,
    from: SocketAddr,
    to: SocketAddr,
    /// The board, for a packet that goes through a hub.
    target: Option<String>,
    /// `request`, `reply`, `status`, `resend`, `damaged`, and `refused` of a hub that has no reply.
    kind: &'static str,
    id: u16,
    /// The time since the request, for a reply.
    round_trip_us: Option<f64>,
    lines: Vec<String>,
}

/// The totals of the trace.
#[derive(Default, Serialize)]
struct Sum {
    packets: u64,
    requests: u64,
    replies: u64,
    statuses: u64,
    resends: u64,
    /// Replies that a hub did not have.
    refused: u64,
    /// Packets that begin as IPbus does and cannot be read to their end.
    damaged: u64,
    /// Other datagrams, and segments of streams whose ports are not asked for.
    others: u64,
    /// Bytes of streams that are no packets of IPbus, or parts of some that were not captured.
    stream_bytes_skipped: u64,
    /// Packets that are neither UDP nor TCP, or that cannot be read, and bytes of a damaged file.
    neither: u64,
    unread: u64,
    damaged_bytes: u64,
}

/// The sender and receiver of a packet, and its time.
#[derive(Clone, Copy)]
struct PacketRoute {
    time_ns: Option<u64>,
    from: SocketAddr,
    to: SocketAddr,
    /// Through a hub: to which board.
    target: Option<Target>,
    /// True for a stream, which gives each packet once. A datagram that is there again was sent again.
    in_stream: bool,
}

/// Client, server, board of a hub and packet number.
type Exchange = (SocketAddr, SocketAddr, Option<Target>, u16);

/// The time of a packet of requests, and the address of each request.
type Requested = (Option<u64>, Vec<u32>);

/// Requests that were seen and not answered yet, the oldest first.
#[derive(Default)]
struct Open(HashMap<Exchange, VecDeque<Requested>>);

/// Decodes a capture.
pub(super) fn trace(options: &IpbusTrace, json: bool) -> Ended {
    let place = options.file.display().to_string();
    let input: Box<dyn Read + Send> = match place.as_str() {
        "-" => Box::new(std::io::stdin()),
        _ => Box::new(std::fs::File::open(&options.file).with_context(|| place.clone())?),
    };
    let table = options.table.as_deref().map_or(Ok(Table::default()), Table::open)?;
    let (mut open, mut sum, mut failed) = (Open::default(), Sum::default(), None);
    let mut streams = Streams::default();
    let mut take = |sum: &mut Sum, seen: Seen| {
        sum.add(&seen);
        failed = say(&seen, json).err();
        failed.is_none() && options.packets.is_none_or(|most| sum.packets < most)
    };
    let counts =
        each_payload(place, input, &mut |payload| {
            let is_asked = |port: u16| options.port.is_none_or(|wanted| wanted == port);
            if !is_asked(payload.from.port()) && !is_asked(payload.to.port()) {
                sum.others += 1;
                return true;
            }
            if let Some(segment) = payload.segment {
                return streams.take(segment, &payload, &mut |route, packet| match open
                    .seen(&table, route, packet)
                {
                    Some(seen) => take(&mut sum, seen),
                    None => true,
                });
            }
            let route = PacketRoute {
                time_ns: payload.time_ns,
                from: payload.from,
                to: payload.to,
                target: None,
                in_stream: false,
            };
            let packet = Carried::Packet { bytes: payload.payload, missing_bytes: payload.missing_bytes };
            match open.seen(&table, route, packet) {
                Some(seen) => take(&mut sum, seen),
                None => {
                    sum.others += 1;
                    true
                }
            }
        })?;
    if let Some(failed) = failed {
        return Err(failed.into());
    }
    (sum.neither, sum.unread, sum.damaged_bytes) = (counts.others, counts.unread, counts.damaged_bytes);
    sum.stream_bytes_skipped = streams.skipped_bytes();
    print(&sum, json, |sum| sum.words())?;
    Ok(CommandOutcome::Done)
}

fn say(seen: &Seen, json: bool) -> std::io::Result<()> {
    if json {
        return terminal::result(&serde_json::to_string(seen)?);
    }
    let time_s = seen
        .time_ns
        .map_or(String::from("?"), |ns| format!("{}.{:06}", ns / 1_000_000_000, ns % 1_000_000_000 / 1000));
    let after = seen.round_trip_us.map_or(String::new(), |us| format!(", {us:.1} µs after its request"));
    let Seen { from, to, kind, id, lines, .. } = seen;
    let board = seen.target.as_ref().map_or(String::new(), |target| format!(" for {target}"));
    let lines: String = lines.iter().map(|line| format!("\n    {line}")).collect();
    terminal::result(&format!("{time_s}  {from} > {to}{board}  {kind} {id}{after}{lines}"))
}

impl Sum {
    fn add(&mut self, seen: &Seen) {
        self.packets += 1;
        let kind = match seen.kind {
            "request" => &mut self.requests,
            "reply" => &mut self.replies,
            "status" => &mut self.statuses,
            "resend" => &mut self.resends,
            "refused" => &mut self.refused,
            _ => &mut self.damaged,
        };
        *kind += 1;
    }

    fn words(&self) -> String {
        let Sum { packets, requests, replies, statuses, resends, damaged, others, .. } = self;
        let mut text = format!(
            "{packets} packets of IPbus: {requests} requests, {replies} replies, {statuses} statuses, {resends} resends, {damaged} \
             damaged; {others} other datagrams"
        );
        if self.refused > 0 {
            text += &format!("; {} replies that a hub did not have", self.refused);
        }
        if self.stream_bytes_skipped > 0 {
            text += &format!("; {} bytes of streams are no IPbus, or parts of it", self.stream_bytes_skipped);
        }
        if self.unread > 0 {
            text += &format!("; {} packets could not be read", self.unread);
        }
        if self.damaged_bytes > 0 {
            text += &format!("; {} bytes of the file are damaged", self.damaged_bytes);
        }
        text
    }
}

/// The contents of a datagram or a stream.
enum Carried<'a> {
    /// A packet, or what may be one.
    Packet { bytes: &'a [u8], missing_bytes: usize },
    /// No reply, for this reason.
    Refused(HubCode),
}

impl Open {
    /// Takes a datagram, or an item of a stream; returns what it is, if it is IPbus.
    fn seen(&mut self, table: &Table, route: PacketRoute, carried: Carried<'_>) -> Option<Seen> {
        let (bytes, missing_bytes) = match carried {
            Carried::Packet { bytes, missing_bytes } => (bytes, missing_bytes),
            Carried::Refused(code) => return Some(self.refused(route, code)),
        };
        let whole = bytes.len() / 4 * 4;
        let packet = Packet::check(&bytes[..whole]).ok()?;
        if missing_bytes > 0 || whole < bytes.len() {
            let line =
                format!("{missing_bytes} bytes were not captured, {} are no word", bytes.len() - whole);
            return Some(route.seen("damaged", 0, vec![line]));
        }
        Some(match packet {
            Packet::Resend(id) => route.seen("resend", id, Vec::new()),
            Packet::Status(bytes) => match packet.status() {
                Ok(status) if bytes.iter().skip(4).any(|byte| *byte != 0) => {
                    let (buffers, bytes) = (status.buffers, status.buffer_bytes);
                    let line =
                        format!("{buffers} buffers of {bytes} bytes; the id is the next that it takes");
                    route.seen("status", status.next_id, vec![line])
                }
                _ => route.seen("status", 0, vec!["asked for".to_owned()]),
            },
            Packet::Control(control) => self.controlled(table, route, control),
        })
    }

    fn controlled(&mut self, table: &Table, route: PacketRoute, control: Control<'_>) -> Seen {
        match Requests::of(control).next() {
            None | Some(Ok(_)) => {
                let (addresses, lines, kind) = requested(control, table);
                if self.0.len() >= MOST_OPEN {
                    self.0.clear();
                }
                let waiting = self.0.entry((route.from, route.to, route.target, control.id)).or_default();
                if !route.in_stream || waiting.len() >= MOST_OPEN {
                    waiting.clear();
                }
                waiting.push_back((route.time_ns, addresses));
                route.seen(kind, control.id, lines)
            }
            Some(Err(_)) => {
                let (asked_ns, addresses) = self.answered(route, control.id);
                let (lines, kind) = replied(control, &addresses, table);
                Seen { round_trip_us: route.since(asked_ns), ..route.seen(kind, control.id, lines) }
            }
        }
    }

    /// A hub has no reply; it says not to which packet, and its clients number none.
    fn refused(&mut self, route: PacketRoute, code: HubCode) -> Seen {
        let (asked_ns, _) = self.answered(route, 0);
        Seen { round_trip_us: route.since(asked_ns), ..route.seen("refused", 0, vec![code.to_string()]) }
    }

    /// The request that is answered now.
    fn answered(&mut self, route: PacketRoute, id: u16) -> Requested {
        let exchange = (route.to, route.from, route.target, id);
        let Some(waiting) = self.0.get_mut(&exchange) else { return Requested::default() };
        let oldest = waiting.pop_front();
        if waiting.is_empty() {
            self.0.remove(&exchange);
        }
        oldest.unwrap_or_default()
    }
}

impl PacketRoute {
    fn seen(self, kind: &'static str, id: u16, lines: Vec<String>) -> Seen {
        let PacketRoute { time_ns, from, to, target, .. } = self;
        let target = target.map(|target| target.to_string());
        Seen { time_ns, from, to, target, kind, id, round_trip_us: None, lines }
    }

    fn since(self, asked_ns: Option<u64>) -> Option<f64> {
        self.time_ns.zip(asked_ns).map(|(now, asked)| now.saturating_sub(asked) as f64 / 1e3)
    }
}

fn name(table: &Table, address: u32) -> String {
    let node = table.nodes().iter().find(|node| node.address == address && !node.is_masked());
    node.map_or(format!("{address:#010x}"), |node| format!("{} ({address:#010x})", node.name))
}

fn shown(words: Words<'_>) -> String {
    let text: Vec<String> = words.iter().take(WORDS_SHOWED).map(|word| format!("{word:#010x}")).collect();
    let more = words.len().saturating_sub(WORDS_SHOWED);
    if more > 0 { format!("{} … {more} more", text.join(" ")) } else { text.join(" ") }
}

/// Returns where each transaction goes, a line each, and what the packet is.
fn requested(control: Control<'_>, table: &Table) -> (Vec<u32>, Vec<String>, &'static str) {
    let (mut addresses, mut lines) = (Vec::new(), Vec::new());
    for request in Requests::of(control) {
        match request {
            Ok(request) => {
                addresses.push(request.address);
                let (what, place) = (word_of(request.operation), name(table, request.address));
                lines.push(match request.data.len() {
                    0 => format!("{what} {place}, {} word(s)", request.words),
                    _ => format!("{what} {place} {}", shown(request.data)),
                });
            }
            Err(error) => {
                lines.push(error.to_string());
                return (addresses, lines, "damaged");
            }
        }
    }
    (addresses, lines, "request")
}

fn replied(control: Control<'_>, addresses: &[u32], table: &Table) -> (Vec<String>, &'static str) {
    let mut lines = Vec::new();
    for (number, reply) in Replies::of(control).enumerate() {
        match reply {
            Ok(reply) => {
                let place = addresses.get(number).map(|address| format!(" {}", name(table, *address)));
                let (what, place) = (word_of(reply.header.operation), place.unwrap_or_default());
                lines.push(match reply.header.info {
                    Info::Success if reply.data.is_empty() => format!("{what}{place} done"),
                    Info::Success => format!("{what}{place} = {}", shown(reply.data)),
                    info => format!("{what}{place}: {info}, after {} word(s)", reply.header.words),
                });
            }
            Err(error) => {
                lines.push(error.to_string());
                return (lines, "damaged");
            }
        }
    }
    (lines, "reply")
}

fn word_of(operation: Operation) -> &'static str {
    match operation {
        Operation::Read => "read",
        Operation::Write => "write",
        Operation::ReadFifo => "read port",
        Operation::WriteFifo => "write port",
        Operation::ChangeBits => "change bits of",
        Operation::Add => "add to",
        Operation::ReadConfiguration => "read configuration",
        Operation::WriteConfiguration => "write configuration",
    }
}
