//! A capture as a source of datagrams, with the capture's clock.
//!
//! ```text
//!  Capture ─► record ─► verdict ─┬► ours: a slice of the block that was read into
//!                                ├► fragment ─► reassembly ─► a copy in a block
//!                                └► filtered · lost{reason}
//! ```
//! A batch ends after 256 datagrams or one millisecond of the capture's time. Its mark is the time of its last packet
//! since the capture's first, and never goes back; a time that the packet behind it contradicts is not used.

use std::collections::BTreeMap;
use std::fs::File;
use std::io::Read;
use std::path::Path;
use std::time::Duration;

use thalweg_data::pool::BlockWriter;
use thalweg_data::{Counters, Frames, LossReason, Mark, Pool, Received, Source, SourceError, Unit};

use super::capture::{Behind, Capture, Next};
use super::clock::Clock;
use super::datagram::{self, PacketVerdict, PcapFilter};
use super::reassemble::{Reassembly, Taken};
use super::record::Record;
use super::udp;

/// Datagrams in a batch at most.
const MOST_DATAGRAMS: usize = 256;
/// Packets looked at for a batch at most, ours or not.
const MOST_PACKETS: usize = 4096;
/// Capture time that a batch may span.
const BATCH_NS: u64 = 1_000_000;
/// Packets looked at to find the port when none is given.
const SURVEYED_PACKETS: u64 = 20_000;
/// Ports named in a message.
const NAMED_PORTS: usize = 8;

/// A pcap or pcapng file as a source of the UDP datagrams that were sent to one port.
pub struct PcapSource {
    capture: Capture,
    filter: PcapFilter,
    /// How the port was found, for the description.
    port_found: &'static str,
    reassembly: Reassembly,
    /// A reassembled datagram that waits for a block.
    whole: Option<usize>,
    /// Where reassembled datagrams are copied to.
    copies: Option<BlockWriter>,
    clock: Clock,
    counters: Counters,
    counts: Counts,
    /// Of the capture's damage, what is in the counters already: places and bytes.
    counted_damage: (u64, u64),
}

/// What the counters do not say, for the counters beside them.
#[derive(Debug, Default)]
struct Counts {
    packets: u64,
    not_udp: u64,
    other_udp: u64,
    reassembled: u64,
    reassembled_bytes: u64,
}

/// What becomes of a packet.
struct Judged {
    /// The verdict, unless it is a part of something.
    verdict: Option<PacketVerdict>,
    /// Where in it the UDP header starts.
    start: usize,
    /// The position of its sender among those that are asked for.
    sender: u32,
}

impl Judged {
    /// A packet that is not passed on.
    fn of(verdict: PacketVerdict) -> Judged {
        Judged { verdict: Some(verdict), start: 0, sender: 0 }
    }
}

impl PcapSource {
    /// Opens a capture. Without a port in the filter, the one port that all UDP of the file's beginning goes to is
    /// taken.
    ///
    /// # Errors
    /// When the file cannot be read or is no capture, or its UDP goes to several ports and none is asked for.
    pub fn open(path: &Path, filter: PcapFilter, pool: Pool) -> Result<PcapSource, SourceError> {
        let place = path.display().to_string();
        let open = || {
            File::open(path).map_err(|cause| SourceError {
                place: place.clone(),
                message: format!("cannot be opened: {cause}; check the path in the URL"),
            })
        };
        let (file, mut filter, mut port_found) = (open()?, filter, None);
        let regular = file.metadata().ok().filter(|metadata| metadata.is_file());
        // What can be read only once, as a pipe, is not read twice: there the first port seen is taken.
        if filter.port.is_none() && regular.is_some() {
            filter.port = survey(&place, Box::new(open()?), &filter, pool.clone())?;
            port_found = filter.port.map(|_| "the only one seen");
        }
        let mut source = PcapSource::read(place.clone(), Box::new(file), filter, pool)?;
        source.port_found = port_found.unwrap_or(source.port_found);
        if let Some(metadata) = regular {
            source.capture.expect_bytes(metadata.len());
        }
        Ok(source)
    }

