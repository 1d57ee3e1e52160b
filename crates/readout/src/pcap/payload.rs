//! What a capture has of UDP and TCP, one after the other, for whoever looks at a protocol rather than takes data.
//!
//! ```text
//!  file, pipe ─► Capture ─► record ─► ip ─► udp, tcp ─► CapturedPayload, in the order of the capture
//! ```

use std::io::Read;
use std::net::SocketAddr;

use thalweg_data::{Pool, SourceError};

use super::bytes::Unreadable;
use super::capture::{Capture, Next};
use super::record::Record;
use super::{datagram, ip, tcp, udp};

/// Blocks and bytes of each: a capture is read in constant memory.
const POOL: (usize, usize) = (4, 256 << 10);

/// Where a payload belongs in its stream.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Segment {
    /// The number of its first byte.
    pub sequence: u32,
    /// Whether the stream begins with it.
    pub begins: bool,
}

/// What one datagram, or one segment of a stream, carries.
#[derive(Clone, Copy, Debug)]
pub struct CapturedPayload<'a> {
    /// When it was captured, nanoseconds since 1970; not known of simple packet blocks.
    pub time_ns: Option<u64>,
    /// Who sent it.
    pub from: SocketAddr,
    /// To whom.
    pub to: SocketAddr,
    /// What was captured of it.
    pub payload: &'a [u8],
    /// Bytes of it that were not captured.
    pub missing_bytes: usize,
    /// Of a TCP stream: where in it.
    pub segment: Option<Segment>,
}

/// What is in a capture.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct CaptureCounts {
    /// Datagrams that were given.
    pub datagrams: u64,
    /// Segments of streams that were given, those without a payload among them.
    pub segments: u64,
    /// Packets that are neither UDP nor TCP.
    pub others: u64,
    /// Packets whose headers cannot be read, and parts of packets that the network has divided.
    pub unread: u64,
    /// Bytes of the file in which no packet was found, because it is damaged.
    pub damaged_bytes: u64,
}

/// Gives every datagram and every segment of a capture to `take`, until that says `false`. `place` is its name in messages.
///
/// # Errors
/// When it is no capture, or cannot be read.
pub fn each_payload(
    place: String,
    input: Box<dyn Read + Send>,
    take: &mut dyn FnMut(CapturedPayload<'_>) -> bool,
) -> Result<CaptureCounts, SourceError> {
    let failed = |message: String| SourceError { place: place.clone(), message };
    let pool = Pool::new(POOL.0, POOL.1).map_err(|error| failed(error.to_string()))?;
    let mut capture = Capture::open(place.clone(), input, pool)?;
    let mut counts = CaptureCounts::default();
    loop {
        match capture.next()? {
            Next::End => break,
            Next::Nothing => {}
            Next::NoBlock => {
                return Err(failed("its blocks are gone: a defect, please report it".to_owned()));
            }
            Next::Record(record) => {
                let goes_on = match payload_of(&record, capture.packet(&record)) {
                    Ok(payload) => {
                        let is_segment = payload.segment.is_some();
                        *(if is_segment { &mut counts.segments } else { &mut counts.datagrams }) += 1;
                        take(payload)
                    }
                    Err(why) => {
                        let is_other = why == Unreadable::Other;
                        *(if is_other { &mut counts.others } else { &mut counts.unread }) += 1;
                        true
                    }
                };
                capture.consume_packet(&record);
                if !goes_on {
                    break;
                }
            }
        }
    }
    counts.damaged_bytes = capture.damage().bytes();
    Ok(counts)
}

/// What a packet carries; a part of one cannot be read.
fn payload_of<'a>(record: &Record, frame: &'a [u8]) -> Result<CapturedPayload<'a>, Unreadable> {
    let found = datagram::find_packet(record, frame)?;
    let (packet, (_, captured)) = (&found.packet, found.payload(frame));
    if ![ip::UDP, ip::TCP].contains(&packet.protocol) {
        return Err(Unreadable::Other);
    }
    if packet.fragment.is_some() {
        return Err(Unreadable::Short);
    }
    let (ports, header_bytes, payload_bytes, segment) = match packet.protocol {
        ip::UDP => {
            let header = udp::read(captured, packet.payload_bytes)?;
            ((header.source_port, header.destination_port), udp::HEADER_BYTES, header.payload_bytes, None)
        }
        _ => {
            let header = tcp::read(captured, packet.payload_bytes)?;
            let segment = Segment { sequence: header.sequence, begins: header.begins };
            let payload_bytes = packet.payload_bytes - header.bytes;
            ((header.source_port, header.destination_port), header.bytes, payload_bytes, Some(segment))
        }
    };
    let payload = &captured[header_bytes..];
    let payload = &payload[..payload_bytes.min(payload.len())];
    Ok(CapturedPayload {
        time_ns: record.time_ns,
        from: SocketAddr::new(packet.source, ports.0),
        to: SocketAddr::new(packet.destination, ports.1),
        payload,
        missing_bytes: payload_bytes - payload.len(),
        segment,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::pcap::CaptureWriter;

    #[test]
    fn datagrams_come_in_their_order_with_their_ends() {
        let (one, two): (SocketAddr, SocketAddr) =
            ("10.0.0.1:4000".parse().expect("an address"), "10.0.0.2:50001".parse().expect("an address"));
        let mut writer = CaptureWriter::new(Vec::new()).expect("memory");
        for number in 0..1000u64 {
            let (from, to) = if number % 2 == 0 { (one, two) } else { (two, one) };
            writer.datagram(number * 1000, from, to, &[number as u8; 700]).expect("memory");
        }
        let file = writer.finish().expect("memory");
        let mut seen = Vec::new();
        let input = Box::new(std::io::Cursor::new(file.clone()));
        let counts = each_payload("a capture".into(), input, &mut |datagram| {
            seen.push((datagram.time_ns, datagram.from, datagram.payload[0], datagram.payload.len()));
            true
        });
        assert_eq!(counts.expect("whole"), CaptureCounts { datagrams: 1000, ..CaptureCounts::default() });
        assert_eq!((seen[3], seen.len()), ((Some(3000), two, 3, 700), 1000));
        let mut first = 0;
        let input = Box::new(std::io::Cursor::new(file));
        each_payload("a capture".into(), input, &mut |_| {
            first += 1;
            first < 3
        })
        .expect("whole");
        assert_eq!(first, 3, "whoever has enough stops");
        assert!(
            each_payload("x".into(), Box::new(&b"nonsense that is no capture"[..]), &mut |_| true).is_err()
        );
    }
}
