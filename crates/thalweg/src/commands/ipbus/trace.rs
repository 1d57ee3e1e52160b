//! What went over the network, packet by packet: out of a capture, or of tcpdump while it captures.
//!
//! ```text
//!  FILE, - ─► datagrams ─► Packet: requests, replies beside the requests that they answer, statuses, resends ─► lines, or JSON
//! ```

use std::collections::HashMap;
use std::io::Read;
use std::net::SocketAddr;

use anyhow::Context;
use serde::Serialize;
use thalweg_ipbus::table::Table;
use thalweg_ipbus::wire::{Control, Info, Operation, Packet, Replies, Requests, Words};
use thalweg_run::{CapturedDatagram, each_datagram};

use crate::arguments::IpbusTrace;
use crate::commands::Ended;
use crate::report::{Outcome, print};
use crate::terminal;

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
    /// `request`, `reply`, `status`, `resend`, `damaged`.
    kind: &'static str,
    id: u16,
    /// Of a reply, since its request.
    round_trip_us: Option<f64>,
    lines: Vec<String>,
}

/// What the trace has found in all.
#[derive(Default, Serialize)]
struct Sum {
    packets: u64,
    requests: u64,
    replies: u64,
    statuses: u64,
    resends: u64,
    /// Packets that begin as IPbus does and cannot be read to their end.
    damaged: u64,
    /// Other datagrams.
    others: u64,
    /// Packets that are no UDP, or that cannot be read, and bytes of a damaged file.
    not_udp: u64,
    unread: u64,
    damaged_bytes: u64,
}

/// Client, target and packet number.
type Exchange = (SocketAddr, SocketAddr, u16);

/// When a packet of requests was seen, and the address of each.
type Requested = (Option<u64>, Vec<u32>);

/// Requests that were seen and not answered yet.
#[derive(Default)]
struct Open(HashMap<Exchange, Requested>);

/// Decodes a capture.
pub(super) fn trace(options: &IpbusTrace, json: bool) -> Ended {
    let place = options.file.display().to_string();
    let input: Box<dyn Read + Send> = match place.as_str() {
        "-" => Box::new(std::io::stdin()),
        _ => Box::new(std::fs::File::open(&options.file).with_context(|| place.clone())?),
    };
    let table = options.table.as_deref().map_or(Ok(Table::default()), Table::open)?;
    let (mut open, mut sum, mut failed) = (Open::default(), Sum::default(), None);
    let counts = each_datagram(place, input, &mut |datagram| {
        let is_asked = |port: u16| options.port.is_none_or(|wanted| wanted == port);
        if !is_asked(datagram.from.port()) && !is_asked(datagram.to.port()) {
            sum.others += 1;
            return true;
        }
        let Some(seen) = open.seen(&table, datagram) else {
            sum.others += 1;
            return true;
        };
        sum.add(&seen);
        failed = say(&seen, json).err();
        failed.is_none() && options.packets.is_none_or(|most| sum.packets < most)
    })?;
    if let Some(failed) = failed {
        return Err(failed.into());
    }
    (sum.not_udp, sum.unread, sum.damaged_bytes) = (counts.not_udp, counts.unread, counts.damaged_bytes);
    print(&sum, json, |sum| sum.words())?;
    Ok(Outcome::Done)
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
    let lines: String = lines.iter().map(|line| format!("\n    {line}")).collect();
    terminal::result(&format!("{time_s}  {from} > {to}  {kind} {id}{after}{lines}"))
}

impl Sum {
    fn add(&mut self, seen: &Seen) {
        self.packets += 1;
        let kind = match seen.kind {
            "request" => &mut self.requests,
            "reply" => &mut self.replies,
            "status" => &mut self.statuses,
            "resend" => &mut self.resends,
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
        if self.unread > 0 {
            text += &format!("; {} packets could not be read", self.unread);
        }
        if self.damaged_bytes > 0 {
            text += &format!("; {} bytes of the file are damaged", self.damaged_bytes);
        }
        text
    }
}

impl Open {
    /// What a datagram is, if it is IPbus.
    fn seen(&mut self, table: &Table, datagram: CapturedDatagram<'_>) -> Option<Seen> {
        let CapturedDatagram { time_ns, from, to, payload, missing_bytes } = datagram;
        let seen = |kind, id, lines| Seen { time_ns, from, to, kind, id, round_trip_us: None, lines };
        let whole = payload.len() / 4 * 4;
        let packet = Packet::check(&payload[..whole]).ok()?;
        if missing_bytes > 0 || whole < payload.len() {
            let line =
                format!("{missing_bytes} bytes were not captured, {} are no word", payload.len() - whole);
            return Some(seen("damaged", 0, vec![line]));
        }
        match packet {
            Packet::Resend(id) => Some(seen("resend", id, Vec::new())),
            Packet::Status(bytes) => Some(match packet.status() {
                Ok(status) if bytes.iter().skip(4).any(|byte| *byte != 0) => {
                    let (buffers, bytes) = (status.buffers, status.buffer_bytes);
                    seen(
                        "status",
                        status.next_id,
                        vec![format!("{buffers} buffers of {bytes} bytes; the id is the next that it takes")],
                    )
                }
                _ => seen("status", 0, vec!["asked for".to_owned()]),
            }),
            Packet::Control(control) => {
                let mut requests = Requests::of(control);
                match requests.next() {
                    None | Some(Ok(_)) => {
                        let (addresses, lines, kind) = requested(control, table);
                        if self.0.len() >= MOST_OPEN {
                            self.0.clear();
                        }
                        self.0.insert((from, to, control.id), (time_ns, addresses));
                        Some(seen(kind, control.id, lines))
                    }
                    Some(Err(_)) => {
                        let (asked_ns, addresses) =
                            self.0.remove(&(to, from, control.id)).unwrap_or_default();
                        let (lines, kind) = replied(control, &addresses, table);
                        let since =
                            time_ns.zip(asked_ns).map(|(now, asked)| now.saturating_sub(asked) as f64 / 1e3);
                        Some(Seen { round_trip_us: since, ..seen(kind, control.id, lines) })
                    }
                }
            }
        }
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

/// Where each transaction goes, a line each, and what the packet is.
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
