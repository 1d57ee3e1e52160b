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
//! files, and separating datagrams that the sending host's capture shows glued together (UDP segmentation offload).

mod bytes;
mod capture;
#[cfg(any(test, feature = "harness"))]
mod check;
mod classic;
mod clock;
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

#[cfg(any(test, feature = "harness"))]
pub use check::check;
pub use datagram::PcapFilter;
pub use payload::{CaptureCounts, CapturedPayload, Segment, each_payload};
pub use source::PcapSource;
pub use stream::CapturedStream;
pub use write::CaptureWriter;
