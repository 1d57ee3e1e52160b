//! Packs hits into aggregates, and aggregates into datagrams or packets.
//!
//! ```text
//!  hit, hit, … ─► aggregate ─┬─ aligned:  whole aggregates fill one datagram
//!                            ├─ spanning: one network buffer of aggregates, divided into datagrams anywhere
//!                            └─ packets:  one network buffer of aggregates in a TCP packet (or in several)
//! ```
//! The encoder writes the words of a hit; this module decides where they go, and counts.

use std::sync::Arc;

use thalweg_data::SentRecord;

use super::settings::{Settings, Transport};
use crate::digitizer2::emit::{self, AggregateStart};
use crate::self_triggered::{Outgoing, Totals};

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Layout {
    Aligned,
    Spanning,
    Packet { is_split: bool },
}

/// Most hits in an aggregate that is not limited by a datagram or the settings.
pub(super) const AGGREGATE_HITS: u32 = 1024;
/// Most bytes of such an aggregate: half of what a block of a receiver has by default.
pub(super) const AGGREGATE_BYTES: usize = 256 << 10;

/// The ids of a datagram, and whether it is the last of its network buffer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct DatagramIds {
    pub buffer: u16,
    pub datagram: u32,
    pub last: bool,
}

/// The board's output stage.
#[derive(Debug)]
pub(super) struct Packer {
    layout: Layout,
    /// Data bytes of one datagram.
    datagram_data: usize,
    /// Bytes of events that are sent together.
    capacity: usize,
    datagrams_per_buffer: u32,
    aggregate_hits: u32,
    aggregate_bytes: usize,
    events: Vec<u8>,
    open: Option<AggregateStart>,
    open_at: usize,
    open_hits: u32,
    held_hits: u64,
    event_count: u32,
    pub(super) aggregate_counter: u32,
    pub(super) buffer_id: u16,
    pub(super) datagram_id: u32,
    pub(super) totals: Totals,
    /// The record of sent data, if the receiver uses it.
    record: Option<Arc<SentRecord>>,
    /// Number of frames that are complete but not sent.
    frames_waiting: u64,
}

impl Packer {
    pub(super) fn new(settings: &Settings) -> Packer {
        let datagram_data = datagram_data_bytes(settings);
        let layout = match settings.transport {
            Transport::Udp if settings.aligned_datagrams => Layout::Aligned,
            Transport::Udp => Layout::Spanning,
            Transport::Tcp => Layout::Packet { is_split: !settings.aligned_datagrams },
        };
        let aligned = layout == Layout::Aligned;
        let buffer = datagram_data * settings.datagrams_per_buffer as usize;
        let aggregate_hits = match settings.aggregate_hits {
            0 if aligned => u32::MAX,
            0 => AGGREGATE_HITS,
            hits => hits,
        };
        let aggregate_bytes = if settings.aggregate_hits == 0 { AGGREGATE_BYTES } else { usize::MAX };
        Packer {
            layout,
            datagram_data,
            capacity: if aligned { datagram_data } else { buffer },
            datagrams_per_buffer: settings.datagrams_per_buffer,
            aggregate_hits,
            aggregate_bytes,
            events: Vec::new(),
            open: None,
            open_at: 0,
            open_hits: 0,
            held_hits: 0,
            event_count: 0,
            aggregate_counter: 0,
            buffer_id: 0,
            datagram_id: 0,
            totals: Totals::default(),
            record: None,
            frames_waiting: 0,
        }
    }

    /// Enters sent data in this record from now on.
    pub(super) fn keep_record(&mut self, record: Arc<SentRecord>) {
        self.record = Some(record);
    }

    /// Restarts the counters; the record cannot be used by receivers that have followed it until now.
    pub(super) fn begin(&mut self) {
        self.aggregate_counter = 0;
        if let Some(record) = self.record.as_ref().filter(|record| record.frames() > 0) {
            record.give_up();
        }
    }

    /// Ends a frame: an aggregate, or another event whose hits were counted.
    pub(super) fn end_frame(&mut self) {
        self.frames_waiting += 1;
        self.write_frame(self.held_hits);
    }

    /// Records a frame with this many hits.
    #[inline]
    pub(super) fn write_frame(&self, hits: u64) {
        if let Some(record) = &self.record {
            record.end_frame(self.totals.hits + hits);
        }
    }