    /// Reads a capture from anything; `place` is its name in messages. Without a port in the filter, the first port
    /// seen is taken.
    ///
    /// # Errors
    /// When it is no capture.
    pub fn read(
        place: String,
        input: Box<dyn Read + Send>,
        filter: PcapFilter,
        pool: Pool,
    ) -> Result<PcapSource, SourceError> {
        Ok(PcapSource {
            capture: Capture::open(place, input, pool)?,
            port_found: if filter.port.is_some() { "asked for" } else { "the first seen" },
            filter,
            reassembly: Reassembly::default(),
            whole: None,
            copies: None,
            clock: Clock::default(),
            counters: Counters::default(),
            counts: Counts::default(),
            counted_damage: (0, 0),
        })
    }

    /// Fills the batch with the packets of one millisecond.
    fn fill(&mut self, frames: &mut Frames) -> Result<Received, SourceError> {
        let mut batch_start = None;
        for _ in 0..MOST_PACKETS {
            if frames.slices.len() >= MOST_DATAGRAMS {
                break;
            }
            match self.capture.next()? {
                Next::NoBlock => return Ok(Received::Full),
                Next::Nothing => break,
                Next::End => {
                    self.give_up_all();
                    return Ok(Received::End);
                }
                Next::Record(record) => {
                    let Some(time_ns) = self.time(&record)? else { return Ok(Received::Full) };
                    if time_ns - *batch_start.get_or_insert(time_ns) >= BATCH_NS {
                        break;
                    }
                    self.clock.advance(time_ns);
                    self.take(&record, frames);
                }
            }
            if !self.pass_reassembled(frames) {
                return Ok(Received::Full);
            }
        }
        Ok(if frames.slices.is_empty() { Received::Idle } else { Received::Data })
    }

    /// The time of the packet just found, since the first; none when no block is free for the one behind it.
    fn time(&mut self, record: &Record) -> Result<Option<u64>, SourceError> {
        let mut next_ns = None;
        if self.clock.needs_next(record.time_ns) {
            match self.capture.time_behind(record)? {
                Behind::NoBlock => return Ok(None),
                Behind::Time(time_ns) => next_ns = time_ns,
            }
        }
        let time = self.clock.time(record.time_ns, next_ns);
        Ok(Some(time.unwrap_or_else(|off_ns| {
            let seconds = off_ns / 1_000_000_000;
            self.capture
                .note(&format!("the time of a packet is {seconds} s off those around it and is not used"));
            self.clock.now_ns()
        })))
    }

    /// Deals with one packet.
    fn take(&mut self, record: &Record, frames: &mut Frames) {
        self.counts.packets += 1;
        while let Some(index) = self.reassembly.overdue(self.counts.packets) {
            self.give_up(index);
        }
        let Judged { verdict, start, sender } = self.verdict(record);
        let packet = self.capture.consume_packet(record);
        if let Some(verdict) = verdict {
            self.count(verdict);
            if let PacketVerdict::Ours { start: header, bytes } = verdict {
                let payload = packet.part(start + header, bytes).expect("the verdict names captured bytes");
                frames.slices.push(payload.tagged(sender));
                frames.leases.add(self.capture.lease());
            }
        }
    }

    fn verdict(&mut self, record: &Record) -> Judged {
        let frame = self.capture.packet(record);
        let found = match datagram::find(record, frame) {
            Ok(found) => found,
            Err(why) => return Judged::of(datagram::unreadable(record, why)),
        };
        let ((start, captured), packet) = (found.payload(frame), &found.packet);
        let Some(sender) = self.filter.position(packet.source, packet.destination) else {
            let bytes = packet.payload_bytes.saturating_sub(udp::HEADER_BYTES);
            return Judged::of(PacketVerdict::Filtered { bytes });
        };
        let Some(fragment) = packet.fragment else {
            let missing = datagram::short(record);
            let verdict = datagram::judge(captured, packet.payload_bytes, missing, &mut self.filter.port);
            return Judged { verdict: Some(verdict), start, sender };
        };
        let verdict = match self.reassembly.take(packet, fragment, captured, self.counts.packets) {
            Taken::Waiting => None,
            Taken::Whole(index) => {
                self.whole = Some(index);
                None
            }
            Taken::Malformed => Some(PacketVerdict::Lost { reason: LossReason::BadFraming, bytes: 0 }),
        };
        Judged { verdict, start, sender }
    }

