//! Captures as a source: what tcpdump, Wireshark or a switch's mirror port recorded is read as if it arrived now.
//!
//! ```text
//!  file ─► capture ─► classic | pcapng ─► record
//!            │                              ▼
//!          block ◄─ slice ─ udp ◄─ ip ◄─ link: ethernet | cooked | loopback
//!                              └ fragments ─► reassemble
//! ```
//! Files of any size are read in constant memory, into the blocks that travel on. Behind damage the
//! next records that follow each other are looked for; what lies between is lost as `capture_damaged`, in bytes of the file. Every packet is in the counters: `in = out + filtered + lost`, where packets without
//! UDP count as filtered datagrams of no bytes. TCP streams are put
//! together for [whoever looks at a protocol](CapturedStream), and are no source. *Not* here: tunnels (GRE, VXLAN, PPPoE, MPLS), compressed
//! files, and telling apart datagrams that the sending host's capture shows glued together (UDP segmentation offload).

mod bytes;
mod capture;
mod classic;
mod cooked;
mod damage;
mod datagram;
mod ethernet;
mod ip;
mod ipv4;
mod ipv6;
mod link;
mod loopback;
mod payload;
mod pcapng;
mod reassemble;
mod record;
mod source;
mod stream;
mod tcp;
#[cfg(test)]
mod tests;
mod udp;
mod write;

use std::cell::RefCell;
use std::time::Duration;

pub use datagram::PcapFilter;
pub use payload::{CaptureCounts, CapturedPayload, Segment, each_payload};
pub use source::PcapSource;
pub use stream::CapturedStream;
use thalweg_data::{Counters, Frames, Mark, Pool, Received, Source, Unit};
pub use write::CaptureWriter;

thread_local! {
    /// One pool per thread: a process can name a limited number, and a fuzzer calls without end.
    static POOL: RefCell<Pool> = RefCell::new(Pool::new(4, 4096).expect("the sizes are possible"));
}

/// Reads arbitrary bytes as a capture and panics when a law does not hold: for fuzzing.
///
/// # Panics
/// As said.
pub fn check(bytes: &[u8]) {
    for port in [None, Some(51940)] {
        let pool = POOL.with_borrow(Clone::clone);
        let filter = PcapFilter { port, ..PcapFilter::default() };
        let input = Box::new(std::io::Cursor::new(bytes.to_vec()));
        let Ok(mut source) = PcapSource::read("checked".to_owned(), input, filter, pool) else { return };
        let (mut frames, mut mark, mut seen) = (Frames::default(), Mark(0), [0; 2]);
        for calls in 0.. {
            // Each call consumes a packet at least, and a packet has a header.
            assert!(calls <= bytes.len() + 1, "a capture ends");
            frames.clear();
            let received = source.receive(&mut frames, Duration::ZERO).expect("memory can be read");
            assert_ne!(received, Received::Full, "no block is held beyond its batch");
            assert!(frames.header.mark >= mark, "marks never go back");
            mark = frames.header.mark;
            seen[0] += frames.slices.len() as u64;
            seen[1] += frames.slices.iter().map(|slice| frames.bytes(*slice).len() as u64).sum::<u64>();
            check_counters(source.counters(), seen);
            if received == Received::End {
                break;
            }
        }
    }
}

fn check_counters(counters: &Counters, seen: [u64; 2]) {
    for (unit, seen) in [Unit::Datagrams, Unit::Bytes].into_iter().zip(seen) {
        let lost = counters.total_lost_any(unit);
        assert_eq!(counters.total_output(unit), seen, "{unit} out are those that came out");
        assert_eq!(counters.total_input(unit), seen + counters.total_filtered(unit) + lost, "{unit} close");
    }
}