    /// Records a datagram.
    #[inline]
    fn write_datagram(&self, buffer_id: u16, datagram_id: u32) {
        if let Some(record) = &self.record {
            record.send_datagram(datagram_key(buffer_id, datagram_id));
        }
    }

    /// Whether no hits or events wait to be sent.
    pub(super) fn is_empty(&self) -> bool {
        self.events.is_empty()
    }

    /// Starts a hit of `bytes`, whose words are to be appended to the result. It belongs to an open aggregate; a full
    /// aggregate is closed and sent before.
    pub(super) fn begin_hit(&mut self, bytes: usize, out: &mut Outgoing) -> &mut Vec<u8> {
        let is_large = self.open.is_some() && self.events.len() - self.open_at + bytes > self.aggregate_bytes;
        if self.open_hits >= self.aggregate_hits || is_large {
            self.close_aggregate(false);
        }
        let header = if self.open.is_some() { 0 } else { 8 };
        if self.events.len() + header + bytes > self.capacity {
            self.send(false, out);
        }
        if self.open.is_none() {
            self.open_at = self.events.len();
            self.open = Some(emit::begin_aggregate(&mut self.events, self.aggregate_counter, false, false));
        }
        self.open_hits += 1;
        &mut self.events
    }

    /// Number of hits that wait to be sent.
    pub(super) fn held_hits(&self) -> u64 {
        self.held_hits
    }

    /// The counter of the last hit's aggregate.
    pub(super) fn counter(&self) -> u32 {
        self.aggregate_counter & 0xFF_FFFF
    }

    /// Counts the last hit.
    pub(super) fn count_hit(&mut self) {
        self.held_hits += 1;
    }

    /// Starts an event of `bytes` outside of any aggregate (scope, start, stop); its words are to be appended to the
    /// result.
    pub(super) fn begin_event(&mut self, bytes: usize, out: &mut Outgoing) -> &mut Vec<u8> {
        self.close_aggregate(false);
        if self.events.len() + bytes > self.capacity {
            self.send(false, out);
        }
        self.event_count += 1;
        &mut self.events
    }

    /// Ends the open aggregate, if any.
    pub(super) fn close_aggregate(&mut self, flush: bool) {
        let Some(start) = self.open.take() else { return };
        emit::end_aggregate(&mut self.events, start);
        if let (true, Some(first)) = (flush, self.events.get_mut(self.open_at)) {
            // Bit 59 of the header word: the aggregate was closed by a flush.
            *first |= 0x08;
        }
        self.aggregate_counter = self.aggregate_counter.wrapping_add(1);
        self.totals.aggregates += 1;
        self.event_count += 1;
        self.open_hits = 0;
        self.end_frame();
    }

    /// Sends the waiting events. With `end`, the network buffer ends behind them.
    pub(super) fn send(&mut self, end: bool, out: &mut Outgoing) {
        self.close_aggregate(end);
        if self.events.is_empty() {
            return;
        }
        match self.layout {
            Layout::Aligned => self.send_aligned(end, out),
            Layout::Spanning => self.send_spanning(out),
            Layout::Packet { is_split } => self.send_packet(is_split, out),
        }
        self.totals.hits += self.held_hits;
        self.events.clear();
        (self.held_hits, self.event_count, self.frames_waiting) = (0, 0, 0);
    }

    fn send_aligned(&mut self, end: bool, out: &mut Outgoing) {
        let DatagramIds { buffer, datagram, last } = self.next_datagram(end);
        let start = out.bytes.len();
        emit::datagram(&mut out.bytes, &self.events, buffer, datagram, true, last);
        self.sent(out, start);
    }

    fn send_spanning(&mut self, out: &mut Outgoing) {
        self.begin_buffer(out);
        let mut datagrams = emit::Datagrams::new(&self.events, self.datagram_data / 8, self.buffer_id);
        for datagram_id in 0.. {
            let start = out.bytes.len();
            if !datagrams.append_next(&mut out.bytes) {
                break;
            }
            self.write_datagram(self.buffer_id, datagram_id);
            self.totals.datagrams += 1;
            self.totals.bytes += out.end_datagram(start);
        }
        self.buffer_id = self.buffer_id.wrapping_add(1);
    }

    /// Begins a network buffer for data. If the present one started with markers, it is ended, so that ids count from 0.
    pub(super) fn begin_buffer(&mut self, out: &mut Outgoing) {
        if self.datagram_id > 0 {
            self.end_buffer_with_marker(out);
        }
    }