    /// Passes on the datagram that was put together, if there is one; false when no block is free for it.
    fn pass_reassembled(&mut self, frames: &mut Frames) -> bool {
        let Some(index) = self.whole else { return true };
        let slot = self.reassembly.slot(index);
        let (whole, missing) = (slot.whole(), LossReason::CaptureTruncated);
        let captured = if slot.short { slot.head() } else { whole };
        let mut verdict = datagram::judge(captured, whole.len(), missing, &mut self.filter.port);
        if let PacketVerdict::Ours { start, bytes } = verdict {
            if slot.short {
                verdict = PacketVerdict::Lost { reason: missing, bytes };
            } else if bytes > self.capture.block_size() {
                verdict = PacketVerdict::Lost { reason: LossReason::TooLarge, bytes };
            } else {
                if self.copies.as_ref().is_none_or(|writer| writer.remaining() < bytes) {
                    // The old one is let go first: with its readers gone, it is the block that is taken.
                    self.copies = None;
                    self.copies = self.capture.take_block();
                }
                let Some(writer) = &mut self.copies else { return false };
                let copy = writer.append(&whole[start..start + bytes]).expect("there is room for it");
                // Parts of packets that are not asked for are not put together.
                let sender = self.filter.position(slot.source, slot.destination).unwrap_or_default();
                frames.slices.push(copy.tagged(sender));
                frames.leases.add(writer.lease());
                self.counts.reassembled += 1;
                self.counts.reassembled_bytes += bytes as u64;
            }
        }
        self.count(verdict);
        self.reassembly.remove(index);
        self.whole = None;
        true
    }

    /// Gives up a datagram of which parts are missing.
    fn give_up(&mut self, index: usize) {
        let slot = self.reassembly.slot(index);
        let (head, seen, reason) = (slot.head(), slot.seen_bytes, LossReason::FragmentMissing);
        let wire_bytes = slot.end().unwrap_or(usize::from(u16::MAX));
        // With its first part here, its header says whose it is and how long it was.
        let verdict = match datagram::judge(head, wire_bytes, reason, &mut self.filter.port) {
            filtered @ PacketVerdict::Filtered { .. } => filtered,
            PacketVerdict::Lost { bytes, .. } | PacketVerdict::Ours { bytes, .. }
                if head.len() >= udp::HEADER_BYTES =>
            {
                PacketVerdict::Lost { reason, bytes }
            }
            _ => PacketVerdict::Lost { reason, bytes: seen },
        };
        self.count(verdict);
        self.reassembly.remove(index);
    }

    fn give_up_all(&mut self) {
        while let Some(index) = self.reassembly.any() {
            self.give_up(index);
        }
    }

    /// Counts what of the capture could not be read since the last time: at least a datagram at each place, and bytes of the
    /// file, headers and all.
    fn count_damage(&mut self) {
        let (places, bytes) = (self.capture.damage().unread_places(), self.capture.damage().bytes());
        let (counted_places, counted_bytes) = std::mem::replace(&mut self.counted_damage, (places, bytes));
        if places > counted_places {
            let new = [(Unit::Datagrams, places - counted_places), (Unit::Bytes, bytes - counted_bytes)];
            for (unit, count) in new {
                self.counters.input(unit, count);
                self.counters.lost(LossReason::CaptureDamaged, unit, count);
            }
        }
    }

    fn count(&mut self, verdict: PacketVerdict) {
        let bytes = match verdict {
            PacketVerdict::Ours { bytes, .. }
            | PacketVerdict::Filtered { bytes }
            | PacketVerdict::Lost { bytes, .. } => bytes,
            PacketVerdict::NotUdp => 0,
        };
        for (unit, count) in [(Unit::Datagrams, 1), (Unit::Bytes, bytes as u64)] {
            self.counters.input(unit, count);
            match verdict {
                PacketVerdict::Ours { .. } => self.counters.output(unit, count),
                PacketVerdict::Filtered { .. } | PacketVerdict::NotUdp => self.counters.filtered(unit, count),
                PacketVerdict::Lost { reason, .. } => self.counters.lost(reason, unit, count),
            }
        }
        match verdict {
            PacketVerdict::NotUdp => self.counts.not_udp += 1,
            PacketVerdict::Filtered { .. } => self.counts.other_udp += 1,
            _ => {}
        }
    }
}

impl Source for PcapSource {
    fn receive(&mut self, frames: &mut Frames, _wait: Duration) -> Result<Received, SourceError> {
        // A datagram that found no block in the last call comes first.
        let received = match self.pass_reassembled(frames) {
            true => self.fill(frames),
            false => Ok(Received::Full),
        };
        self.count_damage();
        frames.header.mark = Mark(self.clock.now_ns());
        // What was read before an error or the end is passed on first; both will be met again.
        if frames.slices.is_empty() { received } else { Ok(Received::Data) }
    }

    fn carry(&mut self, _bytes: usize) {}

    fn counters(&self) -> &Counters {
        &self.counters
    }

    fn drop_counters(&self) -> Vec<(&'static str, u64)> {
        let damage = self.capture.damage();
        vec![
            ("capture_packets", self.counts.packets),
            ("capture_not_udp", self.counts.not_udp),
            ("capture_other_udp", self.counts.other_udp),
            ("capture_reassembled", self.counts.reassembled),
            ("capture_copied_bytes", self.counts.reassembled_bytes + self.capture.moved_bytes()),
            ("capture_dropped_by_host", self.capture.dropped()),
            ("capture_damaged", damage.places()),
            ("capture_unread_bytes", damage.bytes()),
        ]
    }

    fn description(&self) -> String {
        let (format, place) = (self.capture.format(), self.capture.place());
        let port = match self.filter.port {
            Some(port) => format!("port {port}, {}", self.port_found),
            None => "the first port that will be seen".to_owned(),
        };
        let senders = &self.filter.senders;
        let from = if senders.is_anyone() { String::new() } else { format!(", from {senders}") };
        let to = self.filter.destination.map_or(String::new(), |address| format!(", to {address}"));
        let damage = self.capture.damage().text().map_or(String::new(), |text| format!("; damaged: {text}"));
        format!("{format} file {place}: UDP to {port}{to}{from}{damage}")
    }

    fn is_stream(&self) -> bool {
        false
    }

    fn unreadable(&self) -> Option<String> {
        let (place, text) = (self.capture.place(), self.capture.damage().text()?);
        Some(format!(
            "{place}: damaged: {text}; what could be read is in the run, look for a sound copy of the file"
        ))
    }
}

/// Looks at the beginning of a capture for the one port that UDP goes to; none when there is no UDP.
fn survey(
    place: &str,
    input: Box<dyn Read + Send>,
    filter: &PcapFilter,
    pool: Pool,
) -> Result<Option<u16>, SourceError> {
    let mut capture = Capture::open(place.to_owned(), input, pool)?;
    let mut ports = BTreeMap::<u16, u64>::new();
    for _ in 0..SURVEYED_PACKETS {
        let record = match capture.next()? {
            Next::Record(record) => record,
            Next::Nothing => continue,
            Next::NoBlock | Next::End => break,
        };
        let frame = capture.packet(&record);
        if let Ok(found) = datagram::find(&record, frame)
            && filter.position(found.packet.source, found.packet.destination).is_some()
            && found.packet.fragment.is_none_or(|fragment| fragment.offset == 0)
            && let Ok(header) = udp::read(found.payload(frame).1, usize::from(u16::MAX))
        {
            *ports.entry(header.destination_port).or_default() += 1;
        }
        capture.consume_packet(&record);
    }
    if ports.len() > 1 {
        let mut ports = ports.into_iter().collect::<Vec<_>>();
        ports.sort_by_key(|(_, count)| std::cmp::Reverse(*count));
        let named = ports.iter().take(NAMED_PORTS).map(|(port, count)| format!("{port} ({count})"));
        let message = format!(
            "holds UDP to {} ports, most to {}; say which one, as in `pcap://FILE?port={}`",
            ports.len(),
            named.collect::<Vec<_>>().join(", "),
            ports[0].0
        );
        return Err(SourceError { place: place.to_owned(), message });
    }
    Ok(ports.into_keys().next())
}