    /// Ends a buffer that contains only markers, with an empty last datagram.
    fn end_buffer_with_marker(&mut self, out: &mut Outgoing) {
        let start = out.bytes.len();
        emit::datagram(&mut out.bytes, &[], self.buffer_id, self.datagram_id, true, true);
        self.write_datagram(self.buffer_id, self.datagram_id);
        self.totals.empty_datagrams += 1;
        self.sent(out, start);
        self.buffer_id = self.buffer_id.wrapping_add(1);
        self.datagram_id = 0;
    }

    fn send_packet(&mut self, is_split: bool, out: &mut Outgoing) {
        let packet_bytes = if is_split { self.datagram_data } else { self.events.len() };
        let count = self.events.len().div_ceil(packet_bytes.max(1));
        for (index, data) in self.events.chunks(packet_bytes.max(1)).enumerate() {
            let last = index + 1 == count;
            let start = out.bytes.len();
            // Only the sum of the counts of all packets must be correct.
            emit::packet(&mut out.bytes, data, if last { self.event_count } else { 0 }, last);
            self.totals.datagrams += 1;
            self.totals.bytes += out.end_datagram(start);
        }
    }

    /// The next datagram of a network buffer that ends with it, or after its number of datagrams.
    pub(super) fn next_datagram(&mut self, end: bool) -> DatagramIds {
        self.next_of_buffer(end || self.datagram_id + 1 >= self.datagrams_per_buffer)
    }

    /// The next datagram of a network buffer, and whether it is the last. It is recorded as sent.
    pub(super) fn next_of_buffer(&mut self, last: bool) -> DatagramIds {
        let ids = DatagramIds { buffer: self.buffer_id, datagram: self.datagram_id, last };
        self.buffer_id = self.buffer_id.wrapping_add(last.into());
        self.datagram_id = if last { 0 } else { self.datagram_id + 1 };
        self.write_datagram(ids.buffer, ids.datagram);
        ids
    }

    fn sent(&mut self, out: &mut Outgoing, start: usize) {
        self.totals.datagrams += 1;
        self.totals.bytes += out.end_datagram(start);
    }

    /// Sends an empty datagram: the board is idle. Sends nothing over TCP, where an empty packet means a clear.
    pub(super) fn idle_marker(&mut self, out: &mut Outgoing) {
        if !matches!(self.layout, Layout::Packet { .. }) {
            let start = out.bytes.len();
            emit::empty_datagram(&mut out.bytes, self.buffer_id, self.datagram_id);
            self.write_datagram(self.buffer_id, self.datagram_id);
            // A datagram id of 24 bits is enough for 38 days of markers.
            self.datagram_id += 1;
            self.totals.empty_datagrams += 1;
            self.sent(out, start);
        }
    }

    /// Discards the waiting events, restarts ids at 0, and sends a clear marker.
    pub(super) fn clear_marker(&mut self, out: &mut Outgoing) {
        (self.buffer_id, self.datagram_id) = (0, 0);
        if matches!(self.layout, Layout::Packet { .. }) {
            let start = out.bytes.len();
            emit::clear_marker(&mut out.bytes);
            self.totals.empty_datagrams += 1;
            self.sent(out, start);
        } else {
            self.idle_marker(out);
        }
    }

    /// Discards the waiting events.
    pub(super) fn discard(&mut self) {
        self.totals.hits_cleared += self.held_hits;
        if let Some(record) = &self.record {
            record.discard_frames(std::mem::take(&mut self.frames_waiting), self.totals.hits);
        }
        self.events.clear();
        self.open = None;
        (self.open_hits, self.held_hits, self.event_count) = (0, 0, 0);
    }
}

/// Both ids of a datagram as one number, by which sender and receiver record it.
pub(in crate::digitizer2) const fn datagram_key(buffer_id: u16, datagram_id: u32) -> u64 {
    (buffer_id as u64) << 32 | datagram_id as u64
}

/// Data bytes of the largest datagram: whole words, without the footer.
pub fn datagram_data_bytes(settings: &Settings) -> usize {
    (settings.datagram_bytes as usize - 8) / 8 * 8
}

/// Bytes of the largest network buffer, which a client must be able to hold.
pub fn buffer_bytes(settings: &Settings) -> usize {
    datagram_data_bytes(settings) * settings.datagrams_per_buffer as usize
}
